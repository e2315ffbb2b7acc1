/* policy.c - see policy.h. */
#include "segments/pleat/policy.h"

#include "vmm/meter.h"

enum {
    GROWN_BACK_LOG2 = 6,
    GROWN_BACK_LEAST = 8, /* granules: 1/64 of a small peak is none */
    CLEARLY_LOG2 = 6,
    FRUGAL_PERMILLE = 1050,
    BALANCED_PERMILLE = 1100
};

/* ---- creating -------------------------------------------------------------------------------- */

/* Chunks that may be created before any is taken. Up to a limit, if one is set, since that memory
 * was granted; else up to the most granules ever pinned, with a slack that keeps the start cheap,
 * plus the granules that were taken and came back. */
size_t pl_policy_slack(const pl_space *space, size_t cap, size_t n_pin)
{
    size_t pinned = space->n_pinned + n_pin;
    size_t peak = pinned > space->peak_pinned ? pinned : space->peak_pinned;

    if (space->options.growth == PL_GROWTH_AMPLE || space->limit_bytes != 0) {
        return pl_policy_room(space, cap);
    }
    size_t target = peak + peak * space->options.keep_permille / 1000;
    if (space->options.growth == PL_GROWTH_BALANCED) {
        size_t most = peak >> GROWN_BACK_LOG2;
        most = most > GROWN_BACK_LEAST ? most : GROWN_BACK_LEAST;
        target += space->n_grown_back < most ? space->n_grown_back : most;
    }
    return pl_policy_room(space, target < cap ? target : cap);
}

bool pl_policy_is_too_much(const pl_space *space, size_t n_missing, size_t n_needed)
{
    bool is_frugal = space->options.growth == PL_GROWTH_FRUGAL;
    size_t tolerated = is_frugal ? FRUGAL_PERMILLE : BALANCED_PERMILLE;
    size_t held = space->n_chunks + space->n_creating + n_missing;

    return held * 1000 > n_needed * tolerated;
}

/* ---- taking ---------------------------------------------------------------------------------- */

/* Would what is taken now be taken again and again? */
static bool is_steady(const pl_space *space)
{
    return space->options.growth == PL_GROWTH_BALANCED && pl_budget_is_steady(&space->budget);
}

/* May all loose granules be taken, whatever that costs? Streams that come and go leave more of them
 * than driver time is earned for, and without such takes the device would grow by a multiple. For a
 * lane that is not young, what was taken and came back counts as needed, too, and a steady program
 * needs all that it asks for: else streams that keep to their shapes would take from each other for
 * ever. */
static bool takes_all(const pl_space *space, const pl_request *rq, size_t n_missing)
{
    bool is_young = rq->lane->n_lifetime < PL_LANE_YOUNG;
    size_t n_needed = space->peak_pinned + (is_young ? 0 : space->n_grown_back);

    return pl_space_has_many_lanes(space) && space->options.growth != PL_GROWTH_AMPLE &&
           (is_young || !is_steady(space)) && pl_policy_is_too_much(space, n_missing, n_needed);
}

/* What a take costs the driver, in ns: it is mapped at the place now, and unmapped from the old one
 * later. */
static uint64_t take_ns(const pl_space *space, size_t n_chunks, size_t n_granules)
{
    return n_chunks * pl_meter_ns(space->dev, PL_METER_MAP) +
           n_granules * pl_meter_ns(space->dev, PL_METER_UNMAP);
}

/* The request's place is pinned already. A steady program that needs more than ever is none. */
static bool lifts_peak(const pl_space *space)
{
    return space->n_pinned > space->peak_pinned;
}

size_t pl_policy_most_taken(pl_space *space, const pl_request *rq, size_t n_missing)
{
    uint64_t now_ns = pl_meter_elapsed_ns(space->dev, space->budget.n_events);
    uint64_t left_ns = pl_budget_left_ns(&space->budget, now_ns);

    if (space->options.growth == PL_GROWTH_FRUGAL || takes_all(space, rq, n_missing)) {
        return SIZE_MAX;
    }
    bool takes_none = is_steady(space) && !lifts_peak(space);
    return takes_none ? 0 : (size_t)(left_ns / (take_ns(space, 1, 1) + 1));
}

void pl_policy_note_taken(pl_space *space, size_t n_chunks, size_t n_granules)
{
    pl_budget_spend_ns(&space->budget, take_ns(space, n_chunks, n_granules));
}

void pl_policy_note_created(pl_space *space, uint64_t ns)
{
    pl_budget_earn_ns(&space->budget, ns);
}

void pl_policy_note_frugal(pl_space *space, uint64_t ns)
{
    pl_budget_spend_ns(&space->budget, ns);
}

void pl_policy_note_grown(pl_space *space)
{
    if (space->peak_pinned > space->marked_pinned + (space->marked_pinned >> CLEARLY_LOG2)) {
        space->marked_pinned = space->peak_pinned;
        pl_budget_changed(&space->budget);
    }
}
