/* api_calls.c - every public call on an instance. Their address is that of no block. */
#include "tests/support/api_calls.h"

enum { NOBODYS = 0x7000 };

static pleat_status call_destroy(pleat instance, int device)
{
    (void)device;
    return pleat_destroy(instance, 0);
}

static pleat_status call_conf(pleat instance, int device)
{
    size_t needed;
    (void)device;
    return pleat_instance_conf(instance, NULL, 0, &needed);
}

static pleat_status call_alloc(pleat instance, int device)
{
    pleat_devptr ptr;
    return pleat_block_alloc(instance, device, 512, NULL, &ptr);
}

static pleat_status call_free(pleat instance, int device)
{
    return pleat_block_free(instance, device, NOBODYS, NULL);
}

static pleat_status call_record(pleat instance, int device)
{
    return pleat_block_record_stream(instance, device, NOBODYS, NULL);
}

static pleat_status call_query(pleat instance, int device)
{
    pleat_block_info info;
    return pleat_block_query(instance, device, NOBODYS, &info);
}

static pleat_status call_trim(pleat instance, int device)
{
    uint64_t released;
    return pleat_device_trim(instance, device, 0, true, &released);
}

static pleat_status call_compact(pleat instance, int device)
{
    pleat_compaction out;
    pleat_status st = pleat_device_compact(instance, device, &out);
    return st == PLEAT_ENOTSUP ? PLEAT_OK : st; /* the classic caches' answer */
}

static pleat_status call_limit(pleat instance, int device)
{
    return pleat_device_set_limit(instance, device, 0);
}

static pleat_status call_info(pleat instance, int device)
{
    uint64_t free_bytes;
    uint64_t total_bytes;
    return pleat_device_memory_info(instance, device, &free_bytes, &total_bytes);
}

static pleat_status call_describe(pleat instance, int device)
{
    pleat_device_info info;
    return pleat_device_describe(instance, device, &info);
}

static pleat_status call_stats(pleat instance, int device)
{
    pleat_stats stats;
    return pleat_device_stats(instance, device, &stats);
}

static pleat_status call_peaks(pleat instance, int device)
{
    return pleat_device_reset_peaks(instance, device);
}

static pleat_status call_release(pleat instance, int device)
{
    return pleat_device_release_capture(instance, device, NULL);
}

static pleat_status call_check(pleat instance, int device)
{
    int broken;
    (void)device;
    return pleat_check(instance, &broken);
}

static pleat_status call_pressure(pleat instance, int device)
{
    (void)device;
    return pleat_set_pressure_callback(instance, NULL, NULL);
}

static pleat_status call_oom(pleat instance, int device)
{
    (void)device;
    return pleat_set_oom_callback(instance, NULL, NULL);
}

static pleat_status call_history(pleat instance, int device)
{
    (void)device;
    return pleat_history_record(instance, 16, 0);
}

const api_call api_calls[] = {
    { "pleat_block_alloc", call_alloc, true },
    { "pleat_block_free", call_free, true },
    { "pleat_block_record_stream", call_record, true },
    { "pleat_block_query", call_query, true },
    { "pleat_device_trim", call_trim, true },
    { "pleat_device_compact", call_compact, true },
    { "pleat_device_set_limit", call_limit, true },
    { "pleat_device_memory_info", call_info, true },
    { "pleat_device_describe", call_describe, true },
    { "pleat_device_stats", call_stats, true },
    { "pleat_device_reset_peaks", call_peaks, true },
    { "pleat_device_release_capture", call_release, true },
    { "pleat_check", call_check, false },
    { "pleat_instance_conf", call_conf, false },
    { "pleat_set_pressure_callback", call_pressure, false },
    { "pleat_set_oom_callback", call_oom, false },
    { "pleat_history_record", call_history, false },
    { "pleat_destroy", call_destroy, false },
};

const unsigned n_api_calls = sizeof api_calls / sizeof api_calls[0];
