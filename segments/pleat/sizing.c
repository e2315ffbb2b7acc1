/* sizing.c - see sizing.h. Guarded by the space's lock.
 *
 * A driver's time is spent per chunk, so large chunks are made where memory is plentiful. But while
 * anything lives in a part of a chunk, none of it can be taken. So the fuller the device, the
 * smaller the chunks; the last ones, which a full device moves about, are granules. docs/design.md
 * has the curve from which the steps are chosen.
 */
#include "segments/pleat/sizing.h"

#include "segments/pleat/granule.h"

/* Up to this part of what the device or the limit gives chunks are this large. */
typedef struct step {
    unsigned permille;
    unsigned order;
} step;

static const step STEPS[] = { { 150, 5 }, { 400, 2 }, { 700, 1 }, { 1000, 0 } };

static unsigned order_at(size_t held, size_t cap)
{
    size_t i = 0;

    while (STEPS[i].order > 0 && held * 1000 >= cap * STEPS[i].permille) {
        i++;
    }
    return STEPS[i].order;
}

/* Frugal: others use the device, too, so it is never plentiful. */
unsigned pl_sizing_order(const pl_space *space, size_t cap)
{
    size_t held = space->n_chunks + space->n_creating;

    if (space->options.chunks == PL_CHUNKS_GRANULE || space->options.growth == PL_GROWTH_FRUGAL) {
        return 0;
    }
    unsigned order = order_at(held, cap);
    unsigned most = pl_order_of(held / space->options.chunk_share + 1);
    return order < most ? order : most;
}
