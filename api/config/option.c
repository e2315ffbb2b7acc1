/* option.c - reading and writing the values of the options of a table. No lock, no memory. */
#include "api/config/option.h"

#include <string.h>

#include "api/config/divisions.h"

static uint64_t scale_of(const pl_option *option)
{
    return option->scale ? option->scale : 1;
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool read_word(const pl_option *option, pl_span value, void *own)
{
    for (unsigned i = 0; option->words[i]; i++) {
        if (pl_span_is(value, option->words[i])) {
            pl_option_store(option, own, i);
            return true;
        }
    }
    return false;
}

static bool read_number(const pl_option *option, pl_span value, void *own)
{
    uint64_t number;
    if (!pl_parse_number(value, option->most, &number) || number < option->least) {
        return false;
    }
    pl_option_store(option, own, number * scale_of(option));
    return true;
}

static bool read_size(const pl_option *option, pl_span value, void *own)
{
    uint64_t bytes;
    if (!pl_parse_size(value, &bytes) || bytes < option->least || bytes == 0) {
        return false;
    }
    pl_option_store(option, own, bytes);
    return true;
}

static bool read_bool(const pl_option *option, pl_span value, void *own)
{
    bool is_true;
    if (!pl_parse_bool(value, &is_true)) {
        return false;
    }
    pl_option_store(option, own, is_true);
    return true;
}

/* A fraction: PL_OPTION_PART may be 0 but not 1, PL_OPTION_SHARE may be 1 but not 0. */
static bool read_part(const pl_option *option, pl_span value, void *own)
{
    bool is_share = option->kind == PL_OPTION_SHARE;
    uint32_t parts = 0;
    if (!(pl_span_is(value, "0") && !is_share) &&
        (!pl_parse_fraction(value, &parts) || (parts == PL_WHOLE_PARTS && !is_share))) {
        return false;
    }
    double part = (double)parts / PL_WHOLE_PARTS;
    memcpy((char *)own + option->offset, &part, sizeof part);
    return true;
}

static bool read_divisions(const pl_option *option, pl_span value, bool is_bracketed, void *own)
{
    uint64_t power;
    unsigned divisions[PL_N_DIVISIONS];
    if (is_bracketed) {
        if (!pl_divisions_read(value, option->most, divisions)) {
            return false;
        }
    } else {
        if (!pl_parse_number(value, option->most, &power) || (power & (power - 1)) != 0) {
            return false;
        }
        for (unsigned i = 0; i < PL_N_DIVISIONS; i++) {
            divisions[i] = (unsigned)power;
        }
    }
    memcpy((char *)own + option->offset, divisions, sizeof divisions);
    return true;
}

bool pl_option_read(const pl_option *option, pl_span value, bool is_bracketed, void *own)
{
    if (is_bracketed && option->kind != PL_OPTION_DIVISIONS) {
        return false;
    }
    switch (option->kind) {
    case PL_OPTION_WORD:
        return read_word(option, value, own);
    case PL_OPTION_NUMBER:
        return read_number(option, value, own);
    case PL_OPTION_SIZE:
        return read_size(option, value, own);
    case PL_OPTION_BOOL:
        return read_bool(option, value, own);
    case PL_OPTION_PART:
    case PL_OPTION_SHARE:
        return read_part(option, value, own);
    case PL_OPTION_DIVISIONS:
        return read_divisions(option, value, is_bracketed, own);
    }
    return false;
}

/* ---- allowed values -------------------------------------------------------------------------- */

void pl_option_say(const pl_option *option, pl_text *text)
{
    switch (option->kind) {
    case PL_OPTION_WORD:
        for (unsigned i = 0; option->words[i]; i++) {
            pl_text_add(text, "%s%s", i > 0 ? ", " : "", option->words[i]);
        }
        break;
    case PL_OPTION_NUMBER:
        pl_text_add(text, "a number from %llu to %llu", (unsigned long long)option->least,
                    (unsigned long long)option->most);
        break;
    case PL_OPTION_SIZE:
        pl_text_add(text, "a size such as 512M or 8GiB");
        if (option->least > 0) {
            pl_text_add(text, " (at least %llu)", (unsigned long long)option->least);
        }
        break;
    case PL_OPTION_BOOL:
        pl_text_add(text, "True, False");
        break;
    case PL_OPTION_PART:
        pl_text_add(text, "a fraction below 1 such as 0.8, 0");
        break;
    case PL_OPTION_SHARE:
        pl_text_add(text, "a fraction such as 0.8, 1");
        break;
    case PL_OPTION_DIVISIONS:
        pl_text_add(text, "a power of two up to %llu, 0, a list by MiB [256:1,512:2,>:4]",
                    (unsigned long long)option->most);
        break;
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

void pl_parts_write(uint32_t parts, pl_text *text)
{
    if (parts == PL_WHOLE_PARTS) {
        pl_text_add(text, "1");
    } else if (parts == 0) {
        pl_text_add(text, "0");
    } else {
        pl_text_add(text, "0.%09u", parts);
    }
}

bool pl_option_is_written(const pl_option *option, const void *own)
{
    if (option->is_second_spelling) {
        return false;
    }
    switch (option->kind) {
    case PL_OPTION_SIZE:
        return pl_option_load(option, own) != 0;
    case PL_OPTION_NUMBER:
        return pl_option_load(option, own) >= option->least;
    default:
        return true;
    }
}

void pl_option_write(const pl_option *option, const void *own, pl_text *text)
{
    const char *at = (const char *)own + option->offset;
    double part;
    unsigned divisions[PL_N_DIVISIONS];
    switch (option->kind) {
    case PL_OPTION_WORD:
        pl_text_add(text, "%s", option->words[pl_option_load(option, own)]);
        break;
    case PL_OPTION_NUMBER:
        pl_text_add(text, "%llu",
                    (unsigned long long)(pl_option_load(option, own) / scale_of(option)));
        break;
    case PL_OPTION_SIZE:
        pl_text_add(text, "%llu", (unsigned long long)pl_option_load(option, own));
        break;
    case PL_OPTION_BOOL:
        pl_text_add(text, "%s", pl_option_load(option, own) ? "True" : "False");
        break;
    case PL_OPTION_PART:
    case PL_OPTION_SHARE:
        memcpy(&part, at, sizeof part);
        pl_parts_write((uint32_t)(part * PL_WHOLE_PARTS + 0.5), text);
        break;
    case PL_OPTION_DIVISIONS:
        memcpy(divisions, at, sizeof divisions);
        pl_divisions_write(divisions, text);
        break;
    }
}
