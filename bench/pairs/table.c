/* table.c - the figures of `pleat bench pairs` as tables or as JSON lines. */
#include "bench/pairs/table.h"

#include "bench/run/output.h"

void bench_table_begin(bench_table *table, bool is_json, unsigned n_runs, unsigned n_rounds)
{
    *table = (bench_table){ .is_json = is_json };
    if (!is_json) {
        const char *version = bench_torch_version();
        printf("SIMULATED GPU (as asked for)%s%s; ns, the least of %u runs of %u rounds\n",
               version ? "; PyTorch " : "", version ? version : "", n_runs, n_rounds);
    }
}

/* PyTorch's row with the same kind of stream, or any, or NULL. */
static const bench_cell_figures *torch_of(const bench_cell_result *result,
                                          const bench_through_kind *const *kinds, unsigned n_kinds,
                                          unsigned row)
{
    const bench_cell_figures *found = NULL;
    for (unsigned i = 0; i < n_kinds; i++) {
        bool is_same = kinds[i]->stream == kinds[row]->stream;
        if (kinds[i]->is_torch && !result->rows[i].is_left_out && (!found || is_same)) {
            found = &result->rows[i];
        }
    }
    return found;
}

/* Further values of a row; negative = not known. */
typedef struct extra {
    double ratio;
    double speed_up;
    double instructions;
} extra;

static json_t *real_or_null(bool is_known, double value)
{
    return is_known ? json_real(value) : json_null();
}

static void print_json(const bench_cell_result *result, const bench_through_kind *kind,
                       const bench_scenario *scenario, const bench_cell_figures *f, const extra *e)
{
    bool is_crowd = scenario->kind == BENCH_SCENARIO_THREADS;
    json_t *o = json_object();
    json_object_set_new(o, "bench", json_string("pairs"));
    json_object_set_new(o, "scenario", json_string(result->name));
    json_object_set_new(o, "through", json_string(kind->name));
    json_object_set_new(o, "unit", json_string(result->is_events ? "event" : "pair"));
    json_object_set_new(o, "threads", json_integer(scenario->n_threads));
    json_object_set_new(o, "units", json_integer((json_int_t)result->n_units));
    json_object_set_new(o, "rounds", json_integer(result->n_rounds));
    json_object_set_new(o, "ns", json_real(f->ns));
    json_object_set_new(o, "ratio_to_torch", real_or_null(e->ratio >= 0, e->ratio));
    json_object_set_new(o, "wall_ns", real_or_null(is_crowd, f->wall_ns));
    json_object_set_new(o, "speed_up", real_or_null(e->speed_up >= 0, e->speed_up));
    json_object_set_new(o, "instructions", real_or_null(e->instructions >= 0, e->instructions));
    json_object_set_new(o, "p50_ns", real_or_null(f->has_calls, f->p50));
    json_object_set_new(o, "p99_ns", real_or_null(f->has_calls, f->p99));
    json_object_set_new(o, "p99_9_ns", real_or_null(f->has_calls, f->p99_9));
    json_object_set_new(o, "longest_call_ns", real_or_null(f->has_calls, f->longest_call));
    json_object_set_new(o, "longest_hold_ns",
                        real_or_null(f->has_calls && f->longest_hold >= 0, f->longest_hold));
    json_object_set_new(o, "driver_calls",
                        f->n_driver_calls >= 0 ? json_integer(f->n_driver_calls) : json_null());
    (void)bench_output_line(o, stdout);
}

static void print_heading(const bench_scenario *scenario, const bench_cell_result *result)
{
    const char *unit = result->is_events ? "event" : "pair";
    char one[32];
    snprintf(one, sizeof one, "ns %s %s", result->is_events ? "an" : "a", unit);
    printf("\n%-24.60s %11s %9s", result->name, one, "to torch");
    if (scenario->kind == BENCH_SCENARIO_THREADS) {
        printf(" %9s %9s\n", "wall ns", "speed-up");
    } else {
        printf(" %12s %8s %8s %8s %12s %12s\n", "instructions", "p50", "p99", "p99.9",
               "longest call", "longest hold");
    }
}

/* A number, or a dash if the number is not known. */
static void print_cell(int width, int places, bool is_known, double value)
{
    if (is_known) {
        printf(" %*.*f", width, places, value);
    } else {
        printf(" %*s", width, "-");
    }
}

static void print_row(const bench_scenario *scenario, const bench_through_kind *kind,
                      const bench_cell_figures *f, const extra *e)
{
    printf("  %-22s", kind->name);
    if (f->is_left_out) {
        printf(" %11s\n", "-");
        return;
    }
    print_cell(11, 1, true, f->ns);
    print_cell(9, 2, e->ratio >= 0, e->ratio);
    if (scenario->kind == BENCH_SCENARIO_THREADS) {
        print_cell(9, 1, true, f->wall_ns);
        print_cell(9, 2, e->speed_up >= 0, e->speed_up);
    } else {
        print_cell(12, 1, e->instructions >= 0, e->instructions);
        print_cell(8, 0, f->has_calls, f->p50);
        print_cell(8, 0, f->has_calls, f->p99);
        print_cell(8, 0, f->has_calls, f->p99_9);
        print_cell(12, 0, f->has_calls, f->longest_call);
        print_cell(12, 0, f->has_calls && f->longest_hold >= 0, f->longest_hold);
    }
    putchar('\n');
}

void bench_table_add(bench_table *table, const bench_scenario *scenario,
                     const bench_cell_result *result, const bench_through_kind *const *kinds,
                     unsigned n_kinds, const double *instructions)
{
    if (!table->is_json) {
        print_heading(scenario, result);
    }
    for (unsigned i = 0; i < n_kinds; i++) {
        const bench_cell_figures *f = &result->rows[i];
        const bench_cell_figures *torch = torch_of(result, kinds, n_kinds, i);
        double *single_wall_ns = &table->single_wall_ns[scenario->is_hot][i];
        if (scenario->kind == BENCH_SCENARIO_THREADS && scenario->n_threads == 1) {
            *single_wall_ns = f->wall_ns;
        }
        bool has_single = scenario->kind == BENCH_SCENARIO_THREADS && *single_wall_ns > 0;
        extra e = {
            .ratio = torch ? f->ns / torch->ns : -1.0,
            .speed_up = has_single ? *single_wall_ns / f->wall_ns : -1.0,
            .instructions = instructions[i],
        };
        if (!table->is_json) {
            print_row(scenario, kinds[i], f, &e);
        } else if (!f->is_left_out) {
            print_json(result, kinds[i], scenario, f, &e);
        }
    }
    fflush(stdout);
}
