/* serve.c - see serve.h.
 *
 * One thread serves one process after another: a question is answered in some microseconds for each
 * chunk, and nobody else may ask for longer than 2 seconds. It enters the instance that a question
 * names like any caller, so an instance is not destroyed under it, and an instance that is gone
 * answers EGONE. Processes of other users are hung up on before they are read.
 *
 * The lock of held.h guards the number and whether the thread runs. A forked child has neither: it
 * draws a number when it needs one, and the parent's sockets and descriptors are closed there. */
#include "api/share/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "api/instance.h"
#include "api/share/held.h"
#include "vmm/base/cancel.h"

enum { PATIENCE_SECONDS = 2, BACKLOG = 128, PAUSE_NS = 10000000 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct {
    bool has_number;    /* lock */
    bool is_running;    /* lock */
    uint64_t number[2]; /* lock */
    pl_held listener;   /* const once the thread runs */
    pl_held talk;       /* the thread's */
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

/* Makes descriptors for what the question names; after a failure there may be some. */
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
    uint64_t deadline_ms = pl_talk_deadline(PATIENCE_SECONDS);
    ssize_t sent;
    do {
        sent = sendmsg(fd, &message, MSG_NOSIGNAL);
    } while (pl_talk_again(sent, deadline_ms));
    return sent == (ssize_t)sizeof *answer;
}

static bool receive_question(int fd, pl_question *out)
{
    uint64_t deadline_ms = pl_talk_deadline(PATIENCE_SECONDS);
    ssize_t got;
    do {
        got = recv(fd, out, sizeof *out, 0);
    } while (pl_talk_again(got, deadline_ms));
    return got == (ssize_t)sizeof *out;
}

static void talk(pl_held *held)
{
    pl_question question;
    unsigned user;
    bool goes_on = pl_talk_is_same_user(held->socket, &user);
    pl_talk_limit(held->socket, PATIENCE_SECONDS);
    while (goes_on && receive_question(held->socket, &question)) {
        pleat_status st = make_fds(&question, held->fds);
        pl_answer answer = { .status = (uint32_t)st, .n = st == PLEAT_OK ? question.n : 0 };
        goes_on = send_answer(held->socket, &answer, held->fds);
        pl_held_close_fds(held);
    }
}

static void *serve(void *context)
{
    (void)context;
    pl_held_begin(&self.talk);
    for (;;) {
        if (pl_held_accept(&self.talk, self.listener.socket)) {
            talk(&self.talk);
            pl_held_hang_up(&self.talk);
        } else {
            pl_sleep_ns(PAUSE_NS); /* out of descriptors or memory, for a while */
        }
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
