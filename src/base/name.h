/* SPDX-License-Identifier: MIT */
/* Names of locks: what is allowed, and how foreign bytes are made fit to print in an error. */
#ifndef HF_BASE_NAME_H
#define HF_BASE_NAME_H

#include <holdfast.h>

/* HF_EINVALID with the reason unless 1 to HF_NAME_MAX bytes without a NUL. */
int hf__name_check(const char *name, size_t len, hf_error *err);

/* The name as printable ASCII in `text` (size bytes): other bytes as \xNN, cut with "..." where it is too long. */
const char *hf__name_show(const char *name, size_t len, char *text, size_t size);

#endif
