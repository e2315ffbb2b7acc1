/* entry_host.c - exported calls: memory of the host that devices use, too: pinned, registered and
 * managed.
 *
 * With backing:memory pinned and managed memory lies among the simulator's addresses, so work on it
 * is checked as usual. With backing:none the simulator's addresses are made up. The memory is then
 * real memory of the process, a piece, so that the program can use it. What the program registers
 * is a piece, too. Work on pieces is not checked, and commands on them move real bytes (submit.c).
 * Pinned and managed memory is charged to the host, not to a device's capacity; managed memory
 * never moves. */
#include <stdlib.h>
#include <sys/mman.h>

#include "vmm/tools/sim/entries/call.h"
#include "vmm/tools/sim/memory/memory.h"
#include "vmm/tools/sim/work/hazard.h"
#include "vmm/tools/sim/work/sim_context.h"

typedef struct host_piece {
    struct host_piece *next;
    uint64_t ptr;
    uint64_t bytes;
    sim_host_kind kind;
    int device;
    uint64_t epoch; /* a reset forgets earlier allocations */
} host_piece;

static host_piece *pieces; /* the simulator's lock */

/* The device is the current context's. */
static cu_result add_piece(uint64_t ptr, uint64_t bytes, sim_host_kind kind)
{
    sim_context *context = NULL;
    cu_result result = sim_context_current(&context);
    if (result != CU_SUCCESS) {
        return result;
    }
    host_piece *piece = malloc(sizeof *piece);
    if (piece == NULL) {
        return CU_OUT_OF_MEMORY;
    }
    *piece = (host_piece){ pieces, ptr, bytes, kind, context->device, sim.epoch };
    pieces = piece;
    sim.devices[context->device].n_allocations++;
    return CU_SUCCESS;
}

/* Takes the piece of that kind that begins at ptr out of the list, or returns NULL. */
static host_piece *take_piece(uint64_t ptr, sim_host_kind kind)
{
    host_piece **at = &pieces;
    while (*at != NULL && ((*at)->ptr != ptr || (*at)->kind != kind || (*at)->epoch != sim.epoch)) {
        at = &(*at)->next;
    }
    host_piece *piece = *at;
    if (piece != NULL) {
        *at = piece->next;
        sim.devices[piece->device].n_allocations--;
    }
    return piece;
}

/* The memory of programs that went on over a reset stays theirs. */
static cu_result alloc_plain(size_t bytes, sim_host_kind kind, cu_devptr *out)
{
    if (bytes > sim.conf.host_bytes - sim.host_bytes) {
        return CU_OUT_OF_MEMORY;
    }
    void *ptr = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (ptr == MAP_FAILED) {
        return CU_OUT_OF_MEMORY;
    }
    cu_result result = add_piece(sim_arg(ptr), bytes, kind);
    if (result != CU_SUCCESS) {
        (void)munmap(ptr, bytes);
        return result;
    }
    sim.host_bytes += bytes;
    *out = sim_arg(ptr);
    return CU_SUCCESS;
}

static cu_result free_plain(uint64_t ptr, sim_host_kind kind)
{
    host_piece *piece = take_piece(ptr, kind);
    if (piece == NULL) {
        return CU_INVALID_VALUE;
    }
    sim.host_bytes -= piece->bytes;
    (void)munmap((void *)(uintptr_t)ptr, piece->bytes);
    free(piece);
    return CU_SUCCESS;
}

static const host_piece *find_piece(uint64_t ptr, uint64_t bytes)
{
    const host_piece *piece = pieces;
    while (piece != NULL &&
           (piece->epoch != sim.epoch || ptr < piece->ptr || ptr - piece->ptr >= piece->bytes ||
            bytes > piece->bytes - (ptr - piece->ptr))) {
        piece = piece->next;
    }
    return piece;
}

bool sim_host_has(uint64_t ptr, uint64_t bytes)
{
    return pieces != NULL && find_piece(ptr, bytes) != NULL;
}

sim_host_kind sim_host_find(uint64_t ptr, int *device)
{
    const sim_mapping *mapping = sim_mapping_at(ptr);
    const host_piece *piece = mapping == NULL ? find_piece(ptr, 1) : NULL;
    if (piece != NULL) {
        *device = piece->device;
        return piece->kind;
    }
    if (mapping == NULL || !mapping->handle->is_host) {
        return SIM_HOST_NONE;
    }
    *device = mapping->handle->device;
    return mapping->handle->is_managed ? SIM_HOST_MANAGED : SIM_HOST_PINNED;
}

/* Memory of a kind, mapped or plain. */
static cu_result alloc_kind(size_t bytes, sim_host_kind kind, cu_devptr *out)
{
    sim_context *context = NULL;
    if (!sim.conf.has_memory) {
        return alloc_plain(bytes, kind, out);
    }
    cu_result result = sim_context_current(&context);
    if (result == CU_SUCCESS) {
        result = sim_linear_alloc_host(context, bytes, out);
    }
    if (result == CU_SUCCESS) {
        sim_mapping_at(*out)->handle->is_managed = kind == SIM_HOST_MANAGED;
    }
    return result;
}

