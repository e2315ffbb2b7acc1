/* hazard_test.c - accesses that are hazards, and harmless accesses that resemble hazards. */
#include <stdio.h>

#include "tests/support/sim/sim_world.h"
#include "tests/support/suite.h"

static cu_devptr at; /* two accessible granules */
static cu_stream a;
static cu_stream b;

static void begin(void)
{
    world_begin("depth:1000000,devices:2");
    at = world_map(2);
    a = world_stream();
    b = world_stream();
}

static void close_world(void)
{
    pleat_sim_finish();
    ck_ok(cuStreamDestroy_v2(a));
    ck_ok(cuStreamDestroy_v2(b));
    world_unmap(at, 2);
}

static void end(void)
{
    close_world();
    world_end();
}

/* For tests with hazards: assert them, and open a clean world for the fixture. */
static void end_with(pleat_sim_hazard_kind kind, size_t n)
{
    close_world();
    world_end_with(kind, n);
    begin();
}

/* The first hazard's text has the handle of the stream, and `words`. */
static void expect_text(void *stream, const char *words)
{
    char handle[32];
    pleat_sim_hazard found;
    ck_assert_uint_ge(pleat_sim_hazards(&found, 1), 1);
    snprintf(handle, sizeof handle, "stream 0x%llx", (unsigned long long)(uintptr_t)stream);
    ck_assert_msg(strstr(found.text, handle) != NULL && strstr(found.text, words) != NULL, "%s",
                  found.text);
    ck_assert_uint_lt(strlen(found.text), sizeof found.text - 1); /* not cut */
    ck_assert_int_eq(found.text[strlen(found.text) - 1], '?');    /* ends with a likely cause */
}

START_TEST(work_on_unmapped_bytes_is_found_at_submission)
{
    cu_devptr bare = world_reserve(1);
    world_read(a, bare, 512);
    expect_text(a, "freed or asleep before, or beyond the block");
    world_read(a, at + 2 * GRANULE - 1, 2);
    world_read(a, 4096, 1);
    world_read(a, UINT64_MAX - 5, 100);
    world_write(a, at, 2 * GRANULE);
    world_write(a, at, 0);
    world_write(a, 0, 0);
    ck_assert_uint_eq(world_hazards(), 4);
    ck_ok(cuMemAddressFree(bare, GRANULE));
    end_with(PLEAT_SIM_UNMAPPED_ACCESS, 4);
}
END_TEST

START_TEST(work_without_access_is_found_at_submission)
{
    world_allow(at, 1, 0, CU_ACCESS_NONE);
    world_read(a, at, 512);
    world_allow(at, 1, 0, CU_ACCESS_READ);
    world_read(a, at, 512);
    world_write(a, at, 512);
    ck_assert_uint_eq(world_hazards(), 2);
    end_with(PLEAT_SIM_UNMAPPED_ACCESS, 2);
}
END_TEST

START_TEST(access_of_one_device_is_not_another_s)
{
    cu_context context;
    ck_ok(cuDevicePrimaryCtxRetain(&context, 1));
    ck_ok(cuCtxPushCurrent_v2(context));
    cu_stream far = world_stream();
    world_allow(at, 1, 1, CU_ACCESS_READ);
    world_read(far, at, 512);
    ck_assert_uint_eq(world_hazards(), 0);
    world_read(far, at + GRANULE, 512);
    ck_assert_uint_eq(world_hazards(), 1);
    pleat_sim_finish();
    ck_ok(cuStreamDestroy_v2(far));
    ck_ok(cuCtxPopCurrent_v2(NULL));
    ck_ok(cuDevicePrimaryCtxRelease_v2(1));
    end_with(PLEAT_SIM_UNMAPPED_ACCESS, 1);
}
END_TEST

START_TEST(access_lost_before_the_end_is_found_at_the_end)
{
    world_write(a, at, 512);
    world_read(b, at + GRANULE, 512);
    world_allow(at, 2, 0, CU_ACCESS_READ);
    ck_assert_uint_eq(world_hazards(), 0);
    pleat_sim_finish();
    ck_assert_uint_eq(world_hazards(), 1);
    end_with(PLEAT_SIM_UNMAPPED_ACCESS, 1);
}
END_TEST

START_TEST(cumemunmap_waits_for_nothing_and_is_a_hazard_under_unfinished_work)
{
    world_write(a, at, 512);
    world_write(a, at, 512);
    ck_ok(cuMemUnmap(at, GRANULE));
    ck_assert_uint_eq(world_hazards(), 1);
    ck_assert_uint_eq(world_unfinished(), 2);
    ck_ok(cuMemUnmap(at + GRANULE, GRANULE));
    ck_ok(cuMemAddressFree(at, 2 * GRANULE));
    pleat_sim_finish();
    at = world_map(2);
    end_with(PLEAT_SIM_UNMAP_IN_USE, 1);
}
END_TEST

