/* wait_test.c - wait_ms bounds a whole call, for any number of its tries.
 *
 * Most tests run on a made-up clock that only sleeps advance. So an endless wait shows at once.
 * Tests with threads use real time, with a wide margin. */
/* labels: unit stress */
/* alone: it replaces clock_gettime and nanosleep */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "api/adapters/pleat_torch.h"
#include "api/pleat_tag.h"
#include "tests/support/api/api_torch.h"
#include "tests/support/suite.h"

enum {
    MIB = 1 << 20,
    WAIT_MS = 200,
    SLACK_MS = 40, /* how much longer a call may take on the made-up clock */
    REAL_SLACK_MS = 3000,
    N_THREADS = 3,
    N_STREAMS = 6,
};

/* Work ends only in sim.finish. */
#define ENDLESS "capacity:64M,depth:1048576,waits:refuse"
#define CONF "wait_ms:200"

/* ---- the clock ------------------------------------------------------------------------------- */

static _Atomic bool is_real = true;
static _Atomic uint64_t made_up_ns = UINT64_C(1000000000);

static void (*_Atomic beside)(void); /* to be called in the next pause, once */

/* Replacements of libc's functions. */
int clock_gettime(clockid_t id, struct timespec *out)
{
    if (is_real || id != CLOCK_MONOTONIC) {
        return (int)syscall(SYS_clock_gettime, id, out);
    }
    uint64_t ns = atomic_load(&made_up_ns);
    *out = (struct timespec){ (time_t)(ns / 1000000000), (long)(ns % 1000000000) };
    return 0;
}

