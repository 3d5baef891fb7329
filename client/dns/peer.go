package dns

import (
	"net/netip"
	"slices"
	"sync"

	"golang.org/x/time/rate"

	"github.com/open-nomad/open-nomad/internal/slots"
)

// Limits of one allocation.
const (
	peerRate  = 500 // questions per second
	peerBurst = 1000
	maxPeers  = 4096 // whose rate is known
	// maxPeerWork is the maximum number of its questions in work. A new name waits for the servers, so that one
	// allocation that asks for many could occupy MaxInWork alone.
	maxPeerWork = MaxInWork / 8
)

// anyNamespace in Config.HostNamespaces is every namespace.
const anyNamespace = "*"

// defaultNamespace is that of the host if its namespaces begin with anyNamespace.
const defaultNamespace = "default"

// caller is who asks a question.
type caller struct {
	addr      netip.Addr
	namespace string   // of names without a label
	allowed   []string // the namespaces with a label
	host      bool
}

// caller returns who has the address, false if it may not ask.
func (h *handler) caller(source netip.Addr) (caller, bool) {
	if h.bridge {
		namespace, ok := h.cfg.Peer(source)
		return caller{addr: source, namespace: namespace, allowed: h.cfg.SharedNamespaces}, ok
	}
	if !source.IsLoopback() || len(h.cfg.HostNamespaces) == 0 {
		return caller{}, false
	}
	first := h.cfg.HostNamespaces[0]
	if first == anyNamespace {
		first = defaultNamespace
	}
	return caller{addr: source, namespace: first, allowed: h.cfg.HostNamespaces, host: true}, true
}

// selects returns the namespace that a name with the label asks for, false if the caller may not ask for it.
func (c *caller) selects(label string) (string, bool) {
	if label == "" || label == c.namespace {
		return c.namespace, true
	}
	if slices.Contains(c.allowed, label) || c.host && slices.Contains(c.allowed, anyNamespace) {
		return label, true
	}
	return "", false
}

// limiter limits the rate of each allocation, and its questions in work.
type limiter struct {
	work *slots.Set[netip.Addr]

	mu    sync.Mutex
	peers map[netip.Addr]*rate.Limiter
}

func newLimiter() *limiter {
	return &limiter{work: slots.New[netip.Addr](maxPeerWork, 0), peers: map[netip.Addr]*rate.Limiter{}}
}

// allow reports whether a peer may ask now. If there are too many peers, those that have not used up anything are
// removed, and all if that does not help.
func (l *limiter) allow(peer netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	bucket := l.peers[peer]
	if bucket == nil {
		if len(l.peers) >= maxPeers {
			l.shrink()
		}
		bucket = rate.NewLimiter(peerRate, peerBurst)
		l.peers[peer] = bucket
	}
	return bucket.Allow()
}

func (l *limiter) shrink() {
	for peer, bucket := range l.peers {
		if bucket.Tokens() >= peerBurst {
			delete(l.peers, peer)
		}
	}
	if len(l.peers) >= maxPeers {
		clear(l.peers)
	}
}
