/* through.c - the table's rows, and the implementation of pleat's rows. */
#include "bench/pairs/through.h"

#include <stdlib.h>
#include <string.h>

#include "api/adapters/pleat_torch.h"

/* The pluggable row calls the hooks for device 0, the hooks' own row for device 1. So the rows
 * never share blocks. */
#define SIM_CONF "capacity:%s,compute:9.0,devices:2,blocks:untold"
#define SIM_HOST_CONF "capacity:1T,compute:9.0,devices:2,backing:memory,host:1T,blocks:untold"
enum { CONF_BYTES = 4096, HOOKS_DEVICE = 1 };

static pleat_devptr alloc_block(const bench_through *through, uint64_t bytes, void *stream)
{
    pleat_devptr ptr = 0;
    pleat_status st = pleat_block_alloc(through->instance, 0, bytes, stream, &ptr);
    return st == PLEAT_OK ? ptr : 0;
}

static bool free_block(const bench_through *through, pleat_devptr ptr, void *stream)
{
    return pleat_block_free(through->instance, 0, ptr, stream) == PLEAT_OK;
}

static pleat_devptr alloc_hooked(const bench_through *through, uint64_t bytes, void *stream)
{
    (void)through;
    return (pleat_devptr)(uintptr_t)pleat_torch_malloc(bytes, HOOKS_DEVICE, stream);
}

/* The hook looks at no size. */
static bool free_hooked(const bench_through *through, pleat_devptr ptr, void *stream)
{
    (void)through;
    pleat_torch_free((void *)(uintptr_t)ptr, 0, HOOKS_DEVICE, stream);
    return true;
}

static pleat_devptr alloc_pinned(const bench_through *through, uint64_t bytes, void *stream)
{
    void *ptr = NULL;
    (void)stream;
    pleat_status st = pleat_host_alloc(through->instance, 0, bytes, &ptr);
    return st == PLEAT_OK ? (uintptr_t)ptr : 0;
}

static bool free_pinned(const bench_through *through, pleat_devptr ptr, void *stream)
{
    (void)stream;
    return pleat_host_free(through->instance, 0, (void *)(uintptr_t)ptr, PLEAT_HOST_UNUSED) ==
           PLEAT_OK;
}

/* Free a block that the stream used. A fence tells when the use is over. */
static bool free_used(const bench_through *through, pleat_devptr ptr, void *stream)
{
    return pleat_host_free(through->instance, 0, (void *)(uintptr_t)ptr, stream) == PLEAT_OK;
}

static bool open_pleat(bench_through *through, bench_failure *failure)
{
    through->alloc = alloc_block;
    through->release = free_block;
    through->has_instance = pleat_create(through->kind->conf, &through->instance) == PLEAT_OK;
    return through->has_instance || bench_through_say(through, "cannot start", failure);
}

static bool open_pinned(bench_through *through, bench_failure *failure)
{
    bool ok = open_pleat(through, failure);
    through->alloc = alloc_pinned;
    through->release = through->kind->stream == BENCH_THROUGH_USED ? free_used : free_pinned;
    return ok;
}

static bool open_hooks(bench_through *through, bench_failure *failure)
{
    through->alloc = alloc_hooked;
    through->release = free_hooked;
    through->has_instance = pleat_default(&through->instance) == PLEAT_OK;
    return through->has_instance || bench_through_say(through, "cannot start", failure);
}

