/* probe_report.c - prints the results of `pleat probe`: as a table, as JSON, as the simulator's
 * cost file. */
#include "bench/command/probe_report.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <time.h>

#include "bench/base/out.h"
#include "bench/base/size.h"

static const char *driver_version(const pl_measure_report *report, char *out, size_t n)
{
    snprintf(out, n, "%d.%d", report->driver_version / 1000, report->driver_version % 1000 / 10);
    return out;
}

static const char *alias_text(const pl_measure_report *report)
{
    switch (report->aliases_coherent) {
    case PL_MEASURE_YES:
        return "coherent";
    case PL_MEASURE_NO:
        return "NOT coherent";
    case PL_MEASURE_UNKNOWN:
        break;
    }
    return report->is_simulated ? "not measured (backing:memory keeps contents)" : "not measured";
}

static void print_head(const bench_probe *probe)
{
    const pl_measure_report *report = &probe->report;
    char version[16];
    char size[3][32];
    printf("%s%s\n", report->is_simulated ? "SIMULATED GPU: " : "GPU: ", report->gpu);
    printf("  driver            %s\n", driver_version(report, version, sizeof version));
    printf("  kernel            %s\n", probe->kernel);
    printf("  memory            %s, %s free\n",
           bench_size_format(report->total_bytes, size[0], sizeof size[0]),
           bench_size_format(report->free_bytes, size[1], sizeof size[1]));
    printf("  virtual memory    %s\n", probe->verdict);
    if (probe->has_vmm) {
        printf("  granule           %s, recommended %s\n",
               bench_size_format(report->granule_bytes, size[0], sizeof size[0]),
               bench_size_format(report->recommended_bytes, size[2], sizeof size[2]));
        printf("  aliases           %s (%u rounds, %u wrong bytes)\n", alias_text(report),
               report->alias_rounds, report->alias_wrong_bytes);
    }
    if (report->is_simulated) {
        printf(
            "  times             of the simulator's cost clock: nothing was measured on a GPU\n");
    }
}

static void print_rows(const pl_measure_report *report, bool is_busy)
{
    printf("\n%s\n", is_busy ? "While memsets run on another stream:" : "On an idle GPU:");
    printf("  %-22s %10s %5s %6s %9s %9s %9s %9s %9s %9s", "operation", "chunk", "run", "calls",
           "mean us", "min", "median", "90 %", "first", "last");
    printf(is_busy ? " %9s %7s\n" : "\n", "stall us", "waited");
    for (unsigned i = 0; i < report->n_rows; i++) {
        const pl_measure_row *row = &report->rows[i];
        if (row->is_busy != is_busy) {
            continue;
        }
        char chunk[32] = "-";
        if (row->chunk_bytes) {
            bench_size_format(row->chunk_bytes, chunk, sizeof chunk);
        }
        printf("  %-22s %10s %5u %6u %9.2f %9.2f %9.2f %9.2f %9.2f %9.2f",
               pl_measure_op_name(row->op), chunk, row->run_length, row->n_calls, row->mean_us,
               row->min_us, row->p50_us, row->p90_us, row->first_us, row->last_us);
        if (is_busy) {
            printf(" %9.2f %3u/%u", row->stall_us, row->n_waited, row->n_calls);
        }
        putchar('\n');
    }
}

static void print_costs(const pl_measure_report *report)
{
    printf("\nFitted: microseconds = per call + per handle x handles + per granule x granules\n"
           "                       + per 1,000 alive x thousands of handles alive\n");
    printf("  %-22s %12s %12s %12s %15s\n", "operation", "per call", "per handle", "per granule",
           "per 1,000 alive");
    for (int i = 0; i < PL_MEASURE_N_OPS; i++) {
        const pl_measure_cost *cost = &report->costs[i];
        if (cost->n_rows) {
            printf("  %-22s %12.3f %12.3f %12.3f %15.3f\n", pl_measure_op_name((pl_measure_op)i),
                   cost->per_call_us, cost->per_handle_us, cost->per_granule_us,
                   cost->per_1000_alive_us);
        }
    }
}

void bench_probe_print(const bench_probe *probe)
{
    const pl_measure_report *report = &probe->report;
    print_head(probe);
    if (report->n_rows) {
        print_rows(report, false);
        print_rows(report, true);
        print_costs(report);
    }
    printf("\n%.1f s", report->elapsed_s);
    printf(report->is_complete ? "\n" : "; not complete: %s\n", report->note);
}

static json_t *row_object(const pl_measure_row *row)
{
    json_t *object = json_object();
    json_object_set_new(object, "operation", json_string(pl_measure_op_name(row->op)));
    json_object_set_new(object, "call", json_string(pl_measure_op_symbol(row->op)));
    json_object_set_new(object, "chunk_bytes", json_integer((json_int_t)row->chunk_bytes));
    json_object_set_new(object, "run_chunks", json_integer(row->run_chunks));
    json_object_set_new(object, "run_length", json_integer(row->run_length));
    json_object_set_new(object, "calls", json_integer(row->n_calls));
    json_object_set_new(object, "busy", json_boolean(row->is_busy));
    json_object_set_new(object, "alive", json_real(row->alive));
    json_object_set_new(object, "mean_us", json_real(row->mean_us));
    json_object_set_new(object, "min_us", json_real(row->min_us));
    json_object_set_new(object, "p50_us", json_real(row->p50_us));
    json_object_set_new(object, "p90_us", json_real(row->p90_us));
    json_object_set_new(object, "max_us", json_real(row->max_us));
    json_object_set_new(object, "first_us", json_real(row->first_us));
    json_object_set_new(object, "last_us", json_real(row->last_us));
    json_object_set_new(object, "stall_us", json_real(row->stall_us));
    json_object_set_new(object, "waited", json_integer(row->n_waited));
    json_object_set_new(object, "during", json_integer(row->n_during));
    return object;
}

