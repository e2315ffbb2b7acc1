/* capture_list.h - the lists by which captures are found: see capture.h. */
#ifndef PLEAT_SEGMENTS_CAPTURE_LIST_H
#define PLEAT_SEGMENTS_CAPTURE_LIST_H

#include "segments/pleat/capture.h"

/* *first is the head of such a list. */
void pl_capture_enlist(pl_capture **first, pl_capture *capture, pl_capture_list list);
void pl_capture_delist(pl_capture **first, pl_capture *capture, pl_capture_list list);

/* Where those with such an id begin. */
pl_capture **pl_capture_head_of(pl_space *space, uint64_t id);
/* NULL if none has it, or the id is 0. */
pl_capture *pl_capture_find(pl_space *space, uint64_t id);

/* The stream with that handle took part in it. PLEAT_OK or ENOMEM_HOST. */
pleat_status pl_capture_take_part(pl_space *space, pl_capture *capture, void *handle);
/* Its owner has said, or need not say any more, that it is gone. */
void pl_capture_forget_parts(pl_space *space, pl_capture *capture);
/* The oldest that is not released, of those in which the stream took part; NULL: none is. */
pl_capture *pl_capture_find_of_stream(pl_space *space, const void *handle);

#endif
