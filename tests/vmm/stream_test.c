/* stream_test.c - who a stream is: ids, recycled handles, contexts, threads, captures. */
/* labels: unit stress */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "tests/support/suite.h"
#include "tests/support/vmm/vmm_sim.h"
#include "vmm/streams/stream.h"

enum { N_STREAMS = 100, N_THREADS = 4 };

static vmm_sim sim;
static pl_device *dev;

static void open_new(void)
{
    vmm_sim_open(&sim, "devices:2,capacity:1G");
    dev = vmm_sim_device(&sim, NULL);
}

static void open_old(void)
{
    vmm_sim_open(&sim, "profile:old_driver,capacity:1G");
    dev = vmm_sim_device(&sim, NULL);
}

static void close_all(void)
{
    sim.fail_never();
    vmm_sim_close_device(dev);
    vmm_sim_close(&sim);
}

static pl_stream *get(void *handle)
{
    pl_stream *stream = NULL;
    ck_assert_int_eq(pl_stream_get(dev, handle, &stream), PLEAT_OK);
    return stream;
}

/* ---- identity -------------------------------------------------------------------------------- */

START_TEST(both_names_of_the_legacy_stream_are_one_stream_and_cost_no_call)
{
    pl_stream *legacy = get(NULL);
    uint64_t n_calls = vmm_sim_counted(&sim).calls;
    ck_assert_ptr_eq(get(CU_STREAM_LEGACY), legacy);
    ck_assert_ptr_eq(get(NULL), legacy);
    ck_assert_uint_eq(vmm_sim_counted(&sim).calls, n_calls);
    ck_assert_ptr_null(pl_stream_handle(legacy));
    ck_assert_uint_eq(pl_stream_index(legacy), 0);
}
END_TEST

START_TEST(indexes_count_streams_in_order_of_first_sight)
{
    cu_stream handles[N_STREAMS];
    ck_assert_uint_eq(pl_stream_count(dev), 0);
    for (unsigned i = 0; i < N_STREAMS; i++) {
        handles[i] = vmm_sim_stream(dev, i % 2 == 0);
        ck_assert_uint_eq(pl_stream_index(get(handles[i])), i);
        ck_assert_uint_eq(pl_stream_count(dev), i + 1);
    }
    for (unsigned i = 0; i < N_STREAMS; i++) {
        pl_stream *stream = get(handles[i]);
        ck_assert_uint_eq(pl_stream_index(stream), i);
        ck_assert_ptr_eq(pl_stream_at(dev, i), stream);
        ck_assert_ptr_eq(pl_stream_handle(stream), handles[i]);
        vmm_sim_destroy_stream(dev, handles[i]);
    }
    ck_assert_ptr_null(pl_stream_at(dev, N_STREAMS));
}
END_TEST

START_TEST(a_known_stream_costs_its_capture_state_and_its_id)
{
    cu_stream handle = vmm_sim_stream(dev, false);
    get(handle);
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    uint64_t n_calls = vmm_sim_counted(&sim).calls;
    get(handle);
    /* the id is asked in relaxed capture mode, which takes a call before and one after */
    ck_assert_uint_eq(vmm_sim_counted(&sim).calls, n_calls + 4);
    pl_device_leave(dev);
    vmm_sim_destroy_stream(dev, handle);
}
END_TEST

START_TEST(a_recycled_handle_is_another_stream)
{
    cu_stream first = vmm_sim_stream(dev, false);
    pl_stream *known = get(first);
    vmm_sim_destroy_stream(dev, first);
    cu_stream second = vmm_sim_stream(dev, false);
    ck_assert_ptr_eq(second, first); /* the simulator recycles handles at once */
    pl_stream *other = get(second);
    ck_assert_ptr_ne(other, known);
    ck_assert_uint_ne(pl_stream_id(other), pl_stream_id(known));
    vmm_sim_destroy_stream(dev, second);
}
END_TEST

START_TEST(a_stream_of_another_device_is_refused_at_first_sight)
{
    pl_device *other = NULL;
    pl_stream *stream = NULL;
    ck_assert_int_eq(pl_device_open(sim.drv, 1, NULL, &other), PLEAT_OK);
    cu_stream handle = vmm_sim_stream(other, false);
    ck_assert_int_eq(pl_stream_get(dev, handle, &stream), PLEAT_ESTREAM);
    ck_assert_ptr_null(stream);
    ck_assert_uint_eq(pl_stream_count(dev), 0);
    ck_assert_int_eq(pl_stream_get(other, handle, &stream), PLEAT_OK);
    vmm_sim_destroy_stream(other, handle);
    vmm_sim_close_device(other);
}
END_TEST

