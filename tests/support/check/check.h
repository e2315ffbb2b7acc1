/* check.h - Check, with marks that cost little. Found before Check's own header.
 *
 * For a test that crashes, Check writes each passed assertion to a file, and reads the file again.
 * Such a mark is a call of the kernel, and costs more than most assertions: 10^6 of them take
 * minutes under a sanitizer. So an assertion is marked only the first time that it is passed. In a
 * loop the place that Check tells of a crash ("after this point") can thus be an earlier one. A
 * failed assertion tells its own place. */
#ifndef PLEAT_TESTS_CHECK_H
#define PLEAT_TESTS_CHECK_H

#include_next <check.h>
#include <stdatomic.h>
#include <stdbool.h>

#define _mark_point(file, line)                                                                    \
    __extension__({                                                                                \
        static atomic_bool is_marked;                                                              \
        if (!atomic_load_explicit(&is_marked, memory_order_relaxed)) {                             \
            atomic_store_explicit(&is_marked, true, memory_order_relaxed);                         \
            (_mark_point)(file, line);                                                             \
        }                                                                                          \
    })

#endif
