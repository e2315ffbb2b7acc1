/* memory.h - physical memory (handles, linear allocations, pools' segments) and its mappings.
 *
 * M1  device->physical_bytes == sum of the bytes of its live handles, linear allocations and pools'
 *     segments, and of its context <= capacity; foreign ones are charged to the process that
 *     created them, and here device->imported_bytes is their sum
 * M2  a handle is live while it has references or mappings
 * M3  every granule of a mapping, and no other, holds its index in sim.space
 * M4  aliased is set on all granules of a handle's mappings if and only if it has two or more
 * M5  unfinished work on a mapping of such a handle was submitted by its last_call or before */
#ifndef PLEAT_SIM_MEMORY_H
#define PLEAT_SIM_MEMORY_H

#include "vmm/tools/sim/state.h"

typedef struct sim_mapping sim_mapping;
typedef struct sim_mempool_segment sim_mempool_segment;

typedef struct sim_handle {
    uint32_t index;
    uint32_t generation; /* counts uses of the index, to recognise stale values */
    bool is_live;
    bool is_linear;               /* made for cuMemAlloc or a pool */
    bool is_host;                 /* pinned memory of the host: `device` only keeps the books */
    bool is_managed;              /* of the host, from cuMemAllocManaged */
    bool is_foreign;              /* imported, with no live creator in this process */
    sim_mempool_segment *segment; /* a pool's, else NULL */
    int device;
    const sim_context *context; /* frees the memory when ending: cuMemAlloc's; NULL = none */
    uint64_t bytes;             /* as charged */
    uint64_t refs;
    uint32_t n_mappings;
    sim_mapping *mappings; /* list through next_alias */
    cu_mem_prop prop;
    uint64_t offset;       /* backing:memory, without a token */
    int token_fd;          /* token.h; -1: none */
    uint64_t token_device; /* of the token's file, to identify the token */
    uint64_t token_inode;
    uint64_t n_opens; /* cuIpcOpenMemHandle without cuIpcCloseMemHandle: sim_ipc.h */
} sim_handle;

struct sim_mapping {
    uint32_t index;
    bool is_live;
    uint64_t ptr;
    uint64_t bytes;
    uint64_t rights; /* SIM_GRANULE_READ and _WRITE bits */
    sim_handle *handle;
    sim_reservation *reservation;
    sim_mapping *next_alias;
    uint64_t last_call; /* number of the last call that used the mapping while aliased: M5 */
};

/* handle.c */
cu_result sim_handle_create(cu_mem_handle *value, size_t bytes, const cu_mem_prop *prop);
cu_result sim_handle_release(cu_mem_handle value);
cu_result sim_handle_export(int *fd, cu_mem_handle value, int handle_type);
cu_result sim_handle_import(cu_mem_handle *value, int fd, int handle_type);
/* The live handle with references behind `value`, or NULL. */
sim_handle *sim_handle_find(cu_mem_handle value);
cu_mem_handle sim_handle_value(const sim_handle *handle);
cu_result sim_handle_check_prop(const cu_mem_prop *prop);
/* Takes physical bytes on a device; NULL if the capacity does not suffice. */
sim_handle *sim_handle_take(int device, uint64_t bytes, bool is_linear);
/* The same on the host. */
sim_handle *sim_handle_take_host(uint64_t bytes, bool is_linear);
/* The same for memory of another process. The caller sets the token and properties. */
sim_handle *sim_handle_take_foreign(int device, uint64_t bytes, bool is_linear);
/* Gives the memory back once no references and no mappings are left. */
void sim_handle_settle(sim_handle *handle);

/* sim_mapping.c */
cu_result sim_mapping_map(uint64_t ptr, uint64_t bytes, sim_handle *handle);
cu_result sim_mapping_unmap(uint64_t ptr, uint64_t bytes);
void sim_mapping_unmap_half(uint64_t ptr, uint64_t bytes);
cu_result sim_mapping_set_access(uint64_t ptr, uint64_t bytes, const cu_access_desc *desc,
                                 size_t n);
/* Reads access descriptors into a mask of decided rights and their new values. */
cu_result sim_mapping_read_access(const cu_access_desc *desc, size_t n, uint64_t *mask,
                                  uint64_t *rights);
/* Can every device with a right reach the memory of `device`? */
bool sim_mapping_is_reachable(uint64_t rights, int device);
sim_mapping *sim_mapping_at(uint64_t address);
/* Maps into a part of a reservation known to be free; NULL: the host refuses. */
sim_mapping *sim_mapping_add(sim_reservation *reservation, uint64_t ptr, sim_handle *handle);
void sim_mapping_remove(sim_mapping *mapping);
/* Map the handle's memory again at all its places, after a move to its token or back. False if the
 * host refuses a place. */
bool sim_mapping_back(const sim_handle *handle);
void sim_mapping_grant(sim_mapping *mapping, uint64_t rights);
/* Checks memory mode's limit on mappings, which gives a clearer error than the host would. */
bool sim_mapping_has_room(void);
int sim_mapping_access(const sim_mapping *mapping, int device); /* CU_ACCESS_* */

/* linear.c: cuMemAlloc, and cuMemHostAlloc with backing:memory, for all devices */
cu_result sim_linear_alloc(const sim_context *context, size_t bytes, cu_devptr *ptr);
cu_result sim_linear_alloc_host(const sim_context *context, size_t bytes, cu_devptr *ptr);
/* This process's linear allocation from `ptr` on, or NULL. */
sim_mapping *sim_linear_find(uint64_t ptr);
void sim_linear_free(sim_mapping *mapping);

/* entry_host.c: memory of the host that devices use, too. */
typedef enum sim_host_kind {
    SIM_HOST_NONE,
    SIM_HOST_PINNED,
    SIM_HOST_REGISTERED,
    SIM_HOST_MANAGED,
} sim_host_kind;

/* Real memory of the process, without a mapping, as a whole? */
bool sim_host_has(uint64_t ptr, uint64_t bytes);
/* What lies at the address, mapped or not; its device unless NONE. */
sim_host_kind sim_host_find(uint64_t ptr, int *device);
cu_result sim_host_free(uint64_t ptr, sim_host_kind kind);

static inline bool sim_is_granular(uint64_t value)
{
    return (value & (sim.conf.granule_bytes - 1)) == 0;
}

#endif