START_TEST(a_handle_that_is_no_stream_is_a_driver_failure)
{
    static int not_a_stream;
    pl_stream *stream = NULL;
    ck_assert_int_eq(pl_stream_get(dev, &not_a_stream, &stream), PLEAT_EDRIVER);
    ck_assert_ptr_null(stream);
}
END_TEST

START_TEST(any_context_may_be_current_and_stays_so)
{
    pl_device *other = NULL;
    cu_context before = NULL;
    cu_context after = NULL;
    bool is_capturing = true;
    cu_stream handle = vmm_sim_stream(dev, false);
    pl_stream *stream = get(handle); /* no context is current */
    ck_assert_int_eq(pl_stream_is_capturing(stream, &is_capturing), PLEAT_OK);
    ck_assert(!is_capturing);
    ck_assert_int_eq(pl_device_open(sim.drv, 1, NULL, &other), PLEAT_OK);
    ck_assert_int_eq(pl_device_enter(other), PLEAT_OK);
    ck_assert_int_eq(pl_cu_ctx_get_current(sim.drv, &before), CU_SUCCESS);
    ck_assert_ptr_eq(get(handle), stream);
    get(CU_STREAM_PER_THREAD);
    get(NULL);
    ck_assert_int_eq(pl_stream_synchronize(stream), PLEAT_OK);
    ck_assert_int_eq(pl_cu_ctx_get_current(sim.drv, &after), CU_SUCCESS);
    ck_assert_ptr_eq(after, before);
    pl_device_leave(other);
    ck_assert_int_eq(pl_cu_ctx_get_current(sim.drv, &after), CU_SUCCESS);
    ck_assert_ptr_null(after);
    vmm_sim_destroy_stream(dev, handle);
    vmm_sim_close_device(other);
}
END_TEST

START_TEST(no_host_memory_for_a_new_stream_leaves_it_unknown)
{
    cu_stream handle = vmm_sim_stream(dev, false);
    pl_stream *stream = NULL;
    uint64_t k = 0;
    pleat_status st;
    do {
        pl_meta_fail_at(k++);
        st = pl_stream_get(dev, handle, &stream);
        pl_meta_fail_never();
        ck_assert(st == PLEAT_OK || st == PLEAT_ENOMEM_HOST);
        ck_assert_uint_eq(pl_stream_count(dev), st == PLEAT_OK ? 1 : 0);
    } while (st != PLEAT_OK);
    ck_assert_uint_ge(k, 2);
    vmm_sim_destroy_stream(dev, handle);
}
END_TEST

/* ---- threads --------------------------------------------------------------------------------- */

typedef struct own_default {
    pl_stream *first;
    pl_stream *again;
    pleat_status status;
    pleat_status foreign; /* answer about another thread's stream */
    pl_stream *others;
    bool is_capturing;
} own_default;

static void *get_own(void *arg)
{
    own_default *own = arg;
    own->status = pl_stream_get(dev, CU_STREAM_PER_THREAD, &own->first);
    if (own->status == PLEAT_OK) {
        own->status = pl_stream_get(dev, CU_STREAM_PER_THREAD, &own->again);
    }
    if (own->others != NULL) {
        own->foreign = pl_stream_is_capturing(own->others, &own->is_capturing);
    }
    return NULL;
}

static void run_in_thread(own_default *own)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, get_own, own), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(own->status, PLEAT_OK);
}

START_TEST(the_per_thread_stream_is_one_per_thread)
{
    own_default first = { .first = NULL };
    own_default second = { .first = NULL };
    pl_stream *mine = get(CU_STREAM_PER_THREAD);
    second.others = mine;
    run_in_thread(&first);
    run_in_thread(&second);
    ck_assert_ptr_eq(first.first, first.again);
    ck_assert_ptr_ne(first.first, mine);
    ck_assert_ptr_ne(first.first, second.first);
    ck_assert_ptr_eq(get(CU_STREAM_PER_THREAD), mine);
    ck_assert_ptr_ne(get(NULL), mine);
    ck_assert_int_eq(second.foreign, PLEAT_ESTREAM); /* another thread's stream is out of reach */
}
END_TEST

