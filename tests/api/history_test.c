/* history_test.c - the contents of a device's history, and how it is switched on and off. */
/* labels: unit fault stress */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/api/api_history.h"
#include "tests/support/suite.h"

enum { MIB = 1 << 20 };

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* ---- what is recorded ------------------------------------------------------------------------ */

START_TEST(a_blocks_life_is_recorded_in_its_order)
{
    pleat instance = api_make(_i, "capacity:256M", "");
    uint64_t before = now_us();
    history_record(instance, 100, 0);
    void *stream = api_stream(instance, 0);
    pleat_devptr ptr = api_alloc(instance, 0, 1000, stream);
    api_free(instance, 0, ptr, stream);
    uint64_t after = now_us();
    ck_assert_uint_eq(history_copy(instance, 0), 4);
    ck_assert(history_is_gain(&history_entries[0]));
    ck_assert_uint_le(history_entries[0].base, ptr);
    ck_assert_uint_ge(history_entries[0].base + history_entries[0].bytes, ptr + 1000);
    const unsigned actions[] = { PL_ACTION_ALLOC, PL_ACTION_FREE_REQUESTED,
                                 PL_ACTION_FREE_COMPLETED };
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_uint_eq(history_entries[i + 1].action, actions[i]);
        ck_assert_uint_eq(history_entries[i + 1].base, ptr);
        ck_assert_uint_eq(history_entries[i + 1].bytes, 1000);
        ck_assert_ptr_eq(history_entries[i + 1].stream, stream);
    }
    for (unsigned i = 0; i < 4; i++) {
        ck_assert_uint_ge(history_entries[i].time_us,
                          i > 0 ? history_entries[i - 1].time_us : before);
        ck_assert_uint_le(history_entries[i].time_us, after);
        ck_assert_uint_eq(history_entries[i].frames, 0);
        ck_assert_uint_eq(history_entries[i].pool, 0);
    }
    ck_assert_uint_eq(pl_history_n_told(history_of(instance, 0)), 4);
    api_stream_end(instance, 0, stream);
    api_unmake(instance);
}
END_TEST

START_TEST(a_free_is_completed_when_other_streams_are_done)
{
    pleat instance = api_make(_i, "capacity:256M,depth:1000", "");
    history_record(instance, 100, 0);
    void *other = api_stream(instance, 0);
    pleat_devptr ptr = api_alloc(instance, 0, MIB, NULL);
    pleat_sim_access access = { .ptr = ptr, .bytes = MIB, .is_write = 1 };
    ck_assert_int_eq(sim.work(other, &access, 1), 0);
    ck_assert_int_eq(pleat_block_record_stream(instance, 0, ptr, other), PLEAT_OK);
    api_free(instance, 0, ptr, NULL);
    size_t n = history_copy(instance, 0);
    ck_assert_uint_eq(history_entries[n - 1].action, PL_ACTION_FREE_REQUESTED);
    sim.finish();
    uint64_t released;
    ck_assert_int_eq(pleat_device_trim(instance, 0, 0, true, &released), PLEAT_OK);
    ck_assert_uint_eq(api_stats(instance, 0).resident_bytes, 0);
    n = history_copy(instance, 0);
    const pl_history_entry *completed = history_find(n, PL_ACTION_FREE_COMPLETED, 0);
    ck_assert_ptr_nonnull(completed);
    ck_assert_uint_eq(completed->base, ptr);
    ck_assert_uint_eq(completed->bytes, MIB);
    ck_assert(history_entries[n - 1].action == PL_ACTION_SEGMENT_FREE ||
              history_entries[n - 1].action == PL_ACTION_SEGMENT_UNMAP);
    api_stream_end(instance, 0, other);
    api_unmake(instance);
}
END_TEST

