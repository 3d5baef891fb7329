package attack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Operation is one action to try.
type Operation struct {
	Name string // class/action
	// Why is the reason why success is harmless; empty if it must never succeed.
	Why string
	// try returns nil if the operation took effect.
	try func(*Targets) error
}

// Operations lists all operations by name.
func Operations() []Operation {
	all := slices.Concat(fileOperations, ownFileOperations, neighbourOperations, processOperations, procOperations,
		schedulingOperations, kernelOperations, namespaceOperations, mountOperations, socketOperations, connectOperations,
		ipcOperations, identityOperations, machineOperations)
	slices.SortFunc(all, func(a, b Operation) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// errNothing is returned by a search without a finding.
var errNothing = errors.New("nothing")

// limit bounds one operation. An operation that blocks is neither allowed nor denied. The limit is
// high because emulated machines are slow.
const limit = 40 * time.Second

// Main is the main function of the probe. "run TARGETS" tries all operations, "try NAME TARGETS"
// one operation. "hold" and "uid" are helpers of operations.
func Main(args []string) int {
	args = emulated(args)
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "usage: probe run TARGETS")
		return 2
	}
	switch args[0] {
	case "run":
		return runAll(args[1])
	case "try":
		return tryOne(args[1], args[2])
	case "uid":
		fmt.Println(os.Geteuid())
		return 0
	case "executed":
		fmt.Println(verdict(nil))
		return 0
	case "hold": // until standard input ends
		fmt.Println(os.Getpid())
		io.Copy(io.Discard, os.Stdin) //nolint:errcheck // any end
		return 0
	case "stay":
		return stay(args[1:])
	case "bomb":
		return bomb(args[1:])
	}
	fmt.Fprintf(os.Stderr, "probe: unknown command %q\n", args[0])
	return 2
}

// emulated returns the arguments after "probe", if the driver qemu runs the probe as an emulator. The driver gives it
// options of its own.
func emulated(args []string) []string {
	if len(args) == 1 && args[0] == "--version" {
		fmt.Println("probe version 9.9")
		os.Exit(0)
	}
	if i := slices.Index(args, "probe"); len(args) > 0 && args[0] == "-machine" && i >= 0 {
		return args[i+1:]
	}
	return args
}

// runAll tries every operation in a separate process.
func runAll(targets string) int {
	// This runs before anything is opened: only inherited descriptors are open.
	fmt.Printf("identity/descriptors\t%s\n", verdict(strayDescriptors()))
	for _, op := range Operations() {
		fmt.Printf("%s\t%s\n", op.Name, runOne(op.Name, targets))
	}
	fmt.Println("end")
	return 0
}

func runOne(name, targets string) string {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, self(), "try", name, targets)
	cmd.WaitDelay, cmd.Stdin, cmd.ExtraFiles = time.Second, os.Stdin, []*os.File{os.Stdout} // as logFD
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		return fmt.Sprintf("broken: %v", err)
	}
	if ctx.Err() != nil {
		return "hung"
	}
	last := strings.TrimSpace(string(out))
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return "denied " + unix.SignalName(ws.Signal())
	}
	if err != nil || strings.Contains(last, "\n") {
		return fmt.Sprintf("broken: %v: %s", err, strings.ReplaceAll(last, "\n", " "))
	}
	return last
}

// self returns the path of this program. /proc/self/exe may not be visible.
func self() string { return os.Args[0] }

func tryOne(name, file string) int {
	text, err := os.ReadFile(file)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	t := new(Targets)
	if err := json.Unmarshal(text, t); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for _, op := range Operations() {
		if op.Name == name {
			fmt.Println(verdict(uninterrupted(op.try, t)))
			return 0
		}
	}
	fmt.Fprintf(os.Stderr, "no operation %q\n", name)
	return 1
}

// uninterrupted retries after EINTR. Go's runtime causes it with the signals that preempt threads.
func uninterrupted(try func(*Targets) error, t *Targets) error {
	err := try(t)
	for again := 0; again < 10 && errors.Is(err, unix.EINTR); again++ {
		err = try(t)
	}
	return err
}

// verdict returns the table entry of an error.
func verdict(err error) string {
	var errno unix.Errno
	switch {
	case err == nil:
		return "allowed"
	case errors.Is(err, errNothing):
		return "nothing"
	case !errors.As(err, &errno):
		return "broken: " + err.Error()
	}
	switch errno {
	case unix.ENOENT, unix.ESRCH, unix.ENXIO, unix.ENODEV:
		return "absent " + unix.ErrnoName(errno)
	}
	return "denied " + unix.ErrnoName(errno)
}

// reached converts errors to success if the kernel returns them only after the permission check.
func reached(err error, errnos ...unix.Errno) error {
	var errno unix.Errno
	if errors.As(err, &errno) && slices.Contains(errnos, errno) {
		return nil
	}
	return err
}

// call makes a system call on the current thread.
func call(nr uintptr, args ...uintptr) error {
	_, err := value(nr, args...)
	return err
}

// value is call for system calls with a result.
func value(nr uintptr, args ...uintptr) (uintptr, error) {
	var a [6]uintptr
	copy(a[:], args)
	r, _, e := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
	if e != 0 {
		return r, e
	}
	return r, nil
}
