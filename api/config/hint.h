/* hint.h - guesses the user's intention: the nearest known word, and sizes with a slip in them. For
 * messages of the library and of the command. No lock, no memory. */
#ifndef PLEAT_API_CONFIG_HINT_H
#define PLEAT_API_CONFIG_HINT_H

#include "api/base/text.h"
#include "api/config/parse.h"

enum { PL_HINT_WORD = 64, PL_HINT_BYTES = 224 };

/* The offered word nearest to a mistyped word. */
typedef struct pl_nearest {
    pl_span word;
    unsigned distance; /* of `best`; too large a distance = no word yet */
    char best[PL_HINT_WORD];
} pl_nearest;

/* Longer words than PL_HINT_WORD - 1 bytes are near to nothing. */
void pl_nearest_init(pl_nearest *nearest, pl_span word);
/* A known word. The distance counts missing, extra and wrong characters, and exchanged neighbours.
 * Up to a third of the longer word may be wrong. */
void pl_nearest_offer(pl_nearest *nearest, pl_span known);
/* Writes "; did you mean 'X'?", or `none`; returns `out`. */
const char *pl_nearest_say(const pl_nearest *nearest, const char *none, char out[PL_HINT_BYTES]);

/* Append why a text is no size, and return true, if the reason is known. Known reasons are KB, MB,
 * ... (powers of 1,000 to some readers), a number without a unit, and an empty text. */
bool pl_hint_size(pl_span value, pl_text *text);

#endif
