/* allocator_list.c - the list as an array. A separate file, so that a test may link a longer list
 * instead. */
#include "segments/base/allocator.h"

const pl_allocator_ops *const pl_allocators[] = { PL_ALLOCATOR_LIST(PL_ALLOCATOR_ADDRESS) NULL };
