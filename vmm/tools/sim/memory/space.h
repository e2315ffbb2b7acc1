/* space.h - the device address space: reservations, and the mapping of every granule.
 *
 *   entry of a granule, 64 bits; 0 = not mapped
 *   |63     48|47      32|   31   |   30    |   29    |   28   |   27   |26            0|
 *   | write   | read     | linear | partial | aliased | mapped | pooled | mapping index |
 *
 *   write, read  one bit per device
 *   linear       memory of cuMemAlloc or of a pool
 *   partial      the allocation ends within the granule
 *   aliased      the handle has further mappings
 *   pooled       a pool's memory: only live blocks may be touched
 *
 * Guarded by sim.lock. */
#ifndef PLEAT_SIM_SPACE_H
#define PLEAT_SIM_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vmm/tools/sim/conf.h"

#define SIM_GRANULE_INDEX UINT64_C(0x07ffffff)
#define SIM_GRANULE_POOLED (UINT64_C(1) << 27)
#define SIM_GRANULE_MAPPED (UINT64_C(1) << 28)
#define SIM_GRANULE_ALIASED (UINT64_C(1) << 29)
#define SIM_GRANULE_PARTIAL (UINT64_C(1) << 30)
#define SIM_GRANULE_LINEAR (UINT64_C(1) << 31)
#define SIM_GRANULE_READ(device) (UINT64_C(1) << (32 + (device)))
#define SIM_GRANULE_WRITE(device) (UINT64_C(1) << (48 + (device)))
#define SIM_GRANULE_RIGHTS UINT64_C(0xffffffff00000000)

enum { SIM_ADDRESS_BITS = 48, SIM_LEAF_SHIFT = 15, SIM_LEAF_GRANULES = 1 << SIM_LEAF_SHIFT };

typedef struct sim_reservation {
    uint64_t base;
    uint64_t bytes;
    uint32_t n_mappings;
    bool is_linear; /* made by cuMemAlloc for itself */
} sim_reservation;

typedef struct sim_leaf {
    uint32_t n_used;
    uint64_t entries[SIM_LEAF_GRANULES];
} sim_leaf;

typedef struct sim_space {
    unsigned shift; /* of a granule */
    uint64_t limit; /* first address that is never given out */
    bool has_memory;
    sim_leaf **leaves;
    sim_leaf *spare;                /* an empty leaf, kept for reuse, or NULL */
    sim_reservation **reservations; /* in address order */
    size_t n_reservations;
    size_t room;
    uint64_t cursor; /* where the next search starts */
    uint64_t n_user; /* reservations made by the user, and their bytes */
    uint64_t user_bytes;
    uint64_t all_bytes;
} sim_space;

void sim_space_init(sim_space *space, const sim_conf *conf);
void sim_space_fini(sim_space *space);

/* Reserve `bytes` (whole granules) at a multiple of `alignment` (a power of two); at `hint` if that
 * is not 0 and free. NULL when the address space has no such gap. */
sim_reservation *sim_space_reserve(sim_space *space, uint64_t bytes, uint64_t alignment,
                                   uint64_t hint, bool is_linear);
void sim_space_release(sim_space *space, sim_reservation *reservation);
/* The reservation that holds `address`, or NULL. */
sim_reservation *sim_space_find(const sim_space *space, uint64_t address);
/* The reservation that holds all of [address, address + bytes), or NULL. */
sim_reservation *sim_space_within(const sim_space *space, uint64_t address, uint64_t bytes);

void sim_space_set(sim_space *space, uint64_t granule, uint64_t entry);

static inline uint64_t sim_space_entry(const sim_space *space, uint64_t address)
{
    if (address >> SIM_ADDRESS_BITS != 0) {
        return 0;
    }
    uint64_t granule = address >> space->shift;
    const sim_leaf *leaf = space->leaves[granule >> SIM_LEAF_SHIFT];
    return leaf == NULL ? 0 : leaf->entries[granule & (SIM_LEAF_GRANULES - 1)];
}

/* All entries of [begin, end) and-ed and or-ed together; begin < end <= 1 << 48. */
typedef struct sim_scan {
    uint64_t all;
    uint64_t any;
} sim_scan;
sim_scan sim_space_scan(const sim_space *space, uint64_t begin, uint64_t end);

#endif
