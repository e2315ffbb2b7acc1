/* rounds.c - measures the cells of a plan, round by round, each cell in a process of its own. */
#include "bench/ab/rounds.h"

#include <string.h>

#include "bench/ab/compacted.h"
#include "bench/ab/moment_rows.h"
#include "bench/ab/rows.h"

/* In the child. */
static void measure(void *context, unsigned job, unsigned slot)
{
    bench_rounds *r = context;
    bench_ab_measure(r->plan, r->plan->order[r->first + job], &r->slots[slot]);
}

static void tell_over(bench_rounds *r, const bench_ab_cell *cell)
{
    if (r->meter) {
        bench_meter_over(r->meter, cell);
    }
}

/* In the parent: stores the child's result in its cell, so the slot is free for the next one. */
static void take(void *context, unsigned job, unsigned slot_index, const char *why)
{
    bench_rounds *r = context;
    bench_ab_slot *slot = &r->slots[slot_index];
    bench_ab_cell *cell = &r->plan->cells[r->plan->order[r->first + job]];
    if (!why && slot->is_ok && slot->has_compacted &&
        !bench_compacted_keep(cell, &slot->compacted, slot->compacted_cards)) {
        why = "out of host memory";
    }
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
    tell_over(r, cell);
    if (r->is_written && r->study) {
        r->is_written = bench_study_add(r->study, cell, &r->failure);
    }
}

static void tick(void *context)
{
    bench_rounds *r = context;
    bench_meter_tick(r->meter);
}

/* The cells [first, end) in the order of the plan. */
static bench_workers_end run_round(bench_rounds *r, unsigned first, unsigned end)
{
    bench_workers workers = {
        .n_jobs = end - first,
        .n_at_once = r->n_slots,
        .body = measure,
        .ended = take,
        .tick = r->meter ? tick : NULL,
        .context = r,
    };
    r->first = first;
    return first == end ? BENCH_WORKERS_DONE : bench_workers_run(&workers, &r->failure);
}

/* Moments that there are not go to the end of the round; returns where they begin. */
static unsigned leave_out_needless(bench_rounds *r)
{
    bench_ab_plan *plan = r->plan;
    unsigned end = plan->moments;
    for (unsigned i = plan->moments; i < plan->n_cells; i++) {
        unsigned cell = plan->order[i];
        if (plan->cells[cell].state == BENCH_AB_NEEDLESS) {
            tell_over(r, &plan->cells[cell]);
        } else {
            plan->order[i] = plan->order[end];
            plan->order[end++] = cell;
        }
    }
    return end;
}

bench_workers_end bench_rounds_run(bench_rounds *r)
{
    bench_ab_plan *plan = r->plan;
    if (r->meter) {
        bench_meter_start(r->meter, plan, r->slots, r->n_slots);
    }
    bench_workers_end end = run_round(r, 0, plan->cards);
    if (end == BENCH_WORKERS_DONE) {
        end = run_round(r, plan->cards, plan->moments);
    }
    if (end == BENCH_WORKERS_DONE && plan->moments < plan->n_cells) {
        bench_ab_plan_moments(plan);
        end = run_round(r, plan->moments, leave_out_needless(r));
    }
    if (r->meter) {
        bench_meter_clear(r->meter);
    }
    return end;
}

bool bench_rounds_is_good(const bench_ab_cell *cell)
{
    bool is_measured = cell->state == BENCH_AB_MEASURED || cell->state == BENCH_AB_NEEDLESS;
    uint64_t hazards = cell->result.record.hazards +
                       bench_compacted_cell(cell)->result.record.hazards;
    return is_measured && (cell->kind != BENCH_AB_REPLAY || hazards == 0);
}
