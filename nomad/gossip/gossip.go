// Package gossip keeps the list of servers, of this region and of all regions that
// are joined with it: who they are, where they are reached, whether they answer.
// It wraps hashicorp/serf with the settings of compat/wire.md section 13.
//
//	        ┌──joins again────────────────────────┐
//	        ▼                                     │
//	joined alive ──says so──▶ leaving ──▶ left ───┤──a day later──▶ forgotten
//	        └──does not answer──▶ failed ──────▲──┘
//	                                └──forced──┘ └──72 h──▶ forgotten
//
// It decides nothing about Raft. Members that are no servers, speak with another
// key, or that the owner refuses, never get in.
//
// The file of Config.Snapshot (0600) holds the members as lines of text, so that a
// server that restarts finds the others by itself. That of Config.KeyFile (0600) is
// a JSON array of keys in base64, the first of which encrypts; serf writes it
// whenever keys change.
//
// A Pool owns the goroutines of serf, one that tells of changes, and one for each
// twin that it asks for (merge.go); Close ends them.
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

	"github.com/open-nomad/open-nomad/nomad"
)

// Role is the role tag of every server.
const Role = "nomad"

// The statuses of members.
const (
	Alive   = "alive"
	Leaving = "leaving"
	Left    = "left"
	Failed  = "failed"
)

// Settings of compat/wire.md section 13.
const (
	leaveDelay       = time.Second
	reconnectTimeout = 72 * time.Hour
	eventBuffer      = 512
	reclaimAfter     = 5 * time.Second // then a server that failed may come back at another address
)

// Config is what a Pool is made of.
type Config struct {
	// Name is the member's name, <name>.<region>.
	Name string
	// Bind is the IP and port for TCP and UDP. Port 0 takes a free one.
	Bind string
	// Advertise is where others reach it. Default: Bind.
	Advertise string
	// Tags are told to the others, with the role.
	Tags map[string]string
	// Snapshot is the file that holds the members; "" keeps none.
	Snapshot string
	// Rejoin joins the members of the file also after this server had left.
	Rejoin bool
	// Key encrypts all messages; 16, 24 or 32 bytes. Empty: they are not encrypted.
	Key []byte
	// KeyFile holds the keys, once there are some; then Key no longer counts, as
	// keys are changed while the pool runs. "" keeps none.
	KeyFile string
	// Probe is how often a member is asked whether it lives. Default 5 s.
	Probe time.Duration
	// Admit refuses a member by an error; nil admits every server.
	Admit func(m *nomad.ServerMember) error
	// Changed is told after members joined, failed or changed, and with those that
	// left or were forgotten. It must not block.
	Changed func(gone []*nomad.ServerMember)
	Log     *slog.Logger
}

// Pool is this server among the others.
type Pool struct {
	cfg    Config
	serf   *serf.Serf
	events chan serf.Event
	wg     sync.WaitGroup
	once   sync.Once

	running atomic.Pointer[serf.Serf] // serf, once it was made: merge is called before

	mu     sync.Mutex
	asked  map[twin]chan struct{} // closed when it is known whether the twin lives
	stale  map[twin]bool          // those that don't
	closed bool
}

// Open listens and takes part. It finds the members of the snapshot by itself.
func Open(cfg Config) (*Pool, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	p := &Pool{cfg: cfg, events: make(chan serf.Event, eventBuffer), asked: map[twin]chan struct{}{}, stale: map[twin]bool{}}
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
	p.wg.Go(p.tell)
	return p, nil
}

// config is the configuration of serf.
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
		return nil, fmt.Errorf("address for gossip: %w", err)
	}
	if m.AdvertisePort = m.BindPort; p.cfg.Advertise != "" {
		if m.AdvertiseAddr, m.AdvertisePort, err = split(p.cfg.Advertise); err != nil {
			return nil, fmt.Errorf("advertised address for gossip: %w", err)
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

// split takes an address apart.
func split(addr string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	port, err = strconv.Atoi(text)
	return host, port, err
}

// prepare makes the snapshot file, which serf would make readable for all.
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

// tell passes events on until the pool is closed.
func (p *Pool) tell() {
	for {
		select {
		case <-p.serf.ShutdownCh():
			return
		case e := <-p.events:
			members, ok := e.(serf.MemberEvent)
			if !ok || p.cfg.Changed == nil {
				continue
			}
			var gone []*nomad.ServerMember
			if t := members.EventType(); t == serf.EventMemberLeave || t == serf.EventMemberReap {
				for _, m := range members.Members {
					gone = append(gone, member(m))
				}
			}
			p.cfg.Changed(gone)
		}
	}
}

// Join meets other servers at the given addresses and returns how many of them it
// met. The error says what was wrong with the others.
func (p *Pool) Join(addrs []string) (int, error) {
	n, err := p.meet(addrs)
	if err != nil {
		return n, fmt.Errorf("join %s: %w", strings.Join(addrs, ", "), explained(err))
	}
	return n, nil
}

// explained adds to an error what an operator may do.
func explained(err error) error {
	text := err.Error()
	for _, hint := range []string{"encrypt", "decrypt", "EOF", "connection reset"} {
		if strings.Contains(text, hint) {
			return fmt.Errorf("%w (is its gossip key, server.encrypt, the same?)", err)
		}
	}
	return err
}

// Members lists all known servers, by name; this one is among them.
func (p *Pool) Members() []*nomad.ServerMember {
	var out []*nomad.ServerMember
	for _, m := range p.serf.Members() {
		out = append(out, member(m))
	}
	slices.SortFunc(out, func(a, b *nomad.ServerMember) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Self is this server as the others see it.
func (p *Pool) Self() *nomad.ServerMember { return member(p.serf.LocalMember()) }

// ForceLeave makes a member that failed one that left. An unknown name is not an error:
// tools repeat the call.
func (p *Pool) ForceLeave(name string) error { return p.forced(name, p.serf.RemoveFailedNode) }

// Prune is ForceLeave, and forgets the member.
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

// Leave tells the others that this server leaves for good, and waits until they
// could hear it. The pool still has to be closed.
func (p *Pool) Leave() error {
	if err := p.serf.Leave(); err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	return nil
}

// Close ends everything; to the others the server fails, unless it left before.
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

// member is a member as RPCs show it.
func member(m serf.Member) *nomad.ServerMember {
	return &nomad.ServerMember{Name: m.Name, Addr: m.Addr, Port: m.Port, Tags: m.Tags, Status: m.Status.String(),
		ProtocolMin: m.ProtocolMin, ProtocolMax: m.ProtocolMax, ProtocolCur: m.ProtocolCur,
		DelegateMin: m.DelegateMin, DelegateMax: m.DelegateMax, DelegateCur: m.DelegateCur}
}
