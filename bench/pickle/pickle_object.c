/* pickle_object.c - the opcodes that name or call code, of which nothing is executed, and those of
 * sets, bytes and the stack itself.
 *
 * Each takes from the stack what Python would, and leaves an object of which only the class's name
 * is known. The dictionaries of Python's library are filled as any dictionary is. */
#include <string.h>

#include "bench/pickle/pickle_machine.h"
#include "bench/pickle/pickle_opcode.h"

static bool pop(machine *m, size_t n)
{
    if (!bench_pickle_need(m, n)) {
        return false;
    }
    m->stack.n -= n;
    return true;
}

static bool pop_mark(machine *m)
{
    size_t first = bench_pickle_close_mark(m);
    m->stack.n = first != SIZE_MAX ? first : m->stack.n;
    return first != SIZE_MAX;
}

/* POP takes a mark, too. */
static bool pop_one(machine *m)
{
    bool is_mark = m->n_marks > 0 && m->marks[m->n_marks - 1] == m->stack.n;
    return is_mark ? pop_mark(m) : pop(m, 1);
}

/* A class: two lines, of which the second is its name. */
static bool push_class(machine *m)
{
    size_t n_module;
    size_t n;
    const char *module = bench_pickle_take_line(m, &n_module);
    const char *name = module ? bench_pickle_take_line(m, &n) : NULL;
    return name && bench_pickle_push_object(m, name, n);
}

static bool push_class_of_stack(machine *m)
{
    if (!bench_pickle_need(m, 2)) {
        return false;
    }
    value name = m->stack.of[m->stack.n - 1];
    m->stack.n -= 2;
    bool is_text = name.kind == BENCH_PICKLE_TEXT;
    return bench_pickle_push_object(m, is_text ? name.as.text : "", is_text ? name.length : 0);
}

/* The class lies `n` deep, and all above it goes into the call. */
static bool make(machine *m, size_t n)
{
    static const char *const dictionaries[] = { "OrderedDict", "defaultdict" };
    if (!bench_pickle_need(m, n)) {
        return false;
    }
    value class = m->stack.of[m->stack.n - n];
    m->stack.n -= n;
    bool is_named = class.kind == BENCH_PICKLE_OBJECT;
    for (size_t i = 0; i < sizeof dictionaries / sizeof dictionaries[0] && is_named; i++) {
        if (class.length == strlen(dictionaries[i]) &&
            memcmp(class.as.text, dictionaries[i], class.length) == 0) {
            return bench_pickle_push_empty(m, BENCH_PICKLE_DICT);
        }
    }
    return bench_pickle_push_object(m, is_named ? class.as.text : "", is_named ? class.length : 0);
}

/* INST names its class, OBJ has it above the mark. */
static bool make_marked(machine *m)
{
    size_t first = bench_pickle_close_mark(m);
    if (first == SIZE_MAX) {
        return false;
    }
    if (m->opcode == PICKLE_INST) {
        m->stack.n = first;
        return push_class(m);
    }
    return first < m->stack.n ? make(m, m->stack.n - first)
                              : bench_pickle_complain(m, "there is nothing on the stack for it");
}

static bool push_unnamed(machine *m)
{
    return bench_pickle_push_object(m, "", 0);
}

static bool skip_bytes(machine *m, unsigned n_bytes)
{
    uint64_t length;
    return bench_pickle_take_number(m, n_bytes, &length) && bench_pickle_take(m, length) &&
           push_unnamed(m);
}

static bool push_again(machine *m)
{
    return bench_pickle_need(m, 1) && bench_pickle_push(m, m->stack.of[m->stack.n - 1]);
}

static bool step_call(machine *m)
{
    size_t n;
    switch (m->opcode) {
    case PICKLE_GLOBAL:
        return push_class(m);
    case PICKLE_STACK_GLOBAL:
        return push_class_of_stack(m);
    case PICKLE_REDUCE:
    case PICKLE_NEWOBJ:
        return make(m, 2);
    case PICKLE_NEWOBJ_EX:
        return make(m, 3);
    case PICKLE_INST:
    case PICKLE_OBJ:
        return make_marked(m);
    case PICKLE_BUILD:
        return bench_pickle_need(m, 2) && pop(m, 1);
    case PICKLE_PERSID:
        return bench_pickle_take_line(m, &n) && push_unnamed(m);
    case PICKLE_BINPERSID:
        return pop(m, 1) && push_unnamed(m);
    case PICKLE_EXT1:
    case PICKLE_EXT2:
    case PICKLE_EXT4:
        return bench_pickle_take(m, (uint64_t)1 << (m->opcode - PICKLE_EXT1)) && push_unnamed(m);
    default:
        return bench_pickle_step_memo(m);
    }
}

bool bench_pickle_step_object(machine *m)
{
    switch (m->opcode) {
    case PICKLE_EMPTY_SET:
    case PICKLE_NEXT_BUFFER:
        return push_unnamed(m);
    case PICKLE_READONLY_BUFFER:
        return bench_pickle_need(m, 1);
    case PICKLE_ADDITEMS:
        return pop_mark(m) && bench_pickle_need(m, 1);
    case PICKLE_FROZENSET:
        return pop_mark(m) && push_unnamed(m);
    case PICKLE_SHORT_BINBYTES:
        return skip_bytes(m, 1);
    case PICKLE_BINBYTES:
        return skip_bytes(m, 4);
    case PICKLE_BINBYTES8:
    case PICKLE_BYTEARRAY8:
        return skip_bytes(m, 8);
    case PICKLE_POP:
        return pop_one(m);
    case PICKLE_POP_MARK:
        return pop_mark(m);
    case PICKLE_DUP:
        return push_again(m);
    default:
        return step_call(m);
    }
}
