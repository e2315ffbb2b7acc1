/* pickle.c - the machine that a pickle is a program for: a stack, a memo, and what was built.
 *
 * What is built comes from pieces that are freed together: nothing is freed in between, so values
 * may point anywhere. There is no recursion: a container is on the stack or inside another, and the
 * reader of the result follows the few levels that it knows. */
#include "bench/import/pickle.h"

#include <stdlib.h>
#include <string.h>

#include "bench/base/size.h"
#include "bench/import/pickle_opcode.h"

enum { MOST_MARKS = 64, LONGEST_TEXT = (1 << 24) - 1, PIECE_BYTES = 256 << 10 };

/* Python pushes a thousand items at a time. */
enum { MOST_ON_STACK = 1 << 20 };

/* The most host memory for a file, beside the file itself. Snapshots take two or three times their
 * bytes. A few MiB of gzip may be GiB of opcodes, so there is a limit for any file, too. */
#define MOST_HOST_BYTES ((uint64_t)8 << 30)

static uint64_t usual_host_bytes(size_t n_bytes)
{
    uint64_t most = ((uint64_t)16 << 20) + 32 * (uint64_t)n_bytes;
    return most < MOST_HOST_BYTES ? most : MOST_HOST_BYTES;
}

typedef bench_pickle_value value;
typedef bench_pickle_node node;

typedef struct bench_pickle_piece {
    struct bench_pickle_piece *next;
    size_t n_used;
    size_t n_bytes;
    max_align_t data[];
} piece;

typedef struct values {
    value *of;
    size_t n;
    size_t capacity;
} values;

typedef struct machine {
    const char *path;
    const char *const *wanted;
    bench_failure *failure;
    const unsigned char *data;
    size_t n;
    size_t at;
    size_t opcode_at;
    unsigned char opcode;
    bool is_over;
    values stack;
    values memo;
    size_t n_memo; /* entries that are set */
    size_t marks[MOST_MARKS];
    unsigned n_marks;
    piece *pieces;
    uint64_t host_bytes; /* of all the above */
    uint64_t most_host_bytes;
} machine;

static __attribute__((format(printf, 2, 3))) bool complain(machine *m, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *name = bench_pickle_opcode_name(m->opcode);
    return bench_fail(m->failure, "%s: byte %zu: %s: %s", m->path, m->opcode_at,
                      name ? name : "pickle", text);
}

static bool out_of_memory(machine *m)
{
    return complain(m, "out of host memory");
}

/* Counts what is about to be taken; false and a message when that is too much. */
static bool count_memory(machine *m, uint64_t bytes)
{
    m->host_bytes += bytes;
    char most[32];
    return m->host_bytes <= m->most_host_bytes ||
           complain(m,
                    "the pickle takes more than %s of host memory (usual are at most 32 times its "
                    "bytes, and 8 GiB); memory=SIZE behind the name allows more",
                    bench_size_format(m->most_host_bytes, most, sizeof most));
}

/* Never freed alone. NULL and a message when there is none. */
static void *take_memory(machine *m, size_t bytes)
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
            out_of_memory(m);
            return NULL;
        }
        *p = (piece){ .next = m->pieces, .n_bytes = n_bytes };
        m->pieces = p;
        if (n_bytes == bytes && p->next) { /* a large one: go on filling the piece before */
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
        return out_of_memory(m);
    }
    list->of = of;
    list->capacity = capacity;
    return true;
}

static bool push(machine *m, value v)
{
    if (m->stack.n == MOST_ON_STACK) {
        return complain(m, "more than %d values are on the stack", MOST_ON_STACK);
    }
    if (!make_room(m, &m->stack, m->stack.n + 1)) {
        return false;
    }
    m->stack.of[m->stack.n++] = v;
    return true;
}

/* A fresh value of this opcode. */
static value make(const machine *m, bench_pickle_kind kind)
{
    return (value){ .kind = kind & 0xffu, .at = (uint32_t)m->opcode_at };
}

/* What lies on the stack since the last mark. */
static size_t n_since_mark(const machine *m)
{
    return m->stack.n - (m->n_marks ? m->marks[m->n_marks - 1] : 0);
}

static bool need(machine *m, size_t n)
{
    return n_since_mark(m) >= n || complain(m, "there is nothing on the stack for it");
}

