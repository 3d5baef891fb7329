package supervise

import (
	"fmt"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
	"io"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/cgroup"
)

// task is one task in the supervisor.
type task struct {
	log    *slog.Logger
	record record
	group  *cgroup.Group // nil: none
	pidfd  *os.File      // nonblocking; nil when exited before we looked
	child  bool          // ours to reap
	pumps  []*pump
	done   chan struct{} // closed when exited, logs complete, exit on disk
	ending *sync.RWMutex // the server's
	over   func()        // called when it has ended

	mu   sync.Mutex
	info proc.Task
}

func newTask(s *server, rec record, info proc.Task) *task {
	return &task{log: s.log.With("task", info.ID), record: rec, done: make(chan struct{}), ending: &s.ending, over: s.taskOver, info: info}
}

func (t *task) snapshot() proc.Task {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.info
}

// stage is a start under way.
type stage struct {
	t     *task
	files []*os.File // to close in any case
}

func (s *stage) close() {
	for _, f := range s.files {
		f.Close()
	}
}

// start starts the task of spec: when it returns, the program has been executed.
func start(srv *server, rec record, spec *Spec) (*task, error) {
	boot, err := bootID()
	if err != nil {
		return nil, fmt.Errorf("read boot ID: %w", err)
	}
	t := newTask(srv, rec, proc.Task{ID: spec.ID, Started: time.Now(), Logs: spec.Logs, Boot: boot})
	if spec.Group != nil {
		t.info.Group = spec.Group.Group
	}
	t.child = true
	s := &stage{t: t}
	err = s.run(spec)
	s.close() // our writing ends of the pipes among them
	if err != nil {
		t.undo()
		return nil, err
	}
	return t, nil
}

func (s *stage) run(spec *Spec) error {
	t := s.t
	stdio, err := s.openStreams(spec)
	if err != nil {
		return err
	}
	// Log files are made meanwhile, but nothing runs before they are there.
	collecting := make(chan error, 1)
	go func() { collecting <- t.collect() }()
	err = t.makeGroup(spec)
	if err == nil {
		err = t.record.writeTask(&t.info)
	}
	if cerr := <-collecting; err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	policy, err := memoryFile(spec.Policy)
	if err != nil {
		return err
	}
	s.files = append(s.files, policy)
	status, err := s.fork(spec, append(stdio, policy))
	if err != nil {
		return err
	}
	defer status.Close()
	if err := t.record.writeTask(&t.info); err != nil {
		return err
	}
	reason, err := io.ReadAll(status)
	if err != nil {
		return fmt.Errorf("read start status: %w", err)
	}
	if len(reason) > 0 {
		return &proc.StartError{Reason: string(reason)}
	}
	if t.group == nil {
		return nil
	}
	// Quota and weight come last: small ones would stop the stage, not the program.
	return t.group.LimitCPU(spec.Group.Limits)
}

// makeGroup creates the control group.
func (t *task) makeGroup(spec *Spec) error {
	if spec.Group == nil {
		return nil
	}
	h, err := cgroup.Detect()
	if err != nil {
		return err
	}
	limits := spec.Group.Limits
	limits.CPUQuota, limits.CPUShares = 0, 0 // LimitCPU sets them
	t.group, err = h.Create(spec.Group.Parent, spec.Group.Name, limits)
	return err
}

// memoryFile holds what the stage reads, positioned at its start.
func memoryFile(content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("nomad-policy", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make policy file: %w", err)
	}
	f := os.NewFile(uintptr(fd), "policy")
	if _, err = f.Write(content); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("write policy file: %w", err)
	}
	return f, nil
}

// openStreams opens the program's descriptors 0–2.
func (s *stage) openStreams(spec *Spec) ([]*os.File, error) {
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	s.files = append(s.files, null)
	if spec.Logs.Disabled {
		return []*os.File{null, null, null}, nil
	}
	streams := []*os.File{null}
	for _, stream := range streamNames {
		if err := s.t.record.makePipe(stream, spec.Owner); err != nil {
			return nil, err
		}
		// For reading too: then the task always has a reader, itself at worst.
		w, err := os.OpenFile(s.t.record.pipe(stream), os.O_RDWR, 0)
		if err != nil {
			return nil, fmt.Errorf("open log pipe: %w", err)
		}
		s.files = append(s.files, w)
		streams = append(streams, w)
	}
	return streams, nil
}

