/* space.c - finds gaps, keeps reservations in order, holds the table of granules.
 *
 *   0     one granule              half                          limit = 1 << va_bits
 *   | never |  second choice        |  first choice: next fit     |
 *
 * Made-up addresses start in the upper half. With the default of 48 bits no host pointer is among
 * them, and dereferencing a made-up address faults. With backing:memory the kernel gives the
 * addresses. The table has two levels. A leaf exists while one of its granules is mapped. */
#include "vmm/tools/sim/memory/space.h"

#include <stdlib.h>
#include <string.h>

#include "vmm/tools/sim/memory/backing.h"
#include "vmm/tools/sim/memory/block.h"
#include "vmm/tools/sim/memory/pool.h"

static size_t n_leaves(const sim_space *space)
{
    unsigned bits = space->shift + SIM_LEAF_SHIFT;
    return bits >= SIM_ADDRESS_BITS ? 1 : (size_t)1 << (SIM_ADDRESS_BITS - bits);
}

void sim_space_init(sim_space *space, const sim_conf *conf)
{
    memset(space, 0, sizeof(*space));
    space->shift = conf->granule_shift;
    space->limit = UINT64_C(1) << conf->va_bits;
    space->has_memory = conf->has_memory;
    space->cursor = space->limit / 2;
    space->leaves = sim_new(n_leaves(space) * sizeof(space->leaves[0]));
}

void sim_space_fini(sim_space *space)
{
    for (size_t i = 0; i < space->n_reservations; i++) {
        sim_reservation *reservation = space->reservations[i];
        if (space->has_memory) {
            sim_backing_unreserve(reservation->base, reservation->bytes);
        }
        for (uint64_t at = reservation->base; at < reservation->base + reservation->bytes;) {
            size_t leaf = at >> (space->shift + SIM_LEAF_SHIFT);
            free(space->leaves[leaf]);
            space->leaves[leaf] = NULL;
            at = (uint64_t)(leaf + 1) << (space->shift + SIM_LEAF_SHIFT);
        }
        free(reservation);
    }
    free(space->reservations);
    free(space->spare);
    free(space->leaves);
    memset(space, 0, sizeof(*space));
}

