/* segments_private_test.c - private pools: reused only within, kept until released. */
/* labels: unit fault model */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/segments_random.h"
#include "tests/support/segments_sim.h"
#include "tests/support/segments_told.h"

enum { GRANULE = 2 << 20, N_GRANULES = 64, N_BLOCKS = 64, N_STEPS = 3000, N_CYCLES = 2000 };

#define SIM "capacity:128M,depth:1048576" /* work ends only when it is waited for */

static void open_with(const char *sim, pl_cross_stream cross_stream, uint32_t wait_ms)
{
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    options.observer = told_open();
    options.cross_stream = cross_stream;
    options.wait_ms = wait_ms;
    pleat_open(sim, &options);
}

static void open_plain(void)
{
    open_with(SIM, PL_CROSS_ORDER, 1000);
}

static void open_impatient(void)
{
    open_with(SIM, PL_CROSS_SETTLED, 0);
}

static void close_sound(void)
{
    told_assert_agrees(pleat.a);
    pleat_close();
}

static pl_private *open_pool(void)
{
    pl_private *pool = NULL;
    ck_assert_int_eq(pleat.a->ops->private_open(pleat.a, &pool), PLEAT_OK);
    return pool;
}

static void release(pl_private *pool)
{
    pleat.a->ops->private_release(pleat.a, pool);
    pleat_assert_sound();
    told_assert_agrees(pleat.a);
}

static void rest(pl_private *pool)
{
    pleat.a->ops->private_rest(pleat.a, pool);
    pleat_assert_sound();
}

static pleat_devptr get_in(pl_private *pool, size_t bytes, unsigned stream)
{
    pleat_devptr ptr = 0;
    ck_assert_int_eq(pleat.a->ops->private_alloc(pleat.a, pool, bytes, pleat.streams[stream], &ptr),
                     PLEAT_OK);
    pleat_work(stream, ptr, bytes);
    pleat_assert_sound();
    told_assert_agrees(pleat.a);
    return ptr;
}

static pleat_status refused_in(pl_private *pool, size_t bytes, unsigned stream)
{
    pleat_devptr ptr = 4711;
    pleat_status st = pleat.a->ops->private_alloc(pleat.a, pool, bytes, pleat.streams[stream],
                                                  &ptr);
    ck_assert_int_ne(st, PLEAT_OK);
    ck_assert_uint_eq(ptr, 4711);
    pleat_assert_sound();
    return st;
}

static pleat_devptr get_and_use(size_t bytes, unsigned stream)
{
    pleat_devptr ptr = pleat_get(bytes, stream);
    pleat_work(stream, ptr, bytes);
    pleat_assert_sound();
    return ptr;
}

static uint64_t reserved(pl_private *pool)
{
    pleat_stat out[PLEAT_N_POOLS];
    pleat.a->ops->private_reserved(pleat.a, pool, out);
    ck_assert_uint_eq(out[PLEAT_POOL_ALL].current, out[PLEAT_POOL_LARGE].current);
    return out[PLEAT_POOL_ALL].current;
}

static void begin(unsigned stream)
{
    ck_assert_int_eq(
        pl_cu_stream_begin_capture(pleat.sim.drv, pleat.handles[stream], CU_CAPTURE_MODE_GLOBAL),
        CU_SUCCESS);
}

static cu_graph_exec end(unsigned stream)
{
    cu_graph graph = NULL;
    cu_graph_exec exec = NULL;
    ck_assert_int_eq(pl_cu_stream_end_capture(pleat.sim.drv, pleat.handles[stream], &graph),
                     CU_SUCCESS);
    ck_assert_ptr_nonnull(graph);
    ck_assert_int_eq(pl_cu_graph_instantiate(pleat.sim.drv, &exec, graph, 0), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_graph_destroy(pleat.sim.drv, graph), CU_SUCCESS);
    return exec;
}

static void launch(cu_graph_exec exec, unsigned stream)
{
    ck_assert_int_eq(pl_cu_graph_launch(pleat.sim.drv, exec, pleat.handles[stream]), CU_SUCCESS);
}

