/* token.c - see token.h. Guarded by sim.lock. */
#include "vmm/tools/sim/work/token.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vmm/tools/sim/memory/backing.h"

/* What stands behind the contents. */
typedef struct label {
    char magic[16];
    uint64_t version;
    uint64_t bytes; /* as charged */
    uint64_t is_linear;
    cu_mem_prop prop;
} label;

static const char magic[16] = "pleat-sim-token";
enum { LABEL_VERSION = 1 };

static uint64_t whole(uint64_t bytes)
{
    return (bytes + sim.conf.granule_bytes - 1) & ~(sim.conf.granule_bytes - 1);
}

static bool write_label(const sim_handle *handle, int fd)
{
    label it = {
        .version = LABEL_VERSION,
        .bytes = handle->bytes,
        .is_linear = handle->is_linear,
        .prop = handle->prop,
    };
    memcpy(it.magic, magic, sizeof(magic));
    it.prop.type = CU_ALLOCATION_PINNED;
    it.prop.location = (cu_mem_location){ CU_LOCATION_DEVICE, handle->device };
    uint64_t at = whole(handle->bytes);
    return ftruncate(fd, (off_t)(at + SIM_TOKEN_PAGE)) == 0 &&
           pwrite(fd, &it, sizeof(it), (off_t)at) == (ssize_t)sizeof(it) &&
           fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
}

/* Only a sealed file with a label at its end is a token. */
static bool read_label(int fd, label *out, struct stat *file)
{
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd, file) != 0 ||
        file->st_size < SIM_TOKEN_PAGE ||
        pread(fd, out, sizeof(*out), file->st_size - SIM_TOKEN_PAGE) != (ssize_t)sizeof(*out)) {
        return false;
    }
    return memcmp(out->magic, magic, sizeof(magic)) == 0 && out->version == LABEL_VERSION &&
           out->bytes > 0 && whole(out->bytes) == (uint64_t)file->st_size - SIM_TOKEN_PAGE &&
           (out->is_linear != 0 || sim_is_granular(out->bytes));
}

static void note_token(sim_handle *handle, int fd, const struct stat *file)
{
    handle->token_fd = fd;
    handle->token_device = (uint64_t)file->st_dev;
    handle->token_inode = (uint64_t)file->st_ino;
}

cu_result sim_token_make(sim_handle *handle)
{
    struct stat file;
    if (handle->token_fd >= 0) {
        return CU_SUCCESS;
    }
    int fd = memfd_create("pleat-sim-handle", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        return CU_OPERATING_SYSTEM;
    }
    uint64_t bytes = whole(handle->bytes);
    sim_device *device = &sim.devices[handle->device];
    if (!write_label(handle, fd) || fstat(fd, &file) != 0 ||
        (sim.conf.has_memory && !sim_backing_copy(device->memory_fd, handle->offset, fd, bytes))) {
        close(fd);
        return CU_OPERATING_SYSTEM;
    }
    note_token(handle, fd, &file);
    if (!sim_mapping_back(handle)) { /* the host is out of mappings: all as before */
        handle->token_fd = -1;
        (void)sim_mapping_back(handle);
        close(fd);
        return CU_OPERATING_SYSTEM;
    }
    if (sim.conf.has_memory) {
        sim_backing_give(device, handle->offset, bytes);
    }
    return CU_SUCCESS;
}

cu_result sim_token_find(int fd, sim_handle **out)
{
    struct stat file;
    label it;
    if (!read_label(fd, &it, &file)) {
        return CU_INVALID_VALUE;
    }
    *out = NULL;
    for (uint32_t i = 0; i < sim.handles.n_seen && *out == NULL; i++) {
        sim_handle *handle = sim_pool_at(&sim.handles, i);
        bool is_same = handle->is_live && handle->token_fd >= 0 &&
                       handle->token_device == (uint64_t)file.st_dev &&
                       handle->token_inode == (uint64_t)file.st_ino;
        *out = is_same ? handle : NULL;
    }
    return CU_SUCCESS;
}

cu_result sim_token_adopt(int fd, sim_handle **out)
{
    struct stat file;
    label it;
    if (!read_label(fd, &it, &file)) {
        return CU_INVALID_VALUE;
    }
    if (sim_device_at(it.prop.location.id) == NULL) {
        return CU_INVALID_DEVICE;
    }
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own < 0) {
        return CU_OPERATING_SYSTEM;
    }
    sim_handle *handle = sim_handle_take_foreign(it.prop.location.id, it.bytes, it.is_linear != 0);
    handle->prop = it.prop;
    note_token(handle, own, &file);
    *out = handle;
    return CU_SUCCESS;
}

void sim_token_drop(sim_handle *handle)
{
    if (handle->is_live && handle->token_fd >= 0) {
        close(handle->token_fd);
        handle->token_fd = -1;
    }
}
