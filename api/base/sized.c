/* sized.c - structs of the caller's that grow with versions of the library. See sized.h. */
#include "api/base/sized.h"

#include <string.h>

/* Longer than any struct will be: a larger number was probably not initialised. */
enum { MOST_BYTES = 16384 };

pleat_status pl_sized_check(const pl_sized *kind, size_t bytes, const void *out)
{
    if (!out) {
        return pl_error_set(PLEAT_EINVAL, 0, "%s: `out` is NULL", kind->call);
    }
    if (bytes >= kind->first_bytes && bytes <= MOST_BYTES && bytes % 8 == 0) {
        return PLEAT_OK;
    }
    return pl_error_set(PLEAT_EINVAL, bytes,
                        "%s: no %s has %llu bytes (here it has %llu); pass sizeof(%s), the size of "
                        "the struct that `out` points to",
                        kind->call, kind->type, (unsigned long long)bytes,
                        (unsigned long long)kind->own_bytes, kind->type);
}

void pl_sized_write(const pl_sized *kind, const void *own, size_t bytes, void *out)
{
    size_t n_known = bytes < kind->own_bytes ? bytes : kind->own_bytes;
    memcpy(out, own, n_known);
    memset((unsigned char *)out + n_known, 0, bytes - n_known);
}