static json_t *costs_object(const pl_measure_report *report)
{
    json_t *object = json_object();
    for (int i = 0; i < PL_MEASURE_N_OPS; i++) {
        const pl_measure_cost *cost = &report->costs[i];
        if (cost->n_rows) {
            json_object_set_new(object, pl_measure_op_name((pl_measure_op)i),
                                json_pack("{s:f, s:f, s:f, s:f, s:i}", "per_call_us",
                                          cost->per_call_us, "per_handle_us", cost->per_handle_us,
                                          "per_granule_us", cost->per_granule_us,
                                          "per_1000_alive_us", cost->per_1000_alive_us,
                                          "most_alive", cost->most_alive));
        }
    }
    return object;
}

static void set_head(json_t *object, const bench_probe *probe)
{
    const pl_measure_report *report = &probe->report;
    char version[16];
    json_object_set_new(object, "gpu", json_string(report->gpu));
    json_object_set_new(object, "driver", json_string(report->is_simulated ? "sim" : "cuda"));
    json_object_set_new(object, "driver_version",
                        json_string(driver_version(report, version, sizeof version)));
    json_object_set_new(object, "kernel", json_string(probe->kernel));
    json_object_set_new(object, "vmm", json_boolean(probe->has_vmm));
    json_object_set_new(object, "verdict", json_string(probe->verdict));
    json_object_set_new(object, "granule_bytes", json_integer((json_int_t)report->granule_bytes));
    json_object_set_new(object, "recommended_bytes",
                        json_integer((json_int_t)report->recommended_bytes));
    json_object_set_new(object, "total_bytes", json_integer((json_int_t)report->total_bytes));
    json_object_set_new(object, "free_bytes", json_integer((json_int_t)report->free_bytes));
}

void bench_probe_print_json(const bench_probe *probe)
{
    const pl_measure_report *report = &probe->report;
    json_t *object = json_object();
    set_head(object, probe);
    json_object_set_new(object, "aliases", json_string(alias_text(report)));
    json_object_set_new(object, "alias_rounds", json_integer(report->alias_rounds));
    json_object_set_new(object, "alias_wrong_bytes", json_integer(report->alias_wrong_bytes));
    json_object_set_new(object, "busy_work_us", json_real(report->busy_work_us));
    json_object_set_new(object, "elapsed_s", json_real(report->elapsed_s));
    json_object_set_new(object, "complete", json_boolean(report->is_complete));
    json_object_set_new(object, "note", json_string(report->note));
    json_object_set_new(object, "costs", costs_object(report));
    json_t *rows = json_array();
    for (unsigned i = 0; i < report->n_rows; i++) {
        json_array_append_new(rows, row_object(&report->rows[i]));
    }
    json_object_set_new(object, "rows", rows);
    json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(object);
    putchar('\n');
}

/* The file's keys live and live_most stand together, and neither is 0. */
static void write_cost_line(FILE *file, pl_measure_op op, const pl_measure_cost *cost)
{
    fprintf(file, "%s call %.3f handle %.3f granule %.3f mib 0", pl_measure_op_symbol(op),
            cost->per_call_us, cost->per_handle_us, cost->per_granule_us);
    if (cost->per_1000_alive_us >= 0.001 && cost->most_alive > 0) {
        fprintf(file, " live %.3f live_most %u", cost->per_1000_alive_us, cost->most_alive);
    }
    putc('\n', file);
}

static void write_cost_lines(FILE *file, const bench_probe *probe)
{
    const pl_measure_report *report = &probe->report;
    char version[16];
    char date[32] = "";
    time_t now = time(NULL);
    struct tm day;
    if (gmtime_r(&now, &day)) {
        strftime(date, sizeof date, "%Y-%m-%d", &day);
    }
    fprintf(file, "# What driver calls cost; written by pleat probe.\n");
    fprintf(file, "gpu %s\n", report->gpu);
    fprintf(file, "source pleat probe %s, driver %s, %s\n", date,
            driver_version(report, version, sizeof version), probe->kernel);
    for (int i = 0; i < PL_MEASURE_N_OPS; i++) {
        const pl_measure_cost *cost = &report->costs[i];
        bool is_fresh_too = i == PL_MEASURE_CREATE &&
                            report->costs[PL_MEASURE_CREATE_FRESH].n_rows > 0;
        if (cost->n_rows && !is_fresh_too) {
            write_cost_line(file, (pl_measure_op)i, cost);
        }
    }
}

bool bench_probe_write_costs(const bench_probe *probe, const char *path, bench_failure *failure)
{
    FILE *file = fopen(path, "w");
    if (!file) {
        return bench_fail(failure, "%s: %s", path, strerror(errno));
    }
    write_cost_lines(file, probe);
    return bench_out_close(file, path, failure);
}
