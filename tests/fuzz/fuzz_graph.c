/* fuzz_graph.c - see fuzz_graph.h. */
#include "tests/fuzz/fuzz_graph.h"

#include <string.h>

#include "tests/fuzz/fuzz.h"

typedef struct graph {
    cu_graph_exec exec; /* NULL: the slot is free */
    void *streams[FUZZ_STREAMS];
    unsigned n_streams;
    unsigned domains; /* domains of its blocks, as bits */
    bool is_plain;    /* also has addresses outside of pools */
    bool is_launched;
    unsigned last; /* slot of the stream of its last launch */
} graph;

typedef struct route {
    bool is_used; /* pleat may still call its filter */
    bool is_for_all;
    void *stream;
    unsigned pool;
} route;

typedef struct pool {
    unsigned n_begun; /* begins without a release */
    int domain;       /* valid while n_begun > 0 */
} pool;

static struct {
    graph graphs[FUZZ_GRAPHS];
    route routes[FUZZ_ROUTES];
    unsigned order[FUZZ_ROUTES]; /* routes in force, in the order of their begins */
    unsigned n_routes;
    pool pools[FUZZ_POOLS];
    int n_domains;
    unsigned captured_domains; /* of the capture under way, as in `graph` */
    bool is_plain;
    bool may_break; /* a fault has struck during the capture */
} all;

void fuzz_graph_open(void)
{
    memset(&all, 0, sizeof all);
}

/* ---- pools ----------------------------------------------------------------------------------- */

pleat_pool_id fuzz_pool_name(unsigned number)
{
    return (pleat_pool_id){ .first = 7, .second = number };
}

static bool is_routed(void *stream, void *context)
{
    const route *r = context;
    fuzz_check(r->is_used, "a route is asked after its end");
    return r->is_for_all || r->stream == stream;
}

static void forget(void *context)
{
    route *r = context;
    fuzz_check(r->is_used, "a route is forgotten twice");
    r->is_used = false;
}

/* The domain of a request, decided by the newest matching route. */
static int domain_of(void *stream)
{
    for (unsigned i = all.n_routes; i-- > 0;) {
        route *r = &all.routes[all.order[i]];
        if (is_routed(stream, r)) {
            return all.pools[r->pool].domain;
        }
    }
    return FUZZ_NO_DOMAIN;
}

void fuzz_begin_pool(unsigned number, bool is_for_all, unsigned slot)
{
    pool *p = &all.pools[number];
    unsigned free_route = 0;
    while (free_route < FUZZ_ROUTES && all.routes[free_route].is_used) {
        free_route++;
    }
    if (free_route == FUZZ_ROUTES || (p->n_begun == 0 && all.n_domains == FUZZ_DOMAINS)) {
        return;
    }
    route *r = &all.routes[free_route];
    *r = (route){ .is_used = true,
                  .is_for_all = is_for_all,
                  .stream = world.streams[slot].handle,
                  .pool = number };
    fuzz_begin_call();
    pleat_status st = pleat_pool_begin(world.instance, 0, fuzz_pool_name(number), is_routed, forget,
                                       r);
    fuzz_end_call("pool_begin", st,
                  FUZZ_BIT(PLEAT_OK) | (world.is_pleat ? 0 : FUZZ_BIT(PLEAT_ENOTSUP)));
    if (st != PLEAT_OK) {
        fuzz_check(!r->is_used, "a route that was refused is not forgotten");
        return;
    }
    if (p->n_begun++ == 0) {
        p->domain = all.n_domains++;
    }
    all.order[all.n_routes++] = free_route;
}

int fuzz_pool_domain(unsigned number)
{
    return all.pools[number].n_begun > 0 ? all.pools[number].domain : FUZZ_NO_DOMAIN;
}

void fuzz_hold_pool(unsigned number)
{
    pool *p = &all.pools[number];
    if (p->n_begun == 0 && all.n_domains == FUZZ_DOMAINS) {
        return;
    }
    fuzz_begin_call();
    pleat_status st = pleat_pool_hold(world.instance, 0, fuzz_pool_name(number));
    fuzz_end_call("pool_hold", st,
                  FUZZ_BIT(PLEAT_OK) | (world.is_pleat ? 0 : FUZZ_BIT(PLEAT_ENOTSUP)));
    if (st == PLEAT_OK && p->n_begun++ == 0) {
        p->domain = all.n_domains++;
    }
}

