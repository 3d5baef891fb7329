package launch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/memfd"
	"github.com/open-nomad/open-nomad/internal/tinyinit"
)

// Start holds the parameters of Fork.
type Start struct {
	Program  string      // path of the companion, valid in this process and in its children
	Entry    string      // companion entry, which executes the program in its place
	Policy   []byte      // input of the entry, not interpreted here
	Stdio    [3]*os.File // descriptors 0 to 2 of the program
	Terminal bool        // descriptor 0 becomes the controlling terminal
	GroupDir string      // cgroup v2 directory to clone into; "" is the caller's group
	Join     []string    // files of control groups to join by writing "0"

	Init  bool     // create a PID namespace, with init as process 1
	Enter *os.File // pidfd of a process whose namespaces (PID, mount, IPC, network) to join

	// Users creates the namespaces of Init inside a new user namespace that maps only the caller's
	// uid and gid, as an unprivileged user must. The stage has the capabilities that it needs
	// there, and drops them. With Enter, it means that the process was started so; the network
	// namespace is then the caller's.
	Users bool
	// Bound kills the child when the thread that forked it ends: init, or the stage until it
	// changes its user. For the program itself, the policy must set it.
	Bound bool

	// Held makes the stage wait for Process.Go. If the starter ends first, the stage ends too.
	Held bool

	// Status is the file to which init writes the program's wait status; nil creates a memfd. It is
	// ignored without Init or Enter.
	Status *os.File
}

// Process is a forked stage, and the program that replaces it.
type Process struct {
	PID   int      // the child: init if there is one, else the program
	Pidfd *os.File // of PID, nonblocking; the caller closes it

	report *os.File // our end of the report pipe, a socket if the stage is held
	status *os.File // nil without init
	held   bool
}

// TimerSlack names the variable that passes our timer slack, in nanoseconds, to the stage. The
// program gets the same slack.
const TimerSlack = "NOMAD_TIMER_SLACK"

// environ returns the stage's environment, never the program's. One processor and no garbage
// collector are faster for a process that lives two milliseconds.
func environ() ([]string, error) {
	slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		return nil, fmt.Errorf("read the timer slack: %w", err)
	}
	return []string{"GOMAXPROCS=1", "GOGC=off", TimerSlack + "=" + strconv.Itoa(slack)}, nil
}

// Names of the descriptors of init and the stage, by number; see the package doc.
const firstFile = 3

// forking holds what Fork has open until it returns.
type forking struct {
	*Start
	files []*os.File // descriptors of the child, from 0 on
	ours  []*os.File // files to close
	group *os.File   // GroupDir
	sys   syscall.SysProcAttr
	path  string
	argv  []string
}

// Fork starts the stage. The caller then calls Ready, and reaps the process.
func (s *Start) Fork() (*Process, error) {
	f := &forking{Start: s, files: s.Stdio[:], path: s.Program, argv: append([]string{s.Entry}, s.Join...)}
	defer f.close()
	p, err := f.fork()
	if err != nil {
		return nil, fmt.Errorf("start the sandbox stage: %w", err)
	}
	return p, nil
}

func (f *forking) close() {
	for _, o := range f.ours {
		o.Close()
	}
}

func (f *forking) fork() (*Process, error) {
	policy, err := memfd.New("nomad-policy", f.Policy)
	if err != nil {
		return nil, err
	}
	f.ours = append(f.ours, policy)
	report, write, err := f.reportEnds()
	if err != nil {
		return nil, err
	}
	f.ours = append(f.ours, write)
	f.files = append(f.files[:firstFile:firstFile], policy, write)
	p := &Process{report: report, held: f.Held}
	if err := f.start(p); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// reportEnds returns our end of the report, for reading, and the child's end. A held child also
// reads from its end.
func (f *forking) reportEnds() (ours, childs *os.File, err error) {
	if !f.Held {
		return os.Pipe()
	}
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make report sockets: %w", err)
	}
	// Only our end is nonblocking. The child's reads block.
	if err := unix.SetNonblock(ends[0], true); err != nil {
		unix.Close(ends[0])
		unix.Close(ends[1])
		return nil, nil, fmt.Errorf("make report sockets: %w", err)
	}
	return os.NewFile(uintptr(ends[0]), "stage"), os.NewFile(uintptr(ends[1]), "stage"), nil
}

