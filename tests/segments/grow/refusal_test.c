/* refusal_test.c - a driver that refuses once, or is short of memory for a while, and then is asked
 * again.
 *
 * Another user of the device may take memory and give it back at any moment. So a refusal says
 * nothing about the next request: whatever the driver can give is given, without a wait. */
/* labels: fault */
#include <check.h>
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include "segments/pleat/space/space.h"
#include "tests/support/own.h"
#include "tests/support/segments/segments_captures.h"
#include "tests/support/segments/segments_draw.h"
#include "tests/support/segments/segments_random.h"
#include "tests/support/segments/segments_sim.h"
#include "tests/support/suite.h"
#include "vmm/base/deadline.h"

enum { GRANULE = 2 << 20, CAPACITY = 256 << 20, N_SLOTS = 16, N_ROUNDS = 4 };

/* Nothing that is submitted ends, and no wait succeeds. */
#define SIM "capacity:256M,depth:1048576,waits:refuse"

typedef struct slot {
    pleat_devptr ptr; /* 0 = none */
    unsigned stream;
} slot;

static slot slots[N_SLOTS];

/* ---- the calls ------------------------------------------------------------------------------- */

static pleat_status get(slot *s, size_t bytes, unsigned stream)
{
    *s = (slot){ .stream = stream };
    return pleat.a->ops->alloc(pleat.a, bytes, pleat.streams[stream], &s->ptr);
}

static void get_and_use(slot *s, size_t bytes, unsigned stream)
{
    if (get(s, bytes, stream) == PLEAT_OK) {
        pleat_work(stream, s->ptr, bytes);
    } else {
        s->ptr = 0;
    }
}

/* A free that the driver refuses leaves the block live. */
static void put(slot *s)
{
    if (s->ptr != 0 && pleat.a->ops->free(pleat.a, s->ptr, pleat.streams[s->stream]) == PLEAT_OK) {
        s->ptr = 0;
    }
}

static void act(random_source *r)
{
    slot *s = &slots[random_below(r, N_SLOTS)];
    unsigned stream = (unsigned)random_below(r, PLEAT_N_STREAMS);
    uint64_t released;

    if (random_once_in(r, 8)) {
        (void)!pleat.a->ops->trim(pleat.a, 0, false, &released);
    } else if (s->ptr == 0) {
        get_and_use(s, random_spread(r, 24 * MIB), stream);
    } else if (random_once_in(r, 4)) {
        (void)!pleat.a->ops->record_stream(pleat.a, s->ptr, pleat.streams[stream]);
    } else {
        put(s);
    }
}

/* ---- the device ------------------------------------------------------------------------------ */

static bool is_settled;

static void open_drawn(random_source *r)
{
    pl_allocator_options options;

    is_settled = random_once_in(r, 2);
    pl_allocator_options_init(&options);
    options.wait_ms = random_once_in(r, 2) ? 0 : 5;
    SET_OWN(pleat, &options, cross_stream, is_settled ? PL_CROSS_SETTLED : PL_CROSS_ORDER);
    SET_OWN(pleat, &options, chunks, random_once_in(r, 2) ? PL_CHUNKS_GRANULE : PL_CHUNKS_MIXED);
    SET_OWN(pleat, &options, reserve_bytes, random_once_in(r, 2) ? 0 : 8 * MIB);
    pleat_open(SIM, &options);
    for (unsigned i = 0; i < N_SLOTS; i++) {
        slots[i] = (slot){ .ptr = 0 };
    }
}

static size_t free_granules(void)
{
    pleat_sim_counts n = vmm_sim_counted(&pleat.sim);

    return (size_t)(n.capacity_bytes - n.physical_bytes) / GRANULE;
}

/* ---- one refusal ----------------------------------------------------------------------------- */

static const char *const CALLS[] = {
    NULL,
    "cuMemCreate",
    "cuMemCreate",
    "cuMemMap",
    "cuMemSetAccess",
    "cuMemUnmap",
    "cuMemRelease",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventQuery",
    "cuMemGetInfo",
    "cuStreamWaitEvent",
    "cuMemAddressReserve",
    "cuCtxRecordEvent",
    "cuStreamGetId",
    "cuStreamIsCapturing",
    "cuThreadExchangeStreamCaptureMode",
};
static const int CODES[] = { 2, 2, 1, 100, 201, 304, 400, 600, 800, 801, 999 };

