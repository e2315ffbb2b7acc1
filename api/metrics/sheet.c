/* sheet.c - see sheet.h. Holds no lock of its own; calls no driver. */
#include "api/metrics/sheet.h"

#include <string.h>

#include "api/instance.h"
#include "api/tag/scope.h"
#include "api/text.h"
#include "vmm/driver.h"

static void fill_device(pl_gpu *gpu, pl_sheet_device *out)
{
    pleat_stats stats;
    memset(&stats, 0, sizeof stats);
    gpu->ops->stats(gpu->allocator, &stats);
    uint64_t *to = out->values;
    to[PL_METRIC_LIVE] = stats.allocated_bytes[PLEAT_POOL_ALL].current;
    to[PL_METRIC_RESIDENT] = stats.reserved_bytes[PLEAT_POOL_ALL].current;
    to[PL_METRIC_FREE] = stats.free_bytes;
    to[PL_METRIC_PENDING] = stats.pending_bytes;
    to[PL_METRIC_IDLE] = stats.idle_bytes;
    to[PL_METRIC_PEAK_LIVE] = stats.allocated_bytes[PLEAT_POOL_ALL].peak;
    to[PL_METRIC_PEAK_RESIDENT] = stats.reserved_bytes[PLEAT_POOL_ALL].peak;
    to[PL_METRIC_LIMIT] = atomic_load(&gpu->limit_bytes);
    to[PL_METRIC_DEVICE] = pl_device_total_bytes(gpu->dev);
    to[PL_METRIC_BLOCKS] = stats.allocation[PLEAT_POOL_ALL].current;
    to[PL_METRIC_ALLOCATIONS] = stats.allocation[PLEAT_POOL_ALL].allocated;
    to[PL_METRIC_FREES] = stats.allocation[PLEAT_POOL_ALL].freed;
    to[PL_METRIC_FAILURES] = atomic_load(&gpu->n_ooms);
    to[PL_METRIC_RETRIES] = stats.num_alloc_retries;
    to[PL_METRIC_OPS_MAP] = stats.ops_map;
    to[PL_METRIC_OPS_UNMAP] = stats.ops_unmap;
    to[PL_METRIC_OPS_ALLOC] = stats.ops_alloc;
    to[PL_METRIC_OPS_FREE] = stats.ops_free;
    to[PL_METRIC_CREATED] = stats.bytes_created;
    to[PL_METRIC_MAPPED] = stats.bytes_mapped;
    to[PL_METRIC_HOST_SYNCS] = stats.host_syncs;
    to[PL_METRIC_STREAM_WAITS] = stats.stream_waits;
    to[PL_METRIC_DRIVER_CALLS] = stats.n_driver_calls;
}

/* Room for one more behind n; NULL: no host memory. The array doubles at powers of two. */
static void *grown(pl_host *host, void *array, size_t n, size_t bytes)
{
    bool is_full = (n & (n - 1)) == 0;
    return is_full ? pl_host_realloc(host, array, (n ? 2 * n : 1) * bytes) : array;
}

static pleat_status add_tags(pl_sheet *sheet, pl_gpu *gpu, size_t of)
{
    const char *tag;
    for (unsigned number = 1; (tag = pl_tag_text(number)) != NULL; number++) {
        pl_private *room = pl_tags_find(&gpu->tags, number);
        if (!room) {
            continue;
        }
        pl_sheet_tag *tags = grown(sheet->host, sheet->tags, sheet->n_tags, sizeof *tags);
        if (!tags) {
            return PLEAT_ENOMEM_HOST;
        }
        pl_room_figures figures = { .n_sleeps = 0 };
        gpu->ops->room_read(gpu->allocator, room, &figures);
        sheet->tags = tags;
        tags[sheet->n_tags++] = (pl_sheet_tag){
            .of = of,
            .tag = tag,
            .values = { [PL_TAG_METRIC_LIVE] = figures.allocated_bytes.current,
                        [PL_TAG_METRIC_RESIDENT] = figures.resident_bytes,
                        [PL_TAG_METRIC_ASLEEP] = figures.asleep_bytes,
                        [PL_TAG_METRIC_LIMIT] = figures.limit_bytes },
        };
    }
    return PLEAT_OK;
}

static pleat_status add_device(pl_sheet *sheet, pl_instance *instance, pl_gpu *gpu)
{
    pl_sheet_device *devices = grown(sheet->host, sheet->devices, sheet->n_devices,
                                     sizeof *devices);
    if (!devices) {
        return PLEAT_ENOMEM_HOST;
    }
    sheet->devices = devices;
    pl_sheet_device *out = &devices[sheet->n_devices];
    bool is_sim = pl_driver_kind_of(instance->drv) == PL_DRIVER_SIM;
    pl_text name;
    *out = (pl_sheet_device){ .instance = instance->handle.slot,
                              .device = gpu->ordinal,
                              .allocator = gpu->ops->name,
                              .driver = is_sim ? "sim" : "cuda" };
    pl_text_init(&name, out->gpu, sizeof out->gpu);
    pl_text_add(&name, "%s", pl_device_name(gpu->dev));
    fill_device(gpu, out);
    return add_tags(sheet, gpu, sheet->n_devices++);
}

pleat_status pl_sheet_add(pl_sheet *sheet, pl_instance *instance)
{
    pleat_status st = PLEAT_OK;
    for (int i = 0; i < instance->n_devices && st == PLEAT_OK; i++) {
        pl_gpu *gpu = pl_use_find_gpu(instance, i);
        st = gpu ? add_device(sheet, instance, gpu) : PLEAT_OK;
    }
    return st;
}

void pl_sheet_clear(pl_sheet *sheet)
{
    pl_host_free(sheet->host, sheet->devices);
    pl_host_free(sheet->host, sheet->tags);
    *sheet = (pl_sheet){ .host = sheet->host };
}
