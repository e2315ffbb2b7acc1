/* torch_test.c - PyTorch's hooks, one by one. Statistics: tests/api/torch/torch_stats_test.c. */
/* labels: unit stress */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/adapters/pleat_torch.h"
#include "api/calls/internal.h"
#include "api/instance/instance.h"
#include "tests/support/api/api_torch.h"
#include "tests/support/suite.h"
#include "vmm/driver.h"

enum { MIB = 1 << 20 };

static uint64_t n_live(pleat instance, int device)
{
    return api_stats(instance, device).allocation[PLEAT_SIZES_ALL].current;
}

static uint64_t resident(pleat instance, int device)
{
    return api_stats(instance, device).reserved_bytes[PLEAT_SIZES_ALL].current;
}

/* ---- malloc and free ---- */

START_TEST(malloc_gives_a_block_of_its_device_and_stream_and_free_takes_it)
{
    pleat instance = api_torch_make(_i, "capacity:256M,devices:2", "");
    for (int device = 0; device < 2; device++) {
        void *stream = api_stream(instance, device);
        void *ptr = pleat_torch_malloc(3 * MIB, device, stream);
        pleat_block_info info;
        ck_assert_int_eq(pleat_block_query(instance, device, (pleat_devptr)(uintptr_t)ptr, &info),
                         PLEAT_OK);
        ck_assert_ptr_eq(info.stream, stream);
        ck_assert_int_eq(info.device, device);
        pleat_torch_free(ptr, 3 * MIB, device, stream);
        ck_assert_uint_eq(n_live(instance, device), 0);
        api_stream_end(instance, device, stream);
    }
    api_unmake(instance);
}
END_TEST

START_TEST(zero_bytes_are_null_and_no_error)
{
    api_torch_configure(API_PLEAT, "capacity:64M", "");
    ck_assert_ptr_null(pleat_torch_malloc(0, 0, NULL));
    ck_assert_int_eq(pleat_last_error()->status, PLEAT_OK);
    pleat_torch_free(NULL, 0, 0, NULL);
    ck_assert_int_eq(pleat_last_error()->status, PLEAT_OK);
    pleat_torch_free(NULL, 0, 99, NULL);
    ck_assert_int_eq(pleat_last_error()->status, PLEAT_OK);
}
END_TEST

START_TEST(what_malloc_cannot_give_is_null_with_a_reason)
{
    pleat instance = api_torch_make(_i, "capacity:64M", "");
    ck_assert_ptr_null(pleat_torch_malloc(65 * MIB, 0, NULL));
    api_expect(PLEAT_ENOMEM_DEVICE, "65.00 MiB");
    ck_assert_ptr_null(pleat_torch_malloc(SIZE_MAX, 0, NULL));
    api_expect(PLEAT_ESIZE, "2^60");
    ck_assert_ptr_null(pleat_torch_malloc(MIB, 1, NULL));
    api_expect(PLEAT_EDEVICE, "no device 1");
    ck_assert_ptr_null(pleat_torch_malloc(MIB, -1, NULL));
    api_expect(PLEAT_EDEVICE, "no device -1");
    ck_assert_uint_eq(api_stats(instance, 0).num_ooms, 1);
    api_unmake(instance);
}
END_TEST

/* ---- what pends ---- */

typedef struct app {
    pleat instance;
    void *captured;
    void *other;
    _Atomic bool is_capturing;
    _Atomic int n_calls; /* calls of the pressure callback */
} app;

static bool count_call(pleat instance, int device, size_t bytes, void *context)
{
    app *a = context;
    (void)instance;
    (void)device;
    (void)bytes;
    atomic_fetch_add(&a->n_calls, 1);
    return false;
}