bool fuzz_is_routed(unsigned slot)
{
    return domain_of(world.streams[slot].handle) != FUZZ_NO_DOMAIN;
}

/* The index in `order` of the pool's newest route; n_routes if the pool has no route. */
static unsigned last_route(unsigned number)
{
    for (unsigned i = all.n_routes; i-- > 0;) {
        if (all.routes[all.order[i]].pool == number) {
            return i;
        }
    }
    return all.n_routes;
}

void fuzz_end_pool(unsigned number)
{
    unsigned at = last_route(number);
    bool is_there = at < all.n_routes;
    if (is_there && world.is_capturing && (all.captured_domains >> all.pools[number].domain & 1)) {
        return; /* a capture ends before its pools are released */
    }
    fuzz_begin_call();
    pleat_status st = pleat_pool_end(world.instance, 0, fuzz_pool_name(number));
    fuzz_end_call("pool_end", st, FUZZ_BIT(is_there ? PLEAT_OK : PLEAT_EPOOL));
    if (st != PLEAT_OK) {
        return;
    }
    fuzz_check(is_there && !all.routes[all.order[at]].is_used, "a route that ended is not "
                                                               "forgotten");
    for (all.n_routes--; at < all.n_routes; at++) {
        all.order[at] = all.order[at + 1];
    }
}

static bool has_graphs(int domain)
{
    for (unsigned i = 0; i < FUZZ_GRAPHS; i++) {
        if (all.graphs[i].exec != NULL && (all.graphs[i].domains >> domain & 1) != 0) {
            return true;
        }
    }
    return false;
}

void fuzz_release_pool(unsigned number)
{
    pool *p = &all.pools[number];
    bool is_last = p->n_begun == 1;
    bool is_busy = is_last && last_route(number) < all.n_routes;
    if (is_last && !is_busy && (world.is_capturing || has_graphs(p->domain))) {
        return;
    }
    pleat_status wanted = p->n_begun == 0 ? PLEAT_EPOOL : is_busy ? PLEAT_EBUSY : PLEAT_OK;
    fuzz_begin_call();
    pleat_status st = pleat_pool_release(world.instance, 0, fuzz_pool_name(number));
    fuzz_end_call("pool_release", st, FUZZ_BIT(wanted));
    p->n_begun -= st == PLEAT_OK;
}

/* ---- captures -------------------------------------------------------------------------------- */

bool fuzz_alloc_routed(unsigned index, size_t bytes, unsigned slot)
{
    const fuzz_stream *s = &world.streams[slot];
    int domain = domain_of(s->handle);
    bool is_had = fuzz_alloc(index, bytes, slot, domain);
    all.may_break = all.may_break || (!is_had && world.has_struck);
    if (s->is_member && domain != FUZZ_NO_DOMAIN) {
        all.captured_domains |= 1u << domain; /* also after a refused request */
    } else if (s->is_member) {
        all.is_plain = true;
    }
    return is_had;
}

static unsigned free_block(void)
{
    unsigned index = 0;
    while (index < FUZZ_BLOCKS && world.blocks[index].ptr != 0) {
        index++;
    }
    return index;
}

/* pleat must know of a capture before other calls come. The driver reports captures of blocking
 * streams. Of other streams pleat learns in a call that names the stream, granted or not. The
 * classic caches synchronise the device when memory is short, as the originals do, and so break any
 * capture. */
void fuzz_begin_capture(unsigned slot, int mode)
{
    fuzz_stream *s = &world.streams[slot];
    unsigned index = free_block();
    if (slot == 0 || !s->is_live || world.is_capturing || !world.is_pleat || index == FUZZ_BLOCKS) {
        return;
    }
    fuzz_say("capture of stream %u begins, mode %d", slot, mode);
    fuzz_must(pl_cu_stream_begin_capture(world.drv, s->handle, mode), "capture");
    world.is_capturing = true;
    world.origin = slot;
    s->is_member = true;
    all.captured_domains = 0;
    all.is_plain = false;
    all.may_break = false;
    if (!s->is_blocking) {
        world.fault.is_armed = false;
        (void)fuzz_alloc_routed(index, 512, slot);
    }
}

