/* checkpoint_strange_test.c - PLEAT_RESTORE_SETTLED speaks for work of the pool's owner, not for
 * memory that the pool got while others still used it. */
/* labels: model */
#include <check.h>
#include <string.h>

#include "tests/support/api/api_sim.h"
#include "tests/support/segments/segments_random.h"
#include "tests/support/suite.h"

enum {
    N_SEEDS = 400,
    N_STREAMS = 4,
    MOST_OLD = 6,
    MOST_NEW = 5,
    N_LATER = 8,
    KIB = 1024,
    MIB = 1024 * KIB,
};

typedef struct scene {
    random_source r;
    pleat handle;
    void *streams[N_STREAMS];
} scene;

static void *any_stream(scene *s)
{
    return s->streams[random_below(&s->r, N_STREAMS)];
}

static size_t any_size(scene *s)
{
    return 512 + random_below(&s->r, random_once_in(&s->r, 2) ? MIB : 4 * MIB);
}

static void use(void *stream, pleat_devptr ptr, size_t bytes)
{
    pleat_sim_access access = { .ptr = ptr, .bytes = bytes, .is_write = true };
    ck_assert_int_eq(sim.work(stream, &access, 1), 0);
}

static void open_scene(scene *s, int seed)
{
    *s = (scene){ .r = { (uint64_t)seed + 1 } };
    s->handle = api_make(API_PLEAT, "capacity:256M,depth:1048576", "wait_ms:0,reserve_mb:0");
    for (int i = 0; i < N_STREAMS; i++) {
        s->streams[i] = api_stream(s->handle, 0);
    }
}

static void close_scene(scene *s)
{
    sim.finish();
    for (int i = 0; i < N_STREAMS; i++) {
        api_stream_end(s->handle, 0, s->streams[i]);
    }
    ck_assert_uint_eq(api_sim_counts().hazards, 0);
    api_check(s->handle);
    api_unmake(s->handle);
}

/* A pool's blocks outlive the pool. They go when everybody may have the pool's memory, and work of
 * their streams is not over yet. So a later pool gets memory that is still in use. */
static void leave_memory_in_use(scene *s, pleat_pool_id id)
{
    pleat_devptr old[MOST_OLD];
    size_t bytes[MOST_OLD];
    void *streams[MOST_OLD];
    size_t n = 1 + random_below(&s->r, MOST_OLD);
    ck_assert_int_eq(pleat_pool_begin(s->handle, 0, id, NULL, NULL, NULL), PLEAT_OK);
    for (size_t i = 0; i < n; i++) {
        bytes[i] = any_size(s);
        streams[i] = any_stream(s);
        old[i] = api_alloc(s->handle, 0, bytes[i], streams[i]);
    }
    ck_assert_int_eq(pleat_pool_end(s->handle, 0, id), PLEAT_OK);
    ck_assert_int_eq(pleat_pool_release(s->handle, 0, id), PLEAT_OK);
    sim.finish();
    api_free(s->handle, 0, api_alloc(s->handle, 0, 512, s->streams[0]), s->streams[0]);
    for (size_t i = 0; i < n; i++) {
        if (!random_once_in(&s->r, 4)) {
            use(streams[i], old[i], bytes[i]);
        }
        api_free(s->handle, 0, old[i], streams[i]);
    }
}

static void restore(scene *s, pleat_checkpoint checkpoint)
{
    ck_assert_int_eq(
        pleat_checkpoint_restore(s->handle, 0, checkpoint, PLEAT_RESTORE_SETTLED, NULL, NULL),
        PLEAT_OK);
}

/* The blocks go, and others come and go in their place. So the restore makes each block of pieces.
 * None is used. */
