/* split.c - see split.h: one chunk, from the plan to the commit.
 *
 * What can fail comes first, and is undone: the new chunks, their mapping at the scratch addresses,
 * the copy. While the old chunk is unmapped and the new ones are mapped, a failure is undone by
 * mapping the old one again. If that fails, too, live blocks have memory but no mapping: the space
 * is torn, and gives nothing out until a later compaction has mended it.
 *
 * Guarded by the device lock, which is held across the driver calls. */
#include "segments/pleat/split.h"

#include "segments/pleat/carve.h"
#include "segments/pleat/granule.h"
#include "segments/pleat/private.h"
#include "segments/pleat/settle.h"
#include "segments/pleat/trim.h"
#include "vmm/copy.h"
#include "vmm/mapping.h"
#include "vmm/share.h"

enum { MOST_GRANULES = 1 << PL_MOST_ORDER, MOST_RUNS = MOST_GRANULES / 2 };

/* Granules side by side that keep their memory. */
typedef struct span {
    size_t g;
    size_t n;
    size_t piece; /* of the new chunks' granules, the first */
    bool is_mapped;
} span;

typedef struct split {
    pl_segment *seg;
    pleat_devptr at;
    size_t g;
    unsigned order;
    pl_chunk old;
    span spans[MOST_RUNS];
    size_t n_spans;
    size_t n_kept;
    pl_chunk chunks[MOST_GRANULES]; /* the new ones, by granule, as in a segment's tables */
    uint8_t orders[MOST_GRANULES];
    size_t n_have; /* granules of these so far */
} split;

static size_t granules(const split *s)
{
    return (size_t)1 << s->order;
}

static size_t bytes_of(const pl_space *space, size_t n_granules)
{
    return n_granules << space->granule_log2;
}

/* ---- the plan ------------------------------------------------------------------------------ */

static bool is_vacant(const pl_segment *seg, size_t g)
{
    return (seg->vacant[g / PL_WORD] & pl_granule_bit(g)) != 0;
}

/* A private pool's free blocks may be used by its graphs: there nothing tells what is vacant. */
static bool plan(const pl_space *space, pleat_devptr at, split *s)
{
    pl_segment *seg = pl_space_segment_at(space, at);
    if (seg == NULL || seg->is_private || seg->is_opening) {
        return false;
    }
    size_t g = pl_segment_granule(seg, at);
    if (g >= seg->n_rooms || seg->chunks[g] == 0 || seg->parts[g] != 0 || seg->orders[g] == 0) {
        return false;
    }
    if (pl_share_is_noted(space->dev, seg->chunks[g])) {
        return false; /* others map it, and would keep what is moved */
    }
    *s = (split){ .seg = seg, .at = at, .g = g, .order = seg->orders[g], .old = seg->chunks[g] };
    for (size_t i = g; i < g + granules(s); i++) {
        if (is_vacant(seg, i)) {
            continue;
        }
        if (i == g || s->n_spans == 0 || is_vacant(seg, i - 1)) {
            s->spans[s->n_spans++] = (span){ .g = i, .piece = s->n_kept };
        }
        s->spans[s->n_spans - 1].n++;
        s->n_kept++;
    }
    pl_lock_touch(granules(s));
    return s->n_kept > 0 && s->n_kept < granules(s);
}

bool pl_split_is_worth_it(const pl_space *space, pleat_devptr at, size_t *n_kept)
{
    split s;
    bool is_worth_it = plan(space, at, &s);

    if (is_worth_it) {
        *n_kept = s.n_kept;
    }
    return is_worth_it;
}

/* The next granules of the chunk that lose their memory, from *g on: [*g, *to). */
static bool next_vacant(const split *s, size_t *g, size_t *to)
{
    size_t end = s->g + granules(s);

    while (*g < end && !is_vacant(s->seg, *g)) {
        ++*g;
    }
    for (*to = *g; *to < end && is_vacant(s->seg, *to); ++*to) {
    }
    return *g < end;
}

