/* peer_test.c - mappings for other devices, too: the listed devices, and the number of calls. */
/* labels: unit fault */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "tests/support/suite.h"
#include "tests/support/vmm/vmm_sim.h"
#include "vmm/async/async_pool.h"
#include "vmm/chunk.h"
#include "vmm/device_state.h"
#include "vmm/mapping.h"
#include "vmm/range.h"

#define MIB ((size_t)1 << 20)

enum { N_CHUNKS = 4, N_DEVICES = 4 };

static const pl_device_options with_peers = { .peers = true };

static vmm_sim sim;
static pl_device *dev;
static pl_range range;
static pl_chunk chunks[N_CHUNKS];

static void open_with(const char *conf, const pl_device_options *options)
{
    vmm_sim_open(&sim, conf);
    dev = vmm_sim_device(&sim, options);
    ck_assert_int_eq(pl_range_reserve(dev, 32 * MIB, 32 * MIB, &range), PLEAT_OK);
    for (int i = 0; i < N_CHUNKS; i++) {
        ck_assert_int_eq(pl_chunk_create(dev, &chunks[i]), PLEAT_OK);
    }
}

static void close_all(void)
{
    sim.fail_never();
    for (int i = 0; i < N_CHUNKS; i++) {
        ck_assert_int_eq(pl_chunk_release(dev, chunks[i]), PLEAT_OK);
    }
    ck_assert_int_eq(pl_range_release(dev, range), PLEAT_OK);
    vmm_sim_close_device(dev);
    vmm_sim_close(&sim);
}

/* Bit d is set if device d may read and write there. */
static unsigned who_may(pleat_devptr at)
{
    unsigned devices = 0;
    for (int i = 0; i < N_DEVICES; i++) {
        unsigned long long flags = 0;
        cu_mem_location location = { .type = CU_LOCATION_DEVICE, .id = i };
        ck_assert_int_eq(pl_cu_mem_get_access(sim.drv, &flags, &location, at), CU_SUCCESS);
        devices |= flags == CU_ACCESS_READ_WRITE ? 1U << i : 0;
    }
    return devices;
}

static void check_run(pleat_devptr at, unsigned expected)
{
    for (int i = 0; i < N_CHUNKS; i++) {
        ck_assert_uint_eq(who_may(at + (size_t)i * 2 * MIB), expected);
    }
}

START_TEST(a_run_is_opened_to_every_device_that_can_reach_with_one_call)
{
    static const struct {
        const char *conf;
        unsigned expected;
    } cases[] = {
        { "devices:4,capacity:64M", 0xf },
        { "devices:4,capacity:64M,peers:pairs", 0x3 },
        { "devices:4,capacity:64M,peers:none", 0x1 },
    };
    open_with(cases[_i].conf, &with_peers);
    ck_assert_int_eq(pl_mapping_map(dev, range.base, chunks, N_CHUNKS), PLEAT_OK);
    check_run(range.base, cases[_i].expected);
    ck_assert_uint_eq(sim.n_calls("cuMemSetAccess"), 1);
    ck_assert_uint_eq(sim.n_calls("cuDeviceCanAccessPeer"), N_DEVICES - 1);
    ck_assert_int_eq(pl_mapping_unmap(dev, range.base, 8 * MIB), PLEAT_OK);
    /* A take maps the same chunks at a new place: one more set-access, and no query of a device. */
    ck_assert_int_eq(pl_mapping_map(dev, range.base + 16 * MIB, chunks, N_CHUNKS), PLEAT_OK);
    check_run(range.base + 16 * MIB, cases[_i].expected);
    ck_assert_uint_eq(sim.n_calls("cuMemSetAccess"), 2);
    ck_assert_uint_eq(sim.n_calls("cuDeviceCanAccessPeer"), N_DEVICES - 1);
    ck_assert_int_eq(pl_mapping_unmap(dev, range.base + 16 * MIB, 8 * MIB), PLEAT_OK);
    close_all();
}
END_TEST

