/* plan.c - what `pleat ab` measures. */
#include "bench/ab/plan.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/run/workers.h"
#include "segments/base/allocator.h"

#define FIT_RUNS 8 /* runs of a search, roughly; failing ones stop early */
#define CARD_RUNS 1

const char bench_ab_replayed[] = "replayed";

/* Opens all works before the first run, so that a typing error in the last one shows at once. */
static bool open_works(bench_ab_plan *plan)
{
    bool ok = true;
    bench_progress progress;
    bench_progress_init(&progress);
    for (unsigned i = 0; i < plan->options.common.n_works; i++) {
        bench_failure failure;
        if (!bench_work_open_showing(plan->options.common.works[i], &progress, &plan->works[i],
                                     &failure)) {
            fprintf(stderr, "pleat: %s\n", failure.text);
            ok = false;
        }
    }
    return ok;
}

static bool has_name(const bench_ab_plan *plan, unsigned n, const char *name)
{
    for (unsigned i = 0; i < n; i++) {
        if (strcmp(plan->works[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Numbers works with the same name: files in two folders, or a spec given twice. */
static void tell_works_apart(bench_ab_plan *plan)
{
    for (unsigned i = 0; i < plan->options.common.n_works; i++) {
        char *name = plan->works[i].name;
        char first[BENCH_NAME_BYTES];
        size_t n = bench_text_prefix(name, sizeof first - sizeof " (4294967295)");
        snprintf(first, sizeof first, "%.*s", (int)n, name);
        for (unsigned k = 2; has_name(plan, i, name); k++) {
            snprintf(name, sizeof plan->works[i].name, "%.*s (%u)", (int)n, first, k);
        }
    }
}

static uint64_t bytes_of(const bench_ab_plan *plan, const bench_work *work, unsigned memory)
{
    const bench_memory *m = &plan->options.memories[memory].memory;
    return m->kind == BENCH_MEMORY_UNLIMITED
               ? 0
               : bench_memory_bytes(m, work->peak_live_bytes, plan->setup.granule_bytes);
}

/* Is this size the tightest of the work, the one without limit, or the largest? The report also
 * shows the first limited size and the last one. */
static bool is_drawn(const bench_ab_plan *plan, const bench_work *work, unsigned memory)
{
    unsigned n = plan->options.n_memories;
    uint64_t bytes = bytes_of(plan, work, memory);
    bool is_tightest = true;
    bool is_first_limited = bytes != 0;
    for (unsigned i = 0; i < n; i++) {
        uint64_t other = bytes_of(plan, work, i);
        is_tightest = is_tightest && !(other - 1 < bytes - 1); /* 0 is the largest */
        is_first_limited = is_first_limited && !(i < memory && other != 0);
    }
    return bytes == 0 || is_tightest || is_first_limited || memory == n - 1;
}

/* Runs over the work's events, roughly. */
static double n_passes(const bench_ab_plan *plan, bench_ab_kind kind)
{
    const bench_ab_options *o = &plan->options;
    switch (kind) {
    case BENCH_AB_REPLAY:
        return (o->repeat + o->n_timed) * (o->common.loops + o->later_passes);
    case BENCH_AB_SEARCH:
        return FIT_RUNS * o->common.loops;
    case BENCH_AB_CARDS:
        return CARD_RUNS * o->common.loops;
    case BENCH_AB_PEAK:
    case BENCH_AB_FAILURE:
        break;
    }
    return 0.7;
}

static bench_ab_cell *add_cell(bench_ab_plan *plan, bench_ab_kind kind, unsigned w, unsigned a)
{
    bench_ab_cell *cell = &plan->cells[plan->n_cells++];
    cell->kind = kind;
    cell->work = &plan->works[w];
    cell->allocator = plan->options.common.allocators[a];
    cell->weight = n_passes(plan, kind) * (double)cell->work->n_events;
    return cell;
}

static void add_replay(bench_ab_plan *plan, unsigned w, unsigned a, unsigned m)
{
    bench_ab_cell *cell = add_cell(plan, BENCH_AB_REPLAY, w, a);
    cell->memory = &plan->options.memories[m];
    cell->memory_bytes = bytes_of(plan, cell->work, m);
    cell->is_drawn = !plan->options.is_fleet && is_drawn(plan, cell->work, m);
}

static const bench_ab_cell *sorted_cells; /* for the comparison; one thread */

static int longest_first(const void *a, const void *b)
{
    unsigned x = *(const unsigned *)a;
    unsigned y = *(const unsigned *)b;
    double difference = sorted_cells[y].weight - sorted_cells[x].weight;
    return difference > 0.0 ? 1 : difference < 0.0 ? -1 : x < y ? -1 : x > y;
}

static void sort_round(bench_ab_plan *plan, unsigned first, unsigned end)
{
    sorted_cells = plan->cells;
    qsort(plan->order + first, end - first, sizeof *plan->order, longest_first);
}

static bool list_cells(bench_ab_plan *plan)
{
    const bench_ab_options *o = &plan->options;
    unsigned n_works = o->common.n_works;
    unsigned n_allocators = o->common.n_allocators;
    size_t most = (size_t)n_works * n_allocators * (o->n_memories + 4);
    plan->cells = calloc(most, sizeof *plan->cells);
    plan->order = calloc(most, sizeof *plan->order);
    if (!plan->cells || !plan->order) {
        return false;
    }
    for (unsigned w = 0; w < n_works; w++) {
        for (unsigned a = 0; a < n_allocators; a++) {
            for (unsigned m = 0; m < o->n_memories; m++) {
                add_replay(plan, w, a, m);
            }
        }
    }
    plan->n_replays = plan->n_cells;
    for (unsigned i = 0; o->is_fit && i < n_works * n_allocators; i++) {
        add_cell(plan, BENCH_AB_SEARCH, i / n_allocators, i % n_allocators);
    }
    plan->cards = plan->n_cells;
    for (unsigned i = 0; o->has_cards && i < n_works * n_allocators; i++) {
        add_cell(plan, BENCH_AB_CARDS, i / n_allocators, i % n_allocators);
    }
    plan->moments = plan->n_cells;
    for (unsigned i = 0; !o->is_fleet && i < n_works * n_allocators; i++) {
        add_cell(plan, BENCH_AB_PEAK, i / n_allocators, i % n_allocators);
        add_cell(plan, BENCH_AB_FAILURE, i / n_allocators, i % n_allocators);
    }
    for (unsigned i = 0; i < plan->n_cells; i++) {
        plan->order[i] = i;
    }
    sort_round(plan, 0, plan->cards);
    sort_round(plan, plan->cards, plan->moments);
    sort_round(plan, plan->moments, plan->n_cells);
    return true;
}

static bool has_host_works(const bench_ab_plan *plan)
{
    return plan->options.common.n_works > 0 && plan->works[0].is_host;
}

/* A table has one kind of memory. */
static bool check_memory(const bench_ab_plan *plan)
{
    for (unsigned i = 1; i < plan->options.common.n_works; i++) {
        if (plan->works[i].is_host != plan->works[0].is_host) {
            fprintf(stderr,
                    "pleat: %s is a work of %s, %s of %s: compare them one after the other\n",
                    plan->works[0].name, plan->works[0].is_host ? "pinned memory" : "a device",
                    plan->works[i].name, plan->works[i].is_host ? "pinned memory" : "a device");
            return false;
        }
    }
    return true;
}

void bench_ab_add_allocator(bench_options *options, const char *name)
{
    const pl_allocator_ops *ops = pl_allocator_find(name);
    bool is_new = ops != NULL && options->n_allocators < BENCH_MAX_ALLOCATORS;
    for (unsigned i = 0; is_new && i < options->n_allocators; i++) {
        is_new = strcmp(options->allocators[i], name) != 0;
    }
    if (is_new) {
        options->allocators[options->n_allocators++] = ops->name;
    }
}

void bench_ab_name_allocators(bench_ab_options *options)
{
    bench_options *o = &options->common;
    if (!options->has_all) {
        bench_ab_add_allocator(o, "pleat");
        bench_ab_add_allocator(o, "torch-native");
        bench_ab_add_allocator(o, "torch-expandable");
        return;
    }
    const char *name;
    for (unsigned i = 0; (name = pl_allocator_name(i)) != NULL; i++) {
        bench_ab_add_allocator(o, name);
    }
}

/* If none is named: the usual ones, and those of the recorded runs. Works of pinned memory get
 * those that somebody pins memory with. */
static void choose_allocators(bench_ab_plan *plan)
{
    static const char *const pinned[] = { "pleat", "torch-pinned", "mxnet-naive", "mxnet-round",
                                          "unpooled" };
    bench_options *o = &plan->options.common;
    if (o->n_allocators > 0) {
        return;
    }
    if (has_host_works(plan)) {
        for (unsigned i = 0; i < sizeof pinned / sizeof pinned[0]; i++) {
            bench_ab_add_allocator(o, pinned[i]);
        }
        return;
    }
    bench_ab_name_allocators(&plan->options);
    for (unsigned w = 0; w < o->n_works; w++) {
        const bench_origin *origin = &plan->works[w].origin;
        bench_ab_add_allocator(o, origin->is_rmm ? "cuda-async" : origin->allocator);
    }
}

bool bench_ab_plan_init(bench_ab_plan *plan, const bench_ab_options *options)
{
    *plan = (bench_ab_plan){ .options = *options };
    time_t now = time(NULL);
    struct tm utc;
    strftime(plan->started, sizeof plan->started, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    plan->works = calloc(options->common.n_works, sizeof *plan->works);
    if (!plan->works) {
        fputs("pleat: out of host memory\n", stderr);
        return false;
    }
    if (!open_works(plan)) {
        return false;
    }
    tell_works_apart(plan);
    if (!check_memory(plan)) {
        return false;
    }
    choose_allocators(plan);
    bench_failure failure;
    if (!bench_workers_setup(&options->common.target, &plan->setup, &failure)) {
        fprintf(stderr, "pleat: %s\n", failure.text);
        return false;
    }
    /* A real device has one size; there the sizes of the list are limits. No card has the host's
     * memory. */
    plan->options.has_cards = plan->options.has_cards && bench_setup_is_sim(&plan->setup) &&
                              !has_host_works(plan);
    if (!list_cells(plan)) {
        fputs("pleat: out of host memory\n", stderr);
        return false;
    }
    return true;
}

bool bench_ab_plan_one(bench_ab_plan *plan, const bench_ab_options *options,
                       const bench_setup *setup, char **spec, const char *name,
                       bench_failure *failure)
{
    *plan = (bench_ab_plan){ .options = *options, .setup = *setup };
    plan->options.common.works = spec;
    plan->options.common.n_works = 1;
    plan->options.has_cards = options->has_cards && bench_setup_is_sim(setup);
    plan->works = calloc(1, sizeof *plan->works);
    if (!plan->works) {
        return bench_fail(failure, "out of host memory");
    }
    if (!bench_work_open(*spec, &plan->works[0], failure)) {
        return false;
    }
    snprintf(plan->works[0].name, sizeof plan->works[0].name, "%s", name);
    return list_cells(plan) || bench_fail(failure, "out of host memory");
}

void bench_ab_plan_fini(bench_ab_plan *plan)
{
    for (unsigned i = 0; plan->works && i < plan->options.common.n_works; i++) {
        bench_work_close(&plan->works[i]);
    }
    for (unsigned i = 0; i < plan->n_cells; i++) {
        free(plan->cells[i].line);
        free(plan->cells[i].compacted);
    }
    free(plan->works);
    free(plan->cells);
    free(plan->order);
}

bench_ab_cell *bench_ab_cell_at(const bench_ab_plan *plan, unsigned work, unsigned allocator,
                                unsigned memory)
{
    const bench_ab_options *o = &plan->options;
    return &plan->cells[(work * o->common.n_allocators + allocator) * o->n_memories + memory];
}

bench_ab_cell *bench_ab_cards_of(const bench_ab_plan *plan, unsigned work, unsigned allocator)
{
    return plan->options.has_cards
               ? &plan->cells[plan->cards + work * plan->options.common.n_allocators + allocator]
               : NULL;
}

bench_ab_cell *bench_ab_moment_of(const bench_ab_plan *plan, unsigned work, unsigned allocator,
                                  bench_ab_kind kind)
{
    unsigned pair = work * plan->options.common.n_allocators + allocator;
    return &plan->cells[plan->moments + 2 * pair + (kind == BENCH_AB_FAILURE)];
}

const bench_record *bench_ab_fit_of(const bench_ab_plan *plan, const bench_ab_cell *cell)
{
    if (!plan->options.is_fit || cell->is_compacted) {
        return NULL;
    }
    size_t index = (size_t)(cell - plan->cells) / plan->options.n_memories;
    const bench_ab_cell *search = cell->kind == BENCH_AB_REPLAY
                                      ? &plan->cells[plan->n_replays + index]
                                      : cell;
    bool is_found = search->state == BENCH_AB_MEASURED &&
                    search->result.record.least_memory_bytes > 0;
    return is_found ? &search->result.record : NULL;
}

unsigned bench_ab_count(const bench_ab_plan *plan, bench_ab_state state)
{
    unsigned n = 0;
    for (unsigned i = 0; i < plan->n_replays; i++) {
        n += plan->cells[i].state == state;
    }
    return n;
}
