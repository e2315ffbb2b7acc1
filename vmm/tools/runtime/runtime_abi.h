/* runtime_abi.h - the part of the CUDA Runtime API's binary interface that PyTorch uses.
 *
 * Own declarations, so that pleat builds without an installed CUDA toolkit. Names differ from
 * cuda_runtime_api.h's on purpose. tests/vmm/runtime_abi_test.c includes both files and asserts
 * that sizes, offsets and constants agree. 64-bit Linux only. Handles of streams, events, graphs
 * and pools are the driver's; result codes have the driver's numbers. Source: CUDA Runtime API and
 * cuBLAS references, version 13.0. */
#ifndef PLEAT_RUNTIME_ABI_H
#define PLEAT_RUNTIME_ABI_H

#include <stddef.h>
#include <stdint.h>

#include "vmm/tools/sim/sim_list.h"

typedef int rt_error; /* a cu_result, see above */

enum {
    RT_INVALID_SYMBOL = 13,
    RT_NOT_SUPPORTED = CU_NOT_SUPPORTED,
    RT_UNREGISTERED = 0, /* types of memory */
    RT_HOST = 1,
    RT_DEVICE = 2,
    RT_MANAGED = 3,
    RT_HOST_TO_HOST = 0, /* directions of copies */
    RT_HOST_TO_DEVICE = 1,
    RT_DEVICE_TO_HOST = 2,
    RT_DEVICE_TO_DEVICE = 3,
    RT_DIRECTION_BY_ADDRESS = 4,
    RT_SYMBOL_FOUND = 0, /* answers of entry point queries */
    RT_SYMBOL_NOT_FOUND = 1,
};

typedef struct rt_dim3 {
    unsigned x;
    unsigned y;
    unsigned z;
} rt_dim3;

typedef struct rt_device_prop {
    char name[256];
    char uuid[16];
    char luid[8];
    unsigned luid_node_mask;
    size_t total_bytes;
    size_t shared_per_block;
    int regs_per_block;
    int warp_size;
    size_t mem_pitch;
    int max_threads_per_block;
    int max_block_dim[3];
    int max_grid_dim[3];
    size_t const_bytes;
    int major;
    int minor;
    size_t texture_alignment;
    size_t texture_pitch_alignment;
    int n_multiprocessors;
    int is_integrated;
    int can_map_host;
    int textures_and_surfaces[39];
    size_t surface_alignment;
    int concurrent_kernels;
    int ecc;
    int pci_bus;
    int pci_device;
    int pci_domain;
    int tcc;
    int n_async_engines;
    int unified_addressing;
    int bus_width;
    int l2_bytes;
    int l2_persisting_bytes;
    int max_threads_per_multiprocessor;
    int stream_priorities;
    int l1_globals;
    int l1_locals;
    size_t shared_per_multiprocessor;
    int regs_per_multiprocessor;
    int managed_memory;
    int is_multi_gpu_board;
    int multi_gpu_board_group;
    int host_native_atomics;
    int pageable_access;
    int concurrent_managed;
    int compute_preemption;
    int host_pointer_for_registered;
    int cooperative_launch;
    size_t shared_per_block_optin;
    int pageable_uses_host_tables;
    int direct_managed_from_host;
    int max_blocks_per_multiprocessor;
    int access_policy_bytes;
    size_t shared_reserved_per_block;
    int host_register;
    int sparse_arrays;
    int host_register_read_only;
    int timeline_semaphores;
    int memory_pools;
    int rdma;
    unsigned rdma_flush_options;
    int rdma_ordering;
    unsigned pool_handle_types;
    int deferred_arrays;
    int ipc_events;
    int cluster_launch;
    int unified_function_pointers;
    int numa_config;
    int numa_id;
    int mps;
    int host_numa_id;
    unsigned gpu_pci_device;
    unsigned gpu_pci_subsystem;
    int host_numa_ipc;
    int reserved[56];
} rt_device_prop;

/* What CUDA 12 says of a device. Parts shared with rt_device_prop are copied whole, so only their
 * first members have names. */
typedef struct rt_device_prop_12 {
    char head[348];
    int clock_khz;
    size_t const_bytes;
    int major;
    int minor;
    size_t texture_alignment;
    size_t texture_pitch_alignment;
    int device_overlap;
    int n_multiprocessors;
    int has_kernel_time_limit;
    int is_integrated;
    int can_map_host;
    int compute_mode;
    int textures_and_surfaces[40];
    size_t surface_alignment;
    int abilities[8]; /* from concurrent_kernels on */
    int memory_clock_khz;
    int bus_width;
    int limits[6]; /* from l2_bytes on */
    size_t shared_per_multiprocessor;
    int more_abilities[5]; /* from regs_per_multiprocessor on */
    int single_to_double;
    int pageable_access;
    int concurrent_managed;
    int compute_preemption;
    int host_pointer_for_registered;
    int cooperative_launch;
    int cooperative_multi_device;
    size_t shared_per_block_optin;
    int pageable_uses_host_tables;
    int direct_managed_from_host;
    int max_blocks_per_multiprocessor;
    int access_policy_bytes;
    size_t shared_reserved_per_block;
    int tail[13]; /* from host_register on, to unified_function_pointers */
    int reserved[63];
} rt_device_prop_12;

typedef struct rt_func_attributes {
    size_t shared_bytes;
    size_t const_bytes;
    size_t local_bytes;
    int max_threads_per_block;
    int n_regs;
    int ptx_version;
    int binary_version;
    int cache_mode;
    int max_dynamic_shared_bytes;
    int shared_carveout;
    int cluster[5];
    int non_portable_cluster;
    int reserved[16];
} rt_func_attributes;

/* As in CUDA 12, whose programs have no room for the 64 bytes reserved by CUDA 13 behind. */
typedef struct rt_pointer_attributes {
    int type;
    int device;
    void *device_pointer;
    void *host_pointer;
} rt_pointer_attributes;

typedef struct rt_launch_config {
    rt_dim3 grid;
    rt_dim3 block;
    size_t shared_bytes;
    cu_stream stream;
    void *attributes;
    unsigned n_attributes;
} rt_launch_config;

typedef cu_ipc_handle rt_ipc_handle;

typedef void (*rt_host_fn)(void *user);
typedef void (*rt_stream_callback)(cu_stream stream, rt_error status, void *user);

/* What the matrix library's heuristics answer. */
typedef struct rt_lt_heuristic {
    uint64_t algo[8];
    size_t workspace_bytes;
    int state;
    float waves;
    int reserved[4];
} rt_lt_heuristic;

#endif
