/* cell.h - measures one cell of `pleat ab`, in a process of its own. */
#ifndef PLEAT_BENCH_CELL_H
#define PLEAT_BENCH_CELL_H

#include "bench/ab/plan.h"

/* Written by a child and read by its parent: shared memory, one slot for each running job. */
typedef struct bench_ab_slot {
    unsigned cell;          /* index + 1 of the cell being measured; 0 = none yet */
    _Atomic unsigned parts; /* finished parts, of BENCH_AB_PARTS */
    bool is_ok;
    bench_ab_result result;
    bench_failure failure;
    bench_timeline timeline; /* if the cell is drawn */
    bench_ab_card cards[BENCH_N_CARDS];
    bool has_compacted; /* the two below, of a cell in which pleat fails */
    bench_ab_result compacted;
    bench_ab_card compacted_cards[BENCH_N_CARDS];
    bench_moment moment;
} bench_ab_slot;

#define BENCH_AB_PARTS 10000u

/* Measure `cell` as often as the options say. Writes all of `slot`. */
void bench_ab_measure(const bench_ab_plan *plan, unsigned cell, bench_ab_slot *slot);

#endif
