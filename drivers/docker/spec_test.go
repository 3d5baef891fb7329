package docker_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// created returns the container that a task gets.
func (f *fixture) created(cfg *drivers.TaskConfig) container.InspectResponse {
	f.t.Helper()
	f.start(cfg)
	status, err := f.InspectTask(cfg.ID)
	if err != nil {
		f.t.Fatal(err)
	}
	return f.inspect(status.Attributes["container_id"])
}

// The daemon gets every option of a task as the job has it.
func TestOptions(t *testing.T) {
	t.Parallel()
	f := newFixture(t, block{"extra_labels": []any{"job_*", "task_name"}, "allow_privileged": true})
	profile := `{"defaultAction": "SCMP_ACT_ALLOW"}`
	cfg := f.task(shell("sleep 1000", block{
		"work_dir": "/tmp", "interactive": true, "init": true, "hostname": "web-1", "network_mode": "none",
		"labels":      []any{block{"a": "1"}, block{"b": 2}},
		"logging":     block{"type": "json-file", "config": block{"max-size": "1m"}},
		"dns_servers": []any{"192.0.2.1"}, "dns_search_domains": []any{"example.test"}, "dns_options": []any{"ndots:2"},
		"extra_hosts": []any{"db:192.0.2.2"},
		"cap_add":     []any{"CAP_NET_BIND_SERVICE"}, "cap_drop": []any{"mknod"}, "ipc_mode": "private", "cgroupns": "private",
		"security_opt": []any{"no-new-privileges", "seccomp=local/profile.json"}, "sysctl": block{"net.core.somaxconn": "300"},
		"ulimit": block{"nofile": "1024:2048", "nproc": "100"}, "readonly_rootfs": true, "group_add": []any{"1000"}, "shm_size": 1 << 20,
		"devices":    []any{block{"host_path": "/dev/null", "container_path": "/dev/none", "cgroup_permissions": "r"}},
		"pids_limit": 50, "oom_score_adj": 500, "cpu_hard_limit": true, "cpu_cfs_period": 50000, "memory_hard_limit": 128,
		"healthchecks": block{"disable": true},
	}))
	f.write(cfg.LocalDir, "profile.json", profile)
	cfg.User = "app"
	cfg.Limits.Cores = []uint16{0}
	got := f.created(cfg)
	host, conf := got.HostConfig, got.Config
	for name, ok := range map[string]bool{
		"user": conf.User == "1000:1000", "work_dir": conf.WorkingDir == "/tmp", "interactive": conf.OpenStdin && !conf.Tty,
		"init":     host.Init != nil && *host.Init,
		"hostname": conf.Hostname == "web-1", "network": host.NetworkMode == "none",
		"labels of the job": conf.Labels["a"] == "1" && conf.Labels["b"] == "2",
		"labels": conf.Labels["com.hashicorp.nomad.alloc_id"] == cfg.AllocID && conf.Labels["com.hashicorp.nomad.job_id"] == "shop" &&
			conf.Labels["com.hashicorp.nomad.task_name"] == "web",
		"other labels": conf.Labels["com.hashicorp.nomad.namespace"] == "",
		"logging":      host.LogConfig.Type == "json-file" && host.LogConfig.Config["max-size"] == "1m",
		"dns": len(host.DNS) == 1 && host.DNS[0].String() == "192.0.2.1" && host.DNSSearch[0] == "example.test" &&
			host.DNSOptions[0] == "ndots:2",
		"extra_hosts": slices.Equal(host.ExtraHosts, []string{"db:192.0.2.2"}),
		"cap_add":     slices.Contains(host.CapAdd, "CAP_NET_BIND_SERVICE"),
		"cap_drop":    slices.Contains(host.CapDrop, "CAP_MKNOD") && slices.Contains(host.CapDrop, "CAP_NET_RAW"),
		"modes":       host.IpcMode == "private" && host.CgroupnsMode == "private",
		"security_opt": slices.Contains(host.SecurityOpt, "no-new-privileges") &&
			slices.ContainsFunc(host.SecurityOpt, func(s string) bool { return strings.Contains(s, "SCMP_ACT_ALLOW") }),
		"sysctl": host.Sysctls["net.core.somaxconn"] == "300",
		"ulimit": len(host.Ulimits) == 2 && host.Ulimits[0].Name == "nofile" && host.Ulimits[0].Soft == 1024 &&
			host.Ulimits[0].Hard == 2048 && host.Ulimits[1].Hard == 100,
		"rootfs":        host.ReadonlyRootfs,
		"group_add":     slices.Equal(host.GroupAdd, []string{"1000"}),
		"shm_size":      host.ShmSize == 1<<20,
		"devices":       len(host.Devices) == 1 && host.Devices[0].PathInContainer == "/dev/none" && host.Devices[0].CgroupPermissions == "r",
		"pids_limit":    host.PidsLimit != nil && *host.PidsLimit == 50,
		"oom_score_adj": host.OomScoreAdj == 500,
		"cpu":           host.CPUShares == 100 && host.CPUPeriod == 50000 && host.CPUQuota == 5000 && host.CpusetCpus == "0",
		"memory":        host.Memory == 128<<20 && host.MemoryReservation == 64<<20 && host.MemorySwap == 128<<20,
		"healthchecks":  conf.Healthcheck != nil && slices.Equal(conf.Healthcheck.Test, []string{"NONE"}),
		"environment":   slices.Contains(conf.Env, "NOMAD_TASK_NAME=web"),
		"restart":       host.RestartPolicy.Name == "no" || host.RestartPolicy.Name == "",
	} {
		if !ok {
			t.Errorf("%s: not as in the job", name)
		}
	}
	if t.Failed() {
		text, _ := json.MarshalIndent(got, "", " ")
		t.Logf("%s", text)
	}
}

