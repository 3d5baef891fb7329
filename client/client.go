// Package client runs one node of the cluster. It fingerprints and registers the node, sends
// heartbeats, pulls the allocations placed on it, runs them, reports their status and removes
// them after their end. It also serves the RPCs of a node: files, logs, statistics, restarts
// and signals (methods.go).
//
//	new ──fingerprint, restore──▶ registering ──Register, UpdateStatus──▶ attached
//	                                   ▲                                     │
//	                                   └──────"node not found"───────────────┘
//
// While attached, the node sends one heartbeat per TTL and pulls its allocations. When no
// server can be reached, tasks keep running; their statuses are sent once a server answers.
// Changes are sent at once. Task events are sent with the next change, or 100 ms later, because
// each call adds an entry to the Raft log.
//
// Run starts one goroutine for each duty of the client, such as heartbeats, pulling, status
// updates, drivers and garbage collection (client.go). Each allocation has one more.
//
// The package makes no placement decision and reads the servers' state only by RPC.
package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/client/access"
	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/allocrunner"
	"github.com/open-nomad/open-nomad/client/artifact"
	"github.com/open-nomad/open-nomad/client/check"
	"github.com/open-nomad/open-nomad/client/driverset"
	"github.com/open-nomad/open-nomad/client/exec"
	"github.com/open-nomad/open-nomad/client/fingerprint"
	"github.com/open-nomad/open-nomad/client/fingerprint/cloud"
	"github.com/open-nomad/open-nomad/client/hoststats"
	"github.com/open-nomad/open-nomad/client/logsink"
	"github.com/open-nomad/open-nomad/client/netns"
	"github.com/open-nomad/open-nomad/client/nodeid"
	"github.com/open-nomad/open-nomad/client/servers"
	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/client/workloadapi"
	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/internal/certs"
	"github.com/open-nomad/open-nomad/internal/connlimit"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/monitor"
	"github.com/open-nomad/open-nomad/nomad/profile"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/rpc/meter"
	"github.com/open-nomad/open-nomad/nomad/ticket"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Time limits for starting and stopping.
const (
	driverPatience = 200 * time.Millisecond // before the first registration
	stopPatience   = 10 * time.Second       // for the tasks of an ephemeral node
	clearTimeout   = time.Minute            // for the networks of an ephemeral node
	// restorePatience bounds the work before the registration: recovering tasks and ending
	// processes without an allocation. Both continue after it.
	restorePatience = 5 * time.Second
)

// Time limits for detecting a dead server. Their sum is below beatGrace, so that a node whose
// server hangs is not marked as down.
const (
	maxDial        = 5 * time.Second
	serverPatience = 3 * time.Second
	serverAnswer   = 2 * time.Second
)

// Local is a server in the same process.
type Local interface {
	servers.Caller
	AttachNode(id string, node *rpc.Server) (detach func())
}

// Parts are the live things that a Client works with.
type Parts struct {
	// Server runs in this process. If nil, Config.Servers are reached over the network.
	Server  Local
	Drivers []drivers.Driver
	// API serves the HTTP API on the socket of each task; nil disables the socket.
	API http.Handler
	// TLS secures the connections to the servers; nil means plain TCP.
	TLS *certs.Store
	// Monitor is the log of this agent; nil refuses to stream it.
	Monitor *monitor.Source
	// Profiles are the profiles of this agent; nil refuses them.
	Profiles *profile.Source
	Log      *slog.Logger
}

