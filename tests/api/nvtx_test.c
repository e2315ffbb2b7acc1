/* nvtx_test.c - an injected tool hears of all memory and blocks, by NVTX's memory extension. */
/* labels: unit stress */
/* alone: NVTX loads a tool once in a process */
#include <check.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/api/api_sim.h"
#include "tests/support/suite.h"
#include "tests/support/tool/tool.h"
#include "vmm/base/meta.h"

#define TOOL PLEAT_BUILD_DIR "/libpleat_test_tool.so"

enum { MIB = 1 << 20, MOST = 64, N_THREADS = 4 };

static tool_counts (*counted)(void);
static uint64_t (*region_bytes)(uint64_t ptr);
static const char *(*heap_name)(uint64_t ptr);

static void load(void)
{
    api_sim_load();
    void *tool = dlopen(TOOL, RTLD_NOW | RTLD_LOCAL);
    ck_assert_ptr_nonnull(tool);
    *(void **)&counted = dlsym(tool, "tool_count");
    *(void **)&region_bytes = dlsym(tool, "tool_region_bytes");
    *(void **)&heap_name = dlsym(tool, "tool_heap_name");
}

static void inject(void)
{
    setenv("NVTX_INJECTION64_PATH", TOOL, 1);
    load();
}

static void inject_lame(void)
{
    setenv("PLEAT_TEST_TOOL", "lame", 1);
    inject();
}

/* The instance goes, and the tool has forgotten all. */
static void unmake(pleat instance)
{
    api_unmake(instance);
    ck_assert_uint_eq(counted().n_heaps, 0);
    ck_assert_uint_eq(counted().n_regions, 0);
}

START_TEST(a_block_is_a_region_of_its_bytes_in_a_heap_of_its_device)
{
    pleat instance = api_make(_i, "capacity:256M,devices:2", "");
    pleat_devptr ptr = api_alloc(instance, 1, 1000, NULL);
    ck_assert_uint_eq(region_bytes(ptr), 1000);
    ck_assert_str_eq(heap_name(ptr), "pleat device 1");
    api_free(instance, 1, ptr, NULL);
    ck_assert_uint_eq(region_bytes(ptr), 0);
    ck_assert_ptr_nonnull(heap_name(ptr));
    unmake(instance);
}
END_TEST

START_TEST(memory_of_a_private_pool_has_its_name)
{
    const pleat_pool_id id = { 7, 12 };
    pleat instance = api_make(API_PLEAT, "capacity:256M", "");
    ck_assert_int_eq(pleat_pool_begin(instance, 0, id, NULL, NULL, NULL), PLEAT_OK);
    pleat_devptr ptr = api_alloc(instance, 0, 3 * MIB, NULL);
    ck_assert_int_eq(pleat_pool_end(instance, 0, id), PLEAT_OK);
    ck_assert_str_eq(heap_name(ptr), "pleat device 0 pool 7.12");
    api_free(instance, 0, ptr, NULL);
    ck_assert_int_eq(pleat_pool_release(instance, 0, id), PLEAT_OK);
    unmake(instance);
}
END_TEST

START_TEST(a_freed_block_stays_a_region_until_other_streams_are_done_with_it)
{
    pleat instance = api_make(_i, "capacity:256M", "");
    void *side = api_stream(instance, 0);
    pleat_devptr ptr = api_alloc(instance, 0, MIB, NULL);
    const pleat_sim_access use = { .ptr = ptr, .bytes = MIB, .is_write = 1 };
    api_stream_order(instance, 0, NULL, side);
    ck_assert_int_eq(sim.work(side, &use, 1), 0);
    ck_assert_int_eq(pleat_block_record_stream(instance, 0, ptr, side), PLEAT_OK);
    api_free(instance, 0, ptr, NULL);
    ck_assert_uint_eq(region_bytes(ptr), MIB);
    sim.finish();
    ck_assert_int_eq(pleat_device_trim(instance, 0, 0, true, NULL), PLEAT_OK);
    ck_assert_uint_eq(region_bytes(ptr), 0);
    api_stream_end(instance, 0, side);
    unmake(instance);
}
END_TEST

/* ---- what programs do ---- */

typedef struct work {
    pleat instance;
    pleat_devptr ptr[MOST]; /* 0 = none */
    size_t bytes[MOST];
    unsigned seed;
} work;

