package dns_test

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	miekg "github.com/miekg/dns"

	"github.com/open-nomad/open-nomad/client/dns"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// bothProtocols listens on a port by UDP and TCP. Another program may have the port by one of them: then it tries the next.
func bothProtocols(t *testing.T) (net.PacketConn, net.Listener) {
	t.Helper()
	for {
		tcp, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		udp, err := net.ListenPacket("udp", tcp.Addr().String())
		if err == nil {
			return udp, tcp
		}
		tcp.Close()
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
	}
}

// recursor runs a recursor by UDP and TCP on a loopback address.
func recursor(t *testing.T, answer miekg.HandlerFunc) netip.AddrPort {
	t.Helper()
	udp, tcp := bothProtocols(t)
	for _, s := range []*miekg.Server{{PacketConn: udp, Handler: answer}, {Listener: tcp, Handler: answer}} {
		var wg sync.WaitGroup
		started := make(chan struct{})
		s.NotifyStartedFunc = func() { close(started) }
		wg.Go(func() { s.ActivateAndServe() }) //nolint:errcheck // ends with the test
		<-started
		t.Cleanup(func() { s.Shutdown(); wg.Wait() }) //nolint:errcheck // ends with the test
	}
	return netip.MustParseAddrPort(udp.LocalAddr().String())
}

// public answers every question with an address. Names with "large" are truncated by UDP.
func public(w miekg.ResponseWriter, req *miekg.Msg) {
	resp := new(miekg.Msg).SetReply(req)
	name := req.Question[0].Name
	if _, udp := w.RemoteAddr().(*net.UDPAddr); udp && strings.HasPrefix(name, "large.") {
		resp.Truncated = true
	} else {
		r, _ := miekg.NewRR(name + " 60 IN A 203.0.113.1")
		resp.Answer = []miekg.RR{r}
	}
	if strings.HasPrefix(name, "other.") {
		resp.Question[0].Name = "attack.example.com."
	}
	w.WriteMsg(resp) //nolint:errcheck // the client times out
}

func TestForward(t *testing.T) {
	broken := recursor(t, func(w miekg.ResponseWriter, req *miekg.Msg) {
		w.WriteMsg(new(miekg.Msg).SetRcode(req, miekg.RcodeServerFailure)) //nolint:errcheck // the client times out
	})
	works := recursor(t, public)
	n := start(t, func(c *dns.Config) { c.Recursors = []netip.AddrPort{broken, works} })
	for _, c := range []struct{ name, from, want string }{
		{"example.com", "", "203.0.113.1"},
		{"example.com", "127.0.0.5", "203.0.113.1"},
		{"example.com", "127.0.0.7", "REFUSED"},
		{"large.example.com", "127.0.0.5", "203.0.113.1"},
		{"other.example.com", "127.0.0.5", "SERVFAIL"},
		{"alias.service.nomad", "127.0.0.6", "db.example.com. | 203.0.113.1"},
	} {
		got, err := n.ask(question{name: c.name, kind: miekg.TypeA, from: c.from})
		if err != nil || short(got) != c.want {
			t.Errorf("%s from %q: %q, %v, want %q", c.name, c.from, short(got), err, c.want)
		} else if got.Rcode == miekg.RcodeSuccess && !got.RecursionAvailable {
			t.Errorf("%s: recursion is not available", c.name)
		}
	}
	got, err := n.ask(question{name: "example.com", kind: miekg.TypeA, edit: func(m *miekg.Msg) { m.RecursionDesired = false }})
	if err != nil || short(got) != "REFUSED" {
		t.Errorf("without recursion desired: %q, %v", short(got), err)
	}
}

// Two forwarders that forward to each other do not multiply a question.
func TestForwardLoop(t *testing.T) {
	var passes atomic.Int32
	var self atomic.Pointer[string]
	loop := recursor(t, func(w miekg.ResponseWriter, req *miekg.Msg) {
		passes.Add(1)
		// A forwarder without a limit asks twice.
		for range 2 {
			out := new(miekg.Msg).SetQuestion(req.Question[0].Name, req.Question[0].Qtype)
			if resp, err := miekg.Exchange(out, *self.Load()); err == nil {
				resp.Id = req.Id
				w.WriteMsg(resp) //nolint:errcheck // the client times out
				return
			}
		}
	})
	n := start(t, func(c *dns.Config) { c.Recursors = []netip.AddrPort{loop} })
	self.Store(&n.host)
	got, err := n.ask(question{name: "example.com", kind: miekg.TypeA})
	if err != nil || short(got) != "SERVFAIL" {
		t.Errorf("answer in a loop: %q, %v", short(got), err)
	}
	if passes.Load() > 3 {
		t.Errorf("the question passed %d times", passes.Load())
	}
}

// Identical questions at a time are one.
func TestMergedQuestions(t *testing.T) {
	var asked atomic.Int32
	release := make(chan struct{})
	slow := recursor(t, func(w miekg.ResponseWriter, req *miekg.Msg) {
		asked.Add(1)
		<-release
		public(w, req)
	})
	n := start(t, func(c *dns.Config) { c.Recursors = []netip.AddrPort{slow} })
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if got, err := n.ask(question{name: "example.com", kind: miekg.TypeA}); err != nil || short(got) != "203.0.113.1" {
				t.Errorf("answer: %q, %v", short(got), err)
			}
		})
	}
	testpace.Until(t, "all questions are forwarded", func() bool { return n.Forwarding() >= 20 })
	close(release)
	all.Wait()
	if asked.Load() != 1 {
		t.Errorf("the recursor was asked %d times, want 1", asked.Load())
	}
}
