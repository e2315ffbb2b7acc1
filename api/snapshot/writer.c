/* writer.c - the buffer, and code common to all formats. */
#include "api/snapshot/writer.h"

#include <string.h>

#include "vmm/base/assert.h"

void pl_writer_init(pl_writer *w, const pl_writer_format *format, pleat_write_fn write,
                    void *context)
{
    w->format = format;
    w->write = write;
    w->context = context;
    w->has_failed = false;
    w->depth = 0;
    w->n_memos = 0;
    w->n_words = 0;
    w->n = 0;
    memset(w->words, 0, sizeof w->words);
    format->start(w);
}

static void flush(pl_writer *w)
{
    if (w->n > 0 && !w->has_failed) {
        w->has_failed = !w->write(w->context, w->buffer, w->n);
    }
    w->n = 0;
}

bool pl_writer_finish(pl_writer *w)
{
    pl_assert(w->depth == 0);
    w->format->finish(w);
    flush(w);
    return !w->has_failed;
}

unsigned char *pl_writer_room(pl_writer *w, size_t n)
{
    if (w->n + n > sizeof w->buffer) {
        flush(w);
    }
    return w->buffer + w->n;
}

void pl_writer_put(pl_writer *w, const void *bytes, size_t n)
{
    const unsigned char *from = bytes;
    while (n > 0) {
        size_t part = n < sizeof w->buffer ? n : sizeof w->buffer;
        memcpy(pl_writer_room(w, part), from, part);
        w->n += part;
        from += part;
        n -= part;
    }
}

void pl_writer_byte(pl_writer *w, unsigned char byte)
{
    *pl_writer_room(w, 1) = byte;
    w->n++;
}

/* A value in a list needs a separator before it; after a key it needs none. */
static void begin_value(pl_writer *w)
{
    if (w->depth > 0 && !pl_writer_level_of(w)->is_dict) {
        w->format->item(w);
    }
}

static void begin(pl_writer *w, bool is_dict)
{
    pl_assert(w->depth < PL_WRITER_DEPTH);
    begin_value(w);
    w->levels[w->depth++] = (pl_writer_level){ .is_dict = is_dict };
    w->format->open(w);
}

void pl_write_dict(pl_writer *w)
{
    begin(w, true);
}

void pl_write_list(pl_writer *w)
{
    begin(w, false);
}

void pl_write_end(pl_writer *w)
{
    pl_assert(w->depth > 0);
    w->format->close(w);
    w->depth--;
}

void pl_write_key(pl_writer *w, const char *word)
{
    w->format->item(w);
    w->format->word(w, word);
    w->format->colon(w);
}

void pl_write_word(pl_writer *w, const char *word)
{
    begin_value(w);
    w->format->word(w, word);
}

void pl_write_text(pl_writer *w, const char *text, size_t n)
{
    begin_value(w);
    w->format->text(w, text, n);
}

void pl_write_natural(pl_writer *w, uint64_t value)
{
    begin_value(w);
    w->format->natural(w, value);
}

void pl_write_integer(pl_writer *w, int64_t value)
{
    begin_value(w);
    if (value >= 0) {
        w->format->natural(w, (uint64_t)value);
    } else {
        w->format->negative(w, value);
    }
}

void pl_write_real(pl_writer *w, double value)
{
    begin_value(w);
    if (__builtin_isfinite(value)) {
        w->format->real(w, value);
    } else {
        w->format->none(w);
    }
}

void pl_write_bool(pl_writer *w, bool value)
{
    begin_value(w);
    w->format->boolean(w, value);
}

void pl_write_none(pl_writer *w)
{
    begin_value(w);
    w->format->none(w);
}

void pl_write_pair(pl_writer *w, uint64_t first, uint64_t second)
{
    begin_value(w);
    w->format->pair(w, first, second);
}

bool pl_write_recall(pl_writer *w, uint32_t memo)
{
    if (memo == 0) {
        return false;
    }
    begin_value(w);
    return w->format->recall(w, memo);
}

void pl_write_keep(pl_writer *w, uint32_t *memo)
{
    w->format->keep(w, memo);
}
