/* conf_test.c - the configuration string: defaults, every key, and errors with the key's name. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/sim/sim_pools.h"
#include "tests/support/sim/sim_world.h"
#include "tests/support/suite.h"

static void assert_refused(const char *conf, const char *key)
{
    ck_assert_int_eq(pleat_sim_reset(conf), -1);
    ck_assert_msg(strstr(pleat_sim_error(), key) != NULL, "\"%s\" does not name \"%s\"",
                  pleat_sim_error(), key);
}

static size_t total_bytes(int device)
{
    size_t bytes;
    ck_ok(cuDeviceTotalMem_v2(&bytes, device));
    return bytes;
}

START_TEST(without_a_key_there_is_one_device_of_16_gib)
{
    int count;
    size_t granule;
    cu_mem_prop prop = world_prop(0);
    world_begin("");
    ck_ok(cuDeviceGetCount(&count));
    ck_assert_int_eq(count, 1);
    ck_assert_uint_eq(total_bytes(0), (size_t)16 << 30);
    ck_ok(cuMemGetAllocationGranularity(&granule, &prop, CU_GRANULARITY_MINIMUM));
    ck_assert_uint_eq(granule, GRANULE);
    world_end();
}
END_TEST

START_TEST(every_key_has_its_effect)
{
    int count;
    char name[32];
    size_t granule;
    cu_mem_prop prop = world_prop(2);
    world_begin("devices:3,capacity:1234567,granularity:64k,backing:none,depth:7,costs:a100,"
                "profile:full,va_bits:40,log:full,name:Little one,fork:refuse,free:wait");
    ck_ok(cuDeviceGetCount(&count));
    ck_assert_int_eq(count, 3);
    ck_assert_uint_eq(total_bytes(2), 1234567);
    ck_ok(cuMemGetAllocationGranularity(&granule, &prop, CU_GRANULARITY_RECOMMENDED));
    ck_assert_uint_eq(granule, 65536);
    ck_ok(cuDeviceGetName(name, sizeof(name), 1));
    ck_assert_str_eq(name, "Little one");
    ck_ok(cuDeviceGetName(name, 4, 1));
    ck_assert_str_eq(name, "Lit");
    world_end();
}
END_TEST

START_TEST(sizes_take_binary_suffixes)
{
    static const struct {
        const char *conf;
        size_t bytes;
    } cases[] = {
        { "capacity:3", 3 },
        { "capacity:3K", 3 << 10 },
        { "capacity:3m", 3 << 20 },
        { "capacity:141G", (size_t)141 << 30 },
        { "capacity:2T", (size_t)2 << 40 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        world_begin(cases[i].conf);
        ck_assert_uint_eq(total_bytes(0), cases[i].bytes);
        world_end();
    }
}
END_TEST

START_TEST(errors_name_the_key)
{
    assert_refused("capactiy:1G", "capactiy");
    assert_refused("devices", "devices");
    assert_refused("devices:0", "devices");
    assert_refused("devices:17", "devices");
    assert_refused("devices:1x", "devices");
    assert_refused("devices: 1", "devices");
    assert_refused("capacity:", "capacity");
    assert_refused("capacity:-1", "capacity");
    assert_refused("capacity:1.5G", "capacity");
    assert_refused("capacity:99999999999999999999", "capacity");
    assert_refused("capacity:17592186044416T", "capacity");
    assert_refused("granularity:3M", "granularity");
    assert_refused("granularity:2K", "granularity");
    assert_refused("backing:disk", "backing");
    assert_refused("depth:-1", "depth");
    assert_refused("profile:new", "profile");
    assert_refused("va_bits:49", "va_bits");
    assert_refused("backing:memory,va_bits:48", "va_bits");
    assert_refused("granularity:1G,va_bits:30", "va_bits");
    assert_refused("log:none", "log");
    assert_refused("name:", "name");
    assert_refused("fork:maybe", "fork");
    assert_refused("free:never", "free");
    assert_refused("waits:never", "waits");
    assert_refused("costs:/nowhere/at/all.cost", "costs");
    assert_refused("without:cuStreamGetIdentity", "without");
    assert_refused("without:[cuStreamGetId;]", "without");
    assert_refused("without:pleat_sim_work", "without");
    assert_refused("depth:1,depth:2", "depth");
    assert_refused("depth:1,", "");
    assert_refused(",", "");
}
END_TEST

START_TEST(the_error_of_an_unknown_key_names_the_known_ones)
{
    static const char *const known[] = {
        "devices", "capacity", "granularity", "backing",     "depth",        "costs", "profile",
        "peers",   "va_bits",  "log",         "compute",     "name",         "fork",  "free",
        "without", "waits",    "delay,",      "delay_after", "dead_handles",
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        assert_refused("a_key_that_is_not_known_and_has_a_very_long_name:1", known[i]);
    }
    assert_refused("capactiy:1G", "\"capactiy\"");
}
END_TEST

START_TEST(entry_points_can_be_taken_away)
{
    unsigned long long id;
    cu_event event;
    world_begin("without:[cuStreamGetId;cuCtxRecordEvent]");
    event = world_event();
    ck_assert_int_eq(cuStreamGetId(NULL, &id), CU_NOT_FOUND);
    ck_assert_int_eq(cuCtxRecordEvent(NULL, event), CU_NOT_FOUND);
    ck_ok(cuEventQuery(event));
    ck_ok(cuEventDestroy_v2(event));
    world_end();
    world_begin("without:cuMemAlloc_v2,capacity:1G");
    cu_devptr at;
    ck_assert_int_eq(cuMemAlloc_v2(&at, 512), CU_NOT_FOUND);
    world_end();
    world_begin("capacity:1G");
    ck_ok(cuStreamGetId(NULL, &id));
    world_end();
}
END_TEST

START_TEST(a_refused_string_changes_nothing)
{
    world_begin("capacity:1G");
    cu_devptr at = world_map(1);
    assert_refused("capacity:2G,typo:1", "typo");
    ck_assert_uint_eq(total_bytes(0), (size_t)1 << 30);
    ck_assert_uint_eq(world_counts().mappings, 1);
    world_unmap(at, 1);
    world_end();
}
END_TEST

START_TEST(a_reset_forgets_everything_but_cuinit)
{
    world_begin("depth:100");
    cu_devptr at = world_map(2);
    cu_stream stream = world_stream();
    world_write(stream, at, 4096);
    world_write(world_stream(), at, 4096);
    ck_assert_uint_eq(world_hazards(), 1);
    cu_mem_handle handle = world_create(1);
    ck_assert_int_eq(pleat_sim_reset(NULL), 0);
    pleat_sim_counts counts = world_counts();
    ck_assert_uint_eq(counts.reservations + counts.handles + counts.mappings, 0);
    ck_assert_uint_eq(counts.streams + counts.contexts + counts.unfinished_work, 0);
    ck_assert_uint_eq(counts.hazards + counts.calls, 0);
    ck_assert_int_eq(cuMemRelease(handle), CU_INVALID_VALUE);
    ck_assert_int_eq(cuStreamQuery(stream), CU_INVALID_CONTEXT);
}
END_TEST

START_TEST(the_environment_configures_where_nobody_reset)
{
    setenv("PLEAT_SIM", "capacity:5M,devices:2", 1);
    ck_ok(cuInit(0));
    ck_assert_uint_eq(total_bytes(1), 5 << 20);
    ck_assert_int_eq(pleat_sim_reset(NULL), 0);
    ck_assert_uint_eq(total_bytes(0), (size_t)16 << 30);
}
END_TEST

START_TEST(a_bad_environment_fails_cuinit_with_a_text)
{
    setenv("PLEAT_SIM", "capacity:much", 1);
    ck_assert_int_eq(cuInit(0), CU_INVALID_VALUE);
    ck_assert_str_eq(pleat_sim_error(),
                     "PLEAT_SIM: bad value \"much\" for key \"capacity\": expected "
                     "bytes, with an optional suffix K, M, G or T, at most 64T");
    setenv("PLEAT_SIM", "capacity:1G", 1);
    ck_ok(cuInit(0));
}
END_TEST

/* Who called cuInit may know nothing of pleat_sim_error. */
START_TEST(a_bad_environment_is_told_on_standard_error_once)
{
    char told[512] = "";
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    int kept = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    setenv("PLEAT_SIM", "capcity:1G", 1);
    int first = cuInit(0);
    int second = cuInit(0);
    dup2(kept, STDERR_FILENO);
    close(ends[1]);
    ck_assert_int_gt(read(ends[0], told, sizeof(told) - 1), 0);
    ck_assert_int_eq(first, CU_INVALID_VALUE);
    ck_assert_int_eq(second, CU_INVALID_VALUE);
    const char *line = "pleat_sim: PLEAT_SIM: unknown key \"capcity\"; known: devices, ";
    ck_assert_msg(strncmp(told, line, strlen(line)) == 0, "%s", told);
    ck_assert_ptr_eq(strchr(told, '\n'), told + strlen(told) - 1);
}
END_TEST

