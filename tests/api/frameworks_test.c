/* frameworks_test.c - CuPy's, Numba's, ONNX Runtime's and RMM's callbacks. */
/* labels: unit stress */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/adapters/pleat_frameworks.h"
#include "api/calls/internal.h"
#include "tests/support/api/api_torch.h"
#include "tests/support/suite.h"

enum { MIB = 1 << 20 };

static const char two_devices[] = "capacity:256M,devices:2,depth:4096";

static pleat_block_info look_up(pleat instance, int device, void *ptr)
{
    pleat_block_info info;
    pleat_status st = pleat_block_query(instance, device, (pleat_devptr)(uintptr_t)ptr, &info);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
    return info;
}

static uint64_t n_live(pleat instance, int device)
{
    return api_stats(instance, device).allocation[PLEAT_SIZES_ALL].current;
}

/* Make the device current for this thread, as a host's cudaSetDevice does. */
static void enter(pleat instance, int device)
{
    pl_device *dev = pleat_internal_device(instance, device);
    ck_assert_ptr_nonnull(dev);
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
}

static void leave(pleat instance, int device)
{
    pl_device_leave(pleat_internal_device(instance, device));
}

static void set_stream(int device, void *stream)
{
    ck_assert_int_eq(pleat_set_current_stream(device, stream), PLEAT_OK);
}

/* ---- current streams ---- */

static void *look_at_stream(void *arg)
{
    (void)arg;
    return pleat_current_stream(1);
}

START_TEST(each_thread_has_its_own_current_stream_on_each_device)
{
    void *stream = (void *)0x1230;
    pthread_t other;
    void *seen;
    ck_assert_ptr_null(pleat_current_stream(1));
    set_stream(1, stream);
    ck_assert_ptr_eq(pleat_current_stream(1), stream);
    ck_assert_ptr_null(pleat_current_stream(0));
    ck_assert_int_eq(pthread_create(&other, NULL, look_at_stream, NULL), 0);
    ck_assert_int_eq(pthread_join(other, &seen), 0);
    ck_assert_ptr_null(seen);
    set_stream(1, NULL);
    ck_assert_ptr_null(pleat_current_stream(1));
}
END_TEST

START_TEST(a_device_that_cannot_be_has_no_current_stream)
{
    ck_assert_int_eq(pleat_set_current_stream(-1, (void *)0x1230), PLEAT_EDEVICE);
    api_expect(PLEAT_EDEVICE, "no device -1");
    ck_assert_int_eq(pleat_set_current_stream(64, (void *)0x1230), PLEAT_EDEVICE);
    ck_assert_ptr_null(pleat_current_stream(-1));
    ck_assert_ptr_null(pleat_current_stream(64));
}
END_TEST

/* ---- CuPy ---- */

static intptr_t told[2]; /* the stream that CuPy's function tells, by device */

static intptr_t tell(int device)
{
    return told[device];
}

static void *teller(void)
{
    pleat_cupy_stream_fn fn = tell;
    void *out;
    memcpy(&out, &fn, sizeof out);
    return out;
}

START_TEST(cupys_memory_belongs_to_the_stream_that_its_function_tells)
{
    pleat instance = api_torch_make(_i, two_devices, "");
    for (int device = 0; device < 2; device++) {
        void *stream = api_stream(instance, device);
        told[device] = (intptr_t)stream;
        set_stream(device, (void *)0x1230); /* it must not be asked */
        void *ptr = pleat_cupy_malloc(teller(), 3 * MIB, device);
        ck_assert_ptr_eq(look_up(instance, device, ptr).stream, stream);
        pleat_cupy_free(teller(), ptr, device);
        ck_assert_uint_eq(n_live(instance, device), 0);
        api_stream_end(instance, device, stream);
    }
    api_unmake(instance);
}
END_TEST

