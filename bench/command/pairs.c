/* pairs.c - `pleat bench pairs`: a cached free and an allocation, through several allocators. */
#include <stdlib.h>
#include <string.h>

#include "bench/command/commands.h"
#include "bench/command/parse_options.h"
#include "bench/measure/callgrind.h"
#include "bench/pairs/loops.h"
#include "bench/pairs/pair_cell.h"
#include "bench/pairs/table.h"
#include "bench/works/files.h"
#include "bench/works/work.h"

enum {
    KEY_THROUGH = 0x500,
    KEY_ALL,
    KEY_PAIRS_CONF,
    KEY_PAIRS_JSON,
    KEY_PAIRS_ROUNDS,
    KEY_PAIRS_RUNS,
    KEY_PAIRS_PAIRS,
    KEY_PAIRS_SEED,
    KEY_PAIRS_NO_CALLGRIND,
    KEY_PAIRS_HOST,
    KEY_COUNT,
};
enum {
    COUNTED_PAIRS = 2000,
    MOST_COUNTED_BLOCKS = 65536, /* a million take callgrind minutes to allocate */
    LIST_BYTES = 512,
};

typedef struct pairs_command {
    const bench_through_kind *kinds[BENCH_THROUGH_MOST]; /* chosen rows, later the available ones */
    unsigned n_kinds;
    bool is_chosen;
    bool is_all;
    bool is_host; /* pinned memory */
    bool is_json;
    bool is_count;
    bool no_callgrind;
    unsigned n_rounds;
    unsigned n_runs;
    unsigned n_pairs;
    unsigned seed;
    const char *conf;
    char **scenarios;
    unsigned n_scenarios;
    bench_table table;
    bench_progress progress;
    bench_failure failure;
} pairs_command;

/* clang-format off */
static const struct argp_option options_list[] = {
    { .name = "through", .key = KEY_THROUGH, .arg = "A[,B...]",
      .doc = "Rows of the table (default: all but torch-pluggable, which takes seconds to load)" },
    { .name = "all", .key = KEY_ALL, .doc = "Every scenario and row; takes some minutes" },
    { .name = "host", .key = KEY_PAIRS_HOST,
      .doc = "Pinned memory of the host: the rows torch-pinned, pinned and native-pinned; with "
             "--all torch-pinned-used and pinned-used" },
    { .name = "rounds", .key = KEY_PAIRS_ROUNDS, .arg = "N",
      .doc = "Rounds of which the fastest counts, in each run (default: 10)" },
    { .name = "runs", .key = KEY_PAIRS_RUNS, .arg = "K",
      .doc = "Runs of each scenario, from the beginning (default: 2)" },
    { .name = "pairs", .key = KEY_PAIRS_PAIRS, .arg = "M",
      .doc = "Pairs in each round and thread (default: 10000)" },
    { .name = "seed", .key = KEY_PAIRS_SEED, .arg = "N",
      .doc = "Of the sizes and their order (default: 1)" },
    { .name = "conf", .key = KEY_PAIRS_CONF, .arg = "STRING",
      .doc = "Configuration of pleat's rows; PLEAT_CONF and PLEAT_SIM are not looked at" },
    { .name = "no-callgrind", .key = KEY_PAIRS_NO_CALLGRIND, .doc = "Do not count instructions" },
    { .name = "json", .key = KEY_PAIRS_JSON,
      .doc = "Print JSON objects, one a line, and nothing else" },
    { .name = "count", .key = KEY_COUNT, .flags = OPTION_HIDDEN,
      .doc = "Under callgrind: do one scenario's counted calls and nothing else" },
    { 0 },
};
/* clang-format on */

static void add_kind(struct argp_state *state, pairs_command *c, const char *name, size_t n)
{
    const bench_through_kind *kind = bench_through_find(name, n);
    if (!kind) {
        char known[LIST_BYTES] = "";
        size_t used = 0;
        for (unsigned i = 0; bench_through_kind_at(i) && used < sizeof known; i++) {
            used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "",
                                     bench_through_kind_at(i)->name);
        }
        argp_error(state, "--through: unknown row '%.*s'; known: %s", (int)n, name, known);
        return;
    }
    for (unsigned i = 0; i < c->n_kinds; i++) {
        if (c->kinds[i] == kind) {
            argp_error(state, "--through: '%s' is given twice", kind->name);
            return;
        }
    }
    c->kinds[c->n_kinds++] = kind;
}

