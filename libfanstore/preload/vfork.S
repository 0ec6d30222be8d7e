/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vfork. The child runs on the parent's memory and stack, so the wrapper cannot be C. It counts in
 * the thread's fs_vfork_depth that such a child runs now (fs_vfork_enter returns the counter's
 * address), and makes the system call. In the parent it counts down again: the kernel has kept the
 * parent's registers, with the return address among them.
 */
        .text
        .globl  vfork
        .globl  __vfork
        .type   vfork, %function
        .type   __vfork, %function
#if defined(__powerpc64__)
        .abiversion 2
#endif
#if defined(__x86_64__)
vfork:
__vfork:
        subq    $8, %rsp
        call    fs_vfork_enter
        addq    $8, %rsp
        movq    %rax, %rsi              /* survives the system call */
        popq    %rdi                    /* so does the return address */
        movl    $58, %eax               /* SYS_vfork */
        syscall
        pushq   %rdi                    /* the child has used our stack */
        testl   %eax, %eax
        jz      1f
        decl    (%rsi)
        cmpq    $-4095, %rax
        jae     2f
1:      ret
2:      movl    %eax, %edi
        jmp     fs_vfork_failed
#elif defined(__aarch64__)
vfork:
__vfork:
        stp     x29, x30, [sp, #-16]!
        bl      fs_vfork_enter
        ldp     x29, x30, [sp], #16
        mov     x9, x0
        mov     x0, #0x4111             /* CLONE_VM | CLONE_VFORK | SIGCHLD */
        mov     x1, #0
        mov     x8, #220                /* SYS_clone */
        svc     #0
        cbz     x0, 1f
        ldr     w10, [x9]
        sub     w10, w10, #1
        str     w10, [x9]
        cmn     x0, #4095
        b.cs    2f
1:      ret
2:      b       fs_vfork_failed
#elif defined(__powerpc64__)
/* The child's calls overwrite the caller's slots for registers. The link register survives the
   system call, and the parent asks for the counter again. */
vfork:
__vfork:
0:      addis   2, 12, .TOC.-0b@ha
        addi    2, 2, .TOC.-0b@l
        .localentry vfork, .-vfork
        .localentry __vfork, .-__vfork
        mflr    0
        std     0, 16(1)
        stdu    1, -32(1)
        bl      fs_vfork_enter
        addi    1, 1, 32
        ld      0, 16(1)
        mtlr    0
        li      0, 189                  /* SYS_vfork */
        sc
        bso     1f
        cmpdi   3, 0
        beqlr
        b       fs_vfork_left
1:      neg     3, 3
        b       fs_vfork_left
#endif
        .size   vfork, . - vfork
        .section .note.GNU-stack,"",%progbits
