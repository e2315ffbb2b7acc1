/* segments_cuda_async_test.c - the driver's own pool as an allocator: orders, holds, recoveries. */
/* labels: unit fault model */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "segments/allocator.h"
#include "tests/support/vmm_sim.h"

#define MIB ((size_t)1 << 20)
#define UNIT (32 * MIB)

enum { N_STREAMS = 4 };

static vmm_sim sim;
static pl_device *dev;
static pl_allocator *a;
static cu_stream handles[N_STREAMS]; /* [0] is the legacy default stream */
static pl_stream *streams[N_STREAMS];

static void make_stream(unsigned i)
{
    ck_assert_int_eq(pl_cu_stream_create(sim.drv, &handles[i], CU_STREAM_NON_BLOCKING_FLAG),
                     CU_SUCCESS);
    ck_assert_int_eq(pl_stream_get(dev, handles[i], &streams[i]), PLEAT_OK);
}

/* The device's context is current afterwards, as it is in programs. */
static void open_with(const char *conf, const pl_allocator_options *options)
{
    pl_allocator_options defaults;
    pl_allocator_options_init(&defaults);
    vmm_sim_open(&sim, conf);
    dev = vmm_sim_device(&sim, NULL);
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    handles[0] = NULL;
    ck_assert_int_eq(pl_stream_get(dev, NULL, &streams[0]), PLEAT_OK);
    for (unsigned i = 1; i < N_STREAMS; i++) {
        make_stream(i);
    }
    options = options != NULL ? options : &defaults;
    ck_assert_int_eq(pl_cuda_async_ops.create(dev, options, &a), PLEAT_OK);
}

static void open_patient(void)
{
    open_with("capacity:1G,depth:1048576", NULL);
}

static void open_small(void)
{
    open_with("capacity:100M,depth:1048576", NULL);
}

static void assert_sound(void)
{
    ck_assert_int_eq(a->ops->check(a), 0);
    pleat_sim_hazard hazard;
    ck_assert_msg(sim.hazards(&hazard, 1) == 0, "%s", hazard.text);
}

static void close_all(void)
{
    size_t n_live = 0;
    size_t n_leaked = 0;
    sim.fail_never();
    pl_host_fail_never();
    assert_sound();
    ck_assert_int_eq(a->ops->destroy(a, true, &n_live, &n_leaked), PLEAT_OK);
    ck_assert_uint_eq(n_leaked, 0);
    for (unsigned i = 1; i < N_STREAMS; i++) {
        ck_assert_int_eq(pl_cu_stream_destroy(sim.drv, handles[i]), CU_SUCCESS);
    }
    pl_device_leave(dev);
    ck_assert_uint_eq(pl_device_close(dev), 0);
    vmm_sim_close(&sim);
}

static pleat_devptr get(size_t bytes, unsigned stream)
{
    pleat_devptr ptr = 0;
    pleat_status st = a->ops->alloc(a, bytes, streams[stream], &ptr);
    ck_assert_msg(st == PLEAT_OK, "%zu bytes: %d, %s", bytes, (int)st,
                  pl_driver_last_error()->detail);
    ck_assert_uint_eq(ptr % 512, 0);
    assert_sound();
    return ptr;
}

static pleat_status refused(size_t bytes, unsigned stream)
{
    pleat_devptr ptr = 77;
    pleat_status st = a->ops->alloc(a, bytes, streams[stream], &ptr);
    ck_assert_int_ne(st, PLEAT_OK);
    ck_assert_uint_eq(ptr, 77);
    assert_sound();
    return st;
}

static void put(pleat_devptr ptr, unsigned stream)
{
    ck_assert_int_eq(a->ops->free(a, ptr, streams[stream]), PLEAT_OK);
    assert_sound();
}

static void record(pleat_devptr ptr, unsigned stream)
{
    ck_assert_int_eq(a->ops->record_stream(a, ptr, streams[stream]), PLEAT_OK);
}

