/* swap.c - moves the parts of a chunk to new chunks: see split.h. Guarded by the device lock,
 * dropped for the plans.
 *
 * The order of the steps keeps a write from being lost if the caller breaks its promise and work
 * runs meanwhile. The old chunk is mapped a second time, then the addresses of the live blocks are
 * unmapped, and only then bytes are copied, between the scratch addresses. A write before the
 * unmapping is copied, too; a write after it faults, until the new chunks are in their places. */
#include "segments/pleat/compact/split.h"

#include <string.h>

#include "segments/pleat/space/plan.h"

/* The steps of a move: chunks show at the scratch addresses, first the old one, live blocks lose
 * their addresses, bytes are copied, places are mapped, one a span, and the scratch addresses are
 * unmapped. */
enum { STEP_SHOW, STEP_LEAVE, STEP_COPY, STEP_PLACES };
enum { MOST_STEPS = STEP_PLACES + PL_SWAP_SPANS + 1, MOST_SHOWN = 2 * PL_SWAP_GRANULES };

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

static void list_places(pl_swap *s, pl_task *places)
{
    for (size_t i = 0; i < s->n_spans; i++) {
        const pl_swap_span *one = &s->spans[i];
        places[i] = (pl_task){ PL_TASK_MAP, .at = pl_segment_address(s->seg, one->g),
                               .chunks = s->chunks + one->piece, .orders = s->orders + one->piece,
                               .n = one->n };
    }
}

/* What is mapped where, after the plan. A span that is mapped in part counts as unmapped: a later
 * compaction maps the span again. */
static void find_outcome(pl_swap *s, const pl_task *plan)
{
    const pl_task *places = plan + STEP_PLACES;
    const pl_task *hide = places + s->n_spans;
    size_t n_mapped = 0;
    bool any = false;

    for (size_t i = 0; i < s->n_spans; i++) {
        s->spans[i].is_mapped = places[i].is_done && !places[i].is_torn;
        n_mapped += s->spans[i].is_mapped;
        any = any || places[i].is_done || places[i].is_torn;
    }
    s->outcome = n_mapped == s->n_spans     ? PL_SWAP_NEW
                 : any                      ? PL_SWAP_PARTLY
                 : plan[STEP_LEAVE].is_done ? PL_SWAP_GONE
                                            : PL_SWAP_OLD;
    s->is_in_scratch = (plan[STEP_SHOW].is_done || plan[STEP_SHOW].is_torn) && !hide->is_done;
}

/* Copies may still run, so nothing was undone: the scratch addresses are in use. */
static void come_back(pl_space *space, pl_swap *s, pl_task leave)
{
    leave.kind = PL_TASK_MAP;
    s->outcome = pl_fly_one(space, leave) == PLEAT_OK ? PL_SWAP_OLD : PL_SWAP_GONE;
}

pleat_status pl_swap_run(pl_space *space, pl_swap *s)
{
    pl_copy copies[PL_SWAP_SPANS];
    shown scratch;
    pleat_devptr at = space->flights.scratch.base;
    bool is_over = true;
    show(s, &scratch);
    pl_task plan[MOST_STEPS] = {
        [STEP_SHOW] = { PL_TASK_MAP, .at = at, .chunks = scratch.chunks, .orders = scratch.orders,
                        .n = scratch.n },
        [STEP_LEAVE] = { PL_TASK_UNMAP, .at = s->at, .chunks = scratch.chunks,
                         .orders = scratch.orders, .n = pl_swap_granules(s) },
        [STEP_COPY] = { PL_TASK_COPY, .copies = copies, .n = s->n_spans, .is_over = &is_over },
    };

    list_copies(space, s, copies);
    list_places(s, plan + STEP_PLACES);
    plan[STEP_PLACES + s->n_spans] = (pl_task){ PL_TASK_UNMAP, .at = at, .n = scratch.n };
    pleat_status st = pl_fly(space, plan, STEP_PLACES + s->n_spans + 1);
    find_outcome(s, plan);
    s->is_filling = !is_over;
    if (s->is_filling) {
        come_back(space, s, plan[STEP_LEAVE]);
    }
    return st;
}
