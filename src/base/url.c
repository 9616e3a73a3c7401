/* SPDX-License-Identifier: MIT */
/*
 * Taking a store's URL apart. liburiparser does the grammar of RFC 3986, which knows one host; an authority with
 * several ("redlock://h1:6379,h2:6379/0") is cut out first and kept as written for the store to split.
 */
#include "base/url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uriparser/Uri.h>

#include "base/error.h"

#define URL_MAX 4096

/* The pieces of the text before the grammar sees it. */
typedef struct split {
    char rest[URL_MAX + 8]; /* the URL with "h" in place of its authority */
    char user_info[URL_MAX];
    char hosts[URL_MAX];
    bool has_authority, has_user;
} split;

static void copy_span(char *to, const char *from, size_t len)
{
    memcpy(to, from, len);
    to[len] = '\0';
}

static void split_text(split *parts, const char *text)
{
    const char *mark = strstr(text, "://");
    const char *authority, *host, *end;

    memset(parts, 0, sizeof *parts);
    if (mark == NULL || strcspn(text, ":/?#") != (size_t)(mark - text)) {
        strcpy(parts->rest, text);
        return;
    }
    authority = mark + 3;
    end = authority + strcspn(authority, "/?#");
    host = authority;
    for (const char *p = authority; p < end; p++)
        if (*p == '@')
            host = p + 1;
    parts->has_authority = true;
    parts->has_user = host != authority;
    if (parts->has_user)
        copy_span(parts->user_info, authority, (size_t)(host - 1 - authority));
    copy_span(parts->hosts, host, (size_t)(end - host));
    snprintf(parts->rest, sizeof parts->rest, "%.*sh%s", (int)(authority - text), text, end);
}

static char *decoded(const char *text, size_t len)
{
    char *copy = strndup(text, len);

    if (copy != NULL)
        uriUnescapeInPlaceA(copy);
    return copy;
}

static bool take_user_info(hf_url *url, const split *parts)
{
    const char *colon = strchr(parts->user_info, ':');
    size_t      user_len = colon != NULL ? (size_t)(colon - parts->user_info) : strlen(parts->user_info);

    if (!parts->has_user)
        return true;
    if (user_len > 0 && (url->user = decoded(parts->user_info, user_len)) == NULL)
        return false;
    return colon == NULL || (url->password = decoded(colon + 1, strlen(colon + 1))) != NULL;
}

static bool take_path(hf_url *url, const UriUriA *uri, bool has_authority)
{
    size_t len = 2;
    char  *path;

    for (UriPathSegmentA *s = uri->pathHead; s != NULL; s = s->next)
        len += (size_t)(s->text.afterLast - s->text.first) + 1;
    path = calloc(1, len);
    if (path == NULL)
        return false;
    if (uri->absolutePath || (has_authority && uri->pathHead != NULL))
        strcat(path, "/");
    for (UriPathSegmentA *s = uri->pathHead; s != NULL; s = s->next) {
        strncat(path, s->text.first, (size_t)(s->text.afterLast - s->text.first));
        if (s->next != NULL)
            strcat(path, "/");
    }
    uriUnescapeInPlaceA(path);
    if (path[0] == '\0') {
        free(path);
        return true;
    }
    url->path = path;
    return true;
}

static bool take_params(hf_url *url, const UriUriA *uri)
{
    UriQueryListA *list = NULL;
    int            count = 0;
    hf_url_param  *params;
    size_t         i = 0;

    if (uri->query.first == NULL || uri->query.first == uri->query.afterLast)
        return true;
    if (uriDissectQueryMallocA(&list, &count, uri->query.first, uri->query.afterLast) != URI_SUCCESS)
        return false;
    params = calloc((size_t)count, sizeof *params);
    url->params = params;
    for (UriQueryListA *q = list; params != NULL && q != NULL; q = q->next, i++) {
        params[i].key = strdup(q->key);
        params[i].value = strdup(q->value != NULL ? q->value : "");
        url->param_count = i + 1;
        if (params[i].key == NULL || params[i].value == NULL)
            break;
    }
    uriFreeQueryListA(list);
    return params != NULL && i == (size_t)count;
}

/* A parameter that is named like a secret, also in percent-encoding; or that may hold one. */
static bool is_secret(const char *key, size_t len)
{
    static const char *const words[] = {"pass", "secret", "token"};
    char                    *plain = decoded(key, len);
    bool                     secret = plain == NULL; /* no memory to look at it: rather hide it */

    for (size_t i = 0; plain != NULL && i < sizeof words / sizeof words[0]; i++)
        secret = secret || strcasestr(plain, words[i]) != NULL;
    secret = secret || strcmp(plain + strspn(plain, "?"), "server") == 0; /* a URL in the URL, which may have one */
    free(plain);
    return secret;
}

