/* SPDX-License-Identifier: MIT */
/* Reading a redis URL. Each part is checked here: nobody after it meets a value that cannot be. See config.h. */
#include "stores/redis/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "base/url.h"

#define PORT "6379"
#define SENTINEL_PORT "26379"
#define PASSWORD_ENV "HOLDFAST_REDIS_PASSWORD"
#define SENTINEL_PASSWORD_ENV "HOLDFAST_SENTINEL_PASSWORD"
#define PASSWORD_MAX 4096
#define HOSTS_MAX 16
#define FAIR_WAIT_MS 5000
#define FENCE_KEEP_MS (INT64_C(24) * 3600 * 1000)
#define REPLICAS_MAX 64
#define REPLICAS_TIMEOUT_MS 1000

#define COMMON                                                                                                         \
    "layout", "prefix", "fence", "fence-keep", "news", "fair-wait", "client-name", "password", "password-file", "db",  \
        "ca", "cert", "key", "tls-name", "replicas", "replicas-timeout"

static const char *const known[] = {COMMON, NULL};
static const char *const known_with_sentinels[] = {
    COMMON,        "sentinel-user", "sentinel-password", "sentinel-password-file", "sentinel-tls",
    "sentinel-ca", "sentinel-cert", "sentinel-key",      "sentinel-tls-name",      NULL};

static int no_memory(hf_error *err)
{
    return hf__fail(err, HF_EEXHAUSTED, "out of memory for a redis URL");
}

static int copy(char **to, const char *from, hf_error *err)
{
    *to = strdup(from);
    return *to != NULL ? HF_OK : no_memory(err);
}

/* A parameter, where the URL has it. An empty one is a mistake. */
static int copy_param(char **to, const hf_url *url, const char *key, hf_error *err)
{
    const char *value = hf__url_param(url, key);

    if (value == NULL)
        return HF_OK;
    if (value[0] == '\0')
        return hf__fail(err, HF_EINVALID, "the option \"%s\" of the redis URL is empty", key);
    return copy(to, value, err);
}

/* ---- hosts ---- */

static bool is_port(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    long   port = strtol(text, NULL, 10);

    return digits > 0 && digits <= 5 && text[digits] == '\0' && port >= 1 && port <= 65535;
}

static bool is_host_name(const char *text, size_t len)
{
    if (len == 0 || len > 255)
        return false;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] <= ' ' || text[i] == 0x7f || strchr("/@?#[]\\\"<>", text[i]) != NULL)
            return false;
    return true;
}

/* "name", "name:port", "[address]", "[address]:port" in `text`, which is cut up. */
static int take_host(hf__redis_config *config, char *text, hf_error *err)
{
    hf__redis_host *host = &config->hosts[config->host_count];
    const char     *name = text;
    char           *port = strchr(text, ':');

    if (text[0] == '[') {
        char *end = strchr(text, ']');
        if (end == NULL || (end[1] != '\0' && end[1] != ':'))
            return hf__fail(err, HF_EINVALID, "the redis URL has a host without its closing \"]\"");
        name = text + 1;
        *end = '\0';
        port = end[1] == ':' ? end + 1 : NULL;
    } else if (port != NULL && strchr(port + 1, ':') != NULL) {
        return hf__fail(err, HF_EINVALID,
                        "the redis URL has an IPv6 address without brackets; write it like [::1]:6379");
    }
    if (port != NULL)
        *port++ = '\0';
    if (name[0] == '\0')
        name = "localhost";
    if (!is_host_name(name, strlen(name)))
        return hf__fail(err, HF_EINVALID, "the redis URL has a malformed host name");
    if (port != NULL && !is_port(port))
        return hf__fail(err, HF_EINVALID, "the redis URL has a port that is no number from 1 to 65535");
    config->host_count++;
    if (copy(&host->name, name, err) != HF_OK)
        return HF_EEXHAUSTED;
    return copy(&host->port, port != NULL ? port : config->is_sentinel ? SENTINEL_PORT : PORT, err);
}

