/* moment_rows.c - how a moment is written to moments.jsonl. */
#include "bench/ab/moment_rows.h"

#include <jansson.h>

#include "bench/ab/rows.h"

static json_t *integer(uint64_t value)
{
    return json_integer((json_int_t)value);
}

/* The index of the stack of a live piece; -1 = none. */
static int64_t stack_of_piece(const bench_moment *moment, const bench_origin *origin,
                              const bench_map_piece *piece)
{
    if (piece->born == 0) {
        return -1;
    }
    return moment->is_recorded ? (int64_t)origin->state.pieces[piece->born - 1].stack - 1
                               : bench_origin_stack(origin, piece->born - 1);
}

/* A stack by its index, whose text goes to `texts`; null for none. */
static json_t *stack_of(const bench_origin *origin, int64_t stack, json_t *texts)
{
    if (stack < 0 || (uint64_t)stack >= origin->n_stacks) {
        return json_null();
    }
    char key[24];
    snprintf(key, sizeof key, "%lld", (long long)stack);
    if (!json_object_get(texts, key)) {
        json_object_set_new(texts, key, json_string(origin->stacks[stack]));
    }
    return json_integer(stack);
}

/* [base, bytes, kind, stream, begins a segment, 1 + the event that allocated it, its stack] */
static json_t *pieces_array(const bench_moment *moment, const bench_origin *origin, json_t *texts)
{
    uint64_t lowest = UINT64_MAX;
    for (unsigned i = 0; i < moment->n_pieces; i++) {
        lowest = moment->pieces[i].base < lowest ? moment->pieces[i].base : lowest;
    }
    json_t *pieces = json_array();
    for (unsigned i = 0; i < moment->n_pieces; i++) {
        const bench_map_piece *p = &moment->pieces[i];
        int64_t stack = stack_of_piece(moment, origin, p);
        json_t *piece = json_array();
        json_array_append_new(piece, integer(p->base - lowest));
        json_array_append_new(piece, integer(p->bytes));
        json_array_append_new(piece, json_integer(p->kind));
        json_array_append_new(piece, json_integer(p->stream));
        json_array_append_new(piece, json_integer(p->is_first));
        json_array_append_new(piece, integer(moment->is_recorded ? 0 : p->born));
        json_array_append_new(piece, stack_of(origin, stack, texts));
        json_array_append_new(pieces, piece);
    }
    return pieces;
}

static json_t *holders_array(const bench_moment *moment, const bench_origin *origin, json_t *texts)
{
    json_t *holders = json_array();
    for (unsigned i = 0; i < moment->n_holders; i++) {
        const bench_holder *h = &moment->holders[i];
        json_t *holder = json_object();
        json_object_set_new(holder, "stack", stack_of(origin, h->stack, texts));
        json_object_set_new(holder, "bytes", h->stack < 0 ? integer(h->bytes) : json_null());
        json_object_set_new(holder, "stream", h->stack < 0 ? json_integer(h->stream) : json_null());
        json_object_set_new(holder, "is_pending", json_boolean(h->is_pending));
        json_object_set_new(holder, "n_blocks", integer(h->n_blocks));
        json_object_set_new(holder, "live_bytes", integer(h->live_bytes));
        json_object_set_new(holder, "charged_bytes", integer(h->charged_bytes));
        json_array_append_new(holders, holder);
    }
    return holders;
}

static void set_figures(json_t *object, const bench_moment *m)
{
    json_object_set_new(object, "is_reached", json_boolean(m->is_reached));
    json_object_set_new(object, "has_failed", json_boolean(m->has_failed));
    json_object_set_new(object, "requested_bytes", integer(m->requested_bytes));
    json_object_set_new(object, "requested_stream", json_integer(m->requested_stream));
    json_object_set_new(object, "failed_before", integer(m->n_failed_before));
    json_object_set_new(object, "live_bytes", integer(m->live_bytes));
    json_object_set_new(object, "resident_bytes", integer(m->resident_bytes));
    json_object_set_new(object, "has_map", json_boolean(m->has_map));
    json_object_set_new(object, "has_free", json_boolean(m->has_free));
    json_object_set_new(object, "free_bytes", integer(m->free_bytes));
    json_object_set_new(object, "pending_bytes", integer(m->pending_bytes));
    json_object_set_new(object, "rounding_bytes", json_integer(m->rounding_bytes));
    json_object_set_new(object, "largest_free_bytes", integer(m->largest_free_bytes));
    json_object_set_new(object, "stranded_bytes", integer(m->stranded_bytes));
    json_object_set_new(object, "merged", integer(m->n_merged));
    json_object_set_new(object, "other_holders", integer(m->n_other_holders));
}

/* The lists of an object, which becomes a line; NULL: out of host memory. */
static char *finish_line(json_t *object, const bench_origin *origin, const bench_moment *moment,
                         json_t *texts)
{
    json_object_set_new(object, "holders", holders_array(moment, origin, texts));
    json_object_set_new(object, "pieces", pieces_array(moment, origin, texts));
    json_object_set_new(object, "stacks", texts);
    return bench_rows_line(object);
}

char *bench_moment_state_line(const bench_work *work, const bench_moment *moment)
{
    const bench_origin *origin = &work->origin;
    json_t *object = json_object();
    json_object_set_new(object, "moment", json_string("snapshot"));
    json_object_set_new(object, "of", json_null());
    json_object_set_new(object, "work", json_string(work->name));
    json_object_set_new(object, "allocator", json_string(origin->allocator));
    json_object_set_new(object, "memory", json_null());
    json_object_set_new(object, "memory_bytes", json_integer(0));
    json_object_set_new(object, "event", integer(work->n_events));
    set_figures(object, moment);
    json_object_set_new(object, "requested_stack", json_null());
    return finish_line(object, origin, moment, json_object());
}

char *bench_moment_line(const bench_ab_cell *cell, const bench_moment *moment)
{
    const bench_origin *origin = &cell->work->origin;
    bool is_failure = cell->kind == BENCH_AB_FAILURE;
    json_t *object = json_object();
    json_t *texts = json_object();
    json_object_set_new(object, "moment", json_string(is_failure ? "failure" : "peak"));
    json_object_set_new(object, "of",
                        cell->moment.of && is_failure ? json_string(cell->moment.of) : json_null());
    json_object_set_new(object, "work", json_string(cell->work->name));
    json_object_set_new(object, "allocator", json_string(cell->allocator));
    json_object_set_new(object, "memory",
                        cell->moment.label ? json_string(cell->moment.label) : json_null());
    json_object_set_new(object, "memory_bytes", integer(cell->moment.memory_bytes));
    json_object_set_new(object, "event", integer(cell->moment.event));
    set_figures(object, moment);
    json_object_set_new(object, "requested_stack",
                        stack_of(origin, bench_origin_stack(origin, cell->moment.event), texts));
    return finish_line(object, origin, moment, texts);
}
