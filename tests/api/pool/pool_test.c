/* pool_test.c - private pools: names, users, routes, and the owners of memory. */
/* labels: unit stress */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/calls/internal.h"
#include "api/pleat_checkpoint.h"
#include "tests/support/api/api_sim.h"
#include "tests/support/suite.h"

enum { MIB = 1 << 20, GRANULE = 2 << 20, N_THREADS = 4, N_ROUNDS = 150 };

static const char patient[] = "capacity:64M,depth:1048576"; /* work ends only when waited for */
static const pleat_pool_id first_id = { 0, 1 };
static const pleat_pool_id second_id = { 7, 0 };

static pleat instance;
static void *streams[2];

static void open_pleat(void)
{
    api_sim_load();
    instance = api_make(API_PLEAT, patient, "");
    streams[0] = api_stream(instance, 0);
    streams[1] = api_stream(instance, 0);
}

static void close_pleat(void)
{
    api_check(instance);
    sim.finish();
    ck_assert_uint_eq(sim.hazards(NULL, 0), 0);
    for (size_t i = 0; i < 2; i++) {
        api_stream_end(instance, 0, streams[i]);
    }
    api_unmake(instance);
}

static void begin(pleat_pool_id id)
{
    pleat_status st = pleat_pool_begin(instance, 0, id, NULL, NULL, NULL);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
}

static void end(pleat_pool_id id)
{
    pleat_status st = pleat_pool_end(instance, 0, id);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
}

static void release(pleat_pool_id id)
{
    pleat_status st = pleat_pool_release(instance, 0, id);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
    api_check(instance);
}

static uint64_t reserved(unsigned index, pleat_pool_id want)
{
    pleat_pool_id id;
    pleat_stat out[PLEAT_N_SIZES];
    ck_assert_int_eq(pleat_pool_stats(instance, 0, index, &id, out), PLEAT_OK);
    ck_assert_uint_eq(id.first, want.first);
    ck_assert_uint_eq(id.second, want.second);
    return out[PLEAT_SIZES_ALL].current;
}

/* ---- routes ---------------------------------------------------------------------------------- */

START_TEST(what_is_allocated_between_begin_and_end_is_the_pools)
{
    pleat_devptr before = api_alloc(instance, 0, GRANULE, streams[0]);
    api_free(instance, 0, before, streams[0]);
    begin(first_id);
    pleat_devptr ptr = api_alloc(instance, 0, GRANULE, streams[0]);
    ck_assert_uint_ne(ptr, before);
    api_free(instance, 0, ptr, streams[0]);
    ck_assert_uint_eq(api_alloc(instance, 0, GRANULE, streams[0]), ptr);
    api_free(instance, 0, ptr, streams[0]);
    end(first_id);
    ck_assert_uint_eq(reserved(0, first_id), GRANULE);
    pleat_devptr after = api_alloc(instance, 0, GRANULE, streams[0]);
    ck_assert_uint_eq(after, before);
    api_free(instance, 0, after, streams[0]);
    release(first_id);
    ck_assert_uint_eq(reserved(0, first_id), 0);
}
END_TEST

/* ---- filters: their arguments, and when they are forgotten ---- */

typedef struct filter {
    void *stream; /* the stream that the filter accepts */
    pthread_t thread;
    bool is_for_thread;
    _Atomic int n_asked;
    _Atomic int n_forgotten;
} filter;

static bool accepts(void *stream, void *context)
{
    filter *f = context;
    atomic_fetch_add(&f->n_asked, 1);
    if (atomic_load(&f->n_forgotten) > 0) {
        return false;
    }
    return f->is_for_thread ? pthread_equal(f->thread, pthread_self()) != 0 : stream == f->stream;
}

static void forget(void *context)
{
    filter *f = context;
    atomic_fetch_add(&f->n_forgotten, 1);
}

