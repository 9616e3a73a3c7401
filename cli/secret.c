/* SPDX-License-Identifier: MIT */
/*
 * Passwords are where RFC 3986 puts them (user:password@host), in a parameter whose name ends like that, or in a URL
 * that is one. Cutting is done in the string that the kernel shows to others (/proc/PID/cmdline and environ), and what
 * is left over is zeroed.
 */
#include "secret.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Removes [from, to) from the string and zeroes the end that comes free. */
static void cut(char *from, char *to)
{
    size_t length = strlen(to);

    memmove(from, to, length);
    memset(from + length, 0, (size_t)(to - from));
}

static void cut_userinfo(char *url)
{
    char *authority = strstr(url, "://");

    if (authority == NULL)
        return;
    authority += 3;
    char *end = authority + strcspn(authority, "/?#");
    char *at = memrchr(authority, '@', (size_t)(end - authority));
    char *colon = at != NULL ? memchr(authority, ':', (size_t)(at - authority)) : NULL;
    if (colon != NULL)
        cut(colon, at);
}

/* A server of several is a URL in the URL, which may have a password. */
static bool is_secret(const char *name, size_t length)
{
    static const char word[] = "password", url[] = "server";
    const size_t      word_length = sizeof(word) - 1;

    if (length >= word_length && memcmp(name + length - word_length, word, word_length) == 0)
        return true;
    return length == sizeof(url) - 1 && memcmp(name, url, length) == 0;
}

static void cut_parameter(char *url)
{
    char *at = strchr(url, '?');

    while (at != NULL) {
        char  *value = at + 1;
        size_t end = strcspn(value, "=&#");
        if (value[end] == '=' && is_secret(value, end))
            cut(value + end + 1, value + strcspn(value, "&#"));
        at = strchr(value, '&');
    }
}

char *secret_take(char *url)
{
    char *copy = strdup(url);

    cut_userinfo(url);
    cut_parameter(url);
    return copy;
}

char *secret_take_environment(void)
{
    char *url = getenv("HOLDFAST_STORE");

    return url != NULL ? secret_take(url) : NULL;
}

void secret_forget_environment(void)
{
    static const char *const names[] = {"HOLDFAST_REDIS_PASSWORD", "HOLDFAST_SENTINEL_PASSWORD"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char *password = getenv(names[i]);
        if (password != NULL)
            explicit_bzero(password, strlen(password));
    }
}

char *secret_with(char *url, const char *parameter)
{
    const char *base = url != NULL && *url != '\0' ? url : "sqlite:";
    char       *with;

    if (asprintf(&with, "%s%c%s", base, strchr(base, '?') != NULL ? '&' : '?', parameter) < 0)
        with = NULL;
    secret_free(url);
    return with;
}

void secret_free(char *url)
{
    if (url == NULL)
        return;
    explicit_bzero(url, strlen(url));
    free(url);
}
