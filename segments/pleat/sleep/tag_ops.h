/* tag_ops.h - operations on heaps: members of pl_tag_ops.
 *
 * segments/base/allocator.h has what each promises. Each takes the space's lock, rank 20. */
#ifndef PLEAT_SEGMENTS_TAG_OPS_H
#define PLEAT_SEGMENTS_TAG_OPS_H

#include "segments/base/allocator.h"

/* heap.c, sleep.c, wake.c, kept.c */
pleat_status pl_pleat_heap_open(pl_allocator *a, const char *tag, pl_keeper **out);
void pl_pleat_heap_set_limit(pl_allocator *a, pl_keeper *heap, uint64_t bytes);
void pl_pleat_heap_read(pl_allocator *a, pl_keeper *heap, pl_heap_figures *out);
pleat_status pl_pleat_heap_sleep(pl_allocator *a, pl_keeper *heap, const pl_sleep_how *how,
                                 pl_slept *out);
pleat_status pl_pleat_heap_wake(pl_allocator *a, pl_keeper *heap, uint64_t most_bytes,
                                pl_slept *out);
void pl_pleat_heap_retain(pl_allocator *a, pl_keeper *heap, bool is_retained);
pleat_status pl_pleat_heap_kept(pl_allocator *a, pleat_devptr ptr, size_t bytes, void *to,
                                void **at);

#endif
