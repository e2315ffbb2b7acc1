/* device.c - one GPU, with properties, primary context and counters.
 *
 * Everything except the counters and what the lock guards is written before the device is given
 * out. Entering pushes the primary context over the current context and leaving pops it. So the
 * caller's thread is unchanged. */
#include "vmm/device_state.h"
#include "vmm/idle.h"
#include "vmm/keep.h"
#include "vmm/left.h"
#include "vmm/share.h"

#include <string.h>

enum { DEFAULT_GRANULE_BYTES = 2 << 20 };
/* A process on x86 has 128 TiB of addresses. All devices together reserve half, a single device a
 * quarter at most. */
#define MOST_ADDRESS_BUDGET (UINT64_C(32) << 40)
#define ALL_ADDRESS_BUDGET (UINT64_C(64) << 40)
#define MOST_CHUNK_BYTES (UINT64_C(1) << 40)
#define SIMULATED_HOST_BYTES (UINT64_C(1) << 40) /* the most that `host` of the simulator takes */

static _Atomic uint64_t next_serial = 1;

/* ---- context --------------------------------------------------------------------------------- */

static pleat_status enter(pl_device *dev, cu_context context)
{
    return pl_driver_failure(pl_cu_ctx_push(dev->drv, context));
}

pleat_status pl_device_enter(pl_device *dev)
{
    return enter(dev, dev->context);
}

/* A refused pop is tried once more: it would leave a foreign context current in the caller. */
void pl_device_leave(pl_device *dev)
{
    cu_context popped;
    if (pl_cu_ctx_pop(dev->drv, &popped) != CU_SUCCESS &&
        pl_cu_ctx_pop(dev->drv, &popped) != CU_SUCCESS) {
        pl_count_add(&dev->n.n_undo_failures, 1);
    }
}

pleat_status pl_scope_begin(pl_device *dev, pl_scope *scope)
{
    return pl_scope_begin_in(dev, dev->context, scope);
}

pleat_status pl_scope_begin_in(pl_device *dev, cu_context context, pl_scope *scope)
{
    pleat_status st = enter(dev, context);
    if (st != PLEAT_OK) {
        return st;
    }
    int mode = CU_CAPTURE_MODE_RELAXED;
    cu_result result = pl_cu_thread_capture_mode(dev->drv, &mode);
    if (result != CU_SUCCESS) {
        pl_device_leave(dev);
        return pl_driver_failure(result);
    }
    scope->mode = mode;
    return PLEAT_OK;
}

int pl_scope_relax(pl_device *dev)
{
    int mode = CU_CAPTURE_MODE_RELAXED;
    cu_result result = pl_cu_thread_capture_mode(dev->drv, &mode);
    return result == CU_SUCCESS ? mode : CU_CAPTURE_MODE_RELAXED;
}

void pl_scope_restore_mode(pl_device *dev, int mode)
{
    int given = mode;
    if (mode != CU_CAPTURE_MODE_RELAXED &&
        pl_cu_thread_capture_mode(dev->drv, &given) != CU_SUCCESS) {
        given = mode;
        if (pl_cu_thread_capture_mode(dev->drv, &given) != CU_SUCCESS) {
            pl_count_add(&dev->n.n_undo_failures, 1);
        }
    }
}

void pl_scope_end(pl_device *dev, const pl_scope *scope)
{
    pl_scope_restore_mode(dev, scope->mode);
    pl_device_leave(dev);
}

/* ---- open ------------------------------------------------------------------------------------ */

static bool has_attribute(pl_driver *drv, cu_device gpu, int attribute)
{
    int value = 0;
    return pl_cu_device_attribute(drv, &value, attribute, gpu) == CU_SUCCESS && value != 0;
}

static pleat_status find_gpu(pl_driver *drv, int ordinal, cu_device *out)
{
    int count = 0;
    if (pl_cu_device_count(drv, &count) != CU_SUCCESS) {
        return PLEAT_EDRIVER;
    }
    if (ordinal < 0 || ordinal >= count) {
        pl_driver_clear_error();
        pl_driver_set_detail("device %d of %d", ordinal, count);
        return PLEAT_EDEVICE;
    }
    return pl_cu_device_get(drv, out, ordinal) == CU_SUCCESS ? PLEAT_OK : PLEAT_EDRIVER;
}

/* Before release 595, drivers can crash in cuMemCreate on hosts whose nodes have unequal memory
 * (NCCL, issue 2106). A driver tells only its version of CUDA. Driver 590.44 has CUDA 13.1, driver
 * 595.45 has 13.2 (CUDA Toolkit's release notes, table of corresponding driver versions). A program
 * that names a node takes the risk. */
