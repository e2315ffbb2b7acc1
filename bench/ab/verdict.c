/* verdict.c - which setting to advise, by the rules of verdict.h. The lines: verdict_lines.c. */
#include "bench/ab/verdict.h"

#include <string.h>

#include "bench/ab/verdict_lines.h"
#include "bench/ab/verdict_words.h"

enum { MOST_CANDIDATES = BENCH_VERDICT_SETTINGS };

typedef struct candidates {
    unsigned of[MOST_CANDIDATES]; /* indices of settings, the simplest first */
    unsigned n;
} candidates;

const char *bench_advice_name(bench_advice advice)
{
    static const char *const names[] = {
        [BENCH_ADVICE_UNKNOWN] = "unknown",     [BENCH_ADVICE_KEEP] = "keep",
        [BENCH_ADVICE_NEARER] = "nearer",       [BENCH_ADVICE_SWITCH] = "switch",
        [BENCH_ADVICE_TOO_LARGE] = "too large", [BENCH_ADVICE_NOBODY] = "nobody",
        [BENCH_ADVICE_RECORD] = "record",
    };
    return names[advice];
}

static unsigned find(const bench_verdict_input *in, const char *allocator)
{
    unsigned i = 0;
    while (i < in->n_settings && strcmp(in->settings[i].allocator, allocator) != 0) {
        i++;
    }
    return i;
}

static void add(const bench_verdict_input *in, const char *allocator, candidates *out)
{
    unsigned index = find(in, allocator);
    if (index < in->n_settings) {
        out->of[out->n++] = index;
    }
}

/* Parts of what was held: a larger difference to the replay has a cause that the history does not
 * tell. The replays of five runs on real devices came within 1 % of what was held. A recording that
 * begins late begins with what was held before. */
enum { UNEXPLAINED_PARTS = 10 };

static bool is_unexplained(const bench_verdict_input *in, uint64_t replayed)
{
    uint64_t known = replayed + in->told.held_before_bytes;
    return replayed > 0 && in->own_bytes > known &&
           in->own_bytes - known > in->own_bytes / UNEXPLAINED_PARTS;
}

static void fail_below(uint64_t need, const bench_verdict_device *devices, unsigned n,
                       bench_outcome *outcomes)
{
    for (unsigned d = 0; d < n; d++) {
        bool completes = outcomes[d] == BENCH_OUTCOME_COMPLETES;
        outcomes[d] = completes && devices[d].bytes < need ? BENCH_OUTCOME_FAILS : outcomes[d];
    }
}

/* R11 */
static void forget_outcomes(bench_verdict_setting *setting)
{
    memset(setting->on, 0, sizeof setting->on); /* BENCH_OUTCOME_UNKNOWN */
    memset(setting->near, 0, sizeof setting->near);
}

void bench_verdict_explain(bench_verdict_input *in)
{
    unsigned own = in->own ? find(in, in->own) : in->n_settings;
    if (own < in->n_settings && is_unexplained(in, in->settings[own].held_bytes)) {
        in->told.unexplained_bytes = in->own_bytes;
        in->told.replayed_bytes = in->settings[own].held_bytes;
    }
    for (unsigned s = 0; s < in->n_settings && bench_told_lacks_reason(&in->told); s++) {
        bench_verdict_setting *setting = &in->settings[s];
        fail_below(in->need_bytes, in->devices, in->n_devices, setting->on);
        fail_below(in->need_bytes, in->near, in->n_near, setting->near);
    }
    for (unsigned s = 0; s < in->n_settings && !bench_told_rules_out(&in->told); s++) {
        forget_outcomes(&in->settings[s]);
    }
}

static candidates list(const bench_verdict_input *in, const char *in_force)
{
    const char *names[BENCH_VERDICT_CANDIDATES];
    unsigned n = bench_verdict_candidates(in, in_force, names);
    candidates out = { .n = 0 };
    for (unsigned i = 0; i < n; i++) {
        add(in, names[i], &out);
    }
    for (unsigned i = 0; i < in->n_settings && out.n < in->n_settings && out.n == i; i++) {
        out.of[out.n++] = i; /* none was measured: all are */
    }
    return out;
}

