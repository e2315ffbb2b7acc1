/* task.c - the effect of work on memory, at the work's end, in memory mode. */
#include <stdlib.h>
#include <string.h>

#include "vmm/tools/sim/memory/backing.h"
#include "vmm/tools/sim/memory/memory.h"
#include "vmm/tools/sim/memory/mempool.h"
#include "vmm/tools/sim/work/hazard.h"
#include "vmm/tools/sim/work/late.h"
#include "vmm/tools/sim/work/scope.h"
#include "vmm/tools/sim/work/sim_stream.h"
#include "vmm/tools/sim/work/user_object.h"

/* A task, its accesses, and room behind them. */
static sim_task *copy_with(const sim_task *task, size_t more_bytes)
{
    size_t bytes = task->n * sizeof(task->accesses[0]);
    sim_task *copy = sim_new(sizeof(*copy) + bytes + more_bytes);
    *copy = *task;
    copy->serials = NULL;
    if (bytes > 0) {
        copy->accesses = memcpy(copy + 1, task->accesses, bytes);
    }
    return copy;
}

sim_task *sim_task_copy(const sim_task *task)
{
    return copy_with(task, 0);
}

sim_task *sim_task_capture(const sim_task *task)
{
    sim_task *copy = copy_with(task, task->n * sizeof(uint64_t));
    uint64_t *serials = (uint64_t *)(void *)((char *)(copy + 1) +
                                             task->n * sizeof(task->accesses[0]));
    sim_late_note_blocks(task, serials);
    copy->serials = serials;
    copy->place = sim_scope_self()->place;
    return copy;
}

bool sim_work_extend(sim_op *op, uint64_t ptr, uint64_t bytes)
{
    uint64_t end = ptr + bytes;
    bool is_found = op->task == NULL && op->is_write && op->begin == ptr && op->end == ptr + 1;
    for (size_t i = 0; op->task != NULL && i < op->task->n; i++) {
        pleat_sim_access *it = &((pleat_sim_access *)(void *)(op->task + 1))[i]; /* copy_with */
        if (it->is_write && it->ptr == ptr && it->bytes == 1) {
            it->bytes = bytes;
            is_found = true;
        }
    }
    op->end = is_found && op->end < end ? end : op->end;
    return is_found;
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