static size_t n_ooms_told(pleat instance)
{
    enum { MOST = 1000 };
    static pl_history_entry entries[MOST];
    pl_use use = pl_use_enter(instance);
    ck_assert_ptr_nonnull(use.instance);
    size_t n = pl_history_copy(&pl_use_find_gpu(use.instance, 0)->history, entries, MOST, NULL);
    size_t n_ooms = 0;
    pl_use_leave(use);
    ck_assert_uint_gt(n, 0);
    ck_assert_uint_lt(n, MOST);
    for (size_t i = 0; i < n; i++) {
        n_ooms += entries[i].action == PL_HISTORY_OOM;
    }
    return n_ooms;
}

/* Make 40 of 64 MiB pend on a captured stream. Requests can neither be ordered after this stream
 * nor wait for it. The stream has used the memory, and its next call, which would record a tick, is
 * inside the capture. */
static void pend_behind_a_capture(pleat instance, void *owner, void *captured)
{
    void *ptr = pleat_torch_malloc(40 * MIB, 0, owner);
    ck_assert_ptr_nonnull(ptr);
    api_torch_work(instance, 0, captured, ptr, 40 * MIB);
    pleat_torch_record_stream(ptr, captured);
    pleat_torch_free(ptr, 40 * MIB, 0, owner);
    api_torch_begin_capture(instance, 0, captured);
    pleat_torch_free(pleat_torch_malloc(MIB, 0, captured), MIB, 0, captured);
}

/* Keep the capture open until 20 ms after the request. So the request's retries fail. */
static void *capture_for_a_while(void *arg)
{
    app *a = arg;
    pend_behind_a_capture(a->instance, a->other, a->captured);
    atomic_store(&a->is_capturing, true);
    while (atomic_load(&a->n_calls) == 0) {
        usleep(1000);
    }
    usleep(20000);
    api_torch_end_capture(a->instance, 0, a->captured);
    return NULL;
}

START_TEST(memory_that_pends_behind_a_capture_is_found_once_the_capture_ends)
{
    pleat instance = api_torch_make(API_PLEAT, "capacity:64M,depth:4096", "wait_ms:600000");
    void *other = api_stream(instance, 0);
    app a = { .instance = instance, .captured = api_stream(instance, 0), .other = other };
    pthread_t helper;
    ck_assert_int_eq(pleat_history_record(instance, 1000, 0), PLEAT_OK);
    pleat_torch_free(pleat_torch_malloc(MIB, 0, other), MIB, 0, other);
    ck_assert_int_eq(pleat_set_pressure_callback(instance, count_call, &a), PLEAT_OK);
    ck_assert_int_eq(pthread_create(&helper, NULL, capture_for_a_while, &a), 0);
    while (!atomic_load(&a.is_capturing)) {
        usleep(1000);
    }
    void *ptr = pleat_torch_malloc(40 * MIB, 0, other);
    ck_assert_msg(ptr != NULL, "%s", pleat_last_error()->text);
    ck_assert_int_eq(pthread_join(helper, NULL), 0);
    ck_assert_int_eq(a.n_calls, 1);
    ck_assert_uint_eq(n_ooms_told(instance), 0);
    api_torch_work(instance, 0, other, ptr, 40 * MIB);
    pleat_torch_free(ptr, 40 * MIB, 0, other);
    api_stream_end(instance, 0, a.captured);
    api_stream_end(instance, 0, other);
    api_unmake(instance);
}
END_TEST

/* _i: wait_ms. */
START_TEST(what_pends_is_refused_and_told_once)
{
    pleat instance = api_torch_make(API_PLEAT, "capacity:64M,depth:4096",
                                    _i == 0 ? "wait_ms:0" : "wait_ms:30");
    app a = { .instance = instance };
    void *captured = api_stream(instance, 0);
    void *other = api_stream(instance, 0);
    ck_assert_int_eq(pleat_history_record(instance, 1000, 0), PLEAT_OK);
    pleat_torch_free(pleat_torch_malloc(MIB, 0, other), MIB, 0, other);
    pend_behind_a_capture(instance, other, captured);
    ck_assert_int_eq(pleat_set_pressure_callback(instance, count_call, &a), PLEAT_OK);
    ck_assert_ptr_null(pleat_torch_malloc(40 * MIB, 0, other));
    api_expect(PLEAT_EPENDING, "40.00 MiB");
    ck_assert_int_eq(a.n_calls, 1);
    ck_assert_uint_eq(n_ooms_told(instance), 1);
    api_torch_end_capture(instance, 0, captured);
    api_stream_end(instance, 0, captured);
    api_stream_end(instance, 0, other);
    api_unmake(instance);
}
END_TEST