static void forget(cu_graph_exec exec)
{
    ck_assert_int_eq(pl_cu_graph_exec_destroy(pleat.sim.drv, exec), CU_SUCCESS);
}

/* ---- whose memory it is ---------------------------------------------------------------------- */

START_TEST(a_pools_free_block_serves_the_pool_again_and_nobody_else)
{
    pl_private *pool = open_pool();
    pleat_devptr ptr = get_in(pool, GRANULE, 1);
    pleat_put(ptr, 1);
    pleat_devptr other = get_and_use(GRANULE, 1);
    ck_assert_uint_ne(other, ptr);
    ck_assert_uint_eq(get_in(pool, GRANULE, 1), ptr);
    ck_assert_uint_eq(reserved(pool), GRANULE);
    pleat_put(ptr, 1);
    release(pool);
}
END_TEST

START_TEST(two_pools_share_nothing)
{
    pl_private *one = open_pool();
    pl_private *two = open_pool();
    pleat_devptr ptr = get_in(one, GRANULE, 1);
    pleat_put(ptr, 1);
    pleat_devptr other = get_in(two, GRANULE, 1);
    ck_assert_uint_ne(other, ptr);
    pleat_put(other, 1);
    release(one);
    ck_assert_uint_eq(get_in(two, GRANULE, 1), other);
    release(two);
}
END_TEST

