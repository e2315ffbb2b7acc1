/* pickle.h - reads Python's pickles as data only and executes nothing.
 *
 * Knows protocols 2 to 5, but only the opcodes for numbers, strings, lists, tuples and
 * dictionaries. All other opcodes are refused by name, above all opcodes that could name or call
 * code (GLOBAL, REDUCE, BUILD, INST, OBJ, NEWOBJ, persistent ids, EXT*).
 *
 * Host memory beside the file stays below 16 MiB plus 32 times the file, and below 8 GiB. A
 * reference to the memo takes 16 bytes and never copies. A string is a view into the file. A
 * dictionary keeps only the caller's wanted keys, each once. A tuple keeps one number. A file that
 * needs more memory is refused, unless `limits` allow more. At most 64 marks may be open and 2^20
 * values on the stack.
 *
 * Offsets count decompressed bytes. */
#ifndef PLEAT_BENCH_PICKLE_H
#define PLEAT_BENCH_PICKLE_H

#include <stdint.h>

#include "bench/import/bytes.h"

typedef enum bench_pickle_kind {
    BENCH_PICKLE_UNSET, /* never seen by the caller */
    BENCH_PICKLE_NONE,
    BENCH_PICKLE_BOOL,
    BENCH_PICKLE_INTEGER,
    BENCH_PICKLE_HUGE, /* an integer of more than 64 bits */
    BENCH_PICKLE_REAL,
    BENCH_PICKLE_TEXT,
    BENCH_PICKLE_LIST,
    BENCH_PICKLE_TUPLE, /* its items are forgotten; as.integer: 0 if all were the integer 0, and
                         * else a digest */
    BENCH_PICKLE_DICT
} bench_pickle_kind;

struct bench_pickle_node;

/* The memory behind the pointers belongs to the pickle. A LIST and a DICT have a node. */
typedef struct bench_pickle_value {
    union {
        int64_t integer; /* and BOOL */
        double real;
        const char *text; /* not terminated */
        struct bench_pickle_node *node;
    } as;
    uint32_t at;          /* the value's offset in the file */
    uint32_t length : 24; /* of a text */
    uint32_t kind : 8;
} bench_pickle_value;

/* A list or a dictionary; the items of a dictionary are key, value, key, value. */
typedef struct bench_pickle_node {
    bench_pickle_value *items;
    uint32_t n;
    uint32_t capacity;
    bool has_dropped; /* the list dropped dictionaries without a wanted key */
} bench_pickle_node;

typedef struct bench_pickle {
    bench_bytes bytes;
    bench_pickle_value root;
    struct bench_pickle_piece *pieces;
} bench_pickle;

/* `limits` may be NULL. `wanted` are the keys to keep, with NULL at the end. False and a message
 * with file and offset. */
bool bench_pickle_read(const char *path, const bench_limits *limits, const char *const *wanted,
                       bench_pickle *out, bench_failure *failure);
void bench_pickle_free(bench_pickle *pickle);

/* The value of a dictionary's key, or NULL; NULL also when `value` is no dictionary. */
const bench_pickle_value *bench_pickle_get(const bench_pickle_value *value, const char *key);
bool bench_pickle_is_text(const bench_pickle_value *value, const char *text);
/* "a list", "a string"... */
const char *bench_pickle_kind_text(const bench_pickle_value *value);

#endif
