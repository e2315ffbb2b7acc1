/* tape.h - the events of a run, in order. Readers of files write all events into memory. Generators
 * write events piece by piece.
 *
 * A tape knows which blocks are live. Slots are dense: a slot is a live block's place in an array
 * and is reused after the free, the last freed first.
 *
 * A block freed during another stream's use is pending, not live (uses.h).
 *
 * A tape with `most_held` keeps at most that many entries in memory. When there are more, all
 * entries go to a file, and from then on only the latest are held. */
#ifndef PLEAT_BENCH_TAPE_H
#define PLEAT_BENCH_TAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/work/event.h"
#include "bench/work/host.h"
#include "bench/work/spill.h"
#include "bench/work/uses.h"

#define BENCH_BLOCK_UNIT 512u                   /* the unit for counting live bytes */
#define BENCH_LARGEST_BLOCK (UINT64_C(1) << 47) /* the whole address space of a driver */
#define BENCH_MOST_STREAMS 1024u                /* in a run */
#define BENCH_MOST_HELD ((size_t)1 << 22)       /* of a file: 64 MiB */

typedef struct bench_tape {
    bench_event *entries;
    size_t n_entries; /* with marks; in memory */
    size_t capacity;
    size_t most_held;   /* 0 = no limit */
    bench_spill *spill; /* file with all entries before those in memory; NULL = none */
    uint64_t n_events;  /* allocations and frees since the beginning */
    uint64_t n_marks;
    uint64_t live_bytes;
    uint64_t peak_live_bytes;    /* largest sum of live blocks, each rounded up to 512 bytes */
    uint64_t peak_event;         /* the first event with the peak */
    uint64_t peak_pending_bytes; /* largest sum of freed blocks with current uses */
    bench_uses uses;
    uint32_t n_uses;      /* most at once */
    uint64_t *slots;      /* rounded bytes of the slot's block; 0 = free */
    uint32_t *free_slots; /* a stack with room for all */
    uint32_t n_free_slots;
    uint32_t n_slots; /* most live blocks at once */
    uint32_t slot_capacity;
    uint32_t n_streams;
    bool is_host;        /* the blocks are pinned memory of the host, not the device's */
    bench_host host;     /* for these arrays, and for the reader of a file */
    const char *problem; /* static or host's; why the last call failed */
} bench_tape;

void bench_tape_init(bench_tape *tape);
void bench_tape_fini(bench_tape *tape);
/* Call after the last write. Frees spare room, and memory that only writing needs. A tape with a
 * file keeps no entry in memory. False with `problem` set when the file cannot be written. */
bool bench_tape_settle(bench_tape *tape);
/* Drop the entries written so far; live blocks stay. */
void bench_tape_rewind(bench_tape *tape);

/* False with `problem` set: no host memory or no room for the file, a size of 0 or beyond
 * BENCH_LARGEST_BLOCK, more than 2^60 live bytes, or more streams than BENCH_MOST_STREAMS. The tape
 * is as before. */
bool bench_tape_alloc(bench_tape *tape, uint64_t bytes, uint32_t stream, uint32_t *slot);
/* `slot` must be live. */
bool bench_tape_free(bench_tape *tape, uint32_t slot);
bool bench_tape_mark(bench_tape *tape, uint64_t number);
/* The block in `slot`, which must be live, is used on `stream` until bench_tape_use_end. */
bool bench_tape_use(bench_tape *tape, uint32_t slot, uint32_t stream, uint32_t *use);
/* `use` must be current. Its block may be freed. */
bool bench_tape_use_end(bench_tape *tape, uint32_t use);

#endif
