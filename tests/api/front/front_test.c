/* front_test.c - the blocks that threads keep in their fronts. They serve requests, never count as
 * live, and are available to all other threads. */
/* labels: unit */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/calls/internal.h"
#include "api/instance/front.h"
#include "tests/support/api/api_figures.h"
#include "tests/support/api/api_hands.h"
#include "tests/support/api/api_torch.h"
#include "tests/support/suite.h"

enum { KIB = 1 << 10, MIB = 1 << 20, GOOD = 42 };

static const char told[] = "stream_identity:handle,capture:told";

/* A walk behind the lock empties all fronts. */
#if PLEAT_DEBUG_LEVEL >= 2
enum { IS_WALKED = 1 };
#else
enum { IS_WALKED = 0 };
#endif

/* ---- what a thread keeps --------------------------------------------------------------------- */

static void count_kept(void *n)
{
    *(unsigned *)n = 0;
    for (unsigned i = 0; pl_fronts_self && i < PL_FRONTS_OF_THREAD; i++) {
        *(unsigned *)n += atomic_load(&pl_fronts_self->front[i].n_kept);
    }
}

static unsigned kept_by(api_hand *hand)
{
    unsigned n = 0;
    api_hand_do(hand, count_kept, &n);
    return n;
}

/* A kept block is freed twice. A walk may have emptied the front, so the block may be free or
 * merged. */
static void expect_double_free(pleat_status st)
{
    ck_assert_msg(st == PLEAT_EDOUBLEFREE || (IS_WALKED && st == PLEAT_EFOREIGN), "%s",
                  pleat_status_text(st));
}

enum { N_FILLED = 16, FILLED_BYTES = 128 * KIB - 512 };

/* The thread allocates nearly 2 MiB, frees them, and keeps the blocks. */
static void fill(api_hand *hand, pleat instance)
{
    pleat_devptr ptrs[N_FILLED];
    for (unsigned i = 0; i < N_FILLED; i++) {
        ptrs[i] = api_hand_alloc(hand, instance, FILLED_BYTES - i % 4 * KIB, NULL);
    }
    for (unsigned i = 0; i < N_FILLED; i++) {
        api_hand_free(hand, instance, ptrs[i], NULL);
    }
    ck_assert_uint_eq(kept_by(hand), N_FILLED);
}

/* ---- pairs ----------------------------------------------------------------------------------- */

START_TEST(a_repeated_pair_gets_the_same_block_and_calls_no_driver)
{
    enum { N = 2000 };
    pleat instance = api_make(API_PLEAT, "capacity:64M", "");
    pleat_devptr ptr = api_alloc(instance, 0, 3000, NULL);
    api_free(instance, 0, ptr, NULL);
    pleat_stats before = api_stats(instance, 0);
    uint64_t n_calls = api_sim_counts().calls;
    for (unsigned i = 0; i < N; i++) {
        ck_assert_uint_eq(api_alloc(instance, 0, 3000, NULL), ptr);
        api_free(instance, 0, ptr, NULL);
    }
    ck_assert_uint_eq(kept_by(NULL), 1);
    ck_assert_uint_eq(api_sim_counts().calls, n_calls);
    pleat_stats after = api_stats(instance, 0);
    ck_assert_uint_eq(after.allocation[0].allocated, before.allocation[0].allocated + N);
    ck_assert_uint_eq(after.allocation[0].freed, before.allocation[0].freed + N);
    ck_assert_uint_eq(after.allocated_bytes[0].freed, before.allocated_bytes[0].freed + 3072 * N);
    ck_assert_uint_eq(after.requested_bytes[0].freed, before.requested_bytes[0].freed + 3000 * N);
    ck_assert_uint_eq(kept_by(NULL), 0);
    api_unmake(instance);
}
END_TEST

START_TEST(without_the_option_nothing_is_kept)
{
    pleat instance = api_make(API_PLEAT, "capacity:64M", "front:off");
    for (unsigned i = 0; i < 200; i++) {
        api_free(instance, 0, api_alloc(instance, 0, 3000, NULL), NULL);
    }
    ck_assert_uint_eq(kept_by(NULL), 0);
    api_unmake(instance);
}
END_TEST

