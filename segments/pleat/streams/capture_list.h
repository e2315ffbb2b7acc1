/* capture_list.h - the lists by which captures are found: see capture.h. */
#ifndef PLEAT_SEGMENTS_CAPTURE_LIST_H
#define PLEAT_SEGMENTS_CAPTURE_LIST_H

#include "segments/pleat/streams/capture.h"

/* *first is the head of the list. */
void pl_capture_enlist(pl_capture **first, pl_capture *capture, pl_capture_list list);
void pl_capture_delist(pl_capture **first, pl_capture *capture, pl_capture_list list);

/* The head of the chain in which captures with that id are. */
pl_capture **pl_capture_head_of(pl_space *space, uint64_t id);
/* The capture with that id; NULL if there is none, or the id is 0. */
pl_capture *pl_capture_find(pl_space *space, uint64_t id);

/* Note that the stream with that handle took part in the capture. PLEAT_OK or ENOMEM_HOST. */
pleat_status pl_capture_take_part(pl_space *space, pl_capture *capture, void *handle);
/* Forget which streams took part: the owner has released the capture, or need not any more. */
void pl_capture_forget_parts(pl_space *space, pl_capture *capture);
/* The oldest capture, not released or disowned, in which the stream took part; NULL = none. */
pl_capture *pl_capture_find_of_stream(pl_space *space, const void *handle);

#endif
