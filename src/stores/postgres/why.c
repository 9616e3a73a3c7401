/* SPDX-License-Identifier: MIT */
/* See why.h. */
#include "stores/postgres/why.h"

#include <string.h>

#include "base/error.h"

hf__trouble hf__pg_trouble_of(const char *state)
{
    static const struct {
        const char *state; /* a whole one, or a class of two letters */
        hf__trouble trouble;
    } known[] = {
        {"40001", HF__TROUBLE_AGAIN}, {"40P01", HF__TROUBLE_AGAIN},  {"55P03", HF__TROUBLE_AGAIN},
        {"57014", HF__TROUBLE_AGAIN}, {"23505", HF__TROUBLE_AGAIN},  {"42P07", HF__TROUBLE_AGAIN},
        {"42710", HF__TROUBLE_AGAIN}, {"42P01", HF__TROUBLE_ABSENT}, {"25006", HF__TROUBLE_LOST},
        {"53300", HF__TROUBLE_LOST},  {"57", HF__TROUBLE_LOST},      {"08", HF__TROUBLE_LOST},
        {"25", HF__TROUBLE_LOST},
    };

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strncmp(state, known[i].state, strlen(known[i].state)) == 0)
            return known[i].trouble;
    return HF__TROUBLE_REFUSED;
}

static const char *advice(hf__trouble trouble, const char *state)
{
    switch (trouble) {
    case HF__TROUBLE_AGAIN:
        return "somebody else holds its row";
    case HF__TROUBLE_ABSENT:
        return "the tables are not there; make them with `holdfast schema postgresql`, or leave create=no out";
    case HF__TROUBLE_LOST:
        return strcmp(state, "25006") == 0 ? "a server that takes writes is needed"
                                           : "is it running, and reachable from here?";
    default:
        return "see the rights and the settings in docs/stores/postgresql.md";
    }
}

int hf__pg_fail(const hf__pg_conn *conn, hf__trouble trouble, const char *state, const char *message, hf__reply *reply,
                hf_error *err)
{
    int status = trouble == HF__TROUBLE_AGAIN || trouble == HF__TROUBLE_LOST ? HF_EUNREACHABLE : HF_EREFUSED;
    int len = (int)strcspn(message, "\n");

    if (reply != NULL && reply->trouble == HF__TROUBLE_NONE)
        reply->trouble = trouble;
    return hf__fail(err, status, "the lock database %s: %.*s%s%s; %s", conn->target->url, len < 200 ? len : 200,
                    message, state[0] != '\0' ? " " : "", state, advice(trouble, state));
}

int hf__pg_lost(const hf__pg_conn *conn, hf__reply *reply, hf_error *err)
{
    return hf__pg_fail(conn, HF__TROUBLE_LOST, "", PQerrorMessage(conn->pg), reply, err);
}

/* The state in "FATAL:  28P01: ...", as the verbose form of a message has it; "" where there is none. */
static void find_state(const char *line, size_t len, char state[6])
{
    state[0] = '\0';
    for (size_t i = 0; i + 10 <= len && state[0] == '\0'; i++)
        if (memcmp(line + i, ":  ", 3) == 0 && memcmp(line + i + 8, ": ", 2) == 0 &&
            strspn(line + i + 3, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 5) {
            memcpy(state, line + i + 3, 5);
            state[5] = '\0';
        }
}

/* A certificate, a key, a server without TLS, or one that says no: there is no state for it, and the network is not to
 * blame. That the connection ended in the middle of it is another matter. */
static bool is_about_tls(const char *line, size_t len)
{
    static const char *const words[] = {"certificate", "private key", "SSL was required", " alert "};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (memmem(line, len, words[i], strlen(words[i])) != NULL)
            return true;
    return false;
}

/* Where one of several hosts was not reached, it may be the one that lets us in. */
int hf__pg_not_connected(const hf__pg_conn *conn, hf_error *err)
{
    const char *text = PQerrorMessage(conn->pg);
    hf__trouble trouble = HF__TROUBLE_NONE;
    char        state[6] = "";

    for (const char *line = text; *line != '\0' && trouble != HF__TROUBLE_LOST;) {
        size_t len = strcspn(line, "\n");
        if (line == text || strncmp(line, "connection to server", 20) == 0) {
            find_state(line, len, state);
            trouble = state[0] != '\0'          ? hf__pg_trouble_of(state)
                      : is_about_tls(line, len) ? HF__TROUBLE_REFUSED
                                                : HF__TROUBLE_LOST;
        }
        line += len + (line[len] == '\n');
    }
    return hf__pg_fail(conn, trouble, "", text, NULL, err);
}

int hf__pg_late(const hf__pg_conn *conn, hf__reply *reply, hf_error *err)
{
    if (reply != NULL)
        reply->trouble = HF__TROUBLE_LOST;
    return hf__fail(err, HF_EUNREACHABLE, "the lock database %s did not answer in time", conn->target->url);
}
