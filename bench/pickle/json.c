/* json.c - see json.h. An open array or object is its value on the stack, with a mark above. */
#include "bench/pickle/json.h"

#include <string.h>

#include "bench/pickle/pickle_machine.h"

/* As many items as Python's pickles have in a batch: a long array does not wait on the stack. */
enum { BATCH = 1000, SHOWN_EVERY = 1024 };

static const char blanks[] = " \t\r\n";

static void skip_blanks(machine *m)
{
    while (m->at < m->n && m->data[m->at] != '\0' && strchr(blanks, m->data[m->at])) {
        m->at++;
    }
}

static void skip_order_mark(machine *m)
{
    if (m->n >= 3 && memcmp(m->data, "\xef\xbb\xbf", 3) == 0) {
        m->at = 3;
    }
}

/* Of pickles of protocol 0 or 1, `[` begins none and `{` is no opcode. */
bool bench_json_is(const unsigned char *data, size_t n)
{
    machine m = { .data = data, .n = n };
    skip_order_mark(&m);
    skip_blanks(&m);
    return m.at < n && (data[m.at] == '{' || data[m.at] == '[');
}

/* ---- texts ---- */

static size_t put_utf8(unsigned char *out, unsigned code)
{
    if (code < 0x80) {
        out[0] = (unsigned char)code;
        return 1;
    }
    unsigned n = code < 0x800 ? 2 : 3;
    for (unsigned i = n; i-- > 1; code >>= 6) {
        out[i] = (unsigned char)(0x80 | (code & 0x3f));
    }
    out[0] = (unsigned char)((n == 2 ? 0xc0 : 0xe0) | code);
    return n;
}

static unsigned digit_of(unsigned char c)
{
    unsigned letter = (c | 0x20u) - 'a';
    return c >= '0' && c <= '9' ? c - (unsigned)'0' : letter < 6 ? letter + 10 : 16;
}

/* Halves of a pair become two characters, which are shown as unknown. */
static bool put_escape(const unsigned char *text, size_t n, size_t *at, unsigned char *out,
                       size_t *used)
{
    static const char from[] = "\"\\/bfnrt";
    static const char to[] = "\"\\/\b\f\n\r\t";
    unsigned char c = text[(*at)++];
    const char *simple = c ? strchr(from, c) : NULL;
    if (simple) {
        out[(*used)++] = (unsigned char)to[simple - from];
        return true;
    }
    if (c != 'u' || n - *at < 4) {
        return false;
    }
    unsigned code = 0;
    for (unsigned i = 0; i < 4; i++) {
        unsigned digit = digit_of(text[(*at)++]);
        if (digit > 15) {
            return false;
        }
        code = code << 4 | digit;
    }
    *used += put_utf8(out + *used, code);
    return true;
}

/* What escapes stand for is never longer than they are. */
static bool push_escaped(machine *m, const unsigned char *text, size_t n)
{
    unsigned char *out = bench_pickle_memory(m, n);
    size_t used = 0;
    if (!out) {
        return false;
    }
    for (size_t at = 0; at < n;) {
        unsigned char c = text[at++];
        if (c != '\\') {
            out[used++] = c;
        } else if (!put_escape(text, n, &at, out, &used)) {
            return bench_pickle_complain(m, "an escape that is none");
        }
    }
    return bench_pickle_push(m, bench_pickle_make_text(m, out, used));
}

static bool push_text(machine *m)
{
    const unsigned char *begin = m->data + m->at;
    bool is_plain = true;
    while (m->at < m->n && m->data[m->at] != '"') {
        is_plain = is_plain && m->data[m->at] != '\\';
        m->at += m->data[m->at] == '\\' ? 2 : 1;
    }
    if (m->at >= m->n) {
        m->at = m->n;
        return bench_pickle_cut_short(m);
    }
    size_t n = (size_t)(m->data + m->at++ - begin);
    return is_plain ? bench_pickle_push(m, bench_pickle_make_text(m, begin, n))
                    : push_escaped(m, begin, n);
}

/* ---- numbers and words ---- */

/* A number, true, false, null, NaN or Infinity: letters, digits and signs. */
static bool push_word(machine *m)
{
    static const struct {
        const char *text;
        bench_pickle_kind kind;
        int64_t integer;
    } words[] = { { "true", BENCH_PICKLE_BOOL, 1 },     { "false", BENCH_PICKLE_BOOL, 0 },
                  { "null", BENCH_PICKLE_NONE, 0 },     { "NaN", BENCH_PICKLE_REAL, 0 },
                  { "Infinity", BENCH_PICKLE_REAL, 0 }, { "-Infinity", BENCH_PICKLE_REAL, 0 } };
    const char *begin = (const char *)m->data + m->at;
    size_t n = 0;
    while (m->at < m->n && m->data[m->at] != '\0' && !strchr(" \t\r\n,:]}[{\"", m->data[m->at])) {
        m->at++;
        n++;
    }
    if (m->at == m->n) { /* more may have come */
        return bench_pickle_cut_short(m);
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (n == strlen(words[i].text) && memcmp(begin, words[i].text, n) == 0) {
            value v = bench_pickle_make(m, words[i].kind);
            v.as.integer = words[i].integer;
            return bench_pickle_push(m, v);
        }
    }
    value v = bench_pickle_decimal(m, begin, n);
    for (size_t i = 0; i < n && v.kind == BENCH_PICKLE_REAL; i++) {
        if (!strchr("0123456789+-.eE", begin[i])) {
            n = 0;
        }
    }
    return n > 0 ? bench_pickle_push(m, v)
                 : bench_pickle_complain(m, "neither a value nor the end of one");
}

