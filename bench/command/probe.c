/* probe.c - `pleat probe`: checks whether virtual memory management works on this machine, and
 * measures the cost. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "bench/base/progress.h"
#include "bench/command/commands.h"
#include "bench/command/parse_options.h"
#include "bench/command/probe_report.h"
#include "bench/run/setup.h"

enum { KEY_COST_FILE = 0x500, KEY_SECONDS, KEY_DEVICE };

typedef struct probe_command {
    bench_options options;
    const char *cost_file;
    unsigned seconds;
    unsigned device;
    bench_setup setup;
    bench_progress progress;
    bench_failure failure;
    bench_probe probe;
} probe_command;

/* clang-format off */
static const struct argp_option options_list[] = {
    { .name = "cost-file", .key = KEY_COST_FILE, .arg = "PATH",
      .doc = "Where to write the simulator's cost file (default on a real GPU: NAME.cost in "
             "this folder; on the simulated one none is written)" },
    { .name = "seconds", .key = KEY_SECONDS, .arg = "N", .doc = "At most so long (default: 60)" },
    { .name = "device", .key = KEY_DEVICE, .arg = "N", .doc = "Number of the GPU (default: 0)" },
    { 0 },
};
/* clang-format on */

static error_t parse(int key, char *arg, struct argp_state *state)
{
    probe_command *c = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &c->options;
        return 0;
    case KEY_COST_FILE:
        c->cost_file = arg;
        return 0;
    case KEY_SECONDS:
        c->seconds = bench_number(state, "--seconds", arg, 1, 3600);
        return 0;
    case KEY_DEVICE:
        c->device = bench_number(state, "--device", arg, 0, 63);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = { { .argp = &bench_driver_argp }, { 0 } };

static const struct argp probe_argp = {
    .options = options_list,
    .parser = parse,
    .children = children,
    .doc = "Find out whether the device can map memory, and measure what the driver's calls cost, "
           "alone and beside running work.\vExit status: 0; 1 if virtual memory management does "
           "not work, with the reason; 2 for bad usage.",
};

static void read_kernel(bench_probe *probe)
{
    struct utsname name;
    if (uname(&name) == 0) {
        snprintf(probe->kernel, sizeof probe->kernel, "%.60s %.60s %.60s", name.sysname,
                 name.release, name.machine);
    }
}

static void show_progress(void *context, const char *what)
{
    bench_progress *progress = context;
    bench_progress_label(progress, 0, "probe: %s", what);
    bench_progress_step(progress, 0.0);
}

/* "NVIDIA H100 80GB HBM3" -> "nvidia-h100-80gb-hbm3.cost" */
static void default_cost_file(const char *gpu, char *out, size_t n)
{
    size_t used = 0;
    for (; *gpu != '\0' && used + 16 < n; gpu++) {
        if (isalnum((unsigned char)*gpu)) {
            out[used++] = (char)tolower((unsigned char)*gpu);
        } else if (used > 0 && out[used - 1] != '-') {
            out[used++] = '-';
        }
    }
    snprintf(out + used, n - used, ".cost");
}

static bool write_costs(probe_command *c)
{
    char own[192];
    const char *path = c->cost_file;
    if (!path) {
        if (c->probe.report.is_simulated) {
            return true;
        }
        default_cost_file(c->probe.report.gpu, own, sizeof own);
        path = own;
    }
    bool ok = bench_probe_write_costs(&c->probe, path, &c->failure);
    fprintf(stderr, "%s%s\n", ok ? "costs written to " : "pleat: ", ok ? path : c->failure.text);
    return ok;
}

/* PLEAT_OK when something could be measured, even without virtual memory management. */
static pleat_status measure(probe_command *c, pl_device *dev)
{
    bench_probe *probe = &c->probe;
    char why[sizeof probe->verdict] = "";
    probe->has_vmm = pl_device_probe(dev, why, sizeof why) == PLEAT_OK;
    snprintf(probe->verdict, sizeof probe->verdict, "%s", probe->has_vmm ? "works" : why);
    pl_measure_options options = { .most_seconds = c->seconds };
    if (c->progress.is_terminal) {
        options.progress = show_progress;
        options.progress_arg = &c->progress;
    }
    pleat_status st = pl_measure_run(dev, &options, &probe->report);
    bench_progress_clear(&c->progress);
    return st == PLEAT_ENOVMM ? PLEAT_OK : st;
}

static int report(probe_command *c, pleat_status measured)
{
    if (c->options.json) {
        bench_probe_print_json(&c->probe);
    } else {
        bench_probe_print(&c->probe);
    }
    if (!c->probe.has_vmm) {
        fprintf(stderr, "pleat: virtual memory management does not work on %s: %s\n",
                c->probe.report.gpu, c->probe.verdict);
        return BENCH_EXIT_FAILED;
    }
    if (measured != PLEAT_OK) {
        fprintf(stderr, "pleat: the measurement failed: %s\n", pleat_status_text(measured));
        return BENCH_EXIT_FAILED;
    }
    return write_costs(c) ? BENCH_EXIT_OK : BENCH_EXIT_FAILED;
}

static int run(probe_command *c)
{
    pl_driver *drv;
    pl_device *dev;
    pl_device_options device_options = c->setup.config.device; /* as --conf has memory created */
    device_options.chunk_granules = 1;
    pleat_status st = pl_driver_open(c->setup.config.driver, NULL, &drv);
    if (st == PLEAT_OK) {
        st = pl_device_open(drv, (int)c->device, &device_options, &dev);
        if (st != PLEAT_OK) {
            pl_driver_close(drv);
        }
    }
    if (st != PLEAT_OK) {
        fprintf(stderr, "pleat: device %u: %s %s\n", c->device, pleat_status_text(st),
                pl_driver_last_error()->detail);
        return BENCH_EXIT_USAGE;
    }
    int status = report(c, measure(c, dev));
    size_t n_left = pl_device_close(dev);
    if (n_left) {
        fprintf(stderr, "pleat: %zu driver objects could not be given back\n", n_left);
        status = BENCH_EXIT_FAILED;
    }
    pl_driver_close(drv);
    return status;
}

int bench_command_probe(int argc, char **argv)
{
    probe_command *c = calloc(1, sizeof *c);
    if (!c) {
        fputs("pleat: out of host memory\n", stderr);
        return BENCH_EXIT_FAILED;
    }
    bench_options_init(&c->options);
    c->options.target.has_own_allocators = true;
    int status = BENCH_EXIT_USAGE;
    if (!bench_parse(&probe_argp, argc, argv, c)) {
        free(c);
        return status;
    }
    bench_progress_init(&c->progress);
    read_kernel(&c->probe);
    if (bench_setup_init(&c->setup, &c->options.target, &c->failure)) {
        status = run(c);
    } else {
        fprintf(stderr, "pleat: %s\n", c->failure.text);
    }
    free(c);
    return status;
}
