/* measure.c - the plan of a measurement, with parts, order and bounds.
 *
 * One thread, inside a scope of the device. The rig has its own host memory domain. */
#include "vmm/tools/measure/measure.h"

#include <stdio.h>
#include <string.h>

#include "vmm/tools/measure/rig.h"

enum { DEFAULT_SECONDS = 60 };
#define DEFAULT_MOST_BYTES (UINT64_C(16) << 30)

const char *pl_measure_op_name(pl_measure_op op)
{
    static const char *const names[] = {
#define OP_NAME(name, text, field) [name] = text,
        PL_MEASURE_LIST(OP_NAME)
#undef OP_NAME
    };
    return (unsigned)op < PL_MEASURE_N_OPS ? names[op] : "none";
}

const char *pl_measure_op_symbol(pl_measure_op op)
{
    static const pl_entry entries[] = {
#define OP_ENTRY(name, text, field) [name] = PL_CU_##field,
        PL_MEASURE_LIST(OP_ENTRY)
#undef OP_ENTRY
    };
    return pl_entry_symbol((unsigned)op < PL_MEASURE_N_OPS ? entries[op] : PL_N_ENTRIES);
}

/* Describes the device, and how much of its memory may be used. */
static pleat_status describe(pl_rig *rig)
{
    pl_measure_report *out = rig->out;
    pl_device *dev = rig->dev;
    snprintf(out->gpu, sizeof(out->gpu), "%s", dev->name);
    out->ordinal = dev->ordinal;
    out->is_simulated = pl_driver_kind_of(rig->drv) == PL_DRIVER_SIM;
    out->granule_bytes = dev->granule_bytes;
    out->recommended_bytes = dev->granule_bytes;
    out->total_bytes = dev->total_bytes;
    cu_result result = pl_cu_driver_version(rig->drv, &out->driver_version);
    if (result == CU_SUCCESS && dev->has_vmm) {
        result = pl_cu_mem_granularity(rig->drv, &out->recommended_bytes, &dev->prop,
                                       CU_GRANULARITY_RECOMMENDED);
    }
    if (result != CU_SUCCESS) {
        return pl_rig_check(rig, "the device's properties", result);
    }
    pleat_status st = pl_device_free_bytes(dev, &out->free_bytes);
    if (st != PLEAT_OK) {
        return pl_rig_check(rig, "free memory", pl_driver_last_error()->result);
    }
    uint64_t most = rig->options->most_bytes;
    if (most == 0) {
        most = out->free_bytes / 4 < DEFAULT_MOST_BYTES ? out->free_bytes / 4 : DEFAULT_MOST_BYTES;
    }
    rig->portion_bytes = most / (PL_MEASURE_N_SIZES + 1);
    return PLEAT_OK;
}

/* Measures everything in order; the load exists meanwhile. */
static pleat_status measure_all(pl_rig *rig)
{
    pleat_status st = pl_rig_load_create(rig);
    if (st == PLEAT_OK && rig->dev->has_vmm) {
        st = pl_measure_chunks(rig);
    }
    if (st == PLEAT_OK) {
        st = pl_measure_mallocs(rig);
    }
    if (st == PLEAT_OK) {
        st = pl_measure_events(rig);
    }
    if (st == PLEAT_OK && rig->dev->has_vmm) {
        st = pl_measure_aliases(rig);
    }
    pl_rig_load_destroy(rig);
    return st;
}

static pleat_status measure_inside(pl_rig *rig)
{
    if (pl_driver_kind_of(rig->drv) == PL_DRIVER_SIM) {
        void *address = pl_driver_symbol(rig->drv, "pleat_sim_cost_us");
        memcpy(&rig->cost_us, &address, sizeof(address));
    }
    pl_scope scope;
    pleat_status st = pl_scope_begin(rig->dev, &scope);
    if (st != PLEAT_OK) {
        return pl_rig_check(rig, "the device's context", pl_driver_last_error()->result);
    }
    st = describe(rig);
    if (st == PLEAT_OK) {
        st = measure_all(rig);
    }
    pl_scope_end(rig->dev, &scope);
    return st;
}

pleat_status pl_measure_run(pl_device *dev, const pl_measure_options *options,
                            pl_measure_report *out)
{
    const pl_measure_options defaults = { .most_bytes = 0 };
    *out = (pl_measure_report){ .n_rows = 0 };
    pl_meta meta;
    pleat_status st = pl_meta_init(&meta);
    if (st != PLEAT_OK) {
        return st;
    }
    pl_rig *rig = pl_meta_calloc(&meta, 1, sizeof(*rig));
    if (rig == NULL) {
        pl_meta_fini(&meta);
        return PLEAT_ENOMEM_HOST;
    }
    rig->dev = dev;
    rig->drv = dev->drv;
    rig->options = options != NULL ? options : &defaults;
    rig->out = out;
    rig->most_s = rig->options->most_seconds != 0 ? rig->options->most_seconds : DEFAULT_SECONDS;
    rig->begin_s = pl_rig_elapsed_s(rig);
    st = measure_inside(rig);
    pl_measure_fit(out);
    out->elapsed_s = pl_rig_elapsed_s(rig);
    out->is_complete = st == PLEAT_OK && out->note[0] == '\0';
    pl_meta_free(&meta, rig);
    pl_meta_fini(&meta);
    if (st == PLEAT_OK && !dev->has_vmm) {
        return PLEAT_ENOVMM;
    }
    return st;
}
