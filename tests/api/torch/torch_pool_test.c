/* torch_pool_test.c - PyTorch's hooks for private pools, and their statistics. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/adapters/pleat_torch.h"
#include "api/pleat_checkpoint.h"
#include "tests/support/api/api_torch.h"
#include "tests/support/suite.h"

enum { MIB = 1 << 20, N_POOLS = 45, N_KEYS = 123, MOST_KEYS = 1024, KEY_BYTES = 96 };

typedef struct told {
    size_t n;
    char keys[MOST_KEYS][KEY_BYTES];
    int64_t values[MOST_KEYS];
} told;

static void see(void *context, const char *key, int64_t value)
{
    told *t = context;
    ck_assert_uint_lt(t->n, MOST_KEYS);
    ck_assert_uint_lt(strlen(key), KEY_BYTES);
    memcpy(t->keys[t->n], key, strlen(key) + 1);
    t->values[t->n++] = value;
}

static const told *tell(void)
{
    static told t;
    t.n = 0;
    ck_assert_int_eq(pleat_torch_stats(0, see, &t), PLEAT_OK);
    return &t;
}

static int64_t value_of(const told *t, const char *key)
{
    for (size_t i = 0; i < t->n; i++) {
        if (strcmp(t->keys[i], key) == 0) {
            return t->values[i];
        }
    }
    ck_abort_msg("no key %s", key);
    return 0;
}

static void begin(pleat instance, pleat_pool_id id)
{
    pleat_status st = pleat_pool_begin(instance, 0, id, NULL, NULL, NULL);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
}

START_TEST(the_hooks_end_and_release_a_pool)
{
    const char *const current = "reserved_bytes_by_private_pools.7_9.all.current";
    const pleat_pool_id id = { 7, 9 };
    pleat instance = api_torch_make(API_PLEAT, "capacity:256M", "");
    pleat_checkpoint checkpoint;
    begin(instance, id);
    ck_assert_int_eq(pleat_checkpoint_take(instance, 0, id, &checkpoint), PLEAT_OK);
    void *inside = pleat_torch_malloc(3 * MIB, 0, NULL);
    int64_t reserved = value_of(tell(), current);
    ck_assert_int_ge(reserved, 3 * MIB);
    pleat_torch_end_pool(0, id);
    void *outside = pleat_torch_malloc(30 * MIB, 0, NULL);
    ck_assert_int_eq(value_of(tell(), current), reserved);
    ck_assert_int_eq(pleat_pool_end(instance, 0, id), PLEAT_EPOOL);
    pleat_torch_free(inside, 3 * MIB, 0, NULL);
    pleat_torch_reset(); /* memory that a restore may need again stays */
    ck_assert_int_eq(value_of(tell(), current), reserved);
    pleat_torch_release_pool(0, id);
    ck_assert_int_eq(value_of(tell(), current), 0);
    ck_assert_int_eq(pleat_pool_release(instance, 0, id), PLEAT_EPOOL);
    pleat_torch_free(outside, 30 * MIB, 0, NULL);
    api_unmake(instance);
}
END_TEST

START_TEST(pools_that_are_not_there_are_complained_of_once)
{
    char said[512];
    pleat instance = api_torch_make(API_PLEAT, "capacity:64M", "");
    void *ptr = pleat_torch_malloc(MIB, 0, NULL);
    api_torch_listen();
    for (int i = 0; i < 3; i++) {
        pleat_torch_end_pool(0, (pleat_pool_id){ 3, 4 });
        pleat_torch_release_pool(0, (pleat_pool_id){ 3, 4 });
    }
    api_torch_heard(said, sizeof said);
    ck_assert_ptr_nonnull(strstr(said, "pleat: a private pool could not be ended: "));
    ck_assert_ptr_eq(strchr(said, '\n'), said + strlen(said) - 1);
    pleat_torch_free(ptr, MIB, 0, NULL);
    api_unmake(instance);
}
END_TEST

