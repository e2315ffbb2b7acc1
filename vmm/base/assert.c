/* assert.c - the one home of abort(): a broken assertion of a debug build ends the process.
 *
 * It is empty in release builds. */
#include "vmm/base/assert.h"

#if PLEAT_DEBUG_LEVEL >= 1

#include <stdio.h>
#include <stdlib.h>

_Noreturn void pl_assert_failed(const char *what, const char *file, int line)
{
    fprintf(stderr, "pleat: %s:%d: broken assertion: %s\n", file, line, what);
    abort();
}

#endif
