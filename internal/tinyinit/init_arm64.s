#include "textflag.h"

// Bits of the letter in argv[1], and system calls; see tinyinit.go, and
// init_amd64.s for the same program.
#define TERMINAL 1
#define ENTER 2
#define USERS 4

#define SYS_fcntl 25
#define SYS_ioctl 29
#define SYS_write 64
#define SYS_pwrite64 68
#define SYS_capset 91
#define SYS_exit_group 94
#define SYS_setsid 157
#define SYS_prctl 167
#define SYS_getpid 172
#define SYS_clone 220
#define SYS_wait4 260
#define SYS_setns 268
#define SYS_execveat 281
#define SYS_close_range 436

// func initText() unsafe.Pointer
TEXT ·initText(SB), NOSPLIT, $0-8
	MOVD $·initCode(SB), R0
	MOVD R0, ret+0(FP)
	RET

// initCode is the program. R19 is the stack as the kernel made it: argc, argv[0], … ;
// R20 scratch below it; R21 the flags; R22 the child; R23 argv[1]; R24 a failing step.
TEXT ·initCode(SB), NOSPLIT|NOFRAME, $0-0
	MOVD RSP, R19
	SUB  $256, R19, R20
	MOVD 16(R19), R23
	MOVBU (R23), R21

	MOVD $15, R0           // prctl(PR_SET_NAME, argv[0])
	MOVD 8(R19), R1
	MOVD $SYS_prctl, R8
	SVC
	MOVD $4, R0            // prctl(PR_SET_DUMPABLE, 0)
	MOVD $0, R1
	MOVD $SYS_prctl, R8
	SVC

	AND  $ENTER, R21, R9
	CBZ  R9, fork
	MOVD $7, R0            // setns(7, NEWNS | NEWUTS | NEWIPC | NEWPID | NEWNET)
	MOVD $0x6c020000, R1
	AND  $USERS, R21, R9
	CBZ  R9, enter
	MOVD $0x38020000, R1   // NEWUSER, and not the network, which it has from us
enter:
	MOVD $SYS_setns, R8
	SVC
	MOVD $101, R24         // 'e'
	CBNZ R0, fail

fork:
	MOVD $0x4111, R0       // clone(SIGCHLD | VM | VFORK, 0, 0, 0, 0): until it executes the stage
	MOVD $0, R1
	MOVD $0, R2
	MOVD $0, R3
	MOVD $0, R4
	MOVD $SYS_clone, R8
	SVC
	MOVD $102, R24         // 'f'
	CMP  $0, R0
	BLT  fail
	BEQ  child
	MOVD R0, R22

	MOVD $0, R0            // close_range(0, 0), with ENTER (0, 2)
	MOVD $0, R1
	MOVD $0, R2
	AND  $ENTER, R21, R9
	CBZ  R9, logs
	MOVD $2, R1
logs:
	MOVD $SYS_close_range, R8
	SVC
	MOVD $3, R0            // close_range(3, 4), close_range(6, ~0)
	MOVD $4, R1
	MOVD $0, R2
	MOVD $SYS_close_range, R8
	SVC
	MOVD $6, R0
	MOVD $0xffffffff, R1
	MOVD $0, R2
	MOVD $SYS_close_range, R8
	SVC

	MOVD $0, R25
bounding:
	MOVD $24, R0           // prctl(PR_CAPBSET_DROP, n), up to the last one
	MOVD R25, R1
	MOVD $SYS_prctl, R8
	SVC
	ADD  $1, R25, R25
	CBZ  R0, bounding
	MOVD $47, R0           // prctl(PR_CAP_AMBIENT, CLEAR_ALL, 0, 0, 0)
	MOVD $4, R1
	MOVD $0, R2
	MOVD $0, R3
	MOVD $0, R4
	MOVD $SYS_prctl, R8
	SVC
	MOVD $0x20080522, R9   // capset({version 3, 0}, nothing, or CAP_KILL with ENTER)
	MOVD R9, (R20)
	MOVD $0, R10
	AND  $ENTER, R21, R9
	CBZ  R9, kept
	MOVD $0x2000000020, R10
kept:
	MOVD R10, 8(R20)
	MOVD ZR, 16(R20)
	MOVD ZR, 24(R20)
	MOVD R20, R0
	ADD  $8, R20, R1
	MOVD $SYS_capset, R8
	SVC
	CBNZ R0, fail          // the report is closed: it ends, and with it the namespace

reap:
	MOVD $-1, R0           // wait4(-1, scratch, 0, 0)
	MOVD R20, R1
	MOVD $0, R2
	MOVD $0, R3
	MOVD $SYS_wait4, R8
	SVC
	CMP  R22, R0
	BEQ  done
	CMN  $10, R0           // ECHILD: somebody took our child
	BNE  reap
	B    fail

done:
	MOVD $5, R0            // pwrite(5, scratch, 4, 0)
	MOVD R20, R1
	MOVD $4, R2
	MOVD $0, R3
	MOVD $SYS_pwrite64, R8
	SVC
	MOVWU (R20), R9        // exit with the status, or with 128 and the signal
	LSR  $8, R9, R0
	AND  $255, R0, R0
	AND  $127, R9, R9
	CBZ  R9, exit
	ADD  $128, R9, R0
exit:
	MOVD $SYS_exit_group, R8
	SVC

child:
	MOVD $SYS_setsid, R8
	SVC
	AND  $TERMINAL, R21, R9
	CBZ  R9, owner
	MOVD $0, R0            // ioctl(0, TIOCSCTTY, 0)
	MOVD $0x540E, R1
	MOVD $0, R2
	MOVD $SYS_ioctl, R8
	SVC
	MOVD $116, R24         // 't'
	CBNZ R0, fail
owner:
	MOVD $SYS_getpid, R8   // fcntl(5, F_SETOWN, getpid()): so the starter learns our pid
	SVC
	MOVD R0, R2
	MOVD $5, R0
	MOVD $8, R1
	MOVD $SYS_fcntl, R8
	SVC
	MOVD $111, R24         // 'o'
	CBNZ R0, fail
	MOVD $29, R0           // prctl(PR_SET_TIMERSLACK, 100 ms): see tinyinit.go
	MOVD $0x6000000, R1
	MOVD $SYS_prctl, R8
	SVC
	MOVD $6, R0            // fcntl(6, F_DUPFD_CLOEXEC, 255): room for descriptors, while that is cheap
	MOVD $1030, R1
	MOVD $255, R2
	MOVD $SYS_fcntl, R8
	SVC
	MOVD $6, R0            // execveat(6, "", argv+2, envp, AT_EMPTY_PATH)
	ADD  $1, R23, R1
	ADD  $24, R19, R2
	MOVD (R19), R3
	LSL  $3, R3, R3
	ADD  R19, R3, R3
	ADD  $16, R3, R3
	MOVD $0x1000, R4
	MOVD $SYS_execveat, R8
	SVC
	MOVD $120, R24         // 'x'

fail:                          // write(4, {0, letter, errno}, 3); exit(1)
	NEG  R0, R0
	LSL  $16, R0, R0
	LSL  $8, R24, R24
	ORR  R24, R0, R0
	MOVD R0, (R20)
	MOVD $4, R0
	MOVD R20, R1
	MOVD $3, R2
	MOVD $SYS_write, R8
	SVC
	MOVD $1, R0
	MOVD $SYS_exit_group, R8
	SVC
	// endMark
	WORD $0x692d6e6f; WORD $0x0074696e
