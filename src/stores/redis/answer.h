/* SPDX-License-Identifier: MIT */
/* What a server's answers mean: its errors as a status, a cause and a remedy; and what clients say of themselves. */
#ifndef HF_STORES_REDIS_ANSWER_H
#define HF_STORES_REDIS_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stores/redis/conn.h"

/* `reply` is an error of the server. HF_EUNREACHABLE: it will pass, ask again; else it will not by itself. Also tells
 * the connection where the server is not the one to talk to. err->text says what, which server, and what to do. */
int hf__answer_error(hf__conn *conn, const redisReply *reply, hf_error *err);

/* The same where an answer has no shape that was asked for. */
int hf__answer_odd(hf__conn *conn, hf_error *err);

/* Reads what a client wrote of itself (holdfast_client:<uuid>): lines of host, pid, program and note. Foreign text:
 * what does not fit is cut, what is missing stays empty. */
void hf__answer_holder(hf_holder *holder, const char *text, size_t len);

/* Reads the note of one claim. In a cluster there is HF__NOTE_WHO before it, and all that its client says. */
void hf__answer_note(hf_holder *holder, const char *text, size_t len);

/* The number of a reply, also one that is text; `none` where it is neither. */
int64_t hf__answer_number(const redisReply *reply, int64_t none);

#endif
