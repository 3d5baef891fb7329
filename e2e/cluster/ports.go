package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"

	"golang.org/x/sys/unix"
)

// The ports of agents are below the dynamic ports of tasks (20000) and the ephemeral ports of the
// kernel (32768). No other connection or listener can take a port before the agent listens on it,
// or while the agent restarts.
const (
	firstPort = 10_000
	lastPort  = 19_999
)

// takePort selects a port of the loopback address. No other process that uses this package gets the
// same port while this process runs.
func takePort() (int, error) {
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		claimed, err := claim(fmt.Sprintf("@open-nomad-test-port-%d", port))
		if err != nil {
			return 0, fmt.Errorf("find a free port: %w", err)
		}
		if claimed && unused(port) {
			return port, nil
		}
	}
	return 0, errors.New("find a free port: none among a thousand")
}

// claim binds a name that only one process can have, until it ends in any way.
func claim(name string) (claimed bool, err error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	err = unix.Bind(fd, &unix.SockaddrUnix{Name: name})
	if err == nil {
		return true, nil // the descriptor remains open
	}
	unix.Close(fd)
	if err == unix.EADDRINUSE {
		err = nil
	}
	return false, err
}

// unused reports whether a port has no listener.
func unused(port int) bool {
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return false
	}
	defer l.Close()
	p, err := net.ListenPacket("udp", addr)
	if err != nil {
		return false
	}
	p.Close()
	return true
}