enum { HOST_SINCE = 13020 };

/* Whether the driver can do that, ask_granule learns, and the probe. */
static pleat_status choose_host_prop(pl_device *dev, unsigned node)
{
    int near = 0;
    dev->is_host_unsafe = node == PL_HOST_NODE_NEAR && dev->driver_version < HOST_SINCE;
    if (node == PL_HOST_NODE_NEAR) {
        cu_result result = pl_cu_device_attribute(dev->drv, &near, CU_ATTR_HOST_NUMA_ID, dev->gpu);
        node = result == CU_SUCCESS && near > 0 ? (unsigned)near : 0;
    }
    dev->is_host = true;
    dev->prop.location = (cu_mem_location){ CU_LOCATION_HOST_NUMA, (int)node };
    return PLEAT_OK;
}

/* Fills the properties of every chunk from the options and the device's abilities. */
static pleat_status choose_prop(pl_device *dev, const pl_device_options *options)
{
    dev->prop.type = CU_ALLOCATION_PINNED;
    dev->prop.location = (cu_mem_location){ .type = CU_LOCATION_DEVICE, .id = dev->ordinal };
    if (options->is_host) {
        return choose_host_prop(dev, options->host_node);
    }
    bool is_able = options->handle_posix_fd != PL_DEMAND_NONE &&
                   has_attribute(dev->drv, dev->gpu, CU_ATTR_POSIX_FD_SUPPORTED);
    if (options->handle_posix_fd == PL_DEMAND_FIRM && !is_able) {
        pl_driver_set_detail("device %d cannot export memory as a file descriptor", dev->ordinal);
        return PLEAT_EDEVICE;
    }
    if (is_able) {
        dev->prop.handle_types = CU_HANDLE_POSIX_FD;
        dev->may_lack_fd = options->handle_posix_fd == PL_DEMAND_IF_ABLE;
    }
    is_able = options->handle_rdma != PL_DEMAND_NONE &&
              has_attribute(dev->drv, dev->gpu, CU_ATTR_RDMA_WITH_VMM_SUPPORTED);
    if (options->handle_rdma == PL_DEMAND_FIRM && !is_able) {
        pl_driver_set_detail("device %d has no RDMA capable mapped memory", dev->ordinal);
        return PLEAT_EDEVICE;
    }
    dev->prop.flags.rdma_capable = is_able ? 1 : 0;
    dev->may_lack_rdma = is_able && options->handle_rdma == PL_DEMAND_IF_ABLE;
    return PLEAT_OK;
}

/* Lists the devices that may use the mappings, first this device, then, with `peers`, every device
 * that can reach it. */
static pleat_status choose_access(pl_device *dev, bool has_peers)
{
    int count = 0;
    cu_mem_location own = { .type = CU_LOCATION_DEVICE, .id = dev->ordinal };
    dev->access[0] = (cu_access_desc){ own, CU_ACCESS_READ_WRITE };
    dev->n_access = 1;
    if (!has_peers || !pl_driver_has(dev->drv, PL_CU_device_can_access)) {
        return PLEAT_OK;
    }
    if (pl_cu_device_count(dev->drv, &count) != CU_SUCCESS) {
        return PLEAT_EDRIVER;
    }
    for (int i = 0; i < count && dev->n_access < PL_MOST_ACCESS; i++) {
        cu_device peer = 0;
        int can = 0;
        if (i == dev->ordinal) {
            continue;
        }
        if (pl_cu_device_get(dev->drv, &peer, i) != CU_SUCCESS ||
            pl_cu_device_can_access(dev->drv, &can, peer, dev->gpu) != CU_SUCCESS) {
            return PLEAT_EDRIVER;
        }
        if (can != 0 || dev->is_host) {
            cu_mem_location location = { .type = CU_LOCATION_DEVICE, .id = i };
            dev->access[dev->n_access++] = (cu_access_desc){ location, CU_ACCESS_READ_WRITE };
        }
    }
    return PLEAT_OK;
}

/* Asks the granularity for the exact properties that chunks are created with. If the driver refuses
 * the properties, it has no virtual memory management for them. */
