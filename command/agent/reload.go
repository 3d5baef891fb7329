package agent

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
)

// reloadable are the keys that a reload applies.
var reloadable = []string{"log_level", "server.raft_multiplier", "server.raft_snapshot_threshold",
	"server.raft_snapshot_interval", "server.raft_trailing_logs",
	"tls.http", "tls.rpc", "tls.verify_server_hostname", "tls.ca_file", "tls.cert_file", "tls.key_file", "tls.rpc_upgrade_mode",
	"tls.verify_https_client", "tls.tls_cipher_suites", "tls.tls_min_version", "audit.enabled", "audit.sink", "audit.filter"}

// Reload reads the flags, the configuration files and the TLS files again, and applies the
// reloadable keys. It logs the other keys that changed. It reopens the log file and the audit
// log.
func (a *Agent) Reload() error {
	if a.reload == nil {
		return errors.New("this agent has no configuration to read again")
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
	if !set.namesLogBackend() {
		set.Server.RaftLogstore.Backend = a.set.Server.RaftLogstore.Backend // the backend of the existing log
	}
	level, err := logLevel(set.LogLevel)
	if err != nil {
		return err
	}
	if err := a.reloadTLS(set); err != nil {
		return fmt.Errorf("reload: %w", err)
	}
	if err := a.setAudit(set); err != nil {
		return fmt.Errorf("reload: %w", err)
	}
	a.level.Set(level)
	if a.logFile != nil {
		if err := a.logFile.reopen(); err != nil {
			return err
		}
	}
	if a.server != nil {
		if err := a.server.Tune(set.raftTuning()); err != nil {
			return fmt.Errorf("reload: %w", err)
		}
	}
	a.log.Info("configuration reloaded", "log_level", set.LogLevel)
	changed := changes(reflect.ValueOf(a.set.Config), reflect.ValueOf(set.Config), "")
	changed = slices.DeleteFunc(changed, func(path string) bool { return slices.Contains(reloadable, path) })
	if len(changed) > 0 {
		a.log.Warn("these keys changed too: they need a restart of the agent", "keys", changed)
	}
	return nil
}

// changes returns the keys in which two blocks differ.
func changes(before, after reflect.Value, path string) []string {
	var out []string
	now := fields(after)
	for i, f := range fields(before) {
		switch {
		case f.nested && f.mode == "":
			out = append(out, changes(f.value, now[i].value, path+f.key+".")...)
		case !reflect.DeepEqual(f.value.Interface(), now[i].value.Interface()):
			out = append(out, path+f.key)
		}
	}
	return out
}
