/* two_streams.c - finds a forgotten record_stream without a GPU, on the simulated driver.
 *
 * The program submits simulated work on known memory, and prints the hazards found.
 *
 *     cc two_streams.c -o two_streams $(pkg-config --cflags --libs pleat) -lpleat_sim
 *     PLEAT_CONF=driver:sim,sim:[capacity:64M] ./two_streams
 *
 * A block is filled on one stream, read on another and freed on the first. Before the free the
 * program must say that the second stream uses the block. Otherwise the memory is given out again
 * while the second stream still reads. */
#include <pleat.h>
#include <pleat_sim.h>
#include <stdio.h>
#include <stdlib.h>

/* The driver's functions, from libpleat_sim.so. With a CUDA toolkit include <cuda.h> instead. */
int cuInit(unsigned flags);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuDevicePrimaryCtxRelease_v2(int device);
int cuCtxSetCurrent(void *context);
int cuStreamCreate(void **stream, unsigned flags);
int cuStreamDestroy_v2(void *stream);

enum { BYTES = 40 << 20, NON_BLOCKING = 1 };

static void require(int status)
{
    if (status != 0) {
        fprintf(stderr, "%d: %s\n", status, pleat_last_error()->text);
        exit(EXIT_FAILURE);
    }
}

/* Stands for a kernel: touches the bytes when its turn on the stream has come. */
static void work(void *stream, pleat_devptr block, bool is_write)
{
    pleat_sim_access access = { .ptr = block, .bytes = BYTES, .is_write = is_write };
    require(pleat_sim_work(stream, &access, 1));
}

static void hand_over(pleat gpu, void *filling, void *reading, bool is_told)
{
    pleat_devptr block;
    pleat_devptr next;
    require(pleat_block_alloc(gpu, 0, BYTES, filling, &block));
    work(filling, block, true);
    pleat_sim_finish(); /* the block is filled; a program would order the streams by an event */
    work(reading, block, false);
    if (is_told) {
        require(pleat_block_record_stream(gpu, 0, block, reading));
    }
    require(pleat_block_free(gpu, 0, block, filling));

    /* The device has no room for two blocks: this block lies where the first lay. */
    require(pleat_block_alloc(gpu, 0, BYTES, filling, &next));
    work(filling, next, true);
    require(pleat_block_free(gpu, 0, next, filling));
    pleat_sim_finish();
}

int main(void)
{
    pleat gpu;
    void *context;
    void *filling;
    void *reading;
    pleat_sim_hazard hazards[8];

    require(pleat_create(NULL, &gpu)); /* PLEAT_CONF: driver:sim */
    require(cuInit(0));
    require(cuDevicePrimaryCtxRetain(&context, 0));
    require(cuCtxSetCurrent(context));
    require(cuStreamCreate(&filling, NON_BLOCKING));
    require(cuStreamCreate(&reading, NON_BLOCKING));

    hand_over(gpu, filling, reading, true);
    printf("hazards with record_stream: %zu\n", pleat_sim_hazards(hazards, 8));
    hand_over(gpu, filling, reading, false);
    size_t n = pleat_sim_hazards(hazards, 8);
    printf("hazards without it: %zu\n", n);
    for (size_t i = 0; i < n && i < 8; i++) {
        printf("  %s (%llu bytes at 0x%llx)\n", hazards[i].text,
               (unsigned long long)hazards[i].bytes, (unsigned long long)hazards[i].ptr);
    }

    require(pleat_stream_retire(gpu, 0, filling));
    require(pleat_stream_retire(gpu, 0, reading));
    require(cuStreamDestroy_v2(filling));
    require(cuStreamDestroy_v2(reading));
    require(pleat_destroy(gpu, 0));
    require(cuDevicePrimaryCtxRelease_v2(0));
    return EXIT_SUCCESS;
}