START_TEST(where_cupys_function_fails_memory_belongs_to_the_legacy_stream)
{
    pleat instance = api_torch_make(_i, two_devices, "");
    told[1] = -1;
    void *ptr = pleat_cupy_malloc(teller(), MIB, 1);
    ck_assert_ptr_null(look_up(instance, 1, ptr).stream);
    pleat_cupy_free(teller(), ptr, 1);
    ck_assert_uint_eq(n_live(instance, 1), 0);
    api_unmake(instance);
}
END_TEST

START_TEST(without_a_function_cupys_memory_is_on_the_threads_current_stream)
{
    pleat instance = api_torch_make(_i, two_devices, "");
    void *stream = api_stream(instance, 1);
    set_stream(1, stream);
    void *ptr = pleat_cupy_malloc(NULL, MIB, 1);
    ck_assert_ptr_eq(look_up(instance, 1, ptr).stream, stream);
    pleat_cupy_free(NULL, ptr, 1);
    ck_assert_uint_eq(n_live(instance, 1), 0);
    set_stream(1, NULL);
    api_stream_end(instance, 1, stream);
    api_unmake(instance);
}
END_TEST

/* If the second work is not held back, the simulator reports a hazard and api_unmake fails. */
START_TEST(a_free_on_another_stream_is_a_use_of_that_stream)
{
    pleat instance = api_torch_make(_i, "capacity:64M,depth:4096", "");
    void *stream = api_stream(instance, 0);
    void *ptr = pleat_cupy_malloc(NULL, 40 * MIB, 0);
    ck_assert_ptr_null(look_up(instance, 0, ptr).stream);
    api_torch_work(instance, 0, stream, ptr, 40 * MIB);
    set_stream(0, stream);
    pleat_cupy_free(NULL, ptr, 0);
    set_stream(0, NULL);
    ptr = pleat_cupy_malloc(NULL, 40 * MIB, 0);
    ck_assert_msg(ptr != NULL, "%s", pleat_last_error()->text);
    api_torch_work(instance, 0, NULL, ptr, 40 * MIB);
    pleat_cupy_free(NULL, ptr, 0);
    api_stream_end(instance, 0, stream);
    api_unmake(instance);
}
END_TEST

/* ---- hosts that name no device ---- */

typedef struct host {
    void *(*alloc)(size_t bytes);
    void (*free)(void *ptr);
} host;

static void *alloc_rmm(size_t bytes)
{
    return pleat_rmm_alloc(bytes, NULL, NULL);
}

static void free_rmm(void *ptr)
{
    pleat_rmm_dealloc(ptr, 7, NULL, NULL);
}

static const host hosts[] = {
    { pleat_numba_malloc, pleat_numba_free },
    { pleat_ort_alloc, pleat_ort_free },
    { alloc_rmm, free_rmm },
};
enum { N_HOSTS = 3 };

typedef struct errand {
    const host *host;
    void *ptr;
} errand;

static void *free_elsewhere(void *arg)
{
    errand *e = arg;
    e->host->free(e->ptr);
    return NULL;
}

START_TEST(memory_is_on_the_current_device_and_freed_from_anywhere)
{
    const host *it = &hosts[_i];
    pleat instance = api_torch_make(API_PLEAT, two_devices, "");
    for (int device = 1; device >= 0; device--) {
        pthread_t other;
        errand e = { .host = it };
        enter(instance, device);
        void *here = it->alloc(MIB);
        e.ptr = it->alloc(3 * MIB);
        ck_assert_int_eq(look_up(instance, device, here).device, device);
        ck_assert_ptr_nonnull(e.ptr);
        leave(instance, device);
        enter(instance, 1 - device);
        it->free(here);
        leave(instance, 1 - device);
        ck_assert_int_eq(pthread_create(&other, NULL, free_elsewhere, &e), 0);
        ck_assert_int_eq(pthread_join(other, NULL), 0);
        ck_assert_uint_eq(n_live(instance, device), 0);
    }
    api_unmake(instance);
}
END_TEST

