/* torch_stats.c - a device's statistics under the keys of torch.cuda.memory_stats.
 *
 * The keys come in Python's sorting order: '.' before '_' before letters. This file remembers the
 * last reset of "accumulated" counts, since only PyTorch resets them: pleat_device_stats never
 * does. Guarded by the api lock; calls no driver. Source: torch/csrc/cuda/Module.cpp (memoryStats).
 * */
#include "api/adapters/pleat_torch.h"

#include <stdlib.h>
#include <string.h>

#include "api/base/sized.h"
#include "api/base/text.h"
#include "api/instance/slot.h"

typedef enum { GROUP, SINGLE, SCALAR, NEVER, MAX_SPLIT, PRIVATE } row_kind;

typedef struct row {
    const char *name;
    row_kind kind;
    size_t at; /* in pleat_stats */
} row;

#define ROW(kind, name)                                                                            \
    {                                                                                              \
#name, kind, offsetof(pleat_stats, name)                                                   \
    }
static const row rows[] = {
    ROW(GROUP, active),
    ROW(GROUP, active_bytes),
    ROW(GROUP, allocated_bytes),
    ROW(GROUP, allocation),
    ROW(GROUP, inactive_split),
    ROW(GROUP, inactive_split_bytes),
    { "max_split_size", MAX_SPLIT, 0 },
    ROW(SCALAR, num_alloc_retries),
    ROW(SCALAR, num_device_alloc),
    ROW(SCALAR, num_device_free),
    { "num_oom_rejections", NEVER, 0 }, /* pleat has no such policy */
    ROW(SCALAR, num_ooms),
    ROW(SCALAR, num_sync_all_streams),
    ROW(SINGLE, oversize_allocations),
    ROW(SINGLE, oversize_segments),
    ROW(GROUP, requested_bytes),
    ROW(GROUP, reserved_bytes),
    { "reserved_bytes_by_private_pools", PRIVATE, 0 },
    ROW(GROUP, segment),
};

typedef struct teller {
    void (*see)(void *context, const char *key, int64_t value);
    void *context;
    const pleat_stats *stats;
    int64_t max_split;
    const pl_pool_figures *pools; /* [n_pools], by name */
    size_t n_pools;
} teller;

static void tell(const teller *to, const char *prefix, const char *middle, const char *last,
                 uint64_t value)
{
    char key[160];
    pl_text text;
    pl_text_init(&text, key, sizeof key);
    pl_text_add(&text, "%s%s%s", prefix, middle, last);
    to->see(to->context, key, (int64_t)value);
}

static void tell_stat(const teller *to, const char *prefix, const char *middle,
                      const pleat_stat *stat)
{
    tell(to, prefix, middle, ".allocated", stat->allocated);
    tell(to, prefix, middle, ".current", stat->current);
    tell(to, prefix, middle, ".freed", stat->freed);
    tell(to, prefix, middle, ".peak", stat->peak);
}

static void tell_group(const teller *to, const char *prefix, const pleat_stat group[PLEAT_N_SIZES])
{
    tell_stat(to, prefix, ".all", &group[PLEAT_SIZES_ALL]);
    tell_stat(to, prefix, ".large_pool", &group[PLEAT_SIZES_LARGE]);
    tell_stat(to, prefix, ".small_pool", &group[PLEAT_SIZES_SMALL]);
}

/* ---- private pools ---- */

enum { NAME_BYTES = 48 };

static void name_pool(char name[NAME_BYTES], pleat_pool_id id)
{
    pl_text text;
    pl_text_init(&text, name, NAME_BYTES);
    pl_text_add(&text, "%llu_%llu", (unsigned long long)id.first, (unsigned long long)id.second);
}

static int by_name(const void *a, const void *b)
{
    char first[NAME_BYTES];
    char second[NAME_BYTES];
    name_pool(first, ((const pl_pool_figures *)a)->id);
    name_pool(second, ((const pl_pool_figures *)b)->id);
    return strcmp(first, second);
}

static void tell_pools(const teller *to, const char *name)
{
    for (size_t i = 0; i < to->n_pools; i++) {
        char of[NAME_BYTES];
        char prefix[2 * NAME_BYTES];
        pl_text text;
        name_pool(of, to->pools[i].id);
        pl_text_init(&text, prefix, sizeof prefix);
        pl_text_add(&text, "%s.%s", name, of);
        tell_group(to, prefix, to->pools[i].reserved);
    }
}

static void tell_row(const teller *to, const row *r)
{
    const void *field = (const char *)to->stats + r->at;
    switch (r->kind) {
    case GROUP:
        tell_group(to, r->name, field);
        break;
    case SINGLE:
        tell_stat(to, r->name, "", field);
        break;
    case SCALAR:
        tell(to, r->name, "", "", *(const uint64_t *)field);
        break;
    case NEVER:
        tell(to, r->name, "", "", 0);
        break;
    case MAX_SPLIT:
        to->see(to->context, r->name, to->max_split);
        break;
    case PRIVATE:
        tell_pools(to, r->name);
    }
}

