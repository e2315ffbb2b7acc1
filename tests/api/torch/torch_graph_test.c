/* torch_graph_test.c - PyTorch's hooks around captures: which memory outlives a graph, and which
 * must not outlive the capture. */
#include <check.h>

#include "api/adapters/pleat_torch.h"
#include "api/calls/internal.h"
#include "tests/support/api/api_torch.h"
#include "tests/support/suite.h"
#include "vmm/driver.h"

enum { MIB = 1 << 20, BLOCK = 2 * MIB, DEVICE_BLOCKS = 32, N_ROUNDS = 40 };

static const pleat_pool_id pool = { 0, 1 };

static pl_driver *driver_of(pleat instance)
{
    return pl_device_driver(pleat_internal_device(instance, 0));
}

static void begin_pool(pleat instance, pleat_pool_id id)
{
    ck_assert_int_eq(pleat_pool_begin(instance, 0, id, NULL, NULL, NULL), PLEAT_OK);
}

static void begin_capture(pleat instance, void *stream)
{
    pl_device *dev = pleat_internal_device(instance, 0);
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    ck_assert_int_eq(
        pl_cu_stream_begin_capture(driver_of(instance), stream, CU_CAPTURE_MODE_GLOBAL), 0);
    pl_device_leave(dev);
}

/* End the capture, launch the graph on a second stream, and drop the graph at once. */
static void end_capture_and_launch(pleat instance, void *stream, void *other)
{
    cu_graph graph;
    cu_graph_exec exec = 0;
    pl_driver *drv = driver_of(instance);
    pl_device *dev = pleat_internal_device(instance, 0);
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    ck_assert_int_eq(pl_cu_stream_end_capture(drv, stream, &graph), 0);
    ck_assert_int_eq(pl_cu_graph_instantiate(drv, &exec, graph, 0), 0);
    ck_assert_int_eq(pl_cu_graph_launch(drv, exec, other), 0);
    ck_assert_int_eq(pl_cu_graph_exec_destroy(drv, exec), 0);
    ck_assert_int_eq(pl_cu_graph_destroy(drv, graph), 0);
    pl_device_leave(dev);
}

/* Work on every byte of the device, on that stream. */
static void use_the_whole_device(pleat instance, void *stream)
{
    void *blocks[DEVICE_BLOCKS];
    for (unsigned i = 0; i < DEVICE_BLOCKS; i++) {
        blocks[i] = pleat_torch_malloc(BLOCK, 0, stream);
        ck_assert_msg(blocks[i] != NULL, "block %u: %s", i, pleat_last_error()->text);
        api_torch_work(instance, 0, stream, blocks[i], BLOCK);
    }
    for (unsigned i = 0; i < DEVICE_BLOCKS; i++) {
        pleat_torch_free(blocks[i], BLOCK, 0, stream);
    }
}

/* Capture work on a block of the pool, and launch it on a stream unknown to pleat. */
static void launch_unseen(pleat instance, void *stream, void *unseen)
{
    begin_pool(instance, pool);
    begin_capture(instance, stream);
    void *inside = pleat_torch_malloc(BLOCK, 0, stream);
    api_torch_work(instance, 0, stream, inside, BLOCK);
    pleat_torch_free(inside, BLOCK, 0, stream);
    end_capture_and_launch(instance, stream, unseen);
    pleat_torch_end_pool(0, pool);
}

/* Drivers that report a graph's end, and drivers that do not. */
static const char *const drivers[] = {
    "capacity:64M,depth:1048576",
    "capacity:64M,depth:1048576,without:[cuUserObjectCreate]",
};

static const char *const drivers_of_two[] = {
    "capacity:64M,depth:1048576,devices:2",
    "capacity:64M,depth:1048576,devices:2,without:[cuUserObjectCreate]",
};

enum { N_DRIVERS = sizeof drivers / sizeof drivers[0] };

/* A route that announces captures and serves no request. */
static bool accept_none(void *stream, void *context)
{
    (void)stream;
    (void)context;
    return false;
}

static pleat open_with_streams(const char *driver, void *streams[], unsigned n)
{
    pleat instance = api_torch_make(API_PLEAT, driver, "wait_ms:100");
    pleat_torch_free(pleat_torch_malloc(BLOCK, 0, NULL), BLOCK, 0, NULL);
    for (unsigned i = 0; i < n; i++) {
        streams[i] = api_stream(instance, 0);
    }
    return instance;
}

