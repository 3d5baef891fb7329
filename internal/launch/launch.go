package launch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/tinyinit"
)

// Start is what Fork needs.
type Start struct {
	Program  string      // the companion, a path valid in this process and in its children
	Entry    string      // of the companion, which executes the program in its place
	Policy   []byte      // for the entry, which alone understands it
	Stdio    [3]*os.File // of the program
	Terminal bool        // the program's descriptor 0 becomes its controlling terminal
	GroupDir string      // directory of the version 2 group to be born in, "" for ours
	Join     []string    // files of control groups to join by writing "0"

	Init  bool     // a PID namespace of its own, with init as process 1
	Enter *os.File // pidfd: become part of the namespaces (PID, mount, IPC, network) of that process

	// Users makes those of Init inside a new user namespace, which has nobody but the
	// caller's own uid and gid: that is how an ordinary user may make them. The stage then
	// has what capabilities it needs there, and gives them up. With Enter it says that the
	// process was started so; the network is then the caller's.
	Users bool
	// Bound ends what is started with the thread that forks it: init, or the stage until it
	// changes its user. The policy has to say it for the program.
	Bound bool

	// Held has the stage do nothing before Process.Go. If the starter ends first, so does it.
	Held bool

	// Status is where init writes the program's wait status; nil makes a memory file.
	// It is not looked at without Init or Enter.
	Status *os.File
}

// Process is a stage that was forked, and the program that it becomes.
type Process struct {
	PID   int      // our child: init if there is one, else the program
	Pidfd *os.File // of PID, nonblocking; the caller's to close

	report *os.File // our end of the report pipe, a socket if the stage is held
	status *os.File // nil without init
	held   bool
}

// TimerSlack names the variable that tells the stage how late, in nanoseconds, timers of
// the program may be: as late as ours.
const TimerSlack = "NOMAD_TIMER_SLACK"

// environ is the stage's environment, never the program's: one processor and no
// collector are quicker for a program that lives two milliseconds.
func environ() ([]string, error) {
	slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil {
		return nil, fmt.Errorf("ask for the timer slack: %w", err)
	}
	return []string{"GOMAXPROCS=1", "GOGC=off", TimerSlack + "=" + strconv.Itoa(slack)}, nil
}

// Names of descriptors of init and the stage, by number; see the package.
const firstFile = 3

// forking is what a Fork holds open until it is over.
type forking struct {
	*Start
	files []*os.File // from descriptor 0 on
	ours  []*os.File // those to close
	group *os.File   // GroupDir
	sys   syscall.SysProcAttr
	path  string
	argv  []string
}

// Fork starts the stage. The caller calls Ready next, and reaps the process.
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
	policy, err := memoryFile("nomad-policy", f.Policy)
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

// reportEnds are ours, for reading, and that of the child. The child that is held reads from
// its end, too.
func (f *forking) reportEnds() (ours, childs *os.File, err error) {
	if !f.Held {
		return os.Pipe()
	}
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make report sockets: %w", err)
	}
	// Only our end waits in the poller. The child reads from a socket that blocks.
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

// openTaken opens what the child takes with it.
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
		p.status, err = memoryFile("nomad-status", nil)
	}
	return err
}

// prepare says how the child is to be born.
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

// underInit puts init between the child and the stage.
func (f *forking) underInit(p *Process) error {
	if f.Init && f.Enter != nil {
		return errors.New("a namespace is made or entered, not both")
	}
	program, err := tinyinit.Program()
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
	// By its number in the child, where Go puts it: one in a user namespace of its own may
	// not look at its parent's descriptors, and Go moves others to numbers that are free
	// by its reckoning only. It closes with the execve of the stage, and init closes it.
	f.path = fmt.Sprintf("/proc/self/fd/%d", len(f.files))
	f.files = append(f.files, program)
	f.argv = tinyinit.Args(flags, f.argv)
	return nil
}

// ownUsers makes the child's namespaces belong to a user namespace of its own. A program
// that is executed as another than root has no capabilities but the ambient ones.
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

// what says what a fork asks of the kernel: its error is a number that several layers
// share.
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

// end kills and reaps a child that nobody would know of.
func (p *Process) end() error {
	if err := unix.Kill(p.PID, unix.SIGKILL); err != nil {
		return err
	}
	_, err := p.Reap()
	return err
}

// Pollable makes a pidfd wait in the poller instead of blocking a thread. It takes the
// descriptor also when it fails.
func Pollable(pidfd int) (*os.File, error) {
	if err := unix.SetNonblock(pidfd, true); err != nil {
		unix.Close(pidfd)
		return nil, fmt.Errorf("watch process: %w", err)
	}
	return os.NewFile(uintptr(pidfd), "pidfd"), nil
}

// Go lets go of a stage that is Held; others wait for nobody. If it has failed before, Ready
// says why.
func (p *Process) Go() error {
	if !p.held {
		return nil
	}
	if _, err := p.report.Write([]byte{0}); err != nil && !errors.Is(err, unix.EPIPE) {
		return fmt.Errorf("let the sandbox stage go: %w", err)
	}
	return nil
}

// Await is what the stage calls first: it waits for Go if the stage is held. The descriptor
// is that of the report.
func Await(report int) error {
	var st unix.Stat_t
	if err := unix.Fstat(report, &st); err != nil {
		return fmt.Errorf("look at the report's descriptor: %w", err)
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

// Ready returns when the program has been executed, or with the reason why it could
// not be.
func (p *Process) Ready() (reason string, err error) {
	text, err := io.ReadAll(p.report)
	if err != nil && !(p.held && errors.Is(err, unix.ECONNRESET)) { // by one that ended without hearing Go
		return "", fmt.Errorf("read start status: %w", err)
	}
	return tinyinit.Reason(string(text)), nil
}

// Main is the program's process number, known when Ready has returned: that of init's
// child, or 0 if it has ended and init has reaped it.
func (p *Process) Main() int {
	if p.status == nil {
		return p.PID
	}
	return tinyinit.ChildPID(p.status)
}

// Wait blocks until the child has ended, reaps it and returns the wait status of the
// program.
func (p *Process) Wait() (unix.WaitStatus, error) {
	if err := p.awaitEnd(); err != nil {
		return 0, fmt.Errorf("wait for process %d: %w", p.PID, err)
	}
	return p.Reap()
}

// awaitEnd blocks, in the poller, until the child has ended.
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

// Reap takes the ended child away, waiting for its end, and returns the wait status of
// the program: init's own if it was killed before it could tell.
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

// Close lets go of what Fork opened but Pidfd. The program goes on.
func (p *Process) Close() {
	p.report.Close()
	if p.status != nil {
		p.status.Close() // only read, if at all
	}
}
