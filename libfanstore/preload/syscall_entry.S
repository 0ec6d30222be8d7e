/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * syscall(2) as a libc function. Numbers that may concern a dataset go to fs_syscall (syscall.c,
 * with the mask). All others go to the kernel with nothing on the stack, because the call may be a
 * clone with a stack of its own.
 */
        .text
        .globl  syscall
        .type   syscall, %function
#if defined(__powerpc64__)
        .abiversion 2
#endif
#if defined(__x86_64__)
syscall:
        cmpq    $512, %rdi
        jae     1f
        leaq    fs_syscall_mask(%rip), %rax
        btq     %rdi, (%rax)
        jnc     1f
        jmp     fs_syscall
1:      movq    %rdi, %rax
        movq    %rsi, %rdi
        movq    %rdx, %rsi
        movq    %rcx, %rdx
        movq    %r8, %r10
        movq    %r9, %r8
        movq    8(%rsp), %r9
        syscall
        cmpq    $-4095, %rax
        jae     2f
        ret
2:      movl    %eax, %edi
        jmp     fs_syscall_failed
#elif defined(__aarch64__)
syscall:
        cmp     x0, #512
        b.hs    1f
        adrp    x9, fs_syscall_mask
        add     x9, x9, :lo12:fs_syscall_mask
        lsr     x10, x0, #6
        ldr     x9, [x9, x10, lsl #3]
        lsr     x9, x9, x0
        tbz     x9, #0, 1f
        b       fs_syscall
1:      mov     x8, x0
        mov     x0, x1
        mov     x1, x2
        mov     x2, x3
        mov     x3, x4
        mov     x4, x5
        mov     x5, x6
        svc     #0
        cmn     x0, #4095
        b.cs    2f
        ret
2:      b       fs_syscall_failed
#elif defined(__powerpc64__)
syscall:
0:      addis   2, 12, .TOC.-0b@ha
        addi    2, 2, .TOC.-0b@l
        .localentry syscall, .-syscall
        cmpldi  3, 512
        bge     1f
        addis   10, 2, fs_syscall_mask@toc@ha
        addi    10, 10, fs_syscall_mask@toc@l
        srdi    11, 3, 6
        sldi    11, 11, 3
        ldx     10, 10, 11
        clrldi  11, 3, 58
        srd     10, 10, 11
        andi.   10, 10, 1
        beq     1f
        b       fs_syscall
1:      mr      0, 3
        mr      3, 4
        mr      4, 5
        mr      5, 6
        mr      6, 7
        mr      7, 8
        mr      8, 9
        sc
        bnslr+
        neg     3, 3                    /* the kernel's errno is positive here */
        b       fs_syscall_failed
#endif
        .size   syscall, . - syscall
        .section .note.GNU-stack,"",%progbits
