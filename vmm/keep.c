/* keep.c - see keep.h.
 *
 * A keep has a few streams of its own, and copies use them in turn. With a file each stream has a
 * page-locked buffer. While the file is read or written for one stream, the rest copy. A stream is
 * waited for before its buffer is used again, and every stream before a call returns, even after a
 * failure. Only then may the caller unmap or free the copied memory.
 *
 * Memory and streams that the driver refuses to take back stay with the device. They are tried
 * again when a keep is opened or closed, and when the device is closed, which reports the
 * remainder.
 *
 * Guarded by its user. Metadata come from the device's host memory, under the device's lock. */
#include "vmm/keep.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "vmm/base/cancel.h"
#include "vmm/device_state.h"

enum { N_LANES = 4 };
static const uint64_t block_bytes = UINT64_C(32) << 20; /* of page-locked memory at once */
static const uint64_t buffer_bytes = UINT64_C(8) << 20; /* of each stream, for a file */

typedef struct keep_lane {
    cu_stream stream;
    void *buffer;        /* with a file */
    bool is_used;        /* something was submitted and not waited for */
    uint64_t file_bytes; /* in the buffer, to be written at: */
    uint64_t file_at;
} keep_lane;

struct pl_keep {
    pl_device *dev;
    pl_keep *next; /* the device's lock: the next keep left to close */
    int fd;        /* -1 = host memory */
    uint64_t bytes;
    void **blocks; /* host memory: NULL = not had yet */
    size_t n_blocks;
    keep_lane lanes[N_LANES];
    unsigned next_lane;
    bool is_busy;
};

/* ---- page-locked memory ---------------------------------------------------------------------- */

static pleat_status lock_memory(const pl_keep *keep, uint64_t bytes, void **out)
{
    cu_result result = pl_cu_host_alloc(keep->dev->drv, out, bytes, 0);

    return result == CU_OUT_OF_MEMORY ? PLEAT_ENOMEM_HOST : pl_driver_failure(result);
}

/* Memory refused twice stays in the list. */
static void unlock_memory(const pl_keep *keep, void **memory)
{
    pl_driver *drv = keep->dev->drv;

    if (*memory != NULL && (pl_cu_host_free(drv, *memory) == CU_SUCCESS ||
                            pl_cu_host_free(drv, *memory) == CU_SUCCESS)) {
        *memory = NULL;
    }
}

static uint64_t block_at(const pl_keep *keep, size_t i)
{
    uint64_t left = keep->bytes - i * block_bytes;

    return left < block_bytes ? left : block_bytes;
}

static pleat_status lock_blocks(pl_keep *keep)
{
    pleat_status st = PLEAT_OK;

    for (size_t i = 0; i < keep->n_blocks && st == PLEAT_OK; i++) {
        st = lock_memory(keep, block_at(keep, i), &keep->blocks[i]);
    }
    return st;
}

/* ---- the file -------------------------------------------------------------------------------- */

static pleat_status refuse_file(const char *what)
{
    char buffer[128];

    pl_driver_set_detail("the file that keeps the memory %s: %s", what,
                         strerror_r(errno, buffer, sizeof(buffer)));
    return PLEAT_EWRITE;
}

/* A file without a name leaves nothing behind, however the process ends. */
static pleat_status open_file(pl_keep *keep, const char *folder)
{
    keep->fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (keep->fd < 0) {
        return refuse_file("cannot be made");
    }
    int error = posix_fallocate(keep->fd, 0, (off_t)keep->bytes);
    errno = error;
    return error == 0 ? PLEAT_OK : refuse_file("has no room");
}

static pleat_status write_all(const pl_keep *keep, const char *from, uint64_t bytes, uint64_t at)
{
    while (bytes > 0) {
        ssize_t n = pwrite(keep->fd, from, bytes, (off_t)at);
        if (n <= 0 && errno != EINTR) {
            return refuse_file("cannot be written");
        }
        uint64_t done = n > 0 ? (uint64_t)n : 0;
        from += done;
        at += done;
        bytes -= done;
    }
    return PLEAT_OK;
}

