/* tag_kept_test.c - the contents stored by a sleep can be read, and their host memory stays if
 * wanted. */
/* labels: unit fault */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/api/api_sim.h"
#include "tests/support/suite.h"
#include "vmm/base/meta.h"

static const uint64_t MIB = 1 << 20;
static const uint64_t GRANULE = 2 << 20;
enum { N_ROUNDS = 60, N_BLOCKS = 24, MOST_K = 600, DRIVER_CODE = 999 };

static pleat instance;

static void open_instance(void)
{
    api_sim_load();
    instance = api_make(API_PLEAT, "capacity:256M,backing:memory,depth:16", "reserve_mb:0");
}

static void close_instance(void)
{
    sim.fail_never();
    pl_meta_fail_never();
    sim.finish();
    ck_assert_uint_eq(sim.hazards(NULL, 0), 0);
    api_check(instance);
    api_unmake(instance);
}

static pleat_devptr tagged(const char *tag, size_t bytes)
{
    pleat_devptr ptr = 0;
    pleat_status st = pleat_tag_alloc(instance, 0, tag, bytes, NULL, &ptr);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
    return ptr;
}

static pleat_status fall_asleep_in(pleat_sleep how, const char *folder)
{
    return pleat_tag_sleep(instance, 0, "weights", how, folder, NULL);
}

static void fall_asleep(void)
{
    ck_assert_int_eq(fall_asleep_in(PLEAT_SLEEP_HOST, NULL), PLEAT_OK);
}

static void wake_up(void)
{
    ck_assert_int_eq(pleat_tag_wake(instance, 0, "weights", 0, NULL), PLEAT_OK);
}

static void retain(int is_retained)
{
    ck_assert_int_eq(pleat_tag_retain(instance, 0, "weights", is_retained), PLEAT_OK);
}

static void fill(pleat_devptr ptr, size_t bytes, uint64_t seed)
{
    ck_assert_int_eq(sim.fill(NULL, ptr, bytes, seed), 0);
}

static void verify(pleat_devptr ptr, size_t bytes, uint64_t seed)
{
    ck_assert_int_eq(sim.verify(NULL, ptr, bytes, seed), 0);
}

static pleat_status read_kept(pleat_devptr ptr, size_t bytes, void *to)
{
    return pleat_tag_read_kept(instance, 0, ptr, bytes, to);
}

static void *find_kept(pleat_devptr ptr, size_t bytes)
{
    void *at = NULL;
    pleat_status st = pleat_tag_find_kept(instance, 0, ptr, bytes, &at);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
    return at;
}

/* The present contents. */
static char *expected(pleat_devptr ptr, size_t bytes)
{
    char *to = malloc(bytes);
    ck_assert_ptr_nonnull(to);
    sim.finish();
    memcpy(to, (const void *)(uintptr_t)ptr, bytes); /* backing:memory: addresses are readable */
    return to;
}

/* ---- reading --------------------------------------------------------------------------------- */

