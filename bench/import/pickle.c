/* pickle.c - runs a pickle on the machine (pickle_machine.h), from protocol to stop.
 *
 * Without recursion: the reader of the result follows the few known levels. */
#include "bench/import/pickle.h"

#include <stdlib.h>
#include <string.h>

#include "bench/import/pickle_machine.h"
#include "bench/import/pickle_opcode.h"

/* The most host memory for a file, besides the file itself. Snapshots take two or three times their
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

static bool stop(machine *m)
{
    if (m->n_marks || m->stack.n != 1) {
        return bench_pickle_complain(m, "not one value, but %zu are left", m->stack.n);
    }
    m->is_over = true;
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

static bool start(machine *m)
{
    if (m->n == 1 && m->data[0] == PICKLE_PROTO) {
        return bench_pickle_cut_short(m);
    }
    if (m->n < 2 || m->data[0] != PICKLE_PROTO) {
        return bench_fail(m->failure, "%s: byte 0: not a pickle of protocol 2 to 5", m->path);
    }
    m->opcode = m->data[0];
    m->at = 2;
    unsigned protocol = m->data[1];
    return (protocol >= 2 && protocol <= 5) ||
           bench_pickle_complain(m, "protocol %u is not known; 2 to 5 are", protocol);
}

static bool run(machine *m)
{
    if (!start(m)) {
        return false;
    }
    while (!m->is_over) {
        if (m->at == m->n) {
            return bench_pickle_cut_short(m);
        }
        m->opcode_at = m->at;
        m->opcode = m->data[m->at++];
        if (!step(m)) {
            return false;
        }
    }
    return true;
}

bool bench_pickle_read(const char *path, const bench_limits *limits, const char *const *wanted,
                       bench_pickle *out, bench_failure *failure)
{
    bench_bytes bytes;
    if (!bench_bytes_read(path, limits, &bytes, failure)) {
        return false;
    }
    machine m = {
        .path = path,
        .wanted = wanted,
        .failure = failure,
        .data = bytes.data,
        .n = bytes.n,
        .most_host_bytes = limits && limits->host_bytes ? limits->host_bytes
                                                        : usual_host_bytes(bytes.n),
    };
    bool ok = run(&m);
    if (ok) {
        *out = (bench_pickle){ .bytes = bytes, .root = m.stack.of[0], .pieces = m.pieces };
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

const bench_pickle_value *bench_pickle_get(const bench_pickle_value *from, const char *key)
{
    return from->kind == BENCH_PICKLE_DICT ? bench_pickle_find(from->as.node, key, strlen(key))
                                           : NULL;
}

bool bench_pickle_is_text(const bench_pickle_value *from, const char *text)
{
    return from->kind == BENCH_PICKLE_TEXT && from->length == strlen(text) &&
           memcmp(from->as.text, text, from->length) == 0;
}

const char *bench_pickle_kind_text(const bench_pickle_value *from)
{
    static const char *const texts[] = {
        "nothing",  "None",     "a truth value", "an integer", "an integer of more than 64 bits",
        "a number", "a string", "a list",        "a tuple",    "a dictionary"
    };
    return texts[from->kind];
}
