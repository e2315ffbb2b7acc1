/* growth.c - see growth.h. */
#include "bench/import/growth.h"

#include <stdlib.h>
#include <string.h>

#include "bench/base/line.h"
#include "bench/base/text.h"
#include "bench/import/optimizer_steps.h"
#include "bench/work/ids.h"

enum {
    LEAST_RISES = 3, /* the first step makes what stays, such as an optimizer's state */
    N_TOLD = 3,
    LINE_BYTES = 60, /* of a site: its last folder and file */
};

/* Live blocks of one line of code. */
typedef struct site {
    const char *line;
    size_t n_line;
    uint64_t n_blocks; /* now */
    uint64_t bytes;
    uint64_t n_before; /* when the last step began */
    uint64_t bytes_before;
    uint64_t n_rises; /* steps in a row, up to the last one */
    uint64_t n_more;  /* in these */
    uint64_t bytes_more;
} site;

typedef struct growth {
    const bench_snapshot *snapshot;
    uint32_t *site_of; /* by stack */
    site *sites;
    uint32_t n_sites;
    uint64_t n_steps;
    bench_host host;
    bench_ids live;  /* by address; slot: the entry of the allocation */
    bench_ids lines; /* by hash; slot: the site */
} growth;

/* ---- sites ---- */

static bool has(const char *line, size_t n, const char *word)
{
    return memmem(line, n, word, strlen(word)) != NULL;
}

static bool is_foreign(const char *line, size_t n)
{
    return has(line, n, "/torch/") || strncmp(line, "torch/", 6) == 0 || has(line, n, "libpleat");
}

/* The line of a stack that its reader can change, else the innermost. */
static const char *line_of(const char *stack, size_t *n_line)
{
    for (const char *line = stack; *line != '\0';) {
        *n_line = strcspn(line, "\n");
        if (!is_foreign(line, *n_line)) {
            return line;
        }
        line += *n_line + (line[*n_line] == '\n');
    }
    *n_line = strcspn(stack, "\n");
    return stack;
}

