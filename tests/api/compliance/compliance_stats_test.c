/* compliance_stats_test.c - the figures that every allocator tells. */
#include <stdlib.h>

#include "api/calls/internal.h"
#include "tests/support/api/api_compliance.h"
#include "tests/support/suite.h"

#define MIB ((size_t)1 << 20)

/* PyTorch test_memory_stats. */
START_TEST(one_kibibyte_moves_the_figures_by_exactly_its_block)
{
    compliance c = compliance_open(_i, "capacity:256M", "");
    const size_t kib = c.policy->kibibyte_bytes;
    pleat_devptr ptr = compliance_alloc(&c, 1024, NULL);
    pleat_stats s = compliance_stats(&c);
    ck_assert_uint_eq(s.requested_bytes[0].current, 1024);
    ck_assert_uint_eq(s.allocated_bytes[0].current, kib);
    ck_assert_uint_eq(s.active_bytes[0].current, kib);
    ck_assert_uint_eq(s.active_bytes[0].allocated, kib);
    ck_assert_uint_eq(s.rounding_bytes, kib - 1024);
    compliance_free(&c, ptr, NULL);
    compliance_finish(&c);
    s = compliance_stats(&c);
    ck_assert_uint_eq(s.active_bytes[0].freed, kib);
    ck_assert_uint_eq(s.active_bytes[0].current, 0);
    ck_assert_uint_eq(s.active_bytes[0].peak, kib);
    ck_assert_int_eq(pleat_device_reset_peaks(c.instance, 0), PLEAT_OK);
    ck_assert_uint_eq(compliance_stats(&c).active_bytes[0].peak, 0);
    compliance_close(&c);
}
END_TEST

/* BFC GetAndClearMemoryStats. */
START_TEST(peaks_stay_until_they_are_reset_to_what_is_current)
{
    compliance c = compliance_open(_i, "capacity:256M", "");
    pleat_devptr first = compliance_alloc(&c, 1024, NULL);
    pleat_devptr second = compliance_alloc(&c, 2048, NULL);
    pleat_stats s = compliance_stats(&c);
    ck_assert_uint_eq(s.requested_bytes[0].current, 3072);
    ck_assert_uint_eq(s.requested_bytes[0].peak, 3072);
    compliance_free(&c, second, NULL);
    s = compliance_stats(&c);
    ck_assert_uint_eq(s.requested_bytes[0].current, 1024);
    ck_assert_uint_eq(s.requested_bytes[0].peak, 3072);
    ck_assert_int_eq(pleat_device_reset_peaks(c.instance, 0), PLEAT_OK);
    s = compliance_stats(&c);
    ck_assert_uint_eq(s.requested_bytes[0].peak, 1024);
    ck_assert_uint_eq(s.allocation[0].peak, 1);
    ck_assert_uint_eq(s.reserved_bytes[0].peak, s.reserved_bytes[0].current);
    compliance_free(&c, first, NULL);
    compliance_close(&c);
}
END_TEST

/* PyTorch's pools: by the rounded size, up to 1 MiB is small. */
START_TEST(small_and_large_blocks_are_counted_apart)
{
    compliance c = compliance_open(_i, "capacity:256M", "");
    pleat_devptr small = compliance_alloc(&c, MIB, NULL);
    pleat_devptr large = compliance_alloc(&c, MIB + 1, NULL);
    pleat_stats s = compliance_stats(&c);
    ck_assert_uint_eq(s.allocation[PLEAT_SIZES_SMALL].current, 1);
    ck_assert_uint_eq(s.allocation[PLEAT_SIZES_LARGE].current, 1);
    ck_assert_uint_eq(s.requested_bytes[PLEAT_SIZES_SMALL].current, MIB);
    ck_assert_uint_eq(s.requested_bytes[PLEAT_SIZES_LARGE].current, MIB + 1);
    compliance_free(&c, small, NULL);
    ck_assert_uint_eq(compliance_stats(&c).allocation[PLEAT_SIZES_SMALL].current, 0);
    compliance_free(&c, large, NULL);
    compliance_close(&c);
}
END_TEST

