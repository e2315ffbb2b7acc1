/* buffer_test.c - buffers that grow and shrink in place: the public calls. */
/* labels: unit fault stress */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "api/calls/internal.h"
#include "tests/support/api/api_sim.h"
#include "tests/support/api/api_torch.h"
#include "tests/support/suite.h"
#include "vmm/base/meta.h"
#include "vmm/copy.h"
#include "vmm/driver.h"

static const uint64_t MIB = 1 << 20;
static const uint64_t GIB = 1 << 30;
static const uint64_t GRANULE = 2 << 20;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) /* slow builds */
enum { SLOWER = 40 };
#else
enum { SLOWER = 1 };
#endif
enum { DRIVER_CODE = 999, N_THREADS = 4 };

static const char patient[] = "capacity:64M,depth:1048576"; /* work ends only when waited for */

static pleat instance;
static void *streams[2];

static void open_on(const char *sim_conf, const char *more)
{
    api_sim_load();
    instance = api_make(API_PLEAT, sim_conf, more);
    streams[0] = api_stream(instance, 0);
    streams[1] = api_stream(instance, 0);
}

static void close_pleat(void)
{
    api_check(instance);
    sim.finish();
    ck_assert_uint_eq(sim.hazards(NULL, 0), 0);
    api_stream_end(instance, 0, streams[0]);
    api_stream_end(instance, 0, streams[1]);
    api_unmake(instance);
}

static void work(pleat_devptr ptr, uint64_t bytes, void *stream)
{
    pleat_sim_access access = { .ptr = ptr, .bytes = bytes, .is_write = true };
    ck_assert_int_eq(sim.work(stream, &access, 1), 0);
}

static pleat_devptr make(uint64_t most_bytes, uint64_t page_bytes)
{
    pleat_devptr buffer = 0;
    pleat_status st = pleat_buffer_create(instance, 0, most_bytes, page_bytes, &buffer);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
    return buffer;
}

static pleat_status resize(pleat_devptr buffer, uint64_t bytes)
{
    return pleat_buffer_resize(instance, 0, buffer, bytes, streams[0]);
}

static pleat_status commit(pleat_devptr buffer, uint64_t from, uint64_t bytes)
{
    return pleat_buffer_commit(instance, 0, buffer, from, bytes, streams[0]);
}

static pleat_status decommit(pleat_devptr buffer, uint64_t from, uint64_t bytes)
{
    return pleat_buffer_decommit(instance, 0, buffer, from, bytes, streams[0]);
}

static void destroy(pleat_devptr buffer)
{
    ck_assert_int_eq(pleat_buffer_destroy(instance, 0, buffer, streams[0]), PLEAT_OK);
}

static pleat_buffer_info info_of(pleat_devptr buffer)
{
    pleat_buffer_info info;
    ck_assert_int_eq(pleat_buffer_query(instance, 0, buffer, &info), PLEAT_OK);
    return info;
}

static uint64_t committed(pleat_devptr buffer)
{
    return info_of(buffer).committed_bytes;
}

/* ---- a buffer -------------------------------------------------------------------------------- */

START_TEST(a_new_buffer_has_addresses_and_no_memory)
{
    open_on(patient, "");
    pleat_devptr buffer = make(5 * MIB, 0);
    pleat_buffer_info info = info_of(buffer + 4 * MIB);
    ck_assert_uint_eq(info.base, buffer);
    ck_assert_uint_eq(info.most_bytes, 6 * MIB);
    ck_assert_uint_eq(info.page_bytes, GRANULE);
    ck_assert_uint_eq(info.bytes, 0);
    ck_assert_uint_eq(info.committed_bytes, 0);
    ck_assert_uint_eq(info.n_runs, 0);
    ck_assert_int_eq(info.device, 0);
    ck_assert_uint_eq(api_stats(instance, 0).resident_bytes, 0);
    ck_assert_uint_ge(api_stats(instance, 0).address_bytes, 6 * MIB);
    destroy(buffer);
    close_pleat();
}
END_TEST

START_TEST(it_grows_in_place_and_page_by_page)
{
    open_on(patient, "");
    pleat_devptr buffer = make(64 * MIB, 0);
    ck_assert_int_eq(resize(buffer, 1), PLEAT_OK);
    ck_assert_uint_eq(committed(buffer), GRANULE);
    work(buffer, GRANULE, streams[0]);
    uint64_t n_maps = sim.n_calls("cuMemMap");
    ck_assert_int_eq(resize(buffer, GRANULE), PLEAT_OK);
    ck_assert_uint_eq(sim.n_calls("cuMemMap"), n_maps);
    ck_assert_int_eq(resize(buffer, GRANULE + 1), PLEAT_OK);
    ck_assert_uint_eq(info_of(buffer).bytes, GRANULE + 1);
    ck_assert_uint_eq(committed(buffer), 2 * GRANULE);
    ck_assert_uint_eq(info_of(buffer).n_runs, 1);
    work(buffer, 2 * GRANULE, streams[0]);
    ck_assert_uint_eq(api_stats(instance, 0).allocation[0].current, 1);
    ck_assert_uint_eq(api_stats(instance, 0).allocated_bytes[0].current, 2 * GRANULE);
    destroy(buffer);
    ck_assert_uint_eq(api_stats(instance, 0).allocated_bytes[0].current, 0);
    close_pleat();
}
END_TEST

