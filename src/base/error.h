/* SPDX-License-Identifier: MIT */
/*
 * Filling the caller's hf_error: a status and one sentence. Each function returns the status, so that a failure is one
 * line: return hf__fail(err, HF_EINVALID, "...", ...). A NULL err is allowed everywhere.
 */
#ifndef HF_BASE_ERROR_H
#define HF_BASE_ERROR_H

#include <holdfast.h>

int hf__fail(hf_error *err, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The same with the system's number `sys`, whose text is appended. */
int hf__fail_sys(hf_error *err, int status, int sys, const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
