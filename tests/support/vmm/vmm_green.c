/* vmm_green.c - green contexts of the simulator for tests of pleat. */
#include "tests/support/vmm/vmm_green.h"

#include <check.h>
#include <string.h>

#include "vmm/tools/sim/entries/entry.h"

static void load(pl_driver *drv, const char *name, void *field)
{
    void *address = pl_driver_symbol(drv, name);
    ck_assert_msg(address != NULL, "the simulator has no %s", name);
    memcpy(field, &address, sizeof address);
}

void vmm_green_make(pl_driver *drv, vmm_green *out)
{
    __typeof__(cuDeviceGetDevResource) *get_resource;
    __typeof__(cuDevResourceGenerateDesc) *describe;
    __typeof__(cuGreenCtxCreate) *create;
    __typeof__(cuCtxFromGreenCtx) *make_context;
    __typeof__(cuGreenCtxStreamCreate) *make_stream;
    cu_dev_resource all;
    cu_dev_resource_desc desc;
    load(drv, "cuDeviceGetDevResource", &get_resource);
    load(drv, "cuDevResourceGenerateDesc", &describe);
    load(drv, "cuGreenCtxCreate", &create);
    load(drv, "cuCtxFromGreenCtx", &make_context);
    load(drv, "cuGreenCtxStreamCreate", &make_stream);
    out->drv = drv;
    ck_assert_int_eq(get_resource(0, &all, 1), CU_SUCCESS);
    ck_assert_int_eq(describe(&desc, &all, 1), CU_SUCCESS);
    ck_assert_int_eq(create(&out->green, desc, 0, 1), CU_SUCCESS);
    ck_assert_int_eq(make_context(&out->context, out->green), CU_SUCCESS);
    ck_assert_int_eq(make_stream(&out->stream, out->green, CU_STREAM_NON_BLOCKING_FLAG, 0),
                     CU_SUCCESS);
}

void vmm_green_push(const vmm_green *it)
{
    ck_assert_int_eq(pl_cu_ctx_push(it->drv, it->context), CU_SUCCESS);
}

void vmm_green_pop(const vmm_green *it)
{
    cu_context popped;
    ck_assert_int_eq(pl_cu_ctx_pop(it->drv, &popped), CU_SUCCESS);
    ck_assert_ptr_eq(popped, it->context);
}

void vmm_green_end(const vmm_green *it)
{
    __typeof__(cuGreenCtxDestroy) *destroy;
    load(it->drv, "cuGreenCtxDestroy", &destroy);
    ck_assert_int_eq(destroy(it->green), CU_SUCCESS);
}
