/* measure_test.c - measuring on the simulator: rows, fitted costs, bounds, faults. */
/* labels: unit fault */
#include <check.h>
#include <string.h>

#include "tests/support/suite.h"
#include "tests/support/vmm/vmm_sim.h"
#include "vmm/tools/measure/measure.h"

#define MIB ((size_t)1 << 20)

static vmm_sim sim;
static pl_device *dev;
static pl_measure_report report;
static const pl_measure_options unhurried = { .most_seconds = 3600 }; /* even on a slow machine */

static void open_with(const char *conf)
{
    vmm_sim_open(&sim, conf);
    dev = vmm_sim_device(&sim, NULL);
}

static void close_all(void)
{
    sim.fail_never();
    vmm_sim_close_device(dev);
    vmm_sim_close(&sim);
}

static const pl_measure_row *find_row(pl_measure_op op, size_t chunk_bytes, unsigned run,
                                      bool is_busy)
{
    for (unsigned i = 0; i < report.n_rows; i++) {
        const pl_measure_row *row = &report.rows[i];
        if (row->op == op && row->chunk_bytes == chunk_bytes && row->run_length == run &&
            row->is_busy == is_busy) {
            return row;
        }
    }
    return NULL;
}

static void assert_near(double value, double wanted)
{
    ck_assert_double_ge(value, wanted * 0.999 - 1e-6);
    ck_assert_double_le(value, wanted * 1.001 + 1e-6);
}

/* ---- what is measured ------------------------------------------------------------------------ */

START_TEST(every_operation_is_measured_at_every_size_that_fits)
{
    open_with("capacity:16G");
    ck_assert_int_eq(pl_measure_run(dev, &unhurried, &report), PLEAT_OK);
    ck_assert_msg(report.is_complete, "%s", report.note);
    ck_assert(report.is_simulated);
    ck_assert_uint_eq(report.granule_bytes, 2 * MIB);
    ck_assert_uint_eq(report.free_bytes, 16384 * MIB);
    static const size_t sizes[] = { 2, 4, 16, 32, 64, 256 };
    static const pl_measure_op ops[] = { PL_MEASURE_CREATE_FRESH, PL_MEASURE_CREATE,
                                         PL_MEASURE_MAP,          PL_MEASURE_ACCESS,
                                         PL_MEASURE_UNMAP,        PL_MEASURE_RELEASE,
                                         PL_MEASURE_MALLOC,       PL_MEASURE_MFREE };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (size_t j = 0; j < sizeof(ops) / sizeof(ops[0]); j++) {
            const pl_measure_row *row = find_row(ops[j], sizes[i] * MIB, 1, false);
            ck_assert_msg(row != NULL, "%s %zu", pl_measure_op_name(ops[j]), sizes[i]);
            ck_assert_uint_gt(row->n_calls, 0);
            ck_assert_double_ge(row->min_us, 0.0);
            ck_assert_double_le(row->min_us, row->p50_us);
            ck_assert_double_le(row->p50_us, row->p90_us);
            ck_assert_double_le(row->p90_us, row->max_us);
        }
    }
    ck_assert_ptr_nonnull(find_row(PL_MEASURE_ACCESS, 2 * MIB, 256, false));
    ck_assert_ptr_nonnull(find_row(PL_MEASURE_EVENT_RECORD, 0, 1, false));
    ck_assert_ptr_nonnull(find_row(PL_MEASURE_ACCESS, 2 * MIB, 16, true));
    close_all();
}
END_TEST

START_TEST(the_fitted_costs_give_the_simulators_own_back)
{
    open_with("capacity:16G");
    ck_assert_int_eq(pl_measure_run(dev, &unhurried, &report), PLEAT_OK);
    /* The fit is exact for any cost file: it predicts every idle row of the run calls. */
    for (unsigned i = 0; i < report.n_rows; i++) {
        const pl_measure_row *row = &report.rows[i];
        const pl_measure_cost *cost = &report.costs[row->op];
        if (row->is_busy || (row->op != PL_MEASURE_ACCESS && row->op != PL_MEASURE_UNMAP &&
                             row->op != PL_MEASURE_MAP && row->op != PL_MEASURE_CREATE)) {
            continue;
        }
        bool is_run = row->op == PL_MEASURE_ACCESS || row->op == PL_MEASURE_UNMAP;
        double granules = (double)row->chunk_bytes * row->run_chunks / (double)(2 * MIB);
        double handles = is_run ? row->run_chunks : 1.0;
        assert_near(cost->per_call_us + cost->per_handle_us * handles +
                        cost->per_granule_us * granules +
                        cost->per_1000_alive_us * row->alive / 1e3,
                    row->mean_us);
        ck_assert_double_ge(cost->per_call_us, 0.0);
        ck_assert_double_ge(cost->per_handle_us, 0.0);
        ck_assert_double_ge(cost->per_granule_us, 0.0);
        ck_assert_uint_gt(cost->n_rows, 1);
    }
    close_all();
}
END_TEST

