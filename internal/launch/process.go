package launch

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/tinyinit"
)

// Process is a forked stage, and the program that replaces it.
type Process struct {
	PID   int      // the child: init if there is one, else the program
	Pidfd *os.File // of PID, nonblocking; the caller closes it

	report    *os.File // our end of the report pipe, a socket if the stage is held
	status    *os.File // nil without init
	suspended bool
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
	if !p.suspended {
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
	if err != nil && !(p.suspended && errors.Is(err, unix.ECONNRESET)) { // reset by a stage that ended before Go
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
	if err := p.AwaitEnd(); err != nil {
		return 0, err
	}
	return p.Reap()
}

// AwaitEnd waits, in the poller, until the child has ended. It does not reap it.
func (p *Process) AwaitEnd() error {
	conn, err := p.Pidfd.SyscallConn()
	if err == nil {
		err = conn.Read(func(fd uintptr) bool {
			fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			n, err := unix.Poll(fds, 0)
			return n > 0 || err != nil && err != unix.EINTR
		})
	}
	if err != nil {
		return fmt.Errorf("wait for process %d: %w", p.PID, err)
	}
	return nil
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
	if status, ok := tinyinit.ReadStatus(p.status); ok {
		ws = status
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
