/* loops.h - the requests of a round through a row: measured as a whole, counted, or timed
 * individually. */
#ifndef PLEAT_BENCH_PAIRS_LOOPS_H
#define PLEAT_BENCH_PAIRS_LOOPS_H

#include "bench/pairs/scenario.h"
#include "bench/pairs/through.h"

/* The place of a live block, and the stream of its allocation and free. */
typedef struct bench_place {
    pleat_devptr ptr; /* 0 = none */
    void *stream;
} bench_place;

typedef struct bench_row {
    bench_through through;
    bench_place *places; /* by slot */
    void **streams;      /* of the course; all NULL unless the row's are created */
} bench_row;

/* The least times of a unit: a pair, or an event of a work. */
typedef struct bench_sample {
    float unit_ns;
    float call_ns; /* the longer call of a pair */
    float hold_ns; /* the longest hold of a device's lock */
} bench_sample;

/* Each function does the course's round once for the given thread, and returns false when a request
 * failed. Blocks that a work leaves live are freed outside of the measurement. */

/* The function with only the part measured by bench_loop_run. Callgrind counts this function. */
#define BENCH_LOOP_SYMBOL "bench_counted_round"
bool bench_loop_run(bench_row *row, const bench_course *course, unsigned thread, uint64_t *ns);
bool bench_loop_warm(bench_row *row, const bench_course *course, unsigned thread);

/* For thread 0, with one sample per unit. A sample keeps the least time measured so far. */
bool bench_loop_time(bench_row *row, const bench_course *course, bench_sample *samples);
bool bench_loop_hold(bench_row *row, const bench_course *course, bench_sample *samples);

#endif