START_TEST(what_a_creation_costs_by_the_handles_alive_is_told_apart_from_its_bytes)
{
    open_with("capacity:16G,costs:a100");
    ck_assert_int_eq(pl_measure_run(dev, &unhurried, &report), PLEAT_OK);
    const pl_measure_cost *fresh = &report.costs[PL_MEASURE_CREATE_FRESH];
    assert_near(fresh->per_1000_alive_us, 88);
    assert_near(fresh->per_granule_us, 15);
    assert_near(fresh->per_call_us, 0);
    const pl_measure_row *first = find_row(PL_MEASURE_CREATE_FRESH, 2 * MIB, 1, false);
    const pl_measure_row *next = find_row(PL_MEASURE_CREATE_FRESH, 4 * MIB, 1, false);
    assert_near(first->alive, (first->n_calls - 1) / 2.0);
    assert_near(next->alive, first->n_calls + (next->n_calls - 1) / 2.0);
    ck_assert_uint_gt(fresh->most_alive, (unsigned)next->alive);
    assert_near(report.costs[PL_MEASURE_ACCESS].per_1000_alive_us, 0);
    close_all();
}
END_TEST

START_TEST(aliases_are_judged_where_there_are_contents)
{
    open_with("capacity:256M,backing:memory");
    pl_measure_options options = { .most_bytes = 112 * MIB };
    ck_assert_int_eq(pl_measure_run(dev, &options, &report), PLEAT_OK);
    ck_assert_int_eq(report.aliases_coherent, PL_MEASURE_YES);
    ck_assert_uint_gt(report.alias_rounds, 0);
    ck_assert_uint_eq(report.alias_wrong_bytes, 0);
    close_all();
}
END_TEST

START_TEST(aliases_stay_unknown_where_there_are_no_contents)
{
    open_with("capacity:1G,backing:none");
    ck_assert_int_eq(pl_measure_run(dev, &unhurried, &report), PLEAT_OK);
    ck_assert_int_eq(report.aliases_coherent, PL_MEASURE_UNKNOWN);
    ck_assert_uint_eq(report.alias_rounds, 0);
    close_all();
}
END_TEST

START_TEST(without_vmm_whole_allocations_and_events_are_measured)
{
    open_with("capacity:4G,profile:no_vmm");
    ck_assert_int_eq(pl_measure_run(dev, NULL, &report), PLEAT_ENOVMM);
    ck_assert_ptr_nonnull(find_row(PL_MEASURE_MALLOC, 64 * MIB, 1, false));
    ck_assert_ptr_nonnull(find_row(PL_MEASURE_EVENT_QUERY, 0, 1, false));
    ck_assert_ptr_null(find_row(PL_MEASURE_CREATE, 2 * MIB, 1, false));
    ck_assert_uint_eq(report.costs[PL_MEASURE_MAP].n_rows, 0);
    close_all();
}
END_TEST

/* ---- bounds ---------------------------------------------------------------------------------- */

START_TEST(no_more_memory_is_used_than_allowed)
{
    open_with("capacity:4G");
    pl_measure_options options = { .most_bytes = 70 * MIB };
    ck_assert_int_eq(pl_measure_run(dev, &options, &report), PLEAT_OK);
    ck_assert_uint_le(vmm_sim_counted(&sim).peak_physical_bytes, 70 * MIB);
    ck_assert_ptr_nonnull(find_row(PL_MEASURE_CREATE, 4 * MIB, 1, false));
    ck_assert_ptr_null(find_row(PL_MEASURE_CREATE, 16 * MIB, 1, false));
    close_all();
}
END_TEST