/* Is all work over on the free blocks that lose their memory? Others may have freed them since the
 * device was waited for. */
static bool is_vacated(const pl_space *space, const split *s)
{
    size_t to;

    for (size_t g = s->g; next_vacant(s, &g, &to); g = to) {
        pleat_devptr end = pl_segment_address(s->seg, to);
        const pl_block *b = pl_segment_find(s->seg, pl_segment_address(s->seg, g));
        for (; b != NULL && b->base < end; b = b->next) {
            pl_lock_touch(1);
            if (b->state != PL_BLOCK_FREE || !pl_settle_is_over(space, b)) {
                return false;
            }
        }
    }
    return true;
}

/* ---- the new chunks ------------------------------------------------------------------------ */

static bool may_create(const pl_space *space, unsigned order)
{
    size_t cap = space->limit_chunks < space->total_chunks ? space->limit_chunks
                                                           : space->total_chunks;

    return space->n_chunks + space->n_creating + ((size_t)1 << order) <= cap;
}

static pleat_status create(pl_space *space, unsigned order, pl_chunk *out)
{
    pleat_status st = pl_chunk_create_sized(space->dev, space->granule_bytes << order, out);

    if (st == PLEAT_OK) {
        space->n_chunks += (size_t)1 << order;
        if (space->n_chunks > space->peak_chunks) {
            space->peak_chunks = space->n_chunks;
        }
    }
    return st;
}

