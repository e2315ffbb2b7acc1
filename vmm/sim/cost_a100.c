/* cost_a100.c - the text of costs/a100.cost, built in; sim_log_test.c compares the two. */
#include "vmm/sim/cost.h"

#include <string.h>

static const char a100[] =
    "# Cost of driver calls on an A100 with 2 MiB handles, in microseconds, for the simulator's "
    "clock.\n"
    "#\n"
    "#   us = call + handle * handles or mappings + granule * granules + mib * MiB\n"
    "#\n"
    "# Published figures, not measured by this project. No public source separates the share per "
    "call\n"
    "# from the share per granule; the splits below are chosen so that a single granule costs what "
    "was\n"
    "# measured, and the share per granule is close to what runs of handles cost elsewhere.\n"
    "# Replace this file by one that `pleat probe` writes on a real device.\n"
    "gpu NVIDIA A100\n"
    "source kvcached bench_vmm (A100, 4,096 x 2 MiB, one thread): reserve, create, map, access, "
    "unmap\n"
    "source vAttention paper (A100): release, address free\n"
    "source MoonBright (A100): cudaMalloc of 128 MiB takes about 1 ms\n"
    "\n"
    "# kvcached: 19 for a range of 8 GiB\n"
    "cuMemAddressReserve call 19\n"
    "# vAttention: 1\n"
    "cuMemAddressFree call 1\n"
    "# kvcached: 193 for 2 MiB; larger handles cost less per byte: 10 a MiB above\n"
    "cuMemCreate call 173 mib 10\n"
    "# vAttention: 23\n"
    "cuMemRelease handle 23\n"
    "# kvcached: 1.45\n"
    "cuMemMap handle 1.45\n"
    "# kvcached: 36 for one granule\n"
    "cuMemSetAccess call 26 granule 10\n"
    "# kvcached: 25.6 for one granule\n"
    "cuMemUnmap call 20.6 granule 5\n"
    "# MoonBright: 1 ms for 128 MiB\n"
    "cuMemAlloc mib 7.8\n"
    "cuMemFree mib 7.8\n";

const char *sim_cost_builtin(const char *name)
{
    return strcmp(name, "a100") == 0 ? a100 : NULL;
}
