/* pickle_container.c - the opcodes of lists, dictionaries and tuples.
 *
 * Without recursion: a container lies on the stack or inside another container. A dictionary keeps
 * each word once. A list drops dictionaries without words as keys. A tuple keeps a digest. */
#include <string.h>

#include "bench/pickle/pickle_machine.h"
#include "bench/pickle/pickle_opcode.h"

bool bench_pickle_push_empty(machine *m, bench_pickle_kind kind)
{
    value v = bench_pickle_make(m, kind);
    v.as.node = bench_pickle_node_make(m);
    return v.as.node && bench_pickle_push(m, v);
}

/* Room for `n` items in all. */
static bool make_room(machine *m, node *of, size_t n)
{
    if (n <= of->capacity) {
        return true;
    }
    unsigned class = 1;
    while ((size_t)1 << class < n) {
        class ++;
    }
    value *items = bench_pickle_room(m, class);
    if (!items) {
        return false;
    }
    if (of->n) {
        memcpy(items, of->of.items, of->n * sizeof *items);
    }
    bench_pickle_leave(m, of->of.items, of->capacity);
    of->of.items = items;
    of->capacity = (1u << class) & 0xfffffffu;
    return true;
}

static bool add_item(machine *m, node *to, value item)
{
    if (!make_room(m, to, (size_t)to->n + 1)) {
        return false;
    }
    to->of.items[to->n++] = item;
    return true;
}

/* Odd, so that a product loses no bit: 2^64 over the golden ratio. */
#define DIGEST_FACTOR UINT64_C(0x9E3779B97F4A7C15)

/* The tuple keeps a digest. */
bool bench_pickle_push_tuple(machine *m, size_t n)
{
    if (!bench_pickle_need(m, n)) {
        return false;
    }
    m->stack.n -= n;
    uint64_t digest = 0;
    for (size_t i = 0; i < n; i++) {
        const value *item = &m->stack.of[m->stack.n + i];
        uint64_t number = item->kind == BENCH_PICKLE_INTEGER ? (uint64_t)item->as.integer : 1;
        digest = digest * DIGEST_FACTOR + number;
    }
    value tuple = bench_pickle_make(m, BENCH_PICKLE_TUPLE);
    tuple.as.integer = (int64_t)digest;
    return bench_pickle_push(m, tuple);
}

static bool push_marked_tuple(machine *m)
{
    size_t first = bench_pickle_close_mark(m);
    return first != SIZE_MAX && bench_pickle_push_tuple(m, m->stack.n - first);
}

/* A dictionary without a word as key: nothing that is asked for. */
static bool is_useless(const value *item)
{
    return item->kind == BENCH_PICKLE_DICT && item->as.node->n == 0 && !item->as.node->folded;
}

/* Dictionaries that were folded one after another are one item of the list. */
static bool add_folded(machine *m, node *list, const value *item)
{
    const node *of = item->as.node;
    value *last = list->n > 0 ? &list->of.items[list->n - 1] : NULL;
    if (last && last->kind == BENCH_PICKLE_RUN && last->word == of->folded &&
        (uint64_t)last->as.integer + last->at == of->of.index && last->at < UINT32_MAX) {
        last->at++;
        return true;
    }
    value run = { .kind = BENCH_PICKLE_RUN, .word = of->folded, .at = 1 };
    run.as.integer = (int64_t)of->of.index;
    return add_item(m, list, run);
}

static bool fold(machine *m, value *item)
{
    const bench_pickle_wants *wants = m->wants;
    return !wants->fold || item->kind != BENCH_PICKLE_DICT || item->as.node->folded ||
           wants->fold(wants->context, m, item);
}

static bool append_one(machine *m, node *list, value *item)
{
    if (!fold(m, item)) {
        return false;
    }
    if (is_useless(item)) {
        list->has_dropped = true;
        return true;
    }
    if (item->kind != BENCH_PICKLE_DICT || !item->as.node->folded) {
        return add_item(m, list, *item);
    }
    if (!add_folded(m, list, item)) {
        return false;
    }
    if (m->is_json) {
        room *left = (room *)item->as.node;
        left->next = m->nodes;
        m->nodes = left;
    }
    return true;
}

/* The container below the values from `first` on; NULL and a message when `kind` is not there. What
 * goes into an object is forgotten: *is_object. */
static node *container_of(machine *m, size_t first, bench_pickle_kind kind, bool *is_object)
{
    size_t floor = m->n_marks ? m->marks[m->n_marks - 1] : 0;
    const value *below = first > floor ? &m->stack.of[first - 1] : NULL;
    *is_object = below && below->kind == BENCH_PICKLE_OBJECT;
    if (!below || (!*is_object && (below->kind != kind || below->as.node->folded))) {
        bench_pickle_complain(m, kind == BENCH_PICKLE_LIST ? "there is no list to append to"
                                                           : "there is no dictionary to fill");
        return NULL;
    }
    return below->as.node;
}

