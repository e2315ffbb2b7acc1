/* sizing.c - see sizing.h. Guarded by the space's lock.
 *
 * A driver's time is spent per chunk, so large chunks are made where memory is plentiful. But while
 * anything lives in a part of a chunk, none of it can be taken. So the fuller the device, the
 * smaller the chunks; the last ones, which a full device moves about, are granules. docs/design.md
 * has the curve from which the steps are chosen.
 *
 * What a steady program takes it will take again, in each of its iterations. Growing ends that, and
 * costs once. */
#include "segments/pleat/sizing.h"

#include "segments/pleat/granule.h"

enum { STEADY_EVENTS = 1 << 18, GROW_FACTOR = 4 };

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

/* Steady: its peak has not risen for a while. */
void pl_sizing_note_taken(pl_space *space, size_t n)
{
    if (space->options.growth == PL_GROWTH_BALANCED &&
        space->budget.n_events - space->peak_event > STEADY_EVENTS) {
        space->n_to_grow += GROW_FACTOR * n;
    }
}
