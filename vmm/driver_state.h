/* driver_state.h - the inside of a pl_driver, for vmm/driver*.c only. */
#ifndef PLEAT_VMM_DRIVER_STATE_H
#define PLEAT_VMM_DRIVER_STATE_H

#include "vmm/base/meta.h"
#include "vmm/driver.h"

/* The entry points as found by the loader. An optional entry point may be NULL. */
typedef struct pl_driver_table {
#define PL_TABLE_FIELD(field, symbol, need, params, args) cu_result(*field) params;
    PL_DRIVER_LIST(PL_TABLE_FIELD)
#undef PL_TABLE_FIELD
} pl_driver_table;

struct pl_driver {
    pl_driver_table table;                  /* const */
    pl_driver_kind kind;                    /* const */
    bool is_simulator;                      /* const: under whatever name it was opened */
    void *object;                           /* const: from dlopen */
    cu_result (*ctx_synchronize)(void);     /* const: may be NULL */
    pl_meta meta;                           /* const after open */
    pl_driver_call_fn watch;                /* owner: see pl_driver_watch */
    void *watch_context;                    /* owner */
    _Atomic bool is_timed;                  /* atomic */
    _Atomic uint64_t call_ns;               /* atomic */
    _Atomic uint64_t n_calls[PL_N_ENTRIES]; /* atomic: statistics */
    _Atomic uint64_t n_lost;                /* atomic: see pl_driver_n_lost */
};

/* Note a failure as this thread's last error, and clear the detail. */
void pl_driver_note_failure(const pl_driver *drv, pl_entry entry, cu_result result, uint64_t bytes);

#endif
