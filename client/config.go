package client

import (
	"context"
	"time"

	"github.com/open-nomad/open-nomad/client/allocs"
	"github.com/open-nomad/open-nomad/client/artifact"
	"github.com/open-nomad/open-nomad/client/fingerprint"
	"github.com/open-nomad/open-nomad/client/fingerprint/cloud"
	"github.com/open-nomad/open-nomad/client/logsink"
	"github.com/open-nomad/open-nomad/client/network"
	"github.com/open-nomad/open-nomad/client/staticvolume"
	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/client/template"
	"github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/internal/consul/reconcile"
	"github.com/open-nomad/open-nomad/internal/vault"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/rpc/wire"
)

// Config is the node's configuration. It holds plain values only.
type Config struct {
	Region, Datacenter, Name string
	NodeClass, NodePool      string
	Meta                     map[string]string
	HTTPAddr                 string // advertised address of the node's HTTP API
	TLSEnabled               bool   // initial value
	DefaultIneligible        bool
	NodeMaxAllocs            int

	StateDir string // <data_dir>/client
	AllocDir string // <data_dir>/alloc
	// OwnDirs are the directories of the agent that programs working for a task must not see.
	OwnDirs []string
	// BootFile holds the kernel's boot ID; "" is /proc/sys/kernel/random/boot_id.
	BootFile string
	// AdoptNone reports allocations as lost if their processes were started by a client of
	// another build.
	AdoptNone bool
	Ephemeral bool // -dev: no state survives, tasks are stopped with the agent

	// Servers are the initial addresses, host:port. If empty, the client waits until the
	// agent's API sets some. Unused when a server runs in this process.
	Servers    []string
	IntroToken string // for the first registration, may be empty
	// Mux and DialTimeout configure the connections to servers.
	Mux         wire.Mux
	DialTimeout time.Duration

	Fingerprint fingerprint.Config
	Clouds      []cloud.Provider // whose metadata services are asked
	Consul      Consul
	Vault       Vault
	HostVolumes map[string]staticvolume.Volume // by name
	// Networks configures the networks of allocations. New sets its directory, Check and Log.
	Networks network.Config
	// HostVolumesDir contains the dynamic host volumes, and HostVolumePluginDir their plugins.
	HostVolumesDir, HostVolumePluginDir string
	// CommonPluginDir contains the plugins of secret blocks, in its directory secrets.
	CommonPluginDir string
	// GCVolumesOnNodeGC removes the dynamic host volumes from the servers' state together with the node.
	GCVolumesOnNodeGC bool
	CgroupParent      string
	MaxKillTimeout    time.Duration
	// NoServices disables native services.
	NoServices bool
	// DisableRemoteExec rejects exec requests.
	DisableRemoteExec bool
	HostEnv           map[string]string // environment for drivers without isolation, and those with a chroot
	DeniedUsers       taskhook.DeniedUsers
	// Backends are the kinds of the drivers by name. A driver that is missing is its own kind.
	Backends       map[string]string
	DynamicUserMin int
	DynamicUserMax int
	GC             allocs.GCConfig
	// Artifact configures downloads. Its CacheDir is set by New.
	Artifact artifact.Config
	Template template.Config
	Access   AccessControl
	Metrics  Metrics
	LogSinks LogSinks
	DNS      DNS
}

// Consul configures the use of Consul by the node. Without agents, it has none.
type Consul struct {
	Agents []*consul.Agent // of all clusters, which are detected; jobs use the cluster consul.DefaultCluster
	// Services are the services of this agent in the default cluster, nil without one. The caller runs it.
	Services *reconcile.Reconciler
	// ServiceAuthMethod and TaskAuthMethod are the auth methods of Consul in which identities of services and tasks log in.
	ServiceAuthMethod, TaskAuthMethod string
	// FindServers returns RPC addresses of servers, "host:port", when the known servers do not answer. nil for none.
	FindServers func(context.Context) ([]string, error)
}

// defaultAgent returns the agent of the default cluster, or nil.
func (c Consul) defaultAgent() *consul.Agent {
	for _, a := range c.Agents {
		if a.Name() == consul.DefaultCluster {
			return a
		}
	}
	return nil
}

// Vault are the clusters of Vault, which are detected. Without any, the node does not use Vault.
type Vault []*vault.Cluster

// defaultCluster returns the cluster that jobs use, or nil.
func (v Vault) defaultCluster() *vault.Cluster {
	for _, c := range v {
		if c.Name() == vault.DefaultCluster {
			return c
		}
	}
	return nil
}

// LogSinks configures the log sinks of the node.
type LogSinks struct {
	Journal string              // the socket of journald, "" for no such sink
	OTLP    *logsink.OTLPConfig // nil for no such sink
}

// sinks returns the sinks by name.
func (l LogSinks) sinks() map[string]logsink.Sink {
	out := map[string]logsink.Sink{}
	if l.Journal != "" {
		out[nomad.LogSinkJournald] = logsink.NewJournal(l.Journal)
	}
	if l.OTLP != nil {
		out[nomad.LogSinkOTLP] = logsink.NewOTLP(*l.OTLP)
	}
	return out
}

// Metrics configures the node's metrics.
type Metrics struct {
	// Every is the interval of gauges and counters. Default 1 s.
	Every time.Duration
	// Node enables the metrics of the host.
	Node  bool
	Tasks taskhook.Metrics
}

// AccessControl configures whether callers need rights, and how long the client caches tokens,
// policies and roles.
type AccessControl struct {
	Enabled                      bool
	TokenTTL, PolicyTTL, RoleTTL time.Duration
}
