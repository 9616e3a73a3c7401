/* SPDX-License-Identifier: MIT */
/* See target.h. */
#include "stores/mysql/target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/url.h"

#define PORT 3306
#define SECRET_MAX 1024

static bool copy(char **to, const char *from)
{
    *to = from != NULL ? strdup(from) : NULL;
    return from == NULL || *to != NULL;
}

/* "host", "host:port", "[v6]:port". */
static int split_host(hf__my_target *target, const char *text, hf_error *err)
{
    const char *colon = strrchr(text, ':');
    const char *end = text + strlen(text), *from = text;
    char       *rest;

    target->port = PORT;
    if (text[0] == '[') {
        from = text + 1;
        end = strchr(text, ']');
        if (end == NULL || (end[1] != '\0' && end[1] != ':'))
            return hf__fail(err, HF_EINVALID, "the store URL's host is malformed");
        colon = end[1] == ':' ? end + 1 : NULL;
    } else if (colon != NULL) {
        end = colon;
    }
    if (strchr(text, ',') != NULL)
        return hf__fail(err, HF_EINVALID, "the store mysql: takes one host");
    if (colon != NULL) {
        unsigned long port = strtoul(colon + 1, &rest, 10);
        if (*rest != '\0' || port < 1 || port > 65535)
            return hf__fail(err, HF_EINVALID, "the store URL's port is none");
        target->port = (unsigned)port;
        target->tcp = true;
    }
    target->host = strndup(from, (size_t)(end - from));
    return target->host != NULL ? HF_OK : hf__fail(err, HF_EEXHAUSTED, "out of memory for a store URL");
}

/* The first line of a file. */
static int read_secret(char **secret, const char *path, hf_error *err)
{
    char    text[SECRET_MAX];
    int     fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    ssize_t len = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    int     sys = errno;

    if (fd >= 0)
        close(fd);
    if (len < 0)
        return hf__fail_sys(err, HF_EINVALID, sys, "the password file %s cannot be read", path);
    text[len] = '\0';
    text[strcspn(text, "\r\n")] = '\0';
    *secret = strdup(text);
    explicit_bzero(text, sizeof text);
    return *secret != NULL ? HF_OK : hf__fail(err, HF_EEXHAUSTED, "out of memory for a password");
}

static int yes_or_no(bool *to, const hf_url *url, const char *key, hf_error *err)
{
    const char *value = hf__url_param(url, key);

    if (value == NULL)
        return HF_OK;
    *to = strcmp(value, "yes") == 0;
    if (*to || strcmp(value, "no") == 0)
        return HF_OK;
    return hf__fail(err, HF_EINVALID, "the store mysql: takes %s=yes or %s=no", key, key);
}

static int take_parts(hf__my_target *target, const hf_url *url, hf_error *err)
{
    const char *file = hf__url_param(url, "password_file");
    const char *password = url->password != NULL ? url->password : file == NULL ? getenv("MYSQL_PWD") : NULL;
    const char *database = url->path != NULL && url->path[0] == '/' ? url->path + 1 : url->path;

    if (database == NULL || database[0] == '\0' || strchr(database, '/') != NULL)
        return hf__fail(err, HF_EINVALID, "a store mysql: names its database: mysql://user@host/database");
    if (!copy(&target->url, url->text) || !copy(&target->user, url->user) || !copy(&target->password, password) ||
        !copy(&target->database, database) || !copy(&target->socket, hf__url_param(url, "socket")) ||
        !copy(&target->ca, hf__url_param(url, "tls_ca")) || !copy(&target->cert, hf__url_param(url, "tls_cert")) ||
        !copy(&target->key, hf__url_param(url, "tls_key")))
        return hf__fail(err, HF_EEXHAUSTED, "out of memory for a store URL");
    if (file != NULL && url->password == NULL)
        return read_secret(&target->password, file, err);
    return HF_OK;
}

int hf__my_target_open(hf__my_target *target, const hf_url *url, hf_error *err)
{
    static const char *const known[] = {"create",   "news",    "socket",        "tls", "tls_ca",
                                        "tls_cert", "tls_key", "password_file", NULL};
    int                      status = hf__url_only(url, known, err);

    memset(target, 0, sizeof *target);
    target->create = target->news = true;
    target->tls = hf__url_param(url, "tls_ca") != NULL;
    if (status == HF_OK)
        status = take_parts(target, url, err);
    if (status == HF_OK)
        status = split_host(target, url->host != NULL ? url->host : "localhost", err);
    if (status == HF_OK)
        status = yes_or_no(&target->create, url, "create", err);
    if (status == HF_OK)
        status = yes_or_no(&target->news, url, "news", err);
    if (status == HF_OK)
        status = yes_or_no(&target->tls, url, "tls", err);
    if (status != HF_OK)
        hf__my_target_close(target);
    return status;
}

void hf__my_target_close(hf__my_target *target)
{
    if (target->password != NULL)
        explicit_bzero(target->password, strlen(target->password));
    char *parts[] = {target->url,    target->host, target->user, target->password, target->database,
                     target->socket, target->ca,   target->cert, target->key};

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        free(parts[i]);
    memset(target, 0, sizeof *target);
}