// start opens the files of the child and forks it.
func (f *forking) start(p *Process) error {
	if err := f.openTaken(p); err != nil {
		return err
	}
	if err := f.prepare(p); err != nil {
		return err
	}
	return f.exec(p)
}

// openTaken opens the files that the child inherits.
func (f *forking) openTaken(p *Process) (err error) {
	if f.GroupDir != "" {
		if f.group, err = os.OpenFile(f.GroupDir, unix.O_PATH|unix.O_DIRECTORY, 0); err != nil {
			return fmt.Errorf("open group: %w", err)
		}
		f.ours = append(f.ours, f.group)
	}
	if !f.Init && f.Enter == nil {
		return nil
	}
	if p.status = f.Status; p.status == nil {
		p.status, err = memfd.New("nomad-status", nil)
	}
	return err
}

// prepare fills in the attributes of the child.
func (f *forking) prepare(p *Process) error {
	f.sys.Setsid = true
	if f.Bound {
		f.sys.Pdeathsig = syscall.SIGKILL
	}
	if f.group != nil {
		f.sys.UseCgroupFD, f.sys.CgroupFD = true, int(f.group.Fd())
	}
	if f.Init || f.Enter != nil {
		return f.underInit(p)
	}
	f.sys.Setctty = f.Terminal // Ctty 0 is the child's descriptor
	return nil
}

// underInit makes the child init, which starts the stage.
func (f *forking) underInit(p *Process) error {
	if f.Init && f.Enter != nil {
		return errors.New("fields Init and Enter exclude each other")
	}
	program, err := initFile()
	if err != nil {
		return err
	}
	companion, err := os.OpenFile(f.Program, unix.O_PATH, 0)
	if err != nil {
		return fmt.Errorf("open the companion: %w", err)
	}
	f.ours = append(f.ours, companion)
	var flags tinyinit.Flags
	if f.Terminal {
		flags |= tinyinit.Terminal
	}
	f.files = append(f.files, p.status, companion)
	if f.Enter != nil {
		flags |= tinyinit.Enter
		f.files = append(f.files, f.Enter)
	} else {
		f.sys.Cloneflags = unix.CLONE_NEWPID
	}
	if f.Users {
		flags |= tinyinit.Users
		f.ownUsers()
	}
	// The path uses the child's descriptor number. In its own user namespace, the child may not
	// access its parent's descriptors, and Go moves other files only to numbers that it considers
	// free. The descriptor closes with the execve of the stage, and init closes it.
	f.path = fmt.Sprintf("/proc/self/fd/%d", len(f.files))
	f.files = append(f.files, program)
	f.argv = tinyinit.Args(flags, f.argv)
	return nil
}

// ownUsers creates the child's namespaces in a user namespace of its own. A program executed with a
// uid other than 0 keeps ambient capabilities only.
func (f *forking) ownUsers() {
	if f.Enter != nil {
		return
	}
	uid, gid := os.Geteuid(), os.Getegid()
	f.sys.Cloneflags |= unix.CLONE_NEWUSER
	f.sys.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
	f.sys.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	f.sys.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP}
}

func (f *forking) exec(p *Process) error {
	pidfd := -1
	f.sys.PidFD = &pidfd
	fds := make([]uintptr, len(f.files))
	for i, file := range f.files {
		fds[i] = file.Fd()
	}
	env, err := environ()
	if err != nil {
		return err
	}
	p.PID, err = syscall.ForkExec(f.path, f.argv, &syscall.ProcAttr{Dir: "/", Env: env, Files: fds, Sys: &f.sys})
	if err != nil {
		return fmt.Errorf("%s: %w", f.what(), err)
	}
	if pidfd < 0 {
		if pidfd, err = unix.PidfdOpen(p.PID, 0); err != nil {
			return errors.Join(fmt.Errorf("watch process %d: %w", p.PID, err), p.end())
		}
	}
	if p.Pidfd, err = Pollable(pidfd); err != nil {
		return errors.Join(err, p.end())
	}
	return nil
}