pleat_status pl_device_ask_granule(pl_device *dev)
{
    size_t bytes = 0;
    dev->has_vmm = !dev->is_host_unsafe &&
                   has_attribute(dev->drv, dev->gpu, CU_ATTR_VMM_SUPPORTED) &&
                   pl_driver_has(dev->drv, PL_CU_mem_map) &&
                   pl_cu_mem_granularity(dev->drv, &bytes, &dev->prop, CU_GRANULARITY_MINIMUM) ==
                       CU_SUCCESS &&
                   bytes > 0;
    dev->granule_bytes = dev->has_vmm ? bytes : DEFAULT_GRANULE_BYTES;
    uint64_t chunk_bytes;
    if (__builtin_mul_overflow(dev->granule_bytes, dev->chunk_granules, &chunk_bytes) ||
        chunk_bytes > MOST_CHUNK_BYTES) {
        pl_driver_set_detail("%u granules a chunk are too many", dev->chunk_granules);
        return PLEAT_EINVAL;
    }
    dev->chunk_bytes = chunk_bytes;
    return PLEAT_OK;
}

/* A simulated host may have more than the machine. */
static uint64_t host_bytes_of(const pl_device *dev)
{
    return pl_driver_kind_of(dev->drv) == PL_DRIVER_SIM ? SIMULATED_HOST_BYTES
                                                        : pl_machine_total_bytes();
}

/* The program may use all devices that the driver shows. */
static uint64_t address_budget(const pl_device *dev)
{
    int count = 1;
    bool is_told = pl_cu_device_count(dev->drv, &count) == CU_SUCCESS && count > 0;
    uint64_t share = ALL_ADDRESS_BUDGET / (is_told ? (uint64_t)count : 1);
    return share < MOST_ADDRESS_BUDGET ? share : MOST_ADDRESS_BUDGET;
}

static pleat_status read_properties(pl_device *dev, const pl_device_options *options)
{
    size_t total_bytes = 0;
    if (pl_cu_device_name(dev->drv, dev->name, (int)sizeof(dev->name), dev->gpu) != CU_SUCCESS ||
        pl_cu_device_total_mem(dev->drv, &total_bytes, dev->gpu) != CU_SUCCESS) {
        return PLEAT_EDRIVER;
    }
    dev->name[sizeof(dev->name) - 1] = '\0';
    dev->total_bytes = options->is_host ? host_bytes_of(dev) : total_bytes;
    dev->watch = options->watch;
    dev->trusts_handles = options->stream_identity == PL_STREAM_IS_HANDLE;
    if (pl_cu_driver_version(dev->drv, &dev->driver_version) != CU_SUCCESS) {
        dev->driver_version = 0;
    }
    dev->address_budget_bytes = options->address_budget_bytes != 0 ? options->address_budget_bytes
                                                                   : address_budget(dev);
    pleat_status st = choose_prop(dev, options);
    st = st == PLEAT_OK ? choose_access(dev, options->peers) : st;
    if (st != PLEAT_OK) {
        return st;
    }
    dev->access[dev->n_access] = (cu_access_desc){ dev->prop.location, CU_ACCESS_READ_WRITE };
    dev->chunk_granules = options->chunk_granules != 0 ? options->chunk_granules : 1;
    return pl_device_ask_granule(dev);
}

static pleat_status new_device(pl_device **out)
{
    pl_meta meta;
    pleat_status st = pl_meta_init(&meta);
    if (st != PLEAT_OK) {
        return st;
    }
    pl_device *dev = pl_meta_calloc(&meta, 1, sizeof(*dev));
    if (dev == NULL) {
        pl_meta_fini(&meta);
        return PLEAT_ENOMEM_HOST;
    }
    pl_lock_init(&dev->lock, PL_RANK_VMM);
    dev->meta = meta;
    dev->serial = atomic_fetch_add(&next_serial, 1);
    *out = dev;
    return PLEAT_OK;
}

static void delete_device(pl_device *dev)
{
    pl_lock_fini(&dev->lock);
    pl_meta meta = dev->meta;
    pl_meta_free(&meta, dev);
    size_t leaked_bytes = pl_meta_fini(&meta);
    pl_assert(leaked_bytes == 0);
    (void)leaked_bytes;
}

