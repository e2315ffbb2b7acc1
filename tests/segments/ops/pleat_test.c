/* pleat_test.c - the pleat allocator on a single stream: hits, growth, errors, figures. */
/* labels: unit fault */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/segments/segments_sim.h"
#include "tests/support/suite.h"

enum { GRANULE = 2 << 20 };

static void open_plain(void)
{
    pleat_open("capacity:128M,depth:100000", NULL);
}

static uint64_t all_calls(void)
{
    return vmm_sim_counted(&pleat.sim).calls;
}

/* ---- hits ---------------------------------------------------------------------------------- */

START_TEST(a_hit_makes_no_driver_call)
{
    pleat_devptr ptr = pleat_get(5 * MIB, 0);
    pleat_get(MIB, 0);
    pleat_put(ptr, 0);
    uint64_t before = all_calls();
    for (int i = 0; i < 200; i++) {
        ck_assert_uint_eq(pleat_get(5 * MIB - 512 * (size_t)i, 0), ptr);
        pleat_put(ptr, 0);
    }
    ck_assert_uint_eq(all_calls(), before);
}
END_TEST

START_TEST(a_hit_on_a_created_stream_asks_only_for_its_capture)
{
    pleat_get(MIB, 1); /* without a live block each free of a young stream records a tick */
    pleat_devptr ptr = pleat_get(5 * MIB, 1);
    pleat_put(ptr, 1);
    uint64_t before = all_calls();
    uint64_t asked = pleat_calls("cuStreamGetCaptureInfo");
    for (int i = 0; i < 100; i++) {
        ck_assert_uint_eq(pleat_get(5 * MIB, 1), ptr);
        pleat_put(ptr, 1);
    }
    ck_assert_uint_eq(pleat_calls("cuStreamGetCaptureInfo") - asked, 200);
    ck_assert_uint_eq(all_calls() - before, 200);
}
END_TEST

START_TEST(the_best_fit_is_taken_and_its_rest_stays_free)
{
    pleat_devptr large = pleat_get(6 * MIB, 0);
    pleat_get(MIB, 0);
    pleat_devptr middle = pleat_get(4 * MIB, 0);
    pleat_get(MIB, 0);
    pleat_put(large, 0);
    pleat_put(middle, 0);
    ck_assert_uint_eq(pleat_get(3 * MIB, 0), middle);
    ck_assert_uint_eq(pleat_get(MIB, 0), middle + 3 * MIB);
    ck_assert_uint_eq(pleat_get(3 * MIB, 0), large);
}
END_TEST

START_TEST(neighbours_that_are_free_serve_as_one)
{
    pleat_devptr ptrs[8];
    for (int i = 0; i < 8; i++) {
        ptrs[i] = pleat_get(MIB, 0);
        ck_assert_uint_eq(ptrs[i], ptrs[0] + (size_t)i * MIB);
    }
    pleat_put(ptrs[1], 0);
    pleat_put(ptrs[3], 0);
    pleat_put(ptrs[2], 0);
    uint64_t before = all_calls();
    ck_assert_uint_eq(pleat_get(3 * MIB, 0), ptrs[1]);
    ck_assert_uint_eq(all_calls(), before);
}
END_TEST

START_TEST(small_requests_have_addresses_of_their_own)
{
    pleat_devptr large = pleat_get(128 * KIB, 0);
    pleat_devptr small = pleat_get(128 * KIB - 512, 0);
    ck_assert_uint_eq(pleat_get(128 * KIB, 0), large + 128 * KIB);
    ck_assert_uint_eq(pleat_get(512, 0), small + 128 * KIB - 512);
    ck_assert_uint_eq(vmm_sim_counted(&pleat.sim).reservations, 2);
}
END_TEST

/* ---- growth -------------------------------------------------------------------------------- */

typedef struct tally {
    uint64_t create, map, access, unmap, release, reserve;
} tally;

