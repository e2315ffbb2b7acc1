/* tracer.h - writes replays as a timeline in the trace-event format of Chrome. The format is read
 * by Perfetto's viewer (ui.perfetto.dev), chrome://tracing and Speedscope.
 *
 *   a replay = a process             time -->
 *   counters   live resident mapped idle pending     bytes, after an event
 *   thread 1   driver calls          |create|map|..............|unmap|
 *   thread 2   iterations            |--- 0 ---|------ 1 ------|
 *   failures                         !                 !
 *
 * The axis is the driver's time (modelled on the simulator, measured on a GPU) plus 50 us for each
 * allocation or free. A training step of half a second makes ten thousand of them.
 *
 * Everything is written at once, so memory does not depend on the length of the run. Counters are
 * thinned to BENCH_MOST_MOMENTS stretches of equally many events. A stretch keeps the moments of
 * most live bytes and of most resident bytes, and the last one. So no peak is lost. Consecutive
 * calls of one kind in a request become one slice. Calls without time and size, such as a query of
 * an event, are left out. */
#ifndef PLEAT_BENCH_TRACER_H
#define PLEAT_BENCH_TRACER_H

#include <stdint.h>

#include "api/pleat.h"
#include "bench/base/sink.h"
#include "vmm/driver.h"

enum { BENCH_MOST_MOMENTS = 10000, BENCH_EVENT_US = 50 };

typedef enum bench_level {
    BENCH_LEVEL_LIVE,
    BENCH_LEVEL_RESIDENT,
    BENCH_LEVEL_MAPPED,
    BENCH_LEVEL_IDLE,
    BENCH_LEVEL_PENDING,
    BENCH_N_LEVELS
} bench_level;

/* All counters at one time. */
typedef struct bench_levels {
    double us;
    uint64_t number; /* of the event before this moment */
    uint64_t bytes[BENCH_N_LEVELS];
} bench_levels;

/* Calls shown as one slice. */
typedef struct bench_slice {
    pl_entry entry;
    int failure; /* CUresult; 0 = none */
    uint64_t n;  /* 0 = none is kept */
    uint64_t bytes;
    uint64_t event;
    double begin_us;
    double end_us;
} bench_slice;

typedef struct bench_tracer {
    bench_sink sink;
    bool is_failed; /* writing: `failure` says why */
    bench_failure failure;
    bool has_any; /* something was written */
    int pid;      /* of the running replay, counted from 1 */

    /* of that replay */
    pleat instance;
    pl_driver *drv;
    double (*driver_us)(const void *context); /* so far */
    const void *context;
    uint64_t n_events;    /* so far */
    uint64_t n_stretch;   /* events in a stretch */
    uint64_t n_in;        /* in the running slice */
    double told_us;       /* the driver's time reported so far */
    bench_slice slice;    /* kept back: more of the kind may follow */
    bench_levels most[2]; /* in the stretch: live, resident */
    bench_levels last;    /* the last levels read */
    uint64_t shown[BENCH_N_LEVELS];
    bool has_shown;
    uint64_t iteration;
    double iteration_us; /* begin of the iteration; negative = none yet */
} bench_tracer;

typedef struct bench_tracer_subject {
    pleat instance;
    pl_driver *drv;
    const char *work;
    const char *allocator;
    uint64_t memory_bytes;
    uint64_t n_events;
    double (*driver_us)(const void *context);
    const void *context;
} bench_tracer_subject;

/* The file is replaced once the new one is whole. A name ending in .gz gives a compressed file. */
bool bench_tracer_open(bench_tracer *tracer, const char *path, bench_failure *failure);
/* Ends the file. False and a message, and no file, if something could not be written. */
bool bench_tracer_close(bench_tracer *tracer, bench_failure *failure);

/* A replay begins. The replay's driver, which must time the calls, is watched until the replay's
 * end. */
void bench_tracer_begin(bench_tracer *tracer, const bench_tracer_subject *subject);
/* Live and resident bytes at the end. */
void bench_tracer_end(bench_tracer *tracer, uint64_t live_bytes, uint64_t resident_bytes);

void bench_tracer_iteration(bench_tracer *tracer, uint64_t number);
/* An allocation was refused: before bench_tracer_event. */
void bench_tracer_refusal(bench_tracer *tracer, uint64_t bytes, uint32_t stream, const char *why);
/* An allocation or a free is over. */
void bench_tracer_event(bench_tracer *tracer, uint64_t live_bytes, uint64_t resident_bytes);

#endif
