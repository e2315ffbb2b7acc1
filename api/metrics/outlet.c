/* outlet.c - see outlet.h. One thread. */
#include "api/metrics/outlet.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/base/text.h"
#include "api/metrics/page.h"

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

int pl_outlet_init(pl_outlet *outlet, const char *metrics, const char *folder)
{
    pl_text text;
    *outlet = (pl_outlet){ .descriptor = -1, .is_private = strcmp(metrics, "auto") == 0 };
    pl_text_init(&text, outlet->path, sizeof outlet->path);
    if (outlet->is_private) {
        /* The variable may name a folder that does not exist: in containers, under su or cron. */
        bool has_folder = folder && access(folder, W_OK | X_OK) == 0;
        pl_text_add(&text, "%s/pleat.%ld.prom", has_folder ? folder : "/tmp", (long)getpid());
    } else {
        char here[PL_OUTLET_BYTES];
        if (metrics[0] != '/') { /* the program may change its folder later */
            if (!getcwd(here, sizeof here)) {
                return errno;
            }
            pl_text_add(&text, "%s/", here);
        }
        add_expanded(&text, metrics);
    }
    return text.n < sizeof outlet->path ? 0 : ENAMETOOLONG;
}

/* ---- the owner ------------------------------------------------------------------------------- */

static bool is_own(const pl_outlet *outlet, const struct stat *st)
{
    return outlet->descriptor >= 0 && st->st_dev == outlet->dev && st->st_ino == outlet->ino;
}

/* The process that wrote a page; 0 = unknown. */
static long writer_of(const char *page)
{
    static const char before[] = "pleat_running{pid=\"";
    const char *at = strstr(page, before);
    return at ? strtol(at + sizeof before - 1, NULL, 10) : 0;
}

/* True for a page or an empty file. Any other file is somebody's work: the path was mistyped. */
static bool is_page(const char *text)
{
    return text[0] == '\0' || strncmp(text, PL_PAGE_BEGIN, sizeof PL_PAGE_BEGIN - 1) == 0;
}

/* ENOTEMPTY for a file that is no page, EBUSY for a page locked by another process. */
static int check_other(const pl_outlet *outlet, long *owner)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    char text[256];
    int descriptor = open(outlet->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (descriptor < 0) {
        return errno == ENOENT ? 0 : errno;
    }
    ssize_t n = read(descriptor, text, sizeof text - 1);
    int error = n < 0 ? errno : 0;
    text[n > 0 ? n : 0] = '\0';
    bool is_locked = fcntl(descriptor, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
    (void)close(descriptor);
    if (error == 0 && !is_page(text)) {
        return ENOTEMPTY;
    }
    *owner = is_locked ? writer_of(text) : 0;
    /* This process's own page may still be open in a child that has just been forked. */
    return error != 0 ? error : is_locked && *owner != (long)getpid() ? EBUSY : 0;
}

static int check_outlet(const pl_outlet *outlet, long *owner)
{
    struct stat st;
    if (lstat(outlet->path, &st) != 0) {
        return errno == ENOENT ? 0 : errno;
    }
    if (is_own(outlet, &st)) {
        return 0;
    }
    return S_ISREG(st.st_mode) ? check_other(outlet, owner) : EEXIST;
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

/* If a file of that name exists, a killed process of the same number has left it. */
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
static void keep(pl_outlet *outlet, int descriptor)
{
    struct stat st;
    int before = atomic_exchange(&outlet->descriptor, descriptor);
    if (before >= 0) {
        (void)close(before);
    }
    if (fstat(descriptor, &st) == 0) {
        outlet->dev = st.st_dev;
        outlet->ino = st.st_ino;
    }
}

int pl_outlet_write(pl_outlet *outlet, const char *text, size_t n, long *owner)
{
    char beside[PL_OUTLET_BYTES + 32];
    pl_text name;
    int descriptor;
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    int error = check_outlet(outlet, owner);
    if (error != 0) {
        return error;
    }
    pl_text_init(&name, beside, sizeof beside);
    pl_text_add(&name, "%s.%ld.part", outlet->path, (long)getpid());
    error = open_beside(beside, outlet->is_private ? 0600 : 0644, &descriptor);
    if (error != 0) {
        return error;
    }
    (void)fcntl(descriptor, F_OFD_SETLK, &lock); /* some file systems have no locks */
    error = write_all(descriptor, text, n);
    if (error == 0 && rename(beside, outlet->path) != 0) {
        error = errno;
    }
    if (error != 0) {
        (void)unlink(beside);
        (void)close(descriptor);
        return error;
    }
    keep(outlet, descriptor);
    return 0;
}

void pl_outlet_forget(pl_outlet *outlet)
{
    int descriptor = atomic_exchange(&outlet->descriptor, -1);
    if (descriptor >= 0) {
        (void)close(descriptor);
    }
}

void pl_outlet_fini(pl_outlet *outlet, bool removes)
{
    struct stat st;
    if (removes && lstat(outlet->path, &st) == 0 && is_own(outlet, &st)) {
        (void)unlink(outlet->path);
    }
    pl_outlet_forget(outlet);
}
