/* allocator_list.c - the list as an array. In a separate file, so that a test may link a longer
 * list. */
#include "segments/base/allocator.h"

const pl_allocator_ops *const pl_allocators[] = { PL_ALLOCATOR_LIST(PL_ALLOCATOR_ADDRESS) NULL };