int nanosleep(const struct timespec *pause, struct timespec *left)
{
    if (is_real) {
        return (int)syscall(SYS_nanosleep, pause, left);
    }
    atomic_fetch_add(&made_up_ns, (uint64_t)pause->tv_sec * 1000000000 + (uint64_t)pause->tv_nsec);
    void (*call)(void) = atomic_exchange(&beside, NULL);
    if (call != NULL) {
        call();
    }
    return 0;
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void sleep_ms(long ms)
{
    struct timespec pause = { ms / 1000, ms % 1000 * 1000000 };
    nanosleep(&pause, NULL);
}

/* ---- what the tests share -------------------------------------------------------------------- */

static pleat instance;
static void *streams[N_STREAMS];
static _Atomic unsigned n_asked;

static void open_with(int allocator, const char *conf)
{
    instance = api_torch_make(allocator, ENDLESS, conf);
    for (int i = 0; i < N_STREAMS; i++) {
        streams[i] = api_stream(instance, 0);
    }
    n_asked = 0;
}

static void open_pleat(const char *conf)
{
    open_with(API_PLEAT, conf);
    is_real = false;
}

static void close_all(void)
{
    is_real = true;
    sim.finish();
    api_check(instance);
    for (int i = 0; i < N_STREAMS; i++) {
        api_stream_end(instance, 0, streams[i]);
    }
    api_unmake(instance);
}

static bool ask_again(pleat self, int device, size_t bytes, void *context)
{
    const long *ms = context;
    (void)self;
    (void)device;
    (void)bytes;
    n_asked++;
    if (ms) {
        sleep_ms(*ms);
    }
    return true;
}

static void always_ask_again(long *ms)
{
    ck_assert_int_eq(pleat_set_pressure_callback(instance, ask_again, ms), PLEAT_OK);
}

static void work_on(void *stream, pleat_devptr ptr, size_t bytes)
{
    api_torch_work(instance, 0, stream, (void *)(uintptr_t)ptr, bytes);
}

/* Frees a block while work on its stream goes on for ever. */
static void leave_pending(void *stream, size_t bytes)
{
    pleat_devptr ptr = api_alloc(instance, 0, bytes, stream);
    work_on(stream, ptr, bytes);
    api_free(instance, 0, ptr, stream);
}

static void expect_took(uint64_t begin_ms, uint64_t least_ms, uint64_t most_ms)
{
    uint64_t took_ms = now_ms() - begin_ms;
    ck_assert_msg(took_ms >= least_ms && took_ms <= most_ms, "it took %llu ms, not %llu to %llu",
                  (unsigned long long)took_ms, (unsigned long long)least_ms,
                  (unsigned long long)most_ms);
}

static void expect_pending(uint64_t least_ms, uint64_t most_ms)
{
    pleat_devptr ptr;
    uint64_t begin_ms = now_ms();
    ck_assert_int_eq(pleat_block_alloc(instance, 0, 40 * MIB, streams[1], &ptr), PLEAT_EPENDING);
    expect_took(begin_ms, least_ms, most_ms);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Twice: the second call has a separate wait. */
START_TEST(callbacks_that_always_ask_again_share_one_wait)
{
    open_pleat("cross_stream:settled," CONF);
    leave_pending(streams[0], 40 * MIB);
    always_ask_again(NULL);
    for (unsigned i = 1; i <= 2; i++) {
        expect_pending(WAIT_MS, WAIT_MS + SLACK_MS);
        ck_assert_uint_eq(n_asked, i);
    }
    close_all();
}
END_TEST

/* A callback's time counts. The callback is not cut short, but not asked again when time is up. */
START_TEST(the_time_of_callbacks_counts)
{
    long ms = 60;
    pleat_devptr ptr;
    open_with(_i, CONF);
    is_real = false;
    always_ask_again(&ms);
    uint64_t begin_ms = now_ms();
    ck_assert_int_eq(pleat_block_alloc(instance, 0, 65 * MIB, streams[0], &ptr),
                     PLEAT_ENOMEM_DEVICE);
    expect_took(begin_ms, WAIT_MS, WAIT_MS + 60 + SLACK_MS);
    ck_assert_uint_eq(n_asked, 4);
    close_all();
}
END_TEST

START_TEST(who_never_waits_asks_once)
{
    long ms = 60;
    pleat_devptr ptr;
    open_with(_i, "wait_ms:0");
    is_real = false;
    always_ask_again(&ms);
    ck_assert_int_eq(pleat_block_alloc(instance, 0, 65 * MIB, streams[0], &ptr),
                     PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(n_asked, 1);
    close_all();
}
END_TEST

/* A callback that takes `ms` and frees one block per call. */
typedef struct spill {
    pleat_devptr held[4];
    unsigned n_held;
    long ms;
} spill;

static bool spill_one(pleat self, int device, size_t bytes, void *context)
{
    spill *s = context;
    (void)bytes;
    n_asked++;
    sleep_ms(s->ms);
    return s->n_held > 0 &&
           pleat_block_free(self, device, s->held[--s->n_held], streams[0]) == PLEAT_OK;
}

/* _i 0: never waits. 1: waits, but less than the time of one callback. No memory is pending
 * here. */
START_TEST(who_frees_block_by_block_is_asked_until_it_suffices)
{
    spill s = { .ms = _i == 0 ? 0 : WAIT_MS + 20 };
    pleat_devptr ptr;
    open_pleat(_i == 0 ? "wait_ms:0" : CONF);
    for (; s.n_held < 4; s.n_held++) {
        s.held[s.n_held] = api_alloc(instance, 0, 12 * MIB, streams[0]);
    }
    ck_assert_int_eq(pleat_set_pressure_callback(instance, spill_one, &s), PLEAT_OK);
    ck_assert_int_eq(pleat_block_alloc(instance, 0, 50 * MIB, streams[0], &ptr), PLEAT_OK);
    ck_assert_uint_ge(n_asked, 3);
    api_free(instance, 0, ptr, streams[0]);
    while (s.n_held > 0) {
        api_free(instance, 0, s.held[--s.n_held], streams[0]);
    }
    close_all();
}
END_TEST

/* The callback's calls have separate deadlines, and do not prolong the call around them. */
static bool trim_and_ask_again(pleat self, int device, size_t bytes, void *context)
{
    uint64_t *took_ms = context;
    uint64_t begin_ms = now_ms();
    (void)bytes;
    n_asked++;
    (void)!pleat_device_trim(self, device, 0, true, NULL);
    *took_ms = now_ms() - begin_ms;
    return true;
}

START_TEST(calls_of_a_callback_have_their_own_time)
{
    uint64_t trim_ms = 0;
    open_pleat("cross_stream:settled," CONF);
    leave_pending(streams[0], 40 * MIB);
    ck_assert_int_eq(pleat_set_pressure_callback(instance, trim_and_ask_again, &trim_ms), PLEAT_OK);
    expect_pending(2 * WAIT_MS, 2 * (WAIT_MS + SLACK_MS));
    ck_assert_uint_eq(n_asked, 1);
    ck_assert_uint_ge(trim_ms, WAIT_MS);
    close_all();
}
END_TEST

/* The call waits for one stream after another, and then for memory without a tick. */
START_TEST(many_streams_share_one_wait)
{
    open_pleat("cross_stream:settled," CONF);
    for (int i = 2; i < N_STREAMS; i++) {
        leave_pending(streams[i], 10 * MIB);
    }
    always_ask_again(NULL);
    expect_pending(WAIT_MS, WAIT_MS + SLACK_MS);
    close_all();
}
END_TEST

START_TEST(private_pools_share_one_wait)
{
    const pleat_pool_id id = { 0, 1 };
    open_pleat("cross_stream:settled," CONF);
    ck_assert_int_eq(pleat_pool_begin(instance, 0, id, NULL, NULL, NULL), PLEAT_OK);
    leave_pending(streams[0], 40 * MIB);
    always_ask_again(NULL);
    expect_pending(0, WAIT_MS + SLACK_MS);
    ck_assert_uint_ge(n_asked, 1);
    ck_assert_int_eq(pleat_pool_end(instance, 0, id), PLEAT_OK);
    uint64_t begin_ms = now_ms();
    ck_assert_int_eq(pleat_pool_release(instance, 0, id), PLEAT_OK);
    expect_took(begin_ms, 0, SLACK_MS);
    close_all();
}
END_TEST

static pleat_devptr spare;

static void *free_spare(void *arg)
{
    (void)arg;
    api_free(instance, 0, spare, streams[1]);
    return NULL;
}

static void free_spare_beside(void)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, free_spare, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

/* The wait is made in slices: for a stream, and for all streams, where no tick covers what a gone
 * stream has left. */
START_TEST(a_request_that_waits_sees_what_others_free_meanwhile)
{
    pleat_devptr ptr;
    open_pleat("cross_stream:settled," CONF);
    pleat_devptr first = api_alloc(instance, 0, MIB, streams[0]);
    leave_pending(streams[0], 30 * MIB);
    if (_i == 1) {
        api_stream_end(instance, 0, streams[0]);
        streams[0] = api_stream(instance, 0);
    }
    spare = api_alloc(instance, 0, 30 * MIB, streams[1]);
    atomic_store(&beside, free_spare_beside);
    uint64_t begin_ms = now_ms();
    ck_assert_int_eq(pleat_block_alloc(instance, 0, 20 * MIB, streams[1], &ptr), PLEAT_OK);
    expect_took(begin_ms, 1, SLACK_MS);
    ck_assert_ptr_null(atomic_load(&beside));
    api_free(instance, 0, ptr, streams[1]);
    api_free(instance, 0, first, streams[1]);
    close_all();
}
END_TEST

/* ---- PyTorch's hooks ------------------------------------------------------------------------- */

START_TEST(hooks_share_one_wait)
{
    open_pleat("cross_stream:settled," CONF);
    leave_pending(streams[0], 40 * MIB);
    always_ask_again(NULL);
    uint64_t begin_ms = now_ms();
    ck_assert_ptr_null(pleat_torch_malloc(40 * MIB, 0, streams[1]));
    ck_assert_int_eq(pleat_last_error()->status, PLEAT_EPENDING);
    expect_took(begin_ms, WAIT_MS, WAIT_MS + SLACK_MS);
    begin_ms = now_ms();
    pleat_torch_reset();
    expect_took(begin_ms, WAIT_MS, WAIT_MS + SLACK_MS);
    close_all();
}
END_TEST

/* Behind a capture the allocator does not wait: the hook asks again until time is up. */
START_TEST(hooks_ask_again_behind_a_capture_until_time_is_up)
{
    open_pleat(CONF);
    pleat_devptr ptr = api_alloc(instance, 0, 40 * MIB, streams[0]);
    work_on(streams[2], ptr, 40 * MIB);
    ck_assert_int_eq(pleat_block_record_stream(instance, 0, ptr, streams[2]), PLEAT_OK);
    api_free(instance, 0, ptr, streams[0]);
    api_torch_begin_capture(instance, 0, streams[2]);
    api_free(instance, 0, api_alloc(instance, 0, MIB, streams[2]), streams[2]);
    long ms = 30;
    always_ask_again(&ms);
    uint64_t begin_ms = now_ms();
    ck_assert_ptr_null(pleat_torch_malloc(40 * MIB, 0, streams[1]));
    expect_took(begin_ms, WAIT_MS, WAIT_MS + 30 + SLACK_MS);
    api_torch_end_capture(instance, 0, streams[2]);
    close_all();
}
END_TEST

/* ---- trims and limits ------------------------------------------------------------------------ */

/* Settled memory is given back nevertheless. Twice, since each call has a separate deadline. */
START_TEST(a_trim_waits_no_longer)
{
    open_pleat(CONF ",cross_stream:settled"); /* each stream has separate memory */
    for (int i = 1; i < N_STREAMS; i++) {
        leave_pending(streams[i], 8 * MIB);
    }
    api_free(instance, 0, api_alloc(instance, 0, 8 * MIB, streams[0]), streams[0]);
    uint64_t before = api_stats(instance, 0).resident_bytes;
    for (int i = 0; i < 2; i++) {
        uint64_t begin_ms = now_ms();
        ck_assert_int_eq(pleat_device_trim(instance, 0, 0, true, NULL), PLEAT_EPENDING);
        expect_took(begin_ms, WAIT_MS, WAIT_MS + SLACK_MS);
        sleep_ms(100);
    }
    ck_assert_uint_eq(before - api_stats(instance, 0).resident_bytes, 8 * MIB);
    close_all();
}
END_TEST

START_TEST(a_limit_waits_no_longer)
{
    open_pleat(CONF ",cross_stream:settled"); /* each stream has separate memory */
    for (int i = 1; i < N_STREAMS; i++) {
        leave_pending(streams[i], 8 * MIB);
    }
    uint64_t begin_ms = now_ms();
    ck_assert_int_eq(pleat_device_set_limit(instance, 0, 16 * MIB), PLEAT_EPENDING);
    expect_took(begin_ms, WAIT_MS, WAIT_MS + SLACK_MS);
    close_all();
}
END_TEST

/* ---- until the GPU is idle ------------------------------------------------------------------- */

enum { WORK_MS = 30 * WAIT_MS };

static pleat_devptr tagged;

static pleat_status go_to_sleep(void)
{
    return pleat_tag_sleep(instance, 0, "cache", PLEAT_SLEEP_DISCARD, NULL, NULL);
}

static pleat_status compact(void)
{
    pleat_compaction out;
    return pleat_device_compact(instance, 0, &out);
}

static pleat_status (*const quiets[])(void) = { go_to_sleep, compact };
enum { N_QUIETS = sizeof quiets / sizeof quiets[0] };

/* A request that has to look at the context's events, a free, and a trim. */
static void *use_memory(void *arg)
{
    pleat_devptr ptr;
    uint64_t begin_ms = now_ms();
    bool ok = pleat_block_alloc(instance, 0, 4 * MIB, streams[2], &ptr) == PLEAT_OK &&
              pleat_block_free(instance, 0, ptr, streams[2]) == PLEAT_OK &&
              pleat_device_trim(instance, 0, 0, true, NULL) == PLEAT_EPENDING;
    *(uint64_t *)arg = now_ms() - begin_ms;
    return ok ? arg : NULL;
}

/* In the middle of the wait. */
static void use_memory_beside(void)
{
    static uint64_t took_ms;
    void *is_done = NULL;
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, use_memory, &took_ms), 0);
    ck_assert_int_eq(pthread_join(thread, &is_done), 0);
    ck_assert_ptr_nonnull(is_done);
    ck_assert_uint_le(took_ms, WAIT_MS + SLACK_MS);
}

static void open_tagged(const char *sim_conf, const char *conf)
{
    is_real = true;
    instance = api_torch_make(API_PLEAT, sim_conf, conf);
    for (int i = 0; i < N_STREAMS; i++) {
        streams[i] = api_stream(instance, 0);
    }
    ck_assert_int_eq(pleat_tag_alloc(instance, 0, "cache", 8 * MIB, streams[0], &tagged), PLEAT_OK);
    work_on(streams[0], tagged, 8 * MIB);
    leave_pending(streams[1], 8 * MIB);
    is_real = false;
}

static void expect_awake(void)
{
    pleat_tag_info info;
    ck_assert_int_eq(pleat_tag_query(instance, 0, "cache", &info), PLEAT_OK);
    ck_assert(!info.is_asleep);
    ck_assert_uint_eq(info.asleep_bytes, 0);
    ck_assert_uint_ge(info.resident_bytes, 8 * MIB);
    api_check(instance);
}

static void close_tagged(int quiet)
{
    sim.finish();
    api_free(instance, 0, tagged, streams[0]);
    ck_assert_int_eq(quiets[quiet](), PLEAT_OK);
    close_all();
}

START_TEST(what_needs_an_idle_gpu_gives_up_on_a_kernel_that_does_not_end)
{
    open_tagged(ENDLESS, CONF);
    beside = use_memory_beside;
    uint64_t begin_ms = now_ms();
    ck_assert_int_eq(quiets[_i](), PLEAT_EPENDING);
    expect_took(begin_ms, WORK_MS, WORK_MS + WAIT_MS + 2 * SLACK_MS);
    ck_assert_ptr_null(beside);
    api_expect(PLEAT_EPENDING, "6000 ms", "does not end");
    expect_awake();
    sim.finish();
    ck_assert_int_eq(quiets[_i](), PLEAT_OK);
    if (quiets[_i] == go_to_sleep) {
        ck_assert_int_eq(pleat_tag_wake(instance, 0, "cache", 0, NULL), PLEAT_OK);
    }
    close_tagged(_i);
}
END_TEST

START_TEST(what_needs_an_idle_gpu_waits_a_second_where_requests_wait_for_nothing)
{
    open_tagged(ENDLESS, "wait_ms:0");
    uint64_t begin_ms = now_ms();
    ck_assert_int_eq(quiets[_i](), PLEAT_EPENDING);
    expect_took(begin_ms, 1000, 1000 + SLACK_MS);
    api_expect(PLEAT_EPENDING, "1000 ms", "at least 1,000");
    expect_awake();
    close_tagged(_i);
}
END_TEST

/* On the simulator a synchronisation answers that it would last for ever. */
START_TEST(nothing_is_unmapped_where_a_synchronisation_is_not_over)
{
    open_tagged(ENDLESS ",without:[cuCtxRecordEvent]", CONF);
    ck_assert_int_eq(quiets[_i](), PLEAT_EPENDING);
    expect_awake();
    close_tagged(_i);
}
END_TEST

/* ---- beside threads, in real time ------------------------------------------------------------ */

static _Atomic bool is_over;

static void *churn(void *arg)
{
    void *stream = *(void **)arg;
    for (unsigned i = 1; !is_over; i++) {
        pleat_devptr ptr;
        if (pleat_block_alloc(instance, 0, (i % 3 + 1) * MIB, stream, &ptr) == PLEAT_OK) {
            sleep_ms(1);
            (void)!pleat_block_free(instance, 0, ptr, stream);
        }
        if (i % 8 == 0) {
            (void)!pleat_device_trim(instance, 0, 0, false, NULL);
        }
    }
    return NULL;
}

/* _i: the allocator. Frees of other threads may count as the callback's. So the callback is asked
 * up to 64 times. The call waits only once. */
START_TEST(a_call_beside_threads_ends)
{
    enum { MOST_ASKED = 64 };
    pthread_t threads[N_THREADS];
    long ms = 5;
    pleat_devptr held[4];
    pleat_devptr ptr;
    open_with(_i, "cross_stream:settled," CONF);
    for (int i = 0; i < 4; i++) {
        held[i] = api_alloc(instance, 0, 10 * MIB, streams[0]);
    }
    if (_i == API_PLEAT) {
        work_on(streams[0], held[3], 10 * MIB);
        api_free(instance, 0, held[3], streams[0]);
    }
    is_over = false;
    for (int i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, churn, &streams[i + 2]), 0);
    }
    always_ask_again(&ms);
    uint64_t begin_ms = now_ms();
    pleat_status st = pleat_block_alloc(instance, 0, 30 * MIB, streams[1], &ptr);
    uint64_t took_ms = now_ms() - begin_ms;
    is_over = true;
    for (int i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    ck_assert_int_ne(st, PLEAT_OK);
    ck_assert_uint_le(took_ms, WAIT_MS + MOST_ASKED * 5 + REAL_SLACK_MS);
    for (int i = 0; i < (_i == API_PLEAT ? 3 : 4); i++) {
        api_free(instance, 0, held[i], streams[0]);
    }
    close_all();
}
END_TEST