static cu_result alloc_host(void **out, size_t bytes, unsigned flags)
{
    const unsigned known = CU_HOST_PORTABLE | CU_HOST_MAPPED | CU_HOST_WRITE_COMBINED;
    cu_devptr ptr = 0;
    if (out == NULL || bytes == 0 || (flags & ~known) != 0) {
        return CU_INVALID_VALUE;
    }
    cu_result result = alloc_kind(bytes, SIM_HOST_PINNED, &ptr);
    if (result == CU_SUCCESS) {
        *out = (void *)(uintptr_t)ptr;
    }
    return result;
}

static cu_result alloc_call(sim_entry entry, void **out, size_t bytes, unsigned flags)
{
    sim_call call;
    sim_call_begin(&call, entry, 0, bytes, flags, 0);
    if (call.result == CU_SUCCESS) {
        call.result = alloc_host(out, bytes, flags);
    }
    if (call.result == CU_SUCCESS) {
        call.args[0] = sim_arg(*out);
    }
    return sim_call_end(&call);
}

cu_result cuMemHostAlloc(void **out, size_t bytes, unsigned flags)
{
    return alloc_call(SIM_CU_host_alloc, out, bytes, flags);
}

cu_result cuMemAllocHost_v2(void **out, size_t bytes)
{
    return alloc_call(SIM_CU_mem_alloc_host, out, bytes, 0);
}

cu_result sim_host_free(uint64_t ptr, sim_host_kind kind)
{
    int device;
    if (!sim.conf.has_memory) {
        return free_plain(ptr, kind);
    }
    sim_mapping *mapping = sim_linear_find(ptr);
    if (mapping == NULL || sim_host_find(ptr, &device) != kind) {
        return CU_INVALID_VALUE;
    }
    sim_hazard_check_unmap(mapping->ptr, mapping->bytes,
                           kind == SIM_HOST_MANAGED ? "cuMemFree" : "cuMemFreeHost");
    sim_linear_free(mapping);
    return CU_SUCCESS;
}

cu_result cuMemFreeHost(void *ptr)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_host_free, sim_arg(ptr), 0, 0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = sim_host_free(sim_arg(ptr), SIM_HOST_PINNED);
    }
    return sim_call_end(&call);
}

/* ---- managed --------------------------------------------------------------------------------- */

cu_result cuMemAllocManaged(cu_devptr *ptr, size_t bytes, unsigned flags)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_mem_alloc_managed, 0, bytes, flags, 0);
    bool is_good = ptr != NULL && bytes > 0 &&
                   (flags == CU_ATTACH_GLOBAL || flags == CU_ATTACH_HOST);
    if (call.result == CU_SUCCESS) {
        call.result = is_good ? alloc_kind(bytes, SIM_HOST_MANAGED, ptr) : CU_INVALID_VALUE;
    }
    if (call.result == CU_SUCCESS) {
        call.args[0] = *ptr;
    }
    return sim_call_end(&call);
}

/* ---- registered ------------------------------------------------------------------------------ */

static bool overlaps_piece(uint64_t ptr, uint64_t bytes)
{
    const host_piece *piece = pieces;
    while (piece != NULL && (piece->epoch != sim.epoch || ptr >= piece->ptr + piece->bytes ||
                             piece->ptr >= ptr + bytes)) {
        piece = piece->next;
    }
    return piece != NULL;
}

static cu_result register_host(uint64_t ptr, uint64_t bytes, unsigned flags)
{
    if (ptr == 0 || bytes == 0 || bytes > UINT64_MAX - ptr ||
        (flags & ~(unsigned)CU_HOST_REGISTER_FLAGS) != 0) {
        return CU_INVALID_VALUE;
    }
    if (overlaps_piece(ptr, bytes) || sim_mapping_at(ptr) != NULL) {
        return CU_HOST_ALREADY_REGISTERED;
    }
    return add_piece(ptr, bytes, SIM_HOST_REGISTERED);
}

cu_result cuMemHostRegister_v2(void *ptr, size_t bytes, unsigned flags)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_host_register, sim_arg(ptr), bytes, flags, 0);
    if (call.result == CU_SUCCESS) {
        call.result = register_host(sim_arg(ptr), bytes, flags);
    }
    return sim_call_end(&call);
}

cu_result cuMemHostUnregister(void *ptr)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_host_unregister, sim_arg(ptr), 0, 0, 0);
    if (call.result == CU_SUCCESS) {
        host_piece *piece = take_piece(sim_arg(ptr), SIM_HOST_REGISTERED);
        call.result = piece == NULL ? CU_HOST_NOT_REGISTERED : CU_SUCCESS;
        free(piece);
    }
    return sim_call_end(&call);
}

/* Host memory has the same address on all devices. */
cu_result cuMemHostGetDevicePointer_v2(cu_devptr *ptr, void *host, unsigned flags)
{
    sim_call call;
    int device;
    sim_call_begin(&call, SIM_CU_host_pointer, 0, sim_arg(host), flags, 0);
    if (call.result == CU_SUCCESS &&
        (ptr == NULL || flags != 0 || sim_host_find(sim_arg(host), &device) == SIM_HOST_NONE)) {
        call.result = CU_INVALID_VALUE;
    } else if (call.result == CU_SUCCESS) {
        *ptr = sim_arg(host);
        call.args[0] = *ptr;
    }
    return sim_call_end(&call);
}
