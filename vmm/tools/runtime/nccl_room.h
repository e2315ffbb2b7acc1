/* nccl_room.h - memory shared by the ranks of one communicator, with the members and a mailbox per
 * pair of ranks.
 *
 * R1  every rank of a room has arrived before any of them leaves rt_room_await with success
 * R2  a mailbox holds one message if n_posted == n_taken + 1, none if they are equal; only its
 *     sender adds to n_posted, only its receiver to n_taken
 * R3  once all have arrived the room has no name: it goes with the last process that maps it */
#ifndef PLEAT_RUNTIME_NCCL_ROOM_H
#define PLEAT_RUNTIME_NCCL_ROOM_H

#include <stdatomic.h>
#include <stdbool.h>

#include "vmm/tools/runtime/nccl_api.h"

enum {
    NCCL_MAX_RANKS = 256,
    NCCL_TOKEN_BYTES = 16,
    NCCL_MAILBOX_BYTES = 64 << 10,
};

/* A rank's call. The two ends of a mailbox must agree. */
typedef struct nccl_what {
    uint64_t count;
    int kind; /* nccl_kind */
    int type;
    int op;
    int root;
} nccl_what;

typedef enum nccl_kind {
    NCCL_ALL_REDUCE,
    NCCL_REDUCE,
    NCCL_REDUCE_SCATTER,
    NCCL_BROADCAST,
    NCCL_ALL_GATHER,
    NCCL_ALL_TO_ALL,
    NCCL_GATHER,
    NCCL_SCATTER,
    NCCL_SEND, /* a send, or the receive of a send */
    NCCL_SPLIT,
    NCCL_N_KINDS
} nccl_kind;

typedef struct nccl_letter {
    nccl_what what;
    uint64_t n_call;    /* of the sender, for messages to people */
    uint32_t has_bytes; /* the sender knows the bytes */
    uint32_t bytes;     /* bytes in this letter */
} nccl_letter;

typedef struct nccl_mailbox {
    _Atomic uint32_t n_posted; /* atomic: the sender's */
    _Atomic uint32_t n_taken;  /* atomic: the receiver's */
    nccl_letter letter;        /* whose turn it is */
    unsigned char bytes[NCCL_MAILBOX_BYTES - sizeof(nccl_letter) - 2 * sizeof(uint32_t)];
} nccl_mailbox;

_Static_assert(sizeof(nccl_mailbox) == NCCL_MAILBOX_BYTES, "mailboxes lie on page boundaries");

typedef enum nccl_state { NCCL_ABSENT, NCCL_CLAIMED, NCCL_HERE, NCCL_LEFT } nccl_state;

typedef struct nccl_member {
    _Atomic uint32_t state; /* atomic: nccl_state */
    int32_t pid;            /* const, once HERE */
    uint64_t place;         /* const, once HERE: equal for ranks on one device */
} nccl_member;

typedef struct nccl_room {
    _Atomic uint32_t n_ranks; /* atomic: 0 until the first says */
    _Atomic uint32_t bell;    /* atomic: rings at every change */
    nccl_member members[NCCL_MAX_RANKS];
} nccl_room;

/** Enter the room of `token` as `rank`, making the room if nobody has.
 *
 *  Params   token: NCCL_TOKEN_BYTES, the same on all ranks. out [out].
 *  Returns  NCCL_SUCCESS; NCCL_INVALID_USAGE (the rank is there already, or the others say another
 *           number of ranks); NCCL_SYSTEM_ERROR.
 *  Failure  this rank is not in the room; rt_nccl_say has told why.
 *  Blocks   never. */
int rt_room_enter(const unsigned char *token, int n_ranks, int rank, int device, nccl_room **out);

/** Wait until all have entered, then compare their devices.
 *
 *  Returns  NCCL_SUCCESS; NCCL_INVALID_USAGE (two ranks on one device); what rt_room_wait says. */
int rt_room_await(nccl_room *room, const unsigned char *token, int rank,
                  const _Atomic bool *is_aborted);

/** Mark this rank as gone. Its posted letters are still good. */
void rt_room_give_up(nccl_room *room, int rank);

/** Give up, and unmap the room. */
void rt_room_leave(nccl_room *room, int rank);

nccl_mailbox *rt_room_mailbox(nccl_room *room, int from, int to);

void rt_room_ring(nccl_room *room);

/* A wait of one rank, with its start. */
typedef struct nccl_wait {
    uint64_t since_ms;
    bool is_said;
    bool is_last_look; /* a rank is gone, but its posted letters are still good */
} nccl_wait;

/** Wait for the bell, for at most 100 ms.
 *
 *  Params   seen: the bell before the caller looked and found nothing. peer: for whom, or -1 for
 *           any that is missing. what: for messages.
 *  Returns  NCCL_SUCCESS: look again; NCCL_REMOTE_ERROR: the peer has left or died, or the time is
 *           up; NCCL_INVALID_USAGE: aborted meanwhile. rt_nccl_say has told why.
 *  Blocks   on a futex. */
int rt_room_wait(nccl_room *room, nccl_wait *wait, uint32_t seen, int rank, int peer,
                 const char *what, const _Atomic bool *is_aborted);

/* ---- what ncclGetLastError tells ---- */

/** Remember what went wrong, and return `result`. */
int rt_nccl_say(int result, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
