/* setup.h - which driver and configuration the runs of a command use. */
#ifndef PLEAT_BENCH_SETUP_H
#define PLEAT_BENCH_SETUP_H

#include "api/config/config.h"
#include "api/pleat.h"
#include "bench/base/failure.h"

/* Where the user wants the runs. */
typedef struct bench_target {
    bool has_own_allocators; /* the command has no --allocator */
    bool has_driver;         /* --driver was given */
    pl_driver_kind driver;
    unsigned depth;
    const char *conf;        /* "" */
    const char *own_conf;    /* settings of the command besides conf; NULL = none */
    const char *sim;         /* "" */
    const char *sim_default; /* for keys that are not given; NULL = none */
} bench_target;

typedef struct bench_setup {
    pl_config config;            /* the user's configuration, with the driver chosen */
    char sim[PL_SIM_CONF_BYTES]; /* the simulator's configuration without capacity and depth */
    unsigned depth;
    bool is_chosen;                       /* the user chose this driver */
    char policy_script[PL_METRICS_BYTES]; /* of Python, which a policy runs (policy.h); or "" */
    char gpu[128];
    uint64_t granule_bytes;
    uint64_t total_bytes;
} bench_setup;

/* Reads PLEAT_CONF, --conf, PLEAT_SIM and --sim, opens the driver once and looks at its GPU.
 * False and a message when a source is bad. */
bool bench_setup_init(bench_setup *setup, const bench_target *target, bench_failure *failure);

/* Apply settings of a recorded run on top of PLEAT_CONF. False if a setting is bad; `setup` then
 * stays as before. */
bool bench_setup_take(bench_setup *setup, const char *conf);

/* "sim" or "cuda". */
const char *bench_setup_driver(const bench_setup *setup);
bool bench_setup_is_sim(const bench_setup *setup);
/* The memory of a run that is given no size. */
uint64_t bench_setup_unlimited(const bench_setup *setup, bool is_host);
/* The line about the GPU: "SIMULATED GPU (no CUDA driver found)" or the GPU's name. */
const char *bench_setup_banner(const bench_setup *setup, char *out, size_t n);

/* Make a fresh instance: on the simulator with fresh devices of `memory_bytes`, on CUDA with
 * `memory_bytes` as the limit; 0 = no limit. */
bool bench_setup_create(const bench_setup *setup, const char *allocator, uint64_t memory_bytes,
                        pleat *out, bench_failure *failure);
/* bench_setup_create, or, if is_host, for pinned memory of the host. Then `memory_bytes` is the
 * simulated host's size or the limit, and the devices are unlimited. */
bool bench_setup_create_for(const bench_setup *setup, const char *allocator, bool is_host,
                            uint64_t memory_bytes, pleat *out, bench_failure *failure);

#endif
