// Package client is one node: it finds out what the node is, registers it, keeps
// it alive, pulls the allocations that the servers placed on it, runs them, tells
// how they go, and cleans up after them. It also answers what servers and the
// agent ask of a node: files, logs, stats, restarts, signals (methods.go).
//
//	new ──fingerprint, restore──▶ registering ──Register, UpdateStatus──▶ attached
//	                                   ▲                                     │
//	                                   └──────"node not found"───────────────┘
//
// While attached, the node beats once per TTL and pulls. Losing the servers stops
// nothing: tasks go on, and their ends are told when a server answers again.
// What changes is told at once, the events of tasks with the next change or a tenth of a
// second later: each call is an entry of the servers' log.
//
// Goroutines, all inside Run: one each for registration and heartbeat, pulling,
// telling statuses, drivers, collecting, directories made ahead; one per allocation.
//
// It decides nothing about placement and never reads a server's state but by RPC.
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
	"github.com/open-nomad/open-nomad/client/driverset"
	"github.com/open-nomad/open-nomad/client/exec"
	"github.com/open-nomad/open-nomad/client/netns"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/internal/certs"
	"github.com/open-nomad/open-nomad/internal/connlimit"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/rpc/meter"
	"github.com/open-nomad/open-nomad/nomad/ticket"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Bounds of starting and stopping.
const (
	driverPatience = 200 * time.Millisecond // before the first registration
	stopPatience   = 10 * time.Second       // for the tasks of an ephemeral node
	// restorePatience bounds what comes before the registration: tasks that are recovered,
	// processes without an allocation that are ended. Both go on after it.
	restorePatience = 5 * time.Second
)

// Bounds of noticing that a server is gone: together they are below beatGrace, so that a
// node whose server hangs is not missed.
const (
	maxDial        = 5 * time.Second
	serverPatience = 3 * time.Second
	serverAnswer   = 2 * time.Second
)

// Local is a server in the same process.
type Local interface {
	Servers
	AttachNode(id string, node *rpc.Server) (detach func())
}

// Parts are the live things that a Client works with.
type Parts struct {
	// Server runs in this process; nil to reach Config.Servers over the network.
	Server  Local
	Drivers []drivers.Driver
	// API answers on the socket of each task; nil for none.
	API http.Handler
	// TLS is for the connections to the servers; nil is none.
	TLS *certs.Store
	Log *slog.Logger
}

// Client is one node.
type Client struct {
	cfg     Config
	log     *slog.Logger
	db      *state.DB
	id      *identity
	session *nomad.NodeSession
	node    *nodeHolder
	drivers *driverset.Set
	users   *driverset.Users
	nets    *netns.Set
	servers Servers
	local   Local
	remote  *Remote // nil with a server in this process
	pool    *rpc.Pool
	rpc     *rpc.Server
	own     *rpc.Server     // what the agent of this process asks
	owns    map[string]bool // its methods
	access  *access.Resolver
	tickets *ticket.Verifier
	updates *updates
	allocs  *allocSet
	gc      *collector
	stats   *hostStats
	execs   exec.Limits
	api     *taskhook.API

	hurry    chan struct{}       // buffered 1: a heartbeat must not wait for its turn
	restored *uint64             // of the servers' state when it was last pulled; nil before
	waiting  []*nomad.Allocation // taken up once the node is registered
	attached atomic.Bool         // the servers take the node for this agent
	refusal  atomic.Pointer[string]
	// eligibility is that of the node as the servers last reported it; nil before.
	eligibility atomic.Pointer[string]
	calls       *meter.Meter

	endLife  context.CancelFunc // of the allocations' runners
	lastBeat atomic.Int64       // unix nanoseconds
	missed   atomic.Bool        // no server took the last one
	ttl      atomic.Int64       // nanoseconds until the next beat
	ready    chan struct{}      // closed when the node was ready first
	// restoredAll is closed when the allocations of an earlier agent were restored.
	restoredAll chan struct{}
	readyOnce   sync.Once
}

