/* fuzz_world.c - see fuzz_world.h. */
#include "tests/fuzz/fuzz_world.h"

#include <string.h>

#include "tests/fuzz/fuzz.h"

fuzz_world world;

/* ---- calls ----------------------------------------------------------------------------------- */

void fuzz_must(int result, const char *what)
{
    fuzz_check(result == CU_SUCCESS, "%s: driver result %d", what, result);
}

static void check_hazards(const char *what)
{
    pleat_sim_hazard first;
    size_t n = world.sim_hazards(&first, 1);
    fuzz_check(n == 0, "%s: %zu hazards, the first of kind %d at %#llx: %s", what, n,
               (int)first.kind, (unsigned long long)first.ptr, first.text);
}

void fuzz_begin_call(void)
{
    const fuzz_fault *fault = &world.fault;
    if (fault->is_armed && fault->is_for_good) {
        world.sim_fail_from(fault->call, fault->k, fault->code);
    } else if (fault->is_armed) {
        world.sim_fail_at(fault->call, fault->k, fault->code);
    }
}

void fuzz_end_call(const char *what, pleat_status st, uint32_t allowed)
{
    uint64_t n = world.sim_n_faults();
    world.has_struck = n != world.n_faults;
    world.was_struck = world.was_struck || world.has_struck;
    world.n_faults = n;
    if (world.fault.is_armed) {
        world.sim_fail_never();
        world.fault.is_armed = false;
    }
    if (world.was_struck) {
        allowed |= FUZZ_BIT(PLEAT_EPOISONED);
    }
    const pleat_error *error = pleat_last_error();
    fuzz_say("%s: status %d%s", what, (int)st, world.has_struck ? ", a fault has struck" : "");
    fuzz_check(world.has_struck || (allowed & FUZZ_BIT(st)) != 0, "%s: status %d, %s", what,
               (int)st, error->text);
    fuzz_check(st == PLEAT_OK || (error->status == st && error->text[0] != '\0'),
               "%s: status %d without a sentence", what, (int)st);
    check_hazards(what);
}

static bool record(fuzz_block *b, unsigned slot)
{
    fuzz_stream *s = &world.streams[slot];
    fuzz_say("block %zu: record stream %u", (size_t)(b - world.blocks), slot);
    fuzz_begin_call();
    pleat_status st = pleat_block_record_stream(world.instance, 0, b->ptr, s->handle);
    fuzz_end_call("record_stream", st, FUZZ_BIT(PLEAT_OK));
    if (st == PLEAT_OK) {
        b->recorded |= 1u << slot;
        s->is_told = true;
    }
    return st == PLEAT_OK;
}

/* ---- streams --------------------------------------------------------------------------------- */

bool fuzz_can_submit(unsigned slot)
{
    if (!world.streams[slot].is_live) {
        return false;
    }
    for (unsigned i = 1; slot == 0 && i < FUZZ_STREAMS; i++) {
        if (world.streams[i].is_member && world.streams[i].is_blocking) {
            return false; /* the legacy stream would depend on the capture */
        }
    }
    return true;
}

/* enter and leave enclose calls that create something on the slot's device. */
static void enter(bool is_peers)
{
    fuzz_must(pl_cu_ctx_push(world.drv, world.contexts[is_peers]), "context");
}

static void leave(void)
{
    cu_context popped;
    fuzz_must(pl_cu_ctx_pop(world.drv, &popped), "context");
}

cu_event fuzz_event_of(unsigned slot)
{
    cu_event event = NULL;
    enter(world.streams[slot].is_peers);
    fuzz_must(pl_cu_event_create(world.drv, &event, CU_EVENT_DISABLE_TIMING_FLAG), "event");
    leave();
    return event;
}

