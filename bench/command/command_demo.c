/* command_demo.c - `pleat demo`: pleat beside PyTorch's classic cache, on recorded runs. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/base/out.h"
#include "bench/base/size.h"
#include "bench/command/commands.h"
#include "bench/command/parse_options.h"
#include "bench/run/demo.h"
#include "bench/run/output.h"

enum { KEY_CSV = 0x400 };

typedef struct demo_command {
    bench_options options;
    const char *csv;
    bench_failure failure;
} demo_command;

static const struct argp_option options_list[] = {
    { .name = "csv", .key = KEY_CSV, .arg = "PATH", .doc = "Write the figures to a file, too" },
    { 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    demo_command *c = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &c->options;
        return 0;
    case KEY_CSV:
        c->csv = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = { { .argp = &bench_driver_argp }, { 0 } };

static const struct argp demo_argp = {
    .options = options_list,
    .parser = parse,
    .children = children,
    .doc = "Replay the bundled recordings of real training and serving runs under pleat and "
           "PyTorch's classic cache (torch-native), side by side, on the GPU if there is one, else "
           "on the simulated one.",
};

static int by_trace(const void *a, const void *b)
{
    const bench_demo_job *x = *(const bench_demo_job *const *)a;
    const bench_demo_job *y = *(const bench_demo_job *const *)b;
    int order = strcmp(x->path, y->path);
    return order ? order : strcmp(x->allocator, y->allocator);
}

static void print_heading(void)
{
    printf("\n%-24s %-13s %11s %13s %6s %12s %6s %11s %11s\n", "", "", "", "peak", "/ peak",
           "least device", "/ peak", "failures", "device");
    printf("%-24s %-13s %11s %13s %6s %12s %6s %11s %11s\n", "trace", "allocator", "peak live",
           "resident", "live", "memory", "live", "at 1.02x", "operations");
}

static void print_row(const bench_demo_job *job)
{
    char live[32];
    char resident[32];
    char least[32] = "none";
    char ratio[16] = "-";
    const bench_record *r = &job->unlimited;
    if (job->fit.least_memory_bytes) {
        bench_size_format(job->fit.least_memory_bytes, least, sizeof least);
        snprintf(ratio, sizeof ratio, "%.3f", job->fit.ratio);
    }
    printf("%-24s %-13s %11s %13s %6.3f %12s %6s %11llu %11llu\n", r->trace, r->allocator,
           bench_size_format(r->peak_live_bytes, live, sizeof live),
           bench_size_format(r->peak_reserved_bytes, resident, sizeof resident),
           bench_output_ratio(r), least, ratio, (unsigned long long)job->tight.oom_count,
           (unsigned long long)bench_record_ops(r));
}

/* Of the jobs of an allocator that were measured. */
typedef struct demo_means {
    double resident; /* geometric means of ratios */
    double least;
    unsigned n_failing; /* at 1.02x */
    unsigned n;
} demo_means;

static demo_means means_of(const bench_demo *demo, const char *allocator)
{
    demo_means m = { .n = 0 };
    for (unsigned i = 0; i < demo->n_jobs; i++) {
        const bench_demo_job *job = &demo->jobs[i];
        if (job->allocator == allocator && job->fit.least_memory_bytes > 0) {
            m.resident += log(bench_output_ratio(&job->unlimited));
            m.least += log(job->fit.ratio);
            m.n_failing += job->tight.oom_count > 0;
            m.n++;
        }
    }
    m.resident = m.n > 0 ? exp(m.resident / m.n) : 0.0;
    m.least = m.n > 0 ? exp(m.least / m.n) : 0.0;
    return m;
}

/* What the table says, and what to type next. */
static void print_end(const demo_means *ours, const demo_means *other)
{
    if (ours->n > 0 && other->n == ours->n) {
        printf(
            "\nOn a device of 1.02 times what lives at most, pleat fails on %u of these %u runs "
            "and "
            "PyTorch's\ndefault on %u; in the mean a run needs %.3f times what lives under pleat, "
            "and %.3f times under\nPyTorch's default.\n",
            ours->n_failing, ours->n, other->n_failing, ours->least, other->least);
        printf("Next, record a run of your own (docs/benchmarks.md), and type: pleat ab "
               "snapshot.pickle\n");
    }
}

static void print_means(const bench_demo *demo)
{
    demo_means means[BENCH_DEMO_N_ALLOCATORS];
    unsigned of_pleat = 0;
    for (unsigned k = 0; k < BENCH_DEMO_N_ALLOCATORS; k++) {
        means[k] = means_of(demo, bench_demo_allocators[k]);
        of_pleat = strcmp(bench_demo_allocators[k], "pleat") == 0 ? k : of_pleat;
        if (means[k].n > 0) {
            printf("%-24s %-13s %11s %13s %6.3f %12s %6.3f   fails at 1.02x on %u of %u\n",
                   "geometric mean", bench_demo_allocators[k], "", "", means[k].resident, "",
                   means[k].least, means[k].n_failing, means[k].n);
        }
    }
    print_end(&means[of_pleat], &means[1 - of_pleat]);
}

