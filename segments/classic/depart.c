/* depart.c - how free memory goes back to the driver. See depart.h.
 *
 * Takes no lock: the caller holds the cache's lock. The driver's free waits for the whole device.
 * Here the host first waits for each stream that used a departing piece. These host syncs are
 * counted. Pieces used by captured streams stay. */
#include "segments/classic/depart.h"

bool pl_depart_takes(pl_departing *d, const pl_order_uses *uses, size_t bytes)
{
    uint64_t open = pl_order_open(d->order, uses, NULL);
    if (!pl_depart_wants_more(d) || (d->only_idle && open != 0)) {
        return false;
    }
    d->open |= open;
    d->bytes += bytes;
    return true;
}

void pl_depart_add(pl_departing *d, pl_leaver *leaver)
{
    leaver->next = d->first;
    d->first = leaver;
}

/* Give the picked pieces to the driver, or put them aside. False if one was put aside. */
static bool let_go(pl_cache *c, pl_departing *d, const pl_depart_kind *kind, uint64_t *released,
                   pleat_status *first)
{
    bool are_gone = true;
    while (d->first) {
        pl_leaver *leaver = d->first;
        size_t bytes = kind->bytes_of(leaver);
        d->first = leaver->next;
        leaver->next = NULL;
        pleat_status st = PLEAT_EPENDING;
        if (pl_order_open(d->order, kind->uses_of(leaver), NULL) == 0) {
            st = kind->release(c, leaver);
        }
        d->bytes -= bytes;
        if (st == PLEAT_OK) {
            *released += bytes;
            continue;
        }
        are_gone = false;
        leaver->next = d->stuck;
        d->stuck = leaver;
        *first = *first == PLEAT_OK && st != PLEAT_EPENDING ? st : *first;
    }
    return are_gone;
}

/* Some picked pieces could not go: give back other pieces instead. */
static pleat_status let_others_go(pl_cache *c, pl_order *order, pl_departing *d,
                                  const pl_depart_kind *kind, uint32_t wait_ms, uint64_t *released)
{
    if (!pl_depart_wants_more(d)) {
        return PLEAT_OK;
    }
    pleat_status first = pl_order_wait_each(order, kind->open(c) & ~d->open, wait_ms);
    d->only_idle = true;
    do {
        kind->pick(c, d);
    } while (!let_go(c, d, kind, released, &first));
    return first;
}

static void put_back(pl_cache *c, pl_departing *d, const pl_depart_kind *kind)
{
    while (d->stuck) {
        pl_leaver *leaver = d->stuck;
        d->stuck = leaver->next;
        leaver->next = NULL;
        kind->put_back(c, leaver);
    }
}

pleat_status pl_depart(pl_cache *c, pl_order *order, const pl_depart_kind *kind,
                       uint64_t keep_bytes, uint32_t wait_ms, uint64_t *released)
{
    pl_lock_assert(&c->lock);
    pl_departing d = { .cache = c, .order = order, .keep_bytes = keep_bytes };
    kind->pick(c, &d);
    c->stats.num_sync_all_streams += d.first && wait_ms != 0 ? 1 : 0;
    pl_waiter_leave(&c->waiter);
    pleat_status first = pl_order_wait_each(order, d.open, wait_ms);
    if (!let_go(c, &d, kind, released, &first)) {
        pleat_status st = let_others_go(c, order, &d, kind, wait_ms, released);
        first = first == PLEAT_OK ? st : first;
    }
    put_back(c, &d, kind);
    pl_waiter_return(&c->waiter, NULL);
    return first;
}
