/* nccl_calls.c - the operations, and the piece that each rank sends to each peer.
 *
 * Operations that move bytes move known bytes. Operations that compute leave this rank's own input
 * in the output, on a device with contents; without contents nothing is known of the output. */
#include "vmm/tools/runtime/nccl_group.h"

typedef struct arguments {
    nccl_what what;
    cu_devptr from;
    cu_devptr to;
    uint64_t bytes; /* of `count` elements */
    nccl_comm *comm;
    cu_stream stream;
} arguments;

static const uint8_t type_bytes[NCCL_N_TYPES] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1 };

static bool is_reduction(int kind)
{
    return kind == NCCL_ALL_REDUCE || kind == NCCL_REDUCE || kind == NCCL_REDUCE_SCATTER;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* The piece that this rank gives to `peer`. In a reduction, peers get nothing and the rank itself
 * gets its part. */
static nccl_piece piece_for(const arguments *a, int peer)
{
    bool is_own = peer == a->comm->rank;
    bool is_root = a->comm->rank == a->what.root;
    uint64_t offset = 0;
    bool is_given = false;
    switch (a->what.kind) {
    case NCCL_ALL_REDUCE:
    case NCCL_REDUCE:
        is_given = is_own;
        break;
    case NCCL_REDUCE_SCATTER:
        is_given = is_own;
        offset = (uint64_t)peer * a->bytes;
        break;
    case NCCL_BROADCAST:
        is_given = is_root;
        break;
    case NCCL_ALL_GATHER:
        is_given = true;
        break;
    case NCCL_ALL_TO_ALL:
        is_given = true;
        offset = (uint64_t)peer * a->bytes;
        break;
    case NCCL_GATHER:
        is_given = peer == a->what.root;
        break;
    case NCCL_SCATTER:
        is_given = is_root;
        offset = (uint64_t)peer * a->bytes;
        break;
    default:
        break;
    }
    return is_given ? (nccl_piece){ .ptr = a->from + offset, .bytes = a->bytes }
                    : (nccl_piece){ 0 };
}

/* Where the piece from `peer` goes. */
static nccl_piece piece_from(const arguments *a, int peer)
{
    bool is_own = peer == a->comm->rank;
    bool is_root = a->comm->rank == a->what.root;
    uint64_t offset = 0;
    bool is_taken = false;
    switch (a->what.kind) {
    case NCCL_ALL_REDUCE:
    case NCCL_REDUCE_SCATTER:
        is_taken = is_own;
        break;
    case NCCL_REDUCE:
        is_taken = is_own && is_root;
        break;
    case NCCL_BROADCAST:
    case NCCL_SCATTER:
        is_taken = peer == a->what.root;
        break;
    case NCCL_ALL_GATHER:
    case NCCL_ALL_TO_ALL:
        is_taken = true;
        offset = (uint64_t)peer * a->bytes;
        break;
    case NCCL_GATHER:
        is_taken = is_root;
        offset = (uint64_t)peer * a->bytes;
        break;
    default:
        break;
    }
    return is_taken ? (nccl_piece){ .ptr = a->to + offset, .bytes = a->bytes } : (nccl_piece){ 0 };
}

/* The bytes touched by an operation: the hull of its pieces, and all input of a reduction. */
static void widen(pleat_sim_access *access, nccl_piece piece)
{
    if (piece.bytes == 0) {
        return;
    }
    uint64_t first = access->bytes == 0 || piece.ptr < access->ptr ? piece.ptr : access->ptr;
    uint64_t end = access->ptr + access->bytes;
    end = piece.ptr + piece.bytes > end ? piece.ptr + piece.bytes : end;
    access->ptr = first;
    access->bytes = end - first;
}

static void find_accesses(const arguments *a, nccl_operation *operation)
{
    pleat_sim_access *reads = &operation->accesses[0];
    pleat_sim_access *writes = &operation->accesses[1];
    writes->is_write = true;
    for (int peer = 0; peer < a->comm->n_ranks; peer++) {
        widen(reads, piece_for(a, peer));
        widen(writes, piece_from(a, peer));
    }
    if (a->what.kind == NCCL_REDUCE_SCATTER) {
        *reads = (pleat_sim_access){ a->from, a->bytes * (uint64_t)a->comm->n_ranks, false };
    }
}

/* ---- the calls ------------------------------------------------------------------------------- */

static bool has_root(int kind)
{
    return kind == NCCL_REDUCE || kind == NCCL_BROADCAST || kind == NCCL_GATHER ||
           kind == NCCL_SCATTER;
}

static int check(const arguments *a, int peer)
{
    const nccl_what *what = &a->what;
    if (!rt_nccl_is_comm(a->comm)) {
        return rt_nccl_say(NCCL_INVALID_ARGUMENT, "there is no such communicator");
    }
    if (what->type < 0 || what->type >= NCCL_N_TYPES) {
        return rt_nccl_say(NCCL_INVALID_ARGUMENT, "there is no data type %d", what->type);
    }
    if (what->op < 0) {
        return rt_nccl_say(NCCL_INVALID_ARGUMENT, "there is no operator %d", what->op);
    }
    if (peer < 0 || peer >= a->comm->n_ranks) {
        return rt_nccl_say(NCCL_INVALID_ARGUMENT, "there is no rank %d", peer);
    }
    if (what->count > UINT64_MAX / 8 / NCCL_MAX_RANKS) {
        return rt_nccl_say(NCCL_INVALID_ARGUMENT, "%llu elements", (unsigned long long)what->count);
    }
    return NCCL_SUCCESS;
}

static int collect(arguments a)
{
    int result = check(&a, has_root(a.what.kind) ? a.what.root : 0);
    if (result != NCCL_SUCCESS) {
        return result;
    }
    int own = a.comm->rank;
    a.bytes = a.what.count * type_bytes[a.what.type];
    a.what.root = has_root(a.what.kind) ? a.what.root : -1;
    nccl_operation operation = {
        .comm = a.comm,
        .what = a.what,
        .stream = a.stream,
        .own_from = piece_for(&a, own),
        .own_to = piece_from(&a, own),
        .is_lossy = is_reduction(a.what.kind) && a.comm->n_ranks > 1,
    };
    find_accesses(&a, &operation);
    result = rt_group_add(&operation, 2 * (size_t)a.comm->n_ranks);
    for (int peer = 0; peer < a.comm->n_ranks && result == NCCL_SUCCESS; peer++) {
        if (peer != own) {
            rt_group_transfer(peer, true, piece_for(&a, peer));
            rt_group_transfer(peer, false, piece_from(&a, peer));
        }
    }
    return rt_group_added();
}

/* Sender and receiver describe the operation alike, so that a receive can check its letter. */
static int pass(arguments a, int peer, bool is_send)
{
    int result = check(&a, peer);
    if (result != NCCL_SUCCESS) {
        return result;
    }
    a.bytes = a.what.count * type_bytes[a.what.type];
    cu_devptr at = is_send ? a.from : a.to;
    nccl_operation operation = { .comm = a.comm, .what = a.what, .stream = a.stream };
    operation.accesses[!is_send] = (pleat_sim_access){ at, a.bytes, !is_send };
    result = rt_group_add(&operation, 1);
    if (result == NCCL_SUCCESS) {
        rt_group_transfer(peer, is_send, (nccl_piece){ .ptr = at, .bytes = a.bytes });
    }
    return rt_group_added();
}

static arguments gather(nccl_what what, const void *from, void *to, nccl_comm *comm,
                        cu_stream stream)
{
    return (arguments){
        .what = what, .from = rt_address(from), .to = rt_address(to), .comm = comm, .stream = stream
    };
}

int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, nccl_comm *comm,
                  cu_stream stream)
{
    nccl_what what = { .kind = NCCL_ALL_REDUCE, .type = type, .op = op, .count = count };
    return collect(gather(what, from, to, comm, stream));
}

