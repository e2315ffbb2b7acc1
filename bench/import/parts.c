/* parts.c - see parts.h. */
#include "bench/import/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/base/text.h"
#include "bench/import/words.h"

typedef bench_pickle_value value;
typedef bench_pickle_node node;

enum { MOST_NAMED = 8 };

static bool is_snapshot(const value *v)
{
    return bench_pickle_get(v, BENCH_WORD_SEGMENTS) ||
           bench_pickle_get(v, BENCH_WORD_DEVICE_TRACES);
}

/* All of one kind, and not none. */
static bool is_list_of(const value *list, bool (*is_one)(const value *))
{
    const node *of = list->kind == BENCH_PICKLE_LIST ? list->as.node : NULL;
    bool is_so = of && !of->folded && of->n > 0;
    for (uint32_t i = 0; is_so && i < of->n; i++) {
        is_so = is_one(&of->of.items[i]);
    }
    return is_so;
}

static bool is_segment(const value *v)
{
    return bench_pickle_get(v, BENCH_WORD_BLOCKS) != NULL;
}

static bool is_part(const value *v)
{
    return is_snapshot(v) || is_list_of(v, is_segment);
}

bool bench_parts_keeps(const value *v)
{
    return is_part(v) || is_list_of(v, is_part);
}

/* Snapshot number *at of `root`, and its key; NULL: no more. *at is where to go on. */
static const value *next_part(const value *root, uint32_t *at, const value **key)
{
    *key = NULL;
    const node *of = root->kind == BENCH_PICKLE_DICT || root->kind == BENCH_PICKLE_LIST
                         ? root->as.node
                         : NULL;
    while (of && !of->folded && *at < of->n) {
        const value *item = &of->of.items[(*at)++];
        bool is_key = root->kind == BENCH_PICKLE_DICT && item->key == 0;
        if (is_key) {
            *key = item;
            item = &of->of.items[(*at)++];
        }
        if (is_part(item)) {
            return item;
        }
    }
    return NULL;
}

static unsigned count_parts(const value *root)
{
    const value *key;
    unsigned n = 0;
    for (uint32_t at = 0; next_part(root, &at, &key);) {
        n++;
    }
    return n;
}

/* What cannot be typed behind a file's name, or read again in a message, has its place as name. */
static void name_part(const value *key, unsigned place, bench_rank_name out)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    snprintf(out, BENCH_RANK_BYTES, "%u", place);
    if (key && key->kind == BENCH_PICKLE_INTEGER) {
        snprintf(out, BENCH_RANK_BYTES, "%lld", (long long)key->as.integer);
    } else if (key && key->kind == BENCH_PICKLE_TEXT && key->length > 0 &&
               key->length < BENCH_RANK_BYTES) {
        char text[BENCH_RANK_BYTES];
        memcpy(text, key->as.text, key->length);
        text[key->length] = '\0';
        if (strspn(text, safe) == key->length) {
            snprintf(out, BENCH_RANK_BYTES, "%s", text);
        }
    }
}

/* By its name, or else by its place. */
static const value *find_part(const value *root, const char *rank)
{
    for (int by_place = 0; by_place < 2; by_place++) {
        const value *key;
        const value *part;
        unsigned n = 0;
        for (uint32_t at = 0; (part = next_part(root, &at, &key)) != NULL; n++) {
            bench_rank_name name;
            name_part(by_place ? NULL : key, n, name);
            if (strcmp(name, rank) == 0) {
                return part;
            }
        }
    }
    return NULL;
}

static const char *list_names(const value *root, char *out, size_t n)
{
    const value *key;
    size_t used = 0;
    unsigned n_named = 0;
    for (uint32_t at = 0; next_part(root, &at, &key) && used < n; n_named++) {
        bench_rank_name name;
        name_part(key, n_named, name);
        const char *text = n_named < MOST_NAMED ? name : "...";
        used += (size_t)snprintf(out + used, n - used, "%s%s", n_named ? ", " : "", text);
        if (n_named == MOST_NAMED) {
            break;
        }
    }
    return out;
}

static bool refuse(const char *path, const value *root, bench_failure *failure)
{
    const char *what = bench_pickle_kind_text(root);
    if (root->kind == BENCH_PICKLE_DICT) {
        what = "a dictionary of other things";
    } else if (root->kind == BENCH_PICKLE_LIST) {
        what = root->as.node->n == 0 ? "an empty list" : "a list of other things";
    }
    return bench_fail(failure,
                      "%s: byte %lu: the file holds %s and no snapshot of PyTorch's. "
                      "torch.cuda.memory._dump_snapshot(FILE) writes a dictionary with 'segments' "
                      "and 'device_traces'; torch.cuda.memory_snapshot() returns a list of "
                      "segments",
                      path, (unsigned long)root->at, what);
}

bool bench_parts_choose(const char *path, const value *root, const char *rank, const value **out,
                        bench_failure *failure)
{
    char names[MOST_NAMED * (BENCH_RANK_BYTES + 2) + 8] = "";
    bench_rank_name first = "";
    const value *key;
    uint32_t at = 0;
    bool is_one = is_part(root);
    *out = is_one ? root : next_part(root, &at, &key);
    if (!*out) {
        return refuse(path, root, failure);
    }
    if (!is_one) {
        name_part(key, 0, first);
        list_names(root, names, sizeof names);
    }
    if (rank && !is_one) {
        *out = find_part(root, rank);
    }
    if (rank && (is_one || !*out)) {
        return bench_fail(failure, "%s: no rank '%s': the file holds %s%s", path, rank,
                          is_one ? "one snapshot, of no rank" : "those of ", names);
    }
    unsigned n = is_one ? 1 : count_parts(root);
    return rank || n == 1 ||
           bench_fail(failure,
                      "%s: the file holds the snapshots of %u ranks: %s. Name one, as in "
                      "'%s:rank=%s'; `pleat ab` takes all, and with --job as one job",
                      path, n, names, path, first);
}

bool bench_parts_name(const value *root, bench_rank_name **names, unsigned *n)
{
    *names = NULL;
    *n = is_part(root) ? 0 : count_parts(root);
    if (*n < 2) {
        *n = 0;
        return true;
    }
    *names = calloc(*n, sizeof **names);
    const value *key;
    unsigned i = 0;
    for (uint32_t at = 0; *names && next_part(root, &at, &key); i++) {
        name_part(key, i, (*names)[i]);
    }
    return *names != NULL;
}
