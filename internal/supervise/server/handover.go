package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/launch"
	"github.com/open-nomad/open-nomad/internal/memfd"
	"github.com/open-nomad/open-nomad/internal/supervise/logs"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
)

// handover is passed to the program that replaces the supervisor in the same process: descriptors,
// by number. The tasks stay children of the process.
type handover struct {
	Lock  int
	Tasks map[string]keptTask
}

// keptTask holds the read ends of the log pipes. Without them, output written just before a task's
// end would be lost.
type keptTask struct {
	Child bool // child of this process, not adopted
	Pipes []int
}

// task returns the kept state of a task, nil after a crash or for a nil handover.
func (h *handover) task(id string) *keptTask {
	if h == nil {
		return nil
	}
	k, ok := h.Tasks[id]
	if !ok {
		return &keptTask{}
	}
	return &k
}

// upgrade executes the program at path in place of this one. It returns only on failure.
func (s *server) upgrade(path, program string) error {
	if path == "" || program == "" {
		return errors.New("upgrade without a program")
	}
	exe, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("upgrade: %w", err)
	}
	defer exe.Close()
	s.ending.Lock() // no task may be between its end and its record
	defer s.ending.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	h := handover{Lock: int(s.lock.Fd()), Tasks: map[string]keptTask{}}
	for id, t := range s.tasks {
		if t == nil {
			return errors.New("upgrade: a start is under way: try again")
		}
		if t.snapshot().Exit == nil {
			h.Tasks[id] = t.keep()
		}
	}
	file, err := writeHandover(&h)
	if err != nil {
		return fmt.Errorf("upgrade: %w", err)
	}
	defer file.Close()
	state := int(file.Fd())
	if err := h.inherit(state, true); err != nil {
		return fmt.Errorf("upgrade: %w", err)
	}
	argv := []string{Entry, s.dir.Name(), program, strconv.Itoa(state)}
	err = unix.Exec(fmt.Sprintf("/proc/self/fd/%d", exe.Fd()), argv, []string{})
	return errors.Join(fmt.Errorf("upgrade: execute %s: %w", path, err), h.inherit(state, false))
}

// keep returns the descriptors of a running task that the new program needs. Its logs are collected
// until the execve: a splice is atomic.
func (t *task) keep() keptTask {
	k := keptTask{Child: t.child}
	if t.logs != nil {
		k.Pipes = t.logs.Descriptors()
	}
	return k
}

// inherit sets whether an execve keeps the descriptors.
func (h *handover) inherit(state int, keep bool) error {
	flag := unix.FD_CLOEXEC
	if keep {
		flag = 0
	}
	fds := []int{state, h.Lock}
	for _, t := range h.Tasks {
		fds = append(fds, t.Pipes...)
	}
	for _, fd := range fds {
		if fd < 0 {
			continue
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, flag); err != nil {
			return fmt.Errorf("keep descriptor %d: %w", fd, err)
		}
	}
	return nil
}

func writeHandover(h *handover) (*os.File, error) {
	raw, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	return memfd.New("handover", raw)
}

func readHandover(fd int) (*handover, error) {
	f := os.NewFile(uintptr(fd), "handover")
	defer f.Close()
	h := new(handover)
	if err := json.NewDecoder(f).Decode(h); err != nil {
		return nil, fmt.Errorf("read handover: %w", err)
	}
	return h, h.inherit(h.Lock, false)
}

// adoptTask adopts a task of an earlier supervisor, or of this one before its upgrade (kept). A
// start that was never answered is ended, and adoptTask returns nil.
func (s *server) adoptTask(rec record, info *proc.Task, boot string, kept *keptTask) (*task, error) {
	t := newTask(s, rec, *info)
	t.child = kept != nil && kept.Child
	if info.Exit != nil {
		close(t.done)
		return t, nil
	}
	if info.Collects() {
		return t, t.adoptCollection(boot, kept)
	}
	if err := t.openGroup(boot); err != nil {
		return nil, err
	}
	if info.PID == 0 {
		return nil, t.endUnanswered(boot)
	}
	if info.Boot == boot {
		if err := t.find(); err != nil {
			t.closeFDs()
			return nil, err
		}
		if err := t.collectAgain(kept); err != nil {
			t.log.Warn("continue collecting logs", "err", err)
		}
		t.limitAgain()
	}
	return t, nil
}

// limitAgain sets the CPU limits of a running task: the supervisor that started it may have died
// before it did. A task whose limits cannot be set is killed, as in its start.
func (t *task) limitAgain() {
	if t.pidfd == nil {
		return
	}
	err := t.limitCPU()
	if err == nil {
		return
	}
	t.log.Error("end a task", "err", err)
	if err := t.kill(); err != nil {
		t.log.Error("end a task", "err", err)
	}
}

// endUnanswered ends a start whose client got no answer.
func (t *task) endUnanswered(boot string) error {
	defer t.closeFDs()
	if t.info.Init != 0 && t.info.Boot == boot {
		if err := t.find(); err != nil {
			return err
		}
		if err := t.killLeader(); err != nil {
			return err
		}
		if t.pidfd != nil && t.child {
			t.reap()
		}
	}
	if t.group == nil {
		return nil
	}
	if err := t.group.KillAll(killTimeout); err != nil {
		return err
	}
	t.removeGroup()
	return nil
}

func (t *task) openGroup(boot string) error {
	if t.info.Group == (proc.Group{}) || t.info.Boot != boot {
		return nil
	}
	h, err := cgroup.Detect()
	if err != nil {
		return err
	}
	t.group, err = h.Open(t.info.Group.Parent, t.info.Group.Name)
	return err
}

// find opens the pidfds of the processes in the record. A later process with the same PID has
// another start time.
func (t *task) find() error {
	pid := t.info.Leader()
	fd, err := unix.PidfdOpen(pid, 0)
	if err == unix.ESRCH || err == unix.EINVAL {
		t.child = false
		return nil
	}
	if err != nil {
		return fmt.Errorf("watch process %d: %w", pid, err)
	}
	st, err := proc.ReadStat(pid)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) {
		unix.Close(fd)
		return err
	}
	if err != nil || st.Start != t.info.StartTick {
		t.child = false
		return unix.Close(fd)
	}
	if t.pidfd, err = launch.Pollable(fd); err != nil || t.info.PID == 0 {
		return err
	}
	return t.openMain()
}

// collectAgain continues to read the log pipes.
func (t *task) collectAgain(kept *keptTask) error {
	if kept == nil || t.info.Logs.Disabled {
		return t.collect(logs.InheritFiles)
	}
	var pipes logs.Pipes
	for i, fd := range kept.Pipes {
		if fd < 0 || i >= len(pipes) {
			continue
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC); err != nil {
			pipes.Close()
			return fmt.Errorf("take over log pipe: %w", err)
		}
		pipes[i] = os.NewFile(uintptr(fd), proc.Streams[i])
	}
	return t.startLogs(pipes, logs.InheritFiles)
}