START_TEST(a_request_that_fails_leaves_an_entry_of_its_own)
{
    pleat instance = api_make(_i, "capacity:64M", "");
    history_record(instance, 100, 0);
    pleat_devptr ptr = api_alloc(instance, 0, 30 * MIB, NULL);
    pleat_devptr none;
    uint64_t free_bytes;
    uint64_t total_bytes;
    ck_assert_int_eq(pleat_block_alloc(instance, 0, 100 * MIB + 7, NULL, &none),
                     PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(pleat_device_memory_info(instance, 0, &free_bytes, &total_bytes), PLEAT_OK);
    const pl_history_entry *last = &history_entries[history_copy(instance, 0) - 1];
    ck_assert_uint_eq(last->action, PL_HISTORY_OOM);
    ck_assert_uint_eq(last->bytes, 100 * MIB + 7);
    ck_assert_uint_eq(last->base, free_bytes);
    ck_assert_uint_lt(free_bytes, 64 * MIB);
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

START_TEST(a_snapshot_leaves_an_entry_of_its_own)
{
    pleat instance = api_make(_i, "capacity:64M", "");
    pl_history_tell_snapshot(history_of(instance, 0), 1);
    ck_assert_uint_eq(history_copy(instance, 0), 0);
    history_record(instance, 100, 0);
    pl_history_tell_snapshot(history_of(instance, 0), 12345);
    ck_assert_uint_eq(history_copy(instance, 0), 1);
    ck_assert_uint_eq(history_entries[0].action, PL_HISTORY_SNAPSHOT);
    ck_assert_uint_eq(history_entries[0].base, 0);
    ck_assert_uint_eq(history_entries[0].bytes, 12345);
    api_unmake(instance);
}
END_TEST

/* ---- the ring -------------------------------------------------------------------------------- */

/* Make `n` entries with rising numbers. */
static void number(pleat instance, uint64_t first, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        pl_history_tell_snapshot(history_of(instance, 0), first + i);
    }
}

static void check_numbers(pleat instance, uint64_t first, size_t n)
{
    ck_assert_uint_eq(history_copy(instance, 0), n);
    for (size_t i = 0; i < n; i++) {
        ck_assert_uint_eq(history_entries[i].bytes, first + i);
    }
}

START_TEST(the_oldest_entries_are_overwritten)
{
    pleat instance = api_make(API_TORCH, "capacity:64M", "");
    history_record(instance, 4, 0);
    number(instance, 1, 3);
    check_numbers(instance, 1, 3);
    number(instance, 4, 2);
    check_numbers(instance, 2, 4);
    number(instance, 6, 1001);
    check_numbers(instance, 1003, 4);
    ck_assert_uint_eq(pl_history_n_told(history_of(instance, 0)), 1006);
    memset(history_entries, 0, sizeof history_entries);
    ck_assert_uint_eq(pl_history_copy(history_of(instance, 0), history_entries, 3, NULL), 4);
    ck_assert_uint_eq(history_entries[0].bytes, 1004);
    ck_assert_uint_eq(history_entries[2].bytes, 1006);
    ck_assert_uint_eq(history_entries[3].bytes, 0);
    ck_assert_uint_eq(pl_history_copy(history_of(instance, 0), NULL, 0, NULL), 4);
    api_unmake(instance);
}
END_TEST

START_TEST(recording_anew_empties_the_ring_unless_it_is_kept)
{
    pleat instance = api_make(API_TORCH, "capacity:64M", "");
    history_record(instance, 4, 0);
    number(instance, 1, 6);
    history_record(instance, 4, PLEAT_HISTORY_KEEP);
    check_numbers(instance, 3, 4);
    history_record(instance, 8, PLEAT_HISTORY_KEEP);
    check_numbers(instance, 3, 4);
    number(instance, 7, 5);
    check_numbers(instance, 4, 8);
    history_record(instance, 3, PLEAT_HISTORY_KEEP);
    check_numbers(instance, 9, 3);
    number(instance, 12, 1);
    check_numbers(instance, 10, 3);
    history_record(instance, 3, 0);
    check_numbers(instance, 0, 0);
    api_unmake(instance);
}
END_TEST

START_TEST(what_was_recorded_stays_when_recording_stops)
{
    pleat instance = api_make(API_TORCH, "capacity:64M", "");
    history_record(instance, 4, PLEAT_HISTORY_FRAMES);
    number(instance, 1, 2);
    history_record(instance, 0, 0);
    number(instance, 3, 1);
    api_free(instance, 0, api_alloc(instance, 0, MIB, NULL), NULL);
    check_numbers(instance, 1, 2);
    history_record(instance, 4, PLEAT_HISTORY_KEEP);
    number(instance, 3, 1);
    check_numbers(instance, 1, 3);
    api_unmake(instance);
}
END_TEST

START_TEST(a_ring_and_its_stacks_count_as_metadata)
{
    pleat instance = api_make(API_TORCH, "capacity:64M", "");
    api_free(instance, 0, api_alloc(instance, 0, MIB, NULL), NULL);
    uint64_t before = api_stats(instance, 0).metadata_bytes;
    history_record(instance, 10000, PLEAT_HISTORY_FRAMES);
    uint64_t with_ring = api_stats(instance, 0).metadata_bytes;
    ck_assert_uint_ge(with_ring, before + 10000 * sizeof(pl_history_entry));
    api_free(instance, 0, api_alloc(instance, 0, MIB, NULL), NULL);
    ck_assert_uint_gt(api_stats(instance, 0).metadata_bytes, with_ring);
    api_unmake(instance);
}
END_TEST

/* ---- switching ------------------------------------------------------------------------------- */

START_TEST(the_configuration_records_from_the_first_use_on)
{
    pleat instance = api_make(_i, "capacity:64M", "history:50,history_frames:all");
    history_call_by_name(instance, 1);
    size_t n = history_copy(instance, 0);
    ck_assert_uint_eq(n, 4);
    ck_assert_uint_ne(history_find(n, PL_ACTION_ALLOC, 0)->frames, 0);
    ck_assert_uint_ne(history_find(n, PL_ACTION_FREE_REQUESTED, 0)->frames, 0);
    api_unmake(instance);
}
END_TEST

START_TEST(nothing_is_recorded_unless_it_is_asked_for)
{
    pleat instance = api_make(_i, "capacity:64M", "history_frames:all");
    history_call_by_name(instance, 1);
    ck_assert_uint_eq(history_copy(instance, 0), 0);
    api_unmake(instance);
}
END_TEST

START_TEST(its_keys_are_strict_and_can_be_read_back)
{
    static const char *const good[] = { "history:0,history_frames:none", "history:7",
                                        "history:268435456,history_frames:alloc" };
    static const char *const bad[] = { "history:-1", "history:1k",      "history:268435457",
                                       "history:",   "history_frames:", "history_frames:True" };
    pleat instance;
    char conf[4096];
    size_t needed;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_int_eq(pleat_create(bad[i], &instance), PLEAT_ECONF);
        api_expect(PLEAT_ECONF, i < 4 ? "'history'" : "'history_frames'",
                   i < 4 ? "from 0 to 268435456" : "none, alloc, all");
    }
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        ck_assert_int_eq(pleat_create(good[i], &instance), PLEAT_OK);
        ck_assert_int_eq(pleat_instance_conf(instance, conf, sizeof conf, &needed), PLEAT_OK);
        ck_assert_msg(strstr(conf, good[i]) != NULL, "no %s in %s", good[i], conf);
        ck_assert_int_eq(pleat_destroy(instance, 0), PLEAT_OK);
    }
}
END_TEST

