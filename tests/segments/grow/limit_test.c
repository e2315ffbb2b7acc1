/* limit_test.c - limits, trims, growth policies, and the kinds of memory shortage. */
/* labels: unit */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "segments/pleat/space/lane.h"
#include "segments/pleat/space/options.h"
#include "segments/pleat/space/space.h"
#include "tests/support/own.h"
#include "tests/support/segments/segments_sim.h"
#include "tests/support/suite.h"
#include "vmm/driver_state.h"

enum { GRANULE = 2 << 20, N_GRANULES = 64, FREES_PER_TICK = 32 };

#define SIM "capacity:128M,depth:1048576"

static pleat_devptr ptrs[N_GRANULES];

static void open_plain(void)
{
    pleat_open(SIM, NULL);
}

static pleat_devptr get_and_use(size_t bytes, unsigned stream)
{
    pleat_devptr ptr = pleat_get(bytes, stream);
    pleat_work(stream, ptr, bytes);
    pleat_assert_sound();
    return ptr;
}

static pleat_status set_limit(uint64_t bytes)
{
    pleat_status st = pleat.a->ops->set_limit(pleat.a, bytes);
    pleat_assert_sound();
    return st;
}

static uint64_t resident(void)
{
    return pleat_counted().resident_bytes;
}

/* ---- limit --------------------------------------------------------------------------------- */

static void open_limited(void)
{
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    options.limit_bytes = 20 * MIB + GRANULE - 1; /* rounded down to granules */
    pleat_open(SIM, &options);
}

