package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"github.com/open-nomad/open-nomad/internal/certs"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/audit"
	"github.com/open-nomad/open-nomad/nomad/consensus"
	"github.com/open-nomad/open-nomad/nomad/consensus/logstore"
	"github.com/open-nomad/open-nomad/nomad/consul"
	"github.com/open-nomad/open-nomad/nomad/endpoint/acl"
	"github.com/open-nomad/open-nomad/nomad/endpoint/nodes"
	"github.com/open-nomad/open-nomad/nomad/keyring/kms"
	"github.com/open-nomad/open-nomad/nomad/kinds"
	"github.com/open-nomad/open-nomad/nomad/monitor"
	"github.com/open-nomad/open-nomad/nomad/plan"
	"github.com/open-nomad/open-nomad/nomad/profile"
	"github.com/open-nomad/open-nomad/nomad/rpc/wire"
	"github.com/open-nomad/open-nomad/nomad/rules"
	"github.com/open-nomad/open-nomad/nomad/search"
	"github.com/open-nomad/open-nomad/nomad/stream"
	"github.com/open-nomad/open-nomad/nomad/vault"
)

// Config configures a server. A zero value means the default in the comment. Region, Datacenter
// and Name are required.
type Config struct {
	Region     string
	Datacenter string
	Name       string
	// DataDir is the agent's data_dir; the server writes to <data_dir>/server. If it is empty,
	// everything is in memory.
	DataDir string
	// Dir is the server's directory. Default <data_dir>/server.
	Dir string
	// RPCAddr is the address to listen on, "host:port".
	RPCAddr string
	// RPCAdvertise is the address for other agents. Default: the bound RPCAddr.
	RPCAdvertise string
	// SerfAddr is the address for gossip, "IP:port". If it is empty, this server does not use
	// gossip and forms a cluster of its own, which no other server can join.
	SerfAddr string
	// SerfAdvertise is the gossip address for other servers, "IP:port". Default: the bound
	// SerfAddr or, without one, the IP address of RPC with SerfPort.
	SerfAdvertise string
	// BootstrapExpect is the number of servers that bootstrap the cluster; 1 bootstraps at
	// once, 0 waits to be added.
	BootstrapExpect int
	// StartJoin lists servers to join at the start; a failure is an error. RetryJoin lists
	// servers to join repeatedly, every RetryInterval (default 30 s), at most RetryMax times.
	StartJoin     []string
	RetryJoin     []string
	RetryInterval time.Duration
	RetryMax      int
	// Discover returns gossip addresses of servers, "host:port", which this server joins while it has no cluster or no
	// leader. The answer may have its own address. Default: none.
	Discover func(context.Context) ([]string, error)
	// RejoinAfterLeave rejoins the known servers even if this server had left.
	RejoinAfterLeave bool
	// GossipKey encrypts gossip; 16, 24 or 32 bytes.
	GossipKey []byte
	// GossipProbe is the interval between probes of members. Default 5 s.
	GossipProbe time.Duration
	// NonVoting makes this server a permanent non-voter, which never leads.
	NonVoting bool
	// Autopilot is the autopilot configuration of a new cluster. Default:
	// nomad.DefaultAutopilotConfig.
	Autopilot *nomad.AutopilotConfig
	// AutopilotInterval is the interval between autopilot's checks. Default 2 s.
	AutopilotInterval time.Duration
	// SerfPort is the gossip port in the list of members. Default 4648.
	SerfPort int
	// Version is the version of the program in the list of members.
	Version string
	// Revision is the commit of the program.
	Revision string
	// Raft holds the timers and snapshot settings.
	Raft consensus.Tuning
	// LogStore configures the log store.
	LogStore logstore.Backend
	// NoLogCache disables the cache of log entries.
	NoLogCache bool
	// SegmentSize is the size of a log segment in bytes. Default 64 MiB.
	SegmentSize int
	// StartTimeout limits the time until the running server has applied its log and has tried
	// to open its keys. Default: no limit.
	StartTimeout time.Duration

	// Workers is the number of scheduling workers; negative means none. Default: one per core,
	// at least two.
	Workers int
	// Schedulers lists the types of evaluations that workers process. Default: all.
	Schedulers []string
	// Scheduler is the scheduler configuration of a new cluster.
	Scheduler nomad.SchedulerConfiguration

	// PlanRejections makes nodes ineligible that reject plans repeatedly. Default: disabled.
	PlanRejections plan.Rejections

	// Kinds are the built-in kinds of drivers, by which jobs are checked. Default: none.
	Kinds kinds.Table

	// Introduction holds the requirements for new nodes. Default: a warning; tokens last 5 min,
	// at most 30 min.
	Introduction nodes.Introduction

	// AuthoritativeRegion is the source of policies, roles, global tokens, auth methods,
	// binding rules, quotas, namespaces and node pools for all regions. Default: Region.
	AuthoritativeRegion string
	// Access enables ACLs. Default: disabled.
	Access acl.Control
	// ReplicationToken is a management token of the authoritative region, for replication to
	// this region.
	ReplicationToken string

	// Search limits fuzzy searches. Default: at least 2 characters, 20 matches per kind, 100
	// results.
	Search search.Limits

	// Keyring lists the wrappers of root keys. Default: the built-in one.
	Keyring []kms.Config
	// SignWithin limits how long requests wait for a signing key. Default 10 s.
	SignWithin time.Duration
	// OIDCIssuer is the issuer in tokens. It enables OIDC discovery.
	OIDCIssuer string
	// Spiffe enables SPIFFE identities. Default: disabled.
	Spiffe Spiffe
	// Consul configures what happens to jobs that use Consul.
	Consul consul.Config
	// Vault has the clusters of Vault that jobs may use.
	Vault vault.Clusters
	// AcceptAnyAudience accepts workload identities for other audiences in the API of this
	// cluster, as other implementations do.
	AcceptAnyAudience bool

	// TokensToNodes sends the caller's token to nodes that do not support tickets, such as
	// Nomad's. Default: such calls are refused.
	TokensToNodes bool

	MinHeartbeatTTL        time.Duration // default 10 s
	HeartbeatGrace         time.Duration // default 10 s
	FailoverHeartbeatTTL   time.Duration // default 300 s
	MaxHeartbeatsPerSecond float64       // default 50

	EvalGCThreshold          time.Duration // default 1 h
	BatchEvalGCThreshold     time.Duration // default 24 h
	JobGCThreshold           time.Duration // default 4 h
	JobGCInterval            time.Duration // default 5 min
	NodeGCThreshold          time.Duration // default 24 h
	DeploymentGCThreshold    time.Duration // default 1 h
	ACLTokenGCThreshold      time.Duration // default 1 h
	CSIClaimGCThreshold      time.Duration // default 5 min
	CSIClaimGCInterval       time.Duration // default 5 min
	CSIPluginGCThreshold     time.Duration // default 1 h
	RootKeyGCThreshold       time.Duration // default 1 h
	RootKeyGCInterval        time.Duration // default 10 min
	RootKeyRotationThreshold time.Duration // default 720 h

	// EventBuffer is the number of log entries whose events are buffered for new subscribers.
	// Default 100; negative disables the event stream.
	EventBuffer int

	JobDefaultPriority int // default 50
	JobMaxPriority     int // default 100
	JobMaxCount        int // default 50,000
	JobMaxSourceSize   int // default 1,000,000 bytes
	// ExplicitPrivilege demands privileged = true of the tasks that need it. Otherwise the servers add it if the caller
	// may run them.
	ExplicitPrivilege bool

	// RPCHandshakeTimeout limits the time until a connection has identified its protocol,
	// including TLS. Default 5 s; negative means no limit.
	RPCHandshakeTimeout time.Duration
	// TLS is the TLS configuration for RPC and Raft. It may be shared and reloaded. Default: no
	// TLS.
	TLS *certs.Store
	// Audit is the audit log for calls and signed tokens. Default: none.
	Audit *audit.Log
	// Monitor is the log of the agent, for Agent.Monitor. Default: none; the method then fails.
	Monitor *monitor.Source
	// Profiles are the profiles of the agent, for Agent.Profile and Agent.Host. Default: none.
	Profiles *profile.Source
	// RPCMaxConnsPerClient limits the connections per address. Default 100; negative means no
	// limit.
	RPCMaxConnsPerClient int
	// Mux holds the settings of multiplexed connections.
	Mux wire.Mux
	// DialTimeout limits the time to connect to another server. The maximum is 3 s.
	DialTimeout time.Duration
	// Metrics configures the metrics. Default: once per second, with all labels but allocation
	// IDs.
	Metrics Metrics
}

