/* SPDX-License-Identifier: MIT */
/* hf_all where its members overlap: with what the owner has already, with one another, and when the set goes. */
#include "suite.h"

static hf_lock *must_all(hf_lock *const members[], size_t count)
{
    hf_lock *lock;
    hf_error err;
    int      status = hf_all(&lock, members, count, NULL, &err);

    assert_status_err(HF_OK, status, &err);
    return lock;
}

/* A member that the owner has already is taken once more, and stays when the set goes. */
static void a_member_that_one_has_is_re_entered(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *members[2] = {must_mutex(client, "have/1", NULL), must_mutex(client, "have/2", NULL)};
    hf_lock   *all = must_all(members, 2);

    hf_grant grant = must_acquire(members[1], HF_NOWAIT);
    must_acquire(all, HF_NOWAIT);
    must_hold(client, NULL, 2, 0);
    must_release(all);
    must_hold(client, NULL, 1, 0);
    assert_true(hf_fence(members[1]) == grant.fence);
    must_release(members[1]);
    must_acquire(all, HF_NOWAIT); /* the set itself, twice */
    must_acquire(all, HF_NOWAIT);
    must_release(all);
    assert_true(hf_left(all) > 0);
    must_release(all);
    must_hold(client, NULL, 0, 0);
    hf_free(all);
    hf_free(members[0]);
    hf_free(members[1]);
    must_close(client);
}

/* A set that could never be had does not wait for itself for ever. */
static void a_set_that_excludes_itself_is_answered(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *reader = must_reader(client, "self", NULL), *writer = must_writer(client, "self", NULL);
    hf_lock   *permit = must_semaphore(client, "self/permit", 1, NULL), *all;

    all = must_all((hf_lock *[]){reader, writer}, 2);
    assert_status(HF_WOULD_DEADLOCK, hf_acquire(all, 1000, NULL, NULL));
    must_come_to(client, NULL, 0, 0);
    hf_free(all);
    if (hf_all(&all, (hf_lock *[]){permit, permit}, 2, NULL, NULL) == HF_OK) {
        int64_t from_us = now_us();
        int     status = hf_acquire(all, 300, NULL, NULL);
        assert_true(status == HF_BUSY || status == HF_WOULD_DEADLOCK || status == HF_EINVALID);
        assert_true(now_us() - from_us < 3000000);
        hf_free(all);
    }
    must_come_to(client, NULL, 0, 0);
    hf_free(reader);
    hf_free(writer);
    hf_free(permit);
    must_close(client);
}

static void freeing_a_set_releases_its_members(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *members[2] = {must_mutex(client, "freed/1", NULL), must_mutex(client, "freed/2", NULL)};
    hf_lock   *all = must_all(members, 2);

    must_acquire(members[0], HF_NOWAIT); /* a level of its own, which stays */
    must_acquire(all, HF_NOWAIT);
    must_acquire(all, HF_NOWAIT);
    hf_free(all);
    assert_true(hf_left(members[0]) > 0);
    assert_int_equal(hf_left(members[1]), 0);
    must_hold(client, NULL, 1, 0);
    must_release(members[0]);
    assert_status(HF_NOT_OWNER, hf_release(members[0], NULL));
    must_hold(client, NULL, 0, 0);
    all = must_all(members, 2); /* what was released is not released once more */
    must_acquire(all, HF_NOWAIT);
    must_release(all);
    must_acquire(members[0], HF_NOWAIT);
    hf_free(all);
    must_hold(client, NULL, 1, 0);
    must_release(members[0]);
    hf_free(members[0]);
    hf_free(members[1]);
    must_close(client);
}

static void a_member_that_would_wait_for_itself_is_refused(void **state)
{
    (void)state;
    hf_client *client = must_open();
    hf_lock   *handle = must_mutex(client, "twice/1", HF_OPTIONS(.owner = HF_OWNER_HANDLE));
    hf_lock   *permit = must_semaphore(client, "twice/2", 5, NULL), *mine = must_mutex(client, "twice/3", NULL), *all;

    assert_status(HF_EINVALID, hf_all(&all, (hf_lock *[]){handle, mine, handle}, 3, NULL, NULL));
    assert_null(all);
    assert_status(HF_EINVALID, hf_all(&all, (hf_lock *[]){permit, permit}, 2, NULL, NULL));
    all = must_all((hf_lock *[]){mine, handle, mine}, 3); /* a thread takes its own once more */
    must_acquire(all, HF_NOWAIT);
    must_release(all);
    must_hold(client, NULL, 0, 0);
    hf_free(all);
    hf_free(handle);
    hf_free(permit);
    hf_free(mine);
    must_close(client);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_member_that_one_has_is_re_entered),
    cmocka_unit_test(a_set_that_excludes_itself_is_answered),
    cmocka_unit_test(freeing_a_set_releases_its_members),
    cmocka_unit_test(a_member_that_would_wait_for_itself_is_refused),
};
API_GROUP(group_sets, "sets", tests);
