/* pickle.c - a pickle of protocol 2, limited to the opcodes that PyTorch's web viewer knows.
 *
 * Lists and dictionaries are filled in batches of at most 1,000: the viewer passes a batch as the
 * arguments of one call. Words and kept values are in the memo; the viewer knows BINPUT for the
 * first 256 of them and LONG_BINPUT for the rest. Source: CPython, Lib/pickletools.py; PyTorch,
 * torch/utils/viz/MemoryViz.js. */
#include <string.h>

#include "api/snapshot/utf8.h"
#include "api/snapshot/writer.h"

enum { BATCH = 1000, MOST_WORDS = PL_WRITER_WORDS / 2, LONG_BYTES = 10 };

/* clang-format off */
enum {
    PROTO = 0x80, STOP = '.', MARK = '(', NONE = 'N', NEWTRUE = 0x88, NEWFALSE = 0x89,
    EMPTY_DICT = '}', SETITEMS = 'u', EMPTY_LIST = ']', APPENDS = 'e', TUPLE2 = 0x86,
    BININT = 'J', BININT1 = 'K', BININT2 = 'M', LONG1 = 0x8a, BINFLOAT = 'G', BINUNICODE = 'X',
    BINPUT = 'q', LONG_BINPUT = 'r', BINGET = 'h', LONG_BINGET = 'j'
};
/* clang-format on */

static size_t store(unsigned char *at, uint64_t value, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        at[i] = (unsigned char)(value >> (8 * i));
    }
    return n;
}

static void opcode_with(pl_writer *w, unsigned char opcode, uint64_t value, size_t n)
{
    unsigned char *at = pl_writer_room(w, 1 + n);
    at[0] = opcode;
    w->n += 1 + store(at + 1, value, n);
}

/* ---- the memo ---- */

static void put(pl_writer *w, uint32_t memo)
{
    opcode_with(w, memo < 256 ? BINPUT : LONG_BINPUT, memo, memo < 256 ? 1 : 4);
}

static void get(pl_writer *w, uint32_t memo)
{
    opcode_with(w, memo < 256 ? BINGET : LONG_BINGET, memo, memo < 256 ? 1 : 4);
}

/* The word's place in the table, or the free place for it. */
static pl_writer_word *find_word(pl_writer *w, const char *word)
{
    uint64_t hash = (uint64_t)(uintptr_t)word * 0x9E3779B97F4A7C15U;
    size_t i = (size_t)(hash >> 56);
    while (w->words[i].word && w->words[i].word != word) {
        i = (i + 1) % PL_WRITER_WORDS;
    }
    return &w->words[i];
}

/* The caller's numbers count from 1, because 0 means "none". */
static bool pickle_recall(pl_writer *w, uint32_t memo)
{
    get(w, memo - 1);
    return true;
}

static void pickle_keep(pl_writer *w, uint32_t *memo)
{
    put(w, w->n_memos);
    *memo = ++w->n_memos;
}

/* ---- values ---- */

static size_t valid_bytes(const unsigned char *text, size_t n)
{
    size_t sum = 0;
    for (size_t i = 0; i < n;) {
        int is_valid;
        size_t step = pl_utf8_next(text + i, n - i, &is_valid);
        sum += is_valid ? step : PL_UTF8_NONE_BYTES;
        i += step;
    }
    return sum;
}

static void pickle_text(pl_writer *w, const char *text, size_t n)
{
    const unsigned char *from = (const unsigned char *)text;
    n = n < INT32_MAX / 4 ? n : INT32_MAX / 4;
    opcode_with(w, BINUNICODE, valid_bytes(from, n), 4);
    for (size_t i = 0; i < n;) {
        int is_valid;
        size_t step = pl_utf8_next(from + i, n - i, &is_valid);
        pl_writer_put(w, is_valid ? (const void *)(from + i) : "\xEF\xBF\xBD",
                      is_valid ? step : PL_UTF8_NONE_BYTES);
        i += step;
    }
}

