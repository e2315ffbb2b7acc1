/* sim_ipc.c - see ipc.h. Guarded by sim.lock. Upholds P1; P2 is sim_event_record's.
 *
 * As with real drivers, a process cannot open its own handles. Opening a handle again gives the
 * first address. Opened memory cannot be shared further, and is closed, not freed. An opener keeps
 * the contents, whatever the owner does. */
#include "vmm/tools/sim/memory/sim_ipc.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vmm/tools/sim/work/hazard.h"
#include "vmm/tools/sim/work/token.h"

typedef enum ipc_kind { IPC_MEMORY = 1, IPC_EVENT = 2 } ipc_kind;

typedef struct ipc_content {
    char magic[16];
    uint32_t kind;
    int32_t pid;
    int32_t fd;
    uint32_t zero;
    uint64_t inode;
    uint64_t file_device;
    uint64_t bytes;
    uint64_t zeros;
} ipc_content;

_Static_assert(sizeof(ipc_content) == sizeof(cu_ipc_handle), "what the handle holds");

static const char magic[16] = "pleat-sim-ipc-1";

static void write_handle(cu_ipc_handle *handle, ipc_content content)
{
    memcpy(content.magic, magic, sizeof(magic));
    content.pid = (int32_t)getpid();
    memcpy(handle, &content, sizeof(content));
}

static cu_result read_handle(const cu_ipc_handle *handle, ipc_kind kind, ipc_content *out)
{
    memcpy(out, handle, sizeof(*out));
    if (memcmp(out->magic, magic, sizeof(magic)) != 0 || out->kind != (uint32_t)kind) {
        return CU_INVALID_HANDLE;
    }
    return out->pid == (int32_t)getpid() ? CU_INVALID_CONTEXT : CU_SUCCESS;
}

/* ---- memory ---------------------------------------------------------------------------------- */

cu_result sim_ipc_get_memory(cu_ipc_handle *handle, uint64_t ptr)
{
    const sim_mapping *within = sim_mapping_at(ptr);
    const sim_mapping *mapping = within == NULL ? NULL : sim_linear_find(within->ptr);
    if (handle == NULL || mapping == NULL || ptr - mapping->ptr >= mapping->bytes) {
        return CU_INVALID_VALUE;
    }
    sim_handle *memory = mapping->handle;
    cu_result result = sim_token_make(memory);
    if (result == CU_SUCCESS) {
        write_handle(handle, (ipc_content){
                                 .kind = IPC_MEMORY,
                                 .fd = memory->token_fd,
                                 .inode = memory->token_inode,
                                 .file_device = memory->token_device,
                                 .bytes = memory->bytes,
                             });
    }
    return result;
}

/* Opens the token's file anew. -1 if the file is gone, changed, or another user's. */
static int open_token(const ipc_content *content)
{
    char path[64];
    struct stat file;
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)content->pid, (int)content->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0 && (fstat(fd, &file) != 0 || (uint64_t)file.st_ino != content->inode ||
                    (uint64_t)file.st_dev != content->file_device)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* The memory of a token: the handle already open, or a new handle without references or
 * mappings. */
static cu_result find_memory(int fd, const ipc_content *content, sim_handle **out)
{
    cu_result result = sim_token_find(fd, out);
    if (result == CU_SUCCESS && *out != NULL) {
        return (*out)->n_opens > 0 ? CU_SUCCESS : CU_INVALID_HANDLE;
    }
    if (result == CU_SUCCESS) {
        result = sim_token_adopt(fd, out);
    }
    if (result != CU_SUCCESS) {
        return result == CU_INVALID_VALUE ? CU_INVALID_HANDLE : result;
    }
    (*out)->refs--;
    if (!(*out)->is_linear || (*out)->bytes != content->bytes) {
        sim_handle_settle(*out);
        return CU_INVALID_HANDLE;
    }
    return CU_SUCCESS;
}

