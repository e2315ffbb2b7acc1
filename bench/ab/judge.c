/* judge.c - the verdicts of a study. */
#include "bench/ab/judge.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/ab/compacted.h"
#include "bench/ab/judge_told.h"
#include "bench/ab/state_lines.h"

enum { NAME_COLUMNS = 100 };

unsigned bench_judge_count(const bench_ab_plan *plan)
{
    if (plan->works[0].is_host) { /* the lines are about devices, and PyTorch's caches for them */
        return 0;
    }
    return plan->options.is_job ? 1 : plan->options.common.n_works;
}

/* The works of verdict i: [*first, the result). */
static unsigned works_of(const bench_ab_plan *plan, unsigned i, unsigned *first)
{
    *first = plan->options.is_job ? 0 : i;
    return plan->options.is_job ? plan->options.common.n_works : i + 1;
}

static bench_outcome outcome_of(const bench_ab_cell *cell)
{
    if (cell->state != BENCH_AB_MEASURED) {
        return BENCH_OUTCOME_UNKNOWN;
    }
    return bench_record_is_clean(&cell->result.record) ? BENCH_OUTCOME_COMPLETES
                                                       : BENCH_OUTCOME_FAILS;
}

/* Setting a of a verdict: an allocator, or, behind them, pleat with short:compact. */
static const bench_ab_cell *replay_of(const bench_ab_plan *plan, unsigned w, unsigned a, unsigned m)
{
    return a < plan->options.common.n_allocators
               ? bench_ab_cell_at(plan, w, a, m)
               : bench_compacted_cell(bench_ab_cell_at(plan, w, bench_compacted_pleat(plan), m));
}

static const bench_ab_cell *cards_of(const bench_ab_plan *plan, unsigned w, unsigned a)
{
    return a < plan->options.common.n_allocators
               ? bench_ab_cards_of(plan, w, a)
               : bench_compacted_cell(bench_ab_cards_of(plan, w, bench_compacted_pleat(plan)));
}

static bool has_compacted(const bench_ab_plan *plan, unsigned first, unsigned end)
{
    bool has = false;
    for (unsigned w = first; w < end; w++) {
        has = has || bench_compacted_has(plan, w);
    }
    return has;
}

/* Private pools share no memory, so a run may need more than lives at once. */
static uint64_t need_of(const bench_work *work)
{
    uint64_t of_pools = work->origin.told.pool_need_bytes;
    return of_pools > work->peak_live_bytes ? of_pools : work->peak_live_bytes;
}

static void describe_works(const bench_ab_plan *plan, unsigned first, unsigned end,
                           bench_verdict_input *out)
{
    const bench_work *worst = &plan->works[first];
    double sum = 0.0;
    for (unsigned w = first; w < end; w++) {
        const bench_work *work = &plan->works[w];
        worst = need_of(work) > need_of(worst) ? work : worst;
        sum += (double)need_of(work);
        out->own_bytes = work->origin.held_bytes > out->own_bytes ? work->origin.held_bytes
                                                                  : out->own_bytes;
        out->own_failed = out->own_failed || work->origin.has_failed;
        bench_told_unite(&out->told, &work->origin.told);
    }
    const bench_origin *origin = &worst->origin;
    out->work = plan->options.common.works[worst - plan->works];
    out->worst = worst->name;
    out->need_bytes = need_of(worst);
    out->live_bytes = worst->peak_live_bytes;
    out->pending_bytes = worst->peak_pending_bytes;
    out->peak_event = worst->peak_event;
    out->n_events = worst->n_events;
    out->n_ranks = plan->options.is_job ? end - first : 0;
    out->mean_need = sum / (end - first);
    out->own = origin->allocator[0] ? origin->allocator : NULL;
    out->own_conf = origin->conf;
    out->conf = plan->options.common.target.conf;
    out->is_rmm = origin->is_rmm;
    out->of = origin->devices;
}