static void pickle_word(pl_writer *w, const char *word)
{
    pl_writer_word *known = find_word(w, word);
    if (known->word) {
        get(w, known->memo);
        return;
    }
    pickle_text(w, word, strlen(word));
    if (w->n_words < MOST_WORDS) {
        *known = (pl_writer_word){ .word = word, .memo = w->n_memos++ };
        w->n_words++;
        put(w, known->memo);
    }
}

static void pickle_natural(pl_writer *w, uint64_t value)
{
    if (value < 1U << 8) {
        opcode_with(w, BININT1, value, 1);
    } else if (value < 1U << 16) {
        opcode_with(w, BININT2, value, 2);
    } else if (value <= INT32_MAX) {
        opcode_with(w, BININT, value, 4);
    } else {
        size_t n = 4; /* the top bit is the sign */
        while (n < 8 && value >> (8 * n - 1) != 0) {
            n++;
        }
        n += n == 8 && value >> 63;
        unsigned char *at = pl_writer_room(w, LONG_BYTES + 1);
        at[0] = LONG1;
        at[1] = (unsigned char)n;
        at[10] = 0;
        store(at + 2, value, 8);
        w->n += 2 + n;
    }
}

static void pickle_negative(pl_writer *w, int64_t value)
{
    if (value >= INT32_MIN) {
        opcode_with(w, BININT, (uint64_t)value, 4);
    } else {
        unsigned char *at = pl_writer_room(w, LONG_BYTES);
        at[0] = LONG1;
        at[1] = 8;
        w->n += 2 + store(at + 2, (uint64_t)value, 8);
    }
}

static void pickle_real(pl_writer *w, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    opcode_with(w, BINFLOAT, __builtin_bswap64(bits), 8);
}

static void pickle_bool(pl_writer *w, bool value)
{
    pl_writer_byte(w, value ? NEWTRUE : NEWFALSE);
}

static void pickle_none(pl_writer *w)
{
    pl_writer_byte(w, NONE);
}

static void pickle_pair(pl_writer *w, uint64_t first, uint64_t second)
{
    pickle_natural(w, first);
    pickle_natural(w, second);
    pl_writer_byte(w, TUPLE2);
}

/* ---- lists and dictionaries ---- */

static void end_batch(pl_writer *w)
{
    pl_writer_byte(w, pl_writer_level_of(w)->is_dict ? SETITEMS : APPENDS);
}

static void pickle_item(pl_writer *w)
{
    pl_writer_level *level = pl_writer_level_of(w);
    if (level->n == BATCH) {
        end_batch(w);
        level->n = 0;
    }
    if (level->n++ == 0) {
        pl_writer_byte(w, MARK);
    }
}

static void pickle_open(pl_writer *w)
{
    pl_writer_byte(w, pl_writer_level_of(w)->is_dict ? EMPTY_DICT : EMPTY_LIST);
}

static void pickle_close(pl_writer *w)
{
    if (pl_writer_level_of(w)->n > 0) {
        end_batch(w);
    }
}

static void pickle_colon(pl_writer *w)
{
    (void)w;
}

static void pickle_start(pl_writer *w)
{
    opcode_with(w, PROTO, 2, 1);
}

static void pickle_finish(pl_writer *w)
{
    pl_writer_byte(w, STOP);
}

const pl_writer_format pl_writer_pickle = {
    .start = pickle_start,
    .finish = pickle_finish,
    .item = pickle_item,
    .open = pickle_open,
    .close = pickle_close,
    .word = pickle_word,
    .text = pickle_text,
    .colon = pickle_colon,
    .natural = pickle_natural,
    .negative = pickle_negative,
    .real = pickle_real,
    .boolean = pickle_bool,
    .none = pickle_none,
    .pair = pickle_pair,
    .recall = pickle_recall,
    .keep = pickle_keep,
};
