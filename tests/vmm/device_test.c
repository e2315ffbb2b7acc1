/* device_test.c - devices: properties, context, probe, allocations, reports of close. */
/* labels: unit fault */
#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/suite.h"
#include "tests/support/vmm/vmm_sim.h"
#include "vmm/chunk.h"
#include "vmm/mapping.h"
#include "vmm/range.h"
#include "vmm/streams/stream.h"

#define MIB ((size_t)1 << 20)

enum { N_PIECES = 600 };

static vmm_sim sim;

static void open_default(void)
{
    vmm_sim_open(&sim, "devices:2,capacity:4G,name:Test GPU");
}

static void open_no_vmm(void)
{
    vmm_sim_open(&sim, "profile:no_vmm,capacity:1G");
}

static void close_sim(void)
{
    vmm_sim_close(&sim);
}

/* ---- open and close -------------------------------------------------------------------------- */

START_TEST(a_device_tells_its_properties)
{
    pl_device *dev = NULL;
    uint64_t free_bytes = 0;
    ck_assert_int_eq(pl_device_open(sim.drv, 1, NULL, &dev), PLEAT_OK);
    ck_assert_ptr_eq(pl_device_driver(dev), sim.drv);
    ck_assert_int_eq(pl_device_ordinal(dev), 1);
    ck_assert_ptr_nonnull(strstr(pl_device_name(dev), "Test GPU"));
    ck_assert(pl_device_has_vmm(dev));
    ck_assert_uint_eq(pl_device_granule_bytes(dev), 2 * MIB);
    ck_assert_uint_eq(pl_device_chunk_bytes(dev), 2 * MIB);
    ck_assert_uint_eq(pl_device_total_bytes(dev), 4096 * MIB);
    ck_assert_int_eq(pl_device_free_bytes(dev, &free_bytes), PLEAT_OK);
    ck_assert_uint_eq(free_bytes, 4096 * MIB);
    vmm_sim_close_device(dev);
}
END_TEST

START_TEST(an_ordinal_that_is_not_there_is_refused)
{
    pl_device *dev = NULL;
    ck_assert_int_eq(pl_device_open(sim.drv, 2, NULL, &dev), PLEAT_EDEVICE);
    ck_assert_int_eq(pl_device_open(sim.drv, -1, NULL, &dev), PLEAT_EDEVICE);
    ck_assert_ptr_null(dev);
}
END_TEST

START_TEST(chunks_are_as_many_granules_as_asked)
{
    pl_device_options options = { .chunk_granules = 8 };
    pl_device *dev = vmm_sim_device(&sim, &options);
    ck_assert_uint_eq(pl_device_chunk_bytes(dev), 16 * MIB);
    pl_chunk chunk;
    ck_assert_int_eq(pl_chunk_create(dev, &chunk), PLEAT_OK);
    ck_assert_uint_eq(vmm_sim_counted(&sim).physical_bytes, 16 * MIB);
    ck_assert_int_eq(pl_chunk_release(dev, chunk), PLEAT_OK);
    vmm_sim_close_device(dev);
}
END_TEST

START_TEST(absurd_chunk_sizes_are_refused)
{
    pl_device_options options = { .chunk_granules = UINT32_MAX };
    pl_device *dev = NULL;
    ck_assert_int_eq(pl_device_open(sim.drv, 0, &options, &dev), PLEAT_EINVAL);
    ck_assert_ptr_null(dev);
}
END_TEST

START_TEST(exportable_chunks_carry_their_handle_type)
{
    pl_device_options options = { .handle_posix_fd = true };
    pl_device *dev = vmm_sim_device(&sim, &options);
    cu_mem_prop prop;
    pl_chunk chunk;
    ck_assert_int_eq(pl_chunk_create(dev, &chunk), PLEAT_OK);
    ck_assert_int_eq(pl_cu_mem_handle_prop(sim.drv, &prop, chunk), CU_SUCCESS);
    ck_assert_int_eq(prop.handle_types, CU_HANDLE_POSIX_FD);
    ck_assert_int_eq(pl_chunk_release(dev, chunk), PLEAT_OK);
    vmm_sim_close_device(dev);
}
END_TEST

static int rdma_of(pl_demand demand)
{
    pl_device_options options = { .handle_rdma = demand };
    pl_device *dev = vmm_sim_device(&sim, &options);
    cu_mem_prop prop;
    pl_chunk chunk;
    ck_assert_int_eq(pl_chunk_create(dev, &chunk), PLEAT_OK);
    ck_assert_int_eq(pl_cu_mem_handle_prop(sim.drv, &prop, chunk), CU_SUCCESS);
    ck_assert_int_eq(prop.flags.rdma_capable, pl_device_is_rdma(dev));
    ck_assert_int_eq(pl_chunk_release(dev, chunk), PLEAT_OK);
    vmm_sim_close_device(dev);
    return prop.flags.rdma_capable;
}

