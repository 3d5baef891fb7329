package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"

	"golang.org/x/sys/unix"
)

// Ports of agents are below those that tasks get (20000) and those that the kernel gives
// to whoever asks for any (32768): between the choice and the moment at which the agent
// listens, and while it is restarted, no connection and no other listener comes to have them.
const (
	firstPort = 10_000
	lastPort  = 19_999
)

// takePort chooses a port of the loopback address that no other process that uses this
// package has, for as long as this process lives.
func takePort() (int, error) {
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		mine, err := claim(fmt.Sprintf("@open-nomad-test-port-%d", port))
		if err != nil {
			return 0, fmt.Errorf("find a free port: %w", err)
		}
		if mine && unused(port) {
			return port, nil
		}
	}
	return 0, errors.New("find a free port: none among a thousand")
}

// claim binds a name that one process can have, until it ends, however that comes.
func claim(name string) (mine bool, err error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	err = unix.Bind(fd, &unix.SockaddrUnix{Name: name})
	if err == nil {
		return true, nil // the descriptor stays open
	}
	unix.Close(fd)
	if err == unix.EADDRINUSE {
		err = nil
	}
	return false, err
}

// unused says whether nobody listens on a port.
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
