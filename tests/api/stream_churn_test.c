/* stream_churn_test.c - ten thousand streams come and go. No cost accumulates, no call waits, and
 * no call uses the handle of a gone stream. */
/* labels: unit stress */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/api/api_sim.h"
#include "tests/support/suite.h"

/* Fewer streams where many of the calls are followed by a walk over everything. */
#if PLEAT_DEBUG_LEVEL >= 2
enum { MANY = 500, MOST_ALIVE = 50, FIRST = 100 };
#else
enum { MANY = 10000, MOST_ALIVE = 1000, FIRST = 1000 };
#endif
enum { MIB = 1 << 20, N_SMALL = 40 };

typedef struct guest {
    void *stream;
    pleat_devptr block;
    size_t bytes;
} guest;

static guest guests[MOST_ALIVE];

static struct scene {
    pleat handle;
    uint64_t random;
    uint64_t live_bytes;
    uint64_t most_live_bytes;
    bool retires;
    size_t most_kib;  /* most for a large block */
    unsigned n_small; /* small blocks allocated and freed by each stream */
} scene;

static size_t random_below(size_t n)
{
    scene.random = scene.random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (size_t)(scene.random >> 33) % n;
}

static void work(void *stream, pleat_devptr ptr, size_t bytes)
{
    pleat_sim_access access = { .ptr = ptr, .bytes = bytes, .is_write = true };
    ck_assert_int_eq(sim.work(stream, &access, 1), 0);
}

static void leave(guest *g)
{
    api_free(scene.handle, 0, g->block, g->stream);
    scene.live_bytes -= g->bytes;
    if (scene.retires) {
        ck_assert_int_eq(pleat_stream_retire(scene.handle, 0, g->stream), PLEAT_OK);
    }
    api_stream_end(scene.handle, 0, g->stream);
    g->stream = NULL;
}

/* While the large block lives, the small ones are pending without a tick. */
static void come(guest *g)
{
    g->stream = api_stream(scene.handle, 0);
    g->bytes = (1 + random_below(scene.most_kib)) * 1024;
    g->block = api_alloc(scene.handle, 0, g->bytes, g->stream);
    work(g->stream, g->block, g->bytes);
    scene.live_bytes += g->bytes;
    for (unsigned i = 0; i < scene.n_small; i++) {
        pleat_devptr small = api_alloc(scene.handle, 0, 3000, g->stream);
        work(g->stream, small, 3000);
        api_free(scene.handle, 0, small, g->stream);
    }
    if (scene.live_bytes > scene.most_live_bytes) {
        scene.most_live_bytes = scene.live_bytes;
    }
}

static void churn(size_t n, size_t n_alive)
{
    for (size_t i = 0; i < n; i++) {
        guest *g = &guests[i % n_alive];
        if (g->stream) {
            leave(g);
        }
        come(g);
    }
}

static void end(size_t n_alive)
{
    for (size_t i = 0; i < n_alive; i++) {
        leave(&guests[i]);
    }
    api_unmake(scene.handle);
}

static void begin_with(const char *conf, const char *sim_conf, bool retires, unsigned n_small)
{
    scene = (struct scene){ .handle = api_make(API_PLEAT, sim_conf, conf),
                            .random = 4711,
                            .retires = retires,
                            .most_kib = 2000,
                            .n_small = n_small };
}

static void begin(const char *sim_conf, bool retires, unsigned n_small)
{
    begin_with("", sim_conf, retires, n_small);
}

/* After the first streams, and twice as many as live at once, nothing grows any more. */
static void play(const char *sim_conf, size_t n, size_t n_alive, bool retires, unsigned n_small)
{
    begin(sim_conf, retires, n_small);
    churn(FIRST + 2 * n_alive, n_alive);
    uint64_t metadata_bytes = api_stats(scene.handle, 0).metadata_bytes;
    churn(n, n_alive);
    pleat_stats s = api_stats(scene.handle, 0);
    ck_assert_uint_le(s.metadata_bytes, metadata_bytes + metadata_bytes / 4 + MIB / 2);
    ck_assert_uint_le(s.reserved_bytes[PLEAT_SIZES_ALL].peak,
                      scene.most_live_bytes * 21 / 20 + 24 * MIB);
    ck_assert_uint_eq(s.host_syncs, 0);
    api_check(scene.handle);
    end(n_alive);
}