START_TEST(devices_opened_later_record_too)
{
    pleat instance = api_make(API_TORCH, "devices:3,capacity:64M", "");
    api_free(instance, 0, api_alloc(instance, 0, MIB, NULL), NULL);
    history_record(instance, 10, 0);
    api_free(instance, 0, api_alloc(instance, 0, MIB, NULL), NULL);
    api_free(instance, 1, api_alloc(instance, 1, MIB, NULL), NULL);
    ck_assert_uint_eq(history_copy(instance, 0), 3); /* the segment is older than the history */
    ck_assert_uint_eq(history_copy(instance, 1), 4);
    history_record(instance, 0, 0);
    api_free(instance, 2, api_alloc(instance, 2, MIB, NULL), NULL);
    ck_assert_uint_eq(history_copy(instance, 2), 0);
    api_unmake(instance);
}
END_TEST

START_TEST(bad_requests_are_refused_and_change_nothing)
{
    pleat instance = api_make(API_TORCH, "capacity:64M", "");
    history_record(instance, 4, 0);
    number(instance, 1, 2);
    ck_assert_int_eq(pleat_history_record(instance, 4, 8), PLEAT_EINVAL);
    api_expect(PLEAT_EINVAL, "flags", "0x8");
    ck_assert_int_eq(pleat_history_record(instance, ((size_t)1 << 28) + 1, 0), PLEAT_EINVAL);
    api_expect(PLEAT_EINVAL, "268435457", "268435456");
    number(instance, 3, 1);
    check_numbers(instance, 1, 3);
    api_unmake(instance);
    ck_assert_int_eq(pleat_history_record(instance, 4, 0), PLEAT_EGONE);
}
END_TEST

