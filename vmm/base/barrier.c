/* barrier.c - see barrier.h. Takes no lock. */
#include "vmm/base/barrier.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vmm/base/cancel.h"

_Atomic bool pl_barrier_is_dear;

static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool membarrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0) == 0;
}

static void prepare(void)
{
    if (!membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)) {
        atomic_store(&pl_barrier_is_dear, true);
    }
}

void pl_barrier_prepare(void)
{
    (void)pthread_once(&once, prepare);
}

static bool register_and_order(void)
{
    return membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) ||
           (membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
            membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED));
}

/* If the kernel later refuses membarrier, light halves become fences. The sleep of a millisecond
 * lets every processor finish the stores behind earlier light halves without a fence. */
void pl_barrier_heavy(void)
{
    enum { NS_PER_MS = 1000000 };
    if (!atomic_load(&pl_barrier_is_dear) && !register_and_order()) {
        atomic_store(&pl_barrier_is_dear, true);
        pl_sleep_ns(NS_PER_MS);
    }
    atomic_thread_fence(memory_order_seq_cst);
}
