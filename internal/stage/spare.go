//go:build amd64 || arm64

package stage

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ParkedEntry is the companion's entry that is a spare. It calls Parked.
const ParkedEntry = "nomad-spare"

// Spare is a process that was forked before there is a start, with its program and the Go
// runtime up: what Fork makes of it has only to be split off. It is of one use, and knows
// nothing of any start before.
type Spare struct {
	program string
	pid     int
	pidfd   *os.File      // nonblocking
	used    bool          // there is a stage, which needs the spare until its execve
	conn    *os.File      // its other end is the spare's alone
	limit   time.Duration // of its answer
}

// lateTimers is how late timers of the stage may be; see the package.
const lateTimers = 100 * time.Millisecond

// answerLimit is how long a spare that runs may take to become a stage: one that was
// stopped takes longer.
const answerLimit = time.Second

// Park forks a spare of the companion program. The caller has it in one Start, or closes
// it, and reaps it in either case (Wait).
func Park(program string) (*Spare, error) {
	s, err := park(program)
	if err != nil {
		return nil, fmt.Errorf("park a spare stage: %w", err)
	}
	return s, nil
}

func park(program string) (*Spare, error) {
	if err := closedToOthers(dumpSetting); err != nil {
		return nil, err
	}
	inits, err := initProgram()
	if err != nil {
		return nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	ends, err := socketPair(unix.SOCK_SEQPACKET)
	if err != nil {
		return nil, err
	}
	defer unix.Close(ends[1])
	s := &Spare{program: program, limit: answerLimit}
	// The kernel tells which process answers.
	if err := unix.SetsockoptInt(ends[0], unix.SOL_SOCKET, unix.SO_PASSCRED, 1); err != nil {
		unix.Close(ends[0])
		return nil, fmt.Errorf("ask who answers: %w", err)
	}
	s.conn = os.NewFile(uintptr(ends[0]), "spare stage")
	n := null.Fd()
	if err := s.fork([]uintptr{n, n, n, n, n, n, inits.Fd(), uintptr(ends[1])}); err != nil {
		s.conn.Close()
		return nil, err
	}
	return s, nil
}

// dumpSetting says who may look into a process that has changed its user (proc_sys_fs(5)).
const dumpSetting = "/proc/sys/fs/suid_dumpable"

// closedToOthers fails where that may be its new user: the stage changes its own while its
// memory is still that of the spare, which is root's.
func closedToOthers(setting string) error {
	text, err := os.ReadFile(setting)
	if err != nil {
		return fmt.Errorf("who may look into a stage: %w", err)
	}
	if v := strings.TrimSpace(string(text)); v != "0" && v != "2" {
		return fmt.Errorf("fs.suid_dumpable is %s: other processes of a task's user could look into its stage: set it to 0", v)
	}
	return nil
}

func (s *Spare) fork(files []uintptr) error {
	env, err := environ()
	if err != nil {
		return err
	}
	// The threads of the spare have from ours how late their timers may be.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err == nil {
		err = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(lateTimers), 0, 0, 0)
	}
	if err != nil {
		return fmt.Errorf("set the timer slack: %w", err)
	}
	pidfd := -1
	s.pid, err = syscall.ForkExec(s.program, []string{ParkedEntry}, &syscall.ProcAttr{Dir: "/", Env: env, Files: files,
		Sys: &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd}})
	if back := unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack), 0, 0, 0); err == nil && back != nil {
		err = errors.Join(back, s.kill(), s.reap())
	}
	if err != nil {
		return err
	}
	if pidfd < 0 { // before Linux 5.2, or as Go sees it
		return errors.Join(errors.New("no pidfd"), s.kill(), s.reap())
	}
	s.pidfd, err = Pollable(pidfd)
	if err != nil {
		return errors.Join(err, s.kill(), s.reap())
	}
	return nil
}

// kill ends the spare, which is not reaped yet: the number is its.
func (s *Spare) kill() error {
	if err := unix.Kill(s.pid, unix.SIGKILL); err != nil {
		return fmt.Errorf("end the spare stage: %w", err)
	}
	return nil
}

func (s *Spare) reap() error {
	for {
		var ws unix.WaitStatus
		_, err := unix.Wait4(s.pid, &ws, 0, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return fmt.Errorf("reap the spare stage: %w", err)
		case s.used && ws != 0:
			return fmt.Errorf("the spare stage has ended with wait status %#x", uint32(ws))
		default:
			return nil
		}
	}
}

