/* swap.c - moves the parts of a chunk to new chunks: see split.h. Guarded by the device lock,
 * dropped for the driver calls.
 *
 * The order of the steps keeps a write from being lost if the caller breaks its promise and work
 * runs meanwhile. The old chunk is mapped a second time, then the addresses of the live blocks are
 * unmapped, and only then bytes are copied, between the scratch addresses. A write before the
 * unmapping is copied, too; a write after it faults, until the new chunks are in their places. */
#include "segments/pleat/compact/split.h"

#include <string.h>

#include "segments/pleat/space/back.h"
#include "vmm/copy.h"

enum { MOST_SHOWN = 2 * PL_SWAP_GRANULES };

/* The chunks at the scratch addresses, by granule. */
typedef struct shown {
    pl_chunk chunks[MOST_SHOWN];
    uint8_t orders[MOST_SHOWN];
    size_t n;
} shown;

static void show(const pl_swap *s, shown *out)
{
    size_t n = pl_swap_granules(s);

    out->n = n + s->n_kept;
    out->chunks[0] = s->old;
    out->orders[0] = (uint8_t)s->order;
    memcpy(out->chunks + n, s->chunks, s->n_kept * sizeof(*s->chunks));
    memcpy(out->orders + n, s->orders, s->n_kept * sizeof(*s->orders));
}

static void list_copies(const pl_space *space, const pl_swap *s, pl_copy *copies)
{
    pleat_devptr old = space->flights.scratch.base;
    pleat_devptr new = old + pl_swap_bytes(space, pl_swap_granules(s));

    for (size_t i = 0; i < s->n_spans; i++) {
        const pl_swap_span *one = &s->spans[i];
        copies[i] = (pl_copy){ .to = new + pl_swap_bytes(space, one->piece),
                               .from = old + pl_swap_bytes(space, one->g - s->g),
                               .bytes = pl_swap_bytes(space, one->n) };
    }
}

/* ---- driver calls, away ---------------------------------------------------------------------- */

static pleat_status map_place(const pl_space *space, pl_swap *s, pl_swap_span *one)
{
    pleat_status st = pl_mapping_map_mixed(space->dev, pl_segment_address(s->seg, one->g),
                                           s->chunks + one->piece, s->orders + one->piece, one->n);

    one->is_mapped = st == PLEAT_OK;
    s->outcome = st == PLEAT_OK || st == PLEAT_EPOISONED ? PL_SWAP_PARTLY : s->outcome;
    return st;
}

static pleat_status map_places(const pl_space *space, pl_swap *s)
{
    pleat_status st = PLEAT_OK;

    for (size_t i = 0; i < s->n_spans && st == PLEAT_OK; i++) {
        st = map_place(space, s, &s->spans[i]);
    }
    s->outcome = st == PLEAT_OK ? PL_SWAP_NEW : s->outcome;
    return st;
}

/* To undo a step, a call that is refused is tried once more, unless it was done in part. A span
 * that stays mapped in part counts as unmapped: a later compaction maps the span again. */
#define UNDO(st, call)                                                                             \
    do {                                                                                           \
        (st) = (call);                                                                             \
        if ((st) != PLEAT_OK && (st) != PLEAT_EPOISONED) {                                         \
            (st) = (call);                                                                         \
        }                                                                                          \
    } while (0)

static pleat_status unmap_places(const pl_space *space, pl_swap *s)
{
    pleat_status st = PLEAT_OK;

    for (size_t i = s->n_spans; i-- > 0 && st == PLEAT_OK;) {
        pl_swap_span *one = &s->spans[i];
        if (one->is_mapped) {
            UNDO(st, pl_mapping_unmap(space->dev, pl_segment_address(s->seg, one->g),
                                      pl_swap_bytes(space, one->n)));
            one->is_mapped = st != PLEAT_OK && st != PLEAT_EPOISONED;
            s->outcome = one->is_mapped ? s->outcome : PL_SWAP_PARTLY;
        }
    }
    s->outcome = st == PLEAT_OK ? PL_SWAP_GONE : s->outcome;
    return st;
}

static pleat_status hide(const pl_space *space, pl_swap *s, const shown *scratch)
{
    pleat_status st = pl_mapping_unmap(space->dev, space->flights.scratch.base,
                                       pl_swap_bytes(space, scratch->n));

    s->is_in_scratch = st != PLEAT_OK;
    return st;
}

static pleat_status map_old(const pl_space *space, pl_swap *s, const shown *scratch)
{
    pleat_status st = pl_mapping_map_mixed(space->dev, s->at, scratch->chunks, scratch->orders,
                                           pl_swap_granules(s));

    s->outcome = st == PLEAT_OK ? PL_SWAP_OLD : PL_SWAP_GONE;
    return st;
}

/* From whichever step failed back to the old chunk. The first undo that fails ends it. */
static pleat_status go_back(const pl_space *space, pl_swap *s, const shown *scratch)
{
    pleat_status st = s->outcome == PL_SWAP_OLD ? PLEAT_OK : unmap_places(space, s);

    if (st == PLEAT_OK && s->outcome == PL_SWAP_GONE) {
        UNDO(st, map_old(space, s, scratch));
    }
    if (st == PLEAT_OK) {
        UNDO(st, hide(space, s, scratch));
    }
    return st;
}

/* The chunks show at the scratch addresses, the old one first; live blocks lose their addresses;
 * bytes are copied, and the new chunks mapped in their places; the scratch addresses are unmapped.
 * *is_over: false while copies may still run, and nothing may be unmapped under them. */
static pleat_status go(const pl_space *space, pl_swap *s, const shown *scratch,
                       const pl_copy *copies, bool *is_over)
{
    pleat_status st = pl_mapping_map_mixed(space->dev, space->flights.scratch.base, scratch->chunks,
                                           scratch->orders, scratch->n);

    s->is_in_scratch = st == PLEAT_OK || st == PLEAT_EPOISONED;
    if (st != PLEAT_OK) {
        return st;
    }
    st = pl_mapping_unmap(space->dev, s->at, pl_swap_bytes(space, pl_swap_granules(s)));
    s->outcome = st == PLEAT_OK || st == PLEAT_EPOISONED ? PL_SWAP_GONE : PL_SWAP_OLD;
    if (st == PLEAT_OK) {
        st = pl_copy_run(space->dev, copies, s->n_spans, is_over);
        st = *is_over ? st : PLEAT_EPOISONED;
    }
    st = st == PLEAT_OK ? map_places(space, s) : st;
    return st == PLEAT_OK ? hide(space, s, scratch) : st;
}

pleat_status pl_swap_run(pl_space *space, pl_swap *s)
{
    pl_copy copies[PL_SWAP_SPANS];
    bool is_over = true;
    shown scratch;

    show(s, &scratch);
    list_copies(space, s, copies);
    s->outcome = PL_SWAP_OLD;
    pl_away(space);
    pleat_status st = go(space, s, &scratch, copies, &is_over);
    if (!is_over) { /* the scratch addresses are in use, but the old chunk may have its place */
        (void)!map_old(space, s, &scratch);
    } else if (st != PLEAT_OK && st != PLEAT_EPOISONED && s->is_in_scratch) {
        st = go_back(space, s, &scratch) == PLEAT_OK ? st : PLEAT_EPOISONED;
    }
    pl_back(space);
    s->is_filling = !is_over;
    return st;
}
