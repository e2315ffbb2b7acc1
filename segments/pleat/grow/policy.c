/* policy.c - see policy.h. Each constant is a price or a bound. */
#include "segments/pleat/grow/policy.h"

enum {
    /* The largest order of a new chunk: 64 MiB with granules of 2 MiB. On an A100 nine tenths of
     * the driver's time for a 64 MiB chunk are by the byte. */
    LARGEST_ORDER = 5,
    /* `chunk_share` is multiplied by this where memory is dear. */
    FRUGAL_TIMES = 4,
    /* `chunk_share` is divided by this where memory costs nothing. */
    AMPLE_PART = 2,
    /* And by this where live memory may move: what is tied can then be had back. */
    MOVING_PART = 3,
    /* Of its own request a chunk may be so many times the share, as it ties little beside it. */
    REQUEST_TIMES = 12,
    /* But at most so many times what an empty device gives, as the block may be freed and split. */
    EMPTY_TIMES = 2,
    /* Free granules allowed, in percent of the most granules ever pinned. Without slack, memory
     * would grow by the few granules that a request lacks, in many small chunks. */
    SLACK_PERCENT = 1,
    /* Chunks taken that buy a granule of slack on an empty device: half a millisecond of the
     * driver. This is a price of memory, so the price grows as the headroom shrinks. */
    TAKES_A_GRANULE = 8,
    /* Granules that a wait between streams must save on an empty device, as the wait may cost the
     * program time: how much depends on the kernels. Fewer as the headroom shrinks. */
    A_WAIT_GRANULES = 8
};

static uint64_t share_of(const pl_space *space)
{
    uint64_t share = space->options.chunk_share;
    unsigned part = 1;

    if (space->options.growth == PL_GROWTH_FRUGAL) {
        return share * FRUGAL_TIMES;
    }
    part *= space->options.growth == PL_GROWTH_AMPLE ? AMPLE_PART : 1;
    part *= space->options.when_short == PL_SHORT_COMPACT ? MOVING_PART : 1;
    return share > part ? share / part : 1;
}

static pleat_policy_view view_of(const pl_space *space, size_t cap, size_t n_asked)
{
    return (pleat_policy_view){
        .granule_bytes = UINT64_C(1) << space->granule_log2,
        .total = space->chunks.total_granules,
        .cap = cap,
        .held = space->chunks.n_held + space->chunks.n_creating,
        .pinned = space->chunks.n_pinned,
        .peak_pinned = space->chunks.peak_pinned,
        .tied = space->blocks.store.tally.n_tied_granules,
        .taken = space->chunks.n_takes,
        .asked = n_asked,
    };
}

/* What the rule of somebody's own says, at most `most`; without one what pleat's own says. */
static uint64_t ask(const pl_space *space, pleat_policy_fn *rule, size_t cap, size_t n_asked,
                    uint64_t own, uint64_t most)
{
    if (!rule) {
        return own;
    }
    const pleat_policy_view now = view_of(space, cap, n_asked);
    uint64_t answer = rule(&now, own);
    return answer < most ? answer : most;
}

static const pl_policy_calls *calls_of(const pl_space *space)
{
    static const pl_policy_calls none = { .order = NULL };
    return space->options.policy ? space->options.policy : &none;
}

unsigned pl_policy_order(const pl_space *space, size_t cap, size_t n_granules)
{
    uint64_t room = pl_policy_headroom(space, cap);
    uint64_t own = (uint64_t)n_granules * REQUEST_TIMES;
    uint64_t bound = (uint64_t)cap * EMPTY_TIMES;

    own = own < bound ? own : bound;
    uint64_t most = (room > own ? room : own) / share_of(space); /* granules */
    unsigned order = 0;

    if (space->options.chunks == PL_CHUNKS_GRANULE) {
        return 0;
    }
    while (order < LARGEST_ORDER && (uint64_t)2 << order <= most) {
        order++;
    }
    return (unsigned)ask(space, calls_of(space)->order, cap, n_granules, order, LARGEST_ORDER);
}

static size_t bought(const pl_space *space, size_t cap)
{
    uint64_t room = pl_policy_headroom(space, cap);

    return cap > 0 ? (size_t)(space->chunks.n_takes * room / ((uint64_t)cap * TAKES_A_GRANULE)) : 0;
}

