/* compliance_basic_test.c - sizes, addresses and pointers, under every allocator. */
#include <stdlib.h>

#include "tests/support/api/api_compliance.h"
#include "tests/support/suite.h"

enum { KIB = 1 << 10, MIB = 1 << 20 };

typedef struct piece {
    pleat_devptr ptr;
    size_t bytes;
} piece;

static int by_address(const void *a, const void *b)
{
    const piece *x = a;
    const piece *y = b;
    return x->ptr < y->ptr ? -1 : x->ptr > y->ptr;
}

static void check_no_overlap(piece *pieces, size_t n)
{
    qsort(pieces, n, sizeof *pieces, by_address);
    for (size_t i = 1; i < n; i++) {
        ck_assert_uint_le(pieces[i - 1].ptr + pieces[i - 1].bytes, pieces[i].ptr);
    }
}

/* PyTorch test_memory_allocation; BFC AllocateAndFree. */
START_TEST(a_byte_raises_the_figures_and_its_free_restores_them_exactly)
{
    compliance c = compliance_open(_i, "capacity:256M", "");
    pleat_devptr other = compliance_alloc(&c, 3 * MIB, NULL);
    pleat_stats before = compliance_stats(&c);
    pleat_devptr ptr = compliance_alloc(&c, 1, NULL);
    pleat_stats during = compliance_stats(&c);
    ck_assert_uint_eq(during.allocation[0].current, before.allocation[0].current + 1);
    ck_assert_uint_eq(during.requested_bytes[0].current, before.requested_bytes[0].current + 1);
    ck_assert_uint_gt(during.allocated_bytes[0].current, before.allocated_bytes[0].current);
    compliance_free(&c, ptr, NULL);
    compliance_finish(&c);
    pleat_stats after = compliance_stats(&c);
    ck_assert_uint_eq(after.allocation[0].current, before.allocation[0].current);
    ck_assert_uint_eq(after.requested_bytes[0].current, before.requested_bytes[0].current);
    ck_assert_uint_eq(after.allocated_bytes[0].current, before.allocated_bytes[0].current);
    ck_assert_uint_eq(after.active_bytes[0].current, before.active_bytes[0].current);
    compliance_free(&c, other, NULL);
    compliance_close(&c);
}
END_TEST

/* PyTorch test_out_of_memory; the text for more than 1 EB is PLEAT_ESIZE. */
START_TEST(absurd_sizes_are_refused_and_the_device_stays_usable)
{
    static const unsigned shifts[] = { 31, 36, 44, 52, 60 };
    compliance c = compliance_open(_i, "capacity:256M", "");
    pleat_devptr kept = compliance_alloc(&c, MIB, NULL);
    for (size_t i = 0; i < sizeof shifts / sizeof shifts[0]; i++) {
        pleat_devptr ptr = 77;
        pleat_status st = compliance_try(&c, (size_t)1 << shifts[i], NULL, &ptr);
        ck_assert_msg(st == PLEAT_ENOMEM_DEVICE || st == PLEAT_ENOSPACE_VA, "2^%u: %s", shifts[i],
                      pleat_status_text(st));
        ck_assert_uint_eq(ptr, 77);
        compliance_check(&c);
    }
    pleat_devptr ptr = 77;
    ck_assert_int_eq(compliance_try(&c, ((size_t)1 << 60) + 1, NULL, &ptr), PLEAT_ESIZE);
    ck_assert_int_eq(compliance_try(&c, SIZE_MAX, NULL, &ptr), PLEAT_ESIZE);
    compliance_free(&c, compliance_alloc(&c, 64 * MIB, NULL), NULL);
    compliance_free(&c, kept, NULL);
    compliance_close(&c);
}
END_TEST

