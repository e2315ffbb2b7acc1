/* replay.h - runs a work through an allocator and measures.
 *
 * Every replay has a fresh instance (on the simulator: fresh devices) and uses the public
 * interface. At each allocation, and just before each free, the replay submits declared work on the
 * block's stream. A failed allocation is counted, its later free is skipped, and the replay goes
 * on. At the end of a loop live blocks are freed in order of allocation, so all loops are alike.
 *
 * Memory is created, mapped and made accessible mostly in the first loop. So driver time is given
 * separately for the first and for the later loops. Later passes follow the loops in the same
 * instance. Their driver time alone is measured; no other figure includes them. */
#ifndef PLEAT_BENCH_REPLAY_H
#define PLEAT_BENCH_REPLAY_H

#include "bench/base/progress.h"
#include "bench/run/dump.h"
#include "bench/run/moment.h"
#include "bench/run/own.h"
#include "bench/run/setup.h"
#include "bench/run/timeline.h"
#include "bench/run/tracer.h"
#include "bench/works/work.h"

enum { BENCH_MAX_LOOPS = 1000 };

/* Mean of an allocator's own time per call, without driver time, over several runs. */
typedef struct bench_own_spread {
    double least_ns;
    double most_ns;
    unsigned n_runs; /* 0 = not measured */
} bench_own_spread;

/* Plain memory without pointers into the heap: workers pass records between processes. */
typedef struct bench_record {
    char trace[BENCH_NAME_BYTES];
    char allocator[32];
    char driver[8];
    bool is_host; /* the work and these figures are about host memory */
    uint64_t memory_bytes;
    uint64_t peak_live_bytes;
    uint64_t peak_reserved_bytes;       /* over all loops; */
    uint64_t first_peak_reserved_bytes; /* over the first */
    uint64_t oom_count;
    uint64_t n_events; /* a and f lines, of all loops */
    uint64_t ops_map, ops_unmap, ops_alloc, ops_free;
    uint64_t calls[PL_N_ENTRIES];
    uint64_t placement; /* a hash of all addresses in order, each relative to the one before */
    uint64_t bytes_created, bytes_mapped;
    uint64_t host_syncs, stream_waits, hazards, retries;
    double driver_us;         /* of all loops; */
    double first_driver_us;   /* of the first, */
    double later_driver_us;   /* mean of a later loop, later passes included; */
    unsigned n_later;         /* how many later loops; 0 = none, and the mean is 0 */
    double longest_driver_us; /* of one allocation, in any loop */
    bench_own_spread own;
    unsigned n_loops;
    uint64_t loop_ops[BENCH_MAX_LOOPS];
    uint64_t first_failure_event; /* of the first refusal; in the first loop its event */
    char first_failure[1024];     /* why the first allocation failed, or empty */
    bool is_compacted;            /* the two below were asked for */
    uint64_t n_compactions;
    uint64_t compaction_won_bytes; /* by all of them */

    /* fit only; 0 elsewhere, and when no run completed */
    bool is_fit;
    uint64_t least_memory_bytes;
    double ratio;
} bench_record;

typedef struct bench_replay_options {
    const bench_setup *setup;
    const char *allocator;
    uint64_t memory_bytes; /* 0 = unlimited */
    unsigned loops;
    unsigned later_passes;    /* behind the loops; not with stop_at_failure */
    bool stop_at_failure;     /* at the first failed allocation: only success matters */
    bool compact;             /* the device, between two iterations */
    bench_timeline *timeline; /* NULL = none; not with stop_at_failure */
    bench_tracer *tracer;     /* a timeline for viewers; NULL = none */
    bench_moment *moment;     /* stop the replay after this moment and run one loop; NULL = none */
    bench_dump *dump;         /* a snapshot; NULL = none. Recording costs time: not with is_timed */
    bool is_timed;            /* measures the allocator's own time, which slows the replay */
    bench_progress *progress;
} bench_replay_options;

/* False and a message when the replay itself failed, or when the allocator broke a promise: a
 * failed free, or driver objects left after destruction. */
bool bench_replay(const bench_work *work, const bench_replay_options *options, bench_record *out,
                  bench_failure *failure);

/* Fill a record's values before the replay; and add the instance's statistics at the end. */
void bench_record_start(bench_record *out, const bench_work *work,
                        const bench_replay_options *options);
bool bench_record_read(bench_record *record, pleat instance, const pl_driver *drv,
                       bench_failure *failure);
/* After the first loop: note the loop's peak of held memory. */
bool bench_record_first_peak(bench_record *record, pleat instance, bench_failure *failure);
/* Compact device 0 and count it. The caller submits all work, so no work is submitted meanwhile, as
 * required. False: the reason is in pleat_last_error. */
bool bench_record_compact(bench_record *record, pleat instance);
/* The mean of the calls that were timed, if any were. */
void bench_record_own(bench_record *record, const bench_own *own);

static inline uint64_t bench_record_ops(const bench_record *r)
{
    return r->ops_map + r->ops_unmap + r->ops_alloc + r->ops_free;
}

/* Nothing failed and no hazard was seen. */
static inline bool bench_record_is_clean(const bench_record *r)
{
    return r->oom_count == 0 && r->hazards == 0;
}

#endif