// Spiffe configures the trust domain of a region.
type Spiffe struct {
	// TrustDomain is its name; "" disables SPIFFE identities.
	TrustDomain string
	// DNS are the suffixes of the DNS names that tasks may request.
	DNS []string
	// Overlap is the time for which a new key is in the bundle before it signs. Default:
	// svid.DefaultOverlap.
	Overlap time.Duration
}

// Metrics configures a server's metrics.
type Metrics struct {
	// Every is the interval of gauges and counters. Default 1 s.
	Every time.Duration
	// Allocs adds labels for individual jobs and allocations to the metrics of evaluations and
	// calls.
	Allocs bool
	// NoIdentities omits the label identity from the call rates.
	NoIdentities bool
	// NoDispatched omits the summaries of dispatched jobs.
	NoDispatched bool
}

// ServerDir returns the server's directory, or "" if everything is in memory.
func (c Config) ServerDir() string {
	if c.Dir == "" && c.DataDir != "" {
		return filepath.Join(c.DataDir, "server")
	}
	return c.Dir
}

// complete sets the defaults and validates the configuration.
func (c Config) complete() (Config, error) {
	switch {
	case c.Region == "":
		return c, errors.New("server: no region")
	case c.Datacenter == "":
		return c, errors.New("server: no datacenter")
	case c.Name == "":
		return c, errors.New("server: no name")
	}
	if c.BootstrapExpect < 0 {
		return c, errors.New("server: bootstrap_expect is negative")
	}
	if c.NonVoting && (c.BootstrapExpect > 0 || c.SerfAddr == "") {
		return c, errors.New("server: a non-voting server cannot bootstrap a cluster: unset bootstrap_expect and join other servers")
	}
	if c.Autopilot == nil {
		conf := nomad.DefaultAutopilotConfig()
		c.Autopilot = &conf
	}
	if err := rules.Autopilot(c.Autopilot); err != nil {
		return c, fmt.Errorf("server: %w", err)
	}
	if _, _, err := net.SplitHostPort(c.RPCAddr); err != nil {
		return c, fmt.Errorf("server: address for RPC: %w", err)
	}
	if c.SerfAdvertise != "" {
		if _, port, err := net.SplitHostPort(c.SerfAdvertise); err != nil {
			return c, fmt.Errorf("server: address for gossip: %w", err)
		} else if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return c, fmt.Errorf("server: port for gossip: %w", err)
		}
	}
	if c.AuthoritativeRegion == "" {
		c.AuthoritativeRegion = c.Region
	}
	if c.DialTimeout <= 0 || c.DialTimeout > maxDial {
		c.DialTimeout = maxDial
	}
	if c.EventBuffer == 0 {
		c.EventBuffer = stream.DefaultSize
	}
	if c.SerfPort == 0 {
		c.SerfPort = 4648
	}
	if c.SignWithin == 0 {
		c.SignWithin = 10 * time.Second
	}
	if c.RootKeyRotationThreshold == 0 {
		c.RootKeyRotationThreshold = 720 * time.Hour
	}
	if c.Scheduler.SchedulerAlgorithm == "" {
		c.Scheduler.SchedulerAlgorithm = nomad.SchedulerAlgorithmBinpack
	}
	if c.Scheduler.NodeLimitForFeasibilityChecks == 0 {
		c.Scheduler.NodeLimitForFeasibilityChecks = nomad.DefaultNodeLimitForFeasibilityChecks
	}
	return c, nil
}
