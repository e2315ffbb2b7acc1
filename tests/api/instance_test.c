/* instance_test.c - instances come and go; a handle of no instance is an error, not a crash. */
#include <check.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/calls/internal.h"
#include "tests/support/api/api_calls.h"
#include "tests/support/api/api_sim.h"
#include "tests/support/suite.h"

enum { MIB = 1 << 20 };

START_TEST(after_destroy_every_call_says_that_the_instance_is_gone)
{
    pleat instance = api_make(_i, "capacity:64M", "");
    api_free(instance, 0, api_alloc(instance, 0, MIB, NULL), NULL);
    api_unmake(instance);
    for (unsigned i = 0; i < n_api_calls; i++) {
        ck_assert_msg(api_calls[i].call(instance, 0) == PLEAT_EGONE, "%s", api_calls[i].name);
        api_expect(PLEAT_EGONE, "destroyed or never created");
        ck_assert_int_eq(pleat_last_error()->driver_result, 0);
        ck_assert_str_eq(pleat_last_error()->driver_call, "");
    }
    ck_assert_ptr_null(pleat_internal_driver(instance));
    ck_assert_ptr_null(pleat_internal_device(instance, 0));
}
END_TEST

START_TEST(handles_that_were_never_given_out_are_gone)
{
    pleat live = api_make(_i, "capacity:64M", "");
    const pleat handles[] = {
        { 0, 0 },
        { live.slot, 0 },
        { live.slot, live.generation + 1 },
        { live.slot, live.generation - 1 },
        { 63, 1 },
        { 64, 1 },
        { 65, 1 },
        { UINT32_MAX, UINT32_MAX },
    };
    for (size_t h = 0; h < sizeof handles / sizeof handles[0]; h++) {
        for (unsigned i = 0; i < n_api_calls; i++) {
            ck_assert_msg(api_calls[i].call(handles[h], 0) == PLEAT_EGONE, "%s", api_calls[i].name);
        }
    }
    api_unmake(live);
}
END_TEST

START_TEST(a_slot_that_is_used_again_does_not_revive_old_handles)
{
    pleat first = api_make(_i, "capacity:64M", "");
    api_unmake(first);
    pleat second = api_make(_i, "capacity:64M", "");
    ck_assert_uint_eq(second.slot, first.slot);
    ck_assert_uint_ne(second.generation, first.generation);
    pleat_devptr ptr = api_alloc(second, 0, MIB, NULL);
    ck_assert_int_eq(pleat_block_free(first, 0, ptr, NULL), PLEAT_EGONE);
    api_free(second, 0, ptr, NULL);
    ck_assert_int_eq(pleat_destroy(first, PLEAT_DESTROY_FORCE), PLEAT_EGONE);
    api_unmake(second);
}
END_TEST

START_TEST(the_table_holds_sixty_four_instances)
{
    pleat instances[64];
    pleat one_more = { 7, 7 };
    for (int i = 0; i < 64; i++) {
        ck_assert_int_eq(pleat_create("driver:sim", &instances[i]), PLEAT_OK);
    }
    ck_assert_int_eq(pleat_create("driver:sim", &one_more), PLEAT_ENOMEM_HOST);
    api_expect(PLEAT_ENOMEM_HOST, "64 instances");
    ck_assert_uint_eq(one_more.slot, 7);
    for (int i = 0; i < 64; i++) {
        ck_assert_int_eq(pleat_destroy(instances[i], 0), PLEAT_OK);
    }
    api_sim_check_empty();
}
END_TEST

