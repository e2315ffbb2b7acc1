/* growth_test.c - the lines of code that keep more with each step of a recording. */
/* labels: unit */
#include <string.h>

#include "bench/import/growth.h"
#include "tests/support/suite.h"

enum { FORWARD, LOSS, OTHER, ADAM, ONLY_TORCH, N_STACKS, MOST = 1 << 16, MIB = 1 << 20 };

static char *stacks[N_STACKS] = {
    [FORWARD] = "/x/torch/nn/modules/linear.py:134 forward\n/home/me/nano/model.py:31 forward\n"
                "/home/me/nano/train.py:40 <module>",
    [LOSS] = "/x/torch/nn/functional.py:3 mse\n/home/me/nano/train.py:41 <module>",
    [OTHER] = "/x/torch/functional.py:9 other\n/home/me/nano/model.py:31 forward", /* as FORWARD */
    [ADAM] = "/x/torch/optim/adamw.py:220 step\n/x/torch/optim/optimizer.py:493 wrapper\n"
             "/home/me/nano/train.py:24 step",
    [ONLY_TORCH] = "/x/torch/cuda/graphs.py:7 make",
};

static bench_snapshot_entry entries[MOST];
static bench_snapshot recorded = { .entries = entries, .stacks = stacks, .n_stacks = N_STACKS };
static bench_steps steps;
static uint64_t next_address;
static char told[BENCH_GROWTH_BYTES];

static void begin(void)
{
    recorded.n_entries = 0;
    next_address = 1 << 20;
    steps = (bench_steps){ .n_steps = 0 };
}

static void put(bench_snapshot_action action, uint64_t address, uint64_t bytes, unsigned stack)
{
    ck_assert_uint_lt(recorded.n_entries, MOST);
    entries[recorded.n_entries++] = (bench_snapshot_entry){
        .address = address, .bytes = bytes, .stack = stack, .action = (uint8_t)action
    };
}

static uint64_t keep(unsigned stack, uint64_t bytes)
{
    uint64_t address = next_address;
    next_address += bytes + 512;
    put(BENCH_SNAPSHOT_ALLOC, address, bytes, stack + 1);
    return address;
}

static void drop(uint64_t address, uint64_t bytes)
{
    put(BENCH_SNAPSHOT_FREE_REQUESTED, address, bytes, 0);
    put(BENCH_SNAPSHOT_FREE_COMPLETED, address, bytes, 0);
}

static void use(unsigned stack, uint64_t bytes)
{
    drop(keep(stack, bytes), bytes);
}

static const char *look(void)
{
    bench_growth_look(&recorded, &steps, told);
    return told;
}

/* Steps that need `bytes` of activations; the last n_kept keep the loss. */
static void train(unsigned n, unsigned n_kept)
{
    for (unsigned i = 0; i < n; i++) {
        use(FORWARD, 48 * MIB);
        if (i + n_kept >= n) {
            (void)keep(LOSS, 512);
        } else {
            use(LOSS, 512);
        }
        use(ADAM, MIB);
    }
    use(FORWARD, MIB);
}

START_TEST(a_line_that_keeps_more_with_each_step_is_told)
{
    begin();
    train(6, 6);
    ck_assert_str_eq(look(), "by 1 block, 0.5 KiB a step, from nano/train.py:41 <module>");
    begin();
    train(12, 9); /* from the fourth one on */
    ck_assert_str_eq(look(), "by 1 block, 0.5 KiB a step, from nano/train.py:41 <module>");
}
END_TEST

START_TEST(what_does_not_grow_is_not_told)
{
    begin();
    train(40, 0);
    ck_assert_str_eq(look(), "");
    begin();
    ck_assert_str_eq(look(), "");
    begin();
    train(3, 3); /* too few */
    ck_assert_str_eq(look(), "");
    begin();
    train(12, 7); /* in fewer than three quarters of the steps */
    ck_assert_str_eq(look(), "");
    begin();
    train(6, 6);
    use(ADAM, MIB); /* and one that keeps nothing */
    ck_assert_str_eq(look(), "");
}
END_TEST

/* What the first step makes, and a queue that fills, stay. */
START_TEST(what_comes_once_and_stays_is_not_told)
{
    begin();
    for (unsigned i = 0; i < 12; i++) {
        use(FORWARD, 8 * MIB);
        (void)keep(i == 0 ? ADAM : i < 5 ? LOSS : FORWARD, MIB);
        if (i >= 5) {
            drop(next_address - MIB - 512, MIB);
        }
        use(ADAM, MIB);
    }
    ck_assert_str_eq(look(), "");
}
END_TEST

