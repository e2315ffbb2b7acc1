/* blocks.c - pleat from C: an instance, blocks of many sizes, and their cost in memory.
 *
 *     cc blocks.c -o blocks $(pkg-config --cflags --libs pleat)
 *     PLEAT_CONF=driver:sim,sim:[capacity:300M] ./blocks      # or as it is, on a GPU
 */
#include <pleat.h>
#include <stdio.h>
#include <stdlib.h>

enum { N_BLOCKS = 64, MIB = 1 << 20 };

static void require(pleat_status status)
{
    if (status != PLEAT_OK) {
        fprintf(stderr, "%s\n", pleat_last_error()->text);
        exit(EXIT_FAILURE);
    }
}

int main(void)
{
    pleat instance;
    pleat_device_info device;
    pleat_devptr blocks[N_BLOCKS];
    void *stream = NULL; /* a CUstream; NULL is the legacy default stream */

    require(pleat_create(NULL, &instance)); /* PLEAT_CONF alone */
    require(pleat_device_query(instance, 0, &device));
    printf("%s, %llu MiB, allocator %s\n", device.name,
           (unsigned long long)device.total_bytes / MIB, device.allocator);

    /* 64 blocks of 1 to 8 MiB; every second block is freed: 32 holes between live blocks. */
    for (int i = 0; i < N_BLOCKS; i++) {
        require(pleat_block_alloc(instance, 0, (size_t)(i % 8 + 1) * MIB, stream, &blocks[i]));
    }
    for (int i = 0; i < N_BLOCKS; i += 2) {
        require(pleat_block_free(instance, 0, blocks[i], stream));
    }

    /* A block as large as all holes together. The memory of the holes moves, without a copy. */
    pleat_devptr large;
    require(pleat_block_alloc(instance, 0, 100 * MIB, stream, &large));

    pleat_stats stats;
    require(pleat_device_stats(instance, 0, &stats));
    printf("live %llu MiB, resident %llu MiB, %llu granules moved\n",
           (unsigned long long)stats.allocated_bytes[PLEAT_SIZES_ALL].current / MIB,
           (unsigned long long)stats.resident_bytes / MIB,
           (unsigned long long)stats.n_taken_granules);

    require(pleat_block_free(instance, 0, large, stream));
    for (int i = 1; i < N_BLOCKS; i += 2) {
        require(pleat_block_free(instance, 0, blocks[i], stream));
    }
    require(pleat_destroy(instance, 0));
    return EXIT_SUCCESS;
}
