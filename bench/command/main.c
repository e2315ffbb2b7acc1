/* main.c - the `pleat` command: picks the sub-command. */
#include <argp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "api/config/hint.h"
#include "api/pleat.h"
#include "bench/base/out.h"
#include "bench/command/commands.h"
#include "bench/command/parse_options.h"

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
    { "bench", "sleep", bench_command_sleep, "how fast memory goes and comes back" },
    { "top", NULL, bench_command_top, "what a running process holds, each second" },
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
    fputs("\npleat COMMAND --help, or pleat help COMMAND, says more; pleat --version names the "
          "version.\n",
          out);
}

/* Print the commands that begin with `word`. */
static void print_words(FILE *out, const char *word)
{
    for (int i = 0; i < N_COMMANDS; i++) {
        if (strcmp(word, commands[i].name) == 0) {
            print_command(out, i);
        }
    }
}

/* Run command i on the arguments after the command's words. argv[0] becomes "pleat NAME". */
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

/* Report an unknown word, and suggest known ones: first words of commands, or second words after
 * `first`. */
static void refuse_word(const char *first, const char *word, const char *what)
{
    char hint[PL_HINT_BYTES];
    pl_nearest nearest;
    pl_nearest_init(&nearest, (pl_span){ word, strlen(word) });
    for (int i = 0; i < N_COMMANDS; i++) {
        const char *known = first ? commands[i].what : commands[i].name;
        if (!first || strcmp(first, commands[i].name) == 0) {
            pl_nearest_offer(&nearest, (pl_span){ known, strlen(known) });
        }
    }
    fprintf(stderr, "pleat: %s%s'%s' is not %s%s\n", first ? first : "", first ? ": " : "", word,
            what, pl_nearest_say(&nearest, "", hint));
}

/* `word` begins several commands, but `second` (NULL = missing) belongs to none of them. */
static int list_seconds(const char *word, const char *second)
{
    if (second && is_help(second)) {
        printf("Usage: pleat %s WORD [OPTION...]\n\n", word);
        print_words(stdout, word);
        printf("\npleat %s WORD --help says more.\n", word);
        return BENCH_EXIT_OK;
    }
    if (second) {
        refuse_word(word, second, "known");
        fputs("there is:\n", stderr);
    } else {
        fprintf(stderr, "pleat: %s: a second word is missing; there is:\n", word);
    }
    print_words(stderr, word);
    return BENCH_EXIT_USAGE;
}

/* Runs the command that argv[1], and for some argv[2], names. */
static int dispatch(int argc, char **argv)
{
    const char *word = argv[1];
    bool has_word = false;
    for (int i = 0; i < N_COMMANDS; i++) {
        bool is_word = strcmp(word, commands[i].name) == 0;
        if (!is_word ||
            (commands[i].what && (argc < 3 || strcmp(argv[2], commands[i].what) != 0))) {
            has_word = has_word || is_word;
            continue;
        }
        return run_command(i, argc, argv);
    }
    if (has_word) {
        return list_seconds(word, argc < 3 ? NULL : argv[2]);
    }
    refuse_word(NULL, word, "a command");
    print_usage(stderr);
    return BENCH_EXIT_USAGE;
}

/* `pleat help WORD...` is `pleat WORD... --help`. */
static int help_on(int argc, char **argv)
{
    static char help[] = "--help";
    for (int i = 1; i + 1 < argc; i++) {
        argv[i] = argv[i + 1];
    }
    argv[argc - 1] = help;
    return dispatch(argc, argv);
}

int main(int argc, char **argv)
{
    argp_err_exit_status = BENCH_EXIT_USAGE;
    bench_out_guard();
    if (argc < 2) {
        print_usage(stderr);
        return BENCH_EXIT_USAGE;
    }
    const char *word = argv[1];
    if (is_help(word) && argc == 2) {
        print_usage(stdout);
        return BENCH_EXIT_OK;
    }
    if (is_help(word)) {
        return help_on(argc, argv);
    }
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
        printf("pleat %s\n", pleat_version());
        return BENCH_EXIT_OK;
    }
    return dispatch(argc, argv);
}
