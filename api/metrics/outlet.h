/* outlet.h - the file of metrics: place, owner and replacement.
 *
 * A page is written to a file beside the old page, and then renamed: a reader sees a whole page.
 * The writer keeps the file open with a lock (fcntl). So a process with the same path, even a
 * forked child, sees the lock and leaves the file alone. The system ends the lock with the process.
 * A program may read its own file without ending the lock. */
#ifndef PLEAT_API_METRICS_OUTLET_H
#define PLEAT_API_METRICS_OUTLET_H

#include <stdatomic.h>
#include <sys/types.h>

#include "vmm/base/pleat_types.h"

enum { PL_OUTLET_BYTES = 1024 };

typedef struct pl_outlet {
    char path[PL_OUTLET_BYTES];
    bool is_private;        /* nobody but the user may read it */
    _Atomic int descriptor; /* of the last page that got the name; -1 = none. Always open: a fork
                             * may come at any time, and the child closes it */
    dev_t dev;              /* of the file of `descriptor` */
    ino_t ino;
} pl_outlet;

/* Find the place of `metrics`, the option's value: %p is the process, %% a %, `auto` a path that
 * the command `pleat top PID` finds, in `folder` (NULL = /tmp). 0 or an errno. */
int pl_outlet_init(pl_outlet *outlet, const char *metrics, const char *folder);

/** Replace the file by `n` bytes of text.
 *
 *  Params   owner [out] EBUSY: the process that writes the file; 0 = unknown.
 *  Returns  0; EBUSY (another process writes this file); EEXIST (the path is no regular file);
 *           ENOTEMPTY (the file is not a page); an errno of the failed call.
 *  Failure  the file is as before. */
int pl_outlet_write(pl_outlet *outlet, const char *text, size_t n, long *owner);

/* In a forked child: close the parent's file, whose lock would live as long as the child. */
void pl_outlet_forget(pl_outlet *outlet);
/* Close the file. With `removes` unlink the file, too, if this process still owns it. */
void pl_outlet_fini(pl_outlet *outlet, bool removes);

#endif
