/* segments_torch_memory_test.c - what torch-native asks for, gives back and survives. */
/* labels: unit fault */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/segments_torch.h"

enum { OUT_OF_MEMORY = 2, UNKNOWN = 999 }; /* CUresult */

static void open_100_mib(void)
{
    torch_open("capacity:100M", NULL);
}

static pleat_status try_get(size_t bytes, unsigned stream, pleat_devptr *out)
{
    return torch.a->ops->alloc(torch.a, bytes, torch.streams[stream], out);
}

static uint64_t reserved(void)
{
    return torch_stats().reserved_bytes[PLEAT_POOL_ALL].current;
}

static uint64_t trim(uint64_t keep_bytes)
{
    uint64_t released = 0;
    ck_assert_int_eq(torch.a->ops->trim(torch.a, keep_bytes, true, &released), PLEAT_OK);
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

/* ---- the retry ------------------------------------------------------------------------------- */

START_TEST(everything_unsplit_goes_back_before_the_one_retry)
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
    ck_assert_uint_eq(s.num_device_alloc, 4);
    ck_assert_uint_eq(s.num_device_free, 3);
    ck_assert_uint_eq(s.ops_free, 3);
    ck_assert_uint_eq(s.resident_bytes, 90 * MIB);
    ck_assert_uint_eq(s.segment[PLEAT_POOL_SMALL].current, 0);
}
END_TEST

START_TEST(a_split_segment_stays_whatever_is_free_in_it)
{
    pleat_devptr a = torch_get(2 * MIB, 0);
    torch_get(2 * MIB, 0);
    torch_put(a);
    torch_put(torch_get(50 * MIB, 0));
    torch_get(70 * MIB, 0);
    ck_assert_uint_eq(torch_stats().num_device_free, 1);
    ck_assert_uint_eq(reserved(), 90 * MIB);
    ck_assert_uint_eq(torch_get(2 * MIB, 0), a);
}
END_TEST

