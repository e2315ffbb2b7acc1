/* ops.h - the operations of the pleat allocator: members of pl_pleat_ops (ops/ops.c).
 *
 * segments/base/allocator.h has what each promises. A call about a space takes its lock, rank 20.
 * The sections name the folders and files. */
#ifndef PLEAT_SEGMENTS_PLEAT_SPACE_OPS_H
#define PLEAT_SEGMENTS_PLEAT_SPACE_OPS_H

#include "segments/base/allocator.h"

/* ops: lifecycle.c, free_op.c, look_ops.c, share_op.c, buffer_ops.c */
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
pleat_status pl_pleat_heap_share(pl_allocator *a, pl_private *heap, pl_share_list *out);
pleat_status pl_pleat_buffer_open(pl_allocator *a, pl_private *heap, size_t most_bytes,
                                  size_t page_bytes, size_t align_bytes, pleat_devptr *out);
pleat_status pl_pleat_buffer_change(pl_allocator *a, const pl_buffer_change *change,
                                    pl_stream *stream);
pleat_status pl_pleat_buffer_query(pl_allocator *a, pleat_devptr ptr, pleat_buffer_info *out);

/* streams: owner_ops.c */
void pl_pleat_retire_stream(pl_allocator *a, pl_stream *stream);
void pl_pleat_doubt_stream(pl_allocator *a, pl_stream *stream);
pleat_status pl_pleat_release_capture_of(pl_allocator *a, void *handle);
void pl_pleat_let_captures_go(pl_allocator *a);
void pl_pleat_expect_captures(pl_allocator *a, bool is_expected);

/* grow: trim.c; compact: compact.c */
pleat_status pl_pleat_trim(pl_allocator *a, uint64_t keep_bytes, bool wait, uint64_t *released);
pleat_status pl_pleat_set_limit(pl_allocator *a, uint64_t bytes);
pleat_status pl_pleat_compact(pl_allocator *a, size_t request, bool is_observed,
                              pleat_compaction *out);
void pl_pleat_count_tied(pl_allocator *a, pl_tied *out);

/* pools: private_ops.c, checkpoint.c, restore.c */
pleat_status pl_pleat_private_open(pl_allocator *a, pl_private **out);
void pl_pleat_private_rest(pl_allocator *a, pl_private *pool);
void pl_pleat_private_release(pl_allocator *a, pl_private *pool);
uint64_t pl_pleat_private_gone(pl_allocator *a, pl_private *pool);
void pl_pleat_private_reserved(pl_allocator *a, pl_private *pool, pleat_stat out[PLEAT_N_SIZES]);
pleat_status pl_pleat_private_save(pl_allocator *a, pl_private *pool, pl_roster *out);
void pl_pleat_roster_drop(pl_allocator *a, pl_roster *roster);
pleat_status pl_pleat_private_restore(pl_allocator *a, pl_private *pool, const pl_roster *saved,
                                      bool is_settled, pl_restored *out);
pleat_status pl_pleat_private_alloc_at(pl_allocator *a, pl_private *pool, pleat_devptr base,
                                       size_t bytes, pl_stream *stream);

/* sleep: sleep.c, wake.c, kept.c */
pleat_status pl_pleat_heap_open(pl_allocator *a, const char *tag, pl_private **out);
void pl_pleat_heap_set_limit(pl_allocator *a, pl_private *heap, uint64_t bytes);
void pl_pleat_heap_read(pl_allocator *a, pl_private *heap, pl_heap_figures *out);
pleat_status pl_pleat_heap_sleep(pl_allocator *a, pl_private *heap, const pl_sleep_how *how,
                                 pl_slept *out);
pleat_status pl_pleat_heap_wake(pl_allocator *a, pl_private *heap, uint64_t most_bytes,
                                pl_slept *out);
void pl_pleat_heap_retain(pl_allocator *a, pl_private *heap, bool is_retained);
pleat_status pl_pleat_heap_kept(pl_allocator *a, pleat_devptr ptr, size_t bytes, void *to,
                                void **at);

#endif
