/* held.h - the descriptors of conversations between processes, which a forked child closes.
 *
 * A descriptor of memory keeps the memory alive, and a socket seems to be served while any process
 * has it open. Descriptors and sockets are open for moments only. A fork in such a moment would
 * leave copies in the child, unknown to everybody there. So each conversation keeps its descriptors
 * in a pl_held, and forks wait while a descriptor appears or goes. The exception is a descriptor
 * that the driver makes, without the lock. The driver writes the descriptor straight to its place
 * in the pl_held. A child misses the descriptor only if forked within the driver call.
 *
 * The lock (rank 5) is held for no call that waits, and for no driver call. */
#ifndef PLEAT_API_SHARE_HELD_H
#define PLEAT_API_SHARE_HELD_H

#include <sys/uio.h>

#include "api/share/talk.h"

typedef struct pl_held {
    struct pl_held *next;  /* lock */
    int socket;            /* lock: -1 = none */
    int fds[PL_TALK_MOST]; /* lock, or the driver's while it makes one: -1 = none */
} pl_held;

void pl_held_acquire(void);
void pl_held_release(void);
void pl_held_assert(void); /* the caller holds the lock */

/* Begin with nothing held; the end closes everything held. */
void pl_held_begin(pl_held *held);
void pl_held_end(pl_held *held);
/* Open a socket. False: see errno. */
bool pl_held_open(pl_held *held);
/* The same, under the lock. */
void pl_held_begin_locked(pl_held *held);
void pl_held_end_locked(pl_held *held);
bool pl_held_open_locked(pl_held *held);

/* Accept a process that has connected to the listener, without waiting; nothing is held yet. False:
 * errno. */
bool pl_held_accept(pl_held *held, int listener);
/* Wait for a message until the deadline, and hold its descriptors: *n_fds of them, too few if the
 * process has no room for more. Returns its bytes; -1: errno, EAGAIN at the deadline. */
ssize_t pl_held_receive(pl_held *held, struct iovec *part, uint64_t deadline_ms, size_t *n_fds);

void pl_held_close_fds(pl_held *held);
void pl_held_hang_up(pl_held *held); /* closes the socket */

#endif
