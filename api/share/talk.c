/* talk.c - see talk.h: code for both ends of the socket. No lock. */
#include "api/share/talk.h"

#include <errno.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "api/base/text.h"
#include "vmm/base/cancel.h"
#include "vmm/base/clock.h"

struct sockaddr_un pl_talk_address(const uint64_t process[2], socklen_t *bytes)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    pl_text text; /* behind a zero byte, which makes the name an abstract one */
    pl_text_init(&text, address.sun_path + 1, sizeof address.sun_path - 1);
    pl_text_add(&text, "pleat-share-%016llx%016llx", (unsigned long long)process[0],
                (unsigned long long)process[1]);
    *bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + text.n);
    return address;
}

bool pl_talk_is_same_user(int fd, unsigned *user)
{
    struct ucred other;
    socklen_t bytes = sizeof other;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &bytes) != 0) {
        return false;
    }
    *user = other.uid;
    return other.uid == geteuid();
}

void pl_talk_limit(int fd, unsigned seconds)
{
    struct timeval limit = { .tv_sec = (time_t)seconds };
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

uint64_t pl_talk_deadline(unsigned seconds)
{
    return pl_clock_ms() + seconds * (uint64_t)1000;
}

bool pl_talk_again(ssize_t result, uint64_t deadline_ms)
{
    return result < 0 && errno == EINTR && pl_clock_ms() < deadline_ms;
}

void pl_talk_close(int *fds, size_t n)
{
    int cancel = pl_cancel_off(); /* close is a cancellation point */
    for (size_t i = 0; i < n; i++) {
        close(fds[i]);
        fds[i] = -1;
    }
    pl_cancel_restore(cancel);
}