START_TEST(only_small_blocks_are_kept)
{
    static const size_t sizes[] = {
        1, 512, 4096, 128 * KIB - 512, 128 * KIB - 511, 128 * KIB, MIB
    };
    static const bool is_kept[] = { true, true, true, true, false, false, false };
    pleat instance = api_make(API_PLEAT, "capacity:64M", "");
    api_free(instance, 0, api_alloc(instance, 0, 3000, NULL), NULL);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        (void)api_stats(instance, 0);
        pleat_devptr ptr = api_alloc(instance, 0, sizes[i], NULL);
        ck_assert_uint_eq(kept_by(NULL), 0);
        api_free(instance, 0, ptr, NULL);
        ck_assert_msg(kept_by(NULL) == is_kept[i], "%zu bytes", sizes[i]);
    }
    api_unmake(instance);
}
END_TEST

START_TEST(streams_that_take_turns_do_not_bind_a_front_in_every_call)
{
    enum { N_TURNS = 512 };
    void *streams[PL_FRONTS_OF_THREAD + 1];
    unsigned n_binds = 0;
    pleat instance = api_make(API_PLEAT, "capacity:64M,depth:1048576", told);
    for (unsigned i = 0; i <= PL_FRONTS_OF_THREAD; i++) {
        streams[i] = api_stream(instance, 0);
    }
    for (unsigned turn = 0; turn < N_TURNS; turn++) {
        void *stream = streams[turn % (PL_FRONTS_OF_THREAD + 1)];
        const void *before[PL_FRONTS_OF_THREAD];
        for (unsigned i = 0; i < PL_FRONTS_OF_THREAD; i++) {
            before[i] = pl_fronts_self ? pl_fronts_self->front[i].stream : NULL;
        }
        api_free(instance, 0, api_alloc(instance, 0, 3000, stream), stream);
        for (unsigned i = 0; i < PL_FRONTS_OF_THREAD; i++) {
            n_binds += pl_fronts_self->front[i].stream != before[i];
        }
    }
    ck_assert_uint_le(n_binds, PL_FRONTS_OF_THREAD);
    api_unmake(instance);
}
END_TEST

START_TEST(two_streams_of_a_thread_have_a_front_each_whatever_their_handles)
{
    pleat instance = api_make(API_PLEAT, "capacity:64M,depth:1048576", told);
    void *streams[2] = { api_stream(instance, 0), api_stream(instance, 0) };
    while (pl_front_place(streams[0]) != pl_front_place(streams[1])) {
        streams[1] = api_stream(instance, 0);
    }
    for (unsigned turn = 0; turn < 4; turn++) {
        void *stream = streams[turn % 2];
        api_free(instance, 0, api_alloc(instance, 0, 3000, stream), stream);
    }
    ck_assert_uint_eq(kept_by(NULL), IS_WALKED ? 1 : 2); /* a walk empties fronts */
    ck_assert_ptr_ne(pl_fronts_self->front[0].stream, pl_fronts_self->front[1].stream);
    api_unmake(instance);
}
END_TEST

START_TEST(a_request_of_another_size_gets_another_block)
{
    pleat instance = api_make(API_PLEAT, "capacity:64M", "");
    pleat_block_info info;
    for (size_t bytes = 3000; bytes > 2900; bytes--) {
        pleat_devptr ptr = api_alloc(instance, 0, bytes, NULL);
        ck_assert_int_eq(pleat_block_query(instance, 0, ptr, &info), PLEAT_OK);
        ck_assert_uint_eq(info.requested_bytes, bytes);
        api_free(instance, 0, ptr, NULL);
    }
    api_check(instance);
    api_unmake(instance);
}
END_TEST

START_TEST(a_block_of_another_stream_is_not_kept)
{
    pleat instance = api_make(API_PLEAT, "capacity:64M,depth:1048576", told);
    void *a = api_stream(instance, 0);
    void *b = api_stream(instance, 0);
    pleat_devptr own = api_alloc(instance, 0, 3000, b);
    pleat_devptr ptr = api_alloc(instance, 0, 3000, a);
    pleat_sim_access access = { .ptr = ptr, .bytes = 3000, .is_write = true };
    ck_assert_int_eq(sim.work(a, &access, 1), 0);
    api_free(instance, 0, ptr, b);
    ck_assert_uint_eq(kept_by(NULL), 0);
    pleat_devptr next = api_alloc(instance, 0, 3000, b); /* no hazard */
    access.ptr = next;
    ck_assert_int_eq(sim.work(b, &access, 1), 0);
    api_free(instance, 0, next, b);
    api_free(instance, 0, own, b);
    pleat_devptr used = api_alloc(instance, 0, 3000, a);
    ck_assert_int_eq(pleat_block_record_stream(instance, 0, used, b), PLEAT_OK);
    (void)api_stats(instance, 0);
    api_free(instance, 0, used, a);
    ck_assert_uint_eq(kept_by(NULL), 0);
    api_stream_end(instance, 0, a);
    api_stream_end(instance, 0, b);
    api_unmake(instance);
}
END_TEST

