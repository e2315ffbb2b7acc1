/* work.h - the works: traces, imported recordings, published patterns, generated training runs.
 *
 *   file      FILE or the bare name of a bundled trace; its content tells its kind
 *   pattern   pytorch#35901, ... (bench/patterns)
 *   generator decoder:layers=32,hidden=4096,... (bench/generate)
 *
 * A file's events are held in memory or, when there are many, in a temporary file that is read
 * piece by piece. Patterns and generators write their events piece by piece during the replay. So a
 * run may have any length. */
#ifndef PLEAT_BENCH_WORK_H
#define PLEAT_BENCH_WORK_H

#include "bench/base/failure.h"
#include "bench/base/progress.h"
#include "bench/base/text.h"
#include "bench/work/generator.h"
#include "bench/work/origin.h"
#include "bench/work/tape.h"

typedef struct bench_work {
    char name[BENCH_NAME_BYTES]; /* a file's bare name, or the spec; clean text */
    uint64_t n_events;           /* allocations and frees of one pass */
    uint32_t n_uses;             /* most uses of blocks on other streams at once */
    uint64_t n_marks;            /* iterations */
    uint32_t n_slots;            /* most live blocks */
    uint32_t n_streams;
    bool is_host;                     /* the blocks are pinned memory of the host */
    uint64_t peak_live_bytes;         /* largest sum of live blocks, each rounded up to 512 bytes */
    uint64_t peak_event;              /* the first event with that sum */
    uint64_t peak_pending_bytes;      /* largest sum of freed blocks still used by other streams */
    bench_tape tape;                  /* a file's events */
    bench_origin origin;              /* a file's facts beyond its events */
    const bench_generator *generator; /* NULL = a file */
    bench_values values;              /* of the generator */
} bench_work;

/** Open the work named `spec`, check all of it and count it. A generator is run once for this.
 *
 *  Params   progress tells how far that is; may be NULL.
 *  Returns  false and a message that names the culprit: an unknown file, pattern or generator, a
 *           bad parameter, or the place in a malformed file.
 *  Failure  nothing is left behind.
 *  Owner    the caller, until bench_work_close. */
bool bench_work_open_showing(const char *spec, bench_progress *progress, bench_work *out,
                             bench_failure *failure);
bool bench_work_open(const char *spec, bench_work *out, bench_failure *failure);
void bench_work_close(bench_work *work); /* a zeroed one is fine */
/* bench_work_open_showing for a program with device memory only: works of pinned memory are
 * refused. */
bool bench_work_open_device(const char *spec, bench_progress *progress, bench_work *out,
                            bench_failure *failure);

/* Without opening the work: is it a file (of any content)? If so, `found` is its path with options,
 * and bench_work_name gives its name. */
bool bench_work_find(const char *spec, char *found, size_t n);
void bench_work_name(const char *found, char out[BENCH_NAME_BYTES]);

/* One pass over a work's events. Several may be open at once. */
typedef struct bench_cursor {
    const bench_work *work;
    bench_tape tape;            /* a generator's latest piece */
    void *state;                /* a generator's */
    bench_spill_reader *reader; /* of a file with many events */
    bool is_over;
} bench_cursor;

/* False and a message when out of host memory. */
bool bench_cursor_open(const bench_work *work, bench_cursor *out, bench_failure *failure);
void bench_cursor_close(bench_cursor *cursor);
/* The next entries, marks included, valid until the next call. 0 at the end. SIZE_MAX and a message
 * when out of host memory, or when the temporary file cannot be read. */
size_t bench_cursor_next(bench_cursor *cursor, const bench_event **entries, bench_failure *failure);

#endif