// The container has what the options promise: its user, limits and isolation.
func TestInside(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	for name, c := range map[string]struct {
		script, want string
		config       block
		user         string
	}{
		"user of the image": {"id -u", "0\n", nil, ""},
		"user":              {"id -u; id -g", "1000\n1000\n", nil, "app"},
		"uid and gid":       {"id -u; id -g", "7\n8\n", nil, "7:8"},
		"default caps":      {"grep CapBnd /proc/self/status | cut -f2", "00000000a80405fb\n", nil, ""},
		"no caps":           {"grep CapBnd /proc/self/status | cut -f2", "0000000000000000\n", block{"cap_drop": []any{"all"}}, ""},
		"one cap": {"grep CapBnd /proc/self/status | cut -f2", "0000000000000001\n",
			block{"cap_drop": []any{"all"}, "cap_add": []any{"chown"}}, ""},
		"no new privileges": {"grep NoNewPrivs /proc/self/status | cut -f2", "1\n", block{"security_opt": []any{"no-new-privileges"}}, ""},
		"read only": {"touch /x 2>/dev/null || echo refused; touch /local/x && echo ok", "refused\nok\n",
			block{"readonly_rootfs": true}, ""},
		"logs":         {"touch /alloc/logs/x 2>/dev/null || echo refused; touch /alloc/x && echo ok", "refused\nok\n", nil, ""},
		"terminal":     {"test -t 1 && echo terminal", "terminal\r\n", block{"tty": true}, ""},
		"network none": {"ls /sys/class/net", "lo\n", block{"network_mode": "none"}, ""},
		"args only":    {"", "a b\n", block{"command": nil, "args": []any{"echo", "a", "b"}}, ""},
		"entrypoint":   {"", "e x\n", block{"command": nil, "entrypoint": []any{"echo", "e"}, "args": []any{"x"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			config := shell(c.script, c.config)
			if config["command"] == nil {
				delete(config, "command")
			}
			cfg := f.task(config)
			cfg.User = c.user
			f.start(cfg)
			exit := f.wait(cfg.ID)
			if out, errs := f.output(cfg); out != c.want {
				t.Errorf("output = %q, %q, %+v, want %q", out, errs, exit, c.want)
			}
		})
	}
}

// A task that uses more memory than its limit is killed, and the result has the reason. It begins after the start:
// containerd's shim watches for the event only then, and Docker does not report an earlier one.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	cfg := f.task(shell("until test -e /local/go; do sleep 0.05; done; head -c 200m /dev/zero | tail -n 1"))
	f.start(cfg)
	f.write(cfg.LocalDir, "go", "")
	if exit := f.wait(cfg.ID); exit.Successful() || !exit.OOMKilled {
		t.Errorf("exit = %+v, want one by the kernel for memory", exit)
	}
}

