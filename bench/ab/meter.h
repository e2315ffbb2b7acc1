/* meter.h - shows the progress of `pleat ab`: one line on a terminal, else a line now and then. */
#ifndef PLEAT_BENCH_METER_H
#define PLEAT_BENCH_METER_H

#include "bench/ab/cell.h"

typedef struct bench_meter {
    const bench_ab_plan *plan;
    const bench_ab_slot *slots;
    unsigned n_slots;
    unsigned n_over;     /* cells, those that were needless too */
    double weight_over;  /* theirs */
    double weight_total; /* of all */
    bool is_terminal;
    unsigned last_tenth;
    uint64_t begin_ns;
    uint64_t last_ns;
} bench_meter;

void bench_meter_start(bench_meter *meter, const bench_ab_plan *plan, const bench_ab_slot *slots,
                       unsigned n_slots);
void bench_meter_over(bench_meter *meter, const bench_ab_cell *cell);
/* Shows the line if it is time. */
void bench_meter_tick(bench_meter *meter);
void bench_meter_clear(bench_meter *meter); /* before other output */

#endif
