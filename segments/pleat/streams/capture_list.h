/* capture_list.h - lists of captures: see capture.h. */
#ifndef PLEAT_SEGMENTS_CAPTURE_LIST_H
#define PLEAT_SEGMENTS_CAPTURE_LIST_H

#include "segments/pleat/streams/capture.h"

/* *first is the head of the list. */
void pl_capture_enlist(pl_capture **first, pl_capture *capture, pl_capture_list list);
void pl_capture_delist(pl_capture **first, pl_capture *capture, pl_capture_list list);

/* The head of the chain for captures with this id. */
pl_capture **pl_capture_head_of(pl_space *space, uint64_t id);
/* The capture with this id. NULL: none, or the id is 0. */
pl_capture *pl_capture_find(pl_space *space, uint64_t id);

/* Note that a stream with the handle took part in the capture. PLEAT_OK or ENOMEM_HOST. */
pleat_status pl_capture_take_part(pl_space *space, pl_capture *capture, void *handle);
/* Forget which streams took part: the owner has released the capture, or need not any more. */
void pl_capture_forget_parts(pl_space *space, pl_capture *capture);
/* The stream's oldest capture that is not released or disowned; NULL = none. */
pl_capture *pl_capture_find_of_stream(pl_space *space, const void *handle);

#endif