static size_t own_slack(const pl_space *space, size_t cap, size_t n_pin)
{
    size_t pinned = space->chunks.n_pinned + n_pin;
    size_t peak = pinned > space->chunks.peak_pinned ? pinned : space->chunks.peak_pinned;

    if (space->options.growth == PL_GROWTH_AMPLE) {
        return pl_policy_headroom(space, cap);
    }
    size_t target = peak + peak * SLACK_PERCENT / 100;
    if (space->options.growth == PL_GROWTH_BALANCED) {
        target += bought(space, cap);
    }
    return pl_policy_headroom(space, target < cap ? target : cap);
}

size_t pl_policy_slack(const pl_space *space, size_t cap, size_t n_pin)
{
    return (size_t)ask(space, calls_of(space)->slack, cap, n_pin, own_slack(space, cap, n_pin),
                       pl_policy_headroom(space, cap));
}

/* A young lane's stream may never return to its place, so takes of young lanes buy nothing. */
void pl_policy_note_taken(pl_space *space, const pl_lane *lane, size_t n_chunks)
{
    space->chunks.n_takes += lane->n_lifetime < PL_LANE_YOUNG ? 0 : n_chunks;
}

bool pl_policy_may_order(const pl_space *space, size_t cap, size_t n_saved)
{
    uint64_t room = pl_policy_headroom(space, cap);

    bool is_own = space->options.growth != PL_GROWTH_AMPLE &&
                  (uint64_t)n_saved * cap >= A_WAIT_GRANULES * room;

    return space->options.cross_stream == PL_CROSS_ORDER &&
           ask(space, calls_of(space)->may_order, cap, n_saved, is_own, 1) != 0;
}

uint64_t pl_policy_rank(const pl_space *space, size_t cap, size_t bytes, pleat_devptr at,
                        size_t n_new, size_t n_pin)
{
    pleat_policy_view now = view_of(space, cap, n_pin);

    now.bytes = bytes;
    now.at = at;
    return space->options.policy->place(&now, n_new);
}

size_t pl_policy_lacks(const pl_space *space, size_t n_granules)
{
    size_t need = space->chunks.n_pinned + n_granules;
    size_t cap = pl_space_cap(space);

    cap = need > cap ? cap : pl_reserve_cap(space, cap);
    return need > cap ? need - cap : 0;
}

/* What the last compaction could not win is not tried again. */
bool pl_policy_may_compact(const pl_space *space, size_t n_granules)
{
    size_t n_lacking = pl_policy_lacks(space, n_granules);

    return space->options.when_short == PL_SHORT_COMPACT && n_lacking > 0 &&
           space->blocks.store.tally.n_tied_granules >= n_lacking + space->chunks.n_unmoved;
}

/* ---- the reserve ----------------------------------------------------------------------------- */

enum { SHARE_LOG2 = 6 };

/* On a small device the share counts: libraries need more memory the more they work on. */
size_t pl_reserve_of(const pl_space *space)
{
    size_t share = space->chunks.total_granules >> SHARE_LOG2;
    size_t most = (size_t)(space->options.reserve_bytes >> space->granule_log2);

    return share < most ? share : most;
}

size_t pl_reserve_cap(const pl_space *space, size_t cap)
{
    size_t kept = space->chunks.n_others + space->chunks.reserve_granules;
    size_t most = space->chunks.total_granules > kept ? space->chunks.total_granules - kept : 0;

    return most < cap ? most : cap;
}

bool pl_reserve_wants_to_know(const pl_space *space)
{
    return space->chunks.reserve_granules > 0 && space->chunks.n_held >= space->chunks.ask_free_at;
}

void pl_reserve_learn(pl_space *space, size_t n_held, uint64_t free_bytes)
{
    size_t n_free = (size_t)(free_bytes >> space->granule_log2);
    size_t ours = n_held + n_free;

    space->chunks.n_others = space->chunks.total_granules > ours
                                 ? space->chunks.total_granules - ours
                                 : 0;
    size_t cap = pl_reserve_cap(space, space->chunks.total_granules);
    space->chunks.ask_free_at = n_held + 1 + (cap > n_held ? (cap - n_held) / 2 : 0);
}
