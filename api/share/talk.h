/* talk.h - messages on the socket between the process that opens a block and its exporter.
 *
 * Messages of a sequenced-packet socket in the abstract name space, named after the exporter. A
 * question names some chunks; the answer is a status and, with PLEAT_OK, as many descriptors.
 * Before its first message, each side asks the system for the identity of its peer. */
#ifndef PLEAT_API_SHARE_TALK_H
#define PLEAT_API_SHARE_TALK_H

#include <sys/socket.h>
#include <sys/un.h>

#include "api/share/name.h"

/* Descriptors in one message; the system allows 253. */
enum { PL_TALK_MOST = 64 };

typedef struct pl_question {
    uint64_t process[2];
    pleat instance;
    int32_t device;
    uint32_t n;
    pl_shared_chunk chunks[PL_TALK_MOST];
} pl_question;

typedef struct pl_answer {
    uint32_t status;
    uint32_t n;
} pl_answer;

/* The control data of a message with PL_TALK_MOST descriptors, aligned as the system wants it. */
typedef union pl_descriptors {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(PL_TALK_MOST * sizeof(int))];
} pl_descriptors;

/* The address of a process's socket; *bytes: its length. */
struct sockaddr_un pl_talk_address(const uint64_t process[2], socklen_t *bytes);
/* True if the peer runs under this process's effective user. */
bool pl_talk_is_same_user(int fd, unsigned *user);
/* Limit each wait of this side, to send or to receive. */
void pl_talk_limit(int fd, unsigned seconds);
/* Whether to repeat a call on a socket with a limit: a handled signal ends such a call, whatever
 * SA_RESTART says. All tries share one deadline. */
uint64_t pl_talk_deadline(unsigned seconds);
bool pl_talk_again(ssize_t result, uint64_t deadline_ms);
/* Close descriptors that the program gets, or should have got; -1 = none. */
void pl_talk_close(int *fds, size_t n);

#endif
