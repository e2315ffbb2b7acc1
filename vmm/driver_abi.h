/* driver_abi.h - the part of the CUDA Driver API's binary interface that pleat uses.
 *
 * Own declarations, so that pleat builds without an installed CUDA toolkit. Names differ from
 * cuda.h's on purpose. tests/vmm/abi_test.c includes both files and asserts that every size, offset
 * and constant agrees. 64-bit Linux only. Source: CUDA Driver API reference, versions 11.2 to
 * 13.0. */
#ifndef PLEAT_VMM_DRIVER_ABI_H
#define PLEAT_VMM_DRIVER_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef int cu_result;
typedef int cu_device;
typedef unsigned long long cu_devptr;
typedef unsigned long long cu_mem_handle;
typedef struct cu_ctx_st *cu_context;
typedef struct cu_stream_st *cu_stream;
typedef struct cu_event_st *cu_event;
typedef struct cu_graph_st *cu_graph;
typedef struct cu_graph_exec_st *cu_graph_exec;
typedef struct cu_graph_node_st *cu_graph_node;
typedef struct cu_mempool_st *cu_mempool;
typedef struct cu_user_object_st *cu_user_object;
typedef struct cu_green_ctx_st *cu_green_ctx;
typedef void (*cu_host_fn)(void *user_data);

enum {
    CU_SUCCESS = 0,
    CU_INVALID_VALUE = 1,
    CU_OUT_OF_MEMORY = 2,
    CU_NOT_INITIALIZED = 3,
    CU_DEINITIALIZED = 4,
    CU_NO_DEVICE = 100,
    CU_INVALID_DEVICE = 101,
    CU_INVALID_CONTEXT = 201,
    CU_ALREADY_MAPPED = 208,
    CU_NOT_MAPPED = 211,
    CU_OPERATING_SYSTEM = 304,
    CU_INVALID_HANDLE = 400,
    CU_ILLEGAL_STATE = 401,
    CU_NOT_FOUND = 500,
    CU_NOT_READY = 600,
    CU_ILLEGAL_ADDRESS = 700,
    CU_CONTEXT_IS_DESTROYED = 709,
    CU_HOST_ALREADY_REGISTERED = 712,
    CU_HOST_NOT_REGISTERED = 713,
    CU_NOT_PERMITTED = 800,
    CU_NOT_SUPPORTED = 801,
    CU_CAPTURE_UNSUPPORTED = 900,
    CU_CAPTURE_INVALIDATED = 901,
    CU_CAPTURE_MERGE = 902,
    CU_CAPTURE_UNMATCHED = 903,
    CU_CAPTURE_UNJOINED = 904,
    CU_CAPTURE_ISOLATION = 905,
    CU_CAPTURE_IMPLICIT = 906,
    CU_CAPTURED_EVENT = 907,
    CU_CAPTURE_WRONG_THREAD = 908,
    CU_STREAM_DETACHED = 917, /* its green context was destroyed */
    CU_UNKNOWN = 999,
};

/* Two handles that are not pointers, for the two kinds of default stream. */
#define CU_STREAM_LEGACY ((cu_stream)0x1)
#define CU_STREAM_PER_THREAD ((cu_stream)0x2)

enum {
    CU_STREAM_DEFAULT_FLAG = 0,
    CU_STREAM_NON_BLOCKING_FLAG = 1,
    CU_EVENT_DEFAULT_FLAG = 0,
    CU_EVENT_DISABLE_TIMING_FLAG = 2,
};

enum {
    CU_ATTR_INTEGRATED = 18,
    CU_ATTR_CAN_MAP_HOST = 19,
    CU_ATTR_PCI_BUS_ID = 33,
    CU_ATTR_PCI_DEVICE_ID = 34,
    CU_ATTR_UNIFIED_ADDRESSING = 41,
    CU_ATTR_PCI_DOMAIN_ID = 50,
    CU_ATTR_COMPUTE_MAJOR = 75,
    CU_ATTR_COMPUTE_MINOR = 76,
    CU_ATTR_MANAGED_MEMORY = 83,
    CU_ATTR_HOST_REGISTER_SUPPORTED = 99,
    CU_ATTR_VMM_SUPPORTED = 102,
    CU_ATTR_POSIX_FD_SUPPORTED = 103,
    CU_ATTR_RDMA_WITH_VMM_SUPPORTED = 110,
    CU_ATTR_MEMPOOLS_SUPPORTED = 115,
    CU_ATTR_64_BIT_STREAM_MEM_OPS = 122,
    CU_ATTR_FABRIC_SUPPORTED = 128,
    CU_ATTR_HOST_NUMA_ID = 134,
};