/* ---- threads ---- */

/* 100,000 blocks in all; a tenth if many calls are followed by a walk over everything. */
enum { N_THREADS = 8, N_EACH = PLEAT_DEBUG_LEVEL >= 2 ? 1250 : 12500, N_HELD = 64 };

typedef struct worker {
    pthread_t thread;
    void *stream;
    int device;
    unsigned seed;
    int n_wrong;
    _Atomic(void *) *exchange; /* N_THREADS slots; whichever thread swaps a block out, owns it */
} worker;

static int n_each; /* N_EACH, or fewer under sanitizers */

static unsigned next_random(unsigned *seed)
{
    *seed = *seed * 1664525U + 1013904223U;
    return *seed >> 8;
}

static size_t random_bytes(unsigned *seed)
{
    unsigned r = next_random(seed);
    return r % 16 == 0 ? (r % 5 + 1) * (size_t)MIB : r % 60000 + 1;
}

/* Blocks live in a ring. Now and then a block is left for another thread to free. */
static void *churn(void *arg)
{
    worker *w = arg;
    void *held[N_HELD] = { NULL };
    for (int i = 0; i < n_each; i++) {
        void **slot = &held[i % N_HELD];
        size_t bytes = random_bytes(&w->seed);
        size_t found = 0;
        pleat_torch_free(*slot, 0, w->device, w->stream);
        *slot = pleat_torch_malloc(bytes, w->device, w->stream);
        bool is_base = *slot && pleat_torch_base_alloc((char *)*slot + bytes - 1, &found) == *slot;
        w->n_wrong += !is_base || found < bytes;
        if (next_random(&w->seed) % 8 == 0) {
            pleat_torch_record_stream(*slot, NULL);
            *slot = atomic_exchange(&w->exchange[next_random(&w->seed) % N_THREADS], *slot);
        }
    }
    for (int i = 0; i < N_HELD; i++) {
        pleat_torch_free(held[i], 0, w->device, w->stream);
    }
    return NULL;
}

START_TEST(a_hundred_thousand_blocks_go_through_the_hooks_from_eight_threads)
{
    pleat instance = api_torch_make(_i, "capacity:4G", "");
    _Atomic(void *) exchange[N_THREADS];
    worker workers[N_THREADS];
    char said[512];
    n_each = (int)suite_most(N_EACH);
    memset(exchange, 0, sizeof exchange);
    api_torch_listen();
    for (int i = 0; i < N_THREADS; i++) {
        workers[i] = (worker){ .stream = i % 4 == 0 ? NULL : api_stream(instance, 0),
                               .seed = (unsigned)i,
                               .exchange = exchange };
        ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, churn, &workers[i]), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_join(workers[i].thread, NULL), 0);
    }
    api_torch_heard(said, sizeof said);
    ck_assert_str_eq(said, "");
    for (int i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(workers[i].n_wrong, 0);
        pleat_torch_free(atomic_load(&exchange[i]), 0, 0, NULL);
    }
    api_check(instance);
    pleat_stats stats = api_stats(instance, 0);
    ck_assert_uint_eq(stats.allocation[PLEAT_SIZES_ALL].allocated,
                      (uint64_t)N_THREADS * (uint64_t)n_each);
    ck_assert_uint_eq(stats.allocation[PLEAT_SIZES_ALL].current, 0);
    for (int i = 0; i < N_THREADS; i++) {
        if (workers[i].stream) {
            api_stream_end(instance, 0, workers[i].stream);
        }
    }
    api_unmake(instance);
}
END_TEST

/* ---- frees that are refused ------------------------------------------------------------------ */