START_TEST(two_instances_with_two_allocators_live_side_by_side)
{
    pleat a = api_make(API_TORCH, "capacity:256M,dead_handles:error", "");
    pleat b = api_make(API_PLEAT, "capacity:256M,dead_handles:error", "");
    pleat_devptr in_a = api_alloc(a, 0, 3 * MIB, NULL);
    pleat_devptr in_b = api_alloc(b, 0, 5 * MIB, NULL);
    ck_assert_int_eq(pleat_block_free(a, 0, in_b, NULL), PLEAT_EFOREIGN);
    ck_assert_int_eq(pleat_block_free(b, 0, in_a, NULL), PLEAT_EFOREIGN);
    pleat_device_info info;
    ck_assert_int_eq(pleat_device_query(a, 0, &info), PLEAT_OK);
    ck_assert_str_eq(info.allocator, "torch-native");
    ck_assert_int_eq(pleat_device_query(b, 0, &info), PLEAT_OK);
    ck_assert_str_eq(info.allocator, "pleat");
    api_free(a, 0, in_a, NULL);
    ck_assert_int_eq(pleat_destroy(a, 0), PLEAT_OK);
    api_free(b, 0, in_b, NULL);
    api_unmake(b);
}
END_TEST

START_TEST(destroy_refuses_while_blocks_live_and_says_how_many)
{
    pleat instance = api_make(_i, "capacity:256M,devices:2", "");
    pleat_devptr ptrs[3];
    for (int i = 0; i < 3; i++) {
        ptrs[i] = api_alloc(instance, i % 2, (size_t)(i + 1) * MIB, NULL);
    }
    ck_assert_int_eq(pleat_destroy(instance, 0), PLEAT_EBUSY);
    api_expect(PLEAT_EBUSY, "3 blocks");
    api_free(instance, 0, ptrs[0], NULL);
    ck_assert_int_eq(pleat_destroy(instance, 0), PLEAT_EBUSY);
    api_expect(PLEAT_EBUSY, "2 blocks");
    api_check(instance);
    api_free(instance, 1, ptrs[1], NULL);
    api_free(instance, 0, ptrs[2], NULL);
    api_unmake(instance);
}
END_TEST

START_TEST(a_forced_destroy_takes_live_blocks_along)
{
    pleat instance = api_make(_i, "capacity:256M", "");
    api_alloc(instance, 0, 3 * MIB, NULL);
    api_alloc(instance, 0, 300, NULL);
    ck_assert_int_eq(pleat_destroy(instance, PLEAT_DESTROY_FORCE), PLEAT_OK);
    api_sim_check_empty();
}
END_TEST

START_TEST(unknown_flags_of_destroy_are_refused)
{
    pleat instance = api_make(_i, "capacity:64M", "");
    ck_assert_int_eq(pleat_destroy(instance, 2), PLEAT_EINVAL);
    api_expect(PLEAT_EINVAL, "flags 0x2");
    ck_assert_int_eq(pleat_destroy(instance, UINT_MAX), PLEAT_EINVAL);
    api_unmake(instance);
}
END_TEST

START_TEST(create_says_what_is_wrong)
{
    pleat instance = { 5, 5 };
    ck_assert_int_eq(pleat_create("driver:simulator", &instance), PLEAT_ECONF);
    api_expect(PLEAT_ECONF, "'simulator'");
    ck_assert_int_eq(pleat_create("driver:sim,sim:[capacity:lots]", &instance), PLEAT_ECONF);
    api_expect(PLEAT_ECONF, "lots", "capacity");
    ck_assert_uint_eq(instance.slot, 5);
    ck_assert_uint_eq(instance.generation, 5);
    ck_assert_int_eq(setenv("PLEAT_CONF", "drivr:sim", 1), 0);
    ck_assert_int_eq(pleat_create(NULL, &instance), PLEAT_ECONF);
    api_expect(PLEAT_ECONF, "PLEAT_CONF", "'drivr'");
    api_sim_check_empty();
}
END_TEST

