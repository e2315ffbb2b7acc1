/* command_tail.c - `pleat bench tail`: measures single calls, above all the longest ones. */
#include <stdlib.h>

#include "bench/command/commands.h"
#include "bench/command/parse_options.h"
#include "bench/measure/tail.h"
#include "bench/run/output.h"

enum { KEY_TAIL_BLOCKS = 0x400, KEY_ROUNDS, KEY_TAIL_ALLOCATOR };

typedef struct tail_command {
    bench_options options;
    unsigned n_blocks;
    unsigned n_rounds;
    bench_setup setup;
    bench_progress progress;
    bench_failure failure;
} tail_command;

/* clang-format off */
static const struct argp_option options_list[] = {
    { .name = "allocator", .key = KEY_TAIL_ALLOCATOR, .arg = "A[,B...]",
      .doc = "Allocators to run (default: pleat,torch-native)" },
    { .name = "blocks", .key = KEY_TAIL_BLOCKS, .arg = "N",
      .doc = "Blocks in a pattern (default: 10000)" },
    { .name = "rounds", .key = KEY_ROUNDS, .arg = "K",
      .doc = "Runs whose least time counts, call by call (default: 3)" },
    { 0 },
};
/* clang-format on */

static error_t parse(int key, char *arg, struct argp_state *state)
{
    tail_command *c = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &c->options;
        return 0;
    case KEY_TAIL_ALLOCATOR:
        bench_parse_allocators(state, arg, &c->options);
        return 0;
    case KEY_TAIL_BLOCKS:
        c->n_blocks = bench_number(state, "--blocks", arg, BENCH_TAIL_LEAST_BLOCKS,
                                   BENCH_TAIL_MOST_BLOCKS);
        return 0;
    case KEY_ROUNDS:
        c->n_rounds = bench_number(state, "--rounds", arg, 1, BENCH_TAIL_MOST_ROUNDS);
        return 0;
    case ARGP_KEY_ARGS:
        c->options.works = state->argv + state->next;
        c->options.n_works = (unsigned)(state->argc - state->next);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = { { .argp = &bench_driver_argp }, { 0 } };

static const struct argp tail_argp = {
    .options = options_list,
    .parser = parse,
    .children = children,
    .args_doc = "[PATTERN|WORK]...",
    .doc = "Measure how long single calls take: the median, the rare long ones, the longest, and "
           "the longest time for which others were kept from the device.\vPatterns: alternating, "
           "runs, places, uses, pool, statistics (default: all). WORK is what `pleat replay` "
           "takes. Times are the allocator's own, without the driver's. Takes place on the "
           "simulated GPU unless --driver says otherwise. Exit status: 0; 1 if a call failed that "
           "may not; 2 for bad input or usage.",
};

static void print_json(const tail_command *c, const bench_script *script, const char *allocator,
                       unsigned kind, const bench_tail_figures *f)
{
    json_t *object = json_object();
    json_object_set_new(object, "bench", json_string("tail"));
    json_object_set_new(object, "script", json_string(script->name));
    json_object_set_new(object, "allocator", json_string(allocator));
    json_object_set_new(object, "driver", json_string(bench_setup_driver(&c->setup)));
    json_object_set_new(object, "blocks", json_integer(c->n_blocks));
    json_object_set_new(object, "rounds", json_integer(c->n_rounds));
    json_object_set_new(object, "call", json_string(bench_tail_kind(kind)));
    json_object_set_new(object, "calls", json_integer((json_int_t)f->n_calls));
    json_object_set_new(object, "failed", json_integer((json_int_t)f->n_failed));
    json_object_set_new(object, "p50_ns", json_real(f->p50));
    json_object_set_new(object, "p99_ns", json_real(f->p99));
    json_object_set_new(object, "p99_9_ns", json_real(f->p99_9));
    json_object_set_new(object, "max_ns", json_real(f->most));
    json_object_set_new(object, "max_step", json_integer((json_int_t)f->worst_step));
    json_object_set_new(object, "max_driver_calls",
                        json_integer((json_int_t)f->worst_driver_calls));
    json_object_set_new(object, "driver_max_ns", json_real(f->most_driver));
    json_object_set_new(object, "longest_hold_ns", json_real(f->longest_hold));
    (void)bench_output_line(object, stdout);
}

static void print_row(const bench_script *script, const char *allocator, unsigned kind,
                      const bench_tail_figures *f)
{
    printf("%-18.18s %-16s %-10s %9llu %7llu %9.0f %9.0f %9.0f %11.0f %11.0f %11.0f\n",
           script->name, allocator, bench_tail_kind(kind), (unsigned long long)f->n_calls,
           (unsigned long long)f->n_failed, f->p50, f->p99, f->p99_9, f->most, f->longest_hold,
           f->most_driver);
    fflush(stdout);
}

static bool run_one(tail_command *c, const bench_script *script, const char *allocator)
{
    bench_tail_options options = {
        .setup = &c->setup,
        .allocator = allocator,
        .script = script,
        .n_rounds = c->n_rounds,
        .progress = &c->progress,
    };
    bench_tail_result result;
    bench_progress_label(&c->progress, 0, "%s, %s", script->name, allocator);
    bool ok = bench_tail(&options, &result, &c->failure);
    bench_progress_clear(&c->progress);
    if (!ok) {
        fprintf(stderr, "pleat: %s\n", c->failure.text);
        return false;
    }
    if (result.is_left_out) {
        fprintf(stderr, "pleat: %s is left out: %s has no private pools\n", script->name,
                allocator);
        return true;
    }
    for (unsigned kind = 0; kind < BENCH_N_MEASURED; kind++) {
        if (result.of[kind].n_calls == 0) {
            continue;
        }
        if (c->options.json) {
            print_json(c, script, allocator, kind, &result.of[kind]);
        } else {
            print_row(script, allocator, kind, &result.of[kind]);
        }
    }
    return true;
}

static int run_script(tail_command *c, const char *spec)
{
    bench_script script;
    if (!bench_script_open(spec, c->n_blocks, &script, &c->failure)) {
        fprintf(stderr, "pleat: %s\n", c->failure.text);
        return BENCH_EXIT_USAGE;
    }
    int status = BENCH_EXIT_OK;
    for (unsigned i = 0; i < c->options.n_allocators; i++) {
        if (!run_one(c, &script, c->options.allocators[i])) {
            status = BENCH_EXIT_FAILED;
        }
    }
    bench_script_close(&script);
    return status;
}

static void print_heading(const tail_command *c)
{
    char banner[192];
    printf("%s; patterns of %u blocks, the least of %u runs, in ns\n",
           bench_setup_banner(&c->setup, banner, sizeof banner), c->n_blocks, c->n_rounds);
    printf("%-18s %-16s %-10s %9s %7s %9s %9s %9s %11s %11s %11s\n", "pattern or work", "allocator",
           "call", "calls", "failed", "p50", "p99", "p99.9", "max", "longest hold", "driver max");
}

int bench_command_tail(int argc, char **argv)
{
    tail_command c = { .n_blocks = 10000, .n_rounds = 3 };
    bench_options_init(&c.options);
    c.options.allocators[1] = "torch-native";
    c.options.n_allocators = 2;
    c.options.target.driver = PL_DRIVER_SIM;
    c.options.target.has_driver = true;
    argp_parse(&tail_argp, argc, argv, 0, NULL, &c);
    if (!bench_setup_init(&c.setup, &c.options.target, &c.failure)) {
        fprintf(stderr, "pleat: %s\n", c.failure.text);
        return BENCH_EXIT_USAGE;
    }
    bench_progress_init(&c.progress);
    if (!c.options.json) {
        print_heading(&c);
    }
    int status = BENCH_EXIT_OK;
    const char *name;
    for (unsigned i = 0; c.options.n_works == 0 && (name = bench_script_pattern(i)); i++) {
        int one = run_script(&c, name);
        status = one > status ? one : status;
    }
    for (unsigned i = 0; i < c.options.n_works; i++) {
        int one = run_script(&c, c.options.works[i]);
        status = one > status ? one : status;
    }
    return status;
}