/* A green context may be current. */
START_TEST(a_known_per_thread_stream_costs_one_look_at_the_context)
{
    pl_stream *mine = get(CU_STREAM_PER_THREAD);
    uint64_t n_calls = vmm_sim_counted(&sim).calls;
    uint64_t n_looks = sim.n_calls("cuCtxGetCurrent");
    ck_assert_ptr_eq(get(CU_STREAM_PER_THREAD), mine);
    ck_assert_uint_eq(vmm_sim_counted(&sim).calls, n_calls + 1);
    ck_assert_uint_eq(sim.n_calls("cuCtxGetCurrent"), n_looks + 1);
}
END_TEST

START_TEST(a_new_device_does_not_inherit_an_old_ones_per_thread_stream)
{
    get(CU_STREAM_PER_THREAD);
    vmm_sim_close_device(dev);
    dev = vmm_sim_device(&sim, NULL);
    ck_assert_uint_eq(pl_stream_count(dev), 0);
    pl_stream *mine = get(CU_STREAM_PER_THREAD);
    ck_assert_ptr_eq(pl_stream_at(dev, 0), mine);
}
END_TEST

typedef struct race {
    cu_stream handles[N_STREAMS];
    pl_stream *seen[N_THREADS][N_STREAMS];
    pleat_status status[N_THREADS];
} race;

typedef struct racer {
    race *race;
    unsigned number;
} racer;

static void *get_all(void *arg)
{
    const racer *r = arg;
    race *all = r->race;
    for (unsigned i = 0; i < N_STREAMS; i++) {
        unsigned at = (i * (r->number * 2 + 1)) % N_STREAMS;
        for (unsigned round = 0; round < 3; round++) {
            pleat_status st = pl_stream_get(dev, all->handles[at], &all->seen[r->number][at]);
            all->status[r->number] = st != PLEAT_OK ? st : all->status[r->number];
        }
    }
    for (unsigned i = 0; i < N_STREAMS; i++) {
        pleat_status st = pl_stream_get(dev, all->handles[i], &all->seen[r->number][i]);
        all->status[r->number] = st != PLEAT_OK ? st : all->status[r->number];
    }
    return NULL;
}

START_TEST(threads_that_meet_the_same_streams_agree_on_them)
{
    static race all;
    racer racers[N_THREADS];
    pthread_t threads[N_THREADS];
    for (unsigned i = 0; i < N_STREAMS; i++) {
        all.handles[i] = vmm_sim_stream(dev, false);
    }
    for (unsigned i = 0; i < N_THREADS; i++) {
        racers[i] = (racer){ .race = &all, .number = i };
        ck_assert_int_eq(pthread_create(&threads[i], NULL, get_all, &racers[i]), 0);
    }
    for (unsigned i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        ck_assert_int_eq(all.status[i], PLEAT_OK);
    }
    ck_assert_uint_eq(pl_stream_count(dev), N_STREAMS);
    for (unsigned i = 0; i < N_STREAMS; i++) {
        for (unsigned t = 0; t < N_THREADS; t++) {
            ck_assert_ptr_eq(all.seen[t][i], all.seen[0][i]);
        }
        ck_assert_ptr_eq(pl_stream_at(dev, pl_stream_index(all.seen[0][i])), all.seen[0][i]);
        vmm_sim_destroy_stream(dev, all.handles[i]);
    }
}
END_TEST

/* ---- giving up ------------------------------------------------------------------------------- */

START_TEST(a_stream_that_nobody_holds_can_be_given_up_alive)
{
    cu_stream handle = vmm_sim_stream(dev, false);
    cu_stream other = vmm_sim_stream(dev, false);
    pl_stream *stream = get(handle);
    ck_assert_ptr_eq(get(handle), stream);
    pl_stream_put(stream);
    ck_assert(!pl_stream_try_release(stream)); /* it was held once more */
    pl_stream_put(stream);
    uint64_t id = pl_stream_id(stream);
    ck_assert(pl_stream_try_release(stream));
    ck_assert_ptr_eq(get(other), stream); /* the object now serves another stream */
    ck_assert_ptr_ne(get(handle), stream);
    ck_assert_uint_eq(pl_stream_id(get(handle)), id);
    ck_assert_uint_eq(pl_stream_count(dev), 2);
    vmm_sim_destroy_stream(dev, handle);
    vmm_sim_destroy_stream(dev, other);
}
END_TEST

START_TEST(default_streams_are_not_given_up_alive)
{
    for (uintptr_t i = 0; i <= 2; i++) {
        pl_stream *stream = get((void *)i);
        pl_stream_put(stream);
        ck_assert(!pl_stream_try_release(stream));
        ck_assert_ptr_eq(get((void *)i), stream);
    }
}
END_TEST

