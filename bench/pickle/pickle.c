/* pickle.c - runs a pickle on the machine (pickle_machine.h), from protocol to stop; JSON likewise.
 *
 * Without recursion: the reader of the result follows the few known levels. */
#include "bench/pickle/pickle.h"

#include <stdlib.h>
#include <string.h>

#include "bench/pickle/json.h"
#include "bench/pickle/pickle_machine.h"
#include "bench/pickle/pickle_opcode.h"
#include "bench/pickle/zip.h"

enum { PEEK_BYTES = 1024 };

/* The most host memory for a file, besides the file itself. Snapshots take about their
 * bytes. A few MiB of gzip may become GiB of opcodes, so every file has a limit. */
#define MOST_HOST_BYTES ((uint64_t)8 << 30)

static uint64_t usual_host_bytes(size_t n_bytes)
{
    uint64_t most = ((uint64_t)16 << 20) + 32 * (uint64_t)n_bytes;
    return most < MOST_HOST_BYTES ? most : MOST_HOST_BYTES;
}

static bool skip_frame(machine *m)
{
    uint64_t length;
    return bench_pickle_take_number(m, 8, &length) &&
           (length <= m->n - m->at || bench_pickle_cut_short(m));
}

/* Files of torch.save had no archive once, but several pickles. The first is a magic number. */
static bool stop(machine *m)
{
    if (m->n_marks || m->stack.n != 1) {
        return bench_pickle_complain(m, "not one value, but %zu are left", m->stack.n);
    }
    m->is_over = true;
    if (m->at < m->n && m->stack.of[0].kind == BENCH_PICKLE_HUGE) {
        return bench_fail(m->failure,
                          "%s: an old file of torch.save, which is several pickles: load it, and "
                          "write it again by pickle.dump",
                          m->path);
    }
    return m->at == m->n || bench_pickle_complain(m, "%zu bytes follow it", m->n - m->at);
}

static bool step(machine *m)
{
    switch (m->opcode) {
    case PICKLE_FRAME:
        return skip_frame(m);
    case PICKLE_STOP:
        return stop(m);
    default:
        return bench_pickle_step_scalar(m);
    }
}

/* Protocols 0 and 1 do not name themselves. */
static bool start(machine *m)
{
    if (m->n == 1 && m->data[0] == PICKLE_PROTO) {
        return bench_pickle_cut_short(m);
    }
    if (m->n == 0 || !bench_pickle_opcode_name(m->data[0])) {
        return bench_fail(m->failure, "%s: byte 0: neither a pickle nor JSON", m->path);
    }
    m->opcode = m->data[0];
    m->at = m->opcode == PICKLE_PROTO ? 2 : 0;
    unsigned protocol = m->at ? m->data[1] : 0;
    return m->at == 0 || (protocol >= 2 && protocol <= 5) ||
           bench_pickle_complain(m, "protocol %u is not known; 0 to 5 are", protocol);
}

/* A thousand opcodes take no time. */
enum { SHOWN_EVERY = 1024 };

static bool run_pickle(machine *m)
{
    if (!start(m)) {
        return false;
    }
    for (unsigned n = 0; !m->is_over; n++) {
        if (m->at == m->n) {
            return bench_pickle_cut_short(m);
        }
        if (m->progress && n % SHOWN_EVERY == 0) {
            bench_progress_step(m->progress, (double)m->at / (double)m->n);
        }
        m->opcode_at = m->at;
        m->opcode = m->data[m->at++];
        if (!step(m)) {
            return false;
        }
    }
    return true;
}

static bool run(machine *m)
{
    m->is_json = bench_json_is(m->data, m->n);
    return m->is_json ? bench_json_run(m) : run_pickle(m);
}

/* ---- progress: reading the bytes is the first half ---- */

typedef struct halves {
    bench_progress *of;
    double begin;
} halves;

static void tell_half(void *context, double fraction)
{
    const halves *h = context;
    bench_progress_step(h->of, h->begin + fraction / 2.0);
}

/* ---- all ---- */

static bool read_bytes(const char *path, const bench_limits *limits, bench_bytes *bytes,
                       bench_bytes *member, bench_failure *failure)
{
    if (!bench_bytes_read(path, limits, bytes, failure)) {
        return false;
    }
    *member = *bytes;
    if (!bench_zip_is(bytes->data, bytes->n) ||
        bench_zip_find(path, limits, bytes, member, failure)) {
        return true;
    }
    bench_bytes_free(bytes);
    return false;
}

bool bench_pickle_read(const char *path, const bench_limits *limits,
                       const bench_pickle_wants *wants, bench_pickle *out)
{
    bench_bytes bytes;
    bench_bytes member;
    halves half = { .of = limits ? limits->progress : NULL };
    bench_progress shown = { .tell = tell_half, .context = &half };
    bench_limits within = limits ? *limits : (bench_limits){ .progress = NULL };
    within.progress = half.of ? &shown : NULL;
    if (!read_bytes(path, &within, &bytes, &member, wants->failure)) {
        return false;
    }
    half.begin = 0.5;
    machine m = {
        .path = path,
        .wants = wants,
        .failure = wants->failure,
        .progress = within.progress,
        .data = member.data,
        .n = member.n,
        .most_host_bytes = within.host_bytes ? within.host_bytes : usual_host_bytes(member.n),
    };
    bool ok = run(&m);
    if (ok) {
        *out = (bench_pickle){
            .bytes = bytes, .n_bytes = member.n, .root = m.stack.of[0], .pieces = m.pieces
        };
    } else {
        bench_pickle_free_pieces(m.pieces);
        bench_bytes_free(&bytes);
    }
    free(m.stack.of);
    free(m.memo.of);
    return ok;
}

void bench_pickle_free(bench_pickle *pickle)
{
    bench_pickle_free_pieces(pickle->pieces);
    bench_bytes_free(&pickle->bytes);
    *pickle = (bench_pickle){ .pieces = NULL };
}

/* Run over the first bytes until they end: what is on the stack then has begun. */
bool bench_pickle_begins_with_word(const char *path, const char *const *words)
{
    char begin[PEEK_BYTES];
    size_t n = 0;
    bench_failure failure;
    bench_pickle_wants wants = { .words = words, .failure = &failure };
    if (!bench_bytes_peek(path, begin, sizeof begin, &n, &failure) || n == 0) {
        return false;
    }
    machine m = {
        .path = path,
        .wants = &wants,
        .failure = &failure,
        .data = (const unsigned char *)begin,
        .n = n,
        .most_host_bytes = usual_host_bytes(n),
    };
    run(&m);
    const value *first = m.stack.n > 1 ? &m.stack.of[1] : NULL;
    bool is_so = first && m.stack.of[0].kind == BENCH_PICKLE_DICT &&
                 first->kind == BENCH_PICKLE_TEXT && first->word > 0;
    bench_pickle_free_pieces(m.pieces);
    free(m.stack.of);
    free(m.memo.of);
    return is_so;
}

bool bench_pickle_is_text(const bench_pickle_value *from, const char *text)
{
    return from->kind == BENCH_PICKLE_TEXT && from->length == strlen(text) &&
           memcmp(from->as.text, text, from->length) == 0;
}

const char *bench_pickle_kind_text(const bench_pickle_value *from)
{
    static const char *const texts[] = { "nothing",
                                         "None",
                                         "a truth value",
                                         "an integer",
                                         "an integer of more than 64 bits",
                                         "a number",
                                         "a string",
                                         "a list",
                                         "a tuple",
                                         "a dictionary",
                                         "an object of a Python class",
                                         "a dictionary" };
    return texts[from->kind];
}