START_TEST(a_filter_chooses_streams)
{
    filter f = { .stream = streams[1] };
    ck_assert_int_eq(pleat_pool_begin(instance, 0, first_id, accepts, forget, &f), PLEAT_OK);
    pleat_devptr one = api_alloc(instance, 0, GRANULE, streams[0]);
    ck_assert_uint_eq(reserved(0, first_id), 0);
    pleat_devptr two = api_alloc(instance, 0, GRANULE, streams[1]);
    ck_assert_uint_eq(reserved(0, first_id), GRANULE);
    ck_assert_int_eq(f.n_asked, 2);
    ck_assert_int_eq(f.n_forgotten, 0);
    end(first_id);
    ck_assert_int_eq(f.n_forgotten, 1);
    api_free(instance, 0, one, streams[0]);
    api_free(instance, 0, two, streams[1]);
    release(first_id);
    ck_assert_int_eq(f.n_forgotten, 1);
}
END_TEST

static void *alloc_elsewhere(void *arg)
{
    pleat_devptr *ptr = arg;
    return pleat_block_alloc(instance, 0, GRANULE, NULL, ptr) == PLEAT_OK ? NULL : arg;
}

START_TEST(a_filter_chooses_threads)
{
    filter f = { .is_for_thread = true, .thread = pthread_self() };
    pthread_t thread;
    pleat_devptr theirs = 0;
    void *wrong;
    ck_assert_int_eq(pleat_pool_begin(instance, 0, first_id, accepts, forget, &f), PLEAT_OK);
    ck_assert_int_eq(pthread_create(&thread, NULL, alloc_elsewhere, &theirs), 0);
    ck_assert_int_eq(pthread_join(thread, &wrong), 0);
    ck_assert_ptr_null(wrong);
    ck_assert_uint_eq(reserved(0, first_id), 0);
    pleat_devptr ours = api_alloc(instance, 0, GRANULE, NULL);
    ck_assert_uint_eq(reserved(0, first_id), GRANULE);
    end(first_id);
    api_free(instance, 0, ours, NULL);
    api_free(instance, 0, theirs, NULL);
    release(first_id);
}
END_TEST

/* A filter whose first call runs until is_let_go and then sets is_over. Calls that come meanwhile
 * are answered false at once. */
typedef struct slow_filter {
    _Atomic bool is_inside;
    _Atomic bool is_asked_again;
    _Atomic bool is_let_go;
    _Atomic bool is_over;
    _Atomic bool is_forgotten;
} slow_filter;

static bool accept_slowly(void *stream, void *context)
{
    slow_filter *f = context;
    (void)stream;
    if (atomic_exchange(&f->is_inside, true)) {
        atomic_store(&f->is_asked_again, true);
        return false;
    }
    while (!atomic_load(&f->is_let_go)) {
        sched_yield();
    }
    atomic_store(&f->is_over, true);
    return true;
}

static void forget_slow(void *context)
{
    slow_filter *f = context;
    atomic_store(&f->is_forgotten, atomic_load(&f->is_over));
}

/* When the filter is asked no more, pleat_pool_end has begun. */
static void *let_go_once_ended(void *arg)
{
    slow_filter *f = arg;
    pleat_devptr ptr = 0;
    bool is_good;
    do {
        atomic_store(&f->is_asked_again, false);
        is_good = alloc_elsewhere(&ptr) == NULL &&
                  pleat_block_free(instance, 0, ptr, NULL) == PLEAT_OK;
    } while (is_good && atomic_load(&f->is_asked_again));
    atomic_store(&f->is_let_go, true);
    return is_good ? NULL : arg;
}

START_TEST(the_end_of_a_route_waits_for_its_filter)
{
    slow_filter f = { .is_inside = false };
    pthread_t asker;
    pthread_t helper;
    pleat_devptr theirs = 0;
    void *wrong;
    ck_assert_int_eq(pleat_pool_begin(instance, 0, first_id, accept_slowly, forget_slow, &f),
                     PLEAT_OK);
    ck_assert_int_eq(pthread_create(&asker, NULL, alloc_elsewhere, &theirs), 0);
    while (!atomic_load(&f.is_inside)) {
        sched_yield();
    }
    ck_assert_int_eq(pthread_create(&helper, NULL, let_go_once_ended, &f), 0);
    end(first_id);
    ck_assert(atomic_load(&f.is_over));
    ck_assert(atomic_load(&f.is_forgotten));
    ck_assert_int_eq(pthread_join(helper, &wrong), 0);
    ck_assert_ptr_null(wrong);
    ck_assert_int_eq(pthread_join(asker, &wrong), 0);
    ck_assert_ptr_null(wrong);
    ck_assert_uint_eq(reserved(0, first_id), 0); /* the filter accepted too late */
    api_free(instance, 0, theirs, NULL);
    release(first_id);
}
END_TEST