START_TEST(without_the_option_a_run_is_the_devices_own)
{
    open_with("devices:4,capacity:64M", NULL);
    ck_assert_int_eq(pl_mapping_map(dev, range.base, chunks, N_CHUNKS), PLEAT_OK);
    check_run(range.base, 0x1);
    ck_assert_uint_eq(sim.n_calls("cuDeviceCanAccessPeer"), 0);
    ck_assert_int_eq(pl_mapping_unmap(dev, range.base, 8 * MIB), PLEAT_OK);
    close_all();
}
END_TEST

START_TEST(a_refused_set_access_unmaps_the_run)
{
    open_with("devices:4,capacity:64M", &with_peers);
    sim.fail_at("cuMemSetAccess", 0, CU_UNKNOWN);
    ck_assert_int_eq(pl_mapping_map(dev, range.base, chunks, N_CHUNKS), PLEAT_EDRIVER);
    ck_assert_uint_eq(vmm_sim_counted(&sim).mappings, 0);
    ck_assert_uint_eq(pl_device_counted(dev).ops_map, 0);
    ck_assert_uint_eq(pl_device_counted(dev).n_undo_failures, 0);
    ck_assert_int_eq(pl_mapping_map(dev, range.base, chunks, N_CHUNKS), PLEAT_OK);
    check_run(range.base, 0xf);
    ck_assert_int_eq(pl_mapping_unmap(dev, range.base, 8 * MIB), PLEAT_OK);
    close_all();
}
END_TEST

START_TEST(a_device_whose_peers_cannot_be_asked_is_not_opened)
{
    pl_device *other = NULL;
    vmm_sim_open(&sim, "devices:4,capacity:64M");
    for (uint64_t k = 0; k < N_DEVICES - 1; k++) {
        sim.fail_at("cuDeviceCanAccessPeer", k, CU_UNKNOWN);
        ck_assert_int_eq(pl_device_open(sim.drv, 0, &with_peers, &other), PLEAT_EDRIVER);
        ck_assert_ptr_null(other);
        sim.fail_never();
    }
    vmm_sim_close(&sim);
}
END_TEST

START_TEST(every_device_lists_itself_first_and_its_own_peers)
{
    pl_device *other = NULL;
    pl_range there;
    pl_chunk chunk;
    open_with("devices:4,capacity:64M,peers:pairs", NULL);
    ck_assert_int_eq(pl_device_open(sim.drv, 2, &with_peers, &other), PLEAT_OK);
    ck_assert_int_eq(pl_range_reserve(other, 2 * MIB, 2 * MIB, &there), PLEAT_OK);
    ck_assert_int_eq(pl_chunk_create(other, &chunk), PLEAT_OK);
    ck_assert_int_eq(pl_mapping_map(other, there.base, &chunk, 1), PLEAT_OK);
    ck_assert_uint_eq(who_may(there.base), 0xc);
    ck_assert_int_eq(pl_mapping_unmap(other, there.base, 2 * MIB), PLEAT_OK);
    ck_assert_int_eq(pl_chunk_release(other, chunk), PLEAT_OK);
    ck_assert_int_eq(pl_range_release(other, there), PLEAT_OK);
    vmm_sim_close_device(other);
    close_all();
}
END_TEST

START_TEST(probing_tries_the_access_that_mappings_get)
{
    char why[128];
    open_with("devices:4,capacity:64M", &with_peers);
    ck_assert_int_eq(pl_device_probe(dev, why, sizeof why), PLEAT_OK);
    sim.fail_at("cuMemSetAccess", 0, CU_INVALID_DEVICE);
    ck_assert_int_ne(pl_device_probe(dev, why, sizeof why), PLEAT_OK);
    ck_assert_uint_gt(strlen(why), 0);
    close_all();
}
END_TEST

/* ---- the driver's pools ---------------------------------------------------------------------- */