/* Paddle test_mem_stats; PyTorch's fuzz of memory_stats. */
START_TEST(the_figures_agree_with_the_driver_after_every_step)
{
    enum { N = 60 };
    pleat_devptr ptrs[N] = { 0 };
    unsigned seed = 11;
    compliance c = compliance_open(_i, "capacity:1G", "");
    for (int step = 0; step < 600; step++) {
        int at = rand_r(&seed) % N;
        void *stream = c.streams[at % COMPLIANCE_STREAMS];
        if (ptrs[at] != 0) {
            compliance_free(&c, ptrs[at], stream);
            ptrs[at] = 0;
        } else {
            size_t bytes = (size_t)rand_r(&seed) % (4 * MIB) + 1;
            ptrs[at] = compliance_alloc(&c, rand_r(&seed) % 3 ? bytes : bytes >> 8 | 1, stream);
        }
        compliance_check(&c);
    }
    for (int at = 0; at < N; at++) {
        if (ptrs[at] != 0) {
            compliance_free(&c, ptrs[at], c.streams[at % COMPLIANCE_STREAMS]);
        }
    }
    pleat_stats s = compliance_stats(&c);
    ck_assert_uint_eq(s.allocation[0].current, 0);
    ck_assert_uint_eq(s.allocated_bytes[0].current, 0);
    compliance_close(&c);
}
END_TEST

/* Resident bytes are divided by their state. */
START_TEST(without_live_blocks_all_that_is_resident_is_free_pending_or_idle)
{
    compliance c = compliance_open(_i, "capacity:1G,depth:1048576", "");
    pleat_devptr pending = compliance_alloc(&c, 30 * MIB, c.streams[0]);
    pleat_devptr settled = compliance_alloc(&c, 5 * MIB, c.streams[1]);
    compliance_use(&c, c.streams[2], pending, 30 * MIB);
    compliance_record(&c, pending, c.streams[2]);
    compliance_free(&c, pending, c.streams[0]);
    compliance_free(&c, settled, c.streams[1]);
    for (int i = 0; i < 2; i++) {
        pleat_stats s = compliance_stats(&c);
        ck_assert_uint_eq(s.free_bytes + s.pending_bytes + s.idle_bytes, s.resident_bytes);
        compliance_finish(&c);
    }
    compliance_close(&c);
}
END_TEST

/* The steady state of training: no device operations. */
START_TEST(repeated_requests_do_not_reach_the_driver)
{
    static const size_t sizes[] = { 300, 70000, MIB, 6 * MIB, 25 * MIB };
    enum { N = sizeof sizes / sizeof sizes[0], ROUNDS = 100 };
    uint64_t ops[2] = { 0, 0 };
    compliance c = compliance_open(_i, "capacity:1G", "");
    for (int round = 0; round < ROUNDS; round++) {
        pleat_devptr ptrs[N];
        for (int i = 0; i < N; i++) {
            ptrs[i] = compliance_alloc(&c, sizes[i], c.streams[0]);
            compliance_use(&c, c.streams[0], ptrs[i], sizes[i]);
        }
        for (int i = 0; i < N; i++) {
            compliance_free(&c, ptrs[i], c.streams[0]);
        }
        pleat_stats s = compliance_stats(&c);
        ops[round > 1] = s.ops_map + s.ops_unmap + s.ops_alloc + s.ops_free;
    }
    if (compliance_has(&c, COMPLIANCE_CACHES)) {
        ck_assert_uint_eq(ops[1], ops[0]);
    } else {
        ck_assert_uint_eq(ops[1], 2 * N * ROUNDS);
    }
    compliance_close(&c);
}
END_TEST

