package supervise

import (
	"context"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/supervise/wire"
)

// KeepSockets makes the supervisor, and each later one, keep copies of these sockets, and no others. They stay bound
// while no agent runs, as long as the supervisor runs. It starts no supervisor.
func (c *Client) KeepSockets(ctx context.Context, all []syscall.RawConn) {
	copies := []int{}
	for _, s := range all {
		s.Control(func(from uintptr) { //nolint:errcheck // a closed socket is not kept
			if fd, err := unix.FcntlInt(from, unix.F_DUPFD_CLOEXEC, 0); err == nil {
				copies = append(copies, fd)
			}
		})
	}
	<-c.gate
	defer func() { c.gate <- struct{}{} }()
	c.setSockets(copies)
	if c.current != nil {
		c.exchangeSockets(ctx, c.current, nil)
	}
}

// KeptSockets returns the sockets that a running supervisor has kept for this agent. The caller closes them.
func (c *Client) KeptSockets(ctx context.Context) (all []*os.File) {
	if dir, err := os.Open(c.dir); err == nil {
		if living(dir) {
			c.session(ctx) //nolint:errcheck // without it there are none; the next use reports the error
		}
		dir.Close()
	}
	<-c.gate
	defer func() { c.gate <- struct{}{} }()
	for _, fd := range c.sockets {
		all = append(all, os.NewFile(uintptr(fd), "socket"))
	}
	c.sockets = nil
	return all
}

// exchangeSockets gives the sockets to a supervisor. A new agent has none yet, and copies those that the supervisor
// keeps. The caller holds the gate.
func (c *Client) exchangeSockets(ctx context.Context, s *session, kept []int) {
	if c.sockets == nil {
		for _, number := range kept {
			if fd, err := wire.Descriptor(s.conn, number); err == nil {
				c.sockets = append(c.sockets, fd)
			}
		}
		return
	}
	if _, err := s.call(ctx, &wire.Request{Op: wire.OpKeep, Sockets: c.sockets}); err != nil {
		c.log.Warn("sockets are closed while no agent runs: the supervisor cannot keep them", "err", err)
	}
}

// setSockets replaces the sockets. The caller holds the gate.
func (c *Client) setSockets(all []int) {
	for _, fd := range c.sockets {
		unix.Close(fd)
	}
	c.sockets = all
}