START_TEST(pages_in_the_middle_come_and_go)
{
    open_on(patient, "");
    pleat_devptr buffer = make(16 * MIB, 1);
    ck_assert_int_eq(commit(buffer, 3 * MIB, 6 * MIB), PLEAT_OK); /* pages 1 to 4 */
    ck_assert_uint_eq(committed(buffer), 4 * GRANULE);
    ck_assert_uint_eq(info_of(buffer).bytes, 9 * MIB);
    ck_assert_int_eq(decommit(buffer, 3 * MIB, 4 * MIB), PLEAT_OK); /* page 2 lies in it */
    ck_assert_uint_eq(committed(buffer), 3 * GRANULE);
    ck_assert_uint_eq(info_of(buffer).n_runs, 2);
    ck_assert_int_eq(commit(buffer, 0, 16 * MIB), PLEAT_OK);
    ck_assert_uint_eq(committed(buffer), 16 * MIB);
    ck_assert_uint_eq(info_of(buffer).n_runs, 1);
    work(buffer, 16 * MIB, streams[0]);
    ck_assert_int_eq(resize(buffer, 3 * MIB), PLEAT_OK);
    ck_assert_uint_eq(committed(buffer), 4 * MIB);
    ck_assert_int_eq(decommit(buffer, 0, 3 * MIB), PLEAT_OK); /* to the buffer's end */
    ck_assert_uint_eq(committed(buffer), 0);
    destroy(buffer);
    close_pleat();
}
END_TEST