START_TEST(chunks_are_for_rdma_where_the_device_is_able_and_it_is_wanted)
{
    ck_assert_int_eq(rdma_of(PL_DEMAND_NONE), 0);
    ck_assert_int_eq(rdma_of(PL_DEMAND_IF_ABLE), 1);
    ck_assert_int_eq(rdma_of(PL_DEMAND_FIRM), 1);
    ck_assert_int_eq(sim.reset("profile:old_driver"), 0);
    ck_assert_int_eq(rdma_of(PL_DEMAND_IF_ABLE), 0);
    pl_device_options options = { .handle_rdma = PL_DEMAND_FIRM };
    pl_device *dev = NULL;
    ck_assert_int_eq(pl_device_open(sim.drv, 0, &options, &dev), PLEAT_EDEVICE);
    ck_assert_ptr_null(dev);
}
END_TEST

START_TEST(close_reports_every_object_that_callers_still_hold)
{
    pl_device *dev = vmm_sim_device(&sim, NULL);
    pl_range range;
    pl_chunk chunk;
    pl_stream *stream;
    pl_fence *fence;
    pleat_devptr ptr;
    ck_assert_int_eq(pl_range_reserve(dev, 8 * MIB, 8 * MIB, &range), PLEAT_OK);
    ck_assert_int_eq(pl_chunk_create(dev, &chunk), PLEAT_OK);
    ck_assert_int_eq(pl_mapping_map(dev, range.base, &chunk, 1), PLEAT_OK);
    ck_assert_int_eq(pl_device_malloc(dev, 4096, &ptr), PLEAT_OK);
    ck_assert_int_eq(pl_stream_get(dev, NULL, &stream), PLEAT_OK);
    ck_assert_int_eq(pl_fence_record(stream, &fence), PLEAT_OK);
    ck_assert_uint_eq(pl_device_close(dev), 4); /* a range counts for what is mapped in it */
    ck_assert_uint_eq(vmm_sim_counted(&sim).events, 0);
    ck_assert_int_eq(sim.reset("devices:1"), 0);
}
END_TEST

START_TEST(an_open_that_fails_at_any_call_leaves_nothing)
{
    static const char *const calls[] = {
        "cuDeviceGetCount",         "cuDeviceGet",      "cuDeviceGetName", "cuDeviceTotalMem",
        "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent", "cuStreamGetId"
    };
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        pl_device *dev = NULL;
        sim.fail_from(calls[i], 0, CU_UNKNOWN);
        ck_assert_msg(pl_device_open(sim.drv, 0, NULL, &dev) == PLEAT_EDRIVER, "%s", calls[i]);
        sim.fail_never();
        ck_assert_ptr_null(dev);
        ck_assert_uint_eq(vmm_sim_counted(&sim).contexts, 0);
    }
}
END_TEST

START_TEST(an_open_without_host_memory_leaves_nothing)
{
    pl_device *dev = NULL;
    uint64_t k = 0;
    pleat_status st;
    do {
        pl_meta_fail_at(k++);
        st = pl_device_open(sim.drv, 0, NULL, &dev);
        pl_meta_fail_never();
        ck_assert(st == PLEAT_OK || st == PLEAT_ENOMEM_HOST);
        ck_assert_uint_eq(vmm_sim_counted(&sim).contexts, st == PLEAT_OK ? 1 : 0);
    } while (st != PLEAT_OK);
    ck_assert_uint_ge(k, 2);
    vmm_sim_close_device(dev);
}
END_TEST

/* ---- context --------------------------------------------------------------------------------- */

