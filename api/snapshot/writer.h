/* writer.h - write a tree of dictionaries, lists and plain values, event by event.
 *
 * Two formats: a pickle (pickle.c) and JSON (json.c). The writer keeps only one buffer, so a
 * snapshot of any size streams through it. JSON needs no library here: a linked allocator should
 * bring no further library along, and writing takes a few dozen lines and no tree in memory. The
 * tests read both with Python's own readers.
 *
 * Inside a dictionary every value follows a key; the writer checks no other rule. Texts become
 * valid UTF-8: bytes that are no character are replaced by U+FFFD. After the output has refused
 * bytes, writing has no effect, and pl_writer_finish returns false. One thread at a time. */
#ifndef PLEAT_API_SNAPSHOT_WRITER_H
#define PLEAT_API_SNAPSHOT_WRITER_H

#include "api/pleat.h"

enum { PL_WRITER_DEPTH = 12, PL_WRITER_BYTES = 1 << 15, PL_WRITER_WORDS = 256 };

typedef struct pl_writer pl_writer;

typedef struct pl_writer_format {
    void (*start)(pl_writer *w);
    void (*finish)(pl_writer *w);
    void (*item)(pl_writer *w); /* before a key of a dictionary or an item of a list */
    void (*open)(pl_writer *w);
    void (*close)(pl_writer *w);
    void (*word)(pl_writer *w, const char *word);
    void (*text)(pl_writer *w, const char *text, size_t n);
    void (*colon)(pl_writer *w); /* behind a key */
    void (*natural)(pl_writer *w, uint64_t value);
    void (*negative)(pl_writer *w, int64_t value);
    void (*real)(pl_writer *w, double value);
    void (*boolean)(pl_writer *w, bool value);
    void (*none)(pl_writer *w);
    void (*pair)(pl_writer *w, uint64_t first, uint64_t second);
    bool (*recall)(pl_writer *w, uint32_t memo);
    void (*keep)(pl_writer *w, uint32_t *memo);
} pl_writer_format;

extern const pl_writer_format pl_writer_pickle;
extern const pl_writer_format pl_writer_json;

typedef struct pl_writer_level {
    bool is_dict;
    uint32_t n; /* items or keys so far, or in the current batch */
} pl_writer_level;

typedef struct pl_writer_word {
    const char *word; /* NULL = none */
    uint32_t memo;
} pl_writer_word;

struct pl_writer {
    const pl_writer_format *format;
    pleat_write_fn write;
    void *context;
    bool has_failed; /* `write` refused; it is not called again */
    unsigned depth;  /* open lists and dictionaries */
    pl_writer_level levels[PL_WRITER_DEPTH];
    uint32_t n_memos;                      /* pickle: numbers in use */
    unsigned n_words;                      /* pickle: in `words` */
    pl_writer_word words[PL_WRITER_WORDS]; /* pickle: by address of the word */
    size_t n;                              /* bytes in the buffer */
    unsigned char buffer[PL_WRITER_BYTES];
};

void pl_writer_init(pl_writer *w, const pl_writer_format *format, pleat_write_fn write,
                    void *context);
/* Call at the end, with all lists and dictionaries closed. False: the output refused something. */
bool pl_writer_finish(pl_writer *w);

void pl_write_dict(pl_writer *w);                  /* begins one */
void pl_write_list(pl_writer *w);                  /* begins one */
void pl_write_end(pl_writer *w);                   /* ends the innermost list or dictionary */
void pl_write_key(pl_writer *w, const char *word); /* like pl_write_word */
/* A frequent text; `word` lives as long as the writer and is identified by its address. */
void pl_write_word(pl_writer *w, const char *word);
void pl_write_text(pl_writer *w, const char *text, size_t n);
void pl_write_natural(pl_writer *w, uint64_t value);
void pl_write_integer(pl_writer *w, int64_t value);
void pl_write_real(pl_writer *w, double value); /* none if not finite */
void pl_write_bool(pl_writer *w, bool value);
void pl_write_none(pl_writer *w);
void pl_write_pair(pl_writer *w, uint64_t first, uint64_t second); /* JSON: a list of two */

/* Write the value with that memo again, in few bytes. False: write it in full. 0 = no memo. */
bool pl_write_recall(pl_writer *w, uint32_t memo);
/* Let *memo recall the list or dictionary that has just ended; 0 if the format cannot. */
void pl_write_keep(pl_writer *w, uint32_t *memo);

/* ---- for formats ---- */

/* Room for n more bytes in the buffer, n <= PL_WRITER_BYTES. The caller writes there and adds the
 * number of bytes to w->n. */
unsigned char *pl_writer_room(pl_writer *w, size_t n);
void pl_writer_put(pl_writer *w, const void *bytes, size_t n);
void pl_writer_byte(pl_writer *w, unsigned char byte);
static inline pl_writer_level *pl_writer_level_of(pl_writer *w)
{
    return &w->levels[w->depth - 1];
}

#endif
