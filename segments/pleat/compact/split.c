/* split.c - see split.h: one chunk, from the plan to the commit.
 *
 * Steps that can fail come first, and are undone: new chunks, mappings at the scratch addresses,
 * the copy. A failure after the old chunk was unmapped is undone by mapping the old chunk again. If
 * that fails, too, live blocks have memory but no mapping. Then the space is torn, and gives out
 * nothing until a later compaction has mended the tear.
 *
 * The driver is called without the lock: a split is a flight. The gaps, which lose their memory,
 * are in flight. So no other thread gets a gap. Nobody takes the chunk either, as the chunk is not
 * loose. Other threads may free and give out the rest of the chunk meanwhile, as that moves no
 * byte. */
#include "segments/pleat/compact/split.h"

#include "segments/pleat/grow/trim.h"
#include "segments/pleat/space/back.h"
#include "segments/pleat/space/keeper.h"
#include "segments/pleat/space/run.h"
#include "segments/pleat/streams/settle.h"
#include "vmm/share.h"

/* A split under way. */
typedef struct split {
    pl_swap swap;
    size_t n_have;                     /* granules of the new chunks so far */
    pl_block *gaps[PL_SWAP_SPANS + 1]; /* granules that lose their memory, in flight */
    size_t n_gaps;
    pl_flying flying;
} split;

/* ---- the plan ------------------------------------------------------------------------------ */

/* Graphs may use a private pool's free blocks, so no table tells what is vacant in private
 * pools. */
static bool plan(const pl_space *space, pleat_devptr at, split *s)
{
    pl_segment *seg = pl_space_segment_at(space, at);
    if (seg == NULL || seg->is_private || seg->is_opening) {
        return false;
    }
    size_t g = pl_segment_granule(seg, at);
    if (g >= seg->capacity || seg->chunks[g] == 0 || seg->parts[g] != 0 || seg->orders[g] == 0) {
        return false;
    }
    if (pl_share_is_noted(space->dev, seg->chunks[g])) {
        return false; /* other processes map the old chunk, and would miss the move */
    }
    *s = (split){
        .swap = { .seg = seg, .at = at, .g = g, .order = seg->orders[g], .old = seg->chunks[g] }
    };
    for (size_t i = g; i < g + pl_swap_granules(&s->swap); i++) {
        if (pl_granule_is_set(seg->vacant, i)) {
            continue;
        }
        if (i == g || s->swap.n_spans == 0 || pl_granule_is_set(seg->vacant, i - 1)) {
            s->swap.spans[s->swap.n_spans++] = (pl_swap_span){ .g = i, .piece = s->swap.n_kept };
        }
        s->swap.spans[s->swap.n_spans - 1].n++;
        s->swap.n_kept++;
    }
    pl_lock_touch(pl_swap_granules(&s->swap));
    return s->swap.n_kept > 0 && s->swap.n_kept < pl_swap_granules(&s->swap);
}

bool pl_split_is_worth_it(const pl_space *space, pleat_devptr at, size_t *n_kept)
{
    split s;
    bool is_worth_it = plan(space, at, &s);

    if (is_worth_it) {
        *n_kept = s.swap.n_kept;
    }
    return is_worth_it;
}

/* Find the next granules of the chunk that lose their memory, from *g on: [*g, *to). */
static bool next_vacant(const split *s, size_t *g, size_t *to)
{
    size_t end = s->swap.g + pl_swap_granules(&s->swap);

    while (*g < end && !pl_granule_is_set(s->swap.seg->vacant, *g)) {
        ++*g;
    }
    for (*to = *g; *to < end && pl_granule_is_set(s->swap.seg->vacant, *to); ++*to) {
    }
    return *g < end;
}

/* Is all work over on the free blocks that lose their memory? Threads may have freed some of the
 * blocks after the wait for the device. */
static bool is_vacated(const pl_space *space, const split *s)
{
    size_t to;

    for (size_t g = s->swap.g; next_vacant(s, &g, &to); g = to) {
        pleat_devptr end = pl_segment_address(s->swap.seg, to);
        const pl_block *b = pl_segment_find(s->swap.seg, pl_segment_address(s->swap.seg, g));
        for (; b != NULL && b->base < end; b = b->next) {
            pl_lock_touch(1);
            if (b->state != PL_BLOCK_FREE || !pl_settle_is_over(space, b)) {
                return false;
            }
        }
    }
    return true;
}

/* ---- the flight ---------------------------------------------------------------------------- */

