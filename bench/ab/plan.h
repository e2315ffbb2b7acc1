/* plan.h - the measurements of `pleat ab`: every allocator x every work x every size of the device.
 * Then come the cards of the verdict, and the moments that show why.
 *
 * There are three rounds, since each round needs the round before: replays and searches; cards;
 * moments. */
#ifndef PLEAT_BENCH_PLAN_H
#define PLEAT_BENCH_PLAN_H

#include "bench/ab/verdict.h"
#include "bench/base/cards.h"
#include "bench/base/size.h"
#include "bench/run/fit.h"
#include "bench/run/options.h"

enum { BENCH_MOST_MEMORIES = 16 };

typedef struct bench_ab_memory {
    char label[24]; /* as typed: 1.02x, 8GiB, unlimited */
    bench_memory memory;
} bench_ab_memory;

typedef struct bench_ab_options {
    bench_options common;
    bench_ab_memory memories[BENCH_MOST_MEMORIES];
    unsigned n_memories;
    const char *out; /* folder */
    unsigned jobs;   /* at once; 0 = choose a good number */
    unsigned repeat;
    unsigned n_timed; /* further replays, for the allocator's own time */
    unsigned later_passes;
    bool is_fit;
    bool has_report;
    bool has_charts; /* as files of their own, too */
    bool is_job;     /* the works are the ranks of a job */
    bool is_rank;    /* the work is a rank of a job; other processes may measure the rest */
    bool has_cards;  /* no sizes were asked for */
    bool is_fleet;   /* a work of many: no timelines, moments or times of the host */
    bool has_all;    /* every allocator, where none is named */
} bench_ab_options;

/* The least, median and most over the repeats of a cell. */
typedef struct bench_ab_spread {
    double median;
    double least;
    double most;
} bench_ab_spread;

/* Plain memory without pointers, as is bench_record. Times in `record` are medians. */
typedef struct bench_ab_result {
    bench_record record;
    bench_ab_spread driver_ms;       /* first loop */
    bench_ab_spread later_driver_ms; /* if there were later loops */
    bench_ab_spread seconds;         /* wall time of a repeat */
    bool counts_differ;              /* between repeats */
} bench_ab_result;

typedef enum bench_ab_state {
    BENCH_AB_WAITING, /* or never run, because of an interruption */
    BENCH_AB_MEASURED,
    BENCH_AB_FAILED,   /* see `problem` */
    BENCH_AB_NEEDLESS, /* a moment that does not exist: nothing failed */
} bench_ab_state;

typedef enum bench_ab_kind {
    BENCH_AB_REPLAY,
    BENCH_AB_SEARCH,  /* for the least memory */
    BENCH_AB_CARDS,   /* which cards does the work complete on? */
    BENCH_AB_PEAK,    /* the moment of the peak of live bytes */
    BENCH_AB_FAILURE, /* the moment when the setting in force fails */
} bench_ab_kind;

/* The outcome of a work on a card. */
typedef struct bench_ab_card {
    bench_outcome outcome;
    const char *how; /* static: bench_ab_replayed, or why no replay was needed; NULL = unknown */
    uint64_t first_failure_event;
    double driver_ms; /* in the first pass, on the least card with that outcome; 0 = unknown */
} bench_ab_card;

extern const char bench_ab_replayed[];

/* The event and the device of a moment. */
typedef struct bench_ab_moment {
    uint64_t event;
    uint64_t memory_bytes; /* 0 = unlimited */
    const char *label;     /* of the device */
    const char *of;        /* the allocator that failed; NULL: the peak of live bytes */
} bench_ab_moment;

/* All but the replays belong to no size of the list. */
typedef struct bench_ab_cell {
    bench_ab_kind kind;
    const bench_work *work;
    const char *allocator;
    const bench_ab_memory *memory; /* of a replay, or NULL */
    uint64_t memory_bytes;         /* 0 = unlimited */
    double weight;                 /* events to replay, roughly */
    bool is_drawn;                 /* with a timeline */
    bench_ab_state state;
    bench_ab_result result;
    char *line; /* of a drawn replay in timelines.jsonl, of a moment in moments.jsonl */
    bench_ab_card cards[BENCH_N_CARDS];
    bench_ab_moment moment;
    char problem[sizeof(bench_failure)];
    struct bench_ab_cell *compacted; /* the same with short:compact (compacted.h); NULL = none */
    bool is_compacted;               /* it is one of these */
} bench_ab_cell;

typedef struct bench_ab_plan {
    bench_ab_options options;
    bench_setup setup;
    bench_work *works; /* options.common.n_works, with different names */
    bench_ab_cell *cells;
    unsigned n_cells;   /* works, allocators, memories in this order; then all further kinds */
    unsigned n_replays; /* the first ones */
    unsigned cards;     /* index of the first: works, allocators */
    unsigned moments;   /* index of the first: works, allocators; peak, failure */
    unsigned *order;    /* the order of starting: round by round, the longest first */
    char started[32];   /* UTC */
} bench_ab_plan;

/* Name the allocators open to a program in PyTorch, or with `has_all` every allocator. */
void bench_ab_name_allocators(bench_ab_options *options);
/* Name a further allocator, unless the name is listed or unknown. */
void bench_ab_add_allocator(bench_options *options, const char *name);

/* Open the works, look at the GPU, and list the cells. On failure prints the reason on stderr and
 * returns false. Call bench_ab_plan_fini in either case (of bench_ab_plan_one, too). */
bool bench_ab_plan_init(bench_ab_plan *plan, const bench_ab_options *options);
/* Plan a single work of a fleet, under its name in the fleet. The GPU was looked at before. Prints
 * nothing: on failure returns false and the reason. */
bool bench_ab_plan_one(bench_ab_plan *plan, const bench_ab_options *options,
                       const bench_setup *setup, char **spec, const char *name,
                       bench_failure *failure);
void bench_ab_plan_fini(bench_ab_plan *plan);

/* The cells of cards, and of a moment. NULL: none. */
bench_ab_cell *bench_ab_cards_of(const bench_ab_plan *plan, unsigned work, unsigned allocator);
bench_ab_cell *bench_ab_moment_of(const bench_ab_plan *plan, unsigned work, unsigned allocator,
                                  bench_ab_kind kind);
/* Between the rounds: give the moments their events and devices, or mark a moment as needless. */
void bench_ab_plan_moments(bench_ab_plan *plan);

/* The least-memory record of a cell's work and allocator; NULL if the search was not asked for, did
 * not finish or found nothing. There is none with short:compact. */
const bench_record *bench_ab_fit_of(const bench_ab_plan *plan, const bench_ab_cell *cell);

bench_ab_cell *bench_ab_cell_at(const bench_ab_plan *plan, unsigned work, unsigned allocator,
                                unsigned memory);
/* Counts the replays in a state. */
unsigned bench_ab_count(const bench_ab_plan *plan, bench_ab_state state);

#endif
