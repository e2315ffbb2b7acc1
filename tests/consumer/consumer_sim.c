/* consumer_sim.c - somebody else's VMM code against the installed simulator, without libpleat. */
#include <pleat_sim.h>
#include <stdio.h>
#include <stdlib.h>

/* As in a program that includes the vendor's header. */
int cuInit(unsigned flags);
int cuDeviceGetCount(int *count);

int main(void)
{
    int n_devices = 0;
    pleat_sim_counts counts;
    if (pleat_sim_reset("") != 0) {
        fprintf(stderr, "pleat_sim_reset: %s\n", pleat_sim_error());
        return EXIT_FAILURE;
    }
    if (cuInit(0) != 0 || cuDeviceGetCount(&n_devices) != 0 || n_devices < 1) {
        fprintf(stderr, "the simulator has no device\n");
        return EXIT_FAILURE;
    }
    if (pleat_sim_count(-1, &counts) != 0 || counts.calls == 0 || counts.handles != 0) {
        fprintf(stderr, "the simulator does not count\n");
        return EXIT_FAILURE;
    }
    printf("%d simulated device(s)\n", n_devices);
    return EXIT_SUCCESS;
}
