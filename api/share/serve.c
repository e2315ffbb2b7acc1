/* serve.c - see serve.h.
 *
 * One thread serves all askers in turn. The thread waits for all sockets at once, and answers a
 * question of each, in some microseconds a chunk. It never waits for one asker. A silent asker has
 * a seat for 2 seconds, or until all seats are taken and a new asker wants one. An asker loses its
 * seat if it does not take answers. An asker that was hung up on while mapping calls again (ask.c).
 * If the system lacks memory for a message, or too many descriptors are in flight, the thread sends
 * the answer again later.
 *
 * The thread enters the instance of a question like any caller: so an instance is not destroyed
 * meanwhile, and a destroyed instance returns EGONE. The thread hangs up on processes of other
 * users before reading from them.
 *
 * The lock of held.h guards the number and whether the thread runs. A forked child has neither: it
 * draws a number when it needs one, and closes the parent's sockets and descriptors. */
#include "api/share/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "api/instance/instance.h"
#include "api/share/held.h"
#include "vmm/base/cancel.h"
#include "vmm/base/clock.h"

enum { MOST_GUESTS = 64, PATIENCE_MS = 2000, PAUSE_MS = 10, BACKLOG = 128 };

/* A process that asks; held.socket -1 = a free seat. */
typedef struct guest {
    pl_held held;
    uint64_t deadline_ms; /* of its next question, or of the answer to this one: */
    uint64_t heard_index; /* of its last message, in the order of all messages */
    bool has_question;
    pl_question question;
} guest;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct {
    bool has_number;           /* lock */
    bool is_running;           /* lock */
    uint64_t number[2];        /* lock */
    pl_held listener;          /* const once the thread runs */
    guest guests[MOST_GUESTS]; /* the thread's */
    uint64_t n_heard;          /* the thread's */
} self;

/* ---- the number ---- */

static void begin_child(void)
{
    self.is_running = false;
    self.has_number = false;
}

static void prepare(void)
{
    (void)pthread_atfork(NULL, NULL, begin_child);
}

static bool draw_number_locked(void)
{
    pl_held_assert();
    if (!self.has_number) {
        self.has_number = getrandom(self.number, sizeof self.number, 0) ==
                          (ssize_t)sizeof self.number;
    }
    return self.has_number;
}

bool pl_serve_process(uint64_t process[2])
{
    (void)pthread_once(&once, prepare);
    int cancel = pl_cancel_off(); /* getrandom is a cancellation point */
    pl_held_acquire();
    bool has_number = draw_number_locked();
    if (has_number) {
        memcpy(process, self.number, sizeof self.number);
    }
    pl_held_release();
    pl_cancel_restore(cancel);
    return has_number;
}

/* ---- answers ---- */

/* Makes descriptors for the question's chunks; after a failure some may be made. */
static pleat_status make_fds(const pl_question *question, int *fds)
{
    uint64_t process[2];
    if (question->n == 0 || question->n > PL_TALK_MOST || !pl_serve_process(process) ||
        memcmp(process, question->process, sizeof process) != 0) {
        return PLEAT_EINVAL;
    }
    pl_use use = pl_use_enter(question->instance);
    if (!use.instance) {
        return pl_error_status();
    }
    pl_gpu *gpu = pl_use_find_gpu(use.instance, question->device);
    pleat_status st = gpu ? PLEAT_OK : PLEAT_EDEVICE;
    for (size_t i = 0; st == PLEAT_OK && i < question->n; i++) {
        st = pl_share_export(gpu->dev, &question->chunks[i], &fds[i]);
    }
    pl_use_leave(use);
    return st;
}

/* False: errno. */
static bool send_answer(int fd, const pl_answer *answer, const int *fds)
{
    pl_descriptors room;
    struct iovec part = { (void *)(uintptr_t)answer, sizeof *answer };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    size_t bytes = answer->n * sizeof *fds;
    if (answer->n > 0) {
        memset(&room, 0, sizeof room);
        message.msg_control = room.bytes;
        message.msg_controllen = CMSG_SPACE(bytes);
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(bytes);
        memcpy(CMSG_DATA(head), fds, bytes);
    }
    return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof *answer;
}

/* ---- guests ---- */

static bool is_short_for_a_while(int error)
{
    return error == ETOOMANYREFS || error == ENOBUFS || error == ENOMEM;
}

static void note_heard(guest *g)
{
    g->deadline_ms = pl_clock_ms() + PATIENCE_MS;
    g->heard_index = self.n_heard++;
}

/* False: hang up. */
static bool answer(guest *g)
{
    pleat_status st = make_fds(&g->question, g->held.fds);
    pl_answer said = { .status = (uint32_t)st, .n = st == PLEAT_OK ? g->question.n : 0 };
    bool is_sent = send_answer(g->held.socket, &said, g->held.fds);
    int error = errno;
    pl_held_close_fds(&g->held);
    if (is_sent) {
        g->has_question = false;
        g->deadline_ms = pl_clock_ms() + PATIENCE_MS;
    }
    return is_sent || (is_short_for_a_while(error) && pl_clock_ms() < g->deadline_ms);
}

/* The socket is readable, or the answer to a question is due. False: hang up. */
static bool serve_guest(guest *g)
{
    if (!g->has_question) {
        ssize_t got = recv(g->held.socket, &g->question, sizeof g->question, MSG_DONTWAIT);
        if (got != (ssize_t)sizeof g->question) {
            return false;
        }
        g->has_question = true;
        note_heard(g);
    }
    return answer(g);
}

