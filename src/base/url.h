/* SPDX-License-Identifier: MIT */
/* A store's URL taken apart (RFC 3986 by liburiparser; several hosts in one authority are kept as written). */
#ifndef HF_BASE_URL_H
#define HF_BASE_URL_H

#include <holdfast/store.h>

/* Fills *url from text; HF_EINVALID with the reason, HF_EEXHAUSTED. After HF_OK hf__url_finish() frees it. */
int  hf__url_parse(hf_url *url, const char *text, hf_error *err);
void hf__url_finish(hf_url *url);

/* The value of a parameter, or NULL. */
const char *hf__url_param(const hf_url *url, const char *key);

/* HF_EINVALID where the URL has a parameter that is not in `known` (which ends with NULL): a misspelt option must not
 * be ignored. */
int hf__url_only(const hf_url *url, const char *const known[], hf_error *err);

#endif
