/* roster.h - a list of blocks, in pages: what an allocator tells of a private pool's live blocks.
 *
 * Its allocator fills it and gives it back, under its lock; in between it does not change, and
 * anybody may read it. */
#ifndef PLEAT_SEGMENTS_ROSTER_H
#define PLEAT_SEGMENTS_ROSTER_H

#include "vmm/base/host.h"
#include "vmm/base/pleat_types.h"

enum { PL_ROSTER_PAGE = 512 }; /* blocks in a page */

typedef struct pl_roster_block {
    pleat_devptr base;
    size_t bytes;
    size_t requested;
    void *stream;  /* the owner's handle */
    uint64_t tick; /* the allocator's, like the next three */
    void *waits;   /* host memory that a step which cannot fail will need, or NULL */
    uint32_t lane; /* the owner */
    bool is_made;  /* live because of a restore: it was not before */
} pl_roster_block;

typedef struct pl_roster_page {
    struct pl_roster_page *next;
    size_t n;
    pl_roster_block block[PL_ROSTER_PAGE];
} pl_roster_page;

/* Zeroed memory is an empty roster. */
typedef struct pl_roster {
    pl_roster_page *first;
    pl_roster_page *last;
    size_t n;
    uint64_t pool;   /* the number of the pool that it is of */
    bool is_holding; /* it refers to its blocks' owners */
} pl_roster;

/* NULL: no host memory. The block is zeroed, and stays where it is. */
pl_roster_block *pl_roster_add(pl_roster *roster, pl_host *host);
/* Give one page back; false: there was none. So that a caller can drop its lock in between. */
bool pl_roster_drop_page(pl_roster *roster, pl_host *host);

/* What a restore has done. */
typedef struct pl_restored {
    pl_roster freed;  /* blocks that live no more */
    pl_roster live;   /* those that do */
    pleat_devptr odd; /* it failed: where */
} pl_restored;

/* Where a reader is. */
typedef struct pl_roster_cursor {
    pl_roster_page *page;
    size_t i;
} pl_roster_cursor;

static inline pl_roster_cursor pl_roster_begin(const pl_roster *roster)
{
    return (pl_roster_cursor){ .page = roster->first };
}

/* The block there; NULL at the end. */
static inline pl_roster_block *pl_roster_at(const pl_roster_cursor *cursor)
{
    return cursor->page != NULL ? &cursor->page->block[cursor->i] : NULL;
}

/* There is a block. */
static inline void pl_roster_next(pl_roster_cursor *cursor)
{
    if (++cursor->i == cursor->page->n) {
        *cursor = (pl_roster_cursor){ .page = cursor->page->next };
    }
}

#endif
