/* asked_test.c - the questions that pleat asks the driver about a stream: how many per request. A
 * free that does not query its handle must not give away memory in use.
 *
 * Declared work on the simulator ends only when the host waits for it. So memory used too early is
 * a race, found by api_unmake. */
/* labels: unit model */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "api/calls/internal.h"
#include "tests/support/api/api_sim.h"
#include "tests/support/api/api_torch.h"
#include "tests/support/suite.h"
#include "vmm/driver.h"

enum { MIB = 1 << 20 };

static pleat instance;

static void make(const char *sim_conf, const char *conf)
{
    instance = api_make(API_PLEAT, sim_conf, conf);
}

/* ---- how many calls -------------------------------------------------------------------------- */

/* The entry points that tell of a stream. Nothing else is called for a hit. */
typedef struct questions {
    unsigned info;
    unsigned capturing;
    unsigned mode;
    unsigned id;
    unsigned context;
} questions;

static const char *const question_names[] = { "cuStreamGetCaptureInfo_v2", "cuStreamIsCapturing",
                                              "cuThreadExchangeStreamCaptureMode", "cuStreamGetId",
                                              "cuCtxGetCurrent" };
enum { N_QUESTIONS = sizeof question_names / sizeof question_names[0] };

typedef struct count {
    uint64_t asked[N_QUESTIONS];
    uint64_t all;
} count;

static count count_now(void)
{
    count c = { .all = api_sim_counts().calls };
    for (int i = 0; i < N_QUESTIONS; i++) {
        c.asked[i] = sim.n_calls(question_names[i]);
    }
    return c;
}

static void expect_asked(const count *before, questions want, const char *what)
{
    const unsigned wants[N_QUESTIONS] = { want.info, want.capturing, want.mode, want.id,
                                          want.context };
    count now = count_now();
    unsigned sum = 0;
    for (int i = 0; i < N_QUESTIONS; i++) {
        ck_assert_msg(now.asked[i] - before->asked[i] == wants[i], "%s: %s %u times, not %u", what,
                      question_names[i], (unsigned)(now.asked[i] - before->asked[i]), wants[i]);
        sum += wants[i];
    }
    ck_assert_msg(now.all - before->all == sum, "%s: %u calls", what,
                  (unsigned)(now.all - before->all));
}

typedef enum kind { LEGACY, CREATED, PER_THREAD, N_KINDS } kind;

static void *stream_of(kind k)
{
    return k == LEGACY ? NULL : k == PER_THREAD ? (void *)2 : api_stream(instance, 0);
}

/* The questions of a request and a free on a created stream, and of both on a per-thread stream.
 * Such a stream is the current context's: which context is current matters to find the stream, and
 * then to ask about its capture. */
typedef struct cost {
    const char *sim_conf;
    const char *conf;
    questions request;
    questions free;   /* a recorded use is the same */
    questions thread; /* either, on a per-thread stream */
    int mode;         /* of the thread */
} cost;

#define SIM "capacity:64M,dead_handles:error"
static const cost costs[] = {
    { SIM, "", { 1, 0, 2, 1, 0 }, { 1, 0, 0, 0, 0 }, { 1, 0, 0, 0, 2 }, CU_CAPTURE_MODE_GLOBAL },
    { SIM, "capture:told", { 1, 0, 2, 1, 0 }, { 0 }, { 0, 0, 0, 0, 1 }, CU_CAPTURE_MODE_GLOBAL },
    { SIM,
      "stream_identity:handle",
      { 1, 0, 0, 0, 0 },
      { 1, 0, 0, 0, 0 },
      { 1, 0, 0, 0, 2 },
      CU_CAPTURE_MODE_GLOBAL },
    { SIM,
      "stream_identity:handle,capture:told",
      { 0 },
      { 0 },
      { 0, 0, 0, 0, 1 },
      CU_CAPTURE_MODE_GLOBAL },
    { SIM,
      "",
      { 1, 0, 2, 1, 0 },
      { 1, 0, 0, 0, 0 },
      { 1, 0, 0, 0, 2 },
      CU_CAPTURE_MODE_THREAD_LOCAL },
    { SIM, "", { 1, 0, 1, 1, 0 }, { 1, 0, 0, 0, 0 }, { 1, 0, 0, 0, 2 }, CU_CAPTURE_MODE_RELAXED },
    { SIM ",devices:2",
      "peers:True",
      { 1, 0, 2, 1, 0 },
      { 2, 0, 2, 1, 0 },
      { 1, 0, 0, 0, 2 },
      CU_CAPTURE_MODE_GLOBAL },
    { SIM ",profile:old_driver",
      "",
      { 1, 0, 0, 0, 0 },
      { 1, 0, 0, 0, 0 },
      { 1, 0, 0, 0, 2 },
      CU_CAPTURE_MODE_GLOBAL },
};
enum { N_COSTS = sizeof costs / sizeof costs[0] };

