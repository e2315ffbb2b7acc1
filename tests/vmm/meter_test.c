/* meter_test.c - what mapping calls take, as measured while the program runs. */
/* labels: unit fault */
#include <check.h>

#include "tests/support/suite.h"
#include "tests/support/vmm_sim.h"
#include "vmm/chunk.h"
#include "vmm/mapping.h"
#include "vmm/meter.h"
#include "vmm/range.h"

#define MIB ((size_t)1 << 20)

enum { N_CHUNKS = 8, MANY = 100 };

static vmm_sim sim;
static pl_device *dev;
static pl_range range;
static pl_chunk chunks[N_CHUNKS];

static void open_with(const char *sim_conf)
{
    vmm_sim_open(&sim, sim_conf);
    dev = vmm_sim_device(&sim, NULL);
    ck_assert_int_eq(pl_range_reserve(dev, 64 * MIB, 64 * MIB, &range), PLEAT_OK);
}

static void close_all(void)
{
    sim.fail_never();
    ck_assert_int_eq(pl_range_release(dev, range), PLEAT_OK);
    vmm_sim_close_device(dev);
    vmm_sim_close(&sim);
}

static void create_chunks(void)
{
    for (int i = 0; i < N_CHUNKS; i++) {
        ck_assert_int_eq(pl_chunk_create(dev, &chunks[i]), PLEAT_OK);
    }
}

static void release_chunks(void)
{
    for (int i = 0; i < N_CHUNKS; i++) {
        ck_assert_int_eq(pl_chunk_release(dev, chunks[i]), PLEAT_OK);
    }
}

static void map_and_unmap(void)
{
    ck_assert_int_eq(pl_mapping_map(dev, range.base, chunks, N_CHUNKS), PLEAT_OK);
    ck_assert_int_eq(pl_mapping_unmap(dev, range.base, N_CHUNKS * 2 * MIB), PLEAT_OK);
}

static void assert_about(pl_meter_kind kind, double us)
{
    enum { ROUNDING_NS = 8 };
    ck_assert_double_ge((double)pl_meter_ns(dev, kind), us * 990 - ROUNDING_NS);
    ck_assert_double_le((double)pl_meter_ns(dev, kind), us * 1010 + ROUNDING_NS);
}

START_TEST(before_any_call_the_figures_are_published_ones)
{
    open_with("capacity:64M,costs:a100");
    assert_about(PL_METER_MAP, 70);
    assert_about(PL_METER_UNMAP, 39);
    close_all();
}
END_TEST

START_TEST(after_many_calls_they_are_those_of_the_driver)
{
    open_with("capacity:64M,costs:gb10");
    create_chunks();
    double begin_us = sim.cost_us();
    ck_assert_int_eq(pl_mapping_map(dev, range.base, chunks, N_CHUNKS), PLEAT_OK);
    double map_us = (sim.cost_us() - begin_us) / N_CHUNKS;
    begin_us = sim.cost_us();
    ck_assert_int_eq(pl_mapping_unmap(dev, range.base, N_CHUNKS * 2 * MIB), PLEAT_OK);
    double unmap_us = (sim.cost_us() - begin_us) / N_CHUNKS;
    for (int i = 0; i < MANY; i++) {
        map_and_unmap();
    }
    assert_about(PL_METER_MAP, map_us);
    assert_about(PL_METER_UNMAP, unmap_us);
    release_chunks();
    close_all();
}
END_TEST

START_TEST(a_large_chunk_is_mapped_once_and_unmapped_by_the_granule)
{
    static const uint8_t log2s[N_CHUNKS] = { 3 };
    pl_chunk large[N_CHUNKS] = { 0 };
    open_with("capacity:64M,costs:driver580");
    ck_assert_int_eq(pl_chunk_create_sized(dev, N_CHUNKS * 2 * MIB, &large[0]), PLEAT_OK);
    for (int i = 0; i < MANY; i++) {
        ck_assert_int_eq(pl_mapping_map_mixed(dev, range.base, large, log2s, N_CHUNKS), PLEAT_OK);
        ck_assert_int_eq(pl_mapping_unmap(dev, range.base, N_CHUNKS * 2 * MIB), PLEAT_OK);
    }
    assert_about(PL_METER_MAP, 70);
    assert_about(PL_METER_UNMAP, 39.0 / N_CHUNKS);
    ck_assert_int_eq(pl_chunk_release_sized(dev, large[0], N_CHUNKS * 2 * MIB), PLEAT_OK);
    close_all();
}
END_TEST

START_TEST(calls_that_fail_tell_nothing)
{
    open_with("capacity:64M,costs:a100");
    create_chunks();
    uint64_t before_ns = pl_meter_ns(dev, PL_METER_MAP);
    sim.fail_at("cuMemSetAccess", 0, CU_OUT_OF_MEMORY);
    ck_assert_int_eq(pl_mapping_map(dev, range.base, chunks, N_CHUNKS), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(pl_meter_ns(dev, PL_METER_MAP), before_ns);
    release_chunks();
    close_all();
}
END_TEST

START_TEST(on_the_simulator_events_stand_for_time)
{
    open_with("capacity:64M");
    ck_assert_uint_eq(pl_meter_elapsed_ns(dev, 0), 0);
    ck_assert_uint_eq(pl_meter_elapsed_ns(dev, 1000), 50000000);
    close_all();
}
END_TEST

SUITE(vmm_meter)
{
    TCase *meter = tcase_create("meter");
    tcase_add_test(meter, before_any_call_the_figures_are_published_ones);
    tcase_add_test(meter, after_many_calls_they_are_those_of_the_driver);
    tcase_add_test(meter, a_large_chunk_is_mapped_once_and_unmapped_by_the_granule);
    tcase_add_test(meter, calls_that_fail_tell_nothing);
    tcase_add_test(meter, on_the_simulator_events_stand_for_time);
    suite_add_tcase(suite, meter);
}
