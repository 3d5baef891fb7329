#include "go_asm.h"
#include "textflag.h"

// System calls; see park.go for what this is.
#define SYS_write 1
#define SYS_setsid 112
#define SYS_prctl 157
#define SYS_exit_group 231
#define SYS_execveat 322
#define SYS_clone3 435
#define SYS_close_range 436

// func split(b *branch) (errno uintptr)
//
// R12 is b, which the kernel keeps from call to call. Init and the spare use no stack: it is
// the stage's.
TEXT ·split(SB), NOSPLIT, $0-16
	MOVQ b+0(FP), R12
	LEAQ branch_init(R12), DI   // clone3(&b.init, size)
	MOVL $cloneArgs__size, SI
	MOVL $SYS_clone3, AX
	SYSCALL
	TESTQ AX, AX
	JEQ  init
	JLT  refused
	XORL DI, DI                 // the spare, when init has executed its program: exit_group(0)
	MOVL $SYS_exit_group, AX
	SYSCALL

refused:
	NEGQ AX
	MOVQ AX, errno+8(FP)
	RET

init:
	MOVL $7, DI                 // write(7, "i", 1): the kernel tells the starter whose it is
	LEAQ branch_told(R12), SI
	MOVL $1, DX
	MOVL $SYS_write, AX
	SYSCALL
	CMPQ AX, $1
	JNE  end                    // the starter is gone
	MOVL $15, DI                // prctl(PR_SET_NAME, "nomad-init")
	MOVQ branch_argv(R12), SI
	MOVL $SYS_prctl, AX
	SYSCALL
	MOVL $SYS_setsid, AX
	SYSCALL
	LEAQ branch_stage(R12), DI  // clone3(&b.stage, size)
	MOVL $cloneArgs__size, SI
	MOVL $SYS_clone3, AX
	SYSCALL
	TESTQ AX, AX
	JEQ  stage
	JLT  fail
	XORL DI, DI                 // close_range(0, 0), (3, 4), (7, ~0): for the spare as well
	XORL SI, SI
	XORL DX, DX
	MOVL $SYS_close_range, AX
	SYSCALL
	MOVL $3, DI
	MOVL $4, SI
	XORL DX, DX
	MOVL $SYS_close_range, AX
	SYSCALL
	MOVL $7, DI
	MOVL $-1, SI
	XORL DX, DX
	MOVL $SYS_close_range, AX
	SYSCALL
	MOVL $6, DI                 // execveat(6, "", b.argv, b.envp, AT_EMPTY_PATH)
	LEAQ branch_empty(R12), SI
	LEAQ branch_argv(R12), DX
	LEAQ branch_envp(R12), R10
	MOVL $0x1000, R8
	MOVL $SYS_execveat, AX
	SYSCALL
	JMP  end                    // and with it the namespace

fail:                           // write(4, {0, 'f', errno}, 3)
	NEGL AX
	MOVB AX, branch_failed+2(R12)
	MOVL $4, DI
	LEAQ branch_failed(R12), SI
	MOVL $3, DX
	MOVL $SYS_write, AX
	SYSCALL
end:
	MOVL $1, DI                 // exit_group(1)
	MOVL $SYS_exit_group, AX
	SYSCALL

stage:
	MOVL $SYS_setsid, AX
	SYSCALL
	MOVQ $0, errno+8(FP)
	RET