START_TEST(out_of_memory_leaves_everything_as_it_was)
{
    pleat_devptr a = torch_get(60 * MIB, 0);
    torch_put(torch_get(20 * MIB, 0));
    pleat_stats before = torch_stats();
    pleat_devptr ptr = 7;
    ck_assert_int_eq(try_get(50 * MIB, 0, &ptr), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(ptr, 7);
    assert_same_state(&before);
    pleat_stats s = torch_stats();
    ck_assert_uint_eq(s.num_ooms, 1);
    ck_assert_uint_eq(s.num_alloc_retries, 1);
    ck_assert_uint_eq(s.num_device_free, 1);
    ck_assert_uint_eq(torch_info(a).bytes, 60 * MIB);
    torch_get(40 * MIB, 0);
    ck_assert_uint_eq(torch_stats().num_ooms, 1);
}
END_TEST

START_TEST(a_segment_goes_back_only_after_the_work_on_it)
{
    pleat_devptr a = torch_get(60 * MIB, 1);
    torch_work(1, a, 60 * MIB);
    torch_put(a);
    torch_get(90 * MIB, 2);
    ck_assert_uint_eq(torch_stats().host_syncs, 1);
}
END_TEST

/* ---- limit ----------------------------------------------------------------------------------- */

START_TEST(over_the_limit_the_driver_is_not_asked)
{
    ck_assert_int_eq(torch.a->ops->set_limit(torch.a, 50 * MIB), PLEAT_OK);
    torch_get(20 * MIB, 0);
    uint64_t n_calls = torch.sim.n_calls("cuMemAlloc");
    pleat_devptr ptr;
    ck_assert_int_eq(try_get(40 * MIB, 0, &ptr), PLEAT_ENOMEM_DEVICE);
    ck_assert_uint_eq(torch.sim.n_calls("cuMemAlloc"), n_calls);
    torch_get(30 * MIB, 0);
    ck_assert_int_eq(torch.a->ops->set_limit(torch.a, 0), PLEAT_OK);
    torch_get(50 * MIB, 0);
}
END_TEST

START_TEST(the_cache_gives_way_to_a_new_limit_and_live_blocks_do_not)
{
    torch_get(30 * MIB, 0);
    torch_put(torch_get(40 * MIB, 0));
    ck_assert_int_eq(torch.a->ops->set_limit(torch.a, 69 * MIB), PLEAT_OK);
    ck_assert_uint_eq(reserved(), 30 * MIB);
    pleat_stats before = torch_stats();
    ck_assert_int_eq(torch.a->ops->set_limit(torch.a, 29 * MIB), PLEAT_ENOMEM_DEVICE);
    assert_same_state(&before);
    torch_get(38 * MIB, 0);
    pleat_devptr ptr;
    ck_assert_int_eq(try_get(MIB, 0, &ptr), PLEAT_ENOMEM_DEVICE);
}
END_TEST

/* ---- trim ------------------------------------------------------------------------------------ */

START_TEST(trim_keeps_what_it_is_told_to)
{
    pleat_devptr p[3];
    for (size_t i = 0; i < 3; i++) {
        p[i] = torch_get((i + 1) * 10 * MIB, 0);
    }
    for (size_t i = 0; i < 3; i++) {
        torch_put(p[i]);
    }
    ck_assert_uint_eq(trim(60 * MIB), 0);
    ck_assert_uint_eq(trim(59 * MIB), 10 * MIB);
    ck_assert_uint_eq(trim(30 * MIB), 20 * MIB);
    ck_assert_uint_eq(trim(0), 30 * MIB);
    ck_assert_uint_eq(reserved(), 0);
}
END_TEST

/* ---- split limit and collection -------------------------------------------------------------- */

START_TEST(with_a_split_limit_one_oversize_block_goes_before_everything_does)
{
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    options.max_split_bytes = 20 * MIB;
    torch_open("capacity:100M", &options);
    pleat_devptr small = torch_get(10 * MIB, 0);
    pleat_devptr large = torch_get(80 * MIB, 0);
    torch_put(small);
    torch_put(large);
    torch_get(40 * MIB, 0);
    pleat_stats s = torch_stats();
    ck_assert_uint_eq(s.num_device_free, 1);
    ck_assert_uint_eq(s.num_alloc_retries, 0);
    ck_assert_uint_eq(s.resident_bytes, 50 * MIB);
    torch_close();
}
END_TEST

START_TEST(with_a_split_limit_the_largest_blocks_go_until_they_suffice)
{
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    options.max_split_bytes = 20 * MIB;
    torch_open("capacity:100M", &options);
    pleat_devptr p[3];
    for (size_t i = 0; i < 3; i++) {
        p[i] = torch_get((20 + i * 10) * MIB, 0);
    }
    for (size_t i = 0; i < 3; i++) {
        torch_put(p[i]);
    }
    torch_get(60 * MIB, 0);
    pleat_stats s = torch_stats();
    ck_assert_uint_eq(s.num_device_free, 2);
    ck_assert_uint_eq(s.num_alloc_retries, 0);
    ck_assert_uint_eq(s.resident_bytes, 80 * MIB);
    torch_close();
}
END_TEST

START_TEST(old_blocks_are_collected_above_the_threshold)
{
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    options.limit_bytes = 100 * MIB;
    options.garbage_collection_threshold = 0.5;
    torch_open("capacity:1G", &options);
    pleat_devptr old = torch_get(20 * MIB, 0);
    pleat_devptr live = torch_get(32 * MIB, 0);
    torch_put(old);
    for (size_t i = 0; i < 10; i++) {
        torch_put(live);
        live = torch_get(32 * MIB, 0);
    }
    torch_put(live);
    torch_get(40 * MIB, 0);
    pleat_stats s = torch_stats();
    ck_assert_uint_eq(s.num_device_free, 1);
    ck_assert_uint_eq(s.num_alloc_retries, 0);
    ck_assert_uint_eq(s.resident_bytes, 72 * MIB);
    ck_assert_uint_eq(torch_get(32 * MIB, 0), live);
    torch_close();
}
END_TEST

START_TEST(settings_that_pytorch_refuses_are_refused)
{
    torch_open("capacity:100M", NULL);
    pl_allocator_options bad[4];
    for (size_t i = 0; i < 4; i++) {
        pl_allocator_options_init(&bad[i]);
    }
    bad[0].max_split_bytes = 20 * MIB - 1;
    bad[1].max_non_split_rounding_bytes = MIB;
    bad[2].garbage_collection_threshold = 1;
    bad[3].roundup_divisions[3] = 6;
    for (size_t i = 0; i < 4; i++) {
        pl_allocator *a = NULL;
        ck_assert_int_eq(pl_torch_native_ops.create(torch.dev, &bad[i], &a), PLEAT_ECONF);
        ck_assert_ptr_null(a);
    }
    torch_close();
}
END_TEST

/* ---- destroy --------------------------------------------------------------------------------- */

START_TEST(destroy_refuses_while_blocks_live_and_changes_nothing)
{
    torch_get(MIB, 0);
    pleat_devptr ptr = torch_get(30 * MIB, 1);
    size_t n_live = 0;
    size_t n_leaked = 0;
    ck_assert_int_eq(torch.a->ops->destroy(torch.a, false, &n_live, &n_leaked), PLEAT_EBUSY);
    ck_assert_uint_eq(n_live, 2);
    torch_assert_sound();
    torch_put(ptr);
    torch_get(MIB, 2);
}
END_TEST

START_TEST(destroy_reports_what_the_driver_would_not_take)
{
    torch_put(torch_get(MIB, 0));
    torch_get(30 * MIB, 0);
    size_t n_live = 0;
    size_t n_leaked = 0;
    torch.sim.fail_from("cuMemFree", 0, UNKNOWN);
    ck_assert_int_eq(torch.a->ops->destroy(torch.a, true, &n_live, &n_leaked), PLEAT_OK);
    torch.sim.fail_never();
    ck_assert_uint_eq(n_live, 1);
    ck_assert_uint_eq(n_leaked, 2);
    pleat_sim_counts counts;
    ck_assert_int_eq(torch.sim.count(-1, &counts), 0);
    ck_assert_uint_eq(counts.allocations, 2);
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
    torch_assert_sound();
}

static void step_put(scenario *s, size_t slot, unsigned stream)
{
    if (!s->p[slot]) {
        return;
    }
    pleat_stats before = torch_stats();
    pleat_status st = torch.a->ops->free(torch.a, s->p[slot], torch.streams[stream]);
    note(s, st, &before);
    if (st == PLEAT_OK) {
        s->p[slot] = 0;
    }
    torch_assert_sound();
}

static void step_record(scenario *s, size_t slot, unsigned stream)
{
    if (s->p[slot]) {
        pleat_stats before = torch_stats();
        note(s, torch.a->ops->record_stream(torch.a, s->p[slot], torch.streams[stream]), &before);
    }
}

static void step_trim(scenario *s)
{
    uint64_t released = 0;
    pleat_stats before = torch_stats();
    note(s, torch.a->ops->trim(torch.a, 0, true, &released), &before);
    torch_assert_sound();
}

/* Grow, split, use on two streams, free across streams, retry with a full device, trim. */
static void run_scenario(scenario *s)
{
    *s = (scenario){ .n_failures = 0 };
    step_get(s, 0, 1000, 0);
    step_get(s, 1, 4 * MIB, 0);
    step_get(s, 2, 4 * MIB, 0);
    step_record(s, 1, 1);
    step_record(s, 1, 2);
    step_put(s, 1, 0);
    step_get(s, 3, 30 * MIB, 1);
    step_put(s, 3, 2);
    step_get(s, 4, 70 * MIB, 2);
    step_put(s, 2, 0);
    step_get(s, 5, 24 * MIB, 0);
    step_put(s, 4, 2);
    step_trim(s);
    for (size_t slot = 0; slot < N_SLOTS; slot++) {
        step_put(s, slot, 0);
    }
}

/* After a fault the same works, and the rest is freed. */
static void recover(scenario *s)
{
    torch_put(torch_get(512, 0));
    for (size_t slot = 0; slot < N_SLOTS; slot++) {
        if (s->p[slot]) {
            torch_put(s->p[slot]);
        }
    }
    trim(0);
    torch_get(100 * MIB, 0);
    ck_assert_uint_eq(reserved(), 100 * MIB);
}

static void fail_driver(bool ever_after, int code)
{
    for (uint64_t k = 0;; k++) {
        torch_open("capacity:100M", NULL);
        (ever_after ? torch.sim.fail_from : torch.sim.fail_at)(NULL, k, code);
        scenario s;
        run_scenario(&s);
        bool is_over = torch.sim.n_faults() == 0;
        ck_assert(!is_over || s.n_failures == 0);
        torch.sim.fail_never();
        recover(&s);
        (ever_after ? torch_close_after_failed_undo : torch_close)();
        if (is_over) {
            ck_assert_uint_gt(k, 20);
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
    for (uint64_t k = 0;; k++) {
        torch_open("capacity:100M", NULL);
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
            ck_assert_uint_gt(k, 10);
            return;
        }
    }
}

START_TEST(any_one_host_allocation_may_fail)
{
    fail_host(pl_host_fail_at);
}
END_TEST

START_TEST(all_host_allocations_from_any_on_may_fail)
{
    fail_host(pl_host_fail_from);
}
END_TEST

START_TEST(a_failed_creation_leaves_nothing)
{
    torch_open("capacity:100M", NULL);
    pl_allocator_options options;
    pl_allocator_options_init(&options);
    for (uint64_t k = 0;; k++) {
        pl_allocator *a = NULL;
        pl_host_fail_at(k);
        pleat_status st = pl_torch_native_ops.create(torch.dev, &options, &a);
        pl_host_fail_never();
        if (st == PLEAT_OK) {
            size_t n;
            ck_assert_int_eq(a->ops->destroy(a, false, &n, &n), PLEAT_OK);
            ck_assert_uint_gt(k, 0);
            break;
        }
        ck_assert_int_eq(st, PLEAT_ENOMEM_HOST);
        ck_assert_ptr_null(a);
    }
    torch_close();
}
END_TEST

static TCase *make_case(const char *name, void (*open)(void), void (*close)(void))
{
    TCase *tcase = tcase_create(name);
    tcase_add_checked_fixture(tcase, open, close);
    return tcase;
}

static void add_memory(Suite *suite)
{
    TCase *memory = make_case("memory", open_100_mib, torch_close);
    tcase_add_test(memory, everything_unsplit_goes_back_before_the_one_retry);
    tcase_add_test(memory, a_split_segment_stays_whatever_is_free_in_it);
    tcase_add_test(memory, out_of_memory_leaves_everything_as_it_was);
    tcase_add_test(memory, a_segment_goes_back_only_after_the_work_on_it);
    tcase_add_test(memory, over_the_limit_the_driver_is_not_asked);
    tcase_add_test(memory, the_cache_gives_way_to_a_new_limit_and_live_blocks_do_not);
    tcase_add_test(memory, trim_keeps_what_it_is_told_to);
    tcase_add_test(memory, destroy_refuses_while_blocks_live_and_changes_nothing);
    suite_add_tcase(suite, memory);
    TCase *leaks = make_case("leaks", open_100_mib, NULL);
    tcase_add_test(leaks, destroy_reports_what_the_driver_would_not_take);
    suite_add_tcase(suite, leaks);
}

int main(void)
{
    Suite *suite = suite_create("segments_torch_memory");
    add_memory(suite);
    TCase *settings = make_case("settings", NULL, NULL);
    tcase_add_test(settings, with_a_split_limit_one_oversize_block_goes_before_everything_does);
    tcase_add_test(settings, with_a_split_limit_the_largest_blocks_go_until_they_suffice);
    tcase_add_test(settings, old_blocks_are_collected_above_the_threshold);
    tcase_add_test(settings, settings_that_pytorch_refuses_are_refused);
    suite_add_tcase(suite, settings);
    TCase *faults = make_case("faults", NULL, NULL);
    tcase_add_test(faults, any_one_driver_call_may_fail);
    tcase_add_test(faults, all_driver_calls_from_any_on_may_fail);
    tcase_add_test(faults, any_one_host_allocation_may_fail);
    tcase_add_test(faults, all_host_allocations_from_any_on_may_fail);
    tcase_add_test(faults, a_failed_creation_leaves_nothing);
    suite_add_tcase(suite, faults);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
