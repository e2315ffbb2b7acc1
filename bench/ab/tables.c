/* tables.c - prints the results of `pleat ab` on a terminal. */
#include "bench/ab/tables.h"

#include <string.h>

#include "bench/ab/compacted.h"
#include "bench/run/output.h"

/* Columns, with the blank before: 16 + 38 + 3 x 13 + 7 = 100; TIME of the WIDE ones are there only
 * with --time. */
enum {
    LINE = 100,
    NAME = 16,
    WIDE = 38,
    TIME = 6,
    NARROW = 13,
    FIRST_NARROWS = 3,
    NEXT_NARROWS = 6,
    CELL = 16
};

/* At most five characters. */
static const char *format_count(double value, char out[CELL])
{
    if (value < 99999.5) {
        snprintf(out, CELL, "%.0f", value);
    } else if (value < 9999.5e3) {
        snprintf(out, CELL, "%.0fk", value / 1e3);
    } else if (value < 9999.5e6) {
        snprintf(out, CELL, "%.0fM", value / 1e6);
    } else {
        snprintf(out, CELL, "%.3g", value);
    }
    return out;
}

/* At most six characters, four digits of them. */
static const char *format_real(double value, char out[CELL])
{
    if (value >= 9999.95) {
        return format_count(value, out);
    }
    int digits = value < 9.9995 ? 3 : value < 99.995 ? 2 : 1;
    snprintf(out, CELL, "%.*f", digits, value);
    return out;
}

/* At most five characters. */
static const char *format_short(double value, char out[CELL])
{
    return value < 999.95 ? format_real(value, out) : format_count(value, out);
}

/* The mark instead of a figure, for a cell that failed or was never run. */
static const char *mark_of(const bench_ab_cell *cell)
{
    return cell->state == BENCH_AB_FAILED ? "!" : "-";
}

static const char *label_of(const bench_ab_cell *cell)
{
    static const char *const others[] = { [BENCH_AB_SEARCH] = "least memory",
                                          [BENCH_AB_CARDS] = "cards",
                                          [BENCH_AB_PEAK] = "peak",
                                          [BENCH_AB_FAILURE] = "failure" };
    return cell->kind == BENCH_AB_REPLAY ? cell->memory->label : others[cell->kind];
}

static void print_wide(const bench_ab_cell *cell, bool is_timed)
{
    const bench_record *r = &cell->result.record;
    const char *mark = mark_of(cell);
    if (cell->state != BENCH_AB_MEASURED) {
        printf(" %5s %5s %6s %6s %5s", mark, mark, mark, mark, mark);
        if (is_timed) {
            printf(" %5s", mark);
        }
        return;
    }
    char cells[6][CELL];
    printf(" %5s %5s %6s %6s %5s", format_count((double)r->oom_count, cells[0]),
           format_short(bench_output_ratio(r), cells[1]),
           format_real(bench_output_per_1000(r), cells[2]),
           format_real(r->first_driver_us / 1e3, cells[3]),
           r->n_later ? format_short(r->later_driver_us / 1e3, cells[4]) : "-");
    if (is_timed) {
        printf(" %5s", format_count(r->own.least_ns, cells[5]));
    }
}

static void print_narrow(const bench_ab_cell *cell)
{
    const bench_record *r = &cell->result.record;
    if (cell->state != BENCH_AB_MEASURED) {
        printf(" %5s %6s", mark_of(cell), mark_of(cell));
        return;
    }
    char cells[2][CELL];
    printf(" %5s %6s", format_count((double)r->oom_count, cells[0]),
           format_real(bench_output_per_1000(r), cells[1]));
}

static void print_least(const bench_ab_plan *plan, const bench_ab_cell *cell)
{
    const bench_record *fit = bench_ab_fit_of(plan, cell);
    char ratio[CELL];
    printf(" %6s", fit ? format_real(fit->ratio, ratio) : "-");
}

/* "---- 1.02x ----", `width` columns with the blank before. */
static void print_label(const char *label, size_t width)
{
    static const char line[] = "------------------------------------------------";
    char name[32];
    bench_text_cut(label, width - 5, name, sizeof name);
    size_t n_dashes = width - 3 - strlen(name);
    printf(" %.*s %s %.*s", (int)(n_dashes / 2), line, name, (int)(n_dashes - n_dashes / 2), line);
}

static const bench_ab_cell *shown_of(const bench_ab_plan *plan, unsigned work, unsigned a,
                                     unsigned m, bool is_compacted)
{
    const bench_ab_cell *cell = bench_ab_cell_at(plan, work, a, m);
    return is_compacted ? bench_compacted_cell(cell) : cell;
}

/* is_compacted: the row below pleat's, with short:compact. */
static void print_row(const bench_ab_plan *plan, unsigned work, unsigned a, bool is_compacted,
                      unsigned first, unsigned n, bool is_first)
{
    const bench_ab_options *o = &plan->options;
    const char *title = is_compacted ? "  short:compact" : o->common.allocators[a];
    char name[4 * NAME + 1];
    printf("%-*s", NAME, bench_text_cut(title, NAME, name, sizeof name));
    if (is_first) {
        print_wide(shown_of(plan, work, a, o->n_memories - 1, is_compacted), o->n_timed > 0);
    }
    for (unsigned m = first; m < first + n; m++) {
        print_narrow(shown_of(plan, work, a, m, is_compacted));
    }
    if (is_first && o->is_fit && is_compacted) {
        printf(" %6s", "-"); /* no search */
    } else if (is_first && o->is_fit) {
        print_least(plan, bench_ab_cell_at(plan, work, a, 0));
    }
    putchar('\n');
}

