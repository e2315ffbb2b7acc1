/* status.h - the texts of pleat_status, from the one list in pleat_types.h. */
#ifndef PLEAT_BASE_STATUS_H
#define PLEAT_BASE_STATUS_H

#include "vmm/base/pleat_types.h"

const char *pl_status_text(pleat_status status); /* "invalid argument"; "unknown status" */

#endif