static int take_hosts(hf__redis_config *config, const hf_url *url, hf_error *err)
{
    char *text = strdup(url->host != NULL ? url->host : ""), *rest = text, *one;
    int   status = HF_OK;

    config->hosts = calloc(HOSTS_MAX, sizeof *config->hosts);
    if (text == NULL || config->hosts == NULL)
        status = no_memory(err);
    while (status == HF_OK && (one = strsep(&rest, ",")) != NULL) {
        if (config->host_count == HOSTS_MAX)
            status = hf__fail(err, HF_EINVALID, "the redis URL has more than %d hosts", HOSTS_MAX);
        else
            status = take_host(config, one, err);
    }
    free(text);
    return status;
}

/* ---- where ---- */

static int take_db(hf__redis_config *config, const char *text, hf_error *err)
{
    size_t digits = strspn(text, "0123456789");

    if (digits == 0 || digits > 6 || text[digits] != '\0')
        return hf__fail(err, HF_EINVALID, "the database of a redis URL is a number, as in redis://localhost/0");
    config->db = (int)strtol(text, NULL, 10);
    return HF_OK;
}

static int take_socket(hf__redis_config *config, const hf_url *url, hf_error *err)
{
    if (url->host != NULL || url->path == NULL || url->path[0] != '/' || url->path[1] == '\0')
        return hf__fail(err, HF_EINVALID, "a redis+unix URL needs an absolute path: redis+unix:///run/redis.sock");
    if (strlen(url->path) >= sizeof(((struct sockaddr_un *)0)->sun_path))
        return hf__fail(err, HF_EINVALID, "the path of the redis socket is longer than %zu bytes",
                        sizeof(((struct sockaddr_un *)0)->sun_path) - 1);
    return copy(&config->path, url->path, err);
}

static bool has_sentinels(const hf_url *url)
{
    return strcmp(url->scheme, "redis-sentinel") == 0 || strcmp(url->scheme, "rediss-sentinel") == 0;
}

/* The Sentinels stand in place of the server, and the master's name in place of the database. */
static int take_sentinels(hf__redis_config *config, const hf_url *url, hf_error *err)
{
    const char *name = url->path != NULL && url->path[0] == '/' ? url->path + 1 : "";
    const char *db = hf__url_param(url, "db");
    int         status;

    config->tls = strcmp(url->scheme, "rediss-sentinel") == 0;
    if (name[0] == '\0' || strpbrk(name, "/ \t\r\n") != NULL)
        return hf__fail(
            err, HF_EINVALID,
            "a %s URL needs the name of the master, as the Sentinels know it: %s://sentinel1,sentinel2/name",
            url->scheme, url->scheme);
    config->sentinels = calloc(1, sizeof *config->sentinels);
    if (config->sentinels == NULL)
        return no_memory(err);
    config->sentinels->is_sentinel = true;
    config->sentinels->server_timeout_ms = config->server_timeout_ms;
    status = copy(&config->master_name, name, err);
    if (status == HF_OK)
        status = take_hosts(config->sentinels, url, err);
    if (status == HF_OK && db != NULL)
        status = take_db(config, db, err);
    return status;
}

static bool has_cluster(const hf_url *url)
{
    return strcmp(url->scheme, "redis-cluster") == 0 || strcmp(url->scheme, "rediss-cluster") == 0;
}

static int take_where(hf__redis_config *config, const hf_url *url, hf_error *err)
{
    const char *db = hf__url_param(url, "db");
    bool        is_socket = strcmp(url->scheme, "redis+unix") == 0;
    bool        has_path_db = !is_socket && url->path != NULL && strcmp(url->path, "/") != 0;
    int         status;

    config->cluster = has_cluster(url);
    config->tls = strncmp(url->scheme, "rediss", 6) == 0;
    if (!is_socket && url->path != NULL && url->path[0] != '/')
        return hf__fail(err, HF_EINVALID, "write a redis URL like %s://localhost:" PORT "/0", url->scheme);
    status = is_socket ? take_socket(config, url, err) : take_hosts(config, url, err);
    if (status == HF_OK && has_path_db)
        status = take_db(config, url->path + 1, err);
    if (status == HF_OK && db != NULL && has_path_db)
        status = hf__fail(err, HF_EINVALID, "the redis URL tells its database twice");
    else if (status == HF_OK && db != NULL)
        status = take_db(config, db, err);
    if (status == HF_OK && config->cluster && config->db != 0)
        status = hf__fail(err, HF_EINVALID, "a Redis cluster has one database, 0: leave it out of the URL");
    return status;
}

