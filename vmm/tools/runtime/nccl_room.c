/* nccl_room.c - see nccl_room.h. Upholds R1 and R3.
 *
 * The room is a file in /dev/shm that only this user can open, named by the communicator's token.
 * So ranks meet without a network. The file is empty pages until a mailbox is used. The room has no
 * lock, so a rank that dies leaves nothing locked. Ranks notice a death by the process id. */
#include "vmm/tools/runtime/nccl_room.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_MS = 100, SAY_MS = 10000, DEFAULT_LIMIT_S = 600, PATH_BYTES = 64, TEXT_BYTES = 400 };

/* ---- errors ---------------------------------------------------------------------------------- */

static pthread_mutex_t text_lock = PTHREAD_MUTEX_INITIALIZER;
static char text[TEXT_BYTES]; /* text_lock; the last error of any thread, as the vendor's */

int rt_nccl_say(int result, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    pthread_mutex_lock(&text_lock);
    (void)vsnprintf(text, sizeof(text), format, list);
    pthread_mutex_unlock(&text_lock);
    va_end(list);
    return result;
}

const char *ncclGetLastError(const nccl_comm *comm)
{
    static _Thread_local char copy[TEXT_BYTES];
    (void)comm;
    pthread_mutex_lock(&text_lock);
    memcpy(copy, text, sizeof(copy));
    pthread_mutex_unlock(&text_lock);
    return copy;
}

/* ---- entering -------------------------------------------------------------------------------- */

static size_t room_bytes(int n_ranks)
{
    return (size_t)NCCL_MAILBOX_BYTES * (1 + (size_t)n_ranks * (size_t)n_ranks);
}

_Static_assert(sizeof(nccl_room) <= NCCL_MAILBOX_BYTES, "mailboxes begin behind the room");

nccl_mailbox *rt_room_mailbox(nccl_room *room, int from, int to)
{
    size_t n_ranks = atomic_load_explicit(&room->n_ranks, memory_order_relaxed);
    nccl_mailbox *boxes = (nccl_mailbox *)room;
    return &boxes[1 + (size_t)from * n_ranks + (size_t)to];
}

static void write_path(char path[PATH_BYTES], const unsigned char *token)
{
    int n = snprintf(path, PATH_BYTES, "/dev/shm/pleat-nccl-");
    for (int i = 0; i < NCCL_TOKEN_BYTES; i++) {
        n += snprintf(path + n, (size_t)(PATH_BYTES - n), "%02x", token[i]);
    }
}

/* Only ever made larger, since another rank may have mapped the file. */
static bool make_room(int fd, size_t bytes)
{
    struct stat file;
    return fstat(fd, &file) == 0 && file.st_uid == geteuid() &&
           ((size_t)file.st_size >= bytes || ftruncate(fd, (off_t)bytes) == 0);
}