enum { N_NAMED = 2000 };

static struct {
    cu_stream handles[2];
    uint64_t ids[2];
    unsigned n_wrong;
    _Atomic bool is_over;
} naming;

/* A held stream stays the stream of its handle. */
static void *name_in_turn(void *unused)
{
    for (unsigned i = 0; i < N_NAMED; i++) {
        pl_stream *stream = NULL;
        cu_stream handle = naming.handles[i % 2];
        if (pl_stream_get(dev, handle, &stream) != PLEAT_OK || pl_stream_handle(stream) != handle ||
            pl_stream_id(stream) != naming.ids[i % 2]) {
            naming.n_wrong++;
            break;
        }
        pl_stream_put(stream);
    }
    atomic_store(&naming.is_over, true);
    return unused;
}

START_TEST(a_stream_that_is_named_while_it_is_given_up_is_held_or_new)
{
    pthread_t thread;
    for (unsigned i = 0; i < 2; i++) {
        naming.handles[i] = vmm_sim_stream(dev, false);
        pl_stream *stream = get(naming.handles[i]);
        naming.ids[i] = pl_stream_id(stream);
        pl_stream_put(stream);
    }
    ck_assert_int_eq(pthread_create(&thread, NULL, name_in_turn, NULL), 0);
    while (!atomic_load(&naming.is_over)) {
        for (unsigned i = 0; i < 2; i++) { /* both are still known: no other thread drops one */
            pl_stream *stream = get(naming.handles[i]);
            pl_stream_put(stream);
            (void)!pl_stream_try_release(stream);
        }
    }
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(naming.n_wrong, 0);
    ck_assert_uint_le(pl_stream_count(dev), 3); /* one may be between two lives */
    for (unsigned i = 0; i < 2; i++) {
        vmm_sim_destroy_stream(dev, naming.handles[i]);
    }
}
END_TEST

/* ---- a driver without ids -------------------------------------------------------------------- */

START_TEST(without_ids_a_stream_is_its_handle)
{
    cu_stream first = vmm_sim_stream(dev, false);
    cu_stream second = vmm_sim_stream(dev, false);
    pl_stream *a = get(first);
    pl_stream *b = get(second);
    ck_assert_ptr_ne(a, b);
    ck_assert_ptr_eq(get(first), a);
    ck_assert_uint_eq(pl_stream_id(a), (uintptr_t)first);
    ck_assert_ptr_ne(get(NULL), a);
    vmm_sim_destroy_stream(dev, first);
    vmm_sim_destroy_stream(dev, second);
}
END_TEST

START_TEST(without_ids_a_per_thread_stream_is_its_thread)
{
    own_default other = { .others = get(CU_STREAM_PER_THREAD) };
    run_in_thread(&other);
    ck_assert_ptr_ne(other.first, other.others);
    ck_assert_ptr_eq(other.first, other.again);
    ck_assert_ptr_eq(get(CU_STREAM_PER_THREAD), other.others);
    ck_assert_int_eq(other.foreign, PLEAT_ESTREAM);
}
END_TEST

/* ---- captures and synchronisation ------------------------------------------------------------ */

static void begin_capture(cu_stream handle, int mode)
{
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    ck_assert_int_eq(pl_cu_stream_begin_capture(sim.drv, handle, mode), CU_SUCCESS);
    pl_device_leave(dev);
}

/* Ends the capture, which must be intact. */
static void end_capture(cu_stream handle)
{
    cu_graph graph = NULL;
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    ck_assert_int_eq(pl_cu_stream_end_capture(sim.drv, handle, &graph), CU_SUCCESS);
    ck_assert_ptr_nonnull(graph);
    ck_assert_int_eq(pl_cu_graph_destroy(sim.drv, graph), CU_SUCCESS);
    pl_device_leave(dev);
}

START_TEST(a_capture_is_seen_while_it_lasts_and_not_harmed)
{
    cu_stream handle = vmm_sim_stream(dev, true);
    pl_stream *stream = get(handle);
    pl_stream *legacy = get(NULL);
    bool is_capturing = true;
    ck_assert_int_eq(pl_stream_is_capturing(stream, &is_capturing), PLEAT_OK);
    ck_assert(!is_capturing);
    begin_capture(handle, CU_CAPTURE_MODE_GLOBAL);
    ck_assert_int_eq(pl_stream_is_capturing(stream, &is_capturing), PLEAT_OK);
    ck_assert(is_capturing);
    ck_assert_int_eq(pl_stream_is_capturing(legacy, &is_capturing), PLEAT_OK);
    ck_assert(!is_capturing);
    ck_assert_ptr_eq(get(handle), stream);
    end_capture(handle);
    ck_assert_int_eq(pl_stream_is_capturing(stream, &is_capturing), PLEAT_OK);
    ck_assert(!is_capturing);
    vmm_sim_destroy_stream(dev, handle);
}
END_TEST

