package server

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/open-nomad/open-nomad/internal/certs"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/audit"
	"github.com/open-nomad/open-nomad/nomad/consensus"
	"github.com/open-nomad/open-nomad/nomad/endpoint"
	"github.com/open-nomad/open-nomad/nomad/keyring/kms"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/search"
	"github.com/open-nomad/open-nomad/nomad/stream"
)

// Config is how a server is set up: plain values, TLS and the audit log. A zero value has the default
// that its comment names; Region, Datacenter and Name have none.
type Config struct {
	Region     string
	Datacenter string
	Name       string
	// DataDir is the agent's data_dir; the server writes below <data_dir>/server.
	// Empty keeps everything in memory.
	DataDir string
	// Dir is where the server writes. Default <data_dir>/server.
	Dir string
	// RPCAddr is where to listen, "host:port".
	RPCAddr string
	// RPCAdvertise is the address that others use. Default: RPCAddr as it was bound.
	RPCAdvertise string
	// SerfAddr is where to listen for gossip, "IP:port". Empty: this server takes no
	// part in it, begins a cluster of its own and stays the only one.
	SerfAddr string
	// SerfAdvertise is the address for gossip that others use, "IP:port". Default:
	// SerfAddr as it was bound; without that, the IP of RPC and SerfPort.
	SerfAdvertise string
	// BootstrapExpect is how many servers begin the cluster together; 1 begins it at
	// once, 0 waits to be added to one.
	BootstrapExpect int
	// StartJoin are servers that must be met at the start; RetryJoin are met when
	// they answer, tried every RetryInterval (default 30 s), at most RetryMax times.
	StartJoin     []string
	RetryJoin     []string
	RetryInterval time.Duration
	RetryMax      int
	// RejoinAfterLeave meets the known servers again although this one had left.
	RejoinAfterLeave bool
	// GossipKey encrypts gossip; 16, 24 or 32 bytes.
	GossipKey []byte
	// GossipProbe is how often servers are asked whether they live. Default 5 s.
	GossipProbe time.Duration
	// NonVoting makes this a server that has the log and never votes or leads.
	NonVoting bool
	// Autopilot is how a new cluster keeps its servers. Default:
	// nomad.DefaultAutopilotConfig.
	Autopilot *nomad.AutopilotConfig
	// AutopilotInterval is the time between two looks at the servers. Default 2 s.
	AutopilotInterval time.Duration
	// SerfPort is told to those who ask for the members. Default 4648.
	SerfPort int
	// Version is the version of the program, as members show it.
	Version string
	// Revision is the commit of the program.
	Revision string
	// Raft are the timers and snapshots of the log.
	Raft consensus.Tuning
	// LogStore is how the log is kept on disk.
	LogStore consensus.Backend
	// NoLogCache keeps no entries of the log in memory.
	NoLogCache bool
	// SegmentSize is how many bytes of the disk the log takes at a time. Default 64 MiB.
	SegmentSize int
	// StartTimeout bounds the time until the server has read its log after it began to
	// run, and has tried to open its keys. Default: no bound.
	StartTimeout time.Duration

	// Workers is how many evaluations are processed at a time; negative is none.
	// Default: one per core, at least two.
	Workers int
	// Schedulers are the types of evaluations that workers take. Default: all.
	Schedulers []string
	// Scheduler is the scheduler configuration of a new cluster.
	Scheduler nomad.SchedulerConfiguration

	// Introduction is what is asked of nodes that the servers don't know. Default:
	// a warning; tokens last 5 min, at most 30 min.
	Introduction endpoint.Introduction

	// AuthoritativeRegion is the one whose policies, roles, global tokens, ways to log
	// in, quotas, namespaces and node pools count in all regions. Default: Region.
	AuthoritativeRegion string
	// Access says whether callers need rights. Default: they don't.
	Access endpoint.AccessControl
	// ReplicationToken is a management token of the authoritative region: with it the
	// leader of another region copies what counts in all regions.
	ReplicationToken string

	// Search bounds fuzzy searches. Default: texts of 2 characters at least, 20 matches
	// gathered of each kind, 100 told.
	Search search.Limits

	// Keyring are those who wrap root keys. Default: the built-in one.
	Keyring []kms.Config
	// SignWithin bounds the wait of requests for a signing key. Default 10 s.
	SignWithin time.Duration
	// OIDCIssuer is the issuer in tokens, and enables OIDC discovery.
	OIDCIssuer string
	// AcceptAnyAudience lets workload identities that were made for others open the
	// API of this cluster, as other servers do.
	AcceptAnyAudience bool

	// TokensToNodes lets nodes that accept no tickets, such as Nomad's, get the tokens of
	// those who call them. Default: such calls are refused.
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
	RootKeyGCThreshold       time.Duration // default 1 h
	RootKeyGCInterval        time.Duration // default 10 min
	RootKeyRotationThreshold time.Duration // default 720 h

	// EventBuffer is how many entries of the log are kept for readers of events who come
	// later. Default 100; negative keeps no events, and nobody may read them.
	EventBuffer int

	JobDefaultPriority int // default 50
	JobMaxPriority     int // default 100
	JobMaxCount        int // default 50,000
	JobMaxSourceSize   int // default 1,000,000 bytes

	// RPCHandshakeTimeout bounds the time until a connection said what it is, TLS
	// included. Default 5 s; negative is no bound.
	RPCHandshakeTimeout time.Duration
	// TLS is for RPC and Raft; others may use it too, and reload it. Default: none.
	TLS *certs.Store
	// Audit has calls and signed tokens on record. Default: none.
	Audit *audit.Log
	// RPCMaxConnsPerClient bounds the connections of one address. Default 100; negative is no bound.
	RPCMaxConnsPerClient int
	// Mux are the settings of multiplexed connections.
	Mux rpc.Mux
	// DialTimeout bounds the connecting to another server. It is never longer than 3 s.
	DialTimeout time.Duration
	// Metrics are the settings of the metrics. Default: once per second, with all labels but
	// IDs of allocations.
	Metrics Metrics
}

