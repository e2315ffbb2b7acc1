/* replace.c - see replace.h.
 *
 * The new file is written in the folder of the old file, since a rename within a folder is atomic:
 * readers find the old file or the new file. */
#include "api/base/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/base/text.h"

/* ---- the replaced file ---- */

/* A link's relative path starts from the folder that the link is in. */
static int follow(char path[PATH_MAX], const char *said)
{
    char next[PATH_MAX];
    pl_text text;
    const char *slash = said[0] == '/' ? NULL : strrchr(path, '/');
    pl_text_init(&text, next, sizeof next);
    if (slash) {
        pl_text_add(&text, "%.*s", (int)(slash + 1 - path), path);
    }
    pl_text_add(&text, "%s", said);
    if (text.n >= sizeof next) {
        return ENAMETOOLONG;
    }
    memcpy(path, next, text.n + 1);
    return 0;
}

/* Follows links until the path names a file, or nothing. */
static int follow_all(char path[PATH_MAX])
{
    enum { MOST_LINKS = 40 }; /* the kernel's own limit */
    for (int i = 0; i <= MOST_LINKS; i++) {
        char said[PATH_MAX];
        ssize_t n = readlink(path, said, sizeof said - 1);
        if (n < 0) {
            return errno == EINVAL || errno == ENOENT ? 0 : errno;
        }
        said[n] = '\0';
        int error = follow(path, said);
        if (error != 0) {
            return error;
        }
    }
    return ELOOP;
}

static int find_target(pl_replace *file, const char *path)
{
    size_t n = strlen(path);
    if (n >= sizeof file->target) {
        return ENAMETOOLONG;
    }
    memcpy(file->target, path, n + 1);
    return follow_all(file->target);
}

/* ---- the new file ---- */

/* Opens a file beside the target under a name that is not taken. */
static int open_beside(pl_replace *file, mode_t mode)
{
    enum { ATTEMPTS = 100 };
    static _Atomic unsigned n_files;
    for (int i = 0; i < ATTEMPTS; i++) {
        pl_text name;
        pl_text_init(&name, file->written, sizeof file->written);
        pl_text_add(&name, "%s.%ld-%u.part", file->target, (long)getpid(),
                    atomic_fetch_add(&n_files, 1));
        if (name.n >= sizeof file->written) {
            return ENAMETOOLONG;
        }
        file->descriptor = open(file->written, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (file->descriptor >= 0) {
            return 0;
        }
        if (errno != EEXIST) {
            break;
        }
    }
    return errno;
}

/* Gives the new file the owner, group and mode of the old one. The owner may be another user than
 * the caller. If the group cannot be kept, the caller's group gets only the rights that everybody
 * has. Changing the owner clears mode bits, so the mode comes last. */
static int make_alike(int descriptor, const struct stat *old)
{
    struct stat own;
    mode_t mode = old->st_mode & 07777;
    if (fstat(descriptor, &own) != 0) {
        return errno;
    }
    if (own.st_gid != old->st_gid && fchown(descriptor, (uid_t)-1, old->st_gid) != 0) {
        mode &= (mode_t) ~(S_IRWXG | S_ISGID) | (mode & S_IRWXO) << 3;
    }
    if (own.st_uid != old->st_uid && fchown(descriptor, old->st_uid, (gid_t)-1) != 0) {
        mode &= (mode_t)~S_ISUID;
    }
    return fchmod(descriptor, mode) == 0 ? 0 : errno;
}

/* Nobody may read the new file before it has the old file's rights. */
static int open_like(pl_replace *file, const struct stat *old)
{
    int error = open_beside(file, S_IRUSR | S_IWUSR);
    if (error != 0) {
        return error;
    }
    error = make_alike(file->descriptor, old);
    if (error != 0) {
        (void)close(file->descriptor);
        (void)unlink(file->written);
    }
    return error;
}

static int open_itself(pl_replace *file, const char *path)
{
    file->written[0] = '\0';
    file->descriptor = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    return file->descriptor < 0 ? errno : 0;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static int open_any(pl_replace *file, const char *path)
{
    struct stat named;
    struct stat found;
    bool is_there = stat(path, &named) == 0;
    if (!is_there && errno != ENOENT) {
        return errno;
    }
    if (is_there && !S_ISREG(named.st_mode)) {
        return open_itself(file, path);
    }
    int error = find_target(file, path);
    if (error != 0) {
        return error;
    }
    if (!is_there) {
        return open_beside(file, 0666);
    }
    if (lstat(file->target, &found) != 0 || !is_same(&named, &found)) {
        return open_itself(file, path); /* a link of /proc, whose target has no name */
    }
    return open_like(file, &found);
}

int pl_replace_open(pl_replace *file, const char *path)
{
    file->target[0] = '\0';
    file->written[0] = '\0';
    file->descriptor = -1;
    int error = open_any(file, path);
    if (error != 0) {
        file->written[0] = '\0';
    }
    return error;
}

int pl_replace_end(pl_replace *file, bool is_whole)
{
    int error = 0;
    if (file->written[0] == '\0') {
        return 0;
    }
    if (is_whole && rename(file->written, file->target) != 0) {
        error = errno;
    }
    if (!is_whole || error != 0) {
        (void)unlink(file->written);
    }
    file->written[0] = '\0';
    return error;
}
