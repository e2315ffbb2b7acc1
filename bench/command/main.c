/* main.c - the `pleat` command: picks the sub-command. */
#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/pleat.h"
#include "bench/command/commands.h"
#include "bench/command/options.h"

static const struct {
    const char *name;
    const char *what; /* second word, or NULL */
    int (*run)(int argc, char **argv);
    const char *doc;
} commands[] = {
    { "demo", NULL, bench_command_demo, "compare pleat with PyTorch's classic cache on real runs" },
    { "ab", NULL, bench_command_ab, "compare allocators on runs, with a report" },
    { "replay", NULL, bench_command_replay, "replay recorded runs through allocators" },
    { "fit", NULL, bench_command_fit, "find the least device memory in which runs complete" },
    { "works", NULL, bench_command_works, "list what can be replayed, or describe runs" },
    { "convert", NULL, bench_command_convert, "write a run as a trace or as a log of RMM" },
    { "verify", NULL, bench_command_verify, "compare recordings with the rebuilt allocators" },
    { "bench", "resident", bench_command_resident, "cost of a free and an allocation" },
    { "bench", "pairs", bench_command_pairs, "the same through several allocators, side by side" },
    { "bench", "driver", bench_command_driver, "the driver's time, by growth policy" },
    { "bench", "tail", bench_command_tail, "the longest calls, and holds of the lock" },
    { "probe", NULL, bench_command_probe, "measure what the driver's calls cost" },
};

enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static void print_command(FILE *out, int i)
{
    char name[32];
    snprintf(name, sizeof name, "%s%s%s", commands[i].name, commands[i].what ? " " : "",
             commands[i].what ? commands[i].what : "");
    fprintf(out, "  %-16s %s\n", name, commands[i].doc);
}

static void print_usage(FILE *out)
{
    fprintf(out, "Usage: pleat COMMAND [OPTION...]\n\n");
    for (int i = 0; i < N_COMMANDS; i++) {
        print_command(out, i);
    }
    fprintf(out, "\n  pleat COMMAND --help says more; pleat --version names the version.\n");
}

/* Runs command i on the arguments after its words; argv[0] becomes "pleat NAME". */
static int run_command(int i, int argc, char **argv)
{
    int n_words = commands[i].what ? 2 : 1;
    char name[32];
    snprintf(name, sizeof name, "pleat %s%s%s", commands[i].name, commands[i].what ? " " : "",
             commands[i].what ? commands[i].what : "");
    argv[n_words] = name;
    return commands[i].run(argc - n_words, argv + n_words);
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-?") == 0 || strcmp(word, "help") == 0;
}

/* The first word belongs to several commands; `second`, NULL = missing, to none of them. */
static int refuse_second(const char *word, const char *second)
{
    bool is_asked = second && is_help(second);
    if (is_asked) {
        printf("pleat %s is followed by a second word; pleat %s WORD --help says more:\n\n", word,
               word);
    } else if (second) {
        fprintf(stderr, "pleat: %s: '%s' is not known; there is:\n", word, second);
    } else {
        fprintf(stderr, "pleat: %s: a second word is missing; there is:\n", word);
    }
    for (int i = 0; i < N_COMMANDS; i++) {
        if (strcmp(word, commands[i].name) == 0) {
            print_command(is_asked ? stdout : stderr, i);
        }
    }
    return is_asked ? BENCH_EXIT_OK : BENCH_EXIT_USAGE;
}

static pid_t own_pid;

/* Results that nobody got are no success: a full disk, a closed pipe. */
static void check_output(void)
{
    if (getpid() != own_pid) {
        return; /* a job in a process of its own */
    }
    bool was_bad = ferror(stdout) != 0;
    errno = 0;
    if (fclose(stdout) != 0 || was_bad) {
        fprintf(stderr, "pleat: standard output cannot be written%s%s\n", errno ? ": " : "",
                errno ? strerror(errno) : "");
        _exit(BENCH_EXIT_USAGE);
    }
}

/* Runs the command that `word` and `second` name; -1 if they name none. *is_word: `word` begins
 * one. */
static int run_named(const char *word, const char *second, int argc, char **argv, bool *is_word)
{
    for (int i = 0; i < N_COMMANDS; i++) {
        if (strcmp(word, commands[i].name) == 0) {
            *is_word = true;
            if (!commands[i].what || (second && strcmp(second, commands[i].what) == 0)) {
                return run_command(i, argc, argv);
            }
        }
    }
    return -1;
}

int main(int argc, char **argv)
{
    argp_err_exit_status = BENCH_EXIT_USAGE;
    own_pid = getpid();
    signal(SIGPIPE, SIG_IGN); /* a write says so, with its reason */
    atexit(check_output);
    if (argc < 2) {
        print_usage(stderr);
        return BENCH_EXIT_USAGE;
    }
    static char help[] = "--help";
    if (argc > 2 && strcmp(argv[1], "help") == 0) { /* `pleat help ab` is `pleat ab --help` */
        memmove(argv + 1, argv + 2, (size_t)(argc - 2) * sizeof *argv);
        argv[argc - 1] = help;
    }
    const char *word = argv[1];
    if (is_help(word)) {
        print_usage(stdout);
        return BENCH_EXIT_OK;
    }
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
        printf("pleat %s\n", pleat_version());
        return BENCH_EXIT_OK;
    }
    bool is_word = false;
    const char *second = argc < 3 ? NULL : argv[2];
    int status = run_named(word, second, argc, argv, &is_word);
    if (status < 0 && is_word) {
        return refuse_second(word, second);
    }
    if (status < 0) {
        fprintf(stderr, "pleat: '%s' is not a command\n", word);
        print_usage(stderr);
        return BENCH_EXIT_USAGE;
    }
    return status;
}