static void exchange_mode(int *mode)
{
    ck_assert_int_eq(
        pl_cu_thread_capture_mode(pl_device_driver(pleat_internal_device(instance, 0)), mode), 0);
}

/* Allocate, record a use and free once. The questions must be these. */
static void pay(void *stream, questions request, questions free)
{
    count before = count_now();
    pleat_devptr ptr = api_alloc(instance, 0, MIB, stream);
    expect_asked(&before, request, "allocation");
    before = count_now();
    ck_assert_int_eq(pleat_block_record_stream(instance, 0, ptr, stream), PLEAT_OK);
    expect_asked(&before, free, "recorded use");
    before = count_now();
    api_free(instance, 0, ptr, stream);
    expect_asked(&before, free, "free");
}

/* A block stays alive, so that the young stream gets no tick. */
START_TEST(a_request_asks_what_it_must_and_nothing_twice)
{
    const cost *c = &costs[_i / N_KINDS];
    kind k = (kind)(_i % N_KINDS);
    int mode = c->mode;
    make(c->sim_conf, c->conf);
    void *stream = stream_of(k);
    pleat_devptr kept = api_alloc(instance, 0, MIB, stream);
    api_free(instance, 0, api_alloc(instance, 0, MIB, stream), stream);
    pl_device *dev = pleat_internal_device(instance, 0);
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    exchange_mode(&mode);
    for (int round = 0; round < 3; round++) {
        if (k == CREATED) {
            pay(stream, c->request, c->free);
        } else {
            questions none = { 0 };
            pay(stream, k == LEGACY ? none : c->thread, k == LEGACY ? none : c->thread);
        }
    }
    exchange_mode(&mode);
    ck_assert_int_eq(mode, c->mode); /* the mode is the application's */
    pl_device_leave(dev);
    api_free(instance, 0, kept, stream);
    if (k == CREATED) {
        api_stream_end(instance, 0, stream);
    }
    api_unmake(instance);
}
END_TEST

/* An announced capture is asked about, whatever `capture` says. */
START_TEST(while_a_pool_is_routed_a_capture_is_asked_about)
{
    static const pleat_pool_id id = { 0, 1 };
    const questions once = { 1, 0, 0, 0, 0 };
    make(SIM, "stream_identity:handle,capture:told");
    void *stream = api_stream(instance, 0);
    pleat_devptr kept = api_alloc(instance, 0, MIB, stream);
    pl_device *dev = pleat_internal_device(instance, 0);
    ck_assert_int_eq(pleat_pool_begin(instance, 0, id, NULL, NULL, NULL), PLEAT_OK);
    pleat_devptr first = api_alloc(instance, 0, MIB, stream);
    api_free(instance, 0, api_alloc(instance, 0, MIB, stream), stream);
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    pay(stream, once, once);
    pl_device_leave(dev);
    api_free(instance, 0, first, stream);
    ck_assert_int_eq(pleat_pool_end(instance, 0, id), PLEAT_OK);
    ck_assert_int_eq(pleat_pool_release(instance, 0, id), PLEAT_OK);
    api_free(instance, 0, kept, stream);
    api_stream_end(instance, 0, stream);
    api_unmake(instance);
}
END_TEST

/* During a capture pleat asks for no stream id. The first free after the capture asks for the
 * id. */
