// Package dns answers questions about services on every node, over UDP and TCP. The host asks at a loopback address,
// and the groups on the bridge at the gateway of their network. Answers come from client/catalogue.
//
//	<service>.service.<domain>               A, AAAA, SRV
//	<tag>.<service>.service.<domain>         of the instances with the tag
//	_<service>._<tag>.service.<domain>       RFC 2782; _tcp and _udp are not tags
//	<above>.<namespace>.ns.<datacenter>.dc.<domain>
//	                                         of a namespace, of a datacenter, or of both; ".dc" may be missing
//	<hex>.addr.<datacenter>.<domain>         the address with these bytes, the target of an SRV record
//
// A Server is a handler of questions with its listeners:
//
//	question ─▶ caller (peer.go): who asks? rate limit ─▶ own domain? (name.go) ─▶ answer.go ─▶ UDP or TCP
//	                     │ unknown                             └ no ─▶ forward.go ─▶ recursors
//	                     └─▶ REFUSED in a subnet of the bridge, else no answer
//
// A listener on an address that another program uses is tried again every minute (listen.go). The supervisor keeps the
// UDP sockets of the bridge between two agents (keep.go): questions wait in them.
//
// An allocation can resolve names of its own namespace and of Config.SharedNamespaces, the host those of
// Config.HostNamespaces. This is checked before the catalogue is asked. Answers go only to loopback addresses and to
// addresses of the bridge: a sender with a forged address cannot direct large answers to another machine.
//
// The goroutines are those of Run: one for each listener, and one for each question in work, MaxInWork at most.
package dns

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-metrics"
	miekg "github.com/miekg/dns"

	"github.com/open-nomad/open-nomad/internal/every"
	"github.com/open-nomad/open-nomad/nomad/catalog"
)

// Defaults and limits.
const (
	// DefaultTTL is the TTL of answers. A client that caches asks less often, and a replaced instance is used for
	// 5 seconds more.
	DefaultTTL = 5 * time.Second
	// MaxUDP is the maximum size of an answer by UDP: it fits into a packet of every common network.
	MaxUDP = 1232
	// MaxInWork is the maximum number of questions that are answered at a time. Others are dropped.
	MaxInWork = 1024
	// measureEvery is the interval of the gauges.
	measureEvery = 10 * time.Second
)

// Catalogue returns the instances of a service, none if it does not exist.
type Catalogue interface {
	Instances(ctx context.Context, namespace, service string) ([]*catalog.Instance, error)
	Size() int
}

// Keeper keeps sockets for the next agent (supervise.Client).
type Keeper interface {
	// KeepSockets keeps copies of these sockets, and no others.
	KeepSockets(ctx context.Context, all []syscall.RawConn)
	// KeptSockets returns those of the previous agent.
	KeptSockets(ctx context.Context) []*os.File
}

// Config configures a Server.
type Config struct {
	// Domains are the zones, in lower case and without dots at their ends.
	Domains []string
	// Address is the loopback address for the host.
	Address netip.AddrPort
	// Gateways are the addresses of the node on its bridge, none without a bridge.
	Gateways []netip.AddrPort
	// Subnets are those of the bridge. Other addresses get no answer there.
	Subnets []netip.Prefix
	// Peer returns the namespace of the allocation with an address on the bridge.
	Peer func(netip.Addr) (namespace string, ok bool)
	// HostNamespaces are those that the host may ask for, the first without a label. "*" is every namespace.
	HostNamespaces []string
	// SharedNamespaces are those that every allocation may ask for, besides its own.
	SharedNamespaces []string
	// Recursors get the questions for other names. If there are none, those of the host get the questions of
	// allocations, and the host's questions are refused.
	Recursors []netip.AddrPort
	// OnlyPassing leaves out instances in status warning.
	OnlyPassing bool
	TTL         time.Duration
	// NodeID and Datacenter are those of this node: its instances are first in an answer.
	NodeID, Datacenter string
	Catalogue          Catalogue
	// Quiet logs listeners that fail at level info.
	Quiet bool
	// Ready is closed when Peer has all allocations of the previous agent. Until then questions wait in the sockets of
	// the bridge.
	Ready <-chan struct{}
	// Keeper keeps the UDP sockets of the bridge while no agent runs, nil for none.
	Keeper Keeper
	// Changed is called when a listener is bound or lost.
	Changed func()
	Log     *slog.Logger
}

