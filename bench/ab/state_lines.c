/* state_lines.c - see state_lines.h. */
#include "bench/ab/state_lines.h"

#include <stdlib.h>
#include <string.h>

#include "bench/ab/moment_rows.h"
#include "bench/run/state.h"

enum { MOST_NAMED = 4, SITE_BYTES = 256 };

const char *const bench_state_titles[BENCH_STATE_LINES] = { "snapshot", "stranded", "cached",
                                                            "anew" };

/* ---- who strands ---- */

typedef struct site {
    char name[SITE_BYTES];
    uint64_t charged_bytes;
    uint64_t live_bytes;
    uint64_t n_blocks;
} site;

static bool is_of_pytorch(const char *frame, size_t n)
{
    return memmem(frame, n, "/torch/", 7) || strncmp(frame, "torch/", 6) == 0;
}

/* The frame that its reader can change: the innermost one in Python that is not PyTorch's own, or
 * else the innermost in Python, or else the innermost. */
static void name_frame(const char *stack, char out[SITE_BYTES])
{
    const char *found = stack;
    bool is_python = false;
    for (const char *frame = stack; *frame;) {
        size_t n = strcspn(frame, "\n");
        bool has_python = memmem(frame, n, ".py:", 4) != NULL;
        if (has_python && !is_of_pytorch(frame, n)) {
            found = frame;
            break;
        }
        found = has_python && !is_python ? frame : found;
        is_python = is_python || has_python;
        frame += n + (frame[n] == '\n');
    }
    snprintf(out, SITE_BYTES, "%.*s", (int)strcspn(found, "\n"), found);
}

static void name_site(const bench_origin *origin, const bench_holder *h, char out[SITE_BYTES])
{
    if (h->is_pending) {
        snprintf(out, SITE_BYTES, "freed blocks that other streams still use");
    } else if (h->stack >= 0) {
        name_frame(origin->stacks[h->stack], out);
    } else {
        bench_line l = { .text = (char[BENCH_LINE_BYTES]){ 0 } };
        bench_line_size(&l, (double)h->bytes);
        snprintf(out, SITE_BYTES, "blocks of %s, stream %d", l.text, h->stream);
    }
}

static int most_charged_first(const void *a, const void *b)
{
    const site *x = a;
    const site *y = b;
    return (x->charged_bytes < y->charged_bytes) - (x->charged_bytes > y->charged_bytes);
}

/* Holders of one site are one. Returns the number of sites that strand anything. */
static unsigned find_sites(const bench_origin *origin, const bench_moment *moment, site *sites)
{
    unsigned n = 0;
    for (unsigned i = 0; i < moment->n_holders; i++) {
        const bench_holder *h = &moment->holders[i];
        site *s = &sites[n];
        name_site(origin, h, s->name);
        unsigned k = 0;
        while (k < n && strcmp(sites[k].name, s->name) != 0) {
            k++;
        }
        if (k == n) {
            s->charged_bytes = s->live_bytes = s->n_blocks = 0;
            n++;
        }
        sites[k].charged_bytes += h->charged_bytes;
        sites[k].live_bytes += h->live_bytes;
        sites[k].n_blocks += h->n_blocks;
    }
    qsort(sites, n, sizeof *sites, most_charged_first);
    while (n > 0 && sites[n - 1].charged_bytes == 0) {
        n--;
    }
    return n;
}

static void put_sites(const bench_origin *origin, const bench_moment *moment, bench_line *l)
{
    site *sites = calloc(moment->n_holders + 1u, sizeof *sites);
    unsigned n = sites ? find_sites(origin, moment, sites) : 0;
    for (unsigned i = 0; i < n && i < MOST_NAMED; i++) {
        bench_line_put(l, "%s", i > 0 ? "; " : ". Beside: ");
        bench_line_size(l, (double)sites[i].charged_bytes);
        bench_line_put(l, " by %s (", sites[i].name);
        bench_line_count(l, sites[i].n_blocks);
        bench_line_put(l, " block%s, ", sites[i].n_blocks == 1 ? "" : "s");
        bench_line_size(l, (double)sites[i].live_bytes);
        bench_line_put(l, ")");
    }
    if (n > MOST_NAMED) {
        bench_line_put(l, "; ");
        bench_line_count(l, n - MOST_NAMED);
        bench_line_put(l, " more on the page");
    }
    free(sites);
}

/* ---- lines ---- */

