/* compact_contents_test.c - live blocks keep their bytes while compactions move them.
 *
 * One thread allocates, uses, lends and frees on four streams of a small device with real memory,
 * and compacts it again and again. Every block has a unique pattern. The pattern is compared on the
 * GPU's clock: now and then, before the block's free, and for all blocks after each compaction. A
 * copy that is too short, goes to the wrong place, or runs beside unfinished work shows as a
 * hazard. */
/* labels: stress */
#include <check.h>
#include <string.h>

#include "segments/pleat/space/space.h"
#include "tests/support/own.h"
#include "tests/support/segments/segments_sim.h"
#include "tests/support/segments/segments_told.h"
#include "tests/support/suite.h"

enum { N_OPS = 120000, MOST_OWN = 256, CHECK_EVERY = 1 << 10, OFTEN = 200 };

typedef struct owned {
    pleat_devptr ptr; /* 0 = none */
    size_t bytes;
    uint64_t seed;
    unsigned stream;
} owned;

typedef struct scene {
    const char *sim_conf;
    size_t granule;
    unsigned n_own;         /* blocks at most: many, or the device is never short */
    unsigned compact_every; /* operations */
    size_t least_bytes;     /* most blocks have this, or up to 16 times as much */
    size_t n_large;         /* granules of a large block at most */
} scene;

static const scene *now;
static owned own[MOST_OWN];
static uint64_t seed;
static uint64_t n_refused;
static pleat_compaction sum;

static size_t random_below(size_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (size_t)(seed >> 33) % n;
}

static void fill(const owned *o)
{
    ck_assert_int_eq(pleat.sim.fill(pleat.handles[o->stream], o->ptr, o->bytes, o->seed), 0);
}

static void verify_on(const owned *o, unsigned stream)
{
    ck_assert_int_eq(pleat.sim.verify(pleat.handles[stream], o->ptr, o->bytes, o->seed), 0);
}

static void follow(unsigned later, unsigned earlier)
{
    pl_driver *drv = pleat.sim.drv;
    cu_event event = NULL;
    ck_assert_int_eq(pl_cu_event_create(drv, &event, CU_EVENT_DISABLE_TIMING_FLAG), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_event_record(drv, event, pleat.handles[earlier]), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_stream_wait_event(drv, pleat.handles[later], event, 0), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_event_destroy(drv, event), CU_SUCCESS);
}

static size_t random_size(void)
{
    switch (random_below(16)) {
    case 0:
        return now->granule + random_below((now->n_large - 1) * now->granule);
    case 1:
    case 2:
    case 3:
        return now->granule / 8 + random_below(now->granule);
    default:
        return now->least_bytes + random_below(16 * now->least_bytes);
    }
}

static void give_up(owned *o)
{
    verify_on(o, o->stream);
    ck_assert_int_eq(pleat.a->ops->free(pleat.a, o->ptr, pleat.streams[o->stream]), PLEAT_OK);
    o->ptr = 0;
}

static void allocate(owned *o)
{
    *o = (owned){ .bytes = random_size(), .seed = seed, .stream = (unsigned)random_below(4) };
    pleat_status st = pleat.a->ops->alloc(pleat.a, o->bytes, pleat.streams[o->stream], &o->ptr);
    if (st == PLEAT_OK) {
        fill(o);
        return;
    }
    ck_assert_int_eq(st, PLEAT_ENOMEM_DEVICE);
    o->ptr = 0;
    n_refused++;
    owned *victim = &own[random_below(now->n_own)];
    if (victim->ptr != 0) {
        give_up(victim);
    }
}

static void lend(const owned *o)
{
    unsigned other = (unsigned)random_below(4);
    follow(other, o->stream);
    verify_on(o, other);
    ck_assert_int_eq(pleat.a->ops->record_stream(pleat.a, o->ptr, pleat.streams[other]), PLEAT_OK);
}

/* Compact in the middle of the program's work. The compaction waits for earlier work. */
static void compact(void)
{
    pleat_compaction out;
    ck_assert_int_eq(pleat.a->ops->compact(pleat.a, 0, false, &out), PLEAT_OK);
    sum.n_split += out.n_split;
    sum.moved_bytes += out.moved_bytes;
    sum.won_bytes += out.won_bytes;
    for (unsigned i = 0; i < now->n_own; i++) {
        if (own[i].ptr != 0) {
            verify_on(&own[i], own[i].stream);
        }
    }
}

static void assert_sound(void)
{
    pleat_sim_hazard hazard = { .text = "" };
    size_t n_hazards = pleat.sim.hazards(&hazard, 1);
    ck_assert_msg(n_hazards == 0, "%zu hazards, the first: %s", n_hazards, hazard.text);
    ck_assert_int_eq(pleat.a->ops->check(pleat.a), 0);
    told_assert_agrees(pleat.a);
    (void)pleat_counted_mixed();
}

static void operate(uint64_t i)
{
    owned *o = &own[random_below(now->n_own)];
    uint64_t kind = random_below(4096);
    if (kind < 4) {
        uint64_t released;
        ck_assert_int_eq(pleat.a->ops->trim(pleat.a, random_below(1 << 22), kind == 0, &released),
                         PLEAT_OK);
    } else if (o->ptr == 0) {
        allocate(o);
    } else if (kind < 300) {
        lend(o);
    } else {
        give_up(o);
    }
    if (i % now->compact_every == 0) {
        compact();
    }
    if (i % CHECK_EVERY == 0) {
        assert_sound();
    }
}

static void play(const scene *s)
{
    uint64_t n = suite_part(N_OPS);
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    options.observer = told_open();
    SET_OWN(pleat, &options, chunk_share, 1);
    pleat_open(s->sim_conf, &options);
    now = s;
    seed = 20261122;
    for (uint64_t i = 1; i <= n; i++) {
        operate(i);
    }
    for (unsigned i = 0; i < s->n_own; i++) {
        if (own[i].ptr != 0) {
            give_up(&own[i]);
        }
    }
    compact();
    (void)pleat_trim(0, true);
    assert_sound();
    ck_assert_uint_eq(pleat_counted_mixed().resident_bytes, 0);
    pleat_close();
}

static const scene roomy = { .sim_conf = "backing:memory,granularity:64K,capacity:32M,depth:64",
                             .granule = 64 * KIB,
                             .n_own = 96,
                             .compact_every = 50,
                             .least_bytes = 512,
                             .n_large = 6 };
/* Once little is left, only requests of 16 granules get chunks that can be split. */
static const scene tight = { .sim_conf = "backing:memory,granularity:64K,capacity:8M,depth:64",
                             .granule = 64 * KIB,
                             .n_own = 256,
                             .compact_every = 100,
                             .least_bytes = 512,
                             .n_large = 25 };
START_TEST(with_room_and_large_chunks_every_byte_stays)
{
    play(&roomy);
    ck_assert_uint_gt(sum.n_split, suite_part(N_OPS) / OFTEN);
    ck_assert_uint_gt(sum.won_bytes, 0);
}
END_TEST

START_TEST(on_a_full_device_every_byte_stays)
{
    play(&tight);
    ck_assert_uint_gt(sum.n_split, 10);
    ck_assert_uint_gt(n_refused, 0);
}
END_TEST

SUITE(segments_compact_contents)
{
    TCase *contents = suite_case(suite, "contents", NULL, NULL);
    tcase_add_test(contents, with_room_and_large_chunks_every_byte_stays);
    tcase_add_test(contents, on_a_full_device_every_byte_stays);
}
