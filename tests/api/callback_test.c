/* callback_test.c - pleat asks the application for memory, outside every lock. */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "tests/support/api/api_calls.h"
#include "tests/support/api/api_sim.h"
#include "tests/support/suite.h"

enum { MIB = 1 << 20, MOST_BLOCKS = 16 };

/* The state of a test's callback, and its notes. */
typedef struct app {
    pleat_devptr cached[MOST_BLOCKS]; /* blocks that the application can do without */
    int n_cached;
    int n_pressure;
    int n_oom;
    bool claims_always;
    size_t last_bytes;
    int last_device;
    char oom_text[2048];
    pleat_status nested[128]; /* statuses of the calls that the callback makes */
} app;

static bool free_one(pleat instance, int device, size_t bytes, void *context)
{
    app *a = context;
    a->n_pressure++;
    a->last_bytes = bytes;
    a->last_device = device;
    if (a->n_cached == 0) {
        return a->claims_always;
    }
    return pleat_block_free(instance, device, a->cached[--a->n_cached], NULL) == PLEAT_OK;
}

static void note_oom(pleat instance, int device, size_t bytes, const char *text, void *context)
{
    app *a = context;
    (void)instance;
    a->n_oom++;
    a->last_bytes = bytes;
    a->last_device = device;
    strncpy(a->oom_text, text, sizeof a->oom_text - 1);
}

static void set_callbacks(pleat instance, pleat_pressure_fn pressure, pleat_oom_fn oom, app *a)
{
    ck_assert_int_eq(pleat_set_pressure_callback(instance, pressure, a), PLEAT_OK);
    ck_assert_int_eq(pleat_set_oom_callback(instance, oom, a), PLEAT_OK);
}

static void fill_cache(pleat instance, app *a, int n)
{
    for (a->n_cached = 0; a->n_cached < n; a->n_cached++) {
        a->cached[a->n_cached] = api_alloc(instance, 0, 12 * MIB, NULL);
    }
}

START_TEST(what_the_application_frees_serves_the_request)
{
    app a = { .n_cached = 0 };
    pleat instance = api_make(_i, "capacity:64M", "");
    set_callbacks(instance, free_one, note_oom, &a);
    fill_cache(instance, &a, 5);
    ck_assert_int_eq(a.n_pressure, 0);
    pleat_devptr ptr = api_alloc(instance, 0, 24 * MIB, NULL);
    ck_assert_int_ge(a.n_pressure, 2);
    ck_assert_int_eq(a.n_cached, 5 - a.n_pressure);
    ck_assert_uint_eq(a.last_bytes, 24 * MIB);
    ck_assert_int_eq(a.last_device, 0);
    ck_assert_int_eq(a.n_oom, 0);
    ck_assert_uint_eq(api_stats(instance, 0).num_ooms, 0);
    api_free(instance, 0, ptr, NULL);
    while (a.n_cached > 0) {
        api_free(instance, 0, a.cached[--a.n_cached], NULL);
    }
    api_unmake(instance);
}
END_TEST