START_TEST(foreign_pointers_and_second_frees_are_complained_of_once_each)
{
    char said[2048];
    pleat instance = api_torch_make(_i, "capacity:64M", "");
    void *ptr = pleat_torch_malloc(MIB, 0, NULL);
    void *other = pleat_torch_malloc(MIB, 0, NULL);
    api_torch_listen();
    for (int i = 0; i < 3; i++) {
        pleat_torch_free((void *)0xdead00, MIB, 0, NULL);
        pleat_torch_free((char *)ptr + 512, MIB, 0, NULL);
    }
    api_torch_heard(said, sizeof said);
    ck_assert_ptr_nonnull(strstr(said, "pleat: a free is ignored: "));
    ck_assert_ptr_nonnull(strstr(said, "0xdead00"));
    ck_assert_ptr_eq(strchr(said, '\n'), said + strlen(said) - 1);
    pleat_torch_free(ptr, MIB, 0, NULL);
    api_torch_listen();
    pleat_torch_free(ptr, MIB, 0, NULL);
    bool is_known = pleat_last_error()->status == PLEAT_EDOUBLEFREE;
    pleat_torch_free(ptr, MIB, 0, NULL);
    api_torch_heard(said, sizeof said);
    ck_assert_int_eq(strstr(said, "pleat: a second free is ignored: ") != NULL, is_known);
    ck_assert_uint_eq(n_live(instance, 0), 1);
    pleat_torch_free(other, MIB, 0, NULL);
    api_unmake(instance);
}
END_TEST

START_TEST(a_block_outlives_its_stream_and_can_still_be_freed)
{
    char said[512];
    pleat instance = api_torch_make(_i, "capacity:64M", "");
    void *stream = api_stream(instance, 0);
    void *ptr = pleat_torch_malloc(40 * MIB, 0, stream);
    api_torch_work(instance, 0, stream, ptr, 40 * MIB);
    api_stream_end(instance, 0, stream);
    api_torch_listen();
    pleat_torch_free(ptr, 40 * MIB, 0, stream);
    api_torch_heard(said, sizeof said);
    ck_assert_str_eq(said, "");
    ck_assert_uint_eq(n_live(instance, 0), 0);
    ptr = pleat_torch_malloc(40 * MIB, 0, NULL); /* served only once the work is over */
    ck_assert_ptr_nonnull(ptr);
    api_torch_work(instance, 0, NULL, ptr, 40 * MIB);
    pleat_torch_free(ptr, 40 * MIB, 0, NULL);
    api_unmake(instance);
}
END_TEST

/* ---- the end ---- */

static void call_every_hook(void *ptr, void *stream)
{
    size_t bytes = 7;
    ck_assert_ptr_null(pleat_torch_malloc(20 * MIB, 0, stream));
    pleat_torch_record_stream(ptr, stream);
    pleat_torch_free(ptr, MIB, 0, stream);
    pleat_torch_free((void *)0xdead00, MIB, 0, stream);
    pleat_torch_free(ptr, MIB, 0, NULL);
    pleat_torch_memory_fraction(0.5, 0);
    (void)pleat_torch_base_alloc(ptr, &bytes);
    pleat_torch_reset();
}

/* 4: the driver has shut down. 709: the context is destroyed. */
START_TEST(after_the_driver_has_shut_down_hooks_are_silent)
{
    static const int results[] = { 4, 709 };
    char said[512];
    pleat instance = api_torch_make(_i % N_API_ALLOCATORS, "capacity:64M,devices:2", "");
    void *stream = api_stream(instance, 0);
    void *ptr = pleat_torch_malloc(MIB, 0, stream);
    ck_assert_ptr_nonnull(ptr);
    int result = results[_i / N_API_ALLOCATORS];
    sim.fail_from(NULL, 0, result);
    sim.fail_from("cuStreamGetId", 0, result);
    sim.fail_from("cuEventQuery", 0, result);
    sim.fail_from("cuMemGetInfo_v2", 0, result);
    api_torch_listen();
    ck_assert_ptr_null(pleat_torch_malloc(20 * MIB, 0, stream));
    pleat_torch_record_stream(ptr, stream);
    pleat_torch_free(ptr, MIB, 0, stream);
    pleat_torch_memory_fraction(0.5, 1);
    pleat_torch_reset();
    api_torch_heard(said, sizeof said);
    ck_assert_str_eq(said, "");
    sim.fail_never();
    ck_assert_int_eq(pleat_destroy(instance, PLEAT_DESTROY_FORCE), PLEAT_OK);
}
END_TEST

