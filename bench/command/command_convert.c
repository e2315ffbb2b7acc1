/* command_convert.c - `pleat convert`: any work as a trace, or as a log of RMM. */
#include "bench/command/commands.h"
#include "bench/command/parse_options.h"
#include "bench/run/convert.h"

enum { KEY_FORCE = 0x200 };

typedef struct convert_command {
    const char *work;
    const char *out;
    bool replaces;
} convert_command;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    convert_command *c = state->input;
    switch (key) {
    case KEY_FORCE:
        c->replaces = true;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num == 0) {
            c->work = arg;
        } else if (state->arg_num == 1) {
            c->out = arg;
        } else {
            argp_error(state, "one WORK and one OUT, not '%s' too", arg);
        }
        return 0;
    case ARGP_KEY_END:
        if (!c->out) {
            argp_error(state, "%s is missing", c->work ? "OUT" : "WORK");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options_list[] = {
    { .name = "force", .key = KEY_FORCE, .doc = "Replace OUT if it is there already" },
    { 0 },
};

static const struct argp convert_argp = {
    .options = options_list,
    .parser = parse,
    .args_doc = "WORK OUT",
    .doc = "Write a run to a file.\vWORK is anything that can be replayed. OUT's ending says what "
           "it becomes: .trace, or .csv for a log as RMM's logging_resource_adaptor writes them; "
           "either may end in .gz. Exit status: 0; 1 if OUT cannot be written; 2 for bad input or "
           "usage.",
};

int bench_command_convert(int argc, char **argv)
{
    convert_command c = { .work = NULL };
    bench_failure failure;
    bench_format format;
    bool is_gzip;
    if (!bench_parse(&convert_argp, argc, argv, &c)) {
        return BENCH_EXIT_USAGE;
    }
    bench_work work;
    bench_progress progress;
    bench_progress_init(&progress);
    if (!bench_format_find(c.out, &format, &is_gzip, &failure) ||
        !bench_work_open_showing(c.work, &progress, &work, &failure)) {
        fprintf(stderr, "pleat: %s\n", failure.text);
        return BENCH_EXIT_USAGE;
    }
    bench_progress_label(&progress, work.n_events, "convert: %s", work.name);
    bool ok = bench_convert(&work, c.out, c.replaces, &progress, &failure);
    bench_progress_clear(&progress);
    if (ok) {
        printf("%s: %llu events\n", c.out, (unsigned long long)work.n_events);
    } else {
        fprintf(stderr, "pleat: %s\n", failure.text);
    }
    bench_work_close(&work);
    return ok ? BENCH_EXIT_OK : BENCH_EXIT_FAILED;
}
