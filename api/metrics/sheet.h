/* sheet.h - the figures of some instances at one moment, for writing without any lock.
 *
 * One list makes metrics, names, types, helps and values. Names are Prometheus' way: base units,
 * and _total for counters. A metric with several entries has a further label in each. sheet.c reads
 * each value from the device's `gpu` and `stats`, or the tag's `figures`. */
#ifndef PLEAT_API_METRICS_SHEET_H
#define PLEAT_API_METRICS_SHEET_H

#include "api/pleat.h"
#include "vmm/base/meta.h"

struct pl_instance;

/* clang-format off */
#define PL_METRIC_LIST(X) \
    X(LIVE, "live_bytes", "gauge", "Bytes in live blocks.", "", \
      stats.allocated_bytes[PLEAT_SIZES_ALL].current) \
    X(RESIDENT, "resident_bytes", "gauge", "Device memory held from the driver.", "", \
      stats.reserved_bytes[PLEAT_SIZES_ALL].current) \
    X(FREE, "free_bytes", "gauge", "Resident, in no live block, and usable at once.", "", \
      stats.free_bytes) \
    X(PENDING, "pending_bytes", "gauge", "Free, but its last use is not known to be over.", "", \
      stats.pending_bytes) \
    X(IDLE, "idle_bytes", "gauge", "Resident, but mapped nowhere.", "", stats.idle_bytes) \
    X(PEAK_LIVE, "peak_live_bytes", "gauge", "Most bytes in live blocks since the peaks were " \
      "reset.", "", stats.allocated_bytes[PLEAT_SIZES_ALL].peak) \
    X(PEAK_RESIDENT, "peak_resident_bytes", "gauge", "Most device memory held since the peaks " \
      "were reset.", "", stats.reserved_bytes[PLEAT_SIZES_ALL].peak) \
    X(LIMIT, "limit_bytes", "gauge", "Most device memory that may be held; left out where there " \
      "is no limit.", "", atomic_load(&gpu->limit_bytes)) \
    X(DEVICE, "device_bytes", "gauge", "Memory of the device.", "", \
      pl_device_total_bytes(gpu->dev)) \
    X(BLOCKS, "blocks", "gauge", "Live blocks.", "", stats.allocation[PLEAT_SIZES_ALL].current) \
    X(ALLOCATIONS, "allocations_total", "counter", "Blocks allocated.", "", \
      stats.allocation[PLEAT_SIZES_ALL].allocated) \
    X(FREES, "frees_total", "counter", "Blocks freed.", "", \
      stats.allocation[PLEAT_SIZES_ALL].freed) \
    X(FAILURES, "failures_total", "counter", "Requests that failed for lack of memory.", "", \
      atomic_load(&gpu->n_ooms)) \
    X(RETRIES, "retries_total", "counter", "Times that cached memory was given back for a " \
      "request.", "", stats.num_alloc_retries) \
    X(OPS_MAP, "device_operations_total", "counter", "Ranges mapped or unmapped, segments " \
      "allocated or freed.", ",operation=\"map\"", stats.ops_map) \
    X(OPS_UNMAP, "device_operations_total", "counter", "", ",operation=\"unmap\"", \
      stats.ops_unmap) \
    X(OPS_ALLOC, "device_operations_total", "counter", "", ",operation=\"alloc\"", \
      stats.ops_alloc) \
    X(OPS_FREE, "device_operations_total", "counter", "", ",operation=\"free\"", stats.ops_free) \
    X(CREATED, "created_bytes_total", "counter", "Device memory taken from the driver.", "", \
      stats.bytes_created) \
    X(MAPPED, "mapped_bytes_total", "counter", "Bytes mapped, again and again.", "", \
      stats.bytes_mapped) \
    X(HOST_SYNCS, "host_syncs_total", "counter", "Times that a call waited for the GPU.", "", \
      stats.host_syncs) \
    X(STREAM_WAITS, "stream_waits_total", "counter", "Ordered waits put into a stream.", "", \
      stats.stream_waits) \
    X(DRIVER_CALLS, "driver_calls_total", "counter", "Calls of the driver.", "", \
      stats.n_driver_calls)

#define PL_TAG_METRIC_LIST(X) \
    X(LIVE, "tag_live_bytes", "gauge", "Bytes in live blocks of the tag.", "", \
      figures.allocated_bytes.current) \
    X(RESIDENT, "tag_resident_bytes", "gauge", "Device memory under the tag's blocks and the " \
      "free memory among them.", "", figures.resident_bytes) \
    X(ASLEEP, "tag_asleep_bytes", "gauge", "Device memory that the tag has given back while it " \
      "sleeps.", "", figures.asleep_bytes) \
    X(LIMIT, "tag_limit_bytes", "gauge", "Most bytes that live blocks of the tag may have; left " \
      "out where there is no limit.", "", figures.limit_bytes)
/* clang-format on */

typedef enum pl_metric {
#define PL_METRIC_ENUM(id, name, type, help, label, value) PL_METRIC_##id,
    PL_METRIC_LIST(PL_METRIC_ENUM)
#undef PL_METRIC_ENUM
        PL_N_METRICS
} pl_metric;

typedef enum pl_tag_metric {
#define PL_METRIC_ENUM(id, name, type, help, label, value) PL_TAG_METRIC_##id,
    PL_TAG_METRIC_LIST(PL_METRIC_ENUM)
#undef PL_METRIC_ENUM
        PL_N_TAG_METRICS
} pl_tag_metric;

typedef struct pl_sheet_device {
    uint32_t instance; /* its slot's number */
    int device;
    const char *allocator; /* static */
    const char *driver;    /* static */
    char gpu[96];
    uint64_t values[PL_N_METRICS];
} pl_sheet_device;

typedef struct pl_sheet_tag {
    size_t of; /* which device of the sheet */
    const char *tag;
    uint64_t values[PL_N_TAG_METRICS];
} pl_sheet_tag;

typedef struct pl_sheet {
    pl_meta *meta; /* the caller's, as is its lock */
    pl_sheet_device *devices;
    size_t n_devices;
    pl_sheet_tag *tags;
    size_t n_tags;
} pl_sheet;

/** Add the open devices of an instance, which the caller keeps from being destroyed.
 *
 *  Returns  PLEAT_OK; PLEAT_ENOMEM_HOST (the sheet has some of them).
 *  Threads  any; each device's allocator is locked while its figures are copied, as by
 *           pleat_device_stats. */
pleat_status pl_sheet_add(pl_sheet *sheet, struct pl_instance *instance);
void pl_sheet_clear(pl_sheet *sheet);

#endif
