/* ab.c - `pleat ab`: every allocator x every work x several sizes of the device. */
#include <stdlib.h>
#include <string.h>

#include "bench/ab/judge.h"
#include "bench/ab/meter.h"
#include "bench/ab/moment_rows.h"
#include "bench/ab/reporter.h"
#include "bench/ab/rows.h"
#include "bench/ab/study.h"
#include "bench/ab/tables.h"
#include "bench/ab/workers.h"
#include "bench/base/clock.h"
#include "bench/command/commands.h"
#include "bench/run/timed.h"

enum {
    KEY_MEMORY = 0x500,
    KEY_OUT,
    KEY_JOBS,
    KEY_REPEAT,
    KEY_TIME,
    KEY_FIT,
    KEY_JOB,
    KEY_NO_REPORT
};

enum { MOST_REPEATS = 1000 };

#define STANDARD_MEMORIES "1.02x,1.05x,1.10x,unlimited"

static void parse_memories(struct argp_state *state, const char *list, bench_ab_options *options)
{
    options->n_memories = 0;
    for (const char *p = list;; p++) {
        size_t n = strcspn(p, ",");
        bench_ab_memory *memory = &options->memories[options->n_memories];
        if (options->n_memories == BENCH_MOST_MEMORIES) {
            argp_error(state, "--memory: more than %d sizes", BENCH_MOST_MEMORIES);
            return;
        }
        snprintf(memory->label, sizeof memory->label, "%.*s", (int)n, p);
        if (n >= sizeof memory->label || !bench_memory_parse(memory->label, &memory->memory)) {
            char word[128];
            char why[256];
            snprintf(word, sizeof word, "%.*s", (int)n, p);
            argp_error(state, "--memory: %s", bench_memory_refusal(word, why, sizeof why));
            return;
        }
        for (unsigned i = 0; i < options->n_memories; i++) {
            if (strcmp(options->memories[i].label, memory->label) == 0) {
                argp_error(state, "--memory: '%s' is given twice", memory->label);
                return;
            }
        }
        options->n_memories++;
        p += n;
        if (*p == '\0') {
            return;
        }
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    bench_ab_options *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->common;
        parse_memories(state, STANDARD_MEMORIES, options);
        return 0;
    case KEY_MEMORY:
        parse_memories(state, arg, options);
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
    case KEY_NO_REPORT:
        options->has_report = false;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* clang-format off */
static const struct argp_option options_list[] = {
    { .name = "memory", .key = KEY_MEMORY, .arg = "LIST",
      .doc = "Sizes of the device (simulator) or limits of the allocator (CUDA), such as "
             "1.02x,8GiB,unlimited; a ratio is a multiple of the work's peak live bytes "
             "(default: " STANDARD_MEMORIES ", and cards of 24 to 192 GB for the verdict)" },
    { .name = "job", .key = KEY_JOB,
      .doc = "The works are the ranks of one job, which fails if one of them does: one verdict" },
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
      .doc = "Cells at once, in processes of their own (default: 2 on the simulator, 1 on CUDA)" },
    { .name = "no-report", .key = KEY_NO_REPORT, .doc = "Draw no report.html" },
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
        "Ctrl-C ends the measurements; what was measured is written and drawn. Exit status: 0, "
        "also when allocations failed, which is what is measured; 1 if something could not be "
        "measured, a hazard was seen or the report could not be drawn (the results are there); 2 "
        "for bad input or usage; 130 when interrupted.",
};

typedef struct ab {
    bench_ab_plan plan;
    unsigned first; /* cell of the round, in the order of the plan */
    bench_study study;
    bench_meter meter;
    bench_ab_slot *slots; /* shared; one for each job at a time */
    unsigned n_slots;
    bool is_written; /* so far */
    bench_failure failure;
} ab;

/* In the child. */
static void measure(void *context, unsigned job, unsigned slot)
{
    ab *command = context;
    bench_ab_measure(&command->plan, command->plan.order[command->first + job],
                     &command->slots[slot]);
}

/* In the parent: stores the child's result in its cell, so the slot is free for the next one. */
static void take(void *context, unsigned job, unsigned slot_index, const char *why)
{
    ab *command = context;
    bench_ab_slot *slot = &command->slots[slot_index];
    bench_ab_cell *cell = &command->plan.cells[command->plan.order[command->first + job]];
    if (why || !slot->is_ok) {
        cell->state = BENCH_AB_FAILED;
        const char *text = why ? why : slot->failure.text;
        bench_text_clean(text, strlen(text), cell->problem, sizeof cell->problem);
    } else {
        cell->state = BENCH_AB_MEASURED;
        cell->result = slot->result;
        if (cell->kind == BENCH_AB_CARDS) {
            memcpy(cell->cards, slot->cards, sizeof cell->cards);
        }
        if (cell->is_drawn) {
            cell->line = bench_rows_timeline(cell, &slot->timeline);
        } else if (cell->kind == BENCH_AB_PEAK || cell->kind == BENCH_AB_FAILURE) {
            cell->line = bench_moment_line(cell, &slot->moment);
        }
    }
    slot->cell = 0;
    slot->parts = 0;
    slot->is_ok = false;
    bench_meter_over(&command->meter, cell);
    if (command->is_written) {
        command->is_written = bench_study_add(&command->study, cell, &command->failure);
    }
}

static void tick(void *context)
{
    ab *command = context;
    bench_meter_tick(&command->meter);
}

/* The cells [first, end) in the order of the plan. */
static bench_workers_end run_round(ab *command, unsigned first, unsigned end)
{
    bench_workers workers = {
        .n_jobs = end - first,
        .n_at_once = command->n_slots,
        .body = measure,
        .ended = take,
        .tick = tick,
        .context = command,
    };
    command->first = first;
    return first == end ? BENCH_WORKERS_DONE : bench_workers_run(&workers, &command->failure);
}

/* Moments that there are not go to the end of the round; returns where they begin. */
static unsigned leave_out_needless(ab *command)
{
    bench_ab_plan *plan = &command->plan;
    unsigned end = plan->moments;
    for (unsigned i = plan->moments; i < plan->n_cells; i++) {
        unsigned cell = plan->order[i];
        if (plan->cells[cell].state == BENCH_AB_NEEDLESS) {
            bench_meter_over(&command->meter, &plan->cells[cell]);
        } else {
            plan->order[i] = plan->order[end];
            plan->order[end++] = cell;
        }
    }
    return end;
}

static bench_workers_end run_cells(ab *command)
{
    bench_ab_plan *plan = &command->plan;
    bench_clock_calibrated(); /* once, for all children */
    bench_meter_start(&command->meter, plan, command->slots, command->n_slots);
    bench_workers_end end = run_round(command, 0, plan->cards);
    if (end == BENCH_WORKERS_DONE) {
        end = run_round(command, plan->cards, plan->moments);
    }
    if (end == BENCH_WORKERS_DONE) {
        bench_ab_plan_moments(plan);
        end = run_round(command, plan->moments, leave_out_needless(command));
    }
    bench_meter_clear(&command->meter);
    if (end == BENCH_WORKERS_FAILED) {
        fprintf(stderr, "pleat: %s\n", command->failure.text);
    }
    return end;
}

static bool print_json(const bench_ab_plan *plan)
{
    bool ok = true;
    for (unsigned i = 0; i < plan->n_replays && ok; i++) {
        const bench_ab_cell *cell = &plan->cells[i];
        ok = cell->state == BENCH_AB_WAITING ||
             bench_output_line(bench_rows_object(plan, cell), stdout);
    }
    return ok; /* if not, the exit tells (bench/base/out.h) */
}

static bool is_good(const bench_ab_cell *cell)
{
    bool is_measured = cell->state == BENCH_AB_MEASURED || cell->state == BENCH_AB_NEEDLESS;
    return is_measured && (cell->kind != BENCH_AB_REPLAY || cell->result.record.hazards == 0);
}

/* Shows the results, complete or not; returns the exit status. */
static int show(ab *command, bool is_interrupted)
{
    const bench_ab_plan *plan = &command->plan;
    int status = BENCH_EXIT_OK;
    for (unsigned i = 0; i < plan->n_cells; i++) {
        status = is_good(&plan->cells[i]) ? status : BENCH_EXIT_FAILED;
    }
    if (!bench_study_finish(&command->study, is_interrupted, &command->failure) ||
        !command->is_written) {
        fprintf(stderr, "pleat: %s\n", command->failure.text);
        status = BENCH_EXIT_FAILED;
    }
    if (plan->options.common.json) {
        status = print_json(plan) ? status : BENCH_EXIT_FAILED;
    } else {
        bench_tables_print(plan);
        bench_judge_print(plan);
    }
    fflush(stdout);
    unsigned n_measured = bench_ab_count(plan, BENCH_AB_MEASURED);
    if (n_measured < plan->n_replays) {
        fprintf(stderr, "pleat: %s%u of %u cells were measured\n",
                is_interrupted ? "interrupted: " : "", n_measured, plan->n_replays);
    }
    if (plan->options.has_report && n_measured > 0) {
        bench_workers_end end = bench_reporter_run(plan->options.out);
        is_interrupted = is_interrupted || end == BENCH_WORKERS_INTERRUPTED;
        status = end == BENCH_WORKERS_DONE ? status : BENCH_EXIT_FAILED;
    }
    if (!plan->options.common.json) {
        printf("\nwritten: %s\n", plan->options.out);
    }
    return is_interrupted ? BENCH_EXIT_INTERRUPTED : status;
}

static int run_study(ab *command)
{
    const bench_ab_plan *plan = &command->plan;
    if (!bench_study_open(&command->study, plan, &command->failure)) {
        fprintf(stderr, "pleat: %s\n", command->failure.text);
        return BENCH_EXIT_USAGE;
    }
    command->is_written = true;
    command->n_slots = plan->options.jobs ? plan->options.jobs
                                          : bench_workers_standard(&plan->setup);
    size_t bytes = command->n_slots * sizeof *command->slots;
    command->slots = bench_shared_create(bytes, &command->failure);
    if (!command->slots) {
        fprintf(stderr, "pleat: %s\n", command->failure.text);
        return BENCH_EXIT_FAILED;
    }
    char banner[192];
    FILE *out = plan->options.common.json ? stderr : stdout;
    fprintf(out, "%s\n", bench_setup_banner(&plan->setup, banner, sizeof banner));
    bench_workers_end end = run_cells(command);
    int status = show(command, end == BENCH_WORKERS_INTERRUPTED);
    bench_shared_destroy(command->slots, bytes);
    return end == BENCH_WORKERS_FAILED ? BENCH_EXIT_FAILED : status;
}

int bench_command_ab(int argc, char **argv)
{
    static ab command;
    bench_ab_options options = {
        .out = "ab-report", .repeat = 1, .has_report = true, .has_cards = true
    };
    bench_options_init(&options.common);
    options.common.n_allocators = 0;
    options.common.loops = 0;
    if (!bench_parse(&ab_argp, argc, argv, &options)) {
        return BENCH_EXIT_USAGE;
    }
    if (options.common.loops == 0) {
        options.common.loops = 1;
        options.later_passes = 1;
    }
    int status = BENCH_EXIT_USAGE;
    if (bench_ab_plan_init(&command.plan, &options)) {
        status = run_study(&command);
    }
    bench_ab_plan_fini(&command.plan);
    return status;
}
