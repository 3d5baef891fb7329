package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/pty"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// connection connects a session's program to its caller, with three pipes or a terminal.
type connection struct {
	child       [3]*os.File // descriptors of the program
	in, out     *os.File    // out is nil if there is none; with a terminal both are its master
	errs        *os.File
	terminal    bool
	outputs     sync.WaitGroup
	sizes       sync.WaitGroup
	over        chan struct{} // closed when all streams have ended
	childClosed sync.Once
}

// connect makes the descriptors. They belong to the program's user, so that it can open them again,
// as /dev/stdout.
func connect(o *drivers.ExecOptions, u *sandbox.User) (*connection, error) {
	c := &connection{terminal: o.Tty, over: make(chan struct{})}
	err := c.open()
	if err == nil && u != nil {
		err = c.chown(u)
	}
	if err != nil {
		c.close() // what was opened before the failure
		return nil, err
	}
	return c, nil
}

// open opens the terminal or the pipes. After an error some of them may be open.
func (c *connection) open() error {
	if c.terminal {
		master, slave, err := pty.Open()
		if err != nil {
			return err
		}
		c.in, c.out, c.child = master, master, [3]*os.File{slave, slave, slave}
		return nil
	}
	for _, p := range []struct{ r, w **os.File }{{&c.child[0], &c.in}, {&c.out, &c.child[1]}, {&c.errs, &c.child[2]}} {
		r, w, err := os.Pipe()
		if err != nil {
			return fmt.Errorf("make a pipe: %w", err)
		}
		*p.r, *p.w = r, w
	}
	return nil
}

// chown makes the user the owner of the program's descriptors.
func (c *connection) chown(u *sandbox.User) error {
	for _, f := range c.child {
		if err := f.Chown(int(u.UID), int(u.GID)); err != nil {
			return fmt.Errorf("give a stream to uid %d: %w", u.UID, err)
		}
	}
	return nil
}

// closeChild closes the program's ends.
func (c *connection) closeChild() {
	c.childClosed.Do(func() {
		for i, f := range c.child {
			if f != nil && (i == 0 || f != c.child[0]) {
				f.Close()
			}
		}
	})
}

// close closes all descriptors, which ends blocked reads and writes.
func (c *connection) close() {
	close(c.over)
	c.closeChild()
	for _, f := range []*os.File{c.in, c.out, c.errs} {
		if f != nil {
			f.Close() // twice for a terminal, which is harmless
		}
	}
	c.outputs.Wait()
	c.sizes.Wait()
}

// endOfInput ends the input of a terminal, at the beginning of a line.
const endOfInput = 4

// copyStreams starts to copy input and output. Reading from the caller may continue until the caller ends
// it.
func (c *connection) copyStreams(o *drivers.ExecOptions) {
	go func() {
		if _, err := io.Copy(onlyWriter{c.in}, o.Stdin); err == nil && c.terminal {
			c.in.Write([]byte{endOfInput}) //nolint:errcheck // the program may have ended
		}
		if !c.terminal {
			c.in.Close()
		}
	}()
	c.outputs.Go(func() { pump(o.Stdout, c.out) })
	if c.errs != nil {
		c.outputs.Go(func() { pump(o.Stderr, c.errs) })
	}
	if o.Resize == nil {
		return
	}
	c.sizes.Go(func() {
		for {
			select {
			case <-c.over:
				return
			case size := <-o.Resize:
				pty.Resize(c.in, size.Height, size.Width) //nolint:errcheck // the program may have ended
			}
		}
	})
}

// onlyWriter hides other methods from io.Copy, whose fast paths cannot be interrupted.
type onlyWriter struct{ io.Writer }

// chunk is the size of a read from a program.
const chunk = 16 << 10

// pump copies a program's output until it ends or a deadline has passed.
func pump(to io.Writer, from *os.File) {
	buf := make([]byte, chunk)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				return
			}
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			rest(to, from, buf)
			return
		case err != nil:
			return
		}
	}
}

// rest copies the current content of a pipe without waiting for more.
func rest(to io.Writer, from *os.File, buf []byte) {
	if from.SetReadDeadline(time.Time{}) != nil {
		return
	}
	conn, err := from.SyscallConn()
	if err != nil {
		return
	}
	for {
		n := 0
		if conn.Read(func(fd uintptr) bool {
			n, err = unix.Read(int(fd), buf)
			return true
		}) != nil || err != nil || n <= 0 {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// hungUp is the time limit for a terminal to report that its last program has ended.
const hungUp = time.Second

// finish copies the output that the program wrote before it ended. Its background processes may
// keep the pipes open, and are not waited for.
func (c *connection) finish() {
	late := time.Now()
	if c.terminal { // its output, and then its end, arrives a moment later
		late = late.Add(hungUp)
	}
	for _, f := range []*os.File{c.out, c.errs} {
		if f != nil {
			f.SetReadDeadline(late) //nolint:errcheck // pipes and terminals support deadlines
		}
	}
	c.outputs.Wait()
}
