/* state.c - see state.h. */
#include "bench/run/state.h"

#include <stdlib.h>
#include <string.h>

#include "bench/base/size.h"
#include "bench/run/holders.h"
#include "bench/work/tape.h"

#define PAGE (UINT64_C(20) << 20)
#define SMALL_PAGE (UINT64_C(2) << 20) /* and a granule of pleat */

enum { MOST_STREAMS = 64 };

_Static_assert((int)BENCH_STATE_LIVE == (int)PL_PIECE_LIVE &&
                   (int)BENCH_STATE_PENDING == (int)PL_PIECE_PENDING &&
                   (int)BENCH_STATE_FREE == (int)PL_PIECE_FREE,
               "kinds differ");

/* A history that tells a run has more entries than one for each live block, and as many ends. */
bool bench_state_matters(const bench_origin *origin)
{
    const bench_state *state = &origin->state;
    uint64_t n_live = 0;
    for (size_t i = 0; i < state->n_pieces; i++) {
        n_live += state->pieces[i].kind == BENCH_STATE_LIVE;
    }
    return state->n_pieces > 0 &&
           (origin->told.ends_failed || origin->told.n_entries < 2 * n_live + 1);
}

/* ---- a map ---- */

typedef struct taker {
    const bench_state *state;
    const bench_map_piece *pieces;
    bool is_pleat;
    uint64_t streams[MOST_STREAMS]; /* by the order in which they are seen */
    unsigned n_streams;
} taker;

static int32_t number_of(taker *t, uint64_t stream)
{
    unsigned i = 0;
    while (i < t->n_streams && t->streams[i] != stream) {
        i++;
    }
    if (i == t->n_streams && i < MOST_STREAMS) {
        t->streams[t->n_streams++] = stream;
    }
    return i < MOST_STREAMS ? (int32_t)i : -1;
}

static bench_map_piece piece_of(taker *t, size_t i)
{
    const bench_state_piece *from = &t->state->pieces[i];
    return (bench_map_piece){
        .base = from->base,
        .bytes = from->bytes,
        .born = from->kind == BENCH_STATE_LIVE ? i + 1 : 0,
        .stream = number_of(t, from->stream),
        .kind = from->kind,
        .is_first = from->is_first || i == 0,
        .is_small = from->is_small,
    };
}

static uint64_t page_of(const void *context, const bench_map_piece *piece)
{
    const taker *t = context;
    if (!t->state->pieces[piece - t->pieces].is_expandable) {
        return 0;
    }
    return piece->is_small || t->is_pleat ? SMALL_PAGE : PAGE;
}

/* ---- figures ---- */

static void count_segments(const bench_state *state, bench_state_figures *out)
{
    bool is_free = false; /* the segment so far */
    for (size_t i = 0; i < state->n_pieces; i++) {
        const bench_state_piece *piece = &state->pieces[i];
        if (piece->is_first || i == 0) {
            out->n_free_segments += is_free;
            out->n_segments++;
            is_free = true;
        }
        is_free = is_free && piece->kind == BENCH_STATE_FREE;
    }
    out->n_free_segments += is_free;
}

static bench_held held_of(const bench_map_piece *piece, const bench_state_piece *from,
                          uint64_t charge)
{
    bool has_stack = from->stack > 0;
    bench_held h = { .charged_bytes = charge, .bytes = from->bytes };
    h.key = (bench_holder){ .stack = (int64_t)from->stack - 1,
                            .bytes = has_stack ? 0 : from->bytes,
                            .stream = has_stack ? -1 : piece->stream,
                            .is_pending = from->kind == BENCH_STATE_PENDING };
    return h;
}

/* Returns the number of blocks in use, which go to `blocks`. */
static size_t count(const bench_state *state, const bench_map_piece *pieces,
                    const uint64_t *charges, bench_held *blocks, bench_moment *moment,
                    bench_state_figures *out)
{
    size_t n = 0;
    for (size_t i = 0; i < state->n_pieces; i++) {
        const bench_state_piece *from = &state->pieces[i];
        bool is_live = from->kind == BENCH_STATE_LIVE;
        bool is_free = from->kind == BENCH_STATE_FREE;
        out->held_bytes += from->bytes;
        out->live_bytes += is_live ? from->bytes : 0;
        out->n_live += is_live;
        out->has_pages = out->has_pages || from->is_expandable;
        out->pending_bytes += from->kind == BENCH_STATE_PENDING ? from->bytes : 0;
        if (is_free && from->bytes > out->largest_free_bytes) {
            out->largest_free_bytes = from->bytes;
        }
        moment->live_bytes += is_live ? bench_round_up(from->asked_bytes, BENCH_BLOCK_UNIT) : 0;
        moment->free_bytes += is_free ? from->bytes : 0;
        if (!is_free) {
            blocks[n++] = held_of(&pieces[i], from, charges[i]);
        }
    }
    return n;
}

static void put_map(bench_moment *moment, bench_map_piece *pieces, size_t n)
{
    size_t n_left = bench_map_merge(pieces, n, BENCH_MOST_PIECES, &moment->n_merged);
    memcpy(moment->pieces, pieces, n_left * sizeof *pieces);
    moment->n_pieces = (unsigned)n_left;
    moment->has_map = true;
}

bool bench_state_take(const bench_origin *origin, bench_moment *moment, bench_state_figures *out,
                      bench_failure *failure)
{
    const bench_state *state = &origin->state;
    *out = (bench_state_figures){ .n_segments = 0 };
    bench_map_piece *pieces = calloc(state->n_pieces + 1, sizeof *pieces);
    uint64_t *charges = calloc(state->n_pieces + 1, sizeof *charges);
    bench_held *blocks = calloc(state->n_pieces + 1, sizeof *blocks);
    taker t = { .state = state,
                .pieces = pieces,
                .is_pleat = strcmp(origin->allocator, "pleat") == 0 };
    bool ok = (pieces && charges && blocks) || bench_fail(failure, "out of host memory");
    if (ok) {
        for (size_t i = 0; i < state->n_pieces; i++) {
            pieces[i] = piece_of(&t, i);
        }
        out->stranded_bytes = bench_moment_charge(pieces, state->n_pieces, page_of, &t, charges);
        bench_holders_write(moment, blocks, count(state, pieces, charges, blocks, moment, out));
        count_segments(state, out);
        out->returnable_bytes = moment->free_bytes - out->stranded_bytes;
        moment->is_reached = moment->is_recorded = moment->has_free = true;
        moment->resident_bytes = out->held_bytes;
        moment->pending_bytes = out->pending_bytes;
        moment->stranded_bytes = out->stranded_bytes;
        moment->largest_free_bytes = out->largest_free_bytes;
        moment->rounding_bytes = (int64_t)out->live_bytes - (int64_t)moment->live_bytes;
        put_map(moment, pieces, state->n_pieces);
    }
    free(pieces);
    free(charges);
    free(blocks);
    return ok;
}