static void hang_up(guest *g)
{
    pl_held_hang_up(&g->held);
    g->has_question = false;
}

static void serve_seat(guest *g, bool is_readable)
{
    bool stays = is_readable || g->has_question ? serve_guest(g) : pl_clock_ms() < g->deadline_ms;
    if (!stays) {
        hang_up(g);
    }
}

/* The longest silent one has to go where no seat is free. */
static guest *find_seat(void)
{
    guest *seat = &self.guests[0];
    for (size_t i = 0; i < MOST_GUESTS && seat->held.socket >= 0; i++) {
        guest *g = &self.guests[i];
        if (g->held.socket < 0 || g->heard_index < seat->heard_index) {
            seat = g;
        }
    }
    hang_up(seat);
    return seat;
}

/* Somebody has called. False: the process is out of descriptors or memory. */
static bool let_in(void)
{
    unsigned user;
    guest *g = find_seat();
    if (!pl_held_accept(&g->held, self.listener.socket)) {
        return errno == EAGAIN || errno == ECONNABORTED; /* the caller has gone again */
    }
    note_heard(g);
    if (!pl_talk_is_same_user(g->held.socket, &user)) {
        hang_up(g);
    }
    return true;
}

/* All sockets to wait for: guests who may ask, and the listener at the end. A poll of more sockets
 * than the process may have open is refused, so free seats are left out. */
typedef struct watch {
    guest *who[MOST_GUESTS];
    struct pollfd fds[MOST_GUESTS + 1];
    nfds_t n; /* guests */
} watch;

/* Adds all guests; returns the earliest deadline. */
static uint64_t watch_guests(watch *w, uint64_t until_ms)
{
    uint64_t retry_ms = pl_clock_ms() + PAUSE_MS;
    w->n = 0;
    for (size_t i = 0; i < MOST_GUESTS; i++) {
        guest *g = &self.guests[i];
        if (g->held.socket >= 0) {
            uint64_t due_ms = g->has_question ? retry_ms : g->deadline_ms;
            until_ms = due_ms < until_ms ? due_ms : until_ms;
            w->who[w->n] = g;
            w->fds[w->n++] = (struct pollfd){ .fd = g->has_question ? -1 : g->held.socket,
                                              .events = POLLIN };
        }
    }
    return until_ms;
}

/* Waits until somebody calls or asks, or a time has passed. Has somebody called? */
static bool wait_for_guests(watch *w, bool may_let_in)
{
    uint64_t now_ms = pl_clock_ms();
    uint64_t until_ms = watch_guests(w, may_let_in ? UINT64_MAX : now_ms + PAUSE_MS);
    int left = until_ms == UINT64_MAX ? -1 : until_ms > now_ms ? (int)(until_ms - now_ms) : 0;
    w->fds[w->n] = (struct pollfd){ .fd = may_let_in ? self.listener.socket : -1,
                                    .events = POLLIN };
    if (poll(w->fds, w->n + 1, left) < 0) {
        pl_sleep_ns(PAUSE_MS * 1000000L); /* out of memory, for a while */
    }
    return w->fds[w->n].revents != 0;
}

static void *serve(void *context)
{
    watch w;
    bool may_let_in = true;
    (void)context;
    for (size_t i = 0; i < MOST_GUESTS; i++) {
        self.guests[i].has_question = false;
        pl_held_begin(&self.guests[i].held);
    }
    for (;;) {
        bool has_called = wait_for_guests(&w, may_let_in);
        for (nfds_t i = 0; i < w.n; i++) {
            serve_seat(w.who[i], w.fds[i].revents != 0);
        }
        may_let_in = !has_called || let_in();
    }
    return NULL;
}

/* ---- start ---- */

/* The program's signals are for its own threads. */
static bool start_thread(void)
{
    sigset_t all;
    sigset_t before;
    pthread_t thread;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    bool is_made = pthread_create(&thread, NULL, serve, NULL) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (is_made) {
        (void)pthread_detach(thread);
    }
    return is_made;
}

static bool listen_locked(void)
{
    socklen_t bytes;
    pl_held_assert();
    if (!draw_number_locked() || !pl_held_open_locked(&self.listener)) {
        return false;
    }
    int fd = self.listener.socket;
    struct sockaddr_un address = pl_talk_address(self.number, &bytes);
    return fcntl(fd, F_SETFL, O_NONBLOCK) == 0 &&
           bind(fd, (const struct sockaddr *)&address, bytes) == 0 && listen(fd, BACKLOG) == 0;
}

static const char *start_locked(void)
{
    pl_held_assert();
    if (self.is_running) {
        return NULL;
    }
    pl_held_begin_locked(&self.listener);
    const char *why = !listen_locked()  ? "the system gives no socket"
                      : !start_thread() ? "the system gives no thread"
                                        : NULL;
    self.is_running = why == NULL;
    if (why) {
        pl_held_end_locked(&self.listener);
    }
    return why;
}

pleat_status pl_serve_start(void)
{
    (void)pthread_once(&once, prepare);
    int cancel = pl_cancel_off();
    pl_held_acquire();
    const char *why = start_locked();
    pl_held_release();
    pl_cancel_restore(cancel);
    return why ? pl_error_set(PLEAT_ESHARE, 0,
                              "shared memory cannot be handed out: %s. Without PLEAT_SHARE_SERVE "
                              "the program may send the descriptors itself",
                              why)
               : PLEAT_OK;
}
