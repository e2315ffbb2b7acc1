/* compact_window_test.c - other threads act while a compaction calls the driver.
 *
 * A compaction holds no lock across a call. After each driver call in turn, another thread acts to
 * the end, while the compaction waits inside the call. If the compaction held a lock, the other
 * thread would never finish. */
/* labels: unit fault */
#include <check.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "segments/pleat/grow/trim.h"
#include "segments/pleat/space/space.h"
#include "segments/pleat/streams/tick.h"
#include "tests/support/own.h"
#include "tests/support/segments/segments_chunks.h"
#include "tests/support/segments/segments_told.h"
#include "tests/support/suite.h"

enum { GRANULE = 128 << 10, HALF = GRANULE / 2, MOST_BLOCKS = 32, N_NEW = 6, MOST_CALLS = 200 };

#define SIM "granularity:128K,capacity:128M,depth:1048576,backing:memory"

static pleat_devptr first;
static pleat_devptr blocks[MOST_BLOCKS];
static pleat_devptr fresh[N_NEW]; /* blocks of the other thread */

/* ---- the layout ------------------------------------------------------------------------------ */

static void keep(const char *pattern)
{
    for (unsigned i = 0; pattern[i] != '\0'; i++) {
        if (pattern[i] == '.') {
            pleat_put(blocks[i], 1);
            blocks[i] = 0;
        } else {
            ck_assert_int_eq(pleat.sim.fill(pleat.handles[1], blocks[i], GRANULE, blocks[i]),
                             CU_SUCCESS);
        }
    }
}

static pl_device_options device_options; /* of the allocators to be opened */

static bool is_in_heap; /* are the blocks those of a heap? */
static pl_keeper *heap; /* is_in_heap */

static pleat_devptr make(size_t bytes)
{
    pleat_devptr ptr;
    if (!is_in_heap) {
        return pleat_get(bytes, 1);
    }
    ck_assert_int_eq(pleat.a->ops->alloc_asked(pleat.a, heap, bytes, pleat.streams[1], NULL, &ptr),
                     PLEAT_OK);
    return ptr;
}

/* A large chunk with two runs of granules in use. */
static void open_split(void)
{
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    options.observer = told_open();
    SET_OWN(pleat, &options, chunk_share, 1);
    pleat_open_device(SIM, &device_options, &options);
    if (is_in_heap) {
        ck_assert_int_eq(pleat.a->ops->tags->open(pleat.a, "weights", &heap), PLEAT_OK);
    }
    first = make((size_t)31 * GRANULE);
    pleat_put(make((size_t)MOST_BLOCKS * GRANULE), 1);
    for (unsigned i = 0; i < MOST_BLOCKS; i++) {
        blocks[i] = make(GRANULE);
    }
    keep("##....................#####.....");
}

/* ---- the other thread ------------------------------------------------------------------------ */

static bool put(pleat_devptr *ptr)
{
    bool is_freed = *ptr == 0 || pleat.a->ops->free(pleat.a, *ptr, pleat.streams[1]) == PLEAT_OK;
    *ptr = is_freed ? 0 : *ptr;
    return is_freed;
}

/* A space that is torn gives nothing out. */
static bool get(size_t bytes, pleat_devptr *out)
{
    pleat_status st = pleat.a->ops->alloc(pleat.a, bytes, pleat.streams[1], out);
    return st == PLEAT_OK || st == PLEAT_EPOISONED;
}

static bool free_all(void)
{
    bool ok = true;
    for (unsigned i = 0; i < MOST_BLOCKS; i++) {
        ok = put(&blocks[i]) && ok;
    }
    return ok;
}

/* Includes memory that the compaction is about to take, and must not give out. */
static bool take_all_free(void)
{
    bool ok = true;
    for (unsigned i = 0; i < N_NEW; i++) {
        ok = get(i % 2 == 0 ? GRANULE : HALF, &fresh[i]) && ok;
    }
    return ok;
}

static bool free_and_take(void)
{
    return put(&blocks[0]) && put(&blocks[4]) && take_all_free();
}

