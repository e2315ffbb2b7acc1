/* nccl_comm.c - communicators: ranks meet and part, ask questions, and get memory.
 *
 * A unique id is a token for a room (nccl_room.h), and the machine's name, since all ranks must be
 * processes of one machine. All calls block until done. A communicator with blocking = 0 may also
 * block. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "vmm/tools/runtime/nccl_group.h"

enum { COMM_MAGIC = 0x706c6e63, MACHINE_BYTES = 36 };

typedef struct id_content {
    char magic[16];
    unsigned char token[NCCL_TOKEN_BYTES];
    char machine[MACHINE_BYTES];
    char zeros[60];
} id_content;

_Static_assert(sizeof(id_content) == sizeof(nccl_id), "what an id holds");

static const char id_magic[16] = "pleat-nccl-1";

bool rt_nccl_is_comm(const nccl_comm *comm)
{
    return comm != NULL && comm->magic == COMM_MAGIC;
}

static int refuse_handle(void)
{
    return rt_nccl_say(NCCL_INVALID_ARGUMENT, "there is no such communicator");
}

/* ---- ids ------------------------------------------------------------------------------------- */

/* This boot of the machine; zeros where the system hides the id. */
static void read_machine(char machine[MACHINE_BYTES])
{
    memset(machine, 0, MACHINE_BYTES);
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        if (read(fd, machine, MACHINE_BYTES) != MACHINE_BYTES) {
            memset(machine, 0, MACHINE_BYTES);
        }
        close(fd);
    }
}

int ncclGetUniqueId(nccl_id *id)
{
    id_content content = { 0 };
    if (id == NULL) {
        return rt_nccl_say(NCCL_INVALID_ARGUMENT, "ncclGetUniqueId: no place for the id");
    }
    memcpy(content.magic, id_magic, sizeof(id_magic));
    read_machine(content.machine);
    if (getrandom(content.token, sizeof(content.token), 0) != sizeof(content.token)) {
        return rt_nccl_say(NCCL_SYSTEM_ERROR, "getrandom: %s", strerror(errno));
    }
    memcpy(id, &content, sizeof(content));
    return NCCL_SUCCESS;
}

static int read_id(const nccl_id *id, unsigned char *token)
{
    char machine[MACHINE_BYTES];
    id_content content;
    memcpy(&content, id, sizeof(content));
    if (memcmp(content.magic, id_magic, sizeof(id_magic)) != 0) {
        return rt_nccl_say(NCCL_INVALID_ARGUMENT,
                           "the unique id is not from ncclGetUniqueId of the simulated runtime: do "
                           "all ranks run on it?");
    }
    read_machine(machine);
    if (memcmp(content.machine, machine, sizeof(machine)) != 0) {
        return rt_nccl_say(NCCL_SYSTEM_ERROR,
                           "the unique id is from another machine: all ranks must be on one");
    }
    memcpy(token, content.token, NCCL_TOKEN_BYTES);
    return NCCL_SUCCESS;
}

/* A token that all ranks of a communicator derive without asking, for a child communicator. */
static void derive_token(const nccl_comm *parent, uint64_t tag, unsigned char *token)
{
    uint64_t halves[2] = { UINT64_C(14695981039346656037), UINT64_C(1099511628211) };
    unsigned char words[NCCL_TOKEN_BYTES + 2 * sizeof(uint64_t)];
    uint64_t n_children = parent->n_children;
    memcpy(words, parent->token, NCCL_TOKEN_BYTES);
    memcpy(words + NCCL_TOKEN_BYTES, &tag, sizeof(tag));
    memcpy(words + NCCL_TOKEN_BYTES + sizeof(tag), &n_children, sizeof(n_children));
    for (size_t i = 0; i < sizeof(words); i++) {
        halves[0] = (halves[0] ^ words[i]) * UINT64_C(1099511628211);
        halves[1] = (halves[1] + words[i]) * UINT64_C(6364136223846793005) + halves[0];
    }
    memcpy(token, halves, NCCL_TOKEN_BYTES);
}