/* BFC AllocateZeroBufSize; MXNet Basic_GPU. Both return null, while pleat's answer is an error. */
START_TEST(zero_bytes_are_refused_without_a_trace)
{
    compliance c = compliance_open(_i, "capacity:64M", "");
    pleat_devptr ptr = 77;
    ck_assert_int_eq(compliance_try(&c, 0, NULL, &ptr), PLEAT_EINVAL);
    ck_assert_uint_eq(ptr, 77);
    ck_assert_uint_eq(compliance_stats(&c).allocation[0].allocated, 0);
    ck_assert_uint_eq(compliance_counts(&c).physical_bytes, 0);
    ck_assert_int_eq(pleat_block_free(c.instance, 0, 0, NULL), PLEAT_EINVAL);
    compliance_close(&c);
}
END_TEST

/* BFC DefaultAlignment, RespectsRequestedAlignment up to 512. compliance_alloc asserts it. */
START_TEST(every_address_is_aligned_whatever_lies_before_it)
{
    static const size_t fillers[] = { 1, 255, 513, 4097, 100000, MIB + 1, 11 * MIB + 3 };
    enum { N = sizeof fillers / sizeof fillers[0] };
    compliance c = compliance_open(_i, "capacity:512M", "");
    pleat_devptr ptrs[2 * N];
    for (size_t i = 0; i < N; i++) {
        ptrs[2 * i] = compliance_alloc(&c, fillers[i], NULL);
        ptrs[2 * i + 1] = compliance_alloc(&c, fillers[N - 1 - i], NULL);
    }
    for (size_t i = 0; i < 2 * N; i++) {
        compliance_free(&c, ptrs[i], NULL);
    }
    compliance_close(&c);
}
END_TEST

/* TensorFlow NoDups. */
START_TEST(blocks_of_all_small_sizes_do_not_overlap_and_add_up)
{
    enum { N = 1023 };
    static piece pieces[N];
    compliance c = compliance_open(_i, "capacity:1G", "");
    uint64_t total = 0;
    for (size_t i = 0; i < N; i++) {
        pieces[i] = (piece){ compliance_alloc(&c, i + 1, NULL), i + 1 };
        total += compliance_query(&c, pieces[i].ptr).bytes;
    }
    check_no_overlap(pieces, N);
    pleat_stats s = compliance_stats(&c);
    ck_assert_uint_eq(s.requested_bytes[0].current, N * (N + 1) / 2);
    ck_assert_uint_eq(s.requested_bytes[0].peak, N * (N + 1) / 2);
    ck_assert_uint_eq(s.allocation[0].allocated, N);
    ck_assert_uint_eq(s.allocated_bytes[0].current, total);
    for (size_t i = 0; i < N; i++) {
        compliance_free(&c, pieces[i].ptr, NULL);
    }
    s = compliance_stats(&c);
    ck_assert_uint_eq(s.requested_bytes[0].current, 0);
    ck_assert_uint_eq(s.allocated_bytes[0].current, 0);
    compliance_close(&c);
}
END_TEST

/* TensorFlow AllocationsAndDeallocations. */
START_TEST(random_blocks_do_not_overlap_after_every_second_one_was_freed)
{
    enum { N = 255 };
    static piece pieces[2 * N];
    size_t n = 0;
    unsigned seed = 99;
    compliance c = compliance_open(_i, "capacity:2G", "");
    for (int i = 0; i < N; i++) {
        size_t bytes = (size_t)(rand_r(&seed) % (MIB - 100) + 100);
        pieces[n++] = (piece){ compliance_alloc(&c, bytes, NULL), bytes };
    }
    for (size_t i = 0; i < n; i++) {
        compliance_free(&c, pieces[i].ptr, NULL);
        pieces[i] = pieces[--n]; /* the last piece moves to i and is skipped in this round */
    }
    for (int i = 0; i < N; i++) {
        size_t bytes = (size_t)(rand_r(&seed) % (MIB - 100) + 100);
        pieces[n++] = (piece){ compliance_alloc(&c, bytes, NULL), bytes };
    }
    check_no_overlap(pieces, n);
    compliance_check(&c);
    for (size_t i = 0; i < n; i++) {
        compliance_free(&c, pieces[i].ptr, NULL);
    }
    compliance_close(&c);
}
END_TEST

