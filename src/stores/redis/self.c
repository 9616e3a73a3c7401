/* SPDX-License-Identifier: MIT */
/* The key that says who a client is. */
#include "stores/redis/self.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "stores/redis/script.h"

#define LIFE_MS 90000
#define RETRY_MS 10000

/* Refused or lost: somebody sees less for a while. */
static void self_done(hf__command *command, redisReply *reply, const hf_error *err)
{
    hf__self *self = command->owner;

    (void)err;
    if (reply == NULL || reply->type == REDIS_REPLY_ERROR)
        atomic_store(&self->due_us, hf__after_ms(hf__now_us(), RETRY_MS));
    if (reply != NULL)
        freeReplyObject(reply);
    atomic_store(&self->on_its_way, false);
}

/* A line may not end early. */
static void add_line(hf__text *text, const char *line, bool last)
{
    size_t len = line != NULL ? strcspn(line, "\r\n") : 0;

    if (len > 0)
        hf__layout_add(text, line, len);
    if (!last)
        hf__layout_add(text, "\n", 1);
}

void hf__self_finish(hf__self *self)
{
    hf__text_finish(&self->text);
    hf__text_finish(&self->who);
}

bool hf__self_init(hf__self *self, const hf_store_env *env)
{
    hf__text key = {.bytes = NULL}, value = {.bytes = NULL};
    char     pid[24];
    bool     whole;

    hf__layout_uuid(&env->client, self->uuid);
    snprintf(pid, sizeof pid, "%" PRId64, env->pid);
    hf__layout_add(&key, HF__CLIENT_PREFIX, strlen(HF__CLIENT_PREFIX));
    hf__layout_add(&key, self->uuid, strlen(self->uuid));
    add_line(&value, env->host, false);
    add_line(&value, pid, false);
    add_line(&value, env->program, false);
    add_line(&value, env->note, true);
    hf__resp_begin(&self->text, 5);
    hf__resp_text(&self->text, "SET");
    hf__resp_bytes(&self->text, key.bytes, key.len);
    hf__resp_bytes(&self->text, value.bytes, value.len);
    hf__resp_text(&self->text, "PX");
    hf__resp_number(&self->text, LIFE_MS);
    whole = !key.failed && !value.failed && !self->text.failed;
    hf__text_finish(&key);
    self->who = value;
    if (!whole)
        hf__self_finish(self);
    return whole;
}

void hf__self_forgotten(hf__self *self)
{
    atomic_store(&self->due_us, 0);
}

hf__command *hf__self_due(hf__self *self, int64_t now_us, int64_t deadline_us)
{
    bool free = false;

    if (now_us < atomic_load_explicit(&self->due_us, memory_order_relaxed) ||
        !atomic_compare_exchange_strong(&self->on_its_way, &free, true))
        return NULL;
    atomic_store(&self->due_us, hf__after_ms(now_us, LIFE_MS / 3));
    self->command = (hf__command){
        .text = self->text.bytes, .len = self->text.len, .deadline_us = deadline_us, .done = self_done, .owner = self};
    return &self->command;
}

size_t hf__self_head(const hf__self *self)
{
    const char *last = memrchr(self->who.bytes, '\n', self->who.len);

    return last != NULL ? (size_t)(last - self->who.bytes) + 1 : 0;
}
