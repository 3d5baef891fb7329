package server

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/supervise/proc"
)

const (
	killTimeout  = 5 * time.Second // time limit for the end of a killed process
	drainTimeout = time.Second     // time limit for the end of the pipes after that
)

// watch waits for the end of the task, kills its remaining processes, completes its logs and
// records the exit.
func (t *task) watch() {
	exit := t.await()
	t.ending.RLock()
	defer t.ending.RUnlock()
	t.killRest()
	t.reap()
	t.closeFDs()
	if t.group != nil {
		t.count(exit)
	}
	t.removeGroup()
	if err := t.finishLogs(); err != nil {
		t.log.Warn("collect logs", "err", err)
	}
	exit.At = time.Now()
	if err := t.record.writeExit(exit); err != nil {
		t.log.Error("record exit", "err", err)
	}
	t.mu.Lock()
	t.info.Exit = exit
	waiters := t.waiters
	t.waiters = nil
	t.mu.Unlock()
	close(t.done)
	for _, w := range waiters {
		if !w.gone() {
			go w.answer() // it may block on a client that does not read
		}
	}
	t.over()
}

// waiter is a client that waits for the end of a task.
type waiter struct {
	gone   func() bool // reports whether the client has disconnected
	answer func()
}

// atEnd calls answer when the task has ended, at once if it has. It drops the waiters of clients that have
// disconnected.
func (t *task) atEnd(w waiter) {
	t.mu.Lock()
	ended := t.info.Exit != nil
	if !ended {
		t.waiters = append(slices.DeleteFunc(t.waiters, func(w waiter) bool { return w.gone() }), w)
	}
	t.mu.Unlock()
	if ended {
		w.answer()
	}
}

// count adds the counters of the control group since the start. They read as 0 if the group no longer
// exists.
func (t *task) count(exit *proc.Exit) {
	before := t.info.Before
	exit.OOMKills = max(t.group.OOMKills(), before.OOMKills) - before.OOMKills
	exit.ForksDenied = max(t.group.ForksDenied(), before.ForksDenied) - before.ForksDenied
	exit.OOMKilled = exit.OOMKills > 0
}

// await blocks until the process has ended and returns its exit. A child stays a zombie, so that
// its PID and process group are not reused.
func (t *task) await() *proc.Exit {
	if t.info.Collects() {
		<-t.ended
		return &proc.Exit{}
	}
	if t.pidfd == nil {
		return t.programExit(unknownExit("the task ended while no supervisor was running"))
	}
	conn, err := t.pidfd.SyscallConn()
	if err != nil {
		return unknownExit(err.Error())
	}
	var exit *proc.Exit
	err = conn.Read(func(fd uintptr) bool {
		exit = t.poll(int(fd))
		return exit != nil
	})
	if err != nil {
		return unknownExit(err.Error())
	}
	return t.programExit(exit)
}

// programExit returns the program's exit as recorded by init, or init's own exit. Init records nothing
// when it is killed, which also kills its namespace.
func (t *task) programExit(init *proc.Exit) *proc.Exit {
	if t.info.Init == 0 {
		return init
	}
	if ws, ok := t.record.waitStatus(); ok {
		return exitOf(ws)
	}
	return init
}

func (t *task) closeFDs() {
	if t.main != nil && t.main != t.pidfd {
		t.main.Close()
	}
	if t.pidfd != nil {
		t.pidfd.Close()
	}
	for _, f := range t.holds {
		f.Close()
	}
}

// poll checks once; nil means that the process runs.
func (t *task) poll(pidfd int) *proc.Exit {
	if t.child {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PIDFD, pidfd, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if err == nil && info.Signo == 0 || err == unix.EINTR {
			return nil
		}
		if err == nil {
			return exitOf(childStatus(&info))
		}
	}
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, 0); err != nil || n == 0 {
		return nil
	}
	// The parent may reap the zombie between the two calls.
	for range 3 {
		if ws, ok := pidfdStatus(pidfd, t.info.Leader()); ok {
			return exitOf(ws)
		}
	}
	return unknownExit("another process reaped it after the supervisor was replaced")
}

func unknownExit(why string) *proc.Exit {
	return &proc.Exit{Code: -1, Unknown: "exit status is unknown:  " + why}
}

func exitOf(ws unix.WaitStatus) *proc.Exit {
	if ws.Signaled() {
		return &proc.Exit{Code: 128 + int(ws.Signal()), Signal: int(ws.Signal())}
	}
	return &proc.Exit{Code: ws.ExitStatus()}
}