SUITE(api_wait)
{
    TCase *requests = suite_case(suite, "requests", api_sim_load, NULL);
    tcase_add_test(requests, callbacks_that_always_ask_again_share_one_wait);
    tcase_add_loop_test(requests, the_time_of_callbacks_counts, 0, N_API_ALLOCATORS);
    tcase_add_loop_test(requests, who_never_waits_asks_once, 0, N_API_ALLOCATORS);
    tcase_add_loop_test(requests, who_frees_block_by_block_is_asked_until_it_suffices, 0, 2);
    tcase_add_test(requests, calls_of_a_callback_have_their_own_time);
    tcase_add_test(requests, many_streams_share_one_wait);
    tcase_add_test(requests, private_pools_share_one_wait);
    tcase_add_loop_test(requests, a_request_that_waits_sees_what_others_free_meanwhile, 0, 2);
    TCase *hooks = suite_case(suite, "hooks", api_sim_load, NULL);
    tcase_add_test(hooks, hooks_share_one_wait);
    tcase_add_test(hooks, hooks_ask_again_behind_a_capture_until_time_is_up);
    TCase *devices = suite_case(suite, "devices", api_sim_load, NULL);
    tcase_add_test(devices, a_trim_waits_no_longer);
    tcase_add_test(devices, a_limit_waits_no_longer);
    TCase *idle = suite_case(suite, "idle", api_sim_load, NULL);
    tcase_add_loop_test(idle, what_needs_an_idle_gpu_gives_up_on_a_kernel_that_does_not_end, 0,
                        N_QUIETS);
    tcase_add_loop_test(idle, what_needs_an_idle_gpu_waits_a_second_where_requests_wait_for_nothing,
                        0, N_QUIETS);
    tcase_add_loop_test(idle, nothing_is_unmapped_where_a_synchronisation_is_not_over, 0, N_QUIETS);
    TCase *crowd = suite_case(suite, "crowd", api_sim_load, NULL);
    tcase_add_loop_test(crowd, a_call_beside_threads_ends, 0, N_API_ALLOCATORS);
}
