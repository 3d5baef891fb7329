package client

import (
	"time"

	"github.com/open-nomad/open-nomad/client/fingerprint"
	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// Config is what the operator said about the node. Plain values only.
type Config struct {
	Region, Datacenter, Name string
	NodeClass, NodePool      string
	Meta                     map[string]string
	HTTPAddr                 string // where the node's HTTP API is reached
	TLSEnabled               bool   // there, to begin with
	DefaultIneligible        bool
	NodeMaxAllocs            int

	StateDir string // <data_dir>/client
	AllocDir string // <data_dir>/alloc
	// BootFile is where the kernel tells its boot; "" is /proc/sys/kernel/random/boot_id.
	BootFile string
	// AdoptNone reports allocations as lost whose processes a client of another build started.
	AdoptNone bool
	Ephemeral bool // -dev: nothing survives; tasks are stopped with the agent

	// Servers to begin with, host:port. Without any the client waits until the agent's API
	// sets some. Unused when a server runs in this process.
	Servers    []string
	IntroToken string // for the first registration, may be empty
	// Mux and DialTimeout are the settings of the connections to servers.
	Mux         rpc.Mux
	DialTimeout time.Duration

	Fingerprint    fingerprint.Config
	HostVolumes    map[string]HostVolume // by name
	CgroupParent   string
	MaxKillTimeout time.Duration
	// DisableRemoteExec refuses to run programs in tasks for callers.
	DisableRemoteExec bool
	HostEnv           map[string]string // what drivers without isolation pass on
	// Plugins are the config bodies of the plugin blocks, by driver name.
	Plugins        map[string]map[string]any
	DynamicUserMin int
	DynamicUserMax int
	GC             GCConfig
	Access         AccessControl
	Metrics        Metrics
}

// Metrics are the settings of the node's metrics.
type Metrics struct {
	// Every is the interval of gauges and counters. Default 1 s.
	Every time.Duration
	// Node publishes the use of the machine.
	Node  bool
	Tasks taskhook.Metrics
}

// AccessControl says whether callers need rights, and how long the client believes what
// the servers said of a token, a policy and a role.
type AccessControl struct {
	Enabled                      bool
	TokenTTL, PolicyTTL, RoleTTL time.Duration
}

// GCConfig says when finished allocations are removed.
type GCConfig struct {
	Interval         time.Duration
	ParallelDestroys int
	MaxAllocs        int
	DiskPercent      float64
	InodePercent     float64
}
