/* sizing.c - see sizing.h. Guarded by the space's lock.
 *
 * A driver's time is spent per chunk, but while anything lives in a part of a chunk, none of it can
 * be taken. At the start, when memory is plentiful and what comes stays for long, chunks are large.
 * Later they are a small part of their request: a block dies whole, so they are seldom in use by
 * parts, except where smaller blocks follow in its place, and how much these can tie is bounded by
 * the size of a chunk. docs/design.md has the figures from which the constants are chosen. */
#include "segments/pleat/sizing.h"

#include "segments/pleat/granule.h"

enum { PLENTY_PERMILLE = 150, PLENTY_ORDER = 5, USUAL_ORDER = 2, REQUEST_SHARE = 16 };

/* The largest order, at most `most`, of chunks that are at most 1 / share of n granules. */
static unsigned order_in(size_t n, size_t share, unsigned most)
{
    unsigned order = pl_order_of(n / share + 1);

    return order < most ? order : most;
}

/* Frugal: others use the device, too, so it is never plentiful. And who compacts wants memory more
 * than time: what was split would grow together again. */
static bool wants_granules(const pl_space *space)
{
    return space->options.chunks == PL_CHUNKS_GRANULE ||
           space->options.growth == PL_GROWTH_FRUGAL || space->has_compacted;
}

unsigned pl_sizing_order(const pl_space *space, size_t cap, size_t n_granules)
{
    size_t held = space->n_chunks + space->n_creating;

    if (wants_granules(space)) {
        return 0;
    }
    if (held * 1000 < cap * PLENTY_PERMILLE) {
        return order_in(held, space->options.chunk_share, PLENTY_ORDER);
    }
    return order_in(n_granules, REQUEST_SHARE, USUAL_ORDER);
}