/* The driver refuses one call, drawn with its code, in the course of some calls of pleat. */
static void meet_refusal(random_source *r)
{
    const char *call = CALLS[random_below(r, sizeof CALLS / sizeof CALLS[0])];
    int code = CODES[random_below(r, sizeof CODES / sizeof CODES[0])];

    pleat.sim.fail_at(call, random_below(r, call != NULL ? 4 : 24), code);
    for (unsigned n = 6; n > 0; n--) {
        act(r);
    }
    pleat.sim.fail_never();
}

static cu_devptr others[2]; /* memory of another user of the device; 0 = none */

static void others_take(unsigned i, size_t n_granules)
{
    if (n_granules > 0) {
        ck_assert_int_eq(pl_cu_mem_alloc(pleat.sim.drv, &others[i], n_granules * GRANULE),
                         CU_SUCCESS);
    }
}

static void others_give_back(unsigned i)
{
    if (others[i] != 0) {
        ck_assert_int_eq(pl_cu_mem_free(pleat.sim.drv, others[i]), CU_SUCCESS);
        others[i] = 0;
    }
}

/* Another user fills the device, requests fail, and the other gives part or all back. */
static void meet_shortage(random_source *r)
{
    others_give_back(1);
    size_t n = free_granules();
    size_t n_kept = random_below(r, n / 2 + 1);

    others_take(0, n - n_kept);
    others_take(1, n_kept);
    for (unsigned i = 4; i > 0; i--) {
        slot s;
        get_and_use(&s, (64 + random_below(r, 64)) * (size_t)GRANULE, 1);
        put(&s);
        act(r);
    }
    others_give_back(0);
}

/* What a request may use, and how it is asked for. */
typedef struct asking {
    unsigned stream;
    bool is_capture;
    pl_keeper *pool; /* NULL = the default pool */
} asking;

static asking begin_asking(random_source *r)
{
    asking a = { .stream = 1 + (unsigned)random_below(r, PLEAT_N_STREAMS - 1),
                 .is_capture = random_once_in(r, 2) };

    if (random_once_in(r, 3)) {
        ck_assert_int_eq(pleat.a->ops->pools->open(pleat.a, &a.pool), PLEAT_OK);
    }
    if (a.is_capture) {
        captures_begin_announced(a.stream);
    }
    return a;
}

static void end_asking(const asking *a)
{
    if (a->is_capture) {
        captures_end_announced(a->stream);
    }
}

/* Whatever the driver has left is given at once, also in a capture. */
static void assert_served(random_source *r)
{
    size_t n = free_granules();
    slot s = { .ptr = 0 };
    pleat_stats before;
    pleat_stats after;

    if (n == 0) {
        return;
    }
    pleat.a->ops->stats(pleat.a, &before);
    asking a = begin_asking(r);
    pleat_status st = pleat.a->ops->alloc_asked(pleat.a, a.pool, random_between(r, 1, n) * GRANULE,
                                                pleat.streams[a.stream], NULL, &s.ptr);
    ck_assert_msg(st == PLEAT_OK, "status %d with %zu granules free%s%s", (int)st, n,
                  a.is_capture ? ", in a capture" : "", a.pool != NULL ? ", in a pool" : "");
    end_asking(&a);
    pleat.a->ops->stats(pleat.a, &after);
    ck_assert_uint_eq(after.host_syncs, before.host_syncs);
    if (is_settled) {
        ck_assert_uint_eq(after.stream_waits, before.stream_waits);
    }
    s.stream = a.stream;
    put(&s);
    ck_assert_uint_eq(s.ptr, 0);
    if (a.pool != NULL) {
        pleat.a->ops->pools->release(pleat.a, a.pool);
    }
}

static void close_drawn(void)
{
    for (unsigned i = 0; i < N_SLOTS; i++) {
        put(&slots[i]);
    }
    others_give_back(1);
    pleat.sim.finish();
    pleat_close();
}