/* ---- since the last reset ---- */

static struct {
    uint64_t handle;   /* api lock: the instance that `stats` belong to; 0 = none */
    pleat_stats stats; /* api lock: the counts at the last reset */
} since[PL_N_DEVICES];

/* Subtracts the counts in `before` from every sum of `stats`. */
static void subtract(pleat_stats *stats, const pleat_stats *before)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pleat_stat *stat = (pleat_stat *)((char *)stats + rows[i].at);
        const pleat_stat *old = (const pleat_stat *)((const char *)before + rows[i].at);
        size_t n = rows[i].kind == GROUP ? PLEAT_N_SIZES : rows[i].kind == SINGLE ? 1 : 0;
        for (size_t k = 0; k < n; k++) {
            stat[k].allocated -= old[k].allocated;
            stat[k].freed -= old[k].freed;
        }
        if (rows[i].kind == SCALAR) {
            *(uint64_t *)((char *)stats + rows[i].at) -= *(const uint64_t *)((const char *)before +
                                                                             rows[i].at);
        }
    }
}

/* Reads the counts at the last reset; all zero if there was none. */
static void read_since(pleat handle, int device, pleat_stats *out)
{
    memset(out, 0, sizeof *out);
    pl_api_acquire();
    if ((unsigned)device < PL_N_DEVICES && since[device].handle == pl_handle_word(handle)) {
        *out = since[device].stats;
    }
    pl_api_release();
}

pleat_status pleat_torch_reset_accumulated(int device)
{
    pleat handle;
    pleat_stats stats;
    pleat_status st = pleat_default(&handle);
    st = st == PLEAT_OK ? pleat_device_stats(handle, device, &stats) : st;
    if (st != PLEAT_OK) {
        return st;
    }
    pl_api_acquire();
    since[device].handle = pl_handle_word(handle);
    since[device].stats = stats;
    pl_api_release();
    return PLEAT_OK;
}

/* Only the allocators named torch-* split by size; -1 stands for no bound. */
static int64_t max_split_of(pleat handle)
{
    int64_t bytes = 0;
    pl_use use = pl_use_enter(handle);
    if (use.instance) {
        const pl_config *config = &use.instance->config;
        bytes = (int64_t)pl_cache_options_of(config->allocator, &config->options).max_split_bytes;
        pl_use_leave(use);
    }
    return bytes > 0 ? bytes : -1;
}

/* Includes memory of the private pools. */
static pleat_status tell_all(pleat handle, int device, teller to)
{
    pl_pool_figures *figures = NULL;
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    pl_gpu *gpu = pl_use_find_gpu(use.instance, device);
    pleat_status st = gpu ? pl_pools_read(&gpu->pools, &figures, &to.n_pools) : PLEAT_OK;
    if (st == PLEAT_OK) {
        if (to.n_pools > 0) {
            qsort(figures, to.n_pools, sizeof *figures, by_name);
        }
        to.pools = figures;
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            tell_row(&to, &rows[i]);
        }
    } else {
        pl_error_set(st, 0, "device %d: the private pools could not be listed", device);
    }
    if (gpu) {
        pl_pools_drop(&gpu->pools, figures);
    }
    pl_use_leave(use);
    return st;
}

/* What the sums and counters are since the last reset. */
static pleat_status read_stats(int device, pleat *handle, pleat_stats *out)
{
    pleat_stats before;
    pleat_status st = pleat_default(handle);
    if (st != PLEAT_OK) {
        return st;
    }
    read_since(*handle, device, &before); /* first, so that no count can fall below `before` */
    st = pleat_device_stats(*handle, device, out);
    if (st == PLEAT_OK) {
        subtract(out, &before);
    }
    return st;
}

pleat_status pleat_torch_device_stats_sized(int device, size_t out_bytes, pleat_stats *out)
{
    static const pl_sized kind = PL_SIZED_STATS;
    pleat handle;
    pleat_stats stats;
    pleat_status st = pl_sized_check(&kind, out_bytes, out);
    st = st == PLEAT_OK ? read_stats(device, &handle, &stats) : st;
    if (st == PLEAT_OK) {
        pl_sized_write(&kind, &stats, out_bytes, out);
    }
    return st;
}

pleat_status pleat_torch_stats(int device,
                               void (*see)(void *context, const char *key, int64_t value),
                               void *context)
{
    pleat handle;
    pleat_stats stats;
    if (!see) {
        return pl_error_set(PLEAT_EINVAL, 0, "pleat_torch_stats: `see` is NULL");
    }
    pleat_status st = read_stats(device, &handle, &stats);
    if (st != PLEAT_OK) {
        return st;
    }
    return tell_all(
        handle, device,
        (teller){
            .see = see, .context = context, .stats = &stats, .max_split = max_split_of(handle) });
}
