/* api_history.h - what a test asks of the history of a device. */
#ifndef PLEAT_TESTS_API_HISTORY_H
#define PLEAT_TESTS_API_HISTORY_H

#include "api/instance.h"
#include "tests/support/api_sim.h"

enum { HISTORY_MOST = 4096 };

/* The entries that were copied last. */
extern pl_history_entry history_entries[HISTORY_MOST];

pl_history *history_of(pleat handle, int device);
/* Start recording; it must succeed. */
void history_record(pleat handle, size_t max_entries, unsigned flags);
/* Copy all entries; returns how many. */
size_t history_copy(pleat handle, int device);
/* The n-th of the first n_entries that is of that action, or NULL. */
const pl_history_entry *history_find(size_t n_entries, unsigned action, size_t n);
/* A segment, or a run of a segment, became resident. */
bool history_is_gain(const pl_history_entry *entry);

/* Allocate and free 4,096 bytes n times, within a function of the C library whose name every
 * program knows: lfind. */
void history_call_by_name(pleat instance, size_t n_times);
/* Does that stack have a frame of that name, in the C library? */
bool history_has_frame(pleat instance, uint32_t frames, const char *name);

#endif
