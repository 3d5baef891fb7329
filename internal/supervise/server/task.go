package server

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/launch"
	"github.com/open-nomad/open-nomad/internal/supervise/logs"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
)

type task struct {
	log    *slog.Logger
	record record
	group  *cgroup.Group   // nil: none
	pidfd  *os.File        // of the forked process; nonblocking; nil if it had already exited
	main   *os.File        // pidfd of the program: pidfd, or that of init's child; nil if it had exited
	child  bool            // a child of the supervisor
	logs   *logs.Collector // nil: none
	holds  []*os.File      // write ends of Pipes, so that a pipe without a writer has not ended
	ended  chan struct{}   // closed to end a task with Pipes
	once   sync.Once
	done   chan struct{} // closed when the process has exited, logs are complete and the exit is on disk
	ending *sync.RWMutex // of the server
	over   func()        // called when the task has ended

	mu      sync.Mutex
	info    proc.Task
	waiters []waiter
}

func newTask(s *server, rec record, info proc.Task) *task {
	return &task{log: s.log.With("task", info.ID), record: rec, done: make(chan struct{}), ended: make(chan struct{}), ending: &s.ending,
		over: s.taskOver, info: info}
}

func (t *task) snapshot() proc.Task {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.info
}

// start is a start in progress.
type start struct {
	t     *task
	files []*os.File // to close in any case
}

// ownProgram is the companion, this process's executable.
const ownProgram = "/proc/self/exe"

func (s *start) close() {
	for _, f := range s.files {
		f.Close()
	}
}

// startTask starts the task of spec. It returns when the program has been executed.
func startTask(srv *server, rec record, spec *proc.Spec) (*task, error) {
	boot, err := bootID()
	if err != nil {
		return nil, fmt.Errorf("read boot ID: %w", err)
	}
	t := newTask(srv, rec, proc.Task{ID: spec.ID, Started: time.Now(), Logs: spec.Logs, Boot: boot})
	if spec.Group != nil {
		t.info.Group = spec.Group.Group
		t.info.CPU = proc.CPU{Quota: spec.Group.Limits.CPUQuota, Shares: spec.Group.Limits.CPUShares}
	}
	t.child = true
	s := &start{t: t}
	err = s.run(spec)
	s.close() // including the write ends of the pipes
	if err != nil {
		t.undo()
		return nil, err
	}
	return t, nil
}

func (s *start) run(spec *proc.Spec) error {
	t := s.t
	stdio, err := s.openStreams(spec)
	if err != nil {
		return err
	}
	// Log files are made at the same time, but before the program runs.
	collecting := make(chan error, 1)
	go func() { collecting <- t.collect(logs.InheritAtStart()) }()
	err = t.makeGroup(spec)
	if err == nil {
		err = t.record.writeDeclared(spec.Declared)
	}
	if err == nil {
		err = t.record.writeTask(&t.info)
	}
	if cerr := <-collecting; err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	p, err := s.launch(spec, [3]*os.File(stdio))
	if err != nil {
		return err
	}
	defer p.Close()
	// From now on, the record has a program below init.
	if err := t.limitCPU(); err != nil {
		return err
	}
	return t.findMain(p)
}

// limitCPU sets quota and weight after the execve: small ones would slow down the stage. A
// supervisor that adopts the task sets them again.
func (t *task) limitCPU() error {
	if t.group == nil {
		return nil
	}
	err := t.group.LimitCPU(cgroup.Limits{CPUQuota: t.info.CPU.Quota, CPUShares: t.info.CPU.Shares})
	if err != nil {
		return fmt.Errorf("limit the CPU time of the task: %w", err)
	}
	return nil
}

func (t *task) makeGroup(spec *proc.Spec) error {
	if spec.Group == nil {
		return nil
	}
	h, err := cgroup.Detect()
	if err != nil {
		return err
	}
	limits := spec.Group.Limits
	limits.CPUQuota, limits.CPUShares = 0, 0 // limitCPU sets them
	t.group, err = h.Create(spec.Group.Parent, spec.Group.Name, limits)
	if err == nil && t.group.Reused() {
		t.info.Before = proc.Counters{OOMKills: t.group.OOMKills(), ForksDenied: t.group.ForksDenied()}
	}
	return err
}

// openStreams opens the program's descriptors 0–2.
func (s *start) openStreams(spec *proc.Spec) ([]*os.File, error) {
	null, err := openFile(os.DevNull, unix.O_RDWR)
	if err != nil {
		return nil, err
	}
	s.files = append(s.files, null)
	streams := []*os.File{null}
	if spec.Logs.Disabled {
		for _, name := range []string{spec.Logs.Stdout, spec.Logs.Stderr} {
			f := null
			if name != "" {
				if f, err = openForeign(name); err != nil {
					return nil, err
				}
				s.files = append(s.files, f)
			}
			streams = append(streams, f)
		}
		return streams, nil
	}
	for _, stream := range proc.Streams {
		if err := s.t.record.makePipe(stream, spec.Owner); err != nil {
			return nil, err
		}
		// Also for reading, so that the pipe always has a reader, at least the task itself.
		w, err := openFile(s.t.record.pipe(stream), unix.O_RDWR)
		if err != nil {
			return nil, fmt.Errorf("open log pipe: %w", err)
		}
		s.files = append(s.files, w)
		streams = append(streams, w)
	}
	return streams, nil
}