/* A context, and what outlives it, one at a time. Streams, events and the like need a context. */
enum { CONTEXT, ADDRESSES, MEMORY, POOL, N_THINGS };

static void make_or_destroy(int thing, bool is_made)
{
    static cu_context context;
    static cu_devptr ptr;
    static cu_mem_handle handle;
    static cu_mempool made;
    cu_mem_prop prop = world_prop(0);
    cu_mempool_props pool_props = pools_props(0);
    switch (thing) {
    case CONTEXT:
        ck_ok(is_made ? cuDevicePrimaryCtxRetain(&context, 0) : cuDevicePrimaryCtxRelease_v2(0));
        break;
    case ADDRESSES:
        ck_ok(is_made ? cuMemAddressReserve(&ptr, GRANULE, 0, 0, 0)
                      : cuMemAddressFree(ptr, GRANULE));
        break;
    case MEMORY:
        ck_ok(is_made ? cuMemCreate(&handle, GRANULE, &prop, 0) : cuMemRelease(handle));
        break;
    default:
        ck_ok(is_made ? cuMemPoolCreate(&made, &pool_props) : cuMemPoolDestroy(made));
        break;
    }
}

START_TEST(a_configuration_pulls_nothing_away_that_lives)
{
    ck_assert_int_eq(pleat_sim_configure("capacity:1G,name:A"), 0);
    ck_ok(cuInit(0));
    make_or_destroy(_i, true);
    uint64_t n_calls = world_counts().calls;
    ck_assert_int_eq(pleat_sim_configure("capacity:2G,name:A"), -1);
    ck_assert_msg(strstr(pleat_sim_error(), "set PLEAT_SIM") != NULL, "%s", pleat_sim_error());
    ck_assert_int_eq(pleat_sim_configure("name:A,capacity:1024M"), 0); /* as it is */
    ck_assert_int_eq(pleat_sim_configure("capcity:1G"), -1);
    ck_assert_ptr_ne(strstr(pleat_sim_error(), "capcity"), NULL);
    ck_assert_uint_eq(total_bytes(0), (size_t)1 << 30);
    ck_assert_uint_gt(world_counts().calls, n_calls);
    make_or_destroy(_i, false);
    ck_assert_int_eq(pleat_sim_configure("capacity:2G,name:A"), 0);
    ck_assert_uint_eq(total_bytes(0), (size_t)2 << 30);
    ck_assert_uint_eq(world_counts().hazards, 0);
}
END_TEST

