/* timeline.c - records a replay over time. */
#include "bench/run/timeline.h"

#include "bench/base/size.h"

void bench_recorder_init(bench_recorder *recorder, bench_timeline *out, uint64_t n_events,
                         uint64_t peak_live_bytes)
{
    out->n_events = 0;
    out->n_iterations = 0;
    out->peak_live_bytes = peak_live_bytes;
    out->n_buckets = 0;
    *recorder = (bench_recorder){
        .out = out,
        .events_per_bucket = bench_round_up(n_events ? n_events : 1, BENCH_MOST_BUCKETS) /
                             BENCH_MOST_BUCKETS,
    };
}

static void add_reading(bench_recorder *r, bench_bucket *bucket, const bench_reading *now)
{
    bucket->ops += now->ops - r->last.ops;
    bucket->syncs += now->syncs - r->last.syncs;
    bucket->driver_us += now->driver_us - r->last.driver_us;
    /* The correction may exceed the time of a few calls; the rest is carried over, so sums stay
     * right. */
    double ns = now->host_ns - r->last.host_ns;
    bucket->host_ns += ns > 0.0 ? ns : 0.0;
    double told_ns = ns > 0.0 ? now->host_ns : r->last.host_ns;
    r->last = *now;
    r->last.host_ns = told_ns;
}

void bench_recorder_close(bench_recorder *r, const bench_reading *now)
{
    bench_timeline *out = r->out;
    add_reading(r, &r->bucket, now);
    out->buckets[out->n_buckets++] = r->bucket;
    r->bucket = (bench_bucket){ .event = out->n_events, .iteration = out->n_iterations };
    r->n_in_bucket = 0;
}

void bench_recorder_finish(bench_recorder *r, const bench_reading *now)
{
    bench_timeline *out = r->out;
    if (r->n_in_bucket > 0) {
        bench_recorder_close(r, now);
    } else if (out->n_buckets > 0) {
        add_reading(r, &out->buckets[out->n_buckets - 1], now);
    }
}
