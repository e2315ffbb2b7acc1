/* nccl_api.h - the communication library's calls exported by libpleat_runtime.so, with the needed
 * part of its binary interface.
 *
 * Own declarations, as in runtime_abi.h. Source: the vendor's header, version 2.28.9, the version
 * of PyTorch 2.11. */
#ifndef PLEAT_RUNTIME_NCCL_API_H
#define PLEAT_RUNTIME_NCCL_API_H

#include "vmm/tools/runtime/runtime_api.h"

enum {
    NCCL_VERSION = 22809,
    NCCL_SUCCESS = 0,
    NCCL_CUDA_ERROR = 1,
    NCCL_SYSTEM_ERROR = 2,
    NCCL_INTERNAL_ERROR = 3,
    NCCL_INVALID_ARGUMENT = 4,
    NCCL_INVALID_USAGE = 5,
    NCCL_REMOTE_ERROR = 6,
    NCCL_IN_PROGRESS = 7,
    NCCL_N_TYPES = 12,
    NCCL_N_OPS = 5, /* operators made by the program have higher numbers */
    NCCL_MAX_OP = 0x7fffffff,
    NCCL_NO_COLOR = -1,
    NCCL_ID_BYTES = 128,
    NCCL_CONFIG_MAGIC = (int)0xcafebeef,
};

typedef struct nccl_comm nccl_comm;

typedef struct nccl_id {
    char bytes[NCCL_ID_BYTES];
} nccl_id;

/* The start of a configuration. The later fields change nothing. */
typedef struct nccl_config {
    size_t bytes;
    unsigned magic;
    unsigned version;
} nccl_config;

typedef struct nccl_forecast {
    size_t bytes;
    unsigned magic;
    unsigned version;
    float us;
} nccl_forecast;

/* life */
RT_EXPORT int ncclGetVersion(int *version);
RT_EXPORT int ncclGetUniqueId(nccl_id *id);
RT_EXPORT int ncclCommInitRank(nccl_comm **comm, int n_ranks, nccl_id id, int rank);
RT_EXPORT int ncclCommInitRankConfig(nccl_comm **comm, int n_ranks, nccl_id id, int rank,
                                     const nccl_config *config);
RT_EXPORT int ncclCommInitRankScalable(nccl_comm **comm, int n_ranks, int rank, int n_ids,
                                       const nccl_id *ids, const nccl_config *config);
RT_EXPORT int ncclCommInitAll(nccl_comm **comms, int n_devices, const int *devices);
RT_EXPORT int ncclCommSplit(nccl_comm *comm, int color, int key, nccl_comm **out,
                            const nccl_config *config);
RT_EXPORT int ncclCommShrink(nccl_comm *comm, const int *excluded, int n_excluded, nccl_comm **out,
                             const nccl_config *config, int flags);
RT_EXPORT int ncclCommFinalize(nccl_comm *comm);
RT_EXPORT int ncclCommDestroy(nccl_comm *comm);
RT_EXPORT int ncclCommAbort(nccl_comm *comm);
RT_EXPORT int ncclCommRevoke(nccl_comm *comm, int flags);

/* questions */
RT_EXPORT const char *ncclGetErrorString(int result);
RT_EXPORT const char *ncclGetLastError(const nccl_comm *comm);
RT_EXPORT int ncclCommGetAsyncError(const nccl_comm *comm, int *result);
RT_EXPORT int ncclCommCount(const nccl_comm *comm, int *count);
RT_EXPORT int ncclCommCuDevice(const nccl_comm *comm, int *device);
RT_EXPORT int ncclCommUserRank(const nccl_comm *comm, int *rank);

/* memory */
RT_EXPORT int ncclMemAlloc(void **out, size_t bytes);
RT_EXPORT int ncclMemFree(void *ptr);
RT_EXPORT int ncclCommRegister(nccl_comm *comm, void *ptr, size_t bytes, void **handle);
RT_EXPORT int ncclCommDeregister(nccl_comm *comm, void *handle);
RT_EXPORT int ncclCommWindowRegister(nccl_comm *comm, void *ptr, size_t bytes, void **window,
                                     int flags);
RT_EXPORT int ncclCommWindowDeregister(nccl_comm *comm, void *window);
RT_EXPORT int ncclDevCommCreate(nccl_comm *comm, const void *needs, void *out);
RT_EXPORT int ncclDevCommDestroy(nccl_comm *comm, const void *device_comm);

/* groups and operators */
RT_EXPORT int ncclGroupStart(void);
RT_EXPORT int ncclGroupEnd(void);
RT_EXPORT int ncclGroupSimulateEnd(nccl_forecast *forecast);
RT_EXPORT int ncclRedOpCreatePreMulSum(int *op, void *scalar, int type, int residence,
                                       nccl_comm *comm);
RT_EXPORT int ncclRedOpDestroy(int op, nccl_comm *comm);

/* operations */
RT_EXPORT int ncclAllReduce(const void *from, void *to, size_t count, int type, int op,
                            nccl_comm *comm, cu_stream stream);
RT_EXPORT int ncclReduce(const void *from, void *to, size_t count, int type, int op, int root,
                         nccl_comm *comm, cu_stream stream);
RT_EXPORT int ncclReduceScatter(const void *from, void *to, size_t count, int type, int op,
                                nccl_comm *comm, cu_stream stream);
RT_EXPORT int ncclBcast(void *buffer, size_t count, int type, int root, nccl_comm *comm,
                        cu_stream stream);
RT_EXPORT int ncclBroadcast(const void *from, void *to, size_t count, int type, int root,
                            nccl_comm *comm, cu_stream stream);
RT_EXPORT int ncclAllGather(const void *from, void *to, size_t count, int type, nccl_comm *comm,
                            cu_stream stream);
RT_EXPORT int ncclAlltoAll(const void *from, void *to, size_t count, int type, nccl_comm *comm,
                           cu_stream stream);
RT_EXPORT int ncclGather(const void *from, void *to, size_t count, int type, int root,
                         nccl_comm *comm, cu_stream stream);
RT_EXPORT int ncclScatter(const void *from, void *to, size_t count, int type, int root,
                          nccl_comm *comm, cu_stream stream);
RT_EXPORT int ncclSend(const void *from, size_t count, int type, int peer, nccl_comm *comm,
                       cu_stream stream);
RT_EXPORT int ncclRecv(void *to, size_t count, int type, int peer, nccl_comm *comm,
                       cu_stream stream);

#endif