// New opens the node's state and makes a client of it. What is wrong with the
// state directory is said here. The caller runs it, or closes it.
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
	c = &Client{cfg: cfg, log: parts.Log, db: db, endLife: endLife, ready: make(chan struct{}), restoredAll: make(chan struct{}), hurry: newSignal()}
	if c.id, err = loadIdentity(cfg.StateDir, cfg.IntroToken, db, parts.Log); err != nil {
		return nil, err
	}
	if c.api, err = socketAPI(parts.API); err != nil {
		return nil, err
	}
	c.drivers, err = driverset.New(driverset.Config{Drivers: parts.Drivers, Plugins: cfg.Plugins, Log: parts.Log})
	if err != nil {
		return nil, err
	}
	if c.users, err = driverset.NewUsers(cfg.DynamicUserMin, cfg.DynamicUserMax); err != nil {
		return nil, err
	}
	c.nets = netns.New(filepath.Join(cfg.StateDir, "netns"))
	c.session = newSession(cfg.BootFile, c.id.id, parts.Log)
	volumes, err := hostVolumes(&c.cfg, parts.Log)
	if err != nil {
		return nil, err
	}
	c.node = &nodeHolder{changed: newSignal(), node: newNode(&c.cfg, c.id, c.session, volumes)}
	c.updates = newUpdates(c.sendUpdates, parts.Log)
	c.allocs = newAllocSet(life, db, c.updates, parts.Log, c.newRunner)
	c.gc = &collector{cfg: cfg.GC, dir: cfg.AllocDir, set: c.allocs, log: parts.Log, disk: diskUsage}
	c.stats = &hostStats{allocDir: cfg.AllocDir}
	if err := c.openRPC(parts); err != nil {
		return nil, err
	}
	c.access = access.New(access.Config{Servers: c.servers, Region: cfg.Region, Enabled: cfg.Access.Enabled,
		TokenTTL: cfg.Access.TokenTTL, PolicyTTL: cfg.Access.PolicyTTL, RoleTTL: cfg.Access.RoleTTL})
	c.tickets = ticket.NewVerifier(c.id.id, c.serverKeys, time.Now)
	return c, nil
}

// socketAPI bounds the connections of all task sockets together; nil for no API.
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

// openRPC makes what answers calls, and the way to the servers. Calls come over sessions
// that the node opened itself, and from this process: handlers ask what a caller may do.
func (c *Client) openRPC(parts Parts) (err error) {
	c.calls = meter.ForClient(meter.Config{Every: c.cfg.Metrics.Every})
	var relayed, own []rpc.Method
	c.owns = map[string]bool{}
	for _, m := range c.methods() {
		relayed = append(relayed, m.relayed)
		if m.own.Name != "" {
			own, c.owns[m.own.Name] = append(own, m.own), true
		}
	}
	if c.rpc, err = rpc.NewServer(rpc.Config{Methods: relayed, Auth: rpc.TrustPeer{}, Observer: c.calls, Log: parts.Log}); err != nil {
		return err
	}
	if c.own, err = rpc.NewServer(rpc.Config{Methods: own, Auth: rpc.TrustPeer{}, Observer: c.calls, Log: parts.Log}); err != nil {
		return err
	}
	if parts.Server != nil {
		c.local, c.servers = parts.Server, parts.Server
		return nil
	}
	cfg := c.cfg
	c.pool = rpc.NewPool(rpc.PoolConfig{Serve: c.rpc, TLS: parts.TLS, Region: cfg.Region, Mux: cfg.Mux, DialTimeout: min(cmp.Or(cfg.DialTimeout, maxDial), maxDial),
		Patience: serverPatience, AnswerWithin: serverAnswer, Log: parts.Log})
	c.remote = NewRemote(c.pool, cfg.Region, cfg.Servers, parts.Log)
	c.servers = c.remote
	return nil
}

// NodeID returns the ID of the node.
func (c *Client) NodeID() string { return c.id.id }

// RPC answers the methods of this node in process.
func (c *Client) RPC() *rpc.Server { return c.rpc }

// Own answers, for the agent of this process, the methods that are about nodes and
// allocations: those about this node here. It is nil for every other method.
func (c *Client) Own(method string) Servers {
	if !c.owns[method] {
		return nil
	}
	return c.own
}

// Servers carries calls to the servers. It adds no token.
func (c *Client) Servers() Servers { return c.servers }

// Remote returns the list of servers, nil with a server in this process.
func (c *Client) Remote() *Remote { return c.remote }

// ServeHTTPS tells the servers, when that is new, whether the node's HTTP API speaks TLS.
func (c *Client) ServeHTTPS(on bool) {
	if c.node.copy().TLSEnabled == on {
		return
	}
	c.node.update(func(n *nomad.Node) { n.TLSEnabled = on })
	raise(c.node.changed)
}

// Node returns the node as it is registered.
func (c *Client) Node() *nomad.Node { return c.node.copy() }

// HasAlloc says whether the allocation is on this node.
func (c *Client) HasAlloc(id string) bool {
	_, err := c.allocs.find(id)
	return err == nil
}

// Ready is closed when the servers know the node as ready for the first time.
func (c *Client) Ready() <-chan struct{} { return c.ready }

// Healthy says whether the servers have heard of the node lately: a heartbeat is
// missed after some seconds of trying.
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
		return fmt.Errorf("no server answers since %s", last.UTC().Format(time.RFC3339))
	}
	return nil
}

// Stats are the facts that the agent shows of its client.
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
		"node_id": c.id.id, "known_servers": known, "last_heartbeat": last,
		"num_allocations": fmt.Sprint(len(c.allocs.all())),
	}
}

