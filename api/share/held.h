/* held.h - the descriptors of conversations between processes, which a forked child closes.
 *
 * A descriptor of memory keeps the memory, and a socket seems to be served as long as anybody has
 * it. Both are open for moments only, but a fork in such a moment would leave copies in the child,
 * which nobody there knows of. So each conversation keeps its descriptors in a pl_held, and forks
 * wait while one appears or goes. The driver makes those of memory without the lock: it writes them
 * straight to their places here, so that a child misses one only if it is forked within that call.
 *
 * The lock (rank 5) is held for no call that waits, and for none of the driver. */
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

/* Nothing is held yet. The end closes what is. */
void pl_held_begin(pl_held *held);
void pl_held_end(pl_held *held);
/* Open a socket. False: errno says why not. */
bool pl_held_open(pl_held *held);
/* The same, under the lock. */
void pl_held_begin_locked(pl_held *held);
void pl_held_end_locked(pl_held *held);
bool pl_held_open_locked(pl_held *held);

/* Take somebody who has connected to the listener, which does not block; nothing is held yet.
 * False: errno. */
bool pl_held_accept(pl_held *held, int listener);
/* Wait until the deadline for a message, whose descriptors are held then: *n_fds of them, which are
 * too few if the process has no room for more. Its bytes; -1: errno, EAGAIN at the deadline. */
ssize_t pl_held_receive(pl_held *held, struct iovec *part, uint64_t deadline_ms, size_t *n_fds);

void pl_held_close_fds(pl_held *held);
void pl_held_hang_up(pl_held *held); /* closes the socket */

#endif