/* The `n` bytes of the opcode's argument, or NULL with a message. */
static const unsigned char *take(machine *m, uint64_t n)
{
    const unsigned char *bytes = m->data + m->at;
    if (n > m->n - m->at) {
        complain(m, "the file ends in its argument");
        return NULL;
    }
    m->at += n;
    return bytes;
}

static bool take_number(machine *m, unsigned n_bytes, uint64_t *out)
{
    const unsigned char *bytes = take(m, n_bytes);
    if (!bytes) {
        return false;
    }
    *out = 0;
    for (unsigned i = 0; i < n_bytes; i++) {
        *out |= (uint64_t)bytes[i] << (8 * i);
    }
    return true;
}

static bool push_text(machine *m, unsigned n_bytes)
{
    uint64_t length;
    if (!take_number(m, n_bytes, &length)) {
        return false;
    }
    if (length > LONGEST_TEXT) {
        return complain(m, "a string of more than 16 MiB");
    }
    const unsigned char *bytes = take(m, length);
    if (!bytes) {
        return false;
    }
    value v = make(m, BENCH_PICKLE_TEXT);
    v.as.text = (const char *)bytes;
    v.length = length & 0xffffffu;
    return push(m, v);
}

static bool push_integer(machine *m, int64_t integer)
{
    value v = make(m, BENCH_PICKLE_INTEGER);
    v.as.integer = integer;
    return push(m, v);
}

/* Two's complement, little-endian, of any length. */
static bool push_long(machine *m, unsigned n_bytes)
{
    uint64_t length;
    if (!take_number(m, n_bytes, &length)) {
        return false;
    }
    if (n_bytes == 4 && length > INT32_MAX) {
        return complain(m, "a negative length");
    }
    const unsigned char *bytes = take(m, length);
    if (!bytes) {
        return false;
    }
    if (length > 8) {
        return push(m, make(m, BENCH_PICKLE_HUGE));
    }
    uint64_t number = length && bytes[length - 1] & 0x80 ? UINT64_MAX : 0;
    for (uint64_t i = length; i > 0; i--) {
        number = number << 8 | bytes[i - 1];
    }
    return push_integer(m, (int64_t)number);
}

static bool push_unsigned(machine *m, unsigned n_bytes)
{
    uint64_t number;
    return take_number(m, n_bytes, &number) && push_integer(m, (int64_t)number);
}

static bool push_int32(machine *m)
{
    uint64_t number;
    return take_number(m, 4, &number) && push_integer(m, (int32_t)(uint32_t)number);
}

/* Big-endian. */
static bool push_real(machine *m)
{
    const unsigned char *bytes = take(m, 8);
    if (!bytes) {
        return false;
    }
    uint64_t bits = 0;
    for (unsigned i = 0; i < 8; i++) {
        bits = bits << 8 | bytes[i];
    }
    value v = make(m, BENCH_PICKLE_REAL);
    memcpy(&v.as.real, &bits, sizeof bits);
    return push(m, v);
}

static bool push_bool(machine *m, bool is_true)
{
    value v = make(m, BENCH_PICKLE_BOOL);
    v.as.integer = is_true;
    return push(m, v);
}

static bool push_empty(machine *m, bench_pickle_kind kind)
{
    value v = make(m, kind);
    v.as.node = take_memory(m, sizeof *v.as.node);
    if (!v.as.node) {
        return false;
    }
    *v.as.node = (node){ .n = 0 };
    return push(m, v);
}

static bool add_item(machine *m, node *list, value item)
{
    if (list->n == list->capacity) {
        if (list->capacity > UINT32_MAX / 2) {
            return out_of_memory(m);
        }
        uint32_t capacity = list->capacity ? 2 * list->capacity : 4;
        value *items = take_memory(m, capacity * sizeof *items);
        if (!items) {
            return false;
        }
        if (list->n) {
            memcpy(items, list->items, list->n * sizeof *items);
        }
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->n++] = item;
    return true;
}

/* The last `n` of the stack become a tuple, of which nothing is wanted. */
static bool push_tuple(machine *m, size_t n)
{
    if (!need(m, n)) {
        return false;
    }
    m->stack.n -= n;
    return push(m, make(m, BENCH_PICKLE_TUPLE));
}

static bool open_mark(machine *m)
{
    if (m->n_marks == MOST_MARKS) {
        return complain(m, "nested more than %d deep", MOST_MARKS);
    }
    m->marks[m->n_marks++] = m->stack.n;
    return true;
}

