package portforward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client/netns"
	"github.com/open-nomad/open-nomad/internal/sockets"
	"github.com/open-nomad/open-nomad/nomad/apierror"
)

// Limits of one connection.
const (
	dialTimeout  = 10 * time.Second // of one attempt
	findTimeout  = 5 * time.Second  // of the search for the listener and its process
	maxNamespace = 16               // network namespaces of one task
)

// Errors about listeners.
var (
	errNoListener = errors.New("nothing listens on it")
	errForeign    = errors.New("what listens on it is not a process of the allocation")
	errRedirected = errors.New("the node redirects its connections to something else")
)

// Task is a running task of an allocation whose tasks share the network of the node.
type Task struct {
	Name string
	// Processes lists the processes in the control group of the task.
	Processes func(ctx context.Context) ([]int, error)
	// Ports are the ports inside a network of the task's own, by label.
	Ports map[string]int
}

// space is a network namespace with the sockets to which a caller may be connected.
type space struct {
	path string // "" for the node's
	port uint16
	at   netip.Addr // invalid for every local address
	// owned reports whether a socket belongs to the allocation. It is nil for the allocation's own namespace.
	owned func(ctx context.Context, inode uint64) error
}

// Dial connects to the port. It connects to no socket of another allocation or of the node: the listener is found
// first, and must still be the same afterwards.
func (t Target) Dial(ctx context.Context) (*net.TCPConn, error) {
	spaces, closeAll, err := t.spaces(ctx)
	defer closeAll()
	if err != nil {
		return nil, apierror.Errorf(http.StatusBadGateway, "port %d of the allocation: %v", t.port, err)
	}
	first := error(errNoListener)
	for _, s := range spaces {
		conn, err := s.dial(ctx)
		if err == nil {
			return conn, nil
		}
		if errors.Is(first, errNoListener) {
			first = err
		}
	}
	return nil, apierror.Errorf(http.StatusBadGateway,
		"connect to port %d of the allocation: %v: start a program of its tasks that listens on the port", t.port, first)
}

// spaces returns the namespaces in which the allocation may listen: its own one, or those of its tasks and then the
// node's. The caller closes their descriptors.
func (t Target) spaces(ctx context.Context) (list []space, closeAll func(), err error) {
	var open []int
	closeAll = func() {
		for _, fd := range open {
			unix.Close(fd)
		}
	}
	if t.netNS != "" {
		return []space{{path: t.netNS, port: t.inner}}, closeAll, nil
	}
	ctx, cancel := context.WithTimeout(ctx, findTimeout)
	defer cancel()
	for _, task := range t.tasks {
		fds, err := task.namespaces(ctx)
		open = append(open, fds...)
		if err != nil {
			return nil, closeAll, fmt.Errorf("find the processes of task %q: %w", task.Name, err)
		}
		port := t.inner
		if inTask := task.Ports[t.label]; inTask > 0 && inTask <= 65535 {
			port = uint16(inTask)
		}
		for _, fd := range fds {
			list = append(list, space{path: "/proc/self/fd/" + strconv.Itoa(fd), port: port, owned: t.owned})
		}
	}
	return append(list, space{port: t.port, at: t.at, owned: t.owned}), closeAll, nil
}

// namespaces opens the network namespaces of the task's processes that are not the node's.
func (t Task) namespaces(ctx context.Context) (fds []int, err error) {
	var ns unix.Stat_t
	if err := unix.Stat("/proc/self/ns/net", &ns); err != nil {
		return nil, fmt.Errorf("read the network namespace of the agent: %w", err)
	}
	pids, err := t.Processes(ctx)
	if err != nil {
		return nil, err
	}
	seen := []uint64{ns.Ino}
	opened := map[int]int{} // descriptors by process
	for _, pid := range pids {
		fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue // it has ended, or belongs to another user
		}
		var st unix.Stat_t
		if unix.Fstat(fd, &st) != nil || slices.Contains(seen, st.Ino) || len(opened) == maxNamespace {
			unix.Close(fd)
			continue
		}
		seen, opened[pid] = append(seen, st.Ino), fd
	}
	if len(opened) == 0 {
		return nil, nil
	}
	still, err := t.Processes(ctx) // an ID may belong to another process by now
	for pid, fd := range opened {
		if err != nil || !slices.Contains(still, pid) {
			unix.Close(fd)
			continue
		}
		fds = append(fds, fd)
	}
	return fds, err
}

// owned returns nil if a process of a task has the socket open.
func (t Target) owned(ctx context.Context, inode uint64) error {
	for _, task := range t.tasks {
		pids, err := task.Processes(ctx)
		if err != nil {
			return fmt.Errorf("find the processes of task %q: %w", task.Name, err)
		}
		p, ok := sockets.Owner(ctx, inode, pids)
		if !ok {
			continue
		}
		still, err := task.Processes(ctx) // the ID may belong to another process by now
		if err == nil && slices.Contains(still, p.PID) {
			return nil
		}
	}
	return errForeign
}

