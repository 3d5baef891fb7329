package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/launch"
)

// defaultPath is searched when the program's environment has no PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// exec executes the program. A name without a slash is searched in Search and PATH.
func (p *Policy) exec() error {
	if err := unblockSignals(); err != nil {
		return err
	}
	if p.ByDescriptor {
		return p.execDescriptor()
	}
	name := p.Argv[0]
	var last error = syscall.ENOENT
	for _, c := range p.candidates(name) {
		err := syscall.Exec(c, p.Argv, p.Env)
		switch err {
		case syscall.ENOENT, syscall.ENOTDIR:
			continue
		case syscall.EACCES: // a later directory may have an executable one
			last = err
			if p.Executable && makeExecutable(c) == nil {
				last = syscall.Exec(c, p.Argv, p.Env)
			}
			continue
		}
		return &os.PathError{Op: "execute", Path: name, Err: err}
	}
	if last == syscall.ENOENT && p.NotFound != "" {
		return errors.New(p.NotFound)
	}
	return &os.PathError{Op: "execute", Path: name, Err: last}
}

// makeExecutable lets everybody read and execute a regular file. The thread already has the rights of the
// program's user only.
func makeExecutable(name string) error {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Mode&0o555 == 0o555 {
		return unix.EACCES
	}
	return unix.Fchmod(fd, st.Mode&0o777|0o555)
}

// ownFiles is the directory of links to a process's open files.
const ownFiles = "/proc/self/fd"

// checkDescriptor verifies that the link of ExecutableFD is the kernel's.
func (p *Policy) checkDescriptor() error {
	links, err := openProc(ownFiles, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(links)
	if !isOn(links, unix.PROC_SUPER_MAGIC) {
		return &os.PathError{Op: "open", Path: ownFiles, Err: errNotKernel}
	}
	return nil
}

// execDescriptor executes the file of ExecutableFD. It uses execve(2) on the link of the descriptor
// instead of execveat(2): every seccomp profile of a task allows execve, and package syscall keeps
// the runtime from starting a thread meanwhile.
func (p *Policy) execDescriptor() error {
	err := syscall.Exec(ownFiles+"/"+strconv.Itoa(launch.ExecutableFD), p.Argv, p.Env)
	return &os.PathError{Op: "execute", Path: p.Argv[0] + ", passed by descriptor", Err: err}
}

// heedSignals resets ignored signals, the only disposition that survives an execve. The program
// must not inherit them from the way the agent was started, such as nohup. The Go runtime handles
// all other signals until then.
func heedSignals() error {
	const signals, setSize, ignored = 64, 8, 1
	for sig := uintptr(1); sig <= signals; sig++ {
		if sig == uintptr(unix.SIGKILL) || sig == uintptr(unix.SIGSTOP) {
			continue
		}
		var action [4]uint64 // struct sigaction of the kernel, which begins with the handler
		_, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, 0, uintptr(unsafe.Pointer(&action)), setSize, 0, 0)
		if e == 0 && action[0] == ignored {
			action = [4]uint64{} // all zero is the default
			_, _, e = unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&action)), 0, setSize, 0, 0)
		}
		if e != 0 {
			return fmt.Errorf("reset signal %d: %w", sig, e)
		}
	}
	return nil
}

// unblockSignals sets an empty signal mask.
func unblockSignals() error {
	var none uint64
	if _, _, e := unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&none)), 0, 8, 0, 0); e != 0 {
		return fmt.Errorf("reset signal mask: %w", e)
	}
	return nil
}

func (p *Policy) candidates(name string) []string {
	if filepath.IsAbs(name) {
		return []string{name}
	}
	var out []string
	for _, dir := range p.Search {
		out = append(out, filepath.Join(dir, name))
	}
	if strings.ContainsRune(name, '/') {
		return append(out, name)
	}
	path := defaultPath
	for _, v := range p.Env {
		if s, ok := strings.CutPrefix(v, "PATH="); ok {
			path = s
		}
	}
	for _, dir := range filepath.SplitList(path) {
		if dir == "" {
			dir = "."
		}
		out = append(out, filepath.Join(dir, name))
	}
	return out
}

// isMissing reports whether the program does not exist or is not executable, unlike an error of the
// sandbox.
func isMissing(err error) bool {
	for _, e := range []error{syscall.ENOENT, syscall.EACCES, syscall.ENOEXEC, syscall.EISDIR} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