static void print_json(const bench_demo_job *job)
{
    const bench_record *r = &job->unlimited;
    bool is_found = job->fit.least_memory_bytes > 0;
    json_t *object = json_pack(
        "{s:s, s:s, s:s, s:I, s:I, s:f, s:o, s:o, s:I, s:I}", "trace", r->trace, "allocator",
        r->allocator, "driver", r->driver, "peak_live_bytes", (json_int_t)r->peak_live_bytes,
        "peak_reserved_bytes", (json_int_t)r->peak_reserved_bytes, "reserved_ratio",
        bench_output_ratio(r), "least_memory_bytes",
        is_found ? json_integer((json_int_t)job->fit.least_memory_bytes) : json_null(), "ratio",
        is_found ? json_real(job->fit.ratio) : json_null(), "failures_at_1.02x",
        (json_int_t)job->tight.oom_count, "device_ops", (json_int_t)bench_record_ops(r));
    json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(object);
    putchar('\n');
}

static void write_csv_row(FILE *file, const bench_demo_job *job)
{
    const bench_record *r = &job->unlimited;
    fprintf(file, "%s,%s,%s,%llu,%llu,%llu,%.6f,", r->trace, r->allocator, r->driver,
            (unsigned long long)r->n_events, (unsigned long long)r->peak_live_bytes,
            (unsigned long long)r->peak_reserved_bytes, bench_output_ratio(r));
    if (job->fit.least_memory_bytes) {
        fprintf(file, "%llu,%.6f,", (unsigned long long)job->fit.least_memory_bytes,
                job->fit.ratio);
    } else {
        fputs(",,", file);
    }
    fprintf(file, "%llu,%llu,%llu,%llu\n", (unsigned long long)job->tight.oom_count,
            (unsigned long long)bench_record_ops(r),
            (unsigned long long)bench_record_ops(&job->tight),
            (unsigned long long)job->tight.host_syncs);
}

static bool write_csv(demo_command *c, bench_demo_job *const *jobs, unsigned n)
{
    FILE *file = fopen(c->csv, "w");
    if (!file) {
        return bench_fail(&c->failure, "%s: %s", c->csv, strerror(errno));
    }
    fputs("trace,allocator,driver,events,peak_live_bytes,peak_reserved_bytes,reserved_ratio,"
          "least_memory_bytes,ratio,failures_at_1.02x,device_ops,device_ops_at_1.02x,"
          "host_syncs_at_1.02x\n",
          file);
    for (unsigned i = 0; i < n; i++) {
        write_csv_row(file, jobs[i]);
    }
    return bench_out_close(file, c->csv, &c->failure);
}

/* The demo shows that the classic cache fails at 1.02x, so an allocation failure is no failure of
 * the demo. A hazard is a failure. */
static bool is_good(const bench_demo_job *job)
{
    if (job->is_failed) {
        fprintf(stderr, "pleat: %s\n", job->failure.text);
        return false;
    }
    if (!job->is_done || job->fit.least_memory_bytes == 0) {
        fprintf(stderr, "pleat: %s, %s: does not complete\n", job->path, job->allocator);
        return false;
    }
    if (job->unlimited.hazards + job->tight.hazards + job->fit.hazards > 0) {
        fprintf(stderr, "pleat: %s, %s: hazards were seen\n", job->path, job->allocator);
        return false;
    }
    return true;
}

static int report(demo_command *c, const bench_demo *demo)
{
    bench_demo_job const *jobs[BENCH_DEMO_MOST_TRACES * BENCH_DEMO_N_ALLOCATORS];
    unsigned n = 0;
    int status = BENCH_EXIT_OK;
    for (unsigned i = 0; i < demo->n_jobs; i++) {
        status = is_good(&demo->jobs[i]) ? status : BENCH_EXIT_FAILED;
        if (demo->jobs[i].is_done && !demo->jobs[i].is_failed) {
            jobs[n++] = &demo->jobs[i];
        }
    }
    qsort(jobs, n, sizeof *jobs, by_trace);
    if (c->options.json) {
        for (unsigned i = 0; i < n; i++) {
            print_json(jobs[i]);
        }
    } else {
        char banner[192];
        printf("%s\n", bench_setup_banner(&demo->setup, banner, sizeof banner));
        print_heading();
        for (unsigned i = 0; i < n; i++) {
            print_row(jobs[i]);
        }
        print_means(demo);
    }
    if (c->csv && !write_csv(c, (bench_demo_job *const *)jobs, n)) {
        fprintf(stderr, "pleat: %s\n", c->failure.text);
        return BENCH_EXIT_USAGE;
    }
    return status;
}

int bench_command_demo(int argc, char **argv)
{
    demo_command c = { .csv = NULL };
    bench_options_init(&c.options);
    c.options.target.has_own_allocators = true;
    if (!bench_parse(&demo_argp, argc, argv, &c)) {
        return BENCH_EXIT_USAGE;
    }
    bench_demo *demo = bench_demo_run(&c.options.target, &c.failure);
    if (!demo) {
        fprintf(stderr, "pleat: %s\n", c.failure.text);
        return BENCH_EXIT_USAGE;
    }
    int status = report(&c, demo);
    bench_demo_free(demo);
    return status;
}
