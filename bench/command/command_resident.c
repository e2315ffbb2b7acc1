/* command_resident.c - `pleat bench resident`: measures the cost of a free and an allocation. */
#include <jansson.h>
#include <stdio.h>

#include "bench/base/progress.h"
#include "bench/command/commands.h"
#include "bench/command/parse_options.h"
#include "bench/measure/callgrind.h"
#include "bench/measure/resident.h"

enum { KEY_BLOCKS = 0x300, KEY_PAIRS, KEY_SEED, KEY_NO_CALLGRIND, KEY_RESIDENT_ALLOCATOR };
enum { MOST_PAIRS = 100000000, CALLGRIND_PAIRS = 5000 };

typedef struct resident_command {
    bench_options options;
    unsigned n_blocks; /* 0 = not given */
    unsigned n_pairs;
    unsigned seed;
    bool no_callgrind;
    bench_setup setup;
    bench_progress progress;
    bench_failure failure;
} resident_command;

/* clang-format off */
static const struct argp_option options_list[] = {
    { .name = "blocks", .key = KEY_BLOCKS, .arg = "N", .doc = "Free blocks between live ones" },
    { .name = "allocator", .key = KEY_RESIDENT_ALLOCATOR, .arg = "A[,B...]",
      .doc = "Allocators to run (default: pleat,torch-native)" },
    { .name = "pairs", .key = KEY_PAIRS, .arg = "M",
      .doc = "Pairs in each of 20 rounds; the fastest round counts (default: 50000)" },
    { .name = "seed", .key = KEY_SEED, .arg = "N",
      .doc = "Of the sizes and their order (default: 1)" },
    { .name = "no-callgrind", .key = KEY_NO_CALLGRIND, .doc = "Do not count instructions" },
    { 0 },
};
/* clang-format on */