/* ---- who ---- */

/* The first line of the file. */
static int read_password(hf__redis_config *config, const char *path, hf_error *err)
{
    char    text[PASSWORD_MAX + 1];
    int     fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    ssize_t len = -1;
    int     status;

    if (fd >= 0) {
        while ((len = read(fd, text, PASSWORD_MAX)) < 0 && errno == EINTR)
            ;
        close(fd);
    }
    if (len < 0)
        return hf__fail_sys(err, HF_EINVALID, errno, "cannot read the password file of the redis URL");
    text[len] = '\0';
    text[strcspn(text, "\r\n")] = '\0';
    if (text[0] == '\0')
        status = hf__fail(err, HF_EINVALID, "the password file of the redis URL has an empty first line");
    else
        status = copy(&config->password, text, err);
    explicit_bzero(text, sizeof text);
    return status;
}

/* As a Sentinel's or a server's: the same words behind "sentinel-". */
static int take_sentinel_password(hf__redis_config *config, const hf_url *url, hf_error *err)
{
    const char *user = hf__url_param(url, "sentinel-user");
    const char *file = hf__url_param(url, "sentinel-password-file");
    const char *env = getenv(SENTINEL_PASSWORD_ENV);
    int         status = copy_param(&config->user, url, "sentinel-user", err);

    if (status != HF_OK)
        return status;
    if (hf__url_param(url, "sentinel-password") != NULL)
        return copy_param(&config->password, url, "sentinel-password", err);
    if (file != NULL)
        return read_password(config, file, err);
    if (env != NULL && env[0] != '\0')
        return copy(&config->password, env, err);
    if (user != NULL)
        return hf__fail(err, HF_EINVALID,
                        "the redis URL has a sentinel-user and no password for it; give it by sentinel-password=, "
                        "sentinel-password-file=, or in $" SENTINEL_PASSWORD_ENV);
    return HF_OK;
}

static int take_password(hf__redis_config *config, const hf_url *url, hf_error *err)
{
    const char *file = hf__url_param(url, "password-file");
    const char *param = hf__url_param(url, "password");
    const char *env = getenv(PASSWORD_ENV);

    if (url->password != NULL)
        return copy(&config->password, url->password, err);
    if (param != NULL)
        return copy_param(&config->password, url, "password", err);
    if (file != NULL)
        return read_password(config, file, err);
    if (env != NULL && env[0] != '\0')
        return copy(&config->password, env, err);
    if (url->user != NULL)
        return hf__fail(err, HF_EINVALID,
                        "the redis URL has a user and no password; give it there, by password-file=, or in "
                        "$" PASSWORD_ENV);
    return HF_OK;
}

/* Redis takes no blanks and nothing unprintable in a client's name. */
static int take_client_name(hf__redis_config *config, const hf_url *url, const hf_store_env *env, hf_error *err)
{
    const char *given = hf__url_param(url, "client-name");
    char        made[96];

    snprintf(made, sizeof made, "holdfast:%.31s:%lld", env->program != NULL ? env->program : "", (long long)env->pid);
    for (char *p = made; *p != '\0'; p++)
        if (*p <= ' ' || *p > '~')
            *p = '_';
    for (const char *p = given; p != NULL && *p != '\0'; p++)
        if (*p <= ' ' || *p > '~')
            return hf__fail(err, HF_EINVALID, "the option \"client-name\" takes printable ASCII without blanks");
    if (given != NULL)
        return copy_param(&config->client_name, url, "client-name", err);
    return copy(&config->client_name, made, err);
}