/* BFC StressAllocFree. */
START_TEST(shuffled_rounds_of_all_sizes_succeed)
{
    enum { N_SIZES = 14, N = N_SIZES * 10, N_ROUNDS = 20 };
    pleat_devptr ptrs[N];
    unsigned seed = 4;
    compliance c = compliance_open(_i, "capacity:4G", "");
    for (int round = 0; round < N_ROUNDS; round++) {
        int order[N];
        for (int i = 0; i < N; i++) {
            int at = rand_r(&seed) % (i + 1);
            order[i] = order[at];
            order[at] = i;
        }
        for (int i = 0; i < N; i++) {
            ptrs[i] = compliance_alloc(&c, (size_t)512 << order[i] % N_SIZES, NULL);
        }
        for (int i = 0; i < N; i++) {
            compliance_free(&c, ptrs[order[i]], NULL);
        }
        compliance_check(&c);
    }
    compliance_close(&c);
}
END_TEST

/* MXNet Basic_GPU; XLA PendingDeallocationReusesSameVirtualAddress. */
START_TEST(the_next_block_of_a_size_is_the_one_just_freed)
{
    static const size_t sizes[] = { 32, 1024, 4096, MIB, 3 * MIB, 30 * MIB };
    compliance c = compliance_open(_i, "capacity:256M", "");
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        pleat_devptr first = compliance_alloc(&c, sizes[i], NULL);
        uint64_t ops = compliance_stats(&c).ops_alloc + compliance_stats(&c).ops_map;
        compliance_free(&c, first, NULL);
        pleat_devptr second = compliance_alloc(&c, sizes[i], NULL);
        uint64_t ops_after = compliance_stats(&c).ops_alloc + compliance_stats(&c).ops_map;
        if (compliance_has(&c, COMPLIANCE_CACHES)) {
            ck_assert_uint_eq(second, first);
            ck_assert_uint_eq(ops_after, ops);
        } else {
            ck_assert_uint_eq(ops_after, ops + 1);
        }
        compliance_free(&c, second, NULL);
    }
    compliance_close(&c);
}
END_TEST

/* MXNet Basic_GPU, part 1: sizes of one bucket. Other allocators serve a smaller request from the
 * block, too. */
START_TEST(a_slightly_smaller_request_takes_the_freed_block)
{
    compliance c = compliance_open(_i, "capacity:256M", "");
    pleat_devptr first = compliance_alloc(&c, 4096, NULL);
    compliance_free(&c, first, NULL);
    pleat_devptr second = compliance_alloc(&c, 4095, NULL);
    if (compliance_has(&c, COMPLIANCE_CACHES)) {
        ck_assert_uint_eq(second, first);
    }
    ck_assert_uint_eq(compliance_query(&c, second).requested_bytes, 4095);
    compliance_free(&c, second, NULL);
    compliance_close(&c);
}
END_TEST

/* TensorFlow ExerciseCoalescing. */
START_TEST(rounds_of_four_sizes_come_back_together)
{
    static const size_t sizes[] = { 4 * KIB, 8 * MIB, 16 * KIB, 40 * MIB };
    compliance c = compliance_open(_i, "capacity:256M", "");
    pleat_devptr first[4] = { 0 };
    uint64_t resident = 0;
    for (int round = 0; round < 1024; round++) {
        pleat_devptr ptrs[4];
        for (int i = 0; i < 4; i++) {
            ptrs[i] = compliance_alloc(&c, sizes[i], NULL);
        }
        if (round == 0) {
            resident = compliance_stats(&c).resident_bytes;
        }
        ck_assert_uint_eq(compliance_stats(&c).resident_bytes, resident);
        for (int i = 0; i < 4; i++) {
            ck_assert(round == 0 || ptrs[i] == first[i] || !compliance_has(&c, COMPLIANCE_CACHES));
            first[i] = ptrs[i];
            compliance_free(&c, ptrs[i], NULL);
        }
    }
    ck_assert_uint_eq(compliance_stats(&c).allocation[0].allocated, 4096);
    compliance_close(&c);
}
END_TEST

