/* nccl_group.c - see nccl_group.h. Upholds R2.
 *
 * All movable transfers of a group go forward together. So a group may hold both ends of a
 * transfer, as for devices of one process or exchanges between neighbours. Transfers of one mailbox
 * keep their order.
 *
 * A group belongs to its thread. May not be called with a lock held. */
#include "vmm/tools/runtime/nccl_group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/tools/runtime/known.h"

static const char *const names[NCCL_N_KINDS] = {
    "ncclAllReduce", "ncclReduce", "ncclReduceScatter", "ncclBroadcast", "ncclAllGather",
    "ncclAlltoAll",  "ncclGather", "ncclScatter",       "ncclSend",      "ncclCommSplit",
};

enum { WHAT_BYTES = 128 };

typedef struct nccl_group {
    int depth;
    int error; /* of a call within the group */
    nccl_operation *operations;
    size_t n_operations;
    size_t operations_room;
    nccl_transfer *transfers;
    size_t n_transfers;
    size_t transfers_room;
    nccl_comm **comms; /* that are being made */
    size_t n_comms;
    size_t comms_room;
} nccl_group;

static _Thread_local nccl_group group;
static _Atomic uint64_t last_round; /* atomic: numbers the rounds of all threads */

/* ---- building a group ------------------------------------------------------------------------ */

/* Makes room for n more elements of an array. */
static bool reserve(void **array, size_t *room, size_t used, size_t n, size_t bytes)
{
    if (used + n <= *room) {
        return true;
    }
    size_t wanted = 2 * (used + n);
    void *larger = realloc(*array, wanted * bytes);
    if (larger == NULL) {
        return false;
    }
    *array = larger;
    *room = wanted;
    return true;
}

int rt_group_add(const nccl_operation *operation, size_t n_transfers)
{
    nccl_group *g = &group;
    void *operations = g->operations;
    void *transfers = g->transfers;
    bool has_room = reserve(&operations, &g->operations_room, g->n_operations, 1,
                            sizeof(g->operations[0]));
    g->operations = operations;
    has_room = has_room && reserve(&transfers, &g->transfers_room, g->n_transfers, n_transfers,
                                   sizeof(g->transfers[0]));
    g->transfers = transfers;
    if (!has_room) {
        return g->error = rt_nccl_say(NCCL_SYSTEM_ERROR, "out of host memory");
    }
    nccl_comm *comm = operation->comm;
    atomic_fetch_add(&comm->n_refs, 1);
    g->operations[g->n_operations] = *operation;
    g->operations[g->n_operations].n_call = ++comm->n_calls;
    g->n_operations++;
    return NCCL_SUCCESS;
}

void rt_group_transfer(int peer, bool is_send, nccl_piece piece)
{
    group.transfers[group.n_transfers++] = (nccl_transfer){
        .operation = group.n_operations - 1, .piece = piece, .peer = peer, .is_send = is_send
    };
}

