// Package client is one node of the cluster: it wires the parts of a node, registers it, and sends its heartbeats.
//
//	new ──fingerprint, restore──▶ registering ──Register, UpdateStatus──▶ attached
//	                                   ▲                                     │
//	                                   └──────"node not found"───────────────┘
//
// While attached, the node sends one heartbeat per TTL and follows the allocations placed on it. The parts are in packages
// below: client/servers selects the server to call, client/nodeid is the node's identity, client/allocs runs the allocations,
// client/endpoint serves the RPCs of the node, client/allocnet has the networks.
//
// Run starts one goroutine for each duty of the client, such as heartbeats, drivers and metrics (client.go).
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
	"github.com/open-nomad/open-nomad/client/allocnet"
	"github.com/open-nomad/open-nomad/client/allocs"
	"github.com/open-nomad/open-nomad/client/artifact"
	"github.com/open-nomad/open-nomad/client/catalogue"
	"github.com/open-nomad/open-nomad/client/check"
	"github.com/open-nomad/open-nomad/client/connect"
	"github.com/open-nomad/open-nomad/client/consul/token"
	"github.com/open-nomad/open-nomad/client/devices"
	"github.com/open-nomad/open-nomad/client/dns"
	"github.com/open-nomad/open-nomad/client/driverset"
	"github.com/open-nomad/open-nomad/client/endpoint"
	"github.com/open-nomad/open-nomad/client/fingerprint"
	"github.com/open-nomad/open-nomad/client/fingerprint/cloud"
	"github.com/open-nomad/open-nomad/client/fingerprint/consul"
	"github.com/open-nomad/open-nomad/client/fingerprint/vault"
	"github.com/open-nomad/open-nomad/client/hoststats"
	"github.com/open-nomad/open-nomad/client/logsink"
	"github.com/open-nomad/open-nomad/client/netns"
	"github.com/open-nomad/open-nomad/client/nodeid"
	"github.com/open-nomad/open-nomad/client/nodemeta"
	"github.com/open-nomad/open-nomad/client/secret"
	"github.com/open-nomad/open-nomad/client/servers"
	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/client/staticvolume"
	"github.com/open-nomad/open-nomad/client/taskhook"
	vaulttoken "github.com/open-nomad/open-nomad/client/vault/token"
	"github.com/open-nomad/open-nomad/client/workloadapi"
	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/internal/certs"
	"github.com/open-nomad/open-nomad/internal/connlimit"
	"github.com/open-nomad/open-nomad/internal/wake"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/monitor"
	"github.com/open-nomad/open-nomad/nomad/profile"
	"github.com/open-nomad/open-nomad/nomad/rbac"
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
	Devices []devices.Plugin
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
	cfg     Config
	log     *slog.Logger
	db      *state.DB
	id      *nodeid.Identity
	session *nomad.NodeSession
	node    *nodeHolder
	meta    *nodemeta.Meta

	local    Local           // nil without a server in this process
	pool     *rpc.Pool       // nil with a server in this process
	remote   *servers.Remote // nil with a server in this process
	servers  servers.Caller
	calls    nodeid.Caller // with the node's token
	endpoint *endpoint.Service
	access   *access.Resolver
	tls      *certs.Store // nil without TLS

	host      *fingerprint.Host
	facts     fingerprint.Facts // about host; used by one goroutine at a time
	clouds    *cloud.Detector
	consul    *consul.Detector
	vault     *vault.Detector
	discovery discovery
	mesh      *connect.Node // nil without Consul
	drivers   *driverset.Set
	devices   *devices.Set
	users     *driverset.Users
	spaces    *netns.Set
	networks  *allocnet.Networks // nil until the node is fingerprinted
	volumes   *dynamicVolumes
	csi       *csiNode
	events    *nodeEvents
	sinks     *logsink.Set
	artifacts *artifact.Fetcher
	groups    process.Groups // control groups of tasks of drivers that confine no sidecars
	allocs    *allocs.Set
	api       *taskhook.API
	bundles   *workloadapi.Bundles // of the SPIFFE Workload API
	services  *service.Registrar   // nil if native services are disabled
	tokens    *token.Node          // of workloads in Consul, nil without Consul
	inVault   *vaulttoken.Node     // the tokens of tasks in Vault, nil without Vault
	secrets   *secret.Node         // of tasks
	catalogue *catalogue.Cache     // nil without a DNS server
	dns       *dns.Server          // nil if it is disabled
	checks    *check.Set
	stats     *hoststats.Host
	sampler   *taskhook.Sampler
	meter     *meter.Meter

	urgent   wake.Signal // send a heartbeat now
	attached atomic.Bool // the servers accept this agent as the node
	refusal  atomic.Pointer[string]
	// eligibility is the node's, as the servers last reported it; nil before the first report.
	eligibility atomic.Pointer[string]
	lastBeat    atomic.Int64 // unix nanoseconds
	missed      atomic.Bool  // no server answered the last heartbeat
	ttl         atomic.Int64 // nanoseconds until the next heartbeat
	// schemasAbsent is set after a server without driver schemas was reported.
	schemasAbsent atomic.Bool

	ready     chan struct{} // closed when the node is first ready
	readyOnce sync.Once
	// restored is closed when the allocations of the previous agent are restored.
	restored chan struct{}
	// volumesRestored is closed when the dynamic host volumes of the previous agent are restored.
	volumesRestored chan struct{}
	reloads         wake.Signal // fingerprint again
	secretReloads   wake.Signal // fingerprint the plugins of secret blocks again

	secretsMu       sync.Mutex        // held while the providers of secrets are fingerprinted
	secretProviders map[string]string // their attributes; secretsMu guards it
	background      sync.WaitGroup    // work of the start that is not waited for
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
	c := &Client{
		cfg: cfg, log: parts.Log, db: db, tls: parts.TLS, host: fingerprint.NewHost("/", cfg.Fingerprint),
		urgent: wake.New(), reloads: wake.New(), secretReloads: wake.New(), ready: make(chan struct{}), restored: make(chan struct{}),
		volumesRestored: make(chan struct{}), events: newNodeEvents(),
	}
	for _, open := range []func(Parts) error{c.openIdentity, c.openParts, c.openMesh, c.openAllocs, c.openCSI, c.openEndpoint} {
		if err := open(parts); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	return c, nil
}