static bool end_and_accept(void *stream, void *context)
{
    filter *f = context;
    (void)stream;
    atomic_fetch_add(&f->n_asked, pleat_pool_end(instance, 0, first_id) == PLEAT_OK);
    atomic_fetch_add(&f->n_asked, 100 * atomic_load(&f->n_forgotten));
    return true;
}

START_TEST(a_filter_that_ends_its_route_does_not_wait_for_itself)
{
    filter f = { .stream = NULL };
    ck_assert_int_eq(pleat_pool_begin(instance, 0, first_id, end_and_accept, forget, &f), PLEAT_OK);
    pleat_devptr ptr = api_alloc(instance, 0, GRANULE, NULL);
    ck_assert_int_eq(f.n_asked, 1);
    ck_assert_int_eq(f.n_forgotten, 1);
    ck_assert_uint_eq(reserved(0, first_id), 0);
    api_free(instance, 0, ptr, NULL);
    release(first_id);
}
END_TEST

START_TEST(of_nested_routes_the_newest_is_asked_first)
{
    begin(first_id);
    begin(second_id);
    pleat_devptr inner = api_alloc(instance, 0, GRANULE, streams[0]);
    ck_assert_uint_eq(reserved(1, second_id), GRANULE);
    ck_assert_uint_eq(reserved(0, first_id), 0);
    end(second_id);
    pleat_devptr outer = api_alloc(instance, 0, GRANULE, streams[0]);
    ck_assert_uint_eq(reserved(0, first_id), GRANULE);
    end(first_id);
    api_free(instance, 0, inner, streams[0]);
    api_free(instance, 0, outer, streams[0]);
    release(first_id);
    release(second_id);
}
END_TEST

START_TEST(a_begin_that_fails_forgets_at_once)
{
    filter f = { .stream = NULL };
    pleat_pool_id none = { 0, 0 };
    ck_assert_int_eq(pleat_pool_begin(instance, 0, none, accepts, forget, &f), PLEAT_EINVAL);
    ck_assert_int_eq(f.n_forgotten, 1);
    ck_assert_int_eq(pleat_pool_begin(instance, 17, first_id, accepts, forget, &f), PLEAT_EDEVICE);
    ck_assert_int_eq(f.n_forgotten, 2);
    pleat gone = { instance.slot, instance.generation + 1 };
    ck_assert_int_eq(pleat_pool_begin(gone, 0, first_id, accepts, forget, &f), PLEAT_EGONE);
    ck_assert_int_eq(f.n_forgotten, 3);
    api_free(instance, 0, api_alloc(instance, 0, GRANULE, NULL), NULL);
    ck_assert_int_eq(f.n_asked, 0);
}
END_TEST

/* ---- users ----------------------------------------------------------------------------------- */

/* With an area for each stream, every request would look at all areas. */
START_TEST(a_pool_of_many_streams_shares_its_areas)
{
    enum { N_STREAMS = 60, N_BLOCKS = 2, MOST_SEGMENTS = 32 };
    api_sim_load();
    pleat crowded = api_make(API_PLEAT, "capacity:1G,depth:4", "");
    void *many[N_STREAMS];
    pleat_devptr blocks[N_STREAMS][N_BLOCKS];
    ck_assert_int_eq(pleat_pool_begin(crowded, 0, first_id, NULL, NULL, NULL), PLEAT_OK);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < N_STREAMS; i++) {
            many[i] = round == 0 ? api_stream(crowded, 0) : many[i];
            blocks[i][0] = api_alloc(crowded, 0, 4096, many[i]);
            blocks[i][1] = api_alloc(crowded, 0, MIB, many[i]);
        }
        ck_assert_uint_le(api_stats(crowded, 0).segment[PLEAT_SIZES_ALL].current, MOST_SEGMENTS);
        for (size_t i = 0; i < N_STREAMS * N_BLOCKS; i++) {
            api_free(crowded, 0, blocks[i / N_BLOCKS][i % N_BLOCKS], many[i / N_BLOCKS]);
        }
        api_check(crowded);
    }
    ck_assert_int_eq(pleat_pool_end(crowded, 0, first_id), PLEAT_OK);
    ck_assert_int_eq(pleat_pool_release(crowded, 0, first_id), PLEAT_OK);
    for (size_t i = 0; i < N_STREAMS; i++) {
        api_stream_end(crowded, 0, many[i]);
    }
    api_unmake(crowded);
}
END_TEST

