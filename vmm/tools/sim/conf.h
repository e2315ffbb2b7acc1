/* conf.h - the simulator's strict configuration string, `key:value,key:value`. */
#ifndef PLEAT_SIM_CONF_H
#define PLEAT_SIM_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SIM_MAX_DEVICES = 16, SIM_CONF_ENTRIES = 160 };

typedef enum sim_profile {
    SIM_PROFILE_FULL,
    SIM_PROFILE_NO_VMM,    /* attribute 102 is 0, every VMM call answers NOT_SUPPORTED */
    SIM_PROFILE_OLD_DRIVER /* CUDA 11.2: later calls answer NOT_FOUND */
} sim_profile;

/* Which devices can use a peer's memory. */
typedef enum sim_peers {
    SIM_PEERS_ALL,
    SIM_PEERS_PAIRS, /* 0 and 1, 2 and 3... */
    SIM_PEERS_NONE
} sim_peers;

/* What a call with the handle of a destroyed stream or event does. */
typedef enum sim_dead { SIM_DEAD_ERROR, SIM_DEAD_HAZARD, SIM_DEAD_CRASH } sim_dead;

typedef struct sim_conf {
    int n_devices;
    uint64_t capacity_bytes; /* of each device */
    uint64_t host_bytes;     /* of pinned host memory */
    uint64_t context_bytes;  /* the primary context's share of capacity_bytes */
    uint64_t granule_bytes;
    unsigned granule_shift;
    bool has_memory; /* backing:memory */
    uint64_t depth;
    unsigned va_bits;
    sim_profile profile;
    sim_peers peers;
    bool is_log_full;
    bool is_fork_refused;
    bool is_free_waiting;  /* cuMemFree synchronises the device first */
    bool is_unmap_partial; /* a refused cuMemUnmap has unmapped the first half */
    bool is_vmm_unsafe;    /* calls of VMM are unsafe during stream capture */
    bool is_rdma_broken;   /* memory that is RDMA capable can be mapped, but not granted */
    bool is_host_refused;  /* cuMemCreate on a node of the host answers OUT_OF_MEMORY */
    bool is_host_crashing; /* the same kills the process */
    bool is_green_apart;   /* acts on a primary context leave out its green contexts */
    bool has_green_events; /* an event belongs to the green context of its creation */
    bool is_untold;        /* pleat_sim_tell does nothing */
    bool is_wait_refused;  /* a synchronisation that would have to wait answers NOT_READY */
    int compute_major;
    int compute_minor;
    sim_dead dead_handles;
    bool lacks[SIM_CONF_ENTRIES];           /* by sim_entry: answers NOT_FOUND */
    unsigned delay_us[2][SIM_CONF_ENTRIES]; /* by sim_delay_when and sim_entry */
    char name[96];
    char costs[256]; /* a file, or the name of a built-in model */
} sim_conf;

/* Parse `text` (NULL or empty = all defaults). Returns false and a message that names the key. */
bool sim_conf_parse(const char *text, sim_conf *out, char *error, size_t n_error);

/* Of two that were parsed: is a device of the one like a device of the other? */
bool sim_conf_is_equal(const sim_conf *a, const sim_conf *b);

/* The value of PLEAT_SIM, or NULL: the simulator's only environment variable. */
const char *sim_conf_environment(void);

#endif