static void play(uint64_t seed)
{
    random_source r = { .state = seed };

    open_drawn(&r);
    for (unsigned i = 0; i < N_ROUNDS; i++) {
        for (unsigned n = 12; n > 0; n--) {
            act(&r);
        }
        if (random_once_in(&r, 3)) {
            meet_shortage(&r);
        } else {
            meet_refusal(&r);
        }
        pleat_assert_sound();
        assert_served(&r);
    }
    close_drawn();
}

START_TEST(after_any_refusal_what_fits_is_served_at_once)
{
    draw_seeds seeds = draw_seeds_of(3000);
    uint64_t seed;

    while (draw_next_seed(&seeds, &seed)) {
        play(seed);
    }
}
END_TEST

/* _i: the call. Each creates, maps or opens memory, and may be short of memory for a moment. */
START_TEST(one_refusal_of_memory_fails_no_request)
{
    static const char *const calls[] = { "cuMemCreate", "cuMemMap", "cuMemSetAccess" };
    uint64_t n_faults;

    for (uint64_t k = 0;; k++) {
        pleat_open(SIM, NULL);
        n_faults = pleat.sim.n_faults();
        pleat.sim.fail_at(calls[_i], k, 2);
        pleat_get(MIB, 1);
        pleat_devptr ptr = pleat_get(40 * MIB, 1);
        pleat_get(GRANULE, 2);
        pleat_put(ptr, 1);
        pleat_get(60 * MIB, 1); /* takes, too */
        bool has_struck = pleat.sim.n_faults() > n_faults;
        pleat_close();
        if (!has_struck) {
            ck_assert_uint_gt(k, 1);
            break;
        }
    }
}
END_TEST

/* A pending granule of another stream is not worth a wait where the driver has memory. */
START_TEST(a_refusal_makes_no_stream_wait_for_a_little_memory)
{
    pl_space *space;
    pleat_devptr ptr;

    pleat_open(SIM, NULL);
    pleat_get(GRANULE, 1);
    pleat_put(pleat_get_and_use(GRANULE, 2), 2);
    others_take(0, free_granules());
    ck_assert_int_ne(pleat.a->ops->alloc(pleat.a, 10 * MIB, pleat.streams[1], &ptr), PLEAT_OK);
    others_give_back(0);
    space = (pl_space *)pleat.a;
    ck_assert_uint_lt(space->chunks.full_at, SIZE_MAX);
    uint64_t n_waits = pleat_counted().stream_waits;
    pleat_get(10 * MIB, 3);
    ck_assert_uint_eq(pleat_counted().stream_waits, n_waits);
    ck_assert_uint_eq(space->chunks.full_at, SIZE_MAX); /* the refusal is forgotten */
    pleat.sim.finish();
    pleat_close();
}
END_TEST

/* Some memory pends, but others hold so much that all of it does not suffice. */
START_TEST(no_wait_is_made_that_cannot_serve)
{
    pleat_devptr ptr;
    pleat_stats s;

    pleat_open(SIM, NULL);
    pleat_get(GRANULE, 1);
    pleat_put(pleat_get_and_use(64 * MIB, 2), 2);
    others_take(0, free_granules());
    ck_assert_int_eq(pleat.a->ops->alloc(pleat.a, 100 * MIB, pleat.streams[1], &ptr),
                     PLEAT_ENOMEM_DEVICE);
    pleat.a->ops->stats(pleat.a, &s);
    ck_assert_uint_eq(s.host_syncs, 0);
    pleat_get(40 * MIB, 1); /* a wait that can */
    others_give_back(0);
    pleat_get(100 * MIB, 1);
    pleat.sim.finish();
    pleat_close();
}
END_TEST

/* No other stream could be ordered after the free, and the host would have to wait. */
START_TEST(a_tick_that_is_refused_comes_with_the_next_call)
{
    pleat_open(SIM, NULL);
    pleat_devptr ptr = pleat_get_and_use(200 * MIB, 2);
    pleat.sim.fail_at("cuEventRecord", 0, 999);
    uint64_t n_faults = pleat.sim.n_faults();
    pleat_put(ptr, 2);
    ck_assert_uint_gt(pleat.sim.n_faults(), n_faults);
    pleat_get(512, 2);
    pleat_stats before = pleat_counted();
    pleat_get(100 * MIB, 1);
    ck_assert_uint_eq(pleat_counted().host_syncs, before.host_syncs);
    ck_assert_uint_gt(pleat_counted().stream_waits, before.stream_waits);
    pleat.sim.finish();
    pleat_close();
}
END_TEST

