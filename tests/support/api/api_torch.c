/* api_torch.c - the default instance on the simulator, and the output of adapters on standard
 * error. */
#include "tests/support/api/api_torch.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/calls/internal.h"
#include "tests/support/suite.h"
#include "vmm/driver.h"

void api_torch_configure(int allocator, const char *sim_conf, const char *more)
{
    char conf[512];
    int n = snprintf(conf, sizeof conf, "driver:sim,sim:[%s],allocator:%s%s%s",
                     allocator == API_PLEAT ? suite_sim_conf(sim_conf) : sim_conf,
                     api_allocators[allocator], more[0] != '\0' ? "," : "", more);
    ck_assert_int_lt(n, (int)sizeof conf);
    ck_assert_int_eq(setenv("PLEAT_CONF", conf, 1), 0);
}

pleat api_torch_make(int allocator, const char *sim_conf, const char *more)
{
    pleat instance;
    api_torch_configure(allocator, sim_conf, more);
    pleat_status st = pleat_default(&instance);
    ck_assert_msg(st == PLEAT_OK, "%s", pleat_last_error()->text);
    return instance;
}

/* ---- standard error ---- */

static FILE *heard;
static int kept_stderr = -1;

void api_torch_listen(void)
{
    heard = tmpfile();
    ck_assert_ptr_nonnull(heard);
    fflush(stderr);
    kept_stderr = dup(STDERR_FILENO);
    ck_assert_int_ge(kept_stderr, 0);
    ck_assert_int_ge(dup2(fileno(heard), STDERR_FILENO), 0);
}

void api_torch_heard(char *text, size_t capacity)
{
    fflush(stderr);
    ck_assert_int_ge(dup2(kept_stderr, STDERR_FILENO), 0);
    close(kept_stderr);
    rewind(heard);
    size_t n = fread(text, 1, capacity - 1, heard);
    text[n] = '\0';
    fclose(heard);
}

/* ---- work ---- */

static pl_device *enter(pleat instance, int device)
{
    pl_device *dev = pleat_internal_device(instance, device);
    ck_assert_ptr_nonnull(dev);
    ck_assert_int_eq(pl_device_enter(dev), PLEAT_OK);
    return dev;
}

void api_torch_work(pleat instance, int device, void *stream, void *ptr, size_t bytes)
{
    pleat_sim_access access = { (uint64_t)(uintptr_t)ptr, bytes, true };
    pl_device *dev = enter(instance, device);
    int result = sim.work(stream, &access, 1);
    pl_device_leave(dev);
    ck_assert_int_eq(result, 0);
}

void api_torch_begin_capture(pleat instance, int device, void *stream)
{
    pl_device *dev = enter(instance, device);
    int result = pl_cu_stream_begin_capture(pl_device_driver(dev), stream, CU_CAPTURE_MODE_GLOBAL);
    pl_device_leave(dev);
    ck_assert_int_eq(result, 0);
}

void api_torch_end_capture(pleat instance, int device, void *stream)
{
    cu_graph graph = NULL;
    pl_device *dev = enter(instance, device);
    int result = pl_cu_stream_end_capture(pl_device_driver(dev), stream, &graph);
    ck_assert_int_eq(result, 0);
    ck_assert_int_eq(pl_cu_graph_destroy(pl_device_driver(dev), graph), 0);
    pl_device_leave(dev);
}
