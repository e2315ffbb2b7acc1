/* moments.c - which moments of a work decide: the peak of live bytes, and the failure of the
 * setting in force. */
#include <string.h>

#include "bench/ab/plan.h"

/* The allocator whose failure is shown: the recorded run's, else PyTorch's default, else the
 * first. */
static unsigned in_force(const bench_ab_plan *plan, const bench_work *work)
{
    const bench_options *common = &plan->options.common;
    const char *own = work->origin.allocator;
    const char *wanted[] = { own, "torch-native" };
    for (unsigned i = 0; i < 2; i++) {
        for (unsigned a = 0; a < common->n_allocators; a++) {
            if (strcmp(common->allocators[a], wanted[i]) == 0) {
                return a;
            }
        }
    }
    return 0;
}

/* The largest device on which it fails although the live blocks would fit. */
static bool find_failure(const bench_ab_plan *plan, unsigned w, unsigned a, bench_ab_moment *out)
{
    uint64_t need = plan->works[w].peak_live_bytes;
    *out = (bench_ab_moment){ .of = plan->options.common.allocators[a] };
    for (unsigned m = 0; m < plan->options.n_memories; m++) {
        const bench_ab_cell *cell = bench_ab_cell_at(plan, w, a, m);
        const bench_record *r = &cell->result.record;
        if (cell->state == BENCH_AB_MEASURED && r->oom_count > 0 && cell->memory_bytes >= need &&
            cell->memory_bytes > out->memory_bytes) {
            out->memory_bytes = cell->memory_bytes;
            out->label = cell->memory->label;
            out->event = r->first_failure_event;
        }
    }
    const bench_ab_cell *cards = bench_ab_cards_of(plan, w, a);
    for (unsigned i = 0; cards && cards->state == BENCH_AB_MEASURED && i < BENCH_N_CARDS; i++) {
        uint64_t bytes = bench_cards[i].bytes;
        if (cards->cards[i].outcome == BENCH_OUTCOME_FAILS && bytes >= need &&
            bytes > out->memory_bytes) {
            out->memory_bytes = bytes;
            out->label = bench_cards[i].label;
            out->event = cards->cards[i].first_failure_event;
        }
    }
    /* Of a failure in a later loop the moment is not the first loop's. */
    return out->memory_bytes > 0 && out->event < plan->works[w].n_events;
}

/* The largest device of the list. */
static void find_peak(const bench_ab_plan *plan, unsigned w, bench_ab_moment *out)
{
    uint64_t most = 0;
    *out = (bench_ab_moment){ .event = plan->works[w].peak_event };
    for (unsigned m = 0; m < plan->options.n_memories; m++) {
        const bench_ab_cell *cell = bench_ab_cell_at(plan, w, 0, m);
        if (cell->memory_bytes - 1 >= most) { /* 0 is the largest */
            most = cell->memory_bytes - 1;
            out->memory_bytes = cell->memory_bytes;
            out->label = cell->memory->label;
        }
    }
}

void bench_ab_plan_moments(bench_ab_plan *plan)
{
    for (unsigned w = 0; w < plan->options.common.n_works; w++) {
        bench_ab_moment peak;
        bench_ab_moment failure;
        find_peak(plan, w, &peak);
        bool has_failure = find_failure(plan, w, in_force(plan, &plan->works[w]), &failure);
        for (unsigned a = 0; a < plan->options.common.n_allocators; a++) {
            bench_ab_moment_of(plan, w, a, BENCH_AB_PEAK)->moment = peak;
            bench_ab_cell *cell = bench_ab_moment_of(plan, w, a, BENCH_AB_FAILURE);
            cell->moment = failure;
            cell->state = has_failure ? cell->state : BENCH_AB_NEEDLESS;
        }
    }
}
