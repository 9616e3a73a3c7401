/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as what a Redis server answers, in pieces of any size: first as the answers to a hello, then as replies.
 * What comes is a reply, or an error that ends the connection; nothing that is kept is beyond the bounds.
 *
 * The first byte of the input says in which pieces the rest arrives.
 */
#include "stores/redis/reader.h"

#include <string.h>

#include "fuzz/fuzz.h"
#include "stores/redis/hello.h"
#include "stores/redis/slots.h"

typedef struct sum {
    size_t bytes, elements;
} sum;

static void add_up(const redisReply *reply, sum *all, int depth)
{
    NEED(reply != NULL && depth < 10);
    switch (reply->type) {
    case REDIS_REPLY_ARRAY:
        all->elements += reply->elements;
        for (size_t i = 0; i < reply->elements; i++)
            add_up(reply->element[i], all, depth + 1);
        break;
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
    case REDIS_REPLY_ERROR:
        NEED(reply->str != NULL && reply->str[reply->len] == '\0');
        all->bytes += reply->len;
        break;
    default:
        NEED(reply->type == REDIS_REPLY_INTEGER || reply->type == REDIS_REPLY_NIL);
    }
}

/* Before the whole was read nobody sees it; after it the counting begins anew. */
static void check_reply(const hf__reader *reader, const redisReply *reply)
{
    sum all = {0, 0};

    add_up(reply, &all, 0);
    NEED(all.bytes <= HF__READER_BYTES && all.elements <= HF__READER_ELEMENTS);
    NEED(reader->bytes == 0 && reader->elements == 0);
}

static void greet(hf__hello *hello, const hf__redis_config *config, const redisReply *reply, bool *refused)
{
    hf_error err = {0};

    if (*refused || hf__hello_is_over(hello))
        return;
    if (hf__hello_answer(hello, config, reply, "server:1", &err) == HF_OK)
        return;
    NEED(err.status < 0 && err.text[0] != '\0' && memchr(err.text, '\0', sizeof err.text) != NULL);
    for (const char *p = err.text; *p != '\0'; p++)
        NEED(*p >= ' ' && *p < 0x7f);
    NEED(reply->type != REDIS_REPLY_ERROR || strstr(err.text, "s3cret") == NULL);
    *refused = true;
}

static void check_facts(const hf__redis_facts *facts)
{
    NEED(memchr(facts->run_id, '\0', sizeof facts->run_id) != NULL);
    NEED(memchr(facts->version, '\0', sizeof facts->version) != NULL);
    NEED(memchr(facts->valkey, '\0', sizeof facts->valkey) != NULL);
}

/* As a view of a cluster, and as a redirection. */
static void check_cluster(const redisReply *reply)
{
    hf__redirect redirect = hf__redirect_read(reply);
    hf__slots    view;

    NEED(redirect.slot >= 0 && redirect.slot < HF__SLOTS);
    NEED(memchr(redirect.host, '\0', sizeof redirect.host) && memchr(redirect.port, '\0', sizeof redirect.port));
    if (!hf__slots_read(&view, reply, "asked"))
        return;
    NEED(view.masters <= view.count);
    for (int slot = 0; slot < HF__SLOTS; slot++)
        NEED(view.master[slot] <= view.masters);
    hf__slots_finish(&view);
}

/* False: the end. */
static bool drain(hf__reader *reader, hf__hello *hello, const hf__redis_config *config, bool *refused)
{
    redisReply *reply;
    const char *why = NULL;

    for (;;) {
        if (!hf__reader_next(reader, &reply, &why)) {
            NEED(why != NULL && why[0] != '\0' && reply == NULL);
            return false;
        }
        if (reply == NULL)
            return true;
        check_reply(reader, reply);
        check_cluster(reply);
        greet(hello, config, reply, refused);
        freeReplyObject(reply);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char             password[] = "s3cret", name[] = "fuzz";
    hf__redis_config config = {.password = password, .client_name = name, .db = 1};
    hf__redis_facts  facts;
    hf__hello        hello;
    hf__reader       reader;
    bool             refused = false;
    size_t           len, piece = size > 0 ? 1 + data[0] % 64 : 1;
    char            *text = hf__hello_begin(&hello, &config, &facts, &len);

    NEED(text != NULL && hf__reader_init(&reader));
    free(text);
    for (size_t at = 1; at < size; at += piece) {
        size_t some = size - at < piece ? size - at : piece;
        if (!hf__reader_feed(&reader, data + at, some) || !drain(&reader, &hello, &config, &refused))
            break;
    }
    check_facts(&facts);
    hf__reader_finish(&reader);
    return 0;
}
