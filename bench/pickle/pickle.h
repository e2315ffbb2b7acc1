/* pickle.h - reads Python's pickles, and JSON, as data only and executes nothing.
 *
 * Knows protocols 0 to 5, files of torch.save and other archives of one pickle (zip.h), and JSON
 * (json.h). Numbers, strings, lists, tuples and dictionaries are read. What would name or call code
 * (GLOBAL, REDUCE, BUILD, INST, OBJ, NEWOBJ, persistent ids, EXT*) is skipped: in its place stands
 * an object of which nothing is known. Sets and bytes are such objects, too. A dictionary of
 * Python's library (OrderedDict, defaultdict, Counter) is a dictionary.
 *
 * Memory: a reference to the memo takes 16 bytes and never copies. A string is a view into the
 * file. A dictionary keeps the keys that are words, each once. A tuple keeps one number. The caller
 * may fold a dictionary that goes into a list. Folding copies the values elsewhere and frees the
 * dictionary's items. So a snapshot takes about as much memory as its file. Host
 * memory beside the file stays below 16 MiB plus 32 times the file, and below 8 GiB; a file that
 * needs more is refused, unless `limits` allow more. At most 64 marks may be open and 2^20 values
 * on the stack.
 *
 * Offsets count decompressed bytes, in an archive those of the member. */
#ifndef PLEAT_BENCH_PICKLE_H
#define PLEAT_BENCH_PICKLE_H

#include <stdint.h>

#include "bench/pickle/bytes.h"

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
    BENCH_PICKLE_DICT,
    BENCH_PICKLE_OBJECT, /* of a class; as.text: the class's name, or of no length */
    BENCH_PICKLE_RUN     /* in a list: dictionaries that were folded one after another */
} bench_pickle_kind;

struct bench_pickle_node;

/* The memory behind the pointers belongs to the pickle. A LIST and a DICT have a node. */
typedef struct bench_pickle_value {
    union {
        int64_t integer; /* and BOOL; of a RUN the index of the first */
        double real;
        const char *text; /* not terminated */
        struct bench_pickle_node *node;
    } as;
    uint32_t at;          /* the value's offset in the file; of a RUN how many */
    uint32_t length : 16; /* of a text, which is cut to so many bytes */
    uint32_t kind : 4;
    uint32_t word : 6; /* a text that is a word: 1 + its index; of a RUN what was folded */
    uint32_t key : 6;  /* in a dictionary: 1 + the index of its key; see `keeps` for 0 */
} bench_pickle_value;

/* A list or a dictionary. */
typedef struct bench_pickle_node {
    union {
        bench_pickle_value *items; /* of a dictionary the values */
        uint64_t index;            /* of what is folded, which has no items */
    } of;
    uint32_t n;
    uint32_t capacity : 28;
    uint32_t folded : 3;      /* what the caller made of it; 0 = nothing */
    uint32_t has_dropped : 1; /* the list dropped dictionaries without a word as key */
} bench_pickle_node;

typedef struct bench_pickle {
    bench_bytes bytes;
    size_t n_bytes; /* of the text read: of an archive's member, or all */
    bench_pickle_value root;
    struct bench_pickle_piece *pieces;
} bench_pickle;

struct bench_pickle_machine;

/* What the caller wants of a file. */
typedef struct bench_pickle_wants {
    const char *const *words; /* the keys to keep, and texts to know; NULL at the end; at most 63 */
    /* A dictionary is complete and goes into a list. The caller may keep what it says, and then
     * calls bench_pickle_fold. False and a message: the file cannot be read. NULL: none folds. */
    bool (*fold)(void *context, struct bench_pickle_machine *m, bench_pickle_value *dict);
    /* Is the value to be kept under a key that is no word? Then the key stands before the value,
     * both with a `key` of 0. NULL: none is. */
    bool (*keeps)(const bench_pickle_value *value);
    void *context;
    bench_failure *failure;
} bench_pickle_wants;

/* `limits` may be NULL. False and a message with file and offset. */
bool bench_pickle_read(const char *path, const bench_limits *limits,
                       const bench_pickle_wants *wants, bench_pickle *out);
void bench_pickle_free(bench_pickle *pickle);

/* Does the file's first value hold a word as its first key? False also where this cannot be said.
 * Reads the first bytes only. */
bool bench_pickle_begins_with_word(const char *path, const char *const *words);

/* For a fold: `node` now is number `index` of what the caller calls `folded`, 1 to 7. Its items are
 * gone. */
void bench_pickle_fold(struct bench_pickle_machine *m, bench_pickle_node *node, unsigned folded,
                       uint32_t index);

/* The value of a dictionary's key, the index of a word, or NULL; NULL also when `value` is no
 * dictionary. */
const bench_pickle_value *bench_pickle_get(const bench_pickle_value *value, unsigned word);
bool bench_pickle_is_text(const bench_pickle_value *value, const char *text);
static inline bool bench_pickle_is_word(const bench_pickle_value *value, unsigned word)
{
    return value->kind == BENCH_PICKLE_TEXT && value->word == word + 1;
}
/* "a list", "a string"... */
const char *bench_pickle_kind_text(const bench_pickle_value *value);

#endif
