/* sheet.c - see sheet.h. Holds no lock of its own; calls no driver. */
#include "api/metrics/sheet.h"

#include <string.h>

#include "api/base/text.h"
#include "api/instance/instance.h"
#include "api/tag/scope.h"
#include "vmm/driver.h"

#define VALUE(id, name, type, help, label, value) (value),

static void fill_device(pl_gpu *gpu, pl_sheet_device *out)
{
    pleat_stats stats;
    memset(&stats, 0, sizeof stats);
    gpu->ops->stats(gpu->allocator, &stats);
    const uint64_t values[] = { PL_METRIC_LIST(VALUE) };
    memcpy(out->values, values, sizeof values);
}

/* Make room behind `n` elements; NULL: no host memory. The array doubles at powers of two. */
static void *grown(pl_meta *meta, void *array, size_t n, size_t bytes)
{
    bool is_full = (n & (n - 1)) == 0;
    return is_full ? pl_meta_realloc(meta, array, (n ? 2 * n : 1) * bytes) : array;
}

static pleat_status add_tags(pl_sheet *sheet, pl_gpu *gpu, size_t of)
{
    const char *tag;
    for (unsigned number = 1; (tag = pl_tag_text(number)) != NULL; number++) {
        pl_keeper *heap = pl_tags_find(&gpu->tags, number);
        if (!heap) {
            continue;
        }
        pl_sheet_tag *tags = grown(sheet->meta, sheet->tags, sheet->n_tags, sizeof *tags);
        if (!tags) {
            return PLEAT_ENOMEM_HOST;
        }
        pl_heap_figures figures = { .n_sleeps = 0 };
        gpu->ops->tags->read(gpu->allocator, heap, &figures);
        sheet->tags = tags;
        tags[sheet->n_tags++] = (pl_sheet_tag){
            .of = of,
            .tag = tag,
            .values = { PL_TAG_METRIC_LIST(VALUE) },
        };
    }
    return PLEAT_OK;
}

static pleat_status add_device(pl_sheet *sheet, pl_instance *instance, pl_gpu *gpu)
{
    pl_sheet_device *devices = grown(sheet->meta, sheet->devices, sheet->n_devices,
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
    pl_meta_free(sheet->meta, sheet->devices);
    pl_meta_free(sheet->meta, sheet->tags);
    *sheet = (pl_sheet){ .meta = sheet->meta };
}