START_TEST(stacks_of_one_line_count_together_and_the_most_bytes_come_first)
{
    begin();
    for (unsigned i = 0; i < 8; i++) {
        (void)keep(FORWARD, 5 * MIB);
        (void)keep(OTHER, 6 * MIB);
        (void)keep(OTHER, MIB);
        (void)keep(LOSS, 512);
        if (i % 2) {
            (void)keep(LOSS, 512);
        }
        (void)keep(ONLY_TORCH, 2 * MIB);
        use(ADAM, MIB);
    }
    ck_assert_str_eq(look(), "by 3 blocks, 12.0 MiB a step, from nano/model.py:31 forward; "
                             "1 block, 2.0 MiB a step, from cuda/graphs.py:7 make; "
                             "1.6 blocks, 0.8 KiB a step, from nano/train.py:41 <module>");
}
END_TEST

START_TEST(without_an_optimizer_a_rise_of_live_memory_tells_the_steps)
{
    begin();
    for (unsigned i = 0; i < 10; i++) {
        use(FORWARD, (40 + i % 3) * MIB);
        (void)keep(LOSS, 2 * MIB);
    }
    ck_assert_str_eq(look(), ""); /* the layers of a step look the same */
    steps = (bench_steps){ .n_steps = 10, .rise_bytes = 2 * MIB, .depth_bytes = 20 * MIB };
    ck_assert_str_eq(look(), "by 1 block, 2.0 MiB a step, from nano/train.py:41 <module>");
}
END_TEST

START_TEST(without_stacks_nothing_is_told)
{
    begin();
    for (unsigned i = 0; i < 10; i++) {
        put(BENCH_SNAPSHOT_ALLOC, keep(FORWARD, 40 * MIB) + 1, MIB, 0);
        drop(next_address - 40 * MIB - 512, 40 * MIB);
        use(ADAM, MIB);
    }
    ck_assert_str_eq(look(), "");
    recorded.n_stacks = 0;
    for (size_t i = 0; i < recorded.n_entries; i++) {
        entries[i].stack = 0;
    }
    ck_assert_str_eq(look(), "");
    recorded.n_stacks = N_STACKS;
}
END_TEST

/* Steps of drawn lengths, whose blocks of the last step live on; some programs leak, too. */
START_TEST(drawn_steps_grow_where_they_leak_and_nowhere_else)
{
    unsigned seed = (unsigned)_i;
    bool leaks = _i % 2;
    uint64_t last[32][2];
    unsigned n_last = 0;
    begin();
    for (unsigned i = 0; i < 20; i++) {
        for (unsigned k = 0; k < n_last; k++) {
            drop(last[k][0], last[k][1]);
        }
        n_last = 0;
        for (unsigned k = 0; k < 8 + seed % 20; k++) {
            seed = seed * 1664525 + 1013904223;
            uint64_t bytes = 512 + (seed >> 12);
            uint64_t ptr = keep(seed >> 8 & 1 ? FORWARD : OTHER, bytes);
            if (seed >> 9 & 1) {
                drop(ptr, bytes);
            } else if (n_last < 32) {
                last[n_last][0] = ptr;
                last[n_last++][1] = bytes;
            } else {
                drop(ptr, bytes);
            }
        }
        if (leaks) {
            (void)keep(LOSS, 512);
        }
        use(ADAM, MIB);
    }
    ck_assert_str_eq(look(),
                     leaks ? "by 1 block, 0.5 KiB a step, from nano/train.py:41 <module>" : "");
}
END_TEST

SUITE(bench_growth)
{
    TCase *all = suite_case(suite, "all", NULL, NULL);
    tcase_add_test(all, a_line_that_keeps_more_with_each_step_is_told);
    tcase_add_test(all, what_does_not_grow_is_not_told);
    tcase_add_test(all, what_comes_once_and_stays_is_not_told);
    tcase_add_test(all, stacks_of_one_line_count_together_and_the_most_bytes_come_first);
    tcase_add_test(all, without_an_optimizer_a_rise_of_live_memory_tells_the_steps);
    tcase_add_test(all, without_stacks_nothing_is_told);
    tcase_add_loop_test(all, drawn_steps_grow_where_they_leak_and_nowhere_else, 0, 60);
}
