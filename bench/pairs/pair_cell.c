/* pair_cell.c - one scenario through all rows. */
#include "bench/pairs/pair_cell.h"

#include <stdlib.h>
#include <string.h>

#include "api/calls/internal.h"
#include "bench/base/clock.h"
#include "bench/measure/quantile.h"
#include "bench/pairs/crowd.h"
#include "bench/pairs/loops.h"
#include "bench/run/workers.h"
#include "vmm/tools/measure/measure_work.h"

enum {
    WARM_ROUNDS = 4,
    WORK_WARM_ROUNDS = 1, /* the whole run */
    COUNT_WARM_ROUNDS = 2,
    LARGE_BLOCKS = 1 << 17, /* more need more than 8 TiB, in all rows together */
    LEAST_ROUNDS = 2,
    N_SPARE = 64, /* room for the largest and the largest small size to be drawn */
    LARGEST_BYTES = 69632 * 512,
    SMALL_BYTES = 2048 * 512,
};

#define NOT_MEASURED 1e30

/* Shared by the processes of a cell. */
typedef struct board {
    bench_cell_result result;
    bench_failure failure;
    bool is_failed;   /* or under way */
    const char *row;  /* the running row, for the message about a crash */
    size_t n_samples; /* of a row; 0 = none */
    bench_sample samples[];
} board;

typedef struct cell {
    const bench_cell_options *options;
    bench_failure *failure;
    board *board;
    bench_course *course;
    void **streams;
    void **no_streams;
    bench_row rows[BENCH_THROUGH_MOST];
    unsigned n_rounds;
} cell;

/* A row with the legacy stream has only that stream. In a work, such a row runs everything on
 * it. */
static bool takes(const cell *c, unsigned i)
{
    return c->course->events || c->course->n_streams <= 1 ||
           c->options->kinds[i]->stream != BENCH_THROUGH_LEGACY;
}

static bool say(const cell *c, unsigned i, const char *what)
{
    return bench_through_say(&c->rows[i].through, what, c->failure);
}

/* ---- getting ready --------------------------------------------------------------------------- */

static bool make_streams(cell *c)
{
    static pl_work work; /* for the life of the process */
    uint32_t n = c->course->n_streams;
    c->streams = calloc(n, sizeof *c->streams);
    c->no_streams = calloc(n, sizeof *c->no_streams);
    if (!c->streams || !c->no_streams) {
        return bench_fail(c->failure, "out of host memory");
    }
    pleat_status st = pl_work_open(&work, PL_DRIVER_SIM, 0);
    for (uint32_t i = 0; i < n && st == PLEAT_OK; i++) {
        st = pl_work_stream_create(&work, &c->streams[i]);
    }
    return st == PLEAT_OK || bench_fail(c->failure, "cannot create streams on the simulator: %s",
                                        pl_driver_last_error()->text);
}

/* Thread t has the t-th part of the slots and of the streams. */
static void *stream_of(const cell *c, const bench_row *row, uint32_t slot)
{
    uint32_t each = c->course->n_slots / c->course->scenario->n_threads;
    bool is_threads = c->course->scenario->n_threads > 1;
    uint32_t stream = is_threads ? slot / each : slot;
    return row->streams[stream % c->course->n_streams];
}

static bool fill(const cell *c, bench_row *row)
{
    const bench_through *through = &row->through;
    pleat_devptr spare[2 * N_SPARE];
    bool ok = true;
    for (unsigned i = 0; i < 2 * N_SPARE && ok; i++) {
        uint64_t bytes = i < N_SPARE ? LARGEST_BYTES : SMALL_BYTES;
        spare[i] = through->alloc(through, bytes, row->streams[0]);
        ok = spare[i] != 0;
    }
    for (uint32_t i = 0; i < c->course->n_slots && ok; i++) {
        bench_place *place = &row->places[i];
        place->stream = stream_of(c, row, i);
        place->ptr = through->alloc(through, c->course->first_bytes[i], place->stream);
        ok = place->ptr != 0;
    }
    for (unsigned i = 0; i < 2 * N_SPARE && ok; i++) {
        ok = through->release(through, spare[i], row->streams[0]);
    }
    return ok;
}

static bool open_row(cell *c, unsigned i)
{
    bench_row *row = &c->rows[i];
    const bench_through_kind *kind = c->options->kinds[i];
    c->board->row = kind->name;
    bool has_streams = kind->stream == BENCH_THROUGH_CREATED || kind->stream == BENCH_THROUGH_USED;
    row->streams = has_streams ? c->streams : c->no_streams;
    row->places = calloc(c->course->n_slots, sizeof *row->places);
    if (!row->places) {
        return bench_fail(c->failure, "out of host memory");
    }
    if (!bench_through_open(kind, &row->through, c->failure)) {
        return false;
    }
    return !c->course->first_bytes || fill(c, row) || say(c, i, "an allocation failed");
}

