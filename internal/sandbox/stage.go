package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/internal/launch"
	"github.com/open-nomad/open-nomad/internal/safefs"
)

// Entry is the name of the stage in package companion.
const Entry = "nomad-sandbox"

// Descriptors of the stage, besides 0–2 of the program. Package launch passes them.
const (
	policyFD = 3 // memory file with the policy
	statusFD = 4 // pipe or socket for the error, if any
)

// Credentials, no_new_privs, Landlock and seccomp belong to a thread. The stage's thread executes
// the program, and the kernel ends the others.
func init() {
	companion.RegisterThread(Entry, entry)
}

// entry executes the program, or reports why it could not.
func entry() int {
	err := stageRun(os.Args[1:])
	unix.Write(statusFD, []byte(err.Error())) //nolint:errcheck // the starter has ended
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
	// From here on execve closes every descriptor but 0–2.
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

// inTime resets the timer slack that init set (internal/tinyinit). The kernel's reset applies to
// the main thread only, and without the companion this may be another thread.
func inTime() error {
	slack, err := strconv.ParseUint(os.Getenv(launch.TimerSlack), 10, 64)
	if err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0)
}

// readPolicy reads the memfd and closes it.
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

// Encode encodes p for the stage. It refuses an invalid policy.
func Encode(p *Policy) ([]byte, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return p.encode(), nil
}

// Kept returns p without its environment, the part that may be stored while the program runs.
func (p *Policy) Kept() *Policy {
	kept := *p
	kept.Env = nil
	return &kept
}

// Declare encodes p for storage, without its environment.
func Declare(p *Policy) ([]byte, error) {
	raw, err := json.Marshal(p.Kept())
	if err != nil {
		return nil, fmt.Errorf("encode policy: %w", err)
	}
	return raw, nil
}

// Declared decodes the result of Declare.
func Declared(raw []byte) (*Policy, error) {
	p := new(Policy)
	if err := json.Unmarshal(raw, p); err != nil {
		return nil, fmt.Errorf("decode the policy of a running program: %w", err)
	}
	return p, nil
}

// Session returns the policy of a further program next to the one with policy p. The starter enters
// the existing namespaces of that program, and the further program ends with its starter.
func (p *Policy) Session(argv []string, env Environment) *Policy {
	b := *p
	b.Argv, b.Env = argv, env
	b.Foreign = append(b.Foreign[:len(b.Foreign):len(b.Foreign)], p.Mounts.points()...)
	b.PrivatePID, b.OwnUsers, b.PrivateIPC, b.NetNS, b.Hostname, b.Mounts = false, false, false, "", "", nil
	b.Bound, b.SkipGone, b.NotFound = true, true, ""
	return &b
}

// join adds the calling thread to control groups.
func join(files []string) error {
	for _, f := range files {
		if err := joinFile(f); err != nil {
			return fmt.Errorf("join control group: %w", err)
		}
	}
	return nil
}

// apply applies p to the calling thread.
func (p *Policy) apply() error {
	if err := p.scoreOOM(); err != nil {
		return fmt.Errorf("set oom score: %w", err)
	}
	lookup := &lookup{links: p.links()}
	if err := p.isolate(lookup); err != nil {
		return err
	}
	rules, err := p.openPaths(lookup)
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
	if p.ByDescriptor {
		if err := p.checkDescriptor(); err != nil {
			return fmt.Errorf("execute a file by its descriptor: %w", err)
		}
	}
	// Late, since they apply to this process too: it may need more descriptors than the limit.
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

// enter changes to the working directory if p.DirAs is as.
func (p *Policy) enter(as DirAs) error {
	if p.DirAs != as {
		return nil
	}
	err := unix.Chdir(p.Dir)
	if err == unix.ENOENT && as == DirAsUser && p.User != nil && p.Mounts != nil && p.Mounts.Root != nil {
		if err = os.MkdirAll(p.Dir, 0o755); err == nil { // with the rights of the user, in its own root
			err = unix.Chdir(p.Dir)
		}
	}
	if err != nil {
		return fmt.Errorf("change to working directory %s: %w", p.Dir, err)
	}
	return nil
}

// scoreOOM sets the OOM score. The supervisor has a low score, which its children must not inherit.
// A score below the policy's is always raised. A score above 0 is kept unless the policy sets one,
// since lowering needs a privilege.
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

// openPaths opens the granted paths while that is still possible, so that the rules are for these
// files. A path that a foreign mount hides is omitted, since the grant was for the host's file. A
// missing optional path is omitted, too. A session omits paths that no longer exist, but not those
// hidden by a link that must not be followed. The program's executable, if it is a descriptor, may
// be read and executed.
func (p *Policy) openPaths(lookup *lookup) (landlock.Ruleset, error) {
	if p.Files == nil {
		return landlock.Ruleset{}, nil
	}
	rs := landlock.Ruleset{TCP: p.Files.TCP, Ioctl: p.Files.Ioctl, Signal: p.Files.Signal, MinABI: p.Files.MinABI, Log: p.LogDenials}
	for _, path := range p.Files.Paths {
		f, err := path.open(lookup)
		var refused linkError
		switch hidden := errors.Is(err, errHidden); {
		case hidden && path.Beneath == "":
			continue
		case path.Optional && (isGone(err) || errors.Is(err, syscall.EACCES)):
			continue
		case p.SkipGone && (hidden || isGone(err) && !errors.As(err, &refused)):
			continue // the task has removed it
		}
		if err != nil {
			return rs, fmt.Errorf("open granted path %s: %w", path, err)
		}
		if path.Device && !isDevice(int(f)) {
			return rs, fmt.Errorf("open granted path %s: %w", path, errNoDevice)
		}
		if unreachable(int(f)) {
			f.Close()
			continue
		}
		rs.Paths = append(rs.Paths, landlock.Path{Modes: path.Modes, FD: int(f), Name: path.String(), Device: path.Device})
	}
	if !p.ByDescriptor {
		return rs, nil
	}
	internal, err := landlock.Internal(launch.ExecutableFD)
	if err != nil {
		return rs, fmt.Errorf("allow the program's executable: %w", err)
	}
	if !internal {
		rs.Paths = append(rs.Paths, landlock.Path{Modes: "rx", FD: launch.ExecutableFD, Name: "the program's executable"})
	}
	return rs, nil
}

// isGone reports whether a path no longer exists or leads elsewhere.
func isGone(err error) bool {
	for _, e := range []error{syscall.ENOENT, syscall.ENOTDIR, syscall.ELOOP, syscall.EXDEV} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (p Path) open(lookup *lookup) (opened, error) {
	if p.Beneath == "" {
		return lookup.open(p.Name)
	}
	root, err := lookup.open(p.Beneath)
	if err != nil {
		return -1, err
	}
	defer root.Close()
	fd, err := safefs.OpenBeneath(int(root.Fd()), p.Name, unix.O_PATH)
	if err != nil {
		return -1, err
	}
	return opened(fd), nil
}