/* ---- life ------------------------------------------------------------------------------------ */

void rt_nccl_unref(nccl_comm *comm)
{
    if (atomic_fetch_sub(&comm->n_refs, 1) > 1) {
        return;
    }
    if (comm->room != NULL) {
        rt_room_leave(comm->room, comm->rank);
    }
    comm->magic = 0;
    free(comm);
}

void rt_nccl_break(nccl_comm *comm, int error)
{
    int none = NCCL_SUCCESS;
    atomic_compare_exchange_strong(&comm->error, &none, error);
    if (comm->room != NULL) {
        rt_room_give_up(comm->room, comm->rank);
    }
}

/* Enters the room, on the thread's device or the named device. */
static int enter(const unsigned char *token, int n_ranks, int rank, int device, nccl_comm **out)
{
    if (out == NULL || n_ranks < 1 || n_ranks > NCCL_MAX_RANKS || rank < 0 || rank >= n_ranks) {
        return rt_nccl_say(NCCL_INVALID_ARGUMENT, "rank %d of %d: at most %d ranks", rank, n_ranks,
                           NCCL_MAX_RANKS);
    }
    cu_result opened = rt_set_device(device, true);
    if (opened != CU_SUCCESS) {
        return rt_nccl_say(NCCL_CUDA_ERROR, "device %d: %s", device, cudaGetErrorString(opened));
    }
    nccl_comm *comm = calloc(1, sizeof(*comm));
    if (comm == NULL) {
        return rt_nccl_say(NCCL_SYSTEM_ERROR, "out of host memory");
    }
    *comm = (nccl_comm){
        .magic = COMM_MAGIC, .rank = rank, .n_ranks = n_ranks, .device = device, .n_refs = 1
    };
    memcpy(comm->token, token, NCCL_TOKEN_BYTES);
    int result = rt_room_enter(token, n_ranks, rank, device, &comm->room);
    if (result != NCCL_SUCCESS) {
        rt_nccl_unref(comm);
        return result;
    }
    *out = comm;
    return NCCL_SUCCESS;
}

int rt_nccl_await(nccl_comm *comm)
{
    int result = rt_room_await(comm->room, comm->token, comm->rank, &comm->is_aborted);
    if (result != NCCL_SUCCESS) {
        rt_nccl_break(comm, result);
        rt_nccl_unref(comm);
    }
    return result;
}

static int create(const unsigned char *token, int n_ranks, int rank, nccl_comm **out)
{
    nccl_comm *comm = NULL;
    int result = enter(token, n_ranks, rank, rt_device(), out == NULL ? NULL : &comm);
    if (result != NCCL_SUCCESS) {
        return result;
    }
    bool is_later = rt_group_defer(comm);
    result = is_later ? NCCL_SUCCESS : rt_nccl_await(comm);
    *out = result == NCCL_SUCCESS ? comm : NULL;
    return result;
}

static int check_config(const nccl_config *config)
{
    bool is_good = config == NULL || config->magic == (unsigned)NCCL_CONFIG_MAGIC;
    return is_good ? NCCL_SUCCESS
                   : rt_nccl_say(NCCL_INVALID_ARGUMENT, "the configuration is not initialised");
}

int ncclCommInitRankConfig(nccl_comm **comm, int n_ranks, nccl_id id, int rank,
                           const nccl_config *config)
{
    unsigned char token[NCCL_TOKEN_BYTES];
    int result = check_config(config);
    if (result == NCCL_SUCCESS) {
        result = read_id(&id, token);
    }
    return result == NCCL_SUCCESS ? create(token, n_ranks, rank, comm) : result;
}

int ncclCommInitRank(nccl_comm **comm, int n_ranks, nccl_id id, int rank)
{
    return ncclCommInitRankConfig(comm, n_ranks, id, rank, NULL);
}