START_TEST(without_host_memory_everything_stays_as_it_was)
{
    pleat instance = api_make(API_TORCH, "devices:3,capacity:64M", "");
    api_free(instance, 0, api_alloc(instance, 0, MIB, NULL), NULL);
    api_free(instance, 1, api_alloc(instance, 1, MIB, NULL), NULL);
    history_record(instance, 4, 0);
    number(instance, 1, 2);
    for (uint64_t k = 0;; k++) {
        pl_meta_fail_at(k);
        pleat_status st = pleat_history_record(instance, 9, PLEAT_HISTORY_FRAMES);
        pl_meta_fail_never();
        if (st == PLEAT_OK) {
            ck_assert_uint_eq(k, 2); /* a ring for each of two devices */
            break;
        }
        ck_assert_int_eq(st, PLEAT_ENOMEM_HOST);
        api_expect(PLEAT_ENOMEM_HOST, "9 entries");
        check_numbers(instance, 1, 2);
    }
    bool is_opened = false;
    for (uint64_t k = 0; !is_opened; k++) {
        pleat_devptr ptr = 0;
        pl_meta_fail_at(k);
        pleat_status st = pleat_block_alloc(instance, 2, MIB, NULL, &ptr);
        pl_meta_fail_never();
        is_opened = st == PLEAT_OK;
        if (is_opened) {
            api_free(instance, 2, ptr, NULL);
        }
    }
    ck_assert_uint_ge(history_copy(instance, 2), 4);
    api_unmake(instance);
}
END_TEST

START_TEST(a_forked_child_cannot_record)
{
    pleat instance = api_make(API_TORCH, "capacity:64M", "history:50");
    api_free(instance, 0, api_alloc(instance, 0, MIB, NULL), NULL);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        pleat_devptr ptr;
        bool is_refused = pleat_history_record(instance, 4, 0) == PLEAT_EFORKED &&
                          pleat_block_alloc(instance, 0, 1, NULL, &ptr) == PLEAT_EFORKED;
        _exit(is_refused ? 42 : 1);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 42);
    ck_assert_uint_eq(history_copy(instance, 0), 4);
    api_unmake(instance);
}
END_TEST

START_TEST(destroying_with_live_blocks_and_a_history_leaves_nothing)
{
    pleat instance = api_make(_i, "capacity:64M", "history:50,history_frames:alloc");
    api_alloc(instance, 0, MIB, NULL);
    ck_assert_int_eq(pleat_destroy(instance, PLEAT_DESTROY_FORCE), PLEAT_OK);
    api_sim_check_empty();
}
END_TEST