static void go_and_come_back(scene *s, pleat_checkpoint checkpoint, const pleat_devptr *kept,
                             void *const *streams, size_t n)
{
    enum { N_BETWEEN = 3 };
    for (size_t i = 0; i < n; i++) {
        api_free(s->handle, 0, kept[i], streams[i]);
    }
    for (int i = 0; i < N_BETWEEN; i++) {
        void *stream = any_stream(s);
        api_free(s->handle, 0, api_alloc(s->handle, 0, any_size(s), stream), stream);
    }
    restore(s, checkpoint);
}

/* The owner of the new pool waits for work of its own: there is none. */
START_TEST(what_others_still_use_pends_on)
{
    scene s;
    pleat_checkpoint checkpoint;
    open_scene(&s, _i);
    leave_memory_in_use(&s, (pleat_pool_id){ 1, 1 });
    pleat_pool_id id = { 2, 2 };
    ck_assert_int_eq(pleat_pool_begin(s.handle, 0, id, NULL, NULL, NULL), PLEAT_OK);
    pleat_devptr kept[MOST_NEW + N_LATER];
    void *streams[MOST_NEW + N_LATER];
    size_t n = 1 + random_below(&s.r, MOST_NEW);
    for (size_t i = 0; i < n; i++) {
        streams[i] = any_stream(&s);
        kept[i] = api_alloc(s.handle, 0, any_size(&s), streams[i]);
        if (i > 0 && random_once_in(&s.r, 2)) { /* unused, so its own use is over */
            api_free(s.handle, 0, kept[i], streams[i]);
            i--;
            n--;
        }
    }
    ck_assert_int_eq(pleat_checkpoint_take(s.handle, 0, id, &checkpoint), PLEAT_OK);
    restore(&s, checkpoint);
    for (size_t i = random_below(&s.r, 3); i > 0; i--) {
        go_and_come_back(&s, checkpoint, kept, streams, n);
    }
    for (int i = 0; i < N_LATER; i++, n++) {
        size_t bytes = any_size(&s);
        streams[n] = any_stream(&s);
        kept[n] = api_alloc(s.handle, 0, bytes, streams[n]);
        use(streams[n], kept[n], bytes);
    }
    ck_assert_uint_eq(api_sim_counts().hazards, 0);
    ck_assert_int_eq(pleat_pool_end(s.handle, 0, id), PLEAT_OK);
    for (size_t i = 0; i < n; i++) {
        api_free(s.handle, 0, kept[i], streams[i]);
    }
    ck_assert_int_eq(pleat_checkpoint_release(s.handle, 0, checkpoint), PLEAT_OK);
    ck_assert_int_eq(pleat_pool_release(s.handle, 0, id), PLEAT_OK);
    close_scene(&s);
}
END_TEST

enum { OLD = 8 * MIB, LIVE = 100 * MIB, FAILED = 150 * MIB, LATER = MIB + 4096, N_FILL = 14 };

/* Two pools, one after the other. The first block of the old one is settled, and the second still
 * used by its stream, when the new one gets both. */
typedef struct succession {
    pleat_pool_id one, two;
    pleat_devptr live, settled, used;
    pleat_devptr kept; /* the new pool's only block, within the settled part */
    pleat_checkpoint checkpoint;
} succession;

static void succeed(scene *s, succession *u)
{
    *u = (succession){ .one = { 1, 1 }, .two = { 2, 2 } };
    u->live = api_alloc(s->handle, 0, LIVE, s->streams[1]);
    ck_assert_int_eq(pleat_pool_begin(s->handle, 0, u->one, NULL, NULL, NULL), PLEAT_OK);
    u->settled = api_alloc(s->handle, 0, OLD, s->streams[0]);
    u->used = api_alloc(s->handle, 0, OLD, s->streams[0]);
    ck_assert_int_eq(pleat_pool_end(s->handle, 0, u->one), PLEAT_OK);
    api_free(s->handle, 0, u->settled, s->streams[0]);
    ck_assert_int_eq(pleat_pool_release(s->handle, 0, u->one), PLEAT_OK);
    for (int i = 0; i < 3; i++) { /* named, so settled */
        sim.finish();
        api_free(s->handle, 0, api_alloc(s->handle, 0, 512, s->streams[i]), s->streams[i]);
    }
    use(s->streams[0], u->used, OLD);
    api_free(s->handle, 0, u->used, s->streams[0]);
    ck_assert_int_eq(pleat_pool_begin(s->handle, 0, u->two, NULL, NULL, NULL), PLEAT_OK);
    u->kept = api_alloc(s->handle, 0, LATER, s->streams[1]);
    ck_assert_int_eq(pleat_checkpoint_take(s->handle, 0, u->two, &u->checkpoint), PLEAT_OK);
}

