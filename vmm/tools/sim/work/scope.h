/* scope.h - what the calling thread is doing: the operation of a framework whose kernels it
 * launches (pleat_sim_op_begin), and whether its work is the allocator's own. */
#ifndef PLEAT_SIM_SCOPE_H
#define PLEAT_SIM_SCOPE_H

#include "vmm/base/pleat_sim.h"

typedef struct sim_scope {
    bool is_on;         /* between pleat_sim_op_begin and _end */
    bool is_own;        /* the allocator's own work: it may touch any byte */
    bool is_discarding; /* what is unmapped now loses its contents */
    uint64_t place;
    size_t n;
    size_t room;
    pleat_sim_access *accesses;
} sim_scope;

sim_scope *sim_scope_self(void);
/* Room for the accesses of the operation that begins next; the one under way ends. */
pleat_sim_access *sim_scope_room(size_t n);
/* Begins the operation whose n accesses were put into the room. */
void sim_scope_begin(uint64_t place, size_t n);
void sim_scope_end(void);
/* A block that the thread's operation has allocated, and that it will write; or freed again. */
void sim_scope_add(uint64_t ptr, uint64_t bytes);
void sim_scope_drop(uint64_t ptr);

#endif
