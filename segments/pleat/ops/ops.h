/* ops.h - operations of the pleat allocator: members of pl_pleat_ops (ops.c), and of its tables for
 * buffers and tags.
 *
 * segments/base/allocator.h has what each promises. A call about a space takes its lock, rank
 * 20. */
#ifndef PLEAT_SEGMENTS_PLEAT_OPS_H
#define PLEAT_SEGMENTS_PLEAT_OPS_H

#include "segments/base/allocator.h"

/* lifecycle.c, free_op.c, look_ops.c, share_op.c, buffer_ops.c */
pleat_status pl_pleat_create(pl_device *dev, const pl_allocator_options *options,
                             pl_allocator **out);
pleat_status pl_pleat_destroy(pl_allocator *a, bool force, size_t *n_live, size_t *n_leaked);
pleat_status pl_pleat_free(pl_allocator *a, pleat_devptr ptr, pl_stream *stream);
pleat_status pl_pleat_free_asked(pl_allocator *a, pleat_devptr ptr, pl_stream *stream,
                                 const pl_capture_info *asked);
pleat_status pl_pleat_free_own(pl_allocator *a, pleat_devptr ptr);
pleat_status pl_pleat_record_stream(pl_allocator *a, pleat_devptr ptr, pl_stream *stream);
pleat_status pl_pleat_query(pl_allocator *a, pleat_devptr ptr, pleat_block_info *out);
int pl_pleat_check(pl_allocator *a);
void pl_pleat_stats(pl_allocator *a, pleat_stats *out);
void pl_pleat_reset_peaks(pl_allocator *a);
void pl_pleat_visit(pl_allocator *a, void (*see)(void *context, const pl_piece *piece),
                    void *context);
bool pl_pleat_visit_some(pl_allocator *a, pleat_devptr *from,
                         void (*see)(void *context, const pl_piece *piece), void *context);
void pl_pleat_set_rounding(pl_allocator *a, const unsigned divisions[PL_N_DIVISIONS]);
pleat_status pl_pleat_share(pl_allocator *a, pleat_devptr ptr, uint64_t bytes, pl_share_list *out);
pleat_status pl_pleat_heap_share(pl_allocator *a, pl_keeper *heap, pl_share_list *out);
pleat_status pl_pleat_buffer_open(pl_allocator *a, pl_keeper *heap, size_t most_bytes,
                                  size_t page_bytes, size_t align_bytes, pleat_devptr *out);
pleat_status pl_pleat_buffer_change(pl_allocator *a, const pl_buffer_change *change,
                                    pl_stream *stream);
pleat_status pl_pleat_buffer_query(pl_allocator *a, pleat_devptr ptr, pleat_buffer_info *out);

#endif