START_TEST(without_a_current_device_memory_is_on_device_0)
{
    api_torch_configure(API_PLEAT, two_devices, "");
    void *ptr = hosts[_i].alloc(MIB); /* also the first use of the default instance */
    pleat instance;
    ck_assert_int_eq(pleat_default(&instance), PLEAT_OK);
    ck_assert_int_eq(look_up(instance, 0, ptr).device, 0);
    hosts[_i].free(ptr);
    api_unmake(instance);
}
END_TEST

START_TEST(numba_uses_the_threads_stream_onnx_runtime_the_legacy_one_and_rmm_its_own)
{
    pleat instance = api_torch_make(_i, two_devices, "");
    void *streams[2] = { api_stream(instance, 1), api_stream(instance, 1) };
    enter(instance, 1);
    set_stream(1, streams[0]);
    void *numba = pleat_numba_malloc(MIB);
    void *ort = pleat_ort_alloc(MIB);
    void *rmm = pleat_rmm_alloc(MIB, streams[1], NULL);
    ck_assert_ptr_eq(look_up(instance, 1, numba).stream, streams[0]);
    ck_assert_ptr_null(look_up(instance, 1, ort).stream);
    ck_assert_ptr_eq(look_up(instance, 1, rmm).stream, streams[1]);
    pleat_numba_free(numba);
    pleat_ort_free(ort);
    pleat_rmm_dealloc(rmm, MIB, streams[1], NULL);
    set_stream(1, NULL);
    leave(instance, 1);
    ck_assert_uint_eq(n_live(instance, 1), 0);
    api_stream_end(instance, 1, streams[0]);
    api_stream_end(instance, 1, streams[1]);
    api_unmake(instance);
}
END_TEST

START_TEST(empty_cache_gives_back_what_is_free)
{
    pleat instance = api_torch_make(_i, two_devices, "");
    pleat_ort_free(pleat_ort_alloc(30 * MIB));
    ck_assert_uint_ge(api_stats(instance, 0).reserved_bytes[PLEAT_SIZES_ALL].current, 30 * MIB);
    pleat_ort_empty_cache();
    ck_assert_uint_eq(api_stats(instance, 0).reserved_bytes[PLEAT_SIZES_ALL].current, 0);
    api_unmake(instance);
}
END_TEST

/* ---- null, and requests that are refused ---- */

START_TEST(zero_bytes_are_null_and_null_is_freed_without_a_word)
{
    api_torch_configure(API_PLEAT, two_devices, "");
    ck_assert_ptr_null(pleat_cupy_malloc(teller(), 0, 0));
    pleat_cupy_free(teller(), NULL, 0);
    for (int i = 0; i < N_HOSTS; i++) {
        ck_assert_ptr_null(hosts[i].alloc(0));
        hosts[i].free(NULL);
    }
    ck_assert_int_eq(pleat_last_error()->status, PLEAT_OK);
    ck_assert_uint_eq(api_sim_counts().contexts, 0);
}
END_TEST

START_TEST(what_cannot_be_given_is_null_with_a_reason)
{
    pleat instance = api_torch_make(API_PLEAT, "capacity:64M", "");
    ck_assert_ptr_null(pleat_cupy_malloc(NULL, 65 * MIB, 0));
    api_expect(PLEAT_ENOMEM_DEVICE, "65.00 MiB");
    ck_assert_ptr_null(pleat_cupy_malloc(NULL, MIB, 7));
    api_expect(PLEAT_EDEVICE, "no device 7");
    for (int i = 0; i < N_HOSTS; i++) {
        ck_assert_ptr_null(hosts[i].alloc(65 * MIB));
        api_expect(PLEAT_ENOMEM_DEVICE, "65.00 MiB");
    }
    sim.fail_at("cuCtxGetDevice", 0, 999);
    ck_assert_ptr_null(pleat_ort_alloc(MIB));
    api_expect(PLEAT_EDRIVER, "which device is current");
    ck_assert_str_eq(pleat_last_error()->driver_call, "cuCtxGetDevice");
    ck_assert_uint_eq(n_live(instance, 0), 0);
    api_unmake(instance);
}
END_TEST

