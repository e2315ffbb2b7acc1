/* token.h - physical memory as a file that other processes can open: what an exported descriptor
 * refers to.
 *
 *   0                          whole granules                         + SIM_TOKEN_PAGE
 *   |  contents, with backing:memory  |  what it is: device, size, properties  |
 *
 * A token is made at the first export; then the memory's contents move into it, and all mappings
 * with them. Its size is sealed, so nobody can take bytes away from under another's mapping. */
#ifndef PLEAT_SIM_TOKEN_H
#define PLEAT_SIM_TOKEN_H

#include "vmm/sim/memory.h"

enum { SIM_TOKEN_PAGE = 4096 };

/* Give the handle a token, if it has none. CU_SUCCESS; CU_OPERATING_SYSTEM: as before. */
cu_result sim_token_make(sim_handle *handle);
/* The live handle of this process that has that token, or NULL. CU_INVALID_VALUE: it is none. */
cu_result sim_token_find(int fd, sim_handle **out);
/* A handle for a token that no live handle of this process has, with one reference. Its bytes are
 * charged to the process that created them. CU_SUCCESS; INVALID_VALUE; INVALID_DEVICE;
 * OPERATING_SYSTEM. */
cu_result sim_token_adopt(int fd, sim_handle **out);
/* Close the token; what others have of the memory stays theirs. */
void sim_token_drop(sim_handle *handle);

#endif