START_TEST(a_stream_that_is_gone_does_not_answer_for_the_next_one_of_its_handle)
{
    cu_stream handle = vmm_sim_stream(dev, true);
    pl_stream *stream = get(handle);
    bool is_capturing = false;
    ck_assert_int_eq(pl_stream_is_still_capturing(stream, &is_capturing), PLEAT_OK);
    ck_assert(!is_capturing);
    begin_capture(handle, CU_CAPTURE_MODE_GLOBAL);
    ck_assert_int_eq(pl_stream_is_still_capturing(stream, &is_capturing), PLEAT_OK);
    ck_assert(is_capturing);
    ck_assert_int_eq(pl_stream_is_still_capturing(get(NULL), &is_capturing), PLEAT_OK);
    ck_assert(!is_capturing);
    end_capture(handle);
    vmm_sim_destroy_stream(dev, handle);
    ck_assert_int_eq(pl_stream_is_capturing(stream, &is_capturing), PLEAT_ESTREAM);
    ck_assert_int_eq(pl_stream_is_still_capturing(stream, &is_capturing), PLEAT_ESTREAM);
    ck_assert_ptr_eq(vmm_sim_stream(dev, true), handle);
    begin_capture(handle, CU_CAPTURE_MODE_GLOBAL);
    ck_assert_int_eq(pl_stream_is_still_capturing(stream, &is_capturing), PLEAT_ESTREAM);
    end_capture(handle);
    vmm_sim_destroy_stream(dev, handle);
}
END_TEST

START_TEST(a_stream_first_seen_in_a_capture_is_the_same_afterwards)
{
    static const int modes[] = { CU_CAPTURE_MODE_GLOBAL, CU_CAPTURE_MODE_THREAD_LOCAL,
                                 CU_CAPTURE_MODE_RELAXED };
    cu_stream handles[3];
    for (unsigned i = 0; i < 3; i++) {
        handles[i] = vmm_sim_stream(dev, false);
        begin_capture(handles[i], modes[i]);
        pl_stream *stream = get(handles[i]);
        ck_assert_ptr_eq(get(handles[i]), stream);
        end_capture(handles[i]);
        ck_assert_ptr_eq(get(handles[i]), stream);
        ck_assert_uint_eq(pl_stream_count(dev), i + 1);
    }
    for (unsigned i = 0; i < 3; i++) {
        vmm_sim_destroy_stream(dev, handles[i]);
    }
}
END_TEST

START_TEST(a_fence_names_a_stream_first_seen_in_a_capture)
{
    cu_stream handle = vmm_sim_stream(dev, false);
    pl_fence *fence = NULL;
    begin_capture(handle, CU_CAPTURE_MODE_GLOBAL);
    pl_stream *stream = get(handle);
    ck_assert_int_eq(pl_fence_record(stream, &fence), PLEAT_ECAPTURE);
    end_capture(handle);
    ck_assert_int_eq(pl_fence_record(stream, &fence), PLEAT_OK);
    ck_assert(!pl_fence_is_whole_device(fence));
    pl_fence_return(fence);
    ck_assert_ptr_eq(get(handle), stream);
    vmm_sim_destroy_stream(dev, handle);
}
END_TEST

START_TEST(a_foreign_stream_first_seen_in_a_capture_is_refused_at_rest)
{
    pl_device *other = NULL;
    pl_stream *stream = NULL;
    pl_fence *fence = NULL;
    ck_assert_int_eq(pl_device_open(sim.drv, 1, NULL, &other), PLEAT_OK);
    cu_stream handle = vmm_sim_stream(other, false);
    begin_capture(handle, CU_CAPTURE_MODE_GLOBAL);
    pl_stream *unnamed = get(handle);
    end_capture(handle);
    ck_assert_int_eq(pl_stream_get(dev, handle, &stream), PLEAT_ESTREAM);
    ck_assert_int_eq(pl_fence_record(unnamed, &fence), PLEAT_OK);
    ck_assert(pl_fence_is_whole_device(fence));
    pl_fence_return(fence);
    ck_assert_int_eq(pl_stream_get(dev, handle, &stream), PLEAT_ESTREAM);
    vmm_sim_destroy_stream(other, handle);
    vmm_sim_close_device(other);
}
END_TEST

