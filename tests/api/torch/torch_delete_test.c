/* torch_delete_test.c - frees that name only an address. */
/* labels: unit stress */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "api/adapters/pleat_torch.h"
#include "api/instance/instance.h"
#include "tests/support/api/api_torch.h"
#include "tests/support/suite.h"

enum { MIB = 1 << 20 };

static uint64_t n_live(pleat instance, int device)
{
    return api_stats(instance, device).allocation[PLEAT_SIZES_ALL].current;
}

START_TEST(a_block_of_any_device_and_stream_is_freed_in_its_own_streams_order)
{
    const size_t sizes[] = { 700, 100000, 5 * MIB };
    pleat instance = api_torch_make(_i, "capacity:256M,devices:2", "");
    for (int i = 0; i < 6; i++) {
        int device = i % 2;
        void *stream = api_stream(instance, device);
        void *ptr = pleat_torch_malloc(sizes[i / 2], device, stream);
        pleat_torch_delete(ptr);
        ck_assert_uint_eq(n_live(instance, device), 0);
        /* No wait happens: the stream has the memory again, with any work unfinished. */
        uint64_t resident = api_stats(instance, device).resident_bytes;
        pleat_torch_delete(pleat_torch_malloc(sizes[i / 2], device, stream));
        ck_assert_uint_eq(api_stats(instance, device).resident_bytes, resident);
        ck_assert_uint_eq(api_stats(instance, device).host_syncs, 0);
        api_stream_end(instance, device, stream);
    }
    pleat_torch_delete(NULL);
    api_unmake(instance);
}
END_TEST

START_TEST(what_is_no_block_is_complained_of_and_ignored)
{
    char said[2048];
    pleat instance = api_torch_make(_i, "capacity:64M", "");
    void *ptr = pleat_torch_malloc(MIB, 0, NULL);
    api_torch_listen();
    pleat_torch_delete((void *)0xdead00);
    pleat_torch_delete((char *)ptr + 512);
    api_torch_heard(said, sizeof said);
    ck_assert_ptr_nonnull(strstr(said, "pleat: a free is ignored: "));
    ck_assert_uint_eq(n_live(instance, 0), 1);
    pleat_torch_delete(ptr);
    api_torch_listen();
    pleat_torch_delete(ptr);
    api_torch_heard(said, sizeof said);
    ck_assert_uint_eq(n_live(instance, 0), 0);
    api_unmake(instance);
}
END_TEST

START_TEST(a_block_outlives_its_stream)
{
    char said[512];
    pleat instance = api_torch_make(_i, "capacity:64M", "");
    void *stream = api_stream(instance, 0);
    void *ptr = pleat_torch_malloc(40 * MIB, 0, stream);
    api_torch_work(instance, 0, stream, ptr, 40 * MIB);
    api_stream_end(instance, 0, stream);
    api_torch_listen();
    pleat_torch_delete(ptr);
    api_torch_heard(said, sizeof said);
    ck_assert_str_eq(said, "");
    ck_assert_uint_eq(n_live(instance, 0), 0);
    api_unmake(instance);
}
END_TEST

/* Handles are trusted, except handles of streams that torch did not create. Such a stream is
 * destroyed silently while a block of it lives. The next request needs that block. */
