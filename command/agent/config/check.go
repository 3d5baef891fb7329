package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/drivers/chroot"
	"github.com/open-nomad/open-nomad/nomad"
)

// presetDev applies -dev: a server and a client in one process, on the loopback address, in
// memory.
func (s *Settings) presetDev() {
	c := &s.Config
	s.Dev = true
	c.BindAddr = "127.0.0.1"
	c.LogLevel = "DEBUG"
	c.EnableDebug = true
	c.Server.Enabled, c.Client.Enabled = true, true
	c.Server.BootstrapExpect = 1
	c.Telemetry.PrometheusMetrics = true
	c.Telemetry.PublishNodeMetrics, c.Telemetry.PublishAllocationMetrics = true, true
	c.Client.GCInterval = 10 * time.Minute
	c.Client.GCDiskUsageThreshold, c.Client.GCInodeUsageThreshold = 99, 99
	c.Client.Options = map[string]string{"driver.raw_exec.enable": "true"}
	c.DisableUpdateCheck, c.DisableAnonymousSignature = true, true
}

// check reports all errors of the configuration at once.
func (s *Settings) check() error {
	return errors.Join(s.checkRole(), s.checkKeys())
}

// checkKeys checks the keys that do not depend on the roles of the agent.
func (s *Settings) checkKeys() error {
	return errors.Join(s.refuseLater(), s.checkNames(), s.checkAddresses(), s.checkClient(), s.checkPlugins(), s.checkServer(),
		s.checkCluster(), s.checkRPC(), s.checkScheduler(), s.checkKeyring(), s.checkTLS(), s.checkACL(), s.checkAudit(), s.checkTelemetry(),
		s.checkUI())
}

// Fault returns an error that names a key and the place where it was set.
func (s *Settings) Fault(path, format string, args ...any) error {
	return fmt.Errorf("%s%s: %s", s.place(path), path, fmt.Sprintf(format, args...))
}

func (s *Settings) checkRole() error {
	if !s.Server.Enabled && !s.Client.Enabled {
		return errors.New("neither server nor client is enabled: use -dev, -server or -client")
	}
	if s.Dev {
		return nil
	}
	if s.DataDir == "" {
		return errors.New("data_dir is not set: use -data-dir, or -dev for an agent without stored data")
	}
	dirs := map[string]string{"data_dir": s.DataDir, "client.state_dir": s.Client.StateDir,
		"client.alloc_dir": s.Client.AllocDir, "client.alloc_mounts_dir": s.Client.AllocMountsDir, "server.data_dir": s.Server.DataDir,
		"client.host_volumes_dir": s.Client.HostVolumesDir, "client.host_volume_plugin_dir": s.Client.HostVolumePluginDir,
		"client.common_plugin_dir": s.Client.CommonPluginDir}
	var errs []error
	for path, dir := range dirs {
		if dir != "" && !filepath.IsAbs(dir) {
			errs = append(errs, s.Fault(path, "%q is not an absolute path", dir))
		}
	}
	return errors.Join(errs...)
}

func (s *Settings) checkNames() error {
	var errs []error
	if s.Region == "" || strings.ContainsRune(s.Region, 0) {
		errs = append(errs, s.Fault("region", "must be a name"))
	}
	if s.Datacenter == "" || strings.ContainsAny(s.Datacenter, "\x00*") {
		errs = append(errs, s.Fault("datacenter", "must be a name without *"))
	}
	if s.Client.NodePool == "all" || s.Client.NodePool == "" {
		errs = append(errs, s.Fault("client.node_pool", "nodes cannot register in node pool %q", s.Client.NodePool))
	}
	if s.LogRotateBytes < 0 || s.LogRotateDuration < 0 {
		errs = append(errs, s.Fault("log_rotate_bytes", "log_rotate_bytes and log_rotate_duration must not be negative"))
	}
	if _, err := SyslogFacility(s.SyslogFacility); err != nil {
		errs = append(errs, s.Fault("syslog_facility", "%v", err))
	}
	if _, err := LogLevel(s.LogLevel); err != nil {
		errs = append(errs, s.Fault("log_level", "%v", err))
	}
	return errors.Join(errs...)
}

func (s *Settings) checkAddresses() error {
	var errs []error
	for path, port := range map[string]int{"ports.http": s.Ports.HTTP, "ports.rpc": s.Ports.RPC, "ports.serf": s.Ports.Serf} {
		if port < 0 || port > 65535 {
			errs = append(errs, s.Fault(path, "%d is not a port number", port))
		}
	}
	if n := s.Limits.RPCMaxConnsPerClient; n != 0 && n <= 25 {
		errs = append(errs, s.Fault("limits.rpc_max_conns_per_client", "must be 0 or above 25"))
	}
	if n := s.Limits.HTTPMaxConnsPerClient; n < 0 {
		errs = append(errs, s.Fault("limits.http_max_conns_per_client", "must not be negative"))
	}
	for _, origin := range s.HTTPAPIAllowedOrigins {
		if err := web.CheckOrigin(origin); err != nil {
			errs = append(errs, s.Fault("http_api_allowed_origins", "%v", err))
		}
	}
	if _, err := parseSize(s.Limits.HTTPMaxRequestBody); err != nil {
		errs = append(errs, s.Fault("limits.http_max_request_body", "%v", err))
	}
	return errors.Join(errs...)
}