static void work(unsigned stream, pleat_devptr ptr, size_t bytes)
{
    pleat_sim_access access = { .ptr = ptr, .bytes = bytes, .is_write = true };
    ck_assert_int_eq(sim.work(handles[stream], &access, 1), CU_SUCCESS);
}

static void order(unsigned earlier, unsigned later)
{
    cu_event event = NULL;
    ck_assert_int_eq(pl_cu_event_create(sim.drv, &event, 0), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_event_record(sim.drv, event, handles[earlier]), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_stream_wait_event(sim.drv, handles[later], event, 0), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_event_destroy(sim.drv, event), CU_SUCCESS);
}

static pleat_stats counted(void)
{
    pleat_stats stats;
    a->ops->stats(a, &stats);
    return stats;
}

static uint64_t trim(bool wait)
{
    uint64_t released = 0;
    ck_assert_int_eq(a->ops->trim(a, 0, wait, &released), PLEAT_OK);
    assert_sound();
    return released;
}

static uint64_t physical(void)
{
    return vmm_sim_counted(&sim).physical_bytes;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

START_TEST(statistics_are_of_blocks_and_reserved_is_the_pool_s)
{
    pleat_devptr small = get(1000, 1);
    pleat_devptr large = get(5 * MIB, 1);
    pleat_stats s = counted();
    ck_assert_uint_eq(s.allocated_bytes[PLEAT_POOL_SMALL].current, 1024);
    ck_assert_uint_eq(s.allocated_bytes[PLEAT_POOL_LARGE].current, 5 * MIB);
    ck_assert_uint_eq(s.requested_bytes[PLEAT_POOL_ALL].current, 1000 + 5 * MIB);
    ck_assert_uint_eq(s.rounding_bytes, 24);
    ck_assert_uint_eq(s.reserved_bytes[PLEAT_POOL_ALL].current, UNIT);
    ck_assert_uint_eq(s.reserved_bytes[PLEAT_POOL_LARGE].current, UNIT);
    ck_assert_uint_eq(s.resident_bytes, UNIT);
    ck_assert_uint_eq(s.free_bytes, UNIT - 5 * MIB - 1024);
    ck_assert_uint_eq(s.num_device_alloc, 1);
    put(small, 1);
    put(large, 1);
    s = counted();
    ck_assert_uint_eq(s.active_bytes[PLEAT_POOL_ALL].current, 0);
    ck_assert_uint_eq(s.reserved_bytes[PLEAT_POOL_ALL].current, UNIT);
    ck_assert_uint_eq(trim(true), UNIT);
    s = counted();
    ck_assert_uint_eq(s.reserved_bytes[PLEAT_POOL_ALL].current, 0);
    ck_assert_uint_eq(s.reserved_bytes[PLEAT_POOL_ALL].peak, UNIT);
    ck_assert_uint_eq(s.num_device_free, 1);
}
END_TEST

START_TEST(a_block_is_found_by_any_of_its_addresses)
{
    pleat_block_info info;
    pleat_devptr ptr = get(3000001, 2);
    ck_assert_int_eq(a->ops->query(a, ptr + 3000000, &info), PLEAT_OK);
    ck_assert_uint_eq(info.base, ptr);
    ck_assert_uint_eq(info.requested_bytes, 3000001);
    ck_assert_ptr_eq(info.stream, handles[2]);
    ck_assert_int_eq(a->ops->query(a, ptr + 4 * MIB, &info), PLEAT_EFOREIGN);
    ck_assert_int_eq(a->ops->free(a, ptr + 512, NULL), PLEAT_EFOREIGN);
    put(ptr, 2);
    ck_assert_int_eq(a->ops->query(a, ptr, &info), PLEAT_EFOREIGN);
    ck_assert_int_eq(a->ops->free(a, ptr, NULL), PLEAT_EFOREIGN);
}
END_TEST

typedef struct seen {
    unsigned n_live, n_pending, n_segments, n_other;
} seen;

static void see(void *context, const pl_piece *piece)
{
    seen *s = context;
    s->n_live += piece->kind == PL_PIECE_LIVE;
    s->n_pending += piece->kind == PL_PIECE_PENDING;
    s->n_other += piece->kind != PL_PIECE_LIVE && piece->kind != PL_PIECE_PENDING;
    s->n_segments += piece->is_first;
}

START_TEST(only_blocks_can_be_seen_and_those_that_touch_as_one)
{
    pleat_devptr ptrs[4];
    seen s = { 0 };
    for (size_t i = 0; i < 4; i++) {
        ptrs[i] = get(MIB, 1);
    }
    put(ptrs[1], 1);
    a->ops->visit(a, see, &s);
    ck_assert_uint_eq(s.n_live, 3);
    ck_assert_uint_eq(s.n_segments, 2);
    ck_assert_uint_eq(s.n_other + s.n_pending, 0);
}
END_TEST

/* ---- streams --------------------------------------------------------------------------------- */

START_TEST(a_plain_free_is_one_call_in_the_order_of_its_stream)
{
    pleat_devptr ptr = get(20 * MIB, 1);
    work(1, ptr, 20 * MIB);
    put(ptr, 1);
    pleat_devptr next = get(20 * MIB, 1);
    ck_assert_uint_eq(next, ptr);
    work(1, next, 20 * MIB);
    ck_assert_uint_eq(sim.n_calls("cuEventCreate"), 0);
    ck_assert_uint_eq(counted().stream_waits, 0);
    put(next, 1);
}
END_TEST

START_TEST(a_block_of_several_streams_is_freed_behind_all_of_them)
{
    work(3, 0, 0);
    pleat_devptr ptr = get(20 * MIB, 1);
    work(1, ptr, 20 * MIB);
    order(1, 2);
    work(2, ptr, 20 * MIB);
    record(ptr, 2);
    record(ptr, 2);
    put(ptr, 1);
    ck_assert_uint_eq(counted().stream_waits, 2);
    ck_assert_uint_eq(counted().host_syncs, 0);
    pleat_devptr other = get(20 * MIB, 1);
    ck_assert_uint_ne(other, ptr);
    sim.finish();
    pleat_devptr third = get(20 * MIB, 3);
    ck_assert_uint_eq(third, ptr);
    put(other, 1);
    put(third, 3);
}
END_TEST

START_TEST(a_free_on_another_stream_waits_for_both)
{
    pleat_devptr ptr = get(20 * MIB, 1);
    work(1, ptr, 20 * MIB);
    order(1, 2);
    work(2, ptr, 20 * MIB);
    put(ptr, 2);
    pleat_devptr next = get(20 * MIB, 2);
    work(2, next, 20 * MIB);
    put(next, 2);
}
END_TEST

START_TEST(a_block_of_a_destroyed_stream_waits_for_the_next_synchronisation)
{
    pleat_devptr ptr = get(20 * MIB, 1);
    work(1, ptr, 20 * MIB);
    ck_assert_int_eq(pl_cu_stream_destroy(sim.drv, handles[1]), CU_SUCCESS);
    put(ptr, 1);
    make_stream(1);
    ck_assert_uint_eq(counted().pending_bytes, 20 * MIB);
    ck_assert_uint_eq(counted().allocation[PLEAT_POOL_ALL].current, 0);
    ck_assert_int_eq(a->ops->free(a, ptr, NULL), PLEAT_EDOUBLEFREE);
    pleat_devptr next = get(20 * MIB, 1);
    ck_assert_uint_ne(next, ptr);
    put(next, 1);
    (void)trim(true);
    ck_assert_uint_eq(counted().pending_bytes, 0);
    ck_assert_uint_eq(physical(), 0);
}
END_TEST

/* ---- captures -------------------------------------------------------------------------------- */

static void begin_capture(unsigned stream)
{
    int mode = CU_CAPTURE_MODE_GLOBAL;
    ck_assert_int_eq(pl_cu_stream_begin_capture(sim.drv, handles[stream], mode), CU_SUCCESS);
}

static void end_capture(unsigned stream)
{
    cu_graph graph = NULL;
    ck_assert_int_eq(pl_cu_stream_end_capture(sim.drv, handles[stream], &graph), CU_SUCCESS);
    ck_assert_int_eq(pl_cu_graph_destroy(sim.drv, graph), CU_SUCCESS);
}

START_TEST(a_captured_stream_is_served_outside_of_its_graph)
{
    begin_capture(1);
    pleat_devptr ptr = get(MIB, 1);
    work(1, ptr, MIB);
    put(ptr, 1);
    ck_assert_uint_eq(counted().pending_bytes, MIB);
    pleat_devptr next = get(MIB, 1);
    ck_assert_uint_ne(next, ptr);
    put(next, 1);
    ck_assert_int_eq(a->ops->release_capture(a, streams[1]), PLEAT_ECAPTURE);
    end_capture(1);
    ck_assert_uint_eq(counted().pending_bytes, 2 * MIB);
    ck_assert_int_eq(a->ops->release_capture(a, streams[2]), PLEAT_OK);
    ck_assert_uint_eq(counted().pending_bytes, 2 * MIB);
    ck_assert_int_eq(a->ops->release_capture(a, streams[1]), PLEAT_OK);
    ck_assert_uint_eq(counted().pending_bytes, 0);
}
END_TEST

START_TEST(a_release_that_cannot_ask_leaves_the_captured_what_it_holds)
{
    pleat_devptr ptr = get(MIB, 2);
    record(ptr, 1);
    begin_capture(1);
    put(ptr, 2);
    sim.fail_at("cuStreamIsCapturing", 0, CU_UNKNOWN);
    ck_assert_int_eq(a->ops->release_capture(a, streams[1]), PLEAT_EDRIVER);
    ck_assert_int_eq(a->ops->release_capture(a, streams[1]), PLEAT_ECAPTURE);
    ck_assert_uint_eq(counted().pending_bytes, MIB);
    end_capture(1);
    sim.fail_at("cuStreamIsCapturing", 1, CU_UNKNOWN);
    ck_assert_int_eq(a->ops->release_capture(a, streams[1]), PLEAT_EDRIVER);
    (void)trim(true);
    ck_assert_uint_eq(counted().pending_bytes, MIB);
    ck_assert_int_eq(a->ops->release_capture(a, streams[1]), PLEAT_OK);
    ck_assert_uint_eq(counted().pending_bytes, 0);
}
END_TEST

START_TEST(what_a_capture_frees_is_held_without_asking_twice)
{
    pleat_devptr ptr = get(60 * MIB, 1);
    begin_capture(1);
    sim.fail_at("cuStreamIsCapturing", 1, CU_UNKNOWN);
    put(ptr, 1);
    end_capture(1);
    sim.fail_never();
    (void)trim(true);
    ck_assert_uint_eq(counted().pending_bytes, 60 * MIB);
    ck_assert_int_eq(a->ops->release_capture(a, streams[1]), PLEAT_OK);
    ck_assert_uint_eq(counted().pending_bytes, 0);
}
END_TEST

START_TEST(what_two_captures_hold_waits_for_both)
{
    pleat_devptr ptr = get(MIB, 3);
    record(ptr, 1);
    record(ptr, 2);
    begin_capture(1);
    begin_capture(2);
    put(ptr, 3);
    end_capture(1);
    end_capture(2);
    ck_assert_int_eq(a->ops->release_capture(a, streams[1]), PLEAT_OK);
    ck_assert_uint_eq(counted().pending_bytes, MIB);
    ck_assert_int_eq(a->ops->release_capture(a, streams[2]), PLEAT_OK);
    ck_assert_uint_eq(counted().pending_bytes, 0);
}
END_TEST

START_TEST(beside_a_capture_nobody_waits)
{
    pleat_devptr ptr = get(60 * MIB, 2);
    work(2, ptr, 60 * MIB);
    begin_capture(1);
    put(ptr, 2);
    uint64_t n_syncs = counted().host_syncs;
    ck_assert_int_eq(refused(90 * MIB, 3), PLEAT_EPENDING);
    ck_assert_uint_eq(counted().num_ooms, 0);
    ck_assert_int_eq(refused(110 * MIB, 3), PLEAT_ENOMEM_DEVICE); /* the device has 100 */
    ck_assert_uint_eq(counted().num_ooms, 1);
    ck_assert_uint_eq(trim(true), 0);
    ck_assert_uint_eq(counted().host_syncs, n_syncs);
    end_capture(1);
    put(get(90 * MIB, 3), 3);
}
END_TEST

/* ---- pressure -------------------------------------------------------------------------------- */

START_TEST(before_it_fails_it_waits_trims_and_tries_again)
{
    pleat_devptr ptr = get(60 * MIB, 1);
    work(1, ptr, 60 * MIB);
    put(ptr, 1);
    pleat_devptr next = get(90 * MIB, 2);
    pleat_stats s = counted();
    ck_assert_uint_eq(s.num_alloc_retries, 1);
    ck_assert_uint_eq(s.num_sync_all_streams, 1);
    ck_assert_uint_eq(s.host_syncs, 1);
    ck_assert_uint_eq(s.num_ooms, 0);
    ck_assert_int_eq(refused(20 * MIB, 2), PLEAT_ENOMEM_DEVICE);
    s = counted();
    ck_assert_uint_eq(s.num_ooms, 1);
    ck_assert_uint_eq(s.host_syncs, 2);
    put(next, 2);
}
END_TEST

START_TEST(a_limit_is_kept_changed_and_lifted)
{
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    options.limit_bytes = 2 * UNIT;
    open_with("capacity:1G", &options);
    pleat_devptr ptr = get(40 * MIB, 1);
    ck_assert_int_eq(refused(40 * MIB, 1), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(a->ops->set_limit(a, 3 * UNIT), PLEAT_OK);
    pleat_devptr next = get(30 * MIB, 1);
    ck_assert_int_eq(refused(UNIT, 1), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_le(physical(), 3 * UNIT);
    ck_assert_int_eq(a->ops->set_limit(a, UNIT), PLEAT_ENOMEM_DEVICE);
    put(ptr, 1);
    ck_assert_int_eq(a->ops->set_limit(a, UNIT), PLEAT_OK);
    ck_assert_uint_eq(physical(), UNIT);
    ck_assert_int_eq(a->ops->set_limit(a, 0), PLEAT_OK);
    put(get(200 * MIB, 1), 1);
    put(next, 1);
    close_all();
}
END_TEST

START_TEST(the_threshold_lets_memory_go_at_synchronisations)
{
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    options.async_release_threshold_bytes = UNIT;
    open_with("capacity:1G", &options);
    put(get(3 * UNIT, 1), 1);
    put(get(3 * UNIT, 1), 1);
    ck_assert_uint_eq(physical(), 3 * UNIT);
    put(get(UNIT, 1), 1);
    sim.finish();
    ck_assert_uint_eq(physical(), 3 * UNIT); /* whole segments, and never below it */
    pleat_devptr other = get(4 * UNIT, 1);
    put(other, 1);
    sim.finish();
    ck_assert_uint_eq(physical(), 3 * UNIT);
    close_all();
}
END_TEST

START_TEST(a_device_without_pools_is_refused_with_a_reason)
{
    pl_allocator *none = NULL;
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    vmm_sim_open(&sim, "profile:no_vmm");
    dev = vmm_sim_device(&sim, NULL);
    ck_assert_int_eq(pl_cuda_async_ops.create(dev, &options, &none), PLEAT_ENOVMM);
    ck_assert_ptr_null(none);
    ck_assert_ptr_nonnull(strstr(pl_driver_last_error()->detail, "no memory pools"));
    vmm_sim_close_device(dev);
    vmm_sim_close(&sim);
}
END_TEST

START_TEST(an_old_driver_s_pool_does)
{
    open_with("capacity:1G,profile:old_driver", NULL);
    pleat_devptr ptr = get(MIB + 7, 1);
    ck_assert_uint_eq(counted().resident_bytes, MIB + 7);
    put(ptr, 2);
    ck_assert_uint_eq(counted().resident_bytes, 0);
    close_all();
}
END_TEST

/* ---- faults ---------------------------------------------------------------------------------- */

/* What blocks there are is told the same before and after a failure. */
static void assert_same(const pleat_stats *before, const pleat_stats *after)
{
    ck_assert_mem_eq(before->allocation, after->allocation, sizeof before->allocation);
    ck_assert_mem_eq(before->allocated_bytes, after->allocated_bytes,
                     sizeof before->allocated_bytes);
    ck_assert_mem_eq(before->requested_bytes, after->requested_bytes,
                     sizeof before->requested_bytes);
    ck_assert_mem_eq(before->active_bytes, after->active_bytes, sizeof before->active_bytes);
}

/* Allocates and frees, with uses elsewhere; what fails changes nothing and is done again. */
static void live_once(bool *has_failed)
{
    pleat_devptr ptr = 0;
    uint64_t released = 0;
    pleat_stats before = counted();
    if (a->ops->alloc(a, 40 * MIB, streams[1], &ptr) != PLEAT_OK) {
        pleat_stats after = counted();
        assert_same(&before, &after);
        *has_failed = true;
        return;
    }
    record(ptr, 2);
    before = counted();
    if (a->ops->free(a, ptr, streams[3]) != PLEAT_OK) {
        pleat_stats after = counted();
        assert_same(&before, &after);
        *has_failed = true;
        sim.fail_never();
        pl_host_fail_never();
        put(ptr, 3);
    }
    *has_failed = a->ops->trim(a, 0, true, &released) != PLEAT_OK || *has_failed;
    assert_sound();
}

START_TEST(failing_each_driver_call_in_turn_changes_nothing)
{
    bool is_over = false;
    uint64_t k = 0;
    pleat_devptr kept = get(20 * MIB, 3);
    while (!is_over) {
        bool has_failed = false;
        uint64_t n_before = sim.n_faults();
        sim.fail_at(NULL, k++, CU_UNKNOWN);
        live_once(&has_failed);
        is_over = sim.n_faults() == n_before;
        ck_assert(!has_failed || !is_over);
        sim.fail_never();
        assert_sound();
        (void)trim(true);
        ck_assert_uint_eq(vmm_sim_counted(&sim).allocations, 1);
        ck_assert_uint_lt(k, 100);
    }
    ck_assert_uint_gt(k, 15);
    put(kept, 3);
}
END_TEST

START_TEST(failing_each_host_allocation_in_turn_changes_nothing)
{
    for (uint64_t k = 0; k < 12; k++) {
        bool has_failed = false;
        pl_host_fail_at(k);
        live_once(&has_failed);
        pl_host_fail_never();
        assert_sound();
        ck_assert(k > 0 || has_failed);
    }
}
END_TEST

START_TEST(failing_each_call_of_create_leaves_nothing_behind)
{
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    for (uint64_t k = 0; k < 6; k++) {
        pl_allocator *other = NULL;
        size_t n_live = 0;
        size_t n_leaked = 0;
        sim.fail_at(NULL, k, CU_UNKNOWN);
        pleat_status st = pl_cuda_async_ops.create(dev, &options, &other);
        sim.fail_never();
        if (st == PLEAT_OK) {
            ck_assert_int_eq(other->ops->destroy(other, false, &n_live, &n_leaked), PLEAT_OK);
        }
        ck_assert_uint_eq(n_leaked, 0);
        ck_assert_uint_eq(vmm_sim_counted(&sim).pools, 1);
    }
}
END_TEST

/* ---- model ----------------------------------------------------------------------------------- */

typedef struct block {
    pleat_devptr ptr;
    size_t bytes;
    unsigned stream;
    uint64_t seed;
} block;

static uint64_t random_state;

static uint64_t draw(uint64_t below)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (random_state >> 33) % below;
}

/* Contents are filled in by the owner and verified by whoever uses the block last. */
static void retire(const block *it)
{
    unsigned user = draw(3) == 0 ? (unsigned)draw(N_STREAMS) : it->stream;
    if (user != it->stream) {
        order(it->stream, user);
        record(it->ptr, user);
    }
    ck_assert_int_eq(sim.verify(handles[user], it->ptr, it->bytes, it->seed), CU_SUCCESS);
    put(it->ptr, draw(2) == 0 ? user : it->stream);
}

START_TEST(contents_survive_random_use_on_all_streams)
{
    enum { MOST = 40, STEPS = 1500 };
    static block live[MOST];
    size_t n_live = 0;
    random_state = (uint64_t)_i + 1;
    open_with("capacity:96M,depth:20,backing:memory", NULL);
    for (uint64_t i = 0; i < STEPS; i++) {
        pleat_devptr ptr = 0;
        unsigned stream = (unsigned)draw(N_STREAMS);
        size_t bytes = 1 + (size_t)draw(draw(6) == 0 ? 20 * MIB : MIB);
        bool wants_more = n_live < MOST && draw(100) < 55;
        if (wants_more && a->ops->alloc(a, bytes, streams[stream], &ptr) == PLEAT_OK) {
            size_t n = bytes < 4096 ? bytes : 4096;
            ck_assert_int_eq(sim.fill(handles[stream], ptr, n, i), CU_SUCCESS);
            live[n_live++] = (block){ ptr, n, stream, i };
        } else if (n_live > 0) {
            size_t at = draw(n_live);
            retire(&live[at]);
            live[at] = live[--n_live];
        }
        if (draw(200) == 0) {
            (void)trim(draw(2) == 0);
        }
        ck_assert_uint_eq(counted().allocation[PLEAT_POOL_ALL].current, n_live);
        ck_assert_uint_eq(counted().resident_bytes, physical());
        assert_sound();
    }
    close_all();
}
END_TEST

static void add_plain(Suite *suite)
{
    TCase *plain = tcase_create("blocks, streams, captures");
    tcase_add_checked_fixture(plain, open_patient, close_all);
    tcase_add_test(plain, statistics_are_of_blocks_and_reserved_is_the_pool_s);
    tcase_add_test(plain, a_block_is_found_by_any_of_its_addresses);
    tcase_add_test(plain, only_blocks_can_be_seen_and_those_that_touch_as_one);
    tcase_add_test(plain, a_plain_free_is_one_call_in_the_order_of_its_stream);
    tcase_add_test(plain, a_block_of_several_streams_is_freed_behind_all_of_them);
    tcase_add_test(plain, a_free_on_another_stream_waits_for_both);
    tcase_add_test(plain, a_block_of_a_destroyed_stream_waits_for_the_next_synchronisation);
    tcase_add_test(plain, a_captured_stream_is_served_outside_of_its_graph);
    tcase_add_test(plain, what_two_captures_hold_waits_for_both);
    tcase_add_test(plain, a_release_that_cannot_ask_leaves_the_captured_what_it_holds);
    tcase_add_test(plain, what_a_capture_frees_is_held_without_asking_twice);
    suite_add_tcase(suite, plain);
}

static void add_pressure(Suite *suite)
{
    TCase *small = tcase_create("small device");
    tcase_add_checked_fixture(small, open_small, close_all);
    tcase_add_test(small, beside_a_capture_nobody_waits);
    tcase_add_test(small, before_it_fails_it_waits_trims_and_tries_again);
    tcase_add_test(small, failing_each_driver_call_in_turn_changes_nothing);
    tcase_add_test(small, failing_each_host_allocation_in_turn_changes_nothing);
    tcase_add_test(small, failing_each_call_of_create_leaves_nothing_behind);
    suite_add_tcase(suite, small);
    TCase *own = tcase_create("limits, drivers, contents");
    tcase_add_test(own, a_limit_is_kept_changed_and_lifted);
    tcase_add_test(own, the_threshold_lets_memory_go_at_synchronisations);
    tcase_add_test(own, a_device_without_pools_is_refused_with_a_reason);
    tcase_add_test(own, an_old_driver_s_pool_does);
    tcase_add_loop_test(own, contents_survive_random_use_on_all_streams, 0, 4);
    suite_add_tcase(suite, own);
}

int main(void)
{
    Suite *suite = suite_create("segments cuda_async");
    add_plain(suite);
    add_pressure(suite);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
