/* compliance_pressure_test.c - limits, refusals and recoveries, under every allocator. */
#include <stdlib.h>
#include <string.h>

#include "tests/support/api/api_compliance.h"
#include "tests/support/suite.h"

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

/* PyTorch test_out_of_memory_retry. */
START_TEST(two_halves_and_a_bit_fit_one_after_the_other_only)
{
    compliance c = compliance_open(_i, "capacity:512M", "");
    pleat_devptr first = compliance_alloc(&c, 262 * MIB, NULL);
    compliance_refused(&c, 262 * MIB, NULL);
    compliance_refused(&c, 264 * MIB, c.streams[0]);
    (void)compliance_query(&c, first);
    compliance_free(&c, first, NULL);
    pleat_devptr second = compliance_alloc(&c, 264 * MIB, NULL);
    compliance_free(&c, second, NULL);
    pleat_devptr third = compliance_alloc(&c, 266 * MIB, c.streams[0]);
    compliance_free(&c, third, c.streams[0]);
    compliance_close(&c);
}
END_TEST

/* PyTorch test_oom_retry_message_logged_at_info. */
START_TEST(many_cached_blocks_make_way_for_a_large_one)
{
    pleat_devptr ptrs[27];
    compliance c = compliance_open(_i, "capacity:1G", "");
    for (int i = 0; i < 27; i++) {
        ptrs[i] = compliance_alloc(&c, GIB / 32, NULL);
    }
    for (int i = 0; i < 27; i++) {
        compliance_free(&c, ptrs[i], NULL);
    }
    pleat_devptr large = compliance_alloc(&c, GIB / 10 * 7, NULL);
    pleat_stats s = compliance_stats(&c);
    ck_assert_uint_eq(s.num_ooms, 0);
    if (compliance_has(&c, COMPLIANCE_COUNTS_RETRIES)) {
        ck_assert_uint_ge(s.num_alloc_retries, 1);
    } else {
        ck_assert_uint_eq(s.num_alloc_retries, 0);
    }
    compliance_free(&c, large, NULL);
    compliance_close(&c);
}
END_TEST

/* MXNet's large-model test: a fifth of the device at a time, and a reserve of 5 %. */
START_TEST(blocks_of_a_fifth_of_the_device_come_and_go)
{
    pleat_devptr ptrs[4];
    compliance c = compliance_open(_i, "capacity:1000M", "");
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < 4; i++) {
            ptrs[i] = compliance_alloc(&c, (size_t)(200 - 2 * round) * MIB, c.streams[0]);
        }
        for (int i = 0; i < 4; i++) {
            compliance_free(&c, ptrs[i], c.streams[0]);
        }
    }
    ck_assert_uint_eq(compliance_stats(&c).num_ooms, 0);
    compliance_close(&c);
}
END_TEST

/* Paddle oom_error_prints_pool_stats; PyTorch's message. */
START_TEST(a_refusal_says_what_holds_the_memory)
{
    compliance c = compliance_open(_i, "capacity:256M", "");
    pleat_devptr ptr = compliance_alloc(&c, 100 * MIB, NULL);
    compliance_refused(&c, 200 * MIB, NULL);
    const char *const parts[] = { "device 0",   "200.00 MiB (209715200 bytes) requested",
                                  "256.00 MiB", ", live 1",
                                  "resident",   c.policy->allocator };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const char *text = pleat_last_error()->text;
        ck_assert_msg(strstr(text, parts[i]) != NULL, "no '%s' in: %s", parts[i], text);
    }
    compliance_free(&c, ptr, NULL);
    compliance_close(&c);
}
END_TEST

/* PyTorch test_set_per_process_memory_fraction; TensorFlow TestCustomMemoryLimit. */
START_TEST(a_limit_is_kept_and_named)
{
    compliance c = compliance_open(_i, "capacity:1G", "limit:512M");
    compliance_refused(&c, 520 * MIB, NULL);
    ck_assert_int_eq(pleat_last_error()->verdict, PLEAT_VERDICT_LIMIT);
    pleat_devptr ptr = compliance_alloc(&c, 496 * MIB, NULL);
    compliance_refused(&c, 32 * MIB, NULL);
    compliance_free(&c, ptr, NULL);
    compliance_free(&c, compliance_alloc(&c, 32 * MIB, NULL), NULL);
    compliance_free(&c, compliance_alloc(&c, 500 * MIB, NULL), NULL);
    ck_assert_uint_le(compliance_counts(&c).peak_physical_bytes, 512 * MIB);
    compliance_close(&c);
}
END_TEST