static unsigned draw(work *w, unsigned n)
{
    return (unsigned)rand_r(&w->seed) % n;
}

static uint64_t bytes_of(const work *w)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < MOST; i++) {
        bytes += w->ptr[i] ? w->bytes[i] : 0;
    }
    return bytes;
}

/* The tool has every block with its bytes, and of others so many bytes. */
static void compare(const work *w, uint64_t others)
{
    for (unsigned i = 0; i < MOST; i++) {
        if (w->ptr[i]) {
            ck_assert_uint_eq(region_bytes(w->ptr[i]), w->bytes[i]);
        }
    }
    ck_assert_uint_eq(counted().region_bytes, bytes_of(w) + others);
}

/* Small ones share a granule, large ones take holes. */
static void turn(work *w, unsigned i, bool is_in_pool)
{
    static const unsigned most[] = { 3000, MIB, 3 * MIB, 24 * MIB };
    const pleat_pool_id id = { 1, 2 };
    if (w->ptr[i]) {
        ck_assert_int_eq(pleat_block_free(w->instance, 0, w->ptr[i], NULL), PLEAT_OK);
        w->ptr[i] = 0;
        return;
    }
    w->bytes[i] = draw(w, most[draw(w, 4)]) + 1;
    if (is_in_pool) {
        ck_assert_int_eq(pleat_pool_begin(w->instance, 0, id, NULL, NULL, NULL), PLEAT_OK);
    }
    if (pleat_block_alloc(w->instance, 0, w->bytes[i], NULL, &w->ptr[i]) != PLEAT_OK) {
        w->ptr[i] = 0;
    }
    if (is_in_pool) {
        ck_assert_int_eq(pleat_pool_end(w->instance, 0, id), PLEAT_OK);
    }
}

static void free_all(work *w)
{
    for (unsigned i = 0; i < MOST; i++) {
        if (w->ptr[i]) {
            api_free(w->instance, 0, w->ptr[i], NULL);
        }
    }
}

START_TEST(every_live_block_is_a_region_and_nothing_else)
{
    for (unsigned seed = 1; seed <= suite_most(40); seed++) {
        work w = { .instance = api_make(_i, "capacity:160M", ""), .seed = seed };
        for (int step = 0; step < 400; step++) {
            turn(&w, draw(&w, MOST), _i == API_PLEAT && draw(&w, 4) == 0);
            if (draw(&w, 40) == 0) {
                uint64_t keep_bytes = (uint64_t)draw(&w, 2) * 32 * MIB;
                pleat_status st = pleat_device_trim(w.instance, 0, keep_bytes, false, NULL);
                ck_assert_int_eq(st, PLEAT_OK);
            }
            compare(&w, 0);
        }
        free_all(&w);
        if (_i == API_PLEAT) {
            const pleat_pool_id id = { 1, 2 };
            ck_assert_int_eq(pleat_pool_release(w.instance, 0, id), PLEAT_OK);
        }
        unmake(w.instance);
    }
}
END_TEST

/* Pages come and go among pages that stay, so blocks join and are cut, and heaps with them. */
START_TEST(pages_of_a_buffer_are_regions_as_long_as_they_are_committed)
{
    for (unsigned seed = 1; seed <= suite_most(40); seed++) {
        work w = { .instance = api_make(API_PLEAT, "capacity:96M", ""), .seed = seed };
        pleat_buffer_info info;
        pleat_devptr buffer;
        ck_assert_int_eq(pleat_buffer_create(w.instance, 0, 64 * MIB, 0, &buffer), PLEAT_OK);
        for (int step = 0; step < 200; step++) {
            uint64_t from = (uint64_t)draw(&w, 32) * 2 * MIB;
            uint64_t bytes = (uint64_t)(draw(&w, 5) + 1) * 2 * MIB;
            bytes = from + bytes > 64 * MIB ? 64 * MIB - from : bytes;
            pleat_status st = draw(&w, 2) == 0
                                  ? pleat_buffer_commit(w.instance, 0, buffer, from, bytes, NULL)
                                  : pleat_buffer_decommit(w.instance, 0, buffer, from, bytes, NULL);
            ck_assert(st == PLEAT_OK || st == PLEAT_ENOMEM_DEVICE);
            turn(&w, draw(&w, MOST), false);
            ck_assert_int_eq(pleat_buffer_query(w.instance, 0, buffer, &info), PLEAT_OK);
            compare(&w, info.committed_bytes);
        }
        ck_assert_int_eq(pleat_buffer_destroy(w.instance, 0, buffer, NULL), PLEAT_OK);
        free_all(&w);
        unmake(w.instance);
    }
}
END_TEST