void fuzz_fork(unsigned slot)
{
    fuzz_stream *s = &world.streams[slot];
    if (slot == 0 || !s->is_live || s->is_member || !world.is_capturing) {
        return;
    }
    fuzz_say("stream %u joins the capture", slot);
    cu_stream origin = world.streams[world.origin].handle;
    cu_event event = fuzz_event_of(world.origin);
    fuzz_must(pl_cu_event_record(world.drv, event, origin), "record");
    fuzz_must(pl_cu_stream_wait_event(world.drv, s->handle, event, 0), "fork");
    fuzz_must(pl_cu_event_destroy(world.drv, event), "end of an event");
    s->is_member = true;
}

/* The graph has the addresses of the blocks allocated in its capture. The order inside the capture
 * concerns only the graph's launches. For other work such a block is unused, and belongs to its
 * request's stream. */
static void settle_blocks(unsigned bits)
{
    for (unsigned i = 0; i < FUZZ_BLOCKS; i++) {
        fuzz_block *b = &world.blocks[i];
        if (b->ptr != 0 && b->is_captured) {
            b->is_captured = false;
            b->seed = 0;
            b->graphs = bits;
            b->last = b->owner;
        }
    }
}

static void keep_graph(unsigned place, cu_graph made)
{
    graph *g = &all.graphs[place];
    world.users[place] = 0;
    *g = (graph){ .domains = all.captured_domains, .is_plain = all.is_plain };
    fuzz_must(pl_cu_graph_instantiate(world.drv, &g->exec, made, 0), "instantiation");
    for (unsigned i = 1; i < FUZZ_STREAMS; i++) {
        if (world.streams[i].is_member) {
            g->streams[g->n_streams++] = world.streams[i].handle;
        }
    }
}