int ncclCommInitRankScalable(nccl_comm **comm, int n_ranks, int rank, int n_ids, const nccl_id *ids,
                             const nccl_config *config)
{
    if (n_ids < 1 || ids == NULL) {
        return rt_nccl_say(NCCL_INVALID_ARGUMENT, "ncclCommInitRankScalable: no unique id");
    }
    return ncclCommInitRankConfig(comm, n_ranks, ids[0], rank, config);
}

int ncclCommInitAll(nccl_comm **comms, int n_devices, const int *devices)
{
    nccl_id id;
    unsigned char token[NCCL_TOKEN_BYTES] = { 0 };
    int device = rt_device();
    int n_made = 0;
    int result = comms == NULL || n_devices < 1
                     ? rt_nccl_say(NCCL_INVALID_ARGUMENT, "ncclCommInitAll: no communicators")
                     : ncclGetUniqueId(&id);
    if (result == NCCL_SUCCESS) {
        result = read_id(&id, token);
    }
    for (; n_made < n_devices && result == NCCL_SUCCESS; n_made += result == NCCL_SUCCESS) {
        int on = devices == NULL ? n_made : devices[n_made];
        result = enter(token, n_devices, n_made, on, &comms[n_made]);
    }
    for (int i = 0; i < n_made && result == NCCL_SUCCESS; i++) {
        result = rt_room_await(comms[i]->room, token, i, &comms[i]->is_aborted);
    }
    for (int i = 0; i < n_made && result != NCCL_SUCCESS; i++) {
        rt_nccl_unref(comms[i]);
    }
    (void)rt_set_device(device, false);
    return result;
}

/* ---- communicators of others ----------------------------------------------------------------- */

typedef struct split_choice {
    int32_t color;
    int32_t key;
} split_choice;

static int exchange(nccl_comm *comm, split_choice *choices)
{
    nccl_operation operation = { .comm = comm, .what = { .kind = NCCL_SPLIT, .root = -1 } };
    nccl_piece sends[NCCL_MAX_RANKS];
    nccl_piece receives[NCCL_MAX_RANKS];
    for (int i = 0; i < comm->n_ranks; i++) {
        sends[i] = (nccl_piece){ .host = &choices[comm->rank], .bytes = sizeof(choices[i]) };
        receives[i] = (nccl_piece){ .host = &choices[i], .bytes = sizeof(choices[i]) };
    }
    return rt_group_alone(&operation, sends, receives);
}

/* Ranks are ordered by key. Equal keys keep their order. */
int ncclCommSplit(nccl_comm *comm, int color, int key, nccl_comm **out, const nccl_config *config)
{
    split_choice choices[NCCL_MAX_RANKS];
    unsigned char token[NCCL_TOKEN_BYTES];
    int n_ranks = 0;
    int rank = 0;
    if (!rt_nccl_is_comm(comm)) {
        return refuse_handle();
    }
    if (out == NULL || (color < 0 && color != NCCL_NO_COLOR)) {
        return rt_nccl_say(NCCL_INVALID_ARGUMENT, "ncclCommSplit: color %d", color);
    }
    choices[comm->rank] = (split_choice){ color, key };
    int result = check_config(config);
    if (result == NCCL_SUCCESS) {
        result = exchange(comm, choices);
    }
    if (result != NCCL_SUCCESS) {
        return result;
    }
    for (int i = 0; i < comm->n_ranks; i++) {
        bool is_in = choices[i].color == color;
        bool is_before = choices[i].key < key || (choices[i].key == key && i < comm->rank);
        n_ranks += is_in;
        rank += is_in && is_before;
    }
    comm->n_children++;
    *out = NULL;
    derive_token(comm, (uint64_t)(unsigned)color, token);
    return color == NCCL_NO_COLOR ? NCCL_SUCCESS : create(token, n_ranks, rank, out);
}