START_TEST(what_is_kept_can_be_read_while_it_sleeps)
{
    const char *folder = _i == 0 ? NULL : "/tmp";
    size_t bytes = 71 * MIB + 512;
    pleat_devptr small = tagged("weights", 3000);
    pleat_devptr large = tagged("weights", bytes);
    fill(small, 3000, 1);
    fill(large, bytes, 2);
    char *of_small = expected(small, 3000);
    char *of_large = expected(large, bytes);
    char *got = malloc(bytes);
    ck_assert_ptr_nonnull(got);
    ck_assert_int_eq(fall_asleep_in(_i == 0 ? PLEAT_SLEEP_HOST : PLEAT_SLEEP_FILE, folder),
                     PLEAT_OK);
    ck_assert_int_eq(read_kept(small, 3000, got), PLEAT_OK);
    ck_assert_mem_eq(got, of_small, 3000);
    ck_assert_int_eq(read_kept(small + 17, 100, got), PLEAT_OK);
    ck_assert_mem_eq(got, of_small + 17, 100);
    ck_assert_int_eq(read_kept(large, bytes, got), PLEAT_OK);
    ck_assert_int_eq(memcmp(got, of_large, bytes), 0);
    ck_assert_int_eq(read_kept(large + 33 * MIB + 5, 37 * MIB, got), PLEAT_OK);
    ck_assert_int_eq(memcmp(got, of_large + 33 * MIB + 5, 37 * MIB), 0);
    void *at;
    ck_assert_int_eq(pleat_tag_find_kept(instance, 0, large, bytes, &at), PLEAT_ENOTSUP);
    if (folder == NULL) {
        ck_assert_mem_eq(find_kept(small + 9, 500), of_small + 9, 500);
    } else {
        ck_assert_int_eq(pleat_tag_find_kept(instance, 0, small, 500, &at), PLEAT_ENOTSUP);
        api_expect(PLEAT_ENOTSUP, "in a file");
    }
    wake_up();
    verify(large, bytes, 2);
    free(of_small);
    free(of_large);
    free(got);
    api_free(instance, 0, small, NULL);
    api_free(instance, 0, large, NULL);
}
END_TEST

START_TEST(pages_of_a_buffer_can_be_read)
{
    pleat_devptr buffer = 0;
    char got[512];
    ck_assert_int_eq(pleat_tag_push("weights"), PLEAT_OK);
    ck_assert_int_eq(pleat_buffer_create(instance, 0, 64 * MIB, 1, &buffer), PLEAT_OK);
    ck_assert_int_eq(pleat_tag_pop(), PLEAT_OK);
    ck_assert_int_eq(pleat_buffer_resize(instance, 0, buffer, 8 * GRANULE, NULL), PLEAT_OK);
    fill(buffer, 8 * GRANULE, 3);
    char *of_buffer = expected(buffer + 5 * GRANULE - 256, 512);
    ck_assert_int_eq(pleat_buffer_decommit(instance, 0, buffer, 2 * GRANULE, GRANULE, NULL),
                     PLEAT_OK);
    fall_asleep();
    ck_assert_int_eq(read_kept(buffer + 5 * GRANULE - 256, 512, got), PLEAT_OK);
    ck_assert_mem_eq(got, of_buffer, 512);
    ck_assert_int_eq(read_kept(buffer + 2 * GRANULE - 256, 512, got), PLEAT_EFOREIGN);
    ck_assert_int_eq(read_kept(buffer + 8 * GRANULE - 256, 512, got), PLEAT_EFOREIGN);
    wake_up();
    free(of_buffer);
    ck_assert_int_eq(pleat_buffer_destroy(instance, 0, buffer, NULL), PLEAT_OK);
}
END_TEST

START_TEST(what_is_not_kept_is_refused)
{
    char got[64];
    void *at;
    pleat_devptr ptr = tagged("weights", MIB);
    pleat_devptr plain = api_alloc(instance, 0, MIB, NULL);
    ck_assert_int_eq(read_kept(ptr, 64, got), PLEAT_EFOREIGN);
    api_expect(PLEAT_EFOREIGN, "awake");
    ck_assert_int_eq(fall_asleep_in(PLEAT_SLEEP_DISCARD, NULL), PLEAT_OK);
    ck_assert_int_eq(read_kept(ptr, 64, got), PLEAT_EFOREIGN);
    api_expect(PLEAT_EFOREIGN, "without its contents");
    wake_up();
    fall_asleep();
    ck_assert_int_eq(read_kept(plain, 64, got), PLEAT_EFOREIGN);
    ck_assert_int_eq(read_kept(ptr + MIB - 32, 64, got), PLEAT_EFOREIGN);
    api_expect(PLEAT_EFOREIGN, "not all of it is live");
    ck_assert_int_eq(read_kept(ptr, SIZE_MAX, got), PLEAT_EFOREIGN);
    ck_assert_int_eq(read_kept(4096, 64, got), PLEAT_EFOREIGN);
    ck_assert_int_eq(read_kept(0, 64, got), PLEAT_EINVAL);
    ck_assert_int_eq(read_kept(ptr, 0, got), PLEAT_EINVAL);
    ck_assert_int_eq(read_kept(ptr, 64, NULL), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_tag_find_kept(instance, 0, ptr, 64, NULL), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_tag_find_kept(instance, 7, ptr, 64, &at), PLEAT_EDEVICE);
    wake_up();
    ck_assert_int_eq(read_kept(ptr, 64, got), PLEAT_EFOREIGN);
    api_free(instance, 0, ptr, NULL);
    api_free(instance, 0, plain, NULL);
}
END_TEST

