/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dlopen and dlmopen search the run path of their caller, which they know by the return address. So
 * the wrapper jumps to the real function instead of calling it. fs_dlopen_path gives the path to
 * load, or a real copy if the path lies in a dataset. On ppc64le the real function leaves its own
 * table of contents in r2. Callers in other files of ELF restore theirs; this library calls
 * FS_REAL(dlopen) only.
 */
        .text
        .globl  dlopen
        .type   dlopen, %function
#if defined(__powerpc64__)
        .abiversion 2
#endif
#if defined(__x86_64__)
dlopen:
        pushq   %rsi
        call    fs_dlopen_path
        popq    %rsi
        movq    %rax, %rdi
        movq    fs_real_dlopen(%rip), %rax
        jmp     *%rax
#elif defined(__aarch64__)
dlopen:
        stp     x29, x30, [sp, #-32]!
        str     x1, [sp, #16]
        bl      fs_dlopen_path
        ldr     x1, [sp, #16]
        ldp     x29, x30, [sp], #32
        adrp    x9, fs_real_dlopen
        ldr     x9, [x9, :lo12:fs_real_dlopen]
        br      x9
#elif defined(__powerpc64__)
dlopen:
0:      addis   2, 12, .TOC.-0b@ha
        addi    2, 2, .TOC.-0b@l
        .localentry dlopen, .-dlopen
        mflr    0
        std     0, 16(1)
        stdu    1, -48(1)
        std     4, 32(1)
        bl      fs_dlopen_path
        ld      4, 32(1)
        addi    1, 1, 48
        ld      0, 16(1)
        mtlr    0
        addis   12, 2, fs_real_dlopen@toc@ha
        ld      12, fs_real_dlopen@toc@l(12)
        mtctr   12
        bctr
#endif
        .size   dlopen, . - dlopen

        .globl  dlmopen
        .type   dlmopen, %function
#if defined(__x86_64__)
dlmopen:
        pushq   %rdi
        pushq   %rdx
        subq    $8, %rsp
        movq    %rsi, %rdi
        call    fs_dlmopen_path
        addq    $8, %rsp
        popq    %rdx
        popq    %rdi
        movq    %rax, %rsi
        movq    fs_real_dlmopen(%rip), %rax
        jmp     *%rax
#elif defined(__aarch64__)
dlmopen:
        stp     x29, x30, [sp, #-32]!
        stp     x0, x2, [sp, #16]
        mov     x0, x1
        bl      fs_dlmopen_path
        mov     x1, x0
        ldp     x0, x2, [sp, #16]
        ldp     x29, x30, [sp], #32
        adrp    x9, fs_real_dlmopen
        ldr     x9, [x9, :lo12:fs_real_dlmopen]
        br      x9
#elif defined(__powerpc64__)
dlmopen:
0:      addis   2, 12, .TOC.-0b@ha
        addi    2, 2, .TOC.-0b@l
        .localentry dlmopen, .-dlmopen
        mflr    0
        std     0, 16(1)
        stdu    1, -48(1)
        std     3, 32(1)
        std     5, 40(1)
        mr      3, 4
        bl      fs_dlmopen_path
        mr      4, 3
        ld      3, 32(1)
        ld      5, 40(1)
        addi    1, 1, 48
        ld      0, 16(1)
        mtlr    0
        addis   12, 2, fs_real_dlmopen@toc@ha
        ld      12, fs_real_dlmopen@toc@l(12)
        mtctr   12
        bctr
#endif
        .size   dlmopen, . - dlmopen
        .section .note.GNU-stack,"",%progbits
