/* cuda_graph.c - CUDA graphs in a private pool: what begin, end and release count.
 *
 * A captured graph has the addresses of its memory baked in, so this memory must serve nobody else
 * while the graph can be launched. A private pool keeps it. A pool counts its users:
 *
 *     pleat_pool_begin     one user more, and from now on requests go to the pool
 *     pleat_pool_end       requests go there no more; the user stays
 *     pleat_pool_release   one user less; with the last user the memory is everybody's again
 *     pleat_pool_hold      one user more, without requests
 *
 * So each begin needs one end, after the capture, and one release, after the graph is destroyed.
 * Several graphs may share a pool, if no two of them run at once: what one capture freed serves the
 * next.
 *
 *     cc cuda_graph.c -o cuda_graph $(pkg-config --cflags --libs pleat) -lpleat_sim  # a GPU: -lcuda
 *     PLEAT_CONF=driver:sim,sim:[capacity:192M] ./cuda_graph
 */
#include <pleat.h>
#include <stdio.h>
#include <stdlib.h>

/* The driver's functions. With a CUDA toolkit include <cuda.h> instead. */
int cuInit(unsigned flags);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuDevicePrimaryCtxRelease_v2(int device);
int cuCtxSetCurrent(void *context);
int cuStreamCreate(void **stream, unsigned flags);
int cuStreamSynchronize(void *stream);
int cuStreamDestroy_v2(void *stream);
int cuStreamBeginCapture_v2(void *stream, int mode);
int cuStreamEndCapture(void *stream, void **graph);
int cuMemsetD8Async(unsigned long long ptr, unsigned char byte, size_t n, void *stream);
int cuGraphInstantiateWithFlags(void **launchable, void *graph, unsigned long long flags);
int cuGraphLaunch(void *launchable, void *stream);
int cuGraphExecDestroy(void *launchable);
int cuGraphDestroy(void *graph);

enum { N_GRAPHS = 3, NON_BLOCKING = 1, THREAD_LOCAL = 1 };

#define MIB ((size_t)1 << 20)

typedef struct step {
    void *graph;
    void *launchable;
    pleat_devptr result; /* stays while the graph does */
} step;

static pleat gpu;
static const pleat_pool_id pool = { 1, 1 }; /* any name but {0, 0} */

static void require(int status)
{
    if (status != 0) {
        fprintf(stderr, "%d: %s\n", status, pleat_last_error()->text);
        exit(EXIT_FAILURE);
    }
}

static void say(const char *when)
{
    unsigned users;
    uint64_t bytes;
    require(pleat_pool_users(gpu, 0, pool, &users));
    require(pleat_pool_held(gpu, 0, pool, &bytes));
    printf("%-24s %u users, %3llu MiB held\n", when, users, (unsigned long long)(bytes / MIB));
}

/* The capture's requests go to the pool: from other streams, too, as `route` is NULL. */
static void capture(step *s, size_t activation_bytes, void *stream)
{
    pleat_devptr activations;
    require(pleat_pool_begin(gpu, 0, pool, NULL, NULL, NULL));
    require(cuStreamBeginCapture_v2(stream, THREAD_LOCAL));
    require(pleat_block_alloc(gpu, 0, activation_bytes, stream, &activations));
    require(pleat_block_alloc(gpu, 0, 4 * MIB, stream, &s->result));
    require(cuMemsetD8Async(activations, 1, activation_bytes, stream)); /* stands for kernels */
    require(cuMemsetD8Async(s->result, 2, 4 * MIB, stream));
    require(pleat_block_free(gpu, 0, activations, stream)); /* the next capture may have it */
    require(cuStreamEndCapture(stream, &s->graph));
    require(pleat_pool_end(gpu, 0, pool));
    require(cuGraphInstantiateWithFlags(&s->launchable, s->graph, 0));
}

static void destroy(step *s, void *stream)
{
    require(cuGraphExecDestroy(s->launchable));
    require(cuGraphDestroy(s->graph));
    require(pleat_block_free(gpu, 0, s->result, stream));
    require(pleat_pool_release(gpu, 0, pool));
}

int main(void)
{
    void *context;
    void *stream;
    step steps[N_GRAPHS];
    pleat_devptr large;

    require(pleat_create(NULL, &gpu)); /* PLEAT_CONF alone */
    require(cuInit(0));
    require(cuDevicePrimaryCtxRetain(&context, 0));
    require(cuCtxSetCurrent(context));
    require(cuStreamCreate(&stream, NON_BLOCKING));

    for (int i = 0; i < N_GRAPHS; i++) {
        capture(&steps[i], (size_t)(64 - 16 * i) * MIB, stream);
    }
    say("three graphs captured:");

    /* Free memory of the pool serves no other request, so a launch finds it untouched. */
    if (pleat_block_alloc(gpu, 0, 128 * MIB, stream, &large) == PLEAT_OK) {
        require(pleat_block_free(gpu, 0, large, stream));
    } else {
        printf("no room beside them:     %d MiB\n", 128);
    }
    for (int i = 0; i < N_GRAPHS; i++) {
        require(cuGraphLaunch(steps[i].launchable, stream));
    }
    require(cuStreamSynchronize(stream));

    for (int i = 0; i < N_GRAPHS; i++) {
        destroy(&steps[i], stream);
    }
    say("graphs and users gone:");
    require(pleat_block_alloc(gpu, 0, 128 * MIB, stream, &large));
    printf("room again:              128 MiB\n");
    require(pleat_block_free(gpu, 0, large, stream));

    require(pleat_stream_retire(gpu, 0, stream));
    require(cuStreamDestroy_v2(stream));
    require(pleat_destroy(gpu, 0));
    require(cuDevicePrimaryCtxRelease_v2(0));
    return EXIT_SUCCESS;
}