START_TEST(in_a_forked_child_hooks_do_nothing_and_say_nothing)
{
    char said[512];
    pleat instance = api_torch_make(_i, "capacity:64M", "");
    void *ptr = pleat_torch_malloc(MIB, 0, NULL);
    uint64_t n_calls = api_sim_counts().calls;
    api_torch_listen();
    pid_t child = fork();
    if (child == 0) {
        call_every_hook(ptr, NULL);
        pleat_torch_init(1);
        exit(pleat_last_error()->status == PLEAT_EFORKED ? 42 : 1);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    api_torch_heard(said, sizeof said);
    ck_assert_str_eq(said, "");
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 42);
    ck_assert_uint_eq(api_sim_counts().calls, n_calls);
    ck_assert_uint_eq(n_live(instance, 0), 1);
    pleat_torch_free(ptr, MIB, 0, NULL);
    api_unmake(instance);
}
END_TEST

START_TEST(before_the_first_use_and_after_destroy_hooks_do_nothing)
{
    char said[512];
    void *nothing = (void *)0x100000;
    api_torch_configure(API_PLEAT, "capacity:64M", "");
    api_torch_listen();
    pleat_torch_free(nothing, MIB, 0, NULL);
    pleat_torch_record_stream(nothing, NULL);
    pleat_torch_reset();
    ck_assert_ptr_eq(pleat_torch_base_alloc(nothing, NULL), nothing);
    pleat instance = api_torch_make(API_PLEAT, "capacity:64M", "");
    void *ptr = pleat_torch_malloc(MIB, 0, NULL);
    ck_assert_int_eq(pleat_destroy(instance, PLEAT_DESTROY_FORCE), PLEAT_OK);
    pleat_torch_free(ptr, MIB, 0, NULL);
    pleat_torch_reset();
    api_torch_heard(said, sizeof said);
    ck_assert_str_eq(said, "");
    ck_assert_uint_eq(api_sim_counts().contexts, 0);
}
END_TEST

/* ---- init, reset, memory fraction ---- */

START_TEST(init_makes_the_default_instance_and_opens_no_device)
{
    char said[512];
    api_torch_configure(API_PLEAT, "capacity:64M,devices:2", "");
    api_torch_listen();
    pleat_torch_init(2);
    api_torch_heard(said, sizeof said);
    ck_assert_str_eq(said, "");
    ck_assert_uint_eq(api_sim_counts().contexts, 0);
    api_torch_listen();
    pleat_torch_init(3);
    pleat_torch_init(3);
    api_torch_heard(said, sizeof said);
    ck_assert_ptr_nonnull(strstr(said, "the program has 3, the driver that pleat uses 2"));
    ck_assert_ptr_eq(strchr(said, '\n'), said + strlen(said) - 1);
}
END_TEST

START_TEST(init_tells_of_a_bad_configuration)
{
    char said[512];
    ck_assert_int_eq(setenv("PLEAT_CONF", "driver:sim,growth:none", 1), 0);
    api_torch_listen();
    pleat_torch_init(1);
    api_torch_heard(said, sizeof said);
    ck_assert_ptr_nonnull(strstr(said, "growth"));
    ck_assert_ptr_null(pleat_torch_malloc(MIB, 0, NULL));
}
END_TEST