START_TEST(after_a_capture_the_first_free_asks_for_the_id)
{
    const questions info = { 1, 0, 0, 0, 0 };
    const questions twice = { 2, 0, 0, 0, 0 };
    const questions sure = { 2, 0, 2, 1, 0 };
    make(SIM, "");
    void *stream = api_stream(instance, 0);
    pleat_devptr kept[4];
    for (int i = 0; i < 4; i++) {
        kept[i] = api_alloc(instance, 0, MIB, stream);
    }
    api_torch_begin_capture(instance, 0, stream);
    pleat_devptr first = api_alloc(instance, 0, 4096, stream);
    pl_device *dev = pleat_internal_device(instance, 0);
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    count before = count_now();
    pleat_devptr second = api_alloc(instance, 0, 4096, stream);
    expect_asked(&before, info, "allocation in the capture");
    before = count_now();
    api_free(instance, 0, kept[0], stream);
    expect_asked(&before, twice, "free in the capture");
    api_torch_end_capture(instance, 0, stream);
    before = count_now();
    api_free(instance, 0, kept[1], stream);
    expect_asked(&before, sure, "first free after the capture");
    before = count_now();
    api_free(instance, 0, kept[2], stream);
    expect_asked(&before, info, "second free after the capture");
    pl_device_leave(dev);
    api_free(instance, 0, first, stream);
    api_free(instance, 0, second, stream);
    api_free(instance, 0, kept[3], stream);
    api_stream_end(instance, 0, stream);
    api_unmake(instance);
}
END_TEST

/* ---- recycled handles ------------------------------------------------------------------------ */

#define PATIENT "capacity:64M,depth:1048576,dead_handles:error"

/* Destroy the stream and create a new one with the same handle. */
static void recycle(void *stream)
{
    api_stream_end(instance, 0, stream);
    ck_assert_ptr_eq(api_stream(instance, 0), stream); /* else the tests show nothing */
}

static void work(void *stream, pleat_devptr ptr, size_t bytes)
{
    pleat_sim_access access = { .ptr = ptr, .bytes = bytes, .is_write = true };
    ck_assert_int_eq(sim.work(stream, &access, 1), 0);
}

/* Nearly the whole device. */
static const size_t large = (size_t)40 * MIB;

static pleat_devptr use_large(void *stream)
{
    pleat_devptr ptr = api_alloc(instance, 0, large, stream);
    work(stream, ptr, large);
    return ptr;
}

/* Two streams that have the same handle in turn, and a third stream. */
typedef struct scene {
    void *handle;
    void *other;
    pleat_devptr small; /* of the first stream; NULL = none */
} scene;

/* The state of the ticks left by the first stream's frees: none, passed, pending. */
typedef enum ticks { NO_TICK, PASSED_TICK, PENDING_TICK, N_TICKS } ticks;

static scene open_scene(const char *conf, ticks t)
{
    make(PATIENT, conf);
    scene s = { .handle = api_stream(instance, 0), .other = api_stream(instance, 0) };
    s.small = api_alloc(instance, 0, 4096, s.handle); /* while it lives, no free makes a tick */
    api_free(instance, 0, api_alloc(instance, 0, 4096, s.other), s.other);
    if (t != NO_TICK) {
        for (int i = 0; i < 40; i++) {
            pleat_devptr ptr = api_alloc(instance, 0, 4096, s.handle);
            work(s.handle, ptr, 4096);
            api_free(instance, 0, ptr, s.handle);
        }
    }
    if (t == PASSED_TICK) {
        sim.finish();
        api_free(instance, 0, api_alloc(instance, 0, 4096, s.handle), s.handle);
    }
    return s;
}

static void close_scene(const scene *s)
{
    api_check(instance);
    api_free(instance, 0, s->small, s->other);
    api_stream_end(instance, 0, s->handle);
    api_stream_end(instance, 0, s->other);
    api_unmake(instance);
}

/* Free on a handle, so that ticks become due and are recorded or refused. */
static void free_some(scene *s, unsigned n)
{
    pleat_devptr ptrs[64];
    for (unsigned i = 0; i < n; i++) {
        ptrs[i] = api_alloc(instance, 0, 4096, s->other);
    }
    for (unsigned i = 0; i < n; i++) {
        api_free(instance, 0, ptrs[i], s->handle);
    }
}

static const char *const confs[] = { "growth:frugal", "cross_stream:settled",
                                     "stream_identity:id,capture:told" };
enum {
    N_CONFS = sizeof confs / sizeof confs[0],
    N_FREES = 3,
    N_CASES = N_CONFS * N_TICKS * N_FREES
};
static const unsigned n_frees[N_FREES] = { 0, 1, 40 };