// Client is one node.
type Client struct {
	cfg         Config
	log         *slog.Logger
	db          *state.DB
	id          *nodeid.Identity
	session     *nomad.NodeSession
	sent        atomic.Uint64 // of Node.UpdateAlloc, see sendUpdates
	node        *nodeHolder
	host        *fingerprint.Host
	facts       fingerprint.Facts // about host; used by one goroutine at a time
	meta        *nodeMeta
	monitor     *monitor.Source
	profiles    *profile.Source
	drivers     *driverset.Set
	users       *driverset.Users
	nets        *netns.Set
	connections *connections
	volumes     *dynamicVolumes
	sinks       *logsink.Set
	artifacts   *artifact.Fetcher
	tls         *certs.Store   // nil without TLS
	groups      process.Groups // control groups of tasks of drivers that confine no sidecars
	servers     servers.Caller
	calls       nodeid.Caller // with the node's token
	local       Local
	remote      *servers.Remote // nil with a server in this process
	pool        *rpc.Pool
	rpc         *rpc.Server
	own         *rpc.Server     // serves the calls of this process's agent
	owns        map[string]bool // the names of its methods
	access      *access.Resolver
	tickets     *ticket.Verifier
	updates     *updates
	allocs      *allocSet
	gc          *collector
	stats       *hoststats.Host
	sampler     *taskhook.Sampler
	execs       exec.Limits
	api         *taskhook.API
	bundles     *workloadapi.Bundles // of the SPIFFE Workload API
	clouds      *cloud.Detector
	services    *service.Registrar // nil if native services are disabled
	checks      *check.Set

	urgent   chan struct{}       // buffered 1: send a heartbeat now
	restored *uint64             // RestoreIndex of the last pull, nil before the first
	waiting  []*nomad.Allocation // restored once the node is registered
	attached atomic.Bool         // the servers accept this agent as the node
	refusal  atomic.Pointer[string]
	// eligibility is the node's, as the servers last reported it; nil before the first report.
	eligibility atomic.Pointer[string]
	meter       *meter.Meter
	forwarding  forwarding

	endLife  context.CancelFunc // of the allocations' runners
	lastBeat atomic.Int64       // unix nanoseconds
	// schemasAbsent is set after a server without driver schemas was reported.
	schemasAbsent atomic.Bool
	missed        atomic.Bool   // no server answered the last heartbeat
	ttl           atomic.Int64  // nanoseconds until the next heartbeat
	ready         chan struct{} // closed when the node is first ready
	// restoredAll is closed when the allocations of the previous agent are restored.
	restoredAll chan struct{}
	// volumesRestored is closed when the dynamic host volumes of the previous agent are restored.
	volumesRestored chan struct{}
	reloads         chan struct{}  // buffered 1: fingerprint again
	background      sync.WaitGroup // work of the start that is not waited for
	readyOnce       sync.Once
}

// New opens the node's state and returns a client. It reports errors of the state directory.
// The caller runs or closes the client.
func New(cfg Config, parts Parts) (*Client, error) {
	if err := os.MkdirAll(cfg.AllocDir, 0o711); err != nil {
		return nil, fmt.Errorf("create allocation directory: %w", err)
	}
	db, err := state.Open(state.Config{Dir: cfg.StateDir, NoSync: cfg.Ephemeral, AdoptNone: cfg.AdoptNone, Log: parts.Log})
	if err != nil {
		return nil, err
	}
	c, err := assemble(cfg, parts, db)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return c, nil
}

