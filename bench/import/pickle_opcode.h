/* pickle_opcode.h - the opcodes of Python's pickles. Source: CPython, Lib/pickle.py. */
#ifndef PLEAT_BENCH_PICKLE_OPCODE_H
#define PLEAT_BENCH_PICKLE_OPCODE_H

typedef enum bench_pickle_opcode {
    PICKLE_MARK = '(',
    PICKLE_STOP = '.',
    PICKLE_NONE = 'N',
    PICKLE_BININT = 'J',
    PICKLE_BININT1 = 'K',
    PICKLE_BININT2 = 'M',
    PICKLE_BINFLOAT = 'G',
    PICKLE_BINUNICODE = 'X',
    PICKLE_APPEND = 'a',
    PICKLE_APPENDS = 'e',
    PICKLE_BINGET = 'h',
    PICKLE_LONG_BINGET = 'j',
    PICKLE_BINPUT = 'q',
    PICKLE_LONG_BINPUT = 'r',
    PICKLE_EMPTY_LIST = ']',
    PICKLE_SETITEM = 's',
    PICKLE_SETITEMS = 'u',
    PICKLE_EMPTY_DICT = '}',
    PICKLE_TUPLE = 't',
    PICKLE_EMPTY_TUPLE = ')',
    PICKLE_PROTO = 0x80,
    PICKLE_TUPLE1 = 0x85,
    PICKLE_TUPLE2 = 0x86,
    PICKLE_TUPLE3 = 0x87,
    PICKLE_NEWTRUE = 0x88,
    PICKLE_NEWFALSE = 0x89,
    PICKLE_LONG1 = 0x8a,
    PICKLE_LONG4 = 0x8b,
    PICKLE_SHORT_BINUNICODE = 0x8c,
    PICKLE_BINUNICODE8 = 0x8d,
    PICKLE_MEMOIZE = 0x94,
    PICKLE_FRAME = 0x95
} bench_pickle_opcode;

/* The name of any opcode of any protocol, or NULL. */
const char *bench_pickle_opcode_name(unsigned char opcode);

#endif
