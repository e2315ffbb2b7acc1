/* map.c - joins the pieces of an allocator's addresses to fewer pieces. */
#include "bench/run/map.h"

static bool are_alike(const bench_map_piece *a, const bench_map_piece *b)
{
    return !b->is_first && a->kind == b->kind && a->stream == b->stream && a->born == b->born &&
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

/* Neighbours joined into one piece. */
typedef struct heap {
    uint64_t of[PL_PIECE_HOLE + 1];      /* bytes by kind */
    uint64_t largest[PL_PIECE_HOLE + 1]; /* the largest piece of each kind, */
    int32_t stream[PL_PIECE_HOLE + 1];   /* and the piece's stream */
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

/* The joined piece has one kind. Bytes lost by other kinds are carried to the next heaps, so the
 * sum of each kind stays about right. */
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
        h->piece.born = 0;
    }
    h->n = 0;
    return h->piece;
}

/* Joins pieces into heaps of at least `bytes`; the last heap of a segment may be smaller. Returns
 * the number of heaps. Writes the heaps if is_written. */
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
    return 0; /* not reached: 2^62 bytes make one heap */
}