/* ---- a stream that hangs --------------------------------------------------------------------- */

enum { N_HANGING = 3 }; /* streams 1 to 3; the requests are of stream 4 */

typedef struct ending {
    unsigned stream;
    uint64_t use;
} ending;

/* End the use once somebody waits. */
static void *end_use(void *arg)
{
    const ending *e = arg;

    while (pleat.sim.n_calls("cuEventSynchronize") == 0) {
        usleep(100);
    }
    return pleat.sim.use_end(pleat.handles[e->stream], e->use) == 0 ? arg : NULL;
}

/* _i + 1: the stream whose work ends. All others hang. */
START_TEST(streams_that_hang_hold_up_no_memory_of_others)
{
    ending e = { .stream = (unsigned)_i + 1 };
    size_t bytes = 64 * MIB;
    pleat_devptr ptrs[N_HANGING];
    pthread_t thread;
    void *is_ended;
    pl_allocator_options options;

    pl_allocator_options_init(&options);
    options.wait_ms = 10000; /* a wait for a stream that hangs would take so long */
    SET_OWN(pleat, &options, cross_stream, PL_CROSS_SETTLED);
    pleat_open(SIM, &options);
    for (unsigned i = 0; i < N_HANGING; i++) {
        uint64_t use;
        ptrs[i] = pleat_get(bytes, i + 1);
        ck_assert_int_eq(pleat.sim.use(pleat.handles[i + 1], pleat.handles[i + 1], ptrs[i], bytes,
                                       i + 1 == e.stream ? &e.use : &use),
                         0);
        pleat_put(ptrs[i], i + 1);
    }
    pleat_get(64 * MIB, 4);
    ck_assert_int_eq(pthread_create(&thread, NULL, end_use, &e), 0);
    pleat_get(bytes, 4);
    ck_assert_uint_gt(pl_deadline_left(options.wait_ms), 0);
    ck_assert_int_eq(pthread_join(thread, &is_ended), 0);
    ck_assert_ptr_nonnull(is_ended);
    ck_assert_uint_eq(pleat_counted().pending_bytes, (N_HANGING - 1) * bytes);
    pleat.sim.finish();
    pleat_close();
}
END_TEST

/* Name the stream, so that a tick covers its uses, and end them. */
static void *name_and_end(void *arg)
{
    const ending *e = arg;
    pleat_devptr ptr;
    bool is_inside = pl_device_enter(pleat.dev) == PLEAT_OK;

    while (pleat.sim.n_calls("cuEventSynchronize") == 0) {
        usleep(100);
    }
    pl_stream_take_over(pleat.streams[e->stream]); /* as pl_stream_get does */
    pleat_status st = pleat.a->ops->alloc(pleat.a, 512, pleat.streams[e->stream], &ptr);
    if (is_inside) {
        pl_device_leave(pleat.dev);
    }
    bool is_ended = pleat.sim.use_end(pleat.handles[e->stream], e->use) == 0;
    return st == PLEAT_OK && is_ended ? arg : NULL;
}

/* No tick covers the uses. The request waits for the whole context, which a stream holds up. */
START_TEST(what_other_threads_do_ends_a_wait)
{
    enum { WAIT_MS = 10000 };
    size_t bytes = 90 * MIB;
    ending e = { .stream = 2 };
    uint64_t hanging;
    pthread_t thread;
    void *is_ended;

    pleat_open_with(SIM, PL_CROSS_SETTLED, WAIT_MS);
    pleat_get(512, 2);
    pleat_devptr p = pleat_get(bytes, 4);
    pleat_devptr q = pleat_get(bytes, 4);
    ck_assert_int_eq(pleat.sim.use(pleat.handles[1], pleat.handles[4], p, bytes, &hanging), 0);
    ck_assert_int_eq(pleat.sim.use(pleat.handles[2], pleat.handles[4], q, bytes, &e.use), 0);
    pleat_record(p, 1);
    pleat_record(q, 2);
    pleat_put(p, 4);
    pleat_put(q, 4);
    ck_assert_int_eq(pthread_create(&thread, NULL, name_and_end, &e), 0);
    pleat_get(bytes, 3);
    ck_assert_uint_gt(pl_deadline_left(WAIT_MS), 0);
    ck_assert_int_eq(pthread_join(thread, &is_ended), 0);
    ck_assert_ptr_nonnull(is_ended);
    pleat.sim.finish();
    pleat_close();
}
END_TEST

