/* private_model_test.c - private pools, graphs and other requests, at random. */
/* labels: model */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/segments/segments_pools.h"
#include "tests/support/segments/segments_random.h"
#include "tests/support/segments/segments_told.h"
#include "tests/support/suite.h"

enum { GRANULE = 2 << 20, N_GRANULES = 64, N_BLOCKS = 64, N_STEPS = 3000 };

/* ---- at random ------------------------------------------------------------------------------- */

enum { N_POOLS = 4, N_STREAMS = 3 };

static struct model {
    bool has_faults;
    unsigned n_refused;
    unsigned first_stream; /* the first of N_STREAMS */
    uint64_t limit;        /* 0 = none */
    pl_keeper *pools[N_POOLS];
    unsigned generation[N_POOLS];
    struct model_block {
        pleat_devptr ptr; /* 0 = not live */
        size_t bytes;
        unsigned stream;
        unsigned pool; /* N_POOLS = the default pool */
        unsigned generation;
    } blocks[N_BLOCKS];
} model;

static void model_seen(void *context, const pl_piece *piece)
{
    bool *is_wrong = context;
    for (unsigned i = 0; i < N_BLOCKS; i++) {
        const struct model_block *b = &model.blocks[i];
        if (b->ptr != piece->base || piece->kind != PL_PIECE_LIVE) {
            continue;
        }
        bool is_open = b->pool < N_POOLS && model.generation[b->pool] == b->generation;
        const pl_keeper *want = is_open ? model.pools[b->pool] : NULL;
        *is_wrong = *is_wrong || piece->private_in != want;
    }
}

/* Lets one of the next driver calls fail. */
static void arm(random_source *r)
{
    if (model.has_faults && random_once_in(r, 10)) {
        pleat.sim.fail_at(NULL, random_below(r, 6), 2);
    }
}

/* Checks the promise of segments/pleat/grow/grow.c with an upper bound for m. */
static void assert_refused_rightly(pleat_status st, size_t bytes)
{
    uint64_t most = model.limit != 0 ? model.limit / GRANULE : N_GRANULES;
    pleat_stats s;

    if (st == PLEAT_ENOMEM_DEVICE && !model.has_faults) {
        pleat.a->ops->stats(pleat.a, &s);
        ck_assert_uint_gt(s.live_granules + s.pinned_granules + (bytes + GRANULE - 1) / GRANULE,
                          most);
        model.n_refused++;
    }
}

static unsigned any_stream(random_source *r)
{
    return model.first_stream + (unsigned)random_below(r, N_STREAMS - model.first_stream);
}

static void model_step(random_source *r)
{
    struct model_block *b = &model.blocks[random_below(r, N_BLOCKS)];
    pl_allocator *a = pleat.a;
    uint64_t released;

    if (random_once_in(r, 30)) {
        unsigned p = (unsigned)random_below(r, N_POOLS);
        if (model.pools[p] != NULL) {
            arm(r);
            a->ops->pools->release(a, model.pools[p]);
            model.pools[p] = NULL;
            model.generation[p]++;
        } else {
            ck_assert_int_eq(a->ops->pools->open(a, &model.pools[p]), PLEAT_OK);
        }
    } else if (random_once_in(r, 40)) {
        arm(r);
        (void)a->ops->trim(a, random_spread(r, 128 * MIB), random_once_in(r, 2), &released);
    } else if (random_once_in(r, 60)) {
        arm(r);
        size_t limit = random_once_in(r, 2) ? 0 : random_spread(r, 128 * MIB);
        if (a->ops->set_limit(a, limit) == PLEAT_OK) {
            model.limit = limit;
        }
    } else if (b->ptr != 0 && random_once_in(r, 5)) {
        unsigned other = any_stream(r);
        pleat_work_after(other, b->stream, b->ptr, b->bytes);
        pleat_record(b->ptr, other);
        pleat_work_after(b->stream, other, b->ptr, b->bytes);
    } else if (b->ptr != 0) {
        pleat_work(b->stream, b->ptr, b->bytes);
        ck_assert_int_eq(a->ops->free(a, b->ptr, pleat.streams[b->stream]), PLEAT_OK);
        b->ptr = 0;
    } else {
        unsigned pool = (unsigned)random_below(r, N_POOLS + 2);
        pool = pool >= N_POOLS || model.pools[pool] == NULL ? N_POOLS : pool;
        b->pool = pool;
        b->generation = pool < N_POOLS ? model.generation[pool] : 0;
        b->bytes = random_spread(r, 16 * MIB);
        b->stream = any_stream(r);
        pl_stream *stream = pleat.streams[b->stream];
        arm(r);
        pleat_status st = pool < N_POOLS ? a->ops->alloc_asked(a, model.pools[pool], b->bytes,
                                                               stream, NULL, &b->ptr)
                                         : a->ops->alloc(a, b->bytes, stream, &b->ptr);
        pleat.sim.fail_never();
        if (st != PLEAT_OK) {
            assert_refused_rightly(st, b->bytes);
            b->ptr = 0;
        } else {
            pleat_work(b->stream, b->ptr, b->bytes);
        }
    }
}

