/* ab.c - `pleat ab`: every allocator x every work x several sizes of the device. */
#include <stdlib.h>
#include <string.h>

#include "bench/ab/compacted.h"
#include "bench/ab/fleet/merge.h"
#include "bench/ab/fleet/roster.h"
#include "bench/ab/fleet/shard.h"
#include "bench/ab/judge.h"
#include "bench/ab/reporter.h"
#include "bench/ab/rounds.h"
#include "bench/ab/rows.h"
#include "bench/ab/tables.h"
#include "bench/base/cards.h"
#include "bench/base/clock.h"
#include "bench/command/commands.h"
#include "bench/command/parse_options.h"
#include "bench/command/parse_sizes.h"
#include "bench/measure/timed.h"
#include "bench/run/policy.h"

enum {
    KEY_MEMORY = 0x500,
    KEY_CARD,
    KEY_OUT,
    KEY_JOBS,
    KEY_REPEAT,
    KEY_TIME,
    KEY_FIT,
    KEY_JOB,
    KEY_ALL,
    KEY_NO_REPORT,
    KEY_CHARTS,
    KEY_SHARD,
    KEY_MERGE
};

enum { MOST_REPEATS = 1000 };

#define STANDARD_MEMORIES "1.02x,1.05x,1.10x,unlimited"

/* The command's options, fleet options first. */
typedef struct ab_options {
    bench_ab_options of;
    const char *shard;     /* as typed; NULL = none */
    const char *merge;     /* folder; NULL = none */
    const char *measuring; /* an option that is invalid for a merge; NULL = none */
    bench_rank rank;
} ab_options;

static void read_shard(struct argp_state *state, char *arg, ab_options *options)
{
    bench_failure failure;
    options->shard = arg;
    if (!bench_rank_read(arg, &options->rank, &failure)) {
        argp_error(state, "%s", failure.text);
    }
}

/* Check combinations of options. */
static void check(struct argp_state *state, const ab_options *options)
{
    if (options->merge && (options->shard || options->measuring)) {
        argp_error(state,
                   "--merge measures nothing: it goes with --out, --json and --no-report, "
                   "not with %s",
                   options->shard ? "--shard" : options->measuring);
    }
    if (options->of.has_all && options->of.common.n_allocators > 0) {
        argp_error(state, "--all goes without --allocator");
    }
    if (options->shard && options->of.n_timed > 0) {
        argp_error(state, "--time: shards tell no times of the host, since they share machines");
    }
}