/* Let device `ordinal` work on the block. If this is a hazard, the fixture finds it. */
static void touch_from(int ordinal, pleat_devptr ptr)
{
    pl_device *other = NULL;
    pleat_sim_access access = { ptr, MIB, true };
    ck_assert_int_eq(pl_device_open(sim.drv, ordinal, NULL, &other), PLEAT_OK);
    ck_assert_int_eq(pl_device_enter(other), PLEAT_OK);
    ck_assert_int_eq(sim.work(NULL, &access, 1), CU_SUCCESS);
    sim.finish();
    pl_device_leave(other);
    vmm_sim_close_device(other);
}

START_TEST(a_pool_is_opened_to_every_device_that_can_reach)
{
    static const struct {
        const char *conf;
        int n_reaching; /* the first n devices reach device 0 */
        uint64_t n_calls;
    } cases[] = {
        { "devices:4,capacity:64M", 4, 1 },
        { "devices:4,capacity:64M,peers:pairs", 2, 1 },
        { "devices:4,capacity:64M,peers:none", 1, 0 },
    };
    pl_async_pool *pool;
    pl_stream *stream;
    pleat_devptr ptr;
    open_with(cases[_i].conf, &with_peers);
    ck_assert_int_eq(pl_async_pool_create(dev, 0, UINT64_MAX, &pool), PLEAT_OK);
    ck_assert_int_eq(pl_stream_get(dev, NULL, &stream), PLEAT_OK);
    ck_assert_int_eq(pl_async_pool_alloc(pool, MIB, stream, &ptr), PLEAT_OK);
    ck_assert_uint_eq(sim.n_calls("cuMemPoolSetAccess"), cases[_i].n_calls);
    ck_assert_int_eq(pl_stream_synchronize(stream), PLEAT_OK);
    for (int i = 0; i < cases[_i].n_reaching; i++) {
        touch_from(i, ptr);
    }
    ck_assert_int_eq(pl_async_pool_free(pool, ptr, MIB, stream), PLEAT_OK);
    sim.finish();
    ck_assert_uint_eq(pl_async_pool_destroy(pool), 0);
    close_all();
}
END_TEST

START_TEST(a_pool_that_cannot_be_opened_to_peers_is_not_made)
{
    pl_async_pool *pool = NULL;
    open_with("devices:4,capacity:64M", &with_peers);
    sim.fail_at("cuMemPoolSetAccess", 0, CU_UNKNOWN);
    ck_assert_int_eq(pl_async_pool_create(dev, 0, UINT64_MAX, &pool), PLEAT_EDRIVER);
    ck_assert_ptr_null(pool);
    ck_assert_uint_eq(sim.n_calls("cuMemPoolDestroy"), 1);
    close_all();
}
END_TEST

/* ---- streams of peers ------------------------------------------------------------------------ */

static pl_device *peer;
static cu_stream handle;

/* Opens a device and a peer that reaches it, with a stream of the peer. */
static void open_pair(const char *conf, const pl_device_options *options)
{
    vmm_sim_open(&sim, conf);
    dev = vmm_sim_device(&sim, options);
    ck_assert_int_eq(pl_device_open(sim.drv, 1, NULL, &peer), PLEAT_OK);
    handle = vmm_sim_stream(peer, false);
}

static void close_pair(void)
{
    sim.fail_never();
    if (handle != NULL) {
        vmm_sim_destroy_stream(peer, handle);
    }
    vmm_sim_close_device(dev);
    vmm_sim_close_device(peer);
    sim.finish();
    vmm_sim_close(&sim);
}

static void begin_capture_on(pl_device *device, cu_stream stream)
{
    ck_assert_int_eq(pl_device_enter(device), PLEAT_OK);
    ck_assert_int_eq(pl_cu_stream_begin_capture(sim.drv, stream, CU_CAPTURE_MODE_GLOBAL),
                     CU_SUCCESS);
    pl_device_leave(device);
}

