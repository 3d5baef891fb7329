package dns

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-metrics"
	miekg "github.com/miekg/dns"
	"golang.org/x/sync/singleflight"

	"github.com/open-nomad/open-nomad/client/resolvconf"
	"github.com/open-nomad/open-nomad/internal/slots"
)

// Limits of forwarding.
const (
	maxForwards     = 512 // questions at a time
	maxPeerForwards = 64  // of one peer
	forwardTimeout  = 5 * time.Second
	tryTimeout      = 2 * time.Second // of one recursor
	maxRecursors    = 3               // of a resolv.conf, as in the C library
)

// resolvEvery is how long a read resolv.conf is used.
const resolvEvery = 5 * time.Second

// forwarder passes questions on. Identical questions at a time are one question, so that forwarders that forward to
// each other do not multiply it.
type forwarder struct {
	own     func(netip.AddrPort) bool
	flights singleflight.Group
	asked   *slots.Set[netip.Addr] // questions that wait for recursors, by peer

	mu   sync.Mutex
	host []netip.AddrPort // of its resolv.conf
	read time.Time
}

func newForwarder(own func(netip.AddrPort) bool) *forwarder {
	return &forwarder{own: own, asked: slots.New[netip.Addr](maxPeerForwards, maxForwards)}
}

// recursors returns those for a caller, none if its questions for other names are refused.
func (s *Server) recursors(who caller) []netip.AddrPort {
	if len(s.cfg.Recursors) > 0 || who.host {
		return s.cfg.Recursors
	}
	return s.forward.resolvers()
}

// recurse answers a question by the recursors.
func (h *handler) recurse(who caller, req *miekg.Msg) *miekg.Msg {
	resp := new(miekg.Msg).SetReply(req)
	recursors := h.recursors(who)
	if len(recursors) == 0 || !req.RecursionDesired {
		resp.Rcode = miekg.RcodeRefused
		return resp
	}
	resp.RecursionAvailable = true
	if h.forward.asked.Take(who.addr) == 0 {
		resp.Rcode = miekg.RcodeServerFailure
		return resp
	}
	defer h.forward.asked.Release(who.addr)
	got, err := h.forward.ask(h.ctx, req, recursors)
	if err != nil {
		h.cfg.Log.Debug("forward a DNS question", "err", err)
		resp.Rcode = miekg.RcodeServerFailure
		return resp
	}
	resp.Rcode, resp.AuthenticatedData = got.Rcode, got.AuthenticatedData
	resp.Answer, resp.Ns = records(got.Answer), records(got.Ns)
	resp.Extra = records(got.Extra)
	return resp
}

// records returns copies, since an answer can have several readers. EDNS is between two neighbours only.
func records(all []miekg.RR) []miekg.RR {
	var out []miekg.RR
	for _, r := range all {
		if r.Header().Rrtype != miekg.TypeOPT {
			out = append(out, miekg.Copy(r))
		}
	}
	return out
}

// ask asks the recursors one after another, with a question of its own ID and port.
func (f *forwarder) ask(ctx context.Context, req *miekg.Msg, recursors []netip.AddrPort) (*miekg.Msg, error) {
	q := req.Question[0]
	opt := req.IsEdns0()
	secure := opt != nil && opt.Do()
	key := fmt.Sprint(strings.ToLower(q.String()), secure, req.CheckingDisabled)
	got := f.flights.DoChan(key, func() (any, error) {
		metrics.IncrCounter([]string{"client", "dns", "forwards"}, 1)
		ctx, cancel := context.WithTimeout(ctx, forwardTimeout)
		defer cancel()
		out := new(miekg.Msg).SetQuestion(q.Name, q.Qtype)
		out.CheckingDisabled = req.CheckingDisabled
		out.SetEdns0(MaxUDP, secure)
		return firstAnswer(ctx, out, recursors)
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case r := <-got:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*miekg.Msg), nil
	}
}

// firstAnswer returns the answer of the first recursor that has one.
func firstAnswer(ctx context.Context, out *miekg.Msg, recursors []netip.AddrPort) (resp *miekg.Msg, err error) {
	for _, server := range recursors {
		out.Id = miekg.Id()
		resp, err = exchange(ctx, out, server)
		switch {
		case err != nil:
		case resp.Rcode == miekg.RcodeServerFailure, resp.Rcode == miekg.RcodeRefused:
			err = fmt.Errorf("the recursor %s answers %s", server, miekg.RcodeToString[resp.Rcode])
		default:
			return resp, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, err
}

// exchange asks one recursor, by TCP if its answer by UDP is truncated.
func exchange(ctx context.Context, out *miekg.Msg, server netip.AddrPort) (*miekg.Msg, error) {
	for _, network := range []string{"udp", "tcp"} {
		client := &miekg.Client{Net: network, Timeout: tryTimeout, UDPSize: MaxUDP}
		resp, _, err := client.ExchangeContext(ctx, out, server.String())
		if err != nil {
			return nil, err
		}
		if !resp.Response || len(resp.Question) != 1 || !sameQuestion(resp.Question[0], out.Question[0]) {
			return nil, fmt.Errorf("the recursor %s answers another question", server)
		}
		if !resp.Truncated || network == "tcp" {
			return resp, nil
		}
	}
	panic("dns: unreachable: the answer by TCP is returned")
}

func sameQuestion(a, b miekg.Question) bool {
	return strings.EqualFold(a.Name, b.Name) && a.Qtype == b.Qtype && a.Qclass == b.Qclass
}

// resolvers returns the nameservers of the host that are not listeners of this server.
func (f *forwarder) resolvers() []netip.AddrPort {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.read) < resolvEvery {
		return f.host
	}
	f.read, f.host = time.Now(), nil
	for _, text := range resolvconf.Read().Servers {
		addr, err := netip.ParseAddr(text)
		if server := netip.AddrPortFrom(addr, 53); err == nil && !f.own(server) && len(f.host) < maxRecursors {
			f.host = append(f.host, server)
		}
	}
	return f.host
}
