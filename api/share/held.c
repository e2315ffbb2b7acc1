/* held.c - see held.h.
 *
 * All pl_held are in one list. In a forked child the fork handler empties the list, under the lock
 * that the forking thread took before the fork. The thread takes the api lock (rank 10) afterwards,
 * since handlers registered later are called earlier. */
#include "api/share/held.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "vmm/base/cancel.h"
#include "vmm/base/clock.h"
#include "vmm/base/lock.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pl_lock lock;
static pl_held *first; /* lock */

/* ---- closing --------------------------------------------------------------------------------- */

static void close_one(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

static void close_fds_locked(pl_held *held)
{
    pl_lock_assert(&lock);
    for (size_t i = 0; i < PL_TALK_MOST; i++) {
        close_one(&held->fds[i]);
    }
}

/* ---- forks ----------------------------------------------------------------------------------- */

static void before_fork(void)
{
    pl_lock_acquire(&lock);
}

static void after_fork_in_parent(void)
{
    pl_lock_release(&lock);
}

/* The conversations belonged to threads of the parent. */
static void after_fork_in_child(void)
{
    while (first) {
        pl_held *held = first;
        first = held->next;
        close_fds_locked(held);
        close_one(&held->socket);
    }
    pl_lock_release(&lock);
}

static void prepare(void)
{
    pl_lock_init(&lock, PL_RANK_HELD);
    (void)pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

void pl_held_acquire(void)
{
    (void)pthread_once(&once, prepare);
    pl_lock_acquire(&lock);
}

void pl_held_release(void)
{
    pl_lock_release(&lock);
}

void pl_held_assert(void)
{
    pl_lock_assert(&lock);
}

/* ---- conversations --------------------------------------------------------------------------- */

void pl_held_begin_locked(pl_held *held)
{
    pl_lock_assert(&lock);
    memset(held->fds, -1, sizeof held->fds);
    held->socket = -1;
    held->next = first;
    first = held;
}

void pl_held_begin(pl_held *held)
{
    pl_held_acquire();
    pl_held_begin_locked(held);
    pl_held_release();
}

void pl_held_end_locked(pl_held *held)
{
    pl_held **link = &first;
    pl_lock_assert(&lock);
    while (*link && *link != held) {
        link = &(*link)->next;
    }
    if (*link) {
        *link = held->next;
    }
    close_fds_locked(held);
    close_one(&held->socket);
}

void pl_held_end(pl_held *held)
{
    int cancel = pl_cancel_off(); /* close is a cancellation point */
    pl_held_acquire();
    pl_held_end_locked(held);
    pl_held_release();
    pl_cancel_restore(cancel);
}

void pl_held_close_fds(pl_held *held)
{
    int cancel = pl_cancel_off();
    pl_held_acquire();
    close_fds_locked(held);
    pl_held_release();
    pl_cancel_restore(cancel);
}

void pl_held_hang_up(pl_held *held)
{
    int cancel = pl_cancel_off();
    pl_held_acquire();
    close_one(&held->socket);
    pl_held_release();
    pl_cancel_restore(cancel);
}

bool pl_held_open_locked(pl_held *held)
{
    pl_lock_assert(&lock);
    held->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    return held->socket >= 0;
}

bool pl_held_open(pl_held *held)
{
    pl_held_acquire();
    bool is_open = pl_held_open_locked(held);
    int error = errno;
    pl_held_release();
    errno = error;
    return is_open;
}

bool pl_held_accept(pl_held *held, int listener)
{
    pl_held_acquire();
    held->socket = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    int error = errno;
    pl_held_release();
    errno = error;
    return held->socket >= 0;
}

/* ---- waiting, without the lock --------------------------------------------------------------- */

/* False: errno, EAGAIN at the deadline. */
static bool wait_readable(int fd, uint64_t deadline_ms)
{
    struct pollfd watched = { .fd = fd, .events = POLLIN };
    int result;
    do {
        uint64_t now = pl_clock_ms();
        result = poll(&watched, 1, deadline_ms > now ? (int)(deadline_ms - now) : 0);
    } while (result < 0 && errno == EINTR);
    if (result == 0) {
        errno = EAGAIN;
    }
    return result > 0;
}

/* The system has closed descriptors that did not fit. */
static size_t take_fds(struct msghdr *message, int *fds)
{
    struct cmsghdr *head = CMSG_FIRSTHDR(message);
    if (!head || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) {
        return 0;
    }
    size_t n = (head->cmsg_len - CMSG_LEN(0)) / sizeof *fds;
    n = n < PL_TALK_MOST ? n : PL_TALK_MOST;
    memcpy(fds, CMSG_DATA(head), n * sizeof *fds);
    return n;
}

/* The descriptors of any earlier message are closed first. */
static ssize_t receive_locked(pl_held *held, struct iovec *part, size_t *n_fds)
{
    pl_descriptors room;
    struct msghdr message = { .msg_iov = part,
                              .msg_iovlen = 1,
                              .msg_control = room.bytes,
                              .msg_controllen = sizeof room.bytes };
    pl_lock_assert(&lock);
    close_fds_locked(held);
    ssize_t got = recvmsg(held->socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    *n_fds = got >= 0 ? take_fds(&message, held->fds) : 0; /* also of a strange message */
    return got;
}

ssize_t pl_held_receive(pl_held *held, struct iovec *part, uint64_t deadline_ms, size_t *n_fds)
{
    int cancel = pl_cancel_off();
    ssize_t got = -1;
    int error = EAGAIN;
    while (got < 0 && (error == EAGAIN || error == EINTR) &&
           wait_readable(held->socket, deadline_ms)) {
        pl_held_acquire();
        got = receive_locked(held, part, n_fds);
        error = got < 0 ? errno : 0;
        pl_held_release();
    }
    pl_cancel_restore(cancel);
    errno = error;
    return got;
}