static void end_capture_on(pl_device *device, cu_stream stream)
{
    cu_graph graph = NULL;
    ck_assert_int_eq(pl_device_enter(device), PLEAT_OK);
    ck_assert_int_eq(pl_cu_stream_end_capture(sim.drv, stream, &graph), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_graph_destroy(sim.drv, graph), CU_SUCCESS);
    pl_device_leave(device);
}

/* Begins a capture on the peer's stream. */
static void begin_capture(cu_stream stream)
{
    begin_capture_on(peer, stream);
}

static void end_capture(cu_stream stream)
{
    end_capture_on(peer, stream);
}

/* Orders `waits` behind `awaited`, in a capture or without one. */
static void let_wait(pl_device *later, cu_stream waits, pl_device *earlier, cu_stream awaited)
{
    cu_event event = NULL;
    ck_assert_int_eq(pl_device_enter(earlier), PLEAT_OK);
    ck_assert_int_eq(pl_cu_event_create(sim.drv, &event, CU_EVENT_DISABLE_TIMING_FLAG), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_event_record(sim.drv, event, awaited), CU_SUCCESS);
    pl_device_leave(earlier);
    ck_assert_int_eq(pl_device_enter(later), PLEAT_OK);
    ck_assert_int_eq(pl_cu_stream_wait_event(sim.drv, waits, event, 0), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_event_destroy(sim.drv, event), CU_SUCCESS);
    pl_device_leave(later);
}

static bool has_passed(pl_fence *fence)
{
    bool passed = false;
    ck_assert_int_eq(pl_fence_query(fence, &passed), PLEAT_OK);
    return passed;
}

START_TEST(only_streams_of_who_may_use_the_mappings_are_known)
{
    static const struct {
        const char *conf;
        bool has_peers;
        pleat_status expected;
    } cases[] = {
        { "devices:2,capacity:64M", true, PLEAT_OK },
        { "devices:2,capacity:64M", false, PLEAT_ESTREAM },
        { "devices:2,capacity:64M,peers:none", true, PLEAT_ESTREAM },
    };
    pl_stream *stream = NULL;
    pl_device_options options = { .peers = cases[_i].has_peers };
    open_pair(cases[_i].conf, &options);
    ck_assert_int_eq(pl_stream_get(dev, handle, &stream), cases[_i].expected);
    if (stream != NULL) {
        ck_assert_ptr_eq(pl_stream_known(dev, handle), stream);
        pl_stream_put(stream);
        pl_stream_put(stream);
        ck_assert(pl_stream_try_release(stream));
        ck_assert_ptr_null(pl_stream_known(dev, handle));
    }
    ck_assert_ptr_null(pl_stream_known(dev, NULL));
    close_pair();
}
END_TEST

START_TEST(its_fence_is_behind_its_work_and_orders_other_streams)
{
    pl_stream *stream = NULL;
    pl_stream *legacy = NULL;
    pl_fence *fence = NULL;
    open_pair("devices:2,capacity:64M", &with_peers);
    ck_assert_int_eq(pl_stream_get(dev, handle, &stream), PLEAT_OK);
    ck_assert_int_eq(pl_stream_get(dev, NULL, &legacy), PLEAT_OK);
    for (int i = 0; i < 3; i++) { /* a peer's event is not reused on the device */
        vmm_sim_submit(&sim, peer, handle);
        ck_assert_int_eq(pl_fence_record(stream, &fence), PLEAT_OK);
        ck_assert(!has_passed(fence));
        ck_assert_int_eq(pl_fence_order(legacy, fence), PLEAT_OK);
        ck_assert_int_eq(pl_fence_wait(fence, UINT32_MAX), PLEAT_OK);
        pl_fence_return(fence);
        ck_assert_int_eq(pl_fence_record(legacy, &fence), PLEAT_OK);
        ck_assert_int_eq(pl_fence_order(stream, fence), PLEAT_OK);
        pl_fence_return(fence);
    }
    ck_assert_uint_eq(pl_device_counted(dev).stream_waits, 6);
    close_pair();
}
END_TEST