func assemble(cfg Config, parts Parts, db *state.DB) (c *Client, err error) {
	life, endLife := context.WithCancel(context.Background())
	c = &Client{cfg: cfg, host: fingerprint.NewHost("/", cfg.Fingerprint), log: parts.Log, tls: parts.TLS, db: db, monitor: parts.Monitor,
		profiles: parts.Profiles, endLife: endLife, ready: make(chan struct{}), restoredAll: make(chan struct{}), urgent: newSignal(),
		volumesRestored: make(chan struct{}), reloads: newSignal()}
	if c.id, err = nodeid.Load(cfg.StateDir, cfg.IntroToken, db, parts.Log); err != nil {
		return nil, err
	}
	c.calls = nodeid.Caller{Identity: c.id, Servers: link{c}, Region: cfg.Region}
	if c.api, err = socketAPI(parts.API); err != nil {
		return nil, err
	}
	c.drivers, err = driverset.New(driverset.Config{Drivers: parts.Drivers, Backends: cfg.Backends, Log: parts.Log})
	if err != nil {
		return nil, err
	}
	if c.users, err = driverset.NewUsers(cfg.DynamicUserMin, cfg.DynamicUserMax); err != nil {
		return nil, err
	}
	c.cfg.Artifact.CacheDir = filepath.Join(cfg.StateDir, "artifacts")
	if c.artifacts, err = artifact.New(c.cfg.Artifact, parts.Log); err != nil {
		return nil, err
	}
	c.bundles = workloadapi.NewBundles(c.calls, cfg.Region, parts.Log)
	c.nets = netns.New(filepath.Join(cfg.StateDir, "netns"))
	c.sinks = logsink.NewSet(cfg.LogSinks.sinks(), parts.Log)
	c.session = nodeid.NewSession(cfg.BootFile, c.id.ID, parts.Log)
	volumes, err := hostVolumes(&c.cfg, db, parts.Log)
	if err != nil {
		return nil, err
	}
	warnReachable(volumes, parts.Drivers, parts.Log)
	if c.meta, err = loadNodeMeta(cfg.Meta, db); err != nil {
		return nil, err
	}
	c.node = &nodeHolder{changed: newSignal(), node: newNode(&c.cfg, c.id, c.session, volumes, c.meta.effective())}
	c.volumes = c.newDynamicVolumes(volumes)
	for _, name := range c.sinks.Names() {
		c.node.node.Attributes[nomad.LogSinkAttribute(name)] = "1"
	}
	c.openNetworks()
	c.updates = newUpdates(c.sendUpdates, parts.Log)
	c.allocs = newAllocSet(life, db, c.updates, parts.Log, c.newRunner)
	c.gc = &collector{cfg: cfg.GC, dir: cfg.AllocDir, set: c.allocs, log: parts.Log, disk: hoststats.Disk}
	c.stats = hoststats.New(cfg.AllocDir)
	c.sampler = taskhook.NewSampler(cfg.Metrics.Every)
	if err := c.openRPC(parts); err != nil {
		return nil, err
	}
	c.access = access.New(access.Config{Servers: c.servers, Region: cfg.Region, Enabled: cfg.Access.Enabled,
		TokenTTL: cfg.Access.TokenTTL, PolicyTTL: cfg.Access.PolicyTTL, RoleTTL: cfg.Access.RoleTTL})
	c.clouds = cloud.New(cfg.Clouds, c.addCloud, parts.Log)
	c.tickets = ticket.NewVerifier(c.id.ID, c.serverKeys, time.Now)
	c.openServices()
	return c, nil
}

// socketAPI returns the API of the task sockets, with one connection limit for all of them; nil
// without an API.
func socketAPI(h http.Handler) (*taskhook.API, error) {
	if h == nil {
		return nil, nil
	}
	limit, err := connlimit.Share(taskhook.SocketConns)
	api := &taskhook.API{Handler: h, Limit: limit}
	if r, ok := h.(interface{ RefusedConn(net.Conn) }); ok {
		api.Refused = r.RefusedConn
	}
	return api, err
}

