/* SPDX-License-Identifier: MIT */
/* See walk.h. */
#include "stores/zookeeper/walk.h"

#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "stores/zookeeper/path.h"

#define AT_ONCE 128 /* calls in one batch */

static hf__zk_step listed, fetched;

static void walk_free(void *state)
{
    hf__zk_walk *walk = state;

    for (size_t i = 0; i < walk->todo_count; i++)
        free(walk->todo[i]);
    for (size_t i = 0; i < walk->found_count; i++) {
        free(walk->found[i].path);
        free(walk->found[i].dir);
    }
    free(walk->todo);
    free(walk->found);
    free(walk->entries);
    free(walk);
}

/* Takes the path over. */
static bool add_todo(hf__zk_walk *walk, char *path)
{
    if (path == NULL)
        return false;
    if (walk->todo_count == walk->todo_room) {
        size_t room = walk->todo_room > 0 ? 2 * walk->todo_room : 16;
        char **more = realloc(walk->todo, room * sizeof *more);
        if (more == NULL) {
            free(path);
            return false;
        }
        walk->todo = more;
        walk->todo_room = room;
    }
    walk->todo[walk->todo_count++] = path;
    return true;
}

static hf__zk_found *add_found(hf__zk_walk *walk)
{
    if (walk->found_count == walk->found_room) {
        size_t        room = walk->found_room > 0 ? 2 * walk->found_room : 16;
        hf__zk_found *more = realloc(walk->found, room * sizeof *more);
        if (more == NULL)
            return NULL;
        walk->found = more;
        walk->found_room = room;
    }
    memset(&walk->found[walk->found_count], 0, sizeof *walk->found);
    return &walk->found[walk->found_count++];
}

static void list_more(hf__zk_op *op)
{
    hf__zk_walk *walk = op->state;
    size_t       count = walk->todo_count - walk->next;

    walk->asked = count < AT_ONCE ? count : AT_ONCE;
    if (!hf__zk_batch(op, walk->asked, listed))
        return;
    for (size_t i = 0; i < walk->asked; i++)
        hf__zk_children(op, walk->todo[walk->next + i], NULL);
    hf__zk_batch_sent(op);
}

static void start_at(hf__zk_op *op, hf__zk_walk *walk)
{
    const char *root = op->zk->config.root;
    char       *path;

    walk->everything = op->request->name == NULL;
    if (walk->everything)
        path = strdup(root[0] != '\0' ? root : "/");
    else
        path = hf__zk_path(root, op->request->name, op->request->name_len);
    if (!add_todo(walk, path))
        hf__zk_op_fail(op, HF_EEXHAUSTED, "out of memory for a listing");
    else
        list_more(op);
}

void hf__zk_walk_start(hf__zk_op *op, hf__zk_step *then)
{
    hf__zk_walk *walk;

    if (op->request == NULL) {
        hf__zk_op_done(op);
        return;
    }
    walk = calloc(1, sizeof *walk);
    if (walk == NULL) {
        hf__zk_op_fail(op, HF_EEXHAUSTED, "out of memory for a listing");
        return;
    }
    walk->then = then;
    op->state = walk;
    op->free_state = walk_free;
    start_at(op, walk);
}

static bool ends_in(const char *dir, const char *child)
{
    return strcmp(hf__zk_child_of(dir), child) == 0;
}

/* "/name/leases" -> "/name" */
static char *without_last(const char *dir)
{
    return strndup(dir, (size_t)(strrchr(dir, '/') - dir));
}

static char *child_path(const char *dir, const char *child)
{
    return hf__zk_join(strcmp(dir, "/") == 0 ? "" : dir, child);
}

/* A queue's folder is one where the name's permits have one too; else "locks" is the end of a name. */
static bool is_of_semaphore(const hf__zk_walk *walk, const char *dir)
{
    char *beside;
    bool  is = false;

    if (ends_in(dir, "leases"))
        return true;
    if (!ends_in(dir, "locks"))
        return false;
    beside = without_last(dir);
    for (size_t i = 0; beside != NULL && i < walk->todo_count && !is; i++)
        is = strncmp(walk->todo[i], beside, strlen(beside)) == 0 &&
             strcmp(walk->todo[i] + strlen(beside), "/leases") == 0;
    free(beside);
    return is;
}

