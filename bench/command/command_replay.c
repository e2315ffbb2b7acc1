/* command_replay.c - `pleat replay` and `pleat fit`: every work under every allocator. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bench/ab/verdict_recorded.h"
#include "bench/base/size.h"
#include "bench/command/commands.h"
#include "bench/command/parse_options.h"
#include "bench/command/parse_sizes.h"
#include "bench/measure/timed.h"
#include "bench/run/fit.h"
#include "bench/run/output.h"
#include "bench/run/policy.h"

enum {
    KEY_MEMORY = 0x200,
    KEY_CARD,
    KEY_SNAPSHOT,
    KEY_SNAPSHOT_AT,
    KEY_TIMELINE,
    KEY_COMPACT,
    KEY_TIME
};

typedef struct replay_input {
    bench_options *options;
    unsigned *n_timed;
    bench_dump *dump; /* path NULL = none */
    const char **timeline;
    bench_ab_memory *memories; /* BENCH_MOST_MEMORIES */
    unsigned *n_memories;
} replay_input;

/* A snapshot file holds one replay. Refuse further runs. A timeline names a replay by its work and
 * allocator. */
static void check_snapshot(struct argp_state *state, const replay_input *input)
{
    const bench_dump *dump = input->dump;
    if (!dump->path && dump->at != BENCH_DUMP_NATURAL) {
        argp_error(state, "--snapshot-at says when, --snapshot FILE where to: both are needed");
    }
    if (dump->path && (input->options->n_works != 1 || input->options->n_allocators != 1)) {
        argp_error(state, "--snapshot takes one WORK and one --allocator, not %u and %u",
                   input->options->n_works, input->options->n_allocators);
    }
    if ((dump->path || *input->timeline) && *input->n_memories > 1) {
        argp_error(state, "%s takes one size, not %u", dump->path ? "--snapshot" : "--timeline",
                   *input->n_memories);
    }
}