START_TEST(what_an_owner_has_abandoned_is_pulled_away)
{
    ck_assert_int_eq(pleat_sim_configure("capacity:1G"), 0);
    ck_ok(cuInit(0));
    make_or_destroy(_i, true);
    pleat_sim_abandon();
    ck_assert_int_eq(pleat_sim_configure("capacity:2G"), 0);
    ck_assert_uint_eq(total_bytes(0), (size_t)2 << 30);
    make_or_destroy(_i, true); /* what is made from now on is somebody's again */
    ck_assert_int_eq(pleat_sim_configure("capacity:1G"), -1);
}
END_TEST

START_TEST(streams_are_never_abandoned)
{
    cu_context context;
    cu_stream stream;
    ck_assert_int_eq(pleat_sim_configure("capacity:1G"), 0);
    ck_ok(cuInit(0));
    ck_ok(cuDevicePrimaryCtxRetain(&context, 0));
    ck_ok(cuCtxPushCurrent_v2(context));
    ck_ok(cuStreamCreate(&stream, 1));
    pleat_sim_abandon();
    ck_assert_int_eq(pleat_sim_configure("capacity:2G"), -1);
    ck_assert_int_eq(pleat_sim_configure("capacity:1G"), 0);
    ck_ok(cuStreamQuery(stream));
}
END_TEST

