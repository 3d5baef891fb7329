package launch

import (
	"errors"
	"fmt"
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
	Join     []string    // files of control groups to join by writing "0"; with Enter, the child inherits them open

	// Executable is the program's executable, for a policy that has the entry execute it by
	// descriptor (ExecutableFD). The program does not inherit the descriptor.
	Executable *os.File

	Init  bool     // create a PID namespace, with init as process 1
	Enter *os.File // pidfd of a process whose namespaces (PID, mount, UTS, IPC, network) to join

	// Users creates the namespaces of Init inside a new user namespace that maps only the caller's
	// uid and gid, as an unprivileged user must. The stage has the capabilities that it needs
	// there, and drops them. With Enter, it means that the process was started so; the network
	// namespace is then the caller's.
	Users bool
	// Bound kills the child when this process ends: init, or the stage until it changes its user.
	// For the program itself, the policy must set it.
	Bound bool

	// Suspended makes the stage wait for Process.Go. If the starter ends first, the stage ends too.
	Suspended bool

	// Status is the file to which init writes the program's wait status; nil creates a memfd. It is
	// ignored without Init or Enter.
	Status *os.File
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

// Descriptors of the stage, by number; see the package doc.
const (
	firstFile = 3
	// ExecutableFD is that of Start.Executable.
	ExecutableFD = tinyinit.EnterFD + 1
)

// forking holds what Fork has open until it returns.
type forking struct {
	*Start
	files []*os.File // descriptors of the child, from 0 on; nil is closed
	ours  []*os.File // files to close
	group *os.File   // GroupDir
	sys   syscall.SysProcAttr
	path  string
	argv  []string
}

// Fork starts the stage. The caller then calls Go and Ready, and reaps the process. Launch does all
// of this.
func (s *Start) Fork() (p *Process, err error) {
	f := &forking{Start: s, files: s.Stdio[:], path: s.Program, argv: []string{s.Entry}}
	if s.Enter == nil {
		f.argv = append(f.argv, s.Join...)
	}
	defer f.close()
	if s.Bound {
		OnThread(func() { p, err = f.fork() })
	} else {
		p, err = f.fork()
	}
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
	p := &Process{report: report, suspended: f.Suspended}
	if err := f.start(p); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// reportEnds returns our end of the report, for reading, and the child's end. A held child also
// reads from its end.
func (f *forking) reportEnds() (ours, childs *os.File, err error) {
	if !f.Suspended {
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
	f.addExecutable()
	return nil
}

// addExecutable adds Executable under its number. The numbers before it may be unused.
func (f *forking) addExecutable() {
	if f.Executable == nil {
		return
	}
	for len(f.files) < ExecutableFD {
		f.files = append(f.files, nil)
	}
	f.files = append(f.files, f.Executable)
}

// addJoined passes the files of Join as open descriptors, by number: the task whose namespaces the child
// enters may have a root directory without them.
func (f *forking) addJoined() error {
	if f.Enter == nil {
		return nil
	}
	for len(f.files) < ExecutableFD+1 {
		f.files = append(f.files, nil)
	}
	for _, name := range f.Join {
		file, err := os.OpenFile(name, os.O_WRONLY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return fmt.Errorf("join control group: %w", err)
		}
		f.ours = append(f.ours, file)
		f.argv = append(f.argv, strconv.Itoa(len(f.files)))
		f.files = append(f.files, file)
	}
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
	f.addExecutable()
	if err := f.addJoined(); err != nil {
		return err
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

// closed is the number of a descriptor that the child does not have (package syscall).
const closed = ^uintptr(0)

func (f *forking) exec(p *Process) error {
	pidfd := -1
	f.sys.PidFD = &pidfd
	fds := make([]uintptr, len(f.files))
	for i, file := range f.files {
		fds[i] = closed
		if file != nil {
			fds[i] = file.Fd()
		}
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
