/* SPDX-License-Identifier: MIT */
/* What a redis URL is taken for, and what is refused with which words. */
#include "stores/redis/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/url.h"

static hf__redis_config config;
static hf_error         err;

static int take(const char *text)
{
    const hf_store_env env = {.server_timeout_ms = 1234, .program = "a b", .pid = 77};
    hf_url             url;
    int                status;

    memset(&err, 0, sizeof err);
    assert_int_equal(hf__url_parse(&url, text, &err), HF_OK);
    status = hf__redis_config_read(&config, &url, &env, &err);
    hf__url_finish(&url);
    return status;
}

static void accept(const char *text)
{
    if (take(text) != HF_OK)
        fail_msg("%s is refused: %s", text, err.text);
}

static void refuse(const char *text, const char *why)
{
    static const hf__redis_config nothing;

    if (take(text) != HF_EINVALID)
        fail_msg("%s is taken", text);
    if (strstr(err.text, why) == NULL)
        fail_msg("%s is refused with: %s", text, err.text);
    assert_memory_equal(&config, &nothing, sizeof nothing);
}

static void test_defaults(void **state)
{
    (void)state;
    accept("redis://");
    assert_int_equal(config.host_count, 1);
    assert_string_equal(config.hosts[0].name, "localhost");
    assert_string_equal(config.hosts[0].port, "6379");
    assert_int_equal(config.db, 0);
    assert_null(config.user);
    assert_null(config.password);
    assert_string_equal(config.client_name, "holdfast:a_b:77");
    assert_false(config.tls);
    assert_int_equal(config.layout, HF__LAYOUT_REDISSON);
    assert_string_equal(config.prefix, "");
    assert_true(config.news);
    assert_false(config.fence_plain_counter);
    assert_int_equal(config.fair_wait_ms, 5000);
    assert_int_equal(config.fence_keep_ms, 86400000);
    assert_int_equal(config.server_timeout_ms, 1234);
    hf__redis_config_finish(&config);
}

static void test_where(void **state)
{
    (void)state;
    accept("redis://db.example:7000/3");
    assert_string_equal(config.hosts[0].name, "db.example");
    assert_string_equal(config.hosts[0].port, "7000");
    assert_int_equal(config.db, 3);
    hf__redis_config_finish(&config);
    accept("redis://[::1]:7000,10.0.0.1,[fe80::2],c:1");
    assert_int_equal(config.host_count, 4);
    assert_string_equal(config.hosts[0].name, "::1");
    assert_string_equal(config.hosts[0].port, "7000");
    assert_string_equal(config.hosts[1].name, "10.0.0.1");
    assert_string_equal(config.hosts[1].port, "6379");
    assert_string_equal(config.hosts[2].name, "fe80::2");
    assert_string_equal(config.hosts[3].port, "1");
    hf__redis_config_finish(&config);
    accept("redis+unix:///run/redis%20a.sock?db=2");
    assert_string_equal(config.path, "/run/redis a.sock");
    assert_int_equal(config.db, 2);
    assert_int_equal(config.host_count, 0);
    hf__redis_config_finish(&config);
}

