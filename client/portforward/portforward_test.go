package portforward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/netns"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// allocation has the ports web, at another number inside a network namespace, and db.
var allocation = &nomad.Allocation{ID: "a", AllocatedResources: &nomad.AllocatedResources{
	Tasks: map[string]*nomad.AllocatedTaskResources{"t": {Networks: nomad.Networks{{IP: "10.0.0.1",
		DynamicPorts: []nomad.Port{{Label: "old", Value: 23000}}}}}},
	Shared: nomad.AllocatedSharedResources{Ports: nomad.AllocatedPorts{
		{Label: "web", Value: 24000, To: 80, HostIP: "10.0.0.1"}, {Label: "db", Value: 25000, HostIP: "192.0.2.1"}}},
}}

func TestResolve(t *testing.T) {
	place := Place{NetNS: "/netns"}
	for _, c := range []struct {
		name, port string
		at         Place
		want       string // or the error
	}{
		{"label inside", "web", place, "/netns 80"},
		{"label without a mapping inside", "db", place, "/netns 25000"},
		{"any number inside", "80", place, "/netns 80"},
		{"no such label inside", "x", place, `unknown port "x" of allocation a: use web, db, old, or a number from 1 to 65535`},
		{"label on the host", "web", Place{}, "10.0.0.1:24000, inside 80"},
		{"number on the host", "25000", Place{}, "192.0.2.1:25000, inside 25000"},
		{"port of a task", "old", Place{}, "10.0.0.1:23000, inside 23000"},
		{"inner number on the host", "80", Place{},
			`unknown port "80" of allocation a: use web, db, old or their numbers, since its tasks share the network of the node`},
		{"agent's port on the host", "4646", Place{}, `unknown port "4646"`},
		{"an address", "10.0.0.9:22", place, `unknown port "10.0.0.9:22"`},
		{"zero", "0", place, `unknown port "0"`},
		{"too large", "65536", place, `unknown port "65536"`},
		{"negative", "-1", Place{}, `unknown port "-1"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			target, err := Resolve(allocation, c.at, c.port)
			got := fmt.Sprintf("%s %d", target.netNS, target.inner)
			if target.netNS == "" {
				got = fmt.Sprintf("%s, inside %d", netip.AddrPortFrom(target.at, target.port), target.inner)
			}
			if strings.HasPrefix(c.want, "unknown") {
				if err == nil || !strings.HasPrefix(err.Error(), c.want) {
					t.Errorf("Resolve(%q) = %s, %v, want %q", c.port, got, err, c.want)
				}
				return
			}
			if err != nil || got != c.want {
				t.Errorf("Resolve(%q) = %q, %v, want %q", c.port, got, err, c.want)
			}
		})
	}
	if _, err := Resolve(&nomad.Allocation{ID: "b"}, Place{}, "80"); err == nil || !strings.Contains(err.Error(), "it has no ports") {
		t.Errorf("Resolve of an allocation without ports: %v", err)
	}
}

// namespace makes a network namespace, and returns its path.
func namespace(t *testing.T) string {
	t.Helper()
	set := netns.New(t.TempDir())
	path, err := set.Make("a")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := set.Remove("a"); err != nil {
			t.Error(err)
		}
	})
	return path
}

// A connection to a network namespace reaches a listener inside, and not one of the node at the
// same address and port.
func TestDialInside(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	path := namespace(t)
	outside, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer outside.Close()
	port := outside.Addr().(*net.TCPAddr).Port
	target, err := Resolve(allocation, Place{NetNS: path}, strconv.Itoa(port))
	if err != nil {
		t.Fatal(err)
	}
	if conn, err := target.Dial(t.Context()); err == nil {
		conn.Close()
		t.Fatal("a port of the node was reached through the namespace")
	} else if apierror.HTTPStatus(err) != 502 {
		t.Errorf("Dial() = %v, want status 502", err)
	}
	var inside net.Listener
	if err := netns.Inside(path, func() (err error) {
		inside, err = net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer inside.Close()
	conn, err := target.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := inside.Accept(); err != nil {
		t.Error(err)
	}
}

// Pump passes both directions and the half-close of the caller, and ends with the task's end, or
// with its context.
func TestPump(t *testing.T) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	dial := func() *net.TCPConn {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return conn.(*net.TCPConn)
	}
	go func() {
		c, err := listener.Accept()
		if err != nil {
			return
		}
		got, _ := io.ReadAll(c) // until the half-close
		fmt.Fprintf(c, "got %s", got)
		c.Close()
	}()
	var out strings.Builder
	exit, err := Pump(t.Context(), dial(), &drivers.ExecOptions{Stdin: strings.NewReader("text"), Stdout: &out})
	if err != nil || exit.ExitCode != 0 || out.String() != "got text" {
		t.Errorf("Pump() = %+v, %v, output %q", exit, err, &out)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	in, typed := io.Pipe()
	defer typed.CloseWithError(errors.New("over"))
	if _, err := Pump(ctx, dial(), &drivers.ExecOptions{Stdin: in, Stdout: io.Discard}); err != nil {
		t.Errorf("Pump() after the end of its context = %v", err)
	}
}

func TestNotes(t *testing.T) {
	var n Notes
	now := time.Unix(1000, 0)
	one, two := Note{"a", "web", "x"}, Note{"a", "web", "y"}
	for i, c := range []struct {
		note  Note
		after time.Duration
		want  bool
	}{{one, 0, true}, {one, time.Minute, false}, {two, time.Minute, true}, {one, noteEvery, true}, {one, noteEvery + time.Minute, false}} {
		if got := n.Due(c.note, now.Add(c.after)); got != c.want {
			t.Errorf("%d: Due(%v) = %v, want %v", i, c.note, got, c.want)
		}
	}
	for i := range 3 * maxNotes {
		n.Due(Note{Alloc: strconv.Itoa(i)}, now)
		if len(n.last) > maxNotes {
			t.Fatalf("%d notes are kept, at most %d", len(n.last), maxNotes)
		}
	}
}