func (s *Settings) checkClient() error {
	c := &s.Client
	var errs []error
	if c.MinDynamicPort < 0 || c.MinDynamicPort > c.MaxDynamicPort || c.MaxDynamicPort > 65536 {
		errs = append(errs, s.Fault("client.min_dynamic_port", "the range %d to %d must be within 0 and 65536", c.MinDynamicPort,
			c.MaxDynamicPort))
	}
	if c.ClientMinPort < 0 || c.ClientMinPort > c.ClientMaxPort || c.ClientMaxPort > 65535 {
		errs = append(errs, s.Fault("client.client_min_port", "the range %d to %d must be within 0 and 65535", c.ClientMinPort, c.ClientMaxPort))
	}
	if f := c.PreferredAddressFamily; f != "" && f != "ipv4" && f != "ipv6" {
		errs = append(errs, s.Fault("client.preferred_address_family", "must be ipv4 or ipv6, not %q", f))
	}
	if c.GCInterval <= 0 || c.GCMaxAllocs < 0 {
		errs = append(errs, s.Fault("client.gc_interval", "must be above 0, and gc_max_allocs must not be negative"))
	}
	if c.DrainOnShutdown.Deadline < 0 {
		errs = append(errs, s.Fault("client.drain_on_shutdown.deadline", "must not be negative (0 means no deadline)"))
	}
	for path, n := range map[string]int{"network_speed": c.NetworkSpeed, "cpu_total_compute": c.CPUTotalCompute,
		"memory_total_mb": c.MemoryTotalMB,
		"disk_total_mb":   c.DiskTotalMB, "node_max_allocs": c.NodeMaxAllocs, "reserved.cpu": c.Reserved.CPU,
		"reserved.memory": c.Reserved.Memory, "reserved.disk": c.Reserved.Disk} {
		if n < 0 {
			errs = append(errs, s.Fault("client."+path, "must not be negative"))
		}
	}
	if err := chroot.CheckEnv(c.ChrootEnv); err != nil {
		errs = append(errs, s.Fault("client.chroot_env", "%v", err))
	}
	return errors.Join(append(errs, s.checkHostVolumes(), s.checkHostNetworks(), s.checkBridge(), s.checkArtifact(), s.checkTemplate(),
		s.checkJoin(), s.checkOptions(), s.checkClouds(), s.checkLogSinks(), s.checkConsulAPI(), s.checkDNS(), s.checkConsul(), s.checkVault())...)
}

func (s *Settings) checkHostVolumes() error {
	var errs []error
	for name, v := range s.Client.HostVolume {
		path := "client.host_volume." + name
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == '/' || r == 0x7f }) {
			errs = append(errs, s.Fault(path, "%q is not a volume name: it must not contain spaces, control characters or /", name))
		}
		if !filepath.IsAbs(v.Path) {
			errs = append(errs, s.Fault(path+".path", "%q is not an absolute path", v.Path))
		}
	}
	return errors.Join(errs...)
}

// checkJoin checks the keys that configure how a client finds its servers.
func (s *Settings) checkJoin() error {
	c := &s.Client
	var errs []error
	if len(c.ServerJoin.StartJoin) > 0 {
		errs = append(errs, s.Fault("client.server_join.start_join", "not supported on clients: use retry_join"))
	}
	errs = append(errs, s.checkDiscovery("client.servers", c.Servers),
		s.checkDiscovery("client.server_join.retry_join", c.ServerJoin.RetryJoin))
	if c.ServerJoin.RetryMax < 0 || c.ServerJoin.RetryInterval <= 0 {
		errs = append(errs, s.Fault("client.server_join.retry_max", "must not be negative, and retry_interval must be above 0"))
	}
	return errors.Join(errs...)
}

