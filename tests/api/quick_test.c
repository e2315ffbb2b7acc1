/* quick_test.c - the short path of the commonest requests and frees has the same effect as the
 * general path. The short path is off while requests are made larger. So each random sequence is
 * played twice, on fresh simulators, of sizes that the setting leaves as they are, and all answers
 * are compared. The general path also records a history. */
/* labels: unit model */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "segments/base/rounding.h"
#include "tests/support/api/api_sim.h"
#include "tests/support/segments/segments_random.h"
#include "tests/support/suite.h"

#define MIB ((size_t)1 << 20)

#if PLEAT_DEBUG_LEVEL >= 2
enum { N_STEPS = 600 };
#else
enum { N_STEPS = 6000 };
#endif
enum {
    N_PLACES = 80,
    N_STREAMS = 4,
    N_POOLS = 2,
    N_RUNS = 2,
    GROUP = 20,
    N_GROUPS = N_STEPS / GROUP
};

/* The answers of a run, step by step. */
typedef struct answers {
    pleat_devptr ptrs[N_STEPS];
    pleat_status statuses[N_STEPS];
    pleat_stats stats[N_GROUPS];
} answers;

static answers all[N_RUNS];

/* What a sequence may contain. */
typedef struct shape {
    const char *sim_conf;
    const char *conf;
    unsigned n_streams; /* 0 = the legacy stream alone */
    size_t most_bytes;
    bool has_work;
    bool has_pools;
    bool records;
    bool is_scarce; /* some requests fail */
} shape;

static const shape shapes[] = {
    { "capacity:64G", "", 0, 40 * MIB, false, false, false, false },
    { "capacity:4G", "", 0, 2 * MIB, true, true, false, false },
    { "capacity:4G", "stream_identity:handle,capture:told", 1, 40 * MIB, true, true, true, false },
    { "capacity:4G", "stream_identity:handle,capture:told", N_STREAMS, 40 * MIB, true, false, false,
      false },
    { "capacity:4G", "stream_identity:handle,capture:told", N_STREAMS, 4 * MIB, true, true, true,
      false },
    { "capacity:1G,depth:64", "", N_STREAMS, 4 * MIB, true, true, true, false },
    { "capacity:96M", "wait_ms:0", 0, 40 * MIB, false, false, false, true },
    { "capacity:256M", "stream_identity:handle,capture:told,wait_ms:1000", N_STREAMS, 40 * MIB,
      true, false, true, true },
};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0], N_SEEDS = 8 };

typedef struct place {
    pleat_devptr ptr;
    size_t bytes;
    unsigned owner;
} place;

typedef struct run {
    const shape *shape;
    pleat instance;
    random_source r;
    void *streams[N_STREAMS];
    place places[N_PLACES];
    bool is_routed[N_POOLS];
    bool was_begun[N_POOLS];
} run;

static unsigned draw_stream(run *x)
{
    return x->shape->n_streams > 1 ? (unsigned)random_below(&x->r, x->shape->n_streams) : 0;
}

static void work_on(run *x, const place *p, unsigned stream)
{
    pleat_sim_access access = { .ptr = p->ptr, .bytes = p->bytes, .is_write = true };
    if (x->shape->has_work) {
        ck_assert_int_eq(sim.work(x->streams[stream], &access, 1), 0);
    }
}

static pleat_status turn_pool(run *x)
{
    size_t i = random_below(&x->r, N_POOLS);
    pleat_pool_id id = { 1 + i, 1 };
    x->is_routed[i] = !x->is_routed[i];
    if (!x->is_routed[i]) {
        pleat_status st = pleat_pool_end(x->instance, 0, id);
        return st == PLEAT_OK ? pleat_pool_release(x->instance, 0, id) : st;
    }
    return pleat_pool_begin(x->instance, 0, id, NULL, NULL, NULL);
}

#define NO_SHORT_PATH ",roundup_power2_divisions:64"

static unsigned divisions[PL_N_DIVISIONS]; /* 64 each */

/* Few sizes come often, as in programs. All other sizes are equally likely by powers of two. */
static size_t draw_bytes(run *x)
{
    static const size_t sizes[] = { 512, 4096, 70000, 1 << 20, (2 << 20) + 512, 12 << 20 };
    size_t often = sizes[random_below(&x->r, sizeof sizes / sizeof sizes[0])];
    size_t any = 511 + random_spread(&x->r, x->shape->most_bytes - 511);
    size_t bytes = random_once_in(&x->r, 2) && often <= x->shape->most_bytes ? often : any;
    return pl_rounding_of(divisions, bytes);
}

static pleat_status step(run *x, pleat_devptr *ptr)
{
    place *p = &x->places[random_below(&x->r, N_PLACES)];
    unsigned by = draw_stream(x);
    size_t which = random_below(&x->r, 1000);
    if (which < 4) {
        uint64_t released = 0;
        pleat_status st = pleat_device_trim(x->instance, 0, which * 8 * MIB, which % 2, &released);
        *ptr = released;
        return st;
    }
    if (which < 14 && x->shape->has_pools) {
        return turn_pool(x);
    }
    if (which < 24) {
        sim.finish();
        return PLEAT_OK;
    }
    if (which < 30 && !x->shape->is_scarce) {
        return pleat_device_reset_peaks(x->instance, 0);
    }
    if (p->ptr == 0) {
        p->bytes = draw_bytes(x);
        p->owner = by;
        pleat_status st = pleat_block_alloc(x->instance, 0, p->bytes, x->streams[by], &p->ptr);
        *ptr = p->ptr;
        if (st == PLEAT_OK) {
            work_on(x, p, by);
        }
        return st;
    }
    if (which < 80 && x->shape->records) {
        work_on(x, p, p->owner);
        pleat_status st = pleat_block_record_stream(x->instance, 0, p->ptr, x->streams[by]);
        return st;
    }
    *ptr = p->ptr;
    p->ptr = 0;
    bool is_elsewhere = x->shape->records && which < 150;
    return pleat_block_free(x->instance, 0, *ptr, x->streams[is_elsewhere ? by : p->owner]);
}

