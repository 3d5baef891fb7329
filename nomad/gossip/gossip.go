// Package gossip maintains the list of servers in this region and in all federated regions: name,
// address and status. It wraps hashicorp/serf with the settings of Nomad 2.0.
//
//	        ┌──rejoins────────────────────────────┐
//	        ▼                                     │
//	joined alive ──Leave────▶ leaving ──▶ left ───┤──a day later──▶ removed
//	        └──does not answer──▶ failed ──────▲──┘
//	                                └──forced──┘ └──72 h──▶ removed
//
// The package takes no Raft decisions. It rejects members that are not servers, that use another
// key, or that Config.Admit rejects.
//
// The file Config.Snapshot (mode 0600) holds the members as lines of text, so that a restarted
// server finds the others again. The file Config.KeyFile (mode 0600) is a JSON array of base64
// keys, the first of which encrypts. Serf writes it whenever keys change.
//
// A Pool owns the goroutines of serf, one that reports changes, and one for each duplicate check
// (merge.go). Close ends them.
package gossip

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/hashicorp/serf/serf"

	"github.com/open-nomad/open-nomad/nomad/message"
)

// Role is the role tag of all servers.
const Role = "nomad"

// Member statuses.
const (
	Alive   = "alive"
	Leaving = "leaving"
	Left    = "left"
	Failed  = "failed"
)

// Serf settings, as Nomad 2.0.
const (
	leaveDelay       = time.Second
	reconnectTimeout = 72 * time.Hour
	eventBuffer      = 512
	reclaimAfter     = 5 * time.Second // after that a failed server may return at another address
)

// Config configures a Pool.
type Config struct {
	// Name is the name of the member, <name>.<region>.
	Name string
	// Bind is the IP and port for TCP and UDP. Port 0 selects a free port.
	Bind string
	// Advertise is the address for other members. Default: Bind.
	Advertise string
	// Tags are sent to the other members, together with the role.
	Tags map[string]string
	// Snapshot is the file with the members; "" disables it.
	Snapshot string
	// Rejoin joins the members of the file even if this server left before.
	Rejoin bool
	// Key encrypts all messages; 16, 24 or 32 bytes. If empty, gossip is not encrypted.
	Key []byte
	// KeyFile holds the keys. If it contains keys, Key is ignored, since keys can be rotated while
	// the pool runs. "" disables it.
	KeyFile string
	// Probe is the interval of health probes. Default 5 s.
	Probe time.Duration
	// Admit returns an error to reject a member; nil admits every server.
	Admit func(m *message.ServerMember) error
	// Changed is called after members joined, failed or changed, with those that left or were
	// removed. It must not block.
	Changed func(gone []*message.ServerMember)
	Log     *slog.Logger
}

// Pool is this server's membership in the gossip pool.
type Pool struct {
	cfg    Config
	serf   *serf.Serf
	events chan serf.Event
	wg     sync.WaitGroup
	once   sync.Once

	running atomic.Pointer[serf.Serf] // serf once created: merge is called before

	mu     sync.Mutex
	checks map[duplicate]chan struct{} // closed when the duplicate check has a result
	stale  map[duplicate]bool          // duplicates that are not alive
	closed bool
}

// Open starts listening and joins the members of the snapshot.
func Open(cfg Config) (*Pool, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	p := &Pool{cfg: cfg, events: make(chan serf.Event, eventBuffer), checks: map[duplicate]chan struct{}{}, stale: map[duplicate]bool{}}
	conf, err := p.config()
	if err != nil {
		return nil, err
	}
	if err := prepare(cfg.Snapshot); err != nil {
		return nil, err
	}
	if p.serf, err = serf.Create(conf); err != nil {
		return nil, fmt.Errorf("listen for gossip on %s: %w", cfg.Bind, err)
	}
	p.running.Store(p.serf)
	p.wg.Go(p.notify)
	return p, nil
}