START_TEST(a_pool_stays_as_long_as_it_has_users)
{
    begin(first_id);
    pleat_devptr ptr = api_alloc(instance, 0, GRANULE, streams[0]);
    end(first_id);
    begin(first_id); /* a second graph shares the pool */
    api_free(instance, 0, ptr, streams[0]);
    ck_assert_uint_eq(api_alloc(instance, 0, GRANULE, streams[0]), ptr);
    end(first_id);
    release(first_id);
    ck_assert_uint_eq(reserved(0, first_id), GRANULE);
    api_free(instance, 0, ptr, streams[0]);
    release(first_id);
    ck_assert_uint_eq(reserved(0, first_id), 0);
}
END_TEST

START_TEST(what_does_not_fit_is_refused_and_named)
{
    ck_assert_int_eq(pleat_pool_end(instance, 0, first_id), PLEAT_EPOOL);
    api_expect(PLEAT_EPOOL, "(0, 1)");
    ck_assert_int_eq(pleat_pool_release(instance, 0, first_id), PLEAT_EPOOL);
    api_expect(PLEAT_EPOOL, "(0, 1)");
    begin(first_id);
    ck_assert_int_eq(pleat_pool_release(instance, 0, first_id), PLEAT_EBUSY);
    api_expect(PLEAT_EBUSY, "(0, 1)", "end");
    ck_assert_str_eq(pleat_status_text(PLEAT_EBUSY), "it is still in use"); /* of a pool, too */
    end(first_id);
    ck_assert_int_eq(pleat_pool_end(instance, 0, first_id), PLEAT_EPOOL);
    release(first_id);
    ck_assert_int_eq(pleat_pool_release(instance, 0, first_id), PLEAT_EPOOL);
    ck_assert_int_eq(pleat_pool_end(instance, 99, first_id), PLEAT_EDEVICE);
    ck_assert_int_eq(pleat_pool_release(instance, 99, first_id), PLEAT_EDEVICE);
    pleat_pool_id id;
    pleat_stat out[PLEAT_N_SIZES];
    ck_assert_int_eq(pleat_pool_stats(instance, 0, 1, &id, out), PLEAT_EPOOL);
    ck_assert_int_eq(pleat_pool_stats(instance, 99, 0, &id, out), PLEAT_EDEVICE);
    ck_assert_int_eq(pleat_pool_stats(instance, 0, 0, NULL, out), PLEAT_EINVAL);
}
END_TEST

START_TEST(a_pool_of_the_same_name_can_come_again)
{
    for (int i = 0; i < 3; i++) {
        begin(first_id);
        api_free(instance, 0, api_alloc(instance, 0, 3 * GRANULE, streams[0]), streams[0]);
        end(first_id);
        ck_assert_uint_eq(reserved(0, first_id), 3 * GRANULE);
        release(first_id);
    }
    pleat_pool_id id;
    pleat_stat out[PLEAT_N_SIZES];
    ck_assert_int_eq(pleat_pool_stats(instance, 0, 0, &id, out), PLEAT_OK);
    ck_assert_uint_eq(out[PLEAT_SIZES_ALL].peak, 3 * GRANULE);
    ck_assert_uint_eq(out[PLEAT_SIZES_ALL].allocated, out[PLEAT_SIZES_ALL].freed);
}
END_TEST

