/* api_calls.c - every public call on an instance. The calls name an address without a block. */
#include "tests/support/api/api_calls.h"

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

static pleat_status end_buffer(pleat instance, int device, pleat_status st, pleat_devptr buffer)
{
    if (st == PLEAT_OK) {
        return pleat_buffer_destroy(instance, device, buffer, NULL);
    }
    return st == PLEAT_ENOTSUP ? PLEAT_OK : st; /* the classic caches' answer */
}

static pleat_status call_buffer_create(pleat instance, int device)
{
    pleat_devptr buffer = 0;
    pleat_status st = pleat_buffer_create(instance, device, 1 << 20, 0, &buffer);
    return end_buffer(instance, device, st, buffer);
}

static pleat_status call_buffer_create_aligned(pleat instance, int device)
{
    pleat_devptr buffer = 0;
    pleat_status st = pleat_buffer_create_aligned(instance, device, 1 << 20, 0, 8 << 20, &buffer);
    return end_buffer(instance, device, st, buffer);
}

static pleat_status call_buffer_resize(pleat instance, int device)
{
    return pleat_buffer_resize(instance, device, NOBODYS, 1, NULL);
}

static pleat_status call_buffer_commit(pleat instance, int device)
{
    return pleat_buffer_commit(instance, device, NOBODYS, 0, 1, NULL);
}

static pleat_status call_buffer_decommit(pleat instance, int device)
{
    return pleat_buffer_decommit(instance, device, NOBODYS, 0, 1, NULL);
}

static pleat_status call_buffer_record(pleat instance, int device)
{
    return pleat_buffer_record_stream(instance, device, NOBODYS, NULL);
}

static pleat_status call_buffer_destroy(pleat instance, int device)
{
    return pleat_buffer_destroy(instance, device, NOBODYS, NULL);
}

static pleat_status call_buffer_query(pleat instance, int device)
{
    pleat_buffer_info info;
    return pleat_buffer_query(instance, device, NOBODYS, &info);
}

/* The memory belongs to devices, not to the host, so the call is refused. */
static pleat_status of_devices(pleat_status st)
{
    return st == PLEAT_ENOTSUP ? PLEAT_OK : st;
}

static pleat_status call_host_alloc(pleat instance, int device)
{
    void *ptr;
    return of_devices(pleat_host_alloc(instance, device, 512, &ptr));
}

static pleat_status call_host_free(pleat instance, int device)
{
    return of_devices(pleat_host_free(instance, device, NULL, NULL));
}

static pleat_status call_host_record(pleat instance, int device)
{
    return of_devices(pleat_host_record_stream(instance, device, NULL, NULL));
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
    return pleat_device_query(instance, device, &info);
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

enum { NO_BYTES = 0 };

static void use_tag(void)
{
    if (pleat_tag_push("called") == PLEAT_OK) {
        (void)!pleat_tag_pop();
    }
}

static pleat_status but_unsupported(pleat_status st)
{
    return st == PLEAT_ENOTSUP ? PLEAT_OK : st; /* the classic caches' answer */
}

static pleat_status call_tag_limit(pleat instance, int device)
{
    return but_unsupported(pleat_tag_set_limit(instance, device, "called", NO_BYTES));
}

static pleat_status call_tag_stats(pleat instance, int device)
{
    pleat_tag_info out;
    use_tag();
    return pleat_tag_query(instance, device, "called", &out);
}

static pleat_status call_tag_wake(pleat instance, int device)
{
    use_tag();
    return pleat_tag_wake(instance, device, "called", NO_BYTES, NULL);
}

static pleat_status call_tag_sleep(pleat instance, int device)
{
    use_tag();
    pleat_status st = pleat_tag_sleep(instance, device, "called", PLEAT_SLEEP_DISCARD, NULL, NULL);
    return st == PLEAT_OK ? call_tag_wake(instance, device) : but_unsupported(st);
}

const api_call api_calls[] = {
    { "pleat_block_alloc", call_alloc, true },
    { "pleat_block_free", call_free, true },
    { "pleat_block_record_stream", call_record, true },
    { "pleat_block_query", call_query, true },
    { "pleat_host_alloc", call_host_alloc, true },
    { "pleat_host_free", call_host_free, true },
    { "pleat_host_record_stream", call_host_record, true },
    { "pleat_buffer_create", call_buffer_create, true },
    { "pleat_buffer_create_aligned", call_buffer_create_aligned, true },
    { "pleat_buffer_resize", call_buffer_resize, true },
    { "pleat_buffer_commit", call_buffer_commit, true },
    { "pleat_buffer_decommit", call_buffer_decommit, true },
    { "pleat_buffer_record_stream", call_buffer_record, true },
    { "pleat_buffer_destroy", call_buffer_destroy, true },
    { "pleat_buffer_query", call_buffer_query, true },
    { "pleat_device_trim", call_trim, true },
    { "pleat_device_compact", call_compact, true },
    { "pleat_device_set_limit", call_limit, true },
    { "pleat_device_memory_info", call_info, true },
    { "pleat_device_query", call_describe, true },
    { "pleat_device_stats", call_stats, true },
    { "pleat_device_reset_peaks", call_peaks, true },
    { "pleat_device_release_capture", call_release, true },
    { "pleat_tag_set_limit", call_tag_limit, true },
    { "pleat_tag_query", call_tag_stats, true },
    { "pleat_tag_sleep", call_tag_sleep, true },
    { "pleat_tag_wake", call_tag_wake, true },
    { "pleat_check", call_check, false },
    { "pleat_instance_conf", call_conf, false },
    { "pleat_set_pressure_callback", call_pressure, false },
    { "pleat_set_oom_callback", call_oom, false },
    { "pleat_history_record", call_history, false },
    { "pleat_destroy", call_destroy, false },
};

const unsigned n_api_calls = sizeof api_calls / sizeof api_calls[0];