/* ---- retaining ------------------------------------------------------------------------------- */

START_TEST(retained_memory_serves_the_next_sleep)
{
    pleat_devptr ptr = tagged("weights", 5 * MIB);
    fill(ptr, 5 * MIB, 1);
    char *first = expected(ptr, 512);
    fall_asleep();
    void *at = find_kept(ptr, 512);
    retain(1);
    wake_up();
    ck_assert_ptr_eq(find_kept(ptr, 512), at);
    ck_assert_mem_eq(at, first, 512);
    uint64_t n_allocs = sim.n_calls("cuMemHostAlloc");
    uint64_t n_frees = sim.n_calls("cuMemFreeHost");
    for (unsigned i = 2; i < 6; i++) {
        fill(ptr, 5 * MIB, i);
        char *now = expected(ptr, 512);
        fall_asleep();
        ck_assert_ptr_eq(find_kept(ptr, 512), at);
        ck_assert_mem_eq(at, now, 512);
        free(now);
        wake_up();
        verify(ptr, 5 * MIB, i);
    }
    ck_assert_uint_eq(sim.n_calls("cuMemHostAlloc"), n_allocs);
    ck_assert_uint_eq(sim.n_calls("cuMemFreeHost"), n_frees);
    retain(0);
    ck_assert_int_eq(pleat_tag_find_kept(instance, 0, ptr, 512, &at), PLEAT_EFOREIGN);
    ck_assert_uint_gt(sim.n_calls("cuMemFreeHost"), n_frees);
    fall_asleep();
    (void)find_kept(ptr, 512);
    wake_up();
    ck_assert_int_eq(pleat_tag_find_kept(instance, 0, ptr, 512, &at), PLEAT_EFOREIGN);
    free(first);
    api_free(instance, 0, ptr, NULL);
}
END_TEST

START_TEST(what_came_since_is_not_taken_for_what_slept)
{
    char got[64];
    pleat_devptr ptr = tagged("weights", 5 * MIB);
    pleat_devptr other = tagged("weights", 5 * MIB);
    retain(1);
    fall_asleep();
    wake_up();
    ck_assert_int_eq(read_kept(ptr, 64, got), PLEAT_OK);
    api_free(instance, 0, other, NULL);
    ck_assert_int_eq(read_kept(ptr, 64, got), PLEAT_OK);
    other = tagged("weights", 5 * MIB);
    ck_assert_int_eq(read_kept(other, 64, got), PLEAT_EFOREIGN);
    ck_assert_int_eq(read_kept(ptr, 64, got), PLEAT_EFOREIGN);
    ck_assert_ptr_nonnull(strstr(pleat_last_error()->text, "have come since"));
    fall_asleep();
    wake_up();
    ck_assert_int_eq(read_kept(ptr, 64, got), PLEAT_OK);
    api_free(instance, 0, ptr, NULL);
    api_free(instance, 0, other, NULL);
}
END_TEST

