package config

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/client"
	"github.com/open-nomad/open-nomad/client/allocs"
	"github.com/open-nomad/open-nomad/client/fingerprint"
	"github.com/open-nomad/open-nomad/client/staticvolume"
	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/drivers"
	"github.com/open-nomad/open-nomad/internal/version"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/consensus"
	"github.com/open-nomad/open-nomad/nomad/consensus/logstore"
	"github.com/open-nomad/open-nomad/nomad/endpoint/acl"
	"github.com/open-nomad/open-nomad/nomad/endpoint/nodes"
	"github.com/open-nomad/open-nomad/nomad/plan"
	"github.com/open-nomad/open-nomad/nomad/search"
	"github.com/open-nomad/open-nomad/nomad/server"
)

// rpcPort is the default port of server addresses.
const rpcPort = 4647

// secretVars is the default of env.denylist: variables of the agent that drivers without
// isolation do not pass to tasks.
var secretVars = []string{
	"CONSUL_TOKEN", "CONSUL_HTTP_AUTH", "NOMAD_TOKEN", "VAULT_TOKEN",
	"CONSUL_LICENSE", "NOMAD_LICENSE", "VAULT_LICENSE",
	"CONSUL_LICENSE_PATH", "NOMAD_LICENSE_PATH", "VAULT_LICENSE_PATH",
	"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_METADATA_URL",
	"GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_OAUTH_ACCESS_TOKEN", "NOMAD_CLIENT_INTRO_TOKEN",
}

// consulToken begins the names of the variables that have the agent's token for a cluster of Consul, or its file. They are
// secretVars too.
const consulToken = "CONSUL_HTTP_TOKEN"

// serverAddrs returns the initial servers of a client, each with a port.
func (s *Settings) serverAddrs() []string {
	var addrs []string
	for _, addr := range slices.Concat(s.Client.Servers, s.Client.ServerJoin.RetryJoin) {
		if addr = strings.TrimSpace(addr); addr != "" {
			addrs = append(addrs, withPort(addr, rpcPort))
		}
	}
	return addrs
}

// ClientConfig builds the configuration of the client part.
func (s *Settings) ClientConfig(dir, httpAddr string) (client.Config, error) {
	c := &s.Client
	allocDir := cmp.Or(c.AllocDir, filepath.Join(dir, "alloc"))
	if err := s.knownFingerprinters(); err != nil {
		return client.Config{}, err
	}
	intro, err := s.intro(cmp.Or(c.StateDir, filepath.Join(dir, "client")))
	if err != nil {
		return client.Config{}, err
	}
	sinks, err := s.logSinks()
	if err != nil {
		return client.Config{}, err
	}
	artifacts, err := s.artifactConfig()
	if err != nil {
		return client.Config{}, err
	}
	templates, err := s.templateConfig()
	if err != nil {
		return client.Config{}, err
	}
	return client.Config{
		Region: s.Region, Datacenter: s.Datacenter, Name: s.Name,
		NodeClass: c.NodeClass, NodePool: c.NodePool, Meta: s.nodeMeta(), Consul: s.clientConsul(),
		HTTPAddr: httpAddr, TLSEnabled: s.TLS.HTTP, DefaultIneligible: c.DefaultIneligible, NodeMaxAllocs: c.NodeMaxAllocs,
		StateDir: cmp.Or(c.StateDir, filepath.Join(dir, "client")), AllocDir: allocDir, Ephemeral: s.Dev,
		Servers: s.serverAddrs(), IntroToken: intro, AdoptNone: s.adoptNone, Mux: s.mux(), DialTimeout: s.RPC.DialTimeout,
		Fingerprint: s.fingerprintConfig(allocDir, httpAddr), Clouds: s.clouds(), CgroupParent: c.CgroupParent,
		MaxKillTimeout: c.MaxKillTimeout, NoServices: !c.NomadServiceDiscovery, DisableRemoteExec: c.DisableRemoteExec, HostEnv: s.hostEnv(),
		Backends: s.backends(), DeniedUsers: s.deniedUsers(),
		DynamicUserMin: c.Users.DynamicUserMin, DynamicUserMax: c.Users.DynamicUserMax,
		Access:      client.AccessControl{Enabled: s.ACL.Enabled, TokenTTL: s.ACL.TokenTTL, PolicyTTL: s.ACL.PolicyTTL, RoleTTL: s.ACL.RoleTTL},
		Artifact:    artifacts,
		Template:    templates,
		Networks:    c.networks(),
		DNS:         s.dnsConfig(),
		HostVolumes: c.hostVolumes(), Metrics: s.clientMetrics(), LogSinks: sinks, GCVolumesOnNodeGC: c.GCVolumesOnNodeGC,
		HostVolumesDir:      cmp.Or(c.HostVolumesDir, filepath.Join(dir, "host_volumes")),
		HostVolumePluginDir: cmp.Or(c.HostVolumePluginDir, filepath.Join(dir, "host_volume_plugins")),
		CommonPluginDir:     cmp.Or(c.CommonPluginDir, filepath.Join(dir, "common_plugins")),
		GC: allocs.GCConfig{
			Interval: c.GCInterval, ParallelDestroys: c.GCParallelDestroys, MaxAllocs: c.GCMaxAllocs,
			DiskPercent: c.GCDiskUsageThreshold, InodePercent: c.GCInodeUsageThreshold,
		},
	}, nil
}