static tally tally_now(void)
{
    return (tally){ .create = pleat_calls("cuMemCreate"),
                    .map = pleat_calls("cuMemMap"),
                    .access = pleat_calls("cuMemSetAccess"),
                    .unmap = pleat_calls("cuMemUnmap"),
                    .release = pleat_calls("cuMemRelease"),
                    .reserve = pleat_calls("cuMemAddressReserve") };
}

/* Expected changes since `before`: created granules, mapped granules, calls that set access. */
static void assert_grown(const tally *before, uint64_t created, uint64_t mapped, uint64_t access)
{
    tally now = tally_now();
    ck_assert_uint_eq(now.create - before->create, created);
    ck_assert_uint_eq(now.map - before->map, mapped);
    ck_assert_uint_eq(now.access - before->access, access);
    ck_assert_uint_eq(now.unmap, before->unmap);
    ck_assert_uint_eq(now.release, before->release);
}

START_TEST(the_first_request_creates_and_maps_what_it_needs)
{
    tally before = tally_now();
    pleat_get(7 * MIB, 0);
    assert_grown(&before, 4, 4, 1);
    ck_assert_uint_eq(tally_now().reserve - before.reserve, 1);
    ck_assert_uint_eq(pleat_counted().ops_map, 1);
}
END_TEST

START_TEST(growth_in_place_maps_only_the_missing_granules)
{
    pleat_devptr ptr = pleat_get(7 * MIB, 0);
    tally before = tally_now();
    ck_assert_uint_eq(pleat_get(6 * MIB, 0), ptr + 7 * MIB); /* one MiB is free, five are missing */
    assert_grown(&before, 3, 3, 1);
    ck_assert_uint_eq(tally_now().reserve, before.reserve);
    ck_assert_uint_eq(pleat_counted().resident_bytes, 14 * MIB);
}
END_TEST

START_TEST(a_freed_block_at_the_edge_grows_into_the_hole)
{
    pleat_get(2 * MIB, 0);
    pleat_devptr edge = pleat_get(4 * MIB, 0);
    pleat_put(edge, 0);
    tally before = tally_now();
    ck_assert_uint_eq(pleat_get(10 * MIB, 0), edge);
    assert_grown(&before, 3, 3, 1);
}
END_TEST

START_TEST(the_place_with_the_fewest_new_granules_is_taken)
{
    pleat_devptr low = pleat_get(8 * MIB, 0);
    pleat_get(3 * MIB, 0);
    pleat_devptr middle = pleat_get(MIB, 0);
    pleat_devptr high = pleat_get(6 * MIB, 0);
    pleat_get(2 * MIB, 0);
    pleat_put(low, 0);
    pleat_put(high, 0);
    ck_assert_uint_eq(pleat_trim(0, true), 14 * MIB);
    pleat_put(middle, 0); /* one free MiB below the upper hole */
    tally before = tally_now();
    ck_assert_uint_eq(pleat_get(7 * MIB, 0), middle); /* three new granules; below, four */
    assert_grown(&before, 3, 3, 1);
    ck_assert_uint_eq(pleat_get(2 * MIB, 0), low); /* the lowest of equal holes */
}
END_TEST

START_TEST(a_place_over_two_holes_is_two_runs)
{
    pleat_devptr ptr = pleat_get(2 * MIB, 0);
    pleat_devptr kept = pleat_get(2 * MIB, 0);
    pleat_devptr high = pleat_get(2 * MIB, 0);
    pleat_get(2 * MIB, 0);
    pleat_put(ptr, 0);
    pleat_put(high, 0);
    pleat_trim(0, true);
    pleat_put(kept, 0);
    tally before = tally_now();
    ck_assert_uint_eq(pleat_get(6 * MIB, 0), ptr);
    assert_grown(&before, 2, 2, 2);
}
END_TEST