// Server answers questions.
type Server struct {
	cfg     Config
	limits  *limiter
	forward *forwarder
	work    chan struct{} // has a value for each question in work
	tried   chan struct{} // closed when each listener was tried once

	keeping sync.Mutex // held while Config.Keeper is called

	mu    sync.Mutex
	bound map[netip.AddrPort]*sockets       // of listeners
	kept  map[netip.AddrPort]net.PacketConn // of the previous agent, until they are used
}

// New returns a Server. Run serves.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, limits: newLimiter(), work: make(chan struct{}, MaxInWork), tried: make(chan struct{}),
		bound: map[netip.AddrPort]*sockets{}, kept: map[netip.AddrPort]net.PacketConn{}}
	s.forward = newForwarder(s.own)
	return s
}

// Run serves on all listeners until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	var duties sync.WaitGroup
	duties.Go(func() { s.listen(ctx) })
	duties.Go(func() { s.measure(ctx) })
	duties.Wait()
	return ctx.Err()
}

// Listening returns the addresses of the bound listeners: for the host as host:port, and for groups on the bridge as an
// address. They are empty while the listener is not bound.
func (s *Server) Listening() (host, bridge string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bound[s.cfg.Address] != nil {
		host = s.cfg.Address.String()
	}
	for _, a := range s.cfg.Gateways {
		if s.bound[a] != nil && bridge == "" {
			bridge = a.Addr().String()
		}
	}
	return host, bridge
}