/* In the new pool: the owner says that its own uses are over, and another stream uses the rest. */
static void restore_and_fill(scene *s, succession *u)
{
    restore(s, u->checkpoint);
    pleat_devptr later[N_FILL];
    for (int i = 0; i < N_FILL; i++) {
        later[i] = api_alloc(s->handle, 0, LATER, s->streams[2]);
        use(s->streams[2], later[i], LATER);
    }
    ck_assert_uint_eq(api_sim_counts().hazards, 0);
    ck_assert_int_eq(pleat_pool_end(s->handle, 0, u->two), PLEAT_OK);
    for (int i = 0; i < N_FILL; i++) {
        api_free(s->handle, 0, later[i], s->streams[2]);
    }
    api_free(s->handle, 0, u->kept, s->streams[1]);
    api_free(s->handle, 0, u->live, s->streams[1]);
    ck_assert_int_eq(pleat_checkpoint_release(s->handle, 0, u->checkpoint), PLEAT_OK);
    ck_assert_int_eq(pleat_pool_release(s->handle, 0, u->two), PLEAT_OK);
}

/* A request of the stream that still uses the second block takes both, in one run, and gives them
 * back, as the driver fails it. The settled part must not speak for the rest. */
START_TEST(what_a_failed_request_gives_back_pends_on)
{
    static const char *const CALLS[] = { "cuMemMap", "cuMemCreate", "cuMemSetAccess" };
    scene s;
    succession u;
    pleat_devptr none;
    open_scene(&s, _i);
    succeed(&s, &u);
    ck_assert_int_eq(pleat_pool_end(s.handle, 0, u.two), PLEAT_OK);
    sim.fail_from(CALLS[_i % 3], 0, 999);
    ck_assert_int_ne(pleat_block_alloc(s.handle, 0, FAILED, s.streams[0], &none), PLEAT_OK);
    sim.fail_never();
    ck_assert_int_eq(pleat_pool_begin(s.handle, 0, u.two, NULL, NULL, NULL), PLEAT_OK);
    restore_and_fill(&s, &u);
    close_scene(&s);
}
END_TEST

/* The stream allocates both at their address, and frees them unused. */
START_TEST(what_an_allocation_at_an_address_took_pends_on)
{
    scene s;
    succession u;
    open_scene(&s, 0);
    succeed(&s, &u);
    ck_assert_uint_eq(u.used, u.settled + OLD); /* else they are two pieces */
    pleat_devptr at = u.kept + 2 * MIB;
    size_t bytes = (size_t)(u.used + OLD - at);
    ck_assert_uint_gt(bytes, OLD);
    ck_assert_int_eq(pleat_pool_alloc_at(s.handle, 0, u.two, at, bytes, s.streams[0]), PLEAT_OK);
    api_free(s.handle, 0, at, s.streams[0]);
    restore_and_fill(&s, &u);
    close_scene(&s);
}
END_TEST

SUITE(api_checkpoint_strange)
{
    TCase *strange = suite_case(suite, "strange", api_sim_load, NULL);
    suite_one_thread(strange);
    tcase_add_loop_test(strange, what_a_failed_request_gives_back_pends_on, 0, 3);
    tcase_add_test(strange, what_an_allocation_at_an_address_took_pends_on);
    tcase_add_loop_test(strange, what_others_still_use_pends_on, 0, (int)suite_part(N_SEEDS));
}