/* PyTorch: num_device_alloc, num_device_free, segment. */
START_TEST(what_came_from_the_driver_and_went_back_is_counted)
{
    compliance c = compliance_open(_i, "capacity:1G", "");
    compliance_free(&c, compliance_alloc(&c, 100, NULL), NULL);
    compliance_free(&c, compliance_alloc(&c, 50 * MIB, NULL), NULL);
    ck_assert_uint_ge(compliance_stats(&c).num_device_alloc, 2);
    compliance_trim(&c);
    pleat_stats s = compliance_stats(&c);
    ck_assert_uint_eq(s.reserved_bytes[0].current, 0);
    ck_assert_uint_ge(s.reserved_bytes[0].peak, 50 * MIB);
    ck_assert_uint_eq(s.reserved_bytes[0].allocated, s.reserved_bytes[0].freed);
    if (!compliance_has(&c, COMPLIANCE_OPAQUE)) {
        ck_assert_uint_eq(s.ops_alloc, s.ops_free);
    }
    ck_assert_uint_le(s.ops_free, s.ops_alloc);
    ck_assert_uint_ge(s.num_device_free, 1);
    ck_assert_uint_gt(s.n_driver_calls, 0);
    ck_assert_uint_gt(s.metadata_bytes, 0);
    compliance_close(&c);
}
END_TEST

typedef struct survey {
    uint64_t live_bytes;
    uint64_t requested_bytes;
    uint64_t resident_bytes;
    unsigned n_live;
    unsigned n_seen;
    unsigned n_wrong; /* out of order, or a gap inside a segment */
    pleat_devptr end; /* of the last piece */
} survey;

static void see(void *context, const pl_piece *piece)
{
    survey *s = context;
    s->n_wrong += piece->bytes == 0 || (!piece->is_first && piece->base != s->end) ||
                  (s->n_seen == 0 && !piece->is_first) ||
                  (piece->kind != PL_PIECE_LIVE && piece->requested_bytes != 0);
    s->end = piece->base + piece->bytes;
    s->n_seen++;
    s->resident_bytes += piece->kind != PL_PIECE_HOLE ? piece->bytes : 0;
    if (piece->kind == PL_PIECE_LIVE) {
        s->n_live++;
        s->live_bytes += piece->bytes;
        s->requested_bytes += piece->requested_bytes;
    }
}

/* PyTorch test_memory_snapshot. */
START_TEST(the_map_of_addresses_shows_every_block_with_what_was_asked)
{
    enum { N = 40 };
    pleat_devptr ptrs[N];
    compliance c = compliance_open(_i, "capacity:1G", "");
    for (int i = 0; i < N; i++) {
        ptrs[i] = compliance_alloc(&c, (size_t)(i * i * i) * 200 + 7, c.streams[i % 2]);
    }
    for (int i = 0; i < N; i += 3) {
        compliance_free(&c, ptrs[i], c.streams[i % 2]);
        ptrs[i] = 0;
    }
    compliance_finish(&c);
    survey s = { .n_seen = 0 };
    pl_allocator *a = pleat_internal_allocator(c.instance, 0);
    ck_assert_ptr_nonnull(a);
    a->ops->visit(a, see, &s);
    pleat_stats stats = compliance_stats(&c);
    ck_assert_uint_eq(s.n_wrong, 0);
    ck_assert_uint_eq(s.n_live, stats.allocation[0].current);
    ck_assert_uint_eq(s.live_bytes, stats.allocated_bytes[0].current);
    ck_assert_uint_eq(s.requested_bytes, stats.requested_bytes[0].current);
    uint64_t seen = stats.resident_bytes - stats.idle_bytes;
    bool is_opaque = compliance_has(&c, COMPLIANCE_OPAQUE);
    ck_assert_uint_eq(s.resident_bytes, is_opaque ? stats.active_bytes[0].current : seen);
    for (int i = 0; i < N; i++) {
        if (ptrs[i] != 0) {
            compliance_free(&c, ptrs[i], c.streams[i % 2]);
        }
    }
    compliance_close(&c);
}
END_TEST

SUITE(api_compliance_stats)
{
    static const TTest *const *const tests[] = {
        &one_kibibyte_moves_the_figures_by_exactly_its_block,
        &peaks_stay_until_they_are_reset_to_what_is_current,
        &small_and_large_blocks_are_counted_apart,
        &the_figures_agree_with_the_driver_after_every_step,
        &without_live_blocks_all_that_is_resident_is_free_pending_or_idle,
        &repeated_requests_do_not_reach_the_driver,
        &what_came_from_the_driver_and_went_back_is_counted,
        &the_map_of_addresses_shows_every_block_with_what_was_asked,
    };
    compliance_add(suite, tests, sizeof tests / sizeof tests[0]);
}
