/* place.c - see place.h. One thread. */
#include "api/metrics/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/text.h"

/* ---- where ----------------------------------------------------------------------------------- */

static void add_expanded(pl_text *text, const char *metrics)
{
    for (const char *p = metrics; *p != '\0'; p++) {
        if (*p != '%') {
            pl_text_add(text, "%c", *p);
        } else if (*++p == 'p') {
            pl_text_add(text, "%ld", (long)getpid());
        } else {
            pl_text_add(text, "%%");
        }
    }
}

int pl_place_init(pl_place *place, const char *metrics, const char *folder)
{
    pl_text text;
    *place = (pl_place){ .descriptor = -1, .is_private = strcmp(metrics, "auto") == 0 };
    pl_text_init(&text, place->path, sizeof place->path);
    if (place->is_private) {
        pl_text_add(&text, "%s/pleat.%ld.prom", folder ? folder : "/tmp", (long)getpid());
    } else {
        char here[PL_PLACE_BYTES];
        if (metrics[0] != '/') { /* the program may change its folder later */
            if (!getcwd(here, sizeof here)) {
                return errno;
            }
            pl_text_add(&text, "%s/", here);
        }
        add_expanded(&text, metrics);
    }
    return text.n < sizeof place->path ? 0 : ENAMETOOLONG;
}

/* ---- whose ----------------------------------------------------------------------------------- */

static bool is_own(const pl_place *place, const struct stat *st)
{
    return place->descriptor >= 0 && st->st_dev == place->dev && st->st_ino == place->ino;
}

/* Who has the lock of a file that is not this process's own: closing that would end its lock. */
static int check_other(const pl_place *place, long *owner)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    int descriptor = open(place->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (descriptor < 0) {
        return errno == ENOENT || errno == EACCES ? 0 : errno;
    }
    bool is_locked = fcntl(descriptor, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
    (void)close(descriptor);
    *owner = is_locked && lock.l_pid > 0 ? (long)lock.l_pid : 0;
    return is_locked ? EBUSY : 0;
}

static int check_place(const pl_place *place, long *owner)
{
    struct stat st;
    if (lstat(place->path, &st) != 0) {
        return errno == ENOENT ? 0 : errno;
    }
    if (is_own(place, &st)) {
        return 0;
    }
    return S_ISREG(st.st_mode) ? check_other(place, owner) : EEXIST;
}

/* ---- writing --------------------------------------------------------------------------------- */

static int write_all(int descriptor, const char *text, size_t n)
{
    while (n > 0) {
        ssize_t wrote = write(descriptor, text, n);
        if (wrote < 0 && errno != EINTR) {
            return errno;
        }
        text += wrote > 0 ? wrote : 0;
        n -= wrote > 0 ? (size_t)wrote : 0;
    }
    return 0;
}

/* A file of that name can only be what a process of the same number left when it was killed. */
static int open_beside(const char *path, mode_t mode, int *out)
{
    enum { FLAGS = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW };
    *out = open(path, FLAGS, mode);
    if (*out < 0 && errno == EEXIST && unlink(path) == 0) {
        *out = open(path, FLAGS, mode);
    }
    return *out < 0 ? errno : 0;
}

/* Takes the descriptor. */
static void keep(pl_place *place, int descriptor)
{
    struct stat st;
    if (place->descriptor >= 0) {
        (void)close(place->descriptor);
    }
    place->descriptor = descriptor;
    if (fstat(descriptor, &st) == 0) {
        place->dev = st.st_dev;
        place->ino = st.st_ino;
    }
}

int pl_place_write(pl_place *place, const char *text, size_t n, long *owner)
{
    char beside[PL_PLACE_BYTES + 32];
    pl_text name;
    int descriptor;
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    int error = check_place(place, owner);
    if (error != 0) {
        return error;
    }
    pl_text_init(&name, beside, sizeof beside);
    pl_text_add(&name, "%s.%ld.part", place->path, (long)getpid());
    error = open_beside(beside, place->is_private ? 0600 : 0644, &descriptor);
    if (error != 0) {
        return error;
    }
    (void)fcntl(descriptor, F_SETLK, &lock); /* some file systems have no locks */
    error = write_all(descriptor, text, n);
    if (error == 0 && rename(beside, place->path) != 0) {
        error = errno;
    }
    if (error != 0) {
        (void)unlink(beside);
        (void)close(descriptor);
        return error;
    }
    keep(place, descriptor);
    return 0;
}

void pl_place_fini(pl_place *place, bool removes)
{
    struct stat st;
    if (removes && lstat(place->path, &st) == 0 && is_own(place, &st)) {
        (void)unlink(place->path);
    }
    if (place->descriptor >= 0) {
        (void)close(place->descriptor);
    }
    place->descriptor = -1;
}
