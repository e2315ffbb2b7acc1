/* vmm_peer_test.c - mappings that other devices can use, too: who is listed, and in how many calls.
 */
/* labels: unit fault */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/vmm_sim.h"
#include "vmm/chunk.h"
#include "vmm/mapping.h"
#include "vmm/pool.h"
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

/* Bit d: device d may read and write there. */
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
    /* The same chunks at a new place, as a take does it: one more call, and nothing is asked. */
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

/* Work of device `ordinal` on the block; the fixture's end finds a hazard. */
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
        int n_reaching; /* the first devices */
        uint64_t n_calls;
    } cases[] = {
        { "devices:4,capacity:64M", 4, 1 },
        { "devices:4,capacity:64M,peers:pairs", 2, 1 },
        { "devices:4,capacity:64M,peers:none", 1, 0 },
    };
    pl_pool *pool;
    pl_stream *stream;
    pleat_devptr ptr;
    open_with(cases[_i].conf, &with_peers);
    ck_assert_int_eq(pl_pool_create(dev, 0, UINT64_MAX, &pool), PLEAT_OK);
    ck_assert_int_eq(pl_stream_get(dev, NULL, &stream), PLEAT_OK);
    ck_assert_int_eq(pl_pool_alloc(pool, MIB, stream, &ptr), PLEAT_OK);
    ck_assert_uint_eq(sim.n_calls("cuMemPoolSetAccess"), cases[_i].n_calls);
    ck_assert_int_eq(pl_stream_synchronize(stream), PLEAT_OK);
    for (int i = 0; i < cases[_i].n_reaching; i++) {
        touch_from(i, ptr);
    }
    ck_assert_int_eq(pl_pool_free(pool, ptr, MIB, stream), PLEAT_OK);
    sim.finish();
    ck_assert_uint_eq(pl_pool_destroy(pool), 0);
    close_all();
}
END_TEST

START_TEST(a_pool_that_cannot_be_opened_to_peers_is_not_made)
{
    pl_pool *pool = NULL;
    open_with("devices:4,capacity:64M", &with_peers);
    sim.fail_at("cuMemPoolSetAccess", 0, CU_UNKNOWN);
    ck_assert_int_eq(pl_pool_create(dev, 0, UINT64_MAX, &pool), PLEAT_EDRIVER);
    ck_assert_ptr_null(pool);
    ck_assert_uint_eq(sim.n_calls("cuMemPoolDestroy"), 1);
    close_all();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("peer");
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
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