START_TEST(entering_nests_and_leaves_the_callers_context_current)
{
    pl_device *zero = vmm_sim_device(&sim, NULL);
    pl_device *one = NULL;
    cu_context before = NULL;
    cu_context inside = NULL;
    cu_context after = NULL;
    ck_assert_int_eq(pl_device_open(sim.drv, 1, NULL, &one), PLEAT_OK);
    ck_assert_int_eq(pl_device_enter(one), PLEAT_OK);
    ck_assert_int_eq(pl_cu_ctx_get_current(sim.drv, &before), CU_SUCCESS);
    ck_assert_int_eq(pl_device_enter(zero), PLEAT_OK);
    ck_assert_int_eq(pl_cu_ctx_get_current(sim.drv, &inside), CU_SUCCESS);
    ck_assert_ptr_ne(inside, before);
    ck_assert_int_eq(pl_device_enter(zero), PLEAT_OK);
    pl_device_leave(zero);
    pl_device_leave(zero);
    ck_assert_int_eq(pl_cu_ctx_get_current(sim.drv, &after), CU_SUCCESS);
    ck_assert_ptr_eq(after, before);
    pl_device_leave(one);
    ck_assert_int_eq(pl_cu_ctx_get_current(sim.drv, &after), CU_SUCCESS);
    ck_assert_ptr_null(after);
    vmm_sim_close_device(one);
    vmm_sim_close_device(zero);
}
END_TEST

START_TEST(the_current_device_is_that_of_the_context_or_0_without_one)
{
    pl_device *one = NULL;
    int current = -1;
    ck_assert_int_eq(pl_device_open(sim.drv, 1, NULL, &one), PLEAT_OK);
    ck_assert_int_eq(pl_driver_current_device(sim.drv, &current), PLEAT_OK);
    ck_assert_int_eq(current, 0);
    ck_assert_int_eq(pl_driver_last_error()->result, CU_SUCCESS);
    ck_assert_int_eq(pl_device_enter(one), PLEAT_OK);
    ck_assert_int_eq(pl_driver_current_device(sim.drv, &current), PLEAT_OK);
    ck_assert_int_eq(current, 1);
    current = -1;
    sim.fail_at("cuCtxGetDevice", 0, CU_DEINITIALIZED);
    ck_assert_int_eq(pl_driver_current_device(sim.drv, &current), PLEAT_EDRIVER);
    ck_assert_int_eq(current, -1);
    pl_device_leave(one);
    vmm_sim_close_device(one);
}
END_TEST

START_TEST(one_refused_pop_does_not_leave_a_foreign_context_current)
{
    pl_device *dev = vmm_sim_device(&sim, NULL);
    cu_context after = NULL;
    uint64_t free_bytes;
    sim.fail_at("cuCtxPopCurrent", 0, CU_UNKNOWN);
    ck_assert_int_eq(pl_device_free_bytes(dev, &free_bytes), PLEAT_OK);
    ck_assert_uint_eq(sim.n_faults(), 1);
    ck_assert_int_eq(pl_cu_ctx_get_current(sim.drv, &after), CU_SUCCESS);
    ck_assert_ptr_null(after);
    vmm_sim_close_device(dev);
}
END_TEST

START_TEST(the_threads_capture_mode_is_put_back)
{
    pl_device *dev = vmm_sim_device(&sim, NULL);
    uint64_t free_bytes;
    int mode = CU_CAPTURE_MODE_THREAD_LOCAL;
    ck_assert_int_eq(pl_cu_thread_capture_mode(sim.drv, &mode), CU_SUCCESS);
    ck_assert_int_eq(mode, CU_CAPTURE_MODE_GLOBAL);
    ck_assert_int_eq(pl_device_free_bytes(dev, &free_bytes), PLEAT_OK);
    ck_assert_int_eq(pl_cu_thread_capture_mode(sim.drv, &mode), CU_SUCCESS);
    ck_assert_int_eq(mode, CU_CAPTURE_MODE_THREAD_LOCAL);
    vmm_sim_close_device(dev);
}
END_TEST

/* ---- probe ----------------------------------------------------------------------------------- */

START_TEST(the_probe_says_that_it_works_and_leaves_nothing)
{
    pl_device *dev = vmm_sim_device(&sim, NULL);
    char why[200] = "not yet";
    ck_assert_int_eq(pl_device_probe(dev, why, sizeof(why)), PLEAT_OK);
    ck_assert_str_eq(why, "");
    ck_assert_uint_eq(sim.n_calls("cuMemMap"), 1);
    ck_assert_uint_eq(sim.n_calls("cuMemSetAccess"), 1);
    vmm_sim_assert_empty(&sim);
    pl_device_counts counts = pl_device_counted(dev);
    ck_assert_uint_eq(counts.ops_map + counts.ops_unmap + counts.bytes_created, 0);
    vmm_sim_close_device(dev);
}
END_TEST