static void put_held(const bench_state_figures *f, bench_line *l)
{
    bench_line_size(l, (double)f->held_bytes);
    bench_line_put(l, " were held from the driver in ");
    bench_line_count(l, f->n_segments);
    bench_line_put(l, " segment%s: ", f->n_segments == 1 ? "" : "s");
    bench_line_size(l, (double)f->live_bytes);
    bench_line_put(l, " live in ");
    bench_line_count(l, f->n_live);
    bench_line_put(l, " block%s", f->n_live == 1 ? "" : "s");
    if (f->pending_bytes > 0) {
        bench_line_put(l, ", ");
        bench_line_size(l, (double)f->pending_bytes);
        bench_line_put(l, " freed and waiting for other streams");
    }
    bench_line_put(l, ", ");
    bench_line_size(l, (double)(f->stranded_bytes + f->returnable_bytes));
    bench_line_put(l, " free");
}

static void put_stranded(const bench_origin *origin, const bench_moment *moment,
                         const bench_state_figures *f, bench_line *l)
{
    if (f->stranded_bytes == 0) {
        bench_line_put(l, "nothing: no block in use has free memory in its segment");
        return;
    }
    bench_line_size(l, (double)f->stranded_bytes);
    bench_line_put(l, " are free in segments partly in use: empty_cache() does not give them back, "
                      "and only requests that fit into a gap get them");
    put_sites(origin, moment, l);
}

static void put_cached(const bench_state_figures *f, bench_line *l)
{
    bool is_one = !f->has_pages && f->n_free_segments == 1;
    if (f->returnable_bytes == 0) {
        bench_line_put(l, "nothing that torch.cuda.empty_cache() gives back");
    } else {
        bench_line_size(l, (double)f->returnable_bytes);
        bench_line_put(l, " in ");
        if (!f->has_pages) {
            bench_line_count(l, f->n_free_segments);
        }
        bench_line_put(l, "%s wholly free %s%s", f->has_pages ? "the" : "",
                       f->has_pages ? "page" : "segment", is_one ? "" : "s");
        bench_line_put(l, ", which torch.cuda.empty_cache() gives back");
    }
    if (f->largest_free_bytes > 0) {
        bench_line_put(l, "; the largest free block has ");
        bench_line_size(l, (double)f->largest_free_bytes);
        bench_line_put(l, ", so a larger request needs new memory");
    }
}

/* With a history a replay holds more than these blocks. */
static void put_anew(const bench_verdict_input *in, bench_line *l)
{
    if (!in->told.has_no_history) {
        return;
    }
    const char *before = "the same live blocks, allocated once more in the order of their "
                         "addresses, hold: ";
    for (unsigned s = 0; s < in->n_settings; s++) {
        if (in->settings[s].held_bytes > 0) {
            bench_line_put(l, "%s%s ", before, in->settings[s].allocator);
            bench_line_size(l, (double)in->settings[s].held_bytes);
            before = ", ";
        }
    }
}

static bool take(const bench_work *work, bench_moment **moment, bench_state_figures *figures)
{
    bench_failure failure;
    *moment = NULL;
    if (!bench_state_matters(&work->origin)) {
        return false;
    }
    *moment = calloc(1, sizeof **moment);
    return *moment && bench_state_take(&work->origin, *moment, figures, &failure);
}

void bench_state_write(const bench_work *work, const bench_verdict_input *in, bench_state_text *out)
{
    bench_moment *moment;
    bench_state_figures figures;
    memset(out, 0, sizeof *out);
    if (take(work, &moment, &figures)) {
        put_held(&figures, &(bench_line){ .text = out->lines[BENCH_STATE_SNAPSHOT] });
        put_stranded(&work->origin, moment, &figures,
                     &(bench_line){ .text = out->lines[BENCH_STATE_STRANDED] });
        put_cached(&figures, &(bench_line){ .text = out->lines[BENCH_STATE_CACHED] });
        put_anew(in, &(bench_line){ .text = out->lines[BENCH_STATE_ANEW] });
    }
    free(moment);
}

void bench_state_set(const bench_work *work, const bench_verdict_input *in, json_t *verdict)
{
    bench_state_text text;
    bench_state_write(work, in, &text);
    json_t *lines = json_array();
    for (unsigned i = 0; i < BENCH_STATE_LINES; i++) {
        if (text.lines[i][0]) {
            json_array_append_new(lines, json_pack("[ss]", bench_state_titles[i], text.lines[i]));
        }
    }
    if (json_array_size(lines) > 0) {
        json_object_set(verdict, "state_lines", lines);
    }
    json_decref(lines);
}

bool bench_state_row(const bench_work *work, FILE *file)
{
    bench_moment *moment;
    bench_state_figures figures;
    bool ok = true;
    if (take(work, &moment, &figures)) {
        char *line = bench_moment_state_line(work, moment);
        ok = line && fputs(line, file) != EOF && fflush(file) == 0;
        free(line);
    }
    free(moment);
    return ok;
}