// What the configuration does not allow is refused before anything runs.
func TestRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t, block{"pids_limit": 100, "allowed_modes": block{"pid": []any{"host"}}})
	for name, c := range map[string]struct {
		config block
		want   string
	}{
		"privileged":         {block{"privileged": true}, "Docker privileged mode is disabled on this Nomad agent"},
		"ipc":                {block{"ipc_mode": "host"}, `cannot apply "ipc_mode" configuration`},
		"uts":                {block{"uts_mode": "host"}, `cannot apply "uts_mode" configuration`},
		"userns":             {block{"userns_mode": "host"}, `cannot apply "userns_mode" configuration`},
		"pid of a container": {block{"pid_mode": "container:x"}, `cannot apply "pid_mode" configuration`},
		"capability": {block{"cap_add": []any{"sys_admin", "NET_ADMIN"}},
			"driver does not allow the following capabilities: net_admin, sys_admin"},
		"all capabilities":    {block{"cap_add": []any{"all"}}, "driver does not allow the following capabilities: audit_control"},
		"unknown capability":  {block{"cap_add": []any{"fly"}}, `unknown capability "fly"`},
		"runtime":             {block{"runtime": "kata"}, `requested runtime "kata" is not allowed`},
		"pids":                {block{"pids_limit": 101}, "pids_limit cannot be greater than nomad plugin config pids_limit: 100"},
		"profile outside":     {block{"security_opt": []any{"seccomp=../../../outside"}}, "seccomp profile"},
		"profile, not a file": {block{"security_opt": []any{"seccomp=local"}}, "is not a regular file"},
		"memory":              {block{"memory_hard_limit": 1}, "task memory requirements exceed driver hard limit of 1 MB"},
		"host and group":      {block{"dns_servers": []any{"nowhere"}}, `dns_servers: "nowhere" is not an IP address`},
		"device":              {block{"devices": []any{block{"container_path": "/dev/x"}}}, "host path must be set in configuration for devices"},
		"shm_size": {block{"shm_size": 65 << 20},
			"shm_size is 68157440 bytes, more than the memory limit of the task, 67108864 bytes"},
		"logger": {block{"logging": block{"type": "syslog", "config": block{"syslog-address": "unix:///run/x.sock"}}},
			`logging type "syslog" is not allowed on this node: use one of json-file, local, none`},
		"journald": {block{"logging": block{"driver": "journald"}}, "add it to allow_logging_types"},
		"option of a logger": {block{"logging": block{"config": block{"syslog-address": "tcp://192.0.2.2:1"}}},
			`"json-file" has no option "syslog-address"`},
		"user":       {block{"group_add": []any{"+0"}}, "neither a name nor a number"},
		"no program": {block{"command": "/no/such"}, "Failed to start container"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := f.task(shell("true", c.config))
			_, err := f.StartTask(t.Context(), cfg)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("StartTask() = %v, want %q", err, c.want)
			}
			if list, err := f.ListTasks(t.Context()); err != nil || len(list) != 0 {
				t.Errorf("ListTasks() after the refusal = %v, %v", list, err)
			}
		})
	}
	if exit, out, _ := f.run("readlink /proc/self/ns/pid", block{"pid_mode": "host"}); !exit.Successful() ||
		out != readlink(t, "/proc/self/ns/pid")+"\n" {
		t.Errorf("an allowed pid_mode = %+v, %q", exit, out)
	}
}

func readlink(t *testing.T, name string) string {
	t.Helper()
	got, err := os.Readlink(name)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// Two instances of the driver with different configurations, as users wrote them down, use one daemon.
func TestInstances(t *testing.T) {
	t.Parallel()
	f := newFixture(t, block{"allow_privileged": false, "volumes": block{"enabled": false}})
	config := block{"endpoint": f.daemon.Endpoint(), "allow_privileged": true, "volumes": block{"enabled": true}}
	strong := f.open("docker-privileged", config)
	if attrs := (<-strong.Fingerprint(t.Context())).Attributes; attrs["driver.docker-privileged"] != "true" ||
		attrs["driver.docker-privileged.volumes.enabled"] != "true" || attrs["driver.docker.version"] != "" {
		t.Errorf("attributes = %v", attrs)
	}
	for name, c := range map[string]struct {
		config block
		want   string
	}{
		"privileged": {shell("test -e /dev/mem -o -e /dev/kmsg && echo yes", block{"privileged": true}), "yes\n"},
		"host path":  {shell("cat /node/f", block{"volumes": []any{f.dir + ":/node"}}), "node"},
	} {
		t.Run(name, func(t *testing.T) {
			f.write(f.dir, "f", "node")
			cfg := f.task(c.config)
			if _, err := f.StartTask(t.Context(), cfg); err == nil {
				t.Error("the instance docker starts the task")
			}
			_, err := strong.StartTask(t.Context(), cfg)
			if name == "privileged" && err != nil && strings.Contains(err.Error(), "unable to apply caps") {
				t.Skip("needs all capabilities of the kernel, which this machine lacks: the daemon was asked for them")
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := strong.WaitTask(t.Context(), cfg.ID); err != nil {
				t.Fatal(err)
			}
			if out, errs := f.output(cfg); out != c.want {
				t.Errorf("output = %q, %q, want %q", out, errs, c.want)
			}
			if list, err := f.ListTasks(t.Context()); err != nil || len(list) != 0 {
				t.Errorf("ListTasks() of the other instance = %v, %v", list, err)
			}
			if err := strong.DestroyTask(cfg.ID, false); err != nil {
				t.Error(err)
			}
		})
	}
}
