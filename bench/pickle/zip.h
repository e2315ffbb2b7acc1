/* zip.h - finds the pickle in an archive: torch.save writes one with a member data.pkl. */
#ifndef PLEAT_BENCH_ZIP_H
#define PLEAT_BENCH_ZIP_H

#include "bench/pickle/bytes.h"

bool bench_zip_is(const unsigned char *data, size_t n);
/* The member ARCHIVE/data.pkl, or else the first that is called .pickle, .pkl or .json. A member
 * that is compressed takes the place of the archive in `bytes`; else *member points into it. False
 * and a message: there is none, or it cannot be read. */
bool bench_zip_find(const char *path, const bench_limits *limits, bench_bytes *bytes,
                    bench_bytes *member, bench_failure *failure);

#endif
