/* verdict_lines.c - the lines of a verdict. */
#include "bench/ab/verdict_lines.h"

#include <string.h>

#include "bench/ab/verdict_card.h"
#include "bench/ab/verdict_recorded.h"
#include "bench/ab/verdict_words.h"
#include "bench/base/conf.h"
#include "bench/base/line.h"
#include "bench/base/text.h"

enum { MOST_NAMED = 4 };

const char *const bench_verdict_titles[BENCH_VERDICT_LINES] = { "recorded", "device", "needs",
                                                                "grows",    "held",   "runs on",
                                                                "advice",   "back",   "type",
                                                                "at start", "at end" };

enum { RECORDED, DEVICE, NEEDS, GROWS, HELD, RUNS_ON, ADVICE, BACK, TYPE, AT_START, AT_END };

/* As the user counts, where the stacks tell. Rises of live memory may be micro-steps or layers. */
static const char *kind_of(const bench_told *told)
{
    return told->n_optimizer_steps > 0 ? "optimizer " : "";
}

static const char *by_what(const bench_told *told)
{
    return told->n_optimizer_steps > 0 ? "" : ", by the rises of live memory";
}

static void put_steps(const bench_verdict_input *in, bench_line *l)
{
    if (in->told.n_steps > 0) {
        bool is_one = bench_told_steps(&in->told) == 1;
        bench_line_put(l, " in the ");
        if (!is_one) {
            bench_line_count(l, bench_told_steps(&in->told));
        }
        bench_line_put(l, is_one ? "%sstep that was recorded%s," : " %ssteps that were recorded%s,",
                       kind_of(&in->told), by_what(&in->told));
    }
}

static void write_needs(const bench_verdict_input *in, bench_line *l)
{
    bench_line_put(l, "%s", bench_told_is_recorded(&in->told) ? "at least " : ""); /* R9 */
    bench_line_size(l, (double)in->need_bytes);
    bench_line_put(l, "%s",
                   in->told.is_apart      ? ", if its history has no gap," /* R11 */
                   : in->told.has_gone_on ? ", on the recorded device,"
                                          : "");
    put_steps(in, l);
    if (in->n_ranks > 0) {
        bench_line_put(l, " in rank %s, the most of %u ranks", in->worst,
                       in->n_ranks - in->n_unknown);
        if (in->n_unknown > 0) {
            bench_line_put(l, " that were measured, of %u: the job may need more", in->n_ranks);
        }
        bench_line_put(l, "; their mean is ");
        bench_line_size(l, in->mean_need);
        bench_line_put(l, " (imbalance %.2f)", (double)in->need_bytes / in->mean_need);
        return;
    }
    if (in->live_bytes > 0 && in->live_bytes < in->need_bytes) {
        bench_line_put(l, " with what private pools keep; ");
        bench_line_size(l, (double)in->live_bytes);
    }
    bench_line_put(l, " of live blocks at the peak, event ");
    bench_line_count(l, in->peak_event + 1);
    bench_line_put(l, " of ");
    bench_line_count(l, in->n_events);
    if (in->pending_bytes > 0) {
        bench_line_put(l, "; up to ");
        bench_line_size(l, (double)in->pending_bytes);
        bench_line_put(l, " more are freed and wait for other streams, which is no need");
    }
    if (in->told.lacks_requests) {
        bench_line_put(l, "; less if blocks waited for other streams, which are counted, as the "
                          "history lacks free_requested");
    } else if (in->told.lacks_ends) {
        bench_line_put(l, "; how much waits for other streams is unknown, as the history lacks "
                          "free_completed");
    }
}

/* "max_split_size_mb:128": what else was set in the recorded run. */
static void put_options(const bench_verdict_input *in, bench_line *l)
{
    static const char *const known[] = { "expandable_segments", "backend", "allocator" };
    const char *at = in->own_conf ? in->own_conf : "";
    const char *before = " with ";
    bench_conf_item item;
    while (bench_conf_next(&at, &item)) {
        bool is_told = false;
        for (unsigned i = 0; i < sizeof known / sizeof known[0]; i++) {
            is_told = is_told || bench_conf_is(&item, known[i]);
        }
        if (!is_told) {
            bench_line_put(l, "%s%.*s", before, (int)item.n, item.text);
            before = ",";
        }
    }
}

