/* replace.h - a file that takes the place of another once it is whole.
 *
 * What is replaced is the file behind the path's symbolic links, which may be missing: the last of
 * them may dangle. The new file has the mode of the old one, and its owner and group where the
 * system lets the caller give files away. What is no plain file (a pipe, a device) is written to.
 * Other hard links keep the old file. Nothing is forced to the disk. */
#ifndef PLEAT_API_REPLACE_H
#define PLEAT_API_REPLACE_H

#include <limits.h>
#include <stdbool.h>

typedef struct pl_replace {
    char target[PATH_MAX];  /* `path` behind its links */
    char written[PATH_MAX]; /* beside the target; empty = it is written to itself, or all is over */
    int descriptor;         /* to be written to and closed by the caller */
} pl_replace;

/* 0, or an errno and nothing is held. */
int pl_replace_open(pl_replace *file, const char *path);
/* Put it in its place if it is whole and nothing refuses that, else take it away. After the
 * descriptor was closed. 0, or an errno; 0 too for what is written to itself. */
int pl_replace_end(pl_replace *file, bool is_whole);

#endif
