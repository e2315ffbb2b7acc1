/* outlet.h - the file of metrics: where it lies, whose it is, and its replacement.
 *
 * What is written goes to a file beside it, which then gets its name: a reader sees one page or the
 * next. The writer keeps the file open with a lock on it (fcntl), so another process that is given
 * the same path, a forked child included, sees that it is taken and leaves it alone; the system
 * ends the lock with the process. A program that reads its own file does not end it. */
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
    dev_t dev;              /* that file's */
    ino_t ino;
} pl_outlet;

/* Find where `metrics`, the option's value, is: %p is the process, %% a %, `auto` a path that the
 * command `pleat top PID` finds, in `folder` (NULL = /tmp). 0 or an errno. */
int pl_outlet_init(pl_outlet *outlet, const char *metrics, const char *folder);

/** Replace the file by these bytes.
 *
 *  Params   owner [out] EBUSY: the process that writes the file; 0 = it cannot be told.
 *  Returns  0; EBUSY (another process writes this file); EEXIST (it is there and is no regular
 *           file); ENOTEMPTY (it holds something other than a page); an errno of what failed.
 *  Failure  the file is as before. */
int pl_outlet_write(pl_outlet *outlet, const char *text, size_t n, long *owner);

/* In a forked child: close the parent's file, whose lock would live as long as the child. */
void pl_outlet_forget(pl_outlet *outlet);
/* Close it; `removes`: and unlink it, if it is still this process's. */
void pl_outlet_fini(pl_outlet *outlet, bool removes);

#endif