static void write_held(const bench_verdict_input *in, bench_line *l)
{
    if (in->own && in->own_bytes > 0) {
        bench_line_size(l, (double)in->own_bytes);
        bench_line_put(l, " in the recorded run, under %s", bench_verdict_words_of(in->own));
        put_options(in, l);
        if (bench_told_is_whole(&in->told)) { /* a least need is no measure */
            bench_line_put(l, ": %.3f times its need",
                           (double)in->own_bytes / (double)in->need_bytes);
        }
        bool goes_on = in->told.has_gone_on && !in->told.ends_failed;
        bench_line_put(l, "%s",
                       !in->own_failed ? ""
                       : goes_on       ? "; it was refused a request"
                                       : "; it ran out of memory");
    } else {
        bench_line_put(l, "unknown in your own run, which this work does not tell");
    }
    const char *before = in->told.n_pools > 0
                             ? "; replayed without limit and without pools, at least: "
                             : "; replayed without limit: ";
    for (unsigned s = 0; s < in->n_settings; s++) {
        const bench_verdict_setting *setting = &in->settings[s];
        bool is_told = strncmp(setting->allocator, "torch-", 6) == 0 ||
                       strcmp(setting->allocator, "pleat") == 0;
        if (is_told && setting->held_bytes > 0) {
            bench_line_put(l, "%s%s ", before, setting->allocator);
            bench_line_size(l, (double)setting->held_bytes);
            before = ", ";
        }
    }
}

static void put_unknown(const bench_verdict_input *in, unsigned device, bench_line *l)
{
    bench_line_put(l, " (not measured: ");
    bench_verdict_put_names(in, device, BENCH_OUTCOME_UNKNOWN, l);
    bench_line_put(l, ")");
}

static void put_outcomes(const bench_verdict_input *in, unsigned device, bench_line *l)
{
    unsigned n_good = bench_verdict_count(in, device, BENCH_OUTCOME_COMPLETES);
    unsigned n_bad = bench_verdict_count(in, device, BENCH_OUTCOME_FAILS);
    if (n_good == 0 && n_bad == 0) {
        bench_line_put(l, "unknown");
    } else if (n_good == 0) {
        bench_line_put(l, "%s",
                       in->need_bytes > in->devices[device].bytes ? "none, it needs more" : "none");
    } else if (n_good == in->n_settings) {
        bench_line_put(l, "all");
    } else if (n_bad > 0 && n_bad < n_good && n_bad <= MOST_NAMED) {
        bench_line_put(l, "all but ");
        bench_verdict_put_names(in, device, BENCH_OUTCOME_FAILS, l);
    } else {
        bench_verdict_put_names(in, device, BENCH_OUTCOME_COMPLETES, l);
    }
    if (n_good + n_bad < in->n_settings) {
        put_unknown(in, device, l);
    }
}

static void write_runs_on(const bench_verdict_input *in, bench_line *l)
{
    if (in->n_devices == 0) {
        bench_line_put(l, "no size of a device was asked about");
        return;
    }
    if (!bench_told_is_whole(&in->told)) {
        bench_verdict_write_fails_on(in, l);
        return;
    }
    if (in->told.n_steps > 0) {
        bench_line_put(l, "(the ");
        bench_line_count(l, bench_told_steps(&in->told));
        bench_line_put(l, " recorded %ssteps) ", kind_of(&in->told));
    }
    for (unsigned first = 0, end; first < in->n_devices; first = end) {
        end = bench_verdict_end_of(in, first);
        bench_line_put(l, "%s", first > 0 ? "; " : "");
        bench_verdict_put_devices(in, first, end, l);
        bench_line_put(l, ": ");
        put_outcomes(in, first, l);
    }
}

