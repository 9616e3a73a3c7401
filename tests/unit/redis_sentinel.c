/* SPDX-License-Identifier: MIT */
/* Whose word is taken, of several Sentinels. In the tables "a7" is: it names server a, made the master by switch 7. */
#include "stores/redis/sentinel_vote.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WORDS 8

/* "a7": as above; "-": it says nothing; "+a7": it is not of the URL. */
static hf__sentinel_word word(const char *text)
{
    hf__sentinel_word w = {.spare = text[0] == '+'};

    text += w.spare;
    if (text[0] == '-')
        return w;
    w.said = true;
    w.epoch = atoi(text + 1);
    snprintf(w.host, sizeof w.host, "%c", text[0]);
    snprintf(w.port, sizeof w.port, "6379");
    return w;
}

/* Words are parted by blanks. What is taken: "a7", or "stay". */
static void expect(const char *words, const char *now, bool patient, const char *taken)
{
    hf__sentinel_word list[WORDS], before = word(now);
    char              text[100], seen[300] = "stay", *rest = text, *one;
    size_t            count = 0;

    snprintf(text, sizeof text, "%s", words);
    while ((one = strsep(&rest, " ")) != NULL)
        list[count++] = word(one);
    int which = hf__sentinel_vote(list, count, &before, patient);
    assert_in_range(which + 1, 0, count);
    if (which >= 0)
        snprintf(seen, sizeof seen, "%s%d", list[which].host, (int)list[which].epoch);
    if (strcmp(seen, taken) != 0)
        fail_msg("%s after %s, %spatient: %s, not %s", words, now, patient ? "" : "not ", seen, taken);
}

static void test_a_majority_is_taken(void **state)
{
    (void)state;
    expect("a0 a0 a0", "-", true, "a0");
    expect("a0 a0 -", "-", true, "a0");
    expect("a0", "-", true, "a0");
    expect("b1 b1 a0", "a0", true, "b1");
    expect("a0 b1 b1", "a0", true, "b1");
    expect("b2 b1 a0", "a1", true, "b2"); /* the newest of those that agree */
    expect("x0 a0 a0", "-", true, "a0");  /* one that watches over another server */
    expect("x9 a1 a1", "a1", false, "a1");
}

static void test_without_a_majority_it_is_waited_for(void **state)
{
    (void)state;
    expect("b1 a0 -", "a0", true, "stay"); /* who leads the switch knows first */
    expect("b1 a0 -", "a0", false, "b1");
    expect("- - a0", "-", true, "stay");
    expect("- - a0", "-", false, "a0");
    expect("- - -", "-", false, "stay");
    expect("- - -", "a3", false, "stay");
    expect("a1 b1", "-", false, "a1");
}

/* An old master that comes back before it was made a replica. */
static void test_nobody_goes_back(void **state)
{
    (void)state;
    expect("a0 - -", "b1", false, "stay");
    expect("a0 - -", "b0", false, "stay"); /* as old, and another one: who is to say? */
    expect("a0 a0 b1", "b1", false, "stay");
    expect("a0 a0 b1", "b1", true, "stay");
    expect("b1 a0 -", "b1", false, "b1");
    expect("a2 - -", "b1", false, "a2"); /* switched back */
}

/* Set up anew by hand, from switch 0: all that can be asked agree, and they are a majority. */
static void test_a_new_beginning(void **state)
{
    (void)state;
    expect("c0 c0 c0", "b7", false, "c0");
    expect("c0 c0 -", "b7", false, "c0");
    expect("c0 - -", "b7", false, "stay");
}

/* Those that the URL does not name help where a majority of the others cannot be asked, and outvote nobody. */
static void test_spares(void **state)
{
    (void)state;
    expect("a0 a0 - +x9 +x9 +x9", "a0", false, "a0");
    expect("- - - +b1 +b1", "a0", false, "b1");
    expect("a0 - - +b1 +b1", "a0", false, "b1");
    expect("- - - +a0", "b1", false, "stay");
    expect("a1 - - +b1 +b1", "-", false, "b1");
}

/* Whatever is said: what is taken was said, and is older than what was taken before only where all agree. */
static void test_any_words(void **state)
{
    unsigned seed = 1;

    (void)state;
    for (int round = 0; round < 200000; round++) {
        hf__sentinel_word list[WORDS], now = {.said = false};
        size_t            count = 1 + (size_t)rand_r(&seed) % WORDS;
        bool              alike = true, patient = rand_r(&seed) % 2;
        for (size_t i = 0; i < count; i++) {
            list[i] = (hf__sentinel_word){.said = rand_r(&seed) % 4 != 0, .epoch = rand_r(&seed) % 4, .port = "1"};
            list[i].spare = i > 0 && rand_r(&seed) % 4 == 0;
            list[i].host[0] = (char)('a' + rand_r(&seed) % 3);
        }
        if (rand_r(&seed) % 2)
            now = (hf__sentinel_word){.said = true, .epoch = rand_r(&seed) % 4, .host = "a", .port = "1"};
        int which = hf__sentinel_vote(list, count, &now, patient);
        if (which < 0)
            continue;
        assert_true(list[which].said);
        for (size_t i = 0; i < count; i++)
            alike = alike && (!list[i].said || list[i].spare || hf__sentinel_same(&list[i], &list[which]));
        if (now.said && list[which].epoch < now.epoch)
            assert_true(alike && hf__sentinel_voices(list, count) >= hf__sentinel_majority(list, count));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_majority_is_taken),
        cmocka_unit_test(test_without_a_majority_it_is_waited_for),
        cmocka_unit_test(test_nobody_goes_back),
        cmocka_unit_test(test_a_new_beginning),
        cmocka_unit_test(test_spares),
        cmocka_unit_test(test_any_words),
    };

    return cmocka_run_group_tests_name("redis-sentinel-vote", tests, NULL, NULL);
}