/* clang-format off */
static const bench_through_kind kinds[] = {
    { .name = "torch", .doc = "PyTorch's own allocator, legacy stream",
      .stream = BENCH_THROUGH_LEGACY, .is_torch = true,
      .load = bench_torch_load, .open = bench_torch_open },
    { .name = "torch-created", .doc = "the same, created stream",
      .stream = BENCH_THROUGH_CREATED, .is_torch = true,
      .load = bench_torch_load, .open = bench_torch_open },
    { .name = "torch-pluggable", .doc = "torch's CUDAPluggableAllocator with pleat's hooks",
      .stream = BENCH_THROUGH_LEGACY, .is_on_demand = true,
      .load = bench_torch_load, .open = bench_torch_open },
    { .name = "torch-class", .doc = "torch through pleat's class, legacy stream",
      .stream = BENCH_THROUGH_LEGACY,
      .load = bench_torch_load, .open = bench_torch_open },
    { .name = "pleat", .doc = "pleat.h, legacy stream",
      .stream = BENCH_THROUGH_LEGACY, .conf = "", .open = open_pleat },
    { .name = "pleat-created", .doc = "the same, created stream",
      .stream = BENCH_THROUGH_CREATED, .conf = "", .open = open_pleat },
    { .name = "pleat-told", .doc = "the same with stream_identity:handle,capture:told",
      .stream = BENCH_THROUGH_CREATED, .conf = "stream_identity:handle,capture:told",
      .open = open_pleat },
    { .name = "hooks", .doc = "pleat's hooks for torch, legacy stream",
      .stream = BENCH_THROUGH_LEGACY, .open = open_hooks },
    { .name = "native", .doc = "pleat's torch-native model, legacy stream",
      .stream = BENCH_THROUGH_LEGACY, .conf = "allocator:torch-native", .open = open_pleat },
    { .name = "mimalloc", .doc = "host memory: mi_malloc, as a yardstick",
      .stream = BENCH_THROUGH_HOST, .load = bench_mimalloc_load, .open = bench_mimalloc_open },
    { .name = "glibc", .doc = "host memory: malloc of the C library",
      .stream = BENCH_THROUGH_HOST, .open = bench_glibc_open },
    { .name = "torch-pinned", .doc = "PyTorch's own cache of pinned memory",
      .stream = BENCH_THROUGH_PINNED, .is_torch = true, .is_on_demand = true,
      .load = bench_torch_load, .open = bench_torch_open },
    { .name = "pinned", .doc = "pleat_host.h, blocks that no stream has used",
      .stream = BENCH_THROUGH_PINNED, .conf = "memory:host", .open = open_pinned },
    { .name = "native-pinned", .doc = "pleat's torch-pinned model",
      .stream = BENCH_THROUGH_PINNED, .conf = "memory:host,allocator:torch-pinned",
      .open = open_pinned },
    { .name = "torch-pinned-used", .doc = "PyTorch's, used by a created stream",
      .stream = BENCH_THROUGH_USED, .is_torch = true, .is_on_demand = true,
      .load = bench_torch_load, .open = bench_torch_open },
    { .name = "pinned-used", .doc = "pleat_host.h, freed behind a created stream",
      .stream = BENCH_THROUGH_USED, .conf = "memory:host", .open = open_pinned },
};
/* clang-format on */

enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

_Static_assert((int)N_KINDS <= (int)BENCH_THROUGH_MOST, "more kinds than a job has room for");

const bench_through_kind *bench_through_kind_at(unsigned index)
{
    return index < N_KINDS ? &kinds[index] : NULL;
}

const bench_through_kind *bench_through_find(const char *name, size_t n)
{
    for (unsigned i = 0; i < N_KINDS; i++) {
        if (strlen(kinds[i].name) == n && memcmp(kinds[i].name, name, n) == 0) {
            return &kinds[i];
        }
    }
    return NULL;
}

void bench_through_prepare(const char *conf, bool is_large, bool is_pinned)
{
    char sim[sizeof SIM_HOST_CONF];
    char whole[CONF_BYTES];
    snprintf(whole, sizeof whole, "driver:sim%s%s", conf[0] ? "," : "", conf);
    setenv("PLEAT_CONF", whole, 1);
    snprintf(sim, sizeof sim, is_pinned ? SIM_HOST_CONF : SIM_CONF, is_large ? "64T" : "8T");
    setenv("PLEAT_SIM", sim, 1);
    unsetenv("PYTORCH_ALLOC_CONF");
    unsetenv("PYTORCH_CUDA_ALLOC_CONF");
}

bool bench_through_open(const bench_through_kind *kind, bench_through *out, bench_failure *failure)
{
    *out = (bench_through){ .kind = kind };
    return kind->open(out, failure);
}

bool bench_through_say(const bench_through *through, const char *what, bench_failure *failure)
{
    const char *why = through->kind->conf || through->has_instance ? pleat_last_error()->text : "";
    return bench_fail(failure, "%s: %s%s%s", through->kind->name, what, why[0] ? ": " : "", why);
}
