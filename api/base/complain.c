/* complain.c - the one place of the library that writes to standard error. */
#include "api/base/complain.h"

#include <stdatomic.h>
#include <stdio.h>

#include "api/base/error.h"
#include "vmm/base/cancel.h"

static _Atomic unsigned said; /* atomic: one bit for each kind */

bool pl_complain_is_over(void)
{
    enum { DEINITIALIZED = 4, CONTEXT_IS_DESTROYED = 709 }; /* the driver's results after its end */
    const pleat_error *error = pleat_last_error();
    return error->status == PLEAT_EFORKED || error->status == PLEAT_EGONE ||
           error->driver_result == DEINITIALIZED || error->driver_result == CONTEXT_IS_DESTROYED;
}

void pl_complain_once(pl_complaint kind, const char *what)
{
    unsigned bit = 1U << kind;
    if (!pl_complain_is_over() && (atomic_fetch_or(&said, bit) & bit) == 0) {
        int cancel = pl_cancel_off();
        fprintf(stderr, "pleat: %s: %s\n", what, pleat_last_error()->text);
        pl_cancel_restore(cancel);
    }
}

void pl_complain_of_free(void)
{
    switch (pl_error_status()) {
    case PLEAT_EFOREIGN:
        pl_complain_once(PL_COMPLAINT_FOREIGN, "a free is ignored");
        break;
    case PLEAT_EDOUBLEFREE:
        pl_complain_once(PL_COMPLAINT_DOUBLE_FREE, "a second free is ignored");
        break;
    default:
        pl_complain_once(PL_COMPLAINT_FREE, "a block could not be freed");
    }
}

void pl_complain_of(const char *what, const char *where, const char *why)
{
    int cancel = pl_cancel_off();
    fprintf(stderr, "pleat: %s: %s: %s\n", what, where, why);
    pl_cancel_restore(cancel);
}
