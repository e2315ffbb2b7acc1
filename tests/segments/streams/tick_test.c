/* tick_test.c - when a stream gets a tick, and which memory settles by the tick. */
/* labels: unit */
#include <check.h>
#include <pthread.h>

#include "tests/support/segments/segments_captures.h"
#include "tests/support/segments/segments_sim.h"
#include "tests/support/suite.h"

enum { GRANULE = 2 << 20, N_GRANULES = 64, FREES_PER_TICK = 32 };
enum { YOUNG_FREES = 256, FREES_WHEN_TIGHT = 16, SHORT_EVENTS = 4096 };

#define SIM "capacity:128M,depth:1048576" /* work ends only when it is waited for */

static pleat_devptr ptrs[N_GRANULES];

static void open_plain(void)
{
    pleat_open(SIM, NULL);
}

static void open_in_depth(void)
{
    pleat_open("capacity:4G,depth:4", NULL); /* no handle is used again */
}

static void open_settled(void)
{
    pleat_open_with(SIM, PL_CROSS_SETTLED, 0);
}

static void open_impatient(void)
{
    pleat_open_with(SIM, PL_CROSS_ORDER, 0);
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

/* ---- settling ------------------------------------------------------------------------------ */

START_TEST(one_stream_needs_no_events_while_something_of_it_lives)
{
    pleat_get(MIB, 1);
    for (int i = 0; i < 200; i++) {
        pleat_put(pleat_get_and_use(MIB, 1), 1);
    }
    ck_assert_uint_eq(pleat_calls("cuEventCreate") + n_recorded(), 0);
}
END_TEST

START_TEST(the_legacy_stream_alone_needs_no_events)
{
    for (int i = 0; i < 200; i++) {
        pleat_put(pleat_get_and_use(MIB, 0), 0);
    }
    ck_assert_uint_eq(pleat_calls("cuEventCreate") + n_recorded(), 0);
}
END_TEST

START_TEST(the_last_free_of_a_young_stream_leaves_a_tick)
{
    for (uint64_t i = 1; i <= YOUNG_FREES + 50; i++) {
        pleat_put(pleat_get_and_use(MIB, 1), 1);
        ck_assert_uint_eq(n_recorded(), i < YOUNG_FREES ? i : YOUNG_FREES);
    }
}
END_TEST

START_TEST(with_two_streams_a_tick_is_recorded_every_32_frees)
{
    pleat_get(GRANULE, 2);
    pleat_get(MIB, 1);
    for (int i = 0; i < 3 * FREES_PER_TICK; i++) {
        pleat_put(pleat_get_and_use(64 * KIB, 1), 1);
        ck_assert_uint_eq(n_recorded(), (uint64_t)(i + 1) / FREES_PER_TICK);
    }
    ck_assert_uint_eq(pleat_counted().host_syncs, 0);
}
END_TEST

START_TEST(or_as_soon_as_a_64th_of_the_device_is_exceeded)
{
    pleat_get(GRANULE, 2);
    pleat_get(MIB, 1);
    for (int i = 0; i < FREES_PER_TICK; i++) {
        pleat_put(pleat_get_and_use(MIB, 1), 1);
        ck_assert_uint_eq(n_recorded(), (uint64_t)(i + 1) / 4);
    }
}
END_TEST

START_TEST(or_for_each_granule_while_the_stream_is_young)
{
    pleat_get(GRANULE, 2);
    pleat_get(MIB, 1);
    for (uint64_t i = 1; i <= YOUNG_FREES + 1; i++) {
        pleat_put(pleat_get_and_use(GRANULE, 1), 1);
        ck_assert_uint_eq(n_recorded(), i < YOUNG_FREES ? i : YOUNG_FREES);
    }
}
END_TEST

START_TEST(or_every_16_frees_when_the_device_is_nearly_full)
{
    pleat_get(122 * MIB, 1);
    pleat_get(512, 2);
    for (size_t i = 0; i < 3 * FREES_WHEN_TIGHT; i++) {
        ptrs[i] = pleat_get_and_use(4 * KIB, 1);
    }
    for (size_t i = 0; i < 3 * FREES_WHEN_TIGHT; i++) {
        pleat_put(ptrs[i], 1);
        ck_assert_uint_eq(n_recorded(), (i + 1) / FREES_WHEN_TIGHT);
    }
}
END_TEST

/* One granule of 2,048 is little. So only every eighth freed granule gets a tick. */
START_TEST(or_for_what_is_much_of_a_device_that_is_nearly_full)
{
    enum { N = 60, GRANULES_PER_TICK = 8 };
    pleat_get(3968 * (size_t)MIB, 1);
    pleat_get(512, 2);
    for (size_t i = 0; i < N; i++) {
        ptrs[i] = pleat_get_and_use(GRANULE, 1);
    }
    for (int i = 0; i < YOUNG_FREES; i++) {
        pleat_put(pleat_get_and_use(512, 1), 1);
    }
    uint64_t before = n_recorded();
    for (size_t i = 0; i < N; i++) {
        pleat_put(ptrs[i], 1);
    }
    ck_assert_uint_ge(n_recorded() - before, N / GRANULES_PER_TICK - 1);
    ck_assert_uint_le(n_recorded() - before, N / GRANULES_PER_TICK + 1);
}
END_TEST

START_TEST(after_a_shortage_a_tick_is_recorded_with_every_free)
{
    fill();
    pleat_put(ptrs[40], 1);
    pleat_devptr first = pleat_get_and_use(MIB, 1);
    pleat_devptr second = pleat_get_and_use(MIB, 1);
    uint64_t before = n_recorded();
    pleat_put(first, 1);
    ck_assert_uint_eq(n_recorded(), before);
    free_scattered(0, 10);
    ck_assert_int_eq(pleat_refused(11 * (size_t)GRANULE, 3), PLEAT_EPENDING);
    before = n_recorded();
    for (uint64_t i = 0; i < SHORT_EVENTS / 2; i++) {
        ck_assert_uint_eq(n_recorded(), before + i);
        pleat_put(second, 1);
        second = pleat_get(MIB, 1);
    }
    before = n_recorded(); /* the shortage is too long ago */
    pleat_put(second, 1);
    ck_assert_uint_eq(n_recorded(), before);
}
END_TEST

START_TEST(a_tick_that_is_wanted_is_recorded_by_the_next_call_that_names_the_stream)
{
    pleat_devptr kept = pleat_get_and_use(MIB, 1);
    pleat_devptr ptr = pleat_get_and_use(100 * MIB, 1);
    pleat_put(ptr, 1);
    ck_assert_int_eq(pleat_refused(100 * MIB, 2), PLEAT_EPENDING);
    ck_assert_uint_eq(n_recorded(), 0);
    name(1, kept);
    name(1, kept);
    ck_assert_uint_eq(n_recorded(), 1);
    ck_assert_uint_eq(pleat_get_and_use(100 * MIB, 2), ptr);
    ck_assert_uint_eq(pleat_counted().stream_waits, 1);
    ck_assert_uint_eq(pleat_counted().host_syncs, 0);
}
END_TEST

START_TEST(without_a_wish_naming_a_stream_records_nothing)
{
    pleat_devptr kept = pleat_get_and_use(MIB, 1);
    pleat_put(pleat_get_and_use(100 * MIB, 1), 1);
    name(1, kept);
    pleat_get_and_use(60 * MIB, 1);
    ck_assert_uint_eq(n_recorded(), 0);
}
END_TEST

START_TEST(own_pending_memory_is_used_at_once)
{
    pleat_get(GRANULE, 2);
    pleat_devptr ptr = pleat_get_and_use(20 * MIB, 1);
    pleat_put(ptr, 1);
    ck_assert_uint_eq(pleat_counted().pending_bytes, 20 * MIB);
    ck_assert_uint_eq(pleat_get_and_use(20 * MIB, 1), ptr);
    ck_assert_uint_eq(pleat_counted().stream_waits, 0);
}
END_TEST

START_TEST(settled_memory_serves_any_stream_as_it_lies)
{
    fill();
    pleat_devptr low = ptrs[0];
    for (size_t i = 0; i < FREES_PER_TICK; i++) {
        pleat_put(ptrs[i], 1);
    }
    pleat.sim.finish();
    uint64_t mapped = pleat_calls("cuMemMap");
    ck_assert_uint_eq(pleat_get_and_use(FREES_PER_TICK * (size_t)GRANULE, 3), low);
    pleat_stats s = pleat_counted();
    ck_assert_uint_eq(pleat_calls("cuMemMap"), mapped);
    ck_assert_uint_eq(s.stream_waits + s.host_syncs + s.n_taken_granules, 0);
}
END_TEST

START_TEST(unfinished_work_keeps_memory_pending)
{
    pleat_devptr other = pleat_get_and_use(GRANULE, 2);
    for (int i = 0; i < FREES_PER_TICK; i++) {
        pleat_put(pleat_get_and_use(GRANULE, 1), 1);
    }
    ck_assert_uint_eq(pleat_counted().free_bytes, 0);
    ck_assert_uint_eq(pleat_counted().pending_bytes, GRANULE);
    pleat.sim.finish();
    pleat_put(other, 2);
    pleat_get_and_use(30 * MIB, 2); /* no fit, so the request polls the ticks */
    pleat_stats s = pleat_counted();
    ck_assert_uint_eq(s.pending_bytes, 0);
    ck_assert_uint_eq(s.stream_waits + s.host_syncs, 0);
}
END_TEST

/* ---- streams that no call names any more --------------------------------------------------- */

/* No call tells that a stream is gone. A second stream that used the memory frees it. */
START_TEST(what_pends_on_streams_that_died_comes_back)
{
    enum { N = 400, BYTES = 8 * MIB, MOST = 120 };
    pleat_get(512, 1);
    for (int i = 0; i < N; i++) {
        pleat_devptr ptr = pleat_get(BYTES, 2);
        pleat_work(2, ptr, BYTES);
        pleat_work_after(1, 2, ptr, BYTES);
        pleat_renew_stream(2);
        pleat_put(ptr, 1);
    }
    ck_assert_uint_le(pleat_counted().reserved_bytes[PLEAT_SIZES_ALL].peak, MOST * BYTES);
    ck_assert_uint_eq(pleat_counted().host_syncs, 0);
}
END_TEST

START_TEST(uses_by_streams_that_died_are_over_by_and_by)
{
    enum { N = 400, BYTES = 8 * MIB, MOST = 120 };
    pleat_get(512, 1);
    for (int i = 0; i < N; i++) {
        pleat_devptr ptr = pleat_get_and_use(BYTES, 1);
        pleat_record(ptr, 2);
        pleat_work_after(2, 1, ptr, BYTES);
        pleat_renew_stream(2);
        pleat_put(ptr, 1);
    }
    ck_assert_uint_le(pleat_counted().reserved_bytes[PLEAT_SIZES_ALL].peak, MOST * BYTES);
    ck_assert_uint_eq(pleat_counted().host_syncs, 0);
}
END_TEST

/* An event of the context makes the driver look at every stream. */
START_TEST(streams_that_died_share_a_tick_of_the_context)
{
    enum { N = 400, BYTES = MIB };
    pleat_get(512, 1);
    for (int i = 0; i < N; i++) {
        pleat_devptr ptr = pleat_get(BYTES, 2);
        pleat_renew_stream(2);
        pleat_put(ptr, 1);
    }
    ck_assert_uint_gt(pleat_calls("cuCtxRecordEvent"), 0);
    ck_assert_uint_lt(pleat_calls("cuCtxRecordEvent"), N / 8); /* a small crowd in checked builds */
}
END_TEST

/* The last stream that died leaves much memory, and the tick for it is refused once. */
START_TEST(a_tick_of_the_context_that_is_refused_is_tried_again)
{
    enum { N = 30, BYTES = 8 * MIB, CALLS = 256 };
    pleat_get(512, 1);
    pleat.sim.fail_at("cuCtxRecordEvent", 0, 999);
    pleat_devptr ptr[N];
    for (int i = 0; i < N; i++) {
        ptr[i] = pleat_get(BYTES, 2);
    }
    pleat_renew_stream(2);
    for (int i = 0; i < N; i++) {
        pleat_put(ptr[i], 1);
    }
    ck_assert_uint_gt(pleat_counted().pending_bytes, N / 2 * BYTES);
    for (int i = 0; i < CALLS; i++) {
        pleat_put(pleat_get(MIB, 1), 1);
    }
    pleat_get((size_t)N * BYTES, 3); /* no fit, so the request polls the ticks */
    ck_assert_uint_lt(pleat_counted().pending_bytes, BYTES);
    pleat.sim.fail_never();
}
END_TEST

static void call(unsigned n_calls)
{
    for (unsigned i = 0; i < n_calls; i += 2) {
        pleat_put(pleat_get(512, 1), 1);
    }
}

/* A stream dies that leaves a twentieth of the memory: worth a tick of the context, and not urgent.
 * Its blocks are freed by another stream, or by their addresses; the first one is freed first then.
 * Returns how many such ticks were recorded in so many calls of another stream. */
static uint64_t n_ticks_in(unsigned n_calls, bool is_late)
{
    enum { N = 5, N_LIVE = 95, BYTES = 8 * MIB, FEW = 128 };
    pleat_devptr dead[N];
    for (int i = 0; i < N_LIVE; i++) {
        pleat_get(BYTES, 1);
    }
    for (int i = 0; i < N; i++) {
        dead[i] = pleat_get(BYTES, 2);
    }
    pleat_renew_stream(2);
    for (int i = 0; i < N; i++) {
        if (is_late) {
            ck_assert_int_eq(pleat.a->ops->free_own(pleat.a, dead[i]), PLEAT_OK);
            call(i == 0 ? FEW : 0); /* a wish for a tick stays without an answer */
        } else {
            pleat_put(dead[i], 1);
        }
    }
    call(n_calls);
    return pleat_calls("cuCtxRecordEvent");
}

enum { DUE_CALLS = 4096, DUE_AFTER_CAPTURES = 20480 };

START_TEST(a_tick_of_the_context_is_recorded_after_a_thousand_calls)
{
    ck_assert_uint_eq(n_ticks_in(DUE_CALLS, false), 1);
}
END_TEST

START_TEST(so_it_is_for_what_is_freed_after_its_stream)
{
    ck_assert_uint_eq(n_ticks_in(DUE_CALLS, true), 1);
}
END_TEST

static void *capture_once(void *arg)
{
    ck_assert_int_eq(pl_device_enter(pleat.dev), PLEAT_OK);
    captures_begin(3);
    captures_name_stream(3);
    captures_end(3);
    pl_device_leave(pleat.dev);
    return arg;
}

/* The first tick finds that the thread that captured is gone. Another may begin at any time then,
 * so no moment is safe. */
START_TEST(or_after_many_more_once_captures_were_seen)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, capture_once, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(n_ticks_in(DUE_CALLS, false), 1);
    ck_assert_uint_eq(n_ticks_in(DUE_CALLS, false), 1);
    ck_assert_uint_eq(n_ticks_in(DUE_AFTER_CAPTURES, false), 2);
}
END_TEST

