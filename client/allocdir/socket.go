package allocdir

import (
	"context"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// Listen creates a unix socket in alloc/tmp that all tasks of the allocation can use. It replaces what has the name.
//
// The socket gets its mode in a directory of the agent, and moves to its place afterwards: a task can change alloc/tmp at
// any time, and would otherwise choose the file whose mode changes.
func (d *Dir) Listen(ctx context.Context, name string) (net.Listener, error) {
	l, err := d.listen(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("create the socket %s/%s: %w", TmpName, name, err)
	}
	return l, nil
}

func (d *Dir) listen(ctx context.Context, name string) (_ net.Listener, err error) {
	own, ownName, err := d.dir.Temp("socket-", 0o700)
	if err != nil {
		return nil, err
	}
	defer func() {
		own.Close() // nothing was written to it
		err = errors.Join(err, d.dir.RemoveAll(ownName))
	}()
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", own.FD(), name))
	if err != nil {
		return nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // it has another path then
	if err := errors.Join(own.SetMode(name, openMode), d.place(own, name)); err != nil {
		l.Close() // no connection was accepted
		return nil, err
	}
	return l, nil
}

// place moves a file to alloc/tmp.
func (d *Dir) place(from *safefs.Dir, name string) error {
	tmp, err := d.tmp()
	if err != nil {
		return err
	}
	defer tmp.Close()
	err = from.Move(name, tmp, name)
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.ENOTEMPTY) {
		err = errors.Join(tmp.RemoveAll(name), from.Move(name, tmp, name))
	}
	return err
}

// RemoveSocket removes a socket of Listen.
func (d *Dir) RemoveSocket(name string) error {
	tmp, err := d.tmp()
	if err != nil {
		return err
	}
	defer tmp.Close()
	return tmp.Remove(name)
}

func (d *Dir) tmp() (*safefs.Dir, error) {
	shared, err := d.Shared()
	if err != nil {
		return nil, err
	}
	defer shared.Close()
	return shared.Sub(TmpName)
}