START_TEST(what_is_no_block_is_complained_of_once_and_left_alone)
{
    char said[2048];
    pleat instance = api_torch_make(API_PLEAT, two_devices, "");
    void *ptr = pleat_ort_alloc(MIB);
    api_torch_listen();
    for (int i = 0; i < N_HOSTS; i++) {
        hosts[i].free((void *)0xdead00);
        hosts[i].free((char *)ptr + 512);
    }
    pleat_cupy_free(NULL, ptr, 1);
    api_torch_heard(said, sizeof said);
    ck_assert_ptr_nonnull(strstr(said, "pleat: a free is ignored: no live block"));
    ck_assert_ptr_nonnull(strstr(said, "0xdead00"));
    ck_assert_ptr_eq(strchr(said, '\n'), said + strlen(said) - 1);
    ck_assert_uint_eq(n_live(instance, 0), 1);
    pleat_ort_free(ptr);
    api_unmake(instance);
}
END_TEST

START_TEST(a_buffer_that_is_freed_as_a_block_is_named)
{
    char said[2048];
    pleat_devptr buffer;
    pleat instance = api_torch_make(API_PLEAT, two_devices, "");
    ck_assert_int_eq(pleat_buffer_create(instance, 1, MIB, 0, &buffer), PLEAT_OK);
    api_torch_listen();
    hosts[_i].free((void *)(uintptr_t)buffer);
    api_torch_heard(said, sizeof said);
    ck_assert_ptr_nonnull(strstr(said, "lies in the buffer"));
    ck_assert_ptr_nonnull(strstr(said, "pleat_buffer_destroy"));
    ck_assert_ptr_nonnull(strstr(said, "belongs to device 1"));
    ck_assert_int_eq(pleat_buffer_destroy(instance, 1, buffer, NULL), PLEAT_OK);
    api_unmake(instance);
}
END_TEST

START_TEST(a_free_on_a_stream_that_is_no_more_frees_all_the_same)
{
    char said[512];
    pleat instance = api_torch_make(_i, "capacity:64M,depth:4096,dead_handles:error", "");
    void *stream = api_stream(instance, 0);
    void *ptr = pleat_cupy_malloc(NULL, MIB, 0);
    set_stream(0, stream);
    api_stream_end(instance, 0, stream);
    api_torch_listen();
    pleat_cupy_free(NULL, ptr, 0);
    api_torch_heard(said, sizeof said);
    ck_assert_str_eq(said, "");
    ck_assert_uint_eq(n_live(instance, 0), 0);
    api_unmake(instance);
}
END_TEST

/* ---- the end ---- */

enum { N_BLOCKS = N_HOSTS + 1 };

static void alloc_blocks(void *blocks[N_BLOCKS])
{
    for (int i = 0; i < N_BLOCKS; i++) {
        blocks[i] = pleat_ort_alloc(MIB);
        ck_assert_ptr_nonnull(blocks[i]);
    }
}

static void call_everything(void *const blocks[N_BLOCKS])
{
    ck_assert_ptr_null(pleat_cupy_malloc(NULL, 20 * MIB, 0));
    pleat_cupy_free(NULL, blocks[N_HOSTS], 0);
    for (int i = 0; i < N_HOSTS; i++) {
        ck_assert_ptr_null(hosts[i].alloc(20 * MIB));
        hosts[i].free(blocks[i]);
    }
    pleat_ort_empty_cache();
}

START_TEST(after_the_driver_has_shut_down_all_are_silent)
{
    enum { DEINITIALIZED = 4 };
    char said[512];
    pleat instance = api_torch_make(_i, "capacity:64M", "");
    void *blocks[N_BLOCKS];
    alloc_blocks(blocks);
    sim.fail_from(NULL, 0, DEINITIALIZED);
    sim.fail_from("cuCtxGetDevice", 0, DEINITIALIZED);
    sim.fail_from("cuMemGetInfo", 0, DEINITIALIZED);
    api_torch_listen();
    call_everything(blocks);
    api_torch_heard(said, sizeof said);
    ck_assert_str_eq(said, "");
    sim.fail_never();
    ck_assert_int_eq(pleat_destroy(instance, PLEAT_DESTROY_FORCE), PLEAT_OK);
}
END_TEST

