/* depart.h - free memory on its way back to the driver, of caches whose memory any stream gets.
 *
 * Pieces are picked while more than keep_bytes would stay reserved. The host waits for the streams
 * that used them, each once; then the pieces go, one by one. A piece that cannot go, since its uses
 * are not over or the driver refuses it, is put aside, and others that can go are picked in its
 * place. What was put aside is put back in the end, so that no piece is tried twice.
 *
 * Lock held on entry and exit, dropped around driver calls. */
#ifndef PLEAT_SEGMENTS_CLASSIC_DEPART_H
#define PLEAT_SEGMENTS_CLASSIC_DEPART_H

#include "segments/classic/cache.h"
#include "segments/classic/order.h"

/* Embedded in each piece: the next one that departs, or that was put aside. */
typedef struct pl_leaver {
    struct pl_leaver *next;
} pl_leaver;

#define PL_LEAVER_ENTRY(leaver, type, member)                                                      \
    ((type *)(void *)((char *)(leaver)-offsetof(type, member)))

typedef struct pl_departing {
    const pl_cache *cache;
    const pl_order *order;
    uint64_t keep_bytes;
    bool only_idle; /* pick no piece whose uses are not known to be over */
    pl_leaver *first;
    pl_leaver *stuck; /* put aside */
    uint64_t bytes;   /* of those that depart */
    uint64_t open;    /* lanes of all that were picked whose uses were not known to be over */
} pl_departing;

/* What an allocator does its own way. */
typedef struct pl_depart_kind {
    /* Pick free pieces, in the allocator's order: pl_depart_takes, pl_depart_add. */
    void (*pick)(pl_cache *c, pl_departing *d);
    /* The lanes of all free pieces whose uses are not known to be over. */
    uint64_t (*open)(const pl_cache *c);
    size_t (*bytes_of)(const pl_leaver *leaver);
    const pl_order_uses *(*uses_of)(const pl_leaver *leaver);
    /* A piece whose uses are over goes to the driver, and is gone unless that fails. */
    pleat_status (*release)(pl_cache *c, pl_leaver *leaver);
    void (*put_back)(pl_cache *c, pl_leaver *leaver);
} pl_depart_kind;

/* Would more than keep_bytes stay? */
static inline bool pl_depart_wants_more(const pl_departing *d)
{
    return d->cache->reserved_bytes - d->cache->releasing_bytes - d->bytes > d->keep_bytes;
}

/* Is a piece of those bytes and uses to be picked? Then it is counted, and must be added. */
bool pl_depart_takes(pl_departing *d, const pl_order_uses *uses, size_t bytes);
void pl_depart_add(pl_departing *d, pl_leaver *leaver);

/* Give back what is free while more than keep_bytes are reserved. Waits at most wait_ms for each
 * stream. The first failure of a wait or of the driver; EPENDING and ECAPTURE are none. */
pleat_status pl_depart(pl_cache *c, pl_order *order, const pl_depart_kind *kind,
                       uint64_t keep_bytes, uint32_t wait_ms, uint64_t *released);

#endif