START_TEST(a_capture_on_a_handle_recycled_unseen_is_its_last_streams)
{
    cu_stream handle = vmm_sim_stream(dev, false);
    pl_stream *stream = get(handle);
    pl_fence *fence = NULL;
    vmm_sim_destroy_stream(dev, handle);
    ck_assert_ptr_eq(vmm_sim_stream(dev, false), handle);
    begin_capture(handle, CU_CAPTURE_MODE_GLOBAL);
    ck_assert_ptr_eq(get(handle), stream);
    ck_assert_int_eq(pl_fence_record(stream, &fence), PLEAT_ECAPTURE);
    end_capture(handle);
    ck_assert_ptr_ne(get(handle), stream);
    ck_assert_int_eq(pl_fence_record(stream, &fence), PLEAT_OK);
    ck_assert(pl_fence_is_whole_device(fence));
    pl_fence_return(fence);
    vmm_sim_destroy_stream(dev, handle);
}
END_TEST

START_TEST(no_host_memory_while_a_stream_gets_its_name_loses_nothing)
{
    cu_stream handles[N_STREAMS];
    for (unsigned i = 0; i < N_STREAMS; i++) {
        handles[i] = vmm_sim_stream(dev, false);
        begin_capture(handles[i], CU_CAPTURE_MODE_GLOBAL);
        ck_assert_uint_eq(pl_stream_index(get(handles[i])), i);
        end_capture(handles[i]);
    }
    pl_meta_fail_from(0);
    for (unsigned i = 0; i < N_STREAMS; i++) {
        ck_assert_uint_eq(pl_stream_index(get(handles[i])), i);
    }
    pl_meta_fail_never();
    for (unsigned i = 0; i < N_STREAMS; i++) {
        ck_assert_uint_eq(pl_stream_index(get(handles[i])), i);
        vmm_sim_destroy_stream(dev, handles[i]);
    }
}
END_TEST

/* One thread finds a stream at rest while another thread records on it. The driver tells both
 * threads its id. */
enum { N_MEETINGS = 4000 };

static struct {
    _Atomic unsigned n_begun;
    _Atomic unsigned n_done;
    cu_stream handle;
} meeting;

static void wait_until(const _Atomic unsigned *counter, unsigned count)
{
    while (atomic_load(counter) < count) {
        sched_yield();
    }
}

static void *get_at_meetings(void *unused)
{
    pl_stream *stream = unused;
    for (unsigned i = 1; i <= N_MEETINGS; i++) {
        wait_until(&meeting.n_begun, i);
        (void)!pl_stream_get(dev, meeting.handle, &stream);
        atomic_store(&meeting.n_done, i);
    }
    return NULL;
}

static pl_stream *get_in_a_capture(cu_stream handle)
{
    begin_capture(handle, CU_CAPTURE_MODE_GLOBAL);
    pl_stream *stream = get(handle);
    end_capture(handle);
    return stream;
}

START_TEST(threads_that_name_a_stream_together_both_find_it_alive)
{
    static cu_stream handles[N_MEETINGS];
    pthread_t thread;
    unsigned n_gone = 0;
    ck_assert_int_eq(pthread_create(&thread, NULL, get_at_meetings, NULL), 0);
    for (unsigned i = 0; i < N_MEETINGS; i++) {
        pl_fence *fence = NULL;
        meeting.handle = handles[i] = vmm_sim_stream(dev, false);
        pl_stream *stream = get_in_a_capture(handles[i]);
        atomic_store(&meeting.n_begun, i + 1);
        ck_assert_int_eq(pl_fence_record(stream, &fence), PLEAT_OK);
        n_gone += pl_fence_is_whole_device(fence);
        pl_fence_return(fence);
        wait_until(&meeting.n_done, i + 1);
        n_gone += get_in_a_capture(handles[i]) != stream;
    }
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_eq(n_gone, 0);
    ck_assert_uint_eq(pl_stream_count(dev), N_MEETINGS);
    for (unsigned i = 0; i < N_MEETINGS; i++) {
        vmm_sim_destroy_stream(dev, handles[i]);
    }
}
END_TEST