// Close ends a spare that is not needed. Wait reaps it.
func (s *Spare) Close() error {
	s.conn.Close()
	return s.kill()
}

// Wait blocks until the spare has ended and reaps it. An error means, after a Fork that had
// it become the stage, that it ended before its time: the stage, without the threads of its
// runtime, may not be able to go on.
func (s *Spare) Wait() error {
	defer s.conn.Close()
	defer s.pidfd.Close()
	if err := awaitEnd(s.pidfd); err != nil {
		return fmt.Errorf("wait for the spare stage: %w", err)
	}
	return s.reap()
}

// suits says whether a spare becomes what is asked for.
func (f *forking) suits() bool {
	nul := slices.ContainsFunc(f.argv, func(a string) bool { return strings.Contains(a, "\x00") })
	return f.Spare != nil && f.Spare.program == f.Program && f.Init && f.Enter == nil && !f.Users && !f.Bound && !f.Terminal && !nul
}

// wake has the spare become the stage. False means that it has not, and ends.
func (f *forking) wake(p *Process) (bool, error) {
	if !f.suits() {
		return false, nil
	}
	pid, err := f.Spare.wake(f.argv, append(f.files[:startFiles-1:startFiles-1], p.status), f.group)
	if err != nil || pid == 0 {
		return false, err
	}
	p.PID, f.Spare.used = pid, true
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err == nil {
		p.Pidfd, err = Pollable(pidfd)
	}
	if err != nil {
		return false, errors.Join(fmt.Errorf("watch process %d: %w", pid, err), p.end())
	}
	return true, nil
}

// wake returns the process number of init, which is our child, 0 if there is none. In that
// case the spare has ended or is about to.
func (s *Spare) wake(argv []string, files []*os.File, group *os.File) (int, error) {
	o := order{grouped: group != nil, argv: argv}
	if o.grouped {
		files = append(files, group)
	}
	text := o.encode()
	if len(text) > maxOrder || s.send(text, files) != nil {
		return 0, s.gone()
	}
	pid, err := s.answer(time.Now().Add(s.limit))
	if err == nil {
		return pid, nil
	}
	// Too late, or not at all: whatever it has made is ended.
	if err := s.gone(); err != nil {
		return 0, err
	}
	pid, err = s.answer(time.Time{})
	if err != nil {
		return 0, nil // there is nobody who could answer any more
	}
	late := Process{PID: pid}
	return 0, late.end()
}

// gone kills the spare and waits until it has ended.
func (s *Spare) gone() error {
	if err := s.kill(); err != nil {
		return err
	}
	return awaitEnd(s.pidfd)
}

func (s *Spare) send(text string, files []*os.File) error {
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	conn, err := s.conn.SyscallConn()
	if err != nil {
		return err
	}
	var opErr error
	if err := conn.Control(func(fd uintptr) {
		opErr = unix.Sendmsg(int(fd), []byte(text), unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL)
	}); err != nil {
		return err
	}
	return opErr
}

// answer waits for that of init, by which the kernel says which process it is.
func (s *Spare) answer(deadline time.Time) (int, error) {
	if err := s.conn.SetReadDeadline(deadline); err != nil {
		return 0, err
	}
	conn, err := s.conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	text, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	n, oobn := 0, 0
	var opErr error
	if err := conn.Read(func(fd uintptr) bool {
		for opErr = unix.EINTR; opErr == unix.EINTR; {
			n, oobn, _, _, opErr = unix.Recvmsg(int(fd), text, oob, unix.MSG_CMSG_CLOEXEC)
		}
		return opErr != unix.EAGAIN
	}); err != nil {
		return 0, err
	}
	if opErr != nil || n != 1 {
		return 0, errors.Join(errors.New("the spare stage has ended"), opErr)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(messages) != 1 {
		return 0, errors.Join(errors.New("answer of a spare stage without a sender"), err)
	}
	cred, err := unix.ParseUnixCredentials(&messages[0])
	if err != nil {
		return 0, err
	}
	if cred.Pid <= 0 {
		return 0, errors.New("the sender is in no namespace of ours")
	}
	return int(cred.Pid), nil
}