START_TEST(a_pools_memory_goes_on_only_when_its_last_launch_is_over)
{
    void *streams[3];
    pleat instance = open_with_streams(drivers[_i], streams, 3);
    launch_unseen(instance, streams[0], streams[1]);
    pleat_torch_release_pool(0, pool);
    use_the_whole_device(instance, streams[2]);
    ck_assert_uint_eq(sim.hazards(NULL, 0), 0);
    api_unmake(instance);
}
END_TEST

START_TEST(so_it_does_when_the_launching_stream_is_gone)
{
    void *streams[3];
    pleat instance = open_with_streams(drivers[_i], streams, 3);
    launch_unseen(instance, streams[0], streams[1]);
    api_stream_end(instance, 0, streams[1]);
    pleat_torch_release_pool(0, pool);
    use_the_whole_device(instance, streams[2]);
    ck_assert_uint_eq(sim.hazards(NULL, 0), 0);
    api_unmake(instance);
}
END_TEST

static uint64_t reserved_by_pool(pleat instance)
{
    pleat_pool_id id;
    pleat_stat reserved[PLEAT_N_SIZES];
    ck_assert_int_eq(pleat_pool_stats(instance, 0, 0, &id, reserved), PLEAT_OK);
    return reserved[PLEAT_SIZES_ALL].current;
}

/* The pool is gone at once. Memory used by launches of the pool serves after the second capture. */
START_TEST(a_release_during_another_capture_breaks_nothing_and_gives_nothing_away)
{
    static const pleat_pool_id other = { 0, 2 };
    void *streams[4];
    pleat instance = open_with_streams(drivers[_i], streams, 4);
    launch_unseen(instance, streams[0], streams[1]);
    ck_assert_uint_gt(reserved_by_pool(instance), 0);
    ck_assert_int_eq(pleat_pool_begin(instance, 0, other, accept_none, NULL, NULL), PLEAT_OK);
    api_torch_begin_capture(instance, 0, streams[2]);
    uint64_t n_syncs = api_stats(instance, 0).host_syncs;
    pleat_torch_release_pool(0, pool);
    ck_assert_uint_eq(reserved_by_pool(instance), 0);
    ck_assert_uint_eq(api_stats(instance, 0).host_syncs, n_syncs);
    void *all = pleat_torch_malloc(DEVICE_BLOCKS * (size_t)BLOCK, 0, streams[3]);
    ck_assert_ptr_null(all);
    ck_assert_int_eq(pleat_last_error()->status, PLEAT_EPENDING);
    api_torch_end_capture(instance, 0, streams[2]);
    pleat_torch_end_pool(0, other);
    pleat_torch_release_pool(0, other);
    use_the_whole_device(instance, streams[3]);
    ck_assert_uint_eq(sim.hazards(NULL, 0), 0);
    api_unmake(instance);
}
END_TEST

START_TEST(a_release_breaks_no_capture_on_another_device)
{
    static const pleat_pool_id other = { 0, 2 };
    pleat instance = api_torch_make(API_PLEAT, drivers_of_two[_i], "");
    for (int device = 0; device < 2; device++) {
        pleat_torch_free(pleat_torch_malloc(BLOCK, device, NULL), BLOCK, device, NULL);
    }
    void *streams[3] = { api_stream(instance, 0), api_stream(instance, 0),
                         api_stream(instance, 0) };
    void *there = api_stream(instance, 1);
    launch_unseen(instance, streams[0], streams[1]);
    ck_assert_int_eq(pleat_pool_begin(instance, 1, other, NULL, NULL, NULL), PLEAT_OK);
    api_torch_begin_capture(instance, 1, there);
    pleat_torch_release_pool(0, pool);
    ck_assert_uint_eq(reserved_by_pool(instance), 0);
    use_the_whole_device(instance, streams[2]);
    api_torch_end_capture(instance, 1, there); /* the capture is intact */
    pleat_torch_end_pool(1, other);
    pleat_torch_release_pool(1, other);
    ck_assert_uint_eq(sim.hazards(NULL, 0), 0);
    api_unmake(instance);
}
END_TEST