/* Only a tick of the context covers the memory, and the driver fails to record one. */
START_TEST(what_made_the_last_wait_fail_is_told)
{
    pleat_devptr ptr;
    pleat_open_with(SIM, PL_CROSS_ORDER, 20);
    pleat_get(512, 1);
    pleat_devptr p = pleat_get(200 * MIB, 2);
    pleat_renew_stream(2);
    pleat.sim.fail_from("cuCtxRecordEvent", 0, 719);
    pleat_put(p, 1);
    ck_assert_int_eq(pleat.a->ops->alloc(pleat.a, 100 * MIB, pleat.streams[1], &ptr),
                     PLEAT_EDRIVER);
    pleat.sim.fail_never();
    pleat_get(100 * MIB, 1);
    pleat_close();
}
END_TEST

/* ---- two limits ------------------------------------------------------------------------------ */

static pthread_t first_thread;
static pthread_t second_thread;
static bool has_second;
static bool is_joined;
static bool ends_within;
static unsigned n_first; /* driver calls of the first call */
static unsigned begin_at;
static sem_t second_is_shrinking; /* or has returned */
static sem_t second_may_go_on;
static pleat_status second_status;

static void *set_second_limit(void *unused)
{
    bool is_inside = pl_device_enter(pleat.dev) == PLEAT_OK;

    second_status = pleat.a->ops->set_limit(pleat.a, 10 * (uint64_t)GRANULE);
    if (is_inside) {
        pl_device_leave(pleat.dev);
    }
    sem_post(&second_is_shrinking);
    return unused;
}

static void join_second(void)
{
    if (has_second && !is_joined) {
        is_joined = true;
        sem_post(&second_may_go_on);
        pthread_join(second_thread, NULL);
    }
}

/* Not for ever: either call may wait for a flight of the other. */
static void wait_a_while(sem_t *sem)
{
    for (unsigned n = 0; n < 5000 && sem_trywait(sem) != 0; n++) {
        usleep(200);
    }
}

/* The second call begins in a driver call of the first, and comes to its end in the first unmapping
 * of the first, or after the first. */
static void interleave(pl_entry entry, int failure, uint64_t bytes, void *context)
{
    (void)failure;
    (void)bytes;
    (void)context;
    if (!pthread_equal(pthread_self(), first_thread)) {
        if (entry == PL_CU_mem_unmap) {
            sem_post(&second_is_shrinking);
            wait_a_while(&second_may_go_on);
            sem_post(&second_may_go_on);
        }
        return;
    }
    if (!has_second && n_first++ == begin_at) {
        has_second = pthread_create(&second_thread, NULL, set_second_limit, NULL) == 0;
        wait_a_while(&second_is_shrinking);
    }
    if (entry == PL_CU_mem_unmap && ends_within) {
        join_second();
    }
}

static void refuse_two_limits(unsigned at, bool is_within)
{
    pleat_open_with(SIM, PL_CROSS_ORDER, 20);
    pleat_devptr shared = pleat_get(20 * (size_t)GRANULE, 1);
    pleat_devptr low = pleat_get(20 * (size_t)GRANULE, 1);
    pleat_get(GRANULE, 1);
    pleat_devptr high = pleat_get(20 * (size_t)GRANULE, 1);
    pleat_record(shared, 2);
    pleat_put(shared, 1);
    pleat_put(low, 1);
    pleat_put(high, 1);
    first_thread = pthread_self();
    has_second = false;
    is_joined = false;
    n_first = 0;
    begin_at = at;
    ends_within = is_within;
    sem_init(&second_is_shrinking, 0, 0);
    sem_init(&second_may_go_on, 0, 0);
    pleat.sim.fail_from("cuMemUnmap", 0, 999);
    pl_driver_time_calls(pleat.sim.drv, true);
    pl_driver_watch(pleat.sim.drv, interleave, NULL);
    ck_assert_int_ne(pleat.a->ops->set_limit(pleat.a, 12 * (uint64_t)GRANULE), PLEAT_OK);
    pl_driver_watch(pleat.sim.drv, NULL, NULL);
    join_second();
    ck_assert(!has_second || second_status != PLEAT_OK);
    pleat.sim.fail_never();
    pleat_get(100 * (size_t)GRANULE, 1); /* no limit is in force */
    pleat_close();
}

