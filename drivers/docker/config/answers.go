package config

import "fmt"

// verdict is the answer to who may use an option of a task.
type verdict string

// The verdicts on options.
const (
	isSafe      verdict = "safe"         // it changes the container only
	byPrivilege verdict = "privilege"    // some of its values need privileged = true in the task
	byOperator  verdict = "plugin block" // the plugin block of the node lists what is allowed
	isLimited   verdict = "limited"      // up to a limit of the job, its namespace or the node
	isRefused   verdict = "refused"      // this driver does not have it
)

// answer is the verdict on an option of a task.
type answer struct {
	option  string // blocks and their options are joined with a period
	verdict verdict
	note    string // for the page
	// needs returns the value that needs privilege, "" for none. Nil: none does.
	needs func(p *powers, config map[string]any) string
}

// answers has every option of a task: one without an answer fails a test. Those that need privilege are checked
// in this order. The page docker.md has the same table.
var answers = []answer{
	{"privileged", byPrivilege, "always", func(p *powers, _ map[string]any) string { return when(p.privileged, "privileged") }},
	{"devices", byPrivilege, "always", func(p *powers, _ map[string]any) string { return when(p.devices, "devices") }},
	{"devices.host_path", byPrivilege, "see `devices`", nil},
	{"devices.container_path", byPrivilege, "see `devices`", nil},
	{"devices.cgroup_permissions", byPrivilege, "see `devices`", nil},
	{"security_opt", byPrivilege, "unless it is one of those [without privilege](#security-options)", needsSecurity},
	{"cgroupns", byPrivilege, "`host`", func(_ *powers, config map[string]any) string {
		mode := textOf(config["cgroupns"])
		return when(!ownMode(mode), fmt.Sprintf("cgroupns = %q", mode))
	}},
	{"oom_score_adj", byPrivilege, "below 0", func(_ *powers, config map[string]any) string { return urgentScore(config["oom_score_adj"]) }},
	{"ulimit", byPrivilege, "`rtprio` above 0, `nice` above 20",
		func(_ *powers, config map[string]any) string { return urgentLimit(config["ulimit"]) }},

	{"cap_add", byOperator, "`allow_caps`", nil},
	{"pid_mode", byOperator, "`allowed_modes`, else privilege", nil},
	{"ipc_mode", byOperator, "`allowed_modes`, else privilege", nil},
	{"uts_mode", byOperator, "`allowed_modes`, else privilege", nil},
	{"userns_mode", byOperator, "`allowed_modes`, else privilege", nil},
	{"runtime", byOperator, "`allow_runtimes`", nil},
	{"logging.type", byOperator, "`allow_logging_types`", nil},
	{"logging.driver", byOperator, "`allow_logging_types`", nil},
	{"logging.config", byOperator, "for `json-file` and `local`: options of files, with [limits](#loggers)", nil},
	{"volumes", byOperator, "paths of the node: `volumes.enabled`", nil},
	{"volume_driver", byOperator, "`volumes.enabled`", nil},
	{"mount.type", byOperator, "`volume`: `volumes.enabled`", nil},
	{"mount.source", byOperator, "paths of the node: `volumes.enabled`", nil},
	{"mount.bind_options.propagation", byOperator, "for mounts that are allowed", nil},
	{"mount.volume_options.no_copy", byOperator, "`volumes.enabled`", nil},
	{"mount.volume_options.labels", byOperator, "`volumes.enabled`", nil},
	{"mount.volume_options.driver_config.name", byOperator, "`volumes.enabled`", nil},
	{"mount.volume_options.driver_config.options", byOperator, "`volumes.enabled`", nil},

	{"memory_hard_limit", isLimited, "counts as `memory_max` against [quotas](../quotas.md)", nil},
	{"shm_size", isLimited, "at most the memory limit of the task", nil},
	{"mount.tmpfs_options.size", isLimited, "its files count against the memory limit of the task", nil},
	{"pids_limit", isLimited, "at most `pids_limit` of the node", nil},
	{"network_mode", isLimited, "see [Networks](#networks); refused with `isolate`, `egress`", nil},
	{"network_aliases", isLimited, "see [Networks of the daemon](#networks-of-the-daemon)", nil},
	{"ipv4_address", isLimited, "an address of the network that no other container has", nil},
	{"ipv6_address", isLimited, "an address of the network that no other container has", nil},
	{"mac_address", isLimited, "one that neither the node nor another container of the network has", nil},
	{"advertise_ipv6_address", isSafe, "", nil}, {"cpuset_cpus", isSafe, "no effect, with a warning: use `cores` in the resources", nil},
	{"sysctl", isLimited, "parameters of the container's own network and IPC namespaces", nil},
	{"storage_opt", isLimited, "`size` only", nil},
	{"load", isLimited, "an archive in the task's own directory", nil},
	{"group_add", isLimited, "see [User](#user)", nil},
	{"container_exists_attempts", isLimited, "at most 100", nil},

	{"image", isSafe, "", nil}, {"image_pull_timeout", isSafe, "", nil}, {"force_pull", isSafe, "", nil}, {"auth_soft_fail", isSafe, "", nil},
	{"auth.username", isSafe, "", nil}, {"auth.password", isSafe, "", nil}, {"auth.email", isSafe, "", nil},
	{"auth.server_address", isSafe, "", nil},
	{"command", isSafe, "", nil}, {"args", isSafe, "", nil}, {"entrypoint", isSafe, "", nil}, {"work_dir", isSafe, "", nil},
	{"interactive", isSafe, "", nil}, {"tty", isSafe, "", nil}, {"init", isSafe, "", nil}, {"hostname", isSafe, "", nil},
	{"labels", isSafe, "the driver's own labels cannot be replaced", nil}, {"healthchecks.disable", isSafe, "", nil},
	{"ports", isSafe, "ports of the job only", nil}, {"port_map", isSafe, "ports of the job only", nil},
	{"dns_servers", isSafe, "", nil}, {"dns_search_domains", isSafe, "", nil}, {"dns_options", isSafe, "", nil},
	{"extra_hosts", isSafe, "", nil},
	{"cap_drop", isSafe, "", nil}, {"readonly_rootfs", isSafe, "", nil},
	{"cpu_hard_limit", isSafe, "lowers what the task can use", nil}, {"cpu_cfs_period", isSafe, "", nil},
	{"mount.target", isSafe, "a path in the container", nil}, {"mount.readonly", isSafe, "", nil},
	{"mount.tmpfs_options.mode", isSafe, "", nil},

	{"isolation", isRefused, "", nil},
}

// needsSecurity returns what of security_opt needs privilege.
func needsSecurity(p *powers, _ map[string]any) string {
	if p.seccomp {
		return "a seccomp profile in security_opt"
	}
	return when(p.unsafeSecurity != "", fmt.Sprintf("security_opt = [%q]", p.unsafeSecurity))
}

// when returns a text if a condition holds.
func when(holds bool, text string) string {
	if holds {
		return text
	}
	return ""
}
