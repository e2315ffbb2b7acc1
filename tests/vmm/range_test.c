/* range_test.c - address space: budget, halving, exact pairs. */
/* labels: unit fault */
#include <check.h>
#include <string.h>

#include "tests/support/suite.h"
#include "tests/support/vmm/vmm_sim.h"
#include "vmm/range.h"

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

static vmm_sim sim;

static void open_default(void)
{
    vmm_sim_open(&sim, "capacity:1G");
}

static void open_narrow(void)
{
    vmm_sim_open(&sim, "capacity:1G,va_bits:34"); /* 16 GiB of addresses at most */
}

static void close_sim(void)
{
    vmm_sim_close(&sim);
}

START_TEST(sizes_are_rounded_up_to_granules_and_bases_aligned)
{
    pl_device *dev = vmm_sim_device(&sim, NULL);
    pl_range range;
    ck_assert_int_eq(pl_range_reserve(dev, 5 * MIB, 1, &range), PLEAT_OK);
    ck_assert_uint_eq(range.bytes, 6 * MIB);
    ck_assert_uint_eq(range.base % (2 * MIB), 0);
    ck_assert_uint_eq(pl_device_counted(dev).address_bytes, 6 * MIB);
    ck_assert_int_eq(pl_range_release(dev, range), PLEAT_OK);
    ck_assert_uint_eq(pl_device_counted(dev).address_bytes, 0);
    vmm_sim_close_device(dev);
}
END_TEST

START_TEST(nothing_wanted_is_one_granule_and_the_least_wins_over_the_wish)
{
    pl_device *dev = vmm_sim_device(&sim, NULL);
    pl_range range;
    ck_assert_int_eq(pl_range_reserve(dev, 0, 0, &range), PLEAT_OK);
    ck_assert_uint_eq(range.bytes, 2 * MIB);
    ck_assert_int_eq(pl_range_release(dev, range), PLEAT_OK);
    ck_assert_int_eq(pl_range_reserve(dev, 2 * MIB, 7 * MIB, &range), PLEAT_OK);
    ck_assert_uint_eq(range.bytes, 8 * MIB);
    ck_assert_int_eq(pl_range_release(dev, range), PLEAT_OK);
    vmm_sim_close_device(dev);
}
END_TEST

START_TEST(a_size_that_cannot_be_rounded_is_absurd)
{
    pl_device *dev = vmm_sim_device(&sim, NULL);
    pl_range range;
    ck_assert_int_eq(pl_range_reserve(dev, SIZE_MAX, MIB, &range), PLEAT_ESIZE);
    ck_assert_int_eq(pl_range_reserve(dev, MIB, SIZE_MAX, &range), PLEAT_ESIZE);
    ck_assert_uint_eq(sim.n_calls("cuMemAddressReserve"), 0);
    vmm_sim_close_device(dev);
}
END_TEST

START_TEST(the_last_range_takes_what_is_left_of_the_budget)
{
    pl_device_options options = { .address_budget_bytes = 9 * MIB };
    pl_device *dev = vmm_sim_device(&sim, &options);
    pl_range first;
    pl_range second;
    pl_range third;
    ck_assert_int_eq(pl_range_reserve(dev, 2 * MIB, 2 * MIB, &first), PLEAT_OK);
    ck_assert_int_eq(pl_range_reserve(dev, GIB, 2 * MIB, &second), PLEAT_OK);
    ck_assert_uint_eq(second.bytes, 6 * MIB); /* whole granules of the 7 MiB left */
    ck_assert_int_eq(pl_range_reserve(dev, 2 * MIB, 2 * MIB, &third), PLEAT_ENOSPACE_VA);
    ck_assert_uint_eq(sim.n_calls("cuMemAddressReserve"), 2);
    ck_assert_ptr_nonnull(strstr(pl_driver_last_error()->detail, "address budget"));
    ck_assert_int_eq(pl_range_release(dev, first), PLEAT_OK);
    ck_assert_int_eq(pl_range_reserve(dev, 2 * MIB, 2 * MIB, &third), PLEAT_OK);
    ck_assert_int_eq(pl_range_release(dev, second), PLEAT_OK);
    ck_assert_int_eq(pl_range_release(dev, third), PLEAT_OK);
    vmm_sim_close_device(dev);
}
END_TEST

