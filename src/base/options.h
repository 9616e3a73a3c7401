/* SPDX-License-Identifier: MIT */
/*
 * Option structs that begin with their size: a shorter one (an older header) leaves the rest at its default; a longer
 * one (a newer header) is refused where it sets something that this library does not know.
 */
#ifndef HF_BASE_OPTIONS_H
#define HF_BASE_OPTIONS_H

#include <stddef.h>

#include <holdfast.h>

/* Copies the caller's struct `from` (NULL: all defaults) into `to` of `size` bytes. HF_EINVALID with the reason. */
int hf__options_copy(void *to, size_t size, const void *from, const char *what, hf_error *err);

#endif