enum {
    CU_ALLOCATION_PINNED = 1,
    CU_LOCATION_DEVICE = 1,
    CU_LOCATION_HOST_NUMA = 3,
    CU_HANDLE_NONE = 0,
    CU_HANDLE_POSIX_FD = 1,
    CU_HANDLE_FABRIC = 8,
    CU_ACCESS_NONE = 0,
    CU_ACCESS_READ = 1,
    CU_ACCESS_READ_WRITE = 3,
    CU_GRANULARITY_MINIMUM = 0,
    CU_GRANULARITY_RECOMMENDED = 1,
};

/* Attributes of addresses, and the answers to the first. */
enum {
    CU_POINTER_MEMORY_TYPE = 2,
    CU_POINTER_DEVICE_POINTER = 3,
    CU_POINTER_HOST_POINTER = 4,
    CU_POINTER_IS_MANAGED = 8,
    CU_POINTER_DEVICE_ORDINAL = 9,
    CU_MEMORY_OF_HOST = 1,
    CU_MEMORY_OF_DEVICE = 2,
};

/* Of cuMemHostAlloc, for all contexts, and at the same address on devices. */
enum { CU_HOST_PORTABLE = 1, CU_HOST_MAPPED = 2, CU_HOST_WRITE_COMBINED = 4 };

/* Of cuMemHostRegister (all flags), and of cuMemAllocManaged. */
enum { CU_HOST_REGISTER_FLAGS = 15, CU_ATTACH_GLOBAL = 1, CU_ATTACH_HOST = 2 };

enum { CU_POOL_USAGE_HW_DECOMPRESS = 2 };

enum { CU_CAPTURE_NONE = 0, CU_CAPTURE_ACTIVE = 1, CU_CAPTURE_STATUS_INVALIDATED = 2 };
enum { CU_CAPTURE_MODE_GLOBAL = 0, CU_CAPTURE_MODE_THREAD_LOCAL = 1, CU_CAPTURE_MODE_RELAXED = 2 };

/* User objects: the one flag required at creation, and the retaining flag, which moves the caller's
 * references to the graph. */
enum { CU_OBJECT_UNSYNCED = 1, CU_OBJECT_MOVE = 1 };

/* Attributes of pools. The first three are int, the rest 64 bits wide. */
enum {
    CU_POOL_FOLLOW_EVENTS = 1,
    CU_POOL_OPPORTUNISTIC = 2,
    CU_POOL_INTERNAL_DEPENDENCIES = 3,
    CU_POOL_RELEASE_THRESHOLD = 4,
    CU_POOL_RESERVED_CURRENT = 5, /* from this value on: since CUDA 11.3 */
    CU_POOL_RESERVED_HIGH = 6,
    CU_POOL_USED_CURRENT = 7,
    CU_POOL_USED_HIGH = 8,
};

typedef struct cu_mem_location {
    int type;
    int id;
} cu_mem_location;

typedef struct cu_mem_prop {
    int type;
    int handle_types;
    cu_mem_location location;
    void *win32_metadata;
    struct {
        unsigned char compression_type;
        unsigned char rdma_capable;
        unsigned short usage;
        unsigned char reserved[4];
    } flags;
} cu_mem_prop;

typedef struct cu_access_desc {
    cu_mem_location location;
    int flags;
} cu_access_desc;

typedef struct cu_mempool_props {
    int type;
    int handle_types;
    cu_mem_location location;
    void *win32_attributes;
    size_t max_bytes;     /* since CUDA 12.2; reserved before, so 0 */
    unsigned short usage; /* since CUDA 12.8; reserved before, so 0 */
    unsigned char reserved[54];
} cu_mempool_props;

#endif