START_TEST(a_full_device_does_not_touch_a_pools_free_memory)
{
    pl_private *pool = open_pool();
    pleat_devptr ptr = get_in(pool, (size_t)32 * GRANULE, 1);
    pleat_put(ptr, 1);
    get_and_use((size_t)32 * GRANULE, 1);
    ck_assert_int_eq(pleat_refused(GRANULE, 1), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(pleat_refused(GRANULE, 2), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(pleat_trim(0, true), 0);
    pleat_stats s;
    pleat.a->ops->stats(pleat.a, &s);
    ck_assert_uint_eq(s.pinned_granules, 32);
    ck_assert_uint_eq(get_in(pool, (size_t)32 * GRANULE, 1), ptr);
    pleat_put(ptr, 1);
    release(pool);
    get_and_use((size_t)32 * GRANULE, 2);
}
END_TEST

START_TEST(a_pool_grows_into_what_the_default_pool_caches)
{
    pl_private *pool = open_pool();
    pleat_put(get_and_use((size_t)N_GRANULES * GRANULE, 1), 1);
    pleat_put(get_in(pool, (size_t)40 * GRANULE, 1), 1);
    pleat_put(get_in(pool, (size_t)60 * GRANULE, 2), 2);
    ck_assert_uint_eq(reserved(pool), (uint64_t)60 * GRANULE);
    release(pool);
    ck_assert_uint_eq(pleat_trim(0, true), (uint64_t)N_GRANULES * GRANULE);
}
END_TEST

START_TEST(the_limit_counts_pools_in)
{
    pl_private *pool = open_pool();
    ck_assert_int_eq(pleat.a->ops->set_limit(pleat.a, (uint64_t)16 * GRANULE), PLEAT_OK);
    pleat_devptr ptr = get_in(pool, (size_t)10 * GRANULE, 1);
    ck_assert_int_eq(refused_in(pool, (size_t)10 * GRANULE, 1), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(pleat_refused((size_t)10 * GRANULE, 1), PLEAT_ENOMEM_DEVICE);
    pleat_put(ptr, 1);
    ck_assert_int_eq(pleat.a->ops->set_limit(pleat.a, (uint64_t)9 * GRANULE), PLEAT_ENOMEM_DEVICE);
    release(pool);
    ck_assert_int_eq(pleat.a->ops->set_limit(pleat.a, (uint64_t)9 * GRANULE), PLEAT_OK);
}
END_TEST

START_TEST(a_live_block_survives_its_pool)
{
    pl_private *pool = open_pool();
    pleat_devptr ptr = get_in(pool, 3 * GRANULE, 1);
    pleat_devptr gone = get_in(pool, 3 * GRANULE, 1);
    pleat_record(ptr, 2);
    pleat_put(gone, 1);
    release(pool);
    ck_assert_uint_eq(pleat_info(ptr).base, ptr);
    ck_assert_uint_eq(pleat_trim(0, true), 3 * GRANULE);
    pleat_work_after(1, 1, ptr, 3 * GRANULE);
    pleat_put(ptr, 1);
    ck_assert_uint_eq(pleat_trim(0, true), 3 * GRANULE);
}
END_TEST

START_TEST(frees_that_others_used_outlive_the_pool)
{
    pl_private *pool = open_pool();
    pleat_devptr ptr = get_in(pool, 3 * GRANULE, 1);
    pleat_work_after(2, 1, ptr, 3 * GRANULE);
    pleat_record(ptr, 2);
    pleat_put(ptr, 1);
    release(pool);
    ck_assert_uint_eq(pleat_trim(0, true), 3 * GRANULE);
}
END_TEST

START_TEST(other_streams_of_the_pool_get_what_is_settled)
{
    pl_private *pool = open_pool();
    pleat_devptr ptr = get_in(pool, (size_t)N_GRANULES * GRANULE, 1);
    pleat_put(ptr, 1);
    pleat.sim.finish();
    ck_assert_uint_eq(get_in(pool, (size_t)N_GRANULES * GRANULE, 2), ptr);
    pleat_put(ptr, 2);
    ck_assert_int_eq(pleat_refused(GRANULE, 1), PLEAT_ENOMEM_DEVICE);
    release(pool);
}
END_TEST

/* What pends in a pool is no reason to call a default request's shortage pending. */
START_TEST(a_pools_pending_memory_is_not_waited_for_by_others)
{
    pl_private *pool = open_pool();
    pleat_devptr ptr = get_in(pool, (size_t)N_GRANULES * GRANULE, 1);
    pleat_put(ptr, 1);
    ck_assert_int_eq(pleat_refused(GRANULE, 2), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(refused_in(pool, GRANULE, 2), PLEAT_EPENDING);
    release(pool);
}
END_TEST

START_TEST(destruction_takes_open_pools_along)
{
    pl_private *pool = open_pool();
    pleat_put(get_in(pool, 3 * GRANULE, 1), 1);
    (void)get_in(open_pool(), 3 * GRANULE, 2);
}
END_TEST

/* ---- captures -------------------------------------------------------------------------------- */

START_TEST(a_capture_reuses_what_it_freed_itself)
{
    pl_private *pool = open_pool();
    begin(1);
    pleat_devptr ptr = get_in(pool, GRANULE, 1);
    for (int i = 0; i < 100; i++) {
        pleat_put(ptr, 1);
        ck_assert_uint_eq(get_in(pool, GRANULE, 1), ptr);
    }
    pleat_put(ptr, 1);
    cu_graph_exec exec = end(1);
    ck_assert_uint_eq(reserved(pool), GRANULE);
    rest(pool);
    for (unsigned i = 0; i < 3; i++) {
        launch(exec, 3);
        (void)get_and_use(GRANULE, 2);
    }
    forget(exec);
    release(pool);
}
END_TEST

START_TEST(another_stream_of_the_capture_does_not_get_it)
{
    pl_private *pool = open_pool();
    cu_event fork = NULL;
    cu_event join = NULL;
    pl_driver *drv = pleat.sim.drv;
    ck_assert_int_eq(pl_cu_event_create(drv, &fork, CU_EVENT_DISABLE_TIMING_FLAG), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_event_create(drv, &join, CU_EVENT_DISABLE_TIMING_FLAG), CU_SUCCESS);
    begin(1);
    ck_assert_int_eq(pl_cu_event_record(drv, fork, pleat.handles[1]), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_stream_wait_event(drv, pleat.handles[2], fork, 0), CU_SUCCESS);
    pleat_devptr one = get_in(pool, GRANULE, 1);
    pleat_put(one, 1);
    pleat_devptr two = get_in(pool, GRANULE, 2);
    ck_assert_uint_ne(one, two);
    pleat_record(two, 1);
    pleat_put(two, 2);
    ck_assert_uint_ne(get_in(pool, GRANULE, 2), two); /* the capture's other stream uses it */
    ck_assert_uint_eq(get_in(pool, GRANULE, 1), one);
    ck_assert_int_eq(pl_cu_event_record(drv, join, pleat.handles[2]), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_stream_wait_event(drv, pleat.handles[1], join, 0), CU_SUCCESS);
    cu_graph_exec exec = end(1);
    rest(pool);
    rest(pool);
    ck_assert_uint_eq(told_count(PL_ACTION_FREE_COMPLETED), 2);
    launch(exec, 3);
    forget(exec);
    ck_assert_int_eq(pl_cu_event_destroy(drv, fork), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_event_destroy(drv, join), CU_SUCCESS);
    release(pool);
}
END_TEST

/* A graph may be launched while what its stream did before the capture still runs. */
START_TEST(a_capture_does_not_use_what_pends_from_before)
{
    pl_private *pool = open_pool();
    pleat_devptr before = get_in(pool, GRANULE, 1);
    pleat_put(before, 1);
    begin(1);
    ck_assert_uint_ne(get_in(pool, GRANULE, 1), before);
    cu_graph_exec exec = end(1);
    launch(exec, 2);
    forget(exec);
    release(pool);
}
END_TEST

START_TEST(two_graphs_share_a_pool)
{
    pl_private *pool = open_pool();
    begin(1);
    pleat_devptr ptr = get_in(pool, 4 * GRANULE, 1);
    pleat_put(ptr, 1);
    cu_graph_exec one = end(1);
    rest(pool);
    begin(2);
    ck_assert_uint_eq(get_in(pool, 4 * GRANULE, 2), ptr);
    pleat_put(ptr, 2);
    cu_graph_exec two = end(2);
    rest(pool);
    launch(one, 3); /* in the order of their captures, as PyTorch demands */
    launch(two, 3);
    ck_assert_uint_eq(reserved(pool), 4 * GRANULE);
    forget(one);
    forget(two);
    release(pool);
}
END_TEST

START_TEST(an_output_that_is_freed_later_goes_back_to_the_pool)
{
    pl_private *pool = open_pool();
    begin(1);
    pleat_devptr output = get_in(pool, GRANULE, 1);
    cu_graph_exec exec = end(1);
    rest(pool);
    launch(exec, 1);
    pleat_put(output, 1);
    ck_assert_uint_ne(get_and_use(GRANULE, 1), output);
    ck_assert_uint_eq(get_in(pool, GRANULE, 1), output);
    forget(exec);
    release(pool);
}
END_TEST

START_TEST(a_capture_grows_into_settled_memory_of_the_default_pool)
{
    pl_private *pool = open_pool();
    pleat_devptr keep = get_and_use(GRANULE, 3);
    pleat_put(get_and_use((size_t)60 * GRANULE, 1), 1);
    begin(2);
    pleat_put(get_in(pool, (size_t)50 * GRANULE, 2), 2);
    cu_graph_exec exec = end(2);
    launch(exec, 3);
    forget(exec);
    pleat_put(keep, 3);
    release(pool);
}
END_TEST

START_TEST(a_capture_is_told_when_what_it_needs_pends)
{
    pl_private *pool = open_pool();
    pleat_put(get_and_use((size_t)60 * GRANULE, 1), 1);
    begin(2);
    ck_assert_int_eq(refused_in(pool, (size_t)50 * GRANULE, 2), PLEAT_EPENDING);
    cu_graph_exec exec = end(2);
    forget(exec);
    release(pool);
}
END_TEST

/* The graph still runs when its pool is released: everybody's use of the memory comes after it. */
START_TEST(released_memory_waits_for_the_last_launch)
{
    pl_private *pool = open_pool();
    begin(1);
    pleat_put(get_in(pool, (size_t)N_GRANULES * GRANULE, 1), 1);
    cu_graph_exec exec = end(1);
    launch(exec, 3);
    forget(exec);
    release(pool);
    (void)get_and_use((size_t)N_GRANULES * GRANULE, 2);
}
END_TEST

/* ---- faults ---------------------------------------------------------------------------------- */

/* One pool's life, in which the k-th call for host memory fails, or all from it on. */
static bool live_through(uint64_t k, bool is_lasting)
{
    pl_allocator *a = pleat.a;
    pl_private *pool = NULL;
    pleat_devptr ptr[3] = { 0 };
    uint64_t before = pl_host_n_allocs();

    (is_lasting ? pl_host_fail_from : pl_host_fail_at)(k);
    pleat_status st = a->ops->private_open(a, &pool);
    for (unsigned i = 0; st == PLEAT_OK && i < 3; i++) {
        pl_stream *stream = pleat.streams[1 + i % 2];
        st = a->ops->private_alloc(a, pool, (i + 1) * MIB, stream, &ptr[i]);
        ck_assert(st == PLEAT_OK || st == PLEAT_ENOMEM_HOST);
        ck_assert_int_eq(a->ops->check(a), 0);
    }
    for (unsigned i = 0; i < 3; i++) {
        if (ptr[i] != 0) { /* the same stream: needs no host memory */
            ck_assert_int_eq(a->ops->free(a, ptr[i], pleat.streams[1 + i % 2]), PLEAT_OK);
        }
    }
    if (pool != NULL) {
        a->ops->private_release(a, pool);
    }
    bool is_hit = pl_host_n_allocs() - before > k;
    pl_host_fail_never();
    pleat_assert_sound();
    told_assert_agrees(a);
    return is_hit;
}

START_TEST(host_memory_that_fails_leaves_nothing_behind)
{
    uint64_t k = 0;
    while (live_through(k, _i == 1)) {
        k++;
        ck_assert_uint_lt(k, 500);
    }
    ck_assert_uint_gt(k, 5);
    pleat_trim(0, true);
    ck_assert_uint_eq(pleat_counted().resident_bytes, 0);
}
END_TEST

/* ---- many pools ------------------------------------------------------------------------------ */

START_TEST(thousands_of_pools_leave_nothing_behind)
{
    uint64_t address = 0;
    uint64_t metadata = 0;
    pleat_devptr first = 0;

    for (int i = 0; i < N_CYCLES; i++) {
        pl_private *pool = NULL;
        pleat_devptr ptr = 0;
        ck_assert_int_eq(pleat.a->ops->private_open(pleat.a, &pool), PLEAT_OK);
        begin(1 + (unsigned)i % 2);
        pl_stream *stream = pleat.streams[1 + i % 2];
        ck_assert_int_eq(pleat.a->ops->private_alloc(pleat.a, pool, 3 * GRANULE, stream, &ptr),
                         PLEAT_OK);
        ck_assert_int_eq(pleat.a->ops->free(pleat.a, ptr, stream), PLEAT_OK);
        forget(end(1 + (unsigned)i % 2));
        pleat.a->ops->private_release(pleat.a, pool);
        pleat_stats s;
        pleat.a->ops->stats(pleat.a, &s);
        first = i == 0 ? ptr : first;
        ck_assert_uint_eq(ptr, first);
        address = i < 3 ? s.address_bytes : address;
        metadata = i < 3 ? s.metadata_bytes : metadata;
        ck_assert_uint_le(s.address_bytes, address);
        ck_assert_uint_le(s.metadata_bytes, metadata);
        ck_assert_uint_eq(s.resident_bytes, 3 * GRANULE);
    }
    pleat_assert_sound();
}
END_TEST

START_TEST(thousands_of_pools_are_open_at_once)
{
    pl_private *pools[N_CYCLES];
    uint64_t address = 0;

    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N_CYCLES; i++) {
            pleat_devptr ptr;
            pools[i] = open_pool();
            if (i % 40 == 0) {
                ck_assert_int_eq(
                    pleat.a->ops->private_alloc(pleat.a, pools[i], 1000, pleat.streams[1], &ptr),
                    PLEAT_OK);
                ck_assert_int_eq(pleat.a->ops->free(pleat.a, ptr, pleat.streams[1]), PLEAT_OK);
            }
        }
        pleat_assert_sound();
        pleat_stats s;
        pleat.a->ops->stats(pleat.a, &s);
        ck_assert_uint_eq(s.pinned_granules, N_CYCLES / 40);
        for (int i = 0; i < N_CYCLES; i++) {
            pleat.a->ops->private_release(pleat.a, pools[i]);
        }
        address = round == 0 ? s.address_bytes : address;
        ck_assert_uint_eq(s.address_bytes, address);
    }
    ck_assert_uint_eq(pleat_trim(0, true), (uint64_t)N_CYCLES / 40 * GRANULE);
}
END_TEST

/* A pool that needs little does not keep what a large one left. */
START_TEST(a_later_pool_pins_only_what_it_touches)
{
    pl_private *pool = open_pool();
    pleat_put(get_in(pool, (size_t)60 * GRANULE, 1), 1);
    pleat.sim.finish();
    release(pool);
    pool = open_pool();
    pleat_devptr ptr = get_in(pool, GRANULE, 1);
    pleat_stats s;
    pleat.a->ops->stats(pleat.a, &s);
    ck_assert_uint_eq(s.pinned_granules + s.live_granules, 1);
    pleat_devptr big = get_and_use((size_t)60 * GRANULE, 2);
    pleat_put(big, 2);
    pleat_put(ptr, 1);
    release(pool);
}
END_TEST

/* ---- at random ------------------------------------------------------------------------------- */

enum { N_POOLS = 4, N_STREAMS = 3 };

static struct model {
    bool has_faults;
    unsigned n_refused;
    unsigned first_stream; /* of N_STREAMS */
    uint64_t limit;        /* 0 = none */
    pl_private *pools[N_POOLS];
    unsigned generation[N_POOLS];
    struct model_block {
        pleat_devptr ptr; /* 0 = not live */
        size_t bytes;
        unsigned stream;
        unsigned pool; /* N_POOLS = the default one */
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
        const pl_private *want = is_open ? model.pools[b->pool] : NULL;
        *is_wrong = *is_wrong || piece->private_in != want;
    }
}

/* One of the next driver calls fails. */
static void arm(random_source *r)
{
    if (model.has_faults && random_once_in(r, 10)) {
        pleat.sim.fail_at(NULL, random_below(r, 6), 2);
    }
}

/* The promise of segments/grow.c, with the most that a place can pin. */
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
            a->ops->private_release(a, model.pools[p]);
            model.pools[p] = NULL;
            model.generation[p]++;
        } else {
            ck_assert_int_eq(a->ops->private_open(a, &model.pools[p]), PLEAT_OK);
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
        pleat_status st = pool < N_POOLS ? a->ops->private_alloc(a, model.pools[pool], b->bytes,
                                                                 stream, &b->ptr)
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

/* Graphs that share a pool: captured on one stream and launched on another, in any order; others
 * use neither. */
static struct graphs {
    pl_private *pool; /* NULL = none */
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
        if (a->ops->private_alloc(a, graphs.pool, bytes, pleat.streams[CAPTURE],
                                  &graphs.blocks[i]) != PLEAT_OK) {
            graphs.blocks[i] = 0;
        } else {
            pleat_work(CAPTURE, graphs.blocks[i], bytes);
        }
    } else {
        graphs.execs[graphs.n++] = end(CAPTURE);
        graphs.is_capturing = false;
        if (random_once_in(r, 2)) {
            rest(graphs.pool);
        }
    }
}

static void release_graphs(void)
{
    while (graphs.n > 0) {
        forget(graphs.execs[--graphs.n]);
    }
    release(graphs.pool);
    graphs.pool = NULL;
}

static void step_between_captures(random_source *r)
{
    size_t i = random_below(r, N_GRAPH_BLOCKS);

    if (graphs.pool == NULL) {
        graphs.pool = open_pool();
    } else if (random_once_in(r, 40) || graphs.n == N_GRAPHS) {
        release_graphs();
    } else if (random_once_in(r, 4)) {
        begin(CAPTURE);
        graphs.is_capturing = true;
    } else if (graphs.blocks[i] != 0) { /* an output; its last use may be a launch */
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
            launch(graphs.execs[random_below(&r, graphs.n)], LAUNCH);
        }
        model.first_stream = 1;
        model_step(&r);
        pleat_assert_sound();
        told_assert_agrees(pleat.a);
    }
    if (graphs.is_capturing) {
        graphs.execs[graphs.n++] = end(CAPTURE);
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
    tcase_add_checked_fixture(tcase, open, close_sound);
    suite_add_tcase(suite, tcase);
    return tcase;
}

static void open_shallow(void)
{
    open_with("capacity:128M,depth:24", PL_CROSS_ORDER, 1000);
}

static void open_backed(void)
{
    open_with("capacity:128M,depth:24,backing:memory", PL_CROSS_ORDER, 1000);
}

int main(void)
{
    Suite *suite = suite_create("segments_private");
    TCase *whose = add_case(suite, "whose memory it is", open_plain);
    tcase_add_test(whose, a_pools_free_block_serves_the_pool_again_and_nobody_else);
    tcase_add_test(whose, two_pools_share_nothing);
    tcase_add_test(whose, a_full_device_does_not_touch_a_pools_free_memory);
    tcase_add_test(whose, a_pool_grows_into_what_the_default_pool_caches);
    tcase_add_test(whose, the_limit_counts_pools_in);
    tcase_add_test(whose, a_live_block_survives_its_pool);
    tcase_add_test(whose, frees_that_others_used_outlive_the_pool);
    tcase_add_test(whose, other_streams_of_the_pool_get_what_is_settled);
    tcase_add_test(whose, destruction_takes_open_pools_along);
    TCase *captures = add_case(suite, "captures", open_plain);
    tcase_add_test(captures, a_capture_reuses_what_it_freed_itself);
    tcase_add_test(captures, another_stream_of_the_capture_does_not_get_it);
    tcase_add_test(captures, a_capture_does_not_use_what_pends_from_before);
    tcase_add_test(captures, two_graphs_share_a_pool);
    tcase_add_test(captures, an_output_that_is_freed_later_goes_back_to_the_pool);
    tcase_add_test(captures, a_capture_grows_into_settled_memory_of_the_default_pool);
    tcase_add_test(captures, released_memory_waits_for_the_last_launch);
    TCase *faults = add_case(suite, "faults", open_plain);
    tcase_add_loop_test(faults, host_memory_that_fails_leaves_nothing_behind, 0, 2);
    TCase *impatient = add_case(suite, "no waiting", open_impatient);
    tcase_add_test(impatient, a_pools_pending_memory_is_not_waited_for_by_others);
    tcase_add_test(impatient, a_capture_is_told_when_what_it_needs_pends);
    TCase *many = add_case(suite, "many pools", open_plain);
    tcase_add_test(many, thousands_of_pools_leave_nothing_behind);
    tcase_add_test(many, thousands_of_pools_are_open_at_once);
    tcase_add_test(many, a_later_pool_pins_only_what_it_touches);
    TCase *random = add_case(suite, "at random", open_shallow);
    tcase_add_loop_test(random, any_order_of_calls_keeps_pools_apart, 0, 8);
    tcase_add_loop_test(random, graphs_are_never_disturbed, 0, 6);
    TCase *contents = add_case(suite, "at random, with contents", open_backed);
    tcase_add_loop_test(contents, any_order_of_calls_keeps_pools_apart, 20, 22);
    tcase_add_loop_test(contents, graphs_are_never_disturbed, 20, 22);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
