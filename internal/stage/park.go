//go:build amd64 || arm64

package stage

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A spare's own descriptors while it waits. 0–5 are free for those of the start, as the
// stage and init have them, which the kernel gives the lowest numbers that are free.
const (
	startFiles = 6 // 0–2 the program's, policy, report, wait status
	reportFD   = 4
	statusFD   = 5
	initFD     = 6
	orderFD    = 7 // socket
)

// roomFor is for how many descriptors a stage makes room; see the package.
const roomFor = 256

// What init is given as arguments below a stage that is there already.
const (
	initName   = "nomad-init\x00"
	initForked = "H\x00" // initLetter with the bit of that
)

// maxOrder bounds the message with which a spare becomes a stage.
const maxOrder = 16 << 10

// cloneArgs is the kernel's struct clone_args.
type cloneArgs struct {
	flags      uint64
	_          [3]uint64
	exitSignal uint64
	_          [5]uint64
	cgroup     uint64
}

// branch is what split reads in memory that three processes share.
type branch struct {
	init, stage cloneArgs
	argv        [3]*byte // of init
	envp        [1]*byte
	empty       [1]byte
	told        [1]byte
	failed      [3]byte // as init reports
}

// split makes init, and below it the stage, of the calling thread, as vfork(2) makes a
// child: in the same memory, and one after the other. It returns in the stage, or with
// the reason why there is no init.
//
//	spare ──clone3──▶ init ──clone3──▶ stage ── returns … execve
//	  │waits           │waits                              │
//	  │                └◀─────────────────────────────────┘ executes the program of init
//	  └◀─ ends ────────┘
//
// So the three never run at the same time, and the Go runtime in their memory sees one
// thread, with its stack and its locks, that now goes by another number; its other threads,
// which are the spare's, look after it until the execve. Signals are blocked for good:
// they would act on that stack. The program gets an empty mask.
func split(b *branch) (errno uintptr)

// order is what a start sends to its spare.
type order struct {
	grouped bool // the last descriptor is a group's, of version 2
	argv    []string
	group   int // that descriptor, when received
}

func (o *order) encode() string {
	head := "-"
	if o.grouped {
		head = "g"
	}
	return head + strings.Join(o.argv, "\x00")
}

func decodeOrder(text string) (*order, error) {
	if text == "" || !strings.Contains("-g", text[:1]) {
		return nil, errors.New("message is none of a start")
	}
	return &order{grouped: text[0] == 'g', argv: strings.Split(text[1:], "\x00")}, nil
}

// Parked is what the program of a spare calls first, held to its thread: it waits for a
// start of the entry and returns, in the process that is the stage of that start, the
// arguments that Fork gives one. It fails when no start will come, and when it can't become
// a stage: the starter then does without.
func Parked(entry string) ([]string, error) {
	if err := hide(); err != nil {
		return nil, err
	}
	o, err := receive()
	if err != nil {
		return nil, err
	}
	if o.argv[0] != entry {
		return nil, fmt.Errorf("a start of %q, want %q", o.argv[0], entry)
	}
	if err := o.become(); err != nil {
		return nil, err
	}
	if err := settle(); err != nil {
		unix.Write(reportFD, []byte(err.Error())) //nolint:errcheck // the starter is gone: nobody to tell
		return nil, err
	}
	return o.argv[1:], nil
}

// hide keeps others from the spare, and makes room for the descriptors of a start.
func hide() error {
	name := [16]byte{}
	copy(name[:], ParkedEntry)
	if err := unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name)), 0, 0, 0); err != nil {
		return fmt.Errorf("name the spare: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("keep others from looking into the spare: %w", err)
	}
	if err := unix.CloseRange(0, startFiles-1, 0); err != nil {
		return fmt.Errorf("close descriptors: %w", err)
	}
	return nil
}

// receive waits for a start, and takes its descriptors to where they belong.
func receive() (*order, error) {
	text, oob := make([]byte, maxOrder), make([]byte, unix.CmsgSpace(4*(startFiles+1)))
	n, oobn, flags, err := 0, 0, 0, error(unix.EINTR)
	for err == unix.EINTR {
		n, oobn, flags, _, err = unix.Recvmsg(orderFD, text, oob, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("wait for a start: %w", err)
	}
	if n == 0 {
		return nil, errors.New("no start will come")
	}
	if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		return nil, errors.New("message of a start was cut off")
	}
	o, err := decodeOrder(string(text[:n]))
	if err != nil {
		return nil, err
	}
	return o, o.place(oob[:oobn])
}

// place sees that the descriptors of a start are where they belong.
func (o *order) place(oob []byte) error {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return fmt.Errorf("message of a start: %w", err)
	}
	if len(messages) != 1 {
		return errors.New("message of a start without descriptors")
	}
	got, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return fmt.Errorf("message of a start: %w", err)
	}
	want := []int{0, 1, 2, 3, 4, 5}
	if o.grouped && len(got) > startFiles {
		o.group = got[startFiles]
		want = append(want, o.group)
	}
	if !slices.Equal(got, want) || o.grouped && o.group == 0 {
		return fmt.Errorf("descriptors of a start are %v", got)
	}
	return nil
}

// shared holds what split reads where it stays.
var shared branch

// become splits the process.
func (o *order) become() error {
	const child = unix.CLONE_VM | unix.CLONE_VFORK
	shared = branch{
		// Init is the starter's child. It shares the spare's descriptors, so that both let
		// go of the report and the program's input at once.
		init:   cloneArgs{flags: child | unix.CLONE_PARENT | unix.CLONE_FILES | unix.CLONE_NEWPID},
		stage:  cloneArgs{flags: child, exitSignal: uint64(unix.SIGCHLD)},
		argv:   [3]*byte{unsafe.StringData(initName), unsafe.StringData(initForked), nil},
		envp:   [1]*byte{nil},
		empty:  [1]byte{0},
		told:   [1]byte{'i'},
		failed: [3]byte{0, 'f'},
	}
	if o.grouped {
		shared.init.flags |= unix.CLONE_INTO_CGROUP
		shared.init.cgroup = uint64(o.group)
	}
	// The runtime must not answer a signal on this thread ever again.
	all := ^uint64(0)
	if _, _, e := unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)), 0, 8, 0, 0); e != 0 {
		return fmt.Errorf("block signals: %w", e)
	}
	if e := syscall.Errno(split(&shared)); e != 0 {
		return fmt.Errorf("make init: %w", e)
	}
	return nil
}

// settle does what init does for a stage that it executes.
func settle() error {
	if _, err := unix.FcntlInt(statusFD, unix.F_SETOWN, unix.Getpid()); err != nil {
		return fmt.Errorf("%s: %w", steps['o'], err)
	}
	// Room for descriptors.
	if _, err := unix.FcntlInt(initFD, unix.F_DUPFD_CLOEXEC, roomFor-1); err != nil {
		return fmt.Errorf("make room for descriptors: %w", err)
	}
	return nil
}
