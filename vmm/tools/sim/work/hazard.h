/* hazard.h - errors of the program, found at submission, at the end of work, and at unmap. */
#ifndef PLEAT_SIM_HAZARD_H
#define PLEAT_SIM_HAZARD_H

#include "vmm/tools/sim/work/sim_stream.h"

/* hazard_list.c. Returns the hazard, to which the caller may add. */
pleat_sim_hazard *sim_hazard_add(pleat_sim_hazard_kind kind, uint64_t ptr, uint64_t bytes,
                                 const char *format, ...) __attribute__((format(printf, 4, 5)));
uint64_t sim_hazard_count(void);
size_t sim_hazard_copy(pleat_sim_hazard *out, size_t n);
void sim_hazard_reset(void);

/* Record it if the call in progress names a destroyed handle of a `kind`. */
void sim_hazard_check_dead(const char *kind, uint64_t handle, uint64_t died_in_call);

/* Does `device` have access to all these addresses? *first becomes the first access without rights,
 * *any the or of the entries of all granules. */
bool sim_hazard_is_accessible(int device, const pleat_sim_access *accesses, size_t n,
                              const pleat_sim_access **first, uint64_t *any);
/* The same for work about to be submitted. In pools only live blocks are usable. */
bool sim_hazard_is_usable(int device, const pleat_sim_access *accesses, size_t n,
                          const pleat_sim_access **first, uint64_t *any);
/* A piece of unfinished work. */
typedef struct sim_use {
    const sim_stream *stream;
    sim_op *op;
    uint64_t position;
} sim_use;
/* Find another stream's unfinished work that conflicts with `ours` and is not ordered before the
 * next command of `stream`. */
bool sim_hazard_find_use(const sim_stream *stream, const pleat_sim_access *ours, sim_use *out);
/* Check new work, before its submission, against unfinished work of other streams. `any` as
 * above. */
void sim_hazard_check_race(const sim_stream *stream, const pleat_sim_access *accesses, size_t n,
                           uint64_t any);
/* Note the current call in all aliased mappings among the accesses. */
void sim_hazard_note_use(const pleat_sim_access *accesses, size_t n);
/* The last call with unfinished work on [ptr, ptr + bytes), or 0. */
uint64_t sim_hazard_last_use(uint64_t ptr, uint64_t bytes);
/* Look for unfinished work on [ptr, ptr + bytes) not ordered before the next command of `stream`,
 * which frees the bytes. */
void sim_hazard_check_free(const sim_stream *stream, uint64_t ptr, uint64_t bytes);
/* Look for unfinished work on [ptr, ptr + bytes) before the bytes lose their mapping. */
void sim_hazard_check_unmap(uint64_t ptr, uint64_t bytes, const char *what);
/* Do two access lists overlap with at least one write? */
const pleat_sim_access *sim_hazard_conflict(const pleat_sim_access *ours, size_t n_ours,
                                            const pleat_sim_access *theirs, size_t n_theirs);

#endif
