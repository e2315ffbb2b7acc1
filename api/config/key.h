/* key.h - the configuration's keys: one table drives reading, writing and error texts. */
#ifndef PLEAT_API_CONFIG_KEY_H
#define PLEAT_API_CONFIG_KEY_H

#include "api/config/config.h"
#include "api/config/parse.h"
#include "api/text.h"

typedef enum pl_key_kind {
    PL_KEY_WORD,      /* one of `words`, stored as its index */
    PL_KEY_NUMBER,    /* least..most, stored times `scale` */
    PL_KEY_SIZE,      /* bytes, at least `least` and not 0 */
    PL_KEY_BOOL,      /* True or False */
    PL_KEY_PART,      /* a fraction below 1, or 0 */
    PL_KEY_SHARE,     /* a fraction above 0, or 1 */
    PL_KEY_DIVISIONS, /* a power of two up to `most`, 0, or a list: divisions.h */
    PL_KEY_LIMIT,     /* fraction, size or none */
    PL_KEY_ALLOCATOR, /* any allocator, or mxnet: mxnet.h */
    PL_KEY_FALLBACK,  /* an allocator that needs no VMM, or none */
    PL_KEY_SIM,       /* the simulator's configuration in brackets */
} pl_key_kind;

typedef struct pl_key {
    const char *name;
    pl_key_kind kind;
    size_t offset; /* of the field in pl_config */
    size_t bytes;  /* of the field */
    uint64_t least;
    uint64_t most;
    uint64_t scale;
    const char *const *words; /* in the order of the enum */
    bool is_second_spelling;  /* of the key before it: the same field */
} pl_key;

/* Bounds of their number and the length of their names, the fraction 1. */
enum { PL_KEYS_MOST = 64, PL_KEY_NAME_BYTES = 64, PL_WHOLE_PARTS = 1000000000 };

/* The keys in the order in which they are written; NULL at the end. */
const pl_key *pl_key_at(unsigned index);

/* The field of a number, a size or a word. */
uint64_t pl_key_load(const pl_key *key, const pl_config *config);

/* Read `value` into its field; false, and nothing is written, if it is not allowed.
 * is_bracketed: it stood in brackets. */
bool pl_key_read(const pl_key *key, pl_span value, bool is_bracketed, pl_config *config);
/* The error of a value that `source`, a string or a variable, gave. PLEAT_ECONF. */
pleat_status pl_key_refuse(const char *source, const pl_key *key, pl_span value);
/* How much of what somebody wrote an error's text repeats. */
int pl_key_echo_bytes(pl_span span);
/* Keys that were never given and whose default has no spelling are left out. */
bool pl_key_is_written(const pl_key *key, const pl_config *config);
void pl_key_write(const pl_key *key, const pl_config *config, pl_text *text);

#endif
