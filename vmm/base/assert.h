/* assert.h - debug levels: 0 none, 1 O(1) asserts, 2 walkers after public calls, 3 also poison. */
#ifndef PLEAT_BASE_ASSERT_H
#define PLEAT_BASE_ASSERT_H

#ifndef PLEAT_DEBUG_LEVEL
#define PLEAT_DEBUG_LEVEL 0
#endif

#if PLEAT_DEBUG_LEVEL >= 1
_Noreturn void pl_assert_failed(const char *what, const char *file, int line);
#define pl_assert(c) ((c) ? (void)0 : pl_assert_failed(#c, __FILE__, __LINE__))
#else
#define pl_assert(c) ((void)sizeof(!!(c)))
#endif

#endif
