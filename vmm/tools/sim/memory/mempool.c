/* mempool.c - the life of pools, with attributes and segments.
 *
 * Upholds N4 and N6 (mempool.h). A destroyed pool lives on without a handle until its last block is
 * free. Its place in sim.mempools is not reused. */
#include "vmm/tools/sim/memory/mempool.h"

#include <stdlib.h>
#include <string.h>

#include "vmm/tools/sim/cost.h"

/* Handles look like pointers but are none. */
#define HANDLE_BASE UINT64_C(0x540000000000)
enum { HANDLE_STEP = 64, ATTRIBUTE_LAST_OLD = CU_POOL_RELEASE_THRESHOLD };

static sim_mempool *pool_at(uint32_t index)
{
    return sim_pool_at(&sim.mempools, index);
}

static bool is_old_driver(void)
{
    return sim.conf.profile == SIM_PROFILE_OLD_DRIVER;
}

/* ---- segments -------------------------------------------------------------------------------- */

/* Charges a call that a driver would make, to grow a pool or to give a segment back. */
static void charge(sim_entry entry, int device, uint64_t bytes)
{
    sim.cost_us += sim_costs[entry].call;
    sim_cost_charge(entry, sim.devices[device].n_handles, 1, bytes);
}

static void charge_growth(int device, uint64_t bytes)
{
    charge(SIM_CU_mem_create, device, bytes);
    charge(SIM_CU_mem_map, device, bytes);
    charge(SIM_CU_mem_set_access, device, bytes);
}

static void charge_release(int device, uint64_t bytes)
{
    charge(SIM_CU_mem_unmap, device, bytes);
    charge(SIM_CU_mem_release, device, bytes);
}

/* Makes addresses and memory for a segment; NULL on failure. */
static sim_mapping *map_segment(sim_mempool_segment *segment, const sim_mempool *pool,
                                uint64_t bytes)
{
    sim_handle *handle = sim_mapping_has_room() ? sim_handle_take(pool->device, bytes, true) : NULL;
    if (handle == NULL) {
        return NULL;
    }
    handle->segment = segment;
    handle->refs = 0; /* the mapping holds it */
    sim_reservation *reservation = sim_space_reserve(&sim.space, bytes, sim.conf.granule_bytes, 0,
                                                     true);
    if (reservation == NULL) {
        goto undo_take;
    }
    sim_mapping *mapping = sim_mapping_add(reservation, reservation->base, handle);
    if (mapping == NULL) {
        goto undo_reserve;
    }
    sim_mapping_grant(mapping, pool->rights);
    return mapping;

undo_reserve:
    sim_space_release(&sim.space, reservation);
undo_take:
    sim_handle_settle(handle);
    return NULL;
}

static void link_segment(sim_mempool *pool, sim_mempool_segment *segment)
{
    segment->older = pool->newest;
    if (segment->older != NULL) {
        segment->older->newer = segment;
    }
    pool->newest = segment;
    pool->reserved_bytes += segment->bytes;
    if (pool->reserved_high < pool->reserved_bytes) {
        pool->reserved_high = pool->reserved_bytes;
    }
}

/* Adds a segment of exactly `bytes`, whole granules. */
static sim_piece *add_segment(sim_mempool *pool, uint64_t bytes)
{
    const sim_device *device = &sim.devices[pool->device];
    uint64_t most_bytes = pool->most_bytes != 0 ? pool->most_bytes : UINT64_MAX;
    if (bytes > most_bytes || pool->reserved_bytes > most_bytes - bytes ||
        bytes > sim.conf.capacity_bytes - device->physical_bytes) {
        return NULL;
    }
    uint64_t n_pages = ((bytes - 1) >> SIM_MEMPOOL_PAGE_SHIFT) + 1;
    sim_mempool_segment *segment = sim_new(sizeof(*segment) + n_pages * sizeof(segment->heads[0]));
    segment->mapping = map_segment(segment, pool, bytes);
    if (segment->mapping == NULL) {
        free(segment);
        return NULL;
    }
    segment->pool = pool;
    segment->base = segment->mapping->ptr;
    segment->bytes = bytes;
    link_segment(pool, segment);
    charge_growth(pool->device, bytes);
    sim_piece *piece = sim_piece_make_first(segment);
    sim_piece_file(pool, piece);
    return piece;
}

static uint64_t round_up(uint64_t bytes, uint64_t step)
{
    return (bytes + step - 1) & ~(step - 1);
}

sim_piece *sim_mempool_grow(sim_mempool *pool, uint64_t bytes)
{
    uint64_t granule_bytes = sim.conf.granule_bytes;
    uint64_t unit = granule_bytes > SIM_MEMPOOL_UNIT ? granule_bytes : SIM_MEMPOOL_UNIT;
    sim_piece *piece = add_segment(pool, round_up(bytes, unit));
    return piece != NULL ? piece : add_segment(pool, round_up(bytes, granule_bytes));
}