static bool free_and_trim(void)
{
    uint64_t released;
    return free_all() && pleat.a->ops->trim(pleat.a, 0, false, &released) == PLEAT_OK;
}

static bool look(void)
{
    pleat_stats stats = { 0 };
    pleat.a->ops->stats(pleat.a, &stats);
    return stats.resident_bytes > 0 && pleat.a->ops->check(pleat.a) == 0;
}

typedef bool action(void);

static action *const actions[] = { free_all, take_all_free, free_and_take, free_and_trim, look };
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

static pthread_t compactor;
static uint64_t n_calls;
static uint64_t act_at;
static action *const *act;
static pthread_t late; /* a thread that may have to wait for the compaction */
static bool is_late;

static void act_after(pl_entry entry, int failure, uint64_t bytes, void *context)
{
    pthread_t thread;
    struct timespec until;
    void *is_done = NULL;
    (void)entry;
    (void)failure;
    (void)bytes;
    (void)context;
    if (!pthread_equal(pthread_self(), compactor) || n_calls++ != act_at) {
        return;
    }
    ck_assert_int_eq(pthread_create(&thread, NULL, run, (void *)act), 0);
    if (is_late) {
        late = thread;
        return;
    }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    ck_assert_msg(pthread_timedjoin_np(thread, &is_done, &until) == 0,
                  "a lock is held across call %llu of a compaction", (unsigned long long)act_at);
    /* the failing call may be the other thread's */
    ck_assert_msg(is_done != NULL || pleat.sim.n_faults() > 0, "refused at call %llu",
                  (unsigned long long)act_at);
}

/* Compact, while another thread acts after the k-th call. */
static pleat_status compact_at(uint64_t k, action *const *what)
{
    pleat_compaction out;
    compactor = pthread_self();
    n_calls = 0;
    act_at = k;
    act = what;
    pl_driver_time_calls(pleat.sim.drv, true);
    pl_driver_watch(pleat.sim.drv, act_after, NULL);
    pleat_status st = pleat.a->ops->compact(pleat.a, 0, false, &out);
    if (is_late && n_calls > k) {
        void *is_done = NULL;
        ck_assert_int_eq(pthread_join(late, &is_done), 0);
        ck_assert_ptr_nonnull(is_done);
    }
    pl_driver_watch(pleat.sim.drv, NULL, NULL);
    return st;
}

/* Live blocks keep their bytes, and all memory can be given back. */
static void close_verified(void)
{
    pleat_assert_sound();
    told_assert_agrees(pleat.a);
    for (unsigned i = 0; i < MOST_BLOCKS; i++) {
        ck_assert(blocks[i] == 0 ||
                  pleat.sim.verify(pleat.handles[1], blocks[i], GRANULE, blocks[i]) == CU_SUCCESS);
    }
    pleat.sim.finish();
    pleat_assert_sound();
    bool is_freed = free_all() && put(&first);
    for (unsigned i = 0; i < N_NEW; i++) {
        is_freed = put(&fresh[i]) && is_freed;
    }
    ck_assert(is_freed);
    (void)pleat_trim(0, true);
    pleat.has_failed_undo = pl_device_counted(pleat.dev).n_undo_failures > 0;
    ck_assert(pleat.has_failed_undo || chunks_granules_held() == 0);
    pleat_close();
}

/* _i: the action. */
START_TEST(others_go_on_in_each_call)
{
    uint64_t k = 0;
    do {
        open_split();
        ck_assert_int_eq(compact_at(k, &actions[_i]), PLEAT_OK);
        close_verified();
        ck_assert_uint_lt(k, MOST_CALLS);
        k += suite_step();
    } while (n_calls >= k);
    ck_assert_uint_gt(k, 8);
}
END_TEST

/* The k-th call fails, and another thread acts after this call or the next one. The undo, and the
 * repair by a later compaction, must work beside the thread. */