/* Callers may hold addresses of the host memory. So it stays readable. */
START_TEST(a_sleep_that_fails_leaves_what_is_retained)
{
    char got[64];
    pleat_devptr ptr = tagged("weights", 5 * MIB);
    fill(ptr, 5 * MIB, 1);
    char *first = expected(ptr, 512);
    retain(1);
    fall_asleep();
    char *at = find_kept(ptr, 512);
    wake_up();
    ck_assert_int_ne(fall_asleep_in(PLEAT_SLEEP_FILE, "/nonexistent"), PLEAT_OK);
    ck_assert_ptr_eq(find_kept(ptr, 512), at);
    ck_assert_mem_eq(at, first, 512);
    sim.fail_at("cuMemcpyDtoHAsync_v2", 0, DRIVER_CODE);
    ck_assert_int_ne(fall_asleep_in(PLEAT_SLEEP_HOST, NULL), PLEAT_OK);
    sim.fail_never();
    ck_assert_mem_eq(at, first, 512); /* of no single moment, as far as pleat can tell */
    ck_assert_int_eq(read_kept(ptr, 64, got), PLEAT_EFOREIGN);
    fall_asleep();
    ck_assert_int_eq(read_kept(ptr, 64, got), PLEAT_OK);
    wake_up();
    verify(ptr, 5 * MIB, 1);
    free(first);
    api_free(instance, 0, ptr, NULL);
}
END_TEST

START_TEST(another_kind_of_sleep_gives_it_back)
{
    char got[64];
    pleat_devptr ptr = tagged("weights", 5 * MIB);
    retain(1);
    fill(ptr, 5 * MIB, 1);
    fall_asleep();
    wake_up();
    ck_assert_int_eq(fall_asleep_in(PLEAT_SLEEP_FILE, "/tmp"), PLEAT_OK);
    wake_up();
    ck_assert_int_eq(read_kept(ptr, 64, got), PLEAT_EFOREIGN); /* a file is not retained */
    verify(ptr, 5 * MIB, 1);
    fall_asleep();
    wake_up();
    ck_assert_int_eq(read_kept(ptr, 64, got), PLEAT_OK);
    ck_assert_int_eq(fall_asleep_in(PLEAT_SLEEP_DISCARD, NULL), PLEAT_OK);
    ck_assert_int_eq(read_kept(ptr, 64, got), PLEAT_EFOREIGN);
    wake_up();
    api_free(instance, 0, ptr, NULL);
}
END_TEST

START_TEST(an_instance_goes_while_memory_is_retained)
{
    pleat_devptr ptr = tagged("weights", 5 * MIB);
    retain(1);
    fall_asleep();
    wake_up();
    api_free(instance, 0, ptr, NULL);
}
END_TEST

/* Blocks come and go between sleeps, so that slots are reused, left over and used up. */
static void change_blocks(pleat_devptr *blocks, uint64_t *state)
{
    for (unsigned i = 0; i < N_BLOCKS; i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        if ((*state >> 33) % 3 == 0 && blocks[i] != 0) {
            api_free(instance, 0, blocks[i], NULL);
            blocks[i] = 0;
        } else if ((*state >> 35) % 4 == 0 && blocks[i] == 0) {
            blocks[i] = tagged("weights", (i + 1) * MIB / 4);
        }
    }
}

START_TEST(tags_that_change_between_sleeps_keep_their_contents)
{
    pleat_devptr blocks[N_BLOCKS] = { 0 };
    uint64_t state = 7;
    char got[256];
    retain(1);
    for (uint64_t round = 0; round < N_ROUNDS; round++) {
        change_blocks(blocks, &state);
        for (unsigned i = 0; i < N_BLOCKS; i++) {
            if (blocks[i] != 0) {
                fill(blocks[i], (i + 1) * MIB / 4, round * 100 + i);
            }
        }
        char *of[N_BLOCKS] = { NULL };
        for (unsigned i = 0; i < N_BLOCKS; i++) {
            of[i] = blocks[i] != 0 ? expected(blocks[i] + i * 1000, 256) : NULL;
        }
        fall_asleep();
        for (unsigned i = 0; i < N_BLOCKS; i++) {
            if (blocks[i] != 0) {
                ck_assert_int_eq(read_kept(blocks[i] + i * 1000, 256, got), PLEAT_OK);
                ck_assert_mem_eq(got, of[i], 256);
            }
        }
        api_check(instance);
        wake_up();
        for (unsigned i = 0; i < N_BLOCKS; i++) {
            if (blocks[i] != 0) {
                verify(blocks[i], (i + 1) * MIB / 4, round * 100 + i);
            }
            free(of[i]);
        }
    }
    for (unsigned i = 0; i < N_BLOCKS; i++) {
        if (blocks[i] != 0) {
            api_free(instance, 0, blocks[i], NULL);
        }
    }
}
END_TEST