/* One of *order or, if there is none, the largest below. An idle one before a new one. */
static pleat_status get_chunk(pl_space *space, unsigned *order, pl_chunk *out)
{
    for (;; --*order) {
        pleat_status st = PLEAT_ENOMEM_DEVICE;
        if (space->idle[*order].n > 0) {
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
    for (size_t i = 0; i < s->n_spans; i++) {
        size_t end = s->spans[i].piece + s->spans[i].n;
        while (s->n_have < end) {
            unsigned order = pl_order_of(end - s->n_have);
            pl_chunk chunk;
            pleat_status st = get_chunk(space, &order, &chunk);
            if (st != PLEAT_OK) {
                return st;
            }
            s->chunks[s->n_have] = chunk;
            s->orders[s->n_have] = (uint8_t)order;
            s->n_have += (size_t)1 << order;
        }
    }
    return PLEAT_OK;
}

/* Where the scratch addresses stay mapped the new chunks must serve nobody else: then they are
 * released, and the driver keeps them as long as that mapping. */
static void give_chunks_back(pl_space *space, split *s, bool is_mapped)
{
    for (size_t i = 0; i < s->n_have; i += (size_t)1 << s->orders[i]) {
        size_t bytes = space->granule_bytes << s->orders[i];
        if (is_mapped && pl_chunk_release_sized(space->dev, s->chunks[i], bytes) == PLEAT_OK) {
            space->n_chunks -= (size_t)1 << s->orders[i];
        } else {
            pl_space_push_idle(space, s->chunks[i], s->orders[i]);
        }
    }
    s->n_have = 0;
}

/* ---- the driver's part --------------------------------------------------------------------- */

/* Map the new chunks at the scratch addresses, fill them, and unmap them there. *is_mapped: that
 * failed. */
static pleat_status fill(pl_space *space, const split *s, bool *is_mapped)
{
    pl_copy copies[MOST_RUNS];
    pleat_devptr at = space->scratch.base;
    size_t bytes = bytes_of(space, s->n_kept);
    bool is_over;

    pleat_status st = pl_mapping_map_mixed(space->dev, at, s->chunks, s->orders, s->n_kept);
    *is_mapped = st == PLEAT_EPOISONED;
    if (st != PLEAT_OK) {
        space->scratch_bytes = *is_mapped ? bytes : 0;
        return st;
    }
    for (size_t i = 0; i < s->n_spans; i++) {
        const span *one = &s->spans[i];
        copies[i] = (pl_copy){ .to = at + bytes_of(space, one->piece),
                               .from = pl_segment_address(s->seg, one->g),
                               .bytes = bytes_of(space, one->n) };
    }
    st = pl_copy_run(space->dev, copies, s->n_spans, &is_over);
    if (!is_over) { /* nothing is unmapped; a later compaction waits for the copies first */
        space->torn = (pl_torn){ .segment = s->seg, .from = s->g };
        space->is_scratch_busy = true;
    }
    *is_mapped = !is_over || pl_mapping_unmap(space->dev, at, bytes) != PLEAT_OK;
    space->scratch_bytes = *is_mapped ? bytes : 0;
    return *is_mapped ? PLEAT_EPOISONED : st;
}

static pleat_status map_span(pl_space *space, const split *s, span *one)
{
    pleat_status st = pl_mapping_map_mixed(space->dev, pl_segment_address(s->seg, one->g),
                                           s->chunks + one->piece, s->orders + one->piece, one->n);
    one->is_mapped = st == PLEAT_OK;
    return st;
}

static bool unmap_spans(pl_space *space, split *s)
{
    bool is_done = true;

    for (size_t i = 0; i < s->n_spans; i++) {
        span *one = &s->spans[i];
        if (one->is_mapped && pl_mapping_unmap(space->dev, pl_segment_address(s->seg, one->g),
                                               bytes_of(space, one->n)) == PLEAT_OK) {
            one->is_mapped = false;
        }
        is_done = is_done && !one->is_mapped;
    }
    return is_done;
}

static bool map_old(pl_space *space, const split *s)
{
    size_t bytes = bytes_of(space, granules(s));
    pleat_status st = pl_mapping_map_sized(space->dev, s->at, &s->old, 1, bytes);

    if (st != PLEAT_OK && st != PLEAT_EPOISONED) {
        st = pl_mapping_map_sized(space->dev, s->at, &s->old, 1, bytes);
    }
    return st == PLEAT_OK;
}

/* How the addresses of the chunk are mapped after the driver's part. */
typedef enum outcome {
    IS_OLD,   /* as before */
    IS_NEW,   /* the new chunks are in their places */
    IS_GONE,  /* the old chunk is mapped nowhere, nor is a new one */
    IS_PARTLY /* some new chunks are in their places */
} outcome;

/* Put the new chunks in the place of the old one. */
static pleat_status swap(pl_space *space, split *s, outcome *out)
{
    *out = IS_OLD;
    pleat_status st = pl_mapping_unmap(space->dev, s->at, bytes_of(space, granules(s)));
    if (st != PLEAT_OK) {
        return st;
    }
    for (size_t i = 0; i < s->n_spans && st == PLEAT_OK; i++) {
        st = map_span(space, s, &s->spans[i]);
    }
    if (st == PLEAT_OK) {
        *out = IS_NEW;
        return PLEAT_OK;
    }
    if (st == PLEAT_EPOISONED || !unmap_spans(space, s)) {
        *out = IS_PARTLY;
        return PLEAT_EPOISONED;
    }
    *out = map_old(space, s) ? IS_OLD : IS_GONE;
    return *out == IS_OLD ? st : PLEAT_EPOISONED;
}

/* ---- commit -------------------------------------------------------------------------------- */

/* The vacant granules [g, to) have lost their memory. */
static void make_hole(pl_space *space, const split *s, size_t g, size_t to)
{
    pl_segment *seg = s->seg;
    pleat_devptr at = pl_segment_address(seg, g);
    pl_block *b = pl_carve_out_all(space, pl_segment_find(seg, at), at,
                                   pl_segment_address(seg, to));

    pl_segment_clear_chunks(seg, g, to);
    pl_private_count(seg, 0, b->bytes);
    seg->n_resident -= to - g;
    space->n_pinned -= to - g;
    pl_space_tell_run(space, PL_ACTION_SEGMENT_UNMAP, seg, b->base, b->bytes);
    pl_carve_make_hole(space, b);
}

/* The new chunks are in their places. Needs two spare blocks for each hole. */
static void commit(pl_space *space, const split *s)
{
    size_t to;

    for (size_t g = s->g; next_vacant(s, &g, &to); g = to) {
        make_hole(space, s, g, to);
    }
    for (size_t i = 0; i < s->n_spans; i++) {
        const span *one = &s->spans[i];
        for (size_t n = 0; n < one->n; n += (size_t)1 << s->orders[one->piece + n]) {
            size_t k = one->piece + n;
            pl_segment_put_chunk(s->seg, one->g + n, s->chunks[k], s->orders[k]);
        }
    }
}

/* The old chunk is mapped nowhere. If the driver does not take it back, it is idle. */
static pleat_status release_old(pl_space *space, const split *s, size_t *n_released)
{
    pleat_status st = pl_chunk_release_sized(space->dev, s->old, bytes_of(space, granules(s)));

    if (st != PLEAT_OK) {
        pl_space_push_idle(space, s->old, s->order);
        *n_released = 0;
        return st;
    }
    *n_released = granules(s);
    space->n_chunks -= granules(s);
    space->full_at = SIZE_MAX;
    return PLEAT_OK;
}

/* Remember what has memory, but no mapping. */
static void tear(pl_space *space, const split *s, outcome out)
{
    pl_torn *torn = &space->torn;

    *torn = (pl_torn){ .segment = s->seg, .from = s->g };
    for (size_t i = 0; out == IS_GONE && i < granules(s); i++) {
        torn->is_unmapped[i] = true;
    }
    for (size_t i = 0; out == IS_PARTLY && i < s->n_spans; i++) {
        const span *one = &s->spans[i];
        for (size_t k = 0; k < one->n; k++) {
            torn->is_unmapped[one->g - s->g + k] = !one->is_mapped;
        }
    }
}

/* The new chunks are there. */
static pleat_status replace(pl_space *space, split *s, pleat_compaction *told)
{
    size_t n_released = 0;
    bool is_mapped = false;
    outcome out = IS_OLD;
    pleat_status st = fill(space, s, &is_mapped);

    st = st == PLEAT_OK ? swap(space, s, &out) : st;
    if (out == IS_PARTLY || out == IS_GONE) {
        tear(space, s, out);
    }
    if (out == IS_OLD || out == IS_GONE) {
        give_chunks_back(space, s, is_mapped);
        return st;
    }
    commit(space, s);
    pleat_status failed = release_old(space, s, &n_released);
    told->n_split++;
    told->moved_bytes += bytes_of(space, s->n_kept);
    told->won_bytes += n_released > 0 ? bytes_of(space, granules(s) - s->n_kept) : 0;
    return st == PLEAT_OK ? failed : st;
}

pleat_status pl_split_chunk(pl_space *space, pleat_devptr at, pleat_compaction *told)
{
    for (bool has_gathered = false;; has_gathered = true) {
        split s;
        if (space->n_flights > 0) {
            pl_space_wait_for_flights(space);
        }
        if (space->n_flights > 0 || !plan(space, at, &s) || !is_vacated(space, &s) ||
            bytes_of(space, s.n_kept) > space->scratch.bytes) {
            return PLEAT_OK;
        }
        pleat_status st = pl_block_store_reserve(&space->store, 2 * (s.n_spans + 1));
        st = st == PLEAT_OK ? get_chunks(space, &s) : st;
        if (st == PLEAT_OK) {
            return replace(space, &s, told);
        }
        give_chunks_back(space, &s, false);
        if (st != PLEAT_ENOMEM_DEVICE) {
            return st;
        }
        if (has_gathered || space->n_loose + space->n_idle == 0) {
            return st; /* no room */
        }
        pl_trim_gather(space, s.n_kept, 0);
    }
}
