/* pickle_scalar.c - the opcodes of values without items: numbers, strings, truth, None. */
#include <string.h>

#include "bench/import/pickle_machine.h"
#include "bench/import/pickle_opcode.h"

enum { LONGEST_TEXT = (1 << 24) - 1 };

static bool push_text(machine *m, unsigned n_bytes)
{
    uint64_t length;
    if (!bench_pickle_take_number(m, n_bytes, &length)) {
        return false;
    }
    if (length > LONGEST_TEXT) {
        return bench_pickle_complain(m, "a string of more than 16 MiB");
    }
    const unsigned char *bytes = bench_pickle_take(m, length);
    if (!bytes) {
        return false;
    }
    value v = bench_pickle_make(m, BENCH_PICKLE_TEXT);
    v.as.text = (const char *)bytes;
    v.length = length & 0xffffffu;
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
    default:
        return bench_pickle_step_memo(m);
    }
}