START_TEST(the_probe_names_the_call_that_fails_and_leaves_nothing)
{
    static const char *const calls[] = { "cuMemGetAllocationGranularity",
                                         "cuMemAddressReserve",
                                         "cuMemCreate",
                                         "cuMemMap",
                                         "cuMemSetAccess",
                                         "cuMemUnmap",
                                         "cuMemRelease",
                                         "cuMemAddressFree" };
    pl_device *dev = vmm_sim_device(&sim, NULL);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        char why[200] = "";
        sim.fail_at(calls[i], 0, CU_NOT_PERMITTED);
        ck_assert_int_eq(pl_device_probe(dev, why, sizeof(why)), PLEAT_ENOVMM);
        sim.fail_at(calls[i], 0, CU_DEINITIALIZED);
        ck_assert_int_eq(pl_device_probe(dev, why, sizeof(why)), PLEAT_EDRIVER);
        sim.fail_never();
        ck_assert_msg(strstr(why, calls[i]) != NULL, "%s: %s", calls[i], why);
        ck_assert_ptr_nonnull(strstr(why, "CUDA_ERROR_DEINITIALIZED"));
        vmm_sim_assert_empty(&sim);
    }
    vmm_sim_close_device(dev);
}
END_TEST

START_TEST(a_probe_without_room_refutes_nothing)
{
    static const char *const calls[] = { "cuMemCreate", "cuMemMap", "cuMemSetAccess" };
    pl_device *dev = vmm_sim_device(&sim, NULL);
    char why[200] = "";
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        sim.fail_at(calls[i], 0, CU_OUT_OF_MEMORY);
        ck_assert_int_eq(pl_device_probe(dev, why, sizeof(why)), PLEAT_ENOMEM_DEVICE);
        ck_assert_msg(strstr(why, calls[i]) != NULL, "%s: %s", calls[i], why);
        vmm_sim_assert_empty(&sim);
    }
    sim.fail_at("cuMemAddressReserve", 0, CU_OUT_OF_MEMORY);
    ck_assert_int_eq(pl_device_probe(dev, why, sizeof(why)), PLEAT_ENOSPACE_VA);
    vmm_sim_assert_empty(&sim);
    vmm_sim_close_device(dev);
}
END_TEST

START_TEST(rdma_that_is_advertised_and_refused_is_done_without)
{
    pl_device_options options = { .handle_rdma = PL_DEMAND_IF_ABLE,
                                  .handle_posix_fd = PL_DEMAND_IF_ABLE };
    char why[200] = "";
    sim.reset("unkind:[broken_rdma]");
    pl_device *dev = vmm_sim_device(&sim, &options);
    ck_assert(pl_device_is_rdma(dev));
    ck_assert_int_eq(pl_device_probe(dev, why, sizeof(why)), PLEAT_OK);
    ck_assert_str_eq(why, "without GPUDirect RDMA: cuMemSetAccess answers CUDA_ERROR_UNKNOWN");
    ck_assert(!pl_device_is_rdma(dev));
    ck_assert(pl_device_is_exportable(dev));
    vmm_sim_close_device(dev);
    options.handle_rdma = PL_DEMAND_FIRM;
    dev = vmm_sim_device(&sim, &options);
    ck_assert_int_eq(pl_device_probe(dev, why, sizeof(why)), PLEAT_ENOVMM);
    vmm_sim_close_device(dev);
}
END_TEST

/* The device's memory comes and goes. What was done without for a try comes back, unless the try
 * succeeds. _i: 0: the device is full at once; 1: it is full when less is tried. */
START_TEST(a_probe_without_room_is_made_again_for_the_first_chunk)
{
    pl_device_options options = { .handle_rdma = PL_DEMAND_IF_ABLE };
    char why[200] = "";
    pl_chunk chunk;
    pl_device *dev = vmm_sim_device(&sim, &options);
    sim.fail_at("cuMemSetAccess", 0, CU_UNKNOWN);
    sim.fail_at("cuMemCreate", (uint64_t)_i, CU_OUT_OF_MEMORY);
    ck_assert_int_eq(pl_device_probe(dev, why, sizeof(why)), PLEAT_ENOMEM_DEVICE);
    ck_assert(pl_device_is_rdma(dev));
    sim.fail_never();
    sim.fail_at("cuMemCreate", 0, CU_OUT_OF_MEMORY);
    ck_assert_int_eq(pl_chunk_create(dev, &chunk), PLEAT_ENOMEM_DEVICE);
    sim.fail_from("cuMemSetAccess", 0, CU_NOT_PERMITTED);
    ck_assert_int_eq(pl_chunk_create(dev, &chunk), PLEAT_ENOVMM);
    ck_assert(pl_device_is_rdma(dev));
    sim.fail_never();
    sim.fail_at("cuMemSetAccess", 0, CU_UNKNOWN); /* with RDMA */
    ck_assert_int_eq(pl_chunk_create(dev, &chunk), PLEAT_OK);
    ck_assert(!pl_device_is_rdma(dev));
    uint64_t n_maps = sim.n_calls("cuMemMap");
    ck_assert_int_eq(pl_chunk_release(dev, chunk), PLEAT_OK);
    ck_assert_int_eq(pl_chunk_create(dev, &chunk), PLEAT_OK);
    ck_assert_int_eq(pl_chunk_release(dev, chunk), PLEAT_OK);
    ck_assert_uint_eq(sim.n_calls("cuMemMap"), n_maps); /* proven once */
    vmm_sim_close_device(dev);
}
END_TEST

