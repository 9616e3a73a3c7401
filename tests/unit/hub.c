/* SPDX-License-Identifier: MIT */
/* News by name and by claim: who is told, and who is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/id.h"
#include "core/hub.h"

static unsigned woken;

static void wake(hf__sleeper *sleeper)
{
    (void)sleeper;
    woken++;
}

static void join(hf__hub *hub, hf__sleeper *sleeper, hf_claim *claim, const char *name)
{
    memset(claim, 0, sizeof *claim);
    memset(sleeper, 0, sizeof *sleeper);
    assert_true(hf__id_random(&claim->id));
    claim->name = name;
    claim->name_len = strlen(name);
    sleeper->wake = wake;
    assert_true(hf__hub_join(hub, sleeper, claim));
}

static void news_reaches_those_concerned(void **state)
{
    hf__hub     hub = {0};
    hf__sleeper s[3];
    hf_claim    c[3], stranger;

    (void)state;
    join(&hub, &s[0], &c[0], "a");
    join(&hub, &s[1], &c[1], "a");
    join(&hub, &s[2], &c[2], "b");
    woken = 0;
    hf__hub_post(&hub, "a", 1);
    assert_int_equal(woken, 2);
    assert_int_equal(s[0].count + s[1].count, 2);
    assert_int_equal(s[2].count, 0);
    hf__hub_post(&hub, NULL, 0);
    assert_int_equal(woken, 5);
    assert_true(hf__hub_post_claim(&hub, &c[1].id));
    assert_int_equal(s[1].count, 3);
    assert_int_equal(s[0].count, 2);
    hf__id_random(&stranger.id);
    assert_false(hf__hub_post_claim(&hub, &stranger.id));
    hf__hub_post(&hub, "nobody", 6);
    assert_int_equal(woken, 6);
    assert_int_equal(hub.taken, 5);
    for (int i = 0; i < 3; i++)
        hf__hub_leave(&hub, &s[i]);
    hf__hub_leave(&hub, &s[0]); /* not in it: allowed */
    assert_null(hub.topics);
    assert_null(hub.claims);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(news_reaches_those_concerned)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