bool rt_group_defer(nccl_comm *comm)
{
    nccl_group *g = &group;
    void *comms = g->comms;
    if (g->depth == 0 || !reserve(&comms, &g->comms_room, g->n_comms, 1, sizeof(g->comms[0]))) {
        return false;
    }
    g->comms = comms;
    g->comms[g->n_comms++] = comm;
    return true;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* Reads `bytes` at a piece's `offset`. False for unknown bytes. */
static bool read_piece(const nccl_operation *op, const nccl_piece *piece, uint64_t offset,
                       size_t bytes, void *to, int *result)
{
    if (piece->host != NULL) {
        memcpy(to, (const char *)piece->host + offset, bytes);
        return true;
    }
    if (op->is_capturing) {
        return false;
    }
    if (!pleat_sim_has_contents()) {
        return rt_known_read(piece->ptr + offset, bytes, to);
    }
    cu_result error = cuMemcpyDtoHAsync_v2(to, piece->ptr + offset, bytes, op->stream);
    error = error == CU_SUCCESS ? cuStreamSynchronize(op->stream) : error;
    *result = error == CU_SUCCESS ? *result : NCCL_CUDA_ERROR;
    return true;
}

static void write_piece(const nccl_operation *op, const nccl_piece *piece, uint64_t offset,
                        const void *from, size_t bytes, int *result)
{
    if (piece->host != NULL) {
        memcpy((char *)piece->host + offset, from, bytes);
    } else if (op->is_capturing) {
        return;
    } else if (!pleat_sim_has_contents()) {
        rt_known_write(piece->ptr + offset, from, bytes);
    } else {
        cu_result error = cuMemcpyHtoDAsync_v2(piece->ptr + offset, from, bytes, op->stream);
        error = error == CU_SUCCESS ? cuStreamSynchronize(op->stream) : error;
        *result = error == CU_SUCCESS ? *result : NCCL_CUDA_ERROR;
    }
}

/* A result from this rank alone is no sum, so the result does not count as known. */
static int copy_own(const nccl_operation *op)
{
    const nccl_piece *from = &op->own_from;
    const nccl_piece *to = &op->own_to;
    bool is_moved = from->bytes > 0 && to->bytes > 0 && from->ptr != to->ptr;
    if (op->is_lossy || op->is_capturing) {
        rt_known_forget(op->accesses[1].ptr, op->accesses[1].bytes);
    } else if (is_moved) {
        rt_known_copy(to->ptr, from->ptr, to->bytes);
    }
    if (!is_moved || op->is_capturing || !pleat_sim_has_contents()) {
        return NCCL_SUCCESS;
    }
    cu_result error = cuMemcpyDtoDAsync_v2(to->ptr, from->ptr, to->bytes, op->stream);
    return error == CU_SUCCESS ? NCCL_SUCCESS : NCCL_CUDA_ERROR;
}

/* ---- transfers ------------------------------------------------------------------------------- */

static void describe(char out[WHAT_BYTES], const nccl_what *what, uint64_t n_call, bool is_receive)
{
    bool has_op = what->kind <= NCCL_REDUCE_SCATTER;
    int n = snprintf(out, WHAT_BYTES, "%s(count=%llu, type=%d",
                     is_receive ? "ncclRecv" : names[what->kind], (unsigned long long)what->count,
                     what->type);
    if (has_op) {
        n += snprintf(out + n, (size_t)(WHAT_BYTES - n), ", op=%d", what->op);
    }
    if (what->root >= 0) {
        n += snprintf(out + n, (size_t)(WHAT_BYTES - n), ", root=%d", what->root);
    }
    snprintf(out + n, (size_t)(WHAT_BYTES - n), ") as call %llu", (unsigned long long)n_call);
}

static int refuse_mismatch(const nccl_operation *op, const nccl_letter *letter, int peer)
{
    char ours[WHAT_BYTES];
    char theirs[WHAT_BYTES];
    describe(ours, &op->what, op->n_call, op->what.kind == NCCL_SEND);
    describe(theirs, &letter->what, letter->n_call, false);
    return rt_nccl_say(
        NCCL_INVALID_USAGE,
        "the ranks call different things: rank %d %s, rank %d %s; on a GPU this hangs",
        op->comm->rank, ours, peer, theirs);
}

static bool is_same(const nccl_what *a, const nccl_what *b)
{
    return a->count == b->count && a->kind == b->kind && a->type == b->type && a->op == b->op &&
           a->root == b->root;
}

static size_t next_bytes(const nccl_transfer *transfer)
{
    uint64_t left = transfer->piece.bytes - transfer->done_bytes;
    size_t most = sizeof(((nccl_mailbox *)0)->bytes);
    return left < most ? (size_t)left : most;
}

/* Known bytes of a device without contents are few: known whole, or not at all. */
static bool knows_piece(const nccl_operation *op, const nccl_transfer *transfer)
{
    const nccl_piece *piece = &transfer->piece;
    if (piece->bytes == 0 || op->is_capturing || op->is_lossy) {
        return false;
    }
    return piece->host != NULL || pleat_sim_has_contents() ||
           rt_known_read(piece->ptr, piece->bytes, NULL);
}

/* post and take return whether they moved something. */
static bool post(const nccl_operation *op, nccl_transfer *transfer, int *result)
{
    nccl_room *room = op->comm->room;
    nccl_mailbox *box = rt_room_mailbox(room, op->comm->rank, transfer->peer);
    uint32_t n_posted = atomic_load_explicit(&box->n_posted, memory_order_relaxed);
    if (atomic_load_explicit(&box->n_taken, memory_order_acquire) != n_posted) {
        return false;
    }
    if (transfer->done_bytes == 0) {
        transfer->has_bytes = knows_piece(op, transfer);
    }
    size_t bytes = transfer->has_bytes ? next_bytes(transfer) : 0;
    /* If another thread's kernel made the bytes unknown between two letters, send zeros. */
    if (bytes > 0 &&
        !read_piece(op, &transfer->piece, transfer->done_bytes, bytes, box->bytes, result)) {
        memset(box->bytes, 0, bytes);
    }
    box->letter = (nccl_letter){ op->what, op->n_call, transfer->has_bytes, (uint32_t)bytes };
    transfer->done_bytes += bytes;
    transfer->is_done = !transfer->has_bytes || transfer->done_bytes == transfer->piece.bytes;
    atomic_store_explicit(&box->n_posted, n_posted + 1, memory_order_release);
    rt_room_ring(room);
    return true;
}

static bool take(const nccl_operation *op, nccl_transfer *transfer, int *result)
{
    nccl_room *room = op->comm->room;
    nccl_mailbox *box = rt_room_mailbox(room, transfer->peer, op->comm->rank);
    uint32_t n_taken = atomic_load_explicit(&box->n_taken, memory_order_relaxed);
    if (atomic_load_explicit(&box->n_posted, memory_order_acquire) == n_taken) {
        return false;
    }
    const nccl_letter letter = box->letter;
    size_t bytes = next_bytes(transfer);
    if (!is_same(&letter.what, &op->what) || (letter.has_bytes && letter.bytes != bytes)) {
        *result = refuse_mismatch(op, &letter, transfer->peer);
        return true;
    }
    if (letter.has_bytes) {
        write_piece(op, &transfer->piece, transfer->done_bytes, box->bytes, bytes, result);
    } else if (bytes > 0) {
        rt_known_forget(transfer->piece.ptr, transfer->piece.bytes);
    }
    transfer->done_bytes += bytes;
    transfer->is_done = !letter.has_bytes || transfer->done_bytes == transfer->piece.bytes;
    atomic_store_explicit(&box->n_taken, n_taken + 1, memory_order_release);
    rt_room_ring(room);
    return true;
}

/* ---- running a group ------------------------------------------------------------------------- */

static int start(nccl_operation *op)
{
    nccl_comm *comm = op->comm;
    int error = atomic_load(&comm->error);
    if (error != NCCL_SUCCESS) {
        return error;
    }
    if (op->what.kind == NCCL_SPLIT) {
        return NCCL_SUCCESS;
    }
    cu_result result = rt_set_device(comm->device, true);
    if (result == CU_SUCCESS) {
        op->is_capturing = rt_is_capturing(op->stream);
        result = pleat_sim_work(op->stream, op->accesses, 2);
    }
    if (rt_end(names[op->what.kind], result) != CU_SUCCESS) {
        return rt_nccl_say(NCCL_CUDA_ERROR, "%s: %s", names[op->what.kind],
                           cudaGetErrorString(result));
    }
    return copy_own(op);
}

/* An unfinished transfer goes as far as it can, if it is the first of its mailbox. `*waiting`
 * becomes a transfer that could not move. */
static bool go_round(size_t *first, nccl_transfer **waiting, int *result)
{
    nccl_group *g = &group;
    bool has_moved = false;
    uint64_t round = atomic_fetch_add(&last_round, 1) + 1;
    *waiting = NULL;
    while (*first < g->n_transfers && g->transfers[*first].is_done) {
        (*first)++;
    }
    for (size_t i = *first; i < g->n_transfers && *result == NCCL_SUCCESS; i++) {
        nccl_transfer *transfer = &g->transfers[i];
        nccl_operation *op = &g->operations[transfer->operation];
        uint64_t *stuck = &op->comm->stuck[transfer->is_send][transfer->peer];
        if (transfer->is_done || *stuck == round) {
            continue;
        }
        if (op->what.kind != NCCL_SPLIT) {
            (void)rt_set_device(op->comm->device, true);
        }
        has_moved |= transfer->is_send ? post(op, transfer, result) : take(op, transfer, result);
        if (!transfer->is_done) {
            *stuck = round;
            *waiting = transfer;
        }
        if (*result != NCCL_SUCCESS) {
            rt_nccl_break(op->comm, *result);
        }
    }
    return has_moved;
}

/* A wait looks at one communicator's bell, and at the bells of further communicators 10 times a
 * second. */
static int transfer_all(void)
{
    nccl_group *g = &group;
    size_t first = 0;
    int result = NCCL_SUCCESS;
    nccl_wait wait = { 0 };
    nccl_transfer *waiting = NULL;
    nccl_room *room = NULL;
    uint32_t seen = 0;
    for (;;) {
        bool has_moved = go_round(&first, &waiting, &result);
        if (result != NCCL_SUCCESS || waiting == NULL) {
            return result;
        }
        nccl_operation *op = &g->operations[waiting->operation];
        if (has_moved || op->comm->room != room) {
            wait = has_moved ? (nccl_wait){ 0 } : wait;
            room = op->comm->room;
            seen = atomic_load(&room->bell); /* and look again before waiting for it */
            continue;
        }
        result = rt_room_wait(room, &wait, seen, op->comm->rank, waiting->peer,
                              names[op->what.kind], &op->comm->is_aborted);
        seen = atomic_load(&room->bell);
        if (result != NCCL_SUCCESS) {
            rt_nccl_break(op->comm, result);
            return result;
        }
    }
}

static void forget(void)
{
    nccl_group *g = &group;
    for (size_t i = 0; i < g->n_operations; i++) {
        rt_nccl_unref(g->operations[i].comm);
    }
    free(g->operations);
    free(g->transfers);
    free(g->comms);
    *g = (nccl_group){ 0 };
}

static int run(void)
{
    nccl_group *g = &group;
    int device = rt_device();
    int result = g->error;
    for (size_t i = 0; i < g->n_comms; i++) {
        int error = rt_nccl_await(g->comms[i]);
        result = result == NCCL_SUCCESS ? error : result;
    }
    for (size_t i = 0; i < g->n_operations && result == NCCL_SUCCESS; i++) {
        result = start(&g->operations[i]);
    }
    if (result == NCCL_SUCCESS) {
        result = transfer_all();
    }
    if (rt_device() != device) {
        (void)rt_set_device(device, false);
    }
    forget();
    return result;
}

int rt_group_added(void)
{
    return group.depth > 0 ? group.error : run();
}

int rt_group_alone(const nccl_operation *operation, const nccl_piece *sends,
                   const nccl_piece *receives)
{
    nccl_group open = group;
    group = (nccl_group){ 0 };
    int n_ranks = operation->comm->n_ranks;
    if (rt_group_add(operation, 2 * (size_t)n_ranks) == NCCL_SUCCESS) {
        for (int peer = 0; peer < n_ranks; peer++) {
            if (peer != operation->comm->rank) {
                rt_group_transfer(peer, true, sends[peer]);
                rt_group_transfer(peer, false, receives[peer]);
            }
        }
    }
    int result = run();
    group = open;
    return result;
}

int ncclGroupStart(void)
{
    group.depth++;
    return NCCL_SUCCESS;
}

int ncclGroupEnd(void)
{
    if (group.depth == 0) {
        return rt_nccl_say(NCCL_INVALID_USAGE, "ncclGroupEnd without ncclGroupStart");
    }
    return --group.depth > 0 ? NCCL_SUCCESS : run();
}

/* Does nothing, like the vendor's library. A time cannot be told. */
int ncclGroupSimulateEnd(nccl_forecast *forecast)
{
    if (group.depth == 0) {
        return rt_nccl_say(NCCL_INVALID_USAGE, "ncclGroupSimulateEnd without ncclGroupStart");
    }
    if (--group.depth == 0) {
        forget();
    }
    if (forecast != NULL) {
        forecast->us = 0;
    }
    return NCCL_SUCCESS;
}