START_TEST(others_go_on_where_calls_fail)
{
    uint64_t k = 0;
    uint64_t n;
    bool has_hit;
    do {
        open_split();
        pleat.sim.fail_at(NULL, k / 2, CU_UNKNOWN);
        pleat_status st = compact_at(k / 2 + k % 2, &actions[_i]);
        has_hit = pleat.sim.n_faults() > 0;
        n = n_calls;
        pleat.sim.fail_never();
        ck_assert(st == PLEAT_OK || has_hit);
        ck_assert_int_eq(compact_at(UINT64_MAX, NULL), PLEAT_OK);
        close_verified();
        ck_assert_uint_lt(k, 2 * MOST_CALLS);
        k += suite_step();
    } while (has_hit || n > k / 2); /* the others' actions may leave fewer calls than before */
    ck_assert_uint_gt(k, 16);
}
END_TEST

/* A map at the place fails, and all later ones, so the undo, too. The space is torn, and repaired
 * beside a thread that acts after the k-th call. */
START_TEST(others_go_on_where_it_is_torn)
{
    enum { AT_PLACE = 4, N_AT_PLACE = 3 }; /* maps at the scratch addresses come before */
    uint64_t k = 0;
    do {
        open_split();
        pleat.sim.fail_from("cuMemMap", AT_PLACE + k % N_AT_PLACE, CU_UNKNOWN);
        ck_assert_int_eq(compact_at(UINT64_MAX, NULL), PLEAT_EPOISONED);
        pleat.sim.fail_never();
        ck_assert_int_eq(compact_at(k, &actions[_i]), PLEAT_OK);
        close_verified();
        k += suite_step();
    } while (n_calls >= k);
    ck_assert_uint_gt(k, 8);
}
END_TEST

/* ---- lanes that go --------------------------------------------------------------------------- */

static pleat_devptr lent; /* of stream 2, in the midst of the chunk */

/* What stream 2 has used is over, and not settled yet. */
static bool free_of_stream_2(void)
{
    pl_space *space = (pl_space *)pleat.a;
    pl_stream_take_over(pleat.streams[2]); /* as pl_stream_get does in a request */
    bool is_freed = pleat.a->ops->free(pleat.a, lent, pleat.streams[2]) == PLEAT_OK;
    pleat.sim.finish();
    pl_lock_acquire(&space->lock);
    (void)pl_tick_poll(space, SIZE_MAX);
    pl_lock_release(&space->lock);
    return is_freed;
}

/* A new stream takes the place of a gone one. */
static bool retire_stream_2(void)
{
    pleat.a->ops->retire_stream(pleat.a, pleat.streams[2]);
    return pleat.a->ops->alloc(pleat.a, 512, pleat.streams[3], &fresh[0]) == PLEAT_OK;
}

/* All is settled, and the chunk chosen, before scratch addresses are reserved for the new
 * chunks. */
static void act_at_entry(pl_entry entry, int failure, uint64_t bytes, void *context)
{
    static action *const frees = free_of_stream_2;
    static action *const retires = retire_stream_2;
    unsigned *n_created = context;
    bool is_creating = entry == PL_CU_mem_create;
    pthread_t thread;
    (void)failure;
    (void)bytes;
    if (!pthread_equal(pthread_self(), compactor) ||
        (entry != PL_CU_address_reserve && (!is_creating || (*n_created)++ > 0))) {
        return;
    }
    act = is_creating ? &retires : &frees;
    void *is_done = NULL;
    ck_assert_int_eq(pthread_create(&thread, NULL, run, (void *)act), 0);
    ck_assert_int_eq(pthread_join(thread, &is_done), 0);
    ck_assert_ptr_nonnull(is_done);
    if (is_creating) {
        pleat.sim.fail_from("cuMemCreate", 0, CU_OUT_OF_MEMORY);
    }
}

/* Memory in flight keeps no lane. The second new chunk is refused, when the owner of the memory in
 * flight is already gone. */