START_TEST(a_destroyed_context_of_the_thread_says_nothing_of_a_stream)
{
    pl_device *other = NULL;
    cu_context context = NULL;
    bool is_capturing = true;
    cu_stream handle = vmm_sim_stream(dev, false);
    pl_stream *stream = get(handle);
    ck_assert_int_eq(pl_device_open(sim.drv, 1, NULL, &other), PLEAT_OK);
    ck_assert_int_eq(pl_device_enter(other), PLEAT_OK);
    ck_assert_int_eq(pl_cu_ctx_get_current(sim.drv, &context), CU_SUCCESS);
    pl_device_leave(other);
    ck_assert_int_eq(pl_cu_ctx_push(sim.drv, context), CU_SUCCESS);
    vmm_sim_close_device(other);
    ck_assert_int_eq(pl_stream_is_capturing(stream, &is_capturing), PLEAT_OK);
    ck_assert(!is_capturing);
    ck_assert_ptr_eq(get(handle), stream);
    ck_assert_int_eq(pl_cu_ctx_pop(sim.drv, &context), CU_SUCCESS);
    ck_assert_ptr_eq(get_in_a_capture(handle), stream);
    vmm_sim_destroy_stream(dev, handle);
}
END_TEST

static void *get_and_free_elsewhere(void *argument)
{
    pl_stream *stream = NULL;
    pleat_devptr ptr;
    bool is_good = pl_stream_get(dev, argument, &stream) == PLEAT_OK &&
                   pl_device_malloc(dev, 4096, &ptr) == PLEAT_OK &&
                   pl_device_mfree(dev, ptr) == PLEAT_OK;
    return is_good ? stream : NULL;
}

START_TEST(a_global_capture_is_not_harmed_by_other_streams_and_threads)
{
    cu_stream captured = vmm_sim_stream(dev, false);
    cu_stream other = vmm_sim_stream(dev, false);
    cu_stream third = vmm_sim_stream(dev, false);
    pthread_t thread;
    void *seen = NULL;
    begin_capture(captured, CU_CAPTURE_MODE_GLOBAL);
    pl_stream *stream = get(other);
    ck_assert_int_eq(pthread_create(&thread, NULL, get_and_free_elsewhere, third), 0);
    ck_assert_int_eq(pthread_join(thread, &seen), 0);
    ck_assert_ptr_nonnull(seen);
    end_capture(captured);
    ck_assert_ptr_eq(get(other), stream);
    ck_assert_ptr_eq(get(third), (pl_stream *)seen);
    vmm_sim_destroy_stream(dev, captured);
    vmm_sim_destroy_stream(dev, other);
    vmm_sim_destroy_stream(dev, third);
}
END_TEST

START_TEST(without_ids_a_destroyed_stream_is_gone_for_captures_and_waits)
{
    cu_stream handle = vmm_sim_stream(dev, true);
    pl_stream *stream = get(handle);
    bool is_capturing = false;
    pl_fence *fence = NULL;
    vmm_sim_destroy_stream(dev, handle);
    ck_assert_int_eq(pl_stream_is_still_capturing(stream, &is_capturing), PLEAT_ESTREAM);
    ck_assert_int_eq(pl_stream_synchronize(stream), PLEAT_ESTREAM);
    ck_assert_int_eq(pl_fence_record(stream, &fence), PLEAT_OK);
    ck_assert(pl_fence_is_whole_device(fence));
    pl_fence_return(fence);
}
END_TEST

START_TEST(a_captured_stream_is_not_synchronised)
{
    cu_stream handle = vmm_sim_stream(dev, true);
    pl_stream *stream = get(handle);
    begin_capture(handle, CU_CAPTURE_MODE_GLOBAL);
    ck_assert_int_eq(pl_stream_synchronize(stream), PLEAT_ECAPTURE);
    ck_assert_int_eq(pl_stream_synchronize(get(NULL)), PLEAT_ECAPTURE);
    ck_assert_uint_eq(pl_device_counted(dev).host_syncs, 0);
    end_capture(handle);
    vmm_sim_destroy_stream(dev, handle);
}
END_TEST

START_TEST(memory_can_be_had_while_another_stream_is_captured)
{
    cu_stream handle = vmm_sim_stream(dev, false);
    pleat_devptr ptr;
    begin_capture(handle, CU_CAPTURE_MODE_GLOBAL);
    ck_assert_int_eq(pl_device_malloc(dev, 4096, &ptr), PLEAT_OK);
    ck_assert_int_eq(pl_device_mfree(dev, ptr), PLEAT_OK);
    end_capture(handle);
    vmm_sim_destroy_stream(dev, handle);
}
END_TEST