START_TEST(any_order_of_calls_keeps_pools_apart)
{
    random_source r = { 4242 + (uint64_t)_i };

    memset(&model, 0, sizeof(model));
    model.has_faults = _i % 2 == 1;
    for (int n = 0; n < N_STEPS; n++) {
        model_step(&r);
        pleat.sim.fail_never();
        pleat_assert_sound();
        told_assert_agrees(pleat.a);
        bool is_wrong = false;
        pleat.a->ops->visit(pleat.a, model_seen, &is_wrong);
        ck_assert(!is_wrong);
    }
    ck_assert(model.has_faults || model.n_refused > 0);
    pleat.has_failed_undo = pl_device_counted(pleat.dev).n_undo_failures > 0;
}
END_TEST

/* ---- graphs at random ------------------------------------------------------------------------ */

enum { CAPTURE = 3, LAUNCH = 4, N_GRAPHS = 6, N_GRAPH_BLOCKS = 24 };

/* Graphs of a pool, captured on one stream and launched on a second, in any order. Other requests
 * use neither stream. */
static struct graphs {
    pl_keeper *pool; /* NULL = none */
    bool is_capturing;
    cu_graph_exec execs[N_GRAPHS];
    size_t n;
    pleat_devptr blocks[N_GRAPH_BLOCKS];
    size_t bytes[N_GRAPH_BLOCKS];
} graphs;

static void step_in_capture(random_source *r)
{
    size_t i = random_below(r, N_GRAPH_BLOCKS);
    pl_allocator *a = pleat.a;

    if (graphs.blocks[i] != 0) {
        pleat_work(CAPTURE, graphs.blocks[i], graphs.bytes[i]);
        ck_assert_int_eq(a->ops->free(a, graphs.blocks[i], pleat.streams[CAPTURE]), PLEAT_OK);
        graphs.blocks[i] = 0;
    } else if (!random_once_in(r, 20)) {
        size_t bytes = random_spread(r, 8 * MIB);
        graphs.bytes[i] = bytes;
        if (a->ops->alloc_asked(a, graphs.pool, bytes, pleat.streams[CAPTURE], NULL,
                                &graphs.blocks[i]) != PLEAT_OK) {
            graphs.blocks[i] = 0;
        } else {
            pleat_work(CAPTURE, graphs.blocks[i], bytes);
        }
    } else {
        graphs.execs[graphs.n++] = pools_end_capture(CAPTURE);
        graphs.is_capturing = false;
        if (random_once_in(r, 2)) {
            pools_rest(graphs.pool);
        }
    }
}

static void release_graphs(void)
{
    while (graphs.n > 0) {
        pools_forget(graphs.execs[--graphs.n]);
    }
    pools_release(graphs.pool);
    graphs.pool = NULL;
}

static void step_between_captures(random_source *r)
{
    size_t i = random_below(r, N_GRAPH_BLOCKS);

    if (graphs.pool == NULL) {
        graphs.pool = pools_open_one();
    } else if (random_once_in(r, 40) || graphs.n == N_GRAPHS) {
        release_graphs();
    } else if (random_once_in(r, 4)) {
        pools_begin_capture(CAPTURE);
        graphs.is_capturing = true;
    } else if (graphs.blocks[i] != 0) { /* an output of a graph; a launch may be its last use */
        pleat_record(graphs.blocks[i], LAUNCH);
        pleat_put(graphs.blocks[i], CAPTURE);
        graphs.blocks[i] = 0;
    }
}

START_TEST(graphs_are_never_disturbed)
{
    random_source r = { 99 + (uint64_t)_i };

    memset(&model, 0, sizeof(model));
    for (int n = 0; n < N_STEPS; n++) {
        if (graphs.is_capturing) {
            step_in_capture(&r);
        } else {
            step_between_captures(&r);
        }
        if (graphs.n > 0 && random_once_in(&r, 3)) {
            pools_launch(graphs.execs[random_below(&r, graphs.n)], LAUNCH);
        }
        model.first_stream = 1;
        model_step(&r);
        pleat_assert_sound();
        told_assert_agrees(pleat.a);
    }
    if (graphs.is_capturing) {
        graphs.execs[graphs.n++] = pools_end_capture(CAPTURE);
    }
    if (graphs.pool != NULL) {
        release_graphs();
    }
    ck_assert_uint_gt(told_count(PL_ACTION_SEGMENT_UNMAP), 0);
}
END_TEST

static TCase *add_case(Suite *suite, const char *name, void (*open)(void))
{
    TCase *tcase = tcase_create(name);
    tcase_add_checked_fixture(tcase, open, pools_close);
    suite_add_tcase(suite, tcase);
    return tcase;
}

static void open_shallow(void)
{
    pools_open_with("capacity:128M,depth:24", PL_CROSS_ORDER, 1000);
}

static void open_backed(void)
{
    pools_open_with("capacity:128M,depth:24,backing:memory", PL_CROSS_ORDER, 1000);
}

SUITE(segments_private_model)
{
    TCase *random = add_case(suite, "at random", open_shallow);
    tcase_add_loop_test(random, any_order_of_calls_keeps_pools_apart, 0, (int)suite_part(8));
    tcase_add_loop_test(random, graphs_are_never_disturbed, 0, 6);
    TCase *contents = add_case(suite, "at random, with contents", open_backed);
    tcase_add_loop_test(contents, any_order_of_calls_keeps_pools_apart, 20, 22);
    tcase_add_loop_test(contents, graphs_are_never_disturbed, 20, 22);
}
