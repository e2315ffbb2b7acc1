/* swap.c - see split.h. Holds no lock. */
#include "segments/pleat/compact/split.h"

#include "vmm/copy.h"
#include "vmm/mapping.h"

/* Map the new chunks at the scratch addresses, fill the chunks, and unmap them again. */
static pleat_status fill(const pl_space *space, pl_swap *s)
{
    pl_copy copies[PL_SWAP_SPANS];
    pleat_devptr at = space->flights.scratch.base;
    bool is_over;

    pleat_status st = pl_mapping_map_mixed(space->dev, at, s->chunks, s->orders, s->n_kept);
    s->is_in_scratch = st == PLEAT_EPOISONED;
    if (st != PLEAT_OK) {
        return st;
    }
    for (size_t i = 0; i < s->n_spans; i++) {
        const pl_swap_span *one = &s->spans[i];
        copies[i] = (pl_copy){ .to = at + pl_swap_bytes(space, one->piece),
                               .from = pl_segment_address(s->seg, one->g),
                               .bytes = pl_swap_bytes(space, one->n) };
    }
    st = pl_copy_run(space->dev, copies, s->n_spans, &is_over);
    s->is_filling = !is_over;
    s->is_in_scratch = !is_over || pl_mapping_unmap(space->dev, at,
                                                    pl_swap_bytes(space, s->n_kept)) != PLEAT_OK;
    return s->is_in_scratch ? PLEAT_EPOISONED : st;
}

static pleat_status map_span(const pl_space *space, const pl_swap *s, pl_swap_span *one)
{
    pleat_status st = pl_mapping_map_mixed(space->dev, pl_segment_address(s->seg, one->g),
                                           s->chunks + one->piece, s->orders + one->piece, one->n);
    one->is_mapped = st == PLEAT_OK;
    return st;
}

/* A span that is mapped in part counts as unmapped: a later compaction maps the span again. */
static bool unmap_spans(const pl_space *space, pl_swap *s)
{
    bool is_done = true;

    for (size_t i = 0; i < s->n_spans; i++) {
        pl_swap_span *one = &s->spans[i];
        if (one->is_mapped) {
            pleat_status st = pl_mapping_unmap(space->dev, pl_segment_address(s->seg, one->g),
                                               pl_swap_bytes(space, one->n));
            one->is_mapped = st != PLEAT_OK && st != PLEAT_EPOISONED;
            is_done = is_done && st == PLEAT_OK;
        }
    }
    return is_done;
}

static bool map_old(const pl_space *space, const pl_swap *s)
{
    size_t bytes = pl_swap_bytes(space, pl_swap_granules(s));
    pleat_status st = pl_mapping_map_sized(space->dev, s->at, &s->old, 1, bytes);

    if (st != PLEAT_OK && st != PLEAT_EPOISONED) {
        st = pl_mapping_map_sized(space->dev, s->at, &s->old, 1, bytes);
    }
    return st == PLEAT_OK;
}

/* Put the new chunks in the place of the old one. */
static pleat_status swap(const pl_space *space, pl_swap *s)
{
    pleat_status st = pl_mapping_unmap(space->dev, s->at,
                                       pl_swap_bytes(space, pl_swap_granules(s)));
    if (st != PLEAT_OK) {
        return st;
    }
    for (size_t i = 0; i < s->n_spans && st == PLEAT_OK; i++) {
        st = map_span(space, s, &s->spans[i]);
    }
    if (st == PLEAT_OK) {
        s->outcome = PL_SWAP_NEW;
        return PLEAT_OK;
    }
    if (st == PLEAT_EPOISONED || !unmap_spans(space, s)) {
        s->outcome = PL_SWAP_PARTLY;
        return PLEAT_EPOISONED;
    }
    s->outcome = map_old(space, s) ? PL_SWAP_OLD : PL_SWAP_GONE;
    return s->outcome == PL_SWAP_OLD ? st : PLEAT_EPOISONED;
}

pleat_status pl_swap_run(const pl_space *space, pl_swap *s)
{
    s->outcome = PL_SWAP_OLD;
    pleat_status st = fill(space, s);

    return st == PLEAT_OK ? swap(space, s) : st;
}
