/* pickle_machine.c - see pickle_machine.h: memory, the stack and its marks, arguments, the memo.
 *
 * Upholds the bounds in pickle.h: host memory, marks, values on the stack. */
#include "bench/pickle/pickle_machine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/base/size.h"
#include "bench/pickle/pickle_opcode.h"

enum { PIECE_BYTES = 256 << 10 };

/* Python pushes a thousand items at a time. */
enum { MOST_ON_STACK = 1 << 20 };

bool bench_pickle_complain(machine *m, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *name = m->is_json ? "JSON" : bench_pickle_opcode_name(m->opcode);
    return bench_fail(m->failure, "%s: byte %zu: %s: %s", m->path, m->opcode_at,
                      name ? name : "pickle", text);
}

bool bench_pickle_out_of_memory(machine *m)
{
    return bench_pickle_complain(m, "out of host memory");
}

bool bench_pickle_cut_short(machine *m)
{
    return bench_fail(m->failure,
                      "%s: byte %zu: the file is cut short: it has %zu bytes, and the %s goes "
                      "on. Copy the file again, or dump the snapshot again",
                      m->path, m->at, m->n, m->is_json ? "JSON" : "pickle");
}

/* ---- memory ---- */

/* Count memory that is about to be taken. False and a message when the sum is too large. */
static bool count_memory(machine *m, uint64_t bytes)
{
    m->host_bytes += bytes;
    char most[32];
    return m->host_bytes <= m->most_host_bytes ||
           bench_pickle_complain(
               m,
               "the file takes more than %s of host memory (usual are at most 32 times its "
               "bytes, and 8 GiB); memory=SIZE behind the name allows more",
               bench_size_format(m->most_host_bytes, most, sizeof most));
}

void *bench_pickle_memory(machine *m, size_t bytes)
{
    bytes = (bytes + sizeof(value) - 1) / sizeof(value) * sizeof(value);
    piece *p = m->pieces;
    if (!p || p->n_bytes - p->n_used < bytes) {
        size_t n_bytes = bytes > PIECE_BYTES / 4 ? bytes : PIECE_BYTES;
        if (!count_memory(m, sizeof *p + n_bytes)) {
            return NULL;
        }
        p = malloc(sizeof *p + n_bytes);
        if (!p) {
            bench_pickle_out_of_memory(m);
            return NULL;
        }
        *p = (piece){ .next = m->pieces, .n_bytes = n_bytes };
        m->pieces = p;
        if (n_bytes == bytes && p->next) { /* a large piece: keep filling the previous one */
            m->pieces = p->next;
            p->next = m->pieces->next;
            m->pieces->next = p;
        }
    }
    void *out = (char *)p->data + p->n_used;
    p->n_used += bytes;
    return out;
}

static bool make_room(machine *m, values *list, size_t n)
{
    if (n <= list->capacity) {
        return true;
    }
    size_t capacity = list->capacity ? 2 * list->capacity : 1024;
    capacity = capacity < n ? n : capacity;
    if (!count_memory(m, (capacity - list->capacity) * sizeof(value))) {
        return false;
    }
    value *of = realloc(list->of, capacity * sizeof *of);
    if (!of) {
        return bench_pickle_out_of_memory(m);
    }
    list->of = of;
    list->capacity = capacity;
    return true;
}

value *bench_pickle_room(machine *m, unsigned class)
{
    if (class >= N_ROOMS) {
        bench_pickle_complain(m, "more than 2^27 items in one list");
        return NULL;
    }
    room *left = m->rooms[class];
    if (left) {
        m->rooms[class] = left->next;
        return (value *)left;
    }
    return bench_pickle_memory(m, sizeof(value) << class);
}

static unsigned class_of(size_t capacity)
{
    unsigned class = 0;
    while ((size_t)1 << class < capacity) {
        class ++;
    }
    return class;
}

void bench_pickle_leave(machine *m, value *items, size_t capacity)
{
    if (capacity > 0) {
        room *left = (room *)items;
        unsigned class = class_of(capacity);
        left->next = m->rooms[class];
        m->rooms[class] = left;
    }
}

node *bench_pickle_node_make(machine *m)
{
    node *made = (node *)m->nodes;
    if (made) {
        m->nodes = m->nodes->next;
    } else {
        made = bench_pickle_memory(m, sizeof *made);
    }
    if (made) {
        *made = (node){ .n = 0 };
    }
    return made;
}

/* The memo of a pickle may name the node later. JSON names nothing twice. */
void bench_pickle_fold(machine *m, node *folded, unsigned kind, uint32_t index)
{
    bench_pickle_leave(m, folded->of.items, folded->capacity);
    *folded = (node){ .of.index = index, .folded = kind & 7u };
}

void bench_pickle_free_pieces(piece *pieces)
{
    while (pieces) {
        piece *next = pieces->next;
        free(pieces);
        pieces = next;
    }
}

/* ---- the stack ---- */

bool bench_pickle_push(machine *m, value v)
{
    if (m->stack.n == MOST_ON_STACK) {
        return bench_pickle_complain(m, "more than %d values are on the stack", MOST_ON_STACK);
    }
    if (!make_room(m, &m->stack, m->stack.n + 1)) {
        return false;
    }
    m->stack.of[m->stack.n++] = v;
    return true;
}

value bench_pickle_make(const machine *m, bench_pickle_kind kind)
{
    return (value){ .kind = kind & 0xfu, .at = (uint32_t)m->opcode_at };
}