START_TEST(streams_in_turn_leave_nothing_behind)
{
    play("capacity:16G,depth:16", MANY, 1, false, 1);
}
END_TEST

/* All with PLEAT_TEST_PERCENT=100, ten thousand with the usual 10. */
START_TEST(a_million_streams_leave_nothing_behind)
{
    play("capacity:16G,depth:16", suite_part(suite_part((uint64_t)100 * MANY)), MOST_ALIVE / 50,
         false, 1);
}
END_TEST

/* Half of MOST_ALIVE is no crowd yet. Then streams are settled only by requests that find
 * nothing. */
START_TEST(a_thousand_streams_at_once_leave_nothing_behind)
{
    play("capacity:16G,depth:16", MANY, _i == 0 ? MOST_ALIVE : MOST_ALIVE / 2, false, 1);
}
END_TEST

static const char *const chunk_confs[] = { "chunks:granule", "chunks:mixed" };
enum { N_CHUNK_CONFS = sizeof chunk_confs / sizeof chunk_confs[0] };

/* Loose granules are taken before new ones are created, and any hole is filled. So a few streams
 * need little more memory than a single stream with all their blocks. With chunks of several sizes
 * the difference is at most one chunk, 1/1024 of the device: the rest of a chunk in use cannot be
 * taken. */
static void need_little(const char *conf, size_t n_alive, size_t most_kib, unsigned most_percent)
{
    uint64_t slack_bytes = (PLEAT_DEBUG_LEVEL >= 2 ? 16 : 0) * MIB; /* few streams at level 2 */
    begin_with(conf, "capacity:16G,depth:16", false, 1);
    scene.most_kib = most_kib;
    churn(MANY, n_alive);
    uint64_t peak = api_stats(scene.handle, 0).reserved_bytes[PLEAT_SIZES_ALL].peak;
    uint64_t chunk_bytes = strcmp(conf, "chunks:mixed") == 0 ? 16 * MIB : 0;
    ck_assert_uint_le(peak, scene.most_live_bytes * most_percent / 100 + chunk_bytes + slack_bytes);
    end(n_alive);
}

START_TEST(few_streams_of_large_blocks_need_little_more_than_what_lives)
{
    need_little(chunk_confs[_i], 10, 20000, 120);
    need_little(chunk_confs[_i], MOST_ALIVE / 10, 2000, 116);
}
END_TEST

/* Streams with repeating shapes stop taking from each other. Chunks of one granule allow the most
 * takes. */
START_TEST(streams_that_repeat_their_shapes_hardly_need_the_driver)
{
    enum { N_STREAMS = 3, N_SHAPES = 24, N_STEPS = 300 };
    void *streams[N_STREAMS];
    uint64_t n_ops = 0;
    begin_with(chunk_confs[_i], "capacity:80G,depth:8", false, 0);
    for (int s = 0; s < N_STREAMS; s++) {
        streams[s] = api_stream(scene.handle, 0);
    }
    for (int step = 0; step < N_STEPS; step++) {
        for (int s = 0; s < N_STREAMS; s++) {
            pleat_devptr ptrs[N_SHAPES];
            for (int k = 0; k < N_SHAPES; k++) {
                size_t bytes = (size_t)(k % 7 + 1) * 3 * MIB + (size_t)s * 500000;
                ptrs[k] = api_alloc(scene.handle, 0, bytes, streams[s]);
                work(streams[s], ptrs[k], bytes);
            }
            for (int k = N_SHAPES - 1; k >= 0; k--) {
                api_free(scene.handle, 0, ptrs[k], streams[s]);
            }
        }
        if (step == N_STEPS / 2) {
            pleat_stats stats = api_stats(scene.handle, 0);
            n_ops = stats.ops_map + stats.ops_unmap;
        }
    }
    pleat_stats stats = api_stats(scene.handle, 0);
    ck_assert_uint_le(stats.ops_map + stats.ops_unmap, n_ops + N_STEPS / 2); /* of 43,200 calls */
    for (int s = 0; s < N_STREAMS; s++) {
        api_stream_end(scene.handle, 0, streams[s]);
    }
    api_unmake(scene.handle);
}
END_TEST

START_TEST(streams_that_free_much_leave_nothing_behind)
{
    play("capacity:16G,depth:16", MANY / 4, MOST_ALIVE / 10, false, N_SMALL);
}
END_TEST

