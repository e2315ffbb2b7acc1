/* segments_torch_pressure_test.c - torch-expandable when memory is short, calls fail, threads meet;
 * and what its memory holds. */
/* labels: unit fault stress */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "tests/support/segments_torch.h"
#include "vmm/driver.h"

enum { OUT_OF_MEMORY = 2, UNKNOWN = 999 }; /* CUresult */

static void open_conf(const char *sim_conf, const pl_allocator_options *options)
{
    torch_open_as(&pl_torch_expandable_ops, sim_conf, options);
}

static pl_allocator_options pages_of_2_mib(void)
{
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    options.expandable_large_page_bytes = 2 * MIB;
    return options;
}

static void open_100_mib(void)
{
    open_conf("capacity:100M,depth:100000", NULL);
}

static pleat_status try_get(size_t bytes, unsigned stream, pleat_devptr *out)
{
    pleat_status st = torch.a->ops->alloc(torch.a, bytes, torch.streams[stream], out);
    torch_assert_sound();
    return st;
}

static uint64_t reserved(void)
{
    return torch_stats().reserved_bytes[PLEAT_POOL_ALL].current;
}

static void record(pleat_devptr ptr, unsigned stream)
{
    ck_assert_int_eq(torch.a->ops->record_stream(torch.a, ptr, torch.streams[stream]), PLEAT_OK);
}

static uint64_t trim(void)
{
    uint64_t released = 0;
    ck_assert_int_eq(torch.a->ops->trim(torch.a, 0, true, &released), PLEAT_OK);
    torch_assert_sound();
    return released;
}

/* What must be as before after a failure. */
static void assert_same_state(const pleat_stats *before)
{
    pleat_stats after = torch_stats();
    for (unsigned i = 0; i < PLEAT_N_POOLS; i++) {
        ck_assert_mem_eq(&before->allocation[i], &after.allocation[i], sizeof(pleat_stat));
        ck_assert_mem_eq(&before->allocated_bytes[i], &after.allocated_bytes[i],
                         sizeof(pleat_stat));
        ck_assert_uint_eq(before->requested_bytes[i].peak, after.requested_bytes[i].peak);
    }
    ck_assert_uint_eq(before->rounding_bytes, after.rounding_bytes);
    torch_assert_sound();
}

/* ---- short of memory ------------------------------------------------------------------------- */

static void capture(unsigned stream, bool is_begin)
{
    cu_graph graph = NULL;
    cu_stream handle = torch.handles[stream];
    ck_assert_int_eq(pl_device_enter(torch.dev), PLEAT_OK);
    if (is_begin) {
        int mode = CU_CAPTURE_MODE_GLOBAL;
        ck_assert_int_eq(pl_cu_stream_begin_capture(torch.drv, handle, mode), CU_SUCCESS);
    } else {
        ck_assert_int_eq(pl_cu_stream_end_capture(torch.drv, handle, &graph), CU_SUCCESS);
        ck_assert_int_eq(pl_cu_graph_destroy(torch.drv, graph), CU_SUCCESS);
    }
    pl_device_leave(torch.dev);
}

/* Stream 1: 20 MiB live, a hole, 20 MiB free, then nothing but addresses; 40 MiB on stream 2. */
static pleat_devptr set_up_two_holes(void)
{
    torch_get(20 * MIB, 1);
    pleat_devptr hole = torch_get(20 * MIB, 1);
    pleat_devptr free = torch_get(20 * MIB, 1);
    torch_put(hole);
    trim();
    torch_get(40 * MIB, 2);
    torch_put(free);
    return hole;
}

/* During a capture there is no retry, which would give everything back again. */
START_TEST(what_was_mapped_before_a_later_part_failed_stays_as_free_memory)
{
    pleat_devptr hole = set_up_two_holes();
    pleat_stats before = torch_stats();
    pleat_devptr ptr = 7;
    capture(1, true);
    ck_assert_int_eq(try_get(60 * MIB, 1, &ptr), PLEAT_ENOMEM_DEVICE);
    capture(1, false);
    ck_assert_uint_eq(ptr, 7);
    assert_same_state(&before);
    pleat_stats s = torch_stats();
    ck_assert_uint_eq(s.ops_map, before.ops_map + 1);
    ck_assert_uint_eq(s.num_device_alloc, before.num_device_alloc + 1);
    ck_assert_uint_eq(s.resident_bytes, 100 * MIB);
    ck_assert_uint_eq(s.free_bytes, 40 * MIB);
    ck_assert_uint_eq(torch_get(40 * MIB, 1), hole);
    ck_assert_uint_eq(torch_stats().ops_map, s.ops_map);
}
END_TEST