// streamNames are the names of pipes and, with a dot, of log files.
var streamNames = []string{"stdout", "stderr"}

// collect opens the reading ends and starts to move what arrives.
func (t *task) collect() error {
	if t.info.Logs.Disabled {
		return nil
	}
	for _, stream := range streamNames {
		pipe, err := os.OpenFile(t.record.pipe(stream), os.O_RDONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			return fmt.Errorf("open log pipe: %w", err)
		}
		if err := t.pump(stream, pipe); err != nil {
			return err
		}
	}
	return nil
}

// pump starts to move one stream; it owns the pipe.
func (t *task) pump(stream string, pipe *os.File) error {
	r, err := newRotator(t.info.Logs, stream)
	if err != nil {
		pipe.Close()
		return err
	}
	p := newPump(pipe, r)
	t.pumps = append(t.pumps, p)
	go p.run()
	return nil
}

// stageEnv is the stage's environment, never the job's: one processor and no
// collector are quicker for a program that lives two milliseconds.
var stageEnv = []string{"GOMAXPROCS=1", "GOGC=off"}

// fork starts the stage with files as descriptors 0–3 and returns the pipe on
// which it reports.
func (s *stage) fork(spec *Spec, files []*os.File) (status *os.File, err error) {
	status, report, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer report.Close()
	fds := make([]uintptr, 0, StatusFD+1)
	for _, f := range append(files, report) {
		fds = append(fds, f.Fd())
	}
	pidfd := -1
	attr := &syscall.ProcAttr{Dir: "/", Env: stageEnv, Files: fds, Sys: &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd}}
	if err := s.intoGroup(attr.Sys); err != nil {
		status.Close()
		return nil, err
	}
	t := s.t
	argv := []string{spec.Entry}
	if t.group != nil {
		argv = append(argv, t.group.JoinFiles()...)
	}
	argv = append(argv, spec.Join...)
	pid, err := syscall.ForkExec("/proc/self/exe", argv, attr)
	if err != nil {
		status.Close()
		return nil, fmt.Errorf("start the sandbox stage: %w", err)
	}
	t.info.PID = pid
	if pidfd < 0 {
		if pidfd, err = unix.PidfdOpen(pid, 0); err != nil {
			status.Close()
			return nil, fmt.Errorf("watch process %d: %w", pid, err)
		}
	}
	if t.pidfd, err = pollable(pidfd); err != nil {
		status.Close()
		return nil, err
	}
	if st, err := readProcStat(pid); err == nil {
		t.info.StartTick = st.start
	}
	return status, nil
}

// intoGroup makes the fork happen inside the version 2 group.
func (s *stage) intoGroup(sys *syscall.SysProcAttr) error {
	if s.t.group == nil || s.t.group.Dir() == "" {
		return nil
	}
	dir, err := os.OpenFile(s.t.group.Dir(), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return fmt.Errorf("open group: %w", err)
	}
	s.files = append(s.files, dir)
	sys.UseCgroupFD, sys.CgroupFD = true, int(dir.Fd())
	return nil
}

// pollable makes a pidfd wait in the poller instead of blocking a thread.
func pollable(pidfd int) (*os.File, error) {
	if err := unix.SetNonblock(pidfd, true); err != nil {
		unix.Close(pidfd)
		return nil, fmt.Errorf("watch process: %w", err)
	}
	return os.NewFile(uintptr(pidfd), "pidfd"), nil
}

// undo takes back a start that failed.
func (t *task) undo() {
	if t.info.PID > 0 {
		if err := unix.Kill(-t.info.PID, unix.SIGKILL); err != nil && err != unix.ESRCH {
			t.log.Warn("kill failed start", "err", err)
		}
		if err := unix.Kill(t.info.PID, unix.SIGKILL); err != nil && err != unix.ESRCH {
			t.log.Warn("kill failed start", "err", err)
		}
		var ws unix.WaitStatus
		for {
			if _, err := unix.Wait4(t.info.PID, &ws, 0, nil); err != unix.EINTR {
				break
			}
		}
	}
	if t.pidfd != nil {
		t.pidfd.Close()
	}
	t.removeGroup()
	for _, p := range t.pumps {
		p.finish(drainPatience)
	}
	if err := t.record.remove(); err != nil {
		t.log.Warn("remove task record", "err", err)
	}
}