START_TEST(when_nothing_is_left_the_oom_callback_gets_the_sentence_once)
{
    app a = { .n_cached = 0 };
    pleat instance = api_make(_i, "capacity:64M", "");
    set_callbacks(instance, free_one, note_oom, &a);
    fill_cache(instance, &a, 2);
    pleat_devptr ptr = 77;
    ck_assert_int_eq(pleat_block_alloc(instance, 0, 65 * MIB, NULL, &ptr), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(a.n_pressure, 3); /* it frees two blocks, then answers false */
    ck_assert_int_eq(a.n_oom, 1);
    ck_assert_str_eq(a.oom_text, pleat_last_error()->text);
    ck_assert_int_eq(pleat_last_error()->verdict, PLEAT_VERDICT_FULL);
    ck_assert_uint_eq(api_stats(instance, 0).num_ooms, 1);
    api_unmake(instance);
}
END_TEST

START_TEST(an_application_that_always_claims_to_have_freed_is_not_believed_for_ever)
{
    app a = { .claims_always = true };
    pleat instance = api_make(_i, "capacity:64M", "");
    set_callbacks(instance, free_one, note_oom, &a);
    pleat_devptr ptr;
    ck_assert_int_eq(pleat_block_alloc(instance, 0, 65 * MIB, NULL, &ptr), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(a.n_pressure, 64);
    ck_assert_int_eq(a.n_oom, 1);
    api_unmake(instance);
}
END_TEST

START_TEST(without_callbacks_or_after_taking_them_back_requests_just_fail)
{
    app a = { .claims_always = true };
    pleat instance = api_make(_i, "capacity:64M", "");
    pleat_devptr ptr;
    ck_assert_int_eq(pleat_block_alloc(instance, 0, 65 * MIB, NULL, &ptr), PLEAT_ENOMEM_DEVICE);
    set_callbacks(instance, free_one, note_oom, &a);
    set_callbacks(instance, NULL, NULL, NULL);
    ck_assert_int_eq(pleat_block_alloc(instance, 0, 65 * MIB, NULL, &ptr), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(a.n_pressure + a.n_oom, 0);
    api_unmake(instance);
}
END_TEST

/* A callback whose own requests fail, too. They must be refused without a nested call of the
 * callback. */
static bool ask_in_vain(pleat instance, int device, size_t bytes, void *context)
{
    app *a = context;
    pleat_devptr ptr;
    a->n_pressure++;
    a->nested[0] = pleat_block_alloc(instance, device, bytes + 512, NULL, &ptr);
    a->nested[1] = pleat_block_alloc(instance, device, 512, NULL, &ptr);
    a->nested[2] = pleat_block_free(instance, device, ptr, NULL);
    a->nested[3] = pleat_block_free(instance, device, 1, NULL);
    return false;
}

static void ask_in_vain_at_oom(pleat instance, int device, size_t bytes, const char *text,
                               void *context)
{
    app *a = context;
    (void)text;
    a->n_oom++;
    int n_pressure = a->n_pressure;
    ask_in_vain(instance, device, bytes, context);
    a->n_pressure = n_pressure;
}

START_TEST(requests_of_a_callback_do_not_call_it_and_leave_the_outer_error)
{
    app a = { .n_cached = 0 };
    pleat instance = api_make(_i, "capacity:64M", "");
    set_callbacks(instance, ask_in_vain, ask_in_vain_at_oom, &a);
    pleat_devptr ptr;
    ck_assert_int_eq(pleat_block_alloc(instance, 0, 65 * MIB, NULL, &ptr), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(a.n_pressure, 1);
    ck_assert_int_eq(a.n_oom, 1);
    ck_assert_int_eq(a.nested[0], PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(a.nested[1], PLEAT_OK);
    ck_assert_int_eq(a.nested[2], PLEAT_OK);
    ck_assert_int_eq(a.nested[3], PLEAT_EFOREIGN);
    api_expect(PLEAT_ENOMEM_DEVICE, "68157440 bytes", "the request alone");
    ck_assert_uint_eq(pleat_last_error()->bytes, 65 * MIB);
    ck_assert_int_eq(pleat_last_error()->verdict, PLEAT_VERDICT_FULL);
    api_unmake(instance);
}
END_TEST

static pleat second_instance;

/* Make every call from within the callback. Every pleat_destroy is refused, for this instance and
 * for others. */
static bool call_everything(pleat instance, int device, size_t bytes, void *context)
{
    app *a = context;
    (void)bytes;
    for (unsigned i = 0; i < n_api_calls; i++) {
        a->nested[i] = api_calls[i].call(instance, device);
    }
    a->nested[n_api_calls] = pleat_destroy(second_instance, PLEAT_DESTROY_FORCE);
    a->nested[n_api_calls + 1] = api_calls[0].call(second_instance, device);
    return false;
}

START_TEST(a_callback_may_call_everything_but_destroy)
{
    app a = { .n_cached = 0 };
    pleat instance = api_make(_i, "capacity:64M", "");
    second_instance = api_make(_i, "capacity:64M", "");
    ck_assert_uint_le(n_api_calls + 2, sizeof a.nested / sizeof a.nested[0]);
    set_callbacks(instance, call_everything, NULL, &a);
    pleat_devptr ptr;
    ck_assert_int_eq(pleat_block_alloc(instance, 0, 65 * MIB, NULL, &ptr), PLEAT_ENOMEM_DEVICE);
    for (unsigned i = 0; i < n_api_calls; i++) {
        bool is_destroy = strcmp(api_calls[i].name, "pleat_destroy") == 0;
        bool needs_buffer = strncmp(api_calls[i].name, "pleat_buffer_", 13) == 0 &&
                            strncmp(api_calls[i].name, "pleat_buffer_create", 19) != 0;
        bool needs_block = (strncmp(api_calls[i].name, "pleat_block_", 12) == 0 && i != 0) ||
                           needs_buffer;
        pleat_status expected = is_destroy ? PLEAT_EBUSY : needs_block ? PLEAT_EFOREIGN : PLEAT_OK;
        ck_assert_msg(a.nested[i] == expected, "%s: %s", api_calls[i].name,
                      pleat_status_text(a.nested[i]));
    }
    ck_assert_int_eq(a.nested[n_api_calls], PLEAT_EBUSY);
    ck_assert_int_eq(a.nested[n_api_calls + 1], PLEAT_OK);
    ck_assert_int_eq(pleat_destroy(second_instance, PLEAT_DESTROY_FORCE), PLEAT_OK);
    ck_assert_int_eq(pleat_destroy(instance, PLEAT_DESTROY_FORCE), PLEAT_OK);
    api_sim_check_empty();
}
END_TEST

/* Trim the second instance of the process: memory moves between instances under pressure. */
static bool trim_second(pleat instance, int device, size_t bytes, void *context)
{
    app *a = context;
    uint64_t released = 0;
    (void)instance;
    (void)bytes;
    a->n_pressure++;
    return pleat_device_trim(second_instance, device, 0, true, &released) == PLEAT_OK &&
           released > 0;
}

START_TEST(a_callback_may_take_memory_from_another_instance)
{
    app a = { .n_cached = 0 };
    pleat instance = api_make(_i, "capacity:64M", "");
    second_instance = api_make(_i, "capacity:64M", "");
    api_free(second_instance, 0, api_alloc(second_instance, 0, 40 * MIB, NULL), NULL);
    set_callbacks(instance, trim_second, NULL, &a);
    pleat_devptr ptr = api_alloc(instance, 0, 50 * MIB, NULL);
    ck_assert_int_eq(a.n_pressure, 1);
    api_free(instance, 0, ptr, NULL);
    ck_assert_int_eq(pleat_destroy(second_instance, 0), PLEAT_OK);
    api_unmake(instance);
}
END_TEST

static atomic_bool is_inside;
static atomic_bool may_leave;
static atomic_bool has_left;

static bool hold(pleat instance, int device, size_t bytes, void *context)
{
    (void)instance;
    (void)device;
    (void)bytes;
    (void)context;
    is_inside = true;
    while (!may_leave) {
        sched_yield();
    }
    has_left = true;
    return false;
}

static void *ask_for_too_much(void *context)
{
    const pleat *instance = context;
    pleat_devptr ptr;
    (void)!pleat_block_alloc(*instance, 0, 65 * MIB, NULL, &ptr);
    return NULL;
}

/* Returns NULL unless pleat_destroy failed, or returned before the callback. */
static void *destroy(void *context)
{
    const pleat *instance = context;
    pleat_status st = pleat_destroy(*instance, 0);
    return st == PLEAT_OK && has_left ? NULL : context;
}

START_TEST(destroy_waits_for_a_call_that_is_within_a_callback)
{
    enum { LONG_ENOUGH = 2000 };
    pthread_t threads[2];
    void *is_early = NULL;
    int broken;
    pleat instance = api_make(_i, "capacity:64M", "");
    ck_assert_int_eq(pleat_set_pressure_callback(instance, hold, NULL), PLEAT_OK);
    ck_assert_int_eq(pthread_create(&threads[0], NULL, ask_for_too_much, &instance), 0);
    while (!is_inside) {
        sched_yield();
    }
    ck_assert_int_eq(pthread_create(&threads[1], NULL, destroy, &instance), 0);
    while (pleat_check(instance, &broken) != PLEAT_EGONE) {
        sched_yield();
    }
    /* Time for a pleat_destroy that does not wait to return. */
    for (int i = 0; i < LONG_ENOUGH; i++) {
        sched_yield();
    }
    may_leave = true;
    ck_assert_int_eq(pthread_join(threads[0], NULL), 0);
    ck_assert_int_eq(pthread_join(threads[1], &is_early), 0);
    ck_assert_ptr_null(is_early);
    api_sim_check_empty();
}
END_TEST

SUITE(api_callback)
{
    TCase *each = tcase_create("each allocator");
    tcase_add_checked_fixture(each, api_sim_load, NULL);
    tcase_add_loop_test(each, what_the_application_frees_serves_the_request, 0, N_API_ALLOCATORS);
    tcase_add_loop_test(each, when_nothing_is_left_the_oom_callback_gets_the_sentence_once, 0,
                        N_API_ALLOCATORS);
    tcase_add_loop_test(each,
                        an_application_that_always_claims_to_have_freed_is_not_believed_for_ever, 0,
                        N_API_ALLOCATORS);
    tcase_add_loop_test(each, without_callbacks_or_after_taking_them_back_requests_just_fail, 0,
                        N_API_ALLOCATORS);
    tcase_add_loop_test(each, requests_of_a_callback_do_not_call_it_and_leave_the_outer_error, 0,
                        N_API_ALLOCATORS);
    tcase_add_loop_test(each, a_callback_may_call_everything_but_destroy, 0, N_API_ALLOCATORS);
    tcase_add_loop_test(each, destroy_waits_for_a_call_that_is_within_a_callback, 0,
                        N_API_ALLOCATORS);
    tcase_add_loop_test(each, a_callback_may_take_memory_from_another_instance, 0,
                        N_API_ALLOCATORS);
    suite_add_tcase(suite, each);
}