static scene open_case(int i)
{
    return open_scene(confs[i % N_CONFS], (ticks)(i / N_CONFS % N_TICKS));
}

/* The first stream's work is pending, and only the handle is the second one's. */
START_TEST(what_a_new_stream_frees_for_a_gone_one_is_not_its_own)
{
    scene s = open_case(_i);
    pleat_devptr ptr = use_large(s.handle);
    recycle(s.handle);
    api_free(instance, 0, ptr, s.handle);
    free_some(&s, n_frees[_i / (N_CONFS * N_TICKS)]);
    api_free(instance, 0, use_large(s.handle), s.handle);
    close_scene(&s);
}
END_TEST

/* The second stream's work is pending. The first stream's frees and ticks came before. */
START_TEST(what_a_new_stream_used_and_freed_waits_for_it)
{
    scene s = open_case(_i);
    pleat_devptr ptr = api_alloc(instance, 0, large, s.handle);
    recycle(s.handle);
    work(s.handle, ptr, large);
    api_free(instance, 0, ptr, s.handle);
    free_some(&s, n_frees[_i / (N_CONFS * N_TICKS)]);
    api_free(instance, 0, use_large(s.other), s.other);
    close_scene(&s);
}
END_TEST

/* As above, but the use was recorded and another stream frees. The block's owner is the gone stream
 * or a third one. */
START_TEST(what_a_new_stream_is_recorded_to_use_waits_for_it)
{
    scene s = open_case(_i);
    for (int is_owner = 0; is_owner < 2; is_owner++) {
        void *owner = is_owner != 0 ? s.handle : s.other;
        pleat_devptr ptr = api_alloc(instance, 0, large, owner);
        recycle(s.handle);
        work(s.handle, ptr, large);
        ck_assert_int_eq(pleat_block_record_stream(instance, 0, ptr, s.handle), PLEAT_OK);
        api_free(instance, 0, ptr, s.other);
        free_some(&s, n_frees[_i / (N_CONFS * N_TICKS)]);
        api_free(instance, 0, use_large(s.other), s.other);
        sim.finish();
    }
    close_scene(&s);
}
END_TEST

/* The new stream is captured after a free that did not ask about the handle. A block freed in the
 * capture belongs to its graph. A block left by the gone stream must not. */
START_TEST(a_capture_on_a_handle_that_was_only_freed_on_keeps_its_own)
{
    scene s = open_case(_i);
    pleat_devptr mine = api_alloc(instance, 0, large / 2, s.other);
    pleat_devptr ptr = api_alloc(instance, 0, large / 2, s.handle);
    work(s.handle, ptr, large / 2);
    recycle(s.handle);
    api_free(instance, 0, ptr, s.handle);
    free_some(&s, n_frees[_i / (N_CONFS * N_TICKS)]);
    if (_i % N_CONFS != 2) { /* a capture that is not announced is asked about */
        pleat_devptr next = 0;
        api_torch_begin_capture(instance, 0, s.handle);
        api_free(instance, 0, mine, s.handle);
        pleat_status st = pleat_block_alloc(instance, 0, large / 2, s.other, &next);
        ck_assert_int_ne(st == PLEAT_OK && next == mine, true);
        if (st == PLEAT_OK) {
            work(s.other, next, large / 2);
            api_free(instance, 0, next, s.other);
        }
        api_torch_end_capture(instance, 0, s.handle);
    } else {
        api_free(instance, 0, mine, s.handle);
    }
    api_free(instance, 0, use_large(s.handle), s.handle);
    close_scene(&s);
}
END_TEST

/* The new stream is retired before its end. Its remaining memory is fenced, or waits. */
START_TEST(a_new_stream_that_only_freed_can_be_retired)
{
    scene s = open_case(_i);
    pleat_devptr ptr = api_alloc(instance, 0, large, s.handle);
    recycle(s.handle);
    work(s.handle, ptr, large);
    api_free(instance, 0, ptr, s.handle);
    free_some(&s, n_frees[_i / (N_CONFS * N_TICKS)]);
    ck_assert_int_eq(pleat_stream_retire(instance, 0, s.handle), PLEAT_OK);
    recycle(s.handle);
    api_free(instance, 0, use_large(s.handle), s.handle);
    close_scene(&s);
}
END_TEST

