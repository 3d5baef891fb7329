package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/internal/launch"
)

// Entry is the stage's name for companion.
const Entry = "nomad-sandbox"

// Descriptors that the stage is started with, besides 0–2 of the program: the
// contract of internal/supervise.
const (
	policyFD = 3 // memory file with the policy
	statusFD = 4 // pipe or socket for the error, if any
)

// defaultPath is searched when the program's environment has no PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Credentials, no_new_privs, Landlock and seccomp belong to a thread; that of the stage
// executes the program and the kernel ends the others.
func init() {
	companion.RegisterThread(Entry, entry)
}

// entry becomes the program, or reports why it could not.
func entry() int {
	err := stageRun(os.Args[1:])
	unix.Write(statusFD, []byte(err.Error())) //nolint:errcheck // the starter has ended: nobody reads it
	return 1
}

// stageRun returns the reason why the program could not be executed.
func stageRun(groups []string) error {
	if err := inTime(); err != nil {
		return fmt.Errorf("reset timer slack: %w", err)
	}
	if err := heedSignals(); err != nil {
		return err
	}
	// From here on execve closes everything but 0–2, whatever the starter left open.
	if err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("mark descriptors: %w", err)
	}
	if err := launch.Await(statusFD); err != nil {
		return err
	}
	p, err := readPolicy(policyFD)
	if err != nil {
		return err
	}
	if err := p.narrowLogs(); err != nil {
		return err
	}
	if err := join(groups); err != nil {
		return err
	}
	if err := p.apply(); err != nil {
		return err
	}
	err = p.exec()
	if p.MissingExit != 0 && isMissing(err) {
		unix.Close(statusFD)
		fmt.Fprintf(os.Stderr, "failed to execute command: %v\n", err)
		os.Exit(p.MissingExit)
	}
	return err
}

// inTime undoes for the program what init does to timers (internal/tinyinit). The kernel's own
// reset would be for the main thread alone, and without the companion this may be another.
func inTime() error {
	slack, err := strconv.ParseUint(os.Getenv(launch.TimerSlack), 10, 64)
	if err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0)
}

// readPolicy reads the memory file fd and closes it.
func readPolicy(fd int) (*Policy, error) {
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("read policy: %w", err)
	}
	raw := make([]byte, st.Size)
	n, err := unix.Pread(fd, raw, 0)
	if err != nil {
		return nil, fmt.Errorf("read policy: %w", err)
	}
	p, err := decode(raw[:n])
	if err != nil {
		return nil, err
	}
	return p, p.Validate()
}

// Encode turns p into what the stage reads; a policy that can't be meant is an error.
func Encode(p *Policy) ([]byte, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return p.encode(), nil
}

// Kept returns what may be stored of p for as long as the program runs: all but its
// environment.
func (p *Policy) Kept() *Policy {
	kept := *p
	kept.Env = nil
	return &kept
}

// Declare encodes what may be stored of p. Declared reads it.
func Declare(p *Policy) ([]byte, error) {
	raw, err := json.Marshal(p.Kept())
	if err != nil {
		return nil, fmt.Errorf("encode policy: %w", err)
	}
	return raw, nil
}

// Declared reads what Declare wrote.
func Declared(raw []byte) (*Policy, error) {
	p := new(Policy)
	if err := json.Unmarshal(raw, p); err != nil {
		return nil, fmt.Errorf("decode the policy of a running program: %w", err)
	}
	return p, nil
}

// Beside is p for a further program beside the one that p was for: in the same
// namespaces, which are there already and are entered by whoever starts it, and with which
// it ends.
func (p *Policy) Beside(argv []string, env Environment) *Policy {
	b := *p
	b.Argv, b.Env = argv, env
	b.Foreign = append(b.Foreign[:len(b.Foreign):len(b.Foreign)], p.Mounts.points()...)
	b.PrivatePID, b.OwnUsers, b.PrivateIPC, b.NetNS, b.Mounts = false, false, false, "", nil
	b.Bound = true
	return &b
}

// join makes the calling thread a member of control groups.
func join(files []string) error {
	for _, f := range files {
		if err := joinFile(f); err != nil {
			return fmt.Errorf("join control group: %w", err)
		}
	}
	return nil
}

