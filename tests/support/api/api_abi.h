/* api_abi.h - the binary interface of compiled programs: numbers, sizes and offsets that never
 * change.
 *
 * All are literals, so that any change shows. A struct with a size given by the caller may get
 * members at its end. The members listed here keep their places. VALUE(constant, number),
 * SIZE(type, bytes) and AT(type, member, offset) are the arguments of the lists, for C and C++.
 * LP64. */
#ifndef PLEAT_TESTS_API_ABI_H
#define PLEAT_TESTS_API_ABI_H

#include "pleat.h"

/* clang-format off */
#define API_ABI_VALUES(VALUE) \
    VALUE(PLEAT_OK, 0) \
    VALUE(PLEAT_EINVAL, 1) \
    VALUE(PLEAT_ESIZE, 2) \
    VALUE(PLEAT_ECONF, 3) \
    VALUE(PLEAT_EDEVICE, 4) \
    VALUE(PLEAT_ESTREAM, 5) \
    VALUE(PLEAT_EFOREIGN, 6) \
    VALUE(PLEAT_EDOUBLEFREE, 7) \
    VALUE(PLEAT_EGONE, 8) \
    VALUE(PLEAT_EFORKED, 9) \
    VALUE(PLEAT_EBUSY, 10) \
    VALUE(PLEAT_EPENDING, 11) \
    VALUE(PLEAT_ENOMEM_HOST, 12) \
    VALUE(PLEAT_ENOMEM_DEVICE, 13) \
    VALUE(PLEAT_ENOSPACE_VA, 14) \
    VALUE(PLEAT_EDRIVER, 15) \
    VALUE(PLEAT_ENODRIVER, 16) \
    VALUE(PLEAT_ENOVMM, 17) \
    VALUE(PLEAT_EPOISONED, 18) \
    VALUE(PLEAT_ECAPTURE, 19) \
    VALUE(PLEAT_ENOTSUP, 20) \
    VALUE(PLEAT_EPOOL, 21) \
    VALUE(PLEAT_EWRITE, 22) \
    VALUE(PLEAT_ESHARE, 23) \
    VALUE(PLEAT_EASLEEP, 24) \
    VALUE(PLEAT_SLEEP_DISCARD, 0) \
    VALUE(PLEAT_SLEEP_HOST, 1) \
    VALUE(PLEAT_SLEEP_FILE, 2) \
    VALUE(PLEAT_VERDICT_NONE, 0) \
    VALUE(PLEAT_VERDICT_FULL, 1) \
    VALUE(PLEAT_VERDICT_LIMIT, 2) \
    VALUE(PLEAT_VERDICT_FOREIGN, 3) \
    VALUE(PLEAT_VERDICT_PENDING, 4) \
    VALUE(PLEAT_VERDICT_PINNED, 5) \
    VALUE(PLEAT_VERDICT_FRAGMENTED, 6) \
    VALUE(PLEAT_VERDICT_ADDRESS_SPACE, 7) \
    VALUE(PLEAT_VERDICT_TIED, 8) \
    VALUE(PLEAT_VERDICT_REFUSED, 9) \
    VALUE(PLEAT_SIZES_ALL, 0) \
    VALUE(PLEAT_SIZES_SMALL, 1) \
    VALUE(PLEAT_SIZES_LARGE, 2) \
    VALUE(PLEAT_N_SIZES, 3) \
    VALUE(PLEAT_DESTROY_FORCE, 1) \
    VALUE(PLEAT_HISTORY_FRAMES, 1) \
    VALUE(PLEAT_HISTORY_FREE_FRAMES, 2) \
    VALUE(PLEAT_HISTORY_KEEP, 4) \
    VALUE(PLEAT_SNAPSHOT_PICKLE, 0) \
    VALUE(PLEAT_SNAPSHOT_JSON, 1) \
    VALUE(PLEAT_RESTORED_FREED, 0) \
    VALUE(PLEAT_RESTORED_KEPT, 1) \
    VALUE(PLEAT_RESTORED_MADE, 2) \
    VALUE(PLEAT_RESTORE_SETTLED, 1) \
    VALUE(PLEAT_MAPPING_EXPORTABLE, 1) \
    VALUE(PLEAT_MAPPING_RDMA, 2) \
    VALUE(PLEAT_MAPPING_OPENED, 4) \
    VALUE(PLEAT_MAPPING_COME, 0) \
    VALUE(PLEAT_MAPPING_GO, 1) \
    VALUE(PLEAT_CHANGE_ALLOC, 0) \
    VALUE(PLEAT_CHANGE_FREE_REQUESTED, 1) \
    VALUE(PLEAT_CHANGE_FREE_COMPLETED, 2) \
    VALUE(PLEAT_CHANGE_SEGMENT_ALLOC, 3) \
    VALUE(PLEAT_CHANGE_SEGMENT_FREE, 4) \
    VALUE(PLEAT_CHANGE_SEGMENT_MAP, 5) \
    VALUE(PLEAT_CHANGE_SEGMENT_UNMAP, 6) \
    VALUE(PLEAT_CHANGE_SNAPSHOT, 7) \
    VALUE(PLEAT_CHANGE_OOM, 8) \
    VALUE(PLEAT_PIECE_LIVE, 0) \
    VALUE(PLEAT_PIECE_AWAITED, 1) \
    VALUE(PLEAT_PIECE_FREE, 2) \
    VALUE(PLEAT_SHARE_SERVE, 1) \
    VALUE(PLEAT_TAG_BYTES, 64) \
    VALUE(PLEAT_MOST_TAGS, 64) \
    VALUE(PLEAT_MOST_SCOPES, 64) \
    VALUE(PLEAT_ERROR_ROOM, 256)