/* Needs two spare blocks for every gap. */
static void take_off(pl_space *space, split *s)
{
    size_t to;

    pl_space_begin_move(space, &s->flying);
    for (size_t g = s->swap.g; next_vacant(s, &g, &to); g = to) {
        pleat_devptr at = pl_segment_address(s->swap.seg, g);
        pl_block *gap = pl_carve_out_all(space, pl_segment_find(s->swap.seg, at), at,
                                         pl_segment_address(s->swap.seg, to));
        pl_carve_settle(gap);
        s->gaps[s->n_gaps++] = gap;
    }
}

/* ---- the new chunks ------------------------------------------------------------------------ */

static bool may_create(const pl_space *space, unsigned order)
{
    size_t cap = space->chunks.limit_granules < space->chunks.total_granules
                     ? space->chunks.limit_granules
                     : space->chunks.total_granules;

    return space->chunks.n_held + space->chunks.n_creating + ((size_t)1 << order) <= cap;
}

static pleat_status create(pl_space *space, unsigned order, pl_chunk *out)
{
    size_t n = (size_t)1 << order;

    space->chunks.n_creating += n;
    pleat_status st = pl_back_create(space, order, 1, out, NULL);
    space->chunks.n_creating -= n;
    if (st == PLEAT_OK) {
        space->chunks.n_held += n;
        if (space->chunks.n_held > space->chunks.peak_held) {
            space->chunks.peak_held = space->chunks.n_held;
        }
    }
    return st;
}

/* A chunk of *order, or of the largest lower order to be had. Idle chunks go before new chunks. */
static pleat_status get_chunk(pl_space *space, unsigned *order, pl_chunk *out)
{
    for (;; --*order) {
        pleat_status st = PLEAT_ENOMEM_DEVICE;
        if (space->chunks.idle[*order].n > 0) {
            *out = pl_space_pop_idle(space, *order);
            return PLEAT_OK;
        }
        if (may_create(space, *order)) {
            st = create(space, *order, out);
        }
        if (st != PLEAT_ENOMEM_DEVICE || *order == 0) {
            return st;
        }
    }
}

static pleat_status get_chunks(pl_space *space, split *s)
{
    for (size_t i = 0; i < s->swap.n_spans; i++) {
        size_t end = s->swap.spans[i].piece + s->swap.spans[i].n;
        while (s->n_have < end) {
            unsigned order = pl_order_of(end - s->n_have);
            pl_chunk chunk;
            pleat_status st = get_chunk(space, &order, &chunk);
            if (st != PLEAT_OK) {
                return st;
            }
            s->swap.chunks[s->n_have] = chunk;
            s->swap.orders[s->n_have] = (uint8_t)order;
            s->n_have += (size_t)1 << order;
        }
    }
    return PLEAT_OK;
}

/* The chunk may still be mapped at the scratch addresses, so it serves nobody. */
static void set_aside(pl_space *space, pl_chunk chunk, unsigned order)
{
    pl_scratched *to = &space->flights.scratched;

    to->chunks[to->n] = chunk;
    to->orders[to->n++] = (uint8_t)order;
    to->n_granules += (size_t)1 << order;
    pl_space_pin(space, (size_t)1 << order);
}

/* The gaps return to their former state. */
static void give_up(pl_space *space, split *s)
{
    for (size_t i = 0; i < s->n_gaps; i++) {
        pl_carve_put_back(space, s->gaps[i]);
    }
    for (size_t i = 0; i < s->n_have; i += (size_t)1 << s->swap.orders[i]) {
        if (s->swap.is_in_scratch) {
            set_aside(space, s->swap.chunks[i], s->swap.orders[i]);
        } else {
            pl_space_push_idle(space, s->swap.chunks[i], s->swap.orders[i]);
        }
    }
}

/* ---- commit -------------------------------------------------------------------------------- */

/* If threads have freed all of the chunk by now, the chunk can be taken. */
static void put_chunk(pl_space *space, const split *s, size_t g, size_t piece)
{
    pl_segment *seg = s->swap.seg;
    size_t end = g + ((size_t)1 << s->swap.orders[piece]);
    bool is_vacated = true;

    pl_segment_put_chunk(seg, g, s->swap.chunks[piece], s->swap.orders[piece]);
    for (size_t i = g; i < end && is_vacated; i++) {
        is_vacated = pl_granule_is_set(seg->vacant, i);
    }
    if (is_vacated) {
        pl_space_loosen(space, pl_segment_loosen_granules(seg, g, end));
    }
}

