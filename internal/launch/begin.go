package launch

import (
	"errors"

	"golang.org/x/sys/unix"
)

// RefusedError is the reason why a stage did not execute the program: a failure of the program's
// own start, not of its starter.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return e.Reason }

// Launch starts the program and returns when it has been executed, or when the stage was killed. It
// calls record, if not nil, after the fork; a stage that is held continues when record returns. On any
// failure it kills and reaps what it started. The caller reaps the process otherwise.
func (s *Start) Launch(record func(*Process) error) (*Process, error) {
	p, err := s.Fork()
	if err != nil {
		return nil, err
	}
	if record != nil {
		err = record(p)
	}
	if err == nil {
		err = p.execute()
	}
	if err == nil {
		return p, nil
	}
	p.Kill()
	_, werr := p.Wait()
	p.Close()
	p.Pidfd.Close()
	return nil, errors.Join(err, werr)
}

// execute releases the stage and returns when it has executed the program.
func (p *Process) execute() error {
	if err := p.Go(); err != nil {
		return err
	}
	reason, err := p.Ready()
	if err == nil && reason != "" {
		err = &RefusedError{reason}
	}
	return err
}

// Kill kills the child, and with init its PID namespace. It does nothing after the child was
// reaped.
func (p *Process) Kill() {
	conn, err := p.Pidfd.SyscallConn()
	if err != nil {
		return // closed
	}
	conn.Control(func(fd uintptr) { //nolint:errcheck // closed
		unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0) //nolint:errcheck // it has ended
	})
}
