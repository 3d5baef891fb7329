package portforward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/netns"
	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad/apierror"
)

func TestMain(m *testing.M) { os.Exit(testnet.Private(m)) }

// processes returns a list of processes for each call; the last one repeats.
func processes(lists ...[]int) func(context.Context) ([]int, error) {
	return func(context.Context) ([]int, error) {
		list := lists[0]
		if len(lists) > 1 {
			lists = lists[1:]
		}
		return list, nil
	}
}

// wantNoConnection fails if a caller was connected.
func wantNoConnection(t *testing.T, l net.Listener) {
	t.Helper()
	l.(*net.TCPListener).SetDeadline(time.Now()) //nolint:errcheck // Accept reports it
	if c, err := l.Accept(); err == nil {
		c.Close()
		t.Error("a connection reached the listener")
	}
}

// With the node's network, a caller reaches only listeners of the allocation's processes.
func TestOwner(t *testing.T) {
	self, parent := []int{os.Getpid()}, []int{os.Getppid()}
	for _, c := range []struct {
		name, listen, at string
		processes        func(context.Context) ([]int, error)
		want             string // the error, "" for none
	}{
		{"of a task", "127.0.0.1:0", "127.0.0.1", processes(self), ""},
		{"of a task, everywhere", "0.0.0.0:0", "127.0.0.1", processes(self), ""},
		{"of a task, everywhere over IPv6", "[::]:0", "127.0.0.1", processes(self), ""},
		{"of a task, IPv6", "[::1]:0", "::1", processes(self), ""},
		{"of the node", "127.0.0.1:0", "127.0.0.1", processes(parent), "not a process of the allocation"},
		{"of the node, everywhere", "0.0.0.0:0", "127.0.0.1", processes(parent), "not a process of the allocation"},
		{"of the node, everywhere over IPv6", "[::]:0", "127.0.0.1", processes(parent), "not a process of the allocation"},
		{"of the node, no processes", "127.0.0.1:0", "127.0.0.1", processes(nil), "not a process of the allocation"},
		{"of a process with a reused ID", "127.0.0.1:0", "127.0.0.1", processes(self, self, parent), "not a process of the allocation"},
		{"at another address", "127.0.0.2:0", "127.0.0.1", processes(self), "nothing listens on it"},
		{"unknown processes", "127.0.0.1:0", "127.0.0.1", func(context.Context) ([]int, error) { return nil, errors.New("no groups") },
			`processes of task "web": no groups`},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := net.Listen("tcp", c.listen)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			target := Target{port: uint16(l.Addr().(*net.TCPAddr).Port), at: netip.MustParseAddr(c.at), tasks: []Task{
				{Name: "other", Processes: processes(nil)}, {Name: "web", Processes: c.processes}}}
			conn, err := target.Dial(t.Context())
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				conn.Close()
				if _, err := l.Accept(); err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil {
				conn.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || apierror.HTTPStatus(err) != 502 {
				t.Errorf("Dial() = %v, want %q", err, c.want)
			}
			wantNoConnection(t, l)
		})
	}
}

// A program that accepts one connection, such as nc -l, closes its listener before the connection is confirmed. The
// connection then has to belong to a process of the allocation.
func TestConfirm_OneConnection(t *testing.T) {
	for _, c := range []struct {
		name   string
		owner  int // of the listener and the connection
		shared bool
		want   error
	}{
		{"of a task", os.Getpid(), true, nil},
		{"of the node", os.Getppid(), true, errForeign},
		{"in the allocation's own namespace", os.Getppid(), false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := testnet.Listen(t)
			at := netip.MustParseAddrPort(l.Addr().String())
			target := Target{tasks: []Task{{Name: "web", Processes: processes([]int{c.owner})}}}
			s := space{port: at.Port(), at: at.Addr()}
			found, err := s.listeners(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if c.shared {
				s.owned = target.owned
			}
			conn, err := s.connect(t.Context(), at)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			end, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer end.Close()
			l.Close()
			if err := s.confirm(t.Context(), conn, found); !errors.Is(err, c.want) {
				t.Errorf("confirm() = %v, want %v", err, c.want)
			}
		})
	}
}

// Without tasks, or without a listener, nothing is reached.
func TestNothing(t *testing.T) {
	l := testnet.Listen(t)
	target := Target{port: uint16(l.Addr().(*net.TCPAddr).Port), at: netip.MustParseAddr("127.0.0.1")}
	if conn, err := target.Dial(t.Context()); err == nil {
		conn.Close()
		t.Error("Dial() without tasks connected")
	}
	wantNoConnection(t, l)
}

// A task in a network namespace of its own, such as that of a container, is reached there, although a program of the
// node listens on the port that the node publishes.
func TestTaskNamespace(t *testing.T) {
	if !testnet.IsPrivate() {
		t.Skip("needs root")
	}
	path := namespace(t)
	child := exec.Command("nsenter", "--net="+path, "sleep", "600")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Wait() //nolint:errcheck // killed
	defer child.Process.Kill()
	testpace.Until(t, "the process is in the namespace", func() bool {
		ns, _ := os.Readlink("/proc/self/ns/net")
		now, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", child.Process.Pid))
		return err == nil && now != ns
	})
	published := testnet.Listen(t)
	var inside net.Listener
	if err := netns.Inside(path, func() (err error) { inside, err = net.Listen("tcp4", "127.0.0.1:0"); return err }); err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	target := func(pids ...int) Target {
		return Target{label: "http", port: uint16(published.Addr().(*net.TCPAddr).Port), at: netip.MustParseAddr("127.0.0.1"), inner: 9,
			tasks: []Task{{Name: "web", Processes: processes(pids), Ports: map[string]int{"http": inside.Addr().(*net.TCPAddr).Port}}}}
	}
	conn, err := target(child.Process.Pid, os.Getpid()).Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if _, err := inside.Accept(); err != nil {
		t.Error(err)
	}
	if conn, err := target(child.Process.Pid).Dial(t.Context()); err == nil { // a namespace that the task shares with others
		conn.Close()
		t.Error("Dial() reached a listener of another process in the namespace of the task")
	}
	wantNoConnection(t, inside)
	wantNoConnection(t, published)
}

// A connection that the firewall of the node redirects is refused.
func TestRedirected(t *testing.T) {
	if !testnet.IsPrivate() {
		t.Skip("needs root")
	}
	local, other := testnet.Listen(t), testnet.Listen(t)
	port := local.Addr().(*net.TCPAddr).Port
	rule := []string{"-w", "-t", "nat", "-A", "OUTPUT", "-p", "tcp", "--dport", fmt.Sprint(port), "-j", "REDIRECT", "--to-ports",
		fmt.Sprint(other.Addr().(*net.TCPAddr).Port)}
	if out, err := exec.Command("iptables", rule...).CombinedOutput(); err != nil {
		testnet.Missing(t, fmt.Sprintf("iptables: %v: %s", err, out))
	}
	defer exec.Command("iptables", append([]string{"-w", "-t", "nat", "-D"}, rule[4:]...)...).Run()
	target := Target{port: uint16(port), at: netip.MustParseAddr("127.0.0.1"), tasks: []Task{{Processes: processes([]int{os.Getpid()})}}}
	conn, err := target.Dial(t.Context())
	if err == nil {
		conn.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "redirects") {
		t.Errorf("Dial() = %v", err)
	}
}
