/* first_versions.c - calls that write structs as version 0.1 has them.
 *
 * Programs that look a function up by name cannot pass the size of their struct. Programs in C and
 * C++ use the inline functions of pleat.h instead. */
#define PLEAT_FIRST_VERSIONS
#include "api/base/sized.h"

PLEAT_API pleat_status pleat_device_stats(pleat instance, int device, pleat_stats *out);
PLEAT_API pleat_status pleat_device_query(pleat instance, int device, pleat_device_info *out);
PLEAT_API pleat_status pleat_block_query(pleat instance, int device, pleat_devptr ptr,
                                         pleat_block_info *out);
PLEAT_API pleat_status pleat_device_compact(pleat instance, int device, pleat_compaction *out);

pleat_status pleat_device_stats(pleat instance, int device, pleat_stats *out)
{
    static const pl_sized kind = PL_SIZED_STATS;
    return pleat_device_stats_sized(instance, device, kind.first_bytes, out);
}

pleat_status pleat_device_query(pleat instance, int device, pleat_device_info *out)
{
    static const pl_sized kind = PL_SIZED_DEVICE_INFO;
    return pleat_device_query_sized(instance, device, kind.first_bytes, out);
}

pleat_status pleat_block_query(pleat instance, int device, pleat_devptr ptr, pleat_block_info *out)
{
    static const pl_sized kind = PL_SIZED_BLOCK_INFO;
    return pleat_block_query_sized(instance, device, ptr, kind.first_bytes, out);
}

pleat_status pleat_device_compact(pleat instance, int device, pleat_compaction *out)
{
    static const pl_sized kind = PL_SIZED_COMPACTION;
    return pleat_device_compact_sized(instance, device, kind.first_bytes, out);
}
