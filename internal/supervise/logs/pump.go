package logs

import (
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// pump moves one stream until the last writer has closed it.
type pump struct {
	pipe *os.File // read end, nonblocking
	to   *rotator
	done chan struct{}
	stop chan struct{}
	once sync.Once
	err  error // last error, for the log
	// fault is called when the log cannot be written to, and with nil when it can be again.
	fault func(error)
}

// A stream is busy after a move of busyBytes. Its pump waits for more in the kernel, for busyWait at most: a wait by the
// runtime takes longer, while the task has filled the pipe and stands still. Other streams need no thread each. A task with
// small writes would wake the pump for each of them: after a move of less, busyPause moves wait as those of other streams.
const (
	busyBytes = 32 << 10
	busyWait  = 5 * time.Millisecond
	busyPause = 16
)

// next reports whether the stream is busy after a move of n bytes, and in how many moves it can be busy again.
func next(n int64, pause int) (busy bool, wait int) {
	switch {
	case pause > 0:
		return false, pause - 1
	case n < busyBytes:
		return false, busyPause
	}
	return true, 0
}

// takeBusy is take for a busy stream.
func (p *pump) takeBusy(pipe int) (int64, error) {
	n, err := p.to.take(pipe)
	if err != unix.EAGAIN {
		return n, err
	}
	ready := []unix.PollFd{{Fd: int32(pipe), Events: unix.POLLIN}}
	if found, err := unix.Poll(ready, int(busyWait.Milliseconds())); found <= 0 || err != nil {
		return 0, unix.EAGAIN
	}
	return p.to.take(pipe)
}

// retryWrite is the interval of writes to a full disk. The task blocks meanwhile: no byte is
// dropped.
const retryWrite = time.Second

func newPump(pipe *os.File, to *rotator) *pump {
	return &pump{pipe: pipe, to: to, done: make(chan struct{}), stop: make(chan struct{}), fault: func(error) {}}
}

func (p *pump) run() {
	defer close(p.done)
	defer p.close()
	conn, err := p.pipe.SyscallConn()
	if err != nil {
		p.err = err
		return
	}
	busy, pause := false, 0
	for {
		var n int64
		var opErr error
		err := conn.Read(func(fd uintptr) bool {
			if busy {
				n, opErr = p.takeBusy(int(fd))
			} else {
				n, opErr = p.to.take(int(fd))
			}
			return opErr != unix.EAGAIN
		})
		busy, pause = next(n, pause)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded): // set by finish
			p.err = p.rest()
			return
		case err != nil:
			p.err = err
			return
		case opErr == unix.EINTR:
		case opErr != nil:
			p.failed(opErr)
			select {
			case <-p.stop:
				p.err = p.rest()
				return
			case <-time.After(retryWrite):
			}
		case n == 0:
			return
		default:
			p.failed(nil)
		}
	}
}

// failed stores the result of the last write, and reports changes.
func (p *pump) failed(err error) {
	changed := (err == nil) != (p.err == nil)
	p.err = err
	if changed {
		p.fault(err)
	}
}

// rest moves the current content of the pipe, and nothing that is written later, since a process
// may write forever.
func (p *pump) rest() error {
	conn, err := p.pipe.SyscallConn()
	if err != nil {
		return err
	}
	var opErr error
	if err := conn.Control(func(fd uintptr) { opErr = p.to.takeAll(int(fd)) }); err != nil {
		return err
	}
	return opErr
}

// finish waits until the stream has ended, for at most timeout. Then it cuts off writers that
// outlived the task. Everything written before is in the files by then, however long that takes.
func (p *pump) finish(timeout time.Duration) error {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-p.done:
		return p.err
	case <-timer.C:
	}
	p.once.Do(func() { close(p.stop) })
	p.pipe.SetReadDeadline(time.Unix(1, 0)) //nolint:errcheck // a pipe supports deadlines
	<-p.done
	return p.err
}

// descriptor returns the descriptor of the pipe, -1 if the stream has ended.
func (p *pump) descriptor() int {
	fd := -1
	if p == nil {
		return fd
	}
	if conn, err := p.pipe.SyscallConn(); err == nil {
		conn.Control(func(n uintptr) { fd = int(n) }) //nolint:errcheck // a closed pipe has none
	}
	return fd
}

func (p *pump) close() {
	p.pipe.Close()
	p.to.file.Close()
	p.to.dir.Close()
}