/* A peer device's stream gets the handle. No tick covers its work until its device is known. */
START_TEST(a_peers_stream_with_a_known_handle_is_asked_for)
{
    pleat_device_info info;
    make(PATIENT ",devices:2", "peers:True");
    ck_assert_int_eq(pleat_device_query(instance, 1, &info), PLEAT_OK);
    void *other = api_stream(instance, 0);
    void *handle = api_stream(instance, 0);
    pleat_devptr ptr = api_alloc(instance, 0, large, handle);
    api_stream_end(instance, 0, handle);
    void *there = api_stream(instance, 1);
    ck_assert_ptr_eq(there, handle);
    api_torch_work(instance, 1, there, (void *)(uintptr_t)ptr, large);
    api_free(instance, 0, ptr, there);
    api_free(instance, 0, use_large(other), other);
    api_stream_end(instance, 0, other);
    api_stream_end(instance, 1, there);
    api_unmake(instance);
}
END_TEST

/* A free on a handle whose stream was destroyed. The caller gets an error, and the block lives. */
START_TEST(a_free_on_a_destroyed_stream_is_refused)
{
    make(SIM, "");
    void *stream = api_stream(instance, 0);
    pleat_devptr ptr = api_alloc(instance, 0, MIB, stream);
    api_stream_end(instance, 0, stream);
    for (int i = 0; i < 2; i++) {
        pleat_status st = pleat_block_free(instance, 0, ptr, stream);
        ck_assert(st == PLEAT_ESTREAM || st == PLEAT_EDRIVER);
        api_expect(st, "the stream", "cannot be used");
        api_expect(st, "on another stream, such as NULL", "pleat_stream_retire");
    }
    pleat_status st = pleat_block_record_stream(instance, 0, ptr, stream);
    ck_assert(st == PLEAT_ESTREAM || st == PLEAT_EDRIVER);
    ck_assert_ptr_null(strstr(pleat_last_error()->text, "free the block"));
    api_free(instance, 0, ptr, NULL);
    api_unmake(instance);
}
END_TEST

/* ---- at random ------------------------------------------------------------------------------- */

enum { N_SLOTS = 4, N_BLOCKS = 24, N_SEEDS = 40 };
#if PLEAT_DEBUG_LEVEL >= 2
enum { N_STEPS = 400 };
#else
enum { N_STEPS = 4000 };
#endif

typedef struct block {
    pleat_devptr ptr; /* 0 = none */
    size_t bytes;
    unsigned slot;   /* the stream of the next work; frees go to its handle */
    bool is_settled; /* an unordered use is pending, so no stream may touch the block */
} block;

static struct crowd {
    void *streams[N_SLOTS];
    void *helper; /* orders a new stream after the previous one of the handle */
    block blocks[N_BLOCKS];
    uint64_t random;
} crowd;

static unsigned below(unsigned n)
{
    crowd.random = crowd.random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(crowd.random >> 33) % n;
}

/* With an order the new stream may use blocks of the gone one. Without an order it may only free
 * these blocks. */
static void renew(unsigned slot)
{
    bool is_ordered = below(2) == 0;
    bool is_retired = below(4) == 0;
    if (is_ordered) {
        api_stream_order(instance, 0, crowd.streams[slot], crowd.helper);
    }
    if (is_retired) {
        ck_assert_int_eq(pleat_stream_retire(instance, 0, crowd.streams[slot]), PLEAT_OK);
    }
    recycle(crowd.streams[slot]);
    if (is_ordered) {
        api_stream_order(instance, 0, crowd.helper, crowd.streams[slot]);
    }
    for (unsigned i = 0; i < N_BLOCKS; i++) {
        block *b = &crowd.blocks[i];
        if (b->ptr != 0 && b->slot == slot && is_ordered && !b->is_settled) {
            ck_assert_int_eq(pleat_block_record_stream(instance, 0, b->ptr, crowd.streams[slot]),
                             PLEAT_OK);
        } else if (b->slot == slot) {
            b->is_settled = true;
        }
    }
}

/* Let another stream use the block behind the work so far, record the use, and then leave the block
 * alone. */