START_TEST(a_refused_wish_is_halved_until_it_fits)
{
    pl_device *dev = vmm_sim_device(&sim, NULL);
    pl_range range;
    ck_assert_int_eq(pl_range_reserve(dev, 256 * GIB, 2 * MIB, &range), PLEAT_OK);
    ck_assert_uint_le(range.bytes, 16 * GIB);
    ck_assert_uint_ge(range.bytes, 4 * GIB);
    ck_assert_uint_eq(pl_device_counted(dev).address_bytes, range.bytes);
    ck_assert_uint_ge(sim.n_calls("cuMemAddressReserve"), 5);
    ck_assert_int_eq(pl_range_release(dev, range), PLEAT_OK);
    vmm_sim_close_device(dev);
}
END_TEST

START_TEST(half_of_an_odd_wish_is_whole_granules)
{
    pl_device *dev = vmm_sim_device(&sim, NULL);
    pl_range range;
    sim.fail_at("cuMemAddressReserve", 0, CU_OUT_OF_MEMORY);
    ck_assert_int_eq(pl_range_reserve(dev, 14 * MIB, 2 * MIB, &range), PLEAT_OK);
    ck_assert_uint_eq(range.bytes, 6 * MIB); /* 3 of 7 granules */
    ck_assert_uint_eq(sim.n_calls("cuMemAddressReserve"), 2);
    ck_assert_int_eq(pl_range_release(dev, range), PLEAT_OK);
    vmm_sim_close_device(dev);
}
END_TEST

START_TEST(only_a_refusal_of_the_least_is_out_of_address_space)
{
    pl_device *dev = vmm_sim_device(&sim, NULL);
    pl_range range;
    ck_assert_int_eq(pl_range_reserve(dev, 256 * GIB, 64 * GIB, &range), PLEAT_ENOSPACE_VA);
    ck_assert_uint_eq(sim.n_calls("cuMemAddressReserve"), 3); /* 256, 128, 64 */
    ck_assert_uint_eq(pl_device_counted(dev).address_bytes, 0);
    ck_assert_int_eq(pl_range_reserve(dev, 2 * MIB, 2 * MIB, &range), PLEAT_OK);
    ck_assert_int_eq(pl_range_release(dev, range), PLEAT_OK);
    vmm_sim_close_device(dev);
}
END_TEST

START_TEST(out_of_memory_of_the_driver_is_about_addresses_here)
{
    pl_device *dev = vmm_sim_device(&sim, NULL);
    pl_range range;
    sim.fail_from("cuMemAddressReserve", 0, CU_OUT_OF_MEMORY);
    ck_assert_int_eq(pl_range_reserve(dev, 8 * MIB, 2 * MIB, &range), PLEAT_ENOSPACE_VA);
    ck_assert_uint_eq(sim.n_faults(), 3); /* 8, 4, 2 */
    sim.fail_never();
    vmm_sim_close_device(dev);
}
END_TEST

START_TEST(an_invalid_value_is_about_addresses_where_there_never_are_so_many)
{
    pl_device_options options = { .address_budget_bytes = UINT64_MAX };
    pl_device *dev = vmm_sim_device(&sim, &options);
    pl_range range;
    sim.fail_from("cuMemAddressReserve", 0, CU_INVALID_VALUE);
    ck_assert_int_eq(pl_range_reserve(dev, GIB << 20, GIB << 20, &range), PLEAT_ENOSPACE_VA);
    ck_assert_uint_eq(sim.n_faults(), 1);
    ck_assert_int_eq(pl_range_reserve(dev, 2 * MIB, 2 * MIB, &range), PLEAT_EDRIVER);
    ck_assert_uint_eq(pl_device_counted(dev).address_bytes, 0);
    sim.fail_never();
    vmm_sim_close_device(dev);
}
END_TEST

