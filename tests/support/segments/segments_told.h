/* segments_told.h - an observer that replays the told events and compares the result with a
 * visit. */
#ifndef PLEAT_TESTS_SEGMENTS_TOLD_H
#define PLEAT_TESTS_SEGMENTS_TOLD_H

#include "segments/base/allocator.h"

/* Forget everything; returns the observer for a new allocator. */
pl_observer *told_open(void);
/* The told events, replayed from empty, must give the state of a visit exactly: the resident runs,
 * the live blocks and the uncompleted frees. */
void told_assert_agrees(pl_allocator *a);
size_t told_count(pl_action action); /* since told_open */

#endif
