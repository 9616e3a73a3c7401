/* SPDX-License-Identifier: MIT */
/*
 * TLS to a database server, by each client library, with certificates of a CA of the test's own: what is good is taken;
 * what is expired, foreign or for another host is refused with its reason and in time; nothing falls back to plain.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "db_bed.h"
#include "lib/proxy.h"

static char folder[2048];

static void run(const char *format, const char *a, const char *b)
{
    char line[4096], all[8192];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(line, sizeof line, format, a, b);
#pragma GCC diagnostic pop
    snprintf(all, sizeof all, "cd '%s' && { %s; } >>log 2>&1", folder, line);
    if (system(all) == 0)
        return;
    fprintf(stderr, "failed, see %s/log: %s\n", folder, line);
    exit(3);
}

static void ca_make(const char *name)
{
    run("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout %s.key -out %s.pem"
        " -subj '/CN=a CA of the tests' -days 2",
        name, name);
}

/* `host` is "IP:127.0.0.1" or "DNS:x"; `days` may be negative. */
static void cert_make(const char *name, const char *ca, const char *host, const char *days)
{
    char tail[512];

    run("printf 'subjectAltName=%s\\n' >%s.ext", host, name);
    run("openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout %s.key -out %s.csr -subj /CN=strict",
        name, name);
    snprintf(tail, sizeof tail, "-CA %s.pem -CAkey %s.key -CAcreateserial -days %s -extfile %s.ext -out %s.pem", ca, ca,
             days, name, name);
    run("openssl x509 -req -in %s.csr %s", name, tail);
    run("chmod 600 %s.key; chmod 644 %s.pem", name, name);
}

/* The server has another certificate from its next connection on. */
static void server_cert(const dbserver *of, const char *name)
{
    char  path[2200];
    uid_t user;
    gid_t group;

    run("cp %s.pem server.pem; cp %s.key server.key; chmod 600 server.key", name, name);
    snprintf(path, sizeof path, "%s/server.key", folder);
    if (dbserver_owner(of, &user, &group) && chown(path, user, group) != 0)
        exit(3);
    if (of->pid > 0) {
        assert_true(dbserver_reload(of));
        sleep_ms(300);
    }
}

static const char *in_folder(const char *prefix, const char *name)
{
    static char paths[16][2200];
    static int  next;
    char       *path = paths[next++ % 16];

    snprintf(path, sizeof paths[0], "%s%s/%s", prefix, folder, name);
    return path;
}

void db_tls_make(const char *kind)
{
    static const char *more[16];
    dbserver           coming = {.postgres = strcmp(kind, "postgresql") == 0};
    char               here[2000];

    if (getcwd(here, sizeof here) == NULL)
        exit(3);
    snprintf(folder, sizeof folder, "%s/certificates", here);
    mkdir(folder, 0755);
    ca_make("ca");
    ca_make("other");
    cert_make("good", "ca", "IP:127.0.0.1,DNS:localhost", "2");
    cert_make("expired", "ca", "IP:127.0.0.1,DNS:localhost", "-1");
    cert_make("wronghost", "ca", "DNS:elsewhere.example", "2");
    cert_make("foreign", "other", "IP:127.0.0.1,DNS:localhost", "2");
    cert_make("client", "ca", "DNS:a-client", "2");
    cert_make("stranger", "other", "DNS:a-client", "2");
    server_cert(&coming, "good");
    const char *const postgres[] = {"-c", "ssl=on",
                                    "-c", in_folder("ssl_cert_file=", "server.pem"),
                                    "-c", in_folder("ssl_key_file=", "server.key"),
                                    "-c", in_folder("ssl_ca_file=", "ca.pem"),
                                    NULL};
    const char *const mysql[] = {in_folder("--ssl-cert=", "server.pem"), in_folder("--ssl-key=", "server.key"),
                                 in_folder("--ssl-ca=", "ca.pem"), NULL};
    for (int i = 0; i < 9; i++) {
        more[i] = coming.postgres ? postgres[i] : i < 4 ? mysql[i] : NULL;
        if (more[i] == NULL)
            break;
    }
    dbserver_more = more;
}

/* The user "secure" comes by TLS only, "strict" with a certificate of his own. */
static int users(void **state)
{
    char path[PATH_MAX + 32];

    (void)state;
    if (!server.postgres) {
        db_do("CREATE USER secure@'%' REQUIRE SSL; GRANT ALL ON locks.* TO secure@'%';"
              "CREATE USER strict@'%' REQUIRE X509; GRANT ALL ON locks.* TO strict@'%'");
        return 0;
    }
    db_do("CREATE ROLE secure LOGIN SUPERUSER; CREATE ROLE strict LOGIN SUPERUSER");
    snprintf(path, sizeof path, "%s/data/pg_hba.conf", server.folder);
    FILE *file = fopen(path, "we");
    if (file == NULL)
        return -1;
    fputs("hostssl all strict all cert\nhostssl all secure all trust\nhost all secure,strict all reject\n"
          "host all all all trust\n",
          file);
    fclose(file);
    assert_true(dbserver_reload(&server));
    sleep_ms(300);
    return 0;
}