/* By size. A ratio of the peak differs from rank to rank; it stands where the worst rank's does. */
static void list_sizes(const bench_ab_plan *plan, unsigned worst, bool of_ratios,
                       bench_verdict_device *out, unsigned *memories, unsigned *n)
{
    *n = 0;
    for (unsigned m = 0; m < plan->options.n_memories; m++) {
        const bench_ab_memory *memory = &plan->options.memories[m];
        uint64_t bytes = bench_ab_cell_at(plan, worst, 0, m)->memory_bytes;
        bool is_ratio = memory->memory.kind == BENCH_MEMORY_RATIO;
        if (bytes == 0 || (of_ratios && !is_ratio)) {
            continue;
        }
        unsigned at = (*n)++;
        for (; at > 0 && out[at - 1].bytes > bytes; at--) {
            out[at] = out[at - 1];
            memories[at] = memories[at - 1];
        }
        out[at] = (bench_verdict_device){ .label = memory->label, .bytes = bytes };
        memories[at] = m;
    }
}

static void describe_setting(const bench_ab_plan *plan, unsigned first, unsigned end, unsigned a,
                             bench_verdict_setting *out)
{
    out->allocator = a < plan->options.common.n_allocators ? plan->options.common.allocators[a]
                                                           : BENCH_SETTING_COMPACT;
    for (unsigned w = first; w < end; w++) {
        for (unsigned m = 0; m < plan->options.n_memories; m++) {
            const bench_ab_cell *cell = replay_of(plan, w, a, m);
            const bench_record *r = &cell->result.record;
            if (cell->memory_bytes == 0 && outcome_of(cell) == BENCH_OUTCOME_COMPLETES &&
                r->peak_reserved_bytes > out->held_bytes) {
                out->held_bytes = r->peak_reserved_bytes;
            }
        }
    }
}

/* Of the ranks of a job the slowest one's. `times` may be NULL. */
static void fill_outcomes(const bench_ab_plan *plan, unsigned first, unsigned end, unsigned a,
                          const unsigned *memories, unsigned n, bench_outcome *out, double *times)
{
    for (unsigned d = 0; d < n; d++) {
        out[d] = BENCH_OUTCOME_COMPLETES;
        for (unsigned w = first; w < end; w++) {
            const bench_ab_cell *cell = replay_of(plan, w, a, memories[d]);
            out[d] = bench_outcome_worse(out[d], outcome_of(cell));
            if (times && cell->state == BENCH_AB_MEASURED) {
                times[d] = fmax(times[d], cell->result.driver_ms.median);
            }
        }
    }
}

static void fill_cards(const bench_ab_plan *plan, unsigned first, unsigned end, unsigned a,
                       bench_verdict_setting *setting)
{
    bench_outcome *out = setting->on;
    for (unsigned i = 0; i < BENCH_N_CARDS; i++) {
        out[i] = BENCH_OUTCOME_COMPLETES;
        for (unsigned w = first; w < end; w++) {
            const bench_ab_cell *cell = cards_of(plan, w, a);
            bool is_known = cell->state == BENCH_AB_MEASURED;
            out[i] = bench_outcome_worse(out[i],
                                         is_known ? cell->cards[i].outcome : BENCH_OUTCOME_UNKNOWN);
            if (is_known) {
                setting->driver_ms[i] = fmax(setting->driver_ms[i], cell->cards[i].driver_ms);
            }
        }
    }
}

void bench_judge_input(const bench_ab_plan *plan, unsigned i, bench_verdict_input *out)
{
    *out = (bench_verdict_input){ .n_settings = plan->options.common.n_allocators,
                                  .is_simulated = bench_setup_is_sim(&plan->setup) };
    unsigned first;
    unsigned end = works_of(plan, i, &first);
    out->n_settings += has_compacted(plan, first, end);
    describe_works(plan, first, end, out);
    unsigned worst = first;
    while (worst + 1 < end && plan->works[worst].name != out->worst) {
        worst++;
    }
    unsigned memories[BENCH_MOST_MEMORIES];
    unsigned near[BENCH_MOST_MEMORIES];
    bool has_cards = plan->options.has_cards;
    list_sizes(plan, worst, false, out->devices, memories, &out->n_devices);
    list_sizes(plan, worst, true, out->near, near, &out->n_near);
    for (unsigned a = 0; a < out->n_settings; a++) {
        bench_verdict_setting *setting = &out->settings[a];
        describe_setting(plan, first, end, a, setting);
        fill_outcomes(plan, first, end, a, near, out->n_near, setting->near, NULL);
        if (has_cards) {
            fill_cards(plan, first, end, a, setting);
        } else {
            fill_outcomes(plan, first, end, a, memories, out->n_devices, setting->on,
                          setting->driver_ms);
        }
    }
    if (has_cards) {
        out->n_devices = BENCH_N_CARDS;
        for (unsigned d = 0; d < BENCH_N_CARDS; d++) {
            out->devices[d] = (bench_verdict_device){ .label = bench_cards[d].label,
                                                      .bytes = bench_cards[d].bytes };
        }
    }
    bench_verdict_explain(out);
}