static void *churn(void *context)
{
    work *w = context;
    for (int step = 0; step < 500; step++) {
        turn(w, draw(w, MOST), false);
    }
    return NULL;
}

START_TEST(threads_leave_a_region_for_every_block)
{
    pthread_t threads[N_THREADS];
    static work works[N_THREADS];
    pleat instance = api_make(_i, "capacity:8G", "");
    for (unsigned t = 0; t < N_THREADS; t++) {
        works[t] = (work){ .instance = instance, .seed = t + 1 };
        ck_assert_int_eq(pthread_create(&threads[t], NULL, churn, &works[t]), 0);
    }
    uint64_t all_bytes = 0;
    for (unsigned t = 0; t < N_THREADS; t++) {
        ck_assert_int_eq(pthread_join(threads[t], NULL), 0);
        all_bytes += bytes_of(&works[t]);
    }
    for (unsigned t = 0; t < N_THREADS; t++) {
        compare(&works[t], all_bytes - bytes_of(&works[t]));
    }
    for (unsigned t = 0; t < N_THREADS; t++) {
        free_all(&works[t]);
    }
    unmake(instance);
}
END_TEST

/* ---- what can be missing ---- */

/* A heap whose blocks the tool does not know would make every kernel a mistake. */
START_TEST(a_tool_knows_all_blocks_or_no_heap_when_host_memory_is_short)
{
    unsigned n_withdrawn = 0;
    for (uint64_t k = 0; k < 60; k++) {
        work w = { .instance = api_make(API_PLEAT, "capacity:160M", ""), .seed = 1 };
        turn(&w, 0, false);
        pl_meta_fail_at(k);
        for (int step = 0; step < 200; step++) {
            turn(&w, draw(&w, MOST), false);
        }
        pl_meta_fail_never();
        if (counted().n_heaps > 0) {
            compare(&w, 0);
        } else {
            n_withdrawn++;
            ck_assert_uint_eq(counted().n_regions, 0);
        }
        free_all(&w);
        unmake(w.instance);
    }
    ck_assert_uint_gt(n_withdrawn, 0);
}
END_TEST

START_TEST(nobody_is_told_without_a_tool_that_asks)
{
    pleat instance = api_make(_i, "capacity:256M", "");
    pleat_devptr ptr = api_alloc(instance, 0, 1000, NULL);
    ck_assert_uint_eq(counted().n_heaps_ever, 0);
    ck_assert_uint_eq(counted().n_regions_ever, 0);
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

SUITE(api_nvtx)
{
    if (access(TOOL, R_OK) != 0) {
        suite_skip("there are no headers of NVTX");
        return;
    }
    TCase *told = suite_case(suite, "told", inject, NULL);
    tcase_add_loop_test(told, a_block_is_a_region_of_its_bytes_in_a_heap_of_its_device, 0,
                        N_API_ALLOCATORS);
    tcase_add_test(told, memory_of_a_private_pool_has_its_name);
    tcase_add_loop_test(told, a_freed_block_stays_a_region_until_other_streams_are_done_with_it, 0,
                        N_API_ALLOCATORS);
    tcase_add_loop_test(told, every_live_block_is_a_region_and_nothing_else, 0, N_API_ALLOCATORS);
    tcase_add_test(told, pages_of_a_buffer_are_regions_as_long_as_they_are_committed);
    tcase_add_loop_test(told, threads_leave_a_region_for_every_block, 0, N_API_ALLOCATORS);
    tcase_add_test(told, a_tool_knows_all_blocks_or_no_heap_when_host_memory_is_short);
    TCase *lame = suite_case(suite, "lame", inject_lame, NULL);
    tcase_add_loop_test(lame, nobody_is_told_without_a_tool_that_asks, 0, N_API_ALLOCATORS);
    TCase *none = suite_case(suite, "none", load, NULL);
    tcase_add_loop_test(none, nobody_is_told_without_a_tool_that_asks, 0, N_API_ALLOCATORS);
}