static error_t parse(int key, char *arg, struct argp_state *state)
{
    resident_command *c = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &c->options;
        return 0;
    case KEY_BLOCKS:
        c->n_blocks = bench_number(state, "--blocks", arg, 1, BENCH_RESIDENT_MOST_BLOCKS);
        return 0;
    case KEY_PAIRS:
        c->n_pairs = bench_number(state, "--pairs", arg, 1, MOST_PAIRS);
        return 0;
    case KEY_SEED:
        c->seed = bench_number(state, "--seed", arg, 0, UINT32_MAX - 1);
        return 0;
    case KEY_NO_CALLGRIND:
        c->no_callgrind = true;
        return 0;
    case KEY_RESIDENT_ALLOCATOR:
        bench_parse_allocators(state, arg, &c->options);
        return 0;
    case ARGP_KEY_END:
        if (c->n_blocks == 0) {
            argp_error(state, "--blocks N is missing");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = { { .argp = &bench_driver_argp }, { 0 } };

static const struct argp resident_argp = {
    .options = options_list,
    .parser = parse,
    .children = children,
    .doc =
        "Measure a free and an allocation in resident memory with N free blocks.\vTakes place on "
        "the simulated GPU unless --driver says otherwise: no driver call is made while the "
        "clock runs. Instructions are counted by valgrind, if it is installed.",
};

/* Count instructions per pair in a separate run; negative if the run fails. */
static double count_instructions(resident_command *c, const char *allocator)
{
    char blocks[16];
    char pairs[16];
    char seed[16];
    snprintf(blocks, sizeof blocks, "%u", c->n_blocks);
    snprintf(pairs, sizeof pairs, "%d", CALLGRIND_PAIRS);
    snprintf(seed, sizeof seed, "%u", c->seed);
    const char *arguments[] = { "bench",         "resident",
                                "--blocks",      blocks,
                                "--pairs",       pairs,
                                "--seed",        seed,
                                "--conf",        c->options.target.conf,
                                "--sim",         c->options.target.sim,
                                "--allocator",   allocator,
                                "--driver",      "sim",
                                "--no-callgrind" };
    uint64_t instructions;
    bench_progress_label(&c->progress, 0, "%s: counting instructions", allocator);
    bench_progress_step(&c->progress, 0.5);
    bool ok = bench_callgrind(BENCH_RESIDENT_SYMBOL, arguments,
                              sizeof arguments / sizeof arguments[0], &instructions, &c->failure);
    bench_progress_clear(&c->progress);
    if (!ok) {
        fprintf(stderr, "pleat: no instructions counted: %s\n", c->failure.text);
        return -1.0;
    }
    return (double)instructions / ((double)CALLGRIND_PAIRS * BENCH_RESIDENT_ROUNDS);
}

static void print_json(const resident_command *c, const char *allocator,
                       const bench_resident_result *r, double instructions)
{
    json_t *object = json_object();
    json_object_set_new(object, "bench", json_string("resident"));
    json_object_set_new(object, "allocator", json_string(allocator));
    json_object_set_new(object, "driver", json_string(bench_setup_driver(&c->setup)));
    json_object_set_new(object, "blocks", json_integer(c->n_blocks));
    json_object_set_new(object, "pairs", json_integer(c->n_pairs));
    json_object_set_new(object, "seed", json_integer(c->seed));
    json_object_set_new(object, "ns_per_pair", json_real(r->ns_per_pair));
    json_object_set_new(object, "instructions_per_pair",
                        instructions < 0 ? json_null() : json_real(instructions));
    json_object_set_new(object, "free_blocks_start", json_integer((json_int_t)r->n_free_start));
    json_object_set_new(object, "free_blocks_end", json_integer((json_int_t)r->n_free_end));
    json_object_set_new(object, "live_blocks", json_integer((json_int_t)r->n_live));
    json_object_set_new(object, "live_bytes_start", json_integer((json_int_t)r->live_bytes_start));
    json_object_set_new(object, "live_bytes_end", json_integer((json_int_t)r->live_bytes_end));
    json_object_set_new(object, "driver_calls", json_integer((json_int_t)r->n_driver_calls));
    json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(object);
    putchar('\n');
    fflush(stdout);
}

static void print_row(const char *allocator, const bench_resident_result *r, double instructions)
{
    char count[32] = "not counted";
    if (instructions >= 0) {
        snprintf(count, sizeof count, "%.1f", instructions);
    }
    printf("%-16s %12.1f %22s %12llu %12llu %12llu\n", allocator, r->ns_per_pair, count,
           (unsigned long long)r->n_free_start, (unsigned long long)r->n_free_end,
           (unsigned long long)r->n_live);
    fflush(stdout);
}

static int run_one(resident_command *c, const char *allocator)
{
    bench_resident_options options = {
        .setup = &c->setup,
        .allocator = allocator,
        .n_blocks = c->n_blocks,
        .n_pairs = c->n_pairs,
        .n_rounds = BENCH_RESIDENT_ROUNDS,
        .seed = c->seed,
    };
    bench_resident_result result = { .n_live = 0 };
    bench_progress_label(&c->progress, 0, "%s: measuring", allocator);
    bench_progress_step(&c->progress, 0.0);
    bool ok = bench_resident(&options, &result, &c->failure);
    bench_progress_clear(&c->progress);
    if (!ok) {
        fprintf(stderr, "pleat: %s\n", c->failure.text);
        return BENCH_EXIT_FAILED;
    }
    bool is_sim = bench_setup_is_sim(&c->setup);
    double instructions = c->no_callgrind || !is_sim ? -1.0 : count_instructions(c, allocator);
    if (c->options.json) {
        print_json(c, allocator, &result, instructions);
    } else {
        print_row(allocator, &result, instructions);
    }
    if (result.n_driver_calls) {
        fprintf(stderr, "pleat: %s: %llu driver calls in the measured part\n", allocator,
                (unsigned long long)result.n_driver_calls);
        return BENCH_EXIT_FAILED;
    }
    return BENCH_EXIT_OK;
}

int bench_command_resident(int argc, char **argv)
{
    resident_command c = { .n_pairs = 50000, .seed = 1 };
    bench_options_init(&c.options);
    c.options.allocators[1] = "torch-native";
    c.options.n_allocators = 2;
    c.options.target.driver = PL_DRIVER_SIM;
    c.options.target.has_driver = true;
    if (!bench_parse(&resident_argp, argc, argv, &c)) {
        return BENCH_EXIT_USAGE;
    }
    if (!bench_setup_init(&c.setup, &c.options.target, &c.failure)) {
        fprintf(stderr, "pleat: %s\n", c.failure.text);
        return BENCH_EXIT_USAGE;
    }
    bench_progress_init(&c.progress);
    if (!c.options.json) {
        char banner[192];
        printf("%s; %u free blocks, %d rounds of %u pairs\n",
               bench_setup_banner(&c.setup, banner, sizeof banner), c.n_blocks,
               BENCH_RESIDENT_ROUNDS, c.n_pairs);
        printf("%-16s %12s %22s %12s %12s %12s\n", "allocator", "ns per pair",
               "instructions per pair", "free, start", "free, end", "live");
    }
    int status = BENCH_EXIT_OK;
    for (unsigned i = 0; i < c.options.n_allocators; i++) {
        int one = run_one(&c, c.options.allocators[i]);
        status = one != BENCH_EXIT_OK ? one : status;
    }
    return status;
}
