/* config_key.h - the configuration's keys: one table drives reading, writing and error texts. */
#ifndef PLEAT_API_CONFIG_KEY_H
#define PLEAT_API_CONFIG_KEY_H

#include "api/config.h"
#include "api/parse.h"
#include "api/text.h"

typedef enum pl_key_kind {
    PL_KEY_WORD,      /* one of `words`, stored as its index */
    PL_KEY_NUMBER,    /* least..most, stored times `scale` */
    PL_KEY_SIZE,      /* bytes, not 0 */
    PL_KEY_BOOL,      /* True or False */
    PL_KEY_PART,      /* a fraction below 1, or 0 */
    PL_KEY_POWER,     /* a power of two up to `most`, or 0 */
    PL_KEY_LIMIT,     /* fraction, size or none */
    PL_KEY_ALLOCATOR, /* any allocator */
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
} pl_key;

enum { PL_KEYS_MOST = 64 };           /* there are no more than this */
enum { PL_WHOLE_PARTS = 1000000000 }; /* of a fraction */

/* The keys in the order in which they are written; NULL at the end. */
const pl_key *pl_key_at(unsigned index);

/* The field of a number, a size or a word. */
uint64_t pl_key_load(const pl_key *key, const pl_config *config);

/* Read `value` into its field; false, and nothing is written, if it is not allowed.
 * is_bracketed: it stood in brackets. */
bool pl_key_read(const pl_key *key, pl_span value, bool is_bracketed, pl_config *config);
/* Say what pl_key_read takes. */
void pl_key_say_allowed(const pl_key *key, pl_text *text);
/* Keys that were never given and whose default has no spelling are left out. */
bool pl_key_is_written(const pl_key *key, const pl_config *config);
void pl_key_write(const pl_key *key, const pl_config *config, pl_text *text);

#endif