bool fuzz_order(unsigned later, unsigned earlier)
{
    if (!fuzz_can_submit(later) || !fuzz_can_submit(earlier) ||
        world.streams[later].is_member != world.streams[earlier].is_member) {
        return false;
    }
    if (later == earlier) {
        return true;
    }
    fuzz_say("stream %u waits for stream %u", later, earlier);
    cu_event event = fuzz_event_of(earlier);
    fuzz_must(pl_cu_event_record(world.drv, event, world.streams[earlier].handle), "record");
    fuzz_must(pl_cu_stream_wait_event(world.drv, world.streams[later].handle, event, 0), "wait");
    fuzz_must(pl_cu_event_destroy(world.drv, event), "end of an event");
    return true;
}

void fuzz_create_stream(unsigned slot, bool is_blocking)
{
    fuzz_stream *s = &world.streams[slot];
    cu_stream handle = NULL;
    if (slot == 0 || s->is_live || world.is_capturing) {
        return;
    }
    fuzz_say("stream %u begins, %s", slot, is_blocking ? "blocking" : "non-blocking");
    unsigned flags = is_blocking ? CU_STREAM_DEFAULT_FLAG : CU_STREAM_NON_BLOCKING_FLAG;
    bool is_peers = world.contexts[1] != NULL && slot % 2 == 1;
    enter(is_peers);
    fuzz_must(pl_cu_stream_create(world.drv, &handle, flags), "stream");
    leave();
    *s = (fuzz_stream){ .handle = handle,
                        .life = s->life + 1,
                        .is_live = true,
                        .is_blocking = is_blocking,
                        .is_peers = is_peers };
}

/* Order the legacy stream behind this stream, and make it the last user of the stream's blocks. */
static void hand_over(unsigned slot)
{
    fuzz_check(fuzz_order(0, slot), "a stream that cannot be followed");
    for (unsigned i = 0; i < FUZZ_DOMAINS; i++) {
        fuzz_domain *d = &world.domains[i];
        d->last = d->last == slot ? 0 : d->last;
    }
    for (unsigned i = 0; i < FUZZ_GRAPHS; i++) {
        uint32_t was_used = world.users[i] >> slot & 1;
        world.users[i] = (world.users[i] & ~(1u << slot)) | was_used;
    }
    for (unsigned i = 0; i < FUZZ_BLOCKS; i++) {
        fuzz_block *b = &world.blocks[i];
        if (b->ptr != 0 && b->last == slot) {
            (void)record(b, 0);
            b->last = 0;
        }
        b->recorded &= ~(1u << slot);
    }
}

