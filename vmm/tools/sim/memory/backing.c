/* backing.c - mmap behind made-up driver calls.
 *
 * Offsets in a device's file are never used twice: the file is sparse, and freed parts are punched
 * out. The host has the rights of all devices, since it stands for them. */
#include "vmm/tools/sim/memory/backing.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vmm/tools/sim/state.h"

/* Device addresses are integers everywhere else. */
static void *as_pointer(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

uint64_t sim_backing_reserve(uint64_t bytes, uint64_t alignment, uint64_t hint)
{
    uint64_t span = bytes + alignment;
    void *p = mmap(as_pointer(hint), span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    if (p == MAP_FAILED) {
        return 0;
    }
    uint64_t start = (uint64_t)(uintptr_t)p;
    uint64_t base = (start + alignment - 1) & ~(alignment - 1);
    if (base > start) {
        munmap(p, base - start);
    }
    munmap(as_pointer(base + bytes), start + span - base - bytes);
    return base;
}

void sim_backing_unreserve(uint64_t base, uint64_t bytes)
{
    munmap(as_pointer(base), bytes);
}

bool sim_backing_take(sim_device *device, uint64_t bytes, uint64_t *offset)
{
    if (device->memory_used_bytes == 0) {
        device->memory_fd = memfd_create("pleat-sim", MFD_CLOEXEC);
    }
    if (device->memory_fd < 0 ||
        ftruncate(device->memory_fd, (off_t)(device->memory_used_bytes + bytes)) != 0) {
        return false;
    }
    *offset = device->memory_used_bytes;
    device->memory_used_bytes += bytes;
    return true;
}

void sim_backing_give(sim_device *device, uint64_t offset, uint64_t bytes)
{
    (void)fallocate(device->memory_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
                    (off_t)bytes);
}

/* One piece of data between holes. */
static bool copy_piece(int from, off_t at, int to, off_t place, off_t bytes)
{
    char buffer[16384];
    while (bytes > 0) {
        size_t most = bytes < (off_t)sizeof(buffer) ? (size_t)bytes : sizeof(buffer);
        ssize_t n = pread(from, buffer, most, at);
        if (n <= 0 || pwrite(to, buffer, (size_t)n, place) != n) {
            return false;
        }
        at += n;
        place += n;
        bytes -= n;
    }
    return true;
}

bool sim_backing_copy(int from, uint64_t offset, int to, uint64_t bytes)
{
    off_t end = (off_t)(offset + bytes);
    off_t at = lseek(from, (off_t)offset, SEEK_DATA);
    while (at >= 0 && at < end) {
        off_t hole = lseek(from, at, SEEK_HOLE);
        hole = hole < 0 || hole > end ? end : hole;
        if (!copy_piece(from, at, to, at - (off_t)offset, hole - at)) {
            return false;
        }
        at = lseek(from, hole, SEEK_DATA);
    }
    return true;
}

bool sim_backing_map(uint64_t at, int fd, uint64_t offset, uint64_t bytes)
{
    return mmap(as_pointer(at), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, fd, (off_t)offset) !=
           MAP_FAILED;
}

bool sim_backing_protect(uint64_t at, uint64_t bytes, bool can_read, bool can_write)
{
    int protection = can_write ? PROT_READ | PROT_WRITE : can_read ? PROT_READ : PROT_NONE;
    return mprotect(as_pointer(at), bytes, protection) == 0;
}

void sim_backing_unmap(uint64_t at, uint64_t bytes)
{
    (void)mmap(as_pointer(at), bytes, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void sim_backing_fini(sim_device *device)
{
    if (device->memory_used_bytes > 0 && device->memory_fd >= 0) {
        close(device->memory_fd);
    }
    device->memory_fd = -1;
    device->memory_used_bytes = 0;
}

/* The start of the pattern of `seed`; neighbouring seeds start far apart. */
static uint64_t pattern_start(uint64_t seed)
{
    uint64_t start = (seed + 1) * UINT64_C(0xd1342543de82ef95);
    return start ^ (start >> 32);
}

/* The pattern's 64-bit word number i. */
static uint64_t pattern_word(uint64_t start, uint64_t i)
{
    uint64_t word = (start + i) * UINT64_C(0x9e3779b97f4a7c15);
    return word ^ (word >> 29);
}

void sim_backing_fill(uint64_t at, uint64_t bytes, uint64_t seed)
{
    char *p = as_pointer(at);
    uint64_t start = pattern_start(seed);
    uint64_t i = 0;
    for (; i < bytes / 8; i++) {
        uint64_t word = pattern_word(start, i);
        memcpy(p + 8 * i, &word, 8);
    }
    if (bytes % 8 != 0) { /* for 0 bytes p may be NULL */
        uint64_t last = pattern_word(start, i);
        memcpy(p + 8 * i, &last, bytes % 8);
    }
}

uint64_t sim_backing_verify(uint64_t at, uint64_t bytes, uint64_t seed)
{
    const char *p = as_pointer(at);
    uint64_t start = pattern_start(seed);
    uint64_t word = pattern_word(start, 0);
    uint64_t done = 0;
    while (bytes - done >= 8) {
        uint64_t seen;
        memcpy(&seen, p + done, 8); /* sanitizers take memcmp for a call, not memcpy */
        if (seen != word) {
            break;
        }
        done += 8;
        word = pattern_word(start, done / 8);
    }
    const char *wanted = (const char *)&word;
    for (uint64_t i = 0; i < 8 && done < bytes && p[done] == wanted[i]; i++) {
        done++;
    }
    return done;
}
