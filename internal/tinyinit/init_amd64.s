#include "textflag.h"

// Bits of the letter in argv[1], and system calls; see tinyinit.go.
#define TERMINAL 1
#define ENTER 2
#define USERS 4

#define SYS_write 1
#define SYS_ioctl 16
#define SYS_pwrite64 18
#define SYS_getpid 39
#define SYS_clone 56
#define SYS_wait4 61
#define SYS_fcntl 72
#define SYS_setsid 112
#define SYS_capset 126
#define SYS_prctl 157
#define SYS_exit_group 231
#define SYS_setns 308
#define SYS_execveat 322
#define SYS_close_range 436

// func initText() unsafe.Pointer
TEXT ·initText(SB), NOSPLIT, $0-8
	LEAQ ·initCode(SB), AX
	MOVQ AX, ret+0(FP)
	RET

// initCode is the program. R12 is the stack as the kernel made it: argc, argv[0], … ;
// R15 scratch below it; R14 the flags; R13 the child; R10 carries fourth arguments.
TEXT ·initCode(SB), NOSPLIT|NOFRAME, $0-0
	MOVQ SP, R12
	LEAQ -256(R12), R15
	MOVQ 16(R12), BX
	MOVBQZX (BX), R14

	MOVL $15, DI           // prctl(PR_SET_NAME, argv[0])
	MOVQ 8(R12), SI
	MOVL $SYS_prctl, AX
	SYSCALL
	MOVL $4, DI            // prctl(PR_SET_DUMPABLE, 0)
	XORL SI, SI
	MOVL $SYS_prctl, AX
	SYSCALL

	TESTL $ENTER, R14
	JEQ  fork
	MOVL $7, DI            // setns(7, NEWNS | NEWUTS | NEWIPC | NEWPID | NEWNET)
	MOVL $0x6c020000, SI
	TESTL $USERS, R14
	JEQ  enter
	MOVL $0x38020000, SI   // NEWUSER, and not the network, which it has from us
enter:
	MOVL $SYS_setns, AX
	SYSCALL
	MOVL $101, R8          // 'e'
	TESTQ AX, AX
	JNE  fail

fork:
	MOVL $0x4111, DI       // clone(SIGCHLD | VM | VFORK, 0, 0, 0, 0): until it executes the stage
	XORL SI, SI
	XORL DX, DX
	XORL R10, R10
	XORL R8, R8
	MOVL $SYS_clone, AX
	SYSCALL
	MOVL $102, R8          // 'f'
	TESTQ AX, AX
	JLT  fail
	JEQ  child
	MOVQ AX, R13

	XORL DI, DI            // close_range(0, 0), with ENTER (0, 2)
	XORL SI, SI
	XORL DX, DX
	TESTL $ENTER, R14
	JEQ  logs
	MOVL $2, SI
logs:
	MOVL $SYS_close_range, AX
	SYSCALL
	MOVL $3, DI            // close_range(3, 4), close_range(6, ~0)
	MOVL $4, SI
	XORL DX, DX
	MOVL $SYS_close_range, AX
	SYSCALL
	MOVL $6, DI
	MOVL $-1, SI
	XORL DX, DX
	MOVL $SYS_close_range, AX
	SYSCALL

	XORL R9, R9
bounding:
	MOVL $24, DI           // prctl(PR_CAPBSET_DROP, n), up to the last one
	MOVQ R9, SI
	MOVL $SYS_prctl, AX
	SYSCALL
	INCL R9
	TESTQ AX, AX
	JEQ  bounding
	MOVL $47, DI           // prctl(PR_CAP_AMBIENT, CLEAR_ALL, 0, 0, 0)
	MOVL $4, SI
	XORL DX, DX
	XORL R10, R10
	XORL R8, R8
	MOVL $SYS_prctl, AX
	SYSCALL
	MOVL $0x20080522, AX   // capset({version 3, 0}, nothing, or CAP_KILL with ENTER)
	MOVQ AX, (R15)
	XORL AX, AX
	TESTL $ENTER, R14
	JEQ  kept
	MOVQ $0x2000000020, AX
