/* sizing.c - see sizing.h. Guarded by the space's lock.
 *
 * A driver's time is spent per chunk, but while anything lives in a part of a chunk, none of it can
 * be taken. A block dies whole: what it leaves of large chunks is whole chunks again, except at its
 * ends. So chunks that are a small part of the request lose little, on a full device, too. At the
 * start, when memory is plentiful and what comes stays for long, chunks are large under any
 * request. docs/design.md has the figures from which the constants are chosen. */
#include "segments/pleat/sizing.h"

#include "segments/pleat/granule.h"

enum { PLENTY_PERMILLE = 150, PLENTY_ORDER = 5, USUAL_ORDER = 3 };

/* Frugal: others use the device, too, so it is never plentiful. */
unsigned pl_sizing_order(const pl_space *space, size_t cap, size_t n_granules)
{
    size_t held = space->n_chunks + space->n_creating;
    bool is_plenty = held * 1000 < cap * PLENTY_PERMILLE;

    if (space->options.chunks == PL_CHUNKS_GRANULE || space->options.growth == PL_GROWTH_FRUGAL) {
        return 0;
    }
    size_t whole = is_plenty && held > n_granules ? held : n_granules;
    unsigned order = pl_order_of(whole / space->options.chunk_share + 1);
    unsigned most = is_plenty ? PLENTY_ORDER : USUAL_ORDER;
    return order < most ? order : most;
}
