/* swap.c - copies the parts of a chunk to new chunks and swaps the mappings: see split.h. Guarded
 * by the device lock, dropped for the two plans. */
#include "segments/pleat/compact/split.h"

#include "segments/pleat/space/plan.h"

/* Map the new chunks at the scratch addresses, fill the chunks, and unmap them again. A refused
 * unmapping is tried once more, as the undo of the mapping. */
static pleat_status fill(pl_space *space, pl_swap *s)
{
    pl_copy copies[PL_SWAP_SPANS];
    pleat_devptr at = space->flights.scratch.base;
    bool is_over = true;
    pl_task plan[] = {
        { PL_TASK_MAP, .at = at, .chunks = s->chunks, .orders = s->orders, .n = s->n_kept },
        { PL_TASK_COPY, .copies = copies, .n = s->n_spans, .is_over = &is_over },
        { PL_TASK_UNMAP, .at = at, .n = s->n_kept },
    };

    for (size_t i = 0; i < s->n_spans; i++) {
        const pl_swap_span *one = &s->spans[i];
        copies[i] = (pl_copy){ .to = at + pl_swap_bytes(space, one->piece),
                               .from = pl_segment_address(s->seg, one->g),
                               .bytes = pl_swap_bytes(space, one->n) };
    }
    pleat_status st = pl_fly(space, plan, 3);
    s->is_filling = !is_over;
    s->is_in_scratch = st == PLEAT_EPOISONED;
    return st;
}

/* Put the new chunks in the place of the old one. A span that is mapped in part counts as unmapped:
 * a later compaction maps the span again. */
static pleat_status swap(pl_space *space, pl_swap *s)
{
    uint8_t order = (uint8_t)s->order;
    pl_task plan[1 + PL_SWAP_SPANS] = { { PL_TASK_UNMAP, .at = s->at, .chunks = &s->old,
                                          .orders = &order, .n = pl_swap_granules(s) } };
    bool is_partly = false;

    for (size_t i = 0; i < s->n_spans; i++) {
        const pl_swap_span *one = &s->spans[i];
        plan[1 + i] = (pl_task){ PL_TASK_MAP, .at = pl_segment_address(s->seg, one->g),
                                 .chunks = s->chunks + one->piece, .orders = s->orders + one->piece,
                                 .n = one->n };
    }
    pleat_status st = pl_fly(space, plan, 1 + s->n_spans);
    for (size_t i = 0; i < s->n_spans; i++) {
        s->spans[i].is_mapped = plan[1 + i].is_done && !plan[1 + i].is_torn;
        is_partly = is_partly || plan[1 + i].is_done || plan[1 + i].is_torn;
    }
    s->outcome = st == PLEAT_OK ? PL_SWAP_NEW : plan[0].is_done ? PL_SWAP_GONE : PL_SWAP_OLD;
    s->outcome = st != PLEAT_OK && is_partly ? PL_SWAP_PARTLY : s->outcome;
    return st;
}

pleat_status pl_swap_run(pl_space *space, pl_swap *s)
{
    s->outcome = PL_SWAP_OLD;
    pleat_status st = fill(space, s);

    return st == PLEAT_OK ? swap(space, s) : st;
}
