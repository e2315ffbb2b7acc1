/* pickle_machine.h - the machine that runs a pickle, for the reader's own files only.
 *
 * It has a stack with marks, a memo, and the memory of the values. The values' memory comes in
 * pieces that are freed together at the end. So values may point anywhere. A function that fails
 * returns false or NULL after writing the message. */
#ifndef PLEAT_BENCH_PICKLE_MACHINE_H
#define PLEAT_BENCH_PICKLE_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/import/pickle.h"

enum { MOST_MARKS = 64 };

typedef bench_pickle_value value;
typedef bench_pickle_node node;

typedef struct bench_pickle_piece {
    struct bench_pickle_piece *next;
    size_t n_used;
    size_t n_bytes;
    max_align_t data[];
} piece;

typedef struct values {
    value *of;
    size_t n;
    size_t capacity;
} values;

typedef struct machine {
    const char *path;
    const char *const *wanted;
    bench_failure *failure;
    const unsigned char *data;
    size_t n;
    size_t at;
    size_t opcode_at;
    unsigned char opcode;
    bool is_over;
    values stack;
    values memo;
    size_t n_memo; /* entries that are set */
    size_t marks[MOST_MARKS];
    unsigned n_marks;
    piece *pieces;
    uint64_t host_bytes; /* of everything above */
    uint64_t most_host_bytes;
} machine;

/* ---- pickle_machine.c ---- */

/* False, always. */
bool bench_pickle_complain(machine *m, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool bench_pickle_out_of_memory(machine *m);
/* The file ends before its pickle does, as after a copy or a dump that was interrupted. */
bool bench_pickle_cut_short(machine *m);
/* Refuses an opcode that is unknown or would execute something. */
bool bench_pickle_refuse(machine *m);

/* The memory is never freed alone. */
void *bench_pickle_memory(machine *m, size_t bytes);
void bench_pickle_free_pieces(piece *pieces);

/* A fresh value of this opcode. */
value bench_pickle_make(const machine *m, bench_pickle_kind kind);
bool bench_pickle_push(machine *m, value v);
bool bench_pickle_need(machine *m, size_t n); /* are there n values since the last mark? */
bool bench_pickle_open_mark(machine *m);
/* The height of the stack at the last mark; SIZE_MAX and a message when there is no mark. */
size_t bench_pickle_close_mark(machine *m);

/* The `n` bytes of the opcode's argument. */
const unsigned char *bench_pickle_take(machine *m, uint64_t n);
bool bench_pickle_take_number(machine *m, unsigned n_bytes, uint64_t *out);

/* ---- opcodes: each function does its own and calls the next one; the last refuses ------------ */

bool bench_pickle_step_scalar(machine *m);    /* pickle_scalar.c */
bool bench_pickle_step_memo(machine *m);      /* pickle_machine.c */
bool bench_pickle_step_container(machine *m); /* pickle_container.c */

/* pickle_container.c. NULL: the dictionary lacks the key. */
value *bench_pickle_find(const node *dict, const char *key, size_t length);

#endif
