// Package companion runs the small program between the client and a task: the supervisor
// (internal/supervise/server) and the sandbox stage (internal/sandbox). Starting the large agent binary
// takes tens of milliseconds for its package initialisers alone; the companion needs about one.
//
// `make build` first builds internal/companion/cmd and embeds it (build tag "companion"). It then
// runs from a sealed memfd that no task can open. A build without the tag re-executes itself
// instead, which is slower but behaves the same. In both cases argv[0] selects the entry, never the
// environment:
//
//	parent ──exec(Path(), argv[0] = entry name)──▶ Main ──▶ entry ──▶ exit
//
// Entries register themselves from an init function, and the chosen one names the process. The
// package starts no goroutine.
//
// An entry that changes its thread permanently and then executes another program is registered with
// RegisterThread. The embedded program runs it before main, when the runtime still locks the main
// goroutine to the main thread. Locking it later would start another thread, which the kernel would
// have to end at the execve.
package companion

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/memfd"
)

// selfPath is the executable of the calling process.
const selfPath = "/proc/self/exe"

// entry is a function of the program, selected by argv[0].
type entry struct {
	run    func() int
	thread bool // runs on the main thread
}

var entries = map[string]entry{}

// Register registers run for argv[0] == name. Run returns the exit status. Call Register from an
// init function only.
func Register(name string, run func() int) { register(name, entry{run: run}) }

// RegisterThread is Register for an entry that must run on the main thread.
func RegisterThread(name string, run func() int) { register(name, entry{run: run, thread: true}) }

func register(name string, e entry) {
	if _, dup := entries[name]; dup {
		panic("companion: bug: entry registered twice: " + name)
	}
	entries[name] = e
	if len(os.Args) > 0 && os.Args[0] == name {
		nameProcess(name)
	}
}

// nameProcess sets the name of the process in ps(1). The kernel would use that of the file, which is
// a number for a descriptor. It names the calling thread, which in an init function is the main one.
func nameProcess(name string) {
	text, err := unix.BytePtrFromString(name)
	if err == nil {
		unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(text)), 0, 0, 0) //nolint:errcheck // only a name
	}
}

// Main runs the entry named by argv[0] and does not return. For any other argv[0] it returns at
// once. It must be the first call of main and of TestMain.
func Main() {
	e, ok := chosen()
	if !ok {
		return
	}
	if e.thread {
		runtime.LockOSThread()
	}
	entered = true
	os.Exit(e.run())
}

// Init runs entries of RegisterThread. Call it from an init function of package main, which runs on
// the main thread (package runtime).
func Init() {
	if e, ok := chosen(); ok && e.thread {
		entered = true
		os.Exit(e.run())
	}
}

// entered reports whether the chosen entry runs.
var entered bool

// refuse ends a process that was started for an entry and reached the rest of the program: its main function, or the
// TestMain of a test, does not call Main. Such a process would start itself again and again.
func refuse() {
	if _, ok := chosen(); ok && !entered {
		fmt.Fprintf(os.Stderr, "companion: bug: the process %s did not run its entry: call companion.Main first in main and in TestMain\n",
			os.Args[0])
		os.Exit(2)
	}
}

// Self returns the executable of the calling process, which has all of its entries.
func Self() string {
	refuse()
	return selfPath
}

func chosen() (entry, bool) {
	if len(os.Args) == 0 {
		return entry{}, false
	}
	e, ok := entries[os.Args[0]]
	return e, ok
}

// Embedded reports whether this build contains the small program.
func Embedded() bool { return len(binary) > 0 }

// Path returns the executable of the entries. It is valid in this process and in a child that it
// forks.
func Path() string {
	refuse()
	return path()
}

var path = sync.OnceValue(func() string {
	if !Embedded() {
		return selfPath
	}
	fd, err := memfd.NewProgram("nomad-companion", binary)
	if err != nil {
		// vm.memfd_noexec can forbid executable memfds. The agent's own binary has the same
		// entries.
		return selfPath
	}
	// The path names this process, not "self": between fork and exec a child moves descriptors and
	// may replace this one.
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd)
})
