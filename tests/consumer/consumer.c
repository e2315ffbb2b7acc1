/* consumer.c - a typical user's program: make an instance, use memory, read figures, end. */
#include <pleat.h>
#include <stdio.h>
#include <stdlib.h>

static void require(pleat_status status, const char *step)
{
    if (status != PLEAT_OK) {
        fprintf(stderr, "%s: %s: %s\n", step, pleat_status_text(status), pleat_last_error()->text);
        exit(EXIT_FAILURE);
    }
}

int main(void)
{
    pleat instance;
    require(pleat_create("driver:sim", &instance), "pleat_create");
    pleat_devptr block;
    require(pleat_block_alloc(instance, 0, 3 << 20, NULL, &block), "pleat_block_alloc");
    pleat_stats stats;
    require(pleat_device_stats(instance, 0, &stats), "pleat_device_stats");
    if (stats.allocated_bytes[PLEAT_SIZES_ALL].current != 3 << 20) {
        fprintf(stderr, "the statistics do not show the block\n");
        return EXIT_FAILURE;
    }
    require(pleat_block_free(instance, 0, block, NULL), "pleat_block_free");
    require(pleat_destroy(instance, 0), "pleat_destroy");
    if (pleat_destroy(instance, 0) != PLEAT_EGONE) {
        fprintf(stderr, "a second destroy was not refused\n");
        return EXIT_FAILURE;
    }
    printf("pleat %s\n", pleat_version());
    return EXIT_SUCCESS;
}