START_TEST(work_under_several_unmaps_is_one_hazard)
{
    world_write(a, at, 2 * GRANULE);
    ck_ok(cuMemUnmap(at, GRANULE));
    ck_ok(cuMemUnmap(at + GRANULE, GRANULE));
    ck_assert_uint_eq(world_hazards(), 1);
    ck_ok(cuMemAddressFree(at, 2 * GRANULE));
    pleat_sim_finish();
    at = world_map(2);
    end_with(PLEAT_SIM_UNMAP_IN_USE, 1);
}
END_TEST

START_TEST(unmapping_beside_unfinished_work_or_after_it_is_fine)
{
    cu_devptr other = world_map(1);
    world_write(a, at, GRANULE);
    world_write(b, other, 512);
    ck_ok(cuMemUnmap(at + GRANULE, GRANULE));
    ck_ok(cuStreamSynchronize(b));
    ck_ok(cuMemUnmap(other, GRANULE));
    ck_ok(cuMemAddressFree(other, GRANULE));
    ck_ok(cuStreamSynchronize(a));
    ck_ok(cuMemUnmap(at, GRANULE));
    ck_ok(cuMemAddressFree(at, 2 * GRANULE));
    at = world_map(2);
}
END_TEST

START_TEST(unmapping_one_alias_asks_for_that_alias_alone)
{
    cu_devptr alias = world_reserve(1);
    cu_mem_handle handle;
    ck_ok(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)at));
    ck_ok(cuMemMap(alias, GRANULE, 0, handle, 0));
    world_allow(alias, 1, 0, CU_ACCESS_READ_WRITE);
    ck_ok(cuMemRelease(handle));
    world_write(a, at, 512);
    ck_ok(cuMemUnmap(alias, GRANULE));
    ck_ok(cuMemAddressFree(alias, GRANULE));
    ck_assert_uint_eq(world_hazards(), 0);
}
END_TEST

START_TEST(cumemfree_under_unfinished_work_is_a_hazard)
{
    cu_devptr block;
    ck_ok(cuMemAlloc_v2(&block, 4096));
    world_write(a, block + 1024, 512);
    ck_ok(cuMemFree_v2(block));
    expect_text(a, "cuMemFree under unfinished work");
    end_with(PLEAT_SIM_UNMAP_IN_USE, 1);
}
END_TEST

START_TEST(cumemfree_may_be_told_to_wait)
{
    cu_devptr block;
    end();
    world_begin("depth:1000000,free:wait");
    at = world_map(2);
    a = world_stream();
    b = world_stream();
    ck_ok(cuMemAlloc_v2(&block, 4096));
    world_write(a, block, 512);
    ck_ok(cuMemFree_v2(block));
    ck_assert_uint_eq(world_unfinished(), 0);
}
END_TEST

START_TEST(unordered_writes_of_two_streams_race)
{
    world_write(a, at, 1024);
    world_write(b, at + 1023, 512);
    expect_text(a, "write in call");
    expect_text(b, "write on stream");
    expect_text(b, "a forgotten record_stream");
    end_with(PLEAT_SIM_RACE, 1);
}
END_TEST

START_TEST(a_read_and_a_write_race_but_two_reads_do_not)
{
    world_read(a, at, 1024);
    world_read(b, at, 1024);
    ck_assert_uint_eq(world_hazards(), 0);
    world_write(b, at, 1024);
    ck_assert_uint_eq(world_hazards(), 1);
    expect_text(a, ", read in call");
    world_read(a, at, 1024);
    ck_assert_uint_eq(world_hazards(), 2);
    end_with(PLEAT_SIM_RACE, 2);
}
END_TEST

START_TEST(neighbouring_bytes_do_not_race)
{
    world_write(a, at, 1024);
    world_write(b, at + 1024, 1024);
    world_write(a, at + GRANULE, 512);
    world_write(b, at + GRANULE + 512, 512);
}
END_TEST

START_TEST(the_same_stream_is_ordered)
{
    world_write(a, at, 1024);
    world_write(a, at, 1024);
}
END_TEST

START_TEST(an_event_orders_what_came_before_its_record)
{
    world_write(a, at, 1024);
    world_order(a, b);
    world_write(b, at, 1024);
    ck_assert_uint_eq(world_hazards(), 0);
    world_write(a, at + GRANULE, 1024);
    world_write(b, at + GRANULE, 1024);
    end_with(PLEAT_SIM_RACE, 1);
}
END_TEST

START_TEST(order_is_transitive_through_streams)
{
    cu_stream c = world_stream();
    world_write(a, at, 1024);
    world_order(a, b);
    world_order(b, c);
    world_write(c, at, 1024);
    ck_assert_uint_eq(world_hazards(), 0);
    ck_ok(cuStreamDestroy_v2(c));
}
END_TEST