START_TEST(retired_streams_leave_nothing_behind)
{
    play("capacity:16G,depth:16", MANY, MOST_ALIVE / 10, true, 1);
}
END_TEST

/* Handles are never reused. So pleat cannot see that the streams are gone. */
START_TEST(streams_whose_handles_never_come_again_leave_nothing_behind)
{
    play("capacity:16G,depth:16", MANY, _i == 0 ? 1 : MOST_ALIVE, false, 1);
}
END_TEST

/* No stream tick covers this pending memory, and a tick of the context would not pay. */
START_TEST(streams_that_leave_a_little_pending_do_not_add_up)
{
    begin("capacity:16G,depth:16", false, 0);
    void *stays = api_stream(scene.handle, 0);
    pleat_devptr large = api_alloc(scene.handle, 0, 1024 * (size_t)MIB, stays);
    uint64_t metadata_bytes = 0;
    for (size_t i = 0; i < MANY; i++) {
        void *stream = api_stream(scene.handle, 0);
        pleat_devptr kept = api_alloc(scene.handle, 0, 3000, stream);
        api_free(scene.handle, 0, api_alloc(scene.handle, 0, 3000, stream), stream);
        api_stream_end(scene.handle, 0, stream);
        api_free(scene.handle, 0, kept, stays);
        metadata_bytes = i == MANY / 2 ? api_stats(scene.handle, 0).metadata_bytes : metadata_bytes;
    }
    ck_assert_uint_le(api_stats(scene.handle, 0).metadata_bytes, metadata_bytes * 5 / 4);
    api_free(scene.handle, 0, large, stays);
    api_stream_end(scene.handle, 0, stays);
    api_unmake(scene.handle);
}
END_TEST

enum { N_REGULARS = 40, N_VISITS = 4 };

/* Streams with rare calls. A stream often holds a block between two of its calls. */
static void *visit(void *unused)
{
    void *streams[N_REGULARS];
    pleat_devptr blocks[N_REGULARS] = { 0 };
    for (unsigned i = 0; i < N_REGULARS; i++) {
        streams[i] = api_stream(scene.handle, 0);
    }
    for (unsigned i = 0; i < N_REGULARS * N_VISITS; i++) {
        unsigned at = i % N_REGULARS;
        if (blocks[at] != 0) {
            api_free(scene.handle, 0, blocks[at], streams[at]);
        }
        blocks[at] = i % 3 == 0 ? 0 : api_alloc(scene.handle, 0, 3000, streams[at]);
        for (unsigned n = 0; n < 1 + MANY / 1000; n++) { /* a crowd passes by */
            void *passer = api_stream(scene.handle, 0);
            api_free(scene.handle, 0, api_alloc(scene.handle, 0, 3000, passer), passer);
            api_stream_end(scene.handle, 0, passer);
        }
    }
    for (unsigned i = 0; i < N_REGULARS; i++) {
        if (blocks[i] != 0) {
            api_free(scene.handle, 0, blocks[i], streams[i]);
        }
        api_stream_end(scene.handle, 0, streams[i]);
    }
    return unused;
}

START_TEST(streams_may_be_named_while_a_crowd_passes)
{
    enum { N = 4 };
    pthread_t threads[N];
    begin("capacity:16G,depth:16", false, 0);
    for (unsigned i = 0; i < N; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, visit, NULL), 0);
    }
    for (unsigned i = 0; i < N; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    api_check(scene.handle);
    api_unmake(scene.handle);
}
END_TEST

/* A call with a dead handle is a hazard, which api_unmake finds. */
START_TEST(no_call_is_made_with_a_dead_handle)
{
    begin("capacity:16G,depth:16", _i == 1, N_SMALL);
    churn(MANY / 4, MOST_ALIVE / 10);
    ck_assert_int_eq(pleat_device_trim(scene.handle, 0, 0, true, NULL), PLEAT_OK);
    end(MOST_ALIVE / 10);
}
END_TEST

static void *one_request(void *arg)
{
    void *own = (void *)2; /* the thread's default stream */
    (void)arg;
    pleat_devptr block = api_alloc(scene.handle, 0, 64 * MIB, own);
    api_free(scene.handle, 0, block, own);
    return NULL;
}