START_TEST(a_configuration_is_read_without_a_driver)
{
    ck_assert_int_eq(setenv("PLEAT_SIM_LIBRARY", "/nowhere", 1), 0);
    ck_assert_int_eq(pleat_create("driver:sim,history:10", NULL), PLEAT_OK);
    ck_assert_int_eq(pleat_create("driver:simulator", NULL), PLEAT_ECONF);
    api_expect(PLEAT_ECONF, "'simulator'");
    ck_assert_int_eq(setenv("PLEAT_CONF", "drivr:sim", 1), 0);
    ck_assert_int_eq(pleat_create(NULL, NULL), PLEAT_ECONF);
    api_expect(PLEAT_ECONF, "PLEAT_CONF", "'drivr'");
    api_sim_check_empty();
}
END_TEST

START_TEST(a_failed_create_gives_its_slot_back)
{
    pleat instance;
    for (int i = 0; i < 200; i++) {
        ck_assert_int_eq(pleat_create("driver:sim,sim:[x:1]", &instance), PLEAT_ECONF);
    }
    api_unmake(api_make(_i, "capacity:64M", ""));
}
END_TEST

START_TEST(the_simulator_is_not_reset_under_an_instance)
{
    pleat other;
    pleat first = api_make(_i, "capacity:64M,dead_handles:error", "");
    pleat_devptr ptr = api_alloc(first, 0, MIB, NULL);
    ck_assert_int_eq(pleat_create("driver:sim,sim:[capacity:128M]", &other), PLEAT_ECONF);
    api_expect(PLEAT_ECONF, "capacity:128M", "another instance");
    ck_assert_int_eq(pleat_create("driver:sim,sim:[capacity:64M,dead_handles:error]", &other),
                     PLEAT_OK);
    ck_assert_int_eq(pleat_destroy(other, 0), PLEAT_OK);
    ck_assert_int_eq(pleat_create("driver:sim", &other), PLEAT_OK);
    ck_assert_int_eq(pleat_destroy(other, 0), PLEAT_OK);
    api_free(first, 0, ptr, NULL);
    api_unmake(first);
    pleat second = api_make(_i, "capacity:128M", "");
    ck_assert_uint_eq(api_sim_counts().capacity_bytes, 128 * MIB);
    api_unmake(second);
}
END_TEST

/* An engine makes its context and streams first, then its allocator. */
START_TEST(the_simulator_is_not_reset_under_the_program)
{
    pl_driver *drv;
    cu_context context;
    cu_stream stream = NULL;
    pleat instance;
    ck_assert_int_eq(setenv("PLEAT_SIM", "capacity:64M,dead_handles:error", 1), 0);
    ck_assert_int_eq(pl_driver_open(PL_DRIVER_SIM, NULL, &drv), PLEAT_OK);
    ck_assert_int_eq(pl_cu_primary_retain(drv, &context, 0), 0);
    ck_assert_int_eq(pl_cu_ctx_push(drv, context), 0);
    ck_assert_int_eq(pl_cu_stream_create(drv, &stream, 1), 0);
    ck_assert_int_eq(pleat_create("driver:sim,sim:[capacity:128M]", &instance), PLEAT_ECONF);
    api_expect(PLEAT_ECONF, "that the program has made", "set PLEAT_SIM");
    for (int i = 0; i < 2; i++) { /* the second one after the first has gone */
        char conf[128];
        snprintf(conf, sizeof conf, "driver:sim%s,allocator:%s",
                 i == 0 ? "" : ",sim:[dead_handles:error,capacity:64M]", api_allocators[_i]);
        ck_assert_msg(pleat_create(conf, &instance) == PLEAT_OK, "%s", pleat_last_error()->text);
        api_free(instance, 0, api_alloc(instance, 0, MIB, stream), stream);
        ck_assert_int_eq(pleat_destroy(instance, 0), PLEAT_OK);
    }
    ck_assert_int_eq(pl_cu_stream_destroy(drv, stream), 0);
    ck_assert_int_eq(pl_cu_ctx_pop(drv, &context), 0);
    ck_assert_int_eq(pl_cu_primary_release(drv, 0), 0);
    api_unmake(api_make(_i, "capacity:128M", ""));
    pl_driver_close(drv);
}
END_TEST

