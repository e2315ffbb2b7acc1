/* token.h - physical memory as a file that other processes can open. An exported descriptor refers
 * to a token.
 *
 *   0                          whole granules                         + SIM_TOKEN_PAGE
 *   |  contents, with backing:memory  |  what it is: device, size, properties  |
 *
 * A token is made at the first export. The memory's contents then move into the token, and all
 * mappings follow. The token's size is sealed, so nobody can cut bytes away under another process's
 * mapping. */
#ifndef PLEAT_SIM_TOKEN_H
#define PLEAT_SIM_TOKEN_H

#include "vmm/tools/sim/memory/memory.h"

enum { SIM_TOKEN_PAGE = 4096 };

/* Give the handle a token, if it has none. CU_SUCCESS; CU_OPERATING_SYSTEM: as before. */
cu_result sim_token_make(sim_handle *handle);
/* This process's live handle of the token, or NULL. CU_INVALID_VALUE: it is none. */
cu_result sim_token_find(int fd, sim_handle **out);
/* Makes a handle with one reference, for a token without a live handle in this process. The bytes
 * are charged to the creating process. CU_SUCCESS; INVALID_VALUE; INVALID_DEVICE;
 * OPERATING_SYSTEM. */
cu_result sim_token_adopt(int fd, sim_handle **out);
/* Close the token. Other holders keep the memory. */
void sim_token_drop(sim_handle *handle);

#endif