/* PyTorch test_get_per_process_memory_fraction. */
START_TEST(a_limit_can_be_set_and_lifted_but_not_below_what_lives)
{
    compliance c = compliance_open(_i, "capacity:1G", "");
    pleat_device_info info;
    ck_assert_int_eq(pleat_device_set_limit(c.instance, 0, 128 * MIB), PLEAT_OK);
    compliance_refused(&c, 160 * MIB, NULL);
    ck_assert_int_eq(pleat_device_query(c.instance, 0, &info), PLEAT_OK);
    ck_assert_uint_eq(info.limit_bytes, 128 * MIB);
    ck_assert_int_eq(pleat_device_set_limit(c.instance, 0, 0), PLEAT_OK);
    pleat_devptr ptr = compliance_alloc(&c, 160 * MIB, NULL);
    ck_assert_int_eq(pleat_device_set_limit(c.instance, 0, 128 * MIB), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(pleat_device_query(c.instance, 0, &info), PLEAT_OK);
    ck_assert_uint_eq(info.limit_bytes, 0);
    compliance_free(&c, ptr, NULL);
    compliance_finish(&c);
    ck_assert_int_eq(pleat_device_set_limit(c.instance, 0, 128 * MIB), PLEAT_OK);
    ck_assert_uint_le(compliance_counts(&c).physical_bytes, 128 * MIB);
    compliance_close(&c);
}
END_TEST

/* PyTorch's emptyCache; MXNet empty_cache; Paddle ReleaseTailChunk, ReleaseMiddleChunk. */
START_TEST(trimming_gives_back_all_that_is_free_and_keeps_what_lives)
{
    compliance c = compliance_open(_i, "capacity:1G", "");
    pleat_devptr kept = compliance_alloc(&c, 40 * MIB, NULL);
    pleat_devptr small = compliance_alloc(&c, 3000, NULL);
    compliance_free(&c, compliance_alloc(&c, 200 * MIB, NULL), NULL);
    compliance_free(&c, compliance_alloc(&c, 5 * MIB, c.streams[0]), c.streams[0]);
    compliance_free(&c, compliance_alloc(&c, 100, c.streams[1]), c.streams[1]);
    uint64_t before = compliance_stats(&c).resident_bytes;
    uint64_t released = compliance_trim(&c);
    uint64_t after = compliance_stats(&c).resident_bytes;
    ck_assert_uint_eq(released, before - after);
    ck_assert_uint_ge(after, 40 * MIB + 3000);
    ck_assert_uint_le(after, compliance_has(&c, COMPLIANCE_DOUBLES) ? 128 * MIB : 64 * MIB);
    compliance_check(&c);
    (void)compliance_query(&c, kept);
    compliance_free(&c, kept, NULL);
    compliance_free(&c, small, NULL);
    compliance_trim(&c);
    ck_assert_uint_eq(compliance_stats(&c).resident_bytes, 0);
    ck_assert_uint_eq(compliance_counts(&c).physical_bytes, 0);
    compliance_free(&c, compliance_alloc(&c, 40 * MIB, NULL), NULL);
    compliance_close(&c);
}
END_TEST

/* Paddle ReleaseWithNoIdleChunkReturnsZero. */
START_TEST(trimming_what_has_nothing_free_gives_nothing_back)
{
    compliance c = compliance_open(_i, "capacity:1G", "");
    ck_assert_uint_eq(compliance_trim(&c), 0);
    pleat_devptr ptr = compliance_alloc(&c, 40 * MIB, NULL);
    compliance_trim(&c); /* gives back what growth or a region added */
    uint64_t resident = compliance_stats(&c).resident_bytes;
    ck_assert_uint_eq(compliance_trim(&c), 0);
    ck_assert_uint_eq(compliance_stats(&c).resident_bytes, resident);
    compliance_free(&c, ptr, NULL);
    compliance_close(&c);
}
END_TEST

START_TEST(trimming_stops_at_what_is_to_be_kept)
{
    pleat_devptr ptrs[8];
    uint64_t released = 0;
    compliance c = compliance_open(_i, "capacity:1G", "");
    for (int i = 0; i < 8; i++) {
        ptrs[i] = compliance_alloc(&c, 32 * MIB, NULL);
    }
    for (int i = 0; i < 8; i++) {
        compliance_free(&c, ptrs[i], NULL);
    }
    uint64_t before = compliance_stats(&c).resident_bytes;
    ck_assert_int_eq(pleat_device_trim(c.instance, 0, before, true, &released), PLEAT_OK);
    ck_assert_uint_eq(released, 0);
    ck_assert_int_eq(pleat_device_trim(c.instance, 0, 128 * MIB, true, &released), PLEAT_OK);
    ck_assert_uint_le(compliance_stats(&c).resident_bytes, 128 * MIB);
    ck_assert_uint_eq(released, before - compliance_stats(&c).resident_bytes);
    compliance_close(&c);
}
END_TEST

/* Paddle's anchor-and-pins probe, CompactRemapsWholeFreeHandleToTail; rmm#2507's holes. */
START_TEST(memory_between_live_blocks_serves_a_larger_request_or_is_called_fragmented)
{
    enum { MOST = 256 };
    pleat_devptr ptrs[MOST];
    int n = 0;
    compliance c = compliance_open(_i, "capacity:256M", "");
    while (n < MOST && compliance_try(&c, 2 * MIB, NULL, &ptrs[n]) == PLEAT_OK) {
        n++;
    }
    ck_assert_int_ge(n, 100);
    ck_assert_int_lt(n, MOST);
    for (int i = 0; i < n; i += 2) {
        compliance_free(&c, ptrs[i], NULL);
    }
    if (compliance_has(&c, COMPLIANCE_GATHERS)) {
        ptrs[0] = compliance_alloc(&c, 64 * MIB, NULL);
        compliance_free(&c, ptrs[0], NULL);
    } else {
        compliance_refused(&c, 64 * MIB, NULL);
        ck_assert_int_eq(pleat_last_error()->verdict, PLEAT_VERDICT_FRAGMENTED);
    }
    for (int i = 1; i < n; i += 2) {
        compliance_free(&c, ptrs[i], NULL);
    }
    compliance_free(&c, compliance_alloc(&c, 64 * MIB, NULL), NULL);
    compliance_close(&c);
}
END_TEST

/* Paddle's Python VMM test: five blocks of 15 GB, the second and the fourth go. */
START_TEST(two_large_blocks_make_way_for_one_of_their_sum)
{
    pleat_devptr ptrs[5] = { 0 };
    compliance c = compliance_open(_i, "capacity:75G", "");
    for (int i = 0; i < 4; i++) {
        ptrs[i] = compliance_alloc(&c, 15 * GIB, NULL);
    }
    if (compliance_has(&c, COMPLIANCE_DOUBLES)) {
        compliance_refused(&c, 15 * GIB, NULL);
    } else {
        ptrs[4] = compliance_alloc(&c, 15 * GIB, NULL);
        compliance_free(&c, ptrs[1], NULL);
        compliance_free(&c, ptrs[3], NULL);
        ptrs[1] = compliance_alloc(&c, 30 * GIB, NULL);
        ptrs[3] = 0;
    }
    for (int i = 0; i < 5; i++) {
        if (ptrs[i] != 0) {
            compliance_free(&c, ptrs[i], NULL);
        }
    }
    compliance_close(&c);
}
END_TEST

typedef struct told {
    int n_pressure;
    int n_oom;
    size_t bytes;
    pleat_devptr hostage; /* freed under pressure; 0 = none */
    char text[2048];
} told;

static bool on_pressure(pleat instance, int device, size_t bytes, void *context)
{
    told *t = context;
    t->n_pressure++;
    t->bytes = bytes;
    if (t->hostage == 0) {
        return false;
    }
    pleat_status st = pleat_block_free(instance, device, t->hostage, NULL);
    t->hostage = 0;
    return st == PLEAT_OK;
}

static void on_oom(pleat instance, int device, size_t bytes, const char *text, void *context)
{
    told *t = context;
    (void)instance;
    (void)device;
    t->n_oom++;
    t->bytes = bytes;
    strncpy(t->text, text, sizeof t->text - 1);
}

/* PyTorch test_notifies_oom, FreeCudaMemoryCallback; XLA's retry after a free. */
START_TEST(callbacks_hear_of_pressure_and_may_end_it)
{
    told t = { .n_oom = 0 };
    compliance c = compliance_open(_i, "capacity:256M", "");
    ck_assert_int_eq(pleat_set_pressure_callback(c.instance, on_pressure, &t), PLEAT_OK);
    ck_assert_int_eq(pleat_set_oom_callback(c.instance, on_oom, &t), PLEAT_OK);
    t.hostage = compliance_alloc(&c, 150 * MIB, NULL);
    pleat_devptr ptr = compliance_alloc(&c, 160 * MIB, NULL);
    ck_assert_int_eq(t.n_pressure, 1);
    ck_assert_int_eq(t.n_oom, 0);
    ck_assert_uint_eq(compliance_stats(&c).num_ooms, 0);
    compliance_refused(&c, 165 * MIB, NULL);
    ck_assert_int_eq(t.n_pressure, 2);
    ck_assert_int_eq(t.n_oom, 1);
    ck_assert_uint_eq(t.bytes, 165 * MIB);
    ck_assert_str_eq(t.text, pleat_last_error()->text);
    compliance_free(&c, ptr, NULL);
    compliance_close(&c);
}
END_TEST

/* XLA PreservesExternalHeadroom; PyTorch asks the driver again after every refusal. */
START_TEST(memory_that_others_held_is_used_once_it_is_free)
{
    cu_devptr foreign = 0;
    compliance c = compliance_open(_i, "capacity:256M", "");
    compliance_free(&c, compliance_alloc(&c, MIB, NULL), NULL);
    ck_assert_int_eq(pl_cu_mem_alloc(c.work.drv, &foreign, 150 * MIB), 0);
    pleat_devptr ptr = 77;
    ck_assert_int_eq(compliance_try(&c, 150 * MIB, NULL, &ptr), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(pleat_last_error()->verdict, PLEAT_VERDICT_FOREIGN);
    ck_assert_int_eq(pl_cu_mem_free(c.work.drv, foreign), 0);
    ptr = compliance_alloc(&c, 150 * MIB, NULL);
    compliance_free(&c, ptr, NULL);
    compliance_close(&c);
}
END_TEST

/* BFC ExtendTerminatesWhenSubAllocatorAlwaysFails. */
START_TEST(a_driver_that_always_refuses_is_asked_a_bounded_number_of_times)
{
    compliance c = compliance_open(_i, "capacity:256M", "");
    compliance_free(&c, compliance_alloc(&c, 512, NULL), NULL);
    c.sim_fail_from("cuMemAlloc", 0, 2);
    c.sim_fail_from("cuMemCreate", 0, 2);
    c.sim_fail_from("cuMemAllocFromPoolAsync", 0, 2);
    uint64_t before = compliance_counts(&c).calls;
    compliance_refused(&c, 100 * MIB, NULL);
    ck_assert_uint_lt(compliance_counts(&c).calls - before, 1000);
    c.sim_fail_never();
    compliance_free(&c, compliance_alloc(&c, 100 * MIB, NULL), NULL);
    compliance_close(&c);
}
END_TEST

/* Make a request while call number k of this name and all later ones fail. Returns whether any
 * failed. */
static bool fail_midway(compliance *c, const char *call, uint64_t k)
{
    pleat_devptr ptr = 77;
    pleat_stats before = compliance_stats(c);
    uint64_t n_before = c->sim_n_faults();
    c->sim_fail_from(call, k, 999);
    pleat_status st = compliance_try(c, 50 * MIB, NULL, &ptr);
    c->sim_fail_never();
    bool has_struck = c->sim_n_faults() > n_before;
    ck_assert_msg(st == (has_struck ? PLEAT_EDRIVER : PLEAT_OK), "%s %d: %s", call, (int)k,
                  pleat_last_error()->text);
    if (st == PLEAT_OK) {
        compliance_free(c, ptr, NULL);
    } else {
        ck_assert_uint_eq(ptr, 77);
    }
    pleat_stats after = compliance_stats(c);
    ck_assert_uint_eq(after.allocation[0].current, before.allocation[0].current);
    compliance_check(c);
    compliance_trim(c);
    return has_struck;
}

/* XLA FailedExtensionRollsBackOnlyNewMemory; Paddle RollbackCreatedHandlesReleasesLayout. */
START_TEST(a_driver_that_fails_midway_leaves_nothing_behind)
{
    static const char *const calls[] = { "cuMemAlloc", "cuMemAllocFromPoolAsync", "cuMemCreate",
                                         "cuMemMap", "cuMemSetAccess" };
    unsigned n_struck = 0;
    compliance c = compliance_open(_i, "capacity:256M", "");
    pleat_devptr kept = compliance_alloc(&c, 512, NULL);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        for (uint64_t k = 0; k < 2; k++) {
            n_struck += fail_midway(&c, calls[i], k);
        }
    }
    ck_assert_uint_gt(n_struck, 0);
    compliance_free(&c, compliance_alloc(&c, 50 * MIB, NULL), NULL);
    compliance_free(&c, kept, NULL);
    compliance_close(&c);
}
END_TEST

SUITE(api_compliance_pressure)
{
    static const TTest *const *const tests[] = {
        &two_halves_and_a_bit_fit_one_after_the_other_only,
        &many_cached_blocks_make_way_for_a_large_one,
        &blocks_of_a_fifth_of_the_device_come_and_go,
        &a_refusal_says_what_holds_the_memory,
        &a_limit_is_kept_and_named,
        &a_limit_can_be_set_and_lifted_but_not_below_what_lives,
        &trimming_gives_back_all_that_is_free_and_keeps_what_lives,
        &trimming_what_has_nothing_free_gives_nothing_back,
        &trimming_stops_at_what_is_to_be_kept,
        &memory_between_live_blocks_serves_a_larger_request_or_is_called_fragmented,
        &two_large_blocks_make_way_for_one_of_their_sum,
        &callbacks_hear_of_pressure_and_may_end_it,
        &memory_that_others_held_is_used_once_it_is_free,
        &a_driver_that_always_refuses_is_asked_a_bounded_number_of_times,
        &a_driver_that_fails_midway_leaves_nothing_behind,
    };
    compliance_add(suite, tests, sizeof tests / sizeof tests[0]);
}