START_TEST(exportable_memory_that_is_refused_is_done_without)
{
    pl_device_options options = { .handle_posix_fd = PL_DEMAND_IF_ABLE };
    char why[200] = "";
    pl_device *dev = vmm_sim_device(&sim, &options);
    sim.fail_at("cuMemCreate", 0, CU_NOT_SUPPORTED);
    ck_assert_int_eq(pl_device_probe(dev, why, sizeof(why)), PLEAT_OK);
    ck_assert_str_eq(why, "without exportable memory: cuMemCreate answers "
                          "CUDA_ERROR_NOT_SUPPORTED");
    ck_assert(!pl_device_is_exportable(dev));
    vmm_sim_close_device(dev);
}
END_TEST

/* Neither with RDMA nor without it can exportable memory be made. */
START_TEST(rdma_stays_where_only_exportable_memory_is_refused)
{
    pl_device_options options = { .handle_rdma = PL_DEMAND_IF_ABLE,
                                  .handle_posix_fd = PL_DEMAND_IF_ABLE };
    char why[200] = "";
    pl_device *dev = vmm_sim_device(&sim, &options);
    sim.fail_at("cuMemCreate", 0, CU_NOT_SUPPORTED);
    sim.fail_at("cuMemCreate", 1, CU_NOT_SUPPORTED);
    ck_assert_int_eq(pl_device_probe(dev, why, sizeof(why)), PLEAT_OK);
    ck_assert_str_eq(why, "without exportable memory: cuMemCreate answers "
                          "CUDA_ERROR_NOT_SUPPORTED");
    ck_assert(!pl_device_is_exportable(dev) && pl_device_is_rdma(dev));
    sim.fail_at("cuMemCreate", 0, CU_NOT_SUPPORTED);
    vmm_sim_close_device(dev);
    sim.fail_never();
    dev = vmm_sim_device(&sim, &options);
    for (uint64_t k = 0; k < 3; k++) {
        sim.fail_at("cuMemCreate", k, CU_NOT_SUPPORTED);
    }
    ck_assert_int_eq(pl_device_probe(dev, why, sizeof(why)), PLEAT_OK);
    ck_assert(!pl_device_is_exportable(dev) && !pl_device_is_rdma(dev));
    vmm_sim_close_device(dev);
}
END_TEST

static pl_device *open_host(const char *conf, unsigned node)
{
    pl_device_options options = { .is_host = true, .host_node = node };
    sim.reset(conf);
    return vmm_sim_device(&sim, &options);
}

START_TEST(a_driver_that_may_crash_is_not_asked_for_host_memory)
{
    static const char *const confs[] = { "backing:memory,unkind:[host_numa_crash]",
                                         "backing:memory,unkind:[host_numa_crash;green_apart]" };
    char why[100] = "";
    pleat_devptr ptr;
    pl_device *dev = open_host(confs[_i], PL_HOST_NODE_NEAR);
    ck_assert(!pl_device_has_vmm(dev));
    ck_assert_int_eq(pl_device_probe(dev, why, sizeof(why)), PLEAT_ENOVMM);
    ck_assert_str_eq(why, "drivers before CUDA 13.2 can crash when they map host memory "
                          "(host_node:0 tries)");
    ck_assert_uint_eq(sim.n_calls("cuMemCreate"), 0);
    ck_assert_int_eq(pl_device_malloc(dev, 4096, &ptr), PLEAT_OK);
    ck_assert_int_eq(pl_device_mfree(dev, ptr), PLEAT_OK);
    vmm_sim_close_device(dev);
}
END_TEST

START_TEST(since_cuda_13_2_drivers_are_asked_for_host_memory)
{
    char why[100] = "";
    pl_device *dev = open_host("backing:memory", PL_HOST_NODE_NEAR);
    ck_assert_int_eq(pl_device_probe(dev, why, sizeof(why)), PLEAT_OK);
    ck_assert_uint_eq(sim.n_calls("cuMemCreate"), 1);
    vmm_sim_close_device(dev);
}
END_TEST

