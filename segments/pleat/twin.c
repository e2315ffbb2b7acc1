/* twin.c - see twin.h. */
#include "segments/pleat/twin.h"

#include "segments/pleat/carve.h"
#include "segments/pleat/granule.h"
#include "segments/pleat/run.h"
#include "segments/pleat/settle.h"

static pleat_devptr end_of(const pl_segment *seg, size_t g)
{
    return pl_segment_address(seg, g + 1);
}

static pleat_devptr twin_of(const pl_segment *seg, size_t g)
{
    return seg->twins[g] & ~(pleat_devptr)1;
}

/* ---- what is in use -------------------------------------------------------------------------- */

static void mark(const pl_space *space, const pl_segment *seg, size_t g, const pl_block *b,
                 pl_twin_map *out)
{
    size_t bytes = pl_twin_unit(space);
    pleat_devptr base = pl_segment_address(seg, g);
    size_t from = b->base > base ? (size_t)(b->base - base) / bytes : 0;
    pleat_devptr end = pl_block_end(b) < end_of(seg, g) ? pl_block_end(b) : end_of(seg, g);
    size_t to = ((size_t)(end - base) + bytes - 1) / bytes;

    for (size_t i = from; i < to; i++) {
        uint64_t bit = UINT64_C(1) << (i % 64);
        out->n += (out->words[i / 64] & bit) == 0;
        out->words[i / 64] |= bit;
    }
}

static bool is_in_use(const pl_block *b)
{
    return b->state == PL_BLOCK_LIVE || b->state == PL_BLOCK_SHARED || b->state == PL_BLOCK_KEPT;
}

bool pl_twin_survey(const pl_space *space, const pl_segment *seg, size_t g, pl_twin_map *out,
                    size_t *n_looks)
{
    *n_looks = 0;
    if (seg->is_apart || seg->is_opening || g >= seg->n_rooms || seg->chunks[g] == 0 ||
        seg->orders[g] != 0 || seg->twins[g] != 0 ||
        pl_share_is_noted(space->dev, seg->chunks[g])) {
        return false;
    }
    *out = (pl_twin_map){ .n = 0 };
    const pl_block *b = pl_segment_find(seg, pl_segment_address(seg, g));
    for (; b != NULL && b->base < end_of(seg, g); b = b->next) {
        ++*n_looks;
        if (is_in_use(b)) {
            mark(space, seg, g, b, out);
        } else if (b->state != PL_BLOCK_FREE || !pl_settle_is_over(space, b)) {
            return false;
        }
    }
    return out->n > 0;
}

bool pl_twin_next(const pl_space *space, const pl_twin_map *map, bool is_used, size_t *unit,
                  size_t *to)
{
    size_t n = space->granule_bytes / pl_twin_unit(space);

    while (*unit < n && (map->words[*unit / 64] >> (*unit % 64) & 1) != is_used) {
        ++*unit;
    }
    for (*to = *unit; *to < n && (map->words[*to / 64] >> (*to % 64) & 1) == is_used; ++*to) {
    }
    return *unit < n;
}

/* ---- joining --------------------------------------------------------------------------------- */

pleat_status pl_twin_reserve(pl_space *space, const pl_twin_map *guest)
{
    pl_twins *twins = &space->twins;
    size_t n_runs = 0;
    size_t to;

    for (size_t unit = 0; pl_twin_next(space, guest, true, &unit, &to); unit = to) {
        n_runs++;
    }
    pleat_status st = pl_space_reserve_room(space, &twins->guests, sizeof(*twins->guests),
                                            &twins->n_rooms, twins->n);
    return st == PLEAT_OK ? pl_block_store_reserve(&space->store, 4 * n_runs + 4) : st;
}

static void lift(pl_space *space, pl_block *b, pleat_devptr at, pleat_devptr end)
{
    pl_carve_settle(pl_carve_out_all(space, b, at, end));
}

static void put_back(pl_space *space, pl_block *b, pleat_devptr at, pleat_devptr end)
{
    pl_assert(b->base == at && pl_block_end(b) == end && b->state == PL_BLOCK_FLIGHT);
    (void)at;
    (void)end;
    pl_carve_put_back(space, b);
}

/* From now on the bytes are another granule's. */
static void veil(pl_space *space, pl_block *b, pleat_devptr at, pleat_devptr end)
{
    pl_segment *seg = b->segment;

    pl_assert(b->base == at && pl_block_end(b) == end && b->state == PL_BLOCK_FLIGHT);
    (void)at;
    (void)end;
    pl_segment_become(seg, &space->store, b, PL_BLOCK_VEILED);
    pl_space_tell_run(space, PL_ACTION_SEGMENT_UNMAP, seg, b->base, b->bytes);
}

/* What is done with [at, end), which lies in one granule; b covers `at`. */
typedef void step(pl_space *space, pl_block *b, pleat_devptr at, pleat_devptr end);