static error_t parse_replay(int key, char *arg, struct argp_state *state)
{
    replay_input *input = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = input->options;
        return 0;
    case KEY_MEMORY:
    case KEY_CARD:
        bench_parse_sizes(state, key == KEY_CARD, arg, input->memories, input->n_memories);
        return 0;
    case KEY_COMPACT:
        input->options->compact = true;
        return 0;
    case KEY_TIME:
        *input->n_timed = bench_number(state, "--time", arg, 0, BENCH_MOST_TIMED);
        return 0;
    case KEY_SNAPSHOT:
        input->dump->path = arg;
        return 0;
    case KEY_SNAPSHOT_AT:
        if (!bench_dump_parse(arg, &input->dump->at)) {
            argp_error(state, "--snapshot-at: '%s' is not peak, end or failure", arg);
        }
        return 0;
    case KEY_TIMELINE:
        *input->timeline = arg;
        return 0;
    case ARGP_KEY_SUCCESS:
        check_snapshot(state, input);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_fit(int key, char *arg, struct argp_state *state)
{
    bench_options *options = state->input;
    (void)arg;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = options;
        return 0;
    case KEY_COMPACT:
        options->compact = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

#define COMPACT_OPTION                                                                             \
    {                                                                                              \
        .name = "compact", .key = KEY_COMPACT,                                                     \
        .doc = "Compact the device (pleat_device_compact) between two iterations of the work; "    \
               "JSON also tells how often, and the bytes won. To compact when a request is about " \
               "to fail: --conf short:compact"                                                     \
    }

static const struct argp_option replay_options[] = {
    { .name = "memory",
      .key = KEY_MEMORY,
      .arg = "LIST",
      .doc = "Memory of the device (simulator) or limit of the allocator (CUDA): sizes, ratios, "
             "unlimited, such as 8GiB,1.05x; a ratio is a multiple of the work's peak live bytes "
             "(default: unlimited)" },
    { .name = "card",
      .key = KEY_CARD,
      .arg = "LIST",
      .doc = "The same by the names of cards, such as 24GB,80GB: what such a card leaves for an "
             "allocator" },
    { .name = "time",
      .key = KEY_TIME,
      .arg = "N",
      .doc = "Replay N times more and show the time of a call in the allocator itself, without the "
             "driver's: of the fastest and of the slowest of these runs (default: 0)" },
    { .name = "snapshot",
      .key = KEY_SNAPSHOT,
      .arg = "FILE",
      .doc = "Record what happens and write a snapshot as PyTorch's, for its viewer: a pickle, or "
             "JSON if FILE ends in .json. One WORK and one --allocator" },
    { .name = "snapshot-at",
      .key = KEY_SNAPSHOT_AT,
      .arg = "peak|end|failure",
      .doc = "When: at the peak of live bytes, at the end, or at the first failed allocation "
             "(default: at that if one fails, else at the peak)" },
    { .name = "timeline",
      .key = KEY_TIMELINE,
      .arg = "FILE",
      .doc = "Write what happens over time as trace events (JSON; gzip if FILE ends in .gz), for "
             "ui.perfetto.dev: memory, driver calls, iterations and refused allocations; a "
             "process for each WORK and allocator" },
    COMPACT_OPTION,
    { 0 },
};

static const struct argp_option fit_options[] = { COMPACT_OPTION, { 0 } };

static const struct argp_child children[] = { { .argp = &bench_common_argp }, { 0 } };

static const struct argp replay_argp = {
    .options = replay_options,
    .parser = parse_replay,
    .children = children,
    .args_doc = "WORK...",
    .doc =
        "Replay runs through allocators.\vWORK is a file, the name of a bundled trace, a published "
        "pattern or a generated run; `pleat works` lists them. Exit status: 0; 1 if an allocation "
        "failed or "
        "a hazard was seen; 2 for bad input or usage.",
};

static const struct argp fit_argp = {
    .options = fit_options,
    .parser = parse_fit,
    .children = children,
    .args_doc = "WORK...",
    .doc = "Find the least device memory in which runs complete.\vWORK is a file, the name of a "
           "bundled trace, a published pattern or a generated run; `pleat works` lists them. Exit "
           "status: 0; 1 if a run "
           "does not even complete in unlimited memory; 2 for bad input or usage.",
};

typedef struct batch {
    bool is_fit;
    unsigned n_timed; /* replay only */
    bench_options options;
    bench_ab_memory memories[BENCH_MOST_MEMORIES]; /* replay only */
    unsigned n_memories;                           /* 1: unlimited, unless asked for */
    bench_setup setup;
    bench_judged judged; /* of a policy of the user's own */
    bench_progress progress;
    bench_dump dump;      /* replay only; path NULL = none */
    const char *timeline; /* replay only; NULL = none */
    bench_tracer tracer;  /* of the timeline */
    bench_work *works;    /* as many as options.n_works */
    bench_failure failure;
} batch;

/* Load all works before the first run, so that a typing error in the last name shows at once. */
static bool load_works(batch *b)
{
    b->works = calloc(b->options.n_works, sizeof *b->works);
    if (!b->works) {
        fputs("pleat: out of host memory\n", stderr);
        return false;
    }
    bool ok = true;
    for (unsigned i = 0; i < b->options.n_works; i++) {
        if (!bench_work_open_showing(b->options.works[i], &b->progress, &b->works[i],
                                     &b->failure)) {
            fprintf(stderr, "pleat: %s\n", b->failure.text);
            ok = false;
        }
    }
    return ok;
}

static void unload_works(batch *b)
{
    for (unsigned i = 0; b->works && i < b->options.n_works; i++) {
        bench_work_close(&b->works[i]);
    }
    free(b->works);
}

static bool measure(batch *b, const bench_work *work, const bench_memory *memory,
                    const char *allocator, bench_record *record)
{
    bench_replay_options options = {
        .setup = &b->setup,
        .allocator = allocator,
        .loops = b->options.loops,
        .compact = b->options.compact,
        .dump = b->dump.path ? &b->dump : NULL,
        .tracer = b->timeline ? &b->tracer : NULL,
        .progress = &b->progress,
    };
    bool is_judged = bench_judged_wants(&b->setup, allocator);
    if (b->is_fit) {
        return bench_fit(work, &options, record, &b->failure) &&
               (!is_judged ||
                bench_judged_run(&b->judged, work, &options, true, record, &b->failure));
    }
    if (memory->kind != BENCH_MEMORY_UNLIMITED) {
        options.memory_bytes = bench_memory_bytes(memory, work->peak_live_bytes,
                                                  b->setup.granule_bytes);
    }
    bench_progress_label(&b->progress, work->n_events * b->options.loops, "%s: %s", allocator,
                         work->name);
    bool ok = bench_replay(work, &options, record, &b->failure);
    options.tracer = NULL;
    ok = ok &&
         (!is_judged || bench_judged_run(&b->judged, work, &options, false, record, &b->failure));
    return ok && bench_timed(work, &options, b->n_timed, record, &b->failure);
}

/* Returns the exit status of one run. */
static int run_one(batch *b, const bench_work *work, const bench_memory *memory,
                   const char *allocator)
{
    bench_record record;
    bool ok = measure(b, work, memory, allocator, &record);
    bench_progress_clear(&b->progress);
    if (!ok) {
        fprintf(stderr, "pleat: %s\n", b->failure.text);
        return BENCH_EXIT_FAILED;
    }
    bench_output_refusals(&record, record.allocator);
    if (b->dump.path && b->dump.taken) {
        fprintf(stderr, "pleat: %s: a snapshot %s\n", b->dump.path, b->dump.taken);
    } else if (b->dump.path) {
        fprintf(stderr, "pleat: %s: not written: no allocation failed\n", b->dump.path);
    }
    if (!b->options.json) {
        bench_output_row(&record);
    } else if (!bench_output_json(&record)) {
        return BENCH_EXIT_USAGE; /* the exit tells (bench/base/out.h) */
    }
    bool is_found = !b->is_fit || record.least_memory_bytes;
    return bench_record_is_clean(&record) && is_found ? BENCH_EXIT_OK : BENCH_EXIT_FAILED;
}

/* First of all: of which works only a part was recorded. */
static void tell_parts(const batch *b)
{
    char text[BENCH_VERDICT_BYTES];
    for (unsigned i = 0; i < b->options.n_works; i++) {
        bench_verdict_recorded(&b->works[i].origin.told, text);
        if (text[0]) {
            fprintf(b->options.json ? stderr : stdout, "%s: recorded in part: %s\n",
                    b->works[i].name, text);
        }
    }
}

/* Returns the exit status of all runs. */
static int run_each(batch *b)
{
    int status = BENCH_EXIT_OK;
    for (unsigned i = 0; i < b->options.n_works; i++) {
        if (!b->options.json && bench_text_columns(b->works[i].name) > BENCH_OUTPUT_NAME) {
            printf("%s\n", b->works[i].name); /* the rows below cut the name */
        }
        unsigned n = b->n_memories * b->options.n_allocators;
        for (unsigned k = 0; k < n; k++) {
            unsigned m = k / b->options.n_allocators;
            int one = run_one(b, &b->works[i], &b->memories[m].memory,
                              b->options.allocators[k % b->options.n_allocators]);
            status = one != BENCH_EXIT_OK ? one : status;
        }
    }
    return status;
}

/* Run the batch, with a timeline if one is wanted. */
static int run_traced(batch *b)
{
    if (b->timeline && !bench_tracer_open(&b->tracer, b->timeline, &b->failure)) {
        fprintf(stderr, "pleat: %s\n", b->failure.text);
        return BENCH_EXIT_FAILED;
    }
    int status = run_each(b);
    if (b->timeline && !bench_tracer_close(&b->tracer, &b->failure)) {
        fprintf(stderr, "pleat: %s\n", b->failure.text);
        status = BENCH_EXIT_FAILED;
    }
    return status;
}

/* An output file must not be one of the works, since it would replace the work. */
static bool spares_works(batch *b, const char *path)
{
    struct stat written;
    struct stat work;
    if (!path || stat(path, &written) != 0) {
        return true;
    }
    for (unsigned i = 0; i < b->options.n_works; i++) {
        if (stat(b->options.works[i], &work) == 0 && work.st_dev == written.st_dev &&
            work.st_ino == written.st_ino) {
            return bench_fail(&b->failure, "%s: is the work itself; name another file", path);
        }
    }
    return true;
}

static int run_all(batch *b)
{
    bench_progress_init(&b->progress);
    if (!spares_works(b, b->timeline) || !spares_works(b, b->dump.path)) {
        fprintf(stderr, "pleat: %s\n", b->failure.text);
        return BENCH_EXIT_USAGE;
    }
    if (!load_works(b)) {
        return BENCH_EXIT_USAGE;
    }
    if (!bench_setup_init(&b->setup, &b->options.target, &b->failure)) {
        fprintf(stderr, "pleat: %s\n", b->failure.text);
        return BENCH_EXIT_USAGE;
    }
    tell_parts(b);
    if (!b->options.json) {
        char banner[192];
        printf("%s\n", bench_setup_banner(&b->setup, banner, sizeof banner));
        bench_output_heading(b->is_fit, b->n_timed > 0);
    }
    int status = run_traced(b);
    bench_judged_print(&b->judged, b->options.json ? stderr : stdout);
    return status;
}

static int run_command(int argc, char **argv, bool is_fit)
{
    batch b = { .is_fit = is_fit, .n_memories = 1 };
    b.memories[0].memory.kind = BENCH_MEMORY_UNLIMITED;
    bench_options_init(&b.options);
    replay_input input = {
        .options = &b.options,
        .n_timed = &b.n_timed,
        .dump = &b.dump,
        .timeline = &b.timeline,
        .memories = b.memories,
        .n_memories = &b.n_memories,
    };
    if (!(is_fit ? bench_parse(&fit_argp, argc, argv, &b.options)
                 : bench_parse(&replay_argp, argc, argv, &input))) {
        return BENCH_EXIT_USAGE;
    }
    int status = run_all(&b);
    unload_works(&b);
    return status;
}

int bench_command_replay(int argc, char **argv)
{
    return run_command(argc, argv, false);
}

int bench_command_fit(int argc, char **argv)
{
    return run_command(argc, argv, true);
}
