/* pickle_container.c - the opcodes of lists, dictionaries and tuples.
 *
 * Without recursion: a container lies on the stack or inside another container. A dictionary keeps
 * each wanted key once. A list drops dictionaries without wanted keys. A tuple keeps a digest. */
#include <string.h>

#include "bench/import/pickle_machine.h"
#include "bench/import/pickle_opcode.h"

static bool push_empty(machine *m, bench_pickle_kind kind)
{
    value v = bench_pickle_make(m, kind);
    v.as.node = bench_pickle_memory(m, sizeof *v.as.node);
    if (!v.as.node) {
        return false;
    }
    *v.as.node = (node){ .n = 0 };
    return bench_pickle_push(m, v);
}

static bool add_item(machine *m, node *list, value item)
{
    if (list->n == list->capacity) {
        if (list->capacity > UINT32_MAX / 2) {
            return bench_pickle_out_of_memory(m);
        }
        uint32_t capacity = list->capacity ? 2 * list->capacity : 4;
        value *items = bench_pickle_memory(m, capacity * sizeof *items);
        if (!items) {
            return false;
        }
        if (list->n) {
            memcpy(items, list->items, list->n * sizeof *items);
        }
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->n++] = item;
    return true;
}

/* Odd, so that a product loses no bit: 2^64 over the golden ratio. */
#define DIGEST_FACTOR UINT64_C(0x9E3779B97F4A7C15)

/* Turns the last `n` values of the stack into a tuple, which keeps a digest. */
static bool push_tuple(machine *m, size_t n)
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
    return first != SIZE_MAX && push_tuple(m, m->stack.n - first);
}

/* A dictionary without a wanted key: mostly a stack frame. */
static bool is_useless(const value *item)
{
    return item->kind == BENCH_PICKLE_DICT && item->as.node->n == 0;
}

/* Moves the values from `first` on into the list below them on the stack. */
static bool append_from(machine *m, size_t first)
{
    if (first == SIZE_MAX) {
        return false;
    }
    size_t floor = m->n_marks ? m->marks[m->n_marks - 1] : 0;
    if (first <= floor || m->stack.of[first - 1].kind != BENCH_PICKLE_LIST) {
        return bench_pickle_complain(m, "there is no list to append to");
    }
    node *list = m->stack.of[first - 1].as.node;
    for (size_t i = first; i < m->stack.n; i++) {
        if (is_useless(&m->stack.of[i])) {
            list->has_dropped = true;
        } else if (!add_item(m, list, m->stack.of[i])) {
            return false;
        }
    }
    m->stack.n = first;
    return true;
}

static bool is_wanted(const machine *m, const value *key)
{
    for (const char *const *wanted = m->wanted; *wanted; wanted++) {
        if (bench_pickle_is_text(key, *wanted)) {
            return true;
        }
    }
    return false;
}

value *bench_pickle_find(const node *dict, const char *key, size_t length)
{
    for (uint32_t i = 0; i < dict->n; i += 2) {
        if (dict->items[i].length == length && memcmp(dict->items[i].as.text, key, length) == 0) {
            return &dict->items[i + 1];
        }
    }
    return NULL;
}

static bool set_item(machine *m, node *dict, const value *key, const value *item)
{
    if (!is_wanted(m, key)) {
        return true;
    }
    value *there = bench_pickle_find(dict, key->as.text, key->length);
    if (there) {
        *there = *item;
        return true;
    }
    return add_item(m, dict, *key) && add_item(m, dict, *item);
}

/* Moves the pairs from `first` on into the dictionary below them. */
static bool set_from(machine *m, size_t first)
{
    if (first == SIZE_MAX) {
        return false;
    }
    size_t floor = m->n_marks ? m->marks[m->n_marks - 1] : 0;
    if (first <= floor || m->stack.of[first - 1].kind != BENCH_PICKLE_DICT) {
        return bench_pickle_complain(m, "there is no dictionary to fill");
    }
    if ((m->stack.n - first) % 2) {
        return bench_pickle_complain(m, "a key without a value");
    }
    node *dict = m->stack.of[first - 1].as.node;
    for (size_t i = first; i < m->stack.n; i += 2) {
        if (!set_item(m, dict, &m->stack.of[i], &m->stack.of[i + 1])) {
            return false;
        }
    }
    m->stack.n = first;
    return true;
}

bool bench_pickle_step_container(machine *m)
{
    switch (m->opcode) {
    case PICKLE_MARK:
        return bench_pickle_open_mark(m);
    case PICKLE_EMPTY_LIST:
        return push_empty(m, BENCH_PICKLE_LIST);
    case PICKLE_EMPTY_DICT:
        return push_empty(m, BENCH_PICKLE_DICT);
    case PICKLE_EMPTY_TUPLE:
        return push_tuple(m, 0);
    case PICKLE_APPEND:
        return bench_pickle_need(m, 1) && append_from(m, m->stack.n - 1);
    case PICKLE_APPENDS:
        return append_from(m, bench_pickle_close_mark(m));
    case PICKLE_SETITEM:
        return bench_pickle_need(m, 2) && set_from(m, m->stack.n - 2);
    case PICKLE_SETITEMS:
        return set_from(m, bench_pickle_close_mark(m));
    case PICKLE_TUPLE:
        return push_marked_tuple(m);
    case PICKLE_TUPLE1:
        return push_tuple(m, 1);
    case PICKLE_TUPLE2:
        return push_tuple(m, 2);
    case PICKLE_TUPLE3:
        return push_tuple(m, 3);
    default:
        return bench_pickle_refuse(m);
    }
}