// DrainOnShutdown returns the drain with which a client leaves. ok is false without the block and in
// development mode.
func (s *Settings) DrainOnShutdown() (spec nomad.DrainSpec, ok bool) {
	_, set := s.set["client.drain_on_shutdown"]
	d := s.Client.DrainOnShutdown
	return nomad.DrainSpec{Deadline: d.Deadline, IgnoreSystemJobs: d.IgnoreSystemJobs}, set && !s.Dev
}

func (c *Client) hostVolumes() map[string]staticvolume.Volume {
	out := map[string]staticvolume.Volume{}
	for name, v := range c.HostVolume {
		out[name] = staticvolume.Volume{Path: v.Path, ReadOnly: v.ReadOnly}
	}
	return out
}

func (s *Settings) fingerprintConfig(allocDir, httpAddr string) fingerprint.Config {
	c := &s.Client
	return fingerprint.Config{
		Version: version.Number, Revision: version.Commit(), AdvertiseAddr: httpAddr, Services: c.NomadServiceDiscovery,
		ConsulAPI: c.ConsulAPI.Address,
		AllocDir:  allocDir, Interface: c.NetworkInterface, Loopback: s.Dev && !s.connect, AddressFamily: c.PreferredAddressFamily,
		SpeedMbits: c.NetworkSpeed, SkipLinkLocal: s.optionSet("fingerprint.network.disallow_link_local"),
		TotalCompute: c.CPUTotalCompute, MemoryMB: c.MemoryTotalMB, DiskMB: c.DiskTotalMB,
		ReservableCores: c.ReservableCores,
		Reserved: fingerprint.Reserved{
			CPU: c.Reserved.CPU, Cores: c.Reserved.Cores, MemoryMB: c.Reserved.Memory, DiskMB: c.Reserved.Disk,
			Ports: c.Reserved.ReservedPorts,
		},
		HostNetworks: c.hostNetworks(), Networks: c.fingerprintNetworks(),
		MinDynamicPort: c.MinDynamicPort, MaxDynamicPort: c.MaxDynamicPort,
		Allow: s.allowedFingerprinters(), Deny: s.deniedFingerprinters(),
	}
}

// hostEnv returns the environment of the agent without the variables of the denylist.
func (s *Settings) hostEnv() map[string]string {
	deny := list(s.option("env.denylist", "env.blacklist"))
	denied := func(name string) bool { return slices.Contains(deny, name) }
	if len(deny) == 0 {
		denied = func(name string) bool {
			return slices.Contains(secretVars, name) || strings.HasPrefix(name, consulToken)
		}
	}
	env := map[string]string{}
	for _, line := range os.Environ() {
		if key, val, ok := strings.Cut(line, "="); ok && !denied(key) {
			env[key] = val
		}
	}
	return env
}