/* ---- what is kept is free -------------------------------------------------------------------- */

START_TEST(a_kept_block_is_known_to_nobody)
{
    api_hand other;
    pleat_block_info info;
    pleat instance = api_make(API_PLEAT, "capacity:64M", "");
    api_hand_open(&other);
    if (_i == 1) { /* the other thread has a front, too */
        api_hand_free(&other, instance, api_hand_alloc(&other, instance, 3000, NULL), NULL);
    }
    pleat_devptr ptr = api_alloc(instance, 0, 3000, NULL);
    for (unsigned round = 0; round < 3; round++) {
        api_free(instance, 0, ptr, NULL);
        ck_assert_uint_eq(kept_by(NULL), 1);
        ck_assert_int_eq(pleat_block_query(instance, 0, ptr, &info), PLEAT_EFOREIGN);
        ck_assert_int_eq(pleat_block_query(instance, 0, ptr + 100, &info), PLEAT_EFOREIGN);
        expect_double_free(pleat_block_free(instance, 0, ptr, NULL));
        expect_double_free(api_hand_try_free(&other, instance, ptr, NULL));
        expect_double_free(pleat_block_record_stream(instance, 0, ptr, NULL));
        pleat_devptr earlier = ptr;
        ptr = api_alloc(instance, 0, 3000, NULL);
        ck_assert(ptr == earlier || IS_WALKED);
        ck_assert_int_eq(pleat_block_query(instance, 0, ptr, &info), PLEAT_OK);
    }
    api_hand_free(&other, instance, ptr, NULL); /* ends the block's second use */
    expect_double_free(pleat_block_free(instance, 0, ptr, NULL));
    ck_assert_uint_eq(api_stats(instance, 0).allocation[0].current, 0);
    api_hand_close(&other);
    api_unmake(instance);
}
END_TEST

typedef struct output {
    char text[64 * KIB];
    size_t n;
} output;

static bool collect(void *context, const void *bytes, size_t n)
{
    output *out = context;
    if (out->n + n >= sizeof out->text) {
        return false;
    }
    memcpy(out->text + out->n, bytes, n);
    out->n += n;
    out->text[out->n] = '\0';
    return true;
}

START_TEST(figures_and_snapshots_show_a_kept_block_as_free)
{
    static output out;
    pleat instance = api_make(API_PLEAT, "capacity:64M", "");
    fill(NULL, instance);
    pleat_stats s = api_stats(instance, 0);
    ck_assert_uint_eq(s.allocation[0].current, 0);
    ck_assert_uint_eq(s.allocated_bytes[0].current, 0);
    ck_assert_uint_eq(s.requested_bytes[0].current, 0);
    ck_assert_uint_eq(s.live_granules, 0);
    ck_assert_uint_eq(s.free_bytes + s.pending_bytes, s.resident_bytes);
    fill(NULL, instance);
    ck_assert_int_eq(pleat_snapshot_write(instance, PLEAT_SNAPSHOT_JSON, collect, &out), PLEAT_OK);
    ck_assert_ptr_null(strstr(out.text, "active_allocated"));
    ck_assert_ptr_nonnull(strstr(out.text, "inactive"));
    api_unmake(instance);
}
END_TEST

START_TEST(a_trim_gives_back_what_is_kept)
{
    uint64_t released = 0;
    api_hand other;
    pleat instance = api_make(API_PLEAT, "capacity:64M", "");
    api_hand_open(&other);
    fill(&other, instance);
    fill(NULL, instance);
    sim.finish();
    ck_assert_int_eq(pleat_device_trim(instance, 0, 0, true, &released), PLEAT_OK);
    ck_assert_uint_ge(released, 2 * MIB);
    ck_assert_uint_eq(api_sim_counts().physical_bytes, 0);
    ck_assert_uint_eq(kept_by(&other) + kept_by(NULL), 0);
    api_hand_close(&other);
    api_unmake(instance);
}
END_TEST

