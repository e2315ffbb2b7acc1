/* backing.h - backing:memory: real host pages behind reservations and mappings.
 *
 * Physical memory is a sparse file in memory for each device. A reservation is address space
 * without access, a mapping a shared piece of the file. Pages exist once work has touched them. */
#ifndef PLEAT_SIM_BACKING_H
#define PLEAT_SIM_BACKING_H

#include <stdbool.h>
#include <stdint.h>

enum { SIM_MAX_MEMORY_MAPPINGS = 16000 };

struct sim_device;

/* Reserves address space; 0 when the kernel has none. */
uint64_t sim_backing_reserve(uint64_t bytes, uint64_t alignment, uint64_t hint);
void sim_backing_unreserve(uint64_t base, uint64_t bytes);

/* Offset of `bytes` fresh, zeroed bytes in the device's file; false when the host refuses. */
bool sim_backing_take(struct sim_device *device, uint64_t bytes, uint64_t *offset);
void sim_backing_give(struct sim_device *device, uint64_t offset, uint64_t bytes);

/* Copy the written parts of `bytes` from a file at `offset` to the start of a second file. */
bool sim_backing_copy(int from, uint64_t offset, int to, uint64_t bytes);

/* Map a file without access; set the host's access; go back to a bare reservation. */
bool sim_backing_map(uint64_t at, int fd, uint64_t offset, uint64_t bytes);
bool sim_backing_protect(uint64_t at, uint64_t bytes, bool can_read, bool can_write);
void sim_backing_unmap(uint64_t at, uint64_t bytes);

void sim_backing_fini(struct sim_device *device);

/* Contents. `at` is mapped and accessible. The pattern depends only on `seed` and the distance from
 * `at`. verify returns the distance of the first wrong byte, or `bytes`. */
void sim_backing_fill(uint64_t at, uint64_t bytes, uint64_t seed);
uint64_t sim_backing_verify(uint64_t at, uint64_t bytes, uint64_t seed);

#endif