// openIdentity loads who the node is.
func (c *Client) openIdentity(parts Parts) (err error) {
	if c.id, err = nodeid.Load(c.cfg.StateDir, c.cfg.IntroToken, c.db, c.log); err != nil {
		return err
	}
	c.session = nodeid.NewSession(c.cfg.BootFile, c.id.ID, c.log)
	c.calls = nodeid.Caller{Identity: c.id, Servers: link{c}, Region: c.cfg.Region}
	if c.meta, err = nodemeta.Load(c.cfg.Meta, c.db); err != nil {
		return err
	}
	volumes, err := staticvolume.Resolve(staticvolume.Config{Volumes: c.cfg.HostVolumes, Private: []string{c.cfg.StateDir, c.cfg.AllocDir},
		Writable: []string{c.cfg.AllocDir, c.cfg.HostVolumesDir}, DB: c.db, Log: c.log})
	if err != nil {
		return err
	}
	staticvolume.WarnReachable(volumes, parts.Drivers, c.log)
	c.node = newNodeHolder(c, volumes)
	c.volumes = c.newDynamicVolumes(volumes)
	return nil
}

// openParts creates what the tasks of the node use.
func (c *Client) openParts(parts Parts) (err error) {
	if c.api, err = socketAPI(parts.API); err != nil {
		return err
	}
	c.drivers, err = driverset.New(driverset.Config{Drivers: parts.Drivers, Backends: c.cfg.Backends, Log: c.log})
	if err != nil {
		return err
	}
	if c.users, err = driverset.NewUsers(c.cfg.DynamicUserMin, c.cfg.DynamicUserMax); err != nil {
		return err
	}
	c.cfg.Artifact.CacheDir = filepath.Join(c.cfg.StateDir, "artifacts")
	if c.artifacts, err = artifact.New(c.cfg.Artifact, c.log); err != nil {
		return err
	}
	c.bundles = workloadapi.NewBundles(c.calls, c.cfg.Region, c.log)
	c.spaces = netns.New(filepath.Join(c.cfg.StateDir, "netns"))
	c.sinks = logsink.NewSet(c.cfg.LogSinks.sinks(), c.log)
	c.node.update(func(n *nomad.Node) {
		for _, name := range c.sinks.Names() {
			n.Attributes[nomad.LogSinkAttribute(name)] = "1"
		}
	})
	c.sampler = taskhook.NewSampler(c.cfg.Metrics.Every)
	c.devices = devices.New(devices.Config{Plugins: parts.Devices, Every: c.cfg.Metrics.Every, Log: c.log})
	c.stats = hoststats.New(c.cfg.AllocDir, c.devices.Stats)
	c.clouds = cloud.New(c.cfg.Clouds, c.addCloud, c.log)
	c.consul = consul.New(c.cfg.Consul.Agents, c.changeConsul, c.log)
	c.vault = vault.New(c.cfg.Vault, c.changeVault, c.log)
	c.openServices()
	c.openTokens()
	c.openDNS()
	return c.openSecrets()
}