START_TEST(in_a_forked_child_all_do_nothing_and_say_nothing)
{
    char said[512];
    pleat instance = api_torch_make(API_PLEAT, "capacity:64M", "");
    void *blocks[N_BLOCKS];
    alloc_blocks(blocks);
    uint64_t n_calls = api_sim_counts().calls;
    api_torch_listen();
    pid_t child = fork();
    if (child == 0) {
        call_everything(blocks);
        exit(pleat_last_error()->status == PLEAT_EFORKED ? 42 : 1);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    api_torch_heard(said, sizeof said);
    ck_assert_str_eq(said, "");
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 42);
    ck_assert_uint_eq(api_sim_counts().calls, n_calls);
    ck_assert_uint_eq(n_live(instance, 0), N_BLOCKS);
    for (int i = 0; i < N_BLOCKS; i++) {
        pleat_ort_free(blocks[i]);
    }
    api_unmake(instance);
}
END_TEST

START_TEST(frees_before_the_first_use_and_after_destroy_do_nothing)
{
    char said[512];
    api_torch_configure(API_PLEAT, "capacity:64M", "");
    api_torch_listen();
    for (int i = 0; i < N_HOSTS; i++) {
        hosts[i].free((void *)0x100000);
    }
    pleat_ort_empty_cache();
    ck_assert_uint_eq(api_sim_counts().contexts, 0);
    void *ptr = pleat_ort_alloc(MIB);
    pleat instance;
    ck_assert_int_eq(pleat_default(&instance), PLEAT_OK);
    ck_assert_int_eq(pleat_destroy(instance, PLEAT_DESTROY_FORCE), PLEAT_OK);
    for (int i = 0; i < N_HOSTS; i++) {
        hosts[i].free(ptr);
    }
    api_torch_heard(said, sizeof said);
    ck_assert_str_eq(said, "");
}
END_TEST

/* ---- threads ---- */

enum { N_THREADS = 8, N_EACH = 5000, N_HELD = 32 };

typedef struct worker {
    pthread_t thread;
    pleat instance;
    int number;
    void *stream; /* of device `number % 2` */
    bool has_failed;
} worker;

/* Every thread plays all hosts in turn on one device. Each block is freed through a different
 * host's callback, since any host may free any block. */
static void *play_hosts(void *arg)
{
    worker *w = arg;
    int device = w->number % 2;
    void *held[N_HELD] = { NULL };
    pl_device *dev = pleat_internal_device(w->instance, device);
    if (!dev || pl_device_enter(dev) != PLEAT_OK ||
        pleat_set_current_stream(device, w->stream) != PLEAT_OK) {
        w->has_failed = true;
        return NULL;
    }
    for (int i = 0; i < N_EACH; i++) {
        size_t bytes = (size_t)(i * 7919 + w->number * 104729) % 300000 + 1;
        void **slot = &held[i % N_HELD];
        hosts[(i + 1) % N_HOSTS].free(*slot);
        *slot = i % 4 == 3 ? pleat_cupy_malloc(NULL, bytes, device)
                           : hosts[i % N_HOSTS].alloc(bytes);
        w->has_failed = w->has_failed || !*slot;
    }
    for (int i = 0; i < N_HELD; i++) {
        pleat_cupy_free(NULL, held[i], device);
    }
    pl_device_leave(dev);
    return NULL;
}

