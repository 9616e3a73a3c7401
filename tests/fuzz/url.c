/* SPDX-License-Identifier: MIT */
/*
 * Any text as a store's URL. Either it is refused with a reason, or its parts hang together: the text that may be shown
 * parses again to the same parts, and never holds the password.
 */
#include "base/url.h"

#include <string.h>

#include "fuzz/fuzz.h"

#define SECRET "s3cretS3cret"
#define LONGEST 4096 /* what is longer is refused */

static bool same(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static void check_refusal(const hf_url *url, const hf_error *err, int status)
{
    static const hf_url nothing;

    NEED(status == HF_EINVALID && err->status == status);
    NEED(err->text[0] != '\0' && memchr(err->text, '\0', sizeof err->text) != NULL);
    NEED(memcmp(url, &nothing, sizeof nothing) == 0);
}

static void check_shown(const hf_url *url)
{
    hf_url   again;
    hf_error err;

    if (strlen(url->text) >= LONGEST) /* "***" may be longer than what it hides */
        return;
    NEED(hf__url_parse(&again, url->text, &err) == HF_OK);
    NEED(same(again.scheme, url->scheme) && same(again.user, url->user) && same(again.host, url->host));
    NEED(same(again.path, url->path) && again.param_count == url->param_count);
    NEED((again.password == NULL) == (url->password == NULL));
    NEED(same(again.text, url->text));
    hf__url_finish(&again);
}

static void check_parts(const hf_url *url)
{
    static const char *const known[] = {"fence", "layout", NULL};
    hf_error                 err;

    NEED(url->scheme != NULL && url->scheme[0] != '\0' && url->text != NULL);
    NEED(url->path == NULL || url->path[0] != '\0');
    for (size_t i = 0; i < url->param_count; i++) {
        NEED(url->params[i].key != NULL && url->params[i].value != NULL);
        NEED(hf__url_param(url, url->params[i].key) != NULL);
    }
    if (hf__url_only(url, known, &err) != HF_OK)
        NEED(err.status == HF_EINVALID && err.text[0] != '\0' && url->param_count > 0);
    check_shown(url);
}

static void check_text(const char *text)
{
    hf_url   url;
    hf_error err;
    int      status = hf__url_parse(&url, text, &err);

    if (status != HF_OK) {
        check_refusal(&url, &err, status);
        return;
    }
    NEED(strlen(text) < LONGEST && strstr(text, "%00") == NULL && strchr(text, '#') == NULL);
    check_parts(&url);
    hf__url_finish(&url);
}

/* The same text behind a user and a password. */
static void check_secret(const char *text)
{
    char     whole[8300];
    hf_url   url;
    hf_error err;

    if (strstr(text, SECRET) != NULL)
        return;
    snprintf(whole, sizeof whole, "redis://user:" SECRET "@%s", text);
    if (hf__url_parse(&url, whole, &err) == HF_OK) {
        NEED(url.password != NULL && strstr(url.text, SECRET) == NULL);
        hf__url_finish(&url);
    } else {
        NEED(strstr(err.text, SECRET) == NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = calloc(1, size + 1);

    NEED(text != NULL);
    memcpy(text, data, size);
    check_text(text);
    if (strlen(text) < 8192)
        check_secret(text);
    free(text);
    return 0;
}
