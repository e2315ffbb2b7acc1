/* take_test.c - several streams: takes, stale mappings, recorded uses. */
/* labels: unit model */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "segments/pleat/space/space.h"
#include "tests/support/own.h"
#include "tests/support/segments/segments_sim.h"
#include "tests/support/suite.h"
#include "vmm/driver_state.h"

enum { GRANULE = 2 << 20, N_GRANULES = 64, FREES_PER_TICK = 32 };

#define SIM "capacity:128M,depth:1048576" /* work ends only when it is waited for */

static pleat_devptr ptrs[N_GRANULES];

static void open_plain(void)
{
    pleat_open(SIM, NULL);
}

static void open_recycling(void)
{
    pleat_open(SIM ",dead_handles:error", NULL);
}

static void open_with(pl_cross_stream cross_stream, uint32_t wait_ms)
{
    pleat_open_with(SIM, cross_stream, wait_ms);
}

static void open_settled(void)
{
    open_with(PL_CROSS_SETTLED, 0);
}

static void open_settled_waiting(void)
{
    open_with(PL_CROSS_SETTLED, 1000);
}

static void open_patient_granules(void)
{
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    SET_OWN(pleat, &options, chunks, PL_CHUNKS_GRANULE);
    options.wait_ms = 60000;
    pleat_open(SIM, &options);
}

/* Without ticks of the context, only the streams' own ticks are left. */
static void open_settled_without_context(void)
{
    pleat_open_with(SIM ",without:[cuCtxRecordEvent]", PL_CROSS_SETTLED, 0);
}

static void open_impatient(void)
{
    open_with(PL_CROSS_ORDER, 0);
}

/* The only wait for a stream that is gone is one for the whole device. */
static void open_recycling_without_context(void)
{
    pleat_open(SIM ",without:[cuCtxRecordEvent]", NULL);
}

/* Fill the device with live blocks of one granule: the last on stream 2, others on stream 1. */
static void fill(void)
{
    for (size_t i = 0; i < N_GRANULES; i++) {
        unsigned stream = i == N_GRANULES - 1 ? 2 : 1;
        ptrs[i] = pleat_get(GRANULE, stream);
        pleat_work(stream, ptrs[i], GRANULE);
    }
}

/* Free n of the blocks, alternately from `first` on. */
static void free_scattered(size_t first, size_t n)
{
    for (size_t i = first; i < first + 2 * n; i += 2) {
        pleat_put(ptrs[i], 1);
    }
}

/* Make a call that only names the stream; `own`: a live block of the stream. */
static void name(unsigned stream, pleat_devptr own)
{
    pleat_record(own, stream);
    pleat_assert_sound();
}

static uint64_t n_recorded(void)
{
    return pleat_calls("cuEventRecord");
}

/* ---- takes --------------------------------------------------------------------------------- */

START_TEST(settled_memory_is_taken_without_waiting)
{
    fill();
    free_scattered(0, FREES_PER_TICK - 1);
    pleat_put(ptrs[61], 1);
    pleat.sim.finish();
    pleat_get_and_use(20 * (size_t)GRANULE, 3);
    pleat_stats s = pleat_counted();
    ck_assert_uint_eq(s.n_taken_granules, 20);
    ck_assert_uint_eq(s.stream_waits + s.host_syncs, 0);
    ck_assert_uint_eq(s.bytes_created, 128 * MIB);
    ck_assert_uint_eq(s.resident_bytes, 128 * MIB);
}
END_TEST

START_TEST(pending_memory_is_taken_behind_one_stream_wait)
{
    fill();
    free_scattered(0, 10);
    pleat_get_and_use(10 * (size_t)GRANULE, 3);
    pleat_stats s = pleat_counted();
    ck_assert_uint_eq(s.n_taken_granules, 10);
    ck_assert_uint_eq(s.stream_waits, 1);
    ck_assert_uint_eq(s.host_syncs, 0);
    ck_assert_uint_eq(pleat_calls("cuStreamWaitEvent"), 1);
}
END_TEST

START_TEST(what_is_waited_for_already_needs_no_second_wait)
{
    fill();
    free_scattered(0, 20);
    pleat_get_and_use(10 * (size_t)GRANULE, 3);
    pleat_get_and_use(10 * (size_t)GRANULE, 3);
    ck_assert_uint_eq(pleat_counted().stream_waits, 1);
    ck_assert_uint_eq(pleat_counted().n_taken_granules, 20);
    free_scattered(40, 5); /* later frees need a wait of their own */
    pleat_get_and_use(5 * (size_t)GRANULE, 3);
    ck_assert_uint_eq(pleat_counted().stream_waits, 2);
}
END_TEST

START_TEST(memory_goes_from_stream_to_stream_to_stream)
{
    fill();
    for (unsigned stream = 2; stream <= 4; stream++) {
        if (stream == 2) {
            free_scattered(0, 20);
        } else {
            pleat_put(ptrs[0], stream - 1);
        }
        ptrs[0] = pleat_get_and_use(20 * (size_t)GRANULE, stream);
        ck_assert_uint_eq(pleat_counted().stream_waits, stream - 1);
    }
    pleat.sim.finish();
    pleat_assert_sound();
}
END_TEST