START_TEST(of_many_pools_in_turn_the_last_256_are_known)
{
    enum { N_IN_TURN = 1000, N_KNOWN = 256 };
    pleat_pool_id id;
    pleat_stat out[PLEAT_N_SIZES];
    begin(first_id);
    pleat_devptr kept = api_alloc(instance, 0, GRANULE, streams[0]);
    for (uint64_t i = 0; i < N_IN_TURN; i++) {
        begin((pleat_pool_id){ 5, i });
        end((pleat_pool_id){ 5, i });
        release((pleat_pool_id){ 5, i });
    }
    ck_assert_uint_eq(reserved(0, first_id), GRANULE); /* oldest, but its block lives */
    ck_assert_uint_eq(reserved(1, (pleat_pool_id){ 5, N_IN_TURN - N_KNOWN }), 0);
    ck_assert_uint_eq(reserved(N_KNOWN, (pleat_pool_id){ 5, N_IN_TURN - 1 }), 0);
    ck_assert_int_eq(pleat_pool_stats(instance, 0, N_KNOWN + 1, &id, out), PLEAT_EPOOL);
    begin((pleat_pool_id){ 5, 800 }); /* this pool comes back under its old number */
    pleat_devptr ptr = api_alloc(instance, 0, GRANULE, streams[0]);
    ck_assert_uint_eq(reserved(1 + 800 - (N_IN_TURN - N_KNOWN), (pleat_pool_id){ 5, 800 }),
                      GRANULE);
    api_free(instance, 0, ptr, streams[0]);
    end((pleat_pool_id){ 5, 800 });
    release((pleat_pool_id){ 5, 800 });
    end(first_id);
    api_free(instance, 0, kept, streams[0]);
    release(first_id);
}
END_TEST

/* Level 0 counts nothing; the walkers of level 2 would take minutes. */
enum { N_BESIDE = PLEAT_DEBUG_LEVEL >= 2 ? 3000 : 20000, MOST_BESIDE = 64 };

/* How much is touched to look a name up. */
static size_t touched_by_a_look(pleat_pool_id id)
{
    size_t before = pl_lock_touched();
    ck_assert_int_eq(pleat_pool_end(instance, 0, id), PLEAT_EPOOL);
    return pl_lock_touched() - before;
}

START_TEST(names_are_found_beside_very_many)
{
    for (uint64_t i = 0; i < N_BESIDE; i++) {
        begin((pleat_pool_id){ i + 1, 7 });
        end((pleat_pool_id){ i + 1, 7 });
    }
    for (uint64_t i = 1; i <= N_BESIDE + 1; i += N_BESIDE / 8) {
        ck_assert_uint_le(touched_by_a_look((pleat_pool_id){ i, 7 }), MOST_BESIDE);
        ck_assert_uint_le(touched_by_a_look((pleat_pool_id){ 7, i }), MOST_BESIDE);
    }
    for (uint64_t i = 0; i < N_BESIDE; i++) {
        pleat_pool_id id = { i + 1, 7 };
        ck_assert_int_eq(pleat_pool_release(instance, 0, id), PLEAT_OK);
    }
}
END_TEST

START_TEST(the_most_pools_of_a_device_are_named_where_one_more_is_refused)
{
    enum { MOST = UINT16_MAX };
    for (uint64_t i = 0; i < MOST; i++) {
        ck_assert_int_eq(pleat_pool_hold(instance, 0, (pleat_pool_id){ 9, i }), PLEAT_OK);
    }
    pleat_pool_id one_more = { 8, 0 };
    ck_assert_int_eq(pleat_pool_hold(instance, 0, one_more), PLEAT_ENOMEM_HOST);
    api_expect(PLEAT_ENOMEM_HOST, "65535 private pools, the most");
    ck_assert_ptr_null(strstr(pleat_last_error()->text, "out of host memory"));
    ck_assert_int_eq(pleat_pool_release(instance, 0, (pleat_pool_id){ 9, 0 }), PLEAT_OK);
    ck_assert_int_eq(pleat_pool_hold(instance, 0, one_more), PLEAT_OK);
}
END_TEST

/* Meanwhile pools are forgotten that are before the read one, in the order of first use, or behind
 * it. */
