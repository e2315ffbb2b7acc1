/* words.c - see words.h. */
#include "bench/import/words.h"

#include <stddef.h>

const char *const bench_words[BENCH_N_WORDS + 1] = {
#define X(name, text) [BENCH_WORD_##name] = (text),
    BENCH_WORD_LIST(X)
#undef X
        [BENCH_N_WORDS] = NULL,
};