START_TEST(order_has_a_direction)
{
    world_order(b, a);
    world_write(a, at, 1024);
    world_order(b, a);
    world_write(b, at, 1024);
    end_with(PLEAT_SIM_RACE, 1);
}
END_TEST

START_TEST(what_the_host_has_waited_for_is_ordered)
{
    world_write(a, at, 1024);
    ck_ok(cuStreamSynchronize(a));
    world_write(b, at, 1024);
    cu_event event = world_event();
    ck_ok(cuEventRecord(event, b));
    ck_ok(cuEventSynchronize(event));
    ck_ok(cuEventDestroy_v2(event));
    world_write(a, at, 1024);
}
END_TEST

START_TEST(races_are_found_through_all_aliases)
{
    cu_devptr alias = world_reserve(2);
    cu_mem_handle handle;
    for (size_t i = 0; i < 2; i++) {
        ck_ok(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)(at + i * GRANULE)));
        ck_ok(cuMemMap(alias + i * GRANULE, GRANULE, 0, handle, 0));
        ck_ok(cuMemRelease(handle));
    }
    world_allow(alias, 2, 0, CU_ACCESS_READ_WRITE);
    world_write(a, at, GRANULE);
    world_write(b, alias + GRANULE, GRANULE);
    ck_assert_uint_eq(world_hazards(), 0);
    world_write(b, alias + GRANULE - 1, 1);
    ck_assert_uint_eq(world_hazards(), 1);
    world_read(a, at + 2 * GRANULE - 1, 1);
    ck_assert_uint_eq(world_hazards(), 2);
    world_order(a, b);
    world_write(b, alias, 2 * GRANULE);
    ck_assert_uint_eq(world_hazards(), 2);
    pleat_sim_finish();
    world_unmap(alias, 2);
    end_with(PLEAT_SIM_RACE, 2);
}
END_TEST

START_TEST(an_alias_made_under_unfinished_work_races_with_it)
{
    cu_devptr alias = world_reserve(1);
    cu_mem_handle handle;
    pleat_sim_access accesses[2] = { { alias, 16, true }, { 4096, UINT64_C(1) << 60, false } };
    world_write(a, at + 100, 100);
    ck_ok(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)at));
    ck_ok(cuMemMap(alias, GRANULE, 0, handle, 0));
    ck_ok(cuMemRelease(handle));
    world_allow(alias, 1, 0, CU_ACCESS_READ_WRITE);
    world_write(b, alias + 200, 100);
    ck_assert_uint_eq(world_hazards(), 0);
    world_read(b, alias + 150, 1);
    ck_assert_uint_eq(world_hazards(), 1);
    ck_ok(pleat_sim_work(b, accesses, 2));
    ck_assert_uint_eq(world_hazards(), 2);
    pleat_sim_finish();
    world_unmap(alias, 1);
    pleat_sim_hazard found[2];
    ck_assert_uint_eq(pleat_sim_hazards(found, 2), 2);
    ck_assert_int_eq(found[0].kind, PLEAT_SIM_RACE);
    ck_assert_int_eq(found[1].kind, PLEAT_SIM_UNMAPPED_ACCESS);
    ck_assert_int_eq(pleat_sim_reset(NULL), 0);
    begin();
}
END_TEST

START_TEST(an_alias_at_another_offset_does_not_race)
{
    cu_devptr alias = world_reserve(3);
    cu_mem_handle handle;
    ck_ok(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)at));
    for (size_t i = 0; i < 3; i++) {
        ck_ok(cuMemMap(alias + i * GRANULE, GRANULE, 0, handle, 0));
    }
    ck_ok(cuMemRelease(handle));
    world_allow(alias, 3, 0, CU_ACCESS_READ_WRITE);
    world_write(a, at + 512, 512);
    world_write(b, alias, 512);
    world_write(b, alias + GRANULE + 1024, GRANULE - 1024);
    ck_assert_uint_eq(world_hazards(), 0);
    world_write(b, alias + 2 * GRANULE + 1000, 100);
    ck_assert_uint_eq(world_hazards(), 1);
    pleat_sim_finish();
    world_unmap(alias, 3);
    end_with(PLEAT_SIM_RACE, 1);
}
END_TEST

START_TEST(work_with_several_accesses_is_taken_apart)
{
    pleat_sim_access ours[2] = { { at, 512, true }, { at + GRANULE, 512, true } };
    pleat_sim_access theirs[2] = { { at + 4096, 512, true }, { at + GRANULE + 4096, 512, false } };
    ck_ok(pleat_sim_work(a, ours, 2));
    ck_ok(pleat_sim_work(b, theirs, 2));
    ck_assert_uint_eq(world_hazards(), 0);
    theirs[1].ptr = at + GRANULE + 511;
    ck_ok(pleat_sim_work(b, theirs, 2));
    ck_assert_uint_eq(world_hazards(), 1);
    end_with(PLEAT_SIM_RACE, 1);
}
END_TEST