/* The excluded ranks do not call. */
int ncclCommShrink(nccl_comm *comm, const int *excluded, int n_excluded, nccl_comm **out,
                   const nccl_config *config, int flags)
{
    bool is_out[NCCL_MAX_RANKS] = { false };
    unsigned char token[NCCL_TOKEN_BYTES];
    uint64_t tag = UINT64_C(1) << 32;
    int rank = 0;
    int n_ranks = 0;
    (void)flags;
    if (!rt_nccl_is_comm(comm)) {
        return refuse_handle();
    }
    bool is_good = out != NULL && excluded != NULL && n_excluded > 0;
    for (int i = 0; i < n_excluded && is_good; i++) {
        is_good = excluded[i] >= 0 && excluded[i] < comm->n_ranks && excluded[i] != comm->rank;
        is_out[is_good ? excluded[i] : 0] = true;
    }
    if (!is_good) {
        return rt_nccl_say(NCCL_INVALID_ARGUMENT, "ncclCommShrink: the ranks to exclude");
    }
    for (int i = 0; i < comm->n_ranks; i++) {
        n_ranks += !is_out[i];
        rank += !is_out[i] && i < comm->rank;
        tag = tag * 31 + is_out[i];
    }
    comm->n_children++;
    derive_token(comm, tag, token);
    int result = check_config(config);
    return result == NCCL_SUCCESS ? create(token, n_ranks, rank, out) : result;
}

/* ---- the end --------------------------------------------------------------------------------- */

int ncclCommFinalize(nccl_comm *comm)
{
    return rt_nccl_is_comm(comm) ? NCCL_SUCCESS : refuse_handle();
}

int ncclCommDestroy(nccl_comm *comm)
{
    if (comm == NULL) {
        return NCCL_SUCCESS;
    }
    if (!rt_nccl_is_comm(comm)) {
        return refuse_handle();
    }
    rt_nccl_unref(comm);
    return NCCL_SUCCESS;
}

/* A waiter on another thread comes back with an error and frees the communicator. */
int ncclCommAbort(nccl_comm *comm)
{
    if (comm == NULL || !rt_nccl_is_comm(comm)) {
        return ncclCommDestroy(comm);
    }
    (void)ncclCommRevoke(comm, 0);
    rt_nccl_unref(comm);
    return NCCL_SUCCESS;
}

int ncclCommRevoke(nccl_comm *comm, int flags)
{
    (void)flags;
    if (!rt_nccl_is_comm(comm)) {
        return refuse_handle();
    }
    atomic_store(&comm->is_aborted, true);
    rt_nccl_break(comm, NCCL_INVALID_USAGE);
    return NCCL_SUCCESS;
}

/* ---- questions ------------------------------------------------------------------------------- */

int ncclGetVersion(int *version)
{
    if (version == NULL) {
        return NCCL_INVALID_ARGUMENT;
    }
    *version = NCCL_VERSION;
    return NCCL_SUCCESS;
}

const char *ncclGetErrorString(int result)
{
    static const char *const texts[] = {
        "no error",
        "unhandled cuda error",
        "unhandled system error",
        "internal error",
        "invalid argument",
        "invalid usage",
        "remote process exited or there was a network error",
        "NCCL operation in progress",
    };
    return result < 0 || result > NCCL_IN_PROGRESS ? "unknown result code" : texts[result];
}

int ncclCommGetAsyncError(const nccl_comm *comm, int *result)
{
    if (!rt_nccl_is_comm(comm) || result == NULL) {
        return refuse_handle();
    }
    *result = atomic_load(&comm->error);
    return NCCL_SUCCESS;
}

static int tell(const nccl_comm *comm, int *out, int value)
{
    if (!rt_nccl_is_comm(comm) || out == NULL) {
        return refuse_handle();
    }
    *out = value;
    return NCCL_SUCCESS;
}

int ncclCommCount(const nccl_comm *comm, int *count)
{
    return tell(comm, count, comm == NULL ? 0 : comm->n_ranks);
}

int ncclCommCuDevice(const nccl_comm *comm, int *device)
{
    return tell(comm, device, comm == NULL ? 0 : comm->device);
}

int ncclCommUserRank(const nccl_comm *comm, int *rank)
{
    return tell(comm, rank, comm == NULL ? 0 : comm->rank);
}