START_TEST(devices_are_opened_by_their_first_use)
{
    pleat instance = api_make(_i, "capacity:64M,devices:3", "");
    ck_assert_uint_eq(api_sim_counts().contexts, 0);
    pleat_stats stats = api_stats(instance, 1);
    ck_assert_uint_eq(stats.resident_bytes, 0);
    ck_assert_uint_eq(api_sim_counts().contexts, 0);
    api_free(instance, 1, api_alloc(instance, 1, MIB, NULL), NULL);
    ck_assert_uint_eq(api_sim_counts().contexts, 1);
    uint64_t free_bytes;
    uint64_t total_bytes;
    ck_assert_int_eq(pleat_device_memory_info(instance, 2, &free_bytes, &total_bytes), PLEAT_OK);
    ck_assert_uint_eq(api_sim_counts().contexts, 2);
    api_unmake(instance);
}
END_TEST

START_TEST(devices_that_do_not_exist_are_named)
{
    static const int devices[] = { -1, 2, 64, INT_MAX, INT_MIN };
    pleat instance = api_make(_i, "capacity:64M,devices:2", "");
    for (size_t d = 0; d < sizeof devices / sizeof devices[0]; d++) {
        for (unsigned i = 0; i < n_api_calls; i++) {
            if (api_calls[i].takes_device) {
                ck_assert_msg(api_calls[i].call(instance, devices[d]) == PLEAT_EDEVICE, "%s",
                              api_calls[i].name);
                api_expect(PLEAT_EDEVICE, "the driver has 2");
            }
        }
    }
    ck_assert_ptr_null(pleat_internal_device(instance, 2));
    ck_assert_uint_eq(api_sim_counts().contexts, 0);
    api_unmake(instance);
}
END_TEST

START_TEST(the_command_gets_driver_and_device)
{
    pleat instance = api_make(_i, "capacity:64M", "");
    pl_driver *drv = pleat_internal_driver(instance);
    pl_device *dev = pleat_internal_device(instance, 0);
    ck_assert_ptr_nonnull(drv);
    ck_assert_ptr_nonnull(dev);
    ck_assert_ptr_eq(pl_device_driver(dev), drv);
    ck_assert_int_eq(pl_driver_kind_of(drv), PL_DRIVER_SIM);
    ck_assert_ptr_eq(pleat_internal_device(instance, 0), dev);
    api_unmake(instance);
}
END_TEST

START_TEST(the_configuration_reads_back_and_makes_the_same_instance)
{
    pleat instance = api_make(_i, "capacity:64M", "limit:32M,growth:frugal");
    char text[2048];
    char again[2048];
    size_t needed = 0;
    ck_assert_int_eq(pleat_instance_conf(instance, NULL, 0, &needed), PLEAT_OK);
    ck_assert_uint_lt(needed, sizeof text);
    ck_assert_int_eq(pleat_instance_conf(instance, text, sizeof text, &needed), PLEAT_OK);
    ck_assert_uint_eq(needed, strlen(text) + 1);
    ck_assert_ptr_nonnull(strstr(text, "limit:33554432"));
    ck_assert_ptr_nonnull(strstr(text, "growth:frugal"));
    ck_assert_int_eq(pleat_instance_conf(instance, again, 5, &needed), PLEAT_OK);
    ck_assert_str_eq(again, "driv");
    ck_assert_int_eq(pleat_instance_conf(instance, NULL, 4, &needed), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_instance_conf(instance, text, sizeof text, NULL), PLEAT_EINVAL);
    api_unmake(instance);
    ck_assert_int_eq(pleat_create(text, &instance), PLEAT_OK);
    ck_assert_int_eq(pleat_instance_conf(instance, again, sizeof again, &needed), PLEAT_OK);
    ck_assert_str_eq(text, again);
    api_unmake(instance);
}
END_TEST