START_TEST(reset_gives_back_what_is_free_on_every_device_after_its_last_use)
{
    pleat instance = api_torch_make(_i, "capacity:256M,devices:2,depth:4096", "");
    void *kept = pleat_torch_malloc(MIB, 0, NULL);
    for (int device = 0; device < 2; device++) {
        void *streams[2] = { api_stream(instance, device), api_stream(instance, device) };
        for (int i = 0; i < 2; i++) {
            void *ptr = pleat_torch_malloc(30 * MIB, device, streams[i]);
            api_torch_work(instance, device, streams[i], ptr, 30 * MIB);
            pleat_torch_record_stream(ptr, streams[1 - i]);
            pleat_torch_free(ptr, 30 * MIB, device, streams[i]);
        }
    }
    ck_assert_uint_ge(resident(instance, 0), 31 * MIB); /* the streams may use the same 30 MiB */
    pleat_torch_reset();
    ck_assert_uint_le(resident(instance, 0), 2 * MIB);
    ck_assert_uint_eq(resident(instance, 1), 0);
    pleat_torch_free(kept, MIB, 0, NULL);
    api_unmake(instance);
}
END_TEST

START_TEST(while_requests_are_routed_as_for_a_capture_reset_waits_for_nothing)
{
    char said[512];
    pleat instance = api_torch_make(_i, "capacity:256M,devices:2,depth:4096", "");
    void *captured = api_stream(instance, 0);
    void *other = api_stream(instance, 1);
    pleat_torch_free(pleat_torch_malloc(MIB, 0, captured), MIB, 0, captured);
    void *ptr = pleat_torch_malloc(30 * MIB, 1, other);
    api_torch_work(instance, 1, other, ptr, 30 * MIB);
    pleat_torch_record_stream(ptr, NULL);
    pleat_torch_free(ptr, 30 * MIB, 1, other);
    uint64_t n_syncs = api_stats(instance, 1).host_syncs;
    const pleat_pool_id pool = { 0, 1 };
    if (_i == API_PLEAT) {
        ck_assert_int_eq(pleat_pool_begin(instance, 0, pool, NULL, NULL, NULL), PLEAT_OK);
    }
    api_torch_begin_capture(instance, 0, captured);
    api_torch_listen();
    pleat_torch_reset();
    api_torch_heard(said, sizeof said);
    ck_assert_str_eq(said, "");
    if (_i == API_PLEAT) { /* a reset waits for nothing; caches that free segments wait */
        ck_assert_uint_eq(api_stats(instance, 1).host_syncs, n_syncs);
        ck_assert_uint_ge(resident(instance, 1), 30 * MIB);
    }
    api_torch_end_capture(instance, 0, captured);
    if (_i == API_PLEAT) {
        pleat_torch_end_pool(0, pool);
        pleat_torch_release_pool(0, pool);
    }
    pleat_torch_reset();
    ck_assert_uint_eq(resident(instance, 1), 0);
    api_unmake(instance);
}
END_TEST

START_TEST(the_memory_fraction_limits_a_device_until_it_is_1)
{
    pleat instance = api_torch_make(_i, "capacity:256M,devices:2", "");
    pleat_device_info info;
    pleat_torch_memory_fraction(0.5, 0);
    ck_assert_int_eq(pleat_device_query(instance, 0, &info), PLEAT_OK);
    ck_assert_uint_eq(info.limit_bytes, 128 * MIB);
    ck_assert_ptr_null(pleat_torch_malloc(160 * MIB, 0, NULL));
    void *ptr = pleat_torch_malloc(160 * MIB, 1, NULL);
    ck_assert_ptr_nonnull(ptr);
    pleat_torch_free(ptr, 160 * MIB, 1, NULL);
    pleat_torch_memory_fraction(0, 0);
    ck_assert_ptr_null(pleat_torch_malloc(1, 0, NULL));
    pleat_torch_memory_fraction(1, 0);
    ptr = pleat_torch_malloc(160 * MIB, 0, NULL);
    ck_assert_ptr_nonnull(ptr);
    pleat_torch_free(ptr, 160 * MIB, 0, NULL);
    api_unmake(instance);
}
END_TEST