static void walk_units(pl_space *space, pleat_devptr base, const pl_twin_map *map, bool is_used,
                       step *do_step)
{
    const pl_segment *seg = pl_space_segment_at(space, base);
    size_t bytes = pl_twin_unit(space);
    size_t to;

    for (size_t unit = 0; pl_twin_next(space, map, is_used, &unit, &to); unit = to) {
        pleat_devptr at = base + unit * bytes;
        do_step(space, pl_segment_find(seg, at), at, base + to * bytes);
    }
}

void pl_twin_lift(pl_space *space, pleat_devptr host, pleat_devptr guest, const pl_twin_map *map)
{
    walk_units(space, host, map, true, lift);
    walk_units(space, guest, map, false, lift);
}

void pl_twin_part(pl_space *space, pleat_devptr host, pleat_devptr guest, const pl_twin_map *map)
{
    walk_units(space, host, map, true, put_back);
    walk_units(space, guest, map, false, put_back);
}

static bool has_users(const pl_segment *seg, size_t g)
{
    const pl_users *users = &seg->users[g];

    return users->n_live + users->n_kept + users->n_shared > 0;
}

void pl_twin_join(pl_space *space, pleat_devptr host, pleat_devptr guest, const pl_twin_map *map)
{
    pl_segment *host_seg = pl_space_segment_at(space, host);
    pl_segment *guest_seg = pl_space_segment_at(space, guest);
    size_t host_g = pl_segment_granule(host_seg, host);
    size_t guest_g = pl_segment_granule(guest_seg, guest);

    walk_units(space, host, map, true, veil);
    walk_units(space, guest, map, false, veil);
    guest_seg->chunks[guest_g] = host_seg->chunks[host_g];
    host_seg->twins[host_g] = guest;
    guest_seg->twins[guest_g] = host | 1;
    host_seg->n_twins++;
    guest_seg->n_twins++;
    space->twins.guests[space->twins.n++] = guest;
    space->n_pinned--;
    if (!has_users(host_seg, host_g) || !has_users(guest_seg, guest_g)) {
        space->twins.is_ripe = true; /* all was freed while it moved */
    }
}

/* ---- dissolving ------------------------------------------------------------------------------ */

/* What pends on one side of a pair that has nothing in use there. */
typedef struct pending {
    uint32_t lane;
    uint64_t tick;
    size_t n_free; /* blocks */
} pending;

/* Uses of several lanes cannot be waited for at once. */
static bool is_unused(const pl_space *space, const pl_segment *seg, size_t g, pending *out)
{
    *out = (pending){ .lane = PL_LANE_SETTLED };
    if (has_users(seg, g)) {
        return false;
    }
    const pl_block *b = pl_segment_find(seg, pl_segment_address(seg, g));
    for (; b != NULL && b->base < end_of(seg, g); b = b->next) {
        pl_lock_touch(1);
        if (b->state == PL_BLOCK_VEILED) {
            continue;
        }
        if (b->state != PL_BLOCK_FREE) {
            return false;
        }
        out->n_free++;
        if (!pl_settle_is_over(space, b)) {
            if (out->lane != PL_LANE_SETTLED && out->lane != b->lane) {
                return false;
            }
            out->lane = b->lane;
            out->tick = b->tick > out->tick ? b->tick : out->tick;
        }
    }
    return true;
}

/* [at, at + bytes) was veiled, and is free as it was in the twin. */
static void unveil(pl_space *space, pl_segment *seg, pleat_devptr at, const pl_block *like)
{
    pl_block *b = pl_segment_find(seg, at);
    pleat_devptr end = at + like->bytes;

    pl_assert(b->state == PL_BLOCK_VEILED && pl_block_end(b) >= end);
    if (b->base < at) {
        b = pl_segment_split(seg, &space->store, b, at);
    }
    if (pl_block_end(b) > end) {
        (void)pl_segment_split(seg, &space->store, b, end);
    }
    pl_space_tell_run(space, PL_ACTION_SEGMENT_MAP, seg, at, like->bytes);
    pl_run_free(space, b, like->lane, like->tick);
}

static void make_stale(pl_space *space, pl_block *b, const pending *p)
{
    pl_segment *seg = b->segment;
    size_t g = pl_segment_granule(seg, b->base);

    pl_segment_clear_chunks(seg, g, g + 1);
    seg->n_resident--;
    b->lane = p->lane;
    b->tick = p->tick;
    pl_segment_become(seg, &space->store, b, PL_BLOCK_STALE);
    if (b->lane != PL_LANE_SETTLED) {
        pl_space_lane_at(space, b->lane)->n_refs++;
    }
    pl_queue_push(&space->stale, b);
    space->n_stale++;
}

