// Package server assembles and runs a server. Its parts are the Raft log, state, the RPC transport
// with its methods, the scheduling workers, and the duties of the leader.
//
//	follower ──elected──▶ establishing ──ready──▶ leading
//	    ▲                   │  ▲ └─failed─┐          │ leadership lost, or shutdown
//	    │                   │  └──after 1 s          │
//	    └───── revoking ◀───┴────────────────────────┘
//
// Establishing completes the following steps. The log is applied. The cluster has its ID, its
// scheduler configuration and a root key. The evaluation broker and the blocked evaluations are
// loaded from state. The heartbeat timers run. Requests for the leader are answered only
// afterwards; earlier ones wait up to 5 s. Revoking stops all duties and waits until they have
// ended, so that no work continues into the next term.
//
// Run owns the goroutines: the listener with its connections, the workers, the watcher of root
// keys and the leadership loop.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/internal/connlimit"
	"github.com/open-nomad/open-nomad/internal/wake"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/admission"
	"github.com/open-nomad/open-nomad/nomad/authz"
	"github.com/open-nomad/open-nomad/nomad/autopilot"
	"github.com/open-nomad/open-nomad/nomad/broker"
	"github.com/open-nomad/open-nomad/nomad/claims"
	"github.com/open-nomad/open-nomad/nomad/consensus"
	"github.com/open-nomad/open-nomad/nomad/consul"
	"github.com/open-nomad/open-nomad/nomad/csicall"
	"github.com/open-nomad/open-nomad/nomad/csisecret"
	"github.com/open-nomad/open-nomad/nomad/deploy"
	"github.com/open-nomad/open-nomad/nomad/drain"
	"github.com/open-nomad/open-nomad/nomad/endpoint"
	"github.com/open-nomad/open-nomad/nomad/endpoint/acl"
	"github.com/open-nomad/open-nomad/nomad/endpoint/csivolumes"
	"github.com/open-nomad/open-nomad/nomad/endpoint/evals"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/endpoint/hostvolumes"
	"github.com/open-nomad/open-nomad/nomad/endpoint/jobs"
	"github.com/open-nomad/open-nomad/nomad/endpoint/nodes"
	"github.com/open-nomad/open-nomad/nomad/endpoint/relay"
	"github.com/open-nomad/open-nomad/nomad/endpoint/rootkeys"
	"github.com/open-nomad/open-nomad/nomad/endpoint/servers"
	"github.com/open-nomad/open-nomad/nomad/endpoint/variables"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/gossip"
	"github.com/open-nomad/open-nomad/nomad/heartbeat"
	"github.com/open-nomad/open-nomad/nomad/identity"
	"github.com/open-nomad/open-nomad/nomad/keyring"
	"github.com/open-nomad/open-nomad/nomad/keyring/kms"
	"github.com/open-nomad/open-nomad/nomad/locks"
	"github.com/open-nomad/open-nomad/nomad/mesh"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/periodic"
	"github.com/open-nomad/open-nomad/nomad/plan"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/rpc/meter"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/stream"
	"github.com/open-nomad/open-nomad/nomad/svid"
	"github.com/open-nomad/open-nomad/nomad/unserved"
	"github.com/open-nomad/open-nomad/nomad/worker"
	"github.com/open-nomad/open-nomad/plugins/schema"
)

// maxDial limits the time to connect to another server. It is shorter than the hold time of
// calls.
const maxDial = 3 * time.Second

// stepDownWithin limits the transfer of leadership when a server stops.
const stepDownWithin = 2 * time.Second

// Server is one server of a region.
type Server struct {
	cfg       Config
	log       *slog.Logger
	listener  net.Listener
	advertise string // address for clients
	peer      string // address for servers

	fsm       *fsm.FSM
	raft      *consensus.Raft
	streams   *consensus.Streams // nil without peers
	ring      *keyring.Ring
	services  []*kms.Wrapper // the wrappers of the keyring that use external services
	issuer    *identity.Issuer
	svids     *svid.Issuer
	authority *authz.Authority
	broker    *broker.Broker
	blocked   *broker.Blocked
	observer  *broker.Observer
	purges    purges
	events    *stream.Broker // nil if disabled
	beats     *heartbeat.Timers
	locks     *locks.Timers
	plans     *plan.Applier
	consul    *consul.Services
	admission *admission.Admitter
	deploys   *deploy.Watcher
	periodic  *periodic.Launcher
	drains    *drain.Drainer
	secrets   *csisecret.Sealer
	csi       *csicall.Caller
	claims    *claims.Watcher
	pilot     *autopilot.Pilot
	unserved  *unserved.Watcher
	rpc       *rpc.Server
	calls     *meter.Meter
	peers     *rpc.Pool
	leading   *gate
	term      atomic.Uint64 // the term for which leading is open: everything before it is in state
	caughtUp  *gate         // opened once the log that existed at the start is in state
	pauses    chan func()   // functions to run while the leader's duties are stopped
	pool      *worker.Pool
	schemas   *schema.Set
	closing   sync.Once

	gossip atomic.Pointer[gossip.Pool] // nil before the start, and without gossip
	moved  *signal                     // fired when the members change
	own    ownToken
	goneMu sync.Mutex
	gone   map[string]bool // IDs of servers with a leave or reap event, see departed
}