static nccl_room *map_room(const unsigned char *token, int n_ranks)
{
    char path[PATH_BYTES];
    write_path(path, token);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    void *at = MAP_FAILED;
    if (fd >= 0 && make_room(fd, room_bytes(n_ranks))) {
        at = mmap(NULL, room_bytes(n_ranks), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    int error = errno;
    if (fd >= 0) {
        close(fd);
    }
    if (at == MAP_FAILED) {
        (void)rt_nccl_say(NCCL_SYSTEM_ERROR, "%s cannot be used: %s", path, strerror(error));
        return NULL;
    }
    return at;
}

static uint64_t mix(uint64_t hash, const char *word)
{
    for (; *word != '\0' && *word != ','; word++) {
        hash = (hash ^ (unsigned char)*word) * UINT64_C(1099511628211);
    }
    return hash;
}

/* Two ranks on one device are refused, as on a GPU. Where CUDA_VISIBLE_DEVICES is set, its word
 * names the device. Each machine named by NCCL_HOSTID has its own devices. */
static uint64_t find_place(int device)
{
    char number[16];
    const char *host = secure_getenv("NCCL_HOSTID");
    const char *word = secure_getenv("CUDA_VISIBLE_DEVICES");
    for (int i = 0; i < device && word != NULL; i++) {
        word = strchr(word, ',');
        word = word == NULL ? NULL : word + 1;
    }
    if (word == NULL || word[0] == '\0') {
        snprintf(number, sizeof(number), "%d", device);
        word = number;
    }
    return mix(mix(UINT64_C(14695981039346656037), host == NULL ? "" : host) * 31, word);
}

int rt_room_enter(const unsigned char *token, int n_ranks, int rank, int device, nccl_room **out)
{
    nccl_room *room = map_room(token, n_ranks);
    if (room == NULL) {
        return NCCL_SYSTEM_ERROR;
    }
    uint32_t others = 0;
    uint32_t absent = NCCL_ABSENT;
    nccl_member *member = &room->members[rank];
    int result = NCCL_SUCCESS;
    if (!atomic_compare_exchange_strong(&room->n_ranks, &others, (uint32_t)n_ranks) &&
        others != (uint32_t)n_ranks) {
        result = rt_nccl_say(NCCL_INVALID_USAGE, "rank %d says %d ranks, another one %u", rank,
                             n_ranks, others);
    } else if (!atomic_compare_exchange_strong(&member->state, &absent, NCCL_CLAIMED)) {
        result = rt_nccl_say(NCCL_INVALID_USAGE, "there are two of rank %d, one is process %d",
                             rank, (int)member->pid);
    }
    if (result != NCCL_SUCCESS) {
        munmap(room, room_bytes(n_ranks));
        return result;
    }
    member->pid = (int32_t)getpid();
    member->place = find_place(device);
    atomic_store(&member->state, NCCL_HERE);
    rt_room_ring(room);
    *out = room;
    return NCCL_SUCCESS;
}

void rt_room_give_up(nccl_room *room, int rank)
{
    atomic_store(&room->members[rank].state, NCCL_LEFT);
    rt_room_ring(room);
}

void rt_room_leave(nccl_room *room, int rank)
{
    int n_ranks = (int)atomic_load(&room->n_ranks);
    rt_room_give_up(room, rank);
    munmap(room, room_bytes(n_ranks));
}

/* ---- waiting --------------------------------------------------------------------------------- */

void rt_room_ring(nccl_room *room)
{
    atomic_fetch_add(&room->bell, 1);
    syscall(SYS_futex, (void *)&room->bell, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static uint64_t limit_ms(void)
{
    const char *seconds = secure_getenv("PLEAT_NCCL_TIMEOUT");
    char *end = NULL;
    unsigned long long s = seconds == NULL ? 0 : strtoull(seconds, &end, 10);
    bool is_good = seconds != NULL && end != seconds && *end == '\0' && s > 0 && s < 1000000;
    return (is_good ? s : DEFAULT_LIMIT_S) * 1000;
}

static bool is_missing(const nccl_room *room, int rank)
{
    uint32_t state = atomic_load(&room->members[rank].state);
    return state == NCCL_ABSENT || state == NCCL_CLAIMED;
}

static int first_missing(const nccl_room *room)
{
    int n_ranks = (int)atomic_load(&room->n_ranks);
    for (int i = 0; i < n_ranks; i++) {
        if (is_missing(room, i)) {
            return i;
        }
    }
    return -1;
}

/* True even before the parent has waited for the process, when a signal would still succeed. */
static bool has_ended(pid_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0) {
        return errno == ESRCH;
    }
    struct pollfd end = { .fd = fd, .events = POLLIN };
    bool is_over = poll(&end, 1, 0) == 1;
    close(fd);
    return is_over;
}

static bool is_gone(const nccl_room *room, int rank)
{
    const nccl_member *member = &room->members[rank];
    uint32_t state = atomic_load(&member->state);
    return state == NCCL_LEFT || (state == NCCL_HERE && has_ended(member->pid));
}

/* A gone rank, or -1. A rank that waits for nobody in particular (peer < 0) waits for all. */
static int first_gone(const nccl_room *room, int peer)
{
    int n_ranks = (int)atomic_load(&room->n_ranks);
    for (int i = 0; i < n_ranks; i++) {
        if ((peer < 0 || peer == i) && is_gone(room, i)) {
            return i;
        }
    }
    return -1;
}

static int refuse_gone(const nccl_room *room, int rank, int gone, const char *what)
{
    bool has_left = atomic_load(&room->members[gone].state) == NCCL_LEFT;
    return rt_nccl_say(NCCL_REMOTE_ERROR,
                       "rank %d, in %s, waits for rank %d (process %d), which %s", rank, what, gone,
                       (int)room->members[gone].pid,
                       has_left ? "has left the communicator without it" : "has ended");
}

int rt_room_wait(nccl_room *room, nccl_wait *wait, uint32_t seen, int rank, int peer,
                 const char *what, const _Atomic bool *is_aborted)
{
    struct timespec step = { .tv_nsec = LOOK_MS * 1000000L };
    if (atomic_load(is_aborted)) {
        return rt_nccl_say(NCCL_INVALID_USAGE, "rank %d: the communicator was aborted in %s", rank,
                           what);
    }
    int gone = first_gone(room, peer);
    if (gone >= 0 && wait->is_last_look) {
        return refuse_gone(room, rank, gone, what);
    }
    wait->is_last_look = gone >= 0;
    if (gone >= 0) {
        return NCCL_SUCCESS;
    }
    uint64_t now = now_ms();
    wait->since_ms = wait->since_ms == 0 ? now : wait->since_ms;
    int whom = peer >= 0 ? peer : first_missing(room);
    if (now - wait->since_ms > limit_ms()) {
        return rt_nccl_say(NCCL_REMOTE_ERROR,
                           "rank %d has waited %llu s in %s for rank %d (PLEAT_NCCL_TIMEOUT)", rank,
                           (unsigned long long)limit_ms() / 1000, what, whom);
    }
    if (now - wait->since_ms > SAY_MS && !wait->is_said) {
        wait->is_said = true;
        fprintf(stderr, "pleat_runtime: rank %d has waited 10 s in %s for rank %d\n", rank, what,
                whom);
    }
    syscall(SYS_futex, (void *)&room->bell, FUTEX_WAIT, seen, &step, NULL, 0);
    return NCCL_SUCCESS;
}

/* ---- all there ------------------------------------------------------------------------------- */

static int compare_places(const nccl_room *room)
{
    int n_ranks = (int)atomic_load(&room->n_ranks);
    for (int i = 0; i < n_ranks; i++) {
        for (int j = 0; j < i; j++) {
            if (room->members[i].place == room->members[j].place) {
                return rt_nccl_say(NCCL_INVALID_USAGE,
                                   "Duplicate GPU detected: rank %d and rank %d are on one device "
                                   "(does each call torch.cuda.set_device?)",
                                   j, i);
            }
        }
    }
    return NCCL_SUCCESS;
}

int rt_room_await(nccl_room *room, const unsigned char *token, int rank,
                  const _Atomic bool *is_aborted)
{
    char path[PATH_BYTES];
    nccl_wait wait = { 0 };
    int result = NCCL_SUCCESS;
    for (;;) {
        uint32_t seen = atomic_load(&room->bell);
        if (result != NCCL_SUCCESS || first_missing(room) < 0) {
            break;
        }
        result = rt_room_wait(room, &wait, seen, rank, -1, "ncclCommInitRank", is_aborted);
    }
    write_path(path, token);
    (void)unlink(path); /* the first rank does; R3 */
    return result == NCCL_SUCCESS ? compare_places(room) : result;
}