/* The granule gives its share back to its twin. Needs four spare blocks for each free one. */
static void withdraw(pl_space *space, pl_segment *seg, size_t g, const pending *p)
{
    pleat_devptr base = pl_segment_address(seg, g);
    pleat_devptr other = twin_of(seg, g);
    pl_segment *to = pl_space_segment_at(space, other);
    pl_block *whole = NULL;

    seg->twins[g] = 0;
    seg->n_twins--;
    to->twins[pl_segment_granule(to, other)] = 0;
    to->n_twins--;
    pl_block *b = pl_segment_find(seg, base);
    for (pleat_devptr at = base; at < end_of(seg, g); b = whole->next) {
        pleat_devptr stop = pl_block_end(b) < end_of(seg, g) ? pl_block_end(b) : end_of(seg, g);
        if (b->state == PL_BLOCK_VEILED) {
            pl_segment_become(seg, &space->store, b, PL_BLOCK_FLIGHT);
        } else {
            b = pl_carve_out(space, b, at, stop);
            pl_space_tell_run(space, PL_ACTION_SEGMENT_UNMAP, seg, b->base, b->bytes);
            unveil(space, to, other + (at - base), b);
        }
        at = stop;
        if (whole == NULL) {
            whole = b;
        } else {
            pl_segment_absorb(seg, &space->store, whole, b);
        }
        pl_lock_touch(1);
    }
    make_stale(space, whole, p);
}

/* True if the pair with that guest is gone. */
static bool dissolve_one(pl_space *space, pleat_devptr guest)
{
    pl_segment *seg = pl_space_segment_at(space, guest);
    size_t g = pl_segment_granule(seg, guest);
    pending p;

    if (!is_unused(space, seg, g, &p)) {
        pleat_devptr host = twin_of(seg, g);
        space->twins.is_ripe = space->twins.is_ripe || !has_users(seg, g);
        seg = pl_space_segment_at(space, host);
        g = pl_segment_granule(seg, host);
        if (!is_unused(space, seg, g, &p)) {
            space->twins.is_ripe = space->twins.is_ripe || !has_users(seg, g);
            return false;
        }
    }
    if (pl_block_store_reserve(&space->store, 4 * p.n_free + 4) != PLEAT_OK) {
        return false;
    }
    withdraw(space, seg, g, &p);
    return true;
}

/* Others may dissolve some while the lock is dropped: then a pair may be looked at later. */
void pl_twin_dissolve(pl_space *space)
{
    pl_twins *twins = &space->twins;
    pl_pace pace;

    if (!twins->is_ripe) {
        return;
    }
    twins->is_ripe = false;
    pl_pace_begin(space, &pace, false);
    for (size_t i = twins->n; i-- > 0;) {
        i = i < twins->n ? i : twins->n;
        if (i < twins->n && dissolve_one(space, twins->guests[i])) {
            twins->guests[i] = twins->guests[--twins->n];
        }
        pl_pace_step(space, &pace, 1);
    }
}

/* ---- the walker ------------------------------------------------------------------------------ */

/* Is each unit of the pair the one's or the other's? */
static bool is_shared_out(const pl_segment *seg, pleat_devptr base, const pl_segment *other_seg,
                          pleat_devptr other)
{
    const pl_block *a = pl_segment_find(seg, base);
    const pl_block *b = pl_segment_find(other_seg, other);
    size_t bytes = pl_segment_granule_bytes(seg);

    for (size_t at = 0; at < bytes;) {
        if ((a->state == PL_BLOCK_VEILED) == (b->state == PL_BLOCK_VEILED)) {
            return false;
        }
        size_t a_end = (size_t)(pl_block_end(a) - base);
        size_t b_end = (size_t)(pl_block_end(b) - other);
        at = a_end < b_end ? a_end : b_end;
        a = a_end == at ? a->next : a;
        b = b_end == at ? b->next : b;
    }
    return true;
}

int pl_twin_check(const pl_space *space)
{
    size_t n = 0;

    for (size_t i = 0; i < space->twins.n; i++) {
        pleat_devptr guest = space->twins.guests[i];
        const pl_segment *seg = pl_space_segment_at(space, guest);
        size_t g = pl_segment_granule(seg, guest);
        pleat_devptr host = twin_of(seg, g);
        const pl_segment *other = pl_space_segment_at(space, host);
        size_t h = other != NULL ? pl_segment_granule(other, host) : 0;
        if (other == NULL || !pl_twin_is_guest(seg, g) || other->twins[h] != guest ||
            other->chunks[h] == 0 || other->chunks[h] != seg->chunks[g] ||
            !is_shared_out(seg, guest, other, host)) {
            return 1;
        }
    }
    for (const pl_segment *seg = pl_space_lowest(space); seg != NULL; seg = pl_segment_above(seg)) {
        n += seg->n_twins;
    }
    return n == 2 * space->twins.n ? 0 : 1;
}
