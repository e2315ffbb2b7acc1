/* merge.c - see merge.h: which granules share memory, and the driver's part of it.
 *
 * Partners are sought without the lock, on copies of what each granule has in use: the fullest
 * first, each with the fullest that fits. A granule tries at most MOST_TRIES partners, and what it
 * looks at is bounded by the units of a granule, so 10^5 granules take 10^5 times a constant. Under
 * the lock a pair is looked at again: what others have changed meanwhile is left.
 *
 * The bytes of the guest are copied to the same offsets of the host, where nothing is in use; then
 * the host's chunk is mapped in the place of the guest's, which goes back to the driver. */
#include "segments/pleat/merge.h"

#include "segments/pleat/granule.h"
#include "segments/pleat/twin.h"
#include "vmm/copy.h"
#include "vmm/mapping.h"

enum { MOST_ENDS = 512, MOST_TRIES = 256, MOST_COPIES = PL_TWIN_UNITS / 2 };

/* Indexes of `entries`, one higher: 0 ends a list. */
typedef struct candidate {
    pleat_devptr at;
    pl_twin_map map;
    size_t next; /* of those with as many units in use */
    bool is_paired;
} candidate;

typedef struct candidates {
    candidate *entries;
    size_t n;
    size_t n_rooms;
    size_t first[PL_TWIN_UNITS + 1]; /* by units in use */
} candidates;

/* ---- what could be merged -------------------------------------------------------------------- */

static pleat_status add(pl_space *space, candidates *c, pleat_devptr at, const pl_twin_map *map)
{
    pleat_status st = pl_space_reserve_room(space, &c->entries, sizeof(*c->entries), &c->n_rooms,
                                            c->n);
    if (st != PLEAT_OK) {
        return st;
    }
    c->entries[c->n++] = (candidate){ .at = at, .map = *map, .next = c->first[map->n] };
    c->first[map->n] = c->n;
    return PLEAT_OK;
}

/* Does a block that is in use begin or end there? Else the granule is vacant, or in full use. With
 * very many blocks a look at it takes too long, and it hardly has a partner. */
static bool has_ends(const pl_segment *seg, size_t g)
{
    const pl_users *users = &seg->users[g];
    size_t n = (size_t)users->n_live + users->n_kept + users->n_shared;

    return n > 0 && n <= MOST_ENDS;
}

/* The tables of granules in flight are the flight's own. */
static bool is_quiet(pl_space *space)
{
    if (space->n_flights > 0) {
        pl_space_wait_for_flights(space);
    }
    return space->n_flights == 0;
}

static pleat_status look_through(pl_space *space, pl_segment *seg, pl_pace *pace, candidates *c)
{
    size_t n_units = space->granule_bytes / pl_twin_unit(space);
    pleat_status st = PLEAT_OK;

    for (size_t g = 0; g < seg->n_rooms && st == PLEAT_OK && is_quiet(space); g++) {
        pl_twin_map map;
        size_t n_looks = 0;
        if (has_ends(seg, g) && pl_twin_survey(space, seg, g, &map, &n_looks) && map.n < n_units) {
            st = add(space, c, pl_segment_address(seg, g), &map);
        }
        pl_pace_step(space, pace, 1 + n_looks);
    }
    return st;
}

/* ---- pairs ----------------------------------------------------------------------------------- */

static bool collides(const pl_twin_map *a, const pl_twin_map *b)
{
    uint64_t both = 0;

    for (size_t i = 0; i < PL_TWIN_WORDS; i++) {
        both |= a->words[i] & b->words[i];
    }
    return both != 0;
}

/* The fullest granule, at most as full as the host, that fits it. Takes those out of their lists
 * that have a partner already. */
static candidate *find_guest(candidates *c, candidate *host, size_t n_units)
{
    size_t n = n_units - host->map.n;
    unsigned n_tries = 0;

    for (n = n < host->map.n ? n : host->map.n; n > 0; n--) {
        for (size_t *link = &c->first[n]; *link != 0;) {
            candidate *guest = &c->entries[*link - 1];
            if (guest->is_paired) {
                *link = guest->next;
                continue;
            }
            if (guest != host && !collides(&guest->map, &host->map)) {
                return guest;
            }
            if (++n_tries == MOST_TRIES) {
                return NULL;
            }
            link = &guest->next;
        }
    }
    return NULL;
}

/* ---- one pair -------------------------------------------------------------------------------- */

typedef struct side {
    pl_segment *seg;
    size_t g;
    pl_twin_map map;
} side;

static bool survey(const pl_space *space, pleat_devptr at, side *out)
{
    size_t n_looks;

    out->seg = pl_space_segment_at(space, at);
    out->g = pl_segment_granule(out->seg, at);
    bool is_fit = pl_twin_survey(space, out->seg, out->g, &out->map, &n_looks);
    pl_lock_touch(n_looks);
    return is_fit;
}

/* What has memory, but no mapping; or nothing: then copies may still run, and a later compaction
 * waits for them. */
static void tear(pl_space *space, const side *guest, bool is_unmapped)
{
    space->torn = (pl_torn){ .segment = guest->seg, .from = guest->g };
    space->torn.is_unmapped[0] = is_unmapped;
}

/* How the driver's part ended. */
typedef struct outcome {
    bool is_copying;  /* copies may still run */
    bool is_unmapped; /* the guest's addresses are not mapped */
} outcome;

