/* frames.h - stacks of the history as lists of frames. Each frame is described once, and written
 * once if the format can recall values. One thread at a time. */
#ifndef PLEAT_API_SNAPSHOT_FRAMES_H
#define PLEAT_API_SNAPSHOT_FRAMES_H

#include "api/parts/history.h"
#include "api/snapshot/writer.h"

/* A table from numbers to numbers; 0 is no key. Without host memory an entry is dropped: then
 * something is written again, never wrongly. */
typedef struct pl_frames_table {
    uint64_t (*rows)[2]; /* key, value; [n_rows], a power of two or 0 */
    size_t n_rows;
    size_t n_used;
} pl_frames_table;

typedef struct pl_frames {
    pl_meta *meta;           /* const */
    pl_frames_table stacks;  /* device and name of a stack -> memo */
    pl_frames_table objects; /* return address -> where its description lies */
} pl_frames;

void pl_frames_init(pl_frames *frames, pl_meta *meta);
void pl_frames_fini(pl_frames *frames);

/* Write the list of frames, innermost first; an empty list for 0 and for a dropped stack. */
void pl_frames_write(pl_frames *frames, pl_writer *w, pl_history *history, int device,
                     uint32_t name);

#endif