/* The smallest multiple of the need on which it completes, or NULL. */
static const char *near_of(const bench_verdict_input *in, const char *name)
{
    for (unsigned s = 0; s < in->n_settings; s++) {
        for (unsigned n = 0; n < in->n_near; n++) {
            if (strcmp(in->settings[s].allocator, name) == 0 &&
                in->settings[s].near[n] == BENCH_OUTCOME_COMPLETES) {
                return in->near[n].label;
            }
        }
    }
    return NULL;
}

/* "on 24 GB", or "in 1.02 times the need". */
static void put_place(const char *label, bench_line *l)
{
    size_t n = strlen(label);
    bool is_ratio = n > 0 && label[n - 1] == 'x';
    bench_line_put(l, is_ratio ? "in %.*s times the need" : "on %.*s", (int)(is_ratio ? n - 1 : n),
                   label);
}

/* R9: "the 12 recorded steps "; empty for a work that is no recording. */
static void put_what(const bench_verdict_input *in, bench_line *l)
{
    if (in->told.n_steps > 0) {
        bench_line_put(l, "the ");
        bench_line_count(l, bench_told_steps(&in->told));
        bench_line_put(l, " recorded %ssteps ", kind_of(&in->told));
    }
}

static void write_keep(const bench_verdict_input *in, const bench_verdict *v, bench_line *l)
{
    bench_line_put(l, "Change nothing: %s completes ", bench_verdict_words_of(v->setting));
    put_what(in, l);
    put_place(in->devices[v->device].label, l);
    bench_line_put(l, ", ");
    if (v->device == 0) {
        bench_line_put(l, "the smallest that was asked about");
    } else if (in->need_bytes > in->devices[v->device - 1].bytes) {
        bench_line_put(l, "and it needs more than %s", in->devices[v->device - 1].label);
    } else {
        bench_line_put(l, "and no %s that PyTorch can have completes ",
                       bench_verdict_has_all(in, v->in_force) ? "other setting"
                                                              : "setting that was measured and");
        put_place(in->devices[v->device - 1].label, l);
    }
}

static bool is_compact(const char *setting)
{
    return strcmp(setting, BENCH_SETTING_COMPACT) == 0;
}

static bool is_pleat(const char *setting)
{
    return strcmp(setting, "pleat") == 0 || is_compact(setting);
}

/* "; without short:compact pleat does so only on 40 GB", unless pleat is in force. */
static void put_without(const bench_verdict *v, const char *place, bench_line *l)
{
    if (!is_compact(v->setting) || strcmp(v->in_force, "pleat") == 0) {
        return;
    }
    bench_line_put(l, "; without short:compact pleat does so %s",
                   place ? "only " : "on none of these");
    if (place) {
        put_place(place, l);
    }
}

/* What a program has to keep to, and what asks for no promise: that was not measured. */
static void put_condition(const bench_verdict *v, bench_line *l)
{
    if (is_compact(v->setting)) {
        bench_line_put(l, "; no other thread may launch work during a request (growth:frugal "
                          "needs no such promise, but more time in the driver: --conf "
                          "growth:frugal measures it)");
    }
}

static void write_nearer(const bench_verdict_input *in, const bench_verdict *v, bench_line *l)
{
    const char *now = near_of(in, v->in_force);
    bench_line_put(l, "%s completes ", bench_verdict_words_of(v->in_force));
    put_what(in, l);
    put_place(in->devices[v->device].label, l);
    bench_line_put(l, "; for a larger batch there use %s: it completes ",
                   bench_verdict_words_of(v->setting));
    put_place(near_of(in, v->setting), l);
    bench_line_put(l, now ? ", the other only " : ", the other not even ");
    put_place(now ? now : in->near[in->n_near - 1].label, l);
    put_without(v, near_of(in, "pleat"), l);
    put_condition(v, l);
}

/* ", with PyTorch's default (torch-native) only on 48 GB" */
static void put_in_force(const bench_verdict_input *in, const bench_verdict *v, bench_line *l)
{
    unsigned now = bench_verdict_least_of(in, v, v->in_force);
    bench_line_put(l, ", with %s ", bench_verdict_words_of(v->in_force));
    if (now == BENCH_VERDICT_NOWHERE) {
        bench_line_put(l, "on none of these");
    } else {
        bench_line_put(l, "only ");
        put_place(in->devices[now].label, l);
    }
}