static void lend(block *b)
{
    unsigned to = below(N_SLOTS);
    api_stream_order(instance, 0, crowd.streams[b->slot], crowd.streams[to]);
    work(crowd.streams[to], b->ptr, b->bytes);
    ck_assert_int_eq(pleat_block_record_stream(instance, 0, b->ptr, crowd.streams[to]), PLEAT_OK);
    b->is_settled = true;
}

static void step(void)
{
    block *b = &crowd.blocks[below(N_BLOCKS)];
    unsigned what = below(100);
    if (what < 2) {
        renew(below(N_SLOTS));
    } else if (what < 4) {
        sim.finish();
    } else if (b->ptr == 0) {
        *b = (block){ .bytes = (size_t)(1 + below(3000)) * 2048, .slot = below(N_SLOTS) };
        if (pleat_block_alloc(instance, 0, b->bytes, crowd.streams[b->slot], &b->ptr) != PLEAT_OK) {
            b->ptr = 0;
            return;
        }
        work(crowd.streams[b->slot], b->ptr, b->bytes);
    } else if (what < 20 && !b->is_settled) {
        lend(b);
    } else if (what < 50 && !b->is_settled) {
        work(crowd.streams[b->slot], b->ptr, b->bytes);
    } else {
        api_free(instance, 0, b->ptr, crowd.streams[what < 90 ? b->slot : below(N_SLOTS)]);
        b->ptr = 0;
    }
}

static const char *const crowd_confs[] = { "", "growth:frugal", "capture:told",
                                           "chunks:granule,cross_stream:settled" };
enum { N_CROWDS = sizeof crowd_confs / sizeof crowd_confs[0] };

START_TEST(handles_may_come_again_at_any_time)
{
    memset(&crowd, 0, sizeof crowd);
    crowd.random = (uint64_t)_i + 1;
    make(PATIENT, crowd_confs[_i % N_CROWDS]);
    crowd.helper = api_stream(instance, 0);
    for (unsigned i = 0; i < N_SLOTS; i++) {
        crowd.streams[i] = api_stream(instance, 0);
    }
    for (unsigned n = 0; n < N_STEPS; n++) {
        step();
        if (sim.hazards(NULL, 0) != 0) {
            pleat_sim_hazard hazard;
            sim.hazards(&hazard, 1);
            ck_abort_msg("seed %d, step %u: %s", _i + 1, n, hazard.text);
        }
    }
    api_check(instance);
    for (unsigned i = 0; i < N_BLOCKS; i++) {
        if (crowd.blocks[i].ptr != 0) {
            api_free(instance, 0, crowd.blocks[i].ptr, crowd.helper);
        }
    }
    for (unsigned i = 0; i < N_SLOTS; i++) {
        api_stream_end(instance, 0, crowd.streams[i]);
    }
    api_stream_end(instance, 0, crowd.helper);
    api_unmake(instance);
}
END_TEST

SUITE(api_asked)
{
    TCase *calls = suite_case(suite, "calls", api_sim_load, NULL);
    tcase_add_loop_test(calls, a_request_asks_what_it_must_and_nothing_twice, 0, N_COSTS * N_KINDS);
    tcase_add_test(calls, while_a_pool_is_routed_a_capture_is_asked_about);
    tcase_add_test(calls, after_a_capture_the_first_free_asks_for_the_id);
    TCase *recycled = suite_case(suite, "recycled", api_sim_load, NULL);
    tcase_add_loop_test(recycled, what_a_new_stream_frees_for_a_gone_one_is_not_its_own, 0,
                        N_CASES);
    tcase_add_loop_test(recycled, what_a_new_stream_used_and_freed_waits_for_it, 0, N_CASES);
    tcase_add_loop_test(recycled, what_a_new_stream_is_recorded_to_use_waits_for_it, 0, N_CASES);
    tcase_add_loop_test(recycled, a_capture_on_a_handle_that_was_only_freed_on_keeps_its_own, 0,
                        N_CASES);
    tcase_add_loop_test(recycled, a_new_stream_that_only_freed_can_be_retired, 0, N_CASES);
    tcase_add_test(recycled, a_peers_stream_with_a_known_handle_is_asked_for);
    tcase_add_test(recycled, a_free_on_a_destroyed_stream_is_refused);
    TCase *random = suite_case(suite, "random", api_sim_load, NULL);
    tcase_add_loop_test(random, handles_may_come_again_at_any_time, 0, N_SEEDS);
}
