/* SPDX-License-Identifier: MIT */
/*
 * The queue: who is in, and whom to watch. Pure functions over the names of a folder's children.
 *
 * A contender's name ends in a mark, which tells what it is, and ten digits, which the server drew: "lock-" a mutex,
 * "__READ__" and "__WRIT__" readers and writers (Apache Curator), "lease-" a permit, "__lock__" and "__rlock__"
 * Kazoo's. Only the digits order: never the rest of the name. A child that is none of these is not a contender.
 */
#ifndef HF_ZOOKEEPER_QUEUE_H
#define HF_ZOOKEEPER_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <holdfast/store.h>

enum hf__zk_layout { HF__ZK_CURATOR, HF__ZK_KAZOO };

enum hf__zk_role {
    HF__ZK_OTHER = 0, /* not a contender */
    HF__ZK_MUTEX,
    HF__ZK_READER,
    HF__ZK_WRITER,
    HF__ZK_PERMIT,
    HF__ZK_OBSERVED, /* another library's: waited for by all kinds, in conflict with none */
};

/* A number from here on is refused: a little later the server's counter sticks or turns negative, and order is lost. */
#define HF__ZK_NUMBER_MAX INT64_C(2000000000)

typedef struct hf__zk_rules {
    int         layout;
    const char *observe; /* further marks that are waited for, comma-separated; "" none */
} hf__zk_rules;

typedef struct hf__zk_member {
    const char *name; /* the caller's memory */
    int         role;
    int64_t     number;
} hf__zk_member;

/* The contenders of a folder, in their order. */
typedef struct hf__zk_line {
    hf__zk_member *members;
    size_t         count;
} hf__zk_line;

enum hf__zk_answer {
    HF__ZK_IN,        /* it holds */
    HF__ZK_WAIT,      /* behind `whom` */
    HF__ZK_MISSING,   /* not in the line */
    HF__ZK_CONFLICT,  /* `whom` is of another kind and came first */
    HF__ZK_EXHAUSTED, /* the numbers are used up */
};

typedef struct hf__zk_ruling {
    int                  answer;
    const hf__zk_member *whom; /* the one to watch */
    const hf__zk_member *head; /* the first in line, which holds */
    int64_t              place;
} hf__zk_ruling;

/* What the name of a child says; false: no contender. */
bool hf__zk_parse(const hf__zk_rules *rules, const char *name, hf__zk_member *member);

/* Would this be a contender in any layout? */
bool hf__zk_is_contender(const char *name, size_t len);

/* False: no memory. Free with hf__zk_line_finish(). */
bool hf__zk_line_make(hf__zk_line *line, const hf__zk_rules *rules, char *const *names, size_t count);
void hf__zk_line_finish(hf__zk_line *line);

const hf__zk_member *hf__zk_line_find(const hf__zk_line *line, const char *name);

/* May the contender `name` in? For mutexes, readers and writers; and for the queue before a semaphore's permits. */
hf__zk_ruling hf__zk_rule(const hf__zk_line *line, const char *name);

/* Is the member at `index` in? */
bool hf__zk_is_in(const hf__zk_line *line, size_t index);

/* The mark of a role in a layout: "lock-". */
const char *hf__zk_mark(int layout, int role);

/* The part of a contender's name before the mark: which claim it is. Curator: "_c_<uuid>-"; Kazoo: 32 hex digits. */
#define HF__ZK_PREFIX_SIZE 48
void hf__zk_prefix(int layout, const hf_id *id, char prefix[HF__ZK_PREFIX_SIZE]);

/* The claim's id that a contender's name carries; of a foreign form: made from the number. */
void hf__zk_member_id(const hf__zk_member *member, hf_id *id);

#endif