// Gateways returns the addresses for groups on the bridge whose listeners are bound. It waits until all were tried once.
func (s *Server) Gateways(ctx context.Context) []netip.Addr {
	select {
	case <-s.tried:
	case <-ctx.Done():
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []netip.Addr
	for _, a := range s.cfg.Gateways {
		if s.bound[a] != nil {
			all = append(all, a.Addr())
		}
	}
	return all
}

// own reports whether an address is one of the listeners, to which nothing must be forwarded.
func (s *Server) own(a netip.AddrPort) bool {
	return a == s.cfg.Address || slices.Contains(s.cfg.Gateways, a)
}

// measure publishes the number of names until ctx ends.
func (s *Server) measure(ctx context.Context) {
	_ = every.Tick(ctx, measureEvery, func() { // its error is that of ctx
		metrics.SetGauge([]string{"client", "dns", "names"}, float32(s.cfg.Catalogue.Size()))
	})
}

// handler answers the questions of one listener.
type handler struct {
	*Server
	ctx context.Context
	// local is the address of the listener. bridge is set for that of the bridge.
	local  netip.AddrPort
	bridge bool
	tcp    bool
}

// ServeDNS answers a question, or drops it. The library has refused what is not a query with one question.
func (h *handler) ServeDNS(w miekg.ResponseWriter, req *miekg.Msg) {
	source, err := netip.ParseAddrPort(w.RemoteAddr().String())
	if err != nil {
		count(resultDropped)
		return
	}
	select {
	case h.work <- struct{}{}:
		defer func() { <-h.work }()
	default:
		count(resultDropped)
		return
	}
	resp, result := h.reply(source.Addr().Unmap().WithZone(""), req)
	count(result)
	if resp == nil {
		if h.tcp {
			w.Close() //nolint:errcheck // the peer gets nothing
		}
		return
	}
	if err := w.WriteMsg(resp); err != nil {
		h.cfg.Log.Debug("answer a DNS question", "peer", source, "err", err)
	}
}

// count counts a question by its result.
func count(result string) {
	metrics.IncrCounterWithLabels([]string{"client", "dns", "queries"}, 1, []metrics.Label{{Name: "result", Value: result}})
}

// Results of questions in metrics, besides the names of the response codes.
const (
	resultDropped = "dropped" // too many are in work, or the peer is unknown to the listener
	resultLimited = "limited" // over a limit of the peer
	resultNoData  = "nodata"
)

// reply returns the answer to a question, nil to drop it, and its result.
func (h *handler) reply(source netip.Addr, req *miekg.Msg) (*miekg.Msg, string) {
	if len(req.Question) != 1 {
		return h.failure(req, miekg.RcodeFormatError)
	}
	who, ok := h.caller(source)
	if !ok {
		if !h.bridge || !slices.ContainsFunc(h.cfg.Subnets, func(p netip.Prefix) bool { return p.Contains(source) }) {
			return nil, resultDropped // nothing is sent to addresses that others may have forged
		}
		return h.failure(req, miekg.RcodeRefused)
	}
	if h.bridge {
		if !h.limits.allow(source) || h.limits.work.Take(source) == 0 {
			return h.limited(req), resultLimited
		}
		defer h.limits.work.Release(source)
	}
	if opt := req.IsEdns0(); opt != nil && opt.Version() != 0 {
		return h.failure(req, miekg.RcodeBadVers)
	}
	if req.Question[0].Qclass != miekg.ClassINET {
		return h.failure(req, miekg.RcodeRefused)
	}
	resp := h.resolve(who, req)
	return h.fit(req, resp), result(resp)
}

// limited returns the answer to a question over a limit of its peer, nil by UDP.
func (h *handler) limited(req *miekg.Msg) *miekg.Msg {
	if !h.tcp {
		return nil
	}
	resp, _ := h.failure(req, miekg.RcodeRefused)
	return resp
}

// resolve answers a question of a known peer.
func (h *handler) resolve(who caller, req *miekg.Msg) *miekg.Msg {
	q := req.Question[0]
	domain, labels, ok := h.split(q.Name)
	if !ok {
		return h.recurse(who, req)
	}
	resp := new(miekg.Msg).SetReply(req)
	resp.Authoritative, resp.RecursionAvailable = true, len(h.recursors(who)) > 0
	a := answer{handler: h, who: who, question: q, domain: domain, resp: resp}
	a.fill(labels)
	return resp
}

// split returns the domain of a name and the labels before it, in lower case.
func (s *Server) split(name string) (domain string, labels []string, ok bool) {
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	for _, d := range s.cfg.Domains {
		if name == d {
			return d, nil, true
		}
		if rest, found := strings.CutSuffix(name, "."+d); found && len(d) > len(domain) {
			domain, labels, ok = d, strings.Split(rest, "."), true
		}
	}
	return domain, labels, ok
}

// failure returns an answer that is only a response code.
func (h *handler) failure(req *miekg.Msg, code int) (*miekg.Msg, string) {
	resp := new(miekg.Msg).SetRcode(req, code)
	return h.fit(req, resp), result(resp)
}

// fit makes an answer as small as the transport needs it. A client that sent EDNS gets EDNS.
func (h *handler) fit(req, resp *miekg.Msg) *miekg.Msg {
	size := miekg.MaxMsgSize
	opt := req.IsEdns0()
	if !h.tcp {
		size = miekg.MinMsgSize
		if opt != nil {
			size = min(max(int(opt.UDPSize()), miekg.MinMsgSize), MaxUDP)
		}
	}
	if opt != nil {
		resp.SetEdns0(MaxUDP, opt.Do())
		if resp.Rcode == miekg.RcodeBadVers {
			resp.IsEdns0().SetExtendedRcode(miekg.RcodeBadVers)
		}
	}
	truncated := resp.Truncated
	resp.Truncate(size)
	resp.Truncated = resp.Truncated || truncated
	return resp
}

// result returns the result of an answer in metrics.
func result(resp *miekg.Msg) string {
	if resp.Rcode == miekg.RcodeSuccess && len(resp.Answer) == 0 {
		return resultNoData
	}
	return strings.ToLower(miekg.RcodeToString[resp.Rcode])
}