START_TEST(what_moves_may_lose_its_lane)
{
    unsigned n_created = 0;
    pleat_compaction out;
    open_split();
    pl_space *space = (pl_space *)pleat.a;
    pl_lock_acquire(&space->lock);
    ck_assert_int_eq(pl_trim_quiesce(space, 1000), PLEAT_OK);
    pl_lock_release(&space->lock);
    lent = pleat_get((size_t)16 * GRANULE, 2);
    ck_assert_uint_eq(lent, blocks[1] + GRANULE);
    uint32_t n_lanes = space->streams.n_lanes;
    compactor = pthread_self();
    pl_driver_time_calls(pleat.sim.drv, true);
    pl_driver_watch(pleat.sim.drv, act_at_entry, &n_created);
    ck_assert_int_eq(pleat.a->ops->compact(pleat.a, 0, false, &out), PLEAT_OK);
    ck_assert_uint_gt(pleat.sim.n_faults(), 0);
    pleat.sim.fail_never();
    pl_driver_watch(pleat.sim.drv, NULL, NULL);
    ck_assert_uint_gt(n_created, 0);
    ck_assert_uint_eq(space->streams.n_lanes, n_lanes); /* a lane came, a lane went */
    close_verified();
}
END_TEST

/* ---- a broken promise ------------------------------------------------------------------------ */

/* Work of a thread that was to submit none. It is over at once. */
static bool write_astray(void)
{
    bool is_submitted = pleat.sim.fill(pleat.handles[2], blocks[0], GRANULE, 99) == CU_SUCCESS;
    pleat.sim.finish();
    return is_submitted;
}

static bool has_hazard(pleat_sim_hazard_kind kind)
{
    static pleat_sim_hazard hazards[64];
    size_t n = pleat.sim.hazards(hazards, 64);
    bool any = false;
    ck_assert_uint_le(n, 64);
    for (size_t i = 0; i < n; i++) {
        any = any || hazards[i].kind == kind;
    }
    return any;
}

static bool is_written(void)
{
    ck_assert_int_eq(pleat.sim.verify(pleat.handles[2], blocks[0], GRANULE, 99), CU_SUCCESS);
    pleat.sim.finish();
    return !has_hazard(PLEAT_SIM_CONTENTS);
}

/* Another thread writes to a live block after the k-th call. The block then has what was written,
 * or the writing work met unmapped addresses, which ends a program on a GPU. No write is lost. */
START_TEST(a_write_astray_is_kept_or_faults)
{
    static action *const writes = write_astray;
    uint64_t n_kept = 0;
    uint64_t n_faults = 0;
    uint64_t k = 0;
    do {
        open_split();
        pleat.sim.finish();
        ck_assert_int_eq(compact_at(k, &writes), PLEAT_OK);
        bool has_faulted = has_hazard(PLEAT_SIM_UNMAPPED_ACCESS);
        ck_assert_msg(has_faulted || n_calls <= k || is_written(), "lost after call %llu",
                      (unsigned long long)k);
        n_faults += has_faulted;
        n_kept += !has_faulted;
        pleat.sim.has_hazards = true; /* no order between the write and the copies, either */
        ck_assert(put(&blocks[0]));   /* its bytes are the writer's */
        close_verified();
    } while (n_calls > k++);
    ck_assert_uint_gt(n_faults, 3); /* from the unmapping on: copies and their waits, maps */
    ck_assert_uint_gt(n_kept, 8);
}
END_TEST

/* ---- sharing --------------------------------------------------------------------------------- */

static pl_shared_chunk listed;

static bool share(void)
{
    pl_share_list list = { .chunks = &listed, .most_chunks = 1 };
    return pleat.a->ops->share(pleat.a, blocks[0], 0, &list) == PLEAT_OK && list.n_chunks == 1;
}

/* Memory opened by another process is not moved. A query during a move gets the final chunk. */
START_TEST(what_is_shared_beside_a_compaction_is_what_stays)
{
    static action *const shares = share;
    uint64_t k = 0;
    is_late = true;
    device_options.handle_posix_fd = PL_DEMAND_FIRM;
    do {
        open_split();
        ck_assert_int_eq(compact_at(k, &shares), PLEAT_OK);
        if (n_calls > k) {
            pl_shared_chunk then = listed;
            ck_assert(share());
            ck_assert_uint_eq(then.chunk, listed.chunk);
            ck_assert_uint_eq(then.number, listed.number);
        }
        close_verified();
    } while (n_calls > k++);
}
END_TEST