static void parse_through(struct argp_state *state, pairs_command *c, const char *list)
{
    c->n_kinds = 0;
    c->is_chosen = true;
    for (const char *p = list; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL) {
        add_kind(state, c, p, strcspn(p, ","));
    }
}

/* A table has rows of only one kind of memory. */
static void check_kinds(struct argp_state *state, const pairs_command *c)
{
    for (unsigned i = 0; i < c->n_kinds; i++) {
        bool is_pinned = bench_through_is_pinned(c->kinds[i]);
        if (is_pinned != bench_through_is_pinned(c->kinds[0]) || (c->is_host && !is_pinned)) {
            argp_error(state, "--through: '%s' and pinned memory are not compared",
                       c->kinds[is_pinned ? 0 : i]->name);
        }
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    pairs_command *c = state->input;
    switch (key) {
    case KEY_THROUGH:
        parse_through(state, c, arg);
        return 0;
    case KEY_ALL:
        c->is_all = true;
        return 0;
    case KEY_PAIRS_HOST:
        c->is_host = true;
        return 0;
    case KEY_PAIRS_CONF:
        c->conf = arg;
        return 0;
    case KEY_PAIRS_JSON:
        c->is_json = true;
        return 0;
    case KEY_PAIRS_ROUNDS:
        c->n_rounds = bench_number(state, "--rounds", arg, 1, BENCH_PAIRS_MOST_ROUNDS);
        return 0;
    case KEY_PAIRS_RUNS:
        c->n_runs = bench_number(state, "--runs", arg, 1, BENCH_PAIRS_MOST_RUNS);
        return 0;
    case KEY_PAIRS_PAIRS:
        c->n_pairs = bench_number(state, "--pairs", arg, 1, BENCH_PAIRS_MOST_PAIRS);
        return 0;
    case KEY_PAIRS_SEED:
        c->seed = bench_number(state, "--seed", arg, 0, UINT32_MAX - 1);
        return 0;
    case KEY_PAIRS_NO_CALLGRIND:
        c->no_callgrind = true;
        return 0;
    case KEY_COUNT:
        c->is_count = true;
        return 0;
    case ARGP_KEY_ARGS:
        c->scenarios = state->argv + state->next;
        c->n_scenarios = (unsigned)(state->argc - state->next);
        return 0;
    case ARGP_KEY_END:
        check_kinds(state, c);
        if (c->is_all && c->n_scenarios > 0) {
            argp_error(state, "--all and '%s' do not go together", c->scenarios[0]);
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp pairs_argp = {
    .options = options_list,
    .parser = parse,
    .args_doc = "[SCENARIO]...",
    .doc = "Measure what one cached free and one allocation cost, side by side: PyTorch's own "
           "allocator, pleat in several ways, and malloc.\vSCENARIO: random:BLOCKS, hot, "
           "threads:T[,shared][,hot], streams:S, or what `pleat replay` takes, whose events are "
           "measured in their order (default: random:100 random:4096 random:65536 hot threads:1 "
           "threads:2 threads:2,shared and the bundled trace gpt2l_amp_var). Rows: torch, "
           "torch-created, torch-pluggable, torch-class, pleat, pleat-created, pleat-told, hooks, "
           "native, mimalloc, glibc; with --host torch-pinned, pinned, native-pinned, and, used by "
           "a stream before each free, torch-pinned-used, pinned-used. Device memory is the "
           "simulator's. Exit status: 0; 1 if a request failed; 2 for bad input or usage.",
};

/* ---- availability ---------------------------------------------------------------------------- */

static bool is_asked_for(const pairs_command *c, const bench_through_kind *kind)
{
    return c->is_all || (c->is_host ? kind->stream == BENCH_THROUGH_PINNED : !kind->is_on_demand);
}

static void choose_kinds(pairs_command *c)
{
    for (unsigned i = 0; !c->is_chosen && bench_through_kind_at(i); i++) {
        const bench_through_kind *kind = bench_through_kind_at(i);
        if (bench_through_is_pinned(kind) == c->is_host && is_asked_for(c, kind)) {
            c->kinds[c->n_kinds++] = kind;
        }
    }
}

/* Drop unavailable rows; false when none is left. Rows through the same library fail for the same
 * reason. The reason is printed once. */
static bool load_kinds(pairs_command *c)
{
    unsigned n = 0;
    bench_failure why;
    char told[sizeof why.text] = "";
    for (unsigned i = 0; i < c->n_kinds; i++) {
        const bench_through_kind *kind = c->kinds[i];
        if (!kind->load || kind->load(kind, &why)) {
            c->kinds[n++] = kind;
            continue;
        }
        const char *reason = strchr(why.text, ':') ? strchr(why.text, ':') : why.text;
        if (strcmp(told, reason) != 0) {
            fprintf(stderr, "pleat: left out: %s\n", why.text);
            snprintf(told, sizeof told, "%s", reason);
        }
    }
    c->n_kinds = n;
    if (n == 0) {
        fputs("pleat: no row is left\n", stderr);
    }
    return n > 0;
}

/* The rows decide driver and allocator. */
static bool check_conf(pairs_command *c)
{
    pl_config config;
    pl_config plain;
    bench_through_prepare("", false, false);
    if (pl_config_read("", &plain) != PLEAT_OK || pl_config_read(c->conf, &config) != PLEAT_OK) {
        fprintf(stderr, "pleat: --conf: %s\n", pleat_last_error()->text);
        return false;
    }
    if (config.allocator != plain.allocator || config.driver != plain.driver ||
        config.has_sim_conf) {
        fprintf(stderr, "pleat: --conf: '%s': driver, sim and allocator are what the rows say\n",
                c->conf);
        return false;
    }
    return true;
}

/* Check before the first run that every scenario can run. */
static bool check_scenarios(pairs_command *c)
{
    for (unsigned i = 0; i < c->n_scenarios; i++) {
        bench_scenario scenario;
        bench_work work;
        bool is_known = bench_scenario_parse(c->scenarios[i], &scenario, &c->failure);
        if (is_known && scenario.kind == BENCH_SCENARIO_WORK) {
            is_known = bench_work_open_device(scenario.name, NULL, &work, &c->failure);
            if (is_known) {
                bench_work_close(&work);
            }
        }
        if (!is_known) {
            fprintf(stderr, "pleat: %s\n", c->failure.text);
            return false;
        }
    }
    return true;
}

/* ---- one scenario ---------------------------------------------------------------------------- */

static bench_cell_options options_of(pairs_command *c, const bench_scenario *scenario)
{
    return (bench_cell_options){
        .scenario = scenario,
        .kinds = c->kinds,
        .n_kinds = c->n_kinds,
        .n_rounds = c->n_rounds,
        .n_runs = c->n_runs,
        .n_pairs = c->n_pairs,
        .seed = c->seed,
        .conf = c->conf,
        .progress = &c->progress,
    };
}

/* Count all rows in one run under callgrind. Uncounted rows get a negative number, such as
 * torch-pluggable: callgrind takes minutes to load its libraries. */
static void count_instructions(pairs_command *c, const bench_scenario *scenario,
                               const bench_cell_result *result, double *out)
{
    char through[LIST_BYTES] = "";
    char pairs[16];
    char seed[16];
    unsigned rows[BENCH_THROUGH_MOST];
    uint64_t counts[BENCH_THROUGH_MOST];
    unsigned n = 0;
    for (unsigned i = 0; i < c->n_kinds; i++) {
        out[i] = -1.0;
        if (!result->rows[i].is_left_out && !c->kinds[i]->is_on_demand) {
            size_t used = strlen(through);
            snprintf(through + used, sizeof through - used, "%s%s", n ? "," : "",
                     c->kinds[i]->name);
            rows[n++] = i;
        }
    }
    bool is_long = scenario->n_blocks > MOST_COUNTED_BLOCKS;
    if (c->no_callgrind || n == 0 || is_long || scenario->kind == BENCH_SCENARIO_THREADS) {
        return;
    }
    snprintf(pairs, sizeof pairs, "%d", COUNTED_PAIRS);
    snprintf(seed, sizeof seed, "%u", c->seed);
    const char *arguments[] = {
        "bench", "pairs",  "--count", "--pairs",   pairs,   "--seed",
        seed,    "--conf", c->conf,   "--through", through, scenario->name
    };
    bench_progress_label(&c->progress, 0, "%s: counting instructions", result->name);
    bench_progress_step(&c->progress, 0.5);
    if (!bench_callgrind_calls(BENCH_LOOP_SYMBOL, arguments, sizeof arguments / sizeof arguments[0],
                               counts, n, &c->failure)) {
        bench_progress_clear(&c->progress);
        fprintf(stderr, "pleat: no instructions counted: %s\n", c->failure.text);
        c->no_callgrind = true; /* callgrind would fail again */
        return;
    }
    bench_progress_clear(&c->progress);
    uint64_t n_units = COUNTED_PAIRS;
    if (result->is_events) {
        n_units = result->n_units < BENCH_PAIRS_COUNTED_EVENTS ? result->n_units
                                                               : BENCH_PAIRS_COUNTED_EVENTS;
    }
    for (unsigned k = 0; k < n; k++) {
        out[rows[k]] = (double)counts[k] / (double)n_units;
    }
}

static int run_scenario(pairs_command *c, const char *text)
{
    bench_scenario scenario;
    bench_cell_result result;
    double instructions[BENCH_THROUGH_MOST];
    if (!bench_scenario_parse(text, &scenario, &c->failure)) {
        fprintf(stderr, "pleat: %s\n", c->failure.text);
        return BENCH_EXIT_USAGE;
    }
    bench_cell_options options = options_of(c, &scenario);
    if (c->is_count) {
        bool ok = bench_cell_count(&options, &c->failure);
        if (!ok) {
            fprintf(stderr, "pleat: %s\n", c->failure.text);
        }
        return ok ? BENCH_EXIT_OK : BENCH_EXIT_FAILED;
    }
    bench_progress_label(&c->progress, 0, "%s", scenario.name);
    bench_progress_step(&c->progress, 0.0);
    bench_cell_end end = bench_cell(&options, &result, &c->failure);
    bench_progress_clear(&c->progress);
    if (end == BENCH_CELL_INTERRUPTED) {
        return BENCH_EXIT_INTERRUPTED;
    }
    if (end != BENCH_CELL_DONE) {
        fprintf(stderr, "pleat: %s\n", c->failure.text);
        return end == BENCH_CELL_UNKNOWN ? BENCH_EXIT_USAGE : BENCH_EXIT_FAILED;
    }
    count_instructions(c, &scenario, &result, instructions);
    bench_table_add(&c->table, &scenario, &result, c->kinds, c->n_kinds, instructions);
    return BENCH_EXIT_OK;
}

/* The worse of two exit statuses. */
static int worse(int a, int b)
{
    return a > b ? a : b;
}

static int run_bundled(pairs_command *c)
{
    char folder[1024];
    char path[2048];
    struct dirent **entries;
    unsigned n = bench_file_bundled(folder, sizeof folder, &entries);
    int status = n > 0 ? BENCH_EXIT_OK : BENCH_EXIT_USAGE;
    if (n == 0) {
        fputs("pleat: the bundled traces are not there\n", stderr);
        return status;
    }
    for (unsigned i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (status != BENCH_EXIT_INTERRUPTED) {
            status = worse(status, run_scenario(c, path));
        }
        free(entries[i]);
    }
    free(entries);
    return status;
}

static int run_standard(pairs_command *c)
{
    int status = BENCH_EXIT_OK;
    const char *name;
    for (unsigned i = 0;
         status != BENCH_EXIT_INTERRUPTED && (name = bench_scenario_standard(c->is_all, i)) != NULL;
         i++) {
        bool is_many = c->is_host && strcmp(name, "random:65536") == 0;
        if (!is_many) { /* each block is a mapping of the simulator, and Linux allows 65,530 */
            status = worse(status, run_scenario(c, name));
        }
    }
    if (status == BENCH_EXIT_INTERRUPTED) {
        return status;
    }
    return worse(status, c->is_all ? run_bundled(c) : run_scenario(c, BENCH_SCENARIO_WORK_NAME));
}

int bench_command_pairs(int argc, char **argv)
{
    static pairs_command c = {
        .n_rounds = 10, .n_runs = 2, .n_pairs = 10000, .seed = 1, .conf = ""
    };
    if (!bench_parse(&pairs_argp, argc, argv, &c) || !check_conf(&c)) {
        return BENCH_EXIT_USAGE;
    }
    if (!check_scenarios(&c)) {
        return BENCH_EXIT_USAGE;
    }
    choose_kinds(&c);
    if (!load_kinds(&c)) {
        return BENCH_EXIT_FAILED;
    }
    bench_progress_init(&c.progress);
    bench_table_begin(&c.table, c.is_json || c.is_count, c.n_runs, c.n_rounds);
    int status = c.n_scenarios == 0 ? run_standard(&c) : BENCH_EXIT_OK;
    for (unsigned i = 0; i < c.n_scenarios && status != BENCH_EXIT_INTERRUPTED; i++) {
        status = worse(status, run_scenario(&c, c.scenarios[i]));
    }
    return status;
}
