/* talk.h - what is said on the socket between who opens a block and who exported it.
 *
 * Messages of a sequenced-packet socket in the abstract name space, whose name says the process. A
 * question names some chunks; the answer is a status and, if it is PLEAT_OK, as many descriptors.
 * Each side asks the system who the other one is, before it says anything. */
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
/* Does the process at the other end run under this process's effective user? */
bool pl_talk_is_same_user(int fd, unsigned *user);
/* Neither side waits longer than that for one message. */
void pl_talk_limit(int fd, unsigned seconds);
/* A call on a socket with a limit ends when any signal is handled, whatever SA_RESTART says. Is it
 * to be made again? The deadline is one for all its tries. */
uint64_t pl_talk_deadline(unsigned seconds);
bool pl_talk_again(ssize_t result, uint64_t deadline_ms);
/* Close what the program gets, or should have got: -1 is nothing. */
void pl_talk_close(int *fds, size_t n);

#endif