START_TEST(synchronising_finishes_the_streams_work_and_is_counted)
{
    cu_stream handle = vmm_sim_stream(dev, false);
    pl_stream *stream = get(handle);
    vmm_sim_submit(&sim, dev, handle);
    ck_assert_uint_eq(vmm_sim_counted(&sim).unfinished_work, 1);
    ck_assert_int_eq(pl_stream_synchronize(stream), PLEAT_OK);
    ck_assert_uint_eq(vmm_sim_counted(&sim).unfinished_work, 0);
    ck_assert_uint_eq(pl_device_counted(dev).host_syncs, 1);
    vmm_sim_destroy_stream(dev, handle);
    ck_assert_int_eq(pl_stream_synchronize(stream), PLEAT_ESTREAM);
}
END_TEST

SUITE(vmm_stream)
{
    TCase *identity = tcase_create("identity");
    tcase_add_checked_fixture(identity, open_new, close_all);
    tcase_add_test(identity, both_names_of_the_legacy_stream_are_one_stream_and_cost_no_call);
    tcase_add_test(identity, indexes_count_streams_in_order_of_first_sight);
    tcase_add_test(identity, a_known_stream_costs_its_capture_state_and_its_id);
    tcase_add_test(identity, a_recycled_handle_is_another_stream);
    tcase_add_test(identity, a_stream_of_another_device_is_refused_at_first_sight);
    tcase_add_test(identity, a_handle_that_is_no_stream_is_a_driver_failure);
    tcase_add_test(identity, any_context_may_be_current_and_stays_so);
    tcase_add_test(identity, no_host_memory_for_a_new_stream_leaves_it_unknown);
    suite_add_tcase(suite, identity);
    TCase *threads = tcase_create("threads");
    tcase_add_checked_fixture(threads, open_new, close_all);
    tcase_add_test(threads, the_per_thread_stream_is_one_per_thread);
    tcase_add_test(threads, a_known_per_thread_stream_costs_one_look_at_the_context);
    tcase_add_test(threads, a_new_device_does_not_inherit_an_old_ones_per_thread_stream);
    tcase_add_test(threads, threads_that_meet_the_same_streams_agree_on_them);
    suite_add_tcase(suite, threads);
    TCase *leaving = tcase_create("leaving");
    tcase_add_checked_fixture(leaving, open_new, close_all);
    tcase_add_test(leaving, a_stream_that_nobody_holds_can_be_given_up_alive);
    tcase_add_test(leaving, default_streams_are_not_given_up_alive);
    tcase_add_test(leaving, a_stream_that_is_named_while_it_is_given_up_is_held_or_new);
    suite_add_tcase(suite, leaving);
    TCase *old = tcase_create("without ids");
    tcase_add_checked_fixture(old, open_old, close_all);
    tcase_add_test(old, without_ids_a_stream_is_its_handle);
    tcase_add_test(old, without_ids_a_per_thread_stream_is_its_thread);
    tcase_add_test(old, without_ids_a_destroyed_stream_is_gone_for_captures_and_waits);
    suite_add_tcase(suite, old);
    TCase *captures = tcase_create("captures");
    tcase_add_checked_fixture(captures, open_new, close_all);
    tcase_add_test(captures, a_capture_is_seen_while_it_lasts_and_not_harmed);
    tcase_add_test(captures, a_stream_that_is_gone_does_not_answer_for_the_next_one_of_its_handle);
    tcase_add_test(captures, a_stream_first_seen_in_a_capture_is_the_same_afterwards);
    tcase_add_test(captures, a_fence_names_a_stream_first_seen_in_a_capture);
    tcase_add_test(captures, a_foreign_stream_first_seen_in_a_capture_is_refused_at_rest);
    tcase_add_test(captures, a_capture_on_a_handle_recycled_unseen_is_its_last_streams);
    tcase_add_test(captures, no_host_memory_while_a_stream_gets_its_name_loses_nothing);
    tcase_add_test(captures, threads_that_name_a_stream_together_both_find_it_alive);
    tcase_add_test(captures, a_destroyed_context_of_the_thread_says_nothing_of_a_stream);
    tcase_add_test(captures, a_global_capture_is_not_harmed_by_other_streams_and_threads);
    tcase_add_test(captures, a_captured_stream_is_not_synchronised);
    tcase_add_test(captures, memory_can_be_had_while_another_stream_is_captured);
    tcase_add_test(captures, synchronising_finishes_the_streams_work_and_is_counted);
    suite_add_tcase(suite, captures);
}
