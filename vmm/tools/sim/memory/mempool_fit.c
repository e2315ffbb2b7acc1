/* mempool_fit.c - where a block goes: the smallest run of free pieces that the stream may use.
 *
 * A run is a longest sequence of neighbouring free pieces that the stream may use. Usable pieces
 * are settled, or freed on the stream itself, or freed before the stream's next command anyway. The
 * smallest large enough run is taken, the lowest among equals. The block takes its start. Few
 * pieces are pending at a time, so the search looks at all pending pieces. A settled piece is a run
 * by itself unless a neighbour is usable and pending. */
#include <stddef.h>

#include "vmm/tools/sim/memory/mempool.h"

/* The request, and the best place so far. */
typedef struct search {
    const sim_mempool *pool;
    const sim_stream *stream;
    bool any; /* every pending piece may be used */
    uint64_t want_bytes;
    sim_piece *first;
    uint64_t bytes;
} search;

static bool is_ordered(const search *s, const sim_piece *piece)
{
    if (piece->slot == s->stream->slot) {
        return true;
    }
    return s->pool->follows_events &&
           sim_clock_get(s->stream->deps, piece->slot) >= piece->position;
}

static bool is_pending_usable(const search *s, const sim_piece *piece)
{
    return piece != NULL && piece->state == SIM_PIECE_PENDING && (s->any || is_ordered(s, piece));
}

static bool is_usable(const search *s, const sim_piece *piece)
{
    return piece != NULL && (piece->state == SIM_PIECE_SETTLED || is_pending_usable(s, piece));
}

static void offer(search *s, sim_piece *first, uint64_t bytes)
{
    if (bytes >= s->want_bytes &&
        (s->first == NULL || sim_skip_is_before(bytes, first->ptr, s->bytes, s->first->ptr))) {
        s->first = first;
        s->bytes = bytes;
    }
}

/* Offers the run around a usable pending piece, unless an earlier piece of the run offers it. */
static void offer_run(search *s, sim_piece *piece)
{
    sim_piece *first = piece;
    while (is_usable(s, first->prev)) {
        first = first->prev;
        if (first->state == SIM_PIECE_PENDING) {
            return;
        }
    }
    uint64_t bytes = 0;
    for (sim_piece *it = first; is_usable(s, it); it = it->next) {
        bytes += it->bytes;
    }
    offer(s, first, bytes);
}

static void offer_settled(search *s)
{
    for (sim_skip_node *node = sim_skip_find(&s->pool->settled, s->want_bytes); node != NULL;
         node = node->next[0]) {
        sim_piece *piece = (sim_piece *)(void *)((char *)node - offsetof(sim_piece, node));
        if (s->first != NULL && s->bytes < piece->bytes) {
            return;
        }
        if (!is_pending_usable(s, piece->prev) && !is_pending_usable(s, piece->next)) {
            offer(s, piece, piece->bytes);
            return;
        }
    }
}

sim_piece *sim_mempool_fit(const sim_mempool *pool, const sim_stream *stream, uint64_t bytes,
                           bool any)
{
    search s = { .pool = pool, .stream = stream, .any = any, .want_bytes = bytes };
    for (sim_piece *it = pool->first_pending; it != NULL; it = it->later) {
        if (is_pending_usable(&s, it)) {
            offer_run(&s, it);
        }
    }
    offer_settled(&s);
    return s.first;
}

void sim_mempool_depend(const sim_piece *first, uint64_t bytes, sim_stream *stream)
{
    uint64_t covered = 0;
    for (const sim_piece *it = first; covered < bytes; it = it->next) {
        if (it->state == SIM_PIECE_PENDING && it->slot != stream->slot &&
            sim_stream_at(it->slot)->finished < it->position) {
            sim_clock_raise(&stream->deps, it->slot, it->position);
            sim_clock_join(&stream->deps, it->deps);
        }
        covered += it->bytes;
    }
}