/* The segment's pieces have left the index and the list. */
static void release_segment(sim_mempool *pool, sim_mempool_segment *segment)
{
    sim_reservation *reservation = segment->mapping->reservation;
    charge_release(pool->device, segment->bytes);
    sim_mapping_remove(segment->mapping);
    sim_space_release(&sim.space, reservation);
    pool->reserved_bytes -= segment->bytes;
    if (segment->older != NULL) {
        segment->older->newer = segment->newer;
    }
    if (segment->newer != NULL) {
        segment->newer->older = segment->older;
    } else {
        pool->newest = segment->older;
    }
    free(segment);
}

void sim_mempool_trim(sim_mempool *pool, uint64_t keep_bytes)
{
    for (sim_mempool_segment *it = pool->newest; it != NULL && pool->reserved_bytes > keep_bytes;) {
        sim_mempool_segment *older = it->older;
        bool is_free = it->first->state == SIM_PIECE_SETTLED && it->first->bytes == it->bytes;
        if (is_free && pool->reserved_bytes - keep_bytes >= it->bytes) {
            sim_piece_unfile(pool, it->first);
            sim_piece_delete(it->first);
            release_segment(pool, it);
        }
        it = older;
    }
}

void sim_mempool_synchronized(void)
{
    for (uint32_t i = 0; i < sim.mempools.n_seen; i++) {
        sim_mempool *pool = pool_at(i);
        sim_piece_settle_passed(pool);
        sim_mempool_trim(pool, pool->threshold_bytes);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static sim_mempool *make_pool(int device)
{
    uint32_t index;
    sim_mempool *pool = sim_pool_take(&sim.mempools, &index);
    pool->index = index;
    pool->device = device;
    pool->rights = SIM_GRANULE_READ(device) | SIM_GRANULE_WRITE(device);
    pool->follows_events = true;
    pool->is_opportunistic = true;
    pool->inserts_dependencies = true;
    return pool;
}

static cu_result check_props(const cu_mempool_props *props)
{
    static const unsigned char zeros[sizeof(props->reserved)];
    if (props == NULL || props->type != CU_ALLOCATION_PINNED ||
        props->location.type != CU_LOCATION_DEVICE || props->win32_attributes != NULL ||
        (props->usage & ~CU_POOL_USAGE_HW_DECOMPRESS) != 0 ||
        memcmp(props->reserved, zeros, sizeof(zeros)) != 0 ||
        (props->max_bytes != 0 && is_old_driver()) ||
        (props->handle_types & ~CU_HANDLE_POSIX_FD) != 0) {
        return CU_INVALID_VALUE;
    }
    if (sim_device_at(props->location.id) == NULL) {
        return CU_INVALID_DEVICE;
    }
    return props->handle_types != 0 && is_old_driver() ? CU_NOT_SUPPORTED : CU_SUCCESS;
}

cu_result sim_mempool_create(const cu_mempool_props *props, cu_mempool *out)
{
    cu_result result = check_props(props);
    if (result != CU_SUCCESS || out == NULL) {
        return out == NULL ? CU_INVALID_VALUE : result;
    }
    sim_mempool *pool = make_pool(props->location.id);
    pool->most_bytes = props->max_bytes;
    *out = sim_mempool_handle(pool);
    return CU_SUCCESS;
}

/* The pool's own device always has access. */
cu_result sim_mempool_set_access(sim_mempool *pool, const cu_access_desc *desc, size_t n)
{
    uint64_t mask;
    uint64_t rights;
    uint64_t own = SIM_GRANULE_READ(pool->device) | SIM_GRANULE_WRITE(pool->device);
    if (desc == NULL || n == 0) {
        return CU_INVALID_VALUE;
    }
    cu_result result = sim_mapping_read_access(desc, n, &mask, &rights);
    if (result != CU_SUCCESS) {
        return result;
    }
    if ((mask & own) != 0 && (rights & own) != own) {
        return CU_INVALID_VALUE;
    }
    if (!sim_mapping_is_reachable(rights, pool->device)) {
        return CU_INVALID_DEVICE;
    }
    pool->rights = (pool->rights & ~mask) | rights;
    for (sim_mempool_segment *it = pool->newest; it != NULL; it = it->older) {
        sim_mapping_grant(it->mapping, pool->rights);
    }
    return CU_SUCCESS;
}

cu_mempool sim_mempool_handle(const sim_mempool *pool)
{
    return (cu_mempool)(uintptr_t)(HANDLE_BASE + (uint64_t)pool->index * HANDLE_STEP);
}

sim_mempool *sim_mempool_find(cu_mempool handle)
{
    uint64_t value = (uint64_t)(uintptr_t)handle - HANDLE_BASE;
    if (value % HANDLE_STEP != 0 || value / HANDLE_STEP >= sim.mempools.n_seen) {
        return NULL;
    }
    sim_mempool *pool = pool_at((uint32_t)(value / HANDLE_STEP));
    return pool->is_destroyed ? NULL : pool;
}

sim_mempool *sim_mempool_default(int device)
{
    for (uint32_t i = 0; i < sim.mempools.n_seen; i++) {
        sim_mempool *pool = pool_at(i);
        if (pool->is_default && pool->device == device) {
            return pool;
        }
    }
    sim_mempool *pool = make_pool(device);
    pool->is_default = true;
    return pool;
}

/* Nothing is outstanding: the point of every pending piece has passed. */
static void give_all_back(sim_mempool *pool)
{
    sim_piece_settle_passed(pool);
    sim_mempool_trim(pool, 0);
}

cu_result sim_mempool_destroy(sim_mempool *pool)
{
    if (pool->is_default) {
        return CU_INVALID_VALUE;
    }
    pool->is_destroyed = true;
    pool->threshold_bytes = 0;
    if (pool->n_outstanding == 0) {
        give_all_back(pool);
    }
    return CU_SUCCESS;
}

void sim_mempool_retire(uint32_t index)
{
    sim_mempool *pool = pool_at(index);
    pool->n_outstanding--;
    sim.devices[pool->device].n_allocations--;
    if (pool->is_destroyed && pool->n_outstanding == 0) {
        give_all_back(pool);
    }
}

uint64_t sim_mempool_count(int device, uint64_t *reserved_bytes)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < sim.mempools.n_seen; i++) {
        const sim_mempool *pool = pool_at(i);
        if (device < 0 || pool->device == device) {
            n += !pool->is_default && !pool->is_destroyed;
            *reserved_bytes += pool->reserved_bytes;
        }
    }
    return n;
}