START_TEST(a_bad_memory_fraction_changes_nothing_and_is_complained_of)
{
    const double bad[] = { -0.1, 1.5, 0.0 / (double)(_i - _i), 0.1 };
    char said[1024];
    pleat_device_info info;
    pleat instance = api_torch_make(API_PLEAT, "capacity:256M", "limit:200M");
    void *ptr = pleat_torch_malloc(150 * MIB, 0, NULL);
    api_torch_listen();
    pleat_torch_memory_fraction(bad[_i], 0); /* the last value is less than the live bytes */
    pleat_torch_memory_fraction(bad[_i], 7);
    api_torch_heard(said, sizeof said);
    ck_assert_ptr_nonnull(strstr(said, "the memory fraction stays as it was"));
    ck_assert_ptr_eq(strchr(said, '\n'), said + strlen(said) - 1);
    ck_assert_int_eq(pleat_device_query(instance, 0, &info), PLEAT_OK);
    ck_assert_uint_eq(info.limit_bytes, 200 * MIB);
    pleat_torch_free(ptr, 150 * MIB, 0, NULL);
    api_unmake(instance);
}
END_TEST

/* ---- base allocation, record stream, contexts ---- */

START_TEST(base_alloc_finds_the_block_on_any_device_or_returns_the_pointer)
{
    pleat instance = api_torch_make(_i, "capacity:64M,devices:2", "");
    void *ptr = pleat_torch_malloc(3 * MIB, 1, NULL);
    size_t bytes = 7;
    ck_assert_ptr_eq(pleat_torch_base_alloc((char *)ptr + MIB, &bytes), ptr);
    ck_assert_uint_ge(bytes, 3 * MIB);
    ck_assert_ptr_eq(pleat_torch_base_alloc(ptr, NULL), ptr);
    ck_assert_ptr_eq(pleat_torch_base_alloc((void *)0xdead00, &bytes), (void *)0xdead00);
    ck_assert_uint_eq(bytes, 0);
    ck_assert_ptr_null(pleat_torch_base_alloc(NULL, &bytes));
    pleat_torch_free(ptr, 3 * MIB, 1, NULL);
    api_unmake(instance);
}
END_TEST

START_TEST(a_recorded_stream_keeps_the_memory_from_reuse_until_its_work_is_over)
{
    char said[512];
    pleat instance = api_torch_make(_i, "capacity:64M,devices:2,depth:4096", "");
    void *own = api_stream(instance, 1);
    void *side = api_stream(instance, 1);
    void *ptr = pleat_torch_malloc(4 * MIB, 1, own);
    api_torch_work(instance, 1, side, ptr, 4 * MIB);
    pleat_torch_record_stream((char *)ptr + MIB, side);
    pleat_torch_free(ptr, 4 * MIB, 1, own);
    void *next = pleat_torch_malloc(4 * MIB, 1, own);
    api_torch_work(instance, 1, own, next, 4 * MIB); /* a hazard if it were `ptr`'s memory */
    pleat_torch_free(next, 4 * MIB, 1, own);
    api_torch_listen();
    pleat_torch_record_stream((void *)0xdead00, side);
    pleat_torch_record_stream(NULL, side);
    api_torch_heard(said, sizeof said);
    ck_assert_str_eq(said, "");
    ptr = pleat_torch_malloc(4 * MIB, 1, own);
    api_torch_listen();
    pleat_torch_record_stream(ptr, said);
    pleat_torch_record_stream(ptr, said);
    api_torch_heard(said, sizeof said);
    ck_assert_ptr_nonnull(strstr(said, "a use on a stream could not be recorded"));
    ck_assert_ptr_eq(strchr(said, '\n'), said + strlen(said) - 1);
    pleat_torch_free(ptr, 4 * MIB, 1, own);
    api_unmake(instance);
}
END_TEST