START_TEST(a_fence_of_the_context_is_behind_peers_streams_that_are_gone)
{
    pl_stream *stream = NULL;
    pl_fence *fence = NULL;
    open_pair("devices:2,capacity:64M", &with_peers);
    ck_assert_int_eq(pl_stream_get(dev, handle, &stream), PLEAT_OK);
    vmm_sim_submit(&sim, peer, handle);
    vmm_sim_destroy_stream(peer, handle);
    handle = NULL;
    ck_assert_int_eq(pl_fence_record_context(dev, &fence), PLEAT_OK);
    ck_assert(!has_passed(fence));
    ck_assert_int_eq(pl_fence_wait(fence, UINT32_MAX), PLEAT_OK);
    ck_assert(has_passed(fence));
    pl_fence_return(fence);
    close_pair();
}
END_TEST

/* Opens a pair and returns a fence behind work on the peer's stream. */
static pl_fence *open_with_work(void)
{
    pl_stream *stream = NULL;
    pl_fence *fence = NULL;
    open_pair("devices:2,capacity:64M", &with_peers);
    ck_assert_int_eq(pl_stream_get(dev, handle, &stream), PLEAT_OK);
    vmm_sim_submit(&sim, peer, handle);
    ck_assert_int_eq(pl_fence_record(stream, &fence), PLEAT_OK);
    return fence;
}

START_TEST(synchronising_waits_for_peers_too)
{
    pl_fence *fence = open_with_work();
    ck_assert_int_eq(pl_device_synchronize(dev), PLEAT_OK);
    ck_assert(has_passed(fence));
    pl_fence_return(fence);
    close_pair();
}
END_TEST

/* A capture announced to pleat, and a capture of a blocking stream, which the driver reports. */
START_TEST(a_peers_capture_is_left_alone)
{
    pl_stream *stream = NULL;
    pl_fence *fence = NULL;
    bool is_told = _i == 0;
    open_pair("devices:2,capacity:64M", &with_peers);
    ck_assert_int_eq(pl_stream_get(dev, handle, &stream), PLEAT_OK);
    cu_stream captured = vmm_sim_stream(peer, !is_told);
    begin_capture(captured);
    if (is_told) {
        pl_device_note_capture(peer, true);
        ck_assert_int_eq(pl_device_synchronize(dev), PLEAT_ECAPTURE);
    }
    ck_assert_int_eq(pl_fence_record_context(dev, &fence), PLEAT_ECAPTURE);
    end_capture(captured);
    if (is_told) {
        pl_device_note_capture(peer, false);
    }
    ck_assert_int_eq(pl_fence_record_context(dev, &fence), PLEAT_OK);
    pl_fence_return(fence);
    vmm_sim_destroy_stream(peer, captured);
    close_pair();
}
END_TEST

/* Nobody announced this capture. The device's own legacy stream knows of it; the peer's does
 * not. */
START_TEST(a_capture_that_forked_to_a_peer_is_left_alone)
{
    pl_stream *stream = NULL;
    pl_fence *fence = NULL;
    open_pair("devices:2,capacity:64M", &with_peers);
    ck_assert_int_eq(pl_stream_get(dev, handle, &stream), PLEAT_OK);
    cu_stream captured = vmm_sim_stream(dev, true);
    begin_capture_on(dev, captured);
    let_wait(peer, handle, dev, captured);
    ck_assert_int_eq(pl_fence_record_context(dev, &fence), PLEAT_ECAPTURE);
    let_wait(dev, captured, peer, handle);
    end_capture_on(dev, captured);
    ck_assert_int_eq(pl_fence_record_context(dev, &fence), PLEAT_OK);
    pl_fence_return(fence);
    vmm_sim_destroy_stream(dev, captured);
    close_pair();
}
END_TEST