START_TEST(statistics_are_read_one_after_the_other_beside_very_many)
{
    enum { N_READ = 1000, N_GONE = 300, N_KNOWN = 256 };
    pleat_pool_id id;
    pleat_stat out[PLEAT_N_SIZES];
    for (uint64_t i = 0; i < N_READ; i++) {
        begin((pleat_pool_id){ 5, i });
        end((pleat_pool_id){ 5, i });
    }
    ck_assert_int_eq(pleat_pool_stats(instance, 0, N_READ / 2, &id, out), PLEAT_OK);
    for (uint64_t i = 0; i < N_GONE; i += 2) {
        release((pleat_pool_id){ 5, i });
        release((pleat_pool_id){ 5, N_READ - 1 - i });
    }
    unsigned n_forgotten = (N_GONE - N_KNOWN) / 2;
    ck_assert_uint_eq(reserved(N_READ / 2 - n_forgotten, (pleat_pool_id){ 5, N_READ / 2 }), 0);
    for (unsigned i = 0; i < N_READ - 2 * n_forgotten; i++) {
        size_t before = pl_lock_touched();
        ck_assert_int_eq(pleat_pool_stats(instance, 0, i, &id, out), PLEAT_OK);
        size_t after = pl_lock_touched(); /* begins at 0 again if the call took the lock anew */
        ck_assert_uint_le(after > before ? after - before : 0, MOST_BESIDE);
    }
    ck_assert_int_eq(pleat_pool_stats(instance, 0, N_READ - 2 * n_forgotten, &id, out),
                     PLEAT_EPOOL);
    for (uint64_t i = 1; i < N_READ; i += 2) {
        if (i < N_READ - N_GONE) {
            release((pleat_pool_id){ 5, i });
        }
    }
    for (uint64_t i = N_GONE; i < N_READ; i += 2) {
        release((pleat_pool_id){ 5, i });
    }
}
END_TEST

/* If a pool reserved 1/64 of the device's size, there would be addresses for only 64 pools. */
START_TEST(many_pools_share_few_addresses)
{
    enum { N_SHARING = 300 };
    api_sim_load();
    pleat large = api_make(API_PLEAT, "capacity:64G", "address_budget:64G");
    void *stream = api_stream(large, 0);
    static pleat_devptr ptrs[N_SHARING];
    for (uint64_t i = 0; i < N_SHARING; i++) {
        pleat_pool_id id = { 3, i };
        ck_assert_int_eq(pleat_pool_begin(large, 0, id, NULL, NULL, NULL), PLEAT_OK);
        ptrs[i] = api_alloc(large, 0, 3000, stream);
        ck_assert_int_eq(pleat_pool_end(large, 0, id), PLEAT_OK);
    }
    for (uint64_t i = 0; i < N_SHARING; i++) {
        api_free(large, 0, ptrs[i], stream);
    }
    sim.finish();
    api_stream_end(large, 0, stream);
    api_unmake(large);
}
END_TEST

/* ---- when memory is short -------------------------------------------------------------------- */

/* From a checkpoint on, as from a capture, the pool keeps its memory. */
static void keep(pleat_pool_id id)
{
    pleat_checkpoint checkpoint;
    ck_assert_int_eq(pleat_checkpoint_take(instance, 0, id, &checkpoint), PLEAT_OK);
    ck_assert_int_eq(pleat_checkpoint_release(instance, 0, checkpoint), PLEAT_OK);
}

START_TEST(a_full_device_names_the_pool_that_holds_it)
{
    pleat_devptr ptr;
    begin(first_id);
    keep(first_id);
    api_free(instance, 0, api_alloc(instance, 0, 40 * MIB, streams[0]), streams[0]);
    end(first_id);
    ck_assert_int_eq(pleat_block_alloc(instance, 0, 40 * MIB, streams[0], &ptr),
                     PLEAT_ENOMEM_DEVICE);
    api_expect(PLEAT_ENOMEM_DEVICE, "private pools hold", "40", "(0, 1)");
    ck_assert_int_eq(pleat_last_error()->verdict, PLEAT_VERDICT_PINNED);
    uint64_t released = 1;
    ck_assert_int_eq(pleat_device_trim(instance, 0, 0, true, &released), PLEAT_OK);
    ck_assert_uint_eq(released, 0);
    release(first_id);
    api_free(instance, 0, api_alloc(instance, 0, 60 * MIB, streams[0]), streams[0]);
}
END_TEST

START_TEST(a_pool_gets_what_the_default_pool_caches)
{
    api_free(instance, 0, api_alloc(instance, 0, 60 * MIB, streams[0]), streams[0]);
    begin(first_id);
    api_free(instance, 0, api_alloc(instance, 0, 50 * MIB, streams[1]), streams[1]);
    end(first_id);
    ck_assert_uint_eq(reserved(0, first_id), 50 * MIB);
    release(first_id);
}
END_TEST