START_TEST(the_retry_gives_back_what_the_failed_part_mapped)
{
    pleat_devptr hole = set_up_two_holes();
    pleat_stats before = torch_stats();
    pleat_devptr ptr = 7;
    ck_assert_int_eq(try_get(80 * MIB, 1, &ptr), PLEAT_ENOMEM_DEVICE);
    pleat_stats s = torch_stats();
    ck_assert_uint_eq(s.num_alloc_retries, 1);
    ck_assert_uint_eq(s.num_ooms, 1);
    ck_assert_uint_eq(s.ops_map, before.ops_map + 1);
    ck_assert_uint_eq(s.ops_unmap, before.ops_unmap + 1);
    ck_assert_uint_eq(s.resident_bytes, 60 * MIB);
    ck_assert_uint_eq(torch_get(40 * MIB, 1), hole);
}
END_TEST

START_TEST(handles_created_for_a_run_that_cannot_be_completed_are_released)
{
    torch_get(60 * MIB, 0);
    uint64_t n_creates = torch.sim.n_calls("cuMemCreate");
    pleat_devptr ptr;
    capture(1, true);
    ck_assert_int_eq(try_get(60 * MIB, 1, &ptr), PLEAT_ENOMEM_DEVICE);
    capture(1, false);
    ck_assert_uint_eq(torch.sim.n_calls("cuMemCreate"), n_creates + 3);
    ck_assert_uint_eq(torch.sim.n_calls("cuMemRelease"), 2);
    ck_assert_uint_eq(torch.sim.n_calls("cuMemUnmap"), 0);
    ck_assert_uint_eq(reserved(), 60 * MIB);
}
END_TEST

START_TEST(everything_cached_on_all_streams_goes_before_the_one_retry)
{
    pleat_devptr a = torch_get(30 * MIB, 0);
    pleat_devptr b = torch_get(30 * MIB, 1);
    pleat_devptr c = torch_get(MIB, 0);
    torch_put(a);
    torch_put(b);
    torch_put(c);
    torch_get(90 * MIB, 0);
    pleat_stats s = torch_stats();
    ck_assert_uint_eq(s.num_alloc_retries, 1);
    ck_assert_uint_eq(s.num_sync_all_streams, 1);
    ck_assert_uint_eq(s.num_ooms, 0);
    ck_assert_uint_eq(s.ops_unmap, 3);
    ck_assert_uint_eq(s.host_syncs, 3);
    ck_assert_uint_eq(s.resident_bytes, 100 * MIB);
}
END_TEST

START_TEST(the_retry_waits_for_pending_uses)
{
    pleat_devptr ptr = torch_get(60 * MIB, 1);
    torch_work(2, ptr, 30 * MIB);
    record(ptr, 2);
    torch_put(ptr);
    ck_assert_uint_eq(torch_stats().pending_bytes, 60 * MIB);
    torch_get(60 * MIB, 3);
    ck_assert_uint_eq(torch_stats().resident_bytes, 60 * MIB);
}
END_TEST

