/* SPDX-License-Identifier: MIT */
/*
 * The errors of Redis and Valkey. An error inside a script comes as it is from newer servers, and from older ones
 * behind "ERR Error running script"; so their words are looked for anywhere in the text.
 */
#include "stores/redis/answer.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/name.h"
#include "stores/redis/layout.h"

#define SHOWN 160 /* bytes of the server's own text */

typedef struct cause {
    const char *word;
    int         status;
    bool        distrust; /* another server may have its place by now */
    const char *text;
} cause;

static const cause causes[] = {
    {"LOADING", HF_EUNREACHABLE, false, "it is loading its data after a start; it will answer when it is done"},
    {"BUSY ", HF_EUNREACHABLE, false,
     "a script of somebody's runs on it and lets nothing else through; SCRIPT KILL ends one that has written nothing"},
    {"READONLY", HF_EUNREACHABLE, true, "it is a replica and takes no locks; the URL must lead to the primary"},
    {"MASTERDOWN", HF_EUNREACHABLE, true, "it is a replica that has lost its primary"},
    {"NOREPLICAS", HF_EUNREACHABLE, false,
     "it has fewer replicas than its min-replicas-to-write asks for; it takes writes again when they are back"},
    {"CLUSTERDOWN", HF_EUNREACHABLE, false, "its cluster is down"},
    {"TRYAGAIN", HF_EUNREACHABLE, false, "its cluster is moving the name's slot"},
    {"UNBLOCKED", HF_EUNREACHABLE, true, "it is no longer the primary"},
    {"killed by user", HF_EUNREACHABLE, false, "somebody ended the script by SCRIPT KILL"},
    {"max number of clients", HF_EUNREACHABLE, false, "it has as many clients as its maxclients allows"},
    {"MOVED ", HF_EREFUSED, false, "it is one node of a cluster, and the name belongs to another one"},
    {"ASK ", HF_EREFUSED, false, "it is one node of a cluster, and the name belongs to another one"},
    {"CROSSSLOT", HF_EREFUSED, false, "it is one node of a cluster, and the name's keys fall into several slots"},
    {"OOM ", HF_EEXHAUSTED, false,
     "its memory is full (maxmemory), and it evicts nothing; make room or raise maxmemory"},
    {"MISCONF", HF_EREFUSED, false,
     "it cannot write its data to disk and refuses changes until it can; look at its log and its disk"},
    {"NOAUTH", HF_EREFUSED, false, "it asks for a password; give one in the URL, or by a file"},
    {"WRONGPASS", HF_EREFUSED, false, "it does not take the user and password"},
    {"NOPERM", HF_EREFUSED, false, "the user's rights do not suffice; docs/stores/redis.md has the ACL line that does"},
    {"can't run this command", HF_EREFUSED, false,
     "the user may not run a command that the script needs; docs/stores/redis.md has the ACL line that suffices"},
    {"can't access", HF_EREFUSED, false,
     "the user may not use a key or channel that the script needs; docs/stores/redis.md has the ACL line that "
     "suffices"},
    {"wrong kind of value", HF_EREFUSED, false,
     "a key that belongs to the lock holds something else; choose another name, or keep keys apart with ?prefix="},
    {"unknown command", HF_EREFUSED, false,
     "it does not know a command that locks need (renamed, switched off, or not a Redis server)"},
    {"NOSCRIPT", HF_EUNREACHABLE, false, "it forgot the script right after it was sent"},
};

static const cause *find(const char *text)
{
    for (size_t i = 0; i < sizeof causes / sizeof causes[0]; i++)
        if (strstr(text, causes[i].word) != NULL)
            return &causes[i];
    return NULL;
}

int hf__answer_error(hf__conn *conn, const redisReply *reply, hf_error *err)
{
    const cause *found = find(reply->str);
    char         where[160], said[SHOWN];

    hf__conn_where(conn, where, sizeof where);
    hf__name_show(reply->str, reply->len, said, sizeof said); /* foreign text */
    if (found == NULL)
        return hf__fail(err, HF_EREFUSED, "the Redis server %s refused: %s", where, said);
    if (found->distrust)
        hf__conn_distrust(conn);
    return hf__fail(err, found->status, "the Redis server %s refused: %s (it says: %.*s)", where, found->text,
                    SHOWN / 2, reply->str);
}

int hf__answer_odd(hf__conn *conn, hf_error *err)
{
    char where[160];

    return hf__fail(err, HF_EREFUSED, "the server %s gave an answer that no Redis server gives to this script",
                    hf__conn_where(conn, where, sizeof where));
}

/* One line, cut to `size` with its NUL; moves *text beyond it. */
static void take_line(const char **text, const char *end, char *out, size_t size)
{
    const char *line = *text;
    const char *stop = line < end ? memchr(line, '\n', (size_t)(end - line)) : NULL;
    size_t      len = (size_t)((stop != NULL ? stop : end) - line);

    *text = stop != NULL ? stop + 1 : end;
    if (len >= size)
        len = size - 1;
    memcpy(out, line, len);
    out[len] = '\0';
}

void hf__answer_holder(hf_holder *holder, const char *text, size_t len)
{
    const char *end = text + len;
    char        pid[24];

    take_line(&text, end, holder->host, sizeof holder->host);
    take_line(&text, end, pid, sizeof pid);
    take_line(&text, end, holder->program, sizeof holder->program);
    take_line(&text, end, holder->note, sizeof holder->note);
    holder->pid = strtoll(pid, NULL, 10);
}

void hf__answer_note(hf_holder *holder, const char *text, size_t len)
{
    if (len > 0 && text[0] == HF__NOTE_WHO) {
        hf__answer_holder(holder, text + 1, len - 1);
        return;
    }
    if (len == 0)
        return;
    len = len < sizeof holder->note ? len : sizeof holder->note - 1;
    memcpy(holder->note, text, len);
    holder->note[len] = '\0';
}

int64_t hf__answer_number(const redisReply *reply, int64_t none)
{
    char     *end;
    long long number;

    if (reply->type == REDIS_REPLY_INTEGER)
        return reply->integer;
    if (reply->type != REDIS_REPLY_STRING || reply->len == 0)
        return none;
    number = strtoll(reply->str, &end, 10);
    return *end == '\0' ? number : none;
}