static void read_stats(run *x, pleat_stats *out)
{
    *out = api_stats(x->instance, 0);
    out->metadata_bytes = 0; /* the history is among it */
    out->driver_ns = 0;
    if (x->shape->is_scarce) { /* a failure in a history queries the driver for free bytes */
        out->n_driver_calls = 0;
    }
    api_check(x->instance);
}

static void play(const shape *s, uint64_t seed, bool is_general, answers *out)
{
    char conf[256];
    snprintf(conf, sizeof conf, "growth:balanced%s%s%s", s->conf[0] != '\0' ? "," : "", s->conf,
             is_general ? NO_SHORT_PATH : "");
    run x = { .shape = s, .instance = api_make(API_PLEAT, s->sim_conf, conf), .r = { seed } };
    memset(out, 0, sizeof *out);
    for (unsigned i = 0; i < PL_N_DIVISIONS; i++) {
        divisions[i] = 64;
    }
    for (unsigned i = 0; i < s->n_streams; i++) {
        x.streams[i] = api_stream(x.instance, 0);
    }
    ck_assert_int_eq(pleat_history_record(x.instance, is_general ? 64 : 0, 0), PLEAT_OK);
    for (unsigned i = 0; i < N_STEPS; i++) {
        out->statuses[i] = step(&x, &out->ptrs[i]);
        if (i % GROUP == GROUP - 1) {
            read_stats(&x, &out->stats[i / GROUP]);
        }
    }
    for (unsigned i = 0; i < N_PLACES; i++) {
        if (x.places[i].ptr != 0) {
            api_free(x.instance, 0, x.places[i].ptr, x.streams[x.places[i].owner]);
        }
    }
    for (unsigned i = 0; i < N_POOLS; i++) {
        pleat_pool_id id = { 1 + i, 1 };
        if (x.is_routed[i]) {
            ck_assert_int_eq(pleat_pool_end(x.instance, 0, id), PLEAT_OK);
            ck_assert_int_eq(pleat_pool_release(x.instance, 0, id), PLEAT_OK);
        }
    }
    sim.finish();
    for (unsigned i = 0; i < s->n_streams; i++) {
        api_stream_end(x.instance, 0, x.streams[i]);
    }
    api_unmake(x.instance);
}

static void expect_same_stats(const pleat_stats *a, const pleat_stats *b, unsigned group)
{
    const uint64_t *x = (const uint64_t *)a;
    const uint64_t *y = (const uint64_t *)b;
    for (size_t i = 0; i < sizeof *a / sizeof *x; i++) {
        ck_assert_msg(
            x[i] == y[i],
            "after step %u: word %zu of pleat_stats is %llu the general way, %llu the short way",
            (group + 1) * GROUP, i, (unsigned long long)x[i], (unsigned long long)y[i]);
    }
}

START_TEST(the_straight_path_answers_as_the_general_way)
{
    const shape *s = &shapes[_i / N_SEEDS];
    play(s, (uint64_t)_i + 1, true, &all[0]);
    play(s, (uint64_t)_i + 1, false, &all[1]);
    for (unsigned i = 0; i < N_STEPS; i++) {
        ck_assert_msg(all[0].statuses[i] == all[1].statuses[i],
                      "step %u: %s the general way, %s the short way", i,
                      pleat_status_text(all[0].statuses[i]), pleat_status_text(all[1].statuses[i]));
        ck_assert_msg(all[0].ptrs[i] == all[1].ptrs[i],
                      "step %u: 0x%llx the general way, 0x%llx the short way", i,
                      (unsigned long long)all[0].ptrs[i], (unsigned long long)all[1].ptrs[i]);
        if (i % GROUP == GROUP - 1) {
            expect_same_stats(&all[0].stats[i / GROUP], &all[1].stats[i / GROUP], i / GROUP);
        }
    }
}
END_TEST

/* Blocks join and are cut for ever. The structs of those that went serve again. */
START_TEST(pairs_for_ever_take_no_host_memory)
{
    enum { N_ROUNDS = 4000, N_BLOCKS = 3 };
    pleat instance = api_make(API_PLEAT, "capacity:1G", "");
    pleat_devptr ptrs[N_BLOCKS];
    uint64_t bytes = 0;
    for (unsigned round = 0; round < N_ROUNDS; round++) {
        for (unsigned i = 0; i < N_BLOCKS; i++) {
            ptrs[i] = api_alloc(instance, 0, 4096, NULL);
        }
        for (unsigned i = 0; i < N_BLOCKS; i++) { /* in all orders: joins below, above and both */
            unsigned k = (i * (1 + round % 2) + round) % N_BLOCKS;
            api_free(instance, 0, ptrs[k], NULL);
        }
        if (round == N_ROUNDS / 2) {
            bytes = api_stats(instance, 0).metadata_bytes;
        }
    }
    ck_assert_uint_eq(api_stats(instance, 0).metadata_bytes, bytes);
    api_unmake(instance);
}
END_TEST

SUITE(api_quick)
{
    TCase *both = suite_case(suite, "both ways", api_sim_load, NULL);
    tcase_add_loop_test(both, the_straight_path_answers_as_the_general_way, 0, N_SHAPES * N_SEEDS);
    tcase_add_test(both, pairs_for_ever_take_no_host_memory);
}
