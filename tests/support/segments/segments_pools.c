/* segments_pools.c - see segments_pools.h. */
#include "tests/support/segments/segments_pools.h"

#include <check.h>

#include "segments/pleat/space/options.h"
#include "tests/support/own.h"
#include "tests/support/segments/segments_told.h"

void pools_open_with(const char *sim, pl_cross_stream cross_stream, uint32_t wait_ms)
{
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    options.observer = told_open();
    SET_OWN(pleat, &options, cross_stream, cross_stream);
    options.wait_ms = wait_ms;
    pleat_open(sim, &options);
}

void pools_close(void)
{
    told_assert_agrees(pleat.a);
    pleat_close();
}

pl_keeper *pools_open_idle(void)
{
    pl_keeper *pool = NULL;
    ck_assert_int_eq(pleat.a->ops->pools->open(pleat.a, &pool), PLEAT_OK);
    return pool;
}

pl_keeper *pools_open_one(void)
{
    pl_keeper *pool = pools_open_idle();
    pl_roster roster;
    ck_assert_int_eq(pleat.a->ops->pools->save(pleat.a, pool, &roster), PLEAT_OK);
    pleat.a->ops->pools->drop_roster(pleat.a, &roster);
    return pool;
}

void pools_release(pl_keeper *pool)
{
    pleat.a->ops->pools->release(pleat.a, pool);
    pleat_assert_sound();
    told_assert_agrees(pleat.a);
}

void pools_rest(pl_keeper *pool)
{
    pleat.a->ops->pools->rest(pleat.a, pool);
    pleat_assert_sound();
}

pleat_devptr pools_get(pl_keeper *pool, size_t bytes, unsigned stream)
{
    pleat_devptr ptr = 0;
    ck_assert_int_eq(
        pleat.a->ops->alloc_asked(pleat.a, pool, bytes, pleat.streams[stream], NULL, &ptr),
        PLEAT_OK);
    pleat_work(stream, ptr, bytes);
    pleat_assert_sound();
    told_assert_agrees(pleat.a);
    return ptr;
}

pleat_status pools_refused(pl_keeper *pool, size_t bytes, unsigned stream)
{
    pleat_devptr ptr = 4711;
    pleat_status st = pleat.a->ops->alloc_asked(pleat.a, pool, bytes, pleat.streams[stream], NULL,
                                                &ptr);
    ck_assert_int_ne(st, PLEAT_OK);
    ck_assert_uint_eq(ptr, 4711);
    pleat_assert_sound();
    return st;
}

pleat_devptr pools_get_default(size_t bytes, unsigned stream)
{
    pleat_devptr ptr = pleat_get(bytes, stream);
    pleat_work(stream, ptr, bytes);
    pleat_assert_sound();
    return ptr;
}

uint64_t pools_reserved(pl_keeper *pool)
{
    pleat_stat out[PLEAT_N_SIZES];
    pleat.a->ops->pools->reserved(pleat.a, pool, out);
    ck_assert_uint_eq(out[PLEAT_SIZES_ALL].current, out[PLEAT_SIZES_LARGE].current);
    return out[PLEAT_SIZES_ALL].current;
}

/* Announces the capture, as pleat_pool_begin does. */
void pools_begin_capture(unsigned stream)
{
    pleat.a->ops->expect_captures(pleat.a, true);
    ck_assert_int_eq(
        pl_cu_stream_begin_capture(pleat.sim.drv, pleat.handles[stream], CU_CAPTURE_MODE_GLOBAL),
        CU_SUCCESS);
}

cu_graph_exec pools_end_capture(unsigned stream)
{
    cu_graph graph = NULL;
    cu_graph_exec exec = NULL;
    ck_assert_int_eq(pl_cu_stream_end_capture(pleat.sim.drv, pleat.handles[stream], &graph),
                     CU_SUCCESS);
    pleat.a->ops->expect_captures(pleat.a, false);
    ck_assert_ptr_nonnull(graph);
    ck_assert_int_eq(pl_cu_graph_instantiate(pleat.sim.drv, &exec, graph, 0), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_graph_destroy(pleat.sim.drv, graph), CU_SUCCESS);
    return exec;
}

void pools_launch(cu_graph_exec exec, unsigned stream)
{
    ck_assert_int_eq(pl_cu_graph_launch(pleat.sim.drv, exec, pleat.handles[stream]), CU_SUCCESS);
}

void pools_forget(cu_graph_exec exec)
{
    ck_assert_int_eq(pl_cu_graph_exec_destroy(pleat.sim.drv, exec), CU_SUCCESS);
}
