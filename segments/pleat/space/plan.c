/* plan.c - see plan.h. */
#include "segments/pleat/space/plan.h"

#include "vmm/base/cancel.h"
#include "vmm/left.h"
#include "vmm/mapping.h"

static pleat_status create(pl_device *dev, size_t bytes, const pl_task *t)
{
    pleat_status st = PLEAT_OK;
    size_t n = 0;

    while (n < t->n && st == PLEAT_OK) {
        st = pl_chunk_create_sized(dev, bytes, &t->chunks[n]);
        n += st == PLEAT_OK;
    }
    if (t->n_created != NULL) {
        *t->n_created = n;
    }
    return st;
}

static pleat_status release(pl_device *dev, size_t granule, pl_pile *pile)
{
    pl_pile refused = { .n = 0 };
    pleat_status st = PLEAT_OK;

    for (size_t i = 0; i < pile->n; i++) {
        unsigned order = pile->orders[i];
        pleat_status failed = pl_chunk_release_sized(dev, pile->chunks[i], granule << order);
        if (failed != PLEAT_OK) {
            pl_pile_put(&refused, pile->chunks[i], order);
            st = failed;
        }
    }
    *pile = refused;
    return st;
}

/* Nothing may be unmapped under copies that still run. */
static pleat_status copy(pl_device *dev, const pl_copy *copies, size_t n, bool *is_over)
{
    pleat_status st = pl_copy_run(dev, copies, n, is_over);

    return *is_over ? st : PLEAT_EPOISONED;
}

static pleat_status perform(const pl_space *space, pl_task *t)
{
    pl_device *dev = space->dev;
    size_t granule = space->granule_bytes;
    pleat_status st = PLEAT_OK;

    switch (t->kind) {
#define AS_CASE(kind, call)                                                                        \
    case PL_TASK_##kind:                                                                           \
        st = call;                                                                                 \
        break;
        PL_TASK_LIST(AS_CASE)
    default:
        break;
    }
    t->is_done = st == PLEAT_OK;
    t->is_torn = st == PLEAT_EPOISONED;
    return st;
}

pleat_status pl_perform(const pl_space *space, pl_task task)
{
    return perform(space, &task);
}

/* A refused undo is tried once more. */
static bool undo(const pl_space *space, pl_task *t)
{
    pl_task back = *t;

    if (t->kind != PL_TASK_MAP && t->kind != PL_TASK_UNMAP) {
        return true;
    }
    back.kind = t->kind == PL_TASK_MAP ? PL_TASK_UNMAP : PL_TASK_MAP;
    pl_assert(t->chunks != NULL && t->orders != NULL);
    if (perform(space, &back) != PLEAT_OK && !back.is_torn) {
        (void)!perform(space, &back);
    }
    t->is_done = !back.is_done;
    t->is_torn = back.is_torn;
    return back.is_done;
}

pleat_status pl_fly(pl_space *space, pl_task *plan, size_t n)
{
    pleat_status st = PLEAT_OK;
    size_t i = 0;

    pl_lock_release(&space->lock);
    while (i < n && st == PLEAT_OK) {
        st = perform(space, &plan[i++]);
    }
    for (i--; st != PLEAT_OK && st != PLEAT_EPOISONED && i > 0; i--) {
        st = undo(space, &plan[i - 1]) ? st : PLEAT_EPOISONED;
    }
    pl_lock_acquire(&space->lock);
    return st;
}
