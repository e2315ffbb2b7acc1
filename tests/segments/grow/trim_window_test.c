/* trim_window_test.c - other threads act while a trim calls the driver.
 *
 * A trim holds no lock across a call. After each driver call in turn another thread acts to the
 * end, while the trim waits inside the call. So the chunks that a trim finds afterwards need not be
 * those from before. */
/* labels: unit */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "segments/pleat/space/space.h"
#include "segments/pleat/streams/settle.h"
#include "segments/pleat/streams/tick.h"
#include "tests/support/own.h"
#include "tests/support/segments/segments_sim.h"
#include "tests/support/suite.h"

enum { GRANULE = 128 << 10, N_BLOCKS = 16, N_NEW = 8, MOST_CALLS = 200 };

#define SIM "granularity:128K,capacity:128M,depth:1048576"

static pleat_devptr blocks[N_BLOCKS]; /* of one granule each, side by side; 0 = freed */
static pleat_devptr fresh[N_NEW];     /* blocks of the other thread */

/* ---- the layout ------------------------------------------------------------------------------ */

static void settle(void)
{
    pl_space *space = (pl_space *)pleat.a;
    pl_lock_acquire(&space->lock);
    (void)pl_tick_poll(space, SIZE_MAX);
    pl_settle_everything(space);
    pl_lock_release(&space->lock);
}

/* 'o': unmapped; '.': free and mapped; '#': live. Each granule is a chunk. */
static void open_pattern(const char *pattern)
{
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    SET_OWN(pleat, &options, chunk_share, 1);
    pleat_open(SIM, &options);
    for (unsigned i = 0; i < N_BLOCKS; i++) {
        blocks[i] = pleat_get(GRANULE, 1);
        ck_assert_uint_eq(blocks[i], blocks[0] + (pleat_devptr)i * GRANULE);
    }
    for (const char *kind = "o."; *kind != '\0'; kind++) {
        for (unsigned i = 0; i < N_BLOCKS; i++) {
            if (pattern[i] == *kind) {
                pleat_put(blocks[i], 1);
                blocks[i] = 0;
            }
        }
        if (*kind == 'o') {
            (void)pleat_trim(0, true);
        }
    }
    settle();
}

/* ---- the other thread ------------------------------------------------------------------------ */

static bool put(pleat_devptr *ptr)
{
    bool is_freed = *ptr == 0 || pleat.a->ops->free(pleat.a, *ptr, pleat.streams[1]) == PLEAT_OK;
    *ptr = is_freed ? 0 : *ptr;
    return is_freed;
}

static bool get(unsigned n_granules, pleat_devptr *out)
{
    size_t bytes = (size_t)n_granules * GRANULE;
    return pleat.a->ops->alloc(pleat.a, bytes, pleat.streams[1], out) == PLEAT_OK;
}

/* Holes get chunks of up to four granules. */
static bool take_rows(void)
{
    static const unsigned rows[N_NEW] = { 4, 2, 8, 3, 1, 5, 2, 1 };
    bool ok = true;
    for (unsigned i = 0; i < N_NEW; i++) {
        ok = get(rows[i], &fresh[i]) && ok;
    }
    return ok;
}

static bool free_rows(void)
{
    bool ok = true;
    for (unsigned i = 0; i < N_NEW; i++) {
        ok = put(&fresh[i]) && ok;
    }
    settle();
    return ok;
}

static bool take_and_free_rows(void)
{
    return take_rows() && free_rows();
}

static bool take_and_free_four(void)
{
    return get(4, &fresh[0]) && free_rows();
}

typedef bool action(void);

static action *const actions[] = { take_rows, take_and_free_rows, take_and_free_four };
enum { N_ACTIONS = sizeof actions / sizeof actions[0] };

static void *run(void *act)
{
    static const bool yes = true;
    bool is_inside = pl_device_enter(pleat.dev) == PLEAT_OK;
    bool is_done = is_inside && (*(action *const *)act)();
    if (is_inside) {
        pl_device_leave(pleat.dev);
    }
    return is_done ? (void *)&yes : NULL;
}

/* ---- in the middle of a call ----------------------------------------------------------------- */

static pthread_t trimmer;
static uint64_t n_calls;
static uint64_t act_at;
static action *const *act;

static void act_after(pl_entry entry, int failure, uint64_t bytes, void *context)
{
    pthread_t thread;
    void *is_done = NULL;
    (void)entry;
    (void)failure;
    (void)bytes;
    (void)context;
    if (!pthread_equal(pthread_self(), trimmer) || n_calls++ != act_at) {
        return;
    }
    ck_assert_int_eq(pthread_create(&thread, NULL, run, (void *)act), 0);
    ck_assert_int_eq(pthread_join(thread, &is_done), 0);
    ck_assert_msg(is_done != NULL, "refused at call %llu", (unsigned long long)act_at);
}