START_TEST(in_a_forked_child_the_pool_hooks_are_silent)
{
    char said[512];
    const pleat_pool_id id = { 1, 0 };
    pleat instance = api_torch_make(API_PLEAT, "capacity:64M", "");
    begin(instance, id);
    api_torch_listen();
    pid_t child = fork();
    if (child == 0) {
        pleat_torch_end_pool(0, id);
        pleat_torch_release_pool(0, id);
        exit(pleat_last_error()->status == PLEAT_EFORKED ? 42 : 1);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    api_torch_heard(said, sizeof said);
    ck_assert_str_eq(said, "");
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 42);
    pleat_torch_end_pool(0, id);
    pleat_torch_release_pool(0, id);
    api_unmake(instance);
}
END_TEST

static int compare_keys(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* The order of use is 1_100, 2_99, 3_98 ..., the order of the names another. */
START_TEST(every_pool_has_twelve_keys_and_all_stand_in_pythons_order)
{
    static told sorted;
    pleat instance = api_torch_make(API_PLEAT, "capacity:256M", "");
    for (uint64_t i = 1; i <= N_POOLS; i++) {
        const pleat_pool_id id = { i, 101 - i };
        begin(instance, id);
        pleat_torch_free(pleat_torch_malloc((size_t)i * 1000, 0, NULL), 0, 0, NULL);
        pleat_torch_end_pool(0, id);
        const told *t = tell();
        ck_assert_uint_eq(t->n, N_KEYS + 12 * i);
        sorted = *t;
        qsort(sorted.keys, sorted.n, KEY_BYTES, compare_keys);
        for (size_t k = 0; k < t->n; k++) {
            ck_assert_str_eq(t->keys[k], sorted.keys[k]);
            ck_assert(k == 0 || strcmp(t->keys[k - 1], t->keys[k]) != 0);
        }
    }
    static const char *const pools[] = { "all", "large_pool", "small_pool" };
    static const char *const metrics[] = { "allocated", "current", "freed", "peak" };
    for (int i = 0; i < 12; i++) {
        char key[KEY_BYTES];
        snprintf(key, sizeof key, "reserved_bytes_by_private_pools.45_56.%s.%s", pools[i / 4],
                 metrics[i % 4]);
        (void)value_of(tell(), key);
    }
    for (uint64_t i = 1; i <= N_POOLS; i++) {
        pleat_torch_release_pool(0, (pleat_pool_id){ i, 101 - i });
    }
    api_unmake(instance);
}
END_TEST

START_TEST(the_statistics_leave_the_last_error_as_it_was)
{
    pleat instance = api_torch_make(API_PLEAT, "capacity:64M", "");
    begin(instance, (pleat_pool_id){ 0, 1 });
    ck_assert_ptr_null(pleat_torch_malloc(65 * MIB, 0, NULL));
    api_expect(PLEAT_ENOMEM_DEVICE, "65.00 MiB");
    (void)tell();
    api_expect(PLEAT_ENOMEM_DEVICE, "65.00 MiB");
    pleat_torch_end_pool(0, (pleat_pool_id){ 0, 1 });
    pleat_torch_release_pool(0, (pleat_pool_id){ 0, 1 });
    api_unmake(instance);
}
END_TEST

SUITE(api_torch_pool)
{
    TCase *hooks = tcase_create("hooks");
    tcase_add_checked_fixture(hooks, api_sim_load, NULL);
    tcase_add_test(hooks, the_hooks_end_and_release_a_pool);
    tcase_add_test(hooks, pools_that_are_not_there_are_complained_of_once);
    tcase_add_test(hooks, in_a_forked_child_the_pool_hooks_are_silent);
    suite_add_tcase(suite, hooks);
    TCase *statistics = tcase_create("statistics");
    tcase_add_checked_fixture(statistics, api_sim_load, NULL);
    tcase_add_test(statistics, every_pool_has_twelve_keys_and_all_stand_in_pythons_order);
    tcase_add_test(statistics, the_statistics_leave_the_last_error_as_it_was);
    suite_add_tcase(suite, statistics);
}