START_TEST(memory_that_was_trimmed_comes_back)
{
    pleat_devptr ptr = pleat_get(20 * MIB, 0);
    pleat_put(ptr, 0);
    ck_assert_uint_eq(pleat_trim(0, false), 20 * MIB);
    ck_assert_uint_eq(pleat_counted().resident_bytes, 0);
    ck_assert_uint_eq(pleat_get(20 * MIB, 0), ptr);
}
END_TEST

START_TEST(whole_granules_fill_the_device_to_the_last)
{
    pleat_devptr ptrs[64];
    for (int i = 0; i < 64; i++) {
        ptrs[i] = pleat_get(GRANULE, 0);
    }
    ck_assert_int_eq(pleat_refused(512, 0), PLEAT_ENOMEM_DEVICE);
    pleat_put(ptrs[17], 0);
    ck_assert_uint_eq(pleat_get(GRANULE, 0), ptrs[17]);
    pleat_stats s = pleat_counted();
    ck_assert_uint_eq(s.resident_bytes, 128 * MIB);
}
END_TEST

START_TEST(scattered_free_granules_back_one_large_block)
{
    pleat_devptr ptrs[64];
    for (int i = 0; i < 64; i++) {
        ptrs[i] = pleat_get(GRANULE, 0);
    }
    for (int i = 0; i < 64; i += 2) {
        pleat_put(ptrs[i], 0);
    }
    uint64_t created = pleat_calls("cuMemCreate");
    pleat_get(64 * MIB, 0);
    ck_assert_uint_le(pleat_calls("cuMemCreate") - created, 1); /* at most one call in vain */
    pleat_stats s = pleat_counted();
    ck_assert_uint_eq(s.n_taken_granules, 32);
    ck_assert_uint_eq(s.host_syncs, 0);
    ck_assert_uint_eq(s.stream_waits, 0);
    ck_assert_int_eq(pleat_refused(1, 0), PLEAT_ENOMEM_DEVICE);
}
END_TEST

