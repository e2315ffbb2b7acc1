/* verdict_card.c - see verdict_card.h. */
#include "bench/ab/verdict_card.h"

#include <string.h>

#include "bench/ab/verdict_words.h"
#include "bench/base/cards.h"

static bool is_change(const bench_verdict *v)
{
    return v->advice == BENCH_ADVICE_SWITCH || v->advice == BENCH_ADVICE_NEARER;
}

static const bench_verdict_setting *find(const bench_verdict_input *in, const char *name)
{
    for (unsigned s = 0; s < in->n_settings; s++) {
        if (strcmp(in->settings[s].allocator, name) == 0) {
            return &in->settings[s];
        }
    }
    return NULL;
}

/* Does the setting complete on a device with these bytes? It held less without limit, or completes
 * on a smaller multiple of the need. */
static bool does_with(const bench_verdict_input *in, const bench_verdict_setting *setting,
                      uint64_t bytes)
{
    if (setting->held_bytes > 0 && setting->held_bytes <= bytes) {
        return true;
    }
    for (unsigned n = 0; n < in->n_near; n++) {
        if (setting->near[n] == BENCH_OUTCOME_COMPLETES && in->near[n].bytes <= bytes) {
            return true;
        }
    }
    return false;
}

/* The simplest candidate before the advised one that does with the bytes; NULL = none. */
static const char *simpler(const bench_verdict_input *in, const bench_verdict *v, uint64_t bytes)
{
    const char *names[BENCH_VERDICT_CANDIDATES];
    unsigned n = bench_verdict_candidates(in, v->in_force, names);
    for (unsigned i = 0; i < n && strcmp(names[i], v->setting) != 0; i++) {
        const bench_verdict_setting *setting = find(in, names[i]);
        if (setting && does_with(in, setting, bytes)) {
            return names[i];
        }
    }
    return NULL;
}

void bench_verdict_put_card(const bench_verdict_input *in, const bench_verdict *v, bench_line *l)
{
    if (!v->setting || v->device >= in->n_devices) {
        return;
    }
    const bench_verdict_device *device = &in->devices[v->device];
    const bench_card *card = bench_card_of(device->label, device->bytes);
    if (!card) {
        return;
    }
    bench_line_put(l, "; %s are ", card->label);
    bench_line_size(l, (double)card->bytes);
    bench_line_put(l, " for tensors (%s)", card->examples);
    bool is_switch = card->larger && v->advice == BENCH_ADVICE_SWITCH;
    const char *other = is_switch ? simpler(in, v, card->larger_bytes) : NULL;
    if (other) {
        bench_line_put(l, ", and ");
        bench_line_size(l, (double)card->larger_bytes);
        bench_line_put(l, " on others (%s): there %s suffices", card->larger,
                       bench_verdict_words_of(other));
    }
}

void bench_verdict_put_time(const bench_verdict_input *in, const bench_verdict *v, bench_line *l)
{
    const bench_verdict_setting *chosen = v->setting ? find(in, v->setting) : NULL;
    if (!chosen || !is_change(v) || v->device >= in->n_devices ||
        chosen->driver_ms[v->device] <= 0.0) {
        return;
    }
    bench_line_put(l, "; driver calls take %.2f s there in a first pass%s",
                   chosen->driver_ms[v->device] / 1e3, in->is_simulated ? ", modelled" : "");
    unsigned least = bench_verdict_least_of(in, v, v->in_force);
    const bench_verdict_setting *now = find(in, v->in_force);
    if (now && now != chosen && least < in->n_devices && now->driver_ms[least] > 0.0) {
        bench_line_put(l, " (%s, on %s: %.2f s)", now->allocator, in->devices[least].label,
                       now->driver_ms[least] / 1e3);
    }
}

void bench_verdict_write_back(const bench_verdict *v, bench_line *l)
{
    if (is_change(v)) {
        bench_line_put(l, "leave out what the next line adds, and start the program again: a "
                          "process keeps its allocator until it ends");
    }
}
