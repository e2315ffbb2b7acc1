/* api_first_versions.c - see api_first_versions.h. */
#define PLEAT_FIRST_VERSIONS
#include "tests/support/api/api_first_versions.h"

/* The prototypes of programs that look the calls up by name. */
pleat_status pleat_device_stats(pleat instance, int device, pleat_stats *out);
pleat_status pleat_device_query(pleat instance, int device, pleat_device_info *out);
pleat_status pleat_block_query(pleat instance, int device, pleat_devptr ptr, pleat_block_info *out);
pleat_status pleat_device_compact(pleat instance, int device, pleat_compaction *out);

pleat_status api_first_stats(pleat instance, pleat_stats *out)
{
    return pleat_device_stats(instance, 0, out);
}

pleat_status api_first_device(pleat instance, pleat_device_info *out)
{
    return pleat_device_query(instance, 0, out);
}

pleat_status api_first_query(pleat instance, pleat_devptr ptr, pleat_block_info *out)
{
    return pleat_block_query(instance, 0, ptr, out);
}

pleat_status api_first_compact(pleat instance, pleat_compaction *out)
{
    return pleat_device_compact(instance, 0, out);
}
