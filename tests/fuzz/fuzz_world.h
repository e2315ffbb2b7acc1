/* fuzz_world.h - a program on the simulated GPU that does nothing wrong, however it is made up.
 *
 * Streams, blocks and what the program knows of them. Whoever touches a block is ordered behind its
 * last use and has told pleat of the stream; what that would break (a capture, a stream that is
 * gone) is left out. So every hazard, every refusal of what must be granted and everything left
 * over is pleat's. Faults strike pleat's calls only. */
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

/* Slot 0 is the legacy default stream, which is always there. */
typedef struct fuzz_stream {
    void *handle;
    uint32_t life; /* of the slot: another stream, another number */
    bool is_live;
    bool is_blocking;
    bool is_member; /* of the capture that is under way */
    bool is_told;   /* pleat knows of it */
    bool is_peers;  /* of the second device */
} fuzz_stream;

typedef struct fuzz_block {
    pleat_devptr ptr; /* 0 = not live */
    size_t bytes;
    unsigned owner;      /* slot of its stream */
    uint32_t owner_life; /* the slot's then */
    unsigned last;       /* slot of the stream that used it last */
    uint32_t recorded;   /* slots that pleat was told of */
    uint64_t seed;       /* of its contents; 0 = unknown */
    bool is_captured;    /* allocated in the capture that is under way */
    int domain;          /* FUZZ_NO_DOMAIN, or the pool's */
    unsigned graphs;     /* that have its address, by bits */
} fuzz_block;

/* A private pool from its first begin to its last release. Its graphs share addresses, so its uses
 * come one after another. */
typedef struct fuzz_domain {
    bool is_used;
    unsigned last; /* slot */
} fuzz_domain;

typedef struct fuzz_fault {
    bool is_armed;
    bool is_for_good; /* every later call of that name, too */
    const char *call;
    uint64_t k;
    int code;
} fuzz_fault;

typedef struct fuzz_world {
    pl_driver *drv;
    struct cu_ctx_st *contexts[2]; /* the second: of a peer, or NULL */
#define FUZZ_SIM_FIELD(name) __typeof__(pleat_sim_##name) *sim_##name;
    FUZZ_SIM_LIST(FUZZ_SIM_FIELD)
#undef FUZZ_SIM_FIELD
    pleat instance;
    bool is_pleat; /* not a classic cache */
    fuzz_stream streams[FUZZ_STREAMS];
    fuzz_block blocks[FUZZ_BLOCKS];
    fuzz_domain domains[FUZZ_DOMAINS];
    uint32_t users[FUZZ_GRAPHS]; /* slots that used a graph's addresses since its last launch */
    bool is_capturing;
    unsigned origin; /* slot where the capture began */
    uint64_t last_seed;
    fuzz_fault fault;
    bool has_struck; /* in the last call */
    bool was_struck; /* ever */
    uint64_t n_faults;
} fuzz_world;

extern fuzz_world world;

/* A fresh simulator and an instance on it. With a peer, whose memory nobody uses, streams in odd
 * slots are the peer's. */
void fuzz_world_open(const char *sim_conf, const char *conf, bool is_pleat, bool has_peer);
/* Everything that is live goes, the instance too; nothing may be left. */
void fuzz_world_close(bool is_forced);

/* Around each call of pleat: lets the armed fault strike it. The status must be one of `allowed`
 * (bits), or a fault has struck. Always look at the hazards. */
void fuzz_begin_call(void);
void fuzz_end_call(const char *what, pleat_status st, uint32_t allowed);
#define FUZZ_BIT(status) (UINT32_C(1) << (status))

/* A call of the driver's own, which the program is sure of. */
void fuzz_must(int result, const char *what);

/* Make an event for what is recorded on that stream. */
struct cu_event_st *fuzz_event_of(unsigned slot);
/* `later` comes after what `earlier` has so far. False where no program may ask for that. */
bool fuzz_order(unsigned later, unsigned earlier);
bool fuzz_can_submit(unsigned slot);

void fuzz_create_stream(unsigned slot, bool is_blocking);
void fuzz_destroy_stream(unsigned slot);

/* The request goes to `domain`. False: refused. */
bool fuzz_alloc(unsigned index, size_t bytes, unsigned slot, int domain);
/* Write the block there, or look whether its contents are what was written. False: left out. */
bool fuzz_use(unsigned index, unsigned slot, bool is_write);
void fuzz_free(unsigned index, unsigned slot);
/* Calls that must be refused: of addresses that are no block's. */
void fuzz_free_badly(unsigned index);
void fuzz_query(unsigned index);

#endif