/* ---- rows ---- */

static json_t *sizes_array(const bench_verdict_device *devices, unsigned n)
{
    json_t *array = json_array();
    for (unsigned d = 0; d < n; d++) {
        json_t *device = json_object();
        json_object_set_new(device, "label", json_string(devices[d].label));
        json_object_set_new(device, "bytes", json_integer((json_int_t)devices[d].bytes));
        json_array_append_new(array, device);
    }
    return array;
}

static json_t *outcomes_array(const bench_outcome *outcomes, unsigned n)
{
    json_t *array = json_array();
    for (unsigned d = 0; d < n; d++) {
        json_array_append_new(array, outcomes[d] == BENCH_OUTCOME_UNKNOWN
                                         ? json_null()
                                         : json_boolean(outcomes[d] == BENCH_OUTCOME_COMPLETES));
    }
    return array;
}

static json_t *integer_or_null(uint64_t value)
{
    return value ? json_integer((json_int_t)value) : json_null();
}

/* How the outcome of each card is known; of a job no rank's. */
static json_t *how_array(const bench_ab_plan *plan, unsigned work, unsigned a)
{
    json_t *array = json_array();
    const bench_ab_cell *cell = cards_of(plan, work, a);
    for (unsigned i = 0; i < BENCH_N_CARDS; i++) {
        const char *how = cell->state == BENCH_AB_MEASURED ? cell->cards[i].how : NULL;
        json_array_append_new(array, how ? json_string(how) : json_null());
    }
    return array;
}

static json_t *settings_array(const bench_verdict_input *in, const bench_verdict *verdict)
{
    json_t *array = json_array();
    for (unsigned s = 0; s < in->n_settings; s++) {
        const bench_verdict_setting *setting = &in->settings[s];
        unsigned least = verdict->least[s];
        json_t *object = json_object();
        json_object_set_new(object, "allocator", json_string(setting->allocator));
        json_object_set_new(object, "held_bytes", integer_or_null(setting->held_bytes));
        json_object_set_new(object, "on", outcomes_array(setting->on, in->n_devices));
        json_object_set_new(object, "near", outcomes_array(setting->near, in->n_near));
        json_t *times = json_array();
        for (unsigned d = 0; d < in->n_devices; d++) {
            json_array_append_new(times, json_real(setting->driver_ms[d]));
        }
        json_object_set_new(object, "driver_ms", times);
        json_object_set_new(object, "device",
                            least < in->n_devices ? json_string(in->devices[least].label)
                                                  : json_null());
        json_array_append_new(array, object);
    }
    return array;
}