START_TEST(several_streams_memory_is_had_behind_a_wait_for_each)
{
    for (size_t i = 0; i < N_GRANULES; i++) {
        ptrs[i] = pleat_get_and_use(GRANULE, 1 + (unsigned)i % 3);
    }
    for (size_t i = 0; i < 30; i++) {
        pleat_put(ptrs[i], 1 + (unsigned)i % 3);
    }
    pleat_get_and_use(30 * (size_t)GRANULE, 4);
    pleat_stats s = pleat_counted();
    ck_assert_uint_eq(s.stream_waits, 3);
    ck_assert_uint_eq(s.host_syncs, 0);
    ck_assert_int_eq(pleat_refused(1, 4), PLEAT_ENOMEM_DEVICE);
}
END_TEST

START_TEST(a_request_that_fits_nowhere_orders_nothing)
{
    fill();
    free_scattered(0, 10);
    ck_assert_int_eq(pleat_refused(20 * (size_t)GRANULE, 3), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(pleat_counted().stream_waits, 0);
}
END_TEST

START_TEST(a_granule_under_two_streams_pieces_is_had_behind_both)
{
    fill();
    pleat_put(ptrs[0], 1);
    pleat_devptr half = pleat_get_and_use(MIB, 1);
    pleat_devptr other = pleat_get_and_use(MIB, 1); /* the two blocks fill a granule */
    ck_assert_uint_eq(other, half + MIB);
    pleat_put(half, 1);
    pleat_record(other, 2);
    pleat_work_after(2, 1, other, MIB);
    pleat_put(other, 1);
    ck_assert_int_eq(pleat_refused(GRANULE, 4), PLEAT_EPENDING); /* no tick covers the uses */
    name(1, ptrs[1]);
    ck_assert_int_eq(pleat_refused(GRANULE, 4), PLEAT_EPENDING); /* none covers stream 2's use */
    name(2, ptrs[N_GRANULES - 1]);
    ck_assert_uint_eq(pleat_get_and_use(GRANULE, 4), half);
    ck_assert_uint_eq(pleat_counted().stream_waits, 2);
    ck_assert_uint_eq(pleat_counted().host_syncs, 0);
}
END_TEST

/* ---- stale mappings ------------------------------------------------------------------------ */

START_TEST(a_stale_mapping_is_unmapped_only_after_its_last_use)
{
    fill();
    free_scattered(0, 10);
    pleat_get_and_use(10 * (size_t)GRANULE, 3);
    pleat_stats s = pleat_counted();
    ck_assert_uint_eq(s.stale_bytes, 10 * (uint64_t)GRANULE);
    pleat_trim(0, false);
    ck_assert_uint_eq(pleat_calls("cuMemUnmap"), 0);
    ck_assert_uint_eq(vmm_sim_counted(&pleat.sim).mappings, N_GRANULES + 10);
    pleat_trim(0, true);
    ck_assert_uint_eq(pleat_counted().stale_bytes, 0);
    ck_assert_uint_eq(vmm_sim_counted(&pleat.sim).mappings, N_GRANULES);
}
END_TEST

START_TEST(stale_mappings_go_on_their_own_once_they_are_over)
{
    fill();
    free_scattered(0, 20);
    pleat_get_and_use(20 * (size_t)GRANULE, 3);
    pleat.sim.finish();
    pleat_put(ptrs[41], 1);
    pleat_get_and_use(GRANULE, 3); /* no hit, so the request looks for ripe stale mappings */
    ck_assert_uint_eq(pleat_counted().stale_bytes % (20 * (uint64_t)GRANULE), 0);
    ck_assert_uint_ge(pleat_calls("cuMemUnmap"), 20);
}
END_TEST

START_TEST(neighbouring_stale_mappings_are_unmapped_by_one_call)
{
    fill();
    for (size_t i = 0; i < 10; i++) {
        pleat_put(ptrs[i], 1);
        pleat_put(ptrs[20 + i], 1);
    }
    pleat_get_and_use(20 * (size_t)GRANULE, 3); /* too long for either run of ten */
    ck_assert_uint_eq(pleat_counted().n_taken_granules, 20);
    pleat_trim(0, true);
    ck_assert_uint_eq(pleat_calls("cuMemUnmap"), 2);
    ck_assert_uint_eq(pleat_counted().ops_unmap, 2);
}
END_TEST

START_TEST(a_stale_address_is_no_place_until_it_is_a_hole)
{
    fill();
    free_scattered(0, 20);
    pleat_devptr large = pleat_get_and_use(20 * (size_t)GRANULE, 3);
    pleat_put(large, 3);
    pleat_devptr small = pleat_get_and_use(GRANULE, 1);
    for (size_t i = 0; i < 40; i += 2) {
        ck_assert_uint_ne(small, ptrs[i]);
    }
    pleat_trim(0, true);
    ck_assert_uint_eq(pleat_get_and_use(GRANULE, 1), ptrs[0]);
}
END_TEST

/* The new chunks stay mapped where a request failed, and are idle. */
START_TEST(memory_that_the_driver_still_maps_is_not_given_back)
{
    pleat_devptr ptr;
    uint64_t released = 7;
    pleat.sim.fail_at("cuMemSetAccess", 0, CU_UNKNOWN);
    pleat.sim.fail_from("cuMemUnmap", 0, CU_UNKNOWN);
    pleat_status st = pleat.a->ops->alloc(pleat.a, 4 * (size_t)GRANULE, pleat.streams[1], &ptr);
    ck_assert_int_eq(st, PLEAT_EPOISONED);
    ck_assert_uint_eq(pleat_counted().stale_bytes, 4 * (uint64_t)GRANULE);
    ck_assert_int_eq(pleat.a->ops->trim(pleat.a, 0, true, &released), PLEAT_EDRIVER);
    ck_assert_uint_eq(released, 7);
    ck_assert_uint_eq(pleat_counted().idle_bytes, 4 * (uint64_t)GRANULE);
    ptr = pleat_get_and_use(4 * (size_t)GRANULE, 1); /* idle chunks serve elsewhere */
    ck_assert_uint_eq(pleat_counted().resident_bytes, 4 * (uint64_t)GRANULE);
    pleat_put(ptr, 1);
    pleat.sim.fail_never();
    ck_assert_uint_eq(pleat_trim(0, true), 4 * (uint64_t)GRANULE);
    ck_assert_uint_eq(pleat_counted().stale_bytes, 0);
    pleat.has_failed_undo = true;
}
END_TEST

static void open_partly(void)
{
    pleat_open("capacity:128M,depth:1048576,unkind:[partial_unmap]", NULL);
}

/* Stale addresses lie beside some that the driver has unmapped in part. */
START_TEST(what_was_refused_holds_up_no_neighbour)
{
    pleat_devptr ptr;
    uint64_t released;
    pleat_devptr low = pleat_get_and_use(GRANULE, 1);
    pleat.sim.fail_at("cuMemSetAccess", 0, CU_UNKNOWN);
    pleat.sim.fail_from("cuMemUnmap", 0, CU_UNKNOWN);
    ck_assert_int_eq(pleat.a->ops->alloc(pleat.a, 4 * (size_t)GRANULE, pleat.streams[1], &ptr),
                     PLEAT_EPOISONED);
    pleat.has_failed_undo = true;
    pleat_get_and_use(62 * (size_t)GRANULE, 1);
    pleat_put(low, 1);
    pleat_get_and_use(2 * (size_t)GRANULE, 1);
    ck_assert_uint_gt(pleat_counted().stale_bytes, 4 * (uint64_t)GRANULE);
    pleat.sim.fail_never();
    ck_assert_int_eq(pleat.a->ops->trim(pleat.a, 0, true, &released), PLEAT_OK);
    ck_assert_uint_eq(pleat_counted().stale_bytes, 0);
}
END_TEST

/* ---- cross_stream:settled ------------------------------------------------------------------ */

START_TEST(where_ordering_is_forbidden_pending_memory_is_pending)
{
    fill();
    free_scattered(0, 10);
    ck_assert_int_eq(pleat_refused(10 * (size_t)GRANULE, 3), PLEAT_EPENDING);
    ck_assert_int_eq(pleat_refused(10 * (size_t)GRANULE, 3), PLEAT_EPENDING);
    pleat_stats s = pleat_counted();
    ck_assert_uint_eq(s.stream_waits + s.host_syncs, 0);
    ck_assert_ptr_nonnull(strstr(pl_driver_last_error()->detail, "pends on the stream"));
    pleat.sim.finish();
    pleat_get_and_use(10 * (size_t)GRANULE, 3);
    s = pleat_counted();
    ck_assert_uint_eq(s.stream_waits + s.host_syncs, 0);
}
END_TEST

START_TEST(what_can_never_fit_is_no_matter_of_waiting)
{
    fill();
    free_scattered(0, 10);
    ck_assert_int_eq(pleat_refused(20 * (size_t)GRANULE, 3), PLEAT_ENOMEM_DEVICE);
}
END_TEST

START_TEST(frees_before_and_after_a_tick_settle_alike)
{
    fill();
    free_scattered(0, 10);
    ck_assert_int_eq(pleat_refused(20 * (size_t)GRANULE, 3), PLEAT_ENOMEM_DEVICE); /* ticks */
    ck_assert_int_eq(pleat_refused(10 * (size_t)GRANULE, 3), PLEAT_EPENDING);
    free_scattered(20, 10);
    pleat_get_and_use(MIB, 1); /* takes a part of the first ten */
    ck_assert_int_eq(pleat_refused(15 * (size_t)GRANULE, 3), PLEAT_EPENDING);
    pleat.sim.finish();
    pleat_get_and_use(19 * (size_t)GRANULE, 3);
    ck_assert_uint_eq(pleat_counted().stream_waits + pleat_counted().host_syncs, 0);
}
END_TEST

START_TEST(a_tick_whose_event_fails_is_replaced)
{
    fill();
    pleat_put(ptrs[0], 1);
    ck_assert_int_eq(pleat_refused(GRANULE, 3), PLEAT_EPENDING);
    pleat.sim.fail_at("cuEventQuery", 0, CU_UNKNOWN);
    ck_assert_int_eq(pleat_refused(GRANULE, 3), PLEAT_EPENDING);
    ck_assert_uint_eq(pleat.sim.n_faults(), 1);
    pleat.sim.finish();
    ck_assert_int_eq(pleat_refused(GRANULE, 3), PLEAT_EPENDING); /* the failed tick tells nothing */
    name(1, ptrs[1]);
    pleat_get_and_use(GRANULE, 3);
    ck_assert_uint_eq(pleat_counted().stream_waits + pleat_counted().host_syncs, 0);
}
END_TEST

START_TEST(a_use_whose_event_fails_gets_another)
{
    fill();
    pleat_record(ptrs[3], 4);
    pleat_work_after(4, 1, ptrs[3], GRANULE);
    pleat_put(ptrs[3], 1);
    ck_assert_int_eq(pleat_refused(GRANULE, 4), PLEAT_EPENDING); /* a tick on stream 4 */
    pleat.sim.fail_from("cuEventQuery", 0, CU_UNKNOWN);
    ck_assert_int_eq(pleat_refused(GRANULE, 3), PLEAT_EPENDING);
    ck_assert_uint_eq(pleat.sim.n_faults(), 2); /* queries of stream 4 and of the owner */
    pleat.sim.fail_never();
    pleat.sim.finish();
    name(1, ptrs[1]);
    ck_assert_int_eq(pleat_refused(GRANULE, 3), PLEAT_EPENDING); /* the failed tick tells nothing */
    pleat_get_and_use(GRANULE, 4); /* names stream 4 and records a tick, which has passed */
    ck_assert_uint_eq(pleat_counted().host_syncs, 0);
}
END_TEST

START_TEST(when_the_others_are_over_a_block_still_pends_on_its_owner)
{
    fill();
    pleat_record(ptrs[3], 4); /* stream 4 has no work */
    pleat_put(ptrs[3], 1);
    ck_assert_int_eq(pleat_refused(GRANULE, 3), PLEAT_EPENDING);
    ck_assert_uint_eq(pleat_counted().active[PLEAT_SIZES_ALL].current, N_GRANULES);
    ck_assert_int_eq(pleat_refused(GRANULE, 4), PLEAT_EPENDING); /* the request names stream 4 */
    ck_assert_int_eq(pleat_refused(GRANULE, 3), PLEAT_EPENDING);
    ck_assert_uint_eq(pleat_counted().active[PLEAT_SIZES_ALL].current, N_GRANULES - 1);
    ck_assert_uint_eq(pleat_counted().pending_bytes, GRANULE);
    ck_assert_uint_eq(pleat_get_and_use(GRANULE, 1), ptrs[3]);
}
END_TEST

START_TEST(where_waiting_is_allowed_the_host_waits_before_it_fails)
{
    fill();
    free_scattered(0, 10);
    pleat_get_and_use(10 * (size_t)GRANULE, 3);
    pleat_stats s = pleat_counted();
    ck_assert_uint_eq(s.stream_waits, 0);
    ck_assert_uint_eq(s.host_syncs, 1);
}
END_TEST

START_TEST(the_host_waits_for_recorded_uses_too)
{
    fill();
    pleat_work_after(4, 1, ptrs[5], GRANULE);
    pleat_record(ptrs[5], 4);
    pleat_put(ptrs[5], 1);
    pleat_get_and_use(GRANULE, 3);
    ck_assert_uint_eq(pleat_counted().stream_waits, 0);
    ck_assert_uint_ge(pleat_counted().host_syncs, 1);
}
END_TEST

/* Another thread goes on: whenever the request has unmapped stale addresses, the thread takes one
 * granule more from the request's place, and leaves one more stale address there. */
static struct {
    cu_result (*unmap)(cu_devptr, size_t);
    pthread_t request;
    size_t bytes;
    int n_left;
} beside;

static void *take_and_free(void *unused)
{
    pleat_devptr ptr = 0;

    (void)unused;
    ck_assert_int_eq(pleat.a->ops->alloc(pleat.a, beside.bytes, pleat.streams[1], &ptr), PLEAT_OK);
    beside.bytes += GRANULE;
    ck_assert_int_eq(pleat.a->ops->free(pleat.a, ptr, pleat.streams[1]), PLEAT_OK);
    return NULL;
}

static cu_result unmap_and_go_on(cu_devptr at, size_t bytes)
{
    cu_result result = beside.unmap(at, bytes);

    if (beside.n_left > 0 && pthread_equal(pthread_self(), beside.request)) {
        pthread_t other;
        beside.n_left--;
        ck_assert_int_eq(pthread_create(&other, NULL, take_and_free, NULL), 0);
        ck_assert_int_eq(pthread_join(other, NULL), 0);
    }
    return result;
}

START_TEST(a_page_waits_as_long_as_it_may_for_addresses_that_others_leave)
{
    enum { N_TIMES = 20 };
    const struct pl_buffer_ops *ops = pleat.a->ops->buffers;
    pleat_devptr base = 0;
    ck_assert_int_eq(ops->open(pleat.a, NULL, N_GRANULES * (size_t)GRANULE, 0, 0, &base), PLEAT_OK);
    pl_buffer_change commit = { PL_BUFFER_COMMIT, base, 0, N_GRANULES * (size_t)GRANULE };
    pl_buffer_change decommit = { PL_BUFFER_DECOMMIT, base, 0, N_GRANULES * (size_t)GRANULE };
    ck_assert_int_eq(ops->change(pleat.a, &commit, pleat.streams[1]), PLEAT_OK);
    ck_assert_int_eq(ops->change(pleat.a, &decommit, pleat.streams[1]), PLEAT_OK);
    pleat.sim.finish();
    pleat_put(pleat_get(GRANULE, 1), 1);
    beside.unmap = pleat.sim.drv->table.mem_unmap;
    beside.request = pthread_self();
    beside.bytes = 2 * (size_t)GRANULE;
    beside.n_left = N_TIMES;
    pleat.sim.drv->table.mem_unmap = unmap_and_go_on;
    ck_assert_int_eq(ops->change(pleat.a, &commit, pleat.streams[1]), PLEAT_OK);
    ck_assert_int_eq(beside.n_left, 0); /* else the thread did not stand in the way */
}
END_TEST

/* ---- recorded uses ------------------------------------------------------------------------- */

/* A small live block per stream, for calls that name the stream. */
static pleat_devptr bells[PLEAT_N_STREAMS];

static void open_with_bells(void)
{
    open_plain();
    for (unsigned i = 1; i < PLEAT_N_STREAMS; i++) {
        bells[i] = pleat_get(512, i);
    }
}

static void open_impatient_with_bells(void)
{
    open_impatient();
    for (unsigned i = 1; i < 3; i++) {
        bells[i] = pleat_get(512, i);
    }
}

START_TEST(a_recorded_block_comes_back_only_after_its_use)
{
    pleat_devptr ptr = pleat_get_and_use(30 * MIB, 1);
    pleat_record(ptr, 2);
    pleat_work_after(2, 1, ptr, 30 * MIB);
    uint64_t pending = pleat_counted().pending_bytes;
    pleat_put(ptr, 1);
    pleat_stats s = pleat_counted();
    ck_assert_uint_eq(s.pending_bytes, pending + 30 * MIB);
    ck_assert_uint_eq(s.allocation[PLEAT_SIZES_ALL].current, 4);
    ck_assert_uint_eq(s.active_bytes[PLEAT_SIZES_ALL].current, 30 * MIB + 4 * 512);
    ck_assert_uint_eq(s.active[PLEAT_SIZES_ALL].current, 5);
    name(2, bells[2]);
    ck_assert_uint_ne(pleat_get_and_use(30 * MIB, 1), ptr);
    pleat.sim.finish();
    ck_assert_uint_eq(pleat_get_and_use(30 * MIB, 1), ptr);
    s = pleat_counted();
    ck_assert_uint_eq(s.active[PLEAT_SIZES_ALL].current, 6);
    ck_assert_uint_eq(s.stream_waits + s.host_syncs, 0);
}
END_TEST

START_TEST(nothing_is_asked_of_a_recorded_stream_until_it_is_named)
{
    pleat_devptr ptr = pleat_get_and_use(MIB, 1);
    pleat_record(ptr, 2);
    uint64_t before = n_recorded();
    pleat_put(ptr, 1);
    ck_assert_uint_ne(pleat_get_and_use(MIB, 1), ptr);
    pleat_get_and_use(30 * MIB, 1); /* a new segment is created */
    ck_assert_uint_eq(n_recorded(), before);
    name(2, bells[2]);
    name(2, bells[2]);
    ck_assert_uint_eq(n_recorded(), before + 1);
}
END_TEST

START_TEST(a_use_on_the_owners_stream_needs_no_event)
{
    pleat_get(MIB, 1);
    pleat_devptr ptr = pleat_get_and_use(30 * MIB, 1);
    pleat_record(ptr, 1);
    pleat_put(ptr, 1);
    ck_assert_uint_eq(pleat_get_and_use(30 * MIB, 1), ptr);
    ck_assert_uint_eq(n_recorded(), 0);
}
END_TEST

START_TEST(a_stream_recorded_twice_is_one_use)
{
    pleat_devptr ptr = pleat_get_and_use(30 * MIB, 1);
    pleat_record(ptr, 2);
    pleat_record(ptr, 3);
    pleat_record(ptr, 2);
    pleat_record(ptr, 4);
    pleat_put(ptr, 1);
    uint64_t before = n_recorded();
    for (unsigned i = 0; i < 6; i++) {
        name(2 + i % 3, bells[2 + i % 3]);
    }
    ck_assert_uint_eq(n_recorded(), before + 3);
    ck_assert_uint_eq(pleat_get_and_use(30 * MIB, 1), ptr); /* nothing runs on stream 2 */
}
END_TEST

START_TEST(all_recorded_uses_must_be_over)
{
    pleat_devptr ptr = pleat_get_and_use(30 * MIB, 1);
    pleat_record(ptr, 2);
    pleat_record(ptr, 3);
    pleat_work_after(3, 1, ptr, 30 * MIB);
    pleat_put(ptr, 1);
    name(2, bells[2]);
    name(3, bells[3]);
    pleat_get_and_use(2 * MIB, 1);
    ck_assert_uint_eq(pleat_counted().pending_bytes, 30 * MIB);
    ck_assert_uint_ne(pleat_get_and_use(30 * MIB, 1), ptr);
    pleat.sim.finish();
    ck_assert_uint_eq(pleat_get_and_use(30 * MIB, 1), ptr);
}
END_TEST

START_TEST(freeing_on_another_stream_is_a_use_there)
{
    pleat_devptr ptr = pleat_get(30 * MIB, 1);
    pleat_work(2, ptr, 30 * MIB);
    uint64_t pending = pleat_counted().pending_bytes;
    pleat_put(ptr, 2);
    ck_assert_uint_eq(pleat_counted().pending_bytes, pending + 30 * MIB);
    ck_assert_uint_ne(pleat_get_and_use(30 * MIB, 1), ptr);
    ck_assert_uint_ne(pleat_get_and_use(30 * MIB, 2), ptr);
    pleat.sim.finish();
    ck_assert_uint_eq(pleat_get_and_use(30 * MIB, 1), ptr); /* the free has named stream 2 */
}
END_TEST

START_TEST(a_block_freed_on_another_stream_pends_on_its_owner_until_that_is_named)
{
    pleat_devptr ptr = pleat_get(30 * MIB, 1);
    pleat_put(ptr, 2);
    ck_assert_uint_ne(pleat_get_and_use(30 * MIB, 3), ptr);
    ck_assert_uint_eq(pleat_counted().pending_bytes, 30 * MIB);
    ck_assert_uint_ne(pleat_get_and_use(30 * MIB, 3), ptr); /* it leaves a wish with stream 1 */
    name(1, bells[1]);
    ck_assert_uint_eq(pleat_get_and_use(30 * MIB, 3), ptr);
    ck_assert_uint_eq(pleat_counted().stream_waits + pleat_counted().host_syncs, 0);
}
END_TEST

START_TEST(a_second_free_of_a_pending_block_is_named)
{
    pleat_devptr ptr = pleat_get(30 * MIB, 1);
    pleat_work(2, ptr, 30 * MIB);
    pleat_put(ptr, 2);
    ck_assert_int_eq(pleat.a->ops->free(pleat.a, ptr, pleat.streams[1]), PLEAT_EDOUBLEFREE);
    pleat_block_info info;
    ck_assert_int_eq(pleat.a->ops->query(pleat.a, ptr, &info), PLEAT_EFOREIGN);
}
END_TEST

static void expect_no_references(void)
{
    const pl_space *space = (const pl_space *)pleat.a;
    for (uint32_t i = 0; i < space->streams.capacity; i++) {
        const pl_lane *lane = space->streams.lanes[i];
        ck_assert_uint_eq(lane != NULL ? lane->n_refs : 0, 0);
    }
}

/* Its uses go with it: else lanes of streams that are gone would never be given up. */
START_TEST(a_recorded_block_is_had_behind_all_its_streams)
{
    pleat_devptr ptr = pleat_get_and_use(120 * MIB, 1);
    pleat_record(ptr, 2);
    pleat_work_after(2, 1, ptr, 60 * MIB);
    pleat_work(1, ptr + 60 * MIB, 60 * MIB);
    pleat_put(ptr, 1); /* names stream 1, which gets a tick */
    ck_assert_int_eq(pleat_refused(120 * MIB, 3), PLEAT_EPENDING);
    name(2, bells[2]);
    ck_assert_uint_eq(pleat_get_and_use(120 * MIB, 3), ptr);
    pleat_stats s = pleat_counted();
    ck_assert_uint_eq(s.stream_waits, 2);
    ck_assert_uint_eq(s.host_syncs, 0);
    expect_no_references();
}
END_TEST

START_TEST(live_and_pending_uses_go_with_the_allocator)
{
    pleat_devptr ptr = pleat_get_and_use(30 * MIB, 1);
    pleat_record(ptr, 2);
    ptr = pleat_get_and_use(20 * MIB, 1);
    pleat_record(ptr, 3);
    pleat_work_after(3, 1, ptr, 20 * MIB);
    pleat_put(ptr, 1);
}
END_TEST

/* ---- streams that are gone ----------------------------------------------------------------- */

START_TEST(a_destroyed_streams_memory_is_had_behind_its_tick)
{
    pleat_devptr ptr = pleat_get_and_use(100 * MIB, 1);
    pleat_put(ptr, 1);
    pleat_renew_stream(1);
    ck_assert_uint_eq(pleat_get_and_use(100 * MIB, 2), ptr);
    ck_assert_uint_eq(pleat_counted().stream_waits, 1);
    ck_assert_uint_eq(pleat_counted().host_syncs, 0);
}
END_TEST

/* Others have taken all memory of the stream behind its tick, which has not passed yet. */
START_TEST(a_destroyed_stream_is_forgotten_with_its_tick)
{
    enum { N_OTHERS = 40 };
    pleat_devptr ptr = pleat_get_and_use(100 * MIB, 1);
    pleat_put(ptr, 1);
    pleat_renew_stream(1);
    ck_assert_uint_eq(pleat_get_and_use(100 * MIB, 2), ptr);
    size_t n_lanes = ((pl_space *)pleat.a)->streams.n_lanes;
    for (int i = 0; i < N_OTHERS; i++) {
        pleat_put(pleat_get(512, 3), 3);
        pleat_renew_stream(3);
    }
    pleat.sim.finish();
    pleat_get_and_use(10 * MIB, 4); /* no hit, so the request polls the ticks */
    /* without the lane that is gone, and with one of stream 4 */
    ck_assert_uint_le(((pl_space *)pleat.a)->streams.n_lanes, n_lanes - 1 + N_OTHERS + 1);
}
END_TEST

START_TEST(a_destroyed_streams_memory_without_a_tick_is_waited_for)
{
    pleat_get_and_use(MIB, 1);
    pleat_devptr ptr = pleat_get_and_use(100 * MIB, 1);
    pleat_put(ptr, 1);
    pleat_renew_stream(1);
    ck_assert_uint_eq(pleat_get_and_use(100 * MIB, 2), ptr);
    ck_assert_uint_eq(n_recorded(), 0);
    ck_assert_uint_eq(pleat_counted().stream_waits, 0);
    ck_assert_uint_eq(pleat_counted().host_syncs, 1);
}
END_TEST

START_TEST(a_recycled_handle_is_another_stream)
{
    cu_stream old = pleat.handles[1];
    pleat_devptr ptr = pleat_get_and_use(100 * MIB, 1);
    pleat_put(ptr, 1);
    pleat_renew_stream(1);
    ck_assert_ptr_eq(pleat.handles[1], old); /* else the test shows nothing */
    ck_assert_uint_eq(pleat_get_and_use(100 * MIB, 1), ptr);
    ck_assert_uint_eq(pleat_counted().stream_waits, 1);
    pleat.sim.finish();
    pleat_assert_sound();
}
END_TEST

START_TEST(who_may_not_wait_leaves_a_destroyed_streams_unticked_memory_pending)
{
    pleat_get_and_use(MIB, 1);
    pleat_put(pleat_get_and_use(100 * MIB, 1), 1);
    pleat_renew_stream(1);
    ck_assert_int_eq(pleat_refused(100 * MIB, 2), PLEAT_EPENDING);
    ck_assert_uint_eq(pleat_counted().host_syncs, 0);
    ck_assert_uint_eq(pleat_trim(0, true), 100 * MIB);
    pleat_get_and_use(100 * MIB, 2);
}
END_TEST

START_TEST(a_tick_from_before_its_destruction_settles_a_streams_memory)
{
    pleat_get_and_use(2 * MIB, 2);
    for (int i = 0; i < FREES_PER_TICK; i++) {
        pleat_put(pleat_get_and_use(100 * MIB, 1), 1);
    }
    pleat_renew_stream(1);
    pleat.sim.finish();
    pleat_get_and_use(100 * MIB, 2);
    ck_assert_uint_eq(pleat_counted().stream_waits + pleat_counted().host_syncs, 0);
}
END_TEST

START_TEST(a_use_on_a_destroyed_stream_is_waited_for)
{
    pleat_devptr ptr = pleat_get_and_use(100 * MIB, 1);
    pleat_record(ptr, 2);
    pleat_work_after(2, 1, ptr, 100 * MIB);
    pleat_renew_stream(2);
    pleat_put(ptr, 1);
    ck_assert_uint_eq(pleat_get_and_use(100 * MIB, 3), ptr);
    ck_assert_uint_ge(pleat_counted().host_syncs, 1);
}
END_TEST

/* ---- anything ------------------------------------------------------------------------------ */

#define TIGHT "capacity:62M,depth:40"

static void open_tight(void)
{
    pleat_open(TIGHT, NULL);
}

static void open_tight_impatient(void)
{
    pleat_open_with(TIGHT, PL_CROSS_ORDER, 0);
}

/* Returns how many requests were refused. */
static unsigned work_at_random(uint64_t seed, bool may_pend)
{
    static pleat_devptr own[60];
    static size_t sizes[60];
    unsigned n_refused = 0;
    for (int step = 0; step < 6000; step++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        size_t i = (size_t)(seed >> 33) % 60;
        unsigned stream = 1 + (unsigned)i % 4;
        if (own[i] != 0) {
            unsigned other = 1 + (unsigned)(seed >> 50) % 4;
            if (seed >> 61 == 0) {
                pleat_record(own[i], other);
                pleat_work_after(other, stream, own[i], sizes[i]);
            } else {
                pleat_work(stream, own[i], sizes[i]);
            }
            ck_assert_int_eq(pleat.a->ops->free(pleat.a, own[i], pleat.streams[stream]), PLEAT_OK);
            own[i] = 0;
        } else {
            sizes[i] = 1 + (size_t)(seed >> 20) % (i % 3 == 0 ? 5 * MIB : 300 * KIB);
            pl_stream *on = pleat.streams[stream];
            pleat_status st = pleat.a->ops->alloc(pleat.a, sizes[i], on, &own[i]);
            ck_assert(st == PLEAT_OK || st == PLEAT_ENOMEM_DEVICE ||
                      (may_pend && st == PLEAT_EPENDING));
            n_refused += st != PLEAT_OK;
            if (st == PLEAT_OK) {
                pleat_work(stream, own[i], sizes[i]);
            }
        }
        if (step % 50 == 0) {
            pleat_assert_sound();
        }
    }
    return n_refused;
}

START_TEST(random_work_on_four_streams_meets_no_hazard)
{
    unsigned n_refused = work_at_random(103 + (uint64_t)_i, false);
    pleat_stats s = pleat_counted();
    ck_assert_uint_gt(n_refused, 0);
    ck_assert_uint_gt(s.n_taken_granules, 0);
    ck_assert_uint_gt(s.stream_waits, 0);
    ck_assert_uint_le(s.host_syncs, 16); /* only instead of failing */
}
END_TEST

START_TEST(and_who_may_not_wait_never_does)
{
    unsigned n_refused = work_at_random(99 + (uint64_t)_i, true);
    pleat_stats s = pleat_counted();
    ck_assert_uint_gt(n_refused, 0);
    ck_assert_uint_gt(s.n_taken_granules, 0);
    ck_assert_uint_gt(s.stream_waits, 0);
    ck_assert_uint_eq(s.host_syncs, 0);
}
END_TEST

static void add_takes(Suite *suite)
{
    TCase *takes = suite_case(suite, "takes", open_plain, pleat_close);
    tcase_add_test(takes, settled_memory_is_taken_without_waiting);
    tcase_add_test(takes, pending_memory_is_taken_behind_one_stream_wait);
    tcase_add_test(takes, what_is_waited_for_already_needs_no_second_wait);
    tcase_add_test(takes, memory_goes_from_stream_to_stream_to_stream);
    tcase_add_test(takes, several_streams_memory_is_had_behind_a_wait_for_each);
    tcase_add_test(takes, a_request_that_fits_nowhere_orders_nothing);
    TCase *stale = suite_case(suite, "stale", open_plain, pleat_close);
    tcase_add_test(stale, a_stale_mapping_is_unmapped_only_after_its_last_use);
    tcase_add_test(stale, stale_mappings_go_on_their_own_once_they_are_over);
    tcase_add_test(stale, neighbouring_stale_mappings_are_unmapped_by_one_call);
    tcase_add_test(stale, a_stale_address_is_no_place_until_it_is_a_hole);
    tcase_add_test(stale, memory_that_the_driver_still_maps_is_not_given_back);
    TCase *partly = suite_case(suite, "partly", open_partly, pleat_close);
    tcase_add_test(partly, what_was_refused_holds_up_no_neighbour);
}

static void add_policies(Suite *suite)
{
    TCase *settled = suite_case(suite, "settled only", open_settled, pleat_close);
    tcase_add_test(settled, where_ordering_is_forbidden_pending_memory_is_pending);
    tcase_add_test(settled, what_can_never_fit_is_no_matter_of_waiting);
    tcase_add_test(settled, frees_before_and_after_a_tick_settle_alike);
    tcase_add_test(settled, when_the_others_are_over_a_block_still_pends_on_its_owner);
    TCase *events = suite_case(suite, "settled only, no context", open_settled_without_context,
                               pleat_close);
    tcase_add_test(events, a_tick_whose_event_fails_is_replaced);
    tcase_add_test(events, a_use_whose_event_fails_gets_another);
    TCase *waiting = suite_case(suite, "settled, waiting", open_settled_waiting, pleat_close);
    tcase_add_test(waiting, where_waiting_is_allowed_the_host_waits_before_it_fails);
    tcase_add_test(waiting, the_host_waits_for_recorded_uses_too);
    TCase *patient = suite_case(suite, "patient", open_patient_granules, pleat_close);
    tcase_add_test(patient, a_page_waits_as_long_as_it_may_for_addresses_that_others_leave);
}

static void add_uses(Suite *suite)
{
    TCase *uses = suite_case(suite, "recorded uses", open_with_bells, pleat_close);
    tcase_add_test(uses, a_recorded_block_comes_back_only_after_its_use);
    tcase_add_test(uses, nothing_is_asked_of_a_recorded_stream_until_it_is_named);
    tcase_add_test(uses, a_stream_recorded_twice_is_one_use);
    tcase_add_test(uses, all_recorded_uses_must_be_over);
    tcase_add_test(uses, freeing_on_another_stream_is_a_use_there);
    tcase_add_test(uses, a_block_freed_on_another_stream_pends_on_its_owner_until_that_is_named);
    tcase_add_test(uses, a_second_free_of_a_pending_block_is_named);
    tcase_add_test(uses, live_and_pending_uses_go_with_the_allocator);
    TCase *own = suite_case(suite, "recorded uses, one stream", open_plain, pleat_close);
    tcase_add_test(own, a_use_on_the_owners_stream_needs_no_event);
    TCase *impatient = suite_case(suite, "recorded uses, no waiting", open_impatient_with_bells,
                                  pleat_close);
    tcase_add_test(impatient, a_recorded_block_is_had_behind_all_its_streams);
}

SUITE(segments_take)
{
    add_takes(suite);
    add_policies(suite);
    add_uses(suite);
    TCase *gone = suite_case(suite, "streams that are gone", open_recycling, pleat_close);
    tcase_add_test(gone, a_destroyed_streams_memory_is_had_behind_its_tick);
    tcase_add_test(gone, a_destroyed_stream_is_forgotten_with_its_tick);
    tcase_add_test(gone, a_destroyed_streams_memory_without_a_tick_is_waited_for);
    tcase_add_test(gone, a_recycled_handle_is_another_stream);
    tcase_add_test(gone, a_tick_from_before_its_destruction_settles_a_streams_memory);
    tcase_add_test(gone, a_use_on_a_destroyed_stream_is_waited_for);
    TCase *synchronous = suite_case(suite, "gone, no context", open_recycling_without_context,
                                    pleat_close);
    tcase_add_test(synchronous, a_destroyed_streams_memory_without_a_tick_is_waited_for);
    tcase_add_test(synchronous, a_use_on_a_destroyed_stream_is_waited_for);
    TCase *impatient = suite_case(suite, "no waiting", open_impatient, pleat_close);
    tcase_add_test(impatient, who_may_not_wait_leaves_a_destroyed_streams_unticked_memory_pending);
    tcase_add_test(impatient, a_granule_under_two_streams_pieces_is_had_behind_both);
    TCase *any = suite_case(suite, "anything", open_tight, pleat_close);
    tcase_add_loop_test(any, random_work_on_four_streams_meets_no_hazard, 0, 4);
    TCase *any_impatient = suite_case(suite, "anything, no waiting", open_tight_impatient,
                                      pleat_close);
    tcase_add_loop_test(any_impatient, and_who_may_not_wait_never_does, 0, 4);
}