/* ---- threads --------------------------------------------------------------------------------- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { N_TURNS = 300 };
#else
enum { N_TURNS = 5000 };
#endif
enum { N_THREADS = 8, N_SWITCHES = 200 };

static pleat shared;
static atomic_uint n_wrong;
static atomic_uint n_working;

static void *allocate(void *argument)
{
    (void)argument;
    for (unsigned i = 0; i < N_TURNS; i++) {
        pleat_devptr ptr = 0;
        n_wrong += pleat_block_alloc(shared, 0, 1 + i * 977 % 100000, NULL, &ptr) != PLEAT_OK;
        n_wrong += pleat_block_free(shared, 0, ptr, NULL) != PLEAT_OK;
    }
    n_working--;
    return NULL;
}

static void *change(void *argument)
{
    (void)argument;
    for (unsigned i = 0; i < N_SWITCHES || n_working > 0; i++) {
        size_t n = i % 3 == 0 ? 0 : 50 + i % 7;
        n_wrong += pleat_history_record(shared, n, i % 8) != PLEAT_OK;
    }
    return NULL;
}

static void *look(void *argument)
{
    pl_history *history = argument;
    while (n_working > 0) {
        pl_history_entry seen[64];
        void *stack[PL_HISTORY_DEPTH];
        size_t n = pl_history_copy(history, seen, 64, NULL);
        n = n < 64 ? n : 64;
        for (size_t i = 0; i < n; i++) {
            (void)pl_history_stack(history, seen[i].frames, stack);
            n_wrong += seen[i].action >= PL_N_HISTORY_ACTIONS || seen[i].bytes == 0;
        }
        n_wrong += pl_history_host_bytes(history) > 32 * MIB;
    }
    return NULL;
}

START_TEST(it_can_be_switched_while_threads_allocate)
{
    pthread_t threads[N_THREADS + 2];
    shared = api_make(_i, "capacity:256M", "");
    n_working = N_THREADS;
    pl_history *history = history_of(shared, 0);
    for (unsigned i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, allocate, NULL), 0);
    }
    ck_assert_int_eq(pthread_create(&threads[N_THREADS], NULL, change, NULL), 0);
    ck_assert_int_eq(pthread_create(&threads[N_THREADS + 1], NULL, look, history), 0);
    for (unsigned i = 0; i < N_THREADS + 2; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    ck_assert_uint_eq(n_wrong, 0);
    api_check(shared);
    api_unmake(shared);
}
END_TEST

/* ---- private pools --------------------------------------------------------------------------- */

START_TEST(pools_keep_their_names_when_their_pointers_come_again)
{
    int a;
    int b;
    pleat instance = api_make(API_TORCH, "capacity:64M", "history:4");
    pl_history *history = history_of(instance, 0);
    pleat_pool_id first = { 0, 7 };
    pleat_pool_id second = { 3, 0 };
    ck_assert_uint_eq(pl_history_pool_index(history, &a), 0);
    ck_assert_int_eq(pl_history_name_pool(history, &a, first), PLEAT_OK);
    ck_assert_int_eq(pl_history_name_pool(history, &b, second), PLEAT_OK);
    unsigned index = pl_history_pool_index(history, &a);
    ck_assert_uint_eq(pl_history_pool_id(history, index).second, 7);
    pl_event event = { .action = PL_ACTION_ALLOC, .base = 512, .bytes = 1, .private_in = &a };
    history->observer.tell(&history->observer, &event);
    pl_history_forget_pool(history, &a);
    ck_assert_uint_eq(pl_history_pool_index(history, &a), 0);
    ck_assert_int_eq(pl_history_name_pool(history, &a, second), PLEAT_OK);
    history->observer.tell(&history->observer, &event);
    ck_assert_uint_eq(history_copy(instance, 0), 2);
    ck_assert_uint_eq(pl_history_pool_id(history, history_entries[0].pool).second, 7);
    ck_assert_uint_eq(pl_history_pool_id(history, history_entries[1].pool).first, 3);
    ck_assert_uint_eq(pl_history_pool_id(history, 0).first, 0);
    ck_assert_uint_eq(pl_history_pool_id(history, 99).second, 0);
    api_unmake(instance);
}
END_TEST

