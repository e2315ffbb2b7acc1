/* hazard.h - what a correct program never does: found at submission, at the end, and at unmap. */
#ifndef PLEAT_SIM_HAZARD_H
#define PLEAT_SIM_HAZARD_H

#include "vmm/sim/stream.h"

/* record.c of hazards */
void sim_hazard_add(pleat_sim_hazard_kind kind, uint64_t ptr, uint64_t bytes, const char *format,
                    ...) __attribute__((format(printf, 4, 5)));
uint64_t sim_hazard_count(void);
size_t sim_hazard_copy(pleat_sim_hazard *out, size_t n);
void sim_hazard_reset(void);

/* The call in progress names a handle of a `kind` that was destroyed. */
void sim_hazard_check_dead(const char *kind, uint64_t handle, uint64_t died_in_call);

/* May `device` do all that to these addresses? On return *first is the first access it may not do,
 * and *any holds the entries of all granules or-ed together. */
bool sim_hazard_is_accessible(int device, const pleat_sim_access *accesses, size_t n,
                              const pleat_sim_access **first, uint64_t *any);
/* The same, and of pools nothing but live blocks: for work that is about to be submitted. */
bool sim_hazard_is_usable(int device, const pleat_sim_access *accesses, size_t n,
                          const pleat_sim_access **first, uint64_t *any);
/* Work about to be submitted against unfinished work of other streams. `any` as above. */
void sim_hazard_check_race(const sim_stream *stream, const pleat_sim_access *accesses, size_t n,
                           uint64_t any);
/* These accesses touch aliased mappings: remember the call in those. */
void sim_hazard_note_use(const pleat_sim_access *accesses, size_t n);
/* The last call whose work on [ptr, ptr + bytes) is unfinished; 0: there is none. */
uint64_t sim_hazard_last_use(uint64_t ptr, uint64_t bytes);
/* Unfinished work on [ptr, ptr + bytes) that is not ordered before the next command of `stream`,
 * which frees them. */
void sim_hazard_check_free(const sim_stream *stream, uint64_t ptr, uint64_t bytes);
/* Unfinished work on [ptr, ptr + bytes), which is about to lose its mapping. */
void sim_hazard_check_unmap(uint64_t ptr, uint64_t bytes, const char *what);
/* Do two access lists overlap with at least one write? */
const pleat_sim_access *sim_hazard_conflict(const pleat_sim_access *ours, size_t n_ours,
                                            const pleat_sim_access *theirs, size_t n_theirs);

#endif
