/* doubt.h - the list of free memory whose uses on several streams may not be over.
 *
 * Free memory outside the list is not pending, so statistics walk only the list. An element may
 * leave at any time. Guarded by the lock of the allocator. */
#ifndef PLEAT_SEGMENTS_CLASSIC_DOUBT_H
#define PLEAT_SEGMENTS_CLASSIC_DOUBT_H

#include <stddef.h>

typedef struct pl_doubt {
    struct pl_doubt *next;
    struct pl_doubt **link; /* the pointer to this entry; NULL = in no list */
} pl_doubt;

#define PL_DOUBT_ENTRY(doubt, type, member)                                                        \
    ((type *)(void *)((char *)(doubt)-offsetof(type, member)))

static inline void pl_doubt_add(pl_doubt **list, pl_doubt *doubt)
{
    doubt->next = *list;
    doubt->link = list;
    if (doubt->next) {
        doubt->next->link = &doubt->next;
    }
    *list = doubt;
}

static inline void pl_doubt_remove(pl_doubt *doubt)
{
    if (!doubt->link) {
        return;
    }
    *doubt->link = doubt->next;
    if (doubt->next) {
        doubt->next->link = doubt->link;
    }
    doubt->link = NULL;
}

#endif