bool bench_pickle_append_from(machine *m, size_t first)
{
    if (first == SIZE_MAX) {
        return false;
    }
    bool is_object;
    node *list = container_of(m, first, BENCH_PICKLE_LIST, &is_object);
    if (!list && !is_object) {
        return false;
    }
    for (size_t i = first; i < m->stack.n && !is_object; i++) {
        if (!append_one(m, list, &m->stack.of[i])) {
            return false;
        }
    }
    m->stack.n = first;
    return true;
}

static value *find(const node *dict, unsigned key)
{
    for (uint32_t i = 0; i < dict->n && !dict->folded; i++) {
        if (dict->of.items[i].key == key) {
            return &dict->of.items[i];
        }
    }
    return NULL;
}

const value *bench_pickle_get(const value *from, unsigned word)
{
    return from->kind == BENCH_PICKLE_DICT ? find(from->as.node, word + 1) : NULL;
}

static bool set_item(machine *m, node *dict, value key, value item)
{
    bool is_known = key.kind == BENCH_PICKLE_TEXT && key.word > 0;
    if (!is_known) {
        bool is_kept = m->wants->keeps && m->wants->keeps(&item);
        key.key = item.key = 0;
        return !is_kept || (add_item(m, dict, key) && add_item(m, dict, item));
    }
    item.key = key.word;
    value *there = find(dict, key.word);
    if (there) {
        *there = item;
        return true;
    }
    return add_item(m, dict, item);
}

static bool is_kept(const value *key)
{
    return key->kind == BENCH_PICKLE_TEXT && key->word > 0;
}

bool bench_pickle_set_from(machine *m, size_t first)
{
    if (first == SIZE_MAX) {
        return false;
    }
    bool is_object;
    node *dict = container_of(m, first, BENCH_PICKLE_DICT, &is_object);
    if (!dict && !is_object) {
        return false;
    }
    if ((m->stack.n - first) % 2) {
        return bench_pickle_complain(m, "a key without a value");
    }
    size_t n = is_object ? 0 : dict->n;
    for (size_t i = first; i < m->stack.n && !is_object; i += 2) {
        n += is_kept(&m->stack.of[i]);
    }
    if (!is_object && !make_room(m, dict, n)) { /* at once; a few keys may come twice */
        return false;
    }
    for (size_t i = first; i < m->stack.n && !is_object; i += 2) {
        if (!set_item(m, dict, m->stack.of[i], m->stack.of[i + 1])) {
            return false;
        }
    }
    m->stack.n = first;
    return true;
}

/* LIST and DICT of protocol 0: the items lie above the mark. */
static bool push_marked(machine *m, bench_pickle_kind kind)
{
    size_t first = bench_pickle_close_mark(m);
    if (first == SIZE_MAX || !bench_pickle_push_empty(m, kind)) {
        return false;
    }
    value made = m->stack.of[m->stack.n - 1];
    memmove(&m->stack.of[first + 1], &m->stack.of[first],
            (m->stack.n - 1 - first) * sizeof *m->stack.of);
    m->stack.of[first] = made;
    return kind == BENCH_PICKLE_LIST ? bench_pickle_append_from(m, first + 1)
                                     : bench_pickle_set_from(m, first + 1);
}

static bool refuse(machine *m)
{
    return bench_pickle_opcode_name(m->opcode)
               ? bench_pickle_complain(m, "stands in the middle of the pickle")
               : bench_pickle_complain(m, "0x%02x is no opcode", m->opcode);
}

bool bench_pickle_step_container(machine *m)
{
    switch (m->opcode) {
    case PICKLE_MARK:
        return bench_pickle_open_mark(m);
    case PICKLE_EMPTY_LIST:
        return bench_pickle_push_empty(m, BENCH_PICKLE_LIST);
    case PICKLE_EMPTY_DICT:
        return bench_pickle_push_empty(m, BENCH_PICKLE_DICT);
    case PICKLE_EMPTY_TUPLE:
        return bench_pickle_push_tuple(m, 0);
    case PICKLE_APPEND:
        return bench_pickle_need(m, 1) && bench_pickle_append_from(m, m->stack.n - 1);
    case PICKLE_APPENDS:
        return bench_pickle_append_from(m, bench_pickle_close_mark(m));
    case PICKLE_SETITEM:
        return bench_pickle_need(m, 2) && bench_pickle_set_from(m, m->stack.n - 2);
    case PICKLE_SETITEMS:
        return bench_pickle_set_from(m, bench_pickle_close_mark(m));
    case PICKLE_LIST:
        return push_marked(m, BENCH_PICKLE_LIST);
    case PICKLE_DICT:
        return push_marked(m, BENCH_PICKLE_DICT);
    case PICKLE_TUPLE:
        return push_marked_tuple(m);
    case PICKLE_TUPLE1:
        return bench_pickle_push_tuple(m, 1);
    case PICKLE_TUPLE2:
        return bench_pickle_push_tuple(m, 2);
    case PICKLE_TUPLE3:
        return bench_pickle_push_tuple(m, 3);
    default:
        return refuse(m);
    }
}
