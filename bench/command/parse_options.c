/* parse_options.c - see parse_options.h. Unknown options and bad values end the command through
 * argp_error with status 2 and a message that names the culprit. */
#include "bench/command/parse_options.h"

#include <stdlib.h>
#include <string.h>

#include "api/config/hint.h"
#include "segments/base/allocator.h"

enum { KEY_DRIVER = 0x100, KEY_CONF, KEY_SIM, KEY_JSON, KEY_ALLOCATOR, KEY_DEPTH, KEY_LOOPS };

/* ---- mistyped options ------------------------------------------------------------------------ */

enum { MOST_PARSERS = 8 };

/* The parsers of a command, of its children, and of their children. */
typedef struct parsers {
    const struct argp *all[MOST_PARSERS];
    unsigned n;
} parsers;

static parsers list_parsers(const struct argp *argp)
{
    parsers list = { .all = { argp }, .n = 1 };
    for (unsigned i = 0; i < list.n; i++) {
        const struct argp_child *child = list.all[i]->children;
        for (; child && child->argp && list.n < MOST_PARSERS; child++) {
            list.all[list.n++] = child->argp;
        }
    }
    return list;
}

/* Find the long option that begins with `word`, as getopt does. Offer every option to `nearest`. */
static const struct argp_option *find_option(const parsers *list, pl_span word, pl_nearest *nearest)
{
    const struct argp_option *found = NULL;
    for (unsigned i = 0; i < list->n; i++) {
        const struct argp_option *option = list->all[i]->options;
        for (; option && (option->name || option->key || option->doc); option++) {
            const char *name = option->name ? option->name : "";
            found = word.n > 0 && strncmp(name, word.at, word.n) == 0 ? option : found;
            pl_nearest_offer(nearest, (pl_span){ name, strlen(name) });
        }
    }
    return found;
}

/* argp reports an unknown option without a suggestion; add the suggestion. Then end the process as
 * argp does. */
static void check_options(const struct argp *argp, int argc, char **argv)
{
    static const char *const of_argp[] = { "help", "usage", "version" };
    parsers list = list_parsers(argp);
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        pl_span word = { argv[i] + 2,
                         strncmp(argv[i], "--", 2) == 0 ? strcspn(argv[i] + 2, "=") : 0 };
        pl_nearest nearest;
        pl_nearest_init(&nearest, word);
        const struct argp_option *option = find_option(&list, word, &nearest);
        bool is_known = word.n == 0 || option;
        for (size_t k = 0; k < sizeof of_argp / sizeof of_argp[0]; k++) {
            is_known = is_known || strncmp(of_argp[k], word.at, word.n) == 0;
            pl_nearest_offer(&nearest, (pl_span){ of_argp[k], strlen(of_argp[k]) });
        }
        if (!is_known && nearest.best[0] == '\0') {
            return;
        }
        if (!is_known) {
            fprintf(stderr,
                    "%s: unrecognized option '--%.*s'; did you mean '--%s'?\n"
                    "Try `%s --help' or `%s --usage' for more information.\n",
                    argv[0], (int)word.n, word.at, nearest.best, argv[0], argv[0]);
            exit(BENCH_EXIT_USAGE);
        }
        bool takes_next = option && option->arg && argv[i][2 + word.n] != '=';
        i += takes_next;
    }
}

bool bench_parse(const struct argp *argp, int argc, char **argv, void *input)
{
    check_options(argp, argc, argv);
    error_t error = argp_parse(argp, argc, argv, 0, NULL, input);
    if (error) {
        fprintf(stderr, "pleat: the command line cannot be read: %s\n", strerror(error));
    }
    return error == 0;
}

unsigned bench_number(struct argp_state *state, const char *option, const char *text,
                      unsigned least, unsigned most)
{
    uint64_t n = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '9' && n <= most; p++) {
        n = n * 10 + (uint64_t)(*p - '0');
    }
    if (p == text || *p != '\0' || n < least || n > most) {
        argp_error(state, "%s: '%s' is not a number from %u to %u", option, text, least, most);
    }
    return (unsigned)n;
}

static const char *find_allocator(const char *name, size_t n)
{
    const char *known;
    for (unsigned i = 0; (known = pl_allocator_name(i)) != NULL; i++) {
        if (strlen(known) == n && memcmp(known, name, n) == 0) {
            return known;
        }
    }
    for (unsigned i = 0; (known = pl_host_allocator_name(i)) != NULL; i++) {
        if (strlen(known) == n && memcmp(known, name, n) == 0) {
            return known;
        }
    }
    return NULL;
}

/* Lists all names, for messages. */
static const char *list_allocators(char *out, size_t n)
{
    const char *known;
    size_t length = 0;
    out[0] = '\0';
    for (unsigned i = 0; (known = pl_allocator_name(i)) != NULL && length < n; i++) {
        length += (size_t)snprintf(out + length, n - length, "%s%s", i ? ", " : "", known);
    }
    for (unsigned i = 0; (known = pl_host_allocator_name(i)) != NULL && length < n; i++) {
        length += (size_t)snprintf(out + length, n - length, ", %s", known);
    }
    return out;
}