START_TEST(a_live_block_outlives_its_pool)
{
    begin(first_id);
    pleat_devptr ptr = api_alloc(instance, 0, GRANULE, streams[0]);
    end(first_id);
    release(first_id);
    pleat_block_info info;
    ck_assert_int_eq(pleat_block_query(instance, 0, ptr, &info), PLEAT_OK);
    ck_assert_uint_eq(info.base, ptr);
    api_free(instance, 0, ptr, streams[0]);
}
END_TEST

START_TEST(an_instance_goes_with_its_pools_and_routes)
{
    filter f = { .stream = streams[0] };
    pleat other;
    ck_assert_int_eq(pleat_create("driver:sim,allocator:pleat", &other), PLEAT_OK);
    ck_assert_int_eq(pleat_pool_begin(other, 0, first_id, accepts, forget, &f), PLEAT_OK);
    pleat_devptr ptr = api_alloc(other, 0, GRANULE, NULL);
    api_free(other, 0, ptr, NULL);
    ck_assert_int_eq(pleat_destroy(other, 0), PLEAT_OK);
    ck_assert_int_eq(f.n_forgotten, 1);
}
END_TEST

/* ---- other allocators, fork ------------------------------------------------------------------ */

START_TEST(classic_caches_have_no_private_pools)
{
    filter f = { .stream = NULL };
    api_sim_load();
    pleat classic = api_make(API_TORCH, patient, "");
    ck_assert_int_eq(pleat_pool_begin(classic, 0, first_id, accepts, forget, &f), PLEAT_ENOTSUP);
    api_expect(PLEAT_ENOTSUP, "torch-native", "allocator:pleat");
    ck_assert_int_eq(f.n_forgotten, 1);
    ck_assert_int_eq(pleat_pool_end(classic, 0, first_id), PLEAT_EPOOL);
    api_unmake(classic);
}
END_TEST

START_TEST(a_child_of_a_fork_is_refused)
{
    begin(first_id);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        bool is_refused = pleat_pool_begin(instance, 0, first_id, NULL, NULL, NULL) ==
                              PLEAT_EFORKED &&
                          pleat_pool_end(instance, 0, first_id) == PLEAT_EFORKED &&
                          pleat_pool_release(instance, 0, first_id) == PLEAT_EFORKED;
        _exit(is_refused ? 0 : 1);
    }
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    end(first_id);
    release(first_id);
}
END_TEST

static pid_t forked = -1;

static bool fork_and_accept(void *stream, void *context)
{
    (void)stream;
    (void)context;
    forked = fork();
    return true;
}

START_TEST(a_child_that_a_filter_forks_is_refused)
{
    pleat_devptr ptr;
    ck_assert_int_eq(pleat_pool_begin(instance, 0, first_id, fork_and_accept, NULL, NULL),
                     PLEAT_OK);
    pleat_status st = pleat_block_alloc(instance, 0, GRANULE, NULL, &ptr);
    if (forked == 0) {
        _exit(st == PLEAT_EFORKED ? 0 : 1);
    }
    int status = -1;
    ck_assert_int_gt(forked, 0);
    ck_assert_int_eq(waitpid(forked, &status, 0), forked);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ck_assert_int_eq(st, PLEAT_OK);
    end(first_id);
    api_free(instance, 0, ptr, NULL);
    release(first_id);
}
END_TEST

/* ---- threads --------------------------------------------------------------------------------- */

static _Atomic int n_wrong;
static _Atomic bool is_over;

/* Use a private pool repeatedly. A pool serves the requests of one thread only. */
static void *come_and_go(void *arg)
{
    pleat_pool_id id = { 9, (uint64_t)(uintptr_t)arg + 1 };
    for (int i = 0; i < N_ROUNDS; i++) {
        filter f = { .is_for_thread = true, .thread = pthread_self() };
        pleat_devptr ptr[4];
        bool is_good = pleat_pool_begin(instance, 0, id, accepts, forget, &f) == PLEAT_OK;
        for (int j = 0; j < 4; j++) {
            is_good = is_good && pleat_block_alloc(instance, 0, (size_t)(j + 1) * 300000, NULL,
                                                   &ptr[j]) == PLEAT_OK;
        }
        for (int j = 0; is_good && j < 4; j++) {
            is_good = pleat_block_free(instance, 0, ptr[j], NULL) == PLEAT_OK;
        }
        is_good = is_good && pleat_pool_end(instance, 0, id) == PLEAT_OK &&
                  pleat_pool_release(instance, 0, id) == PLEAT_OK;
        is_good = is_good && atomic_load(&f.n_forgotten) == 1;
        atomic_fetch_add(&n_wrong, !is_good);
    }
    return NULL;
}

