/* api_history.h - questions about the history of a device, for tests. */
#ifndef PLEAT_TESTS_API_HISTORY_H
#define PLEAT_TESTS_API_HISTORY_H

#include "api/instance/instance.h"
#include "tests/support/api/api_sim.h"

enum { HISTORY_MOST = 4096 };

/* The entries of the last copy. */
extern pl_history_entry history_entries[HISTORY_MOST];

pl_history *history_of(pleat handle, int device);
/* Start recording, which must succeed. */
void history_record(pleat handle, size_t max_entries, unsigned flags);
/* Copy all entries, and return their number. */
size_t history_copy(pleat handle, int device);
/* The n-th entry with that action among the first n_entries, or NULL. */
const pl_history_entry *history_find(size_t n_entries, unsigned action, size_t n);
/* Does the entry report that a segment, or a run in a segment, became resident? */
bool history_is_gain(const pl_history_entry *entry);

/* Allocate and free 4,096 bytes n times, inside lfind: every program finds the name of this
 * function of the C library. */
void history_call_by_name(pleat instance, size_t n_times);
/* Does the stack have a frame of the C library called `name`? */
bool history_has_frame(pleat instance, uint32_t frames, const char *name);

#endif
