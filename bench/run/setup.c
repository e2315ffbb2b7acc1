/* setup.c - chooses the driver and the configuration for the runs of a command.
 *
 * The simulator's configuration has four sources, and later ones override earlier ones:
 *   the command's own preference; PLEAT_SIM; the key `sim` of PLEAT_CONF and --conf; --sim.
 * Capacity and depth are set by the command's own options only. */
#include "bench/run/setup.h"
#include "bench/base/size.h"
#include "bench/run/policy.h"

#include <stdlib.h>
#include <string.h>

#include "api/calls/internal.h"
#include "segments/base/allocator.h"
#include "vmm/base/meta.h"

#define CONF_BYTES 4096

/* Return the `key:value` at *at, and move *at behind it. A comma in brackets does not end an
 * item. */
static const char *next_item(const char **at, size_t *n_item, size_t *n_key)
{
    const char *begin = *at + strspn(*at, ", ");
    if (*begin == '\0') {
        return NULL;
    }
    const char *end = begin;
    for (int nesting = 0; *end != '\0' && !(*end == ',' && nesting == 0); end++) {
        nesting += (*end == '[') - (*end == ']');
    }
    *n_item = (size_t)(end - begin);
    *n_key = strcspn(begin, ":,");
    *at = end;
    return begin;
}

/* The first `key:value` with this key, or NULL. */
static const char *find_item(const char *conf, const char *key, size_t n, size_t *n_item)
{
    size_t n_key;
    for (const char *item; (item = next_item(&conf, n_item, &n_key)) != NULL;) {
        if (n_key == n && memcmp(item, key, n) == 0) {
            return item;
        }
    }
    return NULL;
}

static bool has_key(const char *conf, const char *key, size_t n)
{
    size_t n_item;
    return find_item(conf, key, n, &n_item) != NULL;
}

/* Append the items of `conf` whose keys are not in `later`. */
static bool append_items(char *out, size_t n, const char *conf, const char *later)
{
    size_t n_item;
    size_t n_key;
    for (const char *item; (item = next_item(&conf, &n_item, &n_key)) != NULL;) {
        if (has_key(later, item, n_key)) {
            continue;
        }
        size_t used = strlen(out);
        if (used + n_item + 2 > n) {
            return false;
        }
        snprintf(out + used, n - used, "%s%.*s", used ? "," : "", (int)n_item, item);
    }
    return true;
}

static bool merge_sim(bench_setup *setup, const bench_target *target, bench_failure *failure)
{
    const char *given = target->sim;
    const char *rather = target->sim_default ? target->sim_default : "";
    if (has_key(given, "capacity", 8)) {
        return bench_fail(failure, "--sim: capacity is set with --memory");
    }
    if (has_key(given, "depth", 5)) {
        return bench_fail(failure, "--sim: depth is set with --depth");
    }
    const char *environment = getenv("PLEAT_SIM");
    char below[PL_SIM_CONF_BYTES] = "";
    setup->sim[0] = '\0';
    if (!append_items(below, sizeof below, environment ? environment : "",
                      setup->config.sim_conf) ||
        !append_items(below, sizeof below, setup->config.sim_conf, "") ||
        !append_items(setup->sim, sizeof setup->sim, below, given) ||
        !append_items(setup->sim, sizeof setup->sim, given, "") ||
        !append_items(setup->sim, sizeof setup->sim, rather, setup->sim)) {
        return bench_fail(failure, "--sim: more than %d characters in all", PL_SIM_CONF_BYTES);
    }
    char own[PL_SIM_CONF_BYTES] = "";
    append_items(own, sizeof own, setup->sim, "capacity,depth");
    memcpy(setup->sim, own, sizeof own);
    return true;
}

static bool say_last_error(const char *what, bench_failure *failure)
{
    const pleat_error *error = pleat_last_error();
    return bench_fail(failure, "%s: %s", what,
                      error->text && error->text[0] ? error->text
                                                    : pleat_status_text(error->status));
}

static bool write_sim_conf(const bench_setup *setup, uint64_t capacity_bytes,
                           char out[PL_SIM_CONF_BYTES], bench_failure *failure)
{
    /* Measured is the allocator, not a simulator that hears of each block. */
    const char *blocks = has_key(setup->sim, "blocks", 6) ? "" : ",blocks:untold";
    int n = snprintf(out, PL_SIM_CONF_BYTES, "capacity:%llu,depth:%u%s%s%s",
                     (unsigned long long)capacity_bytes, setup->depth, blocks,
                     setup->sim[0] ? "," : "", setup->sim);
    return (size_t)n < PL_SIM_CONF_BYTES || bench_fail(failure, "--sim: it is too long");
}

