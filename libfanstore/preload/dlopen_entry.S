/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dlopen and dlmopen search the run path of their caller, which they know by the return address. So
 * the wrapper jumps to the real function instead of calling it. fs_dlopen_path gives the path to
 * load, or a real copy if the path lies in a dataset.
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
#endif
        .size   dlmopen, . - dlmopen
        .section .note.GNU-stack,"",%progbits