START_TEST(entries_of_a_private_pool_name_it)
{
    pleat instance = api_make(API_PLEAT, "capacity:64M", "history:100");
    pl_history *history = history_of(instance, 0);
    pleat_pool_id id = { 5, 6 };
    pleat_devptr none;
    pleat_devptr outside = api_alloc(instance, 0, MIB, NULL);
    ck_assert_int_eq(pleat_pool_begin(instance, 0, id, NULL, NULL, NULL), PLEAT_OK);
    pleat_devptr ptr = api_alloc(instance, 0, 1000, NULL);
    ck_assert_int_eq(pleat_block_alloc(instance, 0, 100 * MIB, NULL, &none), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(pleat_pool_end(instance, 0, id), PLEAT_OK);
    api_free(instance, 0, ptr, NULL);
    size_t n = history_copy(instance, 0);
    ck_assert_uint_eq(history_find(n, PL_ACTION_SEGMENT_MAP, 0)->pool, 0);
    ck_assert_uint_eq(history_find(n, PL_ACTION_ALLOC, 0)->pool, 0);
    const pl_history_entry *in_pool[] = { history_find(n, PL_ACTION_SEGMENT_MAP, 1),
                                          history_find(n, PL_ACTION_ALLOC, 1),
                                          history_find(n, PL_HISTORY_OOM, 0),
                                          history_find(n, PL_ACTION_FREE_REQUESTED, 0),
                                          history_find(n, PL_ACTION_FREE_COMPLETED, 0) };
    ck_assert_int_eq(pleat_pool_release(instance, 0, id), PLEAT_OK);
    for (size_t i = 0; i < sizeof in_pool / sizeof in_pool[0]; i++) {
        ck_assert_ptr_nonnull(in_pool[i]);
        ck_assert_uint_eq(pl_history_pool_id(history, in_pool[i]->pool).first, 5);
        ck_assert_uint_eq(pl_history_pool_id(history, in_pool[i]->pool).second, 6);
    }
    api_free(instance, 0, outside, NULL);
    api_unmake(instance);
}
END_TEST

START_TEST(pools_come_and_go_without_end)
{
    int kept;
    pleat instance = api_make(API_TORCH, "capacity:64M", "history:4");
    pl_history *history = history_of(instance, 0);
    ck_assert_int_eq(pl_history_name_pool(history, &kept, (pleat_pool_id){ 9, 9 }), PLEAT_OK);
    static char pointers[70000];
    for (uint64_t i = 0; i < sizeof pointers; i++) {
        ck_assert_int_eq(pl_history_name_pool(history, &pointers[i], (pleat_pool_id){ 1, i }),
                         PLEAT_OK);
        unsigned index = pl_history_pool_index(history, &pointers[i]);
        ck_assert_uint_eq(pl_history_pool_id(history, index).second, i);
        pl_history_forget_pool(history, &pointers[i]);
    }
    ck_assert_uint_eq(pl_history_pool_id(history, pl_history_pool_index(history, &kept)).first, 9);
    api_unmake(instance);
}
END_TEST

static TCase *add_case(Suite *suite, const char *name)
{
    TCase *tcase = tcase_create(name);
    tcase_add_checked_fixture(tcase, api_sim_load, NULL);
    suite_add_tcase(suite, tcase);
    return tcase;
}

static void add_each_allocator(Suite *suite)
{
    TCase *each = add_case(suite, "each allocator");
    const int n = N_API_ALLOCATORS;
    tcase_add_loop_test(each, a_blocks_life_is_recorded_in_its_order, 0, n);
    tcase_add_loop_test(each, a_free_is_completed_when_other_streams_are_done, 0, n);
    tcase_add_loop_test(each, a_request_that_fails_leaves_an_entry_of_its_own, 0, n);
    tcase_add_loop_test(each, a_snapshot_leaves_an_entry_of_its_own, 0, n);
    tcase_add_loop_test(each, the_configuration_records_from_the_first_use_on, 0, n);
    tcase_add_loop_test(each, nothing_is_recorded_unless_it_is_asked_for, 0, n);
    tcase_add_loop_test(each, destroying_with_live_blocks_and_a_history_leaves_nothing, 0, n);
    tcase_add_loop_test(each, it_can_be_switched_while_threads_allocate, 0, n);
}

SUITE(api_history)
{
    add_each_allocator(suite);
    TCase *ring = add_case(suite, "ring");
    tcase_add_test(ring, the_oldest_entries_are_overwritten);
    tcase_add_test(ring, recording_anew_empties_the_ring_unless_it_is_kept);
    tcase_add_test(ring, what_was_recorded_stays_when_recording_stops);
    tcase_add_test(ring, a_ring_and_its_stacks_count_as_metadata);
    TCase *switching = add_case(suite, "switching");
    tcase_add_test(switching, its_keys_are_strict_and_can_be_read_back);
    tcase_add_test(switching, devices_opened_later_record_too);
    tcase_add_test(switching, bad_requests_are_refused_and_change_nothing);
    tcase_add_test(switching, without_host_memory_everything_stays_as_it_was);
    tcase_add_test(switching, a_forked_child_cannot_record);
    TCase *pools = add_case(suite, "private pools");
    tcase_add_test(pools, pools_keep_their_names_when_their_pointers_come_again);
    tcase_add_test(pools, entries_of_a_private_pool_name_it);
    tcase_add_test(pools, pools_come_and_go_without_end);
}
