/* config.h - the configuration of an instance: PLEAT_CONF and the string given to pleat_create.
 *
 * The syntax is PyTorch's: `key:value,key:value`. Blanks around keys and values are ignored. A
 * value may be bracketed, `sim:[devices:2,capacity:8G]`. Booleans are exactly True or False. Both
 * strings are checked as a whole: an unknown key, a bad value or a repeated key is an error that
 * names the key. A key of the second string replaces the same key of the first. Keys of an
 * allocator or driver that is not chosen are checked but have no effect, so that one PLEAT_CONF
 * serves several allocators side by side. Both strings override MXNet's own variables, which
 * concern only MXNet's allocators: mxnet.h. All keys: docs/configuration.md. */
#ifndef PLEAT_API_CONFIG_H
#define PLEAT_API_CONFIG_H

#include "segments/base/allocator.h"
#include "vmm/device.h"
#include "vmm/driver.h"

enum { PL_SIM_CONF_BYTES = 1024, PL_METRICS_BYTES = 512 };

typedef enum pl_history_frames {
    PL_HISTORY_FRAMES_NONE,
    PL_HISTORY_FRAMES_ALLOC,
    PL_HISTORY_FRAMES_ALL,
} pl_history_frames;

typedef enum pl_memory { PL_MEMORY_DEVICE, PL_MEMORY_HOST } pl_memory;

typedef struct pl_config {
    pl_driver_kind driver;
    bool has_sim_conf;
    char sim_conf[PL_SIM_CONF_BYTES]; /* the text inside the brackets */
    const pl_allocator_ops *allocator;
    const pl_allocator_ops *fallback; /* taken where VMM does not work; NULL = none */
    uint64_t limit_bytes;             /* 0 = not given in bytes */
    uint32_t limit_parts;             /* parts per 10^9 of the device's memory; 0 = none */
    pl_memory memory;                 /* device or host memory: device.is_host follows this */
    bool time_calls;
    uint64_t history_entries; /* of each device's history; 0 = none is recorded */
    pl_history_frames history_frames;
    char metrics[PL_METRICS_BYTES]; /* a path, or auto; empty = none are written */
    unsigned metrics_ms;            /* between two pages */
    char policy[PL_METRICS_BYTES];  /* a shared object (pleat_policy.h); empty = none */
    pl_allocator_options options;   /* except limit_bytes, which depends on the device */
    pl_device_options device;
} pl_config;

/* Read PLEAT_CONF, then `conf` (may be NULL) over it. PLEAT_OK; PLEAT_ECONF, and pleat_last_error
 * names the string, the key, the bad value and the allowed values. */
pleat_status pl_config_read(const char *conf, pl_config *out);

/* Write the whole configuration as one string; pl_config_read reads an equal configuration back.
 * Writes at most `capacity` bytes. Returns the bytes of the whole text. Both include the end mark.
 * */
size_t pl_config_write(const pl_config *config, char *text, size_t capacity);

/* The user's folder for files of running programs; NULL = none is named. */
const char *pl_config_runtime_folder(void);

/* The limit in bytes on a device of `total_bytes`; 0 = none. */
uint64_t pl_config_limit(const pl_config *config, uint64_t total_bytes);

#endif