// apply puts the calling thread under p.
func (p *Policy) apply() error {
	if err := p.scoreOOM(); err != nil {
		return fmt.Errorf("set oom score: %w", err)
	}
	look := &lookup{links: p.links()}
	if err := p.isolate(look); err != nil {
		return err
	}
	rules, err := p.openPaths(look)
	if err != nil {
		return err
	}
	if err := p.enter(DirAsStarter); err != nil {
		return err
	}
	if err := p.dropPrivileges(); err != nil {
		return err
	}
	if err := p.bind(); err != nil {
		return err
	}
	if err := p.enter(DirAsUser); err != nil {
		return err
	}
	if p.Files != nil {
		if err := rules.Restrict(); err != nil {
			return err
		}
	}
	// Late, for they bind this process too: few descriptors would keep it from its work.
	for _, r := range p.Rlimits {
		lim := unix.Rlimit{Cur: r.Soft, Max: r.Hard}
		if err := unix.Setrlimit(r.Resource, &lim); err != nil {
			return fmt.Errorf("set resource limit %d: %w", r.Resource, err)
		}
	}
	if p.Seccomp != SeccompNone {
		return p.loadFilter()
	}
	return nil
}

// enter changes to the working directory if now is the time for it.
func (p *Policy) enter(as DirAs) error {
	if p.DirAs != as {
		return nil
	}
	if err := unix.Chdir(p.Dir); err != nil {
		return fmt.Errorf("change to working directory %s: %w", p.Dir, err)
	}
	return nil
}

// scoreOOM sets the OOM score. The supervisor is spared when memory is short, and
// what it starts must not be: a lower score than the policy's is raised in any case. A
// higher one than 0 stays unless the policy names one, for lowering takes a privilege.
func (p *Policy) scoreOOM() error {
	const file = "/proc/self/oom_score_adj"
	text, err := readProc(file)
	if err != nil {
		return err
	}
	now, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		return err
	}
	if now == p.OOMScoreAdj || now > 0 && p.OOMScoreAdj == 0 {
		return nil
	}
	return writeProc(file, strconv.Itoa(p.OOMScoreAdj))
}

// openPaths opens what is granted while that is still possible, so that the rules
// are for these very files. What a foreign mount hides is not granted: the grant was
// for what the host has there; nor is an optional path that is not there. A program beside
// another goes without what is gone, but not without what a link that it may not follow hides.
func (p *Policy) openPaths(look *lookup) (landlock.Ruleset, error) {
	if p.Files == nil {
		return landlock.Ruleset{}, nil
	}
	rs := landlock.Ruleset{TCP: p.Files.TCP, MinABI: p.Files.MinABI, Log: p.LogDenials}
	for _, path := range p.Files.Paths {
		f, err := path.open(look)
		var refused linkError
		switch hidden := errors.Is(err, errHidden); {
		case hidden && path.Beneath == "":
			continue
		case path.Optional && (isGone(err) || errors.Is(err, syscall.EACCES)):
			continue
		case p.Bound && (hidden || isGone(err) && !errors.As(err, &refused)):
			continue // the other program has removed it
		}
		if err != nil {
			return rs, fmt.Errorf("open granted path %s: %w", path, err)
		}
		if unreachable(int(f)) {
			f.Close()
			continue
		}
		rs.Paths = append(rs.Paths, landlock.Path{Modes: path.Modes, FD: int(f), Name: path.String()})
	}
	return rs, nil
}

// isGone says that a path leads to nothing any more, or elsewhere.
func isGone(err error) bool {
	for _, e := range []error{syscall.ENOENT, syscall.ENOTDIR, syscall.ELOOP, syscall.EXDEV} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (p Path) open(look *lookup) (opened, error) {
	if p.Beneath == "" {
		return look.open(p.Name)
	}
	root, err := look.open(p.Beneath)
	if err != nil {
		return -1, err
	}
	defer root.Close()
	fd, err := unix.Openat2(int(root.Fd()), p.Name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: inside})
	if err != nil {
		return -1, err
	}
	return opened(fd), nil
}

// exec executes the program: a name without slash is tried in each directory of
// Search and PATH.
func (p *Policy) exec() error {
	if err := unblockSignals(); err != nil {
		return err
	}
	name := p.Argv[0]
	var last error = syscall.ENOENT
	for _, c := range p.candidates(name) {
		err := syscall.Exec(c, p.Argv, p.Env)
		switch err {
		case syscall.ENOENT, syscall.ENOTDIR:
			continue
		case syscall.EACCES: // a later directory may have one that is allowed
			last = err
			continue
		}
		return &os.PathError{Op: "execute", Path: name, Err: err}
	}
	return &os.PathError{Op: "execute", Path: name, Err: last}
}

// heedSignals takes back that a signal is ignored, for that alone would outlive the execve:
// what the agent was started with, such as nohup, is not the program's matter. The others
// are the Go runtime's until then.
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

// unblockSignals gives the program an empty mask.
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

// isMissing says that the program is not there or not executable, as opposed to
// a sandbox that could not be built.
func isMissing(err error) bool {
	for _, e := range []error{syscall.ENOENT, syscall.EACCES, syscall.ENOEXEC, syscall.EISDIR} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
