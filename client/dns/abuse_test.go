package dns_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	miekg "github.com/miekg/dns"

	"github.com/open-nomad/open-nomad/client/dns"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad/catalog"
)

// waiting is a catalogue whose answers to "slow" wait, and that records all namespaces.
type waiting struct {
	services
	open chan struct{}

	mu   sync.Mutex
	slow int
	seen map[string]bool
}

func (w *waiting) Instances(ctx context.Context, namespace, service string) ([]*catalog.Instance, error) {
	w.mu.Lock()
	w.seen[namespace] = true
	if service == "slow" {
		w.slow++
	}
	w.mu.Unlock()
	if service == "slow" {
		select {
		case <-w.open:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return w.services.Instances(ctx, namespace, service)
}

// namespaces returns the namespaces of all questions.
func (w *waiting) namespaces() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.seen))
}

// One allocation cannot occupy all questions in work. Another one and the host still get answers.
func TestWorkOfOnePeer(t *testing.T) {
	w := &waiting{services: testServices(), open: make(chan struct{}), seen: map[string]bool{}}
	n := start(t, func(c *dns.Config) { c.Catalogue = w })
	defer close(w.open)
	c, err := net.DialUDP("udp", &net.UDPAddr{IP: net.ParseIP("127.0.0.5")}, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(n.bridge)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := new(miekg.Msg).SetQuestion("slow.service.nomad.", miekg.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	for range 900 {
		if _, err := c.Write(raw); err != nil {
			t.Fatal(err)
		}
	}
	slow := func() int { w.mu.Lock(); defer w.mu.Unlock(); return w.slow }
	testpace.Within(t, 5*time.Second, "the limit of questions in work is reached", func() bool { return slow() == dns.MaxInWork/8 })
	for _, from := range []string{"127.0.0.6", ""} {
		// The kernel drops a question while the socket is full of the others. A resolver then asks again.
		testpace.Within(t, 10*time.Second, fmt.Sprintf("an answer to %q", from), func() bool {
			got, err := n.ask(question{name: "portless.service.nomad", kind: miekg.TypeA, from: from})
			return err == nil && short(got) == "192.0.2.8"
		})
	}
	if got := slow(); got != dns.MaxInWork/8 {
		t.Errorf("%d questions in work, want %d", got, dns.MaxInWork/8)
	}
}

// A label that cannot be a namespace never reaches the servers: they would refuse the names of all other questions too.
func TestImpossibleNamespaces(t *testing.T) {
	w := &waiting{services: testServices(), open: make(chan struct{}), seen: map[string]bool{}}
	n := start(t, func(c *dns.Config) { c.Catalogue, c.HostNamespaces = w, []string{"*"} })
	for _, label := range []string{strings.Repeat("\\000", 63), "*", "a\\.b", "a_b", "\\255"} {
		got, err := n.ask(question{name: "web.service." + label + ".ns.nomad", kind: miekg.TypeA})
		if err != nil || got.Rcode != miekg.RcodeNameError {
			t.Errorf("%q: %v, %v, want NXDOMAIN", label, got, err)
		}
	}
	if got := w.namespaces(); len(got) != 0 {
		t.Errorf("the servers are asked for the namespaces %v", got)
	}
	if got, err := n.ask(question{name: "web.service.-odd-.ns.nomad", kind: miekg.TypeA}); err != nil || !slices.Contains(w.namespaces(), "-odd-") {
		t.Errorf("%v, %v: the namespace is not asked for", got, err)
	}
}

// one is a listener with one connection.
type one struct {
	net.Listener
	conn net.Conn
}

func (o one) Accept() (net.Conn, error) { return o.conn, nil }

// A connection whose peer reads nothing is closed, and with it ends its question in work.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		c, err := dns.Timed(one{conn: ours}).Accept()
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := c.Write([]byte("answer")); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != 2*time.Second {
			t.Errorf("Write: %v after %s, want a timeout after 2 s", err, time.Since(began))
		}
		if _, err := theirs.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("Read: %v, want EOF because the connection is closed", err)
		}
	})
}
