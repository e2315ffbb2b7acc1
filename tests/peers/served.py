"""Did the peer take its memory from pleat at all?"""
import sys


def require():
    import pleat

    n = pleat.memory_stats()["allocation.all.allocated"]
    print(f"peers: {n} blocks of pleat", file=sys.stderr)
    if n == 0:
        sys.exit("peers: the tests ran, but not in pleat's memory")