// collect opens the read ends and starts to move output.
func (t *task) collect(inherit logs.Inheritance) error {
	if t.info.Logs.Disabled {
		return nil
	}
	var pipes logs.Pipes
	for i, stream := range proc.Streams {
		var err error
		if pipes[i], err = os.OpenFile(t.record.pipe(stream), os.O_RDONLY|unix.O_NONBLOCK, 0); err != nil {
			pipes.Close()
			return fmt.Errorf("open log pipe: %w", err)
		}
	}
	return t.startLogs(pipes, inherit)
}

// startLogs starts to move the content of the pipes, which it owns.
func (t *task) startLogs(pipes logs.Pipes, inherit logs.Inheritance) (err error) {
	t.logs, err = logs.Start(t.info.Logs, pipes, inherit, t.logFault)
	return err
}

// finishLogs completes the logs of a task that has ended.
func (t *task) finishLogs() error {
	if t.logs == nil {
		return nil
	}
	return t.logs.Finish(drainTimeout)
}

// logFault records that a log cannot be written to, for example on a full disk, and logs it once.
// The task blocks in its next write until the log is writable again.
func (t *task) logFault(stream string, err error) {
	if err == nil {
		t.log.Info("the log of a task is writable again", "stream", stream)
	} else {
		t.log.Warn("the log of a task cannot be written: the task blocks", "stream", stream, "err", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	faults := maps.Clone(t.info.LogFaults) // snapshots share it
	delete(faults, stream)
	if err != nil {
		if faults == nil {
			faults = map[string]string{}
		}
		faults[stream] = err.Error()
	}
	t.info.LogFaults = faults
}

// launch starts the program, and records the process before its first instruction.
func (s *start) launch(spec *proc.Spec, stdio [3]*os.File) (*launch.Process, error) {
	t := s.t
	how := launch.Start{Program: ownProgram, Entry: spec.Entry, Policy: spec.Policy, Stdio: stdio, Init: spec.Init, Users: spec.Users}
	if t.group != nil {
		how.GroupDir, how.Join = t.group.Dir(), t.group.JoinFiles()
	}
	// Without a group, the record alone tells the next supervisor which processes to end.
	how.Suspended = how.GroupDir == ""
	how.Join = append(how.Join, spec.Join...)
	if spec.Init {
		var err error
		if how.Status, err = t.record.makeStatus(); err != nil {
			return nil, err
		}
	}
	p, err := how.Launch(func(p *launch.Process) error {
		t.forked(p, spec)
		return t.record.writeTask(&t.info)
	})
	if refused, ok := errors.AsType[*launch.RefusedError](err); ok {
		err = &proc.StartError{Reason: refused.Reason}
	}
	if err != nil { // killed, reaped and closed
		t.pidfd, t.main, t.info.PID, t.info.Init = nil, nil, 0, 0
	}
	return p, err
}

// forked sets the process of the task: init, or the program.
func (t *task) forked(p *launch.Process, spec *proc.Spec) {
	t.pidfd = p.Pidfd
	if spec.Init {
		t.info.Init = p.PID
	} else {
		t.info.PID, t.main = p.PID, p.Pidfd
	}
	if st, err := proc.ReadStat(p.PID); err == nil {
		t.info.StartTick = st.Start
	}
}

// findMain finds the program below init and completes the record.
func (t *task) findMain(p *launch.Process) error {
	if t.info.Init == 0 {
		return nil
	}
	t.info.PID = p.Main()
	if t.info.PID == 0 { // it has ended; its exit is in the status file
		t.info.PID = t.info.Init
		return t.record.writeTask(&t.info)
	}
	if err := t.openMain(); err != nil {
		return err
	}
	return t.record.writeTask(&t.info)
}

// openMain opens the program's pidfd. The program is init's child and init outlives it. A later
// process with the same PID has another parent.
func (t *task) openMain() error {
	if t.info.Init == 0 {
		t.main = t.pidfd
		return nil
	}
	fd, err := unix.PidfdOpen(t.info.PID, 0)
	if err == unix.ESRCH || err == unix.EINVAL {
		return nil // it has ended
	}
	if err != nil {
		return fmt.Errorf("watch process %d: %w", t.info.PID, err)
	}
	if st, err := proc.ReadStat(t.info.PID); err != nil || st.Parent != t.info.Init {
		return unix.Close(fd)
	}
	t.main, err = launch.Pollable(fd)
	return err
}

// undo reverts a start that failed.
func (t *task) undo() {
	if pid := t.info.Leader(); pid > 0 {
		for _, whom := range []int{-pid, pid} {
			if err := unix.Kill(whom, unix.SIGKILL); err != nil && err != unix.ESRCH {
				t.log.Warn("kill failed start", "err", err)
			}
		}
		t.reap()
	}
	t.closeFDs()
	t.killGroup() // the program may have run for a moment
	t.removeGroup()
	t.finishLogs() //nolint:errcheck // the start has failed
	if err := t.record.remove(); err != nil {
		t.log.Warn("remove task record", "err", err)
	}
}
