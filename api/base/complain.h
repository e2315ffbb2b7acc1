/* complain.h - messages of adapters that cannot return an error.
 *
 * A framework's free is void, and nobody asks pleat_last_error after it. The first complaint of
 * each kind is a line on standard error; later ones are dropped, since a loop would repeat them. */
#ifndef PLEAT_ADAPTERS_COMPLAIN_H
#define PLEAT_ADAPTERS_COMPLAIN_H

#include "api/pleat.h"

typedef enum pl_complaint {
    PL_COMPLAINT_FOREIGN,     /* a free of an address that is no block */
    PL_COMPLAINT_DOUBLE_FREE, /* a free of a block that was freed before */
    PL_COMPLAINT_FREE,        /* a free that failed for another reason */
    PL_COMPLAINT_RECORD,
    PL_COMPLAINT_INIT,
    PL_COMPLAINT_RESET,
    PL_COMPLAINT_FRACTION,
    PL_COMPLAINT_POOL,
    PL_N_COMPLAINTS
} pl_complaint;

/* Print "pleat: WHAT: ERROR", with the last error's text, for the first complaint of each kind.
 * Failures after the driver's end or in a forked child are not printed: every exit would be full of
 * them. */
void pl_complain_once(pl_complaint kind, const char *what);

/* Complain once of a failed free, in words for the last error's status. */
void pl_complain_of_free(void);

/* Print "pleat: WHAT: WHERE: WHY". The caller makes sure that no loop repeats the line. */
void pl_complain_of(const char *what, const char *where, const char *why);

/* True if this thread's last failure only means the end of everything: the driver has shut down,
 * the instance is destroyed, or the process is a forked child. */
bool pl_complain_is_over(void);

#endif
