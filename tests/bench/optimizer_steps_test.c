/* optimizer_steps_test.c - the steps of the optimizer, counted by the stacks of allocations. */
/* labels: unit */
#include <string.h>

#include "bench/import/optimizer_steps.h"
#include "tests/support/suite.h"

enum { FORWARD, ADAM, DERIVED, OWN, ZERO, CLIP, NONE, N_STACKS = NONE };

static char *stacks[N_STACKS] = {
    [FORWARD] = "model.py:10 forward\ntrain.py:20 step\ntrain.py:40 <module>",
    [ADAM] = "/lib/torch/optim/adamw.py:220 step\n/lib/torch/optim/optimizer.py:493 wrapper\n"
             "train.py:24 step",
    [DERIVED] = "lion.py:30 update\noptimizer.py:385 wrapper\ntrain.py:24 step",
    [OWN] = "my_optimizers.py:9 step\ntrain.py:24 step",
    [ZERO] = "optimizer.py:800 zero_grad\ntrain.py:19 step",
    [CLIP] = "utils/clip_grad.py:20 wrapper\ntrain.py:23 step",
};

/* An allocation for each letter: the stack; '.' has none, '-' is a free inside the optimizer. */
static uint64_t count(const char *text)
{
    bench_snapshot_entry entries[64] = { { .stack = 0 } };
    bench_snapshot snapshot = { .entries = entries, .stacks = stacks, .n_stacks = N_STACKS };
    for (const char *c = text; *c; c++) {
        static const char letters[] = "FADOZC";
        bench_snapshot_entry *entry = &entries[snapshot.n_entries++];
        entry->action = *c == '-' ? BENCH_SNAPSHOT_FREE_REQUESTED : BENCH_SNAPSHOT_ALLOC;
        entry->stack = *c == '.'   ? 0
                       : *c == '-' ? ADAM + 1
                                   : (uint32_t)(strchr(letters, *c) - letters) + 1;
    }
    return bench_optimizer_steps(&snapshot);
}

START_TEST(a_sequence_inside_the_optimizer_is_a_step)
{
    ck_assert_uint_eq(count("FFAAFFFAAAFA"), 3);
    ck_assert_uint_eq(count("FFFFAAFFFFAA"), 2); /* two micro-steps each */
    ck_assert_uint_eq(count("FDFDFDFD"), 4);     /* a class derived from torch's, base names only */
    ck_assert_uint_eq(count("FOFOF"), 2);
    ck_assert_uint_eq(count("FA.AFA"), 2); /* what has no stack divides nothing */
    ck_assert_uint_eq(count("FA-FA-F-"), 2);
}
END_TEST

START_TEST(what_is_no_step_of_an_optimizer_is_not_counted)
{
    ck_assert_uint_eq(count(""), 0);
    ck_assert_uint_eq(count("...."), 0);
    ck_assert_uint_eq(count("FFFF"), 0);
    ck_assert_uint_eq(count("ZFCZFCZFC"), 0);
    ck_assert_uint_eq(count("F-F-F-"), 0);
    ck_assert_uint_eq(count("FAFFFF"), 0); /* it may allocate in its first step only */
}
END_TEST

SUITE(bench_optimizer_steps)
{
    TCase *all = suite_case(suite, "all", NULL, NULL);
    tcase_add_test(all, a_sequence_inside_the_optimizer_is_a_step);
    tcase_add_test(all, what_is_no_step_of_an_optimizer_is_not_counted);
}
