/* front_call.c - the owner's work inside a front (front.h), without a lock.
 *
 * The map of live blocks is read without the lock (ptrmap.h). So a block from the map is believed
 * only if the block is live and has the address. */
#include "segments/pleat/front/front.h"

/* A magazine pays if, of CREDIT_OF_A_HIT blocks put in, a block is asked for again. A block put
 * in costs a credit, a block given out earns CREDIT_OF_A_HIT. A magazine without credit takes no
 * blocks, until missed requests of its size have earned credit. */
enum { CREDIT_OF_A_HIT = 8, MOST_CREDIT = 64 };

static inline void count_kept(pl_front *front, uint32_t n, size_t bytes)
{
    uint32_t n_kept = atomic_load_explicit(&front->n_kept, memory_order_relaxed);

    atomic_store_explicit(&front->n_kept, n_kept + n, memory_order_relaxed);
    front->bytes += bytes;
}

static inline void count_freed(pl_front *front, size_t bytes, size_t requested)
{
    uint64_t n = atomic_load_explicit(&front->n_freed, memory_order_relaxed);

    atomic_store_explicit(&front->n_freed, n + 1, memory_order_relaxed);
    front->freed_bytes += bytes;
    front->freed_requested += requested;
}

bool pl_front_alloc(pl_front *front, size_t requested, pleat_devptr *out)
{
    unsigned bin = pl_front_bin(requested);
    pl_magazine *m = &front->magazines[bin];
    pl_block *b = m->top;

    if (b == NULL) {
        m->credit = (int8_t)(m->credit + (m->credit < PL_CREDIT_AT_FIRST));
        return false;
    }
    size_t bytes = b->bytes;
    if (!pl_front_use_room(front, bytes, requested)) {
        return false;
    }
    m->top = b->queue_next;
    if (--m->n == 0) {
        front->filled[bin / 64] &= ~(UINT64_C(1) << bin % 64);
    }
    m->credit = (int8_t)(m->credit + (m->credit < MOST_CREDIT ? CREDIT_OF_A_HIT : 0));
    b->queue_next = NULL;
    b->holder = NULL;
    b->requested = requested;
    count_kept(front, UINT32_MAX, (size_t)0 - bytes);
    *out = b->base;
    return true;
}

/* b may be any block, or freed memory of a block: the map was read without the lock. If b has this
 * base and is live, b is the block at ptr. If the caller may free ptr, nobody changes b now. */
static inline bool may_take(const pl_front *front, const pl_block *b, pleat_devptr ptr)
{
    return b != NULL && b->base == ptr && b->state == PL_BLOCK_LIVE && b->lane == front->lane &&
           b->uses == NULL && b->holder == NULL && !b->segment->is_apart;
}

/* False: the front has no place for b, or keeping b would not pay. */
static inline bool keep(pl_front *front, pl_block *b)
{
    size_t bytes = b->bytes;

    if (bytes > PL_FRONT_MOST_BYTES) {
        return false;
    }
    unsigned bin = pl_front_bin(bytes);
    pl_magazine *m = &front->magazines[bin];
    if (m->credit <= 0 || m->n == PL_FRONT_DEPTH) {
        return false;
    }
    bool is_full = atomic_load_explicit(&front->n_kept, memory_order_relaxed) == PL_FRONT_BLOCKS;
    if (is_full || front->bytes + bytes > PL_FRONT_BYTES) {
        return false;
    }
    m->credit--;
    m->n++;
    front->filled[bin / 64] |= UINT64_C(1) << bin % 64;
    b->queue_next = m->top;
    b->holder = front;
    m->top = b;
    count_kept(front, 1, bytes);
    count_freed(front, bytes, b->requested);
    pl_front_add_heap(front, bytes, b->requested);
    return true;
}

/* Prefetch the data that freeing b will need; with many blocks, little of the data is in the cache.
 * Other threads may change b's neighbours meanwhile, so the reads of prev and next race; the thread
 * sanitizer finds no prefetch here. Inlined by force: gcc sees no effect in a function that only
 * prefetches, and dropped the calls. */
static inline __attribute__((always_inline)) void expect(const pl_block *b)
{
#if defined(__SANITIZE_THREAD__)
    (void)b;
#else
    const pl_segment *seg = b->segment;
    const pl_block *next = b->next;

    pl_block_expect(b->prev, offsetof(pl_block, base));
    pl_block_expect(next, offsetof(pl_block, base));
    pl_block_expect(next, offsetof(pl_block, node));
    __builtin_prefetch(&seg->users[pl_segment_granule(seg, b->base)]);
#endif
}

static inline bool put_off(pl_front *front, pl_block *b, size_t at)
{
    uint32_t n = pl_front_n_late(front);

    if (n == PL_FRONT_LATE) {
        return false;
    }
    front->late[(front->first_late + n) % PL_FRONT_LATE] = (pl_late){ b, at };
    b->holder = front;
    expect(b);
    atomic_store_explicit(&front->n_late, n + 1, memory_order_relaxed);
    return true;
}

bool pl_front_free(pl_front *front, pleat_devptr ptr)
{
    const pl_space *space = (const pl_space *)front->allocator;
    size_t at;
    pl_block *b = pl_ptrmap_peek(&space->blocks.live, ptr, &at);

    return may_take(front, b, ptr) && (keep(front, b) || put_off(front, b, at));
}
