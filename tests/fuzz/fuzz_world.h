/* fuzz_world.h - a correct program on the simulated GPU, for any sequence of operations.
 *
 * The program has streams and blocks, and remembers their uses. Before a stream touches a block,
 * the stream is ordered behind the block's last use, and pleat is told of the use. A use that would
 * break something (a capture, a gone stream) is left out. So every hazard, every refusal of a valid
 * request and every leak is pleat's mistake. Faults strike pleat's calls only. */
#ifndef PLEAT_TESTS_FUZZ_WORLD_H
#define PLEAT_TESTS_FUZZ_WORLD_H

#include "api/pleat.h"
#include "pleat_sim.h"
#include "vmm/driver.h"

enum { FUZZ_STREAMS = 6, FUZZ_BLOCKS = 40, FUZZ_GRAPHS = 4 };
enum { FUZZ_DOMAINS = 16, FUZZ_NO_DOMAIN = -1 };

/* The simulator's own functions, as the loaded object has them. */
/* clang-format off */
#define FUZZ_SIM_LIST(X) \
    X(work) X(fill) X(verify) X(finish) X(advance) X(fail_at) X(fail_from) X(fail_never) \
    X(n_faults) X(count) X(hazards)
/* clang-format on */

/* Slot 0 is the legacy default stream, which always exists. */
typedef struct fuzz_stream {
    void *handle;
    uint32_t life; /* the slot's current stream: a new stream gets a new number */
    bool is_live;
    bool is_blocking;
    bool is_member; /* of the capture under way */
    bool is_told;   /* pleat was told of it */
    bool is_peers;  /* a stream of the second device */
} fuzz_stream;

typedef struct fuzz_block {
    pleat_devptr ptr; /* 0 = not live */
    size_t bytes;
    unsigned owner;      /* slot of the owner */
    uint32_t owner_life; /* `life` of that slot at the time */
    unsigned last;       /* slot of the stream of the last use */
    uint32_t recorded;   /* slots that pleat was told of, as bits */
    uint64_t seed;       /* of the contents; 0 = unknown */
    bool is_captured;    /* allocated in the capture under way */
    int domain;          /* the domain of its pool, or FUZZ_NO_DOMAIN */
    unsigned graphs;     /* graphs with its address, as bits */
    unsigned tag;        /* the tag's number from 1 on; 0 = none */
} fuzz_block;

/* May a program read the block? Not if it slept without its contents. */
static inline bool fuzz_is_readable(const fuzz_block *b)
{
    return b->tag == 0 || b->seed != 0;
}

/* A private pool, from its first begin to its last release. A domain's graphs share addresses. So
 * the domain's blocks are used one by one. */
typedef struct fuzz_domain {
    bool is_used;
    unsigned last; /* slot of the last user */
} fuzz_domain;

typedef struct fuzz_fault {
    bool is_armed;
    bool is_for_good; /* every later call of that name fails, too */
    const char *call;
    uint64_t k;
    int code;
} fuzz_fault;

typedef struct fuzz_world {
    pl_driver *drv;
    struct cu_ctx_st *contexts[2]; /* the second is the peer's, or NULL */
#define FUZZ_SIM_FIELD(name) __typeof__(pleat_sim_##name) *sim_##name;
    FUZZ_SIM_LIST(FUZZ_SIM_FIELD)
#undef FUZZ_SIM_FIELD
    pleat instance;
    bool is_pleat; /* not a classic cache */
    fuzz_stream streams[FUZZ_STREAMS];
    fuzz_block blocks[FUZZ_BLOCKS];
    fuzz_domain domains[FUZZ_DOMAINS];
    uint32_t users[FUZZ_GRAPHS]; /* by graph: slots that used its addresses since its launch */
    bool is_capturing;
    unsigned origin; /* slot where the capture began */
    unsigned tag;    /* tag of the program's current scope; 0 = none */
    unsigned asleep; /* tags, as bits */
    uint64_t last_seed;
    fuzz_fault fault;
    bool has_struck; /* the fault struck in the last call */
    bool was_struck; /* a fault struck in any call */
    uint64_t n_faults;
} fuzz_world;

extern fuzz_world world;

/* Opens a fresh simulator and an instance on it. With a peer, whose memory nobody uses, streams in
 * odd slots are the peer's. */
void fuzz_world_open(const char *sim_conf, const char *conf, bool is_pleat, bool has_peer);
/* Free all live memory and destroy the instance. Nothing may be left. */
void fuzz_world_close(bool is_forced);

/* Enclose each call of pleat. The armed fault may strike inside. The status must be one of
 * `allowed` (bits), unless a fault has struck. fuzz_end_call always checks for hazards. */
void fuzz_begin_call(void);
void fuzz_end_call(const char *what, pleat_status st, uint32_t allowed);
#define FUZZ_BIT(status) (UINT32_C(1) << (status))

/* Checks a driver call of the program's own, which must succeed. */
void fuzz_must(int result, const char *what);

/* Make an event for recording on this stream. */
struct cu_event_st *fuzz_event_of(unsigned slot);
/* Orders `later` behind the work of `earlier` so far. False: not allowed for a program now. */
bool fuzz_order(unsigned later, unsigned earlier);
bool fuzz_can_submit(unsigned slot);

void fuzz_create_stream(unsigned slot, bool is_blocking);
void fuzz_destroy_stream(unsigned slot);

/* Makes a request in `domain`. False: the request was refused. */
bool fuzz_alloc(unsigned index, size_t bytes, unsigned slot, int domain);
/* The index of the live block at `ptr`; for 0, of a free index. FUZZ_BLOCKS: none. */
unsigned fuzz_find(pleat_devptr ptr);
/* Take over a live block that was not allocated by fuzz_alloc. A free index exists. */
void fuzz_adopt(pleat_devptr ptr, size_t bytes, unsigned owner, uint32_t owner_life, int domain);
/* Use memory outside blocks on this stream. Check its contents, if the seed is not 0. */
void fuzz_touch(pleat_devptr ptr, size_t bytes, unsigned slot, uint64_t seed);
/* Record each block's last use before blocks are freed without fuzz_free, since such a free waits
 * for recorded uses only. */
void fuzz_tell_last_uses(void);
/* Write the block on this stream, or check its contents. False: left out. */
bool fuzz_use(unsigned index, unsigned slot, bool is_write);
void fuzz_free(unsigned index, unsigned slot);
/* Calls with addresses of no block, which must be refused. */
void fuzz_free_badly(unsigned index);
void fuzz_query(unsigned index);

#endif