enum { FIRST_CALLS = 32 }; /* the first call waits for live memory, then sets the limit */

START_TEST(of_two_limits_that_are_refused_none_stays)
{
    unsigned at = 0;

    do {
        refuse_two_limits(at++, _i == 0);
    } while (has_second && at < FIRST_CALLS);
    ck_assert_uint_gt(at, 1);
}
END_TEST

/* ---- a flight that fails --------------------------------------------------------------------- */

static sem_t second_has_returned;

static void *request_the_rest(void *unused)
{
    pleat_devptr ptr;
    bool is_inside = pl_device_enter(pleat.dev) == PLEAT_OK;

    second_status = pleat.a->ops->alloc(pleat.a, 60 * (size_t)GRANULE, pleat.streams[2], &ptr);
    if (is_inside) {
        pl_device_leave(pleat.dev);
    }
    sem_post(&second_has_returned);
    return unused;
}

/* The first request's memory is there, but not mapped yet. The second one gets time to be
 * refused. */
static void request_beside_a_map(pl_entry entry, int failure, uint64_t bytes, void *context)
{
    (void)failure;
    (void)bytes;
    (void)context;
    if (entry == PL_CU_mem_map && !has_second) {
        has_second = true;
        ck_assert_int_eq(pthread_create(&second_thread, NULL, request_the_rest, NULL), 0);
        for (unsigned n = 0; n < 250 && sem_trywait(&second_has_returned) != 0; n++) {
            usleep(200);
        }
    }
}

START_TEST(what_a_flight_gives_back_is_waited_for)
{
    pleat_devptr ptr;
    pleat_open_with(SIM, PL_CROSS_ORDER, 20);
    has_second = false;
    sem_init(&second_has_returned, 0, 0);
    pleat.sim.fail_at("cuMemMap", 0, 999);
    pl_driver_time_calls(pleat.sim.drv, true);
    pl_driver_watch(pleat.sim.drv, request_beside_a_map, NULL);
    pleat_status st = pleat.a->ops->alloc(pleat.a, 100 * (size_t)GRANULE, pleat.streams[1], &ptr);
    ck_assert(has_second);
    pthread_join(second_thread, NULL);
    pl_driver_watch(pleat.sim.drv, NULL, NULL);
    ck_assert_int_eq(st, PLEAT_EDRIVER);
    ck_assert_int_eq(second_status, PLEAT_OK);
    pleat.sim.fail_never();
    pleat_close();
}
END_TEST

SUITE(segments_refusal)
{
    TCase *all = suite_case(suite, "all", NULL, NULL);

    suite_one_thread(all);
    tcase_add_test(all, after_any_refusal_what_fits_is_served_at_once);
    tcase_add_loop_test(all, one_refusal_of_memory_fails_no_request, 0, 3);
    tcase_add_test(all, a_tick_that_is_refused_comes_with_the_next_call);
    tcase_add_test(all, a_refusal_makes_no_stream_wait_for_a_little_memory);
    tcase_add_test(all, no_wait_is_made_that_cannot_serve);
    tcase_add_test(all, what_made_the_last_wait_fail_is_told);

    TCase *threads = suite_case(suite, "threads", NULL, NULL);
    tcase_add_loop_test(threads, streams_that_hang_hold_up_no_memory_of_others, 0, N_HANGING);
    tcase_add_test(threads, what_other_threads_do_ends_a_wait);
    tcase_add_loop_test(threads, of_two_limits_that_are_refused_none_stays, 0, 2);
    tcase_add_test(threads, what_a_flight_gives_back_is_waited_for);
}