SUITE(segments_tick)
{
    TCase *settling = suite_case(suite, "settling", open_plain, pleat_close);
    tcase_add_test(settling, one_stream_needs_no_events_while_something_of_it_lives);
    tcase_add_test(settling, the_legacy_stream_alone_needs_no_events);
    tcase_add_test(settling, the_last_free_of_a_young_stream_leaves_a_tick);
    tcase_add_test(settling, with_two_streams_a_tick_is_recorded_every_32_frees);
    tcase_add_test(settling, or_as_soon_as_a_64th_of_the_device_is_exceeded);
    tcase_add_test(settling, or_for_each_granule_while_the_stream_is_young);
    tcase_add_test(settling, or_every_16_frees_when_the_device_is_nearly_full);
    tcase_add_test(settling, without_a_wish_naming_a_stream_records_nothing);
    tcase_add_test(settling, own_pending_memory_is_used_at_once);
    tcase_add_test(settling, settled_memory_serves_any_stream_as_it_lies);
    tcase_add_test(settling, unfinished_work_keeps_memory_pending);
    TCase *settled = suite_case(suite, "settled only", open_settled, pleat_close);
    tcase_add_test(settled, after_a_shortage_a_tick_is_recorded_with_every_free);
    TCase *impatient = suite_case(suite, "no waiting", open_impatient, pleat_close);
    tcase_add_test(impatient,
                   a_tick_that_is_wanted_is_recorded_by_the_next_call_that_names_the_stream);
    TCase *silent = suite_case(suite, "silent", open_in_depth, pleat_close);
    tcase_add_test(silent, or_for_what_is_much_of_a_device_that_is_nearly_full);
    tcase_add_test(silent, what_pends_on_streams_that_died_comes_back);
    tcase_add_test(silent, uses_by_streams_that_died_are_over_by_and_by);
    tcase_add_test(silent, streams_that_died_share_a_tick_of_the_context);
    tcase_add_test(silent, a_tick_of_the_context_that_is_refused_is_tried_again);
    tcase_add_test(silent, a_tick_of_the_context_is_recorded_after_a_thousand_calls);
    tcase_add_test(silent, so_it_is_for_what_is_freed_after_its_stream);
    tcase_add_test(silent, or_after_many_more_once_captures_were_seen);
}
