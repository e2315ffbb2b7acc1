/* complain.h - what adapters say where no error can be returned.
 *
 * A framework's free is void, and nobody asks pleat_last_error after it. The first complaint of
 * each kind is a line on standard error; later ones would be noise in a loop, and are not. */
#ifndef PLEAT_ADAPTERS_COMPLAIN_H
#define PLEAT_ADAPTERS_COMPLAIN_H

#include "api/pleat.h"

typedef enum pl_complaint {
    PL_COMPLAINT_FOREIGN,     /* a free of what is no block */
    PL_COMPLAINT_DOUBLE_FREE, /* of what was freed before */
    PL_COMPLAINT_FREE,        /* a free that failed otherwise */
    PL_COMPLAINT_RECORD,
    PL_COMPLAINT_INIT,
    PL_COMPLAINT_RESET,
    PL_COMPLAINT_FRACTION,
    PL_COMPLAINT_POOL,
    PL_N_COMPLAINTS
} pl_complaint;

/* Say "pleat: WHAT: the last error's text" if it is the first complaint of its kind. What failed
 * since the driver is gone or after fork is not worth a word: every exit would be full of it. */
void pl_complain_once(pl_complaint kind, const char *what);

/* Is the last failure of this thread one that only says that everything is over: the driver has
 * shut down, the instance is destroyed, or this is a forked child? */
bool pl_complain_is_over(void);

#endif