static bool map_memory(sim_handle *memory)
{
    uint64_t granule_bytes = sim.conf.granule_bytes;
    uint64_t span = (memory->bytes + granule_bytes - 1) & ~(granule_bytes - 1);
    sim_reservation *reservation = sim_mapping_has_room()
                                       ? sim_space_reserve(&sim.space, span, granule_bytes, 0, true)
                                       : NULL;
    if (reservation == NULL) {
        return false;
    }
    if (sim_mapping_add(reservation, reservation->base, memory) == NULL) {
        sim_space_release(&sim.space, reservation);
        return false;
    }
    return true;
}

/* Grants the memory's device and the opening context's device. */
static void grant(sim_mapping *mapping, int device)
{
    int own = mapping->handle->device;
    sim_mapping_grant(mapping, mapping->rights | SIM_GRANULE_READ(own) | SIM_GRANULE_WRITE(own) |
                                   SIM_GRANULE_READ(device) | SIM_GRANULE_WRITE(device));
}

static cu_result open_memory(const sim_context *context, int fd, const ipc_content *content,
                             cu_devptr *ptr)
{
    sim_handle *memory = NULL;
    cu_result result = find_memory(fd, content, &memory);
    if (result != CU_SUCCESS) {
        return result;
    }
    if (!sim_device_reaches(context->device, memory->device)) {
        result = CU_INVALID_DEVICE;
    } else if (memory->n_opens == 0 && !map_memory(memory)) {
        result = CU_OUT_OF_MEMORY;
    }
    if (result != CU_SUCCESS) {
        sim_handle_settle(memory); /* unless it is open already */
        return result;
    }
    memory->n_opens++;
    memory->context = memory->context != NULL ? memory->context : context;
    grant(memory->mappings, context->device);
    *ptr = memory->mappings->ptr;
    return CU_SUCCESS;
}

cu_result sim_ipc_open_memory(const sim_context *context, const cu_ipc_handle *handle,
                              unsigned flags, cu_devptr *ptr)
{
    ipc_content content;
    if (ptr == NULL || flags != SIM_IPC_LAZY_PEERS) {
        return CU_INVALID_VALUE;
    }
    cu_result result = read_handle(handle, IPC_MEMORY, &content);
    if (result != CU_SUCCESS) {
        return result;
    }
    int fd = open_token(&content);
    if (fd < 0) {
        return CU_INVALID_HANDLE;
    }
    result = open_memory(context, fd, &content, ptr);
    close(fd);
    return result;
}

sim_mapping *sim_ipc_find(uint64_t ptr)
{
    sim_mapping *mapping = sim_mapping_at(ptr);
    return mapping != NULL && mapping->handle->n_opens > 0 && mapping->ptr == ptr ? mapping : NULL;
}

void sim_ipc_close_memory(sim_mapping *mapping)
{
    mapping->handle->n_opens--;
    if (mapping->handle->n_opens > 0) {
        return;
    }
    sim_reservation *reservation = mapping->reservation;
    sim_hazard_check_unmap(mapping->ptr, mapping->bytes, "cuIpcCloseMemHandle");
    sim_mapping_remove(mapping);
    sim_space_release(&sim.space, reservation);
}

/* ---- events ---------------------------------------------------------------------------------- */

cu_result sim_ipc_get_event(cu_ipc_handle *handle, sim_event *event)
{
    if (handle == NULL) {
        return CU_INVALID_VALUE;
    }
    if ((event->flags & SIM_EVENT_INTERPROCESS) == 0) {
        return CU_INVALID_HANDLE;
    }
    cu_result result = sim_event_check(event);
    if (result != CU_SUCCESS) {
        return result;
    }
    if (!sim_event_finish(event)) {
        return CU_NOT_READY;
    }
    event->is_shared = true;
    write_handle(handle, (ipc_content){ .kind = IPC_EVENT });
    return CU_SUCCESS;
}

cu_result sim_ipc_open_event(sim_context *context, const cu_ipc_handle *handle, cu_event *out)
{
    ipc_content content;
    cu_result result = read_handle(handle, IPC_EVENT, &content);
    if (result == CU_SUCCESS) {
        result = sim_event_create(context, SIM_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING_FLAG,
                                  out);
    }
    if (result == CU_SUCCESS) {
        sim_event_find(*out)->is_shared = true;
    }
    return result;
}
