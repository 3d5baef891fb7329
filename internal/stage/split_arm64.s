#include "go_asm.h"
#include "textflag.h"

// System calls; see park.go for what this is, and split_amd64.s for the same.
#define SYS_write 64
#define SYS_exit_group 94
#define SYS_setsid 157
#define SYS_prctl 167
#define SYS_execveat 281
#define SYS_clone3 435
#define SYS_close_range 436

// func split(b *branch) (errno uintptr)
//
// R19 is b, which the kernel keeps from call to call. Init and the spare use no stack: it is
// the stage's.
TEXT ·split(SB), NOSPLIT, $0-16
	MOVD b+0(FP), R19
	ADD  $branch_init, R19, R0  // clone3(&b.init, size)
	MOVD $cloneArgs__size, R1
	MOVD $SYS_clone3, R8
	SVC
	CMP  $0, R0
	BEQ  init
	BLT  refused
	MOVD $0, R0                 // the spare, when init has executed its program: exit_group(0)
	MOVD $SYS_exit_group, R8
	SVC

refused:
	NEG  R0, R0
	MOVD R0, errno+8(FP)
	RET

init:
	MOVD $7, R0                 // write(7, "i", 1): the kernel tells the starter whose it is
	ADD  $branch_told, R19, R1
	MOVD $1, R2
	MOVD $SYS_write, R8
	SVC
	CMP  $1, R0
	BNE  end                    // the starter is gone
	MOVD $15, R0                // prctl(PR_SET_NAME, "nomad-init")
	MOVD branch_argv(R19), R1
	MOVD $SYS_prctl, R8
	SVC
	MOVD $SYS_setsid, R8
	SVC
	ADD  $branch_stage, R19, R0 // clone3(&b.stage, size)
	MOVD $cloneArgs__size, R1
	MOVD $SYS_clone3, R8
	SVC
	CMP  $0, R0
	BEQ  stage
	BLT  fail
	MOVD $0, R0                 // close_range(0, 0), (3, 4), (7, ~0): for the spare as well
	MOVD $0, R1
	MOVD $0, R2
	MOVD $SYS_close_range, R8
	SVC
	MOVD $3, R0
	MOVD $4, R1
	MOVD $0, R2
	MOVD $SYS_close_range, R8
	SVC
	MOVD $7, R0
	MOVD $0xffffffff, R1
	MOVD $0, R2
	MOVD $SYS_close_range, R8
	SVC
	MOVD $6, R0                 // execveat(6, "", b.argv, b.envp, AT_EMPTY_PATH)
	ADD  $branch_empty, R19, R1
	ADD  $branch_argv, R19, R2
	ADD  $branch_envp, R19, R3
	MOVD $0x1000, R4
	MOVD $SYS_execveat, R8
	SVC
	B    end                    // and with it the namespace

fail:                           // write(4, {0, 'f', errno}, 3)
	NEG  R0, R0
	MOVB R0, (branch_failed+2)(R19)
	MOVD $4, R0
	ADD  $branch_failed, R19, R1
	MOVD $3, R2
	MOVD $SYS_write, R8
	SVC
end:
	MOVD $1, R0                 // exit_group(1)
	MOVD $SYS_exit_group, R8
	SVC

stage:
	MOVD $SYS_setsid, R8
	SVC
	MOVD $0, R0
	MOVD R0, errno+8(FP)
	RET
