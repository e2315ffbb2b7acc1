/* pickle_scalar.c - the opcodes of values without items: numbers, strings, truth, None. */
#include <string.h>

#include "bench/pickle/pickle_machine.h"
#include "bench/pickle/pickle_opcode.h"

static bool push_text(machine *m, unsigned n_bytes)
{
    uint64_t length;
    if (!bench_pickle_take_number(m, n_bytes, &length)) {
        return false;
    }
    const unsigned char *bytes = bench_pickle_take(m, length);
    return bytes && bench_pickle_push(m, bench_pickle_make_text(m, bytes, length));
}

/* A line: bare (UNICODE), or in quotes as Python 2 writes it. Escapes stay as they are, since no
 * word has any. */
static bool push_text_line(machine *m)
{
    size_t n;
    const char *line = bench_pickle_take_line(m, &n);
    if (!line) {
        return false;
    }
    if (m->opcode == PICKLE_STRING) {
        bool is_quoted = n >= 2 && (line[0] == '\'' || line[0] == '"') && line[n - 1] == line[0];
        if (!is_quoted) {
            return bench_pickle_complain(m, "a string without quotes");
        }
        line++;
        n -= 2;
    }
    return bench_pickle_push(m, bench_pickle_make_text(m, line, n));
}

value bench_pickle_decimal(const machine *m, const char *text, size_t n)
{
    value v = bench_pickle_make(m, BENCH_PICKLE_INTEGER);
    bool is_negative = n > 0 && text[0] == '-';
    uint64_t most = (uint64_t)INT64_MAX + is_negative;
    uint64_t number = 0;
    size_t i = n > 0 && (text[0] == '-' || text[0] == '+');
    if (i == n) {
        v.kind = BENCH_PICKLE_REAL;
    }
    for (; i < n && v.kind != BENCH_PICKLE_REAL; i++) {
        unsigned digit = (unsigned)(unsigned char)text[i] - '0';
        if (digit > 9) {
            v.kind = BENCH_PICKLE_REAL;
        } else if (v.kind == BENCH_PICKLE_HUGE || number > (most - digit) / 10) {
            v.kind = BENCH_PICKLE_HUGE;
        } else {
            number = 10 * number + digit;
        }
    }
    v.as.integer = (int64_t)(is_negative ? 0 - number : number);
    return v;
}

/* INT, whose 00 and 01 are truth values; LONG, with an L behind; FLOAT, whose value is not kept. */
static bool push_number_line(machine *m)
{
    size_t n;
    const char *line = bench_pickle_take_line(m, &n);
    if (!line) {
        return false;
    }
    n -= n > 0 && line[n - 1] == '\r';
    n -= m->opcode == PICKLE_LONG && n > 0 && line[n - 1] == 'L';
    value v = bench_pickle_decimal(m, line, n);
    bool is_word = m->opcode == PICKLE_INT && n == 2 && line[0] == '0' &&
                   (line[1] == '0' || line[1] == '1');
    v.kind = is_word ? BENCH_PICKLE_BOOL : m->opcode == PICKLE_FLOAT ? BENCH_PICKLE_REAL : v.kind;
    if (m->opcode == PICKLE_FLOAT) {
        v.as.real = 0.0;
    } else if (v.kind == BENCH_PICKLE_REAL) {
        return bench_pickle_complain(m, "a number that is none");
    }
    return bench_pickle_push(m, v);
}

static bool push_integer(machine *m, int64_t integer)
{
    value v = bench_pickle_make(m, BENCH_PICKLE_INTEGER);
    v.as.integer = integer;
    return bench_pickle_push(m, v);
}

/* Two's complement, little-endian, of any length. */
static bool push_long(machine *m, unsigned n_bytes)
{
    uint64_t length;
    if (!bench_pickle_take_number(m, n_bytes, &length)) {
        return false;
    }
    if (n_bytes == 4 && length > INT32_MAX) {
        return bench_pickle_complain(m, "a negative length");
    }
    const unsigned char *bytes = bench_pickle_take(m, length);
    if (!bytes) {
        return false;
    }
    if (length > 8) {
        return bench_pickle_push(m, bench_pickle_make(m, BENCH_PICKLE_HUGE));
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
    return bench_pickle_take_number(m, n_bytes, &number) && push_integer(m, (int64_t)number);
}

static bool push_int32(machine *m)
{
    uint64_t number;
    return bench_pickle_take_number(m, 4, &number) && push_integer(m, (int32_t)(uint32_t)number);
}

/* Big-endian. */
static bool push_real(machine *m)
{
    const unsigned char *bytes = bench_pickle_take(m, 8);
    if (!bytes) {
        return false;
    }
    uint64_t bits = 0;
    for (unsigned i = 0; i < 8; i++) {
        bits = bits << 8 | bytes[i];
    }
    value v = bench_pickle_make(m, BENCH_PICKLE_REAL);
    memcpy(&v.as.real, &bits, sizeof bits);
    return bench_pickle_push(m, v);
}

static bool push_bool(machine *m, bool is_true)
{
    value v = bench_pickle_make(m, BENCH_PICKLE_BOOL);
    v.as.integer = is_true;
    return bench_pickle_push(m, v);
}

bool bench_pickle_step_scalar(machine *m)
{
    switch (m->opcode) {
    case PICKLE_NONE:
        return bench_pickle_push(m, bench_pickle_make(m, BENCH_PICKLE_NONE));
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
    case PICKLE_BINSTRING:
        return push_text(m, 4);
    case PICKLE_SHORT_BINSTRING:
        return push_text(m, 1);
    case PICKLE_STRING:
    case PICKLE_UNICODE:
        return push_text_line(m);
    case PICKLE_INT:
    case PICKLE_LONG:
    case PICKLE_FLOAT:
        return push_number_line(m);
    default:
        return bench_pickle_step_object(m);
    }
}
