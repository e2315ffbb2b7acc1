/* api_torch_graph_test.c - PyTorch's hooks around captures: what outlives a graph, and what must
 * not outlive its capture. */
#include <check.h>
#include <stdlib.h>

#include "api/adapters/pleat_torch.h"
#include "api/internal.h"
#include "tests/support/api_torch.h"
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

/* End the capture and launch its graph on another stream; the graph itself goes at once. */
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

/* Every byte of the device goes to work on the stream. */
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

/* A captured block of work in the pool, launched on a stream that pleat never hears of. */
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

static pleat open_with_streams(void *streams[], unsigned n)
{
    pleat instance = api_torch_make(API_PLEAT, "capacity:64M,depth:1048576", "");
    pleat_torch_free(pleat_torch_malloc(BLOCK, 0, NULL), BLOCK, 0, NULL);
    for (unsigned i = 0; i < n; i++) {
        streams[i] = api_stream(instance, 0);
    }
    return instance;
}

START_TEST(a_pools_memory_goes_on_only_when_its_last_launch_is_over)
{
    void *streams[3];
    pleat instance = open_with_streams(streams, 3);
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
    pleat instance = open_with_streams(streams, 3);
    launch_unseen(instance, streams[0], streams[1]);
    api_stream_end(instance, 0, streams[1]);
    pleat_torch_release_pool(0, pool);
    use_the_whole_device(instance, streams[2]);
    ck_assert_uint_eq(sim.hazards(NULL, 0), 0);
    api_unmake(instance);
}
END_TEST

START_TEST(a_release_during_another_capture_is_made_after_it)
{
    static const pleat_pool_id other = { 0, 2 };
    pleat_pool_id id;
    pleat_stat reserved[PLEAT_N_POOLS];
    void *streams[3];
    pleat instance = open_with_streams(streams, 3);
    launch_unseen(instance, streams[0], streams[1]);
    begin_pool(instance, other);
    api_torch_begin_capture(instance, 0, streams[2]);
    pleat_torch_release_pool(0, pool); /* may not wait now */
    ck_assert_int_eq(pleat_pool_stats(instance, 0, 0, &id, reserved), PLEAT_OK);
    ck_assert_uint_gt(reserved[PLEAT_POOL_ALL].current, 0);
    api_torch_end_capture(instance, 0, streams[2]);
    pleat_torch_end_pool(0, other);
    ck_assert_int_eq(pleat_pool_stats(instance, 0, 0, &id, reserved), PLEAT_OK);
    ck_assert_uint_eq(reserved[PLEAT_POOL_ALL].current, 0);
    pleat_torch_release_pool(0, other);
    use_the_whole_device(instance, streams[2]);
    ck_assert_uint_eq(sim.hazards(NULL, 0), 0);
    api_unmake(instance);
}
END_TEST

START_TEST(a_release_waits_for_captures_on_other_devices_too)
{
    static const pleat_pool_id other = { 0, 2 };
    pleat_pool_id id;
    pleat_stat reserved[PLEAT_N_POOLS];
    pleat instance = api_torch_make(API_PLEAT, "capacity:64M,devices:2", "");
    for (int device = 0; device < 2; device++) {
        pleat_torch_free(pleat_torch_malloc(BLOCK, device, NULL), BLOCK, device, NULL);
    }
    void *streams[2] = { api_stream(instance, 0), api_stream(instance, 0) };
    void *there = api_stream(instance, 1);
    launch_unseen(instance, streams[0], streams[1]);
    ck_assert_int_eq(pleat_pool_begin(instance, 1, other, NULL, NULL, NULL), PLEAT_OK);
    api_torch_begin_capture(instance, 1, there);
    pleat_torch_release_pool(0, pool);
    ck_assert_int_eq(pleat_pool_stats(instance, 0, 0, &id, reserved), PLEAT_OK);
    ck_assert_uint_gt(reserved[PLEAT_POOL_ALL].current, 0);
    api_torch_end_capture(instance, 1, there); /* nothing has broken it */
    pleat_torch_end_pool(1, other);
    ck_assert_int_eq(pleat_pool_stats(instance, 0, 0, &id, reserved), PLEAT_OK);
    ck_assert_uint_eq(reserved[PLEAT_POOL_ALL].current, 0);
    pleat_torch_release_pool(1, other);
    api_unmake(instance);
}
END_TEST

/* _i: whether the block is another stream's, which the captured one uses. */
START_TEST(what_a_capture_frees_outside_of_its_pool_serves_again_after_it)
{
    void *stream;
    pleat instance = open_with_streams(&stream, 1);
    void *owner = _i ? NULL : stream;
    for (uint64_t i = 0; i < N_ROUNDS; i++) {
        const pleat_pool_id id = { 0, i + 1 };
        void *ptr = pleat_torch_malloc(BLOCK, 0, owner);
        ck_assert_msg(ptr != NULL, "round %d: %s", (int)i, pleat_last_error()->text);
        begin_pool(instance, id);
        api_torch_begin_capture(instance, 0, stream);
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

int main(void)
{
    Suite *suite = suite_create("api_torch_graph");
    TCase *graphs = tcase_create("graphs");
    tcase_add_checked_fixture(graphs, api_sim_load, NULL);
    tcase_add_test(graphs, a_pools_memory_goes_on_only_when_its_last_launch_is_over);
    tcase_add_test(graphs, so_it_does_when_the_launching_stream_is_gone);
    tcase_add_test(graphs, a_release_during_another_capture_is_made_after_it);
    tcase_add_test(graphs, a_release_waits_for_captures_on_other_devices_too);
    tcase_add_loop_test(graphs, what_a_capture_frees_outside_of_its_pool_serves_again_after_it, 0,
                        2);
    suite_add_tcase(suite, graphs);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