START_TEST(another_failure_is_not_tried_again_smaller)
{
    pl_device *dev = vmm_sim_device(&sim, NULL);
    pl_range range;
    sim.fail_from("cuMemAddressReserve", 0, CU_UNKNOWN);
    ck_assert_int_eq(pl_range_reserve(dev, 8 * MIB, 2 * MIB, &range), PLEAT_EDRIVER);
    ck_assert_uint_eq(sim.n_faults(), 1);
    sim.fail_never();
    ck_assert_uint_eq(pl_device_counted(dev).address_bytes, 0);
    vmm_sim_close_device(dev);
}
END_TEST

START_TEST(a_release_of_another_pair_is_refused_and_counted_as_held)
{
    pl_device *dev = vmm_sim_device(&sim, NULL);
    pl_range range;
    ck_assert_int_eq(pl_range_reserve(dev, 8 * MIB, 8 * MIB, &range), PLEAT_OK);
    pl_range part = { .base = range.base, .bytes = 4 * MIB };
    ck_assert_int_eq(pl_range_release(dev, part), PLEAT_EDRIVER);
    ck_assert_uint_eq(pl_device_counted(dev).address_bytes, 8 * MIB);
    ck_assert_int_eq(pl_range_release(dev, range), PLEAT_OK);
    vmm_sim_close_device(dev);
}
END_TEST

START_TEST(one_refused_release_is_tried_again)
{
    pl_device *dev = vmm_sim_device(&sim, NULL);
    pl_range range;
    ck_assert_int_eq(pl_range_reserve(dev, 8 * MIB, 8 * MIB, &range), PLEAT_OK);
    sim.fail_at("cuMemAddressFree", 0, CU_UNKNOWN);
    ck_assert_int_eq(pl_range_release(dev, range), PLEAT_OK);
    ck_assert_uint_eq(sim.n_faults(), 1);
    vmm_sim_close_device(dev);
}
END_TEST

SUITE(vmm_range)
{
    TCase *sizes = tcase_create("sizes");
    tcase_add_checked_fixture(sizes, open_default, close_sim);
    tcase_add_test(sizes, sizes_are_rounded_up_to_granules_and_bases_aligned);
    tcase_add_test(sizes, nothing_wanted_is_one_granule_and_the_least_wins_over_the_wish);
    tcase_add_test(sizes, a_size_that_cannot_be_rounded_is_absurd);
    suite_add_tcase(suite, sizes);
    TCase *budget = tcase_create("budget");
    tcase_add_checked_fixture(budget, open_default, close_sim);
    tcase_add_test(budget, the_last_range_takes_what_is_left_of_the_budget);
    suite_add_tcase(suite, budget);
    TCase *refusal = tcase_create("refusal");
    tcase_add_checked_fixture(refusal, open_narrow, close_sim);
    tcase_add_test(refusal, a_refused_wish_is_halved_until_it_fits);
    tcase_add_test(refusal, half_of_an_odd_wish_is_whole_granules);
    tcase_add_test(refusal, only_a_refusal_of_the_least_is_out_of_address_space);
    tcase_add_test(refusal, out_of_memory_of_the_driver_is_about_addresses_here);
    tcase_add_test(refusal, an_invalid_value_is_about_addresses_where_there_never_are_so_many);
    tcase_add_test(refusal, another_failure_is_not_tried_again_smaller);
    suite_add_tcase(suite, refusal);
    TCase *release = tcase_create("release");
    tcase_add_checked_fixture(release, open_default, close_sim);
    tcase_add_test(release, a_release_of_another_pair_is_refused_and_counted_as_held);
    tcase_add_test(release, one_refused_release_is_tried_again);
    suite_add_tcase(suite, release);
}
