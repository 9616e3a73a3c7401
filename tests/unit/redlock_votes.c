/* SPDX-License-Identifier: MIT */
/*
 * What the answers of several servers mean together: every combination of answers of three, four and five servers, held
 * against what must be true of each, and against what must be true of two claims at once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "stores/redlock/votes.h"

static size_t count_of(const uint8_t *votes, size_t servers, uint8_t vote)
{
    size_t count = 0;

    for (size_t i = 0; i < servers; i++)
        count += votes[i] == vote;
    return count;
}

static bool next(uint8_t *votes, size_t servers)
{
    for (size_t i = 0; i < servers; i++) {
        if (++votes[i] < HF__VOTES)
            return true;
        votes[i] = 0;
    }
    return false;
}

static void check_ruling(const uint8_t *votes, size_t servers)
{
    enum hf__ruling ruling = hf__votes_rule(votes, servers);
    size_t          majority = servers / 2 + 1;
    size_t          granted = count_of(votes, servers, HF__VOTE_GRANTED);
    size_t pending = count_of(votes, servers, HF__VOTE_PENDING), late = count_of(votes, servers, HF__VOTE_LATE);
    size_t skipped = count_of(votes, servers, HF__VOTE_SKIPPED);
    size_t refused = count_of(votes, servers, HF__VOTE_REFUSED);
    size_t conflict = count_of(votes, servers, HF__VOTE_CONFLICT);

    assert_int_equal(ruling == HF__RULING_GRANTED, granted >= majority);
    if (ruling == HF__RULING_WAIT) /* somebody may answer */
        assert_true(pending + late > 0);
    if (ruling == HF__RULING_MORE)
        assert_true(skipped > 0 && granted + late < majority && granted + late + skipped >= majority);
    if (ruling > HF__RULING_GRANTED) { /* it is over: nobody that is left could make it a grant */
        assert_int_equal(pending, 0);
        assert_true(granted + late + skipped < majority);
    }
    if (ruling == HF__RULING_REFUSED)
        assert_true(refused > 0 && granted + refused + conflict >= majority);
    if (ruling == HF__RULING_CONFLICT)
        assert_true(conflict > 0);
    if (ruling == HF__RULING_SHORT)
        assert_true(granted + refused + conflict < majority);
}

static void every_combination_of_answers(void **state)
{
    (void)state;
    for (size_t servers = 3; servers <= 5; servers++) {
        uint8_t votes[5] = {0};
        size_t  seen = 0;
        do {
            check_ruling(votes, servers);
            seen++;
        } while (next(votes, servers));
        assert_true(seen > 500);
    }
}

/* Each server grants one of two claims at most: never are both granted, whatever the others say. */
static void two_claims_are_never_both_granted(void **state)
{
    (void)state;
    for (size_t servers = 3; servers <= 7; servers++)
        for (unsigned mine = 0; mine < 1u << servers; mine++) {
            uint8_t a[7], b[7];
            for (size_t i = 0; i < servers; i++) {
                a[i] = mine & 1u << i ? HF__VOTE_GRANTED : HF__VOTE_REFUSED;
                b[i] = mine & 1u << i ? HF__VOTE_REFUSED : HF__VOTE_GRANTED;
            }
            assert_false(hf__votes_rule(a, servers) == HF__RULING_GRANTED &&
                         hf__votes_rule(b, servers) == HF__RULING_GRANTED);
        }
}

static void found_by_a_release(void **state)
{
    (void)state;
    for (size_t servers = 3; servers <= 7; servers++)
        for (size_t found = 0; found <= servers; found++)
            for (size_t absent = 0; found + absent <= servers; absent++)
                for (size_t pending = 0; found + absent + pending <= servers; pending++) {
                    int answer = hf__votes_found(servers, found, absent, pending);
                    if (answer == 1) /* it may have been held: those that have it and those that do not say */
                        assert_true(servers - absent >= servers / 2 + 1);
                    if (answer == 0)
                        assert_true(servers - absent < servers / 2 + 1);
                    if (answer < 0)
                        assert_true(pending > 0);
                }
}

static void values_of_a_majority(void **state)
{
    (void)state;
    int64_t leases[] = {9, 3, 7, 5, 1}, few[] = {9, 8}, times[] = {5, 1, 4, 2, 3};

    assert_int_equal(hf__votes_common(leases, 5, 5), 5); /* three have 5 at least */
    assert_int_equal(hf__votes_common(few, 2, 5), 0);
    assert_int_equal(hf__votes_soonest(times, 5, 5), 3); /* by then three are over */
    assert_true(hf__votes_soonest(few, 2, 5) == INT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_combination_of_answers),
        cmocka_unit_test(two_claims_are_never_both_granted),
        cmocka_unit_test(found_by_a_release),
        cmocka_unit_test(values_of_a_majority),
    };
    return cmocka_run_group_tests_name("votes of several servers", tests, NULL, NULL);
}
