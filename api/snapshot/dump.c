/* dump.c - the public calls: snapshots through a function, and into files.
 *
 * A file is written beside its name and put in its place once it is whole, so that there is
 * the old one or the new one. What is no plain file (a pipe, a terminal) is written to. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/snapshot/snapshot.h"
#include "api/text.h"

typedef struct sink {
    const char *path;
    char written[PATH_MAX]; /* what is opened: beside `path`, or `path` itself */
    bool is_beside;
    int descriptor;
    int error; /* errno of the first failure, else 0 */
} sink;

static pleat_status report(pleat_status st)
{
    if (st == PLEAT_ENOMEM_HOST) {
        return pl_error_set(st, 0, "there is no host memory for a copy of the state and history");
    }
    if (st == PLEAT_EWRITE) {
        return pl_error_set(st, 0, "the snapshot could not be written: the output refused it");
    }
    return st;
}

pleat_status pleat_snapshot_write(pleat handle, pleat_snapshot_format format, pleat_write_fn write,
                                  void *context)
{
    if (!write || (unsigned)format > PLEAT_SNAPSHOT_JSON) {
        return pl_error_set(PLEAT_EINVAL, 0, "pleat_snapshot_write: %s",
                            write ? "there is no such format" : "`write` is NULL");
    }
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    pleat_status st = report(pl_snapshot_write(use.instance, format, write, context));
    pl_use_leave(use);
    return st;
}

/* ---- files ---- */

static bool write_out(void *context, const void *bytes, size_t n)
{
    sink *s = context;
    const char *at = bytes;
    while (n > 0) {
        ssize_t wrote = write(s->descriptor, at, n);
        if (wrote < 0 && errno == EINTR) {
            continue;
        }
        if (wrote <= 0) {
            s->error = wrote < 0 ? errno : ENOSPC;
            return false;
        }
        at += wrote;
        n -= (size_t)wrote;
    }
    return true;
}

/* A name beside `path` that nobody has; false and the error. */
static bool open_beside(sink *s)
{
    static _Atomic unsigned n_dumps;
    enum { ATTEMPTS = 100 };
    s->is_beside = true;
    for (int i = 0; i < ATTEMPTS; i++) {
        pl_text name;
        pl_text_init(&name, s->written, sizeof s->written);
        pl_text_add(&name, "%s.%ld-%u.part", s->path, (long)getpid(), n_dumps++);
        if (name.n >= sizeof s->written) {
            s->error = ENAMETOOLONG;
            return false;
        }
        s->descriptor = open(s->written, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (s->descriptor >= 0) {
            return true;
        }
        if (errno != EEXIST) {
            break;
        }
    }
    s->error = errno;
    return false;
}

static bool open_sink(sink *s)
{
    struct stat known;
    if (stat(s->path, &known) != 0 || S_ISREG(known.st_mode)) {
        return open_beside(s);
    }
    s->descriptor = open(s->path, O_WRONLY | O_CLOEXEC);
    s->error = s->descriptor < 0 ? errno : 0;
    return s->descriptor >= 0;
}

/* Put it in its place if all is well, else take it away. */
static void close_sink(sink *s, bool is_whole)
{
    if (close(s->descriptor) != 0 && s->error == 0) {
        s->error = errno;
    }
    if (!s->is_beside) {
        return;
    }
    if (is_whole && s->error == 0 && rename(s->written, s->path) != 0) {
        s->error = errno;
    }
    if (!is_whole || s->error != 0) {
        (void)unlink(s->written);
    }
}

static pleat_status refuse_path(const sink *s)
{
    char buffer[128];
    const char *reason = strerror_r(s->error, buffer, sizeof buffer);
    return pl_error_set(PLEAT_EWRITE, 0, "the snapshot could not be written to %s: %s", s->path,
                        reason);
}

static pleat_snapshot_format format_of(const char *path)
{
    static const char ending[] = ".json";
    size_t n = strlen(path);
    bool is_json = n >= sizeof ending - 1 && strcmp(path + n - (sizeof ending - 1), ending) == 0;
    return is_json ? PLEAT_SNAPSHOT_JSON : PLEAT_SNAPSHOT_PICKLE;
}

static pleat_status dump(pl_instance *instance, const char *path)
{
    sink s = { .path = path, .descriptor = -1 };
    if (!open_sink(&s)) {
        return refuse_path(&s);
    }
    pleat_status st = pl_snapshot_write(instance, format_of(path), write_out, &s);
    close_sink(&s, st == PLEAT_OK);
    return s.error != 0 ? refuse_path(&s) : report(st);
}

pleat_status pleat_snapshot_dump(pleat handle, const char *path)
{
    if (!path || path[0] == '\0') {
        return pl_error_set(PLEAT_EINVAL, 0, "pleat_snapshot_dump: `path` is %s",
                            path ? "empty" : "NULL");
    }
    pl_use use = pl_use_enter(handle);
    if (!use.instance) {
        return pl_error_status();
    }
    pleat_status st = dump(use.instance, path);
    pl_use_leave(use);
    return st;
}