static void *wait_for_recorders(void *is_over)
{
    pl_device_wait_for_recorders(peer);
    atomic_store((atomic_bool *)is_over, true);
    return NULL;
}

/* A recorder sees a capture announced before. An announcement waits for earlier recorders. */
START_TEST(who_tells_of_a_capture_and_who_records_see_each_other)
{
    pl_stream *stream = NULL;
    pthread_t teller;
    atomic_bool is_over = false;
    open_pair("devices:2,capacity:64M", &with_peers);
    ck_assert_int_eq(pl_stream_get(dev, handle, &stream), PLEAT_OK);
    ck_assert_int_eq(pl_context_begin_record(dev, 1), PLEAT_OK);
    pl_device_note_capture(peer, true);
    ck_assert_int_eq(pl_context_begin_record(dev, 1), PLEAT_ECAPTURE);
    ck_assert_int_eq(pl_context_begin_record(dev, 0), PLEAT_OK); /* own captures do not count */
    ck_assert_int_eq(pthread_create(&teller, NULL, wait_for_recorders, &is_over), 0);
    for (int i = 0; i < 100; i++) {
        (void)sched_yield();
        ck_assert(!atomic_load(&is_over));
    }
    pl_context_end_record(dev, 0);
    pl_context_end_record(dev, 1);
    ck_assert_int_eq(pthread_join(teller, NULL), 0);
    ck_assert(atomic_load(&is_over));
    pl_device_note_capture(peer, false);
    close_pair();
}
END_TEST

/* A closing device waits for its peers' work, even if this breaks captures. */
START_TEST(draining_spares_no_capture)
{
    pl_fence *fence = open_with_work();
    pl_device_note_capture(peer, true);
    ck_assert_int_eq(pl_device_synchronize(dev), PLEAT_ECAPTURE);
    ck_assert_int_eq(pl_device_drain(dev), PLEAT_OK);
    ck_assert(has_passed(fence));
    pl_device_note_capture(peer, false);
    pl_fence_return(fence);
    close_pair();
}
END_TEST

/* While a stream is captured, its device is unknown. */
START_TEST(one_first_seen_in_a_capture_is_known_once_it_rests)
{
    pl_stream *stream = NULL;
    pl_stream *again = NULL;
    pl_fence *fence = NULL;
    open_pair("devices:2,capacity:64M", &with_peers);
    begin_capture(handle);
    ck_assert_int_eq(pl_stream_get(dev, handle, &stream), PLEAT_OK);
    end_capture(handle);
    vmm_sim_submit(&sim, peer, handle);
    if (_i == 0) {
        ck_assert_int_eq(pl_stream_get(dev, handle, &again), PLEAT_OK);
        ck_assert_ptr_eq(again, stream);
    }
    ck_assert_int_eq(pl_fence_record(stream, &fence), PLEAT_OK);
    ck_assert(!has_passed(fence));
    ck_assert_int_eq(pl_fence_wait(fence, UINT32_MAX), PLEAT_OK);
    pl_fence_return(fence);
    close_pair();
}
END_TEST

/* Nevertheless the stream's work is waited for, even while the stream is captured. */
START_TEST(the_work_of_one_that_is_only_seen_captured_is_waited_for)
{
    pl_stream *stream = NULL;
    pl_fence *fence = NULL;
    open_pair("devices:3,capacity:64M", &with_peers); /* device 2 has no context */
    begin_capture(handle);
    ck_assert_int_eq(pl_stream_get(dev, handle, &stream), PLEAT_OK);
    ck_assert_uint_eq(vmm_sim_counted(&sim).contexts, 2);
    end_capture(handle);
    vmm_sim_submit(&sim, peer, handle);
    ck_assert_int_eq(pl_fence_record_context(dev, &fence), PLEAT_OK);
    ck_assert(!has_passed(fence));
    ck_assert_int_eq(pl_device_synchronize(dev), PLEAT_OK);
    ck_assert(has_passed(fence));
    pl_fence_return(fence);
    close_pair();
}
END_TEST

