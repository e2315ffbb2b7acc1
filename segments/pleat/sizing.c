/* sizing.c - see sizing.h. Guarded by the space's lock.
 *
 * A driver's time is spent per chunk, but while anything lives in a part of a chunk, none of it can
 * be taken. At the start, when memory is plentiful and what comes stays for long, chunks are large.
 * Later they are a small part of their request: a block dies whole, so they are seldom in use by
 * parts, except where smaller blocks follow in its place, and how much these can tie is bounded by
 * the size of a chunk. How many blocks can tie a chunk each does not depend on the device, so on a
 * smaller one chunks are smaller, too: then what is tied stays the same share of it.
 *
 * Where much is tied all the same, and the program needs more than ever, chunks are small at once,
 * as long as there is driver time to spare: what is created then lifts the peak by what it ties.
 * Below the peak they are not: streams that repeat their shapes each create what they need once,
 * and what is in large chunks they do not take from each other.
 * docs/design.md has the figures from which the constants are chosen. */
#include "segments/pleat/sizing.h"

#include "segments/pleat/granule.h"

enum {
    PLENTY_PERMILLE = 150,
    PLENTY_ORDER = 5,
    USUAL_ORDER = 2,
    USUAL_DEVICE = 3,
    REQUEST_SHARE = 16,
    TIED_LOG2 = 6
};

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

static size_t held(const pl_space *space)
{
    return space->n_chunks + space->n_creating;
}

static bool is_plentiful(const pl_space *space, size_t cap)
{
    return held(space) * 1000 < cap * PLENTY_PERMILLE;
}

/* The largest order by what is held and by the device, where memory is plentiful. */
static unsigned order_of_plenty(const pl_space *space, size_t cap)
{
    size_t share = space->options.chunk_share;
    unsigned most = order_in(cap, share * share, PLENTY_ORDER);

    return order_in(held(space), share, most);
}

unsigned pl_sizing_order(const pl_space *space, size_t cap, size_t n_granules)
{
    size_t share = space->options.chunk_share;

    if (wants_granules(space)) {
        return 0;
    }
    if (is_plentiful(space, cap)) {
        return order_of_plenty(space, cap);
    }
    unsigned most = order_in(cap, share * share * USUAL_DEVICE, USUAL_ORDER);
    return order_in(n_granules, REQUEST_SHARE, most);
}

unsigned pl_sizing_frugal_order(const pl_space *space, size_t n_granules, unsigned order)
{
    bool ties_much = space->store.tally.n_tied_granules > held(space) >> TIED_LOG2;
    bool is_peak = space->n_pinned + n_granules > space->peak_pinned;

    return ties_much && is_peak && pl_budget_is_ample(&space->budget)
               ? order_in(n_granules, REQUEST_SHARE, order)
               : order;
}