// Run is the node until ctx ends; then its tasks go on, or are stopped when the
// node is ephemeral. It closes the state.
func (c *Client) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.drivers.Run(ctx) })
	if err := c.prepare(ctx); err != nil {
		c.endLife()
		return errors.Join(err, c.close())
	}
	orphans := make(chan struct{})
	waiting := c.waiting
	group.Go(func() error {
		defer close(orphans)
		return c.endOrphans(ctx, waiting)
	})
	c.awaitRestore(ctx, orphans)
	close(c.restoredAll)
	if c.local != nil {
		defer c.local.AttachNode(c.id.id, c.rpc)()
	}
	group.Go(func() error { return c.watchDrivers(ctx) })
	group.Go(func() error { return c.keepRegistered(ctx, c.attend) })
	group.Go(func() error { return c.gc.Run(ctx) })
	group.Go(func() error { return c.measure(ctx) })
	if c.remote != nil {
		group.Go(func() error { return c.remote.Run(ctx) })
	}
	err := group.Wait()
	if c.cfg.Ephemeral {
		c.vanish(ctx)
	}
	c.endLife()
	c.allocs.wg.Wait()
	if c.cfg.Ephemeral {
		c.clear() // what tasks that did not end in time have made meanwhile
	}
	return errors.Join(err, c.close())
}

// vanish stops every task and removes what is on disk, also of tasks that do not end
// in time.
func (c *Client) vanish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
	defer cancel()
	c.allocs.destroyAll(ctx)
	c.clear()
}

// clear removes the directories of all allocations, also where that has failed before. What
// else is in the directory of allocations is not touched: another agent may have the same.
func (c *Client) clear() {
	for _, id := range c.allocs.onDisk() {
		if err := allocdir.Destroy(c.cfg.AllocDir, id); err != nil {
			c.log.Warn("remove allocation", "alloc", id, "err", err)
		}
	}
	c.sweep(nil)
}

// Close lets go of a client that is not run.
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

// watchDrivers tells the servers when a driver's health turns.
func (c *Client) watchDrivers(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.drivers.Changed():
		}
		infos := c.drivers.Infos()
		news, turned := c.node.setDrivers(infos)
		if news {
			raise(c.node.changed)
		}
		if len(turned) > 0 {
			c.emit(ctx, turned, infos)
		}
	}
}

// emit records turns of drivers among the node's events. An agent that does not hold
// the node has nothing to say about it.
func (c *Client) emit(ctx context.Context, turned []string, infos map[string]*nomad.DriverInfo) {
	if !c.attached.Load() {
		return
	}
	var events []*nomad.NodeEvent
	for _, name := range turned {
		info := infos[name]
		message := info.HealthDescription
		if info.Healthy {
			message = "Healthy"
		}
		events = append(events, &nomad.NodeEvent{
			Message: message, Subsystem: nomad.NodeEventSubsystemDriver,
			Details: map[string]string{"driver": name}, Timestamp: time.Now(),
		})
	}
	req := nomad.EmitNodeEventsRequest{
		NodeEvents: map[string][]*nomad.NodeEvent{c.id.id: events}, WriteRequest: c.write(),
	}
	if err := c.servers.Call(ctx, "Node.EmitEvents", &req, &nomad.EmitNodeEventsResponse{}); err != nil {
		c.log.Warn("tell of driver health", "err", err)
	}
}

// newRunner makes the runner of an allocation.
func (c *Client) newRunner(a *nomad.Allocation) (*allocrunner.Runner, error) {
	node := c.node.copy()
	var perCore uint64
	if cores := node.NodeResources.Cpu.TotalCpuCores; cores > 0 {
		perCore = uint64(node.NodeResources.Cpu.CpuShares) / uint64(cores)
	}
	return allocrunner.New(allocrunner.Config{
		Alloc: a, Node: node, Region: c.cfg.Region, AllocDir: c.cfg.AllocDir,
		Store: c.db, Drivers: c.drivers, Users: c.users, Networks: c.nets, RPC: asNode{c}, API: c.api,
		Update: c.allocs.told, HostEnv: c.cfg.HostEnv, MaxKillTimeout: c.cfg.MaxKillTimeout,
		MHzPerCore: perCore, Metrics: c.cfg.Metrics.Tasks, StatsInterval: c.cfg.Metrics.Every, Log: c.log,
	})
}

// asNode makes calls with the node's own token.
type asNode struct{ c *Client }

// Call fills region and token where the request has none.
func (n asNode) Call(ctx context.Context, method string, req, resp any) error {
	switch r := req.(type) {
	case interface{ Query() *nomad.QueryOptions }:
		fill(&r.Query().Region, n.c.cfg.Region)
		fill(&r.Query().AuthToken, n.c.id.auth())
	case interface{ Write() *nomad.WriteRequest }:
		fill(&r.Write().Region, n.c.cfg.Region)
		fill(&r.Write().AuthToken, n.c.id.auth())
	}
	return n.c.servers.Call(ctx, method, req, resp)
}

func fill(field *string, value string) {
	if *field == "" {
		*field = value
	}
}