/* One of two words. */
static int take_word(bool *second, const hf_url *url, const char *key, const char *one, const char *two, hf_error *err)
{
    const char *value = hf__url_param(url, key);

    if (value == NULL || strcmp(value, one) == 0)
        return HF_OK;
    if (strcmp(value, two) != 0)
        return hf__fail(err, HF_EINVALID, "the option \"%s\" of the redis URL is \"%s\" or \"%s\"", key, one, two);
    *second = true;
    return HF_OK;
}

/* The files and the name of TLS, from four keys. */
static int take_tls(hf__redis_config *config, const hf_url *url, const char *const keys[4], hf_error *err)
{
    char **const to[] = {&config->ca_file, &config->cert_file, &config->key_file, &config->tls_name};

    for (size_t i = 0; i < sizeof to / sizeof to[0]; i++) {
        if (!config->tls && hf__url_param(url, keys[i]) != NULL)
            return hf__fail(err, HF_EINVALID, "the option \"%s\" belongs to TLS: write rediss%s://", keys[i],
                            has_sentinels(url) ? "-sentinel"
                            : has_cluster(url) ? "-cluster"
                                               : "");
        if (copy_param(to[i], url, keys[i], err) != HF_OK)
            return err != NULL ? err->status : HF_EINVALID;
    }
    if (config->key_file != NULL && config->cert_file == NULL)
        return hf__fail(err, HF_EINVALID, "the option \"%s\" of the redis URL needs \"%s\" beside it", keys[2],
                        keys[1]);
    if (config->cert_file != NULL && config->key_file == NULL) /* one file may hold both */
        return copy(&config->key_file, config->cert_file, err);
    return HF_OK;
}

static int inherit(char **to, const char *from, hf_error *err)
{
    return *to != NULL || from == NULL ? HF_OK : copy(to, from, err);
}

/* TLS to the Sentinels is as to the servers, unless the URL says otherwise. */
static int take_sentinel_tls(hf__redis_config *config, const hf__redis_config *servers, const hf_url *url,
                             hf_error *err)
{
    static const char *const keys[] = {"sentinel-ca", "sentinel-cert", "sentinel-key", "sentinel-tls-name"};
    bool                     other = false;
    int                      status;

    status = take_word(&other, url, "sentinel-tls", servers->tls ? "yes" : "no", servers->tls ? "no" : "yes", err);
    config->tls = servers->tls != other;
    if (status == HF_OK)
        status = take_tls(config, url, keys, err);
    if (status != HF_OK || !config->tls || !servers->tls)
        return status;
    status = inherit(&config->ca_file, servers->ca_file, err);
    if (status == HF_OK && config->cert_file == NULL && inherit(&config->cert_file, servers->cert_file, err) == HF_OK)
        status = inherit(&config->key_file, servers->key_file, err);
    return status;
}

/* ---- how ---- */

/* "5000", "5000ms", "5s", "2m", "12h", "1d". */
static int take_time(int64_t *ms, const hf_url *url, const char *key, int64_t most_ms, hf_error *err)
{
    static const struct {
        const char *name;
        int64_t     ms;
    } units[] = {{"", 1}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
    const char *text = hf__url_param(url, key);
    size_t      digits = text != NULL ? strspn(text, "0123456789") : 0;

    if (text == NULL)
        return HF_OK;
    for (size_t i = 0; digits > 0 && digits <= 11 && i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(text + digits, units[i].name) != 0)
            continue;
        *ms = strtoll(text, NULL, 10) * units[i].ms;
        if (*ms >= 100 && *ms <= most_ms)
            return HF_OK;
    }
    return hf__fail(err, HF_EINVALID,
                    "the option \"%s\" of the redis URL is a time of 100ms to %lldd, like 5000ms or 5s", key,
                    (long long)(most_ms / 86400000));
}

