/* roster.h - a list of blocks, in pages: an allocator's report of a private pool's live blocks.
 *
 * The allocator fills a roster and gives it back, under the allocator's lock. In between the roster
 * is constant, and any thread may read it. */
#ifndef PLEAT_SEGMENTS_ROSTER_H
#define PLEAT_SEGMENTS_ROSTER_H

#include "vmm/base/meta.h"
#include "vmm/base/pleat_types.h"

enum { PL_ROSTER_PAGE = 512 }; /* blocks in a page */

typedef struct pl_roster_block {
    pleat_devptr base;
    size_t bytes;
    size_t requested;
    void *stream;   /* the owner's handle */
    uint64_t stamp; /* the allocator's, like the next three */
    void *waits;    /* host memory for a later step that cannot fail, or NULL */
    uint32_t lane;  /* the owner */
    bool is_made;   /* made by a restore */
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
    uint64_t pool;   /* number of the listed pool */
    bool is_holding; /* the roster refers to its blocks' owners */
} pl_roster;

/* NULL: no host memory. The new block is zeroed and never moves. */
pl_roster_block *pl_roster_add(pl_roster *roster, pl_meta *meta);
/* Free one page. A caller can drop its lock between pages. False: no page was left. */
bool pl_roster_drop_page(pl_roster *roster, pl_meta *meta);

/* The result of a restore. */
typedef struct pl_restored {
    pl_roster freed;  /* blocks that the restore ended */
    pl_roster live;   /* blocks that the restore made live */
    pleat_devptr odd; /* failure: the address at fault */
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

/* The block at the cursor; NULL at the end. */
static inline pl_roster_block *pl_roster_at(const pl_roster_cursor *cursor)
{
    return cursor->page != NULL ? &cursor->page->block[cursor->i] : NULL;
}

/* The cursor must be at a block. */
static inline void pl_roster_next(pl_roster_cursor *cursor)
{
    if (++cursor->i == cursor->page->n) {
        *cursor = (pl_roster_cursor){ .page = cursor->page->next };
    }
}

#endif