/* Such a driver ends the process. */
START_TEST(any_driver_is_asked_for_memory_of_a_named_node)
{
    char why[100] = "";
    int status = 0;
    pl_device *dev = open_host("backing:memory,unkind:[green_apart]", 0);
    ck_assert_int_eq(pl_device_probe(dev, why, sizeof(why)), PLEAT_OK);
    vmm_sim_close_device(dev);
    dev = open_host("backing:memory,fork:allow,unkind:[host_numa_crash]", 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        (void)signal(SIGSEGV, SIG_DFL);
        (void)pl_device_probe(dev, why, sizeof(why));
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    vmm_sim_close_device(dev);
}
END_TEST

START_TEST(many_devices_share_the_addresses_of_a_process)
{
    uint64_t budget;

    sim.reset("devices:8");
    pl_device *dev = vmm_sim_device(&sim, NULL);
    ck_assert_uint_eq(pl_range_left_bytes(dev, &budget), UINT64_C(8) << 40);
    ck_assert_uint_eq(budget, UINT64_C(8) << 40);
    vmm_sim_close_device(dev);
    sim.reset("devices:2");
    dev = vmm_sim_device(&sim, NULL);
    ck_assert_uint_eq(pl_range_left_bytes(dev, &budget), UINT64_C(32) << 40);
    vmm_sim_close_device(dev);
}
END_TEST

START_TEST(an_open_without_memory_for_a_context_says_so)
{
    pl_device *dev = NULL;
    sim.fail_at("cuDevicePrimaryCtxRetain", 0, CU_OUT_OF_MEMORY);
    ck_assert_int_eq(pl_device_open(sim.drv, 0, NULL, &dev), PLEAT_ENOMEM_DEVICE);
    ck_assert_ptr_null(dev);
    ck_assert_uint_eq(vmm_sim_counted(&sim).contexts, 0);
}
END_TEST

START_TEST(without_vmm_a_device_opens_and_the_probe_gives_one_reason)
{
    pl_device *dev = vmm_sim_device(&sim, NULL);
    char why[200] = "";
    pleat_devptr ptr;
    ck_assert(!pl_device_has_vmm(dev));
    ck_assert_uint_eq(pl_device_granule_bytes(dev), 2 * MIB);
    ck_assert_int_eq(pl_device_probe(dev, why, sizeof(why)), PLEAT_ENOVMM);
    ck_assert_ptr_nonnull(strstr(why, "CUDA_ERROR_NOT_SUPPORTED"));
    ck_assert_int_eq(pl_device_malloc(dev, 4096, &ptr), PLEAT_OK);
    ck_assert_int_eq(pl_device_mfree(dev, ptr), PLEAT_OK);
    vmm_sim_close_device(dev);
}
END_TEST

START_TEST(without_vmm_ranges_and_chunks_answer_so)
{
    pl_device *dev = vmm_sim_device(&sim, NULL);
    pl_range range;
    pl_chunk chunk;
    ck_assert_int_eq(pl_range_reserve(dev, 2 * MIB, 2 * MIB, &range), PLEAT_ENOVMM);
    ck_assert_int_eq(pl_chunk_create(dev, &chunk), PLEAT_ENOVMM);
    vmm_sim_close_device(dev);
}
END_TEST

/* ---- whole allocations ----------------------------------------------------------------------- */

START_TEST(whole_allocations_are_counted_to_the_byte)
{
    pl_device *dev = vmm_sim_device(&sim, NULL);
    pleat_devptr ptr;
    ck_assert_int_eq(pl_device_malloc(dev, 0, &ptr), PLEAT_EINVAL);
    ck_assert_int_eq(pl_device_malloc(dev, 3 * MIB + 512, &ptr), PLEAT_OK);
    ck_assert_uint_eq(pl_device_counted(dev).malloc_bytes, 3 * MIB + 512);
    ck_assert_uint_eq(pl_device_counted(dev).ops_alloc, 1);
    ck_assert_int_eq(pl_device_mfree(dev, ptr), PLEAT_OK);
    ck_assert_uint_eq(pl_device_counted(dev).malloc_bytes, 0);
    ck_assert_uint_eq(pl_device_counted(dev).ops_free, 1);
    vmm_sim_close_device(dev);
}
END_TEST

START_TEST(an_address_that_is_not_held_never_reaches_the_driver)
{
    pl_device *dev = vmm_sim_device(&sim, NULL);
    pleat_devptr ptr;
    ck_assert_int_eq(pl_device_mfree(dev, 0x1000), PLEAT_EFOREIGN);
    ck_assert_int_eq(pl_device_malloc(dev, 512, &ptr), PLEAT_OK);
    ck_assert_int_eq(pl_device_mfree(dev, ptr + 512), PLEAT_EFOREIGN);
    ck_assert_int_eq(pl_device_mfree(dev, 0), PLEAT_EFOREIGN);
    ck_assert_int_eq(pl_device_mfree(dev, ptr), PLEAT_OK);
    ck_assert_int_eq(pl_device_mfree(dev, ptr), PLEAT_EFOREIGN);
    ck_assert_uint_eq(sim.n_calls("cuMemFree"), 1);
    vmm_sim_close_device(dev);
}
END_TEST

START_TEST(many_allocations_freed_in_any_order_are_all_found_again)
{
    static pleat_devptr ptrs[N_PIECES];
    pl_device *dev = vmm_sim_device(&sim, NULL);
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < N_PIECES; i++) {
            ck_assert_int_eq(pl_device_malloc(dev, 512 * (i + 1), &ptrs[i]), PLEAT_OK);
        }
        for (unsigned i = 0; i < N_PIECES; i++) {
            unsigned at = (i * 7 + round) % N_PIECES; /* 7 and 600 have no common divisor */
            ck_assert_int_eq(pl_device_mfree(dev, ptrs[at]), PLEAT_OK);
        }
        ck_assert_uint_eq(pl_device_counted(dev).malloc_bytes, 0);
    }
    ck_assert_uint_eq(vmm_sim_counted(&sim).allocations, 0);
    vmm_sim_close_device(dev);
}
END_TEST