START_TEST(requests_beyond_a_whole_segment_do_not_reserve_one)
{
    pleat_devptr ptr;
    ck_assert_int_eq(try_get(130 * MIB, 0, &ptr), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(try_get((size_t)1 << 60, 0, &ptr), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(torch.sim.n_calls("cuMemAddressReserve"), 0);
}
END_TEST

START_TEST(without_addresses_for_another_segment_the_answer_says_so)
{
    open_conf("capacity:1T,va_bits:41", NULL);
    torch_get(1, 0);
    pleat_stats before = torch_stats();
    pleat_devptr ptr;
    ck_assert_int_eq(try_get(1, 1, &ptr), PLEAT_ENOSPACE_VA);
    assert_same_state(&before);
    ck_assert_uint_eq(torch_stats().num_ooms, 0);
    torch_get(MIB, 0);
    torch_close();
}
END_TEST

/* ---- limits ---------------------------------------------------------------------------------- */

static void set_limit(uint64_t bytes)
{
    ck_assert_int_eq(torch.a->ops->set_limit(torch.a, bytes), PLEAT_OK);
}

START_TEST(a_limit_counts_the_segment_that_torch_native_would_need)
{
    pl_allocator_options options = pages_of_2_mib();
    open_conf("capacity:100M", &options);
    set_limit(19 * MIB);
    uint64_t n_calls = torch.sim.n_calls("cuMemCreate");
    pleat_devptr ptr;
    ck_assert_int_eq(try_get(2 * MIB, 0, &ptr), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(torch.sim.n_calls("cuMemCreate"), n_calls);
    torch_get(MIB, 0);
    torch_get(16 * MIB, 0);
    ck_assert_uint_eq(reserved(), 18 * MIB);
    torch_close();
}
END_TEST

START_TEST(a_limit_may_be_exceeded_by_less_than_a_page)
{
    set_limit(10 * MIB);
    torch_get(10 * MIB, 0);
    ck_assert_uint_eq(reserved(), 20 * MIB);
    pleat_devptr ptr;
    ck_assert_int_eq(try_get(1, 0, &ptr), PLEAT_ENOMEM_DEVICE);
}
END_TEST

START_TEST(the_cache_gives_way_to_a_new_limit_and_live_blocks_do_not)
{
    torch_get(40 * MIB, 0);
    torch_put(torch_get(40 * MIB, 0));
    set_limit(79 * MIB);
    ck_assert_uint_eq(reserved(), 40 * MIB);
    pleat_stats before = torch_stats();
    ck_assert_int_eq(torch.a->ops->set_limit(torch.a, 39 * MIB), PLEAT_ENOMEM_DEVICE);
    assert_same_state(&before);
    torch_get(38 * MIB, 0);
}
END_TEST

START_TEST(neither_collection_nor_the_split_limit_unmaps)
{
    pl_allocator_options options = pages_of_2_mib();
    options.limit_bytes = 200 * MIB;
    options.garbage_collection_threshold = 0.1;
    options.max_split_bytes = 40 * MIB;
    open_conf("capacity:1G", &options);
    pleat_devptr old = torch_get(60 * MIB, 0);
    torch_get(2 * MIB, 0);
    torch_put(old);
    for (size_t i = 0; i < 10; i++) {
        torch_put(torch_get(30 * MIB, 0));
    }
    ck_assert_uint_eq(torch_stats().num_device_free, 0);
    torch_get(120 * MIB, 0);
    pleat_stats s = torch_stats();
    ck_assert_uint_eq(s.num_alloc_retries, 1); /* the retry's release, not the collector's */
    ck_assert_uint_eq(s.num_device_free, 2);
    torch_close();
}
END_TEST

/* ---- faults ---------------------------------------------------------------------------------- */

enum { N_SLOTS = 6 };

typedef struct scenario {
    pleat_devptr p[N_SLOTS];
    unsigned n_failures;
} scenario;

static void note(scenario *s, pleat_status st, const pleat_stats *before)
{
    if (st != PLEAT_OK) {
        s->n_failures++;
        assert_same_state(before);
    }
}

static void step_get(scenario *s, size_t slot, size_t bytes, unsigned stream)
{
    pleat_stats before = torch_stats();
    note(s, try_get(bytes, stream, &s->p[slot]), &before);
}

static void step_put(scenario *s, size_t slot, unsigned stream)
{
    if (!s->p[slot]) {
        return;
    }
    pleat_stats before = torch_stats();
    pleat_status st = torch.a->ops->free(torch.a, s->p[slot], torch.streams[stream]);
    note(s, st, &before);
    s->p[slot] = st == PLEAT_OK ? 0 : s->p[slot];
    torch_assert_sound();
}

static void step_trim(scenario *s)
{
    uint64_t released = 0;
    pleat_stats before = torch_stats();
    note(s, torch.a->ops->trim(torch.a, 0, true, &released), &before);
}

/* Grow, split, make holes, map a place of two, use on another stream, retry on a full device. */
static void run_scenario(scenario *s)
{
    *s = (scenario){ .n_failures = 0 };
    step_get(s, 0, 1000, 0);
    step_get(s, 1, 20 * MIB, 0);
    step_get(s, 2, 7 * MIB, 0);
    step_get(s, 3, 11 * MIB, 0);
    step_put(s, 1, 0);
    step_trim(s);
    step_put(s, 2, 0);
    step_get(s, 1, 25 * MIB, 0);
    step_get(s, 4, 38 * MIB, 1);
    step_put(s, 3, 2);
    step_put(s, 4, 1);
    step_get(s, 5, 60 * MIB, 2);
    step_put(s, 1, 0);
    step_trim(s);
    for (size_t slot = 0; slot < N_SLOTS; slot++) {
        step_put(s, slot, 0);
    }
}

/* After a fault the same works, but where memory was lost; and the rest is freed. */
static void recover(scenario *s)
{
    for (size_t slot = 0; slot < N_SLOTS; slot++) {
        if (s->p[slot]) {
            torch_put(s->p[slot]);
        }
    }
    trim();
    pleat_stats stats = torch_stats();
    uint64_t lost = stats.pinned_granules * stats.granule_bytes;
    ck_assert_uint_eq(stats.resident_bytes, lost);
    ck_assert_uint_eq(stats.idle_bytes, 0);
    ck_assert_uint_eq(stats.free_bytes, 0);
    torch_put(torch_get(100 * MIB - lost, 0));
    torch_put(torch_get(512, 0));
}

static void fail_driver(bool ever_after, int code)
{
    pl_allocator_options options = pages_of_2_mib();
    for (uint64_t k = 0;; k++) {
        open_conf("capacity:100M", &options);
        (ever_after ? torch.sim.fail_from : torch.sim.fail_at)(NULL, k, code);
        scenario s;
        run_scenario(&s);
        bool is_over = torch.sim.n_faults() == 0;
        ck_assert(!is_over || s.n_failures == 0);
        torch.sim.fail_never();
        recover(&s);
        (ever_after ? torch_close_after_failed_undo : torch_close)();
        if (is_over) {
            ck_assert_uint_gt(k, 100);
            return;
        }
    }
}

START_TEST(any_one_driver_call_may_fail)
{
    fail_driver(false, UNKNOWN);
    fail_driver(false, OUT_OF_MEMORY);
}
END_TEST

START_TEST(all_driver_calls_from_any_on_may_fail)
{
    fail_driver(true, UNKNOWN);
    fail_driver(true, OUT_OF_MEMORY);
}
END_TEST

static void fail_host(void (*inject)(uint64_t))
{
    pl_allocator_options options = pages_of_2_mib();
    for (uint64_t k = 0;; k++) {
        open_conf("capacity:100M", &options);
        uint64_t n_before = pl_host_n_allocs();
        inject(k);
        scenario s;
        run_scenario(&s);
        bool is_over = pl_host_n_allocs() - n_before <= k;
        ck_assert(!is_over || s.n_failures == 0);
        pl_host_fail_never();
        recover(&s);
        torch_close();
        if (is_over) {
            ck_assert_uint_gt(k, 20);
            return;
        }
    }
}

START_TEST(any_host_allocation_may_fail)
{
    fail_host(pl_host_fail_at);
    fail_host(pl_host_fail_from);
}
END_TEST

START_TEST(memory_that_the_driver_does_not_take_is_told_and_offered_again)
{
    torch_put(torch_get(40 * MIB, 0));
    torch.sim.fail_from("cuMemRelease", 0, UNKNOWN);
    uint64_t released = 0;
    ck_assert_int_eq(torch.a->ops->trim(torch.a, 0, true, &released), PLEAT_EDRIVER);
    torch.sim.fail_never();
    torch_assert_sound();
    pleat_stats s = torch_stats();
    ck_assert_uint_eq(s.resident_bytes, 40 * MIB);
    ck_assert_uint_eq(s.idle_bytes, 40 * MIB);
    ck_assert_uint_eq(s.free_bytes, 0);
    ck_assert_uint_eq(trim(), 40 * MIB);
    ck_assert_uint_eq(reserved(), 0);
    torch_close_after_failed_undo();
}
END_TEST

START_TEST(destroy_reports_what_the_driver_would_not_take)
{
    torch_get(40 * MIB, 0);
    size_t n_live = 0;
    size_t n_leaked = 0;
    torch.sim.fail_from("cuMemAddressFree", 0, UNKNOWN);
    ck_assert_int_eq(torch.a->ops->destroy(torch.a, true, &n_live, &n_leaked), PLEAT_OK);
    torch.sim.fail_never();
    ck_assert_uint_eq(n_live, 1);
    ck_assert_uint_eq(n_leaked, 1);
    pleat_sim_counts counts;
    ck_assert_int_eq(torch.sim.count(-1, &counts), 0);
    ck_assert_uint_eq(counts.reservations, 1);
    ck_assert_uint_eq(counts.handles, 0);
}
END_TEST

/* ---- contents -------------------------------------------------------------------------------- */

enum { N_PIECES = 48, N_STEPS = 6000 };

typedef struct piece {
    pleat_devptr ptr;
    size_t bytes;
    unsigned stream;
    uint64_t seed;
} piece;

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return *state >> 16;
}

static void fill(piece *p)
{
    ck_assert_int_eq(torch.sim.fill(torch.handles[p->stream], p->ptr, p->bytes, p->seed), 0);
}

static void verify(const piece *p)
{
    ck_assert_int_eq(torch.sim.verify(torch.handles[p->stream], p->ptr, p->bytes, p->seed), 0);
}

static void content_step(piece *p, uint64_t *random, unsigned *n_refused)
{
    if (p->ptr) {
        verify(p);
        torch_put(p->ptr);
        p->ptr = 0;
        return;
    }
    p->bytes = 1 + (size_t)next_random(random) % ((size_t)1 << (10 + next_random(random) % 12));
    p->stream = (unsigned)(next_random(random) % TORCH_N_STREAMS);
    p->seed = next_random(random);
    if (try_get(p->bytes, p->stream, &p->ptr) == PLEAT_OK) {
        fill(p);
    } else {
        ++*n_refused;
    }
}

/* Small granules, so that growth, holes and retries are frequent. A block keeps what was written
 * into it, whatever is mapped and unmapped around it. */
START_TEST(every_block_keeps_its_contents)
{
    pl_allocator_options options = pages_of_2_mib();
    options.expandable_small_page_bytes = 64 * KIB;
    options.expandable_large_page_bytes = 256 * KIB;
    open_conf("capacity:7M,granularity:64K,backing:memory,depth:64", &options);
    ck_assert_int_eq(pl_device_enter(torch.dev), PLEAT_OK);
    piece pieces[N_PIECES] = { { 0 } };
    uint64_t random = 20;
    unsigned n_refused = 0;
    for (size_t step = 0; step < N_STEPS; step++) {
        content_step(&pieces[next_random(&random) % N_PIECES], &random, &n_refused);
    }
    pleat_stats s = torch_stats();
    ck_assert_uint_gt(s.num_alloc_retries, 20);
    ck_assert_uint_gt(s.ops_unmap, 100);
    ck_assert_uint_gt(n_refused, 0);
    for (size_t i = 0; i < N_PIECES; i++) {
        if (pieces[i].ptr) {
            verify(&pieces[i]);
            torch_put(pieces[i].ptr);
        }
    }
    torch.sim.finish();
    pl_device_leave(torch.dev);
    torch_close();
}
END_TEST

/* ---- threads --------------------------------------------------------------------------------- */

enum { N_THREADS = 4, N_THREAD_STEPS = 3000, N_OWN = 24 };

static atomic_uint n_errors;
static atomic_uint n_full;

static void thread_step(pleat_devptr *own, uint64_t seed)
{
    const pl_allocator_ops *ops = torch.a->ops;
    pl_stream *stream = torch.streams[(seed >> 8) % TORCH_N_STREAMS];
    pleat_devptr *slot = &own[(seed >> 33) % N_OWN];
    if (*slot) {
        if (seed % 4 == 0) {
            n_errors += ops->record_stream(torch.a, *slot, stream) != PLEAT_OK;
        }
        n_errors += ops->free(torch.a, *slot, seed % 3 == 0 ? stream : NULL) != PLEAT_OK;
        *slot = 0;
        return;
    }
    size_t bytes = 1 + (size_t)(seed >> 16) % ((size_t)1 << (12 + (seed >> 60)));
    pleat_status st = ops->alloc(torch.a, bytes, stream, slot);
    n_full += st == PLEAT_ENOMEM_DEVICE;
    n_errors += st != PLEAT_OK && st != PLEAT_ENOMEM_DEVICE;
}

static void *thread_main(void *argument)
{
    uint64_t seed = 77 + *(const uint64_t *)argument;
    pleat_devptr own[N_OWN] = { 0 };
    for (size_t step = 0; step < N_THREAD_STEPS; step++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        thread_step(own, seed);
        if (step % 256 == 0) {
            uint64_t released = 0;
            pleat_stats stats;
            torch.a->ops->stats(torch.a, &stats);
            n_errors += torch.a->ops->check(torch.a) != 0;
            n_errors += torch.a->ops->trim(torch.a, 64 * MIB, true, &released) != PLEAT_OK;
        }
    }
    for (size_t i = 0; i < N_OWN; i++) {
        n_errors += own[i] && torch.a->ops->free(torch.a, own[i], NULL) != PLEAT_OK;
    }
    return NULL;
}

START_TEST(threads_share_a_full_device)
{
    pl_allocator_options options = pages_of_2_mib();
    open_conf("capacity:160M,depth:16", &options);
    pthread_t threads[N_THREADS];
    uint64_t numbers[N_THREADS];
    for (uint64_t i = 0; i < N_THREADS; i++) {
        numbers[i] = i;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, thread_main, &numbers[i]), 0);
    }
    for (size_t i = 0; i < N_THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    ck_assert_uint_eq(n_errors, 0);
    ck_assert_uint_gt(n_full, 0);
    torch_assert_sound();
    trim();
    pleat_stats s = torch_stats();
    ck_assert_uint_eq(s.active[PLEAT_POOL_ALL].current, 0);
    ck_assert_uint_eq(s.resident_bytes, 0);
    torch_close();
}
END_TEST

static TCase *make_case(const char *name, void (*open)(void))
{
    TCase *tcase = tcase_create(name);
    if (open) {
        tcase_add_checked_fixture(tcase, open, torch_close);
    }
    return tcase;
}

static void add_shortage(Suite *suite)
{
    TCase *shortage = make_case("shortage", open_100_mib);
    tcase_add_test(shortage, what_was_mapped_before_a_later_part_failed_stays_as_free_memory);
    tcase_add_test(shortage, the_retry_gives_back_what_the_failed_part_mapped);
    tcase_add_test(shortage, handles_created_for_a_run_that_cannot_be_completed_are_released);
    tcase_add_test(shortage, everything_cached_on_all_streams_goes_before_the_one_retry);
    tcase_add_test(shortage, the_retry_waits_for_pending_uses);
    tcase_add_test(shortage, requests_beyond_a_whole_segment_do_not_reserve_one);
    suite_add_tcase(suite, shortage);
    TCase *addresses = make_case("addresses", NULL);
    tcase_add_test(addresses, without_addresses_for_another_segment_the_answer_says_so);
    suite_add_tcase(suite, addresses);
}

static void add_limits(Suite *suite)
{
    TCase *limits = make_case("limits", open_100_mib);
    tcase_add_test(limits, a_limit_may_be_exceeded_by_less_than_a_page);
    tcase_add_test(limits, the_cache_gives_way_to_a_new_limit_and_live_blocks_do_not);
    suite_add_tcase(suite, limits);
    TCase *options = make_case("options", NULL);
    tcase_add_test(options, a_limit_counts_the_segment_that_torch_native_would_need);
    tcase_add_test(options, neither_collection_nor_the_split_limit_unmaps);
    suite_add_tcase(suite, options);
}

static void add_faults(Suite *suite)
{
    TCase *faults = make_case("faults", NULL);
    tcase_add_test(faults, any_one_driver_call_may_fail);
    tcase_add_test(faults, all_driver_calls_from_any_on_may_fail);
    tcase_add_test(faults, any_host_allocation_may_fail);
    suite_add_tcase(suite, faults);
    TCase *refusals = tcase_create("refusals");
    tcase_add_checked_fixture(refusals, open_100_mib, NULL);
    tcase_add_test(refusals, memory_that_the_driver_does_not_take_is_told_and_offered_again);
    tcase_add_test(refusals, destroy_reports_what_the_driver_would_not_take);
    suite_add_tcase(suite, refusals);
}

int main(void)
{
    Suite *suite = suite_create("segments_torch_pressure");
    add_shortage(suite);
    add_limits(suite);
    add_faults(suite);
    TCase *contents = make_case("contents", NULL);
    tcase_add_test(contents, every_block_keeps_its_contents);
    suite_add_tcase(suite, contents);
    TCase *threads = make_case("threads", NULL);
    tcase_add_test(threads, threads_share_a_full_device);
    suite_add_tcase(suite, threads);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