START_TEST(a_doubted_streams_handle_is_not_used_after_its_end)
{
    pleat instance = api_torch_make(API_PLEAT, "capacity:64M,depth:1048576",
                                    "stream_identity:handle,capture:told");
    void *other = api_stream(instance, 0);
    pleat_torch_delete(pleat_torch_malloc(MIB, 0, other));
    void *stream = api_stream(instance, 0);
    pleat_torch_doubt_stream(0, stream);
    void *many[200];
    for (int i = 0; i < 200; i++) {
        many[i] = pleat_torch_malloc(5000, 0, stream);
    }
    api_stream_end(instance, 0, stream);
    for (int i = 0; i < 200; i++) { /* first every second block, with live blocks between them */
        pleat_torch_delete(many[i < 100 ? 2 * i : 2 * i - 199]);
    }
    stream = api_stream(instance, 0);
    pleat_torch_doubt_stream(0, stream);
    void *ptr = pleat_torch_malloc(40 * MIB, 0, stream);
    pleat_torch_doubt_stream(0, stream);
    pleat_torch_delete(pleat_torch_malloc(MIB, 0, stream));
    api_torch_work(instance, 0, stream, ptr, 40 * MIB);
    api_stream_end(instance, 0, stream);
    pleat_torch_delete(ptr);
    for (int i = 0; i < 3; i++) {
        void *next = pleat_torch_malloc(50 * MIB, 0, other);
        ck_assert_ptr_nonnull(next);
        api_torch_work(instance, 0, other, next, 50 * MIB);
        pleat_torch_delete(next);
    }
    api_stream_end(instance, 0, other);
    api_unmake(instance);
}
END_TEST

START_TEST(a_recorded_use_is_waited_for)
{
    pleat instance = api_torch_make(API_PLEAT, "capacity:64M", "");
    void *stream = api_stream(instance, 0);
    void *other = api_stream(instance, 0);
    void *ptr = pleat_torch_malloc(3 * MIB, 0, stream);
    pleat_torch_record_stream(ptr, other);
    api_torch_work(instance, 0, other, ptr, 3 * MIB);
    pleat_torch_delete(ptr);
    void *next = pleat_torch_malloc(3 * MIB, 0, stream);
    ck_assert_ptr_ne(next, ptr);
    pleat_torch_delete(next);
    api_stream_end(instance, 0, stream);
    api_stream_end(instance, 0, other);
    api_unmake(instance);
}
END_TEST

enum { N_THREADS = 4, N_KEPT = 64, N_ROUNDS = 5000 };

static void *shared[N_KEPT];

/* Swap a new block into a place, and free the found block, often another thread's. */
static void *exchange(void *context)
{
    unsigned seed = (unsigned)(uintptr_t)context;
    for (int i = 0; i < N_ROUNDS; i++) {
        size_t bytes = (size_t)rand_r(&seed) % 40000 + 1;
        void *mine = pleat_torch_malloc(bytes, (int)(seed % 2), NULL);
        void *found = __atomic_exchange_n(&shared[rand_r(&seed) % N_KEPT], mine, __ATOMIC_ACQ_REL);
        pleat_torch_delete(found);
    }
    return NULL;
}

START_TEST(threads_free_each_others_blocks)
{
    pthread_t threads[N_THREADS];
    pleat instance = api_torch_make(_i, "capacity:256M,devices:2", "");
    for (uintptr_t i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, exchange, (void *)(i + 1)), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < N_KEPT; i++) {
        pleat_torch_delete(shared[i]);
    }
    ck_assert_uint_eq(n_live(instance, 0) + n_live(instance, 1), 0);
    api_unmake(instance);
}
END_TEST

SUITE(api_torch_delete)
{
    TCase *tcase = tcase_create("free by address");
    const int n = N_API_ALLOCATORS;
    tcase_add_checked_fixture(tcase, api_sim_load, NULL);
    tcase_add_loop_test(tcase, a_block_of_any_device_and_stream_is_freed_in_its_own_streams_order,
                        0, n);
    tcase_add_loop_test(tcase, what_is_no_block_is_complained_of_and_ignored, 0, n);
    tcase_add_loop_test(tcase, a_block_outlives_its_stream, 0, n);
    tcase_add_test(tcase, a_doubted_streams_handle_is_not_used_after_its_end);
    tcase_add_test(tcase, a_recorded_use_is_waited_for);
    tcase_add_loop_test(tcase, threads_free_each_others_blocks, 0, n);
    suite_add_tcase(suite, tcase);
}