/* The device has a single granule, and a front keeps all of it. */
START_TEST(what_is_kept_serves_others_before_they_fail)
{
    api_hand idle;
    api_hand other;
    pleat_devptr ptr = 0;
    pleat instance = api_make(API_PLEAT, "capacity:2M", "wait_ms:0");
    api_hand_open(&idle);
    api_hand_open(&other);
    for (unsigned round = 0; round < 5; round++) {
        fill(&idle, instance);
        ck_assert_int_eq(api_hand_try_alloc(round % 2 ? &other : NULL, instance,
                                            round < 3 ? 2 * MIB : 200 * KIB, NULL, &ptr),
                         PLEAT_OK);
        api_free(instance, 0, ptr, NULL);
        if (round == 3) {
            uint64_t limit = 2 * MIB;
            ck_assert_int_eq(pleat_device_set_limit(instance, 0, limit), PLEAT_OK);
        }
    }
    ck_assert_uint_eq(api_stats(instance, 0).num_ooms, 0);
    api_hand_close(&idle);
    api_hand_close(&other);
    api_unmake(instance);
}
END_TEST

START_TEST(what_is_kept_serves_others_before_anything_grows)
{
    api_hand idle;
    pleat instance = api_make(API_PLEAT, "capacity:64M", "");
    api_hand_open(&idle);
    fill(&idle, instance);
    fill(NULL, instance);
    fill(&idle, instance);
    uint64_t resident = api_sim_counts().physical_bytes;
    (void)api_stats(instance, 0);
    fill(&idle, instance);
    pleat_devptr ptrs[N_FILLED];
    for (unsigned i = 0; i < N_FILLED; i++) {
        ptrs[i] = api_alloc(instance, 0, 120 * KIB - i, NULL);
    }
    ck_assert_uint_eq(api_sim_counts().physical_bytes, resident);
    for (unsigned i = 0; i < N_FILLED; i++) {
        api_free(instance, 0, ptrs[i], NULL);
    }
    api_hand_close(&idle);
    api_unmake(instance);
}
END_TEST

static void *fill_and_end(void *arg)
{
    fill(NULL, *(const pleat *)arg);
    pthread_exit(NULL);
}

/* Assertions are cancellation points. */
static void *fill_and_wait(void *arg)
{
    int before;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    fill(NULL, *(const pleat *)arg);
    (void)pthread_setcancelstate(before, &before);
    for (;;) {
        (void)pause(); /* until the cancellation */
    }
    return NULL;
}

START_TEST(a_thread_that_ends_keeps_nothing)
{
    pleat instance = api_make(API_PLEAT, "capacity:2M", "wait_ms:0");
    for (unsigned i = 0; i < 40; i++) {
        pthread_t thread;
        bool is_cancelled = i % 2;
        ck_assert_int_eq(
            pthread_create(&thread, NULL, is_cancelled ? fill_and_wait : fill_and_end, &instance),
            0);
        if (is_cancelled) {
            (void)usleep(1000 * (i % 8));
            ck_assert_int_eq(pthread_cancel(thread), 0);
        }
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        if (i % 4 < 2) {
            api_free(instance, 0, api_alloc(instance, 0, 2 * MIB, NULL), NULL);
        }
    }
    ck_assert_uint_eq(api_stats(instance, 0).allocation[0].current, 0);
    api_check(instance);
    api_unmake(instance);
}
END_TEST

START_TEST(a_limit_and_a_compaction_take_what_is_kept_as_free)
{
    api_hand other;
    pleat_compaction done;
    pleat instance = api_make(API_PLEAT, "capacity:64M", "");
    api_hand_open(&other);
    pleat_devptr live = api_alloc(instance, 0, 3000, NULL);
    fill(&other, instance);
    fill(NULL, instance);
    ck_assert_int_eq(pleat_device_set_limit(instance, 0, 2 * MIB), PLEAT_OK);
    ck_assert_uint_le(api_sim_counts().physical_bytes, 2 * MIB);
    ck_assert_int_eq(pleat_device_set_limit(instance, 0, 0), PLEAT_OK);
    fill(&other, instance);
    fill(NULL, instance);
    ck_assert_int_eq(pleat_device_compact(instance, 0, &done), PLEAT_OK);
    ck_assert_uint_eq(kept_by(&other) + kept_by(NULL), 0);
    api_check(instance);
    fill(NULL, instance);
    api_free(instance, 0, live, NULL);
    api_hand_close(&other);
    api_unmake(instance);
}
END_TEST