// Metrics are the settings of a server's metrics.
type Metrics struct {
	// Every is the interval of gauges and counters. Default 1 s.
	Every time.Duration
	// Allocs adds labels that have one value for each job or allocation to the metrics of
	// evaluations and calls.
	Allocs bool
	// NoIdentities leaves the label identity out of the rates of calls.
	NoIdentities bool
	// NoDispatched leaves out the summaries of dispatched jobs.
	NoDispatched bool
}

// ServerDir returns the server's directory, "" when everything is in memory.
func (c Config) ServerDir() string {
	if c.Dir == "" && c.DataDir != "" {
		return filepath.Join(c.DataDir, "server")
	}
	return c.Dir
}

// complete fills in the defaults and refuses what can't be.
func (c Config) complete() (Config, error) {
	switch {
	case c.Region == "":
		return c, errors.New("server: no region")
	case c.Datacenter == "":
		return c, errors.New("server: no datacenter")
	case c.Name == "":
		return c, errors.New("server: no name")
	case c.Scheduler.PauseEvalBroker:
		return c, errors.New("server: pausing of the evaluation broker is not available yet")
	}
	if c.BootstrapExpect < 0 {
		return c, errors.New("server: bootstrap_expect is negative")
	}
	if c.NonVoting && (c.BootstrapExpect > 0 || c.SerfAddr == "") {
		return c, errors.New("server: one that never votes can't begin a cluster: unset bootstrap_expect, and let it join servers")
	}
	if c.Autopilot == nil {
		conf := nomad.DefaultAutopilotConfig()
		c.Autopilot = &conf
	}
	if err := c.Autopilot.Validate(); err != nil {
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
	if c.Workers == 0 {
		c.Workers = max(2, runtime.NumCPU())
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