/* The new chunks are in their places. */
static void commit(pl_space *space, split *s)
{
    for (size_t i = 0; i < s->n_gaps; i++) {
        space->chunks.n_pinned -= pl_segment_granules_of(s->swap.seg, s->gaps[i]);
        pl_carve_lose(space, s->gaps[i], false);
    }
    for (size_t i = 0; i < s->swap.n_spans; i++) {
        const pl_swap_span *one = &s->swap.spans[i];
        for (size_t n = 0; n < one->n; n += (size_t)1 << s->swap.orders[one->piece + n]) {
            put_chunk(space, s, one->g + n, one->piece + n);
        }
    }
}

/* Remember memory without a mapping, and whether copies may run: the next compaction waits. */
static void tear(pl_space *space, const pl_swap *s)
{
    pl_torn *torn = &space->flights.torn;
    bool is_gone = s->outcome == PL_SWAP_GONE;
    bool is_partly = s->outcome == PL_SWAP_PARTLY;

    if (!s->is_filling && !is_gone && !is_partly) {
        return;
    }
    space->flights.is_scratch_busy = s->is_filling;
    *torn = (pl_torn){ .segment = s->seg, .from = s->g };
    for (size_t i = 0; is_gone && i < pl_swap_granules(s); i++) {
        torn->is_unmapped[i] = true;
    }
    for (size_t i = 0; is_partly && i < s->n_spans; i++) {
        const pl_swap_span *one = &s->spans[i];
        for (size_t k = 0; k < one->n; k++) {
            torn->is_unmapped[one->g - s->g + k] = !one->is_mapped;
        }
    }
}

/* A tear is written down before another thread gets the lock. */
static pleat_status move(pl_space *space, pl_swap *s)
{
    pleat_status st = pl_swap_run(space, s);

    space->flights.scratch_bytes = s->is_in_scratch ? space->flights.scratch.bytes : 0;
    tear(space, s);
    return st;
}

/* The new chunks exist, and the gaps are in flight. */
static pleat_status replace(pl_space *space, split *s, pleat_compaction *told)
{
    pl_swap *swap = &s->swap;
    pleat_status st = move(space, swap);

    if (swap->outcome == PL_SWAP_OLD || swap->outcome == PL_SWAP_GONE) {
        give_up(space, s);
        return st;
    }
    commit(space, s);
    if (swap->is_in_scratch) {
        set_aside(space, swap->old, swap->order);
    }
    pleat_status failed = swap->is_in_scratch ? PLEAT_EPOISONED
                                              : pl_chunk_give_back(space, swap->old, swap->order);
    if (failed == PLEAT_OK) {
        space->chunks.full_at = SIZE_MAX;
        told->won_bytes += pl_swap_bytes(space, pl_swap_granules(swap) - swap->n_kept);
    }
    told->n_split++;
    told->moved_bytes += pl_swap_bytes(space, swap->n_kept);
    return st == PLEAT_OK ? failed : st;
}

/* The plan is made, and holds until the lock is dropped. *is_short: no room for the new chunks. */
static pleat_status carry_out(pl_space *space, split *s, pleat_compaction *told, bool *is_short)
{
    *is_short = false;
    pleat_status st = pl_block_store_reserve(&space->blocks.store, 2 * (s->swap.n_spans + 1));
    if (st != PLEAT_OK) {
        return st;
    }
    take_off(space, s);
    st = get_chunks(space, s);
    if (st == PLEAT_OK) {
        st = replace(space, s, told);
    } else {
        *is_short = st == PLEAT_ENOMEM_DEVICE;
        give_up(space, s);
    }
    pl_space_end_move(space, &s->flying);
    return st;
}

pleat_status pl_split_chunk(pl_space *space, pleat_devptr at, pleat_compaction *told)
{
    for (bool has_gathered = false;; has_gathered = true) {
        split s;
        bool is_short;
        if (space->flights.n > 0) {
            pl_space_wait_for_flights(space);
        }
        if (space->flights.n > 0 || !plan(space, at, &s) || !is_vacated(space, &s) ||
            pl_swap_bytes(space, 2 * pl_swap_granules(&s.swap)) > space->flights.scratch.bytes) {
            return PLEAT_OK;
        }
        pleat_status st = carry_out(space, &s, told, &is_short);
        if (!is_short || has_gathered || space->chunks.n_loose + space->chunks.n_idle == 0) {
            return st;
        }
        pl_trim_gather(space, s.swap.n_kept, 0);
    }
}