json_t *bench_judge_describe(const bench_verdict_input *in)
{
    bench_verdict verdict;
    bench_verdict_reach(in, &verdict);
    json_t *object = json_object();
    json_object_set_new(object, "verdict", json_string(bench_advice_name(verdict.advice)));
    json_object_set_new(object, "work", in->n_ranks > 0 ? json_null() : json_string(in->worst));
    json_object_set_new(object, "n_ranks", json_integer(in->n_ranks));
    json_object_set_new(object, "worst", json_string(in->worst));
    json_object_set_new(object, "mean_need_bytes", json_real(in->mean_need));
    json_object_set_new(object, "need_bytes", json_integer((json_int_t)in->need_bytes));
    json_object_set_new(object, "pending_bytes", json_integer((json_int_t)in->pending_bytes));
    json_object_set_new(object, "peak_event", json_integer((json_int_t)in->peak_event));
    json_object_set_new(object, "own", in->own ? json_string(in->own) : json_null());
    json_object_set_new(object, "conf", json_string(in->conf ? in->conf : ""));
    json_object_set_new(object, "own_held_bytes", integer_or_null(in->own_bytes));
    json_object_set_new(object, "own_failed", json_boolean(in->own_failed));
    json_object_set_new(object, "is_simulated", json_boolean(in->is_simulated));
    json_object_set_new(object, "in_force", json_string(verdict.in_force));
    json_object_set_new(object, "setting",
                        verdict.setting ? json_string(verdict.setting) : json_null());
    json_object_set_new(object, "device",
                        verdict.device < in->n_devices
                            ? json_string(in->devices[verdict.device].label)
                            : json_null());
    json_object_set_new(object, "is_provisional", json_boolean(verdict.is_provisional));
    json_object_set_new(object, "devices", sizes_array(in->devices, in->n_devices));
    json_object_set_new(object, "near", sizes_array(in->near, in->n_near));
    json_object_set_new(object, "settings", settings_array(in, &verdict));
    json_object_set_new(object, "recorded", bench_told_object(&in->told));
    json_object_set_new(object, "snapshot_devices", bench_devices_object(&in->of));
    json_object_set_new(object, "so_far",
                        verdict.so_far ? json_string(verdict.so_far) : json_null());
    json_t *lines = json_array();
    for (unsigned k = 0; k < BENCH_VERDICT_LINES; k++) {
        if (verdict.lines[k][0]) {
            json_array_append_new(lines,
                                  json_pack("[ss]", bench_verdict_titles[k], verdict.lines[k]));
        }
    }
    json_object_set_new(object, "lines", lines);
    return object;
}

/* The neediest work of a verdict. */
static const bench_work *worst_of(const bench_ab_plan *plan, const bench_verdict_input *in)
{
    unsigned w = 0;
    while (w + 1 < plan->options.common.n_works && plan->works[w].name != in->worst) {
        w++;
    }
    return &plan->works[w];
}

json_t *bench_judge_object(const bench_ab_plan *plan, unsigned i)
{
    bench_verdict_input in;
    bench_judge_input(plan, i, &in);
    json_t *object = bench_judge_describe(&in);
    if (!plan->options.is_job) { /* a rank's moment is not the job's */
        bench_state_set(&plan->works[i], &in, object);
    }
    if (plan->options.has_cards && !plan->options.is_job) {
        size_t a;
        json_t *setting;
        json_array_foreach(json_object_get(object, "settings"), a, setting)
        {
            json_object_set_new(setting, "how", how_array(plan, i, (unsigned)a));
        }
    }
    return object;
}

/* Wraps at blanks behind a title of 10 columns. What is to be typed stays on one line. */
static void print_line(const char *title, const char *text, bool is_typed)
{
    enum { COLUMNS = 100, TITLE = 11 };
    size_t left = strlen(text);
    for (const char *first = title; left > 0; first = "") {
        size_t n = left;
        if (!is_typed && bench_text_columns(text) > COLUMNS - TITLE) {
            n = COLUMNS - TITLE;
            while (n > 0 && text[n] != ' ') {
                n--;
            }
            n = n ? n : strcspn(text, " ");
        }
        printf("  %-8s %.*s\n", first, (int)n, text);
        n += text[n] == ' ';
        text += n;
        left -= n;
    }
}

void bench_judge_print(const bench_ab_plan *plan)
{
    for (unsigned i = 0; i < bench_judge_count(plan); i++) {
        bench_verdict_input in;
        bench_verdict verdict;
        bench_judge_input(plan, i, &in);
        bench_verdict_reach(&in, &verdict);
        if (in.n_ranks > 0) {
            printf("\na job of %u ranks\n", in.n_ranks);
        } else {
            char name[4 * NAME_COLUMNS + 1];
            printf("\n%s\n", bench_text_cut(in.worst, NAME_COLUMNS, name, sizeof name));
        }
        bench_state_text state;
        bench_state_write(worst_of(plan, &in), &in, &state);
        for (unsigned k = 0; k < BENCH_STATE_LINES; k++) {
            if (state.lines[k][0]) {
                print_line(bench_state_titles[k], state.lines[k], false);
            }
        }
        for (unsigned k = 0; k < BENCH_VERDICT_LINES; k++) {
            if (verdict.lines[k][0]) {
                print_line(bench_verdict_titles[k], verdict.lines[k], k >= BENCH_VERDICT_TYPED);
            }
        }
    }
}