START_TEST(no_more_than_the_limit_is_ever_resident)
{
    for (int i = 0; i < 10; i++) {
        ptrs[i] = pleat_get(GRANULE, 0);
    }
    ck_assert_int_eq(pleat_refused(512, 0), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(resident(), 20 * MIB);
    for (int i = 0; i < 10; i += 2) {
        pleat_put(ptrs[i], 0);
    }
    pleat_get(5 * (size_t)GRANULE, 0); /* the chunks of free blocks are taken */
    ck_assert_uint_eq(pleat_counted().reserved_bytes[0].peak, 20 * MIB);
}
END_TEST

START_TEST(a_request_beyond_the_limit_needs_no_driver)
{
    uint64_t before = vmm_sim_counted(&pleat.sim).calls;
    ck_assert_int_eq(pleat_refused(21 * MIB, 0), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(vmm_sim_counted(&pleat.sim).calls, before);
}
END_TEST

START_TEST(a_raised_limit_gives_room)
{
    pleat_get(20 * MIB, 0);
    ck_assert_int_eq(pleat_refused(2 * MIB, 0), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(set_limit(22 * MIB), PLEAT_OK);
    pleat_get(2 * MIB, 0);
    ck_assert_int_eq(pleat_refused(512, 0), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(set_limit(0), PLEAT_OK);
    pleat_get(100 * MIB, 0);
}
END_TEST

START_TEST(a_limit_below_what_lives_is_refused_and_changes_nothing)
{
    pleat_get(11 * MIB, 0);
    pleat_put(pleat_get(6 * MIB, 0), 0);
    uint64_t before = resident();
    ck_assert_int_eq(set_limit(10 * MIB), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(resident(), before);
    ck_assert_uint_eq(pleat_calls("cuMemUnmap"), 0);
    pleat_get(9 * MIB, 0); /* fills the old limit */
    ck_assert_int_eq(pleat_refused(512, 0), PLEAT_ENOMEM_DEVICE);
}
END_TEST

START_TEST(a_lower_limit_gives_back_just_what_is_over)
{
    pleat_put(pleat_get(8 * MIB, 0), 0);
    pleat_devptr low = pleat_get(8 * MIB, 0);
    pleat_get(6 * MIB, 0);
    pleat_put(low, 0);
    ck_assert_uint_eq(resident(), 14 * MIB);
    ck_assert_int_eq(set_limit(10 * MIB), PLEAT_OK);
    ck_assert_uint_eq(resident(), 10 * MIB);
    ck_assert_int_eq(set_limit(6 * MIB), PLEAT_OK);
    ck_assert_uint_eq(resident(), 6 * MIB);
    ck_assert_int_eq(pleat_refused(512, 0), PLEAT_ENOMEM_DEVICE);
}
END_TEST

START_TEST(a_lower_limit_waits_for_what_pends)
{
    pleat_get(GRANULE, 2);
    pleat_put(get_and_use(10 * MIB, 1), 1);
    ck_assert_int_eq(set_limit(2 * MIB), PLEAT_OK);
    ck_assert_uint_eq(resident(), 2 * MIB);
    ck_assert_uint_ge(pleat_counted().host_syncs, 1);
}
END_TEST

/* A trim of another thread that releases its chunks while the limit is set. */
static struct {
    cu_result (*release)(cu_mem_handle);
    pthread_t trim;
    _Atomic bool is_releasing, may_go_on;
} beside;

static cu_result stay_and_release(cu_mem_handle handle)
{
    if (pthread_equal(pthread_self(), beside.trim)) {
        beside.is_releasing = true;
        while (!beside.may_go_on) {
            sched_yield();
        }
    }
    return beside.release(handle);
}

static void *trim_all(void *unused)
{
    uint64_t released;
    (void)unused;
    beside.trim = pthread_self();
    ck_assert_int_eq(pleat.a->ops->trim(pleat.a, 0, false, &released), PLEAT_OK);
    return NULL;
}

static void *let_go_on(void *unused)
{
    (void)!usleep(50 * 1000); /* the limit's call is under way, or has failed, by then */
    beside.may_go_on = true;
    return unused;
}

START_TEST(a_lower_limit_waits_for_a_trim_in_flight)
{
    pthread_t trim, other;
    pleat_put(pleat_get(16 * MIB, 0), 0);
    pleat.sim.finish();
    beside.release = pleat.sim.drv->table.mem_release;
    pleat.sim.drv->table.mem_release = stay_and_release;
    ck_assert_int_eq(pthread_create(&trim, NULL, trim_all, NULL), 0);
    while (!beside.is_releasing) {
        sched_yield();
    }
    ck_assert_int_eq(pthread_create(&other, NULL, let_go_on, NULL), 0);
    ck_assert_int_eq(pleat.a->ops->set_limit(pleat.a, 4 * MIB), PLEAT_OK);
    pthread_join(trim, NULL);
    pthread_join(other, NULL);
    ck_assert_uint_eq(resident(), 0);
}
END_TEST

START_TEST(a_lower_limit_waits_for_recorded_uses)
{
    pleat_devptr ptr = get_and_use(10 * MIB, 1);
    pleat_record(ptr, 2);
    pleat_work_after(2, 1, ptr, 10 * MIB);
    pleat_put(ptr, 1);
    ck_assert_int_eq(set_limit(2 * MIB), PLEAT_OK);
    ck_assert_uint_eq(resident(), 2 * MIB);
    ck_assert_uint_eq(pleat_counted().pending_bytes, 0);
}
END_TEST

static void open_impatient(void)
{
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    options.wait_ms = 0;
    pleat_open(SIM, &options);
}

START_TEST(where_waiting_is_forbidden_a_lower_limit_waits_for_nothing)
{
    pleat_get(GRANULE, 2);
    pleat_put(get_and_use(10 * MIB, 1), 1);
    ck_assert_int_eq(set_limit(2 * MIB), PLEAT_EPENDING);
    ck_assert_uint_eq(resident(), 12 * MIB);
    ck_assert_uint_eq(pleat_counted().host_syncs, 0);
    pleat_get(20 * MIB, 2); /* there is no limit yet */
    pleat.sim.finish();
    ck_assert_int_eq(set_limit(22 * MIB), PLEAT_OK);
    ck_assert_uint_eq(resident(), 22 * MIB);
    ck_assert_uint_eq(pleat_counted().host_syncs, 0);
}
END_TEST

/* ---- trim ---------------------------------------------------------------------------------- */

START_TEST(a_trim_gives_back_the_lowest_and_no_more_than_asked)
{
    for (int i = 0; i < 10; i++) {
        ptrs[i] = pleat_get(GRANULE, 0);
    }
    pleat_put(ptrs[8], 0);
    pleat_put(ptrs[2], 0);
    pleat_put(ptrs[5], 0);
    ck_assert_uint_eq(pleat_trim(16 * MIB, false), 4 * MIB);
    pleat_sim_mapping mappings[16];
    size_t n = pleat.sim.mappings(mappings, 16);
    ck_assert_uint_eq(n, 8);
    for (size_t i = 0; i < n; i++) {
        ck_assert_uint_ne(mappings[i].ptr, ptrs[2]);
        ck_assert_uint_ne(mappings[i].ptr, ptrs[5]);
    }
    ck_assert_uint_eq(pleat_trim(16 * MIB, false), 0);
    ck_assert_uint_eq(pleat_trim(0, false), 2 * MIB);
    ck_assert_uint_eq(pleat_trim(0, true), 0);
}
END_TEST

START_TEST(granules_that_live_blocks_share_stay)
{
    pleat_get(MIB, 0);
    pleat_devptr ptr = pleat_get(4 * MIB, 0);
    pleat_get(MIB, 0);
    pleat_put(ptr, 0);
    ck_assert_uint_eq(pleat_trim(0, true), 2 * MIB); /* the block touched three granules */
    ck_assert_uint_eq(pleat_counted().free_bytes, 2 * MIB);
    ck_assert_uint_eq(pleat_get(4 * MIB, 0), ptr); /* the trimmed hole is mapped again */
}
END_TEST

START_TEST(a_trim_that_may_not_wait_leaves_what_runs)
{
    pleat_get(GRANULE, 2);
    pleat_put(get_and_use(10 * MIB, 1), 1);
    ck_assert_uint_eq(pleat_trim(0, false), 0);
    ck_assert_uint_eq(pleat_counted().host_syncs, 0);
    pleat.sim.finish();
    ck_assert_uint_eq(pleat_trim(0, false), 10 * MIB);
    ck_assert_uint_eq(pleat_counted().host_syncs, 0);
}
END_TEST

START_TEST(what_has_finished_is_given_back_without_waiting_or_a_tick)
{
    unsigned stream = (unsigned)_i; /* the legacy stream, or another */
    pleat_get(512, stream);         /* while this block lives no tick is due */
    pleat_put(get_and_use(10 * MIB, stream), stream);
    ck_assert_uint_eq(pleat_calls("cuEventRecord"), 0);
    ck_assert_uint_eq(pleat_trim(0, false), 0);
    pleat.sim.finish();
    ck_assert_uint_eq(pleat_trim(0, false), 10 * MIB);
    ck_assert_uint_eq(pleat_counted().host_syncs, 0);
}
END_TEST

START_TEST(a_trim_of_one_stream_waits_too)
{
    pleat_put(get_and_use(10 * MIB, 1), 1);
    ck_assert_uint_eq(pleat_trim(0, false), 0);
    ck_assert_uint_eq(pleat_trim(0, true), 10 * MIB);
}
END_TEST

START_TEST(a_trim_waits_only_for_streams_that_freed_something)
{
    get_and_use(GRANULE, 2);
    get_and_use(GRANULE, 3);
    pleat_put(get_and_use(10 * MIB, 1), 1);
    ck_assert_uint_eq(pleat_trim(0, true), 10 * MIB);
    ck_assert_uint_eq(pleat_counted().host_syncs, 1);
}
END_TEST

START_TEST(a_run_is_unmapped_by_one_call)
{
    pleat_put(pleat_get(100 * MIB, 0), 0);
    ck_assert_uint_eq(pleat_trim(0, false), 100 * MIB);
    ck_assert_uint_eq(pleat_calls("cuMemUnmap"), 1);
    ck_assert_uint_eq(pleat_calls("cuMemRelease"), 50);
}
END_TEST

START_TEST(what_the_driver_will_not_release_stays_ours)
{
    pleat_put(pleat_get(20 * MIB, 0), 0);
    pleat.sim.fail_from("cuMemRelease", 3, CU_UNKNOWN);
    uint64_t released = 4711;
    ck_assert_int_eq(pleat.a->ops->trim(pleat.a, 0, false, &released), PLEAT_EDRIVER);
    pleat.sim.fail_never();
    pleat_assert_sound();
    pleat_stats s = pleat_counted();
    ck_assert_uint_gt(s.idle_bytes, 0);
    pleat_get(20 * MIB, 0); /* idle chunks are used first */
    ck_assert_uint_eq(pleat_counted().idle_bytes, 0);
    ck_assert_uint_eq(resident(), 20 * MIB);
    pleat.has_failed_undo = true;
}
END_TEST

/* ---- growth policies ----------------------------------------------------------------------- */

static void open_policy(pl_growth growth)
{
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    SET_OWN(pleat, &options, growth, growth);
    SET_OWN(pleat, &options, reserve_bytes, 0);
    pleat_open(SIM, &options);
}

/* A step with constant sizes. Its large block fits into none of the free gaps. */
static void play_step(void)
{
    pleat_devptr own[48];
    for (int i = 0; i < 40; i++) {
        own[i] = pleat_get(GRANULE, 0);
    }
    for (int i = 0; i < 40; i += 20) {
        pleat_put(own[i], 0);
    }
    pleat_devptr large = pleat_get(2 * (size_t)GRANULE, 0);
    for (int i = 0; i < 40; i++) {
        if (i % 20 != 0) {
            pleat_put(own[i], 0);
        }
    }
    pleat_put(large, 0);
}

static uint64_t device_ops(void)
{
    pleat_stats s = pleat_counted();
    return s.ops_map + s.ops_unmap;
}

typedef struct outcome {
    uint64_t resident;
    uint64_t taken;
    uint64_t late_ops; /* operations of the last of many steps */
} outcome;

static outcome play(pl_growth growth)
{
    open_policy(growth);
    for (int step = 0; step < 100; step++) {
        play_step();
    }
    uint64_t before = device_ops();
    play_step();
    outcome o = { .resident = resident(),
                  .taken = pleat_counted().n_taken_granules,
                  .late_ops = device_ops() - before };
    pleat_close();
    return o;
}

START_TEST(policies_trade_memory_for_operations)
{
    outcome frugal = play(PL_GROWTH_FRUGAL);
    outcome balanced = play(PL_GROWTH_BALANCED);
    outcome ample = play(PL_GROWTH_AMPLE);
    ck_assert_uint_eq(frugal.resident, 40 * (uint64_t)GRANULE);
    ck_assert_uint_gt(frugal.taken, 0);
    ck_assert_uint_gt(frugal.late_ops, 0);
    ck_assert_uint_eq(ample.resident, 42 * (uint64_t)GRANULE);
    ck_assert_uint_eq(ample.taken, 0);
    ck_assert_uint_eq(ample.late_ops, 0);
    ck_assert_uint_eq(balanced.resident, ample.resident); /* paid for by its takes */
    ck_assert_uint_gt(balanced.taken, 0);
    ck_assert_uint_lt(balanced.taken, frugal.taken);
    ck_assert_uint_eq(balanced.late_ops, 0);
}
END_TEST

/* Make n live granules and free every second one. */
static void scatter(int n)
{
    for (int i = 0; i < n; i++) {
        ptrs[i] = pleat_get(GRANULE, 0);
    }
    for (int i = 0; i < n; i += 2) {
        pleat_put(ptrs[i], 0);
    }
}

/* Then the freed ones are asked for at once. */
static void scatter_and_ask(int n)
{
    scatter(n);
    pleat_get((size_t)n / 2 * GRANULE, 0);
}

START_TEST(memory_is_taken_before_any_is_created)
{
    open_policy(_i == 0 ? PL_GROWTH_BALANCED : PL_GROWTH_FRUGAL);
    scatter_and_ask(20);
    ck_assert_uint_eq(pleat_counted().n_taken_granules, 10);
    ck_assert_uint_eq(resident(), 20 * (uint64_t)GRANULE);
    pleat_close();
}
END_TEST

START_TEST(ample_creates_while_there_is_any)
{
    open_policy(PL_GROWTH_AMPLE);
    scatter_and_ask(20);
    ck_assert_uint_eq(pleat_counted().n_taken_granules, 0);
    ck_assert_uint_eq(resident(), 30 * (uint64_t)GRANULE);
    pleat_get(40 * (size_t)GRANULE, 0); /* 34 new, 6 taken */
    ck_assert_uint_eq(pleat_counted().n_taken_granules, 6);
    ck_assert_uint_eq(resident(), 64 * (uint64_t)GRANULE);
    pleat_close();
}
END_TEST

/* 4 granules are fewer than 8 x room / device, and 10 are more. */
START_TEST(a_stream_waits_for_much_memory_and_not_for_a_little)
{
    open_policy(PL_GROWTH_BALANCED);
    pleat_put(pleat_get_and_use(20 * (size_t)GRANULE, 1), 1);
    pleat_get_and_use(4 * (size_t)GRANULE, 2);
    ck_assert_uint_eq(pleat_counted().stream_waits, 0);
    ck_assert_uint_eq(resident(), 24 * (uint64_t)GRANULE);
    pleat_get_and_use(10 * (size_t)GRANULE, 2);
    ck_assert_uint_eq(pleat_counted().stream_waits, 1);
    ck_assert_uint_eq(resident(), 24 * (uint64_t)GRANULE);
    pleat_close();
}
END_TEST

/* Each stream's pending memory is too little by itself: two of the 20 missing granules. */
START_TEST(a_stream_waits_for_none_of_many_that_have_a_little)
{
    open_policy(PL_GROWTH_BALANCED);
    for (unsigned stream = 1; stream < 4; stream++) {
        ptrs[stream] = pleat_get_and_use(2 * (size_t)GRANULE, stream);
    }
    for (unsigned stream = 1; stream < 4; stream++) {
        pleat_put(ptrs[stream], stream);
    }
    pleat_get_and_use(20 * (size_t)GRANULE, 4);
    ck_assert_uint_eq(pleat_counted().stream_waits, 0);
    ck_assert_uint_eq(resident(), 26 * (uint64_t)GRANULE);
    pleat_close();
}
END_TEST

/* The first 80 takes buy ten granules of an empty device, and less as the headroom shrinks. */
START_TEST(takes_buy_slack)
{
    open_policy(PL_GROWTH_BALANCED);
    pl_space *space = (pl_space *)pleat.a;
    scatter(20);
    space->chunks.n_takes = 80;
    pleat_get(10 * (size_t)GRANULE, 0);
    uint64_t n_bought = 80 * (N_GRANULES - 20) / (8 * N_GRANULES);
    ck_assert_uint_gt(n_bought, 0);
    ck_assert_uint_eq(resident(), (20 + n_bought) * GRANULE);
    ck_assert_uint_eq(pleat_counted().n_taken_granules, 10 - n_bought);
    pleat_close();
}
END_TEST

/* ---- running out --------------------------------------------------------------------------- */

/* The driver sees another process. */
typedef struct neighbour {
    pl_device *dev;
    pleat_devptr ptr;
} neighbour;

static neighbour neighbour_takes(size_t bytes)
{
    neighbour n = { .dev = vmm_sim_device(&pleat.sim, NULL) };
    ck_assert_int_eq(pl_device_malloc(n.dev, bytes, &n.ptr), PLEAT_OK);
    return n;
}

static void neighbour_leaves(const neighbour *n)
{
    ck_assert_int_eq(pl_device_mfree(n->dev, n->ptr), PLEAT_OK);
    vmm_sim_close_device(n->dev);
}

static void assert_resident(uint64_t bytes)
{
    pleat_stats s;
    pleat.a->ops->stats(pleat.a, &s);
    ck_assert_uint_eq(s.resident_bytes, bytes);
}

START_TEST(memory_that_another_process_holds_is_missing_until_it_leaves)
{
    pleat_get(20 * MIB, 0);
    neighbour n = neighbour_takes(100 * MIB);
    ck_assert_int_eq(pleat_refused(10 * MIB, 0), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(pleat_refused(10 * MIB, 0), PLEAT_ENOMEM_DEVICE);
    pleat_get(8 * MIB, 0); /* the request gets the rest */
    assert_resident(28 * MIB);
    neighbour_leaves(&n);
    pleat_get(100 * MIB, 0);
    ck_assert_uint_eq(resident(), 128 * MIB);
}
END_TEST

START_TEST(what_was_created_in_vain_is_kept_for_smaller_requests)
{
    neighbour n = neighbour_takes(100 * MIB);
    ck_assert_int_eq(pleat_refused(40 * MIB, 0), PLEAT_ENOMEM_DEVICE);
    assert_resident(28 * MIB);
    uint64_t created = pleat_calls("cuMemCreate");
    pleat_get(28 * MIB, 0);
    ck_assert_uint_eq(pleat_calls("cuMemCreate"), created);
    neighbour_leaves(&n);
}
END_TEST

START_TEST(beside_another_process_own_memory_is_taken)
{
    for (int i = 0; i < 20; i++) {
        ptrs[i] = pleat_get(GRANULE, 0);
    }
    neighbour n = neighbour_takes(88 * MIB);
    for (int i = 0; i < 20; i += 2) {
        pleat_put(ptrs[i], 0);
    }
    pleat_get(20 * MIB, 0);
    assert_resident(40 * MIB);
    ck_assert_int_eq(pleat_refused(512, 0), PLEAT_ENOMEM_DEVICE);
    neighbour_leaves(&n);
    pleat_get(512, 0);
}
END_TEST

static void open_few_addresses(void)
{
    pl_device_options options = { .address_budget_bytes = 64 * MIB };
    pleat_open_device(SIM, &options, NULL);
}

START_TEST(addresses_that_run_out_are_no_lack_of_memory)
{
    pleat_devptr low = pleat_get(30 * MIB, 0);
    pleat_devptr high = pleat_get(30 * MIB, 0);
    ck_assert_int_eq(pleat_refused(20 * MIB, 0), PLEAT_ENOSPACE_VA);
    ck_assert_int_eq(pleat_refused(60 * MIB, 0), PLEAT_ENOSPACE_VA);
    /* the second request lacks memory, too */
    ck_assert_int_eq(pleat_refused(100 * MIB, 0), PLEAT_ENOMEM_DEVICE);
    pleat_put(low, 0);
    ck_assert_uint_eq(pleat_get(20 * MIB, 0), low);
    ck_assert_int_eq(pleat_refused(20 * MIB, 0), PLEAT_ENOSPACE_VA);
    pleat_put(high, 0);
    pleat_get(40 * MIB, 0);
}
END_TEST

START_TEST(where_addresses_are_few_the_size_classes_share_them)
{
    pleat_get(60 * MIB, 0); /* all addresses belong to the large area */
    pleat_get(512, 0);
    pleat_get(512, 3);
}
END_TEST

START_TEST(stale_addresses_are_waited_for_before_there_are_none)
{
    for (int i = 0; i < 24; i++) {
        ptrs[i] = get_and_use(GRANULE, 1);
    }
    for (int i = 0; i < 24; i += 3) {
        pleat_put(ptrs[i], 1);
    }
    get_and_use(8 * (size_t)GRANULE, 1); /* this uses up the addresses */
    ck_assert_uint_eq(pleat_counted().stale_bytes, 8 * (uint64_t)GRANULE);
    pleat_put(ptrs[1], 1);
    pleat_put(ptrs[2], 1); /* both are between stale addresses */
    ck_assert_uint_eq(get_and_use(4 * (size_t)GRANULE, 1), ptrs[0]);
}
END_TEST

START_TEST(a_tiny_address_space_serves_what_fits)
{
    pleat_open("capacity:128M,depth:1048576,va_bits:27", NULL); /* 128 MiB of addresses */
    unsigned n = 0;
    pleat_devptr ptr;
    pl_stream *stream = pleat.streams[0];
    pleat_status st = PLEAT_OK;
    for (; n <= N_GRANULES && st == PLEAT_OK; n++) {
        st = pleat.a->ops->alloc(pleat.a, GRANULE, stream, &ptr);
    }
    ck_assert_int_eq(st, PLEAT_ENOSPACE_VA);
    ck_assert_uint_ge(n, 32);
    pleat_assert_sound();
    pleat_close();
}
END_TEST

static TCase *add_case(Suite *suite, const char *name, void (*open)(void))
{
    TCase *tcase = tcase_create(name);
    tcase_add_checked_fixture(tcase, open, pleat_close);
    suite_add_tcase(suite, tcase);
    return tcase;
}

static void add_growth(Suite *suite)
{
    TCase *growth = tcase_create("growth");
    tcase_add_test(growth, policies_trade_memory_for_operations);
    tcase_add_loop_test(growth, memory_is_taken_before_any_is_created, 0, 2);
    tcase_add_test(growth, ample_creates_while_there_is_any);
    tcase_add_test(growth, a_stream_waits_for_much_memory_and_not_for_a_little);
    tcase_add_test(growth, a_stream_waits_for_none_of_many_that_have_a_little);
    tcase_add_test(growth, takes_buy_slack);
    suite_add_tcase(suite, growth);
}

SUITE(segments_limit)
{
    TCase *limit = add_case(suite, "limit", open_limited);
    tcase_add_test(limit, no_more_than_the_limit_is_ever_resident);
    tcase_add_test(limit, a_request_beyond_the_limit_needs_no_driver);
    tcase_add_test(limit, a_raised_limit_gives_room);
    tcase_add_test(limit, a_limit_below_what_lives_is_refused_and_changes_nothing);
    tcase_add_test(limit, a_lower_limit_gives_back_just_what_is_over);
    tcase_add_test(limit, a_lower_limit_waits_for_what_pends);
    tcase_add_test(limit, a_lower_limit_waits_for_a_trim_in_flight);
    tcase_add_test(limit, a_lower_limit_waits_for_recorded_uses);
    TCase *impatient = add_case(suite, "limit, no waiting", open_impatient);
    tcase_add_test(impatient, where_waiting_is_forbidden_a_lower_limit_waits_for_nothing);
    TCase *trim = add_case(suite, "trim", open_plain);
    tcase_add_test(trim, a_trim_gives_back_the_lowest_and_no_more_than_asked);
    tcase_add_test(trim, granules_that_live_blocks_share_stay);
    tcase_add_test(trim, a_trim_that_may_not_wait_leaves_what_runs);
    tcase_add_loop_test(trim, what_has_finished_is_given_back_without_waiting_or_a_tick, 0, 2);
    tcase_add_test(trim, a_trim_of_one_stream_waits_too);
    tcase_add_test(trim, a_trim_waits_only_for_streams_that_freed_something);
    tcase_add_test(trim, a_run_is_unmapped_by_one_call);
    tcase_add_test(trim, what_the_driver_will_not_release_stays_ours);
    add_growth(suite);
    TCase *neighbours = add_case(suite, "neighbours", open_plain);
    tcase_add_test(neighbours, memory_that_another_process_holds_is_missing_until_it_leaves);
    tcase_add_test(neighbours, what_was_created_in_vain_is_kept_for_smaller_requests);
    tcase_add_test(neighbours, beside_another_process_own_memory_is_taken);
    TCase *addresses = add_case(suite, "addresses", open_few_addresses);
    tcase_add_test(addresses, addresses_that_run_out_are_no_lack_of_memory);
    tcase_add_test(addresses, where_addresses_are_few_the_size_classes_share_them);
    tcase_add_test(addresses, stale_addresses_are_waited_for_before_there_are_none);
    TCase *tiny = tcase_create("tiny address space");
    tcase_add_test(tiny, a_tiny_address_space_serves_what_fits);
    suite_add_tcase(suite, tiny);
}