START_TEST(the_capacity_ends_in_out_of_device_memory)
{
    pl_device *dev = vmm_sim_device(&sim, NULL);
    pleat_devptr ptr;
    pleat_devptr more;
    ck_assert_int_eq(pl_device_malloc(dev, 3000 * MIB, &ptr), PLEAT_OK);
    ck_assert_int_eq(pl_device_malloc(dev, 1097 * MIB, &more), PLEAT_ENOMEM_DEVICE);
    ck_assert_int_eq(pl_driver_last_error()->entry, PL_CU_mem_alloc);
    ck_assert_uint_eq(pl_driver_last_error()->bytes, 1097 * MIB);
    ck_assert_int_eq(pl_device_malloc(dev, 1096 * MIB, &more), PLEAT_OK);
    ck_assert_int_eq(pl_device_mfree(dev, more), PLEAT_OK);
    ck_assert_int_eq(pl_device_mfree(dev, ptr), PLEAT_OK);
    vmm_sim_close_device(dev);
}
END_TEST

START_TEST(a_free_that_the_driver_refuses_stays_held)
{
    pl_device *dev = vmm_sim_device(&sim, NULL);
    pleat_devptr ptr;
    ck_assert_int_eq(pl_device_malloc(dev, 4096, &ptr), PLEAT_OK);
    sim.fail_from("cuMemFree", 0, CU_UNKNOWN);
    ck_assert_int_eq(pl_device_mfree(dev, ptr), PLEAT_EDRIVER);
    sim.fail_never();
    ck_assert_uint_eq(pl_device_counted(dev).malloc_bytes, 4096);
    ck_assert_int_eq(pl_device_mfree(dev, ptr), PLEAT_OK);
    vmm_sim_close_device(dev);
}
END_TEST

/* Allocate and free; true if both succeed. After a failed free, free again. */
static bool allocate_once(pl_device *dev)
{
    pleat_devptr ptr;
    pleat_status st = pl_device_malloc(dev, 4096, &ptr);
    ck_assert(st == PLEAT_OK || st == PLEAT_EDRIVER || st == PLEAT_ENOMEM_HOST);
    bool is_good = st == PLEAT_OK && pl_device_mfree(dev, ptr) == PLEAT_OK;
    sim.fail_never();
    pl_meta_fail_never();
    if (pl_device_counted(dev).malloc_bytes != 0) {
        ck_assert_int_eq(pl_device_mfree(dev, ptr), PLEAT_OK);
    }
    vmm_sim_assert_empty(&sim);
    return is_good;
}

START_TEST(allocating_under_any_driver_fault_leaves_all_as_before_or_succeeds)
{
    pl_device *dev = vmm_sim_device(&sim, NULL);
    uint64_t n_faults;
    unsigned n_failed = 0;
    uint64_t k = 0;
    do {
        n_faults = sim.n_faults();
        sim.fail_at(NULL, k++, CU_UNKNOWN);
        n_failed += allocate_once(dev) ? 0 : 1;
    } while (sim.n_faults() > n_faults);
    ck_assert_uint_ge(n_failed, 2); /* entering the context, and the allocation */
    vmm_sim_close_device(dev);
}
END_TEST

