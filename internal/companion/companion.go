// Package companion is how the small program is run that stands between the
// client and a task: the supervisor (internal/supervise) and the sandbox stage
// (internal/sandbox). Starting the big agent binary only to run its package
// initialisers costs tens of milliseconds; the companion needs about one.
//
// `make build` builds internal/companion/cmd first and embeds it (build tag
// "companion"); it then runs from a sealed memfd that no task can open. A build
// without the tag runs itself again instead: slower, same behaviour. Both ways
// the entry is chosen by argv[0], never by the environment:
//
//	parent ──exec(Path(), argv[0] = entry name)──▶ Main ──▶ entry ──▶ exit
//
// Entries register themselves from an init function. It starts no goroutine.
//
// An entry that changes its thread for good and executes another program in its place is
// registered with RegisterThread. The embedded program runs it before main, where the
// runtime holds the main goroutine to the main thread: locking it there later would start
// another thread, which the kernel had to end again at the execve.
package companion

import (
	"fmt"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// selfPath names the program of the calling process, whatever it was started from.
const selfPath = "/proc/self/exe"

// entry is what the program does for a name.
type entry struct {
	run    func() int
	thread bool // must stay on one thread
}

var entries = map[string]entry{}

// Register makes run the program for argv[0] == name; run returns the exit
// status. Call it from an init function only.
func Register(name string, run func() int) { register(name, entry{run: run}) }

// RegisterThread is Register for what runs on one thread from beginning to end.
func RegisterThread(name string, run func() int) { register(name, entry{run: run, thread: true}) }

func register(name string, e entry) {
	if _, dup := entries[name]; dup {
		panic("companion: bug: entry registered twice: " + name)
	}
	entries[name] = e
}

// Main runs the entry named by argv[0] and does not return; for any other
// argv[0] it returns at once. It is the first call of main and of TestMain.
func Main() {
	e, ok := chosen()
	if !ok {
		return
	}
	if e.thread {
		runtime.LockOSThread()
	}
	os.Exit(e.run())
}

// Init is Main for those of RegisterThread, to be called from an init function of the
// program's main package, which runs on the main thread (package runtime).
func Init() {
	if e, ok := chosen(); ok && e.thread {
		os.Exit(e.run())
	}
}

func chosen() (entry, bool) {
	if len(os.Args) == 0 {
		return entry{}, false
	}
	e, ok := entries[os.Args[0]]
	return e, ok
}

// Embedded says whether the small program is part of this build.
func Embedded() bool { return len(binary) > 0 }

// Path returns the path to execute for an entry, valid in this process and in a
// child it forks.
func Path() string { return path() }

var path = sync.OnceValue(func() string {
	if !Embedded() {
		return selfPath
	}
	fd, err := sealed(binary)
	if err != nil {
		// Executable memory files can be forbidden (vm.memfd_noexec): the agent's
		// own binary has the same entries.
		return selfPath
	}
	// Named by this process's table, not by "self": between fork and exec a child
	// moves descriptors about, and may put another one in the place of this one.
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd)
})

// sealed puts program into a memory file that nobody can change any more. The
// descriptor stays open as long as the process: Path points to it.
func sealed(program []byte) (int, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("nomad-companion", flags|unix.MFD_EXEC)
	if err == unix.EINVAL { // before Linux 6.3 every memfd may be executed
		fd, err = unix.MemfdCreate("nomad-companion", flags)
	}
	if err != nil {
		return -1, fmt.Errorf("create memory file: %w", err)
	}
	for rest := program; len(rest) > 0; {
		n, err := unix.Write(fd, rest)
		if err != nil {
			unix.Close(fd)
			return -1, fmt.Errorf("write memory file: %w", err)
		}
		rest = rest[n:]
	}
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("seal memory file: %w", err)
	}
	return fd, nil
}
