/* known.c - see known.h. Guarded by `lock`.
 *
 * K1  the pieces do not overlap
 * K2  n_pieces is their number, n_bytes their bytes, at most MAX_BYTES in at most MAX_PIECES */
#include "vmm/tools/runtime/known.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/base/pleat_sim.h"

enum { MAX_PIECES = 1024, MAX_PIECE_BYTES = 1 << 20, MAX_BYTES = 16 << 20 };

typedef struct piece {
    struct piece *next;
    cu_devptr ptr;
    uint64_t bytes;
    unsigned char content[];
} piece;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static piece *pieces;    /* lock */
static uint64_t n_bytes; /* lock */
/* Written under the lock. Kernels read the count without the lock, since at 0 nothing is known. A
 * copy by another thread at the same time is unordered with the kernel anyway. */
static _Atomic size_t n_pieces; /* atomic */

static void forget_all_locked(void)
{
    while (pieces != NULL) {
        piece *it = pieces;
        pieces = it->next;
        free(it);
    }
    n_bytes = 0;
    atomic_store(&n_pieces, 0);
}

void rt_known_forget_all(void)
{
    if (atomic_load_explicit(&n_pieces, memory_order_relaxed) > 0) {
        pthread_mutex_lock(&lock);
        forget_all_locked();
        pthread_mutex_unlock(&lock);
    }
}

static bool add_locked(cu_devptr ptr, const void *from, uint64_t bytes)
{
    piece *it = malloc(sizeof(*it) + bytes);
    if (it == NULL) {
        return false;
    }
    *it = (piece){ .next = pieces, .ptr = ptr, .bytes = bytes };
    memcpy(it->content, from, bytes);
    pieces = it;
    n_bytes += bytes;
    atomic_fetch_add(&n_pieces, 1);
    return true;
}

/* Parts outside of the range stay. */
static void forget_locked(cu_devptr ptr, uint64_t bytes)
{
    piece **at = &pieces;
    while (*at != NULL) {
        piece *it = *at;
        if (it->ptr >= ptr + bytes || ptr >= it->ptr + it->bytes) {
            at = &it->next;
            continue;
        }
        *at = it->next;
        n_bytes -= it->bytes;
        atomic_fetch_sub(&n_pieces, 1);
        uint64_t end = ptr + bytes;
        if (it->ptr < ptr) {
            (void)add_locked(it->ptr, it->content, ptr - it->ptr);
        }
        if (it->ptr + it->bytes > end) {
            (void)add_locked(end, it->content + (end - it->ptr), it->ptr + it->bytes - end);
        }
        free(it);
    }
}

void rt_known_forget(cu_devptr ptr, uint64_t bytes)
{
    if (bytes > 0 && atomic_load(&n_pieces) > 0) {
        pthread_mutex_lock(&lock);
        forget_locked(ptr, bytes);
        pthread_mutex_unlock(&lock);
    }
}

void rt_known_write(cu_devptr ptr, const void *from, uint64_t bytes)
{
    if (bytes > MAX_PIECE_BYTES) {
        rt_known_forget(ptr, bytes);
        return;
    }
    if (bytes == 0 || pleat_sim_has_contents()) {
        return;
    }
    pthread_mutex_lock(&lock);
    if (n_bytes + bytes > MAX_BYTES || atomic_load(&n_pieces) >= MAX_PIECES) {
        forget_all_locked();
    }
    forget_locked(ptr, bytes);
    (void)add_locked(ptr, from, bytes);
    pthread_mutex_unlock(&lock);
}

/* The piece that holds an address. */
static const piece *find_locked(cu_devptr ptr)
{
    const piece *it = pieces;
    while (it != NULL && (ptr < it->ptr || ptr - it->ptr >= it->bytes)) {
        it = it->next;
    }
    return it;
}

static bool read_locked(cu_devptr ptr, uint64_t bytes, unsigned char *to)
{
    for (uint64_t done = 0; done < bytes;) {
        const piece *it = find_locked(ptr + done);
        if (it == NULL) {
            return false;
        }
        uint64_t offset = ptr + done - it->ptr;
        uint64_t n = it->bytes - offset;
        n = n < bytes - done ? n : bytes - done;
        if (to != NULL) {
            memcpy(to + done, it->content + offset, n);
        }
        done += n;
    }
    return true;
}

bool rt_known_read(cu_devptr ptr, uint64_t bytes, void *to)
{
    if (atomic_load(&n_pieces) == 0) {
        return false;
    }
    pthread_mutex_lock(&lock);
    bool is_known = read_locked(ptr, bytes, NULL) && read_locked(ptr, bytes, to);
    pthread_mutex_unlock(&lock);
    return is_known;
}

void rt_known_overlay(cu_devptr ptr, uint64_t bytes, void *to)
{
    if (atomic_load(&n_pieces) == 0) {
        return;
    }
    pthread_mutex_lock(&lock);
    for (const piece *it = pieces; it != NULL; it = it->next) {
        cu_devptr first = it->ptr > ptr ? it->ptr : ptr;
        cu_devptr end = it->ptr + it->bytes < ptr + bytes ? it->ptr + it->bytes : ptr + bytes;
        if (first < end) {
            memcpy((char *)to + (first - ptr), it->content + (first - it->ptr), end - first);
        }
    }
    pthread_mutex_unlock(&lock);
}

void rt_known_copy(cu_devptr to, cu_devptr from, uint64_t bytes)
{
    void *content = bytes <= MAX_PIECE_BYTES && atomic_load(&n_pieces) > 0 ? malloc(bytes) : NULL;
    if (content != NULL && rt_known_read(from, bytes, content)) {
        rt_known_write(to, content, bytes);
    } else {
        rt_known_forget(to, bytes);
    }
    free(content);
}
