/* replace.h - replaces a file by a new one once the new file is complete.
 *
 * A path's symbolic links are followed: the file at their end is replaced. That file may be
 * missing, so the last link may dangle. The new file has the mode of the old file, and its owner
 * and group if the caller may give files away. A pipe or device is written to directly. Other hard
 * links keep the old file. Nothing is forced to the disk. */
#ifndef PLEAT_API_REPLACE_H
#define PLEAT_API_REPLACE_H

#include <limits.h>
#include <stdbool.h>

typedef struct pl_replace {
    char target[PATH_MAX];  /* `path` with its links resolved */
    char written[PATH_MAX]; /* beside the target; empty = the target itself, or closed */
    int descriptor;         /* the caller writes to it and closes it */
} pl_replace;

/* Returns 0, or an errno; then nothing is held. */
int pl_replace_open(pl_replace *file, const char *path);
/* Call after closing the descriptor: renames a whole file into place, or removes it. Returns 0 or
 * an errno; 0 if the target itself was written to. */
int pl_replace_end(pl_replace *file, bool is_whole);

#endif
