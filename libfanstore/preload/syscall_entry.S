/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * syscall(2) as a libc function. Numbers that may concern a dataset go to fs_syscall (syscall.c,
 * with the mask). All others go to the kernel with nothing on the stack, because the call may be a
 * clone with a stack of its own.
 */
        .text
        .globl  syscall
        .type   syscall, %function
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
#endif
        .size   syscall, . - syscall
        .section .note.GNU-stack,"",%progbits