static error_t parse_fleet(int key, char *arg, struct argp_state *state, ab_options *options)
{
    switch (key) {
    case KEY_SHARD:
        read_shard(state, arg, options);
        return 0;
    case KEY_MERGE:
        options->merge = arg;
        options->of.common.has_no_work = true;
        return 0;
    case ARGP_KEY_ARGS:
        if (options->merge) {
            argp_error(state, "--merge takes no WORK: the shards name theirs");
        }
        return ARGP_ERR_UNKNOWN;
    case ARGP_KEY_END:
        check(state, options);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void note_measuring(ab_options *options, int key)
{
    static const struct {
        int key;
        const char *name;
    } measuring[] = { { KEY_MEMORY, "--memory" }, { KEY_CARD, "--card" }, { KEY_JOBS, "--jobs" },
                      { KEY_REPEAT, "--repeat" }, { KEY_TIME, "--time" }, { KEY_FIT, "--fit" },
                      { KEY_JOB, "--job" },       { KEY_ALL, "--all" } };
    for (size_t i = 0; i < sizeof measuring / sizeof measuring[0]; i++) {
        options->measuring = key == measuring[i].key ? measuring[i].name : options->measuring;
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    ab_options *all = state->input;
    bench_ab_options *options = &all->of;
    note_measuring(all, key);
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->common;
        bench_parse_sizes(state, false, STANDARD_MEMORIES, options->memories, &options->n_memories);
        return 0;
    case KEY_MEMORY:
    case KEY_CARD:
        bench_parse_sizes(state, key == KEY_CARD, arg, options->memories, &options->n_memories);
        options->has_cards = false;
        return 0;
    case KEY_OUT:
        options->out = arg;
        return 0;
    case KEY_JOBS:
        options->jobs = bench_number(state, "--jobs", arg, 1, BENCH_MOST_WORKERS);
        return 0;
    case KEY_REPEAT:
        options->repeat = bench_number(state, "--repeat", arg, 1, MOST_REPEATS);
        return 0;
    case KEY_TIME:
        options->n_timed = bench_number(state, "--time", arg, 0, BENCH_MOST_TIMED);
        return 0;
    case KEY_FIT:
        options->is_fit = true;
        return 0;
    case KEY_JOB:
        options->is_job = true;
        return 0;
    case KEY_ALL:
        options->has_all = true;
        return 0;
    case KEY_CHARTS:
        options->has_charts = true;
        return 0;
    case KEY_NO_REPORT:
        options->has_report = false;
        return 0;
    default:
        return parse_fleet(key, arg, state, all);
    }
}

/* clang-format off */
static const struct argp_option options_list[] = {
    { .name = "memory", .key = KEY_MEMORY, .arg = "LIST",
      .doc = "Sizes of the device (simulator) or limits of the allocator (CUDA), such as "
             "1.02x,8GiB,unlimited; a ratio is a multiple of the work's peak live bytes "
              "(default: " STANDARD_MEMORIES ", and cards of 8 to 192 GB for the verdict)" },
    { .name = "card", .key = KEY_CARD, .arg = "LIST",
      .doc = "The same by the names of cards, such as 24GB,80GB: what such a card leaves for an "
             "allocator" },
    { .name = "all", .key = KEY_ALL,
      .doc = "Every allocator; without it and --allocator: pleat, torch-native, torch-expandable, "
             "and the recorded run's own" },
    { .name = "job", .key = KEY_JOB,
      .doc = "The works are the ranks of one job, which fails if one of them does: one verdict. "
             "With --shard those of one folder are one job, which the merge judges" },
    { .name = "out", .key = KEY_OUT, .arg = "DIR",
      .doc = "Where the results (CSV, JSON lines) and report.html go "
             "(default: ab-report)" },
    { .name = "fit", .key = KEY_FIT,
      .doc = "Search the least device memory in which each work completes, too" },
    { .name = "repeat", .key = KEY_REPEAT, .arg = "N",
      .doc = "Run each cell N times: medians and spread of its times (default: 1)" },
    { .name = "time", .key = KEY_TIME, .arg = "N",
      .doc = "Replay each cell N times more and show the time of a call in the allocator itself, "
             "without the driver's, of the fastest run; --jobs 1 is best (default: 0)" },
    { .name = "jobs", .key = KEY_JOBS, .arg = "N",
      .doc = "Cells at once, in processes of their own (default: 2 on the simulator, 1 on CUDA; of "
             "a shard 1)" },
    { .name = "charts",
      .key = KEY_CHARTS,
      .doc = "Write each chart of the report as SVG and PDF, with its numbers as CSV, into the "
             "folder charts of --out" },
    { .name = "no-report", .key = KEY_NO_REPORT, .doc = "Draw no report.html" },
    { .name = "shard", .key = KEY_SHARD, .arg = "K/N|auto|auto/N",
      .doc = "Measure part K of N (0 to N-1) of the works into a file in --out; go on where a "
             "killed process of that part stopped; auto: K and N as Open MPI, PMI or Slurm set "
             "them in the environment; auto/N: K of an indexed job of Kubernetes" },
    { .name = "merge", .key = KEY_MERGE, .arg = "DIR",
      .doc = "Make rows, verdicts and a page for all from the shards in DIR; --out is DIR "
             "unless it is given" },
    { 0 },
};
/* clang-format on */

static const struct argp_child children[] = { { .argp = &bench_common_argp }, { 0 } };

static const struct argp ab_argp = {
    .options = options_list,
    .parser = parse,
    .children = children,
    .args_doc = "WORK...",
    .doc =
        "Compare allocators: each one, with each run, on devices of several sizes.\v"
        "WORK is a file (also a memory snapshot of PyTorch), the name of a bundled trace, a "
        "published pattern or a generated run; `pleat works` lists them. Example:\n\n"
        "  pleat ab snapshot.pickle --allocator pleat,torch-native --fit\n\n"
        "More works than one machine has time for, and the page of all; docs/fleet.md has a "
        "command "
        "for Slurm, MPI, Kubernetes and GNU parallel. A quoted pattern of files is found here:\n\n"
        "  srun -n 256 pleat ab 'jobs/*.pickle' --shard auto --out fleet\n"
        "  pleat ab --merge fleet\n\n"
        "Ctrl-C ends the measurements; what was measured is written and drawn. Exit status: 0, "
        "also when allocations failed, which is what is measured; 1 if something could not be "
        "measured, a hazard was seen or the report could not be drawn (the results are there); 2 "
        "for bad input or usage; 130 when interrupted.",
};

typedef struct ab {
    bench_ab_plan plan;
    bench_study study;
    bench_meter meter;
    bench_rounds rounds;
} ab;

static bool print_json(const bench_ab_plan *plan)
{
    bool ok = true;
    for (unsigned i = 0; i < plan->n_replays && ok; i++) {
        const bench_ab_cell *cell = &plan->cells[i];
        bench_ab_cell beside;
        ok = cell->state == BENCH_AB_WAITING ||
             (bench_output_line(bench_rows_object(plan, cell), stdout) &&
              (!bench_compacted_row(plan, cell, &beside) ||
               bench_output_line(bench_rows_object(plan, &beside), stdout)));
    }
    return ok; /* if not, the exit tells (bench/base/out.h) */
}

/* Name what somebody opens next. */
static void say_written(const char *folder, bool is_drawn)
{
    printf("\nwritten: %s%s\n", folder, is_drawn ? "/report.html" : "");
}

/* A policy of the user's own beside pleat's, in the replays that were measured. */
static bool judge_policy(const bench_ab_plan *plan, bench_failure *failure)
{
    bench_judged judged = { .n = 0 };
    for (unsigned i = 0; i < plan->n_replays; i++) {
        const bench_ab_cell *cell = &plan->cells[i];
        bench_replay_options options = { .setup = &plan->setup,
                                         .allocator = cell->allocator,
                                         .memory_bytes = cell->memory_bytes,
                                         .loops = plan->options.common.loops };
        if (cell->state == BENCH_AB_MEASURED && bench_judged_wants(&plan->setup, cell->allocator) &&
            !bench_judged_run(&judged, cell->work, &options, false, &cell->result.record,
                              failure)) {
            return false;
        }
    }
    bench_judged_print(&judged, plan->options.common.json ? stderr : stdout);
    return true;
}

/* Shows the results, complete or not; returns the exit status. */
static int show(ab *command, bool is_interrupted)
{
    const bench_ab_plan *plan = &command->plan;
    int status = BENCH_EXIT_OK;
    for (unsigned i = 0; i < plan->n_cells; i++) {
        status = bench_rounds_is_good(&plan->cells[i]) ? status : BENCH_EXIT_FAILED;
    }
    bench_failure *failure = &command->rounds.failure;
    if (!bench_study_finish(&command->study, is_interrupted, failure) ||
        !command->rounds.is_written) {
        fprintf(stderr, "pleat: %s\n", failure->text);
        status = BENCH_EXIT_FAILED;
    }
    if (plan->options.common.json) {
        status = print_json(plan) ? status : BENCH_EXIT_FAILED;
    } else {
        bench_tables_print(plan);
        bench_judge_print(plan);
    }
    if (!is_interrupted && !judge_policy(plan, failure)) {
        fprintf(stderr, "pleat: %s\n", failure->text);
        status = BENCH_EXIT_FAILED;
    }
    fflush(stdout);
    unsigned n_measured = bench_ab_count(plan, BENCH_AB_MEASURED);
    if (n_measured < plan->n_replays) {
        fprintf(stderr, "pleat: %s%u of %u cells were measured\n",
                is_interrupted ? "interrupted: " : "", n_measured, plan->n_replays);
    }
    bool is_drawn = false;
    if (plan->options.has_report && n_measured > 0) {
        bench_workers_end end = bench_reporter_run(plan->options.out, "report.py",
                                                   plan->options.has_charts ? "--charts" : NULL);
        is_drawn = end == BENCH_WORKERS_DONE;
        is_interrupted = is_interrupted || end == BENCH_WORKERS_INTERRUPTED;
        status = end == BENCH_WORKERS_DONE ? status : BENCH_EXIT_FAILED;
    }
    if (!plan->options.common.json) {
        say_written(plan->options.out, is_drawn);
    }
    return is_interrupted ? BENCH_EXIT_INTERRUPTED : status;
}

static int run_study(ab *command)
{
    bench_ab_plan *plan = &command->plan;
    bench_rounds *rounds = &command->rounds;
    *rounds = (bench_rounds){
        .plan = plan, .meter = &command->meter, .study = &command->study, .is_written = true
    };
    if (!bench_study_open(&command->study, plan, &rounds->failure)) {
        fprintf(stderr, "pleat: %s\n", rounds->failure.text);
        return BENCH_EXIT_USAGE;
    }
    rounds->n_slots = plan->options.jobs ? plan->options.jobs
                                         : bench_workers_standard(&plan->setup);
    size_t bytes = rounds->n_slots * sizeof *rounds->slots;
    rounds->slots = bench_shared_create(bytes, &rounds->failure);
    if (!rounds->slots) {
        fprintf(stderr, "pleat: %s\n", rounds->failure.text);
        return BENCH_EXIT_FAILED;
    }
    char banner[192];
    FILE *out = plan->options.common.json ? stderr : stdout;
    fprintf(out, "%s\n", bench_setup_banner(&plan->setup, banner, sizeof banner));
    bench_clock_calibrated(); /* once, for all children */
    bench_workers_end end = bench_rounds_run(rounds);
    if (end == BENCH_WORKERS_FAILED) {
        fprintf(stderr, "pleat: %s\n", rounds->failure.text);
    }
    int status = show(command, end == BENCH_WORKERS_INTERRUPTED);
    bench_shared_destroy(rounds->slots, bytes);
    return end == BENCH_WORKERS_FAILED ? BENCH_EXIT_FAILED : status;
}

static int run_shard(const ab_options *options)
{
    bool is_usage;
    FILE *say = options->of.common.json ? stderr : stdout;
    switch (bench_shard_run(&options->of, &options->rank, say, &is_usage)) {
    case BENCH_WORKERS_DONE:
        return BENCH_EXIT_OK; /* mpirun would end all ranks because of one bad snapshot */
    case BENCH_WORKERS_INTERRUPTED:
        return BENCH_EXIT_INTERRUPTED;
    case BENCH_WORKERS_FAILED:
        break;
    }
    return is_usage ? BENCH_EXIT_USAGE : BENCH_EXIT_FAILED;
}

static int run_merge(const ab_options *options)
{
    bench_failure failure;
    bench_merged merged;
    const char *out = options->of.out ? options->of.out : options->merge;
    bool has_json = options->of.common.json;
    if (!bench_merge(options->merge, out, has_json, &merged, &failure)) {
        fprintf(stderr, "pleat: %s\n", failure.text);
        return BENCH_EXIT_USAGE;
    }
    fflush(stdout);
    int status = BENCH_EXIT_OK;
    if (merged.n_problems > 0) {
        fprintf(stderr, "pleat: %u of %u works could not be measured whole: fleet.json tells why\n",
                merged.n_problems, merged.n_works);
        status = BENCH_EXIT_FAILED;
    }
    bool is_drawn = false;
    if (options->of.has_report) {
        bench_workers_end end = bench_reporter_run(out, "fleet.py", NULL);
        is_drawn = end == BENCH_WORKERS_DONE;
        status = end == BENCH_WORKERS_INTERRUPTED ? BENCH_EXIT_INTERRUPTED
                 : end == BENCH_WORKERS_FAILED    ? BENCH_EXIT_FAILED
                                                  : status;
    }
    if (!has_json) {
        say_written(out, is_drawn);
    }
    return status;
}

static void fill_standard(bench_ab_options *options)
{
    options->out = options->out ? options->out : "ab-report";
    if (options->common.loops == 0) {
        options->common.loops = 1;
        options->later_passes = 1;
    }
}

/* Shards name the allocators that they measured, for any works. Some may be in force under
 * cuda-async. */
static void name_allocators(bench_ab_options *options)
{
    if (options->common.n_allocators == 0) {
        bench_ab_name_allocators(options);
        bench_ab_add_allocator(&options->common, "cuda-async");
    }
}

int bench_command_ab(int argc, char **argv)
{
    static ab command;
    ab_options options = { .of = { .repeat = 1, .has_report = true, .has_cards = true } };
    bench_options *common = &options.of.common;
    bench_options_init(common);
    common->n_allocators = 0;
    common->loops = 0;
    if (!bench_parse(&ab_argp, argc, argv, &options)) {
        return BENCH_EXIT_USAGE;
    }
    if (options.merge) {
        return run_merge(&options);
    }
    fill_standard(&options.of);
    common->works = bench_roster_expand(common->works, &common->n_works);
    if (!common->works) {
        fputs("pleat: out of host memory\n", stderr);
        return BENCH_EXIT_USAGE;
    }
    if (options.shard) {
        name_allocators(&options.of);
        return run_shard(&options);
    }
    int status = BENCH_EXIT_USAGE;
    if (bench_ab_plan_init(&command.plan, &options.of)) {
        status = run_study(&command);
    }
    bench_ab_plan_fini(&command.plan);
    return status;
}
