//go:build linux

package faults

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/testthread"
)

// hubAddr is the address from which the test connects to the hosts.
const hubAddr = "10.77.0.254"

// Network is a bridge with hosts, in network namespaces without another route. The test reaches the
// hosts through the bridge, whatever is cut between them.
type Network struct {
	hub   *room
	hosts []*Host
}

// Host is one end of the network: the namespace of a server's process.
type Host struct {
	Addr netip.Addr
	room *room
}

// NewNetwork creates a bridge with n hosts, 10.77.0.1 and following.
func NewNetwork(n int) (*Network, error) {
	hub, err := newRoom()
	if err != nil {
		return nil, err
	}
	w := &Network{hub: hub}
	if err := hub.ip("link add br0 type bridge forward_delay 0", "addr add "+hubAddr+"/24 dev br0", "link set br0 up",
		"link set lo up"); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	for i := range n {
		if err := w.addHost(i); err != nil {
			return nil, errors.Join(fmt.Errorf("make host %d: %w", i+1, err), w.Close())
		}
	}
	return w, nil
}

// addHost connects another host to the bridge.
func (w *Network) addHost(i int) error {
	r, err := newRoom()
	if err != nil {
		return err
	}
	h := &Host{Addr: netip.AddrFrom4([4]byte{10, 77, 0, byte(i + 1)}), room: r}
	w.hosts = append(w.hosts, h)
	port := fmt.Sprintf("port%d", i+1)
	if err := r.ip("link set lo up", "link add eth0 type veth peer name "+port+" netns "+w.hub.path(),
		"addr add "+h.Addr.String()+"/24 dev eth0", "link set eth0 up"); err != nil {
		return err
	}
	return w.hub.ip("link set "+port+" master br0", "link set "+port+" up")
}

// Dial connects to a host from the bridge.
func (w *Network) Dial(ctx context.Context, network, addr string) (conn net.Conn, err error) {
	runtime.LockOSThread()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	defer own.Close()
	if err := unix.Setns(int(w.hub.ns.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("enter the bridge's namespace: %w", err)
	}
	conn, err = (&net.Dialer{}).DialContext(ctx, network, addr)
	if back := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); back != nil {
		// The thread stays locked and ends with this goroutine, so that nothing else runs in the
		// namespace.
		return conn, errors.Join(err, fmt.Errorf("leave the bridge's namespace: %w", back))
	}
	runtime.UnlockOSThread()
	return conn, err
}

// Close removes the network. Processes that still run in it are killed.
func (w *Network) Close() error {
	var errs []error
	for _, h := range w.hosts {
		errs = append(errs, h.room.close())
	}
	return errors.Join(append(errs, w.hub.close())...)
}

// room is a network namespace with a thread in it. The processes that the thread starts run in the
// namespace, and end with the thread.
type room struct {
	calls chan func()
	ended chan struct{}
	once  sync.Once
	ns    *os.File
}

// newRoom creates a namespace.
func newRoom() (*room, error) {
	r, err := enterRoom(func() (*os.File, error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return nil, err
		}
		return os.Open("/proc/thread-self/ns/net")
	})
	if err != nil {
		return nil, fmt.Errorf("make a network namespace: %w", err)
	}
	return r, nil
}

// enterRoom returns a thread in the namespaces that enter selects. Enter returns the one of the network.
func enterRoom(enter func() (*os.File, error)) (*room, error) {
	r := &room{calls: make(chan func()), ended: make(chan struct{})}
	ready := make(chan error)
	serve := func() {
		var err error
		r.ns, err = enter()
		ready <- err
		for call := range r.calls {
			call()
		}
	}
	go func() {
		defer close(r.ended)
		testthread.Run(serve)
	}()
	if err := <-ready; err != nil {
		close(r.calls)
		return nil, err
	}
	return r, nil
}

// do runs f on the thread of the namespace.
func (r *room) do(f func() error) error {
	done := make(chan error, 1)
	r.calls <- func() { done <- f() }
	return <-done
}

// ip runs commands of iproute2 in the namespace.
func (r *room) ip(commands ...string) error {
	return r.do(func() error {
		for _, c := range commands {
			if out, err := exec.Command("ip", strings.Fields(c)...).CombinedOutput(); err != nil {
				return fmt.Errorf("ip %s: %w: %s", c, err, out)
			}
		}
		return nil
	})
}

// path returns a path of the namespace for other processes.
func (r *room) path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), r.ns.Fd()) }

// close ends the thread and releases the namespace.
func (r *room) close() (err error) {
	r.once.Do(func() {
		close(r.calls)
		<-r.ended
		err = r.ns.Close()
	})
	return err
}