/* Appends the query with "***" for what is named like a secret. `to` has room for twice the text. */
static void append_query(char *to, const char *query)
{
    to += strlen(to);
    while (*query != '\0') {
        size_t len = strcspn(query, "&");
        size_t key_len = strcspn(query, "=&");
        bool   secret = key_len < len && is_secret(query, key_len);
        to += sprintf(to, "%.*s%s", (int)(secret ? key_len + 1 : len), query, secret ? "***" : "");
        query += len;
        if (*query == '&')
            *to++ = *query++;
        *to = '\0';
    }
}

/* The text as it may be shown: with "***" for a password, and for a parameter that is named like one. */
static char *shown_text(const hf_url *url, const split *parts, const char *text)
{
    char        shown[3 * URL_MAX];
    const char *rest = parts->has_authority ? parts->rest + strlen(url->scheme) + 3 + 1 : text;
    int         path_len = (int)strcspn(rest, "?");
    const char *query = rest + path_len;
    int         user_len = (int)strcspn(parts->user_info, ":");

    if (!parts->has_authority)
        snprintf(shown, sizeof shown, "%.*s", path_len, rest);
    else
        snprintf(shown, sizeof shown, "%s://%.*s%s%s%s%.*s", url->scheme, user_len, parts->user_info,
                 url->password != NULL ? ":***" : "", parts->has_user ? "@" : "", parts->hosts, path_len, rest);
    append_query(shown, query);
    return strdup(shown);
}

static int fill(hf_url *url, const UriUriA *uri, const split *parts, const char *text, hf_error *err)
{
    bool whole;

    url->scheme = strndup(uri->scheme.first, (size_t)(uri->scheme.afterLast - uri->scheme.first));
    whole = url->scheme != NULL && take_user_info(url, parts);
    if (whole && parts->has_authority && parts->hosts[0] != '\0')
        whole = (url->host = decoded(parts->hosts, strlen(parts->hosts))) != NULL;
    whole = whole && take_path(url, uri, parts->has_authority) && take_params(url, uri);
    whole = whole && (url->text = shown_text(url, parts, text)) != NULL;
    if (whole)
        return HF_OK;
    hf__url_finish(url);
    return hf__fail(err, HF_EEXHAUSTED, "out of memory for a store URL");
}

int hf__url_parse(hf_url *url, const char *text, hf_error *err)
{
    split       parts;
    UriUriA     uri;
    const char *at = NULL;
    int         status;

    memset(url, 0, sizeof *url);
    if (strlen(text) >= URL_MAX)
        return hf__fail(err, HF_EINVALID, "the store URL is longer than %d bytes", URL_MAX - 1);
    if (strstr(text, "%00") != NULL)
        return hf__fail(err, HF_EINVALID,
                        "the store URL has a NUL byte (%%00) in it, which would cut off what follows");
    if (strchr(text, '#') != NULL)
        return hf__fail(err, HF_EINVALID,
                        "the store URL has a '#' in it, which would cut off what follows; write it as %%23");
    split_text(&parts, text);
    status = uriParseSingleUriA(&uri, parts.rest, &at);
    if (status == URI_ERROR_MALLOC)
        return hf__fail(err, HF_EEXHAUSTED, "out of memory for a store URL");
    if (status != URI_SUCCESS)
        return hf__fail(err, HF_EINVALID,
                        "the store URL is malformed%s (write special characters as %%XX, a space as %%20)",
                        at == NULL || *at == '\0' ? " at its end" : "");
    if (uri.scheme.first == NULL) {
        uriFreeUriMembersA(&uri);
        return hf__fail(err, HF_EINVALID, "the store URL has no scheme; write it like sqlite:///var/lib/app/locks.db");
    }
    status = fill(url, &uri, &parts, text, err);
    uriFreeUriMembersA(&uri);
    return status;
}

static void wipe_free(const char *secret)
{
    if (secret != NULL)
        explicit_bzero((char *)secret, strlen(secret));
    free((char *)secret);
}

void hf__url_finish(hf_url *url)
{
    for (size_t i = 0; i < url->param_count; i++) {
        free((char *)url->params[i].key);
        wipe_free(url->params[i].value);
    }
    free((hf_url_param *)url->params);
    free((char *)url->text);
    free((char *)url->scheme);
    free((char *)url->user);
    wipe_free(url->password);
    free((char *)url->host);
    free((char *)url->path);
    memset(url, 0, sizeof *url);
}

const char *hf__url_param(const hf_url *url, const char *key)
{
    for (size_t i = 0; i < url->param_count; i++)
        if (strcmp(url->params[i].key, key) == 0)
            return url->params[i].value;
    return NULL;
}

static bool is_known(const char *const known[], const char *key)
{
    for (size_t i = 0; known[i] != NULL; i++)
        if (strcmp(known[i], key) == 0)
            return true;
    return false;
}

int hf__url_only(const hf_url *url, const char *const known[], hf_error *err)
{
    for (size_t i = 0; i < url->param_count; i++)
        if (!is_known(known, url->params[i].key))
            return hf__fail(err, HF_EINVALID, "the store %s: knows no option \"%s\"", url->scheme, url->params[i].key);
    return HF_OK;
}