func (s *Settings) checkServer() error {
	sv := &s.Server
	var errs []error
	if sv.RaftProtocol != 3 {
		errs = append(errs, s.Fault("server.raft_protocol", "must be 3"))
	}
	if follows := sv.AuthoritativeRegion != "" && sv.AuthoritativeRegion != s.Region; follows && s.ACL.Enabled &&
		s.ACL.ReplicationToken == "" {
		errs = append(errs, s.Fault("acl.replication_token", "a region that replicates from %q requires a management token of that region",
			sv.AuthoritativeRegion))
	}
	if sv.RaftMultiplier < 1 || sv.RaftMultiplier > 10 {
		errs = append(errs, s.Fault("server.raft_multiplier", "must be 1 to 10"))
	}
	for path, n := range map[string]float64{"raft_snapshot_threshold": float64(sv.RaftSnapshotThreshold),
		"raft_snapshot_interval": float64(sv.RaftSnapshotInterval),
		"raft_trailing_logs":     float64(sv.RaftTrailingLogs), "start_timeout": float64(sv.StartTimeout),
		"heartbeat_grace":   float64(sv.HeartbeatGrace),
		"min_heartbeat_ttl": float64(sv.MinHeartbeatTTL), "failover_heartbeat_ttl": float64(sv.FailoverHeartbeatTTL),
		"max_heartbeats_per_second": sv.MaxHeartbeatsPerSecond} {
		if n <= 0 {
			errs = append(errs, s.Fault("server."+path, "must be above 0"))
		}
	}
	for path, n := range map[string]int{"limit_query": sv.Search.LimitQuery, "limit_results": sv.Search.LimitResults,
		"min_term_length": sv.Search.MinTermLength} {
		if n < 1 {
			errs = append(errs, s.Fault("server.search."+path, "must be above 0"))
		}
	}
	if sv.NumSchedulers < -1 {
		errs = append(errs, s.Fault("server.num_schedulers", "must be a number of workers, or -1 for one per core"))
	}
	if n := sv.RaftLogstore.WAL.SegmentSizeMB; n < 1 || n > 1024 {
		errs = append(errs, s.Fault("server.raft_logstore.wal.segment_size_mb", "must be 1 to 1024"))
	}
	errs = append(errs, s.checkLogstore())
	for _, name := range sv.EnabledSchedulers {
		if !slices.Contains([]string{"service", "batch", "system", "sysbatch"}, name) {
			errs = append(errs, s.Fault("server.enabled_schedulers", "unknown scheduler %q", name))
		}
	}
	if n := sv.EventBufferSize; n < 1 || n > 100_000 {
		errs = append(errs, s.Fault("server.event_buffer_size", "must be 1 to 100000; server.enable_event_broker = false disables events"))
	}
	if sv.JobMaxPriority < 100 || sv.JobMaxPriority > 32766 || sv.JobDefaultPriority < 50 || sv.JobDefaultPriority >= sv.JobMaxPriority {
		errs = append(errs, s.Fault("server.job_max_priority",
			"must be 100 to 32766; job_default_priority must be at least 50 and less than job_max_priority"))
	}
	if sv.Privileged != "" && sv.Privileged != nomad.PrivilegedExplicit {
		errs = append(errs, s.Fault("server.privileged", "must be %q or empty, not %q", nomad.PrivilegedExplicit, sv.Privileged))
	}
	if _, err := parseSize(sv.JobMaxSourceSize); err != nil {
		errs = append(errs, s.Fault("server.job_max_source_size", "%v", err))
	}
	return errors.Join(append(errs, s.checkIntroduction(), s.checkSpiffe(), s.checkServices())...)
}

// checkIntroduction checks the server.client_introduction block.
func (s *Settings) checkIntroduction() error {
	c := &s.Server.ClientIntroduction
	const path = "server.client_introduction."
	var errs []error
	if !slices.Contains([]string{"none", "warn", "strict"}, c.Enforcement) {
		errs = append(errs, s.Fault(path+"enforcement", "must be none, warn or strict, not %q", c.Enforcement))
	}
	if c.DefaultIdentityTTL <= 0 {
		errs = append(errs, s.Fault(path+"default_identity_ttl", "must be above 0"))
	}
	if c.MaxIdentityTTL < c.DefaultIdentityTTL {
		errs = append(errs, s.Fault(path+"max_identity_ttl", "must not be below default_identity_ttl, %v", c.DefaultIdentityTTL))
	}
	return errors.Join(errs...)
}

// checkScheduler checks the initial scheduler configuration of a new cluster.
func (s *Settings) checkScheduler() error {
	c := &s.Server.DefaultSchedulerConfig
	const path = "server.default_scheduler_config."
	var errs []error
	if c.SchedulerAlgorithm != "binpack" && c.SchedulerAlgorithm != "spread" {
		errs = append(errs, s.Fault(path+"scheduler_algorithm", "must be binpack or spread, not %q", c.SchedulerAlgorithm))
	}
	if c.NodeLimitForFeasibilityChecks < 0 {
		errs = append(errs, s.Fault(path+"node_limit_for_feasibility_checks", "must not be negative"))
	}
	if t := s.Server.PlanRejectionTracker; t.NodeThreshold < 1 {
		errs = append(errs, s.Fault("server.plan_rejection_tracker.node_threshold", "must be above 0"))
	} else if t.NodeWindow <= 0 {
		errs = append(errs, s.Fault("server.plan_rejection_tracker.node_window", "must be above 0"))
	}
	return errors.Join(errs...)
}

// MaxBody returns the limit of a request body in bytes.
func (s *Settings) MaxBody() (int64, error) { return parseSize(s.Limits.HTTPMaxRequestBody) }

// parseSize parses a size in bytes. KB, MB and GB are powers of 1000. KiB, MiB, GiB, K, M and G
// are powers of 1024.
func parseSize(text string) (int64, error) {
	at := strings.IndexFunc(text, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	unit := ""
	if at >= 0 {
		text, unit = text[:at], strings.TrimSpace(text[at:])
	}
	factor, ok := map[string]float64{
		"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
		"KB": 1e3, "MB": 1e6, "GB": 1e9,
	}[unit]
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !ok || n <= 0 {
		return 0, errors.New(`must be a size such as "32MiB"`)
	}
	return int64(n * factor), nil
}