/* ---- arrays and objects ---- */

static const value *container_of(const machine *m)
{
    return &m->stack.of[m->marks[m->n_marks - 1] - 1];
}

static size_t n_open(const machine *m)
{
    return m->stack.n - m->marks[m->n_marks - 1];
}

static bool open_one(machine *m, bench_pickle_kind kind)
{
    return bench_pickle_push_empty(m, kind) && bench_pickle_open_mark(m);
}

static bool is_tuple(const machine *m, const value *list, size_t first)
{
    bool is_so = list->as.node->n == 0 && !list->as.node->has_dropped && first < m->stack.n;
    for (size_t i = first; i < m->stack.n && is_so; i++) {
        is_so = m->stack.of[i].kind == BENCH_PICKLE_INTEGER;
    }
    return is_so;
}

static bool close_one(machine *m, bench_pickle_kind kind)
{
    if (m->n_marks == 0 || container_of(m)->kind != (kind & 0xfu)) {
        return bench_pickle_complain(m, "a bracket closes what was not opened");
    }
    size_t first = bench_pickle_close_mark(m);
    value container = m->stack.of[first - 1];
    if (kind == BENCH_PICKLE_DICT) {
        return bench_pickle_set_from(m, first);
    }
    if (!is_tuple(m, &container, first)) {
        return bench_pickle_append_from(m, first);
    }
    if (!bench_pickle_push_tuple(m, m->stack.n - first)) {
        return false;
    }
    m->stack.of[first - 1] = m->stack.of[first];
    m->stack.n = first;
    return true;
}

/* A long array's items go into it a batch at a time. */
static bool flush(machine *m)
{
    if (m->n_marks == 0 || container_of(m)->kind != BENCH_PICKLE_LIST || n_open(m) < BATCH) {
        return true;
    }
    size_t first = bench_pickle_close_mark(m);
    return bench_pickle_append_from(m, first) && bench_pickle_open_mark(m);
}

static bool push_value(machine *m)
{
    switch (m->data[m->at]) {
    case '{':
        m->at++;
        return open_one(m, BENCH_PICKLE_DICT);
    case '[':
        m->at++;
        return open_one(m, BENCH_PICKLE_LIST);
    case '"':
        m->at++;
        return push_text(m);
    default:
        return push_word(m);
    }
}

/* What stands behind a whole value: a comma, a colon, or the end of what is open. */
static bool take_sign(machine *m, bool *is_value_next)
{
    bool is_dict = m->n_marks > 0 && container_of(m)->kind == BENCH_PICKLE_DICT;
    bool is_key = is_dict && n_open(m) % 2 == 1;
    unsigned char c = m->data[m->at++];
    *is_value_next = c == ',' || c == ':';
    if (is_key && m->stack.of[m->stack.n - 1].kind != BENCH_PICKLE_TEXT) {
        return bench_pickle_complain(m, "a key that is no string");
    }
    if (c == ',' || c == ':') {
        return (m->n_marks > 0 && is_key == (c == ':'))
                   ? flush(m)
                   : bench_pickle_complain(m, "a '%c' too many", c);
    }
    if ((c == '}' && is_key) || (c != '}' && c != ']')) {
        return bench_pickle_complain(m, "a ',' or a ':' is missing");
    }
    return close_one(m, c == '}' ? BENCH_PICKLE_DICT : BENCH_PICKLE_LIST);
}

/* An empty container may end at once. */
static bool closes_empty(const machine *m)
{
    unsigned char c = m->data[m->at];
    return (c == ']' || c == '}') && m->n_marks > 0 && n_open(m) == 0 &&
           container_of(m)->as.node->n == 0;
}

static bool step(machine *m, bool *is_value_next)
{
    if (!*is_value_next) {
        return take_sign(m, is_value_next);
    }
    if (closes_empty(m)) {
        *is_value_next = false;
        m->at++;
        return close_one(m, m->data[m->at - 1] == '}' ? BENCH_PICKLE_DICT : BENCH_PICKLE_LIST);
    }
    bool opens = m->data[m->at] == '{' || m->data[m->at] == '[';
    *is_value_next = opens;
    return push_value(m);
}

bool bench_json_run(machine *m)
{
    skip_order_mark(m);
    bool is_value_next = true;
    for (unsigned n = 0; m->stack.n == 0 || m->n_marks > 0; n++) {
        skip_blanks(m);
        if (m->at == m->n) {
            return bench_pickle_cut_short(m);
        }
        if (m->progress && n % SHOWN_EVERY == 0) {
            bench_progress_step(m->progress, (double)m->at / (double)m->n);
        }
        m->opcode_at = m->at;
        if (!step(m, &is_value_next)) {
            return false;
        }
    }
    skip_blanks(m);
    return m->at == m->n || bench_pickle_complain(m, "%zu bytes follow it", m->n - m->at);
}
