/* dump.c - the public calls: snapshots through a function, and into files. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "api/base/replace.h"
#include "api/snapshot/snapshot.h"
#include "vmm/base/cancel.h"

typedef struct sink {
    const char *path;
    pl_replace file;
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
    int cancel = pl_cancel_off();
    pleat_status st = report(pl_snapshot_write(use.instance, format, write, context));
    pl_use_leave(use);
    pl_cancel_restore(cancel);
    return st;
}

/* ---- files ---- */

static bool write_out(void *context, const void *bytes, size_t n)
{
    sink *s = context;
    const char *at = bytes;
    while (n > 0) {
        ssize_t wrote = write(s->file.descriptor, at, n);
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

/* Puts a whole file in place, and removes any other. */
static void close_sink(sink *s, bool is_whole)
{
    if (close(s->file.descriptor) != 0 && s->error == 0) {
        s->error = errno;
    }
    int error = pl_replace_end(&s->file, is_whole && s->error == 0);
    s->error = s->error != 0 ? s->error : error;
}

static pleat_status refuse_path(const sink *s)
{
    char buffer[128];
    const char *reason = strerror_r(s->error, buffer, sizeof buffer);
    bool is_elsewhere = s->file.target[0] != '\0' && strcmp(s->file.target, s->path) != 0;
    return pl_error_set(PLEAT_EWRITE, 0, "the snapshot could not be written to %s%s%s: %s", s->path,
                        is_elsewhere ? ", which leads to " : "", is_elsewhere ? s->file.target : "",
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
    sink s = { .path = path };
    s.error = pl_replace_open(&s.file, path);
    if (s.error != 0) {
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
    int cancel = pl_cancel_off();
    pleat_status st = dump(use.instance, path);
    pl_use_leave(use);
    pl_cancel_restore(cancel);
    return st;
}