// New opens the log and the listener, so that a directory or address in use is reported at
// once. The server answers after Run was called. A server that is not run must be closed.
func New(cfg Config, log *slog.Logger) (*Server, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	if cfg.TokensToNodes && cfg.Access.Enabled {
		log.Warn("callers' tokens are sent to nodes that do not support tickets", "key", "server.relay_tokens_to_nodes")
	}
	s := &Server{cfg: cfg, log: log, schemas: schema.NewSet(cfg.Kinds), leading: newGate(), caughtUp: newGate(), pauses: make(chan func()),
		moved: newSignal(), gone: map[string]bool{}}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// open creates the parts in order of their dependencies.
func (s *Server) open() (err error) {
	ln, err := net.Listen("tcp", s.cfg.RPCAddr)
	if err != nil {
		return fmt.Errorf("listen for RPC: %w", err)
	}
	// A caller that is refused at once asks another server.
	if s.listener, err = connlimit.NewReserve(ln, func(c net.Conn) { c.Close() }); err != nil {
		ln.Close()
		return fmt.Errorf("listen for RPC: %w", err)
	}
	if s.advertise = s.cfg.RPCAdvertise; s.advertise == "" {
		s.advertise = s.listener.Addr().String()
	}
	s.broker = broker.New(broker.Config{JobLabels: s.cfg.Metrics.Allocs})
	s.blocked = broker.NewBlocked(s.broker)
	s.purges = purges{wake.New()}
	s.observer = broker.NewObserver(s.broker, s.blocked, s.classOf, s.stoppedJob)
	s.fsm = fsm.New(state.New(s.log), s.observing(), s.log)
	s.peers = rpc.NewPool(rpc.PoolConfig{IdleTimeout: 2 * time.Minute, MaxIdleStreams: 64, DialTimeout: s.cfg.DialTimeout, Mux: s.cfg.Mux,
		TLS: s.cfg.TLS, Region: s.cfg.Region, RegionOf: s.regionAt, Log: s.log})
	if err := s.openRaft(); err != nil {
		return err
	}
	if err := s.openRing(); err != nil {
		return err
	}
	s.issuer = identity.New(identity.Config{Ring: s.ring, Region: s.cfg.Region, URL: s.cfg.OIDCIssuer, AnyAudience: s.cfg.AcceptAnyAudience,
		Vault: s.cfg.Vault, Audit: s.cfg.Audit})
	if s.svids, err = svid.New(svid.Config{Ring: s.ring, TrustDomain: s.cfg.Spiffe.TrustDomain, DNS: s.cfg.Spiffe.DNS,
		Overlap: s.cfg.Spiffe.Overlap}); err != nil {
		return fmt.Errorf("server: spiffe: %w", err)
	}
	s.consul = consul.NewServices(s.cfg.Consul)
	s.authority = authz.New(authz.Config{Enforce: s.cfg.Access.Enabled, Store: s.fsm.State, Tokens: s.issuer, Now: time.Now, Certs: s.cfg.TLS,
		Keys: s.consul.NativeKeys, Log: s.log})
	s.calls = s.newMeter()
	self := s.asLeader()
	s.beats = heartbeat.New(heartbeat.Config{RPC: self, Region: s.cfg.Region, MinTTL: s.cfg.MinHeartbeatTTL, Grace: s.cfg.HeartbeatGrace,
		FailoverTTL: s.cfg.FailoverHeartbeatTTL, MaxPerSecond: s.cfg.MaxHeartbeatsPerSecond, Log: s.log})
	s.locks = locks.New(self, s.log)
	s.plans = plan.New(plan.Config{Store: s.fsm.State, Raft: s.raft, Minter: s.issuer, Evals: s.broker, Kinds: s.cfg.Kinds,
		Rejections: s.cfg.PlanRejections, Log: s.log})
	s.admission = admission.New(admission.Config{Region: s.cfg.Region, Kinds: s.cfg.Kinds, Schemas: s.schemas, OnlyOurs: s.onlyOurs,
		Open: !s.cfg.Access.Enabled, ExplicitPrivilege: s.cfg.ExplicitPrivilege, MaxPriority: s.cfg.JobMaxPriority, MaxCount: s.cfg.JobMaxCount,
		Spiffe: admission.Spiffe{TrustDomain: s.cfg.Spiffe.TrustDomain, DNS: s.cfg.Spiffe.DNS}, Consul: s.consul,
		Vault: s.cfg.Vault})
	s.deploys = deploy.New(deploy.Config{Store: s.fsm.State, Raft: s.raft, Log: s.log, Admission: s.admission})
	s.periodic = periodic.New(periodic.Config{Store: s.fsm.State, Raft: s.raft, Log: s.log, Admission: s.admission})
	s.drains = drain.New(drain.Config{Store: s.fsm.State, Raft: s.raft, Log: s.log})
	s.openVolumes()
	s.pilot = s.newPilot()
	s.unserved = unserved.New(unserved.Config{Store: s.fsm.State, CaughtUp: s.caughtUp.whenOpen(), Moved: s.moved.wait,
		Others: func() []string { return unmarked(s.cfg.Region, s.Members()) }, Served: s.served, Log: s.log})
	s.pool = s.newWorkers()
	s.rpc, err = rpc.NewServer(rpc.Config{Methods: s.endpoints().Methods(), Auth: patient{s.authority, s.caughtUp}, Router: s, Peers: s.peers,
		Home: s.cfg.AuthoritativeRegion, Self: s.token, Bound: nodes.BoundNode, Raft: s.raftConns(), TLS: s.cfg.TLS,
		Mux: s.cfg.Mux, HandshakeTimeout: s.cfg.RPCHandshakeTimeout, MaxConnsPerAddr: s.cfg.RPCMaxConnsPerClient, Observer: s.calls,
		Audit: s.audited, Log: s.log})
	if err != nil || s.alone() {
		return err
	}
	return s.openGossip()
}

// openRaft opens the log, with peers if this server uses gossip.
func (s *Server) openRaft() (err error) {
	cfg := consensus.Config{FSM: s.fsm, Dir: s.dir(), Address: s.advertise, Bootstrap: s.alone() || s.cfg.BootstrapExpect == 1,
		Backend: s.cfg.LogStore, NoLogCache: s.cfg.NoLogCache, SegmentSize: s.cfg.SegmentSize, Tuning: s.cfg.Raft, Log: s.log,
		CheckOwnCommands: func(t message.CommandType) error { return s.onlyOurs("command " + fsm.CommandName(t)) },
		NewTempFSM:       func() raft.FSM { return fsm.New(state.New(s.log), nil, s.log) }}
	if s.peer = s.advertise; !s.alone() {
		serf := s.cfg.SerfAdvertise
		if serf == "" {
			serf = s.cfg.SerfAddr
		}
		host, _, err := net.SplitHostPort(serf)
		if err != nil {
			return fmt.Errorf("address for gossip: %w", err)
		}
		_, port, err := net.SplitHostPort(s.advertise)
		if err != nil {
			return fmt.Errorf("address for RPC: %w", err)
		}
		s.peer = net.JoinHostPort(host, port)
		s.streams = consensus.NewStreams(s.peer, s.peers.DialRaft)
		cfg.Address, cfg.Streams, cfg.Locate = s.peer, s.streams, s.locate
	}
	s.raft, err = consensus.Open(cfg)
	return err
}

// dir returns the server's directory, or "" if everything is in memory.
func (s *Server) dir() string { return s.cfg.ServerDir() }

// raftConns returns the receiver of Raft connections; nil refuses them.
func (s *Server) raftConns() rpc.RaftConns {
	if s.streams == nil {
		return nil
	}
	return s.streams
}

// endpoints creates the RPC handlers.
func (s *Server) endpoints() *endpoint.Service {
	return endpoint.New(endpoint.Config{
		Core: handler.Config{Region: s.cfg.Region, Kinds: s.cfg.Kinds, Schemas: s.schemas, OnlyOurs: s.onlyOurs, Consul: s.consul, SignWithin: s.cfg.SignWithin,
			Store: s.fsm.State, Raft: s.raft, Cluster: s, Peers: peers{s},
			Nodes: func() handler.Nodes { return s.rpc }, Broker: s.broker, Issuer: s.issuer, Now: time.Now, Log: s.log},
		RootKeys:    rootkeys.Config{Keyring: s.ring, RotationThreshold: s.cfg.RootKeyRotationThreshold},
		Access:      acl.Config{Control: s.cfg.Access, BootstrapReset: s.resetIndex},
		Relay:       relay.Config{TokensToNodes: s.cfg.TokensToNodes, Monitor: s.cfg.Monitor, Profiles: s.cfg.Profiles},
		Evals:       evals.Config{Blocked: s.blocked, Plans: s.plans, LeaderToken: s.authority.Token},
		Deployments: s.deploys,
		Periodic:    s.periodic,
		Jobs: jobs.Config{Admission: s.admission, DefaultPriority: s.cfg.JobDefaultPriority, MaxSource: s.cfg.JobMaxSourceSize,
			Gateways: mesh.NewWriter(s.cfg.Consul.Agent)},
		Nodes: nodes.Config{AuthoritativeRegion: s.cfg.AuthoritativeRegion, Introduction: s.cfg.Introduction, Heartbeats: s.beats,
			Plans: s.plans},
		HostVolumes: hostvolumes.Config{Plans: s.plans, Blocked: s.blocked},
		CSIVolumes:  csivolumes.Config{Plugins: s.csi, Releases: s.claims, Secrets: s.secrets, Plans: s.plans, Blocked: s.blocked},
		Variables:   variables.Config{Locks: s.locks, Keyring: s.ring},
		Servers: servers.Config{Name: s.cfg.Name, Datacenter: s.cfg.Datacenter, Warning: s.cfg.Introduction.Warning(),
			Voters: s, Autopilot: s, Snapshots: s},
		Search: s.cfg.Search, Events: s.events, SVIDs: s.svids,
	})
}

// observing returns the observers of applied commands.
func (s *Server) observing() fsm.Observer {
	if s.cfg.EventBuffer < 0 {
		return struct {
			*broker.Observer
			purges
		}{s.observer, s.purges}
	}
	s.events = stream.New(s.cfg.EventBuffer)
	return struct {
		*broker.Observer
		*stream.Broker
		purges
	}{s.observer, s.events, s.purges}
}

// classOf returns the computed class of a node.
func (s *Server) classOf(id string) (string, bool) {
	n := s.fsm.State().Snapshot().Node(nil, id)
	if n == nil {
		return "", false
	}
	return n.ComputedClass, true
}

// stoppedJob reports whether a job is stopped or does not exist.
func (s *Server) stoppedJob(job nomad.NamespacedID) bool {
	return s.fsm.State().Snapshot().Job(nil, job.Namespace, job.ID).Stopped()
}

// Run serves until ctx ends or a fatal error occurs. It then closes everything: first the parts
// that make requests, then the parts that answer them.
func (s *Server) Run(ctx context.Context) error {
	if s.cfg.Introduction.Warning() != "" {
		s.log.Warn("nodes can join without an introduction token: set server.client_introduction.enforcement to strict",
			"enforcement", s.cfg.Introduction.Enforcement)
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	below, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var asking, answering sync.WaitGroup
	part := func(wg *sync.WaitGroup, ctx context.Context, name string, run func(context.Context) error) {
		wg.Go(func() {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				fail(fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	part(&answering, below, "keyring", s.followKeys)
	part(&answering, below, "leadership", s.followLeadership)
	part(&answering, below, "state", s.watchFSM)
	part(&answering, below, "metrics", s.measure)
	part(&asking, ctx, "catching up", s.catchUp)
	part(&asking, ctx, "bootstrap", s.begin)
	part(&asking, ctx, "join", s.retryJoin)
	part(&asking, ctx, "discovery", s.discover)
	part(&asking, ctx, "regrouping", s.regroup)
	part(&asking, ctx, "succession", s.succeed)
	part(&asking, ctx, "previous leaders", s.leaveHung)
	part(&answering, below, "start", s.startInTime)
	part(&asking, ctx, "rpc", func(ctx context.Context) error { return s.rpc.Serve(ctx, s.listener) })
	part(&asking, ctx, "purged nodes", s.disconnectPurged)
	part(&asking, ctx, "unsupported features", s.unserved.Run)
	part(&asking, ctx, "workers", s.pool.Run)
	<-ctx.Done()
	s.stepDown()
	asking.Wait()
	stop()
	answering.Wait()
	return errors.Join(context.Cause(ctx), s.Close())
}

// stepDown transfers leadership before this server stops, so that the others need not wait for
// the election timeout.
func (s *Server) stepDown() {
	if !s.raft.IsLeader() || !s.isVoter() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), stepDownWithin)
	defer cancel()
	if err := s.raft.TransferLeadership(ctx, "", ""); err != nil {
		s.log.Warn("hand leadership over", "err", err)
	}
}

// startInTime stops the server if it does not apply its log in time. The time that a cluster's
// server waits for its peers does not count.
func (s *Server) startInTime(ctx context.Context) error {
	if s.cfg.StartTimeout == 0 {
		return nil
	}
	for !s.alone() {
		changed := s.raft.LeaderChange()
		if _, id := s.raft.Leader(); id != "" {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
	limited, cancel := context.WithTimeout(ctx, s.cfg.StartTimeout)
	defer cancel()
	if err := s.caughtUp.wait(limited); err != nil {
		return fmt.Errorf("the log was not applied within %v (server.start_timeout)", s.cfg.StartTimeout)
	}
	return nil
}

// watchFSM stops the server after a log entry that it cannot apply, because its state is then
// incomplete.
func (s *Server) watchFSM(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-s.fsm.Failed():
		return err
	}
}

// Close releases the resources of New. Run calls it.
func (s *Server) Close() error {
	var errs []error
	s.closing.Do(func() {
		if s.listener != nil {
			if err := s.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				errs = append(errs, err)
			}
		}
		if p := s.gossip.Load(); p != nil {
			errs = append(errs, p.Close())
		}
		if s.peers != nil {
			errs = append(errs, s.peers.Close())
		}
		if s.raft != nil {
			errs = append(errs, s.raft.Close())
		}
		for _, service := range s.services {
			service.Close()
		}
	})
	return errors.Join(errs...)
}

// Call runs an RPC in this process.
func (s *Server) Call(ctx context.Context, method string, req, resp any) error {
	return s.rpc.Call(ctx, method, req, resp)
}

// Stream opens a streaming RPC in this process.
func (s *Server) Stream(ctx context.Context, method string) (*rpc.Stream, error) {
	return s.rpc.Stream(ctx, method)
}

// Methods returns the table of RPCs.
func (s *Server) Methods() []rpc.Method { return s.rpc.Methods() }

// AttachNode makes a client in this process reachable for relayed RPCs. node answers them. The
// returned function detaches it.
func (s *Server) AttachNode(id string, node *rpc.Server) (detach func()) {
	return s.rpc.AttachNode(id, node)
}

// Listeners returns the addresses on which this server listens for RPC and gossip. Without gossip, the latter is "".
func (s *Server) Listeners() (rpc, serf string) {
	rpc = s.listener.Addr().String()
	pool := s.gossip.Load()
	if pool == nil {
		return rpc, ""
	}
	host, port, _ := net.SplitHostPort(s.cfg.SerfAddr) // validated when it was bound
	if port == "0" {
		port = strconv.Itoa(int(pool.Self().Port))
	}
	return rpc, net.JoinHostPort(host, port)
}

// RPCAddr returns the address for other agents.
func (s *Server) RPCAddr() string { return s.advertise }

// Ports returns the ports on which this server listens for RPC and gossip.
func (s *Server) Ports() []int {
	var out []int
	if at, ok := s.listener.Addr().(*net.TCPAddr); ok {
		out = append(out, at.Port)
	}
	if s.alone() {
		return out
	}
	if _, text, err := net.SplitHostPort(s.cfg.SerfAddr); err == nil {
		if port, err := strconv.Atoi(text); err == nil {
			out = append(out, port)
		}
	}
	if pool := s.gossip.Load(); pool != nil {
		out = append(out, int(pool.Self().Port)) // differs if 0 is configured
	}
	return out
}

// Tune changes settings of the log while the server runs.
func (s *Server) Tune(t consensus.Tuning) error { return s.raft.Tune(t) }

// Ready waits until a leader answers.
func (s *Server) Ready(ctx context.Context) error { return s.leading.wait(ctx) }
