/* user_object.h - objects with a destructor, kept alive by graphs, and references to them.
 *
 * U1  n_refs == n_own + the references in all holds, those of launches in flight among them
 * U2  an object is live if and only if n_refs > 0 */
#ifndef PLEAT_SIM_USER_OBJECT_H
#define PLEAT_SIM_USER_OBJECT_H

#include "vmm/tools/sim/state.h"

typedef struct sim_user_object {
    uint32_t index;
    bool is_live;
    void *ptr;
    cu_host_fn destroy;
    uint64_t n_refs;
    uint64_t n_own; /* the program's own among n_refs */
} sim_user_object;

typedef struct sim_hold {
    sim_user_object *object;
    uint64_t n;
} sim_hold;

/* The references of a graph, or of an executable graph, which shares them with its launches in
 * flight. */
typedef struct sim_holds {
    uint32_t refs;
    uint32_t n;
    sim_hold *items;
} sim_holds;

/* CU_SUCCESS or INVALID_VALUE, as the vendor's reference says. Where the reference leaves behaviour
 * undefined, the simulator is strict. Nobody releases or moves references of another owner. */
cu_result sim_user_object_create(cu_user_object *out, void *ptr, cu_host_fn destroy, unsigned n,
                                 unsigned flags);
cu_result sim_user_object_retain(cu_user_object handle, unsigned n);
cu_result sim_user_object_release(cu_user_object handle, unsigned n);
cu_result sim_holds_retain(sim_holds **holds, cu_user_object handle, unsigned n, unsigned flags);
cu_result sim_holds_release(sim_holds *holds, cu_user_object handle, unsigned n);

/* Makes as many references again; NULL for none. */
sim_holds *sim_holds_clone(const sim_holds *holds);
sim_holds *sim_holds_ref(sim_holds *holds);
void sim_holds_unref(sim_holds *holds); /* NULL is fine */

/* Objects without references, whose destructors run at the end of the call. They are taken with the
 * lock held and run without it. */
typedef struct sim_due sim_due;
sim_due *sim_user_object_take_due(void);
void sim_user_object_run(sim_due *due);
bool sim_user_object_is_running(void); /* is this thread in a destructor? */
void sim_user_object_fini(void);       /* runs no destructor */

#endif
