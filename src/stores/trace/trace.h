/* SPDX-License-Identifier: MIT */
/* The trace store, as the registry sees it. */
#ifndef HF_STORES_TRACE_H
#define HF_STORES_TRACE_H

#include <holdfast/store.h>

/* Puts the trace store around an opened one: *store is then the outer, which owns the inner. */
int hf__trace_wrap(hf_store **store, hf_error *err);

#endif
