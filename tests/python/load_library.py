#!/usr/bin/env python3
"""Load libpleat the way frameworks do, with dlopen into a running process, and use the malloc-like
pair. Usage: load_library.py PATH_OF_LIBPLEAT_SO (environment: PLEAT_CONF=driver:sim)."""
import ctypes
import os
import sys

N_BLOCKS = 1000


def load(path):
    library = ctypes.CDLL(os.path.abspath(path))
    library.pleat_malloc.restype = ctypes.c_void_p
    library.pleat_malloc.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    library.pleat_free.restype = None
    library.pleat_free.argtypes = [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    return library


def main():
    library = load(sys.argv[1])
    sizes = [1 + (i * 7919) % 3_000_000 for i in range(N_BLOCKS)]
    blocks = [library.pleat_malloc(size, 0, None) for size in sizes]
    if None in blocks:
        sys.exit(f"block {blocks.index(None)} was not allocated")
    spans = sorted(zip(blocks, sizes))
    for (at, size), (after, _) in zip(spans, spans[1:]):
        if at + size > after:
            sys.exit("two blocks overlap")
    if any(at % 512 for at in blocks):
        sys.exit("a block is not aligned to 512 bytes")
    for at, size in zip(blocks, sizes):
        library.pleat_free(at, size, 0, None)
    again = library.pleat_malloc(sizes[0], 0, None)
    if again is None:
        sys.exit("nothing could be allocated after all was freed")
    library.pleat_free(again, sizes[0], 0, None)
    print(f"{N_BLOCKS} blocks made and freed through {sys.argv[1]}")


if __name__ == "__main__":
    main()