static bool warm(cell *c, unsigned n_rounds)
{
    for (unsigned round = 0; round < n_rounds; round++) {
        bench_course_draw(c->course);
        for (unsigned i = 0; i < c->options->n_kinds; i++) {
            c->board->row = c->options->kinds[i]->name;
            for (unsigned t = 0; takes(c, i) && t < c->course->scenario->n_threads; t++) {
                if (!bench_loop_warm(&c->rows[i], c->course, t)) {
                    return say(c, i, "a request failed");
                }
            }
        }
    }
    return true;
}

static bool get_ready(cell *c)
{
    bool is_pinned = bench_through_is_pinned(c->options->kinds[0]);
    bench_through_prepare(c->options->conf, c->course->n_slots > LARGE_BLOCKS, is_pinned);
    bool ok = make_streams(c);
    for (unsigned i = 0; i < c->options->n_kinds && ok; i++) {
        ok = !takes(c, i) || open_row(c, i);
    }
    return ok;
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static double lesser(double a, double b)
{
    return a < b ? a : b;
}

static uint64_t driver_calls(const bench_row *row)
{
    pl_driver *drv = row->through.has_instance ? pleat_internal_driver(row->through.instance)
                                               : NULL;
    uint64_t sum = 0;
    for (int i = 0; drv && i < PL_N_ENTRIES; i++) {
        sum += pl_driver_n_calls(drv, (pl_entry)i);
    }
    return sum;
}

static bool run_row(cell *c, unsigned i)
{
    bench_row *row = &c->rows[i];
    bench_cell_figures *f = &c->board->result.rows[i];
    uint64_t calls = driver_calls(row);
    uint64_t ns = 0;
    uint64_t wall_ns = 0;
    bool is_done = true;
    if (c->course->scenario->kind == BENCH_SCENARIO_THREADS) {
        if (!bench_crowd_run(row, c->course, &ns, &wall_ns, &is_done, c->failure)) {
            return false;
        }
    } else {
        is_done = bench_loop_run(row, c->course, 0, &ns);
    }
    if (!is_done) {
        return say(c, i, "a request failed");
    }
    double n_units = (double)c->board->result.n_units;
    f->ns = lesser(f->ns, (double)ns / n_units);
    f->wall_ns = lesser(f->wall_ns, (double)wall_ns / n_units);
    f->n_driver_calls += row->through.has_instance ? (int64_t)(driver_calls(row) - calls) : 0;
    return true;
}

static bool run_rounds(cell *c)
{
    for (unsigned i = 0; i < c->options->n_kinds; i++) {
        c->board->result.rows[i].n_driver_calls = c->rows[i].through.has_instance ? 0 : -1;
    }
    for (unsigned round = 0; round < c->n_rounds; round++) {
        bench_course_draw(c->course);
        for (unsigned i = 0; i < c->options->n_kinds; i++) {
            c->board->row = c->options->kinds[i]->name;
            if (takes(c, i) && !run_row(c, i)) {
                return false;
            }
        }
    }
    return true;
}

static bool run_one_by_one(cell *c)
{
    for (unsigned pass = 0; pass < 2; pass++) {
        bench_course_draw(c->course);
        for (unsigned i = 0; i < c->options->n_kinds; i++) {
            bench_sample *samples = c->board->samples + i * c->board->n_samples;
            bool is_wanted = takes(c, i) && (pass == 0 || c->rows[i].through.has_instance);
            c->board->row = c->options->kinds[i]->name;
            if (is_wanted && !(pass == 0 ? bench_loop_time(&c->rows[i], c->course, samples)
                                         : bench_loop_hold(&c->rows[i], c->course, samples))) {
                return say(c, i, "a request failed");
            }
        }
    }
    return true;
}

/* Do one run in a separate process. After a failed run no further run is made. */
static void body(void *context, unsigned job, unsigned slot)
{
    (void)job;
    (void)slot;
    cell *c = context;
    board *b = c->board;
    unsigned n_warm = c->course->events ? WORK_WARM_ROUNDS : WARM_ROUNDS;
    if (!b->is_failed) {
        b->is_failed = true;
        b->is_failed = !(get_ready(c) && warm(c, n_warm) && run_rounds(c) &&
                         (b->n_samples == 0 || run_one_by_one(c)));
    }
}

static void ended(void *context, unsigned job, unsigned slot, const char *why)
{
    (void)slot;
    cell *c = context;
    if (why) {
        bench_fail(c->failure, "%s: %s", c->board->row ? c->board->row : "getting ready", why);
    }
    if (c->options->progress) {
        bench_progress_step(c->options->progress, (job + 1.0) / c->options->n_runs);
    }
}

/* ---- figures --------------------------------------------------------------------------------- */

static void summarise_row(const board *b, unsigned i, float *sorted, bench_cell_figures *out)
{
    const bench_sample *samples = b->samples + i * b->n_samples;
    out->has_calls = true;
    out->longest_hold = out->n_driver_calls < 0 ? -1.0 : 0.0;
    for (size_t k = 0; k < b->n_samples; k++) {
        double call_ns = (double)samples[k].call_ns;
        double hold_ns = (double)samples[k].hold_ns;
        sorted[k] = samples[k].unit_ns;
        out->longest_call = call_ns > out->longest_call ? call_ns : out->longest_call;
        if (out->longest_hold >= 0.0 && hold_ns > out->longest_hold) {
            out->longest_hold = hold_ns;
        }
    }
    bench_quantile_sort(sorted, b->n_samples);
    out->p50 = bench_quantile(sorted, b->n_samples, 2);
    out->p99 = bench_quantile(sorted, b->n_samples, 100);
    out->p99_9 = bench_quantile(sorted, b->n_samples, 1000);
}

static bool summarise(cell *c, bench_cell_result *out)
{
    const board *b = c->board;
    *out = b->result;
    float *sorted = calloc(b->n_samples + 1, sizeof *sorted);
    if (!sorted) {
        return bench_fail(c->failure, "out of host memory");
    }
    for (unsigned i = 0; i < c->options->n_kinds; i++) {
        out->rows[i].is_left_out = !takes(c, i);
        if (takes(c, i) && b->n_samples > 0) {
            summarise_row(b, i, sorted, &out->rows[i]);
        }
    }
    free(sorted);
    return true;
}

/* ---- a cell ---------------------------------------------------------------------------------- */

static void set_board(cell *c, size_t n_samples)
{
    const bench_cell_options *o = c->options;
    board *b = c->board;
    bool is_threads = o->scenario->kind == BENCH_SCENARIO_THREADS;
    size_t n_units = bench_course_units(c->course);
    snprintf(b->result.name, sizeof b->result.name, "%s", c->course->name);
    b->result.is_events = c->course->events != NULL;
    b->result.n_units = n_units * o->scenario->n_threads;
    b->result.n_rounds = c->n_rounds;
    b->n_samples = is_threads ? 0 : n_samples;
    for (unsigned i = 0; i < o->n_kinds; i++) {
        b->result.rows[i].ns = NOT_MEASURED;
        b->result.rows[i].wall_ns = NOT_MEASURED;
    }
    for (size_t i = 0; i < o->n_kinds * b->n_samples; i++) {
        float most = (float)NOT_MEASURED;
        b->samples[i] = (bench_sample){ .unit_ns = most, .call_ns = most, .hold_ns = most };
    }
}

static bench_cell_end run_all(cell *c, bench_cell_result *out)
{
    bench_workers workers = {
        .n_jobs = c->options->n_runs, .n_at_once = 1, .body = body, .ended = ended, .context = c
    };
    bench_workers_end end = bench_workers_run(&workers, c->failure);
    if (end == BENCH_WORKERS_INTERRUPTED) {
        return BENCH_CELL_INTERRUPTED;
    }
    bool ok = end == BENCH_WORKERS_DONE && !c->board->is_failed && summarise(c, out);
    return ok ? BENCH_CELL_DONE : BENCH_CELL_FAILED;
}

/* Works of many events get fewer rounds. */
static unsigned rounds_of(const bench_cell_options *options, const bench_course *course)
{
    uint64_t wanted = (uint64_t)options->n_rounds * options->n_pairs;
    uint64_t n = course->events ? wanted / (course->n_events + 1) : options->n_rounds;
    n = n < LEAST_ROUNDS ? LEAST_ROUNDS : n;
    return n < options->n_rounds ? (unsigned)n : options->n_rounds;
}

bench_cell_end bench_cell(const bench_cell_options *options, bench_cell_result *out,
                          bench_failure *failure)
{
    bench_course course;
    if (!bench_course_open(options->scenario, options->n_pairs, options->seed, &course, failure)) {
        return BENCH_CELL_UNKNOWN;
    }
    cell c = { .options = options, .course = &course, .n_rounds = rounds_of(options, &course) };
    size_t n_samples = bench_course_units(&course);
    size_t bytes = sizeof(board) + options->n_kinds * n_samples * sizeof(bench_sample);
    bench_cell_end end = BENCH_CELL_FAILED;
    c.board = bench_shared_create(bytes, failure);
    if (c.board) {
        c.failure = &c.board->failure;
        (void)bench_clock_calibrated(); /* once for all runs */
        set_board(&c, n_samples);
        end = run_all(&c, out);
        bench_fail(failure, "%.200s: %.800s", course.name, c.failure->text);
        bench_shared_destroy(c.board, bytes);
    }
    bench_course_close(&course);
    return end;
}

bool bench_cell_count(const bench_cell_options *options, bench_failure *failure)
{
    bench_course course;
    if (!bench_course_open(options->scenario, options->n_pairs, options->seed, &course, failure)) {
        return false;
    }
    if (course.n_events > BENCH_PAIRS_COUNTED_EVENTS) {
        course.n_events = BENCH_PAIRS_COUNTED_EVENTS;
    }
    board b = { .row = NULL };
    cell c = { .options = options, .course = &course, .failure = failure, .board = &b };
    bool ok = get_ready(&c) && warm(&c, COUNT_WARM_ROUNDS);
    bench_course_draw(&course);
    for (unsigned i = 0; i < options->n_kinds && ok; i++) {
        uint64_t ns;
        ok = !takes(&c, i) || bench_loop_run(&c.rows[i], &course, 0, &ns) ||
             say(&c, i, "a request failed");
    }
    bench_course_close(&course);
    return ok;
}
