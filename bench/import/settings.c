/* settings.c - see settings.h. */
#include "bench/import/settings.h"

#include <string.h>

#include "bench/base/text.h"
#include "bench/import/words.h"

typedef bench_pickle_value value;

static bool is_true(const value *v)
{
    return v && v->kind == BENCH_PICKLE_BOOL && v->as.integer;
}

/* NULL also without settings. */
static const value *setting(const value *root, unsigned key)
{
    const value *settings = bench_pickle_get(root, BENCH_WORD_SETTINGS);
    return settings ? bench_pickle_get(settings, key) : NULL;
}

static void read_allocator(const value *root, bench_snapshot *out)
{
    const value *name = bench_pickle_get(root, BENCH_WORD_PLEAT_ALLOCATOR);
    if (name && name->kind == BENCH_PICKLE_TEXT) {
        bench_text_clean(name->as.text, name->length, out->allocator, sizeof out->allocator);
    }
}

static bool read_conf(const char *path, const value *root, bench_snapshot *out,
                      bench_failure *failure)
{
    const value *conf = setting(root, BENCH_WORD_CUDA_ALLOC_CONF);
    conf = conf ? conf : setting(root, BENCH_WORD_ALLOC_CONF);
    if (!conf || conf->kind != BENCH_PICKLE_TEXT) {
        return true;
    }
    if (conf->length >= sizeof out->conf || memchr(conf->as.text, 0, conf->length)) {
        return bench_fail(failure, "%s: byte %lu: the settings are absurd", path,
                          (unsigned long)conf->at);
    }
    memcpy(out->conf, conf->as.text, conf->length);
    out->conf[conf->length] = '\0';
    return true;
}

bool bench_snapshot_settings(const char *path, const bench_pickle_value *root, bench_snapshot *out,
                             bench_failure *failure)
{
    read_allocator(root, out);
    const value *most = setting(root, BENCH_WORD_MOST_ENTRIES);
    out->is_full = is_true(setting(root, BENCH_WORD_OVERFLOWED)) ||
                   (most && most->kind == BENCH_PICKLE_INTEGER && most->as.integer > 0 &&
                    (uint64_t)most->as.integer <= out->n_entries);
    const value *expandable = setting(root, BENCH_WORD_EXPANDABLE_SEGMENTS);
    bool is_set = expandable && expandable->kind == BENCH_PICKLE_BOOL;
    out->is_expandable = is_set ? is_true(expandable) : out->has_expandable;
    return read_conf(path, root, out, failure);
}