START_TEST(fronts_of_two_threads_pass_blocks_to_and_fro)
{
    enum { N = 3000, N_BLOCKS = 5 };
    api_hand pair[2];
    api_figures figures = { .n = { { 0 } } };
    pleat_devptr ptrs[N_BLOCKS];
    pleat instance = api_make(API_PLEAT, "capacity:64M", "");
    api_hand_open(&pair[0]);
    api_hand_open(&pair[1]);
    for (unsigned i = 0; i < N / (1 + 9 * IS_WALKED); i++) {
        for (unsigned k = 0; k < N_BLOCKS; k++) {
            ptrs[k] = api_hand_alloc(&pair[i % 2], instance, 1000 + k / 2, NULL);
            api_figures_begin(&figures, 1000 + k / 2);
        }
        for (unsigned k = 0; k < N_BLOCKS; k++) {
            api_hand_free(&pair[(i + k) % 3 != 0], instance, ptrs[k], NULL);
            api_figures_end(&figures, 1000 + k / 2);
        }
    }
    pleat_stats s = api_stats(instance, 0);
    api_figures_expect(&figures, &s, N);
    ck_assert_uint_le(s.resident_bytes, 2 * MIB);
    api_check(instance);
    api_hand_close(&pair[0]);
    api_hand_close(&pair[1]);
    api_unmake(instance);
}
END_TEST

/* ---- instances ------------------------------------------------------------------------------- */

START_TEST(an_instance_whose_blocks_are_all_kept_can_be_destroyed)
{
    pleat instance = api_make(API_PLEAT, "capacity:64M", "");
    pleat_devptr live = api_alloc(instance, 0, 3000, NULL);
    fill(NULL, instance);
    ck_assert_int_eq(pleat_destroy(instance, 0), PLEAT_EBUSY);
    api_expect(PLEAT_EBUSY, "1 blocks");
    fill(NULL, instance);
    api_free(instance, 0, live, NULL);
    api_unmake(instance);
}
END_TEST

START_TEST(the_handle_of_a_destroyed_instance_is_refused_though_a_front_was_bound)
{
    pleat_devptr ptr;
    pleat earlier = { 0, 0 };
    for (unsigned i = 0; i < 20; i++) {
        pleat instance = api_make(API_PLEAT, "capacity:64M", "");
        ck_assert(i == 0 ||
                  (instance.slot == earlier.slot && instance.generation != earlier.generation));
        ck_assert(i == 0 || pleat_block_alloc(earlier, 0, 3000, NULL, &ptr) == PLEAT_EGONE);
        ptr = api_alloc(instance, 0, 3000, NULL);
        ck_assert(i == 0 || pleat_block_free(earlier, 0, ptr, NULL) == PLEAT_EGONE);
        api_free(instance, 0, ptr, NULL);
        for (unsigned n = 0; n < 64; n++) {
            (void)api_stats(instance, 0);
            api_free(instance, 0, api_alloc(instance, 0, 3000, NULL), NULL);
        }
        ck_assert_uint_eq(kept_by(NULL), 1);
        if (i % 2) {
            (void)api_alloc(instance, 0, 3000, NULL);
            ck_assert_int_eq(pleat_destroy(instance, PLEAT_DESTROY_FORCE), PLEAT_OK);
        } else {
            api_unmake(instance);
        }
        ck_assert_int_eq(pleat_block_alloc(instance, 0, 3000, NULL, &ptr), PLEAT_EGONE);
        ck_assert_int_eq(pleat_block_free(instance, 0, ptr, NULL), PLEAT_EGONE);
        earlier = instance;
    }
}
END_TEST

static void expect_current(pleat instance, int device, uint64_t n)
{
    ck_assert_uint_eq(api_stats(instance, device).allocation[0].current, n);
}

START_TEST(a_zero_handle_meets_no_front_that_is_unbound)
{
    pleat instance = api_make(API_PLEAT, "capacity:64M", "");
    pleat_devptr ptr = api_alloc(instance, 0, 3000, NULL);
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
    pleat none = { 0, 0 };
    ck_assert_int_ne(pleat_block_free(none, 0, ptr, NULL), PLEAT_OK);
    ck_assert_int_ne(pleat_block_alloc(none, 0, 3000, NULL, &ptr), PLEAT_OK);
}
END_TEST

