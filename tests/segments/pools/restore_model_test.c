/* restore_model_test.c - restores of private pools at random, beside a plain model.
 *
 * The model is a list of live blocks per pool, copied for each checkpoint. The simulator reports
 * memory given to a stream during a different stream's work. */
/* labels: model */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/segments/segments_pools.h"
#include "tests/support/segments/segments_random.h"
#include "tests/support/segments/segments_told.h"
#include "tests/support/suite.h"
#include "vmm/base/lock.h"
#include "vmm/base/meta.h"

enum { N_POOLS = 2, N_BLOCKS = 48, N_CHECKPOINTS = 4, N_STREAMS = 4, N_STEPS = 2500 };

typedef struct block {
    pleat_devptr ptr; /* 0 = not live */
    size_t bytes;
    unsigned stream;
    bool is_raw; /* just restored; other streams may still work on it */
} block;

typedef struct pool {
    pl_keeper *in; /* NULL = released */
    unsigned generation;
    block blocks[N_BLOCKS];
} pool;

typedef struct checkpoint {
    pl_roster roster;
    bool is_taken;
    unsigned pool;
    unsigned generation;
    block blocks[N_BLOCKS];
} checkpoint;

static struct model {
    pool pools[N_POOLS];
    block others[N_BLOCKS]; /* of the default pool */
    checkpoint checkpoints[N_CHECKPOINTS];
    size_t n_restored;
    size_t n_made;
    size_t n_freed;
} model;