/* How much the stack held at the last mark; SIZE_MAX and a message when there is none. */
static size_t close_mark(machine *m)
{
    if (m->n_marks == 0) {
        complain(m, "there is no mark");
        return SIZE_MAX;
    }
    return m->marks[--m->n_marks];
}

/* A dictionary without a wanted key: a stack frame, mostly. */
static bool is_useless(const value *item)
{
    return item->kind == BENCH_PICKLE_DICT && item->as.node->n == 0;
}

/* What lies on the stack from `first` on goes into the list below it. */
static bool append_from(machine *m, size_t first)
{
    if (first == SIZE_MAX) {
        return false;
    }
    size_t floor = m->n_marks ? m->marks[m->n_marks - 1] : 0;
    if (first <= floor || m->stack.of[first - 1].kind != BENCH_PICKLE_LIST) {
        return complain(m, "there is no list to append to");
    }
    node *list = m->stack.of[first - 1].as.node;
    for (size_t i = first; i < m->stack.n; i++) {
        if (is_useless(&m->stack.of[i])) {
            list->has_dropped = true;
        } else if (!add_item(m, list, m->stack.of[i])) {
            return false;
        }
    }
    m->stack.n = first;
    return true;
}

static bool is_wanted(const machine *m, const value *key)
{
    for (const char *const *wanted = m->wanted; *wanted; wanted++) {
        if (bench_pickle_is_text(key, *wanted)) {
            return true;
        }
    }
    return false;
}

static value *find(const node *dict, const char *key, size_t length)
{
    for (uint32_t i = 0; i < dict->n; i += 2) {
        if (dict->items[i].length == length && memcmp(dict->items[i].as.text, key, length) == 0) {
            return &dict->items[i + 1];
        }
    }
    return NULL;
}

static bool set_item(machine *m, node *dict, const value *key, const value *item)
{
    if (!is_wanted(m, key)) {
        return true;
    }
    value *there = find(dict, key->as.text, key->length);
    if (there) {
        *there = *item;
        return true;
    }
    return add_item(m, dict, *key) && add_item(m, dict, *item);
}

/* The pairs from `first` on go into the dictionary below them. */
static bool set_from(machine *m, size_t first)
{
    if (first == SIZE_MAX) {
        return false;
    }
    size_t floor = m->n_marks ? m->marks[m->n_marks - 1] : 0;
    if (first <= floor || m->stack.of[first - 1].kind != BENCH_PICKLE_DICT) {
        return complain(m, "there is no dictionary to fill");
    }
    if ((m->stack.n - first) % 2) {
        return complain(m, "a key without a value");
    }
    node *dict = m->stack.of[first - 1].as.node;
    for (size_t i = first; i < m->stack.n; i += 2) {
        if (!set_item(m, dict, &m->stack.of[i], &m->stack.of[i + 1])) {
            return false;
        }
    }
    m->stack.n = first;
    return true;
}

