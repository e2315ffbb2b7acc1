/* ask.c - see ask.h.
 *
 * The caller holds no lock or claim, since the other process may be stopped. Each answer may take
 * 10 s.
 *
 * Descriptors are requested in groups, and closed once their chunks are mapped. So a block of
 * thousands of chunks needs no more descriptors at a time than a block of 64. The other process
 * hangs up on an asker that is silent for long, for example while mapping. Then the asker calls
 * again, once for each question. */
#include "api/share/ask.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "api/base/error.h"
#include "vmm/base/cancel.h"

enum { PATIENCE_SECONDS = 10 };

/* ---- why it did not work ---- */

static pleat_status refuse(const pl_name *name, const char *why)
{
    return pl_error_set(PLEAT_ESHARE, name->block_bytes,
                        "memory that process %d shared on its device %d cannot be opened: %s",
                        name->pid, name->device, why);
}

/* `error`: errno of connecting or of a message. */
static pleat_status refuse_silence(const pl_name *name, int error)
{
    switch (error) {
    case ECONNREFUSED:
        return refuse(name, "the process has ended, or is in another network namespace");
    case EAGAIN:
    case ETIMEDOUT:
        return refuse(name, "the process does not answer within 10 s; is it stopped?");
    case EMFILE:
    case ENFILE:
        return refuse(name, "this process has no file descriptors left (ulimit -n)");
    case 0:
    case ECONNRESET:
    case EPIPE:
        return refuse(name, "the process ended meanwhile, or hung up");
    default:
        return refuse(name, "the system gives no socket to ask it");
    }
}

static pleat_status refuse_status(const pl_name *name, uint32_t status)
{
    switch ((int)status) {
    case PLEAT_ESHARE:
        return refuse(name, "the memory went back to the driver, since the block was freed before "
                            "it was opened here; keep it until everybody has closed it");
    case PLEAT_EGONE:
        return refuse(name, "the instance that had the block was destroyed");
    case PLEAT_EDRIVER:
        return refuse(name, "its driver gives no file descriptor; perhaps it has none left "
                            "(ulimit -n)");
    default:
        return refuse(name, "it does not know the block");
    }
}

/* ---- the conversation ---- */

static pleat_status connect_to(pl_asker *asker)
{
    unsigned user = 0;
    socklen_t bytes;
    const pl_name *name = asker->name;
    struct sockaddr_un address = pl_talk_address(name->process, &bytes);
    if (!pl_held_open(&asker->held)) {
        return refuse_silence(name, errno);
    }
    pl_talk_limit(asker->held.socket, PATIENCE_SECONDS);
    uint64_t deadline_ms = pl_talk_deadline(PATIENCE_SECONDS);
    int result;
    do {
        result = connect(asker->held.socket, (const struct sockaddr *)&address, bytes);
    } while (pl_talk_again(result, deadline_ms));
    if (result != 0) {
        return refuse_silence(name, errno);
    }
    if (!pl_talk_is_same_user(asker->held.socket, &user)) {
        return refuse(name, "what answers in its place is another user's");
    }
    return PLEAT_OK;
}

pleat_status pl_asker_begin(pl_asker *asker, const pl_name *name, const pl_shared_chunk *chunks)
{
    *asker = (pl_asker){ .name = name, .chunks = chunks };
    if (name->user != geteuid()) {
        return refuse(name, "it is another user's, and memory is shared within one user only");
    }
    if (name->is_served == 0) {
        return refuse(name, "it was named without PLEAT_SHARE_SERVE: name it with that, or send "
                            "the descriptors of pleat_share_fds and use pleat_share_open_fds");
    }
    pl_held_begin(&asker->held);
    int cancel = pl_cancel_off();
    pleat_status st = connect_to(asker);
    pl_cancel_restore(cancel);
    if (st != PLEAT_OK) {
        pl_held_end(&asker->held);
    }
    return st;
}

/* 0, or an errno; 0 with *got = 0 is a hang-up. */
static int exchange(pl_asker *asker, const pl_question *question, pl_answer *answer, ssize_t *got)
{
    struct iovec part = { answer, sizeof *answer };
    uint64_t deadline_ms = pl_talk_deadline(PATIENCE_SECONDS);
    ssize_t sent;
    do {
        sent = send(asker->held.socket, question, sizeof *question, MSG_NOSIGNAL);
    } while (pl_talk_again(sent, deadline_ms));
    *got = -1;
    if (sent != (ssize_t)sizeof *question) {
        return errno;
    }
    deadline_ms = pl_talk_deadline(PATIENCE_SECONDS);
    *got = pl_held_receive(&asker->held, &part, deadline_ms, &asker->n_fds);
    return *got < 0 ? errno : 0;
}

static bool is_hang_up(int error, ssize_t got)
{
    return got == 0 || error == EPIPE || error == ECONNRESET || error == ENOTCONN;
}

static pleat_status ask(pl_asker *asker, const pl_question *question)
{
    pl_answer answer;
    ssize_t got;
    int error = exchange(asker, question, &answer, &got);
    if (is_hang_up(error, got)) {
        pl_held_hang_up(&asker->held);
        pleat_status st = connect_to(asker);
        if (st != PLEAT_OK) {
            return st;
        }
        error = exchange(asker, question, &answer, &got);
    }
    if (got != (ssize_t)sizeof answer) {
        return refuse_silence(asker->name, error);
    }
    if (answer.status != PLEAT_OK) {
        return refuse_status(asker->name, answer.status);
    }
    return asker->n_fds == question->n ? PLEAT_OK : refuse_silence(asker->name, EMFILE);
}

/* Gets the descriptors of the chunks from `first` on. */
static pleat_status fetch(pl_asker *asker, size_t first)
{
    const pl_name *name = asker->name;
    pl_question question = { .instance = name->instance, .device = name->device };
    size_t left = (size_t)name->n - first;
    question.n = (uint32_t)(left < PL_TALK_MOST ? left : PL_TALK_MOST);
    memcpy(question.process, name->process, sizeof question.process);
    memcpy(question.chunks, asker->chunks + first, question.n * sizeof *asker->chunks);
    pl_held_close_fds(&asker->held);
    asker->n_fds = 0;
    asker->first = first;
    pleat_status st = ask(asker, &question);
    if (st != PLEAT_OK) {
        asker->n_fds = 0;
    }
    return st;
}

pleat_status pl_asker_fd(void *context, size_t i, int *fd)
{
    pl_asker *asker = context;
    pleat_status st = PLEAT_OK;
    if (i < asker->first || i - asker->first >= asker->n_fds) {
        int cancel = pl_cancel_off();
        st = fetch(asker, i);
        pl_cancel_restore(cancel);
    }
    if (st == PLEAT_OK) {
        *fd = asker->held.fds[i - asker->first];
    }
    return st;
}

void pl_asker_end(pl_asker *asker)
{
    pl_held_end(&asker->held);
    asker->n_fds = 0;
}
