/* key.h - the configuration's keys, and the keys of the allocators' option tables. */
#ifndef PLEAT_API_CONFIG_KEY_H
#define PLEAT_API_CONFIG_KEY_H

#include "api/config/config.h"
#include "api/config/option.h"

typedef enum pl_key_kind {
    PL_KEY_OPTION,    /* as its option says */
    PL_KEY_LIMIT,     /* fraction, size or none */
    PL_KEY_ALLOCATOR, /* any allocator, or mxnet: mxnet.h */
    PL_KEY_FALLBACK,  /* an allocator that needs no VMM, or none */
    PL_KEY_SIM,       /* the simulator's configuration in brackets */
    PL_KEY_METRICS,   /* a path, auto or none */
    PL_KEY_POLICY,    /* a path or none */
} pl_key_kind;

typedef struct pl_key {
    const pl_option *option;
    size_t base; /* offset in pl_config of the struct that `option` is a field of */
    pl_key_kind kind;
} pl_key;

/* Most keys, and most bytes of a key's name with the end mark. */
enum { PL_KEYS_MOST = 64, PL_KEY_NAME_BYTES = 64 };

/* The keys, in the order of writing; false after the last. */
bool pl_key_at(unsigned index, pl_key *out);

/* True if both keys set the same field. */
bool pl_key_is_same(const pl_key *key, const pl_key *other);

/* The value of a key: a number, a size or a word. */
uint64_t pl_key_load(const pl_key *key, const pl_config *config);

/* Read `value` into its field. False, and nothing is written, for a value that is not allowed.
 * is_bracketed: the value stood in brackets. */
bool pl_key_read(const pl_key *key, pl_span value, bool is_bracketed, pl_config *config);
/* Set the error text for a bad value in `source`, the name of a string or of a variable. Returns
 * PLEAT_ECONF. */
pleat_status pl_key_refuse(const char *source, const pl_key *key, pl_span value);
/* The number of bytes of the user's text that an error repeats. */
int pl_key_echo_bytes(pl_span span);
/* False for a key never given if its default has no spelling. */
bool pl_key_is_written(const pl_key *key, const pl_config *config);
void pl_key_write(const pl_key *key, const pl_config *config, pl_text *text);

#endif