/* The first place where it completes; n = none. *is_sure: nothing before it was left out. */
static unsigned first_of(const bench_outcome *outcomes, unsigned n, bool *is_sure)
{
    *is_sure = true;
    unsigned i = 0;
    for (; i < n && outcomes[i] != BENCH_OUTCOME_COMPLETES; i++) {
        *is_sure = *is_sure && outcomes[i] == BENCH_OUTCOME_FAILS;
    }
    return i;
}

static bool is_measured(const bench_verdict_input *in)
{
    for (unsigned s = 0; s < in->n_settings; s++) {
        for (unsigned d = 0; d < in->n_devices; d++) {
            if (in->settings[s].on[d] != BENCH_OUTCOME_UNKNOWN) {
                return true;
            }
        }
    }
    return false;
}

/* R4: who completes nearer to the need than the first candidate does? `of[0]` if none. */
static unsigned nearest(const bench_verdict_input *in, const candidates *c, unsigned device,
                        const bench_verdict *verdict)
{
    bool is_sure;
    unsigned best = c->of[0];
    unsigned least = first_of(in->settings[best].near, in->n_near, &is_sure);
    if (!is_sure) {
        return best;
    }
    for (unsigned i = 1; i < c->n; i++) {
        unsigned s = c->of[i];
        unsigned at = first_of(in->settings[s].near, in->n_near, &is_sure);
        if (at < least && verdict->least[s] <= device) {
            least = at;
            best = s;
        }
    }
    return best;
}

static void choose(const bench_verdict_input *in, const candidates *c, bench_verdict *out)
{
    unsigned chosen = c->of[0];
    for (unsigned i = 1; i < c->n; i++) {
        if (out->least[c->of[i]] < out->least[chosen]) {
            chosen = c->of[i];
        }
    }
    unsigned device = out->least[chosen];
    out->device = device;
    if (device == BENCH_VERDICT_NOWHERE) {
        bool is_too_large = in->n_devices > 0 &&
                            in->need_bytes > in->devices[in->n_devices - 1].bytes;
        out->advice = is_too_large ? BENCH_ADVICE_TOO_LARGE : BENCH_ADVICE_NOBODY;
        return;
    }
    bool is_in_force = strcmp(in->settings[c->of[0]].allocator, out->in_force) == 0;
    if (chosen == c->of[0] && is_in_force) {
        chosen = nearest(in, c, device, out);
        out->advice = chosen == c->of[0] ? BENCH_ADVICE_KEEP : BENCH_ADVICE_NEARER;
    } else {
        out->advice = BENCH_ADVICE_SWITCH;
    }
    out->setting = in->settings[chosen].allocator;
}

/* R8, R11 */
static void doubt(const bench_verdict_input *in, bench_verdict *out)
{
    bool has_chosen = out->setting && !bench_told_is_whole(&in->told);
    if (has_chosen || !bench_told_rules_out(&in->told)) {
        out->so_far = out->setting;
        out->advice = BENCH_ADVICE_RECORD;
        out->setting = NULL;
        out->device = BENCH_VERDICT_NOWHERE;
    }
}

void bench_verdict_reach(const bench_verdict_input *in, bench_verdict *out)
{
    *out = (bench_verdict){ .device = BENCH_VERDICT_NOWHERE };
    out->in_force = in->own ? in->own : in->is_rmm ? "cuda-async" : "torch-native";
    candidates c = list(in, out->in_force);
    bool is_sure[BENCH_VERDICT_SETTINGS];
    for (unsigned s = 0; s < in->n_settings; s++) {
        unsigned at = first_of(in->settings[s].on, in->n_devices, &is_sure[s]);
        out->least[s] = at < in->n_devices ? at : BENCH_VERDICT_NOWHERE;
    }
    if (c.n > 0 && is_measured(in)) {
        choose(in, &c, out);
    }
    doubt(in, out);
    for (unsigned i = 0; i < c.n && out->advice != BENCH_ADVICE_RECORD; i++) {
        out->is_provisional = out->is_provisional || !is_sure[c.of[i]];
    }
    bench_verdict_write_lines(in, out);
}
