/* twin.h - two granules that share the memory of one.
 *
 *   host   |## live ##|  free  |~~~ veiled ~~~|## live ##|
 *   guest  |~~~~~ veiled ~~~~~~|## live ##| f |~ veiled ~|
 *
 * Where what lives in two granules lies at different offsets, one chunk serves both: it is mapped
 * at both addresses. Each byte of it then belongs to one of them, and is veiled at the other: it is
 * not free there, nor live, and is never given out. Else both are granules like any: their free
 * blocks serve requests, their live ones are freed. A granule with veiled bytes is never vacant, so
 * its chunk is never taken or trimmed.
 *
 * When nothing is in use at one address any more, the pair is dissolved: that granule becomes
 * stale, and what was veiled at the other one becomes free. This needs no driver call, and is done
 * before stale mappings are looked at: when memory grows, and in trims and compactions.
 *
 * A byte is one's or the other's in units of PL_TWIN_UNITS to a granule. Merging is for compactions
 * only (merge.h). Guarded by the device lock; never calls the driver. */
#ifndef PLEAT_SEGMENTS_TWIN_H
#define PLEAT_SEGMENTS_TWIN_H

#include "segments/pleat/space.h"

enum { PL_TWIN_UNITS = 1024, PL_TWIN_WORDS = PL_TWIN_UNITS / 64 };

/* Which units of a granule hold bytes that are in use. */
typedef struct pl_twin_map {
    uint64_t words[PL_TWIN_WORDS];
    size_t n;
} pl_twin_map;

static inline bool pl_twin_is_guest(const pl_segment *seg, size_t g)
{
    return (seg->twins[g] & 1) != 0;
}
static inline size_t pl_twin_unit(const pl_space *space)
{
    size_t bytes = space->granule_bytes / PL_TWIN_UNITS;

    return bytes > PL_BLOCK_QUANTUM ? bytes : PL_BLOCK_QUANTUM;
}

/* Could the granule be one of twins? If so *out tells what is in use. False: it is one, or has no
 * chunk of its own, is in a private pool, or its free bytes are not over or in flight. Looks at all
 * its blocks; *n_looks is set to their number. */
bool pl_twin_survey(const pl_space *space, const pl_segment *seg, size_t g, pl_twin_map *out,
                    size_t *n_looks);
/* The next units from *unit on that are in use, or not: [*unit, *to). False: there are none. */
bool pl_twin_next(const pl_space *space, const pl_twin_map *map, bool is_used, size_t *unit,
                  size_t *to);
/* Have room for one more pair whose guest uses what the map tells. PLEAT_OK or ENOMEM_HOST. */
pleat_status pl_twin_reserve(pl_space *space, const pl_twin_map *guest);
/* Two granules become twins in two steps, with the same map. First what will be veiled, at both
 * addresses, is in flight: others may free what is in use there meanwhile. After a reserve. */
void pl_twin_lift(pl_space *space, pleat_devptr host, pleat_devptr guest, const pl_twin_map *map);
/* Then the guest's chunk is not its own any more, but the host's. */
void pl_twin_join(pl_space *space, pleat_devptr host, pleat_devptr guest, const pl_twin_map *map);
/* Or what is in flight is free again. */
void pl_twin_part(pl_space *space, pleat_devptr host, pleat_devptr guest, const pl_twin_map *map);
/* Dissolve the pairs of which one has nothing in use. May drop the lock. */
void pl_twin_dissolve(pl_space *space);

/* 0, or 1: a pair is not as above. Nothing flies. */
int pl_twin_check(const pl_space *space);

#endif