START_TEST(a_device_describes_itself)
{
    pleat instance = api_make(_i, "capacity:64M,granularity:64K,name:Test GPU", "limit:0.5");
    pleat_device_info info;
    ck_assert_int_eq(pleat_device_query(instance, 0, &info), PLEAT_OK);
    ck_assert_str_eq(info.name, "Test GPU");
    ck_assert_str_eq(info.driver, "sim");
    ck_assert_str_eq(info.allocator, api_allocators[_i]);
    ck_assert_str_eq(info.note, "");
    ck_assert_uint_eq(info.total_bytes, 64 * MIB);
    ck_assert_uint_eq(info.granule_bytes, 64 << 10);
    ck_assert_uint_eq(info.limit_bytes, 32 * MIB);
    ck_assert_int_eq(pleat_device_query(instance, 0, NULL), PLEAT_EINVAL);
    api_unmake(instance);
}
END_TEST

START_TEST(without_vmm_pleat_says_why_and_the_classic_cache_works)
{
    static const char sim_conf[] = "capacity:64M,profile:no_vmm";
    pleat_devptr ptr = 77;
    pleat classic = api_make(API_TORCH, sim_conf, "");
    api_free(classic, 0, api_alloc(classic, 0, MIB, NULL), NULL);
    api_unmake(classic);
    pleat instance = api_make(API_PLEAT, sim_conf, "");
    ck_assert_int_eq(pleat_block_alloc(instance, 0, MIB, NULL, &ptr), PLEAT_ENOVMM);
    api_expect(PLEAT_ENOVMM, "device 0", "pleat", "fallback:torch-native");
    ck_assert_uint_eq(ptr, 77);
    ck_assert_int_eq(pleat_block_alloc(instance, 0, MIB, NULL, &ptr), PLEAT_ENOVMM);
    ck_assert_uint_eq(api_sim_counts().contexts, 0);
    api_unmake(instance);
}
END_TEST

START_TEST(without_vmm_the_fallback_takes_over_and_notes_it)
{
    pleat instance = api_make(API_PLEAT, "capacity:64M,profile:no_vmm", "fallback:torch-native");
    pleat_devptr ptr = api_alloc(instance, 0, MIB, NULL);
    pleat_device_info info;
    ck_assert_int_eq(pleat_device_query(instance, 0, &info), PLEAT_OK);
    ck_assert_str_eq(info.allocator, "torch-native");
    ck_assert_ptr_nonnull(strstr(info.note, "torch-native instead of pleat: "));
    ck_assert_uint_gt(strlen(info.note), strlen("torch-native instead of pleat: "));
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

START_TEST(chunks_of_three_granules_are_refused_with_the_reason)
{
    pleat_devptr ptr;
    pleat instance = api_make(API_PLEAT, "capacity:64M", "chunk_granules:3");
    ck_assert_int_eq(pleat_block_alloc(instance, 0, 512, NULL, &ptr), PLEAT_EINVAL);
    api_expect(PLEAT_EINVAL, "device 0", "chunk_granules has to be a power of two");
    api_unmake(instance);
}
END_TEST

START_TEST(a_configuration_that_the_device_cannot_do_is_refused)
{
    pleat_devptr ptr = 0;
    pleat instance = api_make(API_PLEAT, "capacity:64M,granularity:1G", "chunk_granules:65536");
    ck_assert_int_eq(pleat_block_alloc(instance, 0, MIB, NULL, &ptr), PLEAT_EINVAL);
    api_expect(PLEAT_EINVAL, "65536 granules");
    api_unmake(instance);
}
END_TEST

START_TEST(every_status_has_a_text_and_the_version_is_that_of_the_header)
{
    for (int st = PLEAT_OK; st <= PLEAT_ECAPTURE; st++) {
        ck_assert_uint_gt(strlen(pleat_status_text((pleat_status)st)), 3);
        ck_assert_str_ne(pleat_status_text((pleat_status)st), "unknown status");
    }
    ck_assert_str_eq(pleat_status_text((pleat_status)-1), "unknown status");
    ck_assert_str_eq(pleat_status_text((pleat_status)1000), "unknown status");
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", PLEAT_VERSION_MAJOR, PLEAT_VERSION_MINOR,
             PLEAT_VERSION_PATCH);
    ck_assert_str_eq(pleat_version(), version);
}
END_TEST