// config returns the configuration of serf.
func (p *Pool) config() (*serf.Config, error) {
	conf := serf.DefaultConfig()
	conf.Init()
	conf.NodeName = p.cfg.Name
	maps.Copy(conf.Tags, p.cfg.Tags)
	conf.Tags["role"] = Role
	conf.EventCh = p.events
	conf.LeavePropagateDelay = leaveDelay
	conf.ReconnectTimeout = reconnectTimeout
	conf.SnapshotPath = p.cfg.Snapshot
	conf.RejoinAfterLeave = p.cfg.Rejoin
	conf.EnableNameConflictResolution = false
	conf.MsgpackUseNewTimeFormat = true
	conf.Merge = merge{p}
	logger := slog.NewLogLogger(levels{p.cfg.Log.Handler()}, slog.LevelDebug)
	conf.LogOutput, conf.Logger = nil, logger
	m := memberlist.DefaultWANConfig()
	m.LogOutput, m.Logger = nil, logger
	m.MsgpackUseNewTimeFormat = true
	m.DeadNodeReclaimTime = reclaimAfter
	if p.cfg.Probe > 0 {
		m.ProbeInterval, m.ProbeTimeout, m.GossipInterval = p.cfg.Probe, p.cfg.Probe/2, p.cfg.Probe/2
	}
	var err error
	if m.BindAddr, m.BindPort, err = split(p.cfg.Bind); err != nil {
		return nil, fmt.Errorf("parse gossip address: %w", err)
	}
	if m.AdvertisePort = m.BindPort; p.cfg.Advertise != "" {
		if m.AdvertiseAddr, m.AdvertisePort, err = split(p.cfg.Advertise); err != nil {
			return nil, fmt.Errorf("parse advertised gossip address: %w", err)
		}
	}
	if m.Keyring, err = p.cfg.openRing(); err != nil {
		return nil, err
	}
	if m.Keyring != nil {
		conf.KeyringFile = p.cfg.KeyFile
	}
	conf.MemberlistConfig = m
	return conf, nil
}

// split splits an address into host and port.
func split(addr string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	port, err = strconv.Atoi(text)
	return host, port, err
}

// prepare creates the snapshot file with mode 0600; serf would make it readable for all users.
func prepare(path string) error {
	if path == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("create gossip directory: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open gossip snapshot: %w", err)
	}
	if err := errors.Join(f.Chmod(0o600), f.Close()); err != nil {
		return fmt.Errorf("protect gossip snapshot: %w", err)
	}
	return nil
}

// notify passes events to Changed until the pool is closed.
func (p *Pool) notify() {
	for {
		select {
		case <-p.serf.ShutdownCh():
			return
		case e := <-p.events:
			members, ok := e.(serf.MemberEvent)
			if !ok || p.cfg.Changed == nil {
				continue
			}
			var gone []*message.ServerMember
			if t := members.EventType(); t == serf.EventMemberLeave || t == serf.EventMemberReap {
				for _, m := range members.Members {
					gone = append(gone, member(m))
				}
			}
			p.cfg.Changed(gone)
		}
	}
}

// Join contacts other servers at the addresses and returns how many it reached. The error describes
// the failures.
func (p *Pool) Join(addrs []string) (int, error) {
	n, err := p.joinMembers(addrs)
	if err != nil {
		return n, fmt.Errorf("join %s: %w", strings.Join(addrs, ", "), explained(err))
	}
	return n, nil
}

// explained adds a hint for the operator to an error.
func explained(err error) error {
	text := err.Error()
	for _, hint := range []string{"encrypt", "decrypt", "EOF", "connection reset"} {
		if strings.Contains(text, hint) {
			return fmt.Errorf("%w (does it have the same gossip key, server.encrypt?)", err)
		}
	}
	return err
}

// Members lists all known servers, including this one, by name.
func (p *Pool) Members() []*message.ServerMember {
	var out []*message.ServerMember
	for _, m := range p.serf.Members() {
		out = append(out, member(m))
	}
	slices.SortFunc(out, func(a, b *message.ServerMember) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Self returns this server as the others see it.
func (p *Pool) Self() *message.ServerMember { return member(p.serf.LocalMember()) }

// ForceLeave changes a failed member to left. An unknown name is not an error, since tools repeat
// the call.
func (p *Pool) ForceLeave(name string) error { return p.forced(name, p.serf.RemoveFailedNode) }

// Prune is ForceLeave, and removes the member from the list.
func (p *Pool) Prune(name string) error { return p.forced(name, p.serf.RemoveFailedNodePrune) }

func (p *Pool) forced(name string, remove func(string) error) error {
	known := slices.ContainsFunc(p.serf.Members(), func(m serf.Member) bool { return m.Name == name })
	if !known {
		return nil
	}
	if err := remove(name); err != nil {
		return fmt.Errorf("force %s to leave: %w", name, err)
	}
	return nil
}

// Leave announces that this server leaves permanently, and waits for the message to spread. The
// pool still has to be closed.
func (p *Pool) Leave() error {
	if err := p.serf.Leave(); err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	return nil
}

// Close stops the pool. Other members see the server as failed, unless it left before.
func (p *Pool) Close() error {
	var err error
	p.once.Do(func() {
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		err = p.serf.Shutdown()
		p.wg.Wait()
	})
	return err
}

// member converts a member to its RPC form.
func member(m serf.Member) *message.ServerMember {
	return &message.ServerMember{Name: m.Name, Addr: m.Addr, Port: m.Port, Tags: m.Tags, Status: m.Status.String(),
		ProtocolMin: m.ProtocolMin, ProtocolMax: m.ProtocolMax, ProtocolCur: m.ProtocolCur,
		DelegateMin: m.DelegateMin, DelegateMax: m.DelegateMax, DelegateCur: m.DelegateCur}
}
