/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dlopen searches the run path of its caller, which it knows by the return address: so the wrapper jumps to the real
 * one instead of calling it. fs_dlopen_path gives the path to load, a real copy when it lies in a dataset.
 */
        .text
        .globl  dlopen
        .type   dlopen, %function
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
#endif
        .size   dlopen, . - dlopen
        .section .note.GNU-stack,"",%progbits
