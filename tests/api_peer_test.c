/* api_peer_test.c - blocks that other devices work on: with `peers` that is no hazard, ever. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/api_torch.h"

enum { MIB = 1 << 20, N_SLOTS = 24, N_ROUNDS = 600 };

static void *pointer(pleat_devptr ptr)
{
    return (void *)(uintptr_t)ptr;
}

/* Work on a device that touches a whole block of device 0, and its end. */
static void touch(pleat instance, int device, pleat_devptr ptr, size_t bytes)
{
    api_torch_work(instance, device, NULL, pointer(ptr), bytes);
    sim.finish();
}

START_TEST(without_peers_another_devices_work_is_a_hazard)
{
    pleat instance = api_make(_i, "capacity:64M,devices:2", "");
    pleat_devptr ptr = api_alloc(instance, 0, 5 * MIB, NULL);
    touch(instance, 0, ptr, 5 * MIB);
    ck_assert_uint_eq(sim.hazards(NULL, 0), 0);
    touch(instance, 1, ptr, 5 * MIB);
    pleat_sim_hazard hazard;
    ck_assert_uint_eq(sim.hazards(&hazard, 1), 1);
    ck_assert_int_eq(hazard.kind, PLEAT_SIM_UNMAPPED_ACCESS);
    api_free(instance, 0, ptr, NULL);
    ck_assert_int_eq(pleat_destroy(instance, 0), PLEAT_OK);
}
END_TEST

START_TEST(with_peers_only_devices_that_can_reach_may_work)
{
    pleat instance = api_make(_i, "capacity:64M,devices:4,peers:pairs", "peers:True");
    pleat_devptr ptr = api_alloc(instance, 0, 5 * MIB, NULL);
    touch(instance, 1, ptr, 5 * MIB);
    ck_assert_uint_eq(sim.hazards(NULL, 0), 0);
    touch(instance, 2, ptr, 5 * MIB);
    ck_assert_uint_eq(sim.hazards(NULL, 0), 1);
    api_free(instance, 0, ptr, NULL);
    ck_assert_int_eq(pleat_destroy(instance, 0), PLEAT_OK);
}
END_TEST

/* Blocks come and go in a device that they fill, with trims between: memory is mapped, unmapped
 * and taken from place to place. Whatever lives is touched by every device. */
START_TEST(every_live_byte_is_reachable_however_often_its_memory_moved)
{
    pleat_devptr held[N_SLOTS] = { 0 };
    size_t bytes[N_SLOTS];
    unsigned seed = 20261121;
    pleat instance = api_make(_i, "capacity:96M,devices:3", "peers:True");
    for (int i = 0; i < N_ROUNDS; i++) {
        seed = seed * 1664525U + 1013904223U;
        size_t at = (seed >> 8) % N_SLOTS;
        if (held[at] != 0) {
            api_free(instance, 0, held[at], NULL);
            held[at] = 0;
            continue;
        }
        bytes[at] = ((seed >> 16) % 20 + 1) * 700000;
        if (pleat_block_alloc(instance, 0, bytes[at], NULL, &held[at]) == PLEAT_OK) {
            touch(instance, 1 + i % 2, held[at], bytes[at]);
        }
        if (i % 50 == 0) {
            ck_assert_int_eq(pleat_device_trim(instance, 0, 0, true, NULL), PLEAT_OK);
        }
    }
    for (size_t i = 0; i < N_SLOTS; i++) {
        if (held[i] != 0) {
            touch(instance, 1, held[i], bytes[i]);
            api_free(instance, 0, held[i], NULL);
        }
    }
    ck_assert(_i != API_PLEAT || api_stats(instance, 0).n_taken_granules > 0);
    api_unmake(instance);
}
END_TEST

START_TEST(the_configuration_tells_of_peers)
{
    char text[4096];
    size_t needed;
    pleat instance = api_make(API_PLEAT, "capacity:64M", "peers:True");
    ck_assert_int_eq(pleat_instance_conf(instance, text, sizeof text, &needed), PLEAT_OK);
    ck_assert_ptr_nonnull(strstr(text, "peers:True"));
    api_unmake(instance);
    pleat other;
    ck_assert_int_eq(pleat_create("driver:sim,peers:yes", &other), PLEAT_ECONF);
    api_expect(PLEAT_ECONF, "'yes'", "'peers'", "True, False");
}
END_TEST

/* A classic cache's memory is opened to peers by the program, for all of it or none: the key is
 * taken and changes nothing. */
START_TEST(the_key_means_nothing_to_what_maps_nothing)
{
    pleat instance = api_make(API_TORCH, "capacity:64M,devices:2", "peers:True");
    pleat_devptr ptr = api_alloc(instance, 0, 5 * MIB, NULL);
    touch(instance, 0, ptr, 5 * MIB);
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api_peer");
    TCase *mapped = tcase_create("allocators that map");
    tcase_add_checked_fixture(mapped, api_sim_load, NULL);
    tcase_add_loop_test(mapped, without_peers_another_devices_work_is_a_hazard, API_PLEAT,
                        N_API_ALLOCATORS);
    tcase_add_loop_test(mapped, with_peers_only_devices_that_can_reach_may_work, API_PLEAT,
                        N_API_ALLOCATORS);
    tcase_add_loop_test(mapped, every_live_byte_is_reachable_however_often_its_memory_moved,
                        API_PLEAT, N_API_ALLOCATORS);
    suite_add_tcase(suite, mapped);
    TCase *keys = tcase_create("the key");
    tcase_add_checked_fixture(keys, api_sim_load, NULL);
    tcase_add_test(keys, the_configuration_tells_of_peers);
    tcase_add_test(keys, the_key_means_nothing_to_what_maps_nothing);
    suite_add_tcase(suite, keys);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
