/* SPDX-License-Identifier: MIT */
/*
 * Passwords are where RFC 3986 puts them (user:password@host) or in a parameter named "password". Cutting is done in
 * the string that the kernel shows to others (/proc/PID/cmdline and environ), and what is left over is zeroed.
 */
#include "secret.h"

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

static void cut_parameter(char *url)
{
    static const char key[] = "password=";
    char             *at = strchr(url, '?');

    while (at != NULL) {
        char *value = at + 1;
        if (strncmp(value, key, sizeof(key) - 1) == 0) {
            value += sizeof(key) - 1;
            cut(value, value + strcspn(value, "&#"));
        }
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
    char *password = getenv("HOLDFAST_REDIS_PASSWORD");

    if (password != NULL)
        explicit_bzero(password, strlen(password));
}

void secret_free(char *url)
{
    if (url == NULL)
        return;
    explicit_bzero(url, strlen(url));
    free(url);
}