static void *disturb(void *arg)
{
    (void)arg;
    while (!atomic_load(&is_over)) {
        pleat_devptr ptr;
        uint64_t released;
        pleat_status st = pleat_block_alloc(instance, 0, 5 * MIB, NULL, &ptr);
        if (st == PLEAT_OK) {
            st = pleat_block_free(instance, 0, ptr, NULL);
        }
        atomic_fetch_add(&n_wrong, st != PLEAT_OK && st != PLEAT_ENOMEM_DEVICE);
        st = pleat_device_trim(instance, 0, 8 * MIB, false, &released);
        atomic_fetch_add(&n_wrong, st != PLEAT_OK);
        pleat_pool_id id;
        pleat_stat out[PLEAT_N_SIZES];
        (void)!pleat_pool_stats(instance, 0, 0, &id, out);
    }
    return NULL;
}

START_TEST(many_threads_have_pools_at_once)
{
    pthread_t threads[N_THREADS];
    pthread_t other;
    ck_assert_int_eq(pthread_create(&other, NULL, disturb, NULL), 0);
    for (uintptr_t i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, come_and_go, (void *)i), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    atomic_store(&is_over, true);
    ck_assert_int_eq(pthread_join(other, NULL), 0);
    ck_assert_int_eq(atomic_load(&n_wrong), 0);
    for (unsigned i = 0; i < N_THREADS; i++) {
        pleat_pool_id id;
        pleat_stat out[PLEAT_N_SIZES];
        ck_assert_int_eq(pleat_pool_stats(instance, 0, i, &id, out), PLEAT_OK);
        ck_assert_uint_eq(out[PLEAT_SIZES_ALL].current, 0);
    }
}
END_TEST

SUITE(api_pool)
{
    TCase *routes = tcase_create("routes and users");
    tcase_add_checked_fixture(routes, open_pleat, close_pleat);
    tcase_add_test(routes, what_is_allocated_between_begin_and_end_is_the_pools);
    tcase_add_test(routes, a_filter_chooses_streams);
    tcase_add_test(routes, a_filter_chooses_threads);
    tcase_add_test(routes, the_end_of_a_route_waits_for_its_filter);
    tcase_add_test(routes, a_filter_that_ends_its_route_does_not_wait_for_itself);
    tcase_add_test(routes, of_nested_routes_the_newest_is_asked_first);
    tcase_add_test(routes, a_begin_that_fails_forgets_at_once);
    tcase_add_test(routes, a_pool_stays_as_long_as_it_has_users);
    tcase_add_test(routes, what_does_not_fit_is_refused_and_named);
    tcase_add_test(routes, a_pool_of_the_same_name_can_come_again);
    tcase_add_test(routes, of_many_pools_in_turn_the_last_256_are_known);
    tcase_add_test(routes, names_are_found_beside_very_many);
    tcase_add_test(routes, the_most_pools_of_a_device_are_named_where_one_more_is_refused);
    tcase_add_test(routes, statistics_are_read_one_after_the_other_beside_very_many);
    tcase_add_test(routes, a_full_device_names_the_pool_that_holds_it);
    tcase_add_test(routes, a_pool_gets_what_the_default_pool_caches);
    tcase_add_test(routes, a_live_block_outlives_its_pool);
    tcase_add_test(routes, an_instance_goes_with_its_pools_and_routes);
    tcase_add_test(routes, a_child_of_a_fork_is_refused);
    tcase_add_test(routes, a_child_that_a_filter_forks_is_refused);
    tcase_add_test(routes, many_threads_have_pools_at_once);
    suite_add_tcase(suite, routes);
    TCase *others = tcase_create("other allocators");
    tcase_add_test(others, classic_caches_have_no_private_pools);
    tcase_add_test(others, a_pool_of_many_streams_shares_its_areas);
    tcase_add_test(others, many_pools_share_few_addresses);
    suite_add_tcase(suite, others);
}