START_TEST(a_device_with_hardly_any_memory_is_no_failure)
{
    open_with("capacity:8M");
    ck_assert_int_eq(pl_measure_run(dev, &unhurried, &report), PLEAT_OK);
    ck_assert_ptr_nonnull(find_row(PL_MEASURE_EVENT_RECORD, 0, 1, false));
    ck_assert_ptr_null(find_row(PL_MEASURE_CREATE, 2 * MIB, 1, false));
    close_all();
}
END_TEST

static void count_progress(void *arg, const char *what)
{
    ck_assert_uint_gt(strlen(what), 0);
    ++*(unsigned *)arg;
}

START_TEST(progress_is_told)
{
    open_with("capacity:4G");
    unsigned n_told = 0;
    pl_measure_options options = { .progress = count_progress, .progress_arg = &n_told };
    ck_assert_int_eq(pl_measure_run(dev, &options, &report), PLEAT_OK);
    ck_assert_uint_ge(n_told, 6);
    close_all();
}
END_TEST

/* ---- faults ---------------------------------------------------------------------------------- */

START_TEST(a_fault_at_any_call_ends_it_with_a_note_and_leaves_nothing)
{
    open_with("capacity:1G");
    pl_measure_options options = { .most_bytes = 56 * MIB };
    ck_assert_int_eq(pl_measure_run(dev, &options, &report), PLEAT_OK);
    uint64_t n_calls = vmm_sim_counted(&sim).calls;
    uint64_t n_hit = 1;
    unsigned n_failed = 0;
    for (uint64_t k = 0; n_hit > 0; k += 1 + n_calls / 300) {
        uint64_t before = sim.n_faults();
        sim.fail_at(NULL, k, CU_UNKNOWN);
        pleat_status st = pl_measure_run(dev, &options, &report);
        n_hit = sim.n_faults() - before;
        sim.fail_never();
        ck_assert(st == PLEAT_OK || st == PLEAT_EDRIVER);
        ck_assert(st == PLEAT_OK || report.note[0] != '\0');
        ck_assert(st == PLEAT_OK || !report.is_complete);
        n_failed += st != PLEAT_OK ? 1 : 0;
        if (pl_device_counted(dev).n_undo_failures == 0) {
            vmm_sim_assert_empty(&sim);
        }
    }
    ck_assert_uint_gt(n_failed, 50);
    pl_device_close(dev);
    ck_assert_int_eq(sim.reset("devices:1"), 0);
    ck_assert_int_eq(pl_cu_init(sim.drv, 0), CU_SUCCESS);
    vmm_sim_close(&sim);
}
END_TEST

START_TEST(no_host_memory_is_told_apart)
{
    open_with("capacity:1G");
    for (uint64_t k = 0; k < 2; k++) {
        pl_meta_fail_at(k);
        ck_assert_int_eq(pl_measure_run(dev, NULL, &report), PLEAT_ENOMEM_HOST);
        pl_meta_fail_never();
        ck_assert_uint_eq(report.n_rows, 0);
    }
    close_all();
}
END_TEST

SUITE(vmm_measure)
{
    TCase *what = tcase_create("what is measured");
    tcase_add_test(what, every_operation_is_measured_at_every_size_that_fits);
    tcase_add_test(what, the_fitted_costs_give_the_simulators_own_back);
    tcase_add_test(what, what_a_creation_costs_by_the_handles_alive_is_told_apart_from_its_bytes);
    tcase_add_test(what, aliases_are_judged_where_there_are_contents);
    tcase_add_test(what, aliases_stay_unknown_where_there_are_no_contents);
    tcase_add_test(what, without_vmm_whole_allocations_and_events_are_measured);
    suite_add_tcase(suite, what);
    TCase *bounds = tcase_create("bounds");
    tcase_add_test(bounds, no_more_memory_is_used_than_allowed);
    tcase_add_test(bounds, a_device_with_hardly_any_memory_is_no_failure);
    tcase_add_test(bounds, progress_is_told);
    suite_add_tcase(suite, bounds);
    TCase *faults = tcase_create("faults");
    tcase_add_test(faults, a_fault_at_any_call_ends_it_with_a_note_and_leaves_nothing);
    tcase_add_test(faults, no_host_memory_is_told_apart);
    suite_add_tcase(suite, faults);
}
