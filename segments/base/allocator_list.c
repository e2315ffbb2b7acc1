/* allocator_list.c - the list as an array. It is a file of its own so that a test may link a longer
 * list in its place. */
#include "segments/base/allocator.h"

const pl_allocator_ops *const pl_allocators[] = { PL_ALLOCATOR_LIST(PL_ALLOCATOR_ADDRESS) NULL };
