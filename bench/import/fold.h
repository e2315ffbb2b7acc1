/* fold.h - keeps what a snapshot's dictionaries say, as each is complete: events, blocks, frames.
 *
 * An event takes 40 bytes instead of a dictionary's. A malformed dictionary is left as it is; its
 * reader names the fault. */
#ifndef PLEAT_BENCH_FOLD_H
#define PLEAT_BENCH_FOLD_H

#include "bench/import/snapshot.h"
#include "bench/import/stacks.h"

enum { BENCH_FOLD_EVENT = 1, BENCH_FOLD_BLOCK, BENCH_FOLD_FRAME, BENCH_FOLD_STACK };

#define BENCH_NO_ADDRESS UINT64_MAX

typedef struct bench_fold_block {
    uint64_t address; /* BENCH_NO_ADDRESS: behind the block before */
    uint64_t bytes;
    uint64_t requested_bytes;
    uint32_t at;
    uint32_t stack;
    uint8_t state; /* a bench_state_kind */
} bench_fold_block;

typedef struct bench_folds {
    const char *path;
    bench_failure *failure;
    bench_snapshot_entry *entries;
    size_t n_entries;
    size_t entry_capacity;
    bench_fold_block *blocks;
    size_t n_blocks;
    size_t block_capacity;
    bench_stacks stacks;
} bench_folds;

/* Call bench_folds_fini in either case. */
bool bench_folds_init(bench_folds *folds, const char *path, bench_failure *failure);
void bench_folds_fini(bench_folds *folds);

/* For bench_pickle_wants; `context` is a bench_folds. */
bool bench_fold(void *context, struct bench_pickle_machine *m, bench_pickle_value *dict);

/* Read an event or a block that did not fold: false and a message with its fault. */
bool bench_fold_read_entry(bench_folds *folds, const bench_pickle_value *from,
                           bench_snapshot_entry *out);
bool bench_fold_read_block(bench_folds *folds, const bench_pickle_value *from,
                           bench_fold_block *out);

/* The values of a dictionary: false and a message that says `what`'s fault. */
bool bench_fold_number(const bench_folds *folds, const bench_pickle_value *from, const char *what,
                       unsigned key, uint64_t *out);
bool bench_fold_number_or(const bench_folds *folds, const bench_pickle_value *from,
                          const char *what, unsigned key, uint64_t otherwise, uint64_t *out);
bool bench_fold_complain(const bench_folds *folds, const bench_pickle_value *at, const char *format,
                         ...) __attribute__((format(printf, 3, 4)));

#endif