static unsigned any_stream(random_source *r)
{
    return (unsigned)random_below(r, N_STREAMS);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* A program first waits for the other streams of a restored block. */
static void work_on(block *b)
{
    for (unsigned s = 0; s < N_STREAMS && b->is_raw; s++) {
        if (s != b->stream) {
            pleat_work_after(b->stream, s, b->ptr, 0);
        }
    }
    b->is_raw = false;
    pleat_work(b->stream, b->ptr, b->bytes);
}

static void step_block(random_source *r, pl_keeper *in, block *b)
{
    pl_allocator *a = pleat.a;

    if (b->ptr == 0) {
        b->stream = any_stream(r);
        b->bytes = random_spread(r, 6 * MIB);
        pl_stream *stream = pleat.streams[b->stream];
        pleat_status st = in != NULL ? a->ops->alloc_asked(a, in, b->bytes, stream, NULL, &b->ptr)
                                     : a->ops->alloc(a, b->bytes, stream, &b->ptr);
        b->is_raw = false;
        if (st != PLEAT_OK) {
            b->ptr = 0;
        } else {
            work_on(b);
        }
    } else if (random_once_in(r, 6) && !b->is_raw) {
        unsigned other = any_stream(r);
        pleat_work_after(other, b->stream, b->ptr, b->bytes);
        pleat_record(b->ptr, other);
        pleat_work_after(b->stream, other, b->ptr, b->bytes);
    } else {
        if (random_once_in(r, 2)) {
            work_on(b);
        }
        ck_assert_int_eq(a->ops->free(a, b->ptr, pleat.streams[b->stream]), PLEAT_OK);
        b->ptr = 0;
    }
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

static block *find(block *blocks, pleat_devptr ptr)
{
    for (size_t i = 0; i < N_BLOCKS; i++) {
        if (blocks[i].ptr == ptr) {
            return &blocks[i];
        }
    }
    return NULL;
}

static size_t count(const block *blocks)
{
    size_t n = 0;
    for (size_t i = 0; i < N_BLOCKS; i++) {
        n += blocks[i].ptr != 0;
    }
    return n;
}

static bool is_same(const block *b, const block *other)
{
    return b != NULL && b->bytes == other->bytes && b->stream == other->stream;
}

/* The roster has the model's blocks, by address. */
static void assert_roster(const pl_roster *roster, block *blocks)
{
    pleat_devptr last = 0;
    ck_assert_uint_eq(roster->n, count(blocks));
    for (pl_roster_cursor c = pl_roster_begin(roster); pl_roster_at(&c) != NULL;
         pl_roster_next(&c)) {
        const pl_roster_block *told = pl_roster_at(&c);
        const block *b = find(blocks, told->base);
        ck_assert_ptr_nonnull(b);
        ck_assert_uint_eq(told->requested, b->bytes);
        ck_assert_ptr_eq(told->stream, pl_stream_handle(pleat.streams[b->stream]));
        ck_assert_uint_gt(told->base, last);
        last = told->base;
    }
}

static void drop(checkpoint *c)
{
    if (c->is_taken) {
        pleat.a->ops->pools->drop_roster(pleat.a, &c->roster);
        c->is_taken = false;
    }
}

static void take(checkpoint *c, unsigned p)
{
    drop(c);
    c->pool = p;
    c->generation = model.pools[p].generation;
    memcpy(c->blocks, model.pools[p].blocks, sizeof(c->blocks));
    pleat_status st = pleat.a->ops->pools->save(pleat.a, model.pools[p].in, &c->roster);
    c->is_taken = st == PLEAT_OK;
    if (c->is_taken) {
        assert_roster(&c->roster, c->blocks);
    }
}

/* The reported blocks are the model's, block by block. */
static void assert_told(const pl_restored *told, const checkpoint *c)
{
    block *before = model.pools[c->pool].blocks;
    for (pl_roster_cursor at = pl_roster_begin(&told->live); pl_roster_at(&at) != NULL;
         pl_roster_next(&at)) {
        const block *was = find(before, pl_roster_at(&at)->base);
        const block *now = find((block *)c->blocks, pl_roster_at(&at)->base);
        ck_assert_int_eq(pl_roster_at(&at)->is_made, !is_same(was, now));
        model.n_made += pl_roster_at(&at)->is_made;
    }
    size_t n_freed = 0;
    for (size_t i = 0; i < N_BLOCKS; i++) {
        const block *now = before[i].ptr != 0 ? find((block *)c->blocks, before[i].ptr) : NULL;
        n_freed += before[i].ptr != 0 && !is_same(now, &before[i]);
    }
    ck_assert_uint_eq(told->freed.n, n_freed);
    for (pl_roster_cursor at = pl_roster_begin(&told->freed); pl_roster_at(&at) != NULL;
         pl_roster_next(&at)) {
        ck_assert_ptr_nonnull(find(before, pl_roster_at(&at)->base));
    }
    model.n_freed += n_freed;
}

static void follow(const checkpoint *c)
{
    block *blocks = model.pools[c->pool].blocks;
    block before[N_BLOCKS];

    memcpy(before, blocks, sizeof(before));
    memcpy(blocks, c->blocks, sizeof(before));
    for (size_t i = 0; i < N_BLOCKS; i++) {
        const block *was = blocks[i].ptr != 0 ? find(before, blocks[i].ptr) : NULL;
        blocks[i].is_raw = is_same(was, &blocks[i]) ? was->is_raw : true;
    }
}

static void restore(random_source *r, checkpoint *c, bool has_faults)
{
    pl_allocator *a = pleat.a;
    pool *p = &model.pools[c->pool];
    pl_restored told;
    pleat_stats before;
    bool is_settled = random_once_in(r, 4);

    if (is_settled) {
        ck_assert_int_eq(pl_cu_ctx_synchronize(pleat.sim.drv), CU_SUCCESS);
    }
    a->ops->stats(a, &before);
    if (has_faults && random_once_in(r, 2)) {
        pl_meta_fail_at(random_below(r, 6));
    }
    pleat_status st = a->ops->pools->restore(a, p->in, &c->roster, is_settled, &told);
    pl_meta_fail_never();
    if (st == PLEAT_OK) {
        ck_assert_uint_eq(told.live.n, c->roster.n);
        assert_roster(&told.live, c->blocks);
        assert_told(&told, c);
        a->ops->pools->drop_roster(a, &told.freed);
        a->ops->pools->drop_roster(a, &told.live);
        follow(c);
        model.n_restored++;
    } else {
        pleat_stats after;
        a->ops->stats(a, &after);
        ck_assert(st == PLEAT_EPENDING || (has_faults && st == PLEAT_ENOMEM_HOST));
        ck_assert_int_eq(memcmp(before.allocation, after.allocation, sizeof(after.allocation)), 0);
        ck_assert_int_eq(
            memcmp(before.requested_bytes, after.requested_bytes, sizeof(after.requested_bytes)),
            0);
    }
    pl_roster now = { 0 };
    ck_assert_int_eq(a->ops->pools->save(a, p->in, &now), PLEAT_OK);
    assert_roster(&now, p->blocks);
    a->ops->pools->drop_roster(a, &now);
}

/* ---- at random ------------------------------------------------------------------------------- */

static void step_checkpoint(random_source *r, bool has_faults)
{
    checkpoint *c = &model.checkpoints[random_below(r, N_CHECKPOINTS)];
    unsigned p = (unsigned)random_below(r, N_POOLS);

    if (!c->is_taken || random_once_in(r, 4)) {
        take(c, p);
        return;
    }
    pool *of = &model.pools[c->pool];
    if (c->generation == of->generation) {
        restore(r, c, has_faults);
        return;
    }
    pl_restored told;
    ck_assert_int_eq(pleat.a->ops->pools->restore(pleat.a, of->in, &c->roster, false, &told),
                     PLEAT_EPOOL);
    drop(c);
}

/* The pool's live blocks become the default pool's. */
static void renew_pool(pool *p)
{
    for (size_t i = 0; i < N_BLOCKS; i++) {
        if (p->blocks[i].ptr != 0) {
            pleat_put(p->blocks[i].ptr, p->blocks[i].stream);
            p->blocks[i].ptr = 0;
        }
    }
    pools_release(p->in);
    p->in = pools_open_one();
    p->generation++;
}

static void step(random_source *r, bool has_faults)
{
    uint64_t released;

    if (random_once_in(r, 6)) {
        step_checkpoint(r, has_faults);
    } else if (random_once_in(r, 250)) {
        renew_pool(&model.pools[random_below(r, N_POOLS)]);
    } else if (random_once_in(r, 40)) {
        (void)pleat.a->ops->trim(pleat.a, random_spread(r, 256 * MIB), random_once_in(r, 2),
                                 &released);
    } else if (random_once_in(r, 4)) {
        step_block(r, NULL, &model.others[random_below(r, N_BLOCKS)]);
    } else {
        pool *p = &model.pools[random_below(r, N_POOLS)];
        step_block(r, p->in, &p->blocks[random_below(r, N_BLOCKS)]);
    }
}

static void end_model(void)
{
    for (size_t i = 0; i < N_CHECKPOINTS; i++) {
        drop(&model.checkpoints[i]);
    }
    for (size_t i = 0; i < N_POOLS; i++) {
        pools_release(model.pools[i].in);
    }
}

START_TEST(any_order_of_calls_is_followed)
{
    random_source r = { 777 + (uint64_t)_i };
    bool has_faults = _i % 2 == 1;

    for (size_t i = 0; i < N_POOLS; i++) {
        model.pools[i].in = pools_open_one();
    }
    for (int n = 0; n < N_STEPS; n++) {
        step(&r, has_faults);
        pleat_assert_sound();
        told_assert_agrees(pleat.a);
    }
    ck_assert_uint_gt(model.n_restored, 50);
    ck_assert_uint_gt(model.n_made, 100);
    ck_assert_uint_gt(model.n_freed, 100);
    end_model();
}
END_TEST

/* ---- beside others --------------------------------------------------------------------------- */

enum { N_MANY = 1500 };

static random_source beside;
static size_t n_breaths;

/* While a restore has dropped the lock, other threads take and free memory of the default pool. */
static void go_on(void)
{
    void (*again)(void) = pl_lock_breath;

    pl_lock_breath = NULL; /* their own breaths are nobody's */
    n_breaths++;
    for (int n = 0; n < 4; n++) {
        step_block(&beside, NULL, &model.others[random_below(&beside, N_BLOCKS)]);
    }
    pleat_assert_sound();
    pl_lock_breath = again;
}

START_TEST(others_go_on_meanwhile)
{
    random_source r = { 4711 + (uint64_t)_i };
    pl_allocator *a = pleat.a;
    pl_keeper *in = pools_open_one();
    static pleat_devptr many[N_MANY];
    static size_t sizes[N_MANY];
    pl_roster roster;
    pl_restored told;

    beside = (random_source){ 99 + (uint64_t)_i };
    for (size_t i = 0; i < N_MANY; i++) {
        sizes[i] = random_spread(&r, 40 * KIB);
        pl_stream *stream = pleat.streams[i % N_STREAMS];
        ck_assert_int_eq(a->ops->alloc_asked(a, in, sizes[i], stream, NULL, &many[i]), PLEAT_OK);
    }
    ck_assert_int_eq(a->ops->pools->save(a, in, &roster), PLEAT_OK);
    for (int round = 0; round < 6; round++) {
        for (size_t i = 0; i < N_MANY; i++) {
            if (random_once_in(&r, 2)) {
                ck_assert_int_eq(a->ops->free(a, many[i], pleat.streams[i % N_STREAMS]), PLEAT_OK);
            }
        }
        for (size_t i = 0; i < N_MANY / 8; i++) {
            pleat_devptr ptr;
            pl_stream *stream = pleat.streams[any_stream(&r)];
            ck_assert_int_eq(
                a->ops->alloc_asked(a, in, random_spread(&r, 200 * KIB), stream, NULL, &ptr),
                PLEAT_OK);
        }
        pl_lock_reset_touched();
        pl_lock_breath = go_on;
        pleat_status st = a->ops->pools->restore(a, in, &roster, round % 2 == 1, &told);
        pl_lock_breath = NULL;
        ck_assert_int_eq(st, PLEAT_OK);
        ck_assert_uint_eq(told.live.n, N_MANY);
        a->ops->pools->drop_roster(a, &told.freed);
        a->ops->pools->drop_roster(a, &told.live);
        pleat_assert_sound();
        told_assert_agrees(a);
    }
    ck_assert_uint_gt(n_breaths, 20);
    a->ops->pools->drop_roster(a, &roster);
    pools_release(in);
}
END_TEST

/* ---- captures -------------------------------------------------------------------------------- */

/* Graph trees. A graph is captured and its outputs live. The graph is replayed, and the next graph
 * is captured on top of the resulting state. The graphs' kernels touch only memory of their own
 * graph. */
START_TEST(graphs_are_captured_one_on_the_other)
{
    enum { CAPTURE = 3, N = 5, ROUNDS = 4 };
    pl_allocator *a = pleat.a;
    pl_keeper *in = pools_open_one();
    pleat_devptr outputs[N];
    pleat_devptr next[N];
    pl_roster first;
    pl_restored told;

    pools_begin_capture(CAPTURE);
    for (size_t i = 0; i < N; i++) {
        outputs[i] = pools_get(in, (i + 1) * MIB, CAPTURE);
        pleat_put(pools_get(in, 3 * MIB, CAPTURE), CAPTURE); /* goes at once */
    }
    cu_graph_exec one = pools_end_capture(CAPTURE);
    pools_rest(in);
    ck_assert_int_eq(a->ops->pools->save(a, in, &first), PLEAT_OK);
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < N; i++) { /* the outputs die */
            pleat_put(outputs[i], CAPTURE);
        }
        pools_launch(one, CAPTURE);
        ck_assert_int_eq(a->ops->pools->restore(a, in, &first, false, &told), PLEAT_OK);
        ck_assert_uint_eq(told.live.n, N);
        ck_assert_uint_eq(told.freed.n, 0);
        a->ops->pools->drop_roster(a, &told.live);
        ck_assert_int_eq(pl_cu_ctx_synchronize(pleat.sim.drv), CU_SUCCESS);
        uint64_t held = pools_reserved(in);
        pools_begin_capture(CAPTURE);
        for (size_t i = 0; i < N; i++) {
            next[i] = pools_get(in, MIB, CAPTURE);
            for (size_t j = 0; j < N; j++) {
                ck_assert(next[i] >= outputs[j] + (j + 1) * MIB || next[i] + MIB <= outputs[j]);
            }
        }
        cu_graph_exec two = pools_end_capture(CAPTURE);
        pools_rest(in);
        pools_launch(one, CAPTURE);
        pools_launch(two, CAPTURE);
        ck_assert(round == 0 || pools_reserved(in) == held);
        ck_assert_int_eq(pl_cu_ctx_synchronize(pleat.sim.drv), CU_SUCCESS);
        ck_assert_int_eq(a->ops->pools->restore(a, in, &first, true, &told), PLEAT_OK);
        ck_assert_uint_eq(told.freed.n, N);
        a->ops->pools->drop_roster(a, &told.freed);
        a->ops->pools->drop_roster(a, &told.live);
        pools_forget(two);
        pleat_assert_sound();
        told_assert_agrees(a);
    }
    for (size_t i = 0; i < N; i++) {
        pleat_put(outputs[i], CAPTURE);
    }
    pools_forget(one);
    a->ops->pools->drop_roster(a, &first);
    pools_release(in);
}
END_TEST

static void open_shallow(void)
{
    pools_open_with("capacity:512M,depth:24", PL_CROSS_ORDER, 1000);
}

static void open_patient(void)
{
    pools_open_with("capacity:512M,depth:1048576", PL_CROSS_ORDER, 1000);
}

static TCase *add_case(Suite *suite, const char *name, void (*open)(void))
{
    TCase *tcase = tcase_create(name);
    tcase_add_checked_fixture(tcase, open, pools_close);
    suite_add_tcase(suite, tcase);
    return tcase;
}

SUITE(segments_restore_model)
{
    TCase *random = add_case(suite, "at random", open_shallow);
    tcase_add_loop_test(random, any_order_of_calls_is_followed, 0, (int)suite_part(8));
    tcase_add_loop_test(random, others_go_on_meanwhile, 0, 2);
    TCase *patient = add_case(suite, "at random, slowly", open_patient);
    tcase_add_loop_test(patient, any_order_of_calls_is_followed, 20, 20 + (int)suite_part(4));
    tcase_add_test(patient, graphs_are_captured_one_on_the_other);
}