value bench_pickle_make_text(const machine *m, const void *bytes, uint64_t n)
{
    value v = bench_pickle_make(m, BENCH_PICKLE_TEXT);
    v.as.text = bytes;
    v.length = (n < LONGEST_TEXT ? n : LONGEST_TEXT) & 0xffffu;
    const char *const *words = m->wants->words;
    for (unsigned i = 0; words[i]; i++) {
        if (words[i][0] == *(n ? v.as.text : "") && bench_pickle_is_text(&v, words[i])) {
            v.word = (i + 1) & 0x3fu;
            break;
        }
    }
    return v;
}

bool bench_pickle_push_object(machine *m, const void *name, uint64_t n)
{
    value v = bench_pickle_make_text(m, name, n);
    v.kind = BENCH_PICKLE_OBJECT;
    v.word = 0;
    return bench_pickle_push(m, v);
}

/* The number of values on the stack since the last mark. */
static size_t n_since_mark(const machine *m)
{
    return m->stack.n - (m->n_marks ? m->marks[m->n_marks - 1] : 0);
}

bool bench_pickle_need(machine *m, size_t n)
{
    return n_since_mark(m) >= n || bench_pickle_complain(m, "there is nothing on the stack for it");
}

bool bench_pickle_open_mark(machine *m)
{
    if (m->n_marks == MOST_MARKS) {
        return bench_pickle_complain(m, "nested more than %d deep", MOST_MARKS);
    }
    m->marks[m->n_marks++] = m->stack.n;
    return true;
}

size_t bench_pickle_close_mark(machine *m)
{
    if (m->n_marks == 0) {
        bench_pickle_complain(m, "there is no mark");
        return SIZE_MAX;
    }
    return m->marks[--m->n_marks];
}

/* ---- arguments ---- */

const unsigned char *bench_pickle_take(machine *m, uint64_t n)
{
    const unsigned char *bytes = m->data + m->at;
    if (n > m->n - m->at) {
        bench_pickle_cut_short(m);
        return NULL;
    }
    m->at += n;
    return bytes;
}

bool bench_pickle_take_number(machine *m, unsigned n_bytes, uint64_t *out)
{
    const unsigned char *bytes = bench_pickle_take(m, n_bytes);
    if (!bytes) {
        return false;
    }
    *out = 0;
    for (unsigned i = 0; i < n_bytes; i++) {
        *out |= (uint64_t)bytes[i] << (8 * i);
    }
    return true;
}

const char *bench_pickle_take_line(machine *m, size_t *n)
{
    const unsigned char *begin = m->data + m->at;
    const unsigned char *end = memchr(begin, '\n', m->n - m->at);
    if (!end) {
        m->at = m->n;
        bench_pickle_cut_short(m);
        return NULL;
    }
    *n = (size_t)(end - begin);
    m->at += *n + 1;
    return (const char *)begin;
}

/* ---- the memo ---- */

/* Every put takes at least a byte, so no pickler writes ids above the offset. */
static bool memo_put(machine *m, uint64_t id)
{
    if (!bench_pickle_need(m, 1)) {
        return false;
    }
    if (id > m->at) {
        return bench_pickle_complain(m, "memo id %llu is absurd", (unsigned long long)id);
    }
    if (!make_room(m, &m->memo, id + 1)) {
        return false;
    }
    for (; m->memo.n <= id; m->memo.n++) {
        m->memo.of[m->memo.n] = (value){ .kind = BENCH_PICKLE_UNSET };
    }
    m->n_memo += m->memo.of[id].kind == BENCH_PICKLE_UNSET;
    m->memo.of[id] = m->stack.of[m->stack.n - 1];
    return true;
}

static bool memo_put_number(machine *m, unsigned n_bytes)
{
    uint64_t id;
    return bench_pickle_take_number(m, n_bytes, &id) && memo_put(m, id);
}

static bool memo_get(machine *m, uint64_t id)
{
    if (id >= m->memo.n || m->memo.of[id].kind == BENCH_PICKLE_UNSET) {
        return bench_pickle_complain(m, "memo id %llu was never put", (unsigned long long)id);
    }
    return bench_pickle_push(m, m->memo.of[id]);
}

static bool memo_get_number(machine *m, unsigned n_bytes)
{
    uint64_t id;
    return bench_pickle_take_number(m, n_bytes, &id) && memo_get(m, id);
}

/* The id is a line of text. */
static bool memo_by_text(machine *m)
{
    size_t n;
    const char *line = bench_pickle_take_line(m, &n);
    if (!line) {
        return false;
    }
    value id = bench_pickle_decimal(m, line, n);
    if (id.kind != BENCH_PICKLE_INTEGER || id.as.integer < 0) {
        return bench_pickle_complain(m, "a memo id that is no number");
    }
    return m->opcode == PICKLE_GET ? memo_get(m, (uint64_t)id.as.integer)
                                   : memo_put(m, (uint64_t)id.as.integer);
}

bool bench_pickle_step_memo(machine *m)
{
    switch (m->opcode) {
    case PICKLE_MEMOIZE:
        return memo_put(m, m->n_memo);
    case PICKLE_BINPUT:
        return memo_put_number(m, 1);
    case PICKLE_LONG_BINPUT:
        return memo_put_number(m, 4);
    case PICKLE_BINGET:
        return memo_get_number(m, 1);
    case PICKLE_LONG_BINGET:
        return memo_get_number(m, 4);
    case PICKLE_PUT:
    case PICKLE_GET:
        return memo_by_text(m);
    default:
        return bench_pickle_step_container(m);
    }
}