/* Memories [first, first + n), and, in the first block, also all figures of the last one. */
static void print_block(const bench_ab_plan *plan, unsigned work, unsigned first, unsigned n,
                        bool is_first)
{
    const bench_ab_options *o = &plan->options;
    unsigned last = o->n_memories - 1;
    bool is_timed = o->n_timed > 0;
    printf("%-*s", NAME, "");
    if (is_first) {
        print_label(o->memories[last].label, is_timed ? WIDE : WIDE - TIME);
    }
    for (unsigned m = first; m < first + n; m++) {
        print_label(o->memories[m].label, NARROW);
    }
    printf("\n%-*s", NAME, "allocator");
    if (is_first) {
        printf(" %5s %5s %6s %6s %5s%s", "fails", "res", "ops/1k", "drv ms", "later",
               is_timed ? " ns/ev" : "");
    }
    for (unsigned m = first; m < first + n; m++) {
        printf(" %5s %6s", "fails", "ops/1k");
    }
    printf("%s\n", is_first && o->is_fit ? "  least" : "");
    for (unsigned a = 0; a < o->common.n_allocators; a++) {
        print_row(plan, work, a, false, first, n, is_first);
        if (a == bench_compacted_pleat(plan) && bench_compacted_has(plan, work)) {
            print_row(plan, work, a, true, first, n, is_first);
        }
    }
}

/* Cells of one work and allocator that failed for the same reason share a line, which the first
 * prints. */
static void print_problem(const bench_ab_plan *plan, const bench_ab_cell *cell)
{
    const bench_ab_cell *end = plan->cells + plan->n_cells;
    unsigned n_alike = 0;
    for (const bench_ab_cell *other = plan->cells; other < end; other++) {
        bool is_alike = other->work == cell->work && other->allocator == cell->allocator &&
                        other->state == BENCH_AB_FAILED &&
                        strcmp(other->problem, cell->problem) == 0;
        if (is_alike && other < cell) {
            return;
        }
        n_alike += is_alike;
    }
    printf("  ! %s, %s", cell->allocator, label_of(cell));
    if (n_alike > 1) {
        printf(" and %u more", n_alike - 1);
    }
    printf(": %s\n", cell->problem);
}

static void print_notes(const bench_ab_plan *plan, const bench_ab_cell *cell)
{
    const bench_record *r = &cell->result.record;
    if (cell->state == BENCH_AB_FAILED) {
        print_problem(plan, cell);
    }
    if (cell->state != BENCH_AB_MEASURED) {
        return;
    }
    if (r->hazards > 0) {
        printf("  ! %s, %s: %llu hazards\n", cell->allocator, label_of(cell),
               (unsigned long long)r->hazards);
    }
    if (cell->result.counts_differ) {
        printf("  ! %s, %s: the counts of its %u repeats differ\n", cell->allocator, label_of(cell),
               plan->options.repeat);
    }
}

static void print_work(const bench_ab_plan *plan, unsigned w)
{
    const bench_work *work = &plan->works[w];
    unsigned n_narrow = plan->options.n_memories - 1;
    char name[BENCH_NAME_BYTES];
    char live[32];
    char rest[96];
    uint64_t loops = plan->options.common.loops;
    int n_rest = snprintf(rest, sizeof rest, ": %s peak live, %llu events",
                          bench_size_format(work->peak_live_bytes, live, sizeof live),
                          (unsigned long long)(work->n_events * loops));
    if (work->n_marks > 0) { /* a recording has no marks */
        n_rest += snprintf(rest + n_rest, sizeof rest - (size_t)n_rest, ", %llu iterations",
                           (unsigned long long)(work->n_marks * loops));
    }
    printf("\n%s%s\n", bench_text_cut(work->name, (size_t)(LINE - n_rest), name, sizeof name),
           rest);
    unsigned n = n_narrow < FIRST_NARROWS ? n_narrow : FIRST_NARROWS;
    print_block(plan, w, 0, n, true);
    for (unsigned first = n; first < n_narrow; first += n) {
        n = n_narrow - first < NEXT_NARROWS ? n_narrow - first : NEXT_NARROWS;
        print_block(plan, w, first, n, false);
    }
    for (unsigned i = 0; i < plan->n_cells; i++) {
        if (plan->cells[i].work == work) {
            print_notes(plan, &plan->cells[i]);
            if (plan->cells[i].compacted) {
                print_notes(plan, plan->cells[i].compacted);
            }
        }
    }
}

/* Was any of its cells run? After an interruption some works have none. */
static bool has_begun(const bench_ab_plan *plan, const bench_work *work)
{
    for (unsigned i = 0; i < plan->n_cells; i++) {
        if (plan->cells[i].work == work && plan->cells[i].state != BENCH_AB_WAITING) {
            return true;
        }
    }
    return false;
}

void bench_tables_print(const bench_ab_plan *plan)
{
    const bench_ab_options *o = &plan->options;
    printf(
        "fails: failed allocations; res: peak resident / peak live; ops/1k: device operations per "
        "1,000\nevents; drv ms: time in the driver in the first pass, %s; later: in a later one%s"
        "%s%s\n",
        bench_setup_is_sim(&plan->setup) ? "modelled" : "measured",
        o->repeat > 1 ? " (medians)" : "",
        o->n_timed > 0 ? ";\nns/ev: time of a call in the allocator itself, of the fastest run"
                       : "",
        o->is_fit ? ";\nleast: least device memory / peak live" : "");
    for (unsigned w = 0; w < o->common.n_works; w++) {
        if (has_begun(plan, &plan->works[w])) {
            print_work(plan, w);
        }
    }
}