/* Paddle V1 free_impl_uses_allocation_block_iterator, V2 ThreeWayMerge, MergeAdjacentFreeBlocks. */
START_TEST(free_neighbours_serve_a_request_of_their_sum)
{
    compliance c = compliance_open(_i, "capacity:256M", "");
    pleat_devptr ptrs[4]; /* together they fill 128 KiB */
    compliance_free(&c, compliance_alloc(&c, 128 * KIB, NULL), NULL);
    for (int i = 0; i < 4; i++) {
        ptrs[i] = compliance_alloc(&c, 32 * KIB, NULL);
    }
    uint64_t resident = compliance_stats(&c).resident_bytes;
    compliance_free(&c, ptrs[0], NULL);
    compliance_free(&c, ptrs[2], NULL);
    compliance_free(&c, ptrs[1], NULL);
    pleat_devptr sum = compliance_alloc(&c, 96 * KIB, NULL);
    if (compliance_has(&c, COMPLIANCE_SPLITS)) {
        ck_assert_uint_eq(compliance_stats(&c).resident_bytes, resident);
    }
    compliance_free(&c, sum, NULL);
    compliance_free(&c, ptrs[3], NULL);
    compliance_close(&c);
}
END_TEST

/* Paddle V2 ReuseSmallestSufficientFreeBlock, NonAdjacentFreeBlocksDoNotMerge; BFC's bins. */
START_TEST(the_smallest_free_block_that_suffices_is_taken)
{
    static const size_t sizes[] = { 64 * KIB, 16 * KIB, 96 * KIB };
    pleat_devptr ptrs[3];
    pleat_devptr pins[3]; /* they keep the free blocks from being neighbours */
    compliance c = compliance_open(_i, "capacity:256M", "");
    compliance_free(&c, compliance_alloc(&c, MIB, NULL), NULL);
    for (int i = 0; i < 3; i++) {
        ptrs[i] = compliance_alloc(&c, sizes[i], NULL);
        pins[i] = compliance_alloc(&c, 4 * KIB, NULL);
    }
    for (int i = 0; i < 3; i++) {
        compliance_free(&c, ptrs[i], NULL);
    }
    pleat_devptr ptr = compliance_alloc(&c, 12 * KIB, NULL);
    if (compliance_has(&c, COMPLIANCE_SPLITS)) {
        ck_assert_uint_eq(ptr, ptrs[1]);
    } else {
        ck_assert(ptr != ptrs[0] && ptr != ptrs[2]);
    }
    compliance_free(&c, ptr, NULL);
    for (int i = 0; i < 3; i++) {
        compliance_free(&c, pins[i], NULL);
    }
    compliance_close(&c);
}
END_TEST

/* TensorFlow TracksSizes, AllocatedVsRequested. */
START_TEST(a_block_knows_what_was_asked_and_what_it_occupies)
{
    static const size_t sizes[] = { 1, 4, 511, 512, 1000, 65537, MIB + 1, 19 * MIB, 33 * MIB + 5 };
    compliance c = compliance_open(_i, "capacity:256M", "");
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        pleat_devptr ptr = compliance_alloc(&c, sizes[i], c.streams[0]);
        const pleat_devptr inside[] = { ptr, ptr + sizes[i] / 2, ptr + sizes[i] - 1 };
        for (int at = 0; at < 3; at++) {
            pleat_block_info info = compliance_query(&c, inside[at]);
            ck_assert_uint_eq(info.base, ptr);
            ck_assert_uint_eq(info.requested_bytes, sizes[i]);
            ck_assert_uint_ge(info.bytes, sizes[i]);
            ck_assert_int_eq(info.device, 0);
            ck_assert_ptr_eq(info.stream, c.streams[0]);
        }
        ck_assert_uint_eq(compliance_stats(&c).allocated_bytes[0].current,
                          compliance_query(&c, ptr).bytes);
        compliance_free(&c, ptr, c.streams[0]);
    }
    compliance_close(&c);
}
END_TEST