// dial connects to a listener in the namespace.
func (s space) dial(ctx context.Context) (*net.TCPConn, error) {
	found, err := s.listeners(ctx)
	if err != nil {
		return nil, err
	}
	var first error
	for _, address := range s.addresses(found) {
		conn, err := s.connect(ctx, address)
		if err != nil {
			first = errors.Join(first, err)
			continue
		}
		if err = s.confirm(ctx, conn, found); err == nil {
			return conn, nil
		}
		conn.Close()
		return nil, err
	}
	if first == nil {
		first = errNoListener
	}
	return nil, first
}

// confirm returns an error unless the connection ends in the namespace, at a socket of the allocation. A rule of the
// firewall may redirect it, and a listener may be replaced by another. A program that accepts one connection closes its
// listener at once: then the connection's own socket must belong to the allocation.
func (s space) confirm(ctx context.Context, conn *net.TCPConn, found []sockets.Socket) error {
	local, localErr := netip.ParseAddrPort(conn.LocalAddr().String())
	remote, remoteErr := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err := errors.Join(localErr, remoteErr); err != nil {
		return err
	}
	if _, err := s.accepted(local, remote); err != nil || s.owned == nil {
		return err // without an owner, every socket of the namespace belongs to the allocation
	}
	if again, err := s.listeners(ctx); err == nil && slices.Equal(again, found) {
		return nil
	}
	socket, err := s.accepted(local, remote)
	if err != nil {
		return err
	}
	if socket.Inode == 0 {
		return errForeign
	}
	return s.owned(ctx, socket.Inode)
}

// accepted returns the other end of a connection, or errRedirected.
func (s space) accepted(local, remote netip.AddrPort) (socket sockets.Socket, err error) {
	var here bool
	err = s.inside(func() (err error) {
		socket, here, err = sockets.Connection(plain(remote), plain(local))
		return err
	})
	if err == nil && !here {
		err = errRedirected
	}
	return socket, err
}

// plain returns an address as the kernel lists it.
func plain(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// listeners returns the TCP sockets that listen on the port, sorted. All of them must belong to the allocation.
func (s space) listeners(ctx context.Context) (out []sockets.Socket, err error) {
	ctx, cancel := context.WithTimeout(ctx, findTimeout)
	defer cancel()
	var all []sockets.Socket
	err = s.inside(func() (err error) {
		all, err = sockets.Listening(func(port uint16) bool { return port == s.port })
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, l := range all {
		if l.Network != "tcp" || !l.At(s.at) {
			continue
		}
		if s.owned != nil {
			if err := s.owned(ctx, l.Inode); err != nil {
				return nil, err
			}
		}
		out = append(out, l)
	}
	if len(out) == 0 {
		return nil, errNoListener
	}
	slices.SortFunc(out, func(a, b sockets.Socket) int { return int(a.Inode) - int(b.Inode) })
	return out, nil
}

// addresses returns the local addresses at which the sockets listen: that of the port or, without one, loopback
// addresses first.
func (s space) addresses(list []sockets.Socket) []netip.AddrPort {
	if s.at.IsValid() && !s.at.IsUnspecified() {
		return []netip.AddrPort{netip.AddrPortFrom(s.at, s.port)}
	}
	local := []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	_ = s.inside(func() error { // without them, the loopback addresses remain
		all, err := net.InterfaceAddrs()
		for _, a := range all {
			if p, err := netip.ParsePrefix(a.String()); err == nil && !slices.Contains(local, p.Addr()) && !p.Addr().IsLinkLocalUnicast() {
				local = append(local, p.Addr())
			}
		}
		return err
	})
	var out []netip.AddrPort
	for _, ip := range local {
		if slices.ContainsFunc(list, func(l sockets.Socket) bool { return l.At(ip) }) {
			out = append(out, netip.AddrPortFrom(ip, s.port))
		}
	}
	return out
}

// inside calls do in the namespace.
func (s space) inside(do func() error) error {
	if s.path == "" {
		return do()
	}
	return netns.Inside(s.path, do)
}

func (s space) connect(ctx context.Context, address netip.AddrPort) (conn *net.TCPConn, err error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	err = s.inside(func() error {
		// A literal address is dialed on the calling thread, so in its namespace.
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address.String())
		if err != nil {
			return err
		}
		tcp, ok := c.(*net.TCPConn)
		if !ok {
			c.Close()
			return fmt.Errorf("dial %s: not a TCP connection", address)
		}
		conn = tcp
		return nil
	})
	return conn, err
}
