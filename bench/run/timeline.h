/* timeline.h - records a replay over time: figures by buckets of events. */
#ifndef PLEAT_BENCH_TIMELINE_H
#define PLEAT_BENCH_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

enum { BENCH_MOST_BUCKETS = 600 };

typedef struct bench_bucket {
    uint64_t event;          /* number of its first event, over all loops */
    uint64_t iteration;      /* iterations begun before this bucket */
    uint64_t live_bytes;     /* the most after any event; blocks rounded up to 512 bytes */
    uint64_t resident_bytes; /* the most after any event */
    uint64_t ops;
    uint64_t failures;
    uint64_t syncs;
    double host_ns; /* in the allocator's calls, without the driver's; of a timed replay */
    double driver_us;
} bench_bucket;

/* Plain memory without pointers, so that workers can pass it between processes. */
typedef struct bench_timeline {
    uint64_t n_events;
    uint64_t n_iterations;
    uint64_t peak_live_bytes; /* of the work */
    bool is_timed;            /* has host_ns */
    unsigned n_buckets;
    bench_bucket buckets[BENCH_MOST_BUCKETS];
} bench_timeline;

/* Sums since the beginning. */
typedef struct bench_reading {
    uint64_t ops;
    uint64_t syncs;
    double host_ns;
    double driver_us;
} bench_reading;

/* Writes a timeline while a replay runs. */
typedef struct bench_recorder {
    bench_timeline *out;
    uint64_t events_per_bucket;
    uint64_t n_in_bucket;
    bench_bucket bucket; /* the one being filled */
    bench_reading last;  /* start of this bucket */
} bench_recorder;

/* `n_events` and `peak_live_bytes` of the whole replay. */
void bench_recorder_init(bench_recorder *recorder, bench_timeline *out, uint64_t n_events,
                         uint64_t peak_live_bytes);

/* Call after every event with the live and resident bytes; true when the bucket is full and
 * bench_recorder_close is due. */
static inline bool bench_recorder_event(bench_recorder *r, uint64_t live_bytes,
                                        uint64_t resident_bytes)
{
    bench_bucket *bucket = &r->bucket;
    bucket->live_bytes = live_bytes > bucket->live_bytes ? live_bytes : bucket->live_bytes;
    bucket->resident_bytes = resident_bytes > bucket->resident_bytes ? resident_bytes
                                                                     : bucket->resident_bytes;
    r->out->n_events++;
    return ++r->n_in_bucket == r->events_per_bucket;
}

static inline void bench_recorder_iteration(bench_recorder *r)
{
    r->out->n_iterations++;
}

/* The bucket is full. `now` was read at this moment. */
void bench_recorder_close(bench_recorder *recorder, const bench_reading *now);
/* The replay is over: write the last bucket. */
void bench_recorder_finish(bench_recorder *recorder, const bench_reading *now);

#endif