// intro returns the introduction token for the first registration. It comes from the environment,
// the flag, or the file intro_token.jwt in the state directory.
func (s *Settings) intro(stateDir string) (string, error) {
	if s.introToken != "" {
		return s.introToken, nil
	}
	b, err := os.ReadFile(filepath.Join(stateDir, "intro_token.jwt"))
	if err != nil && !os.IsNotExist(err) {
		return "", fmt.Errorf("read introduction token: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// ServerConfig returns the configuration of the server.
func (s *Settings) ServerConfig(dir string) (server.Config, error) {
	sv := &s.Server
	host := hosts(s.Addresses.RPC, s.BindAddr)[0]
	advertise := ""
	if s.Advertise.RPC != "" || s.Ports.RPC != 0 {
		var err error
		if advertise, err = advertised(s.Advertise.RPC, host, s.Ports.RPC); err != nil {
			return server.Config{}, err
		}
	}
	source, err := parseSize(sv.JobMaxSourceSize)
	if err != nil {
		return server.Config{}, err
	}
	identities, err := s.serverConsul()
	if err != nil {
		return server.Config{}, err
	}
	clusters, err := s.serverVault()
	if err != nil {
		return server.Config{}, err
	}
	if s.Dev {
		dir = ""
	}
	cfg := server.Config{
		Region: s.Region, Datacenter: s.Datacenter, Name: s.Name, DataDir: dir, Dir: sv.DataDir,
		RPCAddr: net.JoinHostPort(host, strconv.Itoa(s.Ports.RPC)), RPCAdvertise: advertise, SerfPort: s.Ports.Serf,
		Version: version.Number, Revision: version.Commit(), Raft: s.RaftTuning(), NoLogCache: sv.RaftLogstore.DisableLogCache,
		SegmentSize:  sv.RaftLogstore.WAL.SegmentSizeMB << 20,
		LogStore:     logstore.Backend{Name: sv.RaftLogstore.Backend, NoFreelistSync: s.noFreelistSync()},
		StartTimeout: sv.StartTimeout, Keyring: s.keyrings(),
		Kinds: drivers.Table(), Workers: sv.workers(), Schedulers: sv.EnabledSchedulers, Scheduler: s.schedulerConfig(),
		OIDCIssuer: sv.OIDCIssuer, Spiffe: sv.spiffe(), Consul: identities, Vault: clusters,
		PlanRejections: plan.Rejections{Enabled: sv.PlanRejectionTracker.Enabled, Threshold: sv.PlanRejectionTracker.NodeThreshold,
			Window: sv.PlanRejectionTracker.NodeWindow},
		AcceptAnyAudience: sv.AcceptAnyAudience, TokensToNodes: sv.RelayTokensToNodes,
		MinHeartbeatTTL: sv.MinHeartbeatTTL, HeartbeatGrace: sv.HeartbeatGrace,
		FailoverHeartbeatTTL: sv.FailoverHeartbeatTTL, MaxHeartbeatsPerSecond: sv.MaxHeartbeatsPerSecond,
		EvalGCThreshold: sv.EvalGCThreshold, BatchEvalGCThreshold: sv.BatchEvalGCThreshold,
		JobGCThreshold: sv.JobGCThreshold, JobGCInterval: sv.JobGCInterval, NodeGCThreshold: sv.NodeGCThreshold,
		DeploymentGCThreshold: sv.DeploymentGCThreshold, RootKeyGCThreshold: sv.RootKeyGCThreshold,
		CSIClaimGCThreshold: sv.CSIVolumeClaimGCThreshold, CSIClaimGCInterval: sv.CSIVolumeClaimGCInterval,
		CSIPluginGCThreshold: sv.CSIPluginGCThreshold,
		RootKeyGCInterval:    sv.RootKeyGCInterval, RootKeyRotationThreshold: sv.RootKeyRotationThreshold,
		Introduction: nodes.Introduction{Enforcement: sv.ClientIntroduction.Enforcement,
			DefaultTTL: sv.ClientIntroduction.DefaultIdentityTTL, MaxTTL: sv.ClientIntroduction.MaxIdentityTTL},
		Access:           acl.Control{Enabled: s.ACL.Enabled, TokenMinTTL: s.ACL.TokenMinExpirationTTL, TokenMaxTTL: s.ACL.TokenMaxExpirationTTL},
		ReplicationToken: s.ACL.ReplicationToken, ACLTokenGCThreshold: sv.ACLTokenGCThreshold, AuthoritativeRegion: sv.AuthoritativeRegion,
		Search: search.Limits{Off: !sv.Search.FuzzyEnabled, Gathered: sv.Search.LimitQuery, Results: sv.Search.LimitResults,
			MinText: sv.Search.MinTermLength},
		JobDefaultPriority: sv.JobDefaultPriority, JobMaxPriority: sv.JobMaxPriority, JobMaxCount: sv.JobMaxCount,
		ExplicitPrivilege: sv.Privileged == nomad.PrivilegedExplicit, JobMaxSourceSize: int(source), EventBuffer: sv.eventBuffer(),
		Mux: s.mux(), DialTimeout: s.RPC.DialTimeout,
		Metrics:             s.serverMetrics(),
		RPCHandshakeTimeout: unbounded(s.Limits.RPCHandshakeTimeout), RPCMaxConnsPerClient: unbounded(s.Limits.RPCMaxConnsPerClient),
	}
	return cfg, s.clusterConfig(&cfg)
}

// serverMetrics returns the settings of the server's metrics.
func (s *Settings) serverMetrics() server.Metrics {
	t := s.Telemetry
	return server.Metrics{Every: t.CollectionInterval, Allocs: t.PublishAllocationMetrics,
		NoIdentities: t.DisableRPCRateMetricsLabels, NoDispatched: t.DisableDispatchedJobSummaryMetrics}
}

// clientMetrics returns the settings of the client's metrics.
func (s *Settings) clientMetrics() client.Metrics {
	t := s.Telemetry
	return client.Metrics{Every: t.CollectionInterval, Node: t.PublishNodeMetrics,
		Tasks: taskhook.Metrics{Allocs: t.PublishAllocationMetrics, Meta: t.IncludeAllocMetadataInMetrics,
			MetaKeys: t.AllowedMetadataKeysInMetrics, NoHooks: t.DisableAllocationHookMetrics}}
}

// Workers returns the number of scheduler workers in the form of server.Config, and their types of evaluations.
func (s *Settings) Workers() (int, []string) { return s.Server.workers(), s.Server.EnabledSchedulers }

// workers returns the number of scheduler workers in the form of server.Config: 0 for one per
// core, negative for none.
func (sv *Server) workers() int {
	switch sv.NumSchedulers {
	case -1:
		return 0
	case 0:
		return -1
	}
	return sv.NumSchedulers
}

// eventBuffer returns the number of log entries in the event buffer, or -1 if the event broker is
// disabled.
func (sv *Server) eventBuffer() int {
	if !sv.EnableEventBroker {
		return -1
	}
	return sv.EventBufferSize
}

// RaftTuning returns the reloadable settings of Raft.
func (s *Settings) RaftTuning() consensus.Tuning {
	sv := &s.Server
	return consensus.Tuning{Multiplier: sv.RaftMultiplier, SnapshotThreshold: uint64(sv.RaftSnapshotThreshold),
		SnapshotInterval: sv.RaftSnapshotInterval, TrailingLogs: uint64(sv.RaftTrailingLogs)}
}

// unbounded maps 0, which means no limit in the file, to -1, which means no limit for the
// transport.
func unbounded[N int | time.Duration](n N) N {
	if n == 0 {
		return -1
	}
	return n
}

func (s *Settings) schedulerConfig() nomad.SchedulerConfiguration {
	c := s.Server.DefaultSchedulerConfig
	return nomad.SchedulerConfiguration{
		SchedulerAlgorithm: nomad.SchedulerAlgorithm(c.SchedulerAlgorithm),
		PreemptionConfig: nomad.PreemptionConfig{
			SystemSchedulerEnabled:   c.PreemptionConfig.SystemSchedulerEnabled,
			SysBatchSchedulerEnabled: c.PreemptionConfig.SysbatchSchedulerEnabled,
			BatchSchedulerEnabled:    c.PreemptionConfig.BatchSchedulerEnabled,
			ServiceSchedulerEnabled:  c.PreemptionConfig.ServiceSchedulerEnabled,
		},
		MemoryOversubscriptionEnabled: c.MemoryOversubscriptionEnabled,
		RejectJobRegistration:         c.RejectJobRegistration,
		PauseEvalBroker:               c.PauseEvalBroker,
		NodeLimitForFeasibilityChecks: uint(max(0, c.NodeLimitForFeasibilityChecks)),
	}
}