START_TEST(before_the_first_failure_the_last_error_is_empty)
{
    const pleat_error *error = pleat_last_error();
    ck_assert_int_eq(error->status, PLEAT_OK);
    ck_assert_str_eq(error->text, "");
    ck_assert_str_eq(error->driver_call, "");
    ck_assert_int_eq(error->verdict, PLEAT_VERDICT_NONE);
}
END_TEST

SUITE(api_instance)
{
    TCase *each = tcase_create("each allocator");
    tcase_add_checked_fixture(each, api_sim_load, NULL);
    tcase_add_loop_test(each, after_destroy_every_call_says_that_the_instance_is_gone, 0,
                        N_API_ALLOCATORS);
    tcase_add_loop_test(each, handles_that_were_never_given_out_are_gone, 0, N_API_ALLOCATORS);
    tcase_add_loop_test(each, a_slot_that_is_used_again_does_not_revive_old_handles, 0,
                        N_API_ALLOCATORS);
    tcase_add_loop_test(each, destroy_refuses_while_blocks_live_and_says_how_many, 0,
                        N_API_ALLOCATORS);
    tcase_add_loop_test(each, a_forced_destroy_takes_live_blocks_along, 0, N_API_ALLOCATORS);
    tcase_add_loop_test(each, unknown_flags_of_destroy_are_refused, 0, N_API_ALLOCATORS);
    tcase_add_loop_test(each, a_failed_create_gives_its_slot_back, 0, N_API_ALLOCATORS);
    tcase_add_loop_test(each, the_simulator_is_not_reset_under_an_instance, 0, N_API_ALLOCATORS);
    tcase_add_loop_test(each, the_simulator_is_not_reset_under_the_program, 0, N_API_ALLOCATORS);
    tcase_add_loop_test(each, devices_are_opened_by_their_first_use, 0, N_API_ALLOCATORS);
    tcase_add_loop_test(each, devices_that_do_not_exist_are_named, 0, N_API_ALLOCATORS);
    tcase_add_loop_test(each, the_command_gets_driver_and_device, 0, N_API_ALLOCATORS);
    tcase_add_loop_test(each, the_configuration_reads_back_and_makes_the_same_instance, 0,
                        N_API_ALLOCATORS);
    tcase_add_loop_test(each, a_device_describes_itself, 0, N_API_ALLOCATORS);
    suite_add_tcase(suite, each);
    TCase *rest = tcase_create("all together");
    tcase_add_checked_fixture(rest, api_sim_load, NULL);
    tcase_add_test(rest, the_table_holds_sixty_four_instances);
    tcase_add_test(rest, two_instances_with_two_allocators_live_side_by_side);
    tcase_add_test(rest, create_says_what_is_wrong);
    tcase_add_test(rest, a_configuration_is_read_without_a_driver);
    tcase_add_test(rest, without_vmm_pleat_says_why_and_the_classic_cache_works);
    tcase_add_test(rest, without_vmm_the_fallback_takes_over_and_notes_it);
    tcase_add_test(rest, chunks_of_three_granules_are_refused_with_the_reason);
    tcase_add_test(rest, a_configuration_that_the_device_cannot_do_is_refused);
    tcase_add_test(rest, every_status_has_a_text_and_the_version_is_that_of_the_header);
    tcase_add_test(rest, before_the_first_failure_the_last_error_is_empty);
    suite_add_tcase(suite, rest);
}