/* Succeeds once no call fails any more. */
static pleat_status use_peer(void)
{
    pl_stream *stream = NULL;
    pl_fence *fence = NULL;
    pleat_status st = pl_stream_get(dev, handle, &stream);
    st = st == PLEAT_OK ? pl_fence_record(stream, &fence) : st;
    if (st == PLEAT_OK) {
        pl_fence_return(fence);
        st = pl_fence_record_context(dev, &fence);
    }
    if (st == PLEAT_OK) {
        st = pl_fence_wait(fence, UINT32_MAX);
        pl_fence_return(fence);
    }
    return st == PLEAT_OK ? pl_device_synchronize(dev) : st;
}

START_TEST(whatever_call_fails_nothing_is_left_behind)
{
    static const char *const calls[] = {
        "cuStreamGetCtx", "cuCtxGetDevice", "cuDeviceGet",      "cuDevicePrimaryCtxRetain",
        "cuEventCreate",  "cuEventRecord",  "cuCtxRecordEvent", "cuEventSynchronize",
    };
    for (uint64_t k = 0; k < 2; k++) {
        open_pair("devices:2,capacity:64M", &with_peers);
        vmm_sim_submit(&sim, peer, handle);
        sim.fail_at(calls[_i], k, CU_UNKNOWN);
        (void)!use_peer();
        sim.fail_never();
        ck_assert_int_eq(use_peer(), PLEAT_OK);
        ck_assert_uint_eq(pl_device_counted(dev).n_undo_failures, 0);
        close_pair();
    }
}
END_TEST

SUITE(vmm_peer)
{
    TCase *mappings = tcase_create("mappings");
    tcase_add_loop_test(mappings, a_run_is_opened_to_every_device_that_can_reach_with_one_call, 0,
                        3);
    tcase_add_test(mappings, without_the_option_a_run_is_the_devices_own);
    tcase_add_test(mappings, a_refused_set_access_unmaps_the_run);
    tcase_add_test(mappings, a_device_whose_peers_cannot_be_asked_is_not_opened);
    tcase_add_test(mappings, every_device_lists_itself_first_and_its_own_peers);
    tcase_add_test(mappings, probing_tries_the_access_that_mappings_get);
    suite_add_tcase(suite, mappings);
    TCase *pools = tcase_create("pools");
    tcase_add_loop_test(pools, a_pool_is_opened_to_every_device_that_can_reach, 0, 3);
    tcase_add_test(pools, a_pool_that_cannot_be_opened_to_peers_is_not_made);
    suite_add_tcase(suite, pools);
    TCase *streams = tcase_create("streams of peers");
    tcase_add_loop_test(streams, only_streams_of_who_may_use_the_mappings_are_known, 0, 3);
    tcase_add_test(streams, its_fence_is_behind_its_work_and_orders_other_streams);
    tcase_add_test(streams, a_fence_of_the_context_is_behind_peers_streams_that_are_gone);
    tcase_add_test(streams, synchronising_waits_for_peers_too);
    tcase_add_loop_test(streams, a_peers_capture_is_left_alone, 0, 2);
    tcase_add_test(streams, a_capture_that_forked_to_a_peer_is_left_alone);
    tcase_add_test(streams, who_tells_of_a_capture_and_who_records_see_each_other);
    tcase_add_test(streams, draining_spares_no_capture);
    tcase_add_loop_test(streams, one_first_seen_in_a_capture_is_known_once_it_rests, 0, 2);
    tcase_add_test(streams, the_work_of_one_that_is_only_seen_captured_is_waited_for);
    tcase_add_loop_test(streams, whatever_call_fails_nothing_is_left_behind, 0, 8);
    suite_add_tcase(suite, streams);
}
