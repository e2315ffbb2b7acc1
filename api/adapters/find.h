/* find.h - the block that an address lies in, for hosts that do not say on which device. */
#ifndef PLEAT_ADAPTERS_FIND_H
#define PLEAT_ADAPTERS_FIND_H

#include "api/pleat.h"

/* The live block of any device of the instance that `ptr` lies in. Returns OK; EFOREIGN, which is
 * not made the last error, since half of the callers expect it; what entering an instance returns.
 * Opens no device. */
pleat_status pl_find_block(pleat handle, const void *ptr, pleat_block_info *out);

#endif