int ncclReduce(const void *from, void *to, size_t count, int type, int op, int root,
               nccl_comm *comm, cu_stream stream)
{
    nccl_what what = { .kind = NCCL_REDUCE, .type = type, .op = op, .root = root, .count = count };
    return collect(gather(what, from, to, comm, stream));
}

int ncclReduceScatter(const void *from, void *to, size_t count, int type, int op, nccl_comm *comm,
                      cu_stream stream)
{
    nccl_what what = { .kind = NCCL_REDUCE_SCATTER, .type = type, .op = op, .count = count };
    return collect(gather(what, from, to, comm, stream));
}

int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, nccl_comm *comm,
                  cu_stream stream)
{
    nccl_what what = { .kind = NCCL_BROADCAST, .type = type, .root = root, .count = count };
    return collect(gather(what, from, to, comm, stream));
}

int ncclBcast(void *buffer, size_t count, int type, int root, nccl_comm *comm, cu_stream stream)
{
    return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

int ncclAllGather(const void *from, void *to, size_t count, int type, nccl_comm *comm,
                  cu_stream stream)
{
    nccl_what what = { .kind = NCCL_ALL_GATHER, .type = type, .count = count };
    return collect(gather(what, from, to, comm, stream));
}

int ncclAlltoAll(const void *from, void *to, size_t count, int type, nccl_comm *comm,
                 cu_stream stream)
{
    nccl_what what = { .kind = NCCL_ALL_TO_ALL, .type = type, .count = count };
    return collect(gather(what, from, to, comm, stream));
}

int ncclGather(const void *from, void *to, size_t count, int type, int root, nccl_comm *comm,
               cu_stream stream)
{
    nccl_what what = { .kind = NCCL_GATHER, .type = type, .root = root, .count = count };
    return collect(gather(what, from, to, comm, stream));
}

int ncclScatter(const void *from, void *to, size_t count, int type, int root, nccl_comm *comm,
                cu_stream stream)
{
    nccl_what what = { .kind = NCCL_SCATTER, .type = type, .root = root, .count = count };
    return collect(gather(what, from, to, comm, stream));
}

int ncclSend(const void *from, size_t count, int type, int peer, nccl_comm *comm, cu_stream stream)
{
    nccl_what what = { .kind = NCCL_SEND, .type = type, .root = -1, .count = count };
    return pass(gather(what, from, NULL, comm, stream), peer, true);
}

int ncclRecv(void *to, size_t count, int type, int peer, nccl_comm *comm, cu_stream stream)
{
    nccl_what what = { .kind = NCCL_SEND, .type = type, .root = -1, .count = count };
    return pass(gather(what, NULL, to, comm, stream), peer, false);
}

/* ---- operators that programs make ------------------------------------------------------------ */

int ncclRedOpCreatePreMulSum(int *op, void *scalar, int type, int residence, nccl_comm *comm)
{
    (void)scalar;
    (void)residence;
    if (!rt_nccl_is_comm(comm) || op == NULL || type < 0 || type >= NCCL_N_TYPES) {
        return rt_nccl_say(NCCL_INVALID_ARGUMENT, "ncclRedOpCreatePreMulSum: type %d", type);
    }
    *op = NCCL_N_OPS; /* one for all, since nothing is computed */
    return NCCL_SUCCESS;
}

int ncclRedOpDestroy(int op, nccl_comm *comm)
{
    if (!rt_nccl_is_comm(comm) || op < NCCL_N_OPS) {
        return rt_nccl_say(NCCL_INVALID_ARGUMENT, "ncclRedOpDestroy: operator %d", op);
    }
    return NCCL_SUCCESS;
}