/* _i: the driver. From N_DRIVERS on, the capture uses a block of another stream. */
START_TEST(what_a_capture_frees_outside_of_its_pool_serves_again_after_it)
{
    void *stream;
    pleat instance = open_with_streams(drivers[_i % N_DRIVERS], &stream, 1);
    void *owner = _i >= N_DRIVERS ? NULL : stream;
    for (uint64_t i = 0; i < N_ROUNDS; i++) {
        const pleat_pool_id id = { 0, i + 1 };
        void *ptr = pleat_torch_malloc(BLOCK, 0, owner);
        ck_assert_msg(ptr != NULL, "round %d: %s", (int)i, pleat_last_error()->text);
        begin_pool(instance, id);
        api_torch_begin_capture(instance, 0, stream);
        if (_i % N_DRIVERS != 0) { /* then the pool's capture is known, and ends with its route */
            pleat_torch_free(pleat_torch_malloc(BLOCK, 0, stream), BLOCK, 0, stream);
        }
        pleat_torch_record_stream(ptr, stream);
        pleat_torch_free(ptr, BLOCK, 0, owner);
        api_torch_end_capture(instance, 0, stream);
        pleat_torch_end_pool(0, id);
        pleat_torch_release_pool(0, id);
    }
    ck_assert_uint_le(api_stats(instance, 0).resident_bytes, 4 * BLOCK);
    use_the_whole_device(instance, stream);
    ck_assert_uint_eq(sim.hazards(NULL, 0), 0);
    api_unmake(instance);
}
END_TEST

static uint64_t n_gone(pleat instance)
{
    uint64_t n = 77;
    ck_assert_int_eq(pleat_pool_gone(instance, 0, pool, &n), PLEAT_OK);
    return n;
}

/* In the end no capture of the pool has a graph; one capture failed. */
START_TEST(a_pool_is_told_to_have_no_graphs_when_all_are_gone)
{
    void *stream;
    cu_graph graphs[2] = { NULL, NULL };
    pleat instance = open_with_streams(drivers[_i], &stream, 1);
    bool tells = _i == 0;
    pl_driver *drv = driver_of(instance);
    pl_device *dev = pleat_internal_device(instance, 0);
    ck_assert_uint_eq(n_gone(instance), 0);
    for (unsigned i = 0; i < 2; i++) {
        begin_pool(instance, pool);
        begin_capture(instance, stream);
        pleat_torch_free(pleat_torch_malloc(BLOCK, 0, stream), BLOCK, 0, stream);
        ck_assert_uint_eq(n_gone(instance), 0);
        ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
        if (i == 1) {
            ck_assert_int_ne(pl_cu_stream_synchronize(drv, stream), 0);
        }
        ck_assert_int_eq(pl_cu_stream_end_capture(drv, stream, &graphs[i]) == 0, i == 0);
        pl_device_leave(dev);
        ck_assert_uint_eq(n_gone(instance), 0);
        pleat_torch_end_pool(0, pool);
    }
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    ck_assert_int_eq(pl_cu_graph_destroy(drv, graphs[0]), 0);
    pl_device_leave(dev);
    ck_assert_uint_eq(n_gone(instance), tells ? 2 : 0);
    ck_assert_int_eq(pleat_pool_gone(instance, 0, pool, NULL), PLEAT_EINVAL);
    pleat_torch_release_pool(0, pool);
    pleat_torch_release_pool(0, pool);
    ck_assert_uint_eq(n_gone(instance), 0);
    api_unmake(instance);
}
END_TEST

SUITE(api_torch_graph)
{
    TCase *graphs = tcase_create("graphs");
    tcase_add_checked_fixture(graphs, api_sim_load, NULL);
    const int n = N_DRIVERS;
    tcase_add_loop_test(graphs, a_pools_memory_goes_on_only_when_its_last_launch_is_over, 0, n);
    tcase_add_loop_test(graphs, so_it_does_when_the_launching_stream_is_gone, 0, n);
    tcase_add_loop_test(
        graphs, a_release_during_another_capture_breaks_nothing_and_gives_nothing_away, 0, n);
    tcase_add_loop_test(graphs, a_release_breaks_no_capture_on_another_device, 0, n);
    tcase_add_loop_test(graphs, what_a_capture_frees_outside_of_its_pool_serves_again_after_it, 0,
                        2 * n);
    tcase_add_loop_test(graphs, a_pool_is_told_to_have_no_graphs_when_all_are_gone, 0, n);
    suite_add_tcase(suite, graphs);
}
