/* roster.c - see roster.h. Guarded by the allocator's lock while the roster changes. */
#include "segments/base/roster.h"

pl_roster_block *pl_roster_add(pl_roster *roster, pl_meta *meta)
{
    pl_roster_page *page = roster->last;

    if (page == NULL || page->n == PL_ROSTER_PAGE) {
        page = pl_meta_alloc(meta, sizeof *page);
        if (page == NULL) {
            return NULL;
        }
        page->next = NULL;
        page->n = 0;
        *(roster->last != NULL ? &roster->last->next : &roster->first) = page;
        roster->last = page;
    }
    roster->n++;
    page->block[page->n] = (pl_roster_block){ 0 };
    return &page->block[page->n++];
}

bool pl_roster_drop_page(pl_roster *roster, pl_meta *meta)
{
    pl_roster_page *page = roster->first;

    if (page == NULL) {
        return false;
    }
    roster->n -= page->n;
    roster->first = page->next;
    roster->last = page->next != NULL ? roster->last : NULL;
    pl_meta_free(meta, page);
    return true;
}
