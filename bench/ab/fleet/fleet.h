/* fleet.h - what many jobs come to: how their needs are spread, what each setting would save, which
 * jobs only one allocator completes.
 *
 * Made of the verdicts (verdicts.jsonl) and rows of the works, in their order, and of nothing else,
 * so that a test can make it again. */
#ifndef PLEAT_BENCH_FLEET_H
#define PLEAT_BENCH_FLEET_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

enum { BENCH_FLEET_SETTINGS = 16, BENCH_FLEET_DEVICES = 48 };

typedef struct bench_fleet_setting {
    double held_bytes;  /* over the jobs that it completes without limit */
    double saved_bytes; /* what the setting in force holds of that more, over the compared jobs */
    unsigned n_held;
    unsigned n_compared; /* jobs of which both are known */
    unsigned completes[BENCH_FLEET_DEVICES];
    unsigned smallest[BENCH_FLEET_DEVICES]; /* jobs of which this is the smallest card */
    unsigned n_nowhere;
    unsigned n_smaller; /* jobs that run on a smaller card than under the setting in force */
    unsigned n_larger;
    unsigned only[BENCH_FLEET_DEVICES]; /* jobs that only this one completes there */
    double *least;                      /* by --fit */
    unsigned n_least;
} bench_fleet_setting;

typedef struct bench_fleet {
    const json_t *allocators; /* names */
    unsigned n_works;
    unsigned n_seen;
    unsigned n_measured;
    unsigned n_in_part; /* of these, jobs of which only a part was recorded */
    double *needs;
    json_t *devices;  /* labels: those of the verdicts, then the multiples of the need */
    unsigned n_sizes; /* of those the first ones, which have an order */
    json_t *advice;
    json_t *problems;
    json_t *only_jobs;
    bench_fleet_setting settings[BENCH_FLEET_SETTINGS];
} bench_fleet;

/* False when out of host memory. Call bench_fleet_fini in either case. */
bool bench_fleet_init(bench_fleet *fleet, const json_t *allocators, unsigned n_works);
void bench_fleet_fini(bench_fleet *fleet);
/* The next work: its line of a shard's file. */
void bench_fleet_add(bench_fleet *fleet, const json_t *unit);
/* What fleet.json holds; `head` is a shard's. */
json_t *bench_fleet_object(bench_fleet *fleet, const json_t *head);
/* A few lines for a terminal, of what bench_fleet_object gave. */
void bench_fleet_print(const json_t *object, FILE *out);

#endif