static const char *nearest_allocator(pl_span word, char hint[PL_HINT_BYTES])
{
    pl_nearest nearest;
    const char *known;
    pl_nearest_init(&nearest, word);
    for (unsigned i = 0; (known = pl_allocator_name(i)) != NULL; i++) {
        pl_nearest_offer(&nearest, (pl_span){ known, strlen(known) });
    }
    for (unsigned i = 0; (known = pl_host_allocator_name(i)) != NULL; i++) {
        pl_nearest_offer(&nearest, (pl_span){ known, strlen(known) });
    }
    return pl_nearest_say(&nearest, ";", hint);
}

void bench_parse_allocators(struct argp_state *state, const char *list, bench_options *options)
{
    options->n_allocators = 0;
    for (const char *p = list;; p++) {
        size_t n = strcspn(p, ",");
        const char *name = find_allocator(p, n);
        if (!name) {
            char known[256];
            char hint[PL_HINT_BYTES];
            argp_error(state, "--allocator: unknown allocator '%.*s'%s known: %s", (int)n, p,
                       nearest_allocator((pl_span){ p, n }, hint),
                       list_allocators(known, sizeof known));
            return;
        }
        for (unsigned i = 0; i < options->n_allocators; i++) {
            if (options->allocators[i] == name) {
                argp_error(state, "--allocator: '%s' is given twice", name);
                return;
            }
        }
        if (options->n_allocators == BENCH_MAX_ALLOCATORS) {
            argp_error(state, "--allocator: more than %d allocators", BENCH_MAX_ALLOCATORS);
            return;
        }
        options->allocators[options->n_allocators++] = name;
        p += n;
        if (*p == '\0') {
            return;
        }
    }
}

static void parse_driver(struct argp_state *state, const char *word, bench_options *options)
{
    static const struct {
        const char *word;
        pl_driver_kind kind;
    } kinds[] = { { "auto", PL_DRIVER_AUTO },
                  { "sim", PL_DRIVER_SIM },
                  { "cuda", PL_DRIVER_CUDA } };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(word, kinds[i].word) == 0) {
            options->target.driver = kinds[i].kind;
            options->target.has_driver = true;
            return;
        }
    }
    argp_error(state, "--driver: '%s' is not one of auto, sim, cuda", word);
}

static error_t parse_driver_options(int key, char *arg, struct argp_state *state)
{
    bench_options *options = state->input;
    switch (key) {
    case KEY_DRIVER:
        parse_driver(state, arg, options);
        return 0;
    case KEY_CONF:
        options->target.conf = arg;
        return 0;
    case KEY_SIM:
        options->target.sim = arg;
        return 0;
    case KEY_JSON:
        options->json = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_common_options(int key, char *arg, struct argp_state *state)
{
    bench_options *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = options;
        return 0;
    case KEY_ALLOCATOR:
        bench_parse_allocators(state, arg, options);
        return 0;
    case KEY_DEPTH:
        options->target.depth = bench_number(state, "--depth", arg, 0, BENCH_MAX_DEPTH);
        return 0;
    case KEY_LOOPS:
        options->loops = bench_number(state, "--loops", arg, 1, BENCH_MAX_LOOPS);
        return 0;
    case ARGP_KEY_ARGS:
        options->works = state->argv + state->next;
        options->n_works = (unsigned)(state->argc - state->next);
        return 0;
    case ARGP_KEY_NO_ARGS:
        if (options->has_no_work) {
            return 0;
        }
        argp_error(state, "WORK is missing: a file, a bundled trace, a pattern or a generator; "
                          "`pleat works` lists them");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* clang-format off */
static const struct argp_option driver_options[] = {
    { .name = "driver", .key = KEY_DRIVER, .arg = "auto|sim|cuda",
      .doc = "The GPU to use: auto is a real one if there is one, else the simulated one" },
    { .name = "conf", .key = KEY_CONF, .arg = "STRING",
      .doc = "Configuration of the allocator, on top of PLEAT_CONF" },
    { .name = "sim", .key = KEY_SIM, .arg = "CONF",
      .doc = "Configuration of the simulator, such as backing:memory" },
    { .name = "json", .key = KEY_JSON, .doc = "Print JSON objects, one a line, and nothing else" },
    { 0 },
};

static const struct argp_option common_options[] = {
    { .name = "allocator", .key = KEY_ALLOCATOR, .arg = "A[,B...]",
      .doc = "Allocators to run (default: pleat; of ab: see --all)" },
    { .name = "depth", .key = KEY_DEPTH, .arg = "N",
      .doc = "Simulator: operations of the GPU that may be unfinished (default: 256)" },
    { .name = "loops", .key = KEY_LOOPS, .arg = "N",
      .doc = "Run the work N times over (default: 1; ab: 1, and once more for the driver's time "
             "in a later pass, of which nothing else is counted)" },
    { 0 },
};
/* clang-format on */

const struct argp bench_driver_argp = { .options = driver_options, .parser = parse_driver_options };

static const struct argp_child common_children[] = {
    { .argp = &bench_driver_argp },
    { 0 },
};

const struct argp bench_common_argp = {
    .options = common_options,
    .parser = parse_common_options,
    .children = common_children,
};