kept:
	MOVQ AX, 8(R15)
	XORL AX, AX
	MOVQ AX, 16(R15)
	MOVQ AX, 24(R15)
	MOVQ R15, DI
	LEAQ 8(R15), SI
	MOVL $SYS_capset, AX
	SYSCALL
	TESTQ AX, AX
	JNE  fail              // the report is closed: it ends, and with it the namespace

reap:
	MOVQ $-1, DI           // wait4(-1, scratch, 0, 0)
	MOVQ R15, SI
	XORL DX, DX
	XORL R10, R10
	MOVL $SYS_wait4, AX
	SYSCALL
	CMPQ AX, R13
	JEQ  done
	CMPQ AX, $-10          // ECHILD: somebody took our child
	JNE  reap
	JMP  fail

done:
	MOVL $5, DI            // pwrite(5, scratch, 4, 0)
	MOVQ R15, SI
	MOVL $4, DX
	XORL R10, R10
	MOVL $SYS_pwrite64, AX
	SYSCALL
	MOVL (R15), DI         // exit with the status, or with 128 and the signal
	MOVL DI, SI
	SHRL $8, DI
	ANDL $255, DI
	ANDL $127, SI
	JEQ  exit
	LEAL 128(SI), DI
exit:
	MOVL $SYS_exit_group, AX
	SYSCALL

child:
	MOVL $SYS_setsid, AX
	SYSCALL
	TESTL $TERMINAL, R14
	JEQ  owner
	XORL DI, DI            // ioctl(0, TIOCSCTTY, 0)
	MOVL $0x540E, SI
	XORL DX, DX
	MOVL $SYS_ioctl, AX
	SYSCALL
	MOVL $116, R8          // 't'
	TESTQ AX, AX
	JNE  fail
owner:
	MOVL $SYS_getpid, AX   // fcntl(5, F_SETOWN, getpid()): so the starter learns our pid
	SYSCALL
	MOVQ AX, DX
	MOVL $5, DI
	MOVL $8, SI
	MOVL $SYS_fcntl, AX
	SYSCALL
	MOVL $111, R8          // 'o'
	TESTQ AX, AX
	JNE  fail
	MOVL $29, DI           // prctl(PR_SET_TIMERSLACK, 100 ms): see tinyinit.go
	MOVL $0x6000000, SI
	MOVL $SYS_prctl, AX
	SYSCALL
	MOVL $6, DI            // fcntl(6, F_DUPFD_CLOEXEC, 255): room for descriptors, while that is cheap
	MOVL $1030, SI
	MOVL $255, DX
	MOVL $SYS_fcntl, AX
	SYSCALL
	MOVL $6, DI            // execveat(6, "", argv+2, envp, AT_EMPTY_PATH)
	LEAQ 1(BX), SI
	LEAQ 24(R12), DX
	MOVQ (R12), R10
	LEAQ 16(R12)(R10*8), R10
	MOVL $0x1000, R8
	MOVL $SYS_execveat, AX
	SYSCALL
	MOVL $120, R8          // 'x'

fail:                          // write(4, {0, letter, errno}, 3); exit(1)
	NEGL AX
	SHLL $8, R8
	SHLL $16, AX
	ORL  AX, R8
	MOVL R8, (R15)
	MOVL $4, DI
	MOVQ R15, SI
	MOVL $3, DX
	MOVL $SYS_write, AX
	SYSCALL
	MOVL $1, DI
	MOVL $SYS_exit_group, AX
	SYSCALL
	// endMark
	BYTE $0x6f; BYTE $0x6e; BYTE $0x2d; BYTE $0x69; BYTE $0x6e; BYTE $0x69; BYTE $0x74; BYTE $0x00
