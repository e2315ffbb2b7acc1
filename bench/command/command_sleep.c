/* command_sleep.c - `pleat bench sleep`: the speed of a tag's sleep and wake, beside a plain
 * copy's. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/base/out.h"
#include "bench/base/size.h"
#include "bench/command/commands.h"
#include "bench/command/parse_options.h"
#include "bench/measure/sleep.h"
#include "bench/run/output.h"

enum { KEY_BYTES = 0x500, KEY_SMALL, KEY_SLEEP_ROUNDS, KEY_FOLDER, KEY_SLEEP_CSV };
enum { N_LARGE = 8, LEAST_SMALL = 512 };

static const uint64_t least_bytes = UINT64_C(32) << 20;
static const uint64_t most_bytes = UINT64_C(1) << 37; /* most host memory for plain copies */

typedef struct sleep_command {
    bench_options options;
    uint64_t bytes;
    uint64_t small_bytes;
    unsigned n_rounds;
    const char *folder;
    const char *csv_path;
    FILE *csv;
    bench_setup setup;
    bench_progress progress;
    bench_failure failure;
} sleep_command;

/* clang-format off */
static const struct argp_option options_list[] = {
    { .name = "bytes", .key = KEY_BYTES, .arg = "SIZE",
      .doc = "What the tag has: in 8 blocks, then in small ones (default: 1G)" },
    { .name = "small", .key = KEY_SMALL, .arg = "SIZE",
      .doc = "Size of a small block (default: 64K)" },
    { .name = "rounds", .key = KEY_SLEEP_ROUNDS, .arg = "K",
      .doc = "Sleeps and wakes each way, whose least time counts (default: 3)" },
    { .name = "folder", .key = KEY_FOLDER, .arg = "DIR",
      .doc = "Where contents are kept in a file (default: TMPDIR, or else /var/tmp)" },
    { .name = "csv", .key = KEY_SLEEP_CSV, .arg = "PATH",
      .doc = "Write the figures to a file, too" },
    { 0 },
};
/* clang-format on */

