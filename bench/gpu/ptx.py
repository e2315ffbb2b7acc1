"""The kernels of these programs, as text that the driver compiles. No nvcc is needed.

In CUDA C++, where `self` is a thread's number in the grid and `all` the number of threads:

    fill(uint32_t *at, uint64_t n, uint32_t first)
        for (i = self; i < n; i += all) at[i] = first + i;

    compare(const uint32_t *at, uint64_t n, uint32_t first, uint64_t *wrong)
        for (i = self; i < n; i += all) if (at[i] != first + i) atomicAdd(wrong, 1);

    wait(uint64_t ns)
        for (begin = globaltimer; globaltimer - begin < ns; );

    chase(const uint64_t *at, uint32_t steps, uint64_t *out)
        for (begin = globaltimer, k = 0; k < steps; k++) at = *(const uint64_t **)at;
        out[0] = globaltimer - begin, out[1] = at;

    watch(const char *at, uint32_t log2_pages, uint32_t stride, uint64_t ns, report *out)
        r = self, before = clock64;
        for (begin = globaltimer; globaltimer - begin < ns; n++) {
            for (k = 0; k < READS; k++) {
                r = r * 1664525 + 1013904223;
                i = r & ((1 << (log2_pages + PAGE_LOG2)) - 1);
                page = i >> PAGE_LOG2, word = i & ((1 << PAGE_LOG2) - 1);
                if (volatile *(uint32_t *)(at + page * stride + word * 4) != i) bad++;
            }
            longest = max(longest, clock64 - before), before = the same clock64;
        }
        atomically: out->rounds += n, out->wrong += bad, out->longest = max(..., longest),
                    out->clocks = max(..., clocks in all), out->ns = max(..., ns in all)

`watch` reads pages of 2 MiB in no order; page p was filled with first = p << PAGE_LOG2."""

PAGE_LOG2 = 19          # words of a page of 2 MiB
READS = 32              # of a round of `watch`

HEAD = """\
.version 7.0
.target sm_80
.address_size 64
"""

# %r3: this thread's number; %r4: the number of all threads.
NUMBERS = """\
    mov.u32 %r0, %ctaid.x;
    mov.u32 %r1, %ntid.x;
    mov.u32 %r2, %tid.x;
    mad.lo.u32 %r3, %r0, %r1, %r2;
    mov.u32 %r4, %nctaid.x;
    mul.lo.u32 %r4, %r4, %r1;
"""

FILL = """
.visible .entry fill(.param .u64 at, .param .u64 n, .param .u32 first)
{
    .reg .pred %p;
    .reg .b32 %r<8>;
    .reg .b64 %d<5>;
    ld.param.u64 %d0, [at];
    cvta.to.global.u64 %d0, %d0;
    ld.param.u64 %d1, [n];
    ld.param.u32 %r5, [first];
""" + NUMBERS + """\
    cvt.u64.u32 %d2, %r3;
    cvt.u64.u32 %d3, %r4;
next:
    setp.ge.u64 %p, %d2, %d1;
    @%p bra done;
    shl.b64 %d4, %d2, 2;
    add.u64 %d4, %d0, %d4;
    cvt.u32.u64 %r6, %d2;
    add.u32 %r6, %r6, %r5;
    st.global.u32 [%d4], %r6;
    add.u64 %d2, %d2, %d3;
    bra next;
done:
    ret;
}
"""

COMPARE = """
.visible .entry compare(.param .u64 at, .param .u64 n, .param .u32 first, .param .u64 wrong)
{
    .reg .pred %p;
    .reg .b32 %r<8>;
    .reg .b64 %d<8>;
    ld.param.u64 %d0, [at];
    cvta.to.global.u64 %d0, %d0;
    ld.param.u64 %d1, [n];
    ld.param.u32 %r5, [first];
    ld.param.u64 %d5, [wrong];
    cvta.to.global.u64 %d5, %d5;
""" + NUMBERS + """\
    cvt.u64.u32 %d2, %r3;
    cvt.u64.u32 %d3, %r4;
    mov.u64 %d6, 1;
next:
    setp.ge.u64 %p, %d2, %d1;
    @%p bra done;
    shl.b64 %d4, %d2, 2;
    add.u64 %d4, %d0, %d4;
    cvt.u32.u64 %r6, %d2;
    add.u32 %r6, %r6, %r5;
    ld.global.u32 %r7, [%d4];
    add.u64 %d2, %d2, %d3;
    setp.eq.u32 %p, %r6, %r7;
    @%p bra next;
    red.global.add.u64 [%d5], %d6;
    bra next;
done:
    ret;
}
"""