START_TEST(many_threads_share_the_devices_under_all_hosts)
{
    pleat instance = api_torch_make(_i, "capacity:1G,devices:2", "");
    worker workers[N_THREADS];
    char said[512];
    api_torch_listen();
    for (int i = 0; i < N_THREADS; i++) {
        void *stream = i < 2 ? NULL : api_stream(instance, i % 2);
        workers[i] = (worker){ .instance = instance, .number = i, .stream = stream };
        ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, play_hosts, &workers[i]), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_join(workers[i].thread, NULL), 0);
    }
    api_torch_heard(said, sizeof said);
    ck_assert_str_eq(said, "");
    api_check(instance);
    for (int device = 0; device < 2; device++) {
        ck_assert_uint_eq(n_live(instance, device), 0);
        ck_assert_uint_eq(api_stats(instance, device).allocation[PLEAT_SIZES_ALL].allocated,
                          N_THREADS / 2 * N_EACH);
    }
    for (int i = 0; i < N_THREADS; i++) {
        ck_assert(!workers[i].has_failed);
        if (workers[i].stream) {
            api_stream_end(instance, i % 2, workers[i].stream);
        }
    }
    api_unmake(instance);
}
END_TEST

/* ---- the suite ---- */

static void add_cases_of_cupy(Suite *suite)
{
    TCase *cupy = tcase_create("cupy");
    tcase_add_checked_fixture(cupy, api_sim_load, api_sim_check_empty);
    tcase_add_test(cupy, each_thread_has_its_own_current_stream_on_each_device);
    tcase_add_test(cupy, a_device_that_cannot_be_has_no_current_stream);
    tcase_add_loop_test(cupy, cupys_memory_belongs_to_the_stream_that_its_function_tells, 0,
                        N_API_ALLOCATORS);
    tcase_add_loop_test(cupy, where_cupys_function_fails_memory_belongs_to_the_legacy_stream, 0,
                        N_API_ALLOCATORS);
    tcase_add_loop_test(cupy, without_a_function_cupys_memory_is_on_the_threads_current_stream, 0,
                        N_API_ALLOCATORS);
    tcase_add_loop_test(cupy, a_free_on_another_stream_is_a_use_of_that_stream, 0,
                        N_API_ALLOCATORS);
    suite_add_tcase(suite, cupy);
}

SUITE(api_frameworks)
{
    add_cases_of_cupy(suite);
    TCase *device = tcase_create("current device");
    tcase_add_checked_fixture(device, api_sim_load, api_sim_check_empty);
    tcase_add_loop_test(device, memory_is_on_the_current_device_and_freed_from_anywhere, 0,
                        N_HOSTS);
    tcase_add_loop_test(device, without_a_current_device_memory_is_on_device_0, 0, N_HOSTS);
    tcase_add_loop_test(device,
                        numba_uses_the_threads_stream_onnx_runtime_the_legacy_one_and_rmm_its_own,
                        0, N_API_ALLOCATORS);
    tcase_add_loop_test(device, empty_cache_gives_back_what_is_free, 0, N_API_ALLOCATORS);
    suite_add_tcase(suite, device);
    TCase *wrong = tcase_create("no memory");
    tcase_add_checked_fixture(wrong, api_sim_load, api_sim_check_empty);
    tcase_add_test(wrong, zero_bytes_are_null_and_null_is_freed_without_a_word);
    tcase_add_test(wrong, what_cannot_be_given_is_null_with_a_reason);
    tcase_add_test(wrong, what_is_no_block_is_complained_of_once_and_left_alone);
    tcase_add_loop_test(wrong, a_buffer_that_is_freed_as_a_block_is_named, 0, N_HOSTS);
    tcase_add_loop_test(wrong, a_free_on_a_stream_that_is_no_more_frees_all_the_same, 0,
                        N_API_ALLOCATORS);
    suite_add_tcase(suite, wrong);
    TCase *end = tcase_create("the end");
    tcase_add_checked_fixture(end, api_sim_load, api_sim_check_empty);
    tcase_add_loop_test(end, after_the_driver_has_shut_down_all_are_silent, 0, N_API_ALLOCATORS);
    tcase_add_test(end, in_a_forked_child_all_do_nothing_and_say_nothing);
    tcase_add_test(end, frees_before_the_first_use_and_after_destroy_do_nothing);
    tcase_add_loop_test(end, many_threads_share_the_devices_under_all_hosts, 0, N_API_ALLOCATORS);
    suite_add_tcase(suite, end);
}