enum { MOST_LISTED = 256 };

static pl_shared_chunk of_heap[MOST_LISTED];
static size_t n_of_heap;

static bool share_heap(void)
{
    pl_share_list list = { .chunks = of_heap, .most_chunks = MOST_LISTED };
    pleat_status st = pleat.a->ops->tags->share(pleat.a, heap, &list);
    n_of_heap = list.n_chunks;
    return st == PLEAT_OK && list.n_chunks <= MOST_LISTED;
}

/* The same for all blocks of a heap. */
START_TEST(what_is_shared_of_a_heap_beside_a_compaction_is_what_stays)
{
    static action *const shares = share_heap;
    static pl_shared_chunk then[MOST_LISTED];
    uint64_t k = 0;
    is_late = true;
    is_in_heap = true;
    device_options.handle_posix_fd = PL_DEMAND_FIRM;
    do {
        open_split();
        ck_assert_int_eq(compact_at(k, &shares), PLEAT_OK);
        if (n_calls > k) {
            size_t n = n_of_heap;
            memcpy(then, of_heap, sizeof then);
            ck_assert(share_heap());
            ck_assert_uint_eq(n, n_of_heap);
            for (size_t i = 0; i < n; i++) {
                ck_assert_uint_eq(then[i].chunk, of_heap[i].chunk);
                ck_assert_uint_eq(then[i].number, of_heap[i].number);
            }
        }
        close_verified();
    } while (n_calls > k++);
    is_in_heap = false;
    ck_assert_uint_gt(k, 8);
}
END_TEST

/* Tied memory that does not move is no help to a request. */
START_TEST(a_request_is_refused_where_shared_chunks_hold_what_it_lacks)
{
    pleat_compaction out = { .n_split = 99 };
    size_t request = (size_t)20 * GRANULE;
    device_options.handle_posix_fd = PL_DEMAND_FIRM;
    open_split();
    uint64_t limit = (uint64_t)(chunks_granules_held() + 7) * GRANULE; /* room for the move */
    ck_assert_int_eq(pleat.a->ops->set_limit(pleat.a, limit), PLEAT_OK);
    bool is_shared = _i == 1 && share();
    ck_assert_int_eq(pleat.a->ops->compact(pleat.a, request, false, &out),
                     is_shared ? PLEAT_ENOMEM_DEVICE : PLEAT_OK);
    ck_assert_uint_eq(out.n_split, is_shared ? 99 : 1);
    ck_assert_int_eq(pleat.a->ops->set_limit(pleat.a, 0), PLEAT_OK);
    close_verified();
}
END_TEST

SUITE(segments_compact_window)
{
    TCase *calls = suite_case(suite, "calls", NULL, NULL);
    tcase_add_loop_test(calls, others_go_on_in_each_call, 0, N_ACTIONS);
    TCase *faults = suite_case(suite, "faults", NULL, NULL);
    tcase_add_loop_test(faults, others_go_on_where_calls_fail, 0, N_ACTIONS);
    tcase_add_loop_test(faults, others_go_on_where_it_is_torn, 0, N_ACTIONS);
    tcase_add_test(faults, what_moves_may_lose_its_lane);
    TCase *broken = suite_case(suite, "broken promise", NULL, NULL);
    tcase_add_test(broken, a_write_astray_is_kept_or_faults);
    TCase *shared = suite_case(suite, "shared", NULL, NULL);
    tcase_add_test(shared, what_is_shared_beside_a_compaction_is_what_stays);
    tcase_add_test(shared, what_is_shared_of_a_heap_beside_a_compaction_is_what_stays);
    tcase_add_loop_test(shared, a_request_is_refused_where_shared_chunks_hold_what_it_lacks, 0, 2);
}
