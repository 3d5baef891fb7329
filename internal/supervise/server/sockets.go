package server

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/supervise/wire"
)

// keepSockets copies sockets of the agent, instead of those kept before. They stay bound while no agent runs: what
// arrives waits in them. They do not keep an idle supervisor from ending, and an upgrade closes them: the agent has
// copied them before.
func (s *server) keepSockets(conn *os.File, numbers []int) (err error) {
	var copies []int
	for _, number := range numbers {
		var fd int
		if fd, err = wire.Descriptor(conn, number); err != nil {
			break
		}
		copies = append(copies, fd)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, fd := range s.sockets {
		unix.Close(fd)
	}
	s.sockets = copies
	return err
}