/* Trim, while another thread acts after the k-th call. */
static void trim_at(uint64_t k, action *const *what)
{
    uint64_t released;
    trimmer = pthread_self();
    n_calls = 0;
    act_at = k;
    act = what;
    pl_driver_time_calls(pleat.sim.drv, true);
    pl_driver_watch(pleat.sim.drv, act_after, NULL);
    pleat_status st = pleat.a->ops->trim(pleat.a, 0, false, &released);
    pl_driver_watch(pleat.sim.drv, NULL, NULL);
    ck_assert_msg(st == PLEAT_OK, "call %llu: %d", (unsigned long long)k, st);
    pleat_assert_sound();
}

static const char *const patterns[] = {
    "ooo.############", "o.o.o.o.o.o.o.o.", "ooo.ooo.ooo.ooo.",
    "................", "oooooooo.......#", "#.o.#..oo..#ooo.",
};
enum { N_PATTERNS = sizeof patterns / sizeof patterns[0] };

/* _i: the action and the pattern. */
START_TEST(others_go_on_in_each_call)
{
    uint64_t k = 0;
    do {
        open_pattern(patterns[_i / N_ACTIONS]);
        trim_at(k, &actions[_i % N_ACTIONS]);
        ck_assert(free_rows());
        pleat_close();
        ck_assert_uint_lt(k, MOST_CALLS);
        k += suite_step();
    } while (n_calls >= k);
    ck_assert_uint_gt(k, 1);
}
END_TEST

/* ---- beside an unmap that is refused --------------------------------------------------------- */

static pthread_t first_thread;
static pthread_t second_thread;
static _Atomic bool is_second_over;
static bool has_second;

static void *trim_beside(void *arg)
{
    pleat_status *st = arg;
    uint64_t released;
    bool is_inside = pl_device_enter(pleat.dev) == PLEAT_OK;
    *st = pleat.a->ops->trim(pleat.a, 0, false, &released);
    if (is_inside) {
        pl_device_leave(pleat.dev);
    }
    atomic_store(&is_second_over, true);
    return NULL;
}

/* The other thread is given time, but may have to wait for this call. */
static void begin_beside(pl_entry entry, int failure, uint64_t bytes, void *context)
{
    (void)failure;
    (void)bytes;
    if (entry != PL_CU_mem_unmap || !pthread_equal(pthread_self(), first_thread) || has_second) {
        return;
    }
    has_second = pthread_create(&second_thread, NULL, trim_beside, context) == 0;
    for (int i = 0; i < 100 && !atomic_load(&is_second_over); i++) {
        usleep(200);
    }
}

/* While a thread tries to unmap the addresses, they are in no queue. */
START_TEST(memory_is_not_given_back_beside_an_unmap_that_is_refused)
{
    pleat_devptr ptr;
    uint64_t released;
    pleat_status beside = PLEAT_OK;
    pleat_open(SIM, NULL);
    first_thread = pthread_self();
    pleat.sim.fail_at("cuMemSetAccess", 0, CU_UNKNOWN);
    pleat.sim.fail_from("cuMemUnmap", 0, CU_UNKNOWN);
    ck_assert_int_eq(pleat.a->ops->alloc(pleat.a, 4 * (size_t)GRANULE, pleat.streams[1], &ptr),
                     PLEAT_EPOISONED);
    pl_driver_time_calls(pleat.sim.drv, true);
    pl_driver_watch(pleat.sim.drv, begin_beside, &beside);
    ck_assert_int_eq(pleat.a->ops->trim(pleat.a, 0, true, &released), PLEAT_EDRIVER);
    ck_assert(has_second);
    ck_assert_int_eq(pthread_join(second_thread, NULL), 0);
    pl_driver_watch(pleat.sim.drv, NULL, NULL);
    ck_assert_int_eq(beside, PLEAT_EDRIVER);
    ck_assert_uint_eq(pleat_counted().idle_bytes, 4 * (uint64_t)GRANULE);
    pleat.sim.fail_never();
    ck_assert_uint_eq(pleat_trim(0, true), 4 * (uint64_t)GRANULE);
    pleat.has_failed_undo = true;
    pleat_close();
}
END_TEST

SUITE(segments_trim_window)
{
    TCase *window = suite_case(suite, "window", NULL, NULL);
    tcase_add_loop_test(window, others_go_on_in_each_call, 0, N_ACTIONS * N_PATTERNS);
    tcase_add_test(window, memory_is_not_given_back_beside_an_unmap_that_is_refused);
}
