/* loops.h - the requests of one round through one row: measured as a whole, counted, or one by
 * one. */
#ifndef PLEAT_BENCH_PAIRS_LOOPS_H
#define PLEAT_BENCH_PAIRS_LOOPS_H

#include "bench/pairs/scenario.h"
#include "bench/pairs/through.h"

/* Where a live block is kept, and the stream that it is allocated and freed on. */
typedef struct bench_place {
    pleat_devptr ptr; /* 0 = none */
    void *stream;
} bench_place;

typedef struct bench_row {
    bench_through through;
    bench_place *places; /* by slot */
    void **streams;      /* of the course; all NULL unless the row's are created */
} bench_row;

/* The least times of one unit: a pair, or an event of a work. */
typedef struct bench_sample {
    float unit_ns;
    float call_ns; /* the longer call of a pair */
    float hold_ns; /* the longest hold of a device's lock */
} bench_sample;

/* Each does the course's round once for the thread with that number and returns false when a
 * request failed. A work's blocks that live at its end are freed, outside of what is measured. */

/* The function that contains only what bench_loop_run measures: callgrind counts it. */
#define BENCH_LOOP_SYMBOL "bench_counted_round"
bool bench_loop_run(bench_row *row, const bench_course *course, unsigned thread, uint64_t *ns);
bool bench_loop_warm(bench_row *row, const bench_course *course, unsigned thread);

/* For thread 0; samples by unit. A sample keeps the lesser of what it has and what is measured. */
bool bench_loop_time(bench_row *row, const bench_course *course, bench_sample *samples);
bool bench_loop_hold(bench_row *row, const bench_course *course, bench_sample *samples);

#endif
