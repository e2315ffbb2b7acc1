/* keeper.h - owners of areas of their own: private pools (private.h) and heaps (heap.h).
 *
 * Requests for a keeper find fits and places in the keeper's areas only, and no other request looks
 * there. Everything else is shared: the lock, the limit, lanes and ticks, the budget, the chunks.
 * What a kind of keeper does besides hangs in its table, so that a request, a birth and a free read
 * the same for all memory.
 *
 * Free memory of a keeper serves everybody by its chunks, as free memory of the default pool does,
 * until the keeper keeps what a graph, a restore or a wake may need again. One rule holds then:
 *
 *   An owned granule never becomes loose.
 *
 * Takes, trims and limits move loose granules only, and nothing takes a live block's memory. So an
 * owned granule keeps its memory until the keeper lets it go.
 *
 *   a pool   keeps since a capture used it, or a checkpoint was taken. It owns a granule once a
 *            block of the pool has ended there. The rest of its memory serves everybody. Why at the
 *            end of a block, and not at its birth: a graph may use blocks from before the capture,
 *            and what had ended before is nobody's
 *   a heap   keeps from when it falls asleep until it has woken. Meanwhile it owns all granules
 *
 * What a keeper lets go (streams/drain.h) opens: granules under free blocks become loose, some at a
 * time, and can be taken. Areas without a keeper go to space.places.released, where requests look
 * when memory is short. A later keeper may get a released area if no block in it is live, shared,
 * captured or in flight, if the blocks are few, and if no segment is opening. So neither addresses
 * nor areas add up, and resident memory serves again without a driver call. At first the new keeper
 * owns nothing in the area. Until it owns a granule, anyone may take the granule's settled memory,
 * and wait for its pending memory. */
#ifndef PLEAT_SEGMENTS_KEEPER_H
#define PLEAT_SEGMENTS_KEEPER_H

#include "segments/pleat/space/space.h"

/* What happens to a block of a keeper: the ledger's words. */
typedef enum pl_keeper_event {
    PL_KEEPER_BORN,
    PL_KEEPER_FREED,
    PL_KEEPER_DIVIDED,
    PL_KEEPER_UNITED
} pl_keeper_event;

/* What a kind of keeper does besides owning areas. NULL: nothing. Only fini may drop the lock. */
typedef struct pl_keeper_kind {
    /* Requests of a capture use memory that was freed in the capture, and may grow in place only.
     * So no block is captured before the keeper is released. */
    bool serves_captures;
    /* A request for the bytes begins, and is over: PLEAT_OK, or ENOMEM_DEVICE beyond a limit. */
    pleat_status (*admit)(pl_keeper *keeper, uint64_t bytes);
    void (*dismiss)(pl_keeper *keeper, uint64_t bytes);
    void (*hear)(pl_keeper *keeper, pl_keeper_event event, const pl_block *b);
    void (*fini)(pl_space *space, pl_keeper *keeper); /* frees its members' memory */
} pl_keeper_kind;

/* Are its requests served, or refused by PLEAT_EASLEEP? */
typedef enum pl_keeper_rest {
    PL_AWAKE,
    PL_TURNING, /* refused: some segments are private, others not yet, or no more */
    PL_ASLEEP,  /* refused: only a wake brings its memory back */
} pl_keeper_rest;

/* I1  area->keeper is the keeper for each of its areas; `buffers` has those of PL_CLASS_BUFFER;
 *     unless it is turning, is_private is set in its segments if it keeps, and in no others
 * I2  no block of a kind that serves captures is captured, unless the keeper drains; pending blocks
 *     that are is_private lie in owned granules only
 * I3  reserved.current is the sum of their granules with a chunk                              */
struct pl_keeper {
    const pl_keeper_kind *kind; /* const */
    LIST_ENTRY(pl_keeper) link; /* in space.places.keepers */
    struct pl_keeper *next;     /* in space.places.draining */
    uint64_t number;            /* const: from 1, in order of creation */
    pl_area *areas;             /* in which requests look */
    pl_area *buffers;           /* of a heap's buffers; may be very many */
    pleat_stat reserved;        /* bytes */
    const char *tag; /* const: what programs call it, as long as the process lives; or NULL */
    bool is_told;    /* a pool, not yet released: observers hear of it by its address */
    bool keeps;      /* its segments are private, and new ones, too */
    pl_keeper_rest rest;
};

/* A new keeper in the list, of `bytes` zeroes that begin with a pl_keeper. NULL: no host memory. */
void *pl_keeper_make(pl_space *space, const pl_keeper_kind *kind, size_t bytes);
/* A graph, or a restore, may need its memory from now on, so the keeper keeps it. */
void pl_keeper_keep(pl_keeper *keeper);
/* The keeper's segment behind `seg`; NULL asks for the first segment. Returns NULL behind the last.
 * Segments keep their order; a new segment comes first, or last in its area. */
pl_segment *pl_keeper_next_segment(const pl_keeper *keeper, const pl_segment *seg);

/* The keeper's area for the lane's stream and class: in use, released, or new. PLEAT_OK or
 * ENOMEM_HOST. */
pleat_status pl_keeper_area(pl_space *space, pl_keeper *keeper, const pl_lane *lane, pl_class class,
                            pl_area **out);
/* Granules to reserve for a further segment of the area. */
size_t pl_keeper_want(const pl_space *space, const pl_area *area);
/* The area has no keeper now: a later one may get the area. */
void pl_keeper_release_area(pl_space *space, pl_area *area);
void pl_keeper_destroy_all(pl_space *space); /* released areas, too */
/* 0, or 1: an invariant is broken. */
int pl_keeper_check(const pl_space *space);

/* The pool that observers and snapshots see for the area; NULL = the default pool. */
static inline const pl_keeper *pl_keeper_told(const pl_area *area)
{
    return area->keeper != NULL && area->keeper->is_told ? area->keeper : NULL;
}

/* The tag, and whether its memory sleeps, as programs see it. */
static inline const char *pl_keeper_tag(const pl_area *area)
{
    return area->keeper != NULL ? area->keeper->tag : NULL;
}
static inline bool pl_keeper_is_asleep(const pl_area *area)
{
    return area->keeper != NULL && area->keeper->rest == PL_ASLEEP;
}

/* Its requests are refused, unless `keeper` is NULL or awake. */
static inline bool pl_keeper_is_shut(const pl_keeper *keeper)
{
    return __builtin_expect(keeper != NULL, false) && keeper->rest != PL_AWAKE;
}

static inline bool pl_keeper_serves_captures(const pl_keeper *keeper)
{
    return keeper != NULL && keeper->kind->serves_captures;
}

/* `in` bytes of the segment became resident, `out` bytes became holes. */
static inline void pl_keeper_count(const pl_segment *seg, uint64_t in, uint64_t out)
{
    if (__builtin_expect(pl_segment_is_apart(seg), false)) {
        pl_stat_add(&seg->area->keeper->reserved, in);
        pl_stat_sub(&seg->area->keeper->reserved, out);
    }
}

static inline void pl_keeper_hear(const pl_segment *seg, pl_keeper_event event, const pl_block *b)
{
    pl_keeper *keeper = seg->area->keeper;

    if (__builtin_expect(keeper != NULL, false) && keeper->kind->hear != NULL) {
        keeper->kind->hear(keeper, event, b);
    }
}

#endif
