/* fork_test.c - a forked child touches nothing of its parent's instances.
 *
 * Children report through their exit status. They start no thread and use no assertion of Check. */
#include <check.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/calls/internal.h"
#include "tests/support/api/api_calls.h"
#include "tests/support/api/api_sim.h"
#include "tests/support/suite.h"

enum { MIB = 1 << 20, GOOD = 42 };

/* Run `body` in a child. It returns GOOD, or the number of the failed check. */
static void check_in_child(int (*body)(pleat), pleat instance)
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        _exit(body(instance));
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status), "the child died of signal %d", WTERMSIG(status));
    ck_assert_int_eq(WEXITSTATUS(status), GOOD);
}

static int try_everything(pleat instance)
{
    for (unsigned i = 0; i < n_api_calls; i++) {
        if (api_calls[i].call(instance, 0) != PLEAT_EFORKED ||
            pleat_last_error()->status != PLEAT_EFORKED) {
            return (int)i;
        }
    }
    if (pleat_destroy(instance, PLEAT_DESTROY_FORCE) != PLEAT_EFORKED) {
        return 50;
    }
    if (pleat_internal_driver(instance) || pleat_internal_device(instance, 0)) {
        return 51;
    }
    return GOOD;
}

START_TEST(in_the_child_every_call_answers_forked)
{
    pleat instance = api_make(_i, "capacity:64M", "");
    pleat_devptr ptr = api_alloc(instance, 0, MIB, NULL);
    pleat_sim_counts before = api_sim_counts();
    check_in_child(try_everything, instance);
    pleat_sim_counts after = api_sim_counts();
    ck_assert_uint_eq(before.handles, after.handles);
    ck_assert_uint_eq(before.calls, after.calls);
    api_check(instance);
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

static int exit_normally(pleat instance)
{
    (void)instance;
    exit(GOOD); /* runs every destructor and exit handler */
}

START_TEST(a_child_that_exits_leaves_the_parent_alone)
{
    pleat instance = api_make(_i, "capacity:64M", "");
    void *block = pleat_malloc(MIB, 0, NULL);
    pleat_devptr ptr = api_alloc(instance, 0, MIB, NULL);
    check_in_child(exit_normally, instance);
    api_free(instance, 0, ptr, NULL);
    api_free(instance, 0, api_alloc(instance, 0, 20 * MIB, NULL), NULL);
    pleat_free(block, MIB, 0, NULL);
    pleat standard;
    ck_assert_int_eq(pleat_default(&standard), PLEAT_OK);
    ck_assert_int_eq(pleat_destroy(standard, 0), PLEAT_OK);
    api_unmake(instance);
}
END_TEST

static int try_the_pair(pleat instance)
{
    pleat standard;
    (void)instance;
    if (pleat_default(&standard) != PLEAT_EFORKED) {
        return 1;
    }
    if (pleat_malloc(512, 0, NULL) || pleat_last_error()->status != PLEAT_EFORKED) {
        return 2;
    }
    pleat_free((void *)0x1000, 512, 0, NULL);
    return pleat_last_error()->status == PLEAT_EFORKED ? GOOD : 3;
}

START_TEST(the_default_instance_of_the_parent_is_not_made_again)
{
    pleat standard;
    void *block = pleat_malloc(MIB, 0, NULL);
    ck_assert_ptr_nonnull(block);
    ck_assert_int_eq(pleat_default(&standard), PLEAT_OK);
    check_in_child(try_the_pair, standard);
    pleat_free(block, MIB, 0, NULL);
    api_unmake(standard);
}
END_TEST

static int create_is_refused(pleat instance)
{
    pleat own;
    if (pleat_create("driver:sim", &own) == PLEAT_OK) {
        return 1;
    }
    if (pleat_last_error()->status != PLEAT_EDRIVER) {
        return 2;
    }
    return try_everything(instance);
}

START_TEST(a_driver_that_refuses_after_fork_makes_create_fail_cleanly)
{
    pleat instance = api_make(_i, "capacity:64M", "");
    api_free(instance, 0, api_alloc(instance, 0, MIB, NULL), NULL);
    check_in_child(create_is_refused, instance);
    api_unmake(instance);
}
END_TEST

static int work_on_an_own_instance(pleat instance)
{
    pleat own;
    pleat_devptr ptr;
    if (pleat_create("driver:sim,sim:[capacity:32M,fork:allow]", &own) != PLEAT_OK) {
        return 1;
    }
    if (own.slot == instance.slot) {
        return 2;
    }
    if (pleat_block_alloc(own, 0, MIB, NULL, &ptr) != PLEAT_OK ||
        pleat_block_free(own, 0, ptr, NULL) != PLEAT_OK) {
        return 3;
    }
    if (pleat_destroy(own, 0) != PLEAT_OK) {
        return 4;
    }
    return try_everything(instance);
}

START_TEST(a_driver_that_works_after_fork_serves_a_new_instance)
{
    pleat instance = api_make(_i, "capacity:64M,fork:allow", "");
    pleat_devptr ptr = api_alloc(instance, 0, MIB, NULL);
    check_in_child(work_on_an_own_instance, instance);
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

static bool fork_under_pressure(pleat instance, int device, size_t bytes, void *context)
{
    (void)instance;
    (void)device;
    (void)bytes;
    pid_t *child = context;
    *child = fork();
    return *child == 0;
}

START_TEST(a_child_forked_inside_a_callback_is_told_so)
{
    pid_t child = -1;
    pleat_devptr ptr;
    pleat instance = api_make(_i, "capacity:64M", "");
    ck_assert_int_eq(pleat_set_pressure_callback(instance, fork_under_pressure, &child), PLEAT_OK);
    pleat_status st = pleat_block_alloc(instance, 0, 65 * MIB, NULL, &ptr);
    if (child == 0) {
        _exit(st == PLEAT_EFORKED ? try_everything(instance) : 99);
    }
    ck_assert_int_gt(child, 0);
    ck_assert_int_eq(st, PLEAT_ENOMEM_DEVICE);
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), GOOD);
    api_unmake(instance);
}
END_TEST

SUITE(api_fork)
{
    TCase *each = tcase_create("each allocator");
    tcase_add_checked_fixture(each, api_sim_load, NULL);
    tcase_add_loop_test(each, in_the_child_every_call_answers_forked, 0, N_API_ALLOCATORS);
    tcase_add_loop_test(each, a_child_that_exits_leaves_the_parent_alone, 0, N_API_ALLOCATORS);
    tcase_add_loop_test(each, a_driver_that_refuses_after_fork_makes_create_fail_cleanly, 0,
                        N_API_ALLOCATORS);
    tcase_add_loop_test(each, a_driver_that_works_after_fork_serves_a_new_instance, 0,
                        N_API_ALLOCATORS);
    tcase_add_loop_test(each, a_child_forked_inside_a_callback_is_told_so, 0, N_API_ALLOCATORS);
    suite_add_tcase(suite, each);
    TCase *pair = tcase_create("the malloc-like pair");
    tcase_add_checked_fixture(pair, api_sim_load, NULL);
    tcase_add_test(pair, the_default_instance_of_the_parent_is_not_made_again);
    suite_add_tcase(suite, pair);
}