START_TEST(allocating_without_host_memory_leaves_all_as_before)
{
    pl_device *dev = vmm_sim_device(&sim, NULL);
    pl_meta_fail_at(0);
    ck_assert(!allocate_once(dev));
    ck_assert_uint_eq(sim.n_calls("cuMemAlloc"), 0);
    ck_assert(allocate_once(dev));
    vmm_sim_close_device(dev);
}
END_TEST

SUITE(vmm_device)
{
    TCase *opening = tcase_create("open and close");
    tcase_add_checked_fixture(opening, open_default, close_sim);
    tcase_add_test(opening, a_device_tells_its_properties);
    tcase_add_test(opening, an_ordinal_that_is_not_there_is_refused);
    tcase_add_test(opening, chunks_are_as_many_granules_as_asked);
    tcase_add_test(opening, absurd_chunk_sizes_are_refused);
    tcase_add_test(opening, exportable_chunks_carry_their_handle_type);
    tcase_add_test(opening, chunks_are_for_rdma_where_the_device_is_able_and_it_is_wanted);
    tcase_add_test(opening, close_reports_every_object_that_callers_still_hold);
    tcase_add_test(opening, an_open_that_fails_at_any_call_leaves_nothing);
    tcase_add_test(opening, an_open_without_memory_for_a_context_says_so);
    tcase_add_test(opening, an_open_without_host_memory_leaves_nothing);
    suite_add_tcase(suite, opening);
    TCase *context = tcase_create("context");
    tcase_add_checked_fixture(context, open_default, close_sim);
    tcase_add_test(context, entering_nests_and_leaves_the_callers_context_current);
    tcase_add_test(context, the_current_device_is_that_of_the_context_or_0_without_one);
    tcase_add_test(context, one_refused_pop_does_not_leave_a_foreign_context_current);
    tcase_add_test(context, the_threads_capture_mode_is_put_back);
    suite_add_tcase(suite, context);
    TCase *probe = tcase_create("probe");
    tcase_add_checked_fixture(probe, open_default, close_sim);
    tcase_add_test(probe, the_probe_says_that_it_works_and_leaves_nothing);
    tcase_add_test(probe, the_probe_names_the_call_that_fails_and_leaves_nothing);
    tcase_add_test(probe, a_probe_without_room_refutes_nothing);
    tcase_add_test(probe, rdma_that_is_advertised_and_refused_is_done_without);
    tcase_add_loop_test(probe, a_probe_without_room_is_made_again_for_the_first_chunk, 0, 2);
    tcase_add_test(probe, exportable_memory_that_is_refused_is_done_without);
    tcase_add_test(probe, rdma_stays_where_only_exportable_memory_is_refused);
    tcase_add_loop_test(probe, a_driver_that_may_crash_is_not_asked_for_host_memory, 0, 2);
    tcase_add_test(probe, since_cuda_13_2_drivers_are_asked_for_host_memory);
    tcase_add_test(probe, any_driver_is_asked_for_memory_of_a_named_node);
    tcase_add_test(probe, many_devices_share_the_addresses_of_a_process);
    suite_add_tcase(suite, probe);
    TCase *no_vmm = tcase_create("without vmm");
    tcase_add_checked_fixture(no_vmm, open_no_vmm, close_sim);
    tcase_add_test(no_vmm, without_vmm_a_device_opens_and_the_probe_gives_one_reason);
    tcase_add_test(no_vmm, without_vmm_ranges_and_chunks_answer_so);
    suite_add_tcase(suite, no_vmm);
    TCase *whole = tcase_create("whole allocations");
    tcase_add_checked_fixture(whole, open_default, close_sim);
    tcase_add_test(whole, whole_allocations_are_counted_to_the_byte);
    tcase_add_test(whole, an_address_that_is_not_held_never_reaches_the_driver);
    tcase_add_test(whole, many_allocations_freed_in_any_order_are_all_found_again);
    tcase_add_test(whole, the_capacity_ends_in_out_of_device_memory);
    tcase_add_test(whole, a_free_that_the_driver_refuses_stays_held);
    tcase_add_test(whole, allocating_under_any_driver_fault_leaves_all_as_before_or_succeeds);
    tcase_add_test(whole, allocating_without_host_memory_leaves_all_as_before);
    suite_add_tcase(suite, whole);
}
