/* timeline.h - records a replay over time: figures by buckets of events, and a map of the addresses
 * at the worst moment.
 *
 * The worst moment is the first failed allocation, else the peak of resident memory. The peak is
 * not known in advance, so a picture is taken whenever resident memory exceeds the last picture's
 * by 0.2 % and is at least half of the peak live bytes. */
#ifndef PLEAT_BENCH_TIMELINE_H
#define PLEAT_BENCH_TIMELINE_H

#include "bench/work/tape.h"
#include "segments/base/allocator.h"

enum { BENCH_MOST_BUCKETS = 600, BENCH_MOST_PIECES = 20000 };

typedef struct bench_bucket {
    uint64_t event;          /* number of its first event, over all loops */
    uint64_t iteration;      /* iterations begun before it */
    uint64_t live_bytes;     /* the most after any event; blocks rounded up to 512 bytes */
    uint64_t resident_bytes; /* the most after any event */
    uint64_t ops;
    uint64_t failures;
    uint64_t syncs;
    double host_ns; /* in the allocator's calls, without the driver's; of a timed replay */
    double driver_us;
} bench_bucket;

typedef struct bench_map_piece {
    uint64_t base;
    uint64_t bytes;
    int32_t stream; /* number in the work; -1 = none */
    uint8_t kind;   /* a pl_piece_kind */
    bool is_first;  /* a segment begins here */
} bench_map_piece;

typedef struct bench_map {
    bool is_failure; /* of an allocation; else the peak of resident memory */
    uint64_t event;
    uint64_t live_bytes;
    uint64_t resident_bytes;
    uint64_t requested_bytes; /* of the failed allocation, else 0 */
    uint64_t n_merged;        /* pieces that were joined to save room */
    unsigned n_pieces;        /* 0 = no map */
    bench_map_piece pieces[BENCH_MOST_PIECES];
} bench_map;

/* Plain memory without pointers: workers pass it between processes. */
typedef struct bench_timeline {
    uint64_t n_events;
    uint64_t n_iterations;
    uint64_t peak_live_bytes; /* of the work */
    bool is_timed;            /* has host_ns */
    unsigned n_buckets;
    bench_bucket buckets[BENCH_MOST_BUCKETS];
    bench_map worst;
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
    pl_allocator *allocator;
    void *const *streams; /* handles, by their numbers in the work */
    uint32_t n_streams;
    uint32_t last_stream; /* last one found: often the next one, too */
    uint64_t events_per_bucket;
    uint64_t n_in_bucket;
    bench_bucket bucket;     /* the one being filled */
    bench_reading last;      /* when it began */
    uint64_t enough_bytes;   /* resident bytes that justify a new picture */
    bench_map_piece *pieces; /* of the last picture */
    size_t n_pieces;
    size_t capacity;
    bool is_short; /* host memory did not suffice for the picture */
} bench_recorder;

/* `n_events` and `peak_live_bytes` of the whole replay; `streams` of the work. */
void bench_recorder_init(bench_recorder *recorder, bench_timeline *out, uint64_t n_events,
                         uint64_t peak_live_bytes);
void bench_recorder_fini(bench_recorder *recorder);

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

/* Is this the most that was ever resident, by a sufficient margin? Then bench_recorder_picture is
 * due. */
static inline bool bench_recorder_is_worse(const bench_recorder *r, uint64_t resident_bytes)
{
    return resident_bytes >= r->enough_bytes;
}

static inline void bench_recorder_iteration(bench_recorder *r)
{
    r->out->n_iterations++;
}

/* The bucket is full; `now` is read at this moment. */
void bench_recorder_close(bench_recorder *recorder, const bench_reading *now);
/* Take a picture. If `requested_bytes` is not 0, that allocation has just failed, and this is the
 * last picture. */
void bench_recorder_picture(bench_recorder *recorder, uint64_t live_bytes, uint64_t resident_bytes,
                            uint64_t requested_bytes);
/* The replay is over: write the last bucket, and the map from the last picture. */
void bench_recorder_finish(bench_recorder *recorder, const bench_reading *now);

/* Join pieces that touch and are alike. If more than `most` (at least 1) are left, join the
 * smallest to the next one in the segment; only if that does not suffice, join whole small
 * segments. A joined piece gets the kind of most of its bytes, such that the sums of each kind stay
 * about right. Returns how many are left; *n_joined counts those joined after the first step. */
size_t bench_map_merge(bench_map_piece *pieces, size_t n, size_t most, uint64_t *n_joined);

#endif
