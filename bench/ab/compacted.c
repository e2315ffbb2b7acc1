/* compacted.c - see compacted.h. */
#include "bench/ab/compacted.h"

#include <stdlib.h>
#include <string.h>

#include "bench/base/conf.h"
#include "segments/pleat/space/options.h"

static bool is_of_pleat(const bench_ab_cell *cell)
{
    return strcmp(cell->allocator, pl_pleat_ops.name) == 0;
}

static bool is_given(const char *conf)
{
    bench_conf_item item;
    while (bench_conf_next(&conf, &item)) {
        if (bench_conf_is(&item, "short")) {
            return true;
        }
    }
    return false;
}

bool bench_compacted_setup(const bench_ab_plan *plan, const bench_ab_cell *cell,
                           const bench_setup *from, bench_setup *out)
{
    pl_pleat_options own = pl_pleat_own(&from->config.options);
    if (!is_of_pleat(cell) || plan->options.is_fleet || cell->work->is_host ||
        own.when_short == PL_SHORT_COMPACT || is_given(plan->options.common.target.conf)) {
        return false;
    }
    own.when_short = PL_SHORT_COMPACT;
    *out = *from;
    pl_own_set(&out->config.options, &pl_pleat_option_table, &own);
    return true;
}

bool bench_compacted_keep(bench_ab_cell *cell, const bench_ab_result *result,
                          const bench_ab_card cards[BENCH_N_CARDS])
{
    bench_ab_cell *beside = malloc(sizeof *beside);
    if (!beside) {
        return false;
    }
    *beside = *cell;
    beside->allocator = BENCH_SETTING_COMPACT;
    beside->is_compacted = true;
    beside->is_drawn = false;
    beside->state = BENCH_AB_MEASURED;
    beside->result = *result;
    memcpy(beside->cards, cards, sizeof beside->cards);
    cell->compacted = beside;
    return true;
}

unsigned bench_compacted_pleat(const bench_ab_plan *plan)
{
    const bench_options *o = &plan->options.common;
    unsigned a = 0;
    while (a < o->n_allocators && strcmp(o->allocators[a], pl_pleat_ops.name) != 0) {
        a++;
    }
    return a;
}

/* Of pleat's own figures, beside which others were measured. */
static bool has_failed(const bench_ab_cell *cell)
{
    bool fails = cell->kind == BENCH_AB_REPLAY && cell->result.record.oom_count > 0;
    for (unsigned i = 0; cell->kind == BENCH_AB_CARDS && i < BENCH_N_CARDS && !fails; i++) {
        fails = cell->cards[i].outcome == BENCH_OUTCOME_FAILS &&
                cell->cards[i].how == bench_ab_replayed;
    }
    return fails;
}

bool bench_compacted_has(const bench_ab_plan *plan, unsigned work)
{
    for (unsigned i = 0; i < plan->n_cells; i++) {
        const bench_ab_cell *cell = &plan->cells[i];
        if (cell->work == &plan->works[work] && cell->compacted && has_failed(cell)) {
            return true;
        }
    }
    return false;
}

const bench_ab_cell *bench_compacted_cell(const bench_ab_cell *of)
{
    return of->compacted ? of->compacted : of;
}

bool bench_compacted_row(const bench_ab_plan *plan, const bench_ab_cell *cell, bench_ab_cell *out)
{
    bool has_row = cell->kind == BENCH_AB_REPLAY && is_of_pleat(cell) &&
                   bench_compacted_has(plan, (unsigned)(cell->work - plan->works));
    if (has_row) {
        *out = *bench_compacted_cell(cell);
        out->allocator = BENCH_SETTING_COMPACT;
        out->is_compacted = true;
        snprintf(out->result.record.allocator, sizeof out->result.record.allocator, "%s",
                 BENCH_SETTING_COMPACT);
    }
    return has_row;
}