static bool say_driver_error(const char *what, pleat_status st, bench_failure *failure)
{
    const pl_driver_error *error = pl_driver_last_error();
    return bench_fail(failure, "%s: %s%s%s", what, pleat_status_text(st),
                      error->detail[0] ? ": " : "", error->detail);
}

static bool look_at_gpu(bench_setup *setup, bench_failure *failure)
{
    char sim_conf[PL_SIM_CONF_BYTES];
    if (!write_sim_conf(setup, BENCH_UNLIMITED_BYTES, sim_conf, failure)) {
        return false;
    }
    pl_driver *drv;
    pl_driver_own_sim();
    pleat_status st = setup->is_chosen ? pl_driver_open(setup->config.driver, sim_conf, &drv)
                                       : pl_driver_open_any(sim_conf, &drv);
    if (st != PLEAT_OK) {
        return say_driver_error(st == PLEAT_ECONF ? "the simulator (PLEAT_SIM, sim:[...] or --sim)"
                                                  : "cannot start",
                                st, failure);
    }
    pl_device *dev;
    st = pl_device_open(drv, 0, &setup->config.device, &dev);
    if (st == PLEAT_OK) {
        setup->config.driver = pl_driver_kind_of(drv);
        snprintf(setup->gpu, sizeof setup->gpu, "%s", pl_device_name(dev));
        setup->granule_bytes = pl_device_granule_bytes(dev);
        setup->total_bytes = pl_device_total_bytes(dev);
        pl_device_close(dev);
    } else {
        say_driver_error("device 0", st, failure);
    }
    pl_driver_close(drv);
    return st == PLEAT_OK;
}

/* An allocator's figures must not appear under another allocator's name. */
static bool check_allocator(const bench_target *target, bench_failure *failure)
{
    static const char key[] = "allocator";
    size_t n = 0;
    const char *item = target->conf ? find_item(target->conf, key, strlen(key), &n) : NULL;
    if (!item) {
        return true;
    }
    if (target->has_own_allocators) {
        return bench_fail(failure, "--conf: '%.*s': this command has no choice of allocators",
                          (int)n, item);
    }
    const char *name = item + strcspn(item, ":,");
    name += strspn(name, ": ");
    int n_name = (int)(item + n - name);
    return bench_fail(failure, "--conf: '%.*s': give the option --allocator %.*s instead", (int)n,
                      item, n_name > 0 ? n_name : 1, n_name > 0 ? name : "A");
}

/* Reads --conf and the command's own settings, which --conf omits. */
static bool read_conf(bench_setup *setup, const bench_target *target, bench_failure *failure)
{
    char conf[CONF_BYTES];
    size_t n_item;
    size_t n_key;
    const char *own = target->own_conf ? target->own_conf : "";
    const char *given = target->conf ? target->conf : "";
    for (const char *at = own, *item; (item = next_item(&at, &n_item, &n_key)) != NULL;) {
        const char *twice = find_item(given, item, n_key, &n_item);
        if (twice) {
            return bench_fail(failure, "--conf: '%.*s': this command has no choice of '%.*s'",
                              (int)n_item, twice, (int)n_key, item);
        }
    }
    int n = snprintf(conf, sizeof conf, "%s%s%s", given, given[0] && own[0] ? "," : "", own);
    if ((size_t)n >= sizeof conf) {
        return bench_fail(failure, "--conf: it is too long");
    }
    return pl_config_read(conf, &setup->config) == PLEAT_OK ||
           say_last_error("configuration", failure);
}

bool bench_setup_init(bench_setup *setup, const bench_target *target, bench_failure *failure)
{
    *setup = (bench_setup){ .depth = target->depth };
    if (!check_allocator(target, failure) || !read_conf(setup, target, failure)) {
        return false;
    }
    if (target->has_driver) {
        setup->config.driver = target->driver;
    }
    setup->is_chosen = setup->config.driver != PL_DRIVER_AUTO;
    setup->config.time_calls = true;
    if (!bench_policy_place(setup, failure)) {
        return false;
    }
    return merge_sim(setup, target, failure) && look_at_gpu(setup, failure);
}