WAIT = """
.visible .entry wait(.param .u64 ns)
{
    .reg .pred %p;
    .reg .b64 %d<4>;
    ld.param.u64 %d0, [ns];
    mov.u64 %d1, %globaltimer;
again:
    mov.u64 %d2, %globaltimer;
    sub.u64 %d3, %d2, %d1;
    setp.lt.u64 %p, %d3, %d0;
    @%p bra again;
    ret;
}
"""

CHASE = """
.visible .entry chase(.param .u64 at, .param .u32 steps, .param .u64 out)
{
    .reg .pred %p;
    .reg .b32 %r<3>;
    .reg .b64 %d<5>;
    ld.param.u64 %d0, [at];
    ld.param.u32 %r0, [steps];
    mov.u32 %r1, 0;
    mov.u64 %d1, %globaltimer;
next:
    ld.volatile.global.u64 %d0, [%d0];
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p, %r1, %r0;
    @%p bra next;
    mov.u64 %d2, %globaltimer;
    sub.u64 %d2, %d2, %d1;
    ld.param.u64 %d3, [out];
    cvta.to.global.u64 %d3, %d3;
    st.global.u64 [%d3], %d2;
    st.global.u64 [%d3+8], %d0;
    ret;
}
"""

# The report's words: rounds, wrong, longest, clocks, ns.
WATCH = f"""
.visible .entry watch(.param .u64 at, .param .u32 log2_pages, .param .u32 stride, .param .u64 ns,
                      .param .u64 out)
{{
    .reg .pred %p;
    .reg .b32 %r<14>;
    .reg .b64 %d<16>;
    ld.param.u64 %d0, [at];
    cvta.to.global.u64 %d0, %d0;
    ld.param.u32 %r5, [log2_pages];
    ld.param.u32 %r6, [stride];
    ld.param.u64 %d1, [ns];
{NUMBERS}\
    add.u32 %r5, %r5, {PAGE_LOG2};
    mov.u32 %r7, 1;
    shl.b32 %r7, %r7, %r5;
    sub.u32 %r7, %r7, 1;
    mov.u64 %d2, 0;
    mov.u64 %d3, 0;
    mov.u64 %d4, 0;
    mov.u64 %d5, %clock64;
    mov.u64 %d7, %d5;
    mov.u64 %d6, %globaltimer;
round:
    mov.u32 %r8, 0;
read:
    mad.lo.u32 %r3, %r3, 1664525, 1013904223;
    and.b32 %r9, %r3, %r7;
    shr.u32 %r10, %r9, {PAGE_LOG2};
    and.b32 %r11, %r9, {(1 << PAGE_LOG2) - 1};
    mul.wide.u32 %d8, %r10, %r6;
    mul.wide.u32 %d9, %r11, 4;
    add.u64 %d8, %d8, %d9;
    add.u64 %d8, %d0, %d8;
    ld.volatile.global.u32 %r12, [%d8];
    setp.ne.u32 %p, %r12, %r9;
    @%p add.u64 %d3, %d3, 1;
    add.u32 %r8, %r8, 1;
    setp.lt.u32 %p, %r8, {READS};
    @%p bra read;
    mov.u64 %d10, %clock64;
    sub.u64 %d11, %d10, %d7;
    max.u64 %d4, %d4, %d11;
    mov.u64 %d7, %d10;
    add.u64 %d2, %d2, 1;
    mov.u64 %d12, %globaltimer;
    sub.u64 %d13, %d12, %d6;
    setp.lt.u64 %p, %d13, %d1;
    @%p bra round;
    sub.u64 %d10, %d10, %d5;
    ld.param.u64 %d14, [out];
    cvta.to.global.u64 %d14, %d14;
    red.global.add.u64 [%d14], %d2;
    red.global.add.u64 [%d14+8], %d3;
    red.global.max.u64 [%d14+16], %d4;
    red.global.max.u64 [%d14+24], %d10;
    red.global.max.u64 [%d14+32], %d13;
    ret;
}}
"""

SOURCE = HEAD + FILL + COMPARE + WAIT + CHASE + WATCH