/* Index of the first reservation that ends after `address`. */
static size_t first_behind(const sim_space *space, uint64_t address)
{
    size_t low = 0;
    size_t high = space->n_reservations;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const sim_reservation *it = space->reservations[middle];
        if (it->base + it->bytes > address) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* The first gap within [from, to) that holds `bytes` at `alignment`, or 0. */
static uint64_t find_gap(const sim_space *space, uint64_t from, uint64_t to, uint64_t bytes,
                         uint64_t alignment)
{
    uint64_t at = (from + alignment - 1) & ~(alignment - 1);
    for (size_t i = first_behind(space, at); i < space->n_reservations; i++) {
        const sim_reservation *it = space->reservations[i];
        if (at >= to || bytes > to - at || it->base >= at + bytes) {
            break;
        }
        at = (it->base + it->bytes + alignment - 1) & ~(alignment - 1);
    }
    return at < to && bytes <= to - at ? at : 0;
}

static uint64_t choose_made_up(sim_space *space, uint64_t bytes, uint64_t alignment, uint64_t hint)
{
    if (hint != 0 && hint < space->limit && bytes <= space->limit - hint &&
        find_gap(space, hint, hint + bytes, bytes, alignment) == hint) {
        return hint;
    }
    uint64_t half = space->limit / 2;
    uint64_t at = find_gap(space, space->cursor, space->limit, bytes, alignment);
    if (at == 0) {
        at = find_gap(space, half, space->limit, bytes, alignment);
    }
    if (at == 0) {
        at = find_gap(space, UINT64_C(1) << space->shift, space->limit, bytes, alignment);
    }
    if (at >= half) {
        space->cursor = at + bytes;
    }
    return at;
}

static void insert_reservation(sim_space *space, sim_reservation *reservation)
{
    if (space->n_reservations == space->room) {
        space->room = space->room == 0 ? 64 : 2 * space->room;
        space->reservations = sim_grow(space->reservations,
                                       space->room * sizeof(space->reservations[0]));
    }
    size_t i = first_behind(space, reservation->base);
    memmove(&space->reservations[i + 1], &space->reservations[i],
            (space->n_reservations - i) * sizeof(space->reservations[0]));
    space->reservations[i] = reservation;
    space->n_reservations++;
}

/* Linear allocations are a granule apart, so an access past an allocation's end is noticed. */
static uint64_t distance_bytes(const sim_space *space, bool is_linear)
{
    return is_linear && !space->has_memory ? UINT64_C(1) << space->shift : 0;
}

sim_reservation *sim_space_reserve(sim_space *space, uint64_t bytes, uint64_t alignment,
                                   uint64_t hint, bool is_linear)
{
    uint64_t span = bytes + distance_bytes(space, is_linear);
    uint64_t base = 0;
    if (span <= space->limit - space->all_bytes) {
        base = space->has_memory ? sim_backing_reserve(span, alignment, hint)
                                 : choose_made_up(space, span, alignment, hint);
    }
    if (base == 0) {
        return NULL;
    }
    sim_reservation *reservation = sim_new(sizeof(*reservation));
    *reservation = (sim_reservation){ .base = base, .bytes = span, .is_linear = is_linear };
    insert_reservation(space, reservation);
    sim_block_forget(base, span);
    space->all_bytes += span;
    if (!is_linear) {
        space->n_user++;
        space->user_bytes += span;
    }
    return reservation;
}

void sim_space_release(sim_space *space, sim_reservation *reservation)
{
    size_t i = first_behind(space, reservation->base);
    sim_block_drop(reservation->base, reservation->bytes);
    space->n_reservations--;
    memmove(&space->reservations[i], &space->reservations[i + 1],
            (space->n_reservations - i) * sizeof(space->reservations[0]));
    space->all_bytes -= reservation->bytes;
    if (!reservation->is_linear) {
        space->n_user--;
        space->user_bytes -= reservation->bytes;
    }
    if (space->has_memory) {
        sim_backing_unreserve(reservation->base, reservation->bytes);
    }
    free(reservation);
}

sim_reservation *sim_space_find(const sim_space *space, uint64_t address)
{
    size_t i = first_behind(space, address);
    if (i == space->n_reservations || space->reservations[i]->base > address) {
        return NULL;
    }
    return space->reservations[i];
}

sim_reservation *sim_space_within(const sim_space *space, uint64_t address, uint64_t bytes)
{
    sim_reservation *it = sim_space_find(space, address);
    if (it == NULL || bytes > it->bytes - (address - it->base)) {
        return NULL;
    }
    return it;
}

void sim_space_set(sim_space *space, uint64_t granule, uint64_t entry)
{
    sim_leaf **leaf = &space->leaves[granule >> SIM_LEAF_SHIFT];
    if (*leaf == NULL) {
        *leaf = space->spare != NULL ? space->spare : sim_new(sizeof(**leaf));
        space->spare = NULL;
    }
    uint64_t *place = &(*leaf)->entries[granule & (SIM_LEAF_GRANULES - 1)];
    (*leaf)->n_used += (uint32_t)(entry != 0) - (uint32_t)(*place != 0);
    *place = entry;
    if ((*leaf)->n_used == 0) {
        free(space->spare);
        space->spare = *leaf; /* all zeros again */
        *leaf = NULL;
    }
}

sim_scan sim_space_scan(const sim_space *space, uint64_t begin, uint64_t end)
{
    uint64_t granule = begin >> space->shift;
    uint64_t last = (end - 1) >> space->shift;
    sim_scan scan = { ~UINT64_C(0), 0 };
    while (granule <= last) {
        const sim_leaf *leaf = space->leaves[granule >> SIM_LEAF_SHIFT];
        uint64_t in_leaf = granule & (SIM_LEAF_GRANULES - 1);
        uint64_t n = SIM_LEAF_GRANULES - in_leaf;
        if (n > last - granule + 1) {
            n = last - granule + 1;
        }
        if (leaf == NULL) {
            scan.all = 0;
        }
        for (uint64_t i = 0; leaf != NULL && i < n; i++) {
            uint64_t entry = leaf->entries[in_leaf + i];
            scan.all &= entry;
            scan.any |= entry;
        }
        granule += n;
    }
    return scan;
}