/* ---- faults ---------------------------------------------------------------------------------- */

/* A sleep that retains memory, and the wake after it, while the k-th call fails. Returns whether
 * there was a k-th call. */
static bool try_with_fault(bool is_host, uint64_t k, pleat_devptr ptr, uint64_t seed)
{
    uint64_t before = pl_meta_n_allocs();
    uint64_t n_faults = sim.n_faults();
    fill(ptr, 3 * MIB, seed);
    sim.finish();
    if (is_host) {
        pl_meta_fail_at(k);
    } else {
        sim.fail_at(NULL, k, DRIVER_CODE);
    }
    bool is_asleep = fall_asleep_in(PLEAT_SLEEP_HOST, NULL) == PLEAT_OK;
    bool is_awake = pleat_tag_wake(instance, 0, "weights", 0, NULL) == PLEAT_OK;
    bool is_hit = is_host ? pl_meta_n_allocs() - before > k : sim.n_faults() > n_faults;
    sim.fail_never();
    pl_meta_fail_never();
    ck_assert(is_hit || (is_asleep && is_awake));
    wake_up();
    verify(ptr, 3 * MIB, seed);
    api_check(instance);
    return is_hit;
}

START_TEST(a_fault_loses_no_contents)
{
    pleat_devptr ptr = tagged("weights", 3 * MIB);
    retain(1);
    uint64_t k = 0;
    while (k < MOST_K && try_with_fault(_i == 1, k, ptr, 100 + k)) {
        k++;
        fall_asleep(); /* leaves stored contents to take over */
        wake_up();
    }
    ck_assert_uint_gt(k, _i == 1 ? 1 : 8);
    ck_assert_uint_lt(k, MOST_K);
    api_free(instance, 0, ptr, NULL);
}
END_TEST

START_TEST(bad_arguments_are_refused)
{
    ck_assert_int_eq(pleat_tag_retain(instance, 0, "", 1), PLEAT_EINVAL);
    ck_assert_int_eq(pleat_tag_retain(instance, 9, "weights", 1), PLEAT_EDEVICE);
    close_instance();
    instance = api_make(API_TORCH, "capacity:64M", "");
    ck_assert_int_eq(pleat_tag_retain(instance, 0, "weights", 1), PLEAT_ENOTSUP);
    api_expect(PLEAT_ENOTSUP, "allocator:pleat");
    pleat_devptr ptr = tagged("weights", 512);
    char got[8];
    ck_assert_int_eq(read_kept(ptr, 8, got), PLEAT_EFOREIGN);
    api_free(instance, 0, ptr, NULL);
}
END_TEST

SUITE(api_tag_kept)
{
    TCase *read = suite_case(suite, "read", open_instance, close_instance);
    tcase_add_loop_test(read, what_is_kept_can_be_read_while_it_sleeps, 0, 2);
    tcase_add_test(read, pages_of_a_buffer_can_be_read);
    tcase_add_test(read, what_is_not_kept_is_refused);
    tcase_add_test(read, bad_arguments_are_refused);
    TCase *held = suite_case(suite, "retain", open_instance, close_instance);
    tcase_add_test(held, retained_memory_serves_the_next_sleep);
    tcase_add_test(held, what_came_since_is_not_taken_for_what_slept);
    tcase_add_test(held, a_sleep_that_fails_leaves_what_is_retained);
    tcase_add_test(held, another_kind_of_sleep_gives_it_back);
    tcase_add_test(held, an_instance_goes_while_memory_is_retained);
    tcase_add_test(held, tags_that_change_between_sleeps_keep_their_contents);
    TCase *faults = suite_case(suite, "faults", open_instance, close_instance);
    tcase_add_loop_test(faults, a_fault_loses_no_contents, 0, 2);
}