// openRPC creates the RPC servers and the connection to the servers. Calls arrive over sessions
// that the node opened and from this process, so the handlers themselves check the caller's
// rights.
func (c *Client) openRPC(parts Parts) (err error) {
	c.meter = meter.ForClient(meter.Config{Every: c.cfg.Metrics.Every})
	var relayed, own []rpc.Method
	c.owns = map[string]bool{}
	for _, m := range c.methods() {
		relayed = append(relayed, m.relayed)
		if m.own.Name != "" {
			own, c.owns[m.own.Name] = append(own, m.own), true
		}
	}
	if c.rpc, err = rpc.NewServer(rpc.Config{Methods: relayed, Auth: rpc.TrustPeer{}, Observer: c.meter, Log: parts.Log}); err != nil {
		return err
	}
	if c.own, err = rpc.NewServer(rpc.Config{Methods: own, Auth: rpc.TrustPeer{}, Observer: c.meter, Log: parts.Log}); err != nil {
		return err
	}
	if parts.Server != nil {
		c.local, c.servers = parts.Server, parts.Server
		return nil
	}
	cfg := c.cfg
	c.pool = rpc.NewPool(rpc.PoolConfig{Serve: c.rpc, TLS: parts.TLS, Region: cfg.Region, Mux: cfg.Mux, DialTimeout: min(cmp.Or(cfg.DialTimeout, maxDial), maxDial),
		Patience: serverPatience, AnswerWithin: serverAnswer, Log: parts.Log})
	c.remote = servers.New(c.pool, cfg.Region, cfg.Servers, parts.Log)
	c.servers = c.remote
	return nil
}

// NodeID returns the ID of the node.
func (c *Client) NodeID() string { return c.id.ID }

// RPC returns the server for the methods of this node.
func (c *Client) RPC() *rpc.Server { return c.rpc }

// Own returns the caller for a method about nodes and allocations, for the agent of this
// process. It answers requests about this node locally. It is nil for every other method.
func (c *Client) Own(method string) servers.Caller {
	if !c.owns[method] {
		return nil
	}
	return c.own
}

// Servers returns the caller that reaches the servers. It adds no token.
func (c *Client) Servers() servers.Caller { return c.servers }

// Remote returns the list of servers, nil with a server in this process.
func (c *Client) Remote() *servers.Remote { return c.remote }

// ServeHTTPS records whether the node's HTTP API uses TLS, and registers the node again on a
// change.
func (c *Client) ServeHTTPS(on bool) {
	if c.node.copy().TLSEnabled == on {
		return
	}
	c.node.update(func(n *nomad.Node) { n.TLSEnabled = on })
	raise(c.node.changed)
}

// Node returns the node as it is registered.
func (c *Client) Node() *nomad.Node { return c.node.copy() }

// HasAlloc reports whether the allocation is on this node.
func (c *Client) HasAlloc(id string) bool {
	_, err := c.allocs.find(id)
	return err == nil
}

// Ready returns a channel that is closed when the servers first accept the node as ready.
func (c *Client) Ready() <-chan struct{} { return c.ready }

// Healthy returns an error if the servers refuse the node or its last heartbeat is overdue.
func (c *Client) Healthy() error {
	ns := c.lastBeat.Load()
	if why := c.refusal.Load(); why != nil {
		return fmt.Errorf("the servers refuse the node: %s", *why)
	}
	if ns == 0 {
		return errors.New("the node is not registered yet")
	}
	last := time.Unix(0, ns)
	if c.missed.Load() || time.Since(last) > time.Duration(c.ttl.Load())+beatGrace {
		return fmt.Errorf("no server has answered since %s", last.UTC().Format(time.RFC3339))
	}
	return nil
}

// Stats returns the client's entries in the agent's statistics.
func (c *Client) Stats() map[string]string {
	last := "never"
	if ns := c.lastBeat.Load(); ns > 0 {
		last = time.Since(time.Unix(0, ns)).Truncate(time.Millisecond).String()
	}
	known := "in process"
	if c.remote != nil {
		known = strings.Join(c.remote.Addrs(), ",")
	}
	return map[string]string{
		"node_id": c.id.ID, "known_servers": known, "last_heartbeat": last,
		"num_allocations": fmt.Sprint(len(c.allocs.all())),
	}
}