// reap reaps a child.
func (t *task) reap() {
	if !t.child {
		return
	}
	for {
		if _, err := unix.Wait4(t.info.Leader(), nil, 0, nil); err != unix.EINTR {
			return
		}
	}
}

// killRest kills the remaining processes of the task.
func (t *task) killRest() {
	if t.group != nil {
		t.killGroup()
		return
	}
	if !t.child || t.info.Init != 0 {
		return // its PID may be reused; a namespace ends with its init
	}
	if err := killSession(t.info.PID); err != nil {
		t.log.Warn("kill remaining processes of the task", "err", err)
	}
}

// killGroup kills every process of the control group, if there is one.
func (t *task) killGroup() {
	if t.group == nil {
		return
	}
	if err := t.group.KillAll(killTimeout); err != nil {
		t.log.Warn("kill remaining processes of the task", "err", err)
	}
}

// killSession kills every process of a session. Without a control group these are the known
// descendants of a task. The session leader must not be reaped before.
func killSession(leader int) error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == leader {
			continue
		}
		st, err := proc.ReadStat(pid)
		if err != nil || st.Session != leader {
			continue
		}
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && err != unix.ESRCH {
			errs = append(errs, fmt.Errorf("kill process %d: %w", pid, err))
		}
	}
	return errors.Join(errs...)
}

func (t *task) removeGroup() {
	if t.group == nil {
		return
	}
	// A killed process stays in its group for a moment after it is no longer listed. A program that
	// works for the task may have joined meanwhile; it ends with the task.
	deadline := time.Now().Add(killTimeout)
	for {
		err := t.group.Remove()
		if err == nil {
			return
		}
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			t.log.Warn("remove control group", "err", err)
			return
		}
		t.group.Kill() //nolint:errcheck // Remove reports what remains
		time.Sleep(time.Millisecond)
	}
}

// signal sends sig to the task's process group. It uses the pidfd if the kernel can (6.9), so that
// no other process is reached.
func (t *task) signal(sig unix.Signal) error {
	const toGroup = 4 // PIDFD_SIGNAL_PROCESS_GROUP
	return t.onMain(func(fd int) error {
		err := unix.PidfdSendSignal(fd, sig, nil, toGroup)
		if err != unix.EINVAL {
			return err
		}
		err = unix.PidfdSendSignal(fd, sig, nil, 0)
		if err == nil && t.child && sig != unix.SIGKILL { // not reaped: the group is still the task's
			err = t.signalOthers(sig)
		}
		return err
	})
}

// signalMain sends sig to the task's main process.
func (t *task) signalMain(sig unix.Signal) error {
	return t.onMain(func(fd int) error { return unix.PidfdSendSignal(fd, sig, nil, 0) })
}

// onMain calls send with the pidfd of the task's main process.
func (t *task) onMain(send func(fd int) error) error {
	if t.snapshot().Exit != nil || t.main == nil {
		return errors.New("the task has ended")
	}
	conn, err := t.main.SyscallConn()
	if err != nil {
		return fmt.Errorf("signal task: %w", err)
	}
	var opErr error
	if err := conn.Control(func(fd uintptr) { opErr = send(int(fd)) }); err != nil {
		return fmt.Errorf("signal task: %w", err)
	}
	if opErr == unix.ESRCH {
		return errors.New("the task has ended")
	}
	return opErr
}

// signalOthers signals the members of the task's process group except its leader.
func (t *task) signalOthers(sig unix.Signal) error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == t.info.PID {
			continue
		}
		if st, err := proc.ReadStat(pid); err == nil && st.Group == t.info.PID {
			unix.Kill(pid, sig) //nolint:errcheck // it may have ended
		}
	}
	return nil
}

// kill kills the task; watch records its exit.
func (t *task) kill() error {
	if t.snapshot().Exit != nil {
		return nil
	}
	if t.info.Collects() {
		t.once.Do(func() { close(t.ended) })
		return nil
	}
	if t.group != nil {
		return t.group.Kill()
	}
	return t.killLeader()
}

// killLeader kills the process whose end ends the task.
func (t *task) killLeader() error {
	if t.pidfd == nil {
		return nil
	}
	conn, err := t.pidfd.SyscallConn()
	if err != nil {
		return nil // it has just ended
	}
	var opErr error
	if err := conn.Control(func(fd uintptr) { opErr = unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0) }); err != nil {
		return nil // it has just ended
	}
	if opErr == unix.ESRCH {
		return nil
	}
	return opErr
}