static uint64_t hash_of(const char *text, size_t n)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < n; i++) {
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static bool find_sites(growth *g)
{
    for (uint32_t i = 0; i < g->snapshot->n_stacks; i++) {
        size_t n_line;
        const char *line = line_of(g->snapshot->stacks[i], &n_line);
        bench_id *id = bench_ids_get(&g->lines, hash_of(line, n_line));
        if (!id) {
            return false;
        }
        if (!id->is_live) {
            bench_ids_begin(&g->lines, id);
            id->slot = g->n_sites;
            g->sites[g->n_sites++] = (site){ .line = line, .n_line = n_line };
        }
        g->site_of[i] = id->slot;
    }
    return true;
}

/* ---- steps ---- */

static void begin_step(growth *g)
{
    for (uint32_t i = 0; i < g->n_sites; i++) {
        site *s = &g->sites[i];
        if (s->n_blocks > s->n_before && g->n_steps > 0) {
            s->n_rises++;
            s->n_more += s->n_blocks - s->n_before;
            s->bytes_more += s->bytes > s->bytes_before ? s->bytes - s->bytes_before : 0;
        } else {
            s->n_rises = s->n_more = s->bytes_more = 0;
        }
        s->n_before = s->n_blocks;
        s->bytes_before = s->bytes;
    }
    g->n_steps++;
}

static void count_alloc(growth *g, const bench_snapshot_entry *entry, bench_id *id)
{
    site *s = entry->stack > 0 ? &g->sites[g->site_of[entry->stack - 1]] : NULL;
    if (!s || id->is_live) {
        return;
    }
    bench_ids_begin(&g->live, id);
    id->slot = (uint32_t)(entry - g->snapshot->entries);
    s->n_blocks++;
    s->bytes += entry->bytes;
}

static void count_free(growth *g, bench_id *id)
{
    const bench_snapshot_entry *born = &g->snapshot->entries[id->slot];
    site *s = &g->sites[g->site_of[born->stack - 1]];
    bench_ids_end(&g->live, id);
    s->n_blocks--;
    s->bytes -= born->bytes;
}

/* Of a free's two entries the first one counts. False: no host memory. */
static bool count(growth *g, const bench_snapshot_entry *entry)
{
    if (entry->action > BENCH_SNAPSHOT_FREE_COMPLETED) {
        return true;
    }
    bench_id *id = bench_ids_get(&g->live, entry->address);
    if (id && entry->action == BENCH_SNAPSHOT_ALLOC) {
        count_alloc(g, entry, id);
    } else if (id && id->is_live) {
        count_free(g, id);
    }
    return id != NULL;
}

static bool count_by_optimizer(growth *g)
{
    bench_stepper stepper;
    bool ok = bench_stepper_init(&stepper, g->snapshot);
    for (size_t i = 0; ok && i < g->snapshot->n_entries; i++) {
        const bench_snapshot_entry *entry = &g->snapshot->entries[i];
        if (bench_stepper_begins(&stepper, entry)) {
            begin_step(g);
        }
        ok = count(g, entry);
    }
    bench_stepper_fini(&stepper);
    return ok;
}

/* The entries at which live memory is lowest between two rises by `depth`: marks them in `lows`. */
static void find_lows(const bench_snapshot *snapshot, uint64_t depth, bool *lows)
{
    int64_t rise = (int64_t)depth;
    int64_t level = 0;
    int64_t high = 0;
    int64_t low = 0;
    size_t low_at = 0;
    bool is_down = false;
    for (size_t i = 0; i < snapshot->n_entries; i++) {
        const bench_snapshot_entry *entry = &snapshot->entries[i];
        if (entry->action > BENCH_SNAPSHOT_FREE_REQUESTED) {
            continue;
        }
        bool is_alloc = entry->action == BENCH_SNAPSHOT_ALLOC;
        level += is_alloc ? (int64_t)entry->bytes : -(int64_t)entry->bytes;
        if (is_down && level >= low + rise) {
            lows[low_at] = true;
            is_down = false;
            high = level;
        } else if (is_down ? level < low : high - level >= rise) {
            is_down = true;
            low = level;
            low_at = i;
        }
        high = level > high ? level : high;
    }
}

static bool count_by_lows(growth *g, uint64_t depth)
{
    bool *lows = calloc(g->snapshot->n_entries + 1, sizeof *lows);
    bool ok = lows != NULL;
    if (ok) {
        find_lows(g->snapshot, depth, lows);
    }
    for (size_t i = 0; ok && i < g->snapshot->n_entries; i++) {
        ok = count(g, &g->snapshot->entries[i]);
        if (lows[i]) {
            begin_step(g);
        }
    }
    free(lows);
    return ok;
}

/* ---- telling ---- */

static bool is_growing(const growth *g, const site *s)
{
    return s->n_rises >= LEAST_RISES && 4 * s->n_rises >= 3 * (g->n_steps - 1);
}

static double each(uint64_t sum, const site *s)
{
    return (double)sum / (double)s->n_rises;
}

static int by_bytes(const void *a, const void *b)
{
    const site *x = a;
    const site *y = b;
    double mine = x->n_rises > 0 ? each(x->bytes_more, x) : 0;
    double other = y->n_rises > 0 ? each(y->bytes_more, y) : 0;
    return mine != other ? (mine < other) - (mine > other)
                         : (x->line > y->line) - (x->line < y->line);
}

/* A frame without the folders above its last one. */
static void put_line(const site *s, bench_line *l)
{
    const char *start = s->line;
    unsigned n_slashes = 0;
    for (size_t i = s->n_line; i-- > 0 && n_slashes < 2;) {
        n_slashes += s->line[i] == '/';
        start = n_slashes == 2 ? s->line + i + 1 : start;
    }
    size_t n = s->n_line - (size_t)(start - s->line);
    bench_line_put(l, "%.*s", (int)(n < LINE_BYTES ? n : LINE_BYTES), start);
}

static void tell(growth *g, char out[BENCH_GROWTH_BYTES])
{
    char text[BENCH_LINE_BYTES] = "";
    bench_line l = { .text = text };
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n_sites; i++) {
        if (is_growing(g, &g->sites[i])) {
            g->sites[n++] = g->sites[i];
        }
    }
    qsort(g->sites, n, sizeof *g->sites, by_bytes);
    for (uint32_t i = 0; i < n && i < N_TOLD; i++) {
        const site *s = &g->sites[i];
        double n_blocks = each(s->n_more, s);
        bench_line_put(&l, "%s%.*f block%s, ", i > 0 ? "; " : "by ", s->n_more % s->n_rises ? 1 : 0,
                       n_blocks, s->n_more == s->n_rises ? "" : "s");
        bench_line_size(&l, each(s->bytes_more, s));
        bench_line_put(&l, " a step, from ");
        put_line(s, &l);
    }
    if (n > N_TOLD) {
        bench_line_put(&l, "; and %u more lines", n - N_TOLD);
    }
    bench_text_clean(text, l.used, out, BENCH_GROWTH_BYTES);
}

static bool look(growth *g, const bench_steps *steps)
{
    bool has_steps = bench_optimizer_steps(g->snapshot) > LEAST_RISES;
    if (!g->sites || !g->site_of || !find_sites(g)) {
        return false;
    }
    return has_steps               ? count_by_optimizer(g)
           : steps->rise_bytes > 0 ? count_by_lows(g, steps->depth_bytes)
                                   : false;
}

void bench_growth_look(const bench_snapshot *snapshot, const bench_steps *steps,
                       char out[BENCH_GROWTH_BYTES])
{
    growth g = { .snapshot = snapshot };
    size_t n = snapshot->n_stacks;
    out[0] = '\0';
    if (n == 0) {
        return;
    }
    g.sites = calloc(n, sizeof *g.sites);
    g.site_of = calloc(n, sizeof *g.site_of);
    if (bench_ids_init(&g.live, &g.host, true) && bench_ids_init(&g.lines, &g.host, false) &&
        look(&g, steps)) {
        tell(&g, out);
    }
    bench_ids_fini(&g.live);
    bench_ids_fini(&g.lines);
    free(g.sites);
    free(g.site_of);
}