START_TEST(whichever_context_is_current_stays_so)
{
    pleat instance = api_torch_make(_i, "capacity:64M,devices:2", "");
    pl_device *other = pleat_internal_device(instance, 1);
    pl_driver *drv = pleat_internal_driver(instance);
    cu_context before = NULL;
    cu_context after = NULL;
    ck_assert_int_eq(pl_device_enter(other), PLEAT_OK);
    ck_assert_int_eq(pl_cu_ctx_get_current(drv, &before), 0);
    ck_assert_ptr_nonnull(before);
    void *ptr = pleat_torch_malloc(20 * MIB, 0, NULL);
    ck_assert_ptr_null(pleat_torch_malloc(100 * MIB, 0, NULL));
    pleat_torch_record_stream(ptr, NULL);
    (void)pleat_torch_base_alloc(ptr, NULL);
    pleat_torch_free(ptr, 20 * MIB, 0, NULL);
    pleat_torch_reset();
    pleat_torch_memory_fraction(0.9, 0);
    pleat_torch_init(2);
    ck_assert_int_eq(pl_cu_ctx_get_current(drv, &after), 0);
    ck_assert_ptr_eq(after, before);
    pl_device_leave(other);
    api_unmake(instance);
}
END_TEST

static void add_each(TCase *tcase)
{
    const int n = N_API_ALLOCATORS;
    tcase_add_loop_test(tcase, malloc_gives_a_block_of_its_device_and_stream_and_free_takes_it, 0,
                        n);
    tcase_add_loop_test(tcase, what_malloc_cannot_give_is_null_with_a_reason, 0, n);
    tcase_add_loop_test(tcase, foreign_pointers_and_second_frees_are_complained_of_once_each, 0, n);
    tcase_add_loop_test(tcase, a_block_outlives_its_stream_and_can_still_be_freed, 0, n);
    tcase_add_loop_test(tcase, after_the_driver_has_shut_down_hooks_are_silent, 0, 2 * n);
    tcase_add_loop_test(tcase, in_a_forked_child_hooks_do_nothing_and_say_nothing, 0, n);
    tcase_add_loop_test(tcase, reset_gives_back_what_is_free_on_every_device_after_its_last_use, 0,
                        n);
    tcase_add_loop_test(tcase, while_requests_are_routed_as_for_a_capture_reset_waits_for_nothing,
                        0, n);
    tcase_add_loop_test(tcase, the_memory_fraction_limits_a_device_until_it_is_1, 0, n);
    tcase_add_loop_test(tcase, base_alloc_finds_the_block_on_any_device_or_returns_the_pointer, 0,
                        n);
    tcase_add_loop_test(tcase, a_recorded_stream_keeps_the_memory_from_reuse_until_its_work_is_over,
                        0, n);
    tcase_add_loop_test(tcase, whichever_context_is_current_stays_so, 0, n);
}

SUITE(api_torch)
{
    TCase *each = tcase_create("each allocator");
    tcase_add_checked_fixture(each, api_sim_load, NULL);
    add_each(each);
    suite_one_thread(each);
    suite_add_tcase(suite, each);
    TCase *rest = tcase_create("hooks");
    tcase_add_checked_fixture(rest, api_sim_load, NULL);
    tcase_add_test(rest, zero_bytes_are_null_and_no_error);
    tcase_add_loop_test(rest, what_pends_is_refused_and_told_once, 0, 2);
    tcase_add_test(rest, before_the_first_use_and_after_destroy_hooks_do_nothing);
    tcase_add_test(rest, init_makes_the_default_instance_and_opens_no_device);
    tcase_add_test(rest, init_tells_of_a_bad_configuration);
    tcase_add_loop_test(rest, a_bad_memory_fraction_changes_nothing_and_is_complained_of, 0, 4);
    suite_one_thread(rest);
    suite_add_tcase(suite, rest);
    TCase *threads = suite_case(suite, "threads", api_sim_load, NULL);
    tcase_add_loop_test(threads, a_hundred_thousand_blocks_go_through_the_hooks_from_eight_threads,
                        0, N_API_ALLOCATORS);
    tcase_add_test(threads, memory_that_pends_behind_a_capture_is_found_once_the_capture_ends);
}