// Run runs the node until ctx ends. Tasks then keep running, unless the node is ephemeral. Run
// closes the state before it returns.
func (c *Client) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.drivers.Run(ctx) })
	group.Go(func() error { return c.bundles.Run(ctx) })
	group.Go(func() error { return c.clouds.Run(ctx) })
	if err := c.prepare(ctx); err != nil {
		c.background.Wait()
		c.endLife()
		return errors.Join(err, c.close())
	}
	orphans := make(chan struct{})
	waiting := c.waiting
	group.Go(func() error {
		err := c.endOrphans(ctx, waiting)
		close(orphans)
		if err == nil {
			c.removeUnrestored()
		}
		return err
	})
	c.awaitRestore(ctx, orphans)
	close(c.restoredAll)
	if c.local != nil {
		defer c.local.AttachNode(c.id.ID, c.rpc)()
	}
	group.Go(func() error { return c.watchDrivers(ctx) })
	group.Go(func() error { return c.reload(ctx) })
	group.Go(func() error { return c.keepRegistered(ctx, c.attend) })
	group.Go(func() error { return c.gc.Run(ctx) })
	group.Go(func() error { return c.stopSilent(ctx) })
	group.Go(func() error { return c.measure(ctx) })
	group.Go(func() error { return c.sampler.Run(ctx) })
	group.Go(func() error { return c.sinks.Run(ctx) })
	group.Go(func() error { return c.connections.Watch(ctx) })
	group.Go(func() error { return c.connections.left.Run(ctx) })
	if c.remote != nil {
		group.Go(func() error { return c.remote.Run(ctx) })
	}
	endServices := c.runServices(ctx)
	err := group.Wait()
	c.background.Wait()
	if c.cfg.Ephemeral {
		c.vanish(ctx)
	}
	c.endLife()
	c.allocs.wg.Wait()
	endServices()
	if c.cfg.Ephemeral {
		c.clear() // files that tasks which did not stop in time have created since
	}
	return errors.Join(err, c.close())
}

// vanish stops every task and removes all files, also of tasks that do not stop in time.
func (c *Client) vanish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
	defer cancel()
	c.allocs.destroyAll(ctx)
	c.clear()
}

// clear removes the directories of all known allocations and retries failed removals. It leaves
// the rest of the allocation directory, which another agent may share.
func (c *Client) clear() {
	for _, id := range c.allocs.onDisk() {
		if err := allocdir.Destroy(c.cfg.AllocDir, id); err != nil {
			c.log.Warn("remove allocation", "alloc", id, "err", err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), clearTimeout)
	defer cancel()
	c.findLeft(nil)
	if !c.connections.left.removeAll(ctx) {
		c.log.Warn("networks of allocations remain: the next agent with this data directory removes them")
	}
}

// Close releases a client that was never run.
func (c *Client) Close() error {
	c.endLife()
	return c.close()
}

func (c *Client) close() error {
	if c.pool != nil {
		if err := c.pool.Close(); err != nil {
			c.log.Warn("close connections", "err", err)
		}
	}
	return c.db.Close()
}

// newRunner creates the runner of an allocation.
func (c *Client) newRunner(a *nomad.Allocation) (*allocrunner.Runner, error) {
	node := c.node.current() // shared by the runners
	var perCore uint64
	if cores := node.NodeResources.Cpu.TotalCpuCores; cores > 0 {
		perCore = uint64(node.NodeResources.Cpu.CpuShares) / uint64(cores)
	}
	return allocrunner.New(allocrunner.Config{
		Alloc: a, Node: node, Region: c.cfg.Region, Store: c.db, Drivers: c.drivers, Users: c.users,
		RPC: c.calls, AllocHooks: c.allocHooks(), TaskHooks: c.taskHooks(),
		Update: c.allocs.report, MaxKillTimeout: c.cfg.MaxKillTimeout, MHzPerCore: perCore, Log: c.log,
	})
}

// link makes calls to the servers once the client is assembled. The methods of the node exist before the connection over
// which they are called.
type link struct{ c *Client }

func (l link) Call(ctx context.Context, method string, req, resp any) error {
	return l.c.servers.Call(ctx, method, req, resp)
}

func (l link) Stream(ctx context.Context, method string) (*rpc.Stream, error) {
	return l.c.servers.Stream(ctx, method)
}
