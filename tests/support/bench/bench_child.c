/* bench_child.c - see bench_child.h. */
#include "tests/support/bench/bench_child.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_WORDS = 64, N_NAMES = 8 };

/* Splits `line` in place. */
static void split(char *line, char **words)
{
    unsigned n = 0;
    char *p = line;
    while (*p != '\0' && n + 1 < MOST_WORDS) {
        p += strspn(p, " ");
        if (*p == '\0') {
            break;
        }
        char stop = *p == '\'' ? '\'' : ' ';
        p += stop == '\'';
        words[n++] = p;
        p += strcspn(p, stop == '\'' ? "'" : " ");
        if (*p != '\0') {
            *p++ = '\0';
        }
    }
    words[n] = NULL;
}

static void read_file(const char *path, char *out, size_t n)
{
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    size_t got = fread(out, 1, n - 1, file);
    out[got] = '\0';
    fclose(file);
    unlink(path);
}

/* In the child: standard output and error go to files. */
static void redirect(const char *path, int descriptor)
{
    int file = open(path, O_WRONLY | O_TRUNC);
    if (file < 0 || dup2(file, descriptor) < 0) {
        _exit(126);
    }
    close(file);
}

static int wait_for(pid_t child)
{
    int status;
    while (waitpid(child, &status, 0) < 0) {
        ck_assert_int_eq(errno, EINTR);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void command_beside_this_test(char *out, size_t n)
{
    ssize_t length = readlink("/proc/self/exe", out, n - 1);
    ck_assert_int_gt(length, 0);
    out[length] = '\0';
    char *slash = strrchr(out, '/');
    ck_assert_ptr_nonnull(slash);
    snprintf(slash, n - (size_t)(slash - out), "/pleat");
}

void bench_child_start(bench_child *child, const char *line)
{
    char copy[4096];
    char *words[MOST_WORDS];
    command_beside_this_test(copy, sizeof copy);
    size_t n = strlen(copy);
    snprintf(copy + n, sizeof copy - n, " %s", line);
    split(copy, words);
    snprintf(child->out_path, sizeof child->out_path, "%s", bench_child_file("", "", 0));
    snprintf(child->err_path, sizeof child->err_path, "%s", bench_child_file("", "", 0));
    pid_t parent = getpid();
    child->pid = fork();
    ck_assert_int_ge(child->pid, 0);
    if (child->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* if the test fails, the command ends with it */
        if (getppid() != parent) {
            _exit(126);
        }
        redirect(child->out_path, STDOUT_FILENO);
        redirect(child->err_path, STDERR_FILENO);
        signal(SIGINT, SIG_DFL);
        signal(SIGTERM, SIG_DFL);
        execv(words[0], words);
        _exit(127);
    }
}

void bench_child_finish(bench_child *child)
{
    child->status = wait_for(child->pid);
    read_file(child->out_path, child->out, sizeof child->out);
    read_file(child->err_path, child->err, sizeof child->err);
    ck_assert_msg(child->status != 127, "the command cannot be started");
}

void bench_child_run(bench_child *child, const char *line)
{
    bench_child_start(child, line);
    bench_child_finish(child);
}

const char *bench_child_file(const char *ending, const void *content, size_t n)
{
    static char names[N_NAMES][64];
    static unsigned next;
    char *name = names[next++ % N_NAMES];
    snprintf(name, sizeof names[0], "/tmp/pleat-test-XXXXXX%s", ending);
    int file = mkstemps(name, (int)strlen(ending));
    ck_assert_int_ge(file, 0);
    ck_assert_int_eq(write(file, content, n), (ssize_t)n);
    close(file);
    return name;
}
