/* api_first_versions.h - calls that write structs as version 0.1 does; on device 0. */
#ifndef TESTS_SUPPORT_API_FIRST_VERSIONS_H
#define TESTS_SUPPORT_API_FIRST_VERSIONS_H

#include "api/pleat.h"

pleat_status api_first_stats(pleat instance, pleat_stats *out);
pleat_status api_first_device(pleat instance, pleat_device_info *out);
pleat_status api_first_query(pleat instance, pleat_devptr ptr, pleat_block_info *out);
pleat_status api_first_compact(pleat instance, pleat_compaction *out);

#endif