static pleat_status read_all(const pl_keep *keep, char *to, uint64_t bytes, uint64_t at)
{
    while (bytes > 0) {
        ssize_t n = pread(keep->fd, to, bytes, (off_t)at);
        if (n == 0 || (n < 0 && errno != EINTR)) {
            return refuse_file("cannot be read");
        }
        uint64_t done = n > 0 ? (uint64_t)n : 0;
        to += done;
        at += done;
        bytes -= done;
    }
    return PLEAT_OK;
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* Wait for the lane's copy, and write the copied bytes. */
static pleat_status finish(pl_keep *keep, keep_lane *lane)
{
    pl_driver *drv = keep->dev->drv;
    pleat_status st = PLEAT_OK;

    if (!lane->is_used) {
        return PLEAT_OK;
    }
    if (pl_cu_stream_synchronize(drv, lane->stream) != CU_SUCCESS &&
        pl_cu_stream_synchronize(drv, lane->stream) != CU_SUCCESS &&
        pl_cu_ctx_synchronize(drv) != CU_SUCCESS) {
        keep->is_busy = true;
        return PLEAT_EDRIVER;
    }
    lane->is_used = false;
    if (lane->file_bytes > 0) {
        st = write_all(keep, lane->buffer, lane->file_bytes, lane->file_at);
        lane->file_bytes = 0;
    }
    return st;
}

static pleat_status save_some(pl_keep *keep, keep_lane *lane, pleat_devptr at, uint64_t offset,
                              uint64_t bytes)
{
    bool is_file = keep->fd >= 0;
    void *to = is_file ? lane->buffer
                       : (char *)keep->blocks[offset / block_bytes] + offset % block_bytes;
    cu_result result = pl_cu_memcpy_dtoh_async(keep->dev->drv, to, at, bytes, lane->stream);

    lane->is_used = lane->is_used || result == CU_SUCCESS;
    if (is_file && result == CU_SUCCESS) {
        lane->file_bytes = bytes;
        lane->file_at = offset;
    }
    return pl_driver_failure(result);
}

static pleat_status load_some(pl_keep *keep, keep_lane *lane, pleat_devptr at, uint64_t offset,
                              uint64_t bytes)
{
    bool is_file = keep->fd >= 0;
    void *from = is_file ? lane->buffer
                         : (char *)keep->blocks[offset / block_bytes] + offset % block_bytes;
    pleat_status st = is_file ? read_all(keep, from, bytes, offset) : PLEAT_OK;

    if (st == PLEAT_OK) {
        cu_result result = pl_cu_memcpy_htod_async(keep->dev->drv, at, from, bytes, lane->stream);
        lane->is_used = lane->is_used || result == CU_SUCCESS;
        st = pl_driver_failure(result);
    }
    return st;
}

static pleat_status copy_piece(pl_keep *keep, const pl_keep_piece *piece, bool is_save)
{
    uint64_t unit = keep->fd >= 0 ? buffer_bytes : block_bytes;
    pleat_status st = PLEAT_OK;

    for (uint64_t done = 0; done < piece->bytes && st == PLEAT_OK;) {
        uint64_t offset = piece->offset + done;
        uint64_t room = unit - offset % unit;
        uint64_t n = piece->bytes - done < room ? piece->bytes - done : room;
        keep_lane *lane = &keep->lanes[keep->next_lane++ % N_LANES];
        st = keep->fd >= 0 ? finish(keep, lane) : PLEAT_OK; /* its buffer is used again */
        if (st == PLEAT_OK) {
            st = is_save ? save_some(keep, lane, piece->at + done, offset, n)
                         : load_some(keep, lane, piece->at + done, offset, n);
        }
        done += n;
    }
    return st;
}

/* Copies of an earlier call may still run, as nothing could wait for them then. Inside a scope. */
static pleat_status catch_up(pl_keep *keep)
{
    pleat_status st = PLEAT_OK;

    for (unsigned i = 0; i < N_LANES && st == PLEAT_OK; i++) {
        keep->lanes[i].file_bytes = 0;
        st = finish(keep, &keep->lanes[i]);
    }
    keep->is_busy = st != PLEAT_OK;
    return st;
}

static pleat_status copy_all(pl_keep *keep, const pl_keep_piece *pieces, size_t n, bool is_save)
{
    pl_scope scope;
    int cancel = pl_cancel_off();
    pleat_status st = pl_scope_begin(keep->dev, &scope);

    if (st == PLEAT_OK) {
        st = keep->is_busy ? catch_up(keep) : PLEAT_OK;
        for (size_t i = 0; i < n && st == PLEAT_OK; i++) {
            st = copy_piece(keep, &pieces[i], is_save);
        }
        for (unsigned i = 0; i < N_LANES; i++) {
            pleat_status failed = finish(keep, &keep->lanes[i]);
            st = st == PLEAT_OK ? failed : st;
        }
        pl_scope_end(keep->dev, &scope);
    }
    pl_cancel_restore(cancel);
    return st;
}

pleat_status pl_keep_save(pl_keep *keep, const pl_keep_piece *pieces, size_t n)
{
    return copy_all(keep, pieces, n, true);
}

pleat_status pl_keep_load(pl_keep *keep, const pl_keep_piece *pieces, size_t n)
{
    return copy_all(keep, pieces, n, false);
}

bool pl_keep_is_busy(const pl_keep *keep)
{
    return keep->is_busy;
}

/* ---- looks ----------------------------------------------------------------------------------- */

bool pl_keep_is_file(const pl_keep *keep)
{
    return keep->fd >= 0;
}

uint64_t pl_keep_bytes(const pl_keep *keep)
{
    return keep->bytes;
}

void *pl_keep_at(const pl_keep *keep, uint64_t offset, uint64_t bytes)
{
    bool is_one = bytes > 0 && offset / block_bytes == (offset + bytes - 1) / block_bytes;

    return keep->fd < 0 && is_one
               ? (char *)keep->blocks[offset / block_bytes] + offset % block_bytes
               : NULL;
}

pleat_status pl_keep_read(const pl_keep *keep, uint64_t offset, uint64_t bytes, void *to)
{
    if (keep->fd >= 0) {
        int cancel = pl_cancel_off();
        pleat_status st = read_all(keep, to, bytes, offset);
        pl_cancel_restore(cancel);
        return st;
    }
    for (uint64_t done = 0; done < bytes;) {
        uint64_t room = block_bytes - (offset + done) % block_bytes;
        uint64_t n = bytes - done < room ? bytes - done : room;
        memcpy((char *)to + done, pl_keep_at(keep, offset + done, n), n);
        done += n;
    }
    return PLEAT_OK;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

/* Of the driver: how many things the keep has. */
static size_t count_held(const pl_keep *keep)
{
    size_t n = 0;

    for (unsigned i = 0; i < N_LANES; i++) {
        n += keep->lanes[i].stream != NULL;
        n += keep->lanes[i].buffer != NULL;
    }
    for (size_t i = 0; i < keep->n_blocks; i++) {
        n += keep->blocks[i] != NULL;
    }
    return n;
}

/* Inside a scope. */
static void give_back(pl_keep *keep)
{
    for (unsigned i = 0; i < N_LANES; i++) {
        keep_lane *lane = &keep->lanes[i];
        unlock_memory(keep, &lane->buffer);
        if (lane->stream != NULL && pl_device_end_stream(keep->dev, lane->stream)) {
            lane->stream = NULL;
        }
    }
    for (size_t i = 0; i < keep->n_blocks; i++) {
        unlock_memory(keep, &keep->blocks[i]);
    }
}

/* False: some memory stays held, as a copy may still write it, or the driver refuses. */
static bool close_driver(pl_keep *keep)
{
    pl_scope scope;

    if (count_held(keep) > 0 && pl_scope_begin(keep->dev, &scope) == PLEAT_OK) {
        if (!keep->is_busy || catch_up(keep) == PLEAT_OK) {
            give_back(keep);
        }
        pl_scope_end(keep->dev, &scope);
    }
    return count_held(keep) == 0;
}

static void free_keep(pl_keep *keep)
{
    pl_device *dev = keep->dev;

    pl_lock_acquire(&dev->lock);
    pl_meta_free(&dev->meta, keep->blocks);
    pl_meta_free(&dev->meta, keep);
    pl_lock_release(&dev->lock);
}

static void leave(pl_keep *keep)
{
    pl_device *dev = keep->dev;

    pl_lock_acquire(&dev->lock);
    keep->next = dev->left_keeps;
    dev->left_keeps = keep;
    pl_lock_release(&dev->lock);
}

static pl_keep *take_left(pl_device *dev)
{
    pl_lock_acquire(&dev->lock);
    pl_keep *keep = dev->left_keeps;
    dev->left_keeps = keep != NULL ? keep->next : NULL;
    pl_lock_release(&dev->lock);
    return keep;
}

/* Stop at the first refusal, since a driver that is gone would refuse the whole list. */
static void close_left(pl_device *dev)
{
    pl_keep *keep;

    while ((keep = take_left(dev)) != NULL) {
        if (!close_driver(keep)) {
            leave(keep);
            return;
        }
        free_keep(keep);
    }
}

void pl_keep_close(pl_keep *keep)
{
    if (keep == NULL) {
        return;
    }
    int cancel = pl_cancel_off();
    if (keep->fd >= 0) {
        (void)close(keep->fd);
    }
    close_left(keep->dev);
    if (close_driver(keep)) {
        free_keep(keep);
    } else {
        pl_device_undo(keep->dev, PLEAT_EDRIVER);
        leave(keep);
    }
    pl_cancel_restore(cancel);
}

size_t pl_keeps_fini(pl_device *dev)
{
    size_t n_held = 0;
    pl_keep *keep;

    while ((keep = take_left(dev)) != NULL) {
        n_held += close_driver(keep) || close_driver(keep) ? 0 : count_held(keep);
        free_keep(keep);
    }
    return n_held;
}

static pl_keep *make(pl_device *dev, bool is_file, uint64_t bytes)
{
    size_t n_blocks = is_file ? 0 : (size_t)((bytes + block_bytes - 1) / block_bytes);

    pl_lock_acquire(&dev->lock);
    pl_keep *keep = pl_meta_calloc(&dev->meta, 1, sizeof(*keep));
    void **blocks = keep != NULL && n_blocks > 0
                        ? pl_meta_calloc(&dev->meta, n_blocks, sizeof(*blocks))
                        : NULL;
    if (keep != NULL && n_blocks > 0 && blocks == NULL) {
        pl_meta_free(&dev->meta, keep);
        keep = NULL;
    }
    pl_lock_release(&dev->lock);
    if (keep != NULL) {
        keep->dev = dev;
        keep->fd = -1;
        keep->bytes = bytes;
        keep->blocks = blocks;
        keep->n_blocks = n_blocks;
    }
    return keep;
}

/* Inside a scope. */
static pleat_status open_lanes(pl_keep *keep, bool is_file)
{
    pleat_status st = PLEAT_OK;

    for (unsigned i = 0; i < N_LANES && st == PLEAT_OK; i++) {
        keep_lane *lane = &keep->lanes[i];
        st = pl_driver_failure(
            pl_cu_stream_create(keep->dev->drv, &lane->stream, CU_STREAM_NON_BLOCKING_FLAG));
        if (st == PLEAT_OK && is_file) {
            st = lock_memory(keep, buffer_bytes, &lane->buffer);
        }
    }
    return st;
}

static pleat_status open_driver(pl_keep *keep, bool is_file)
{
    pl_scope scope;
    pleat_status st = pl_scope_begin(keep->dev, &scope);

    if (st == PLEAT_OK) {
        st = open_lanes(keep, is_file);
        st = st == PLEAT_OK ? lock_blocks(keep) : st;
        pl_scope_end(keep->dev, &scope);
    }
    return st;
}

pleat_status pl_keep_open(pl_device *dev, const char *folder, uint64_t bytes, pl_keep **out)
{
    if (!pl_driver_has(dev->drv, PL_CU_host_alloc) || !pl_driver_has(dev->drv, PL_CU_host_free)) {
        pl_driver_set_detail("the driver has no page-locked memory");
        return PLEAT_ENOTSUP;
    }
    pl_keep *keep = make(dev, folder != NULL, bytes);
    if (keep == NULL) {
        return PLEAT_ENOMEM_HOST;
    }
    int cancel = pl_cancel_off();
    close_left(dev);
    pleat_status st = folder != NULL ? open_file(keep, folder) : PLEAT_OK;
    st = st == PLEAT_OK ? open_driver(keep, folder != NULL) : st;
    pl_cancel_restore(cancel);
    if (st != PLEAT_OK) {
        pl_keep_close(keep);
        return st;
    }
    *out = keep;
    return PLEAT_OK;
}