START_TEST(instances_in_turn_keep_their_own_blocks)
{
    enum { N = 300 };
    pleat both[2];
    pleat_devptr live[2] = { 0 };
    both[0] = api_make(API_PLEAT, "capacity:64M", "");
    both[1] = api_make(API_PLEAT, "capacity:64M", "");
    for (unsigned i = 0; i < N; i++) {
        pleat in = both[i / (1 + i % 90) % 2];
        api_free(in, 0, api_alloc(in, 0, 3000, NULL), NULL);
        if (i == N / 2) {
            live[0] = api_alloc(both[0], 0, 3000, NULL);
            live[1] = api_alloc(both[1], 0, 3000, NULL);
        }
    }
    expect_current(both[0], 0, 1);
    expect_current(both[1], 0, 1);
    ck_assert_uint_eq(api_stats(both[0], 0).allocation[0].allocated +
                          api_stats(both[1], 0).allocation[0].allocated,
                      N + 2);
    api_free(both[0], 0, live[0], NULL);
    api_free(both[1], 0, live[1], NULL);
    ck_assert_int_eq(pleat_destroy(both[0], 0), PLEAT_OK);
    api_free(both[1], 0, api_alloc(both[1], 0, 3000, NULL), NULL);
    api_unmake(both[1]);
}
END_TEST

START_TEST(devices_in_turn_keep_their_own_blocks)
{
    enum { N = 300 };
    uint64_t n[2] = { 0 };
    pleat instance = api_make(API_PLEAT, "capacity:64M,devices:2", "");
    for (unsigned i = 0; i < N; i++) {
        int device = (int)(i / (1 + i % 90) % 2);
        pleat_devptr ptr = api_alloc(instance, device, 3000, NULL);
        pleat_block_info info;
        ck_assert_int_eq(pleat_block_query(instance, device, ptr, &info), PLEAT_OK);
        ck_assert_int_eq(info.device, device);
        ck_assert_int_eq(pleat_block_free(instance, 1 - device, ptr, NULL), PLEAT_EFOREIGN);
        api_free(instance, device, ptr, NULL);
        n[device]++;
    }
    for (int device = 0; device < 2; device++) {
        pleat_stats s = api_stats(instance, device);
        ck_assert_uint_eq(s.allocation[0].allocated, n[device]);
        ck_assert_uint_eq(s.allocation[0].current, 0);
    }
    api_unmake(instance);
}
END_TEST

/* ---- fork ------------------------------------------------------------------------------------ */

static int work_in_child(pleat instance, pleat_devptr live, pleat_devptr kept)
{
    pleat own;
    pleat_devptr ptr;
    pleat_devptr next;
    if (pleat_block_alloc(instance, 0, 3000, NULL, &ptr) != PLEAT_EFORKED ||
        pleat_block_free(instance, 0, live, NULL) != PLEAT_EFORKED ||
        pleat_block_free(instance, 0, kept, NULL) != PLEAT_EFORKED) {
        return 1;
    }
    if (pleat_create("driver:sim,sim:[capacity:32M,fork:allow]", &own) != PLEAT_OK) {
        return 2;
    }
    for (unsigned i = 0; i < 3 * PL_FRONT_PATIENCE; i++) {
        if (pleat_block_alloc(own, 0, 3000, NULL, &ptr) != PLEAT_OK ||
            pleat_block_free(own, 0, ptr, NULL) != PLEAT_OK) {
            return 3;
        }
    }
    if (kept_by(NULL) != 1 || pleat_block_alloc(own, 0, 3000, NULL, &next) != PLEAT_OK ||
        next != ptr || pleat_block_free(own, 0, ptr, NULL) != PLEAT_OK) {
        return 4;
    }
    if (pleat_block_alloc(instance, 0, 3000, NULL, &ptr) != PLEAT_EFORKED) {
        return 5;
    }
    return pleat_destroy(own, 0) == PLEAT_OK ? GOOD : 6;
}