START_TEST(threads_that_end_take_their_default_streams_along)
{
    uint64_t metadata_bytes = 0;
    begin("capacity:16G", false, 0);
    for (int i = 0; i < 400; i++) {
        pthread_t thread;
        ck_assert_int_eq(pthread_create(&thread, NULL, one_request, NULL), 0);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        metadata_bytes = i == 100 ? api_stats(scene.handle, 0).metadata_bytes : metadata_bytes;
    }
    pleat_stats s = api_stats(scene.handle, 0);
    ck_assert_uint_le(s.metadata_bytes, metadata_bytes + metadata_bytes / 4);
    ck_assert_uint_le(s.resident_bytes, 66 * MIB);
    ck_assert_uint_eq(s.host_syncs, 0);
    api_unmake(scene.handle);
}
END_TEST

START_TEST(a_retired_streams_blocks_are_freed_on_others)
{
    begin("capacity:64M,depth:1048576", false, 0);
    void *gone = api_stream(scene.handle, 0);
    void *other = api_stream(scene.handle, 0);
    pleat_devptr block = api_alloc(scene.handle, 0, 40 * MIB, gone);
    work(gone, block, 40 * MIB);
    ck_assert_int_eq(pleat_stream_retire(scene.handle, 0, gone), PLEAT_OK);
    api_stream_end(scene.handle, 0, gone);
    api_free(scene.handle, 0, block, other);
    pleat_devptr next = api_alloc(scene.handle, 0, 40 * MIB, other); /* behind the work of both */
    work(other, next, 40 * MIB);
    api_free(scene.handle, 0, next, other);
    api_stream_end(scene.handle, 0, other);
    api_unmake(scene.handle);
}
END_TEST

START_TEST(what_is_no_stream_cannot_be_retired)
{
    begin("capacity:64M", false, 0);
    api_free(scene.handle, 0, api_alloc(scene.handle, 0, MIB, NULL), NULL);
    ck_assert_int_eq(pleat_stream_retire(scene.handle, 0, (void *)0x4711000), PLEAT_EDRIVER);
    api_expect(PLEAT_EDRIVER, "0x4711000", "retire it before it is destroyed");
    ck_assert_int_eq(pleat_stream_retire(scene.handle, 9, NULL), PLEAT_EDEVICE);
    /* the stream stays known */
    ck_assert_int_eq(pleat_stream_retire(scene.handle, 0, NULL), PLEAT_OK);
    api_free(scene.handle, 0, api_alloc(scene.handle, 0, MIB, NULL), NULL);
    api_unmake(scene.handle);
}
END_TEST

SUITE(api_stream_churn)
{
    TCase *churning = tcase_create("churn");
    tcase_add_checked_fixture(churning, api_sim_load, NULL);
    tcase_add_test(churning, streams_in_turn_leave_nothing_behind);
    tcase_add_test(churning, a_million_streams_leave_nothing_behind);
    tcase_add_loop_test(churning, a_thousand_streams_at_once_leave_nothing_behind, 0, 2);
    tcase_add_loop_test(churning, few_streams_of_large_blocks_need_little_more_than_what_lives, 0,
                        N_CHUNK_CONFS);
    tcase_add_loop_test(churning, streams_that_repeat_their_shapes_hardly_need_the_driver, 0,
                        N_CHUNK_CONFS);
    tcase_add_test(churning, streams_that_free_much_leave_nothing_behind);
    tcase_add_test(churning, retired_streams_leave_nothing_behind);
    tcase_add_loop_test(churning, streams_whose_handles_never_come_again_leave_nothing_behind, 0,
                        2);
    tcase_add_test(churning, streams_that_leave_a_little_pending_do_not_add_up);
    tcase_add_loop_test(churning, no_call_is_made_with_a_dead_handle, 0, 2);
    suite_one_thread(churning);
    suite_add_tcase(suite, churning);
    TCase *threads = suite_case(suite, "threads", api_sim_load, NULL);
    tcase_add_test(threads, streams_may_be_named_while_a_crowd_passes);
    tcase_add_test(threads, threads_that_end_take_their_default_streams_along);
    TCase *retiring = tcase_create("retire");
    tcase_add_checked_fixture(retiring, api_sim_load, NULL);
    tcase_add_test(retiring, a_retired_streams_blocks_are_freed_on_others);
    tcase_add_test(retiring, what_is_no_stream_cannot_be_retired);
    suite_one_thread(retiring);
    suite_add_tcase(suite, retiring);
}