/* A URL that verifies by this CA; "": by the system's. */
static const char *tls_url(const char *user, const char *ca, const char *more)
{
    char options[4096];

    if (server.postgres)
        snprintf(options, sizeof options, "?sslmode=verify-full%s%s%s", ca[0] ? "&sslrootcert=" : "",
                 ca[0] ? in_folder("", ca) : "", more);
    else
        snprintf(options, sizeof options, "?tls=yes%s%s%s", ca[0] ? "&tls_ca=" : "", ca[0] ? in_folder("", ca) : "",
                 more);
    return db_url(user, server.postgres ? "postgres" : "locks", options);
}

static const char *client_cert(const char *cert, const char *key)
{
    static char text[6000];

    snprintf(text, sizeof text, server.postgres ? "&sslcert=%s&sslkey=%s" : "&tls_cert=%s&tls_key=%s",
             in_folder("", cert), in_folder("", key));
    return text;
}

/* `late_word`: TLS 1.3 lets a client believe that it is in before the server has looked at its certificate; what comes
 * then may be no more than the end of the connection. */
static void must_not_open(const char *url, const char *word, bool late_word)
{
    hf_client *client;
    hf_error   err = {0};
    int64_t    from = now_ms();
    int        status = hf_open(&client, url, NULL, &err);

    if (status == HF_OK)
        hf_close(client, 0);
    if (status == HF_EUNREACHABLE && late_word)
        return;
    assert_status_err(HF_EREFUSED, status, &err);
    assert_true(now_ms() - from < 6000);
    if (strcasestr(err.text, word) == NULL)
        fail_msg("'%s' does not say '%s'", err.text, word);
}

static void must_be_refused(const char *url, const char *word)
{
    must_not_open(url, word, false);
}

static void a_good_certificate_is_taken(void **state)
{
    (void)state;
    server_cert(&server, "good");
    db_must_work(tls_url("secure", "ca.pem", ""), "tls");
}

static void what_is_wrong_is_refused(void **state)
{
    (void)state;
    must_be_refused(tls_url("secure", "other.pem", ""), "certificate");
    must_be_refused(tls_url("secure", "nothing.pem", ""), "");
    server_cert(&server, "expired");
    must_be_refused(tls_url("secure", "ca.pem", ""), server.postgres ? "certificate" : "expired");
    server_cert(&server, "foreign");
    must_be_refused(tls_url("secure", "ca.pem", ""), "certificate");
    server_cert(&server, "wronghost");
    must_be_refused(tls_url("secure", "ca.pem", ""), "");
    server_cert(&server, "good");
    db_must_work(tls_url("secure", "ca.pem", ""), "tls");
}

static void clients_show_their_own(void **state)
{
    (void)state;
    server_cert(&server, "good");
    must_be_refused(tls_url("strict", "ca.pem", ""), "");
    must_not_open(tls_url("strict", "ca.pem", client_cert("stranger.pem", "stranger.key")), "", true);
    must_be_refused(tls_url("strict", "ca.pem", client_cert("client.pem", "stranger.key")), "");
    db_must_work(tls_url("strict", "ca.pem", client_cert("client.pem", "client.key")), "tls");
}

/* A connection that ends while it is being made secure: a server that is out of reach, and not one that refuses. */
static void an_end_in_the_middle_is_an_end(void **state)
{
    char       upstream[32], ports[2][16], url[5000];
    proxy     *way;
    hf_client *client;
    hf_error   err;

    (void)state;
    server_cert(&server, "good");
    snprintf(upstream, sizeof upstream, "127.0.0.1:%d", server.port);
    way = proxy_start(upstream);
    snprintf(ports[0], sizeof ports[0], ":%d/", server.port);
    snprintf(ports[1], sizeof ports[1], ":%d/", proxy_port(way));
    const char *direct = tls_url("secure", "ca.pem", ""), *at = strstr(direct, ports[0]);
    assert_non_null(at);
    snprintf(url, sizeof url, "%.*s%s%s", (int)(at - direct), direct, ports[1], at + strlen(ports[0]));
    for (int bytes = 0; bytes <= 1000; bytes += 125) {
        proxy_rule cut = {.way = PROXY_DOWN, .what = PROXY_CUT, .bytes = bytes, .end = bytes % 2};
        int        rule = proxy_add(way, &cut);
        int        status = hf_open(&client, url, HF_CLIENT_OPTIONS(.server_timeout_ms = 1000), &err);
        proxy_remove(way, rule);
        assert_status_err(HF_EUNREACHABLE, status, &err);
    }
    db_must_work(url, "tls"); /* the control: without cuts it works */
    proxy_end(way);
}

/* Plain to who wants TLS, and TLS to a server that has none. */
static void nothing_falls_back(void **state)
{
    const char *database = server.postgres ? "postgres" : "locks";

    (void)state;
    must_be_refused(db_url("secure", database, server.postgres ? "?sslmode=disable" : ""), "");
    dbserver_kill(&server);
    dbserver_more = NULL;
    assert_true(dbserver_again(&server));
    must_be_refused(tls_url("app", "ca.pem", ""), "");
    db_must_work(db_url("app", database, ""), "plain"); /* the control: it is there */
}

int db_tls_group(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_certificate_is_taken), cmocka_unit_test(what_is_wrong_is_refused),
        cmocka_unit_test(clients_show_their_own),      cmocka_unit_test(an_end_in_the_middle_is_an_end),
        cmocka_unit_test(nothing_falls_back),
    };

    return cmocka_run_group_tests_name("TLS", tests, users, NULL);
}