/* Memory of a buffer feeds blocks, and the reverse, up to the device's last granule. */
START_TEST(memory_goes_to_blocks_and_back)
{
    open_on(patient, "chunks:granule,reserve_mb:0");
    pleat_devptr buffer = make(1 * GIB, 0);
    ck_assert_int_eq(resize(buffer, 64 * MIB), PLEAT_OK);
    work(buffer, 64 * MIB, streams[0]);
    pleat_devptr block;
    ck_assert_int_eq(pleat_block_alloc(instance, 0, GRANULE, streams[0], &block),
                     PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(resize(buffer, 24 * MIB), PLEAT_OK);
    block = api_alloc(instance, 0, 40 * MIB, streams[0]);
    work(block, 40 * MIB, streams[0]);
    ck_assert_int_eq(resize(buffer, 24 * MIB + 1), PLEAT_ENOMEM_DEVICE);
    api_expect(PLEAT_ENOMEM_DEVICE, "resident", "limit");
    ck_assert_uint_eq(info_of(buffer).bytes, 24 * MIB);
    ck_assert_uint_eq(committed(buffer), 24 * MIB);
    api_free(instance, 0, block, streams[0]);
    ck_assert_int_eq(resize(buffer, 64 * MIB), PLEAT_OK);
    work(buffer, 64 * MIB, streams[0]);
    ck_assert_uint_eq(api_stats(instance, 0).resident_bytes, 64 * MIB);
    destroy(buffer);
    close_pleat();
}
END_TEST

START_TEST(what_was_decommitted_goes_back_to_the_driver)
{
    open_on("capacity:64M,depth:1", "");
    pleat_devptr buffer = make(32 * MIB, 1);
    ck_assert_int_eq(resize(buffer, 32 * MIB), PLEAT_OK);
    ck_assert_int_eq(decommit(buffer, 2 * MIB, 10 * MIB), PLEAT_OK);
    uint64_t released = 0;
    ck_assert_int_eq(pleat_device_trim(instance, 0, 0, true, &released), PLEAT_OK);
    ck_assert_uint_eq(released, 10 * MIB);
    ck_assert_uint_eq(api_sim_counts().physical_bytes, 22 * MIB);
    ck_assert_int_eq(resize(buffer, 32 * MIB), PLEAT_OK); /* the pages in the middle stay away */
    ck_assert_uint_eq(committed(buffer), 22 * MIB);
    ck_assert_int_eq(commit(buffer, 0, 32 * MIB), PLEAT_OK);
    work(buffer, 32 * MIB, streams[0]);
    destroy(buffer);
    close_pleat();
}
END_TEST

START_TEST(pages_that_stayed_are_had_again_without_the_driver)
{
    open_on(patient, "");
    pleat_devptr buffer = make(32 * MIB, 0);
    ck_assert_int_eq(resize(buffer, 32 * MIB), PLEAT_OK);
    uint64_t n = api_stats(instance, 0).ops_map;
    for (uint64_t i = 0; i < 100; i++) {
        ck_assert_int_eq(resize(buffer, i % 17 * MIB), PLEAT_OK);
        ck_assert_int_eq(resize(buffer, 32 * MIB), PLEAT_OK);
        work(buffer, 32 * MIB, streams[0]);
    }
    ck_assert_uint_eq(api_stats(instance, 0).ops_map, n);
    destroy(buffer);
    close_pleat();
}
END_TEST

/* ---- under work ------------------------------------------------------------------------------ */

START_TEST(another_stream_gets_decommitted_pages_behind_their_work)
{
    open_on(patient, "chunks:granule,reserve_mb:0");
    pleat_devptr buffer = make(64 * MIB, 0);
    pleat_devptr other = make(64 * MIB, 0);
    ck_assert_int_eq(resize(buffer, 64 * MIB), PLEAT_OK);
    work(buffer, 64 * MIB, streams[0]);
    ck_assert_int_eq(resize(buffer, 0), PLEAT_OK);
    ck_assert_int_eq(pleat_buffer_resize(instance, 0, other, 32 * MIB, streams[1]), PLEAT_OK);
    work(other, 32 * MIB, streams[1]);
    pleat_devptr block = api_alloc(instance, 0, 32 * MIB, streams[1]);
    work(block, 32 * MIB, streams[1]);
    api_free(instance, 0, block, streams[1]);
    /* The same pages on a stream other than the one with pending work. */
    ck_assert_int_eq(pleat_buffer_resize(instance, 0, other, 0, streams[1]), PLEAT_OK);
    ck_assert_int_eq(pleat_buffer_resize(instance, 0, other, 64 * MIB, streams[0]), PLEAT_OK);
    work(other, 64 * MIB, streams[0]);
    destroy(other);
    destroy(buffer);
    close_pleat();
}
END_TEST

START_TEST(recorded_streams_are_waited_for)
{
    open_on(patient, "wait_ms:0,cross_stream:settled");
    pleat_devptr buffer = make(16 * MIB, 0);
    ck_assert_int_eq(resize(buffer, 16 * MIB), PLEAT_OK);
    ck_assert_int_eq(pleat_buffer_record_stream(instance, 0, buffer, streams[1]), PLEAT_OK);
    work(buffer, 16 * MIB, streams[1]);
    ck_assert_int_eq(resize(buffer, 4 * MIB), PLEAT_OK);
    ck_assert_int_eq(resize(buffer, 16 * MIB), PLEAT_EPENDING);
    api_expect(PLEAT_EPENDING, "stream");
    ck_assert_uint_eq(info_of(buffer).bytes, 4 * MIB);
    sim.finish();
    ck_assert_int_eq(pleat_device_trim(instance, 0, UINT64_MAX, true, NULL), PLEAT_OK);
    ck_assert_int_eq(resize(buffer, 16 * MIB), PLEAT_OK);
    destroy(buffer);
    close_pleat();
}
END_TEST

START_TEST(the_stream_that_decommits_is_waited_for)
{
    open_on(patient, "wait_ms:0,cross_stream:settled");
    pleat_devptr buffer = make(16 * MIB, 0);
    ck_assert_int_eq(resize(buffer, 16 * MIB), PLEAT_OK);
    work(buffer, 16 * MIB, streams[1]);
    ck_assert_int_eq(pleat_buffer_resize(instance, 0, buffer, 4 * MIB, streams[1]), PLEAT_OK);
    ck_assert_int_eq(resize(buffer, 16 * MIB), PLEAT_EPENDING);
    sim.finish();
    ck_assert_int_eq(resize(buffer, 16 * MIB), PLEAT_OK);
    destroy(buffer);
    close_pleat();
}
END_TEST

START_TEST(a_buffer_is_destroyed_under_work_and_its_addresses_serve_the_next)
{
    open_on(patient, "");
    for (int i = 0; i < 1000 / SLOWER; i++) {
        pleat_devptr buffer = make((uint64_t)(40 + i % 20) * MIB, 0);
        ck_assert_int_eq(resize(buffer, (uint64_t)(1 + i % 9) * MIB), PLEAT_OK);
        work(buffer, 1 * MIB, streams[0]);
        ck_assert_int_eq(pleat_buffer_destroy(instance, 0, buffer, streams[i % 2]), PLEAT_OK);
        pleat_buffer_info info;
        ck_assert_int_eq(pleat_buffer_query(instance, 0, buffer, &info), PLEAT_EFOREIGN);
        ck_assert_int_eq(resize(buffer, 1), PLEAT_EFOREIGN);
    }
    /* Addresses that wait for two streams go at the next call on the second one. */
    ck_assert_uint_le(api_stats(instance, 0).address_bytes, 8 * 64 * MIB);
    close_pleat();
}
END_TEST

/* ---- captures -------------------------------------------------------------------------------- */

START_TEST(a_capture_is_refused_and_goes_on)
{
    open_on(patient, "");
    pleat_devptr buffer = make(16 * MIB, 1);
    ck_assert_int_eq(resize(buffer, 8 * MIB), PLEAT_OK);
    api_torch_begin_capture(instance, 0, streams[0]);
    ck_assert_int_eq(resize(buffer, 16 * MIB), PLEAT_ECAPTURE);
    ck_assert_int_eq(commit(buffer, 8 * MIB, 1), PLEAT_ECAPTURE);
    ck_assert_int_eq(decommit(buffer, 0, 8 * MIB), PLEAT_ECAPTURE);
    ck_assert_int_eq(pleat_buffer_destroy(instance, 0, buffer, streams[0]), PLEAT_ECAPTURE);
    ck_assert_uint_eq(committed(buffer), 8 * MIB);
    work(buffer, 8 * MIB, streams[0]);
    api_torch_end_capture(instance, 0, streams[0]);
    ck_assert_int_eq(resize(buffer, 16 * MIB), PLEAT_OK);
    destroy(buffer);
    close_pleat();
}
END_TEST

START_TEST(pages_recorded_in_a_capture_stay_until_its_graph_is_gone)
{
    open_on(patient, "wait_ms:0");
    pleat_devptr buffer = make(16 * MIB, 0);
    ck_assert_int_eq(resize(buffer, 16 * MIB), PLEAT_OK);
    pl_device *dev = pleat_internal_device(instance, 0);
    pl_driver *drv = pl_device_driver(dev);
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    cu_graph graph = NULL;
    cu_graph_exec exec = NULL;
    ck_assert_int_eq(pl_cu_stream_begin_capture(drv, streams[1], CU_CAPTURE_MODE_RELAXED), 0);
    ck_assert_int_eq(pleat_buffer_record_stream(instance, 0, buffer, streams[1]), PLEAT_OK);
    work(buffer, 16 * MIB, streams[1]);
    ck_assert_int_eq(pl_cu_stream_end_capture(drv, streams[1], &graph), 0);
    ck_assert_int_eq(pl_cu_graph_instantiate(drv, &exec, graph, 0), 0);
    ck_assert_int_eq(resize(buffer, 0), PLEAT_OK);
    ck_assert_int_eq(pl_cu_graph_launch(drv, exec, streams[1]), 0);
    ck_assert_int_eq(resize(buffer, 16 * MIB), PLEAT_EPENDING);
    ck_assert_int_eq(pl_cu_graph_exec_destroy(drv, exec), 0);
    ck_assert_int_eq(pl_cu_graph_destroy(drv, graph), 0);
    pl_device_leave(dev);
    sim.finish();
    ck_assert_int_eq(resize(buffer, 16 * MIB), PLEAT_OK);
    destroy(buffer);
    close_pleat();
}
END_TEST

/* ---- refusals -------------------------------------------------------------------------------- */

START_TEST(mistakes_are_named)
{
    open_on(patient, "");
    pleat_devptr buffer = 0;
    pleat_buffer_info info;
    ck_assert_int_eq(pleat_buffer_create(instance, 0, 0, 0, &buffer), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_buffer_create(instance, 0, 1, 0, NULL), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_buffer_create_aligned(instance, 0, 1, 0, 3 * GRANULE, &buffer),
                     PLEAT_EINVAL);
    api_expect(PLEAT_EINVAL, "power of two", "6291456");
    ck_assert_int_eq(pleat_buffer_create_aligned(instance, 0, 1, 0, UINT64_C(1) << 61, &buffer),
                     PLEAT_EINVAL);
    ck_assert_int_eq(pleat_buffer_create_aligned(instance, 0, 1, 0, UINT64_C(1) << 60, &buffer),
                     PLEAT_ENOSPACE_VA);
    ck_assert_int_eq(pleat_buffer_create(instance, 0, UINT64_MAX, 0, &buffer), PLEAT_ESIZE);
    ck_assert_int_eq(pleat_buffer_create(instance, 0, UINT64_C(1) << 59, 0, &buffer),
                     PLEAT_ENOSPACE_VA);
    buffer = make(16 * MIB, 0);
    ck_assert_int_eq(resize(buffer, 16 * MIB + 1), PLEAT_EINVAL);
    api_expect(PLEAT_EINVAL, "16777216");
    ck_assert_int_eq(commit(buffer, 16 * MIB, 1), PLEAT_EINVAL);
    ck_assert_int_eq(commit(buffer, UINT64_MAX, 2), PLEAT_EINVAL);
    ck_assert_int_eq(decommit(buffer, 1, 16 * MIB), PLEAT_EINVAL);
    ck_assert_int_eq(resize(buffer + GRANULE, 1), PLEAT_EFOREIGN);
    api_expect(PLEAT_EFOREIGN, "no buffer begins there");
    ck_assert_int_eq(resize(buffer, 8 * MIB), PLEAT_OK);
    ck_assert_int_eq(pleat_block_free(instance, 0, buffer, streams[0]), PLEAT_EFOREIGN);
    pleat_block_info block;
    ck_assert_int_eq(pleat_block_query(instance, 0, buffer, &block), PLEAT_EFOREIGN);
    ck_assert_int_eq(pleat_buffer_query(instance, 0, buffer + 16 * MIB, &info), PLEAT_EFOREIGN);
    ck_assert_int_eq(pleat_buffer_query(instance, 0, buffer, NULL), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_destroy(instance, 0), PLEAT_EBUSY);
    destroy(buffer);
    close_pleat();
}
END_TEST

START_TEST(an_allocator_without_buffers_says_so)
{
    api_sim_load();
    pleat torch = api_make(API_TORCH, patient, "");
    pleat_devptr buffer;
    ck_assert_int_eq(pleat_buffer_create(torch, 0, GRANULE, 0, &buffer), PLEAT_ENOTSUP);
    api_expect(PLEAT_ENOTSUP, "allocator:pleat");
    ck_assert_int_eq(pleat_buffer_resize(torch, 0, GRANULE, 1, NULL), PLEAT_EFOREIGN);
    api_unmake(torch);
}
END_TEST

START_TEST(a_buffer_left_behind_goes_with_its_instance)
{
    open_on(patient, "");
    ck_assert_int_eq(resize(make(16 * MIB, 0), 7 * MIB), PLEAT_OK);
    (void)make(32 * MIB, 0);
    sim.finish();
    api_stream_end(instance, 0, streams[0]);
    api_stream_end(instance, 0, streams[1]);
    ck_assert_int_eq(pleat_destroy(instance, PLEAT_DESTROY_FORCE), PLEAT_OK);
    api_sim_check_empty();
}
END_TEST

/* ---- limits ---------------------------------------------------------------------------------- */

START_TEST(a_limit_holds_for_buffers_and_blocks_together)
{
    open_on("capacity:1G,depth:1048576", "chunks:granule,limit:32M");
    pleat_devptr buffer = make(1 * GIB, 0);
    pleat_devptr block = api_alloc(instance, 0, 12 * MIB, streams[0]);
    ck_assert_int_eq(resize(buffer, 20 * MIB), PLEAT_OK);
    ck_assert_int_eq(resize(buffer, 21 * MIB), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(commit(buffer, 40 * MIB, 1), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(info_of(buffer).bytes, 20 * MIB);
    ck_assert_int_eq(pleat_device_set_limit(instance, 0, 30 * MIB), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(resize(buffer, 18 * MIB), PLEAT_OK);
    sim.finish();
    ck_assert_int_eq(pleat_device_set_limit(instance, 0, 30 * MIB), PLEAT_OK);
    ck_assert_int_eq(resize(buffer, 20 * MIB), PLEAT_ENOMEM_DEVICE);
    api_free(instance, 0, block, streams[0]);
    ck_assert_int_eq(resize(buffer, 30 * MIB), PLEAT_OK);
    destroy(buffer);
    close_pleat();
}
END_TEST

/* Some pages of the range had memory before. A failed commit gives up only the new pages. */
START_TEST(a_commit_of_many_parts_is_made_whole_or_not_at_all)
{
    open_on(patient, "chunks:granule,reserve_mb:0");
    pleat_devptr buffer = make(1 * GIB, 1);
    for (uint64_t i = 0; i < 20; i++) {
        ck_assert_int_eq(commit(buffer, i * 2 * GRANULE, GRANULE), PLEAT_OK);
    }
    uint64_t maps = info_of(buffer).n_runs;
    ck_assert_int_eq(commit(buffer, 0, 40 * GRANULE), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(committed(buffer), 20 * GRANULE);
    ck_assert_uint_eq(info_of(buffer).n_runs, maps);
    ck_assert_int_eq(commit(buffer, 0, 24 * GRANULE), PLEAT_OK);
    ck_assert_uint_eq(committed(buffer), 32 * GRANULE);
    destroy(buffer);
    close_pleat();
}
END_TEST

/* ---- at scale -------------------------------------------------------------------------------- */

/* Copies of whatever kind that anybody has made. */
static uint64_t n_copies(void)
{
    return sim.n_calls("cuMemcpyDtoDAsync_v2") + sim.n_calls("cuMemcpyDtoHAsync_v2") +
           sim.n_calls("cuMemcpyHtoDAsync_v2");
}

/* Checks that the count shows a copy: the simulator counts 0 for unknown names. */
static void copy_counts(void)
{
    pl_device *dev = pleat_internal_device(instance, 0);
    pleat_devptr from = api_alloc(instance, 0, MIB, NULL);
    pleat_devptr to = api_alloc(instance, 0, MIB, NULL);
    uint64_t n = n_copies();
    pl_copy copy = { .to = to, .from = from, .bytes = MIB };
    bool is_over;
    ck_assert_int_eq(pl_copy_run(dev, &copy, 1, &is_over), PLEAT_OK);
    ck_assert_uint_eq(n_copies(), n + 1);
    api_free(instance, 0, from, NULL);
    api_free(instance, 0, to, NULL);
}

START_TEST(forty_thousand_steps_make_as_many_operations_as_chunks)
{
    enum { N_STEPS = 40960 / SLOWER };
    open_on("capacity:64G,depth:4", "reserve_mb:0");
    pleat_devptr buffer = make(N_STEPS * MIB, 0);
    uint64_t n_probed = sim.n_calls("cuMemCreate");
    for (uint64_t i = 1; i <= N_STEPS; i++) {
        ck_assert_int_eq(resize(buffer, i * MIB), PLEAT_OK);
    }
    pleat_stats stats = api_stats(instance, 0);
    ck_assert_uint_eq(committed(buffer), N_STEPS * MIB);
    ck_assert_uint_eq(stats.resident_bytes, N_STEPS * MIB);
    ck_assert_uint_eq(stats.ops_map, sim.n_calls("cuMemCreate") - n_probed);
    ck_assert_uint_le(stats.ops_map, N_STEPS / 2);
    ck_assert_uint_eq(stats.ops_unmap, 0);
    ck_assert_uint_eq(stats.host_syncs, 0);
    ck_assert_uint_eq(n_copies(), 0);
    copy_counts();
    destroy(buffer);
    close_pleat();
}
END_TEST

enum { N_BESIDE = 40, N_EVENTS = SLOWER == 1 ? 1500 : 200 };

/* Random blocks, beside a buffer that grows to `most` in N_EVENTS steps. Does all of it fit? */
static bool fits_beside(uint64_t limit, uint64_t most)
{
    char more[96];
    uint64_t state = 7;
    pleat_devptr blocks[N_BESIDE] = { 0 };
    bool fits = true;
    snprintf(more, sizeof more, "chunks:granule,reserve_mb:0,limit:%llu",
             (unsigned long long)limit);
    open_on("capacity:4G,depth:4", more);
    pleat_devptr buffer = make(most > 0 ? most : GRANULE, 0);
    for (uint64_t i = 0; fits && i < N_EVENTS; i++) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407U;
        pleat_devptr *at = &blocks[(state >> 33) % N_BESIDE];
        if (*at != 0) {
            api_free(instance, 0, *at, streams[0]);
            *at = 0;
        } else {
            size_t bytes = 1 + (size_t)((state >> 40) % (12 * MIB));
            fits = pleat_block_alloc(instance, 0, bytes, streams[0], at) == PLEAT_OK;
        }
        fits = fits && resize(buffer, most * (i + 1) / N_EVENTS) == PLEAT_OK;
    }
    for (int i = 0; i < N_BESIDE; i++) {
        if (blocks[i] != 0) {
            api_free(instance, 0, blocks[i], streams[0]);
        }
    }
    destroy(buffer);
    close_pleat();
    return fits;
}

/* The least limit in granules. */
static uint64_t fit(uint64_t most)
{
    uint64_t low = 0;
    uint64_t high = 2048;
    while (high - low > 1) {
        uint64_t middle = (low + high) / 2;
        *(fits_beside(middle * GRANULE, most) ? &high : &low) = middle;
    }
    return high;
}

START_TEST(what_lies_beside_needs_no_more_than_without_it)
{
    uint64_t most = 301 * MIB;
    uint64_t alone = fit(0);
    ck_assert_uint_gt(alone, 20);
    ck_assert_uint_le(fit(most), alone + (most + GRANULE - 1) / GRANULE);
}
END_TEST

START_TEST(there_may_be_ten_thousand)
{
    enum { N = 10000 / SLOWER };
    static pleat_devptr buffers[N];
    open_on("capacity:64G,depth:4", "");
    for (int i = 0; i < N; i++) {
        buffers[i] = make(1 * GIB, 0);
        ck_assert_int_eq(resize(buffers[i], 1 * MIB), PLEAT_OK);
    }
    ck_assert_uint_eq(api_stats(instance, 0).allocated_bytes[0].current, N * GRANULE);
    pleat_devptr block = api_alloc(instance, 0, 1 * GIB, streams[0]);
    for (int i = 0; i < N; i++) {
        ck_assert_int_eq(resize(buffers[i], (uint64_t)(i % 3) * MIB), PLEAT_OK);
    }
    api_free(instance, 0, block, streams[0]);
    uint64_t bytes = api_stats(instance, 0).address_bytes;
    for (int i = 0; i < N; i++) {
        destroy(buffers[i]);
    }
    for (int i = 0; i < N; i++) {
        buffers[i] = make(1 * GIB, 0);
    }
    ck_assert_uint_eq(api_stats(instance, 0).address_bytes, bytes);
    for (int i = 0; i < N; i++) {
        destroy(buffers[i]);
    }
    close_pleat();
}
END_TEST

/* ---- failing calls --------------------------------------------------------------------------- */

typedef struct fault {
    void (*arm)(uint64_t k);
    void (*disarm)(void);
    bool (*has_hit)(uint64_t k);
} fault;

static uint64_t host_before;

static void arm_driver(uint64_t k)
{
    sim.fail_at(NULL, k, DRIVER_CODE);
}

static bool has_hit_driver(uint64_t k)
{
    (void)k;
    return sim.n_faults() > 0;
}

static void arm_host(uint64_t k)
{
    host_before = pl_meta_n_allocs();
    pl_meta_fail_at(k);
}

static bool has_hit_host(uint64_t k)
{
    return pl_meta_n_allocs() - host_before > k;
}

static void disarm_driver(void)
{
    sim.fail_never();
}

static const fault faults[] = {
    { arm_driver, disarm_driver, has_hit_driver },
    { arm_host, pl_meta_fail_never, has_hit_host },
};

typedef struct scene {
    pleat_devptr buffer;
    pleat_devptr block;
    uint64_t bytes;     /* that the buffer should have, */
    uint64_t committed; /* committed bytes of the buffer's pages */
} scene;

static pleat_status step(scene *s, int i)
{
    switch (i) {
    case 0:
        return pleat_buffer_create(instance, 0, 40 * MIB, 1, &s->buffer);
    case 1:
        return resize(s->buffer, 20 * MIB);
    case 2:
        return pleat_buffer_record_stream(instance, 0, s->buffer, streams[1]);
    case 3:
        return pleat_buffer_decommit(instance, 0, s->buffer, 4 * MIB, 8 * MIB, streams[1]);
    case 4:
        return pleat_block_alloc(instance, 0, 24 * MIB, streams[0], &s->block);
    case 5:
        return decommit(s->buffer, 0, 2 * MIB);
    case 6:
        return commit(s->buffer, 0, 20 * MIB);
    case 7:
        return pleat_block_free(instance, 0, s->block, streams[0]);
    case 8:
        return pleat_buffer_resize(instance, 0, s->buffer, 32 * MIB, streams[1]);
    case 9:
        return resize(s->buffer, 3 * MIB);
    default:
        return pleat_buffer_destroy(instance, 0, s->buffer, streams[1]);
    }
}

enum { N_STEPS = 11 };
static const uint64_t sizes_after[N_STEPS] = { 0, 20, 20, 20, 20, 20, 20, 20, 32, 3, 0 };
static const uint64_t committed_after[N_STEPS] = { 0, 20, 20, 12, 12, 10, 20, 20, 32, 4, 0 };

static void check_scene(const scene *s, int i)
{
    if (i >= 0 && i < N_STEPS - 1) {
        ck_assert_uint_eq(info_of(s->buffer).bytes, sizes_after[i] * MIB);
        ck_assert_uint_eq(committed(s->buffer), committed_after[i] * MIB);
    }
    api_check(instance);
}

static bool play_with(const fault *f, uint64_t k)
{
    scene s = { 0 };
    open_on("capacity:48M,depth:4", "chunks:granule,reserve_mb:0");
    (void)api_stats(instance, 0);
    f->arm(k);
    for (int i = 0; i < N_STEPS; i++) {
        if (step(&s, i) != PLEAT_OK) {
            ck_assert_msg(f->has_hit(k), "step %d fails without a fault: %s", i,
                          pleat_last_error()->text);
            check_scene(&s, i - 1);
            ck_assert_msg(step(&s, i) == PLEAT_OK, "step %d after fault %d: %s", i, (int)k,
                          pleat_last_error()->text);
        }
        check_scene(&s, i);
        if (i == 1 || i == 6) {
            work(s.buffer, 20 * MIB, streams[0]);
        }
    }
    bool has_hit = f->has_hit(k);
    f->disarm();
    close_pleat();
    return has_hit;
}

START_TEST(each_failing_call_leaves_the_buffer_as_it_was)
{
    uint64_t k = 0;
    while (play_with(&faults[_i], k)) {
        k++;
    }
    ck_assert_uint_gt(k, 3);
}
END_TEST

/* ---- threads --------------------------------------------------------------------------------- */

typedef struct crew {
    pthread_t thread;
    unsigned index;
    pleat_devptr shared;
    bool is_right;
} crew;

static void *grow_and_shrink(void *of)
{
    enum { N_TURNS = SLOWER == 1 ? 400 : 100 };
    crew *c = of;
    uint64_t state = c->index + 1;
    pleat_devptr own = 0;
    c->is_right = pleat_buffer_create(instance, 0, 32 * MIB, c->index % 2, &own) == PLEAT_OK;
    for (int i = 0; i < N_TURNS && c->is_right; i++) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407U;
        uint64_t bytes = (state >> 33) % (16 * MIB);
        void *stream = streams[c->index % 2];
        pleat_devptr block = 0;
        pleat_status st = pleat_buffer_resize(instance, 0, own, bytes, stream);
        c->is_right = st == PLEAT_OK || st == PLEAT_ENOMEM_DEVICE;
        st = pleat_buffer_commit(instance, 0, c->shared, bytes, 1 * MIB, stream);
        c->is_right = c->is_right && (st == PLEAT_OK || st == PLEAT_ENOMEM_DEVICE);
        st = pleat_buffer_decommit(instance, 0, c->shared, bytes / 2, bytes / 2, stream);
        c->is_right = c->is_right && st == PLEAT_OK;
        if (pleat_block_alloc(instance, 0, 1 + bytes / 4, stream, &block) == PLEAT_OK) {
            c->is_right = c->is_right && pleat_block_free(instance, 0, block, stream) == PLEAT_OK;
        }
    }
    if (own != 0 && pleat_buffer_destroy(instance, 0, own, NULL) != PLEAT_OK) {
        c->is_right = false;
    }
    return NULL;
}

START_TEST(threads_change_their_own_and_a_shared_one)
{
    crew crews[N_THREADS];
    open_on("capacity:96M,depth:4", "reserve_mb:0");
    pleat_devptr shared = make(32 * MIB, 1);
    for (unsigned i = 0; i < N_THREADS; i++) {
        crews[i] = (crew){ .index = i, .shared = shared };
        ck_assert_int_eq(pthread_create(&crews[i].thread, NULL, grow_and_shrink, &crews[i]), 0);
    }
    for (unsigned i = 0; i < N_THREADS; i++) {
        pthread_join(crews[i].thread, NULL);
        ck_assert(crews[i].is_right);
    }
    api_check(instance);
    destroy(shared);
    close_pleat();
}
END_TEST

SUITE(api_buffer)
{
    TCase *tcase = suite_case(suite, "what it is", NULL, NULL);
    tcase_add_test(tcase, a_new_buffer_has_addresses_and_no_memory);
    tcase_add_test(tcase, it_grows_in_place_and_page_by_page);
    tcase_add_test(tcase, pages_in_the_middle_come_and_go);
    tcase_add_test(tcase, memory_goes_to_blocks_and_back);
    tcase_add_test(tcase, what_was_decommitted_goes_back_to_the_driver);
    tcase_add_test(tcase, pages_that_stayed_are_had_again_without_the_driver);
    tcase = suite_case(suite, "under work", NULL, NULL);
    tcase_add_test(tcase, another_stream_gets_decommitted_pages_behind_their_work);
    tcase_add_test(tcase, recorded_streams_are_waited_for);
    tcase_add_test(tcase, the_stream_that_decommits_is_waited_for);
    tcase_add_test(tcase, a_buffer_is_destroyed_under_work_and_its_addresses_serve_the_next);
    tcase_add_test(tcase, a_capture_is_refused_and_goes_on);
    tcase_add_test(tcase, pages_recorded_in_a_capture_stay_until_its_graph_is_gone);
    tcase = suite_case(suite, "refusals", NULL, NULL);
    tcase_add_test(tcase, mistakes_are_named);
    tcase_add_test(tcase, an_allocator_without_buffers_says_so);
    tcase_add_test(tcase, a_buffer_left_behind_goes_with_its_instance);
    tcase_add_test(tcase, a_limit_holds_for_buffers_and_blocks_together);
    tcase_add_test(tcase, a_commit_of_many_parts_is_made_whole_or_not_at_all);
    tcase = suite_case(suite, "at scale", NULL, NULL);
    tcase_add_test(tcase, forty_thousand_steps_make_as_many_operations_as_chunks);
    tcase_add_test(tcase, what_lies_beside_needs_no_more_than_without_it);
    tcase_add_test(tcase, there_may_be_ten_thousand);
    tcase = suite_case(suite, "faults", NULL, NULL);
    tcase_add_loop_test(tcase, each_failing_call_leaves_the_buffer_as_it_was, 0, 2);
    tcase = suite_case(suite, "threads", NULL, NULL);
    tcase_add_test(tcase, threads_change_their_own_and_a_shared_one);
}
