/* sized.h - structs of the caller's that grow with versions of the library.
 *
 * The caller passes the size of its version of the struct. A shorter struct is filled as far as it
 * reaches; the rest of a longer struct is zero. So the program or the library may be older. An
 * impossible size is refused before anything is written, above all the size of a pointer. */
#ifndef PLEAT_API_SIZED_H
#define PLEAT_API_SIZED_H

#include "api/base/error.h"

typedef struct pl_sized {
    const char *call;   /* the public function, for the text */
    const char *type;   /* the struct's name */
    size_t first_bytes; /* of the struct's first version */
    size_t own_bytes;   /* of this library's */
} pl_sized;

/* `last`: the last member of the struct's first version. */
#define PL_SIZED(function, type, last)                                                             \
    {                                                                                              \
        (function), #type, (offsetof(type, last) + sizeof(((type *)0)->last) + 7) / 8 * 8,         \
            sizeof(type)                                                                           \
    }

/* All structs that grow. */
#define PL_SIZED_STATS PL_SIZED("pleat_device_stats", pleat_stats, n_undo_failures)
#define PL_SIZED_DEVICE_INFO PL_SIZED("pleat_device_query", pleat_device_info, limit_bytes)
#define PL_SIZED_BLOCK_INFO PL_SIZED("pleat_block_query", pleat_block_info, device)
#define PL_SIZED_COMPACTION PL_SIZED("pleat_device_compact", pleat_compaction, won_bytes)

#define PL_SIZED_SLEPT PL_SIZED("pleat_tag_sleep", pleat_slept, left_bytes)
#define PL_SIZED_TAG_INFO PL_SIZED("pleat_tag_query", pleat_tag_info, is_asleep)

/* Check that `bytes` may be written at `out`. PLEAT_OK, or EINVAL with a text that says what to
 * do. */
pleat_status pl_sized_check(const pl_sized *kind, size_t bytes, const void *out);
/* Write as much as the caller has room for; `own` has kind->own_bytes. */
void pl_sized_write(const pl_sized *kind, const void *own, size_t bytes, void *out);

#endif