void fuzz_destroy_stream(unsigned slot)
{
    fuzz_stream *s = &world.streams[slot];
    if (slot == 0 || !s->is_live || world.is_capturing) {
        return;
    }
    fuzz_say("stream %u ends", slot);
    world.fault.is_armed = false;
    hand_over(slot);
    fuzz_must(pl_cu_stream_destroy(world.drv, s->handle), "end of a stream");
    s->is_live = false;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static bool is_owner(const fuzz_block *b, unsigned slot)
{
    const fuzz_stream *s = &world.streams[slot];
    return b->owner == slot && b->owner_life == s->life && s->is_live;
}

static void check_apart(const fuzz_block *b)
{
    for (unsigned i = 0; i < FUZZ_BLOCKS; i++) {
        const fuzz_block *other = &world.blocks[i];
        fuzz_check(other == b || other->ptr == 0 || b->ptr + b->bytes <= other->ptr ||
                       other->ptr + other->bytes <= b->ptr,
                   "%zu bytes at %#llx overlap %zu at %#llx", b->bytes, (unsigned long long)b->ptr,
                   other->bytes, (unsigned long long)other->ptr);
    }
}

bool fuzz_alloc(unsigned index, size_t bytes, unsigned slot, int domain)
{
    fuzz_block *b = &world.blocks[index];
    fuzz_stream *s = &world.streams[slot];
    pleat_devptr ptr = 0;
    if (b->ptr != 0 || !s->is_live) {
        return false;
    }
    fuzz_say("block %u: allocate %zu bytes on stream %u, domain %d", index, bytes, slot, domain);
    uint32_t allowed = FUZZ_BIT(PLEAT_OK) | FUZZ_BIT(PLEAT_ENOMEM_DEVICE) |
                       FUZZ_BIT(PLEAT_EPENDING) | FUZZ_BIT(PLEAT_ENOSPACE_VA);
    allowed |= world.is_capturing ? FUZZ_BIT(PLEAT_ECAPTURE) : 0;
    allowed = (world.asleep >> world.tag & 1) != 0 ? FUZZ_BIT(PLEAT_EASLEEP) : allowed;
    allowed = bytes == 0 ? FUZZ_BIT(PLEAT_EINVAL) : allowed;
    allowed = bytes > UINT64_C(1) << 60 ? FUZZ_BIT(PLEAT_ESIZE) : allowed;
    fuzz_begin_call();
    pleat_status st = pleat_block_alloc(world.instance, 0, bytes, s->handle, &ptr);
    fuzz_end_call("alloc", st, allowed);
    if (st != PLEAT_OK) {
        return false;
    }
    fuzz_check(ptr != 0 && ptr % 256 == 0, "address %#llx", (unsigned long long)ptr);
    fuzz_say("block %u at %#llx", index, (unsigned long long)ptr);
    *b = (fuzz_block){ .ptr = ptr,
                       .bytes = bytes,
                       .owner = slot,
                       .owner_life = s->life,
                       .last = slot,
                       .is_captured = s->is_member,
                       .domain = domain,
                       .tag = world.tag };
    s->is_told = true;
    check_apart(b);
    return true;
}

unsigned fuzz_find(pleat_devptr ptr)
{
    unsigned index = 0;
    while (index < FUZZ_BLOCKS && world.blocks[index].ptr != ptr) {
        index++;
    }
    return index;
}

/* The block's last user becomes its owner. If that stream is gone, the legacy stream becomes the
 * owner, since it takes over the work of gone streams. */
void fuzz_adopt(pleat_devptr ptr, size_t bytes, unsigned owner, uint32_t owner_life, int domain)
{
    unsigned index = fuzz_find(0);
    const fuzz_stream *s = &world.streams[owner];
    fuzz_say("block %u at %#llx: adopted", index, (unsigned long long)ptr);
    world.blocks[index] = (fuzz_block){
        .ptr = ptr, .bytes = bytes, .owner = owner, .owner_life = owner_life, .domain = domain
    };
    if (s->is_live && s->life == owner_life) {
        world.blocks[index].last = owner;
    }
    check_apart(&world.blocks[index]);
}

static void submit(fuzz_block *b, unsigned slot, bool is_write)
{
    void *handle = world.streams[slot].handle;
    fuzz_say("block %zu: %s on stream %u", (size_t)(b - world.blocks), is_write ? "write" : "read",
             slot);
    pleat_sim_access access = { .ptr = b->ptr, .bytes = b->bytes };
    enter(world.streams[slot].is_peers);
    if (is_write) {
        b->seed = ++world.last_seed;
        fuzz_must(world.sim_fill(handle, b->ptr, b->bytes, b->seed), "fill");
    } else if (b->seed != 0) {
        fuzz_must(world.sim_verify(handle, b->ptr, b->bytes, b->seed), "verification");
    } else {
        fuzz_must(world.sim_work(handle, &access, 1), "work");
    }
    leave();
    check_hazards(is_write ? "fill" : "read");
}

void fuzz_touch(pleat_devptr ptr, size_t bytes, unsigned slot, uint64_t seed)
{
    void *handle = world.streams[slot].handle;
    pleat_sim_access access = { .ptr = ptr, .bytes = bytes };
    enter(world.streams[slot].is_peers);
    if (seed != 0) {
        fuzz_must(world.sim_verify(handle, ptr, bytes, seed), "verification");
    } else {
        fuzz_must(world.sim_work(handle, &access, 1), "work");
    }
    leave();
    check_hazards("touch");
}

/* Orders the stream behind the last use of the block and of its pool. */
static bool order_use(const fuzz_block *b, unsigned slot)
{
    bool is_member = world.streams[slot].is_member;
    if (is_member != b->is_captured || !fuzz_order(slot, b->last)) {
        return false;
    }
    bool is_shared = b->domain != FUZZ_NO_DOMAIN && !is_member && world.domains[b->domain].is_used;
    return !is_shared || fuzz_order(slot, world.domains[b->domain].last);
}

static void note_use(fuzz_block *b, unsigned slot)
{
    b->last = slot;
    for (unsigned i = 0; i < FUZZ_GRAPHS; i++) {
        world.users[i] |= (b->graphs >> i & 1) << slot;
    }
    if (b->domain != FUZZ_NO_DOMAIN && !world.streams[slot].is_member) {
        world.domains[b->domain].is_used = true;
        world.domains[b->domain].last = slot;
    }
}

static bool is_told_of(const fuzz_block *b, unsigned slot)
{
    return is_owner(b, slot) || (b->recorded >> slot & 1) != 0;
}

bool fuzz_use(unsigned index, unsigned slot, bool is_write)
{
    fuzz_block *b = &world.blocks[index];
    bool is_asleep = (world.asleep >> b->tag & 1) != 0;
    if (b->ptr == 0 || is_asleep || !order_use(b, slot) ||
        !(is_told_of(b, slot) || record(b, slot))) {
        return false;
    }
    submit(b, slot, is_write || !fuzz_is_readable(b));
    note_use(b, slot);
    return true;
}

void fuzz_free(unsigned index, unsigned slot)
{
    fuzz_block *b = &world.blocks[index];
    fuzz_stream *s = &world.streams[slot];
    if (b->ptr == 0 || !fuzz_can_submit(slot)) {
        return;
    }
    if (!is_owner(b, slot) && (s->is_member != b->is_captured || !fuzz_order(slot, b->last))) {
        return;
    }
    if (b->last != slot && !is_told_of(b, b->last) && !record(b, b->last)) {
        return;
    }
    bool is_any = world.is_capturing && !world.is_pleat;
    fuzz_say("block %u: free on stream %u", index, slot);
    fuzz_begin_call();
    pleat_status st = pleat_block_free(world.instance, 0, b->ptr, s->handle);
    fuzz_end_call("free", st, is_any ? UINT32_MAX : FUZZ_BIT(PLEAT_OK));
    if (st == PLEAT_OK) {
        b->ptr = 0;
        s->is_told = true;
    }
}

void fuzz_free_badly(unsigned index)
{
    const fuzz_block *b = &world.blocks[index];
    pleat_devptr at = b->ptr != 0 ? b->ptr + 128 : UINT64_C(0x1234500);
    uint32_t refusals = FUZZ_BIT(PLEAT_EFOREIGN) | FUZZ_BIT(PLEAT_EDOUBLEFREE);
    fuzz_begin_call();
    pleat_status st = pleat_block_free(world.instance, 0, at, NULL);
    fuzz_end_call("bad free", st, refusals);
    fuzz_check(st != PLEAT_OK, "a bad free is taken");
}

void fuzz_query(unsigned index)
{
    const fuzz_block *b = &world.blocks[index];
    pleat_block_info info;
    if (b->ptr == 0) {
        return;
    }
    pleat_status st = pleat_block_query(world.instance, 0, b->ptr + b->bytes / 2, &info);
    fuzz_end_call("query", st, FUZZ_BIT(PLEAT_OK));
    fuzz_check(info.base == b->ptr && info.bytes >= b->bytes && info.requested_bytes == b->bytes,
               "a block of %zu bytes is told as one of %zu", b->bytes, info.requested_bytes);
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static void load(const char *name, void *field)
{
    void *address = pl_driver_symbol(world.drv, name);
    fuzz_check(address != NULL, "the simulator has no %s", name);
    memcpy(field, &address, sizeof address);
}

void fuzz_world_open(const char *sim_conf, const char *conf, bool is_pleat, bool has_peer)
{
    char text[512];
    snprintf(text, sizeof text, "driver:sim,sim:[%s%s],%s%s", sim_conf,
             has_peer ? ",devices:2" : "", conf, has_peer ? ",peers:True" : "");
    world = (fuzz_world){ .is_pleat = is_pleat };
    fuzz_say("%s", text);
    pleat_status st = pleat_create(text, &world.instance);
    fuzz_check(st == PLEAT_OK, "'%s': %s", text, pleat_last_error()->text);
    fuzz_check(pl_driver_open(PL_DRIVER_SIM, NULL, &world.drv) == PLEAT_OK, "no simulator");
#define FUZZ_SIM_LOAD(name) load("pleat_sim_" #name, &world.sim_##name);
    FUZZ_SIM_LIST(FUZZ_SIM_LOAD)
#undef FUZZ_SIM_LOAD
    for (int i = 0; i < (has_peer ? 2 : 1); i++) {
        fuzz_must(pl_cu_primary_retain(world.drv, &world.contexts[i], i), "context");
    }
    enter(false);
    world.streams[0].is_live = true;
}

static void end_blocks(void)
{
    for (unsigned i = 0; i < FUZZ_BLOCKS; i++) {
        const fuzz_block *b = &world.blocks[i];
        if (b->ptr != 0) {
            fuzz_free(i, is_owner(b, b->owner) ? b->owner : b->last);
            fuzz_check(b->ptr == 0, "a block that cannot be freed");
        }
    }
}

void fuzz_tell_last_uses(void)
{
    for (unsigned i = 0; i < FUZZ_BLOCKS; i++) {
        fuzz_block *b = &world.blocks[i];
        if (b->ptr != 0 && !is_told_of(b, b->last)) {
            (void)record(b, b->last);
        }
    }
}

/* Memory that could not go back because of a fault may be left, if destroy has reported it. */
static void check_empty(void)
{
    pleat_sim_counts c;
    fuzz_check(world.sim_count(-1, &c) == 0, "the simulator is gone");
    fuzz_check(c.reservations + c.handles + c.mappings + c.allocations + c.pools + c.events +
                       c.streams + c.graphs + c.contexts + c.lost_objects ==
                   0,
               "left: %llu reservations, %llu handles, %llu mappings, %llu allocations, %llu "
               "pools, %llu events, %llu streams, %llu graphs, %llu contexts",
               (unsigned long long)c.reservations, (unsigned long long)c.handles,
               (unsigned long long)c.mappings, (unsigned long long)c.allocations,
               (unsigned long long)c.pools, (unsigned long long)c.events,
               (unsigned long long)c.streams, (unsigned long long)c.graphs,
               (unsigned long long)c.contexts);
}

void fuzz_world_close(bool is_forced)
{
    int broken = -1;
    world.fault.is_armed = false;
    if (is_forced) {
        fuzz_tell_last_uses();
    } else {
        end_blocks();
    }
    pleat_status st = pleat_check(world.instance, &broken);
    fuzz_end_call("check", st, FUZZ_BIT(PLEAT_OK));
    fuzz_check(broken == 0, "invariant %d is broken", broken);
    st = pleat_destroy(world.instance, is_forced ? PLEAT_DESTROY_FORCE : 0);
    fuzz_end_call("destroy", st, FUZZ_BIT(PLEAT_OK));
    world.sim_finish();
    check_hazards("the end of all work");
    for (unsigned i = 1; i < FUZZ_STREAMS; i++) {
        if (world.streams[i].is_live) {
            fuzz_must(pl_cu_stream_destroy(world.drv, world.streams[i].handle), "end of a stream");
        }
    }
    leave();
    for (int i = 0; i < 2 && world.contexts[i] != NULL; i++) {
        fuzz_must(pl_cu_primary_release(world.drv, i), "context");
    }
    if (st != PLEAT_EPOISONED) {
        check_empty();
    }
    pl_driver_close(world.drv);
}
