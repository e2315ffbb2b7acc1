/* segments_told.h - an observer that replays what it is told and compares it with the visit. */
#ifndef PLEAT_TESTS_SEGMENTS_TOLD_H
#define PLEAT_TESTS_SEGMENTS_TOLD_H

#include "segments/base/allocator.h"

/* Forget everything; the observer to give to a new allocator. */
pl_observer *told_open(void);
/* What was told, replayed from nothing, is just what the visit shows: the resident runs, the live
 * blocks and the frees that are not completed. */
void told_assert_agrees(pl_allocator *a);
size_t told_count(pl_action action); /* since told_open */

#endif