static void test_who(void **state)
{
    (void)state;
    accept("redis://me:se%40cret@h");
    assert_string_equal(config.user, "me");
    assert_string_equal(config.password, "se@cret");
    hf__redis_config_finish(&config);
    accept("redis://:secret@h?client-name=cron");
    assert_null(config.user);
    assert_string_equal(config.password, "secret");
    assert_string_equal(config.client_name, "cron");
    hf__redis_config_finish(&config);
    accept("redis://h?password=p");
    assert_string_equal(config.password, "p");
    hf__redis_config_finish(&config);
    accept("redis+unix://:pw@/run/r");
    assert_string_equal(config.password, "pw");
    hf__redis_config_finish(&config);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void test_password_elsewhere(void **state)
{
    (void)state;
    write_file("password", "from file\r\nsecond line\n");
    write_file("empty", "\n");
    accept("redis://h?password-file=password");
    assert_string_equal(config.password, "from file");
    hf__redis_config_finish(&config);
    setenv("HOLDFAST_REDIS_PASSWORD", "from env", 1);
    accept("redis://me@h");
    assert_string_equal(config.password, "from env");
    hf__redis_config_finish(&config);
    accept("redis://h?password-file=password");
    assert_string_equal(config.password, "from file");
    hf__redis_config_finish(&config);
    accept("redis://:url@h?password-file=password");
    assert_string_equal(config.password, "url");
    hf__redis_config_finish(&config);
    unsetenv("HOLDFAST_REDIS_PASSWORD");
    refuse("redis://h?password-file=empty", "empty first line");
    refuse("redis://h?password-file=nowhere", "No such file");
    refuse("redis://me@h", "a user and no password");
    unlink("password");
    unlink("empty");
}

static void test_tls(void **state)
{
    (void)state;
    accept("rediss://h?ca=/c&cert=/d&key=/e&tls-name=n");
    assert_true(config.tls);
    assert_string_equal(config.ca_file, "/c");
    assert_string_equal(config.cert_file, "/d");
    assert_string_equal(config.key_file, "/e");
    assert_string_equal(config.tls_name, "n");
    hf__redis_config_finish(&config);
    accept("rediss://h?cert=/both");
    assert_string_equal(config.key_file, "/both");
    hf__redis_config_finish(&config);
    refuse("redis://h?ca=/c", "rediss://");
    refuse("rediss://h?key=/e", "needs \"cert\"");
    refuse("rediss://h?ca=", "is empty");
}

static void test_how(void **state)
{
    (void)state;
    accept("redis://h?layout=plain&prefix=app%3A&fence=redisson&news=off&fair-wait=2s&fence-keep=7d");
    assert_int_equal(config.layout, HF__LAYOUT_PLAIN);
    assert_string_equal(config.prefix, "app:");
    assert_true(config.fence_plain_counter);
    assert_false(config.news);
    assert_int_equal(config.fair_wait_ms, 2000);
    assert_int_equal(config.fence_keep_ms, INT64_C(7) * 86400000);
    hf__redis_config_finish(&config);
    refuse("redis://h?layout=other", "\"redisson\" or \"plain\"");
    refuse("redis://h?fair-wait=2w", "like 5000ms or 5s");
    refuse("redis://h?fair-wait=99999999999d", "like 5000ms or 5s");
    refuse("redis://h?fair-wait=0", "like 5000ms or 5s");
    refuse("redis://h?fair-wait=-5", "like 5000ms or 5s");
    refuse("redis://h?nwes=off", "knows no option \"nwes\"");
}

static void test_sentinels(void **state)
{
    (void)state;
    accept("redis-sentinel://me:pw@s1,s2:7000,[::1]/main?db=3&prefix=p");
    assert_int_equal(config.host_count, 0);
    assert_string_equal(config.master_name, "main");
    assert_string_equal(config.user, "me");
    assert_string_equal(config.password, "pw");
    assert_int_equal(config.db, 3);
    assert_false(config.tls);
    assert_true(config.sentinels->is_sentinel);
    assert_int_equal(config.sentinels->host_count, 3);
    assert_string_equal(config.sentinels->hosts[0].port, "26379");
    assert_string_equal(config.sentinels->hosts[1].port, "7000");
    assert_string_equal(config.sentinels->hosts[2].name, "::1");
    assert_null(config.sentinels->user);
    assert_null(config.sentinels->password);
    assert_int_equal(config.sentinels->db, 0);
    assert_false(config.sentinels->tls);
    assert_int_equal(config.sentinels->server_timeout_ms, 1234);
    assert_string_equal(config.sentinels->client_name, config.client_name);
    hf__redis_config_finish(&config);
    accept("redis-sentinel://s/m?sentinel-user=w&sentinel-password=x");
    assert_null(config.password);
    assert_string_equal(config.sentinels->user, "w");
    assert_string_equal(config.sentinels->password, "x");
    hf__redis_config_finish(&config);
    setenv("HOLDFAST_SENTINEL_PASSWORD", "from env", 1);
    accept("redis-sentinel://s/m");
    assert_string_equal(config.sentinels->password, "from env");
    assert_null(config.password);
    hf__redis_config_finish(&config);
    unsetenv("HOLDFAST_SENTINEL_PASSWORD");
    refuse("redis-sentinel://s", "name of the master");
    refuse("redis-sentinel://s/", "name of the master");
    refuse("redis-sentinel://s/a/b", "name of the master");
    refuse("redis-sentinel://s/m?sentinel-user=w", "no password for it");
    refuse("redis-sentinel://s/m?sentinel-nmae=w", "knows no option");
    refuse("redis-sentinel://s:x/m", "from 1 to 65535");
    refuse("redis://h?sentinel-user=w", "knows no option");
}

static void test_sentinels_tls(void **state)
{
    (void)state;
    accept("rediss-sentinel://s/m?ca=/c&cert=/d&key=/e&tls-name=n");
    assert_true(config.tls);
    assert_true(config.sentinels->tls);
    assert_string_equal(config.sentinels->ca_file, "/c");
    assert_string_equal(config.sentinels->cert_file, "/d");
    assert_string_equal(config.sentinels->key_file, "/e");
    assert_null(config.sentinels->tls_name);
    hf__redis_config_finish(&config);
    accept("rediss-sentinel://s/m?ca=/c&sentinel-tls=no");
    assert_true(config.tls);
    assert_false(config.sentinels->tls);
    hf__redis_config_finish(&config);
    accept("rediss-sentinel://s/m?ca=/c&cert=/d&sentinel-ca=/sc&sentinel-cert=/sd&sentinel-tls-name=sn");
    assert_string_equal(config.sentinels->ca_file, "/sc");
    assert_string_equal(config.sentinels->cert_file, "/sd");
    assert_string_equal(config.sentinels->key_file, "/sd");
    assert_string_equal(config.sentinels->tls_name, "sn");
    hf__redis_config_finish(&config);
    accept("redis-sentinel://s/m?sentinel-tls=yes&sentinel-ca=/sc");
    assert_false(config.tls);
    assert_true(config.sentinels->tls);
    hf__redis_config_finish(&config);
    refuse("redis-sentinel://s/m?sentinel-ca=/sc", "belongs to TLS");
    refuse("redis-sentinel://s/m?ca=/c", "rediss-sentinel://");
    refuse("redis-sentinel://s/m?sentinel-tls=maybe", "\"no\" or \"yes\"");
}

static void test_replicas(void **state)
{
    (void)state;
    accept("redis://h");
    assert_int_equal(config.replicas, 0);
    hf__redis_config_finish(&config);
    accept("redis://h?replicas=2");
    assert_int_equal(config.replicas, 2);
    assert_int_equal(config.replicas_timeout_ms, 1000);
    hf__redis_config_finish(&config);
    accept("redis-sentinel://h/m?replicas=1&replicas-timeout=250ms");
    assert_int_equal(config.replicas_timeout_ms, 250);
    hf__redis_config_finish(&config);
    refuse("redis://h?replicas=x", "from 0 to 64");
    refuse("redis://h?replicas=-1", "from 0 to 64");
    refuse("redis://h?replicas=65", "from 0 to 64");
    refuse("redis://h?replicas=", "from 0 to 64");
    refuse("redis://h?replicas-timeout=100", "\"replicas\" beside it");
    refuse("redis://h?replicas=1&replicas-timeout=0", "is a time");
}

static void test_malformed(void **state)
{
    char many[256] = "redis://h";

    (void)state;
    for (int i = 0; i < 20; i++)
        strcat(many, ",h");
    refuse(many, "more than 16 hosts");
    refuse("redis://h/x", "a number");
    refuse("redis://h/1?db=2", "twice");
    refuse("redis://h/1234567", "a number");
    refuse("redis://h:0", "from 1 to 65535");
    refuse("redis://h:65536", "from 1 to 65535");
    refuse("redis://h:", "from 1 to 65535");
    refuse("redis://h:6379x", "from 1 to 65535");
    refuse("redis://[::1", "closing");
    refuse("redis://[::1]x", "closing");
    refuse("redis://::1:6379", "[::1]:6379");
    refuse("redis://a%20b", "malformed host");
    refuse("redis:foo", "redis://localhost");
    refuse("redis+unix://h/x", "absolute path");
    refuse("redis+unix:", "absolute path");
    refuse("redis://h?client-name=a%20b", "without blanks");
}

static void test_long_socket(void **state)
{
    char url[400] = "redis+unix:///";

    (void)state;
    memset(url + strlen(url), 'x', 200);
    refuse(url, "longer than 107 bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),    cmocka_unit_test(test_where),
        cmocka_unit_test(test_who),         cmocka_unit_test(test_password_elsewhere),
        cmocka_unit_test(test_tls),         cmocka_unit_test(test_how),
        cmocka_unit_test(test_sentinels),   cmocka_unit_test(test_sentinels_tls),
        cmocka_unit_test(test_replicas),    cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_long_socket),
    };

    return cmocka_run_group_tests_name("redis-config", tests, NULL, NULL);
}
