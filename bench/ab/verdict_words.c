/* verdict_words.c - see verdict_words.h. */
#include "bench/ab/verdict_words.h"

#include <string.h>

const char *bench_verdict_words_of(const char *allocator)
{
    if (strcmp(allocator, "torch-native") == 0) {
        return "PyTorch's default (torch-native)";
    }
    if (strcmp(allocator, BENCH_SETTING_COMPACT) == 0) {
        return "pleat with short:compact";
    }
    return strcmp(allocator, "torch-expandable") == 0 ? "expandable_segments:True" : allocator;
}

bool bench_verdict_is_measured(const bench_verdict_input *in, const char *allocator)
{
    for (unsigned s = 0; s < in->n_settings; s++) {
        for (unsigned d = 0; d < in->n_devices; d++) {
            if (strcmp(in->settings[s].allocator, allocator) == 0 &&
                in->settings[s].on[d] != BENCH_OUTCOME_UNKNOWN) {
                return true;
            }
        }
    }
    return false;
}

unsigned bench_verdict_candidates(const bench_verdict_input *in, const char *in_force,
                                  const char *out[BENCH_VERDICT_CANDIDATES])
{
    static const char *const of_pytorch[] = { "torch-native", "torch-expandable", "pleat", NULL };
    static const char *const of_rmm[] = { "cuda-async", "pleat", NULL };
    unsigned n = 0;
    out[n++] = in_force;
    for (const char *const *name = in->is_rmm ? of_rmm : of_pytorch; *name; name++) {
        if (strcmp(*name, in_force) != 0) {
            out[n++] = *name;
        }
    }
    if (bench_verdict_is_measured(in, BENCH_SETTING_COMPACT)) {
        out[n++] = BENCH_SETTING_COMPACT;
    }
    return n;
}

bool bench_verdict_has_all(const bench_verdict_input *in, const char *in_force)
{
    const char *names[BENCH_VERDICT_CANDIDATES];
    unsigned n = bench_verdict_candidates(in, in_force, names);
    bool has_all = true;
    for (unsigned i = 0; i < n; i++) {
        has_all = has_all && bench_verdict_is_measured(in, names[i]);
    }
    return has_all;
}

void bench_verdict_put_unmeasured(const bench_verdict_input *in, const char *in_force,
                                  bench_line *l)
{
    const char *names[BENCH_VERDICT_CANDIDATES];
    unsigned n = bench_verdict_candidates(in, in_force, names);
    unsigned n_put = 0;
    for (unsigned i = 0; i < n; i++) {
        if (!bench_verdict_is_measured(in, names[i])) {
            bench_line_put(l, "%s%s", n_put++ > 0 ? ", " : "; ", names[i]);
        }
    }
    if (n_put > 0) {
        bench_line_put(l, " %s not measured", n_put > 1 ? "were" : "was");
    }
}

unsigned bench_verdict_count(const bench_verdict_input *in, unsigned device, bench_outcome outcome)
{
    unsigned n = 0;
    for (unsigned s = 0; s < in->n_settings; s++) {
        n += in->settings[s].on[device] == outcome;
    }
    return n;
}

static bool are_alike(const bench_verdict_input *in, unsigned a, unsigned b)
{
    for (unsigned s = 0; s < in->n_settings; s++) {
        if (in->settings[s].on[a] != in->settings[s].on[b]) {
            return false;
        }
    }
    return (in->need_bytes > in->devices[a].bytes) == (in->need_bytes > in->devices[b].bytes);
}

void bench_verdict_put_names(const bench_verdict_input *in, unsigned device, bench_outcome outcome,
                             bench_line *l)
{
    const char *before = "";
    for (unsigned s = 0; s < in->n_settings; s++) {
        if (in->settings[s].on[device] == outcome) {
            bench_line_put(l, "%s%s", before, in->settings[s].allocator);
            before = ", ";
        }
    }
}

void bench_verdict_put_devices(const bench_verdict_input *in, unsigned first, unsigned end,
                               bench_line *l)
{
    for (unsigned d = first; d < end; d++) {
        const char *label = in->devices[d].label;
        const char *unit = strstr(label, " GB");
        bool is_last = d + 1 == end;
        int n = unit && !is_last ? (int)(unit - label) : (int)strlen(label);
        bench_line_put(l, "%.*s%s", n, label, is_last ? "" : ", ");
    }
}

unsigned bench_verdict_end_of(const bench_verdict_input *in, unsigned first)
{
    unsigned end = first + 1;
    while (end < in->n_devices && are_alike(in, first, end)) {
        end++;
    }
    return end;
}

unsigned bench_verdict_least_of(const bench_verdict_input *in, const bench_verdict *v,
                                const char *name)
{
    for (unsigned s = 0; s < in->n_settings; s++) {
        if (strcmp(in->settings[s].allocator, name) == 0) {
            return v->least[s];
        }
    }
    return BENCH_VERDICT_NOWHERE;
}

void bench_verdict_put_run(const bench_verdict_device *device, bench_line *l)
{
    const char *unit = strstr(device->label, " GB");
    bench_line_put(l, "pleat-runtime ");
    if (unit) {
        bench_line_put(l, "--card %.*sGB", (int)(unit - device->label), device->label);
    } else {
        bench_line_put(l, "--memory %lluM", (unsigned long long)(device->bytes >> 20));
    }
    bench_line_put(l, " python3 YOUR_SCRIPT.py");
}