static bool fails_on(const bench_verdict_input *in, const char *name, unsigned device)
{
    for (unsigned s = 0; s < in->n_settings; s++) {
        if (strcmp(in->settings[s].allocator, name) == 0) {
            return in->settings[s].on[device] == BENCH_OUTCOME_FAILS;
        }
    }
    return false;
}

static void write_switch(const bench_verdict_input *in, const bench_verdict *v, bench_line *l)
{
    bool is_expandable = strcmp(v->setting, "torch-expandable") == 0;
    bench_line_put(l, is_expandable ? "Turn expandable_segments on: " : "Use %s: ",
                   bench_verdict_words_of(v->setting));
    bench_line_put(l, "it then completes ");
    put_what(in, l);
    put_place(in->devices[v->device].label, l);
    if (bench_verdict_is_measured(in, v->in_force)) {
        put_in_force(in, v, l);
    }
    unsigned without = bench_verdict_least_of(in, v, "pleat");
    put_without(v, without == BENCH_VERDICT_NOWHERE ? NULL : in->devices[without].label, l);
    bool has_pleat = without != BENCH_VERDICT_NOWHERE;
    if (is_expandable && has_pleat) {
        bench_line_put(l, "; pleat completes on no smaller one");
    } else if (is_pleat(v->setting) && fails_on(in, "torch-expandable", v->device)) {
        bench_line_put(l, "; expandable_segments do not suffice there");
    }
    put_condition(v, l);
}

static void write_advice(const bench_verdict_input *in, const bench_verdict *v, bench_line *l)
{
    switch (v->advice) {
    case BENCH_ADVICE_KEEP:
        write_keep(in, v, l);
        break;
    case BENCH_ADVICE_NEARER:
        write_nearer(in, v, l);
        break;
    case BENCH_ADVICE_SWITCH:
        write_switch(in, v, l);
        break;
    case BENCH_ADVICE_TOO_LARGE:
        bench_line_put(
            l,
            "No setting helps: the blocks that live at once are more than %s holds; make the "
            "job smaller (batch, checkpoints, more ranks)",
            in->devices[in->n_devices - 1].label);
        break;
    case BENCH_ADVICE_NOBODY:
        bench_line_put(l, "None of these sizes suffices%s%s",
                       bench_verdict_has_all(in, v->in_force) ? "" : " for what was measured",
                       bench_told_is_whole(&in->told)
                           ? ", though the largest holds what the job needs: search the least one "
                             "that does"
                           : ": what was recorded fails on all of them");
        break;
    case BENCH_ADVICE_RECORD:
        bench_verdict_write_record(in, v, l);
        break;
    case BENCH_ADVICE_UNKNOWN:
        bench_line_put(l, "Too little was measured to tell");
        break;
    }
    if (v->setting || v->so_far || v->advice == BENCH_ADVICE_NOBODY) { /* R7 */
        bench_verdict_put_unmeasured(in, v->in_force, l);
    }
    bench_verdict_put_time(in, v, l);
    bench_verdict_put_card(in, v, l);
    bool may_reverse = v->setting && bench_told_is_recorded(&in->told); /* R9 */
    bench_line_put(l, "%s%s.", v->is_provisional ? " (as far as it was measured)" : "",
                   may_reverse ? "; other steps may need more" : "");
}

/* Other settings of the recorded run stay. */
static void put_conf(const bench_verdict_input *in, const char *value, bench_line *l)
{
    bool is_pytorch = in->own && strncmp(in->own, "torch-", 6) == 0;
    const char *at = in->own_conf && is_pytorch ? in->own_conf : "";
    bench_conf_item item;
    bench_line_put(l, "export PYTORCH_CUDA_ALLOC_CONF=");
    while (bench_conf_next(&at, &item)) {
        if (!bench_conf_is(&item, "expandable_segments")) {
            bench_line_put(l, "%.*s,", (int)item.n, item.text);
        }
    }
    bench_line_put(l, "expandable_segments:%s", value);
}