START_TEST(a_forked_child_leaves_the_parents_fronts_alone)
{
    api_hand other;
    pleat instance = api_make(API_PLEAT, "capacity:64M,fork:allow", "");
    api_hand_open(&other);
    pleat_devptr live = api_alloc(instance, 0, 3000, NULL);
    pleat_devptr kept = api_alloc(instance, 0, 3000, NULL);
    fill(&other, instance);
    api_free(instance, 0, kept, NULL);
    for (unsigned round = 0; round < 3; round++) {
        pid_t child = fork();
        ck_assert_int_ge(child, 0);
        if (child == 0) {
            _exit(work_in_child(instance, live, kept));
        }
        int status = 0;
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert(WIFEXITED(status));
        ck_assert_int_eq(WEXITSTATUS(status), GOOD);
        ck_assert_uint_eq(kept_by(NULL), 1);
        ck_assert_uint_eq(kept_by(&other), N_FILLED);
        ck_assert_uint_eq(api_alloc(instance, 0, 3000, NULL), kept);
        api_free(instance, 0, kept, NULL);
    }
    expect_current(instance, 0, 1);
    api_free(instance, 0, live, NULL);
    api_hand_close(&other);
    api_unmake(instance);
}
END_TEST

/* ---- pools, captures, streams ---------------------------------------------------------------- */

START_TEST(what_is_routed_to_a_pool_comes_from_there)
{
    static const pleat_pool_id id = { 7, 7 };
    pleat instance = api_make(API_PLEAT, "capacity:64M", "");
    pleat_devptr live = api_alloc(instance, 0, 3000, NULL);
    pleat_devptr kept = api_alloc(instance, 0, 3000, NULL);
    for (unsigned round = 0; round < 3; round++) {
        api_free(instance, 0, kept, NULL);
        ck_assert_int_eq(pleat_pool_begin(instance, 0, id, NULL, NULL, NULL), PLEAT_OK);
        pleat_devptr in_pool = api_alloc(instance, 0, 3000, NULL);
        ck_assert_uint_ne(in_pool, kept);
        ck_assert_uint_eq(api_stats(instance, 0).allocation[0].current, 2);
        api_free(instance, 0, live, NULL);
        ck_assert_int_eq(pleat_pool_end(instance, 0, id), PLEAT_OK);
        api_free(instance, 0, in_pool, NULL);
        live = api_alloc(instance, 0, 3000, NULL);
        kept = api_alloc(instance, 0, 3000, NULL);
        ck_assert_uint_ne(live, in_pool);
        ck_assert_uint_ne(kept, in_pool);
        api_check(instance);
    }
    for (unsigned round = 0; round < 3; round++) {
        ck_assert_int_eq(pleat_pool_release(instance, 0, id), PLEAT_OK);
    }
    api_free(instance, 0, live, NULL);
    api_free(instance, 0, kept, NULL);
    api_unmake(instance);
}
END_TEST

/* A block freed in a capture belongs to the graph. No request outside may have it. */
START_TEST(a_block_that_is_freed_in_a_capture_is_the_graphs)
{
    static const pleat_pool_id id = { 8, 8 };
    pleat instance = api_make(API_PLEAT, "capacity:64M", told);
    void *stream = api_stream(instance, 0);
    for (unsigned i = 0; i < 100; i++) {
        api_free(instance, 0, api_alloc(instance, 0, 3000, stream), stream);
    }
    pleat_devptr before = api_alloc(instance, 0, 3000, stream);
    pleat_devptr kept = api_alloc(instance, 0, 3000, stream);
    api_free(instance, 0, kept, stream);
    ck_assert_uint_eq(kept_by(NULL), 1);
    ck_assert_int_eq(pleat_pool_begin(instance, 0, id, NULL, NULL, NULL), PLEAT_OK);
    api_torch_begin_capture(instance, 0, stream);
    pleat_devptr inside = api_alloc(instance, 0, 3000, stream);
    ck_assert_uint_ne(inside, kept);
    pleat_sim_access access = { .ptr = before, .bytes = 3000, .is_write = true };
    ck_assert_int_eq(sim.work(stream, &access, 1), 0);
    api_free(instance, 0, before, stream);
    api_free(instance, 0, inside, stream);
    ck_assert_uint_eq(kept_by(NULL), 0);
    pleat_devptr next = api_alloc(instance, 0, 3000, stream);
    ck_assert(next != before && next != kept);
    api_free(instance, 0, next, stream);
    cu_graph graph = NULL;
    pl_device *dev = pleat_internal_device(instance, 0);
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    ck_assert_int_eq(pl_cu_stream_end_capture(pl_device_driver(dev), stream, &graph), 0);
    pl_device_leave(dev);
    ck_assert_int_eq(pleat_pool_end(instance, 0, id), PLEAT_OK);
    pleat_devptr after[50];
    for (unsigned i = 0; i < 50; i++) {
        after[i] = api_alloc(instance, 0, 3000, i % 2 ? stream : NULL);
        ck_assert_uint_ne(after[i], before);
        ck_assert_uint_ne(after[i], inside);
        ck_assert_uint_ne(after[i], next);
    }
    for (unsigned i = 0; i < 50; i++) {
        api_free(instance, 0, after[i], i % 2 ? stream : NULL);
    }
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    ck_assert_int_eq(pl_cu_graph_destroy(pl_device_driver(dev), graph), 0);
    pl_device_leave(dev);
    ck_assert_int_eq(pleat_pool_release(instance, 0, id), PLEAT_OK);
    ck_assert_int_eq(pleat_device_release_capture(instance, 0, stream), PLEAT_OK);
    api_check(instance);
    api_stream_end(instance, 0, stream);
    api_unmake(instance);
}
END_TEST

