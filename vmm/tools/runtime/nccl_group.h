/* nccl_group.h - communicators as seen by operations, and groups of operations.
 *
 * An operation is work on its stream, plus a transfer to and a transfer from every peer. A
 * transfer carries the operation's description, so that ranks with different calls find out, and
 * bytes where known. The host waits until the other ranks have called theirs, as with
 * CUDA_LAUNCH_BLOCKING=1. */
#ifndef PLEAT_RUNTIME_NCCL_GROUP_H
#define PLEAT_RUNTIME_NCCL_GROUP_H

#include "vmm/base/pleat_sim.h"
#include "vmm/tools/runtime/nccl_room.h"
#include "vmm/tools/runtime/runtime.h"

struct nccl_comm {
    uint32_t magic;          /* const */
    int rank;                /* const */
    int n_ranks;             /* const */
    int device;              /* const */
    _Atomic int n_refs;      /* atomic: the program's, and one per operation under way */
    _Atomic int error;       /* atomic: an nccl result; the first error stays */
    _Atomic bool is_aborted; /* atomic */
    nccl_room *room;         /* const, until the last reference goes */
    uint64_t n_calls;        /* owner: the thread that calls operations, one at a time */
    uint32_t n_children;     /* owner */
    unsigned char token[NCCL_TOKEN_BYTES]; /* const */
    uint64_t stuck[2][NCCL_MAX_RANKS];     /* owner: the last round with a mailbox not free */
};

/* A piece of an operation's memory; bytes 0: none. `host` instead of `ptr` in a split. */
typedef struct nccl_piece {
    cu_devptr ptr;
    void *host;
    uint64_t bytes;
} nccl_piece;

typedef struct nccl_operation {
    nccl_comm *comm;
    nccl_what what;
    cu_stream stream;
    uint64_t n_call;
    pleat_sim_access accesses[2]; /* read, written */
    nccl_piece own_from;          /* from this rank to itself */
    nccl_piece own_to;
    bool is_lossy;     /* computes, so the output is not known */
    bool is_capturing; /* nothing moves before the graph is launched, and then nothing does */
} nccl_operation;

typedef struct nccl_transfer {
    size_t operation; /* its position in the group */
    nccl_piece piece;
    uint64_t done_bytes;
    int peer;
    bool is_send;
    bool is_done;
    bool has_bytes;
} nccl_transfer;

/** Check a communicator's handle. */
bool rt_nccl_is_comm(const nccl_comm *comm);
void rt_nccl_unref(nccl_comm *comm);
/** Mark the communicator as useless, and tell the other ranks. */
void rt_nccl_break(nccl_comm *comm, int error);

/** Begin an operation in this thread's group, or in a group of its own.
 *
 *  Params   n_transfers: how many follow by rt_group_transfer.
 *  Returns  NCCL_SUCCESS; NCCL_SYSTEM_ERROR: no host memory. */
int rt_group_add(const nccl_operation *operation, size_t n_transfers);
void rt_group_transfer(int peer, bool is_send, nccl_piece piece);
/** Run the operation that was added, unless a group is open. */
int rt_group_added(void);

/** Run one operation at once, whatever group is open.
 *
 *  Shape    sends, receives: one for each rank. */
int rt_group_alone(const nccl_operation *operation, const nccl_piece *sends,
                   const nccl_piece *receives);

/** Let a new communicator's rendezvous wait for the group's end. False: no group is open. */
bool rt_group_defer(nccl_comm *comm);

/** The rendezvous of a new communicator. A failure lets go of it. */
int rt_nccl_await(nccl_comm *comm);

#endif