/* As it was measured: without the configuration the line would start something else. */
static void put_measured_conf(const bench_verdict_input *in, const bench_verdict *v,
                              const char *before, const char *after, bench_line *l)
{
    bool is_given = in->conf && in->conf[0] != '\0';
    const char *compact = is_compact(v->setting) ? "short:compact" : "";

    if (is_given) {
        bench_line_put(l, "%s'%s%s%s'%s", before, in->conf, compact[0] ? "," : "", compact, after);
    } else if (compact[0]) {
        bench_line_put(l, "%s%s%s", before, compact, after);
    }
}

static void put_pleat(const bench_verdict_input *in, const bench_verdict *v, bench_line *l)
{
    if (in->is_rmm) {
        bench_line_put(l, "rmm.mr.set_current_device_resource(...)  # docs/frameworks.md, RMM");
        put_measured_conf(in, v, "; PLEAT_CONF=", "", l);
        return;
    }
    bench_line_put(l, "python3 -m pleat.torch ");
    put_measured_conf(in, v, "--conf ", " ", l);
    bench_line_put(l, "YOUR_SCRIPT.py");
    if (in->conf && strstr(in->conf, ".py")) {
        bench_line_put(l, "  # with the policy in C: one in Python runs in this command only");
    }
}

static void write_type(const bench_verdict_input *in, const bench_verdict *v, bench_line *l)
{
    bool is_change = v->advice == BENCH_ADVICE_SWITCH || v->advice == BENCH_ADVICE_NEARER;
    if (v->advice == BENCH_ADVICE_KEEP) {
        bench_line_put(l, "nothing");
    } else if (v->advice == BENCH_ADVICE_RECORD) {
        bench_verdict_write_what_tells(in, v, l);
    } else if (v->advice == BENCH_ADVICE_TOO_LARGE && !in->is_rmm) {
        bench_verdict_put_run(&in->devices[in->n_devices - 1], l);
    } else if (!is_change) {
        bench_line_put(l, "pleat fit '%s' --allocator torch-native,torch-expandable,pleat",
                       in->work);
    } else if (strcmp(v->setting, "torch-expandable") == 0) {
        put_conf(in, "True", l);
    } else if (strcmp(v->setting, "torch-native") == 0) {
        put_conf(in, "False", l);
    } else if (is_pleat(v->setting)) {
        put_pleat(in, v, l);
    } else {
        bench_line_put(l, "pleat replay '%s' --allocator %s --memory %lluM", in->work, v->setting,
                       (unsigned long long)(in->devices[v->device].bytes >> 20));
    }
}

void bench_verdict_write_lines(const bench_verdict_input *in, bench_verdict *out)
{
    bench_line lines[BENCH_VERDICT_LINES];
    for (unsigned i = 0; i < BENCH_VERDICT_LINES; i++) {
        out->lines[i][0] = '\0';
        lines[i] = (bench_line){ .text = out->lines[i] };
    }
    bench_verdict_write_recorded(&in->told, &lines[RECORDED]);
    bench_verdict_write_device(in, &lines[DEVICE]);
    write_needs(in, &lines[NEEDS]);
    bench_line_put(&lines[GROWS], "%s", in->told.growth);
    write_held(in, &lines[HELD]);
    write_runs_on(in, &lines[RUNS_ON]);
    write_advice(in, out, &lines[ADVICE]);
    bench_verdict_write_back(out, &lines[BACK]);
    write_type(in, out, &lines[TYPE]);
    if (out->advice == BENCH_ADVICE_RECORD && bench_told_wants_recording(&in->told)) {
        bench_verdict_write_calls(&in->told, &lines[AT_START], &lines[AT_END]);
    }
    for (unsigned i = 0; i < BENCH_VERDICT_LINES; i++) {
        char text[BENCH_VERDICT_BYTES]; /* names from outside may be no text */
        bench_text_clean(out->lines[i], lines[i].used, text, sizeof text);
        memcpy(out->lines[i], text, sizeof text);
    }
}