static bool take_member(hf__zk_walk *walk, const char *dir, const hf__zk_member *member)
{
    bool          semaphore = is_of_semaphore(walk, dir);
    hf__zk_found *found = add_found(walk);

    if (found == NULL)
        return false;
    found->path = child_path(dir, member->name);
    found->dir = semaphore ? without_last(dir) : strdup(dir);
    found->role = semaphore ? HF__ZK_PERMIT : member->role;
    found->queued = semaphore && ends_in(dir, "locks");
    found->number = member->number;
    hf__zk_member_id(member, &found->id);
    if (found->path == NULL || found->dir == NULL)
        return false;
    found->child = hf__zk_child_of(found->path);
    return true;
}

/* Below a single name only the folders of its semaphore are its own; all others are other names. */
static bool is_to_visit(const hf__zk_op *op, const hf__zk_walk *walk, size_t depth, const char *dir, const char *child)
{
    if (!walk->everything)
        return depth == 0 && (strcmp(child, "leases") == 0 || strcmp(child, "locks") == 0);
    return !(strcmp(dir, "/") == 0 && op->zk->config.root[0] == '\0' && strcmp(child, "zookeeper") == 0);
}

static bool take_children(hf__zk_op *op, hf__zk_walk *walk, size_t at, const hf__zk_call *call)
{
    const char   *dir = walk->todo[at];
    hf__zk_member member;
    bool          whole = true;

    for (size_t i = 0; whole && i < call->count; i++) {
        if (hf__zk_parse(&op->zk->config.rules, call->names[i], &member))
            whole = take_member(walk, dir, &member);
        else if (is_to_visit(op, walk, at, dir, call->names[i]))
            whole = add_todo(walk, child_path(dir, call->names[i]));
        dir = walk->todo[at];
    }
    return whole;
}

static void fetch_more(hf__zk_op *op)
{
    hf__zk_walk *walk = op->state;
    size_t       count = walk->found_count - walk->fetched;

    walk->asked = count < AT_ONCE ? count : AT_ONCE;
    if (!hf__zk_batch(op, walk->asked, fetched))
        return;
    for (size_t i = 0; i < walk->asked; i++)
        hf__zk_get(op, walk->found[walk->fetched + i].path, NULL);
    hf__zk_batch_sent(op);
}

static void listed(hf__zk_op *op)
{
    hf__zk_walk *walk = op->state;
    int          rc = hf__zk_batch_rc(op);
    bool         whole = true;

    /* Of all names those are left out that one may not read; but the first folder is all there is. */
    if (hf__zk_is_lost(rc) || (rc != ZOK && (!walk->everything || walk->next == 0))) {
        hf__zk_op_fail_rc(op, rc);
        return;
    }
    for (size_t i = 0; whole && i < walk->asked; i++)
        whole = take_children(op, walk, walk->next + i, &op->calls[i]);
    walk->next += walk->asked;
    if (!whole)
        hf__zk_op_fail(op, HF_EEXHAUSTED, "out of memory for a listing");
    else if (walk->next < walk->todo_count)
        list_more(op);
    else
        fetch_more(op);
}

/* By name; then who holds permits; then the queue. */
static int compare(const void *a, const void *b)
{
    const hf__zk_found *x = a, *y = b;
    int                 order = strcmp(x->dir, y->dir);

    if (order != 0)
        return order;
    if (x->queued != y->queued)
        return x->queued ? 1 : -1;
    if (x->role == HF__ZK_PERMIT && !x->queued && memcmp(&x->id, &y->id, sizeof x->id) != 0)
        return x->number < y->number ? -1 : 1;
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    return x->role == HF__ZK_WRITER ? -1 : y->role == HF__ZK_WRITER ? 1 : strcmp(x->child, y->child);
}

static int compare_entries(const void *a, const void *b)
{
    const hf__zk_entry *x = a, *y = b;
    size_t              least = x->entry.name_len < y->entry.name_len ? x->entry.name_len : y->entry.name_len;
    int                 order = memcmp(x->name, y->name, least);

    if (order == 0)
        order = x->entry.name_len < y->entry.name_len ? -1 : x->entry.name_len > y->entry.name_len;
    return order != 0 ? order : x->first < y->first ? -1 : x->first > y->first;
}

static int kind_of(const hf__zk_found *found)
{
    if (found->role == HF__ZK_PERMIT)
        return HF_KIND_SEMAPHORE;
    return found->role == HF__ZK_READER || found->role == HF__ZK_WRITER ? HF_KIND_RW : HF_KIND_MUTEX;
}