void fuzz_end_capture(void)
{
    cu_graph made = NULL;
    unsigned place = 0;
    if (!world.is_capturing) {
        return;
    }
    for (unsigned i = 1; i < FUZZ_STREAMS; i++) {
        bool is_joined = !world.streams[i].is_member || all.may_break ||
                         fuzz_order(world.origin, i);
        fuzz_check(is_joined, "a stream cannot be joined");
    }
    cu_result result = pl_cu_stream_end_capture(world.drv, world.streams[world.origin].handle,
                                                &made);
    fuzz_say("capture ends: %d", result);
    fuzz_check(result == CU_SUCCESS || all.may_break, "the capture was broken: %d", result);
    while (place < FUZZ_GRAPHS && all.graphs[place].exec != NULL) {
        place++;
    }
    bool is_kept = result == CU_SUCCESS && place < FUZZ_GRAPHS;
    if (is_kept) {
        keep_graph(place, made);
    }
    if (result == CU_SUCCESS) {
        fuzz_must(pl_cu_graph_destroy(world.drv, made), "end of a graph");
    }
    settle_blocks(is_kept ? 1u << place : 0);
    for (unsigned i = 0; i < FUZZ_STREAMS; i++) {
        world.streams[i].is_member = false;
    }
    world.is_capturing = false;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static bool order_launch(const graph *g, unsigned number, unsigned slot)
{
    bool is_good = !g->is_launched || fuzz_order(slot, g->last);
    for (unsigned i = 0; i < FUZZ_DOMAINS && is_good; i++) {
        if ((g->domains >> i & 1) != 0 && world.domains[i].is_used) {
            is_good = fuzz_order(slot, world.domains[i].last);
        }
    }
    for (unsigned i = 0; i < FUZZ_STREAMS && is_good; i++) {
        if ((world.users[number] >> i & 1) != 0) {
            is_good = fuzz_order(slot, i);
        }
    }
    return is_good;
}

static void note_launch(graph *g, unsigned number, unsigned slot)
{
    g->is_launched = true;
    g->last = slot;
    world.users[number] = 0;
    for (unsigned i = 0; i < FUZZ_DOMAINS; i++) {
        if ((g->domains >> i & 1) != 0) {
            world.domains[i] = (fuzz_domain){ .is_used = true, .last = slot };
        }
    }
    for (unsigned i = 0; i < FUZZ_BLOCKS; i++) {
        fuzz_block *b = &world.blocks[i];
        bool is_touched = b->ptr != 0 && (b->graphs >> number & 1) != 0;
        if (is_touched) {
            b->last = slot;
        }
        if (is_touched || (b->domain != FUZZ_NO_DOMAIN && (g->domains >> b->domain & 1) != 0)) {
            b->seed = 0;
        }
    }
}

/* pleat keeps a graph's memory after its free until the graph is gone. The classic caches leave
 * this to the program. So graphs are launched on pleat only. */
void fuzz_launch(unsigned number, unsigned slot)
{
    graph *g = &all.graphs[number];
    if (g->exec == NULL || !world.is_pleat || world.is_capturing || !world.streams[slot].is_live ||
        !order_launch(g, number, slot)) {
        return;
    }
    fuzz_say("graph %u is launched on stream %u", number, slot);
    fuzz_must(pl_cu_graph_launch(world.drv, g->exec, world.streams[slot].handle), "launch");
    fuzz_end_call("launch", PLEAT_OK, FUZZ_BIT(PLEAT_OK));
    note_launch(g, number, slot);
}

/* The program waits for launches that pleat cannot know, and then reports the graph's end. */
void fuzz_destroy_graph(unsigned number)
{
    graph *g = &all.graphs[number];
    if (g->exec == NULL || world.is_capturing) {
        return;
    }
    fuzz_say("graph %u goes", number);
    if (g->is_launched && (g->is_plain || !world.streams[g->last].is_told)) {
        fuzz_must(pl_cu_stream_synchronize(world.drv, world.streams[g->last].handle), "wait");
    }
    fuzz_must(pl_cu_graph_exec_destroy(world.drv, g->exec), "end of a graph");
    g->exec = NULL;
    for (unsigned i = 0; i < FUZZ_BLOCKS; i++) {
        world.blocks[i].graphs &= ~(1u << number);
    }
}

static bool is_in_graph(void *stream)
{
    for (unsigned i = 0; i < FUZZ_GRAPHS; i++) {
        const graph *g = &all.graphs[i];
        for (unsigned k = 0; g->exec != NULL && k < g->n_streams; k++) {
            if (g->streams[k] == stream) {
                return true;
            }
        }
    }
    return false;
}

void fuzz_release_capture(unsigned slot)
{
    const fuzz_stream *s = &world.streams[slot];
    if (!s->is_live || is_in_graph(s->handle) || (world.is_capturing && !s->is_member)) {
        return;
    }
    /* pleat knows nothing of a capture until a call names its stream. */
    uint32_t allowed = FUZZ_BIT(PLEAT_OK) | (s->is_member ? FUZZ_BIT(PLEAT_ECAPTURE) : 0);
    fuzz_begin_call();
    pleat_status st = pleat_device_release_capture(world.instance, 0, s->handle);
    fuzz_end_call("release_capture", st, allowed);
    all.may_break = all.may_break || world.has_struck;
}

/* Launches on a stream are over before the stream is destroyed. */
void fuzz_end_stream(unsigned slot)
{
    const fuzz_stream *s = &world.streams[slot];
    if (slot == 0 || !s->is_live || world.is_capturing) {
        return;
    }
    for (unsigned i = 0; i < FUZZ_GRAPHS; i++) {
        graph *g = &all.graphs[i];
        if (g->exec != NULL && g->is_launched && g->last == slot) {
            fuzz_must(pl_cu_stream_synchronize(world.drv, s->handle), "wait");
            g->is_launched = false;
        }
    }
    fuzz_destroy_stream(slot);
}

void fuzz_graph_close(void)
{
    world.fault.is_armed = false;
    fuzz_end_capture();
    for (unsigned i = 0; i < FUZZ_GRAPHS; i++) {
        fuzz_destroy_graph(i);
    }
    for (unsigned i = 0; i < FUZZ_POOLS; i++) {
        while (last_route(i) < all.n_routes) {
            fuzz_end_pool(i);
        }
        while (all.pools[i].n_begun > 0) {
            fuzz_release_pool(i);
        }
    }
}
