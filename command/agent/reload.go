package agent

import (
	"errors"
	"fmt"
	"slices"

	"github.com/open-nomad/open-nomad/command/agent/config"
)

// reloadable are the keys that a reload applies.
var reloadable = []string{"log_level", "server.raft_multiplier", "server.raft_snapshot_threshold",
	"server.raft_snapshot_interval", "server.raft_trailing_logs", "server.num_schedulers", "server.enabled_schedulers",
	"tls.http", "tls.rpc", "tls.verify_server_hostname", "tls.ca_file", "tls.cert_file", "tls.key_file", "tls.rpc_upgrade_mode",
	"tls.verify_https_client", "tls.tls_cipher_suites", "tls.tls_min_version", "audit.enabled", "audit.sink", "audit.filter",
	"consul.address", "consul.token", "consul.auth", "consul.timeout", "consul.namespace", "consul.ssl", "consul.verify_ssl",
	"consul.ca_file", "consul.cert_file", "consul.key_file", "consul.grpc_address", "consul.grpc_ca_file", "consul.share_ssl",
	"consul.auto_advertise", "consul.checks_use_advertise", "consul.tags", "consul.server_service_name", "consul.client_service_name",
	"consul.server_http_check_name", "consul.server_rpc_check_name", "consul.server_serf_check_name", "consul.client_http_check_name",
	"consul.server_failures_before_critical", "consul.server_failures_before_warning", "consul.client_failures_before_critical",
	"consul.client_failures_before_warning", "vault.address", "vault.namespace", "vault.create_from_role", "vault.jwt_auth_backend_path", "vault.ca_file", "vault.ca_path", "vault.cert_file", "vault.key_file",
	"vault.tls_skip_verify", "vault.tls_server_name"}

// Reload reads the flags, the configuration files and the TLS files again, and applies the
// reloadable keys. It logs the other keys that changed. It reopens the log file and the audit
// log, and the client detects Consul and Vault again.
func (a *Agent) Reload() error {
	if a.reload == nil {
		return errors.New("this agent has no configuration files to reload")
	}
	a.turn.Lock()
	defer a.turn.Unlock()
	set, err := a.reload()
	if err != nil {
		return fmt.Errorf("reload: %w", err)
	}
	if set.Name == "" {
		set.Name = a.set.Name // the host name
	}
	if !set.NamesLogBackend() {
		set.Server.RaftLogstore.Backend = a.set.Server.RaftLogstore.Backend // the backend of the existing log
	}
	level, err := config.LogLevel(set.LogLevel)
	if err != nil {
		return err
	}
	if err := a.reloadTLS(set); err != nil {
		return fmt.Errorf("reload: %w", err)
	}
	if err := a.setAudit(set); err != nil {
		return fmt.Errorf("reload: %w", err)
	}
	if err := a.reloadConsul(set); err != nil {
		return fmt.Errorf("reload: %w", err)
	}
	if err := a.reloadVault(set); err != nil {
		return fmt.Errorf("reload: %w", err)
	}
	a.level.Set(level)
	if a.logFile != nil {
		if err := a.logFile.reopen(); err != nil {
			return err
		}
	}
	if a.server != nil {
		if err := a.server.Tune(set.RaftTuning()); err != nil {
			return fmt.Errorf("reload: %w", err)
		}
		a.server.SetWorkers(set.Workers())
	}
	if a.client != nil {
		a.client.Reload()
	}
	a.log.Info("configuration reloaded", "log_level", set.LogLevel)
	changed := config.Changed(a.set, set)
	changed = slices.DeleteFunc(changed, func(path string) bool { return slices.Contains(reloadable, path) })
	if len(changed) > 0 {
		a.log.Warn("changed keys that require a restart of the agent", "keys", changed)
	}
	return nil
}