// what describes the requests of a fork, since its errno is shared by several layers of the kernel.
func (f *forking) what() string {
	asked := "fork and execute"
	if f.sys.Cloneflags&unix.CLONE_NEWUSER != 0 {
		asked += " in a user namespace (user.max_user_namespaces)"
	}
	if f.sys.Cloneflags&unix.CLONE_NEWPID != 0 {
		asked += " in a PID namespace (user.max_pid_namespaces)"
	}
	if f.sys.UseCgroupFD {
		asked += " in group " + f.GroupDir
	}
	return asked
}

// end kills and reaps a child whose Fork failed.
func (p *Process) end() error {
	if err := unix.Kill(p.PID, unix.SIGKILL); err != nil {
		return err
	}
	_, err := p.Reap()
	return err
}

// Pollable returns a nonblocking file for a pidfd, so that waiting does not block a thread. It
// takes ownership of the descriptor, also on failure.
func Pollable(pidfd int) (*os.File, error) {
	if err := unix.SetNonblock(pidfd, true); err != nil {
		unix.Close(pidfd)
		return nil, fmt.Errorf("watch process: %w", err)
	}
	return os.NewFile(uintptr(pidfd), "pidfd"), nil
}

// Go starts a held stage; it does nothing for others. If the stage has failed already, Ready
// returns the reason.
func (p *Process) Go() error {
	if !p.held {
		return nil
	}
	if _, err := p.report.Write([]byte{0}); err != nil && !errors.Is(err, unix.EPIPE) {
		return fmt.Errorf("release the sandbox stage: %w", err)
	}
	return nil
}

// Await is the first call of the stage: it waits for Go if the stage is held. The descriptor is
// that of the report.
func Await(report int) error {
	var st unix.Stat_t
	if err := unix.Fstat(report, &st); err != nil {
		return fmt.Errorf("read the report's descriptor flags: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil
	}
	var said [1]byte
	for {
		n, err := unix.Read(report, said[:])
		switch {
		case err == unix.EINTR:
		case err != nil:
			return fmt.Errorf("wait for the starter: %w", err)
		case n == 0:
			return errors.New("the starter has ended")
		default:
			return nil
		}
	}
}

// Ready returns when the program has been executed, or with the reason of a failure.
func (p *Process) Ready() (reason string, err error) {
	text, err := io.ReadAll(p.report)
	if err != nil && !(p.held && errors.Is(err, unix.ECONNRESET)) { // reset by a stage that ended before Go
		return "", fmt.Errorf("read start status: %w", err)
	}
	return tinyinit.Reason(string(text)), nil
}

// Main returns the PID of the program after Ready: init's child, or 0 if init has reaped it.
func (p *Process) Main() int {
	if p.status == nil {
		return p.PID
	}
	return tinyinit.ChildPID(p.status)
}

// Wait blocks until the child has ended, reaps it and returns the program's wait status.
func (p *Process) Wait() (unix.WaitStatus, error) {
	if err := p.awaitEnd(); err != nil {
		return 0, fmt.Errorf("wait for process %d: %w", p.PID, err)
	}
	return p.Reap()
}

// awaitEnd waits, in the poller, until the child has ended.
func (p *Process) awaitEnd() error {
	conn, err := p.Pidfd.SyscallConn()
	if err != nil {
		return err
	}
	return conn.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		return n > 0 || err != nil && err != unix.EINTR
	})
}

// Reap waits for the child, reaps it and returns the program's wait status. This is init's own
// status if init was killed before it wrote one.
func (p *Process) Reap() (ws unix.WaitStatus, err error) {
	for {
		_, err = unix.Wait4(p.PID, &ws, 0, nil)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return 0, fmt.Errorf("reap process %d: %w", p.PID, err)
	}
	if p.status == nil {
		return ws, nil
	}
	if told, ok := tinyinit.ReadStatus(p.status); ok {
		ws = told
	}
	return ws, nil
}

// Close closes what Fork opened, except Pidfd. The program continues.
func (p *Process) Close() {
	p.report.Close()
	if p.status != nil {
		p.status.Close() // only read, if at all
	}
}