static void fill(hf__zk *zk, hf__zk_entry *e, const hf__zk_found *found)
{
    const hf__zk_claim *own = hf__zk_claim_find(zk, &found->id);

    e->entry.kind = kind_of(found);
    e->entry.mode = found->role == HF__ZK_PERMIT   ? HF_MODE_COUNTED
                    : found->role == HF__ZK_READER ? HF_MODE_SHARED
                                                   : HF_MODE_EXCLUSIVE;
    e->entry.weight = found->queued && found->note.weight > 0 ? found->note.weight : 1;
    e->entry.limit = found->note.limit;
    e->entry.fence = found->czxid;
    e->entry.holder = found->note.holder;
    if (own != NULL) /* what its node says is of the time when it was made */
        e->entry.holder.left_ms = hf__zk_claim_left_ms(own);
    hf__id_hex(&found->id, e->entry.claim);
}

/* The permits of one claim are one entry. */
static bool belongs(const hf__zk_entry *e, const hf__zk_found *first, const hf__zk_found *found)
{
    return e != NULL && !found->queued && !first->queued && found->role == HF__ZK_PERMIT &&
           strcmp(first->dir, found->dir) == 0 && hf__id_equal(&first->id, &found->id);
}

static bool has_permits(const hf__zk_walk *walk, const hf__zk_found *queued)
{
    for (size_t i = 0; i < walk->found_count; i++) {
        const hf__zk_found *found = &walk->found[i];
        if (found->role == HF__ZK_PERMIT && !found->queued && found->there && hf__id_equal(&found->id, &queued->id) &&
            strcmp(found->dir, queued->dir) == 0)
            return true;
    }
    return false;
}

/* Who is in: all with permits, and of the queue those that fit; readers before a writer, or the first. */
static void place_all(hf__zk_walk *walk)
{
    int64_t used = 0, place = 0;
    bool    barred = false;

    for (size_t i = 0; i < walk->entry_count; i++) {
        hf__zk_entry       *e = &walk->entries[i];
        const hf__zk_found *found = &walk->found[e->first];
        bool                same = i > 0 && strcmp(walk->found[walk->entries[i - 1].first].dir, found->dir) == 0;
        if (!same) {
            used = place = 0;
            barred = false;
        }
        if (found->role == HF__ZK_PERMIT) {
            used += e->entry.weight;
            barred = barred || (found->queued && (e->entry.limit == 0 || used > e->entry.limit));
            e->entry.held = !found->queued || !barred;
        } else {
            e->entry.held = !barred && (!same || found->role == HF__ZK_READER);
            barred = barred || found->role != HF__ZK_READER || !e->entry.held;
        }
        e->entry.place = e->entry.held ? 0 : ++place;
    }
}

static void build(hf__zk_op *op, hf__zk_walk *walk)
{
    hf__zk_entry *e = NULL;

    for (size_t i = 0; i < walk->found_count; i++) {
        const hf__zk_found *found = &walk->found[i];
        if (!found->there || (found->queued && has_permits(walk, found)))
            continue;
        if (e != NULL && belongs(e, &walk->found[e->first], found) && e->first + e->count == i) {
            e->count++;
            e->entry.weight++;
            continue;
        }
        e = &walk->entries[walk->entry_count];
        e->first = i;
        e->count = 1;
        e->entry.name_len = hf__zk_name(op->zk->config.root, found->dir, e->name, sizeof e->name);
        fill(op->zk, e, found);
        walk->entry_count += e->entry.name_len > 0;
    }
    place_all(walk);
    qsort(walk->entries, walk->entry_count, sizeof *walk->entries, compare_entries);
    for (size_t i = 0; i < walk->entry_count; i++)
        walk->entries[i].entry.name = walk->entries[i].name;
}

static void fetched(hf__zk_op *op)
{
    hf__zk_walk *walk = op->state;
    int          rc = hf__zk_batch_rc(op);

    if (hf__zk_is_lost(rc)) {
        hf__zk_op_fail_rc(op, rc);
        return;
    }
    for (size_t i = 0; i < walk->asked; i++) {
        hf__zk_found      *found = &walk->found[walk->fetched + i];
        const hf__zk_call *call = &op->calls[i];
        found->there = call->rc != ZNONODE;
        found->czxid = call->stat.czxid;
        hf__zk_note_read(call->data, call->data_len, &found->note);
        if (found->note.holder.since_ms == 0)
            found->note.holder.since_ms = call->stat.ctime;
    }
    walk->fetched += walk->asked;
    if (walk->fetched < walk->found_count) {
        fetch_more(op);
        return;
    }
    if (walk->found_count > 0)
        qsort(walk->found, walk->found_count, sizeof *walk->found, compare);
    walk->entries = calloc(walk->found_count + 1, sizeof *walk->entries);
    if (walk->entries == NULL) {
        hf__zk_op_fail(op, HF_EEXHAUSTED, "out of memory for a listing");
        return;
    }
    build(op, walk);
    walk->then(op);
}
