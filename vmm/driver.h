/* driver.h - a driver: the table of entry points of libcuda or of the simulator, with counters.
 *
 * One pl_driver is shared by everything that uses one shared object; pl_driver_open of the same
 * name twice gives two tables (counters apart) over the same loaded object. Calls go through the
 * wrappers pl_cu_NAME(driver, ...), which count, keep a ring of the last 256 calls and remember
 * CUresult, call and size of a failure in the thread's last error. */
#ifndef PLEAT_VMM_DRIVER_H
#define PLEAT_VMM_DRIVER_H

#include "vmm/base/pleat_types.h"
#include "vmm/driver_list.h"

#define PL_UNPAREN(...) __VA_ARGS__

typedef enum pl_entry {
#define PL_ENTRY_ENUM(field, symbol, need, params, args) PL_CU_##field,
    PL_DRIVER_LIST(PL_ENTRY_ENUM)
#undef PL_ENTRY_ENUM
    PL_N_ENTRIES
} pl_entry;

typedef struct pl_driver pl_driver;

typedef enum pl_driver_kind { PL_DRIVER_AUTO, PL_DRIVER_CUDA, PL_DRIVER_SIM } pl_driver_kind;

/* Open libcuda.so.1 (CUDA), the simulator (SIM: beside the object that holds this code first, then
 * by the loader's search; RTLD_LOCAL), or CUDA if it has a device, else SIM (AUTO). `sim_conf` is
 * the simulator's configuration string or NULL: the simulator is reset to it when given; NULL
 * leaves the simulator as it is, initialised from PLEAT_SIM if it was never configured.
 * Returns PLEAT_OK; PLEAT_ENODRIVER (last error says which object or symbol is missing);
 * PLEAT_EDRIVER when cuInit fails; PLEAT_ENOMEM_HOST; PLEAT_ECONF for a bad sim_conf. */
pleat_status pl_driver_open(pl_driver_kind kind, const char *sim_conf, pl_driver **out);
void pl_driver_close(pl_driver *drv); /* the shared object stays loaded */

pl_driver_kind pl_driver_kind_of(const pl_driver *drv); /* CUDA or SIM */
bool pl_driver_has(const pl_driver *drv, pl_entry entry);
uint64_t pl_driver_n_calls(const pl_driver *drv, pl_entry entry);
uint64_t pl_driver_call_ns(const pl_driver *drv); /* time in calls; 0 unless timing is on */
void pl_driver_time_calls(pl_driver *drv, bool on);
const char *pl_entry_symbol(pl_entry entry); /* "cuMemCreate", without _v2 */
/* A further symbol of the same shared object (the simulator's own API), or NULL. */
void *pl_driver_symbol(const pl_driver *drv, const char *name);
/* Append the last calls as JSON lines to `out` (n bytes, NUL-terminated); returns bytes needed. */
size_t pl_driver_dump_calls(const pl_driver *drv, char *out, size_t n);

/* The failure of this thread's last failing driver call. */
typedef struct pl_driver_error {
    cu_result result;
    pl_entry entry;
    uint64_t bytes;      /* size argument, 0 where the call has none */
    const char *text;    /* static: name of the result */
    char detail[160];    /* loader's or pleat's own words, may be empty */
} pl_driver_error;
const pl_driver_error *pl_driver_last_error(void);
void pl_driver_set_detail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void pl_driver_clear_error(void);

/* The counting wrappers: cu_result pl_cu_mem_create(pl_driver *drv, cu_mem_handle *handle, ...).
 * A missing optional entry point answers CU_NOT_FOUND. */
#define PL_DECLARE_WRAPPER(field, symbol, need, params, args)                                     \
    cu_result pl_cu_##field(pl_driver *drv, PL_UNPAREN params);
PL_DRIVER_LIST(PL_DECLARE_WRAPPER)
#undef PL_DECLARE_WRAPPER

/* CUresult to pleat's status: OUT_OF_MEMORY -> ENOMEM_DEVICE, NOT_SUPPORTED of a VMM call ->
 * ENOVMM, the rest -> EDRIVER. */
pleat_status pl_driver_status(cu_result result);

#endif