START_TEST(kept_devices_are_those_of_the_environment)
{
    setenv("PLEAT_SIM", "capacity:1G", 1);
    pleat_sim_keep("the test");
    ck_assert_int_eq(pleat_sim_configure("capacity:2G"), -1);
    ck_assert_ptr_ne(strstr(pleat_sim_error(), "those of the test"), NULL);
    ck_assert_int_eq(pleat_sim_configure("capacity:1024M"), 0);
    ck_ok(cuInit(0));
    ck_assert_uint_eq(total_bytes(0), (size_t)1 << 30);
    pleat_sim_keep(NULL);
    ck_assert_int_eq(pleat_sim_configure("capacity:2G"), 0);
    ck_assert_uint_eq(total_bytes(0), (size_t)2 << 30);
}
END_TEST

START_TEST(calls_before_cuinit_answer_not_initialized)
{
    int count;
    int version;
    const char *name;
    cu_mem_prop prop = world_prop(0);
    cu_mem_handle handle;
    ck_assert_int_eq(cuDeviceGetCount(&count), CU_NOT_INITIALIZED);
    ck_assert_int_eq(cuMemCreate(&handle, GRANULE, &prop, 0), CU_NOT_INITIALIZED);
    ck_assert_int_eq(pleat_sim_work(NULL, NULL, 0), CU_NOT_INITIALIZED);
    ck_ok(cuDriverGetVersion(&version));
    ck_ok(cuGetErrorName(CU_NOT_INITIALIZED, &name));
    ck_assert_str_eq(name, "CUDA_ERROR_NOT_INITIALIZED");
    ck_assert_int_eq(cuInit(1), CU_INVALID_VALUE);
    ck_assert_int_eq(cuDeviceGetCount(&count), CU_NOT_INITIALIZED);
}
END_TEST

SUITE(sim_conf)
{
    TCase *keys = tcase_create("keys");
    tcase_add_test(keys, without_a_key_there_is_one_device_of_16_gib);
    tcase_add_test(keys, every_key_has_its_effect);
    tcase_add_test(keys, sizes_take_binary_suffixes);
    tcase_add_test(keys, entry_points_can_be_taken_away);
    suite_add_tcase(suite, keys);
    TCase *errors = tcase_create("errors");
    tcase_add_test(errors, errors_name_the_key);
    tcase_add_test(errors, the_error_of_an_unknown_key_names_the_known_ones);
    tcase_add_test(errors, a_refused_string_changes_nothing);
    suite_add_tcase(suite, errors);
    TCase *life = tcase_create("life");
    tcase_add_test(life, a_reset_forgets_everything_but_cuinit);
    tcase_add_test(life, the_environment_configures_where_nobody_reset);
    tcase_add_test(life, a_bad_environment_fails_cuinit_with_a_text);
    tcase_add_test(life, a_bad_environment_is_told_on_standard_error_once);
    tcase_add_loop_test(life, a_configuration_pulls_nothing_away_that_lives, 0, N_THINGS);
    tcase_add_loop_test(life, what_an_owner_has_abandoned_is_pulled_away, 0, N_THINGS);
    tcase_add_test(life, streams_are_never_abandoned);
    tcase_add_test(life, kept_devices_are_those_of_the_environment);
    tcase_add_test(life, calls_before_cuinit_answer_not_initialized);
    suite_add_tcase(suite, life);
}