pleat_status pl_device_open(pl_driver *drv, int ordinal, const pl_device_options *options,
                            pl_device **out)
{
    const pl_device_options defaults = { .chunk_granules = 0 };
    cu_device gpu = 0;
    pleat_status st = find_gpu(drv, ordinal, &gpu);
    if (st != PLEAT_OK) {
        return st;
    }
    pl_device *dev = NULL;
    st = new_device(&dev);
    if (st != PLEAT_OK) {
        return st;
    }
    dev->drv = drv;
    dev->gpu = gpu;
    dev->ordinal = ordinal;
    st = read_properties(dev, options != NULL ? options : &defaults);
    if (st != PLEAT_OK) {
        goto undo_new;
    }
    st = pl_contexts_init(dev);
    if (st != PLEAT_OK) {
        goto undo_new;
    }
    st = pl_streams_init(dev);
    if (st != PLEAT_OK) {
        goto undo_contexts;
    }
    *out = dev;
    return PLEAT_OK;

undo_contexts:
    if (pl_contexts_fini(dev) > 0) {
        pl_driver_note_lost(drv);
    }
undo_new:
    delete_device(dev);
    return st;
}

size_t pl_device_close(pl_device *dev)
{
    if (dev == NULL) {
        return 0;
    }
    pl_idle_end(dev);
    size_t n_held = pl_keeps_fini(dev) + pl_fences_fini(dev);
    n_held += pl_left_fini(dev);
    pl_streams_fini(dev);
    n_held += dev->mallocs.n_pieces;
    pl_meta_free(&dev->meta, dev->mallocs.pieces);
    pl_shares_fini(dev);
    n_held += pl_count_get(&dev->n.n_chunks) + pl_count_get(&dev->n.n_ranges);
    n_held += pl_count_get(&dev->n.n_pools) + pl_count_get(&dev->n.n_lost);
    n_held += pl_contexts_fini(dev);
    delete_device(dev);
    return n_held;
}

/* ---- what it is ------------------------------------------------------------------------------ */

pl_driver *pl_device_driver(const pl_device *dev)
{
    return dev->drv;
}

int pl_device_ordinal(const pl_device *dev)
{
    return dev->ordinal;
}

bool pl_device_is_host(const pl_device *dev)
{
    return dev->is_host;
}

bool pl_device_is_exportable(const pl_device *dev)
{
    return (dev->prop.handle_types & CU_HANDLE_POSIX_FD) != 0;
}

bool pl_device_is_rdma(const pl_device *dev)
{
    return dev->prop.flags.rdma_capable != 0;
}

const char *pl_device_name(const pl_device *dev)
{
    return dev->name;
}

bool pl_device_has_vmm(const pl_device *dev)
{
    return dev->has_vmm;
}

size_t pl_device_granule_bytes(const pl_device *dev)
{
    return dev->granule_bytes;
}

size_t pl_device_chunk_bytes(const pl_device *dev)
{
    return dev->chunk_bytes;
}

uint64_t pl_device_total_bytes(const pl_device *dev)
{
    return dev->total_bytes;
}

pleat_status pl_device_gpu_bytes(pl_device *dev, uint64_t *free_bytes, uint64_t *total_bytes)
{
    pl_scope scope;
    pleat_status st = pl_scope_begin(dev, &scope);
    if (st != PLEAT_OK) {
        return st;
    }
    size_t n_free = 0;
    size_t n_total = 0;
    cu_result result = pl_cu_mem_get_info(dev->drv, &n_free, &n_total);
    pl_scope_end(dev, &scope);
    if (result != CU_SUCCESS) {
        return pl_driver_failure(result);
    }
    *free_bytes = n_free;
    *total_bytes = n_total;
    return PLEAT_OK;
}

pleat_status pl_device_free_bytes(pl_device *dev, uint64_t *out)
{
    uint64_t total_bytes;
    if (dev->is_host) {
        *out = pl_machine_free_bytes();
        return PLEAT_OK;
    }
    return pl_device_gpu_bytes(dev, out, &total_bytes);
}

void pl_device_undo(pl_device *dev, pleat_status status)
{
    if (status != PLEAT_OK) {
        pl_count_add(&dev->n.n_undo_failures, 1);
    }
}

pl_device_counts pl_device_counted(const pl_device *dev)
{
    const pl_device_atomics *n = &dev->n;
    pl_device_counts counts = {
        .chunk_bytes = pl_count_get(&n->chunk_bytes),
        .malloc_bytes = pl_count_get(&n->malloc_bytes),
        .pool_bytes = pl_count_get(&n->pool_bytes),
    };
#define READ(name) counts.name = pl_count_get(&n->name);
    PL_DEVICE_COUNT_LIST(READ)
#undef READ
    return counts;
}

uint64_t pl_device_resident_bytes(const pl_device *dev)
{
    const pl_device_atomics *n = &dev->n;
    return pl_count_get(&n->chunk_bytes) + pl_count_get(&n->malloc_bytes) +
           pl_count_get(&n->pool_bytes);
}