START_TEST(a_destroyed_stream_s_work_still_races)
{
    cu_stream gone = world_stream();
    world_write(gone, at, 512);
    ck_ok(cuStreamDestroy_v2(gone));
    cu_stream again = world_stream();
    ck_assert_ptr_eq(again, gone);
    world_write(again, at, 512);
    ck_ok(cuStreamDestroy_v2(again));
    end_with(PLEAT_SIM_RACE, 1);
}
END_TEST

START_TEST(a_refused_memset_of_unmapped_bytes_is_a_hazard_too)
{
    int host;
    ck_assert_int_eq(cuMemsetD8Async(at + GRANULE, 0, 2 * GRANULE, a), CU_INVALID_VALUE);
    ck_assert_int_eq(cuMemcpyDtoHAsync_v2(&host, 4096, 4, a), CU_INVALID_VALUE);
    ck_assert_int_eq(cuStreamWriteValue64_v2(a, at + 2 * GRANULE, 1, 0), CU_INVALID_VALUE);
    ck_assert_uint_eq(world_unfinished(), 0);
    end_with(PLEAT_SIM_UNMAPPED_ACCESS, 3);
}
END_TEST

START_TEST(all_are_counted_and_the_first_1024_kept)
{
    static pleat_sim_hazard found[1100];
    found[1024].text[0] = 'x';
    for (size_t i = 0; i < 1050; i++) {
        world_read(a, 4096 + i, 1);
    }
    ck_assert_uint_eq(pleat_sim_hazards(found, 1100), 1050);
    ck_assert_uint_eq(found[0].ptr, 4096);
    ck_assert_uint_eq(found[1023].ptr, 4096 + 1023);
    ck_assert_uint_gt(found[1023].call, found[1022].call);
    ck_assert_int_eq(found[1024].text[0], 'x');
    ck_assert_uint_eq(world_counts().hazards, 1050);
    end_with(PLEAT_SIM_UNMAPPED_ACCESS, 1050);
}
END_TEST

SUITE(sim_hazard)
{
    TCase *access = tcase_create("access");
    tcase_add_checked_fixture(access, begin, end);
    tcase_add_test(access, work_on_unmapped_bytes_is_found_at_submission);
    tcase_add_test(access, work_without_access_is_found_at_submission);
    tcase_add_test(access, access_of_one_device_is_not_another_s);
    tcase_add_test(access, access_lost_before_the_end_is_found_at_the_end);
    tcase_add_test(access, a_refused_memset_of_unmapped_bytes_is_a_hazard_too);
    tcase_add_test(access, all_are_counted_and_the_first_1024_kept);
    suite_add_tcase(suite, access);
    TCase *unmap = tcase_create("unmap");
    tcase_add_checked_fixture(unmap, begin, end);
    tcase_add_test(unmap, cumemunmap_waits_for_nothing_and_is_a_hazard_under_unfinished_work);
    tcase_add_test(unmap, work_under_several_unmaps_is_one_hazard);
    tcase_add_test(unmap, unmapping_beside_unfinished_work_or_after_it_is_fine);
    tcase_add_test(unmap, unmapping_one_alias_asks_for_that_alias_alone);
    tcase_add_test(unmap, cumemfree_under_unfinished_work_is_a_hazard);
    tcase_add_test(unmap, cumemfree_may_be_told_to_wait);
    suite_add_tcase(suite, unmap);
    TCase *race = tcase_create("race");
    tcase_add_checked_fixture(race, begin, end);
    tcase_add_test(race, unordered_writes_of_two_streams_race);
    tcase_add_test(race, a_read_and_a_write_race_but_two_reads_do_not);
    tcase_add_test(race, neighbouring_bytes_do_not_race);
    tcase_add_test(race, the_same_stream_is_ordered);
    tcase_add_test(race, an_event_orders_what_came_before_its_record);
    tcase_add_test(race, order_is_transitive_through_streams);
    tcase_add_test(race, order_has_a_direction);
    tcase_add_test(race, what_the_host_has_waited_for_is_ordered);
    tcase_add_test(race, races_are_found_through_all_aliases);
    tcase_add_test(race, an_alias_made_under_unfinished_work_races_with_it);
    tcase_add_test(race, an_alias_at_another_offset_does_not_race);
    tcase_add_test(race, work_with_several_accesses_is_taken_apart);
    tcase_add_test(race, a_destroyed_stream_s_work_still_races);
    suite_add_tcase(suite, race);
}