static uint64_t parse_size(struct argp_state *state, const char *option, const char *text,
                           uint64_t least, uint64_t most)
{
    uint64_t bytes;
    if (!bench_size_parse(text, &bytes) || bytes < least || bytes > most) {
        char low[32];
        char high[32];
        argp_error(state, "%s: '%s' is not a size from %s to %s", option, text,
                   bench_size_format(least, low, sizeof low),
                   bench_size_format(most, high, sizeof high));
    }
    return bytes;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    sleep_command *c = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &c->options;
        return 0;
    case KEY_BYTES:
        c->bytes = parse_size(state, "--bytes", arg, least_bytes, most_bytes);
        return 0;
    case KEY_SMALL:
        c->small_bytes = parse_size(state, "--small", arg, LEAST_SMALL, least_bytes / N_LARGE);
        return 0;
    case KEY_SLEEP_ROUNDS:
        c->n_rounds = bench_number(state, "--rounds", arg, 1, BENCH_SLEEP_MOST_ROUNDS);
        return 0;
    case KEY_FOLDER:
        c->folder = arg;
        return 0;
    case KEY_SLEEP_CSV:
        c->csv_path = arg;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "'%s': it takes no work", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = { { .argp = &bench_driver_argp }, { 0 } };

static const struct argp sleep_argp = {
    .options = options_list,
    .parser = parse,
    .children = children,
    .doc = "Measure how fast a tag gives its memory back and has it again, with its contents kept "
           "or not, beside the limit: plain copies of as many bytes to page-locked memory of the "
           "host and back.\vTakes place on the simulated GPU unless --driver says otherwise, with "
           "--sim backing:memory. There a copy is one of the host, which also has to zero each new "
           "page: the GB/s say nothing of a GPU. The driver's time is modelled there, and comes on "
           "top. Exit status: 0; 1 if a call failed or a hazard was seen; 2 for bad input or "
           "usage.",
};

static const char *const how_names[BENCH_SLEEP_N_HOWS] = { "discard", "host", "file" };

/* Bytes a nanosecond are GB a second. */
static double rate(uint64_t bytes, double ns)
{
    return ns > 0 ? (double)bytes / ns : 0.0;
}

/* ---- output ---------------------------------------------------------------------------------- */

static void print_heading(const sleep_command *c)
{
    char banner[192];
    char bytes[32];
    printf("%s; a tag of %s, the least of %u rounds\n",
           bench_setup_banner(&c->setup, banner, sizeof banner),
           bench_size_format(c->bytes, bytes, sizeof bytes), c->n_rounds);
    printf("%7s %10s %-8s | %9s %8s %7s %9s | %9s %8s %7s %9s\n", "blocks", "of KiB", "contents",
           "sleep ms", "GB/s", "of copy", "driver ms", "wake ms", "GB/s", "of copy", "driver ms");
}

static void print_call(const bench_sleep_call *call, uint64_t bytes, double limit)
{
    double speed = rate(bytes, call->ns);
    printf(" | %9.3f %8.3f %7.3f %9.3f", call->ns / 1e6, speed, limit > 0 ? speed / limit : 0.0,
           call->driver_ns / 1e6);
}

static void print_json(const sleep_command *c, const bench_sleep_options *o,
                       const bench_sleep_result *r, unsigned how)
{
    const bench_sleep_figures *f = &r->of[how];
    uint64_t bytes = o->n_blocks * o->block_bytes;
    json_t *object = json_object();
    json_object_set_new(object, "bench", json_string("sleep"));
    json_object_set_new(object, "driver", json_string(bench_setup_driver(&c->setup)));
    json_object_set_new(object, "sim", json_string(c->setup.sim));
    json_object_set_new(object, "blocks", json_integer((json_int_t)o->n_blocks));
    json_object_set_new(object, "block_bytes", json_integer((json_int_t)o->block_bytes));
    json_object_set_new(object, "rounds", json_integer(o->n_rounds));
    json_object_set_new(object, "contents", json_string(how_names[how]));
    json_object_set_new(object, "bytes", json_integer((json_int_t)f->bytes));
    json_object_set_new(object, "kept_bytes", json_integer((json_int_t)f->kept_bytes));
    json_object_set_new(object, "sleep_ns", json_real(f->sleep.ns));
    json_object_set_new(object, "sleep_driver_ns", json_real(f->sleep.driver_ns));
    json_object_set_new(object, "sleep_driver_calls",
                        json_integer((json_int_t)f->sleep.n_driver_calls));
    json_object_set_new(object, "wake_ns", json_real(f->wake.ns));
    json_object_set_new(object, "wake_driver_ns", json_real(f->wake.driver_ns));
    json_object_set_new(object, "wake_driver_calls",
                        json_integer((json_int_t)f->wake.n_driver_calls));
    json_object_set_new(object, "copy_bytes", json_integer((json_int_t)bytes));
    json_object_set_new(object, "copy_out_ns", json_integer((json_int_t)r->engine.out_ns));
    json_object_set_new(object, "copy_in_ns", json_integer((json_int_t)r->engine.in_ns));
    json_object_set_new(object, "lock_ns", json_integer((json_int_t)r->engine.lock_ns));
    (void)bench_output_line(object, stdout);
}

static void print_text(const bench_sleep_options *o, const bench_sleep_result *r)
{
    uint64_t bytes = o->n_blocks * o->block_bytes;
    double out = rate(bytes, (double)r->engine.out_ns);
    double in = rate(bytes, (double)r->engine.in_ns);
    for (unsigned how = 0; how < BENCH_SLEEP_N_HOWS; how++) {
        const bench_sleep_figures *f = &r->of[how];
        printf("%7llu %10.1f %-8s", (unsigned long long)o->n_blocks,
               (double)o->block_bytes / 1024.0, how_names[how]);
        print_call(&f->sleep, f->bytes, out);
        print_call(&f->wake, f->bytes, in);
        putchar('\n');
    }
    printf("%18s %-8s | %9.3f %8.3f %17s | %9.3f %8.3f\n", "plain", "copy",
           (double)r->engine.out_ns / 1e6, out, "", (double)r->engine.in_ns / 1e6, in);
    printf("%18s %-8s | %9.3f %8.3f\n", "locking", "the host", (double)r->engine.lock_ns / 1e6,
           rate(bytes, (double)r->engine.lock_ns));
    fflush(stdout);
}

static void write_csv(const sleep_command *c, const bench_sleep_options *o,
                      const bench_sleep_result *r)
{
    for (unsigned how = 0; how < BENCH_SLEEP_N_HOWS; how++) {
        const bench_sleep_figures *f = &r->of[how];
        fprintf(c->csv, "%s,%llu,%llu,%s,%llu,%llu,%.0f,%.0f,%llu,%.0f,%.0f,%llu,%llu,%llu,%llu\n",
                bench_setup_driver(&c->setup), (unsigned long long)o->n_blocks,
                (unsigned long long)o->block_bytes, how_names[how], (unsigned long long)f->bytes,
                (unsigned long long)f->kept_bytes, f->sleep.ns, f->sleep.driver_ns,
                (unsigned long long)f->sleep.n_driver_calls, f->wake.ns, f->wake.driver_ns,
                (unsigned long long)f->wake.n_driver_calls, (unsigned long long)r->engine.out_ns,
                (unsigned long long)r->engine.in_ns, (unsigned long long)r->engine.lock_ns);
    }
}

/* ---- runs ------------------------------------------------------------------------------------ */

static bool run_layout(sleep_command *c, uint64_t n_blocks, uint64_t block_bytes)
{
    bench_sleep_options options = {
        .setup = &c->setup,
        .n_blocks = n_blocks,
        .block_bytes = block_bytes,
        .n_rounds = c->n_rounds,
        .folder = c->folder,
        .progress = &c->progress,
    };
    bench_sleep_result result;
    bench_progress_label(&c->progress, 0, "%llu blocks", (unsigned long long)n_blocks);
    bool ok = bench_sleep(&options, &result, &c->failure);
    bench_progress_clear(&c->progress);
    if (!ok) {
        fprintf(stderr, "pleat: %s\n", c->failure.text);
        return false;
    }
    for (unsigned how = 0; how < BENCH_SLEEP_N_HOWS && c->options.json; how++) {
        print_json(c, &options, &result, how);
    }
    if (!c->options.json) {
        print_text(&options, &result);
    }
    if (c->csv) {
        write_csv(c, &options, &result);
    }
    return true;
}

static const char *any_folder(void)
{
    const char *named = getenv("TMPDIR");
    if (named && named[0] != '\0') {
        return named;
    }
    return access("/var/tmp", W_OK | X_OK) == 0 ? "/var/tmp" : "/tmp";
}

/* Told before the first round, which takes long. */
static bool check_folder(sleep_command *c)
{
    struct stat st;
    bool is_there = stat(c->folder, &st) == 0;
    if (is_there && !S_ISDIR(st.st_mode)) {
        return bench_fail(&c->failure, "--folder: %s: is a file, not a folder", c->folder);
    }
    return (is_there && access(c->folder, W_OK | X_OK) == 0) ||
           bench_fail(&c->failure, "--folder: %s: %s", c->folder, strerror(errno));
}

static bool open_csv(sleep_command *c)
{
    if (!c->csv_path) {
        return true;
    }
    c->csv = fopen(c->csv_path, "w");
    if (!c->csv) {
        return bench_fail(&c->failure, "%s: %s", c->csv_path, strerror(errno));
    }
    fputs("driver,blocks,block_bytes,contents,bytes,kept_bytes,sleep_ns,sleep_driver_ns,"
          "sleep_driver_calls,wake_ns,wake_driver_ns,wake_driver_calls,copy_out_ns,copy_in_ns,"
          "lock_ns\n",
          c->csv);
    return true;
}

static bool close_csv(sleep_command *c)
{
    if (!c->csv) {
        return true;
    }
    return bench_out_close(c->csv, c->csv_path, &c->failure);
}

int bench_command_sleep(int argc, char **argv)
{
    sleep_command c = { .bytes = UINT64_C(1) << 30, .small_bytes = 64 << 10, .n_rounds = 3 };
    bench_options_init(&c.options);
    c.options.target.driver = PL_DRIVER_SIM;
    c.options.target.has_driver = true;
    c.options.target.sim_default = "backing:memory";
    c.options.target.has_own_allocators = true;
    c.folder = any_folder();
    if (!bench_parse(&sleep_argp, argc, argv, &c)) {
        return BENCH_EXIT_USAGE;
    }
    if (!bench_setup_init(&c.setup, &c.options.target, &c.failure) || !check_folder(&c) ||
        !open_csv(&c)) {
        fprintf(stderr, "pleat: %s\n", c.failure.text);
        return BENCH_EXIT_USAGE;
    }
    bench_progress_init(&c.progress);
    if (!c.options.json) {
        print_heading(&c);
    }
    bool ok = run_layout(&c, N_LARGE, c.bytes / N_LARGE) &&
              run_layout(&c, c.bytes / c.small_bytes, c.small_bytes);
    if (!close_csv(&c)) {
        fprintf(stderr, "pleat: %s\n", c.failure.text);
        return BENCH_EXIT_USAGE;
    }
    return ok ? BENCH_EXIT_OK : BENCH_EXIT_FAILED;
}