static pleat_status copy(const pl_space *space, pleat_devptr host, pleat_devptr guest,
                         const pl_twin_map *map, outcome *out)
{
    pl_copy copies[MOST_COPIES];
    size_t bytes = pl_twin_unit(space);
    size_t n = 0;
    size_t to;
    bool is_over;

    for (size_t unit = 0; pl_twin_next(space, map, true, &unit, &to); unit = to) {
        copies[n++] = (pl_copy){ .to = host + unit * bytes,
                                 .from = guest + unit * bytes,
                                 .bytes = (to - unit) * bytes };
    }
    pleat_status st = pl_copy_run(space->dev, copies, n, &is_over);
    out->is_copying = !is_over;
    return is_over ? st : PLEAT_EPOISONED;
}

/* Map the host's chunk in the place of the guest's. */
static pleat_status swap(const pl_space *space, pleat_devptr at, pl_chunk chunk, pl_chunk old,
                         outcome *out)
{
    pleat_status st = pl_mapping_unmap(space->dev, at, space->granule_bytes);

    if (st != PLEAT_OK) {
        return st;
    }
    st = pl_mapping_map(space->dev, at, &chunk, 1);
    if (st == PLEAT_OK ||
        (st != PLEAT_EPOISONED && (pl_mapping_map(space->dev, at, &old, 1) == PLEAT_OK ||
                                   pl_mapping_map(space->dev, at, &old, 1) == PLEAT_OK))) {
        return st;
    }
    out->is_unmapped = true;
    return PLEAT_EPOISONED;
}

/* The driver's part, without the lock. Nobody else changes these chunks: what is in flight keeps
 * them from being loose. What it leaves behind is written down before anybody has the lock. */
static pleat_status move(pl_space *space, pleat_devptr host, pleat_devptr guest, const side *to,
                         const side *from)
{
    outcome out = { .is_copying = false };
    pl_chunk chunk = to->seg->chunks[to->g];
    pl_chunk old = from->seg->chunks[from->g];

    pl_lock_release(&space->lock);
    pleat_status st = copy(space, host, guest, &from->map, &out);
    st = st == PLEAT_OK ? swap(space, guest, chunk, old, &out) : st;
    pl_lock_acquire(&space->lock);
    if (out.is_copying || out.is_unmapped) {
        tear(space, from, out.is_unmapped);
    }
    return st;
}

static pleat_status release(pl_space *space, pl_chunk chunk, pleat_compaction *told)
{
    pl_lock_release(&space->lock);
    pleat_status st = pl_chunk_release_sized(space->dev, chunk, space->granule_bytes);
    pl_lock_acquire(&space->lock);
    if (st != PLEAT_OK) {
        pl_space_push_idle(space, chunk, 0);
        return st;
    }
    space->n_chunks--;
    space->full_at = SIZE_MAX;
    told->won_bytes += space->granule_bytes;
    return PLEAT_OK;
}

/* A flight: what will be veiled is in flight meanwhile. */
static pleat_status merge_fitting(pl_space *space, pleat_devptr host, pleat_devptr guest,
                                  const side *to, const side *from, pleat_compaction *told)
{
    pl_flying flying;
    pl_chunk old = from->seg->chunks[from->g];

    pl_space_begin_move(space, &flying);
    pl_twin_lift(space, host, guest, &from->map);
    pleat_status st = move(space, host, guest, to, from);
    if (st == PLEAT_OK) {
        pl_twin_join(space, host, guest, &from->map);
        told->n_merged++;
        told->moved_bytes += from->map.n * pl_twin_unit(space);
        st = release(space, old, told);
    } else {
        pl_twin_part(space, host, guest, &from->map);
    }
    pl_space_end_move(space, &flying);
    return st;
}

static pleat_status merge(pl_space *space, pleat_devptr host, pleat_devptr guest,
                          pleat_compaction *told)
{
    side to;
    side from;

    if (!is_quiet(space) || !survey(space, host, &to) || !survey(space, guest, &from) ||
        collides(&to.map, &from.map)) {
        return PLEAT_OK;
    }
    pleat_status st = pl_twin_reserve(space, &from.map);
    return st == PLEAT_OK ? merge_fitting(space, host, guest, &to, &from, told) : st;
}

/* The fullest first. Others may have the lock between two pairs, and while a partner is sought. */
static pleat_status merge_pairs(pl_space *space, candidates *c, pleat_compaction *told)
{
    size_t n_units = space->granule_bytes / pl_twin_unit(space);
    pleat_status st = PLEAT_OK;

    for (size_t n = n_units; n-- > 1;) {
        for (size_t i = c->first[n]; i != 0 && st == PLEAT_OK;) {
            candidate *host = &c->entries[i - 1];
            i = host->next;
            pl_lock_release(&space->lock);
            candidate *guest = host->is_paired ? NULL : find_guest(c, host, n_units);
            pl_lock_acquire(&space->lock);
            if (guest != NULL) {
                host->is_paired = true;
                guest->is_paired = true;
                st = merge(space, host->at, guest->at, told);
            }
        }
    }
    return st;
}

pleat_status pl_merge_granules(pl_space *space, pleat_compaction *told)
{
    pl_pace pace;
    pleat_status st = PLEAT_OK;
    candidates *c = pl_host_calloc(&space->host, 1, sizeof(*c));

    if (c == NULL) {
        return PLEAT_ENOMEM_HOST;
    }
    pl_pace_begin(space, &pace, false);
    pl_segment *seg = pl_space_lowest(space);
    for (; seg != NULL && st == PLEAT_OK; seg = pl_segment_above(seg)) {
        st = look_through(space, seg, &pace, c);
    }
    if (st == PLEAT_OK) {
        st = merge_pairs(space, c, told);
    }
    pl_host_free(&space->host, c->entries);
    pl_host_free(&space->host, c);
    return st;
}
