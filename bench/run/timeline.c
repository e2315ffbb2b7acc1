/* timeline.c - records a replay over time. */
#include "bench/run/timeline.h"

#include <stdlib.h>
#include <string.h>

#include "bench/base/size.h"

#define NEXT_PICTURE_PARTS 500u /* 0.2 % */

void bench_recorder_init(bench_recorder *recorder, bench_timeline *out, uint64_t n_events,
                         uint64_t peak_live_bytes)
{
    out->n_events = 0;
    out->n_iterations = 0;
    out->peak_live_bytes = peak_live_bytes;
    out->n_buckets = 0;
    memset(&out->worst, 0, sizeof out->worst);
    *recorder = (bench_recorder){
        .out = out,
        .events_per_bucket = bench_round_up(n_events ? n_events : 1, BENCH_MOST_BUCKETS) /
                             BENCH_MOST_BUCKETS,
        .enough_bytes = peak_live_bytes / 2 + 1,
    };
}

void bench_recorder_fini(bench_recorder *recorder)
{
    free(recorder->pieces);
    recorder->pieces = NULL;
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

static int32_t number_of(bench_recorder *r, const pl_stream *stream)
{
    if (!stream) {
        return -1;
    }
    void *handle = pl_stream_handle(stream);
    uint32_t i = r->last_stream;
    if (i >= r->n_streams || r->streams[i] != handle) {
        for (i = 0; i < r->n_streams && r->streams[i] != handle; i++) {
        }
    }
    if (i == r->n_streams) {
        return -1;
    }
    r->last_stream = i;
    return (int32_t)i;
}

static void see(void *context, const pl_piece *piece)
{
    bench_recorder *r = context;
    if (r->n_pieces == r->capacity) {
        size_t capacity = r->capacity ? 2 * r->capacity : 4096;
        bench_map_piece *pieces = realloc(r->pieces, capacity * sizeof *pieces);
        if (!pieces) {
            r->is_short = true;
            return;
        }
        r->pieces = pieces;
        r->capacity = capacity;
    }
    r->pieces[r->n_pieces++] = (bench_map_piece){
        .base = piece->base,
        .bytes = piece->bytes,
        .stream = number_of(r, piece->stream),
        .kind = (uint8_t)piece->kind,
        .is_first = piece->is_first,
    };
}

void bench_recorder_picture(bench_recorder *r, uint64_t live_bytes, uint64_t resident_bytes,
                            uint64_t requested_bytes)
{
    bench_map *worst = &r->out->worst;
    worst->is_failure = requested_bytes != 0;
    worst->event = r->out->n_events;
    worst->live_bytes = live_bytes;
    worst->resident_bytes = resident_bytes;
    worst->requested_bytes = requested_bytes;
    r->enough_bytes = requested_bytes ? UINT64_MAX
                                      : resident_bytes + resident_bytes / NEXT_PICTURE_PARTS + 1;
    r->n_pieces = 0;
    r->is_short = false;
    if (r->allocator && r->allocator->ops->visit) {
        r->allocator->ops->visit(r->allocator, see, r);
    }
}

void bench_recorder_finish(bench_recorder *r, const bench_reading *now)
{
    bench_timeline *out = r->out;
    if (r->n_in_bucket > 0) {
        bench_recorder_close(r, now);
    } else if (out->n_buckets > 0) {
        add_reading(r, &out->buckets[out->n_buckets - 1], now);
    }
    if (!r->is_short && r->n_pieces > 0) {
        bench_map *worst = &out->worst;
        size_t n = bench_map_merge(r->pieces, r->n_pieces, BENCH_MOST_PIECES, &worst->n_merged);
        memcpy(worst->pieces, r->pieces, n * sizeof *r->pieces);
        worst->n_pieces = (unsigned)n;
    }
}

static bool are_alike(const bench_map_piece *a, const bench_map_piece *b)
{
    return !b->is_first && a->kind == b->kind && a->stream == b->stream &&
           a->base + a->bytes == b->base;
}

static size_t join_alike(bench_map_piece *pieces, size_t n)
{
    size_t last = 0;
    for (size_t i = 1; i < n; i++) {
        if (are_alike(&pieces[last], &pieces[i])) {
            pieces[last].bytes += pieces[i].bytes;
        } else {
            pieces[++last] = pieces[i];
        }
    }
    return n ? last + 1 : 0;
}

/* Neighbours that are joined to one piece. */
typedef struct heap {
    uint64_t of[PL_PIECE_HOLE + 1];      /* bytes by kind */
    uint64_t largest[PL_PIECE_HOLE + 1]; /* the largest piece of each kind, */
    int32_t stream[PL_PIECE_HOLE + 1];   /* and its stream */
    bench_map_piece piece;
    unsigned n;
} heap;

static void heap_add(heap *h, const bench_map_piece *piece)
{
    if (h->n == 0) {
        *h = (heap){ .piece = *piece };
        h->piece.bytes = 0;
    }
    h->n++;
    h->piece.bytes += piece->bytes;
    h->of[piece->kind] += piece->bytes;
    if (piece->bytes > h->largest[piece->kind]) {
        h->largest[piece->kind] = piece->bytes;
        h->stream[piece->kind] = piece->stream;
    }
}

/* The joined piece has one kind. The bytes that other kinds lose are carried to the next heaps, so
 * the sum of each kind stays about right. */
static bench_map_piece heap_take(heap *h, double carried[PL_PIECE_HOLE + 1])
{
    unsigned chosen = h->piece.kind;
    for (unsigned k = 0; k <= PL_PIECE_HOLE && h->n > 1; k++) {
        carried[k] += (double)h->of[k];
        if (h->of[k] > 0 && carried[k] > carried[chosen]) {
            chosen = k;
        }
    }
    if (h->n > 1) {
        carried[chosen] -= (double)h->piece.bytes;
        h->piece.kind = (uint8_t)chosen;
        h->piece.stream = h->stream[chosen];
    }
    h->n = 0;
    return h->piece;
}

/* Joins pieces into heaps of at least `bytes`; the last heap of a segment may be smaller. Returns
 * their number. Writes them if asked to. */
static size_t join_small(bench_map_piece *pieces, size_t n, uint64_t bytes, bool over_segments,
                         bool is_written)
{
    heap h = { .n = 0 };
    double carried[PL_PIECE_HOLE + 1] = { 0.0 };
    size_t n_heaps = 0;
    for (size_t i = 0; i < n; i++) {
        bench_map_piece piece = pieces[i];
        if (h.n > 0 && (h.piece.bytes >= bytes || (piece.is_first && !over_segments))) {
            bench_map_piece joined = heap_take(&h, carried);
            if (is_written) {
                pieces[n_heaps] = joined;
            }
            n_heaps++;
        }
        heap_add(&h, &piece);
    }
    if (h.n > 0) {
        bench_map_piece joined = heap_take(&h, carried);
        if (is_written) {
            pieces[n_heaps] = joined;
        }
        n_heaps++;
    }
    return n_heaps;
}

size_t bench_map_merge(bench_map_piece *pieces, size_t n, size_t most, uint64_t *n_joined)
{
    size_t n_alike = join_alike(pieces, n);
    *n_joined = 0;
    if (n_alike <= most) {
        return n_alike;
    }
    for (int over_segments = 0; over_segments < 2; over_segments++) {
        for (unsigned bits = 10; bits < 63; bits++) {
            uint64_t bytes = UINT64_C(1) << bits;
            if (join_small(pieces, n_alike, bytes, over_segments != 0, false) <= most) {
                n = join_small(pieces, n_alike, bytes, over_segments != 0, true);
                *n_joined = n_alike - n;
                return n;
            }
        }
    }
    return 0; /* not reached: with 2^62 bytes there is one heap */
}