#define API_ABI_PLACES(SIZE, AT) \
    SIZE(pleat_checkpoint, 8) \
    AT(pleat_checkpoint, number, 0) \
    SIZE(pleat_pool_block, 32) \
    AT(pleat_pool_block, base, 0) \
    AT(pleat_pool_block, bytes, 8) \
    AT(pleat_pool_block, requested_bytes, 16) \
    AT(pleat_pool_block, stream, 24) \
    SIZE(pleat, 8) \
    AT(pleat, slot, 0) \
    AT(pleat, generation, 4) \
    SIZE(pleat_stat, 32) \
    AT(pleat_stat, current, 0) \
    AT(pleat_stat, peak, 8) \
    AT(pleat_stat, allocated, 16) \
    AT(pleat_stat, freed, 24) \
    SIZE(pleat_stats, 1168) \
    AT(pleat_stats, allocation, 0) \
    AT(pleat_stats, segment, 96) \
    AT(pleat_stats, active, 192) \
    AT(pleat_stats, inactive_split, 288) \
    AT(pleat_stats, allocated_bytes, 384) \
    AT(pleat_stats, reserved_bytes, 480) \
    AT(pleat_stats, active_bytes, 576) \
    AT(pleat_stats, inactive_split_bytes, 672) \
    AT(pleat_stats, requested_bytes, 768) \
    AT(pleat_stats, oversize_allocations, 864) \
    AT(pleat_stats, oversize_segments, 896) \
    AT(pleat_stats, num_alloc_retries, 928) \
    AT(pleat_stats, num_ooms, 936) \
    AT(pleat_stats, num_sync_all_streams, 944) \
    AT(pleat_stats, num_device_alloc, 952) \
    AT(pleat_stats, num_device_free, 960) \
    AT(pleat_stats, granule_bytes, 968) \
    AT(pleat_stats, resident_bytes, 976) \
    AT(pleat_stats, live_granules, 984) \
    AT(pleat_stats, peak_live_granules, 992) \
    AT(pleat_stats, pinned_granules, 1000) \
    AT(pleat_stats, free_bytes, 1008) \
    AT(pleat_stats, pending_bytes, 1016) \
    AT(pleat_stats, idle_bytes, 1024) \
    AT(pleat_stats, rounding_bytes, 1032) \
    AT(pleat_stats, stale_bytes, 1040) \
    AT(pleat_stats, address_bytes, 1048) \
    AT(pleat_stats, metadata_bytes, 1056) \
    AT(pleat_stats, ops_map, 1064) \
    AT(pleat_stats, ops_unmap, 1072) \
    AT(pleat_stats, ops_alloc, 1080) \
    AT(pleat_stats, ops_free, 1088) \
    AT(pleat_stats, bytes_created, 1096) \
    AT(pleat_stats, bytes_mapped, 1104) \
    AT(pleat_stats, n_taken_granules, 1112) \
    AT(pleat_stats, host_syncs, 1120) \
    AT(pleat_stats, stream_waits, 1128) \
    AT(pleat_stats, n_driver_calls, 1136) \
    AT(pleat_stats, driver_ns, 1144) \
    AT(pleat_stats, n_undo_failures, 1152) \
    AT(pleat_stats, tied_granules, 1160) \
    SIZE(pleat_block_info, 64) \
    AT(pleat_block_info, base, 0) \
    AT(pleat_block_info, bytes, 8) \
    AT(pleat_block_info, requested_bytes, 16) \
    AT(pleat_block_info, stream_id, 24) \
    AT(pleat_block_info, stream, 32) \
    AT(pleat_block_info, device, 40) \
    AT(pleat_block_info, tag, 48) \
    AT(pleat_block_info, is_asleep, 56) \
    SIZE(pleat_mapping, 40) \
    AT(pleat_mapping, base, 0) \
    AT(pleat_mapping, bytes, 8) \
    AT(pleat_mapping, offset, 16) \
    AT(pleat_mapping, used_bytes, 24) \
    AT(pleat_mapping, flags, 32) \
    AT(pleat_mapping, reserved, 36) \
    SIZE(pleat_buffer_info, 72) \
    AT(pleat_buffer_info, base, 0) \
    AT(pleat_buffer_info, most_bytes, 8) \
    AT(pleat_buffer_info, bytes, 16) \
    AT(pleat_buffer_info, page_bytes, 24) \
    AT(pleat_buffer_info, committed_bytes, 32) \
    AT(pleat_buffer_info, n_runs, 40) \
    AT(pleat_buffer_info, device, 48) \
    AT(pleat_buffer_info, tag, 56) \
    AT(pleat_buffer_info, is_asleep, 64) \
    SIZE(pleat_slept, 32) \
    AT(pleat_slept, bytes, 0) \
    AT(pleat_slept, shared_bytes, 8) \
    AT(pleat_slept, kept_bytes, 16) \
    AT(pleat_slept, left_bytes, 24) \
    SIZE(pleat_tag_info, 144) \
    AT(pleat_tag_info, blocks, 0) \
    AT(pleat_tag_info, allocated_bytes, 32) \
    AT(pleat_tag_info, requested_bytes, 64) \
    AT(pleat_tag_info, resident_bytes, 96) \
    AT(pleat_tag_info, asleep_bytes, 104) \
    AT(pleat_tag_info, kept_bytes, 112) \
    AT(pleat_tag_info, limit_bytes, 120) \
    AT(pleat_tag_info, n_sleeps, 128) \
    AT(pleat_tag_info, is_asleep, 136) \
    SIZE(pleat_compaction, 24) \
    AT(pleat_compaction, n_split, 0) \
    AT(pleat_compaction, moved_bytes, 8) \
    AT(pleat_compaction, won_bytes, 16) \
    SIZE(pleat_error, 40) \
    AT(pleat_error, status, 0) \
    AT(pleat_error, driver_result, 4) \
    AT(pleat_error, driver_call, 8) \
    AT(pleat_error, bytes, 16) \
    AT(pleat_error, text, 24) \
    AT(pleat_error, verdict, 32) \
    SIZE(pleat_device_info, 56) \
    AT(pleat_device_info, name, 0) \
    AT(pleat_device_info, driver, 8) \
    AT(pleat_device_info, allocator, 16) \
    AT(pleat_device_info, note, 24) \
    AT(pleat_device_info, total_bytes, 32) \
    AT(pleat_device_info, granule_bytes, 40) \
    AT(pleat_device_info, limit_bytes, 48) \
    SIZE(pleat_change, 48) \
    AT(pleat_change, kind, 0) \
    AT(pleat_change, device, 4) \
    AT(pleat_change, base, 8) \
    AT(pleat_change, bytes, 16) \
    AT(pleat_change, stream, 24) \
    AT(pleat_change, pool, 32) \
    SIZE(pleat_piece, 64) \
    AT(pleat_piece, device, 0) \
    AT(pleat_piece, base, 8) \
    AT(pleat_piece, bytes, 16) \
    AT(pleat_piece, requested_bytes, 24) \
    AT(pleat_piece, stream, 32) \
    AT(pleat_piece, pool, 40) \
    AT(pleat_piece, use, 56) \
    AT(pleat_piece, is_first, 60) \
    AT(pleat_piece, is_small, 61) \
    AT(pleat_piece, is_expandable, 62) \
    SIZE(pleat_pool_id, 16) \
    AT(pleat_pool_id, first, 0) \
    AT(pleat_pool_id, second, 8)
/* clang-format on */

#endif
