/* task.c - the effect of work on memory, at the work's end, in memory mode. */
#include <stdlib.h>
#include <string.h>

#include "vmm/sim/memory/backing.h"
#include "vmm/sim/memory/memory.h"
#include "vmm/sim/memory/mempool.h"
#include "vmm/sim/work/hazard.h"
#include "vmm/sim/work/sim_stream.h"
#include "vmm/sim/work/user_object.h"

sim_task *sim_task_copy(const sim_task *task)
{
    size_t bytes = task->n * sizeof(task->accesses[0]);
    sim_task *copy = sim_new(sizeof(*copy) + bytes);
    *copy = *task;
    if (bytes > 0) {
        copy->accesses = memcpy(copy + 1, task->accesses, bytes);
    }
    return copy;
}

void sim_task_free(sim_task *task)
{
    if (task != NULL && task->kind == SIM_TASK_LAUNCH_END) {
        sim_holds_unref(task->holds);
    }
    free(task);
}

static void verify(const pleat_sim_access *access, uint64_t seed)
{
    uint64_t good = sim_backing_verify(access->ptr, access->bytes, seed);
    if (good < access->bytes) {
        sim_hazard_add(PLEAT_SIM_CONTENTS, access->ptr + good, access->bytes - good,
                       "byte %llu of %llu is not what seed %llu filled in",
                       (unsigned long long)good, (unsigned long long)access->bytes,
                       (unsigned long long)seed);
    }
}

static void free_linear(uint64_t ptr)
{
    sim_mapping *mapping = sim_linear_find(ptr);
    if (mapping != NULL) {
        sim_hazard_check_unmap(ptr, mapping->bytes, "cuMemFreeAsync");
        sim_linear_free(mapping);
    }
}

void sim_task_run(const sim_task *task)
{
    if (task->kind == SIM_TASK_FREE) {
        free_linear(task->value);
        return;
    }
    if (task->kind == SIM_TASK_POOL_RETIRE) {
        sim_mempool_retire((uint32_t)task->value);
        return;
    }
    bool is_empty = task->kind == SIM_TASK_WORK || task->kind == SIM_TASK_LAUNCH_END;
    if (!sim.conf.has_memory || is_empty) {
        return;
    }
    const pleat_sim_access *access = &task->accesses[0];
    void *p = (void *)(uintptr_t)access->ptr;
    switch (task->kind) {
    case SIM_TASK_FILL:
        sim_backing_fill(access->ptr, access->bytes, task->value);
        break;
    case SIM_TASK_VERIFY:
        verify(access, task->value);
        break;
    case SIM_TASK_SET:
        memset(p, (int)task->value, access->bytes);
        break;
    case SIM_TASK_READ:
        memcpy(task->host, p, access->bytes);
        break;
    case SIM_TASK_WRITE:
        memcpy(p, task->host, access->bytes);
        break;
    case SIM_TASK_COPY:
        memmove(p, (const void *)(uintptr_t)task->accesses[1].ptr, access->bytes);
        break;
    case SIM_TASK_WRITE_VALUE:
        memcpy(p, &task->value, access->bytes); /* its low bytes come first */
        break;
    case SIM_TASK_WORK:
    case SIM_TASK_FREE:
    case SIM_TASK_POOL_ALLOC:
    case SIM_TASK_POOL_RETIRE:
    case SIM_TASK_LAUNCH_END:
        break;
    }
}
