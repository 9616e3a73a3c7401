/* SPDX-License-Identifier: MIT */
/* What the core asks of the registry of stores (src/stores/registry.c), the only file that sees both sides. */
#ifndef HF_CORE_STORES_H
#define HF_CORE_STORES_H

#include <holdfast/store.h>

/* The store of a scheme; or NULL and a status: HF_EINVALID for an unknown one, HF_EUNSUPPORTED for one that this build
 * leaves out. */
const hf_store_ops *hf__store_find(const char *scheme, hf_error *err, int *status);

/* Puts the store that prints each call around an opened one: *store is then the outer, which owns the inner. HF_OK or
 * HF_EEXHAUSTED; then *store is as it was. */
int hf__store_trace(hf_store **store, hf_error *err);

#endif
