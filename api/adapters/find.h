/* find.h - finds the block that contains an address, for hosts that do not name the device. */
#ifndef PLEAT_ADAPTERS_FIND_H
#define PLEAT_ADAPTERS_FIND_H

#include "api/pleat.h"

/* The live block that contains `ptr`, on any device of the instance. Returns OK; EFOREIGN, without
 * setting the last error, since half of the callers expect it; or the result of entering the
 * instance. Opens no device. */
pleat_status pl_find_block(pleat handle, const void *ptr, pleat_block_info *out);

#endif