// openEndpoint creates the methods of the node and the connection to the servers, over which they are called.
func (c *Client) openEndpoint(parts Parts) (err error) {
	c.meter = meter.ForClient(meter.Config{Every: c.cfg.Metrics.Every})
	c.access = access.New(access.Config{Servers: link{c}, Region: c.cfg.Region, Enabled: c.cfg.Access.Enabled,
		TokenTTL: c.cfg.Access.TokenTTL, PolicyTTL: c.cfg.Access.PolicyTTL, RoleTTL: c.cfg.Access.RoleTTL})
	c.endpoint, err = endpoint.New(endpoint.Config{
		Region: c.cfg.Region, AccessControl: c.cfg.Access.Enabled, DisableRemoteExec: c.cfg.DisableRemoteExec,
		Session: c.session.ID, Identity: c.id, Servers: link{c}, Access: c.access,
		Tickets: ticket.NewVerifier(c.id.ID, c.serverKeys, time.Now),
		Node:    endpointNode{c}, Allocs: c.allocs, Checks: c.checks, Consul: c.consulStates(), Drivers: c.drivers, Artifacts: c.artifacts,
		Volumes: c.volumes.Manager, CSI: c.calledCSI(), Host: c.stats, Meta: c.meta, Monitor: parts.Monitor, Profiles: parts.Profiles,
		Observer: c.meter, Log: c.log,
	})
	if err != nil {
		return err
	}
	if parts.Server != nil {
		c.local, c.servers = parts.Server, parts.Server
		return nil
	}
	c.pool = rpc.NewPool(rpc.PoolConfig{
		Serve: c.endpoint.Relayed(), TLS: c.tls, Region: c.cfg.Region, Mux: c.cfg.Mux,
		DialTimeout: min(cmp.Or(c.cfg.DialTimeout, maxDial), maxDial),
		Patience:    serverPatience, AnswerWithin: serverAnswer, Log: c.log,
	})
	c.remote = servers.New(c.pool, c.cfg.Region, c.cfg.Servers, c.log)
	c.servers = c.remote
	return nil
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

// NodeID returns the ID of the node.
func (c *Client) NodeID() string { return c.id.ID }

// RPC returns the server for the methods of this node that servers relay.
func (c *Client) RPC() *rpc.Server { return c.endpoint.Relayed() }

// Local returns the caller for a method about nodes and allocations, for the agent of this
// process. It answers requests about this node locally. It is nil for every other method.
func (c *Client) Local(method string) servers.Caller { return c.endpoint.Local(method) }

// Access returns the identity of a token's bearer and its rights on this node.
func (c *Client) Access(ctx context.Context, token string) (*rbac.AuthenticatedIdentity, *rpc.Access, error) {
	return c.access.Caller(ctx, token)
}

// ServeSnapshot answers a request of another node for the data of a finished allocation.
func (c *Client) ServeSnapshot(w http.ResponseWriter, r *http.Request, alloc string) error {
	return c.allocs.ServeSnapshot(w, r, alloc)
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
	c.node.changed.Send()
}

// Node returns the node as it is registered.
func (c *Client) Node() *nomad.Node { return c.node.copy() }

// HasAlloc reports whether the allocation is on this node.
func (c *Client) HasAlloc(id string) bool { return c.allocs.Has(id) }

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

// Restored returns a channel that is closed when the allocations of the previous agent are
// restored, so that requests about them can be answered. It stays open if restoring fails; Run
// then returns the error.
func (c *Client) Restored() <-chan struct{} { return c.restored }

// Stats returns the client's entries in the agent's statistics.
func (c *Client) Stats() map[string]string {
	last := "never"
	if ns := c.lastBeat.Load(); ns > 0 {
		last = time.Since(time.Unix(0, ns)).Truncate(time.Millisecond).String()
	}
	addrs := "in process"
	if c.remote != nil {
		addrs = strings.Join(c.remote.Addrs(), ",")
	}
	return map[string]string{
		"node_id": c.id.ID, "known_servers": addrs, "last_heartbeat": last,
		"num_allocations": fmt.Sprint(len(c.allocs.All())),
	}
}

// Run runs the node until ctx ends. Tasks then keep running, unless the node is ephemeral. Run
// closes the state before it returns.
func (c *Client) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.drivers.Run(ctx) })
	group.Go(func() error { return c.devices.Run(ctx) })
	group.Go(func() error { return c.bundles.Run(ctx) })
	group.Go(func() error { return c.clouds.Run(ctx) })
	group.Go(func() error { return c.consul.Run(ctx) })
	group.Go(func() error { return c.vault.Run(ctx) })
	group.Go(func() error { return c.runCatalogue(ctx) })
	group.Go(func() error { return c.runDNS(ctx) })
	group.Go(func() error { return c.runCSI(ctx) })
	later, err := c.prepare(ctx)
	if err != nil {
		c.background.Wait()
		return errors.Join(err, c.Close())
	}
	group.Go(func() error { return c.allocs.EndOrphans(ctx, later) })
	c.allocs.AwaitRestore(ctx)
	close(c.restored)
	c.awaitPlugins(ctx)
	if c.local != nil {
		defer c.local.AttachNode(c.id.ID, c.endpoint.Relayed())()
	}
	group.Go(func() error { return c.watchDrivers(ctx) })
	group.Go(func() error { return c.watchDevices(ctx) })
	group.Go(func() error { return c.reload(ctx) })
	group.Go(func() error { return c.reloadSecrets(ctx) })
	group.Go(func() error { return c.reportEvents(ctx) })
	group.Go(func() error { return c.keepRegistered(ctx, c.follow) })
	group.Go(func() error { return c.allocs.Run(ctx) })
	group.Go(func() error { return c.networks.Run(ctx) })
	group.Go(func() error { return c.measure(ctx) })
	group.Go(func() error { return c.sampler.Run(ctx) })
	group.Go(func() error { return c.sinks.Run(ctx) })
	group.Go(func() error { return c.removeLeftovers(ctx) })
	if c.remote != nil {
		group.Go(func() error { return c.remote.Run(ctx) })
	}
	endServices, endTokens := c.runServices(ctx), c.runTokens(ctx)
	err = group.Wait()
	c.background.Wait()
	if c.cfg.Ephemeral {
		c.vanish(ctx)
	}
	c.allocs.Close()
	c.csi.mounts.Close()
	endServices()
	endTokens()
	if c.cfg.Ephemeral {
		c.clear() // files that tasks which did not stop in time have created since
	}
	return errors.Join(err, c.Close())
}

// vanish stops every task, unmounts all volumes and removes all files, also of tasks that do not stop in time.
func (c *Client) vanish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
	defer cancel()
	c.allocs.DestroyAll(ctx)
	c.csi.mounts.Clear(ctx)
	c.clear()
}

// clear removes the directories, volumes and networks of all allocations, and retries failed removals.
func (c *Client) clear() {
	ctx, cancel := context.WithTimeout(context.Background(), clearTimeout)
	defer cancel()
	c.csi.mounts.Clear(ctx)
	c.allocs.RemoveDirs()
	if !c.networks.RemoveAll(ctx) {
		c.log.Warn("networks of allocations remain: the next agent with this data directory removes them")
	}
}

// Close releases a client that does not run.
func (c *Client) Close() error {
	c.allocs.Close()
	if c.pool != nil {
		if err := c.pool.Close(); err != nil {
			c.log.Warn("close connections", "err", err)
		}
	}
	return c.db.Close()
}