START_TEST(a_retired_streams_handle_may_come_again)
{
    pleat instance = api_make(API_PLEAT, "capacity:64M,depth:1048576", told);
    void *earlier = NULL;
    unsigned n_again = 0;
    for (unsigned round = 0; round < 50; round++) {
        void *stream = api_stream(instance, 0);
        n_again += stream == earlier;
        for (unsigned i = 0; i < 100; i++) {
            pleat_devptr ptr = api_alloc(instance, 0, 3000 + i % 2, stream);
            pleat_sim_access access = { .ptr = ptr, .bytes = 3000, .is_write = true };
            ck_assert_int_eq(sim.work(stream, &access, 1), 0);
            api_free(instance, 0, ptr, stream);
        }
        ck_assert_uint_gt(kept_by(NULL), 0);
        ck_assert_int_eq(pleat_stream_retire(instance, 0, stream), PLEAT_OK);
        ck_assert_uint_eq(kept_by(NULL), 0);
        api_stream_end(instance, 0, stream);
        earlier = stream;
    }
    expect_current(instance, 0, 0);
    api_check(instance);
    api_unmake(instance);
    (void)n_again;
}
END_TEST

SUITE(api_front)
{
    TCase *pairs = suite_case(suite, "pairs", api_sim_load, NULL);
    tcase_add_test(pairs, a_repeated_pair_gets_the_same_block_and_calls_no_driver);
    tcase_add_test(pairs, without_the_option_nothing_is_kept);
    tcase_add_test(pairs, only_small_blocks_are_kept);
    tcase_add_test(pairs, streams_that_take_turns_do_not_bind_a_front_in_every_call);
    tcase_add_test(pairs, two_streams_of_a_thread_have_a_front_each_whatever_their_handles);
    tcase_add_test(pairs, a_request_of_another_size_gets_another_block);
    tcase_add_test(pairs, a_block_of_another_stream_is_not_kept);
    TCase *kept = suite_case(suite, "what is kept is free", api_sim_load, NULL);
    tcase_add_loop_test(kept, a_kept_block_is_known_to_nobody, 0, 2);
    tcase_add_test(kept, figures_and_snapshots_show_a_kept_block_as_free);
    tcase_add_test(kept, a_trim_gives_back_what_is_kept);
    tcase_add_test(kept, what_is_kept_serves_others_before_they_fail);
    tcase_add_test(kept, what_is_kept_serves_others_before_anything_grows);
    tcase_add_test(kept, a_thread_that_ends_keeps_nothing);
    tcase_add_test(kept, a_limit_and_a_compaction_take_what_is_kept_as_free);
    tcase_add_test(kept, fronts_of_two_threads_pass_blocks_to_and_fro);
    TCase *instances = suite_case(suite, "instances", api_sim_load, NULL);
    tcase_add_test(instances, an_instance_whose_blocks_are_all_kept_can_be_destroyed);
    tcase_add_test(instances,
                   the_handle_of_a_destroyed_instance_is_refused_though_a_front_was_bound);
    tcase_add_test(instances, a_zero_handle_meets_no_front_that_is_unbound);
    tcase_add_test(instances, instances_in_turn_keep_their_own_blocks);
    tcase_add_test(instances, devices_in_turn_keep_their_own_blocks);
    tcase_add_test(instances, a_forked_child_leaves_the_parents_fronts_alone);
    TCase *streams = suite_case(suite, "pools, captures, streams", api_sim_load, NULL);
    tcase_add_test(streams, what_is_routed_to_a_pool_comes_from_there);
    tcase_add_test(streams, a_block_that_is_freed_in_a_capture_is_the_graphs);
    tcase_add_test(streams, a_retired_streams_handle_may_come_again);
}
