/* depart.h - how free memory goes back to the driver, in caches whose free memory serves any
 * stream.
 *
 * Pieces are picked while more than keep_bytes would stay reserved. The host waits once for each
 * stream that used a picked piece. Then the pieces go one by one. A piece cannot go while its uses
 * are not over, or if the driver refuses. Such a piece is put aside, and a further piece is picked
 * instead. At the end all pieces put aside are put back. So no piece is tried twice.
 *
 * Lock held on entry and exit, dropped around driver calls. */
#ifndef PLEAT_SEGMENTS_CLASSIC_DEPART_H
#define PLEAT_SEGMENTS_CLASSIC_DEPART_H

#include "segments/classic/cache.h"
#include "segments/classic/order.h"

/* Embedded in each piece: the next piece in the list of departing pieces, or of pieces put
 * aside. */
typedef struct pl_leaver {
    struct pl_leaver *next;
} pl_leaver;

#define PL_LEAVER_ENTRY(leaver, type, member)                                                      \
    ((type *)(void *)((char *)(leaver)-offsetof(type, member)))

typedef struct pl_departing {
    const pl_cache *cache;
    const pl_order *order;
    uint64_t keep_bytes;
    bool only_idle;   /* pick only pieces with uses known to be over */
    pl_leaver *first; /* picked */
    pl_leaver *stuck; /* put aside */
    uint64_t bytes;   /* of the picked pieces */
    uint64_t open;    /* lanes of the picked pieces with uses not known to be over */
} pl_departing;

/* The differences between the allocators. */
typedef struct pl_depart_kind {
    /* Pick free pieces in the allocator's order, by pl_depart_takes and pl_depart_add. */
    void (*pick)(pl_cache *c, pl_departing *d);
    /* The lanes of all free pieces whose uses are not known to be over. */
    uint64_t (*open)(const pl_cache *c);
    size_t (*bytes_of)(const pl_leaver *leaver);
    const pl_order_uses *(*uses_of)(const pl_leaver *leaver);
    /* Give a piece whose uses are over to the driver. Unless that fails, the piece is gone. */
    pleat_status (*release)(pl_cache *c, pl_leaver *leaver);
    void (*put_back)(pl_cache *c, pl_leaver *leaver);
} pl_depart_kind;

/* Would more than keep_bytes stay reserved? */
static inline bool pl_depart_wants_more(const pl_departing *d)
{
    return d->cache->reserved_bytes - d->cache->releasing_bytes - d->bytes > d->keep_bytes;
}

/* Is a piece with these uses and bytes picked? If so, the piece is counted, and the caller must add
 * it. */
bool pl_depart_takes(pl_departing *d, const pl_order_uses *uses, size_t bytes);
void pl_depart_add(pl_departing *d, pl_leaver *leaver);

/* Give free memory back while more than keep_bytes are reserved. Waits at most wait_ms for each
 * stream. Returns the first failure of a wait or of the driver; EPENDING and ECAPTURE count as
 * none. */
pleat_status pl_depart(pl_cache *c, pl_order *order, const pl_depart_kind *kind,
                       uint64_t keep_bytes, uint32_t wait_ms, uint64_t *released);

#endif