bool bench_setup_take(bench_setup *setup, const char *conf)
{
    pl_config config;
    if (pl_config_read(conf, &config) != PLEAT_OK) {
        return false;
    }
    config.driver = setup->config.driver;
    config.time_calls = true;
    setup->config = config;
    return true;
}

bool bench_setup_is_sim(const bench_setup *setup)
{
    return setup->config.driver == PL_DRIVER_SIM;
}

const char *bench_setup_driver(const bench_setup *setup)
{
    return bench_setup_is_sim(setup) ? "sim" : "cuda";
}

uint64_t bench_setup_unlimited(const bench_setup *setup, bool is_host)
{
    uint64_t total_bytes = is_host ? pl_machine_total_bytes() : setup->total_bytes;
    return bench_setup_is_sim(setup) ? BENCH_UNLIMITED_BYTES : total_bytes;
}

const char *bench_setup_banner(const bench_setup *setup, char *out, size_t n)
{
    if (!bench_setup_is_sim(setup)) {
        snprintf(out, n, "GPU: %s", setup->gpu);
    } else {
        snprintf(out, n, "SIMULATED GPU (%s)",
                 setup->is_chosen ? "as asked for" : "no CUDA driver found");
    }
    return out;
}

/* Options that give the simulator pinned memory with checked work. */
static bool add_sim_host(const bench_setup *setup, uint64_t host_bytes,
                         char conf[PL_SIM_CONF_BYTES], bench_failure *failure)
{
    size_t used = strlen(conf);
    const char *backing = has_key(setup->sim, "backing", 7) ? "" : ",backing:memory";
    if (has_key(setup->sim, "host", 4)) {
        return bench_fail(failure, "--sim: host is set with --memory, for works of pinned memory");
    }
    int n = snprintf(conf + used, PL_SIM_CONF_BYTES - used, ",host:%llu%s",
                     (unsigned long long)host_bytes, backing);
    return (size_t)n < PL_SIM_CONF_BYTES - used || bench_fail(failure, "--sim: it is too long");
}

/* An allocator's figures must not appear under another allocator's name. Drivers that map no host
 * memory have a fallback. */
static bool check_created(pleat instance, const char *allocator, bench_failure *failure)
{
    const pl_allocator *made = pleat_internal_allocator(instance, 0);
    if (made && strcmp(made->ops->name, allocator) == 0) {
        return true;
    }
    bench_fail(failure, "%s cannot have pinned memory here%s%s", allocator, made ? ", only " : "",
               made ? made->ops->name : "");
    (void)!pleat_destroy(instance, 0);
    return false;
}

bool bench_setup_create_for(const bench_setup *setup, const char *allocator, bool is_host,
                            uint64_t memory_bytes, pleat *out, bench_failure *failure)
{
    bench_policy_tell(setup);
    pl_config config = setup->config;
    config.memory = is_host ? PL_MEMORY_HOST : config.memory;
    config.allocator = pl_allocator_find(allocator);
    config.fallback = NULL; /* one allocator's figures must not appear under another's name */
    if (!bench_setup_is_sim(setup) && memory_bytes) {
        config.limit_bytes = memory_bytes;
        config.limit_parts = 0;
    }
    uint64_t capacity_bytes = memory_bytes ? memory_bytes : BENCH_UNLIMITED_BYTES;
    if (!write_sim_conf(setup, is_host ? BENCH_UNLIMITED_BYTES : capacity_bytes, config.sim_conf,
                        failure) ||
        (is_host && !add_sim_host(setup, capacity_bytes, config.sim_conf, failure))) {
        return false;
    }
    config.has_sim_conf = true;
    char conf[CONF_BYTES];
    if (pl_config_write(&config, conf, sizeof conf) > sizeof conf) {
        return bench_fail(failure, "the configuration is too long");
    }
    if (pleat_create(conf, out) != PLEAT_OK) {
        return say_last_error("cannot start", failure);
    }
    return !is_host || check_created(*out, allocator, failure);
}

bool bench_setup_create(const bench_setup *setup, const char *allocator, uint64_t memory_bytes,
                        pleat *out, bench_failure *failure)
{
    return bench_setup_create_for(setup, allocator, false, memory_bytes, out, failure);
}
