/* entry_host.c - exported calls: pinned host memory.
 *
 * With backing:memory the host memory lies among the simulator's addresses, so work on it is
 * checked as usual. With backing:none the simulator's addresses are made up. Host memory is then
 * real memory of the process, so that the program can use it, and work on the memory is not
 * checked. Pinned memory is always charged to the host, not to a device's capacity. */
#include <stdlib.h>
#include <sys/mman.h>

#include "vmm/sim/entries/call.h"
#include "vmm/sim/memory/memory.h"
#include "vmm/sim/work/hazard.h"

typedef struct host_piece {
    struct host_piece *next;
    void *ptr;
    size_t bytes;
    uint64_t epoch; /* a reset forgets earlier allocations */
} host_piece;

static host_piece *pieces; /* the simulator's lock */

/* The memory of programs that went on over a reset stays theirs. */
static cu_result alloc_plain(size_t bytes, void **out)
{
    if (bytes > sim.conf.host_bytes - sim.host_bytes) {
        return CU_OUT_OF_MEMORY;
    }
    host_piece *piece = malloc(sizeof *piece);
    void *ptr = piece != NULL ? mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                              : MAP_FAILED;
    if (ptr == MAP_FAILED) {
        free(piece);
        return CU_OUT_OF_MEMORY;
    }
    *piece = (host_piece){ pieces, ptr, bytes, sim.epoch };
    pieces = piece;
    sim.host_bytes += bytes;
    sim.devices[0].n_allocations++;
    *out = ptr;
    return CU_SUCCESS;
}

static cu_result free_plain(void *ptr)
{
    host_piece **at = &pieces;
    while (*at != NULL && ((*at)->ptr != ptr || (*at)->epoch != sim.epoch)) {
        at = &(*at)->next;
    }
    host_piece *piece = *at;
    if (piece == NULL) {
        return CU_INVALID_VALUE;
    }
    *at = piece->next;
    sim.host_bytes -= piece->bytes;
    sim.devices[0].n_allocations--;
    (void)munmap(ptr, piece->bytes);
    free(piece);
    return CU_SUCCESS;
}

bool sim_host_has(uint64_t ptr)
{
    const host_piece *piece = pieces;
    while (piece != NULL && (piece->epoch != sim.epoch || ptr < sim_arg(piece->ptr) ||
                             ptr - sim_arg(piece->ptr) >= piece->bytes)) {
        piece = piece->next;
    }
    return piece != NULL;
}

static cu_result alloc_host(void **out, size_t bytes, unsigned flags)
{
    const unsigned known = CU_HOST_PORTABLE | CU_HOST_MAPPED | CU_HOST_WRITE_COMBINED;
    cu_devptr ptr = 0;
    sim_context *context;
    if (out == NULL || bytes == 0 || (flags & ~known) != 0) {
        return CU_INVALID_VALUE;
    }
    if (!sim.conf.has_memory) {
        return alloc_plain(bytes, out);
    }
    cu_result result = sim_context_current(&context);
    if (result == CU_SUCCESS) {
        result = sim_linear_alloc_host(context, bytes, &ptr);
    }
    if (result == CU_SUCCESS) {
        *out = (void *)(uintptr_t)ptr;
    }
    return result;
}

cu_result cuMemHostAlloc(void **out, size_t bytes, unsigned flags)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_host_alloc, 0, bytes, flags, 0);
    if (call.result == CU_SUCCESS) {
        call.result = alloc_host(out, bytes, flags);
    }
    if (call.result == CU_SUCCESS) {
        call.args[0] = sim_arg(*out);
    }
    return sim_call_end(&call);
}

static cu_result free_host(void *ptr)
{
    if (!sim.conf.has_memory) {
        return free_plain(ptr);
    }
    sim_mapping *mapping = sim_linear_find(sim_arg(ptr));
    if (mapping == NULL || !mapping->handle->is_host) {
        return CU_INVALID_VALUE;
    }
    sim_hazard_check_unmap(mapping->ptr, mapping->bytes, "cuMemFreeHost");
    sim_linear_free(mapping);
    return CU_SUCCESS;
}

cu_result cuMemFreeHost(void *ptr)
{
    sim_call call;
    sim_call_begin(&call, SIM_CU_host_free, sim_arg(ptr), 0, 0, 0);
    if (call.result == CU_SUCCESS) {
        call.result = free_host(ptr);
    }
    return sim_call_end(&call);
}