/* Paddle CrossPoolAllocFree (unknown pointer false); XLA DeallocateNull. */
START_TEST(foreign_pointers_and_second_frees_are_refused_and_change_nothing)
{
    compliance c = compliance_open(_i, "capacity:256M", "");
    pleat_devptr ptr = compliance_alloc(&c, MIB, NULL);
    pleat_devptr gone = compliance_alloc(&c, 3 * MIB, NULL);
    compliance_free(&c, gone, NULL);
    pleat_stats before = compliance_stats(&c);
    const pleat_devptr wrong[] = { 1, 512, ptr + 512, ptr - 512, gone, UINT64_MAX };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        pleat_block_info info;
        pleat_status st = pleat_block_free(c.instance, 0, wrong[i], NULL);
        ck_assert(st == PLEAT_EFOREIGN || (wrong[i] == gone && st == PLEAT_EDOUBLEFREE));
        st = pleat_block_record_stream(c.instance, 0, wrong[i], c.streams[0]);
        ck_assert(st == PLEAT_EFOREIGN || (wrong[i] == gone && st == PLEAT_EDOUBLEFREE));
        st = pleat_block_query(c.instance, 0, wrong[i], &info);
        ck_assert(st == PLEAT_EFOREIGN || (st == PLEAT_OK && wrong[i] == ptr + 512));
    }
    pleat_stats after = compliance_stats(&c);
    ck_assert_mem_eq(after.allocation, before.allocation, sizeof after.allocation);
    ck_assert_mem_eq(after.allocated_bytes, before.allocated_bytes, sizeof after.allocated_bytes);
    compliance_free(&c, ptr, NULL);
    compliance_close(&c);
}
END_TEST

/* XLA's destructor tests. Here destroying with live blocks is refused. */
START_TEST(an_instance_with_live_blocks_is_busy_until_forced)
{
    compliance c = compliance_open(_i, "capacity:256M", "");
    pleat_devptr ptr = compliance_alloc(&c, 5 * MIB, c.streams[1]);
    compliance_use(&c, c.streams[1], ptr, 5 * MIB);
    ck_assert_int_eq(pleat_destroy(c.instance, 0), PLEAT_EBUSY);
    compliance_check(&c);
    (void)compliance_query(&c, ptr);
    ck_assert_int_eq(pleat_destroy(c.instance, PLEAT_DESTROY_FORCE), PLEAT_OK);
    ck_assert_uint_eq(pl_work_n_objects(&c.work), 0);
    ck_assert_uint_eq(pl_work_n_hazards(&c.work), 0);
    ck_assert_int_eq(pleat_block_free(c.instance, 0, ptr, NULL), PLEAT_EGONE);
    for (int i = 0; i < COMPLIANCE_STREAMS; i++) {
        ck_assert_int_eq(pl_work_stream_destroy(&c.work, c.streams[i]), PLEAT_OK);
    }
    pl_work_close(&c.work);
}
END_TEST

SUITE(api_compliance_basic)
{
    static const TTest *const *const tests[] = {
        &a_byte_raises_the_figures_and_its_free_restores_them_exactly,
        &absurd_sizes_are_refused_and_the_device_stays_usable,
        &zero_bytes_are_refused_without_a_trace,
        &every_address_is_aligned_whatever_lies_before_it,
        &blocks_of_all_small_sizes_do_not_overlap_and_add_up,
        &random_blocks_do_not_overlap_after_every_second_one_was_freed,
        &shuffled_rounds_of_all_sizes_succeed,
        &the_next_block_of_a_size_is_the_one_just_freed,
        &a_slightly_smaller_request_takes_the_freed_block,
        &rounds_of_four_sizes_come_back_together,
        &free_neighbours_serve_a_request_of_their_sum,
        &the_smallest_free_block_that_suffices_is_taken,
        &a_block_knows_what_was_asked_and_what_it_occupies,
        &foreign_pointers_and_second_frees_are_refused_and_change_nothing,
        &an_instance_with_live_blocks_is_busy_until_forced,
    };
    compliance_add(suite, tests, sizeof tests / sizeof tests[0]);
}