static int take_replicas(hf__redis_config *config, const hf_url *url, hf_error *err)
{
    const char *text = hf__url_param(url, "replicas");
    size_t      digits = text != NULL ? strspn(text, "0123456789") : 0;
    long        count = digits > 0 && digits < 4 && text[digits] == '\0' ? strtol(text, NULL, 10) : -1;

    config->replicas_timeout_ms = REPLICAS_TIMEOUT_MS;
    if (text == NULL && hf__url_param(url, "replicas-timeout") != NULL)
        return hf__fail(err, HF_EINVALID,
                        "the option \"replicas-timeout\" of the redis URL needs \"replicas\" beside it");
    if (text != NULL && (count < 0 || count > REPLICAS_MAX))
        return hf__fail(err, HF_EINVALID, "the option \"replicas\" of the redis URL is a number from 0 to %d",
                        REPLICAS_MAX);
    config->replicas = text != NULL ? (int)count : 0;
    return take_time(&config->replicas_timeout_ms, url, "replicas-timeout", INT64_C(86400000), err);
}

static int take_how(hf__redis_config *config, const hf_url *url, hf_error *err)
{
    const char *prefix = hf__url_param(url, "prefix");
    bool        plain = false, off = false;
    int         status;

    config->fair_wait_ms = FAIR_WAIT_MS;
    config->fence_keep_ms = FENCE_KEEP_MS;
    status = take_word(&plain, url, "layout", "redisson", "plain", err);
    if (status == HF_OK)
        status = take_word(&config->fence_plain_counter, url, "fence", "time", "redisson", err);
    if (status == HF_OK)
        status = take_word(&off, url, "news", "on", "off", err);
    if (status == HF_OK)
        status = take_time(&config->fair_wait_ms, url, "fair-wait", INT64_C(86400000), err);
    if (status == HF_OK)
        status = take_time(&config->fence_keep_ms, url, "fence-keep", INT64_C(366) * 86400000, err);
    if (status == HF_OK)
        status = take_replicas(config, url, err);
    if (status == HF_OK)
        status = copy(&config->prefix, prefix != NULL ? prefix : "", err);
    config->layout = plain ? HF__LAYOUT_PLAIN : HF__LAYOUT_REDISSON;
    config->news = !off;
    return status;
}

static int take_sentinels_rest(hf__redis_config *config, const hf_url *url, hf_error *err)
{
    hf__redis_config *sentinels = config->sentinels;
    int               status = take_sentinel_password(sentinels, url, err);

    if (status == HF_OK)
        status = take_sentinel_tls(sentinels, config, url, err);
    if (status == HF_OK)
        status = copy(&sentinels->client_name, config->client_name, err);
    return status;
}

int hf__redis_config_read(hf__redis_config *config, const hf_url *url, const hf_store_env *env, hf_error *err)
{
    static const char *const tls_keys[] = {"ca", "cert", "key", "tls-name"};
    int                      status;

    memset(config, 0, sizeof *config);
    config->server_timeout_ms = env->server_timeout_ms;
    status = hf__url_only(url, has_sentinels(url) ? known_with_sentinels : known, err);
    if (status == HF_OK)
        status = has_sentinels(url) ? take_sentinels(config, url, err) : take_where(config, url, err);
    if (status == HF_OK && url->user != NULL)
        status = copy(&config->user, url->user, err);
    if (status == HF_OK)
        status = take_password(config, url, err);
    if (status == HF_OK)
        status = take_client_name(config, url, env, err);
    if (status == HF_OK)
        status = take_tls(config, url, tls_keys, err);
    if (status == HF_OK)
        status = take_how(config, url, err);
    if (status == HF_OK && config->sentinels != NULL)
        status = take_sentinels_rest(config, url, err);
    if (status != HF_OK)
        hf__redis_config_finish(config);
    return status;
}

void hf__redis_config_finish(hf__redis_config *config)
{
    if (config->sentinels != NULL)
        hf__redis_config_finish(config->sentinels);
    free(config->sentinels);
    free(config->master_name);
    for (size_t i = 0; i < config->host_count; i++) {
        free(config->hosts[i].name);
        free(config->hosts[i].port);
    }
    free(config->hosts);
    if (config->password != NULL)
        explicit_bzero(config->password, strlen(config->password));
    free(config->password);
    free(config->path);
    free(config->user);
    free(config->client_name);
    free(config->ca_file);
    free(config->cert_file);
    free(config->key_file);
    free(config->tls_name);
    free(config->prefix);
    memset(config, 0, sizeof *config);
}