/* Every put takes a byte at least, so ids above the offset are no pickler's. */
static bool memo_put(machine *m, uint64_t id)
{
    if (!need(m, 1)) {
        return false;
    }
    if (id > m->at) {
        return complain(m, "memo id %llu is absurd", (unsigned long long)id);
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
    return take_number(m, n_bytes, &id) && memo_put(m, id);
}

static bool memo_get(machine *m, unsigned n_bytes)
{
    uint64_t id;
    if (!take_number(m, n_bytes, &id)) {
        return false;
    }
    if (id >= m->memo.n || m->memo.of[id].kind == BENCH_PICKLE_UNSET) {
        return complain(m, "memo id %llu was never put", (unsigned long long)id);
    }
    return push(m, m->memo.of[id]);
}

static bool skip_frame(machine *m)
{
    uint64_t length;
    return take_number(m, 8, &length) &&
           (length <= m->n - m->at || complain(m, "the file ends in its argument"));
}

static bool stop(machine *m)
{
    if (m->n_marks || m->stack.n != 1) {
        return complain(m, "not one value, but %zu are left", m->stack.n);
    }
    m->is_over = true;
    return m->at == m->n || complain(m, "%zu bytes follow it", m->n - m->at);
}

static bool refuse(machine *m)
{
    if (!bench_pickle_opcode_name(m->opcode)) {
        return complain(m, "0x%02x is no opcode", m->opcode);
    }
    return complain(m, "not an opcode of plain data; it is not executed");
}

static bool push_marked_tuple(machine *m)
{
    size_t first = close_mark(m);
    return first != SIZE_MAX && push_tuple(m, m->stack.n - first);
}

static bool step_container(machine *m)
{
    switch (m->opcode) {
    case PICKLE_MARK:
        return open_mark(m);
    case PICKLE_EMPTY_LIST:
        return push_empty(m, BENCH_PICKLE_LIST);
    case PICKLE_EMPTY_DICT:
        return push_empty(m, BENCH_PICKLE_DICT);
    case PICKLE_EMPTY_TUPLE:
        return push_tuple(m, 0);
    case PICKLE_APPEND:
        return need(m, 1) && append_from(m, m->stack.n - 1);
    case PICKLE_APPENDS:
        return append_from(m, close_mark(m));
    case PICKLE_SETITEM:
        return need(m, 2) && set_from(m, m->stack.n - 2);
    case PICKLE_SETITEMS:
        return set_from(m, close_mark(m));
    case PICKLE_TUPLE:
        return push_marked_tuple(m);
    case PICKLE_TUPLE1:
        return push_tuple(m, 1);
    case PICKLE_TUPLE2:
        return push_tuple(m, 2);
    case PICKLE_TUPLE3:
        return push_tuple(m, 3);
    default:
        return refuse(m);
    }
}

static bool step_memo(machine *m)
{
    switch (m->opcode) {
    case PICKLE_MEMOIZE:
        return memo_put(m, m->n_memo);
    case PICKLE_BINPUT:
        return memo_put_number(m, 1);
    case PICKLE_LONG_BINPUT:
        return memo_put_number(m, 4);
    case PICKLE_BINGET:
        return memo_get(m, 1);
    case PICKLE_LONG_BINGET:
        return memo_get(m, 4);
    default:
        return step_container(m);
    }
}

static bool step(machine *m)
{
    switch (m->opcode) {
    case PICKLE_NONE:
        return push(m, make(m, BENCH_PICKLE_NONE));
    case PICKLE_NEWTRUE:
    case PICKLE_NEWFALSE:
        return push_bool(m, m->opcode == PICKLE_NEWTRUE);
    case PICKLE_BININT:
        return push_int32(m);
    case PICKLE_BININT1:
        return push_unsigned(m, 1);
    case PICKLE_BININT2:
        return push_unsigned(m, 2);
    case PICKLE_LONG1:
        return push_long(m, 1);
    case PICKLE_LONG4:
        return push_long(m, 4);
    case PICKLE_BINFLOAT:
        return push_real(m);
    case PICKLE_SHORT_BINUNICODE:
        return push_text(m, 1);
    case PICKLE_BINUNICODE:
        return push_text(m, 4);
    case PICKLE_BINUNICODE8:
        return push_text(m, 8);
    case PICKLE_FRAME:
        return skip_frame(m);
    case PICKLE_STOP:
        return stop(m);
    default:
        return step_memo(m);
    }
}

static bool start(machine *m)
{
    if (m->n < 2 || m->data[0] != PICKLE_PROTO) {
        return bench_fail(m->failure, "%s: byte 0: not a pickle of protocol 2 to 5", m->path);
    }
    m->opcode = m->data[0];
    m->at = 2;
    unsigned protocol = m->data[1];
    return (protocol >= 2 && protocol <= 5) ||
           complain(m, "protocol %u is not known; 2 to 5 are", protocol);
}

static bool run(machine *m)
{
    if (!start(m)) {
        return false;
    }
    while (!m->is_over) {
        if (m->at == m->n) {
            return bench_fail(m->failure, "%s: byte %zu: the pickle ends too early", m->path,
                              m->at);
        }
        m->opcode_at = m->at;
        m->opcode = m->data[m->at++];
        if (!step(m)) {
            return false;
        }
    }
    return true;
}

static void free_pieces(piece *pieces)
{
    while (pieces) {
        piece *next = pieces->next;
        free(pieces);
        pieces = next;
    }
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
        free_pieces(m.pieces);
        bench_bytes_free(&bytes);
    }
    free(m.stack.of);
    free(m.memo.of);
    return ok;
}

void bench_pickle_free(bench_pickle *pickle)
{
    free_pieces(pickle->pieces);
    bench_bytes_free(&pickle->bytes);
    *pickle = (bench_pickle){ .pieces = NULL };
}

const bench_pickle_value *bench_pickle_get(const bench_pickle_value *from, const char *key)
{
    return from->kind == BENCH_PICKLE_DICT ? find(from->as.node, key, strlen(key)) : NULL;
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