START_TEST(absurd_sizes_are_refused_and_change_nothing)
{
    pleat_get(MIB, 0);
    uint64_t before = all_calls();
    ck_assert_int_eq(pleat_refused((size_t)1 << 60, 0), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(pleat_refused(128 * MIB, 0), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(all_calls(), before);
}
END_TEST

/* ---- pointers ------------------------------------------------------------------------------ */

static pleat_status try_free(pleat_devptr ptr)
{
    pleat_status st = pleat.a->ops->free(pleat.a, ptr, pleat.streams[0]);
    pleat_assert_sound();
    return st;
}

START_TEST(a_second_free_is_named)
{
    pleat_devptr ptr = pleat_get(3 * MIB, 0);
    pleat_get(MIB, 0);
    pleat_put(ptr, 0);
    ck_assert_int_eq(try_free(ptr), PLEAT_EDOUBLEFREE);
    pleat_trim(0, true);
    ck_assert_int_eq(try_free(ptr), PLEAT_EDOUBLEFREE);
    ck_assert_uint_eq(pleat_counted().allocation[0].current, 1);
}
END_TEST

START_TEST(foreign_pointers_are_refused)
{
    ck_assert_int_eq(try_free(GRANULE), PLEAT_EFOREIGN); /* there is no segment yet */
    pleat_devptr ptr = pleat_get(3 * MIB, 0);
    ck_assert_int_eq(try_free(0), PLEAT_EFOREIGN);
    ck_assert_int_eq(try_free(512), PLEAT_EFOREIGN);
    ck_assert_int_eq(try_free(UINT64_MAX), PLEAT_EFOREIGN);
    ck_assert_int_eq(try_free(ptr - 1), PLEAT_EFOREIGN);
    ck_assert_uint_eq(pleat_counted().allocation[0].current, 1);
}
END_TEST

START_TEST(the_inside_of_a_block_cannot_be_freed)
{
    pleat_devptr ptr = pleat_get(3 * MIB, 0);
    ck_assert_int_eq(try_free(ptr + 1), PLEAT_EFOREIGN);
    ck_assert_int_eq(try_free(ptr + 512), PLEAT_EFOREIGN);
    ck_assert_int_eq(try_free(ptr + 3 * MIB - 1), PLEAT_EFOREIGN);
    ck_assert_uint_eq(pleat_info(ptr).base, ptr);
}
END_TEST

START_TEST(recording_what_is_not_live_is_refused)
{
    pleat_devptr ptr = pleat_get(3 * MIB, 0);
    const pl_allocator_ops *ops = pleat.a->ops;
    ck_assert_int_eq(ops->record_stream(pleat.a, ptr + 512, pleat.streams[1]), PLEAT_EFOREIGN);
    ck_assert_int_eq(ops->record_stream(pleat.a, 512, pleat.streams[1]), PLEAT_EFOREIGN);
    pleat_put(ptr, 0);
    ck_assert_int_eq(ops->record_stream(pleat.a, ptr, pleat.streams[1]), PLEAT_EDOUBLEFREE);
}
END_TEST

START_TEST(any_address_of_a_block_finds_it)
{
    pleat_get(MIB, 0);
    pleat_devptr ptr = pleat_get(5 * MIB + 1, 2);
    const pleat_devptr insides[] = { ptr, ptr + 1, ptr + 5 * MIB, ptr + 5 * MIB + 511 };
    for (size_t i = 0; i < sizeof insides / sizeof insides[0]; i++) {
        pleat_block_info info = pleat_info(insides[i]);
        ck_assert_uint_eq(info.base, ptr);
        ck_assert_uint_eq(info.bytes, 5 * MIB + 512);
        ck_assert_uint_eq(info.requested_bytes, 5 * MIB + 1);
        ck_assert_ptr_eq(info.stream, pleat.handles[2]);
        ck_assert_uint_eq(info.stream_id, pl_stream_id(pleat.streams[2]));
        ck_assert_int_eq(info.device, 0);
    }
}
END_TEST

START_TEST(addresses_of_no_block_are_not_found)
{
    pleat_block_info info;
    pleat_devptr ptr = pleat_get(5 * MIB, 0);
    pleat_devptr second = pleat_get(MIB, 0);
    pleat_put(ptr, 0);
    const pleat_devptr outsides[] = { ptr, ptr + MIB,  ptr - 1,        second + MIB,
                                      0,   UINT64_MAX, ptr + 100 * MIB };
    for (size_t i = 0; i < sizeof outsides / sizeof outsides[0]; i++) {
        ck_assert_int_eq(pleat.a->ops->query(pleat.a, outsides[i], &info), PLEAT_EFOREIGN);
    }
}
END_TEST

/* ---- figures ------------------------------------------------------------------------------- */

START_TEST(the_bytes_add_up_whatever_is_done)
{
    pleat_devptr ptrs[40] = { 0 };
    uint64_t seed = 7;
    for (int step = 0; step < 3000; step++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        size_t i = (size_t)(seed >> 33) % 40;
        unsigned stream = (unsigned)(seed >> 41) % 3;
        if (ptrs[i] != 0) {
            if (seed >> 62 == 0) {
                pleat_record(ptrs[i], (stream + 1) % 3);
            }
            pleat_put(ptrs[i], stream);
            ptrs[i] = 0;
        } else {
            size_t bytes = 1 + (size_t)(seed >> 20) % (i % 4 == 0 ? 4 * MIB : 200 * KIB);
            (void)!pleat.a->ops->alloc(pleat.a, bytes, pleat.streams[stream], &ptrs[i]);
        }
        if (step % 500 == 499) {
            pleat_trim(60 * MIB, step % 1000 == 999);
        }
        pleat_counted();
    }
}
END_TEST

START_TEST(figures_are_those_of_what_was_asked)
{
    pleat_devptr small = pleat_get(1000, 0);
    pleat_devptr large = pleat_get(3 * MIB, 0);
    pleat_stats s = pleat_counted();
    ck_assert_uint_eq(s.allocation[PLEAT_SIZES_ALL].current, 2);
    ck_assert_uint_eq(s.allocation[PLEAT_SIZES_SMALL].current, 1);
    ck_assert_uint_eq(s.allocated_bytes[PLEAT_SIZES_SMALL].current, 1024);
    ck_assert_uint_eq(s.allocated_bytes[PLEAT_SIZES_LARGE].current, 3 * MIB);
    ck_assert_uint_eq(s.requested_bytes[PLEAT_SIZES_ALL].current, 3 * MIB + 1000);
    ck_assert_uint_eq(s.rounding_bytes, 24);
    ck_assert_uint_eq(s.live_granules, 3);
    ck_assert_uint_eq(s.granule_bytes, GRANULE);
    ck_assert_uint_eq(s.resident_bytes, 3 * (uint64_t)GRANULE);
    ck_assert_uint_eq(s.reserved_bytes[PLEAT_SIZES_ALL].current, s.resident_bytes);
    ck_assert_uint_eq(s.bytes_created, s.resident_bytes);
    ck_assert_uint_eq(s.bytes_mapped, s.resident_bytes);
    ck_assert_uint_gt(s.metadata_bytes, 0);
    pleat_put(small, 0);
    pleat_put(large, 0);
    s = pleat_counted();
    ck_assert_uint_eq(s.allocation[PLEAT_SIZES_ALL].current, 0);
    ck_assert_uint_eq(s.allocation[PLEAT_SIZES_ALL].freed, 2);
    ck_assert_uint_eq(s.rounding_bytes, 0);
    ck_assert_uint_eq(s.live_granules, 0);
    ck_assert_uint_eq(s.free_bytes, 3 * (uint64_t)GRANULE);
}
END_TEST

START_TEST(only_what_is_bound_to_live_memory_cannot_be_released)
{
    pleat_devptr large = pleat_get(6 * MIB, 0);
    pleat_devptr kept = pleat_get(MIB, 0);
    ck_assert_uint_eq(pleat_counted().inactive_split_bytes[PLEAT_SIZES_ALL].current, MIB);
    pleat_put(large, 0);
    pleat_stats s = pleat_counted();
    ck_assert_uint_eq(s.free_bytes, 7 * MIB);
    ck_assert_uint_eq(s.inactive_split_bytes[PLEAT_SIZES_ALL].current, MIB);
    ck_assert_uint_eq(s.inactive_split_bytes[PLEAT_SIZES_LARGE].peak, MIB);
    ck_assert_uint_eq(pleat_trim(0, true), 6 * MIB);
    pleat_put(kept, 0);
    ck_assert_uint_eq(pleat_counted().inactive_split_bytes[PLEAT_SIZES_ALL].current, 0);
}
END_TEST

START_TEST(resetting_peaks_sets_them_to_what_is)
{
    pleat_devptr ptr = pleat_get(50 * MIB, 0);
    pleat_get(4 * MIB, 0);
    pleat_put(ptr, 0);
    pleat_trim(0, true);
    pleat_stats s = pleat_counted();
    ck_assert_uint_eq(s.allocated_bytes[0].peak, 54 * MIB);
    ck_assert_uint_eq(s.reserved_bytes[0].peak, 54 * MIB);
    ck_assert_uint_eq(s.peak_live_granules, 27);
    pleat.a->ops->reset_peaks(pleat.a);
    s = pleat_counted();
    ck_assert_uint_eq(s.allocated_bytes[0].peak, 4 * MIB);
    ck_assert_uint_eq(s.requested_bytes[0].peak, 4 * MIB);
    ck_assert_uint_eq(s.allocation[0].peak, 1);
    ck_assert_uint_eq(s.reserved_bytes[0].peak, 4 * MIB);
    ck_assert_uint_eq(s.peak_live_granules, 2);
}
END_TEST

/* ---- the beginning and the end ------------------------------------------------------------- */

static pleat_status create_again(pl_allocator **out)
{
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    return pl_pleat_ops.create(pleat.dev, &options, out);
}

START_TEST(creation_that_lacks_host_memory_leaves_nothing)
{
    for (uint64_t k = 0;; k++) {
        pl_allocator *second = NULL;
        size_t n;
        pl_meta_fail_at(k);
        pleat_status st = create_again(&second);
        pl_meta_fail_never();
        if (st == PLEAT_OK) {
            ck_assert_int_eq(second->ops->destroy(second, false, &n, &n), PLEAT_OK);
            break;
        }
        ck_assert_int_eq(st, PLEAT_ENOMEM_HOST);
        ck_assert_ptr_null(second);
    }
}
END_TEST

START_TEST(live_blocks_keep_the_allocator_from_being_destroyed)
{
    pleat_devptr ptr = pleat_get(3 * MIB, 0);
    pleat_get(5, 1);
    size_t n_live = 99;
    size_t n_leaked = 99;
    ck_assert_int_eq(pleat.a->ops->destroy(pleat.a, false, &n_live, &n_leaked), PLEAT_EBUSY);
    ck_assert_uint_eq(n_live, 2);
    pleat_put(ptr, 0); /* the allocator still works */
    pleat_get(4 * MIB, 0);
    pleat_work(0, ptr, 3 * MIB); /* a forced destroy waits for this work */
    ck_assert_int_eq(pleat.a->ops->destroy(pleat.a, true, &n_live, &n_leaked), PLEAT_OK);
    pleat.a = NULL;
    ck_assert_uint_eq(n_live, 2);
    ck_assert_uint_eq(n_leaked, 0);
    pleat_sim_counts counts = vmm_sim_counted(&pleat.sim);
    ck_assert_uint_eq(counts.mappings + counts.handles + counts.reservations, 0);
    ck_assert_uint_eq(counts.hazards, 0);
}
END_TEST

START_TEST(two_allocators_share_a_device_in_peace)
{
    pl_allocator *first = pleat.a;
    pl_allocator *second = NULL;
    pleat_devptr ptr = pleat_get(30 * MIB, 0);
    ck_assert_int_eq(create_again(&second), PLEAT_OK);
    pleat_devptr other = 0;
    ck_assert_int_eq(second->ops->alloc(second, 20 * MIB, pleat.streams[0], &other), PLEAT_OK);
    ck_assert_int_eq(second->ops->free(second, ptr, pleat.streams[0]), PLEAT_EFOREIGN);
    ck_assert_int_eq(first->ops->free(first, other, pleat.streams[0]), PLEAT_EFOREIGN);
    size_t n_live = 0;
    size_t n_leaked = 0;
    ck_assert_int_eq(second->ops->destroy(second, true, &n_live, &n_leaked), PLEAT_OK);
    ck_assert_uint_eq(vmm_sim_counted(&pleat.sim).physical_bytes, 30 * MIB);
}
END_TEST

static void open_without_vmm(void)
{
    vmm_sim_open(&pleat.sim, "profile:no_vmm");
    pleat.dev = vmm_sim_device(&pleat.sim, NULL);
}

static void close_without_vmm(void)
{
    vmm_sim_close_device(pleat.dev);
    vmm_sim_close(&pleat.sim);
}

START_TEST(without_vmm_there_is_no_pleat)
{
    pl_allocator *a = NULL;
    ck_assert(pl_pleat_ops.needs_vmm);
    ck_assert_int_eq(create_again(&a), PLEAT_ENOVMM);
    ck_assert_ptr_null(a);
}
END_TEST

START_TEST(chunks_of_several_granules_work_alike)
{
    pl_device_options options = { .chunk_granules = 4 };
    pleat_open_device("capacity:128M,depth:100000", &options, NULL);
    pleat_devptr ptr = pleat_get(3 * MIB, 0);
    ck_assert_uint_eq(pleat_counted().resident_bytes, 8 * MIB);
    ck_assert_uint_eq(pleat_calls("cuMemMap"), 1);
    ck_assert_uint_eq(pleat_get(6 * MIB, 0), ptr + 3 * MIB);
    ck_assert_uint_eq(pleat_counted().resident_bytes, 16 * MIB);
    pleat_close();
}
END_TEST

START_TEST(chunks_of_three_granules_are_refused)
{
    vmm_sim_open(&pleat.sim, "capacity:128M");
    pl_device_options options = { .chunk_granules = 3 };
    pleat.dev = vmm_sim_device(&pleat.sim, &options);
    pl_allocator *a = NULL;
    ck_assert_int_eq(create_again(&a), PLEAT_EINVAL);
    close_without_vmm();
}
END_TEST

static TCase *make_case(const char *name)
{
    TCase *tcase = tcase_create(name);
    tcase_add_checked_fixture(tcase, open_plain, pleat_close);
    return tcase;
}

static void add_life(Suite *suite)
{
    TCase *life = make_case("life");
    tcase_add_test(life, creation_that_lacks_host_memory_leaves_nothing);
    tcase_add_test(life, live_blocks_keep_the_allocator_from_being_destroyed);
    tcase_add_test(life, two_allocators_share_a_device_in_peace);
    suite_add_tcase(suite, life);
    TCase *without = tcase_create("without vmm");
    tcase_add_checked_fixture(without, open_without_vmm, close_without_vmm);
    tcase_add_test(without, without_vmm_there_is_no_pleat);
    suite_add_tcase(suite, without);
    TCase *chunks = tcase_create("chunks");
    tcase_add_test(chunks, chunks_of_several_granules_work_alike);
    tcase_add_test(chunks, chunks_of_three_granules_are_refused);
    suite_add_tcase(suite, chunks);
}

SUITE(segments_pleat)
{
    TCase *hits = make_case("hits");
    tcase_add_test(hits, a_hit_makes_no_driver_call);
    tcase_add_test(hits, a_hit_on_a_created_stream_asks_only_for_its_capture);
    tcase_add_test(hits, the_best_fit_is_taken_and_its_rest_stays_free);
    tcase_add_test(hits, neighbours_that_are_free_serve_as_one);
    tcase_add_test(hits, small_requests_have_addresses_of_their_own);
    suite_add_tcase(suite, hits);
    TCase *growth = make_case("growth");
    tcase_add_test(growth, the_first_request_creates_and_maps_what_it_needs);
    tcase_add_test(growth, growth_in_place_maps_only_the_missing_granules);
    tcase_add_test(growth, a_freed_block_at_the_edge_grows_into_the_hole);
    tcase_add_test(growth, the_place_with_the_fewest_new_granules_is_taken);
    tcase_add_test(growth, a_place_over_two_holes_is_two_runs);
    tcase_add_test(growth, memory_that_was_trimmed_comes_back);
    tcase_add_test(growth, whole_granules_fill_the_device_to_the_last);
    tcase_add_test(growth, scattered_free_granules_back_one_large_block);
    tcase_add_test(growth, absurd_sizes_are_refused_and_change_nothing);
    suite_add_tcase(suite, growth);
    TCase *pointers = make_case("pointers");
    tcase_add_test(pointers, a_second_free_is_named);
    tcase_add_test(pointers, foreign_pointers_are_refused);
    tcase_add_test(pointers, the_inside_of_a_block_cannot_be_freed);
    tcase_add_test(pointers, recording_what_is_not_live_is_refused);
    tcase_add_test(pointers, any_address_of_a_block_finds_it);
    tcase_add_test(pointers, addresses_of_no_block_are_not_found);
    suite_add_tcase(suite, pointers);
    TCase *figures = make_case("figures");
    tcase_add_test(figures, the_bytes_add_up_whatever_is_done);
    tcase_add_test(figures, figures_are_those_of_what_was_asked);
    tcase_add_test(figures, only_what_is_bound_to_live_memory_cannot_be_released);
    tcase_add_test(figures, resetting_peaks_sets_them_to_what_is);
    suite_add_tcase(suite, figures);
    add_life(suite);
}