/* Mappings and handles go with their own slabs (sim_pool). */
void sim_mempool_fini(void)
{
    for (uint32_t i = 0; i < sim.mempools.n_seen; i++) {
        for (sim_mempool_segment *segment = pool_at(i)->newest; segment != NULL;) {
            sim_mempool_segment *older = segment->older;
            for (sim_piece *piece = segment->first; piece != NULL;) {
                sim_piece *next = piece->next;
                sim_piece_delete(piece);
                piece = next;
            }
            free(segment);
            segment = older;
        }
    }
    sim_pool_fini(&sim.mempools);
}

/* ---- attributes ------------------------------------------------------------------------------ */

static bool *flag_of(sim_mempool *pool, int attribute)
{
    return attribute == CU_POOL_FOLLOW_EVENTS           ? &pool->follows_events
           : attribute == CU_POOL_OPPORTUNISTIC         ? &pool->is_opportunistic
           : attribute == CU_POOL_INTERNAL_DEPENDENCIES ? &pool->inserts_dependencies
                                                        : NULL;
}

static uint64_t *bytes_of(sim_mempool *pool, int attribute)
{
    if (is_old_driver() && attribute > ATTRIBUTE_LAST_OLD) {
        return NULL;
    }
    return attribute == CU_POOL_RELEASE_THRESHOLD  ? &pool->threshold_bytes
           : attribute == CU_POOL_RESERVED_CURRENT ? &pool->reserved_bytes
           : attribute == CU_POOL_RESERVED_HIGH    ? &pool->reserved_high
           : attribute == CU_POOL_USED_CURRENT     ? &pool->used_bytes
           : attribute == CU_POOL_USED_HIGH        ? &pool->used_high
                                                   : NULL;
}

cu_result sim_mempool_set(sim_mempool *pool, int attribute, const void *value)
{
    bool *flag = flag_of(pool, attribute);
    uint64_t *bytes = bytes_of(pool, attribute);
    int number = 0;
    uint64_t wide = 0;
    if (value == NULL || (flag == NULL && bytes == NULL) || attribute == CU_POOL_RESERVED_CURRENT ||
        attribute == CU_POOL_USED_CURRENT) {
        return CU_INVALID_VALUE;
    }
    if (flag != NULL) {
        memcpy(&number, value, sizeof(number));
        *flag = number != 0;
        return CU_SUCCESS;
    }
    memcpy(&wide, value, sizeof(wide));
    if (attribute == CU_POOL_RELEASE_THRESHOLD) {
        pool->threshold_bytes = wide;
    } else if (wide != 0) {
        return CU_INVALID_VALUE; /* a high mark can only be reset */
    } else {
        *bytes = attribute == CU_POOL_USED_HIGH ? pool->used_bytes : pool->reserved_bytes;
    }
    return CU_SUCCESS;
}

cu_result sim_mempool_get(sim_mempool *pool, int attribute, void *value)
{
    const bool *flag = flag_of(pool, attribute);
    const uint64_t *bytes = bytes_of(pool, attribute);
    if (value == NULL || (flag == NULL && bytes == NULL)) {
        return CU_INVALID_VALUE;
    }
    if (flag != NULL) {
        int number = *flag;
        memcpy(value, &number, sizeof(number));
    } else {
        memcpy(value, bytes, sizeof(*bytes));
    }
    return CU_SUCCESS;
}
