/* driver.c - opens libcuda or the simulator and fills the table of entry points.
 *
 * driver_list.h lists the entry points that pleat uses. Without a required entry point the whole
 * driver is refused, and the error names it. Without an optional entry point the table has NULL,
 * and the wrapper answers "not found". Nothing links against CUDA.
 *
 * PLEAT_SIM_LIBRARY, if set, names the simulator's file. Otherwise libpleat_sim.so beside the
 * object with this code (libpleat.so, the command or a test) is opened, or the file that the
 * loader's search finds. A pl_driver is written before it is given out and constant from then on,
 * except for its atomic counters. */
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/base/clock.h"
#include "vmm/driver_state.h"

#define CUDA_OBJECT "libcuda.so.1"
#define SIM_OBJECT "libpleat_sim.so"
#define SIM_VARIABLE "PLEAT_SIM_LIBRARY"

enum { OPTIONAL = 0, REQUIRED = 1 };

typedef struct entry_info {
    const char *symbol; /* as exported */
    int need;
    size_t offset; /* of the pointer in pl_driver_table */
} entry_info;

static const entry_info entries[PL_N_ENTRIES] = {
#define ENTRY_INFO(field, symbol, need, params, args)                                              \
    [PL_CU_##field] = { #symbol, need, offsetof(pl_driver_table, field) },
    PL_DRIVER_LIST(ENTRY_INFO)
#undef ENTRY_INFO
};

/* ---- names ----------------------------------------------------------------------------------- */

static char plain_names[PL_N_ENTRIES][64]; /* const after names_once */
static pthread_once_t names_once = PTHREAD_ONCE_INIT;

static void fill_plain_names(void)
{
    for (int i = 0; i < PL_N_ENTRIES; i++) {
        const char *version = i == PL_CU_stream_green ? NULL /* a call of its own */
                                                      : strstr(entries[i].symbol, "_v");
        int n = version != NULL ? (int)(version - entries[i].symbol)
                                : (int)strlen(entries[i].symbol);
        snprintf(plain_names[i], sizeof(plain_names[i]), "%.*s", n, entries[i].symbol);
    }
}

const char *pl_entry_symbol(pl_entry entry)
{
    if ((unsigned)entry >= PL_N_ENTRIES) {
        return "none";
    }
    pthread_once(&names_once, fill_plain_names);
    return plain_names[entry];
}

/* ---- loading --------------------------------------------------------------------------------- */

static void **slot_of(pl_driver_table *table, int entry)
{
    return (void **)(void *)((char *)table + entries[entry].offset);
}

static pleat_status resolve(pl_driver *drv, const char *object_name)
{
    for (int i = 0; i < PL_N_ENTRIES; i++) {
        void *address = dlsym(drv->object, entries[i].symbol);
        if (address == NULL && entries[i].need == REQUIRED) {
            pl_driver_set_detail("%s has no %s", object_name, entries[i].symbol);
            return PLEAT_ENODRIVER;
        }
        memcpy(slot_of(&drv->table, i), &address, sizeof(address));
    }
    return PLEAT_OK;
}

static void *open_object(const char *path)
{
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* Writes the path of SIM_OBJECT in the folder of the object with this code. The loader knows the
 * main program by argv[0] only, so the kernel is asked for its path. */
static bool path_beside(char *out, size_t n)
{
    Dl_info info;
    struct link_map *map = NULL;
    if (dladdr1((const void *)&open_object, &info, (void **)&map, RTLD_DL_LINKMAP) == 0) {
        return false;
    }
    bool is_program = map == NULL || map->l_name == NULL || map->l_name[0] == '\0';
    char real[PATH_MAX];
    if (realpath(is_program ? "/proc/self/exe" : map->l_name, real) == NULL) {
        return false;
    }
    char *slash = strrchr(real, '/');
    if (slash == NULL) {
        return false;
    }
    int wrote = snprintf(out, n, "%.*s/%s", (int)(slash - real), real, SIM_OBJECT);
    return wrote > 0 && (size_t)wrote < n;
}

/* The path of the simulator that the environment names, or NULL. */
static const char *given_sim_object(void)
{
    const char *given = secure_getenv(SIM_VARIABLE);
    return given != NULL && given[0] != '\0' ? given : NULL;
}

static void *open_sim_object(void)
{
    const char *given = given_sim_object();
    if (given != NULL) {
        return open_object(given);
    }
    char beside[PATH_MAX];
    void *object = path_beside(beside, sizeof(beside)) ? open_object(beside) : NULL;
    return object != NULL ? object : open_object(SIM_OBJECT);
}

/* The loader's words, and how to name the simulator: a program with the static library may lie
 * anywhere, without the simulator beside it. */
static void note_not_opened(bool is_sim)
{
    const char *words = dlerror();
    const char *why = words != NULL ? words : "the driver's object cannot be opened";
    if (!is_sim) {
        pl_driver_set_detail("%s", why);
    } else if (given_sim_object() != NULL) {
        pl_driver_set_detail("%s: %s", SIM_VARIABLE, why);
    } else {
        pl_driver_set_detail("%s; to use the simulator, set %s to the path of %s", why,
                             SIM_VARIABLE, SIM_OBJECT);
    }
}

/* What the simulator says of a configuration that it does not take. */
static void note_sim_error(const pl_driver *drv)
{
    const char *(*error)(void) = NULL;
    void *address = pl_driver_symbol(drv, "pleat_sim_error");
    memcpy(&error, &address, sizeof(error));
    if (error != NULL) {
        pl_driver_set_detail("%s", error());
    }
}

/* Configures the simulator, if a configuration is given. */
static pleat_status configure_sim(pl_driver *drv, const char *conf)
{
    if (conf == NULL) {
        return PLEAT_OK;
    }
    int (*configure)(const char *) = NULL;
    void *address = pl_driver_symbol(drv, "pleat_sim_configure");
    if (address == NULL) {
        pl_driver_set_detail("%s has no pleat_sim_configure", SIM_OBJECT);
        return PLEAT_ENODRIVER;
    }
    memcpy(&configure, &address, sizeof(configure));
    if (configure(conf) != 0) {
        note_sim_error(drv);
        return PLEAT_ECONF;
    }
    return PLEAT_OK;
}

void pl_driver_abandon(pl_driver *drv)
{
    void (*abandon)(void) = NULL;
    void *address = drv->is_simulator ? pl_driver_symbol(drv, "pleat_sim_abandon") : NULL;
    memcpy(&abandon, &address, sizeof(abandon));
    if (abandon != NULL) {
        abandon();
    }
}

void pl_driver_own_sim(void)
{
    void (*keep)(const char *) = NULL;
    void *address = dlsym(RTLD_DEFAULT, "pleat_sim_keep"); /* where it was preloaded */
    memcpy(&keep, &address, sizeof(keep));
    if (keep != NULL) {
        keep(NULL);
    }
}

/* Finds the one entry point missing from the list, and knows the simulator by its own symbol. */
static void resolve_others(pl_driver *drv)
{
    void *address = pl_driver_symbol(drv, "cuCtxSynchronize");
    memcpy(&drv->ctx_synchronize, &address, sizeof(address));
    drv->is_simulator = pl_driver_symbol(drv, "pleat_sim_reset") != NULL;
}

static pleat_status load(pl_driver *drv, pl_driver_kind kind, const char *sim_conf)
{
    bool is_sim = kind == PL_DRIVER_SIM;
    drv->kind = kind;
    drv->object = is_sim ? open_sim_object() : open_object(CUDA_OBJECT);
    if (drv->object == NULL) {
        note_not_opened(is_sim);
        return PLEAT_ENODRIVER;
    }
    const char *given = is_sim ? given_sim_object() : NULL;
    pleat_status st = resolve(drv, given != NULL ? given : is_sim ? SIM_OBJECT : CUDA_OBJECT);
    resolve_others(drv);
    if (st == PLEAT_OK && is_sim) {
        st = configure_sim(drv, sim_conf);
    }
    if (st != PLEAT_OK) {
        return st;
    }
    if (pl_cu_init(drv, 0) == CU_SUCCESS) {
        return PLEAT_OK;
    }
    if (drv->is_simulator) {
        note_sim_error(drv); /* of PLEAT_SIM */
    }
    return PLEAT_EDRIVER;
}

/* ---- open and close -------------------------------------------------------------------------- */

static pleat_status open_kind(pl_driver_kind kind, const char *sim_conf, pl_driver **out)
{
    pl_driver_clear_error();
    pl_meta meta;
    pleat_status st = pl_meta_init(&meta);
    if (st != PLEAT_OK) {
        return st;
    }
    pl_driver *drv = pl_meta_calloc(&meta, 1, sizeof(*drv));
    if (drv == NULL) {
        st = PLEAT_ENOMEM_HOST;
        goto undo_host;
    }
    drv->meta = meta;
    st = load(drv, kind, sim_conf);
    if (st != PLEAT_OK) {
        goto undo_alloc;
    }
    *out = drv;
    return PLEAT_OK;

undo_alloc:
    pl_meta_free(&meta, drv);
undo_host:
    pl_meta_fini(&meta);
    return st;
}

static bool has_device(pl_driver *drv)
{
    int count = 0;
    return pl_cu_device_count(drv, &count) == CU_SUCCESS && count > 0;
}

/* Opens CUDA if it has a device. Without a device: ENODRIVER, and the detail says why. */
static pleat_status open_gpu(pl_driver **out)
{
    pl_driver *cuda = NULL;
    pleat_status st = open_kind(PL_DRIVER_CUDA, NULL, &cuda);
    if (st == PLEAT_OK && has_device(cuda)) {
        *out = cuda;
        return PLEAT_OK;
    }
    pl_driver_close(cuda);
    if (st == PLEAT_ENOMEM_HOST) {
        return st;
    }
    const pl_driver_error *error = pl_driver_last_error();
    char why[sizeof(error->detail)] = "";
    if (error->result == CU_SUCCESS) { /* else the failing call is told beside the detail */
        snprintf(why, sizeof(why), "%s", st == PLEAT_OK ? "no device" : error->detail);
    }
    pl_driver_set_detail("no GPU found%s%s; driver:sim takes the simulator, whose addresses hold "
                         "no GPU's memory",
                         why[0] ? ": " : "", why);
    return PLEAT_ENODRIVER;
}

pleat_status pl_driver_open(pl_driver_kind kind, const char *sim_conf, pl_driver **out)
{
    return kind == PL_DRIVER_AUTO ? open_gpu(out) : open_kind(kind, sim_conf, out);
}

pleat_status pl_driver_open_any(const char *sim_conf, pl_driver **out)
{
    pleat_status st = open_gpu(out);
    if (st != PLEAT_ENODRIVER) {
        return st;
    }
    st = open_kind(PL_DRIVER_SIM, sim_conf, out);
    if (st == PLEAT_ENODRIVER) {
        char why[sizeof(pl_driver_last_error()->detail)];
        memcpy(why, pl_driver_last_error()->detail, sizeof(why));
        pl_driver_set_detail("no GPU found; %s", why);
    }
    return st;
}

void pl_driver_close(pl_driver *drv)
{
    if (drv == NULL) {
        return;
    }
    pl_meta meta = drv->meta;
    pl_meta_free(&meta, drv);
    pl_meta_fini(&meta);
}

bool pl_driver_is_simulator(const pl_driver *drv)
{
    return drv->is_simulator;
}

pl_driver_kind pl_driver_kind_of(const pl_driver *drv)
{
    return drv->kind;
}

bool pl_driver_has(const pl_driver *drv, pl_entry entry)
{
    void *address;
    memcpy(&address, (const char *)&drv->table + entries[entry].offset, sizeof(address));
    return address != NULL;
}

uint64_t pl_driver_n_lost(const pl_driver *drv)
{
    return atomic_load_explicit(&drv->n_lost, memory_order_relaxed);
}

void pl_driver_note_lost(pl_driver *drv)
{
    atomic_fetch_add_explicit(&drv->n_lost, 1, memory_order_relaxed);
}

pl_tell_fn pl_driver_teller(const pl_driver *drv)
{
    pl_tell_fn tell = NULL;
    void *address = pl_driver_symbol(drv, "pleat_sim_tell");
    memcpy(&tell, &address, sizeof(address));
    return tell != NULL && tell(PL_TOLD_OWN, NULL, 0, 0, 0) ? tell : NULL;
}

void *pl_driver_symbol(const pl_driver *drv, const char *name)
{
    return dlsym(drv->object, name);
}
