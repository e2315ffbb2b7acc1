/* pickle_machine.h - the machine that builds a file's values, for the readers' own files only.
 *
 * It has a stack with marks, a memo, and the memory of the values. The values' memory comes in
 * pieces that are freed together at the end. So values may point anywhere. Room for items that are
 * no longer needed is used again. A function that fails returns false or NULL after writing the
 * message. */
#ifndef PLEAT_BENCH_PICKLE_MACHINE_H
#define PLEAT_BENCH_PICKLE_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/pickle/pickle.h"

enum { MOST_MARKS = 64, LONGEST_TEXT = 65535, N_ROOMS = 28 };

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

typedef struct room {
    struct room *next;
} room;

typedef struct bench_pickle_machine {
    const char *path;
    const bench_pickle_wants *wants;
    bench_failure *failure;
    bench_progress *progress; /* may be NULL */
    const unsigned char *data;
    size_t n;
    size_t at;
    size_t opcode_at;
    unsigned char opcode;
    bool is_over;
    bool is_json; /* no memo: what is folded is named nowhere else */
    values stack;
    values memo;
    size_t n_memo; /* entries that are set */
    size_t marks[MOST_MARKS];
    unsigned n_marks;
    piece *pieces;
    room *rooms[N_ROOMS]; /* for 2^i items */
    room *nodes;
    uint64_t host_bytes; /* of everything above */
    uint64_t most_host_bytes;
} machine;

/* ---- pickle_machine.c ---- */

/* False, always. */
bool bench_pickle_complain(machine *m, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool bench_pickle_out_of_memory(machine *m);
/* The file ends before its value does, as after a copy or a dump that was interrupted. */
bool bench_pickle_cut_short(machine *m);

/* The memory is never freed alone. */
void *bench_pickle_memory(machine *m, size_t bytes);
/* Room for 2^class items, and its return. */
value *bench_pickle_room(machine *m, unsigned class);
void bench_pickle_leave(machine *m, value *items, size_t capacity);
node *bench_pickle_node_make(machine *m);
void bench_pickle_free_pieces(piece *pieces);

/* A fresh value of this opcode. */
value bench_pickle_make(const machine *m, bench_pickle_kind kind);
value bench_pickle_make_text(const machine *m, const void *bytes, uint64_t n);
bool bench_pickle_push(machine *m, value v);
bool bench_pickle_push_object(machine *m, const void *name, uint64_t n);
bool bench_pickle_need(machine *m, size_t n); /* are there n values since the last mark? */
bool bench_pickle_open_mark(machine *m);
/* The height of the stack at the last mark; SIZE_MAX and a message when there is no mark. */
size_t bench_pickle_close_mark(machine *m);

/* The `n` bytes of the opcode's argument. */
const unsigned char *bench_pickle_take(machine *m, uint64_t n);
bool bench_pickle_take_number(machine *m, unsigned n_bytes, uint64_t *out);
/* The argument is a line of `*n` bytes, without its end; NULL: there is none. */
const char *bench_pickle_take_line(machine *m, size_t *n);
/* A decimal integer of 64 bits, or HUGE; its kind is REAL if the text is no integer. */
value bench_pickle_decimal(const machine *m, const char *text, size_t n);

/* ---- opcodes: each function does its own and calls the next one; the last refuses ------------ */

bool bench_pickle_step_scalar(machine *m);    /* pickle_scalar.c */
bool bench_pickle_step_object(machine *m);    /* pickle_object.c */
bool bench_pickle_step_memo(machine *m);      /* pickle_machine.c */
bool bench_pickle_step_container(machine *m); /* pickle_container.c */

/* ---- pickle_container.c ---- */

bool bench_pickle_push_empty(machine *m, bench_pickle_kind kind);
/* Turn the last `n` values of the stack into a tuple. */
bool bench_pickle_push_tuple(machine *m, size_t n);
/* Move the values from `first` on into the list, the pairs into the dictionary, below them. */
bool bench_pickle_append_from(machine *m, size_t first);
bool bench_pickle_set_from(machine *m, size_t first);

#endif
