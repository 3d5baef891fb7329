package config_test

import (
	"testing"

	"github.com/open-nomad/open-nomad/drivers/docker/config"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// A user that the daemon could read in another way than the agent is refused, and never counts as an ordinary one.
func TestForgedUsers(t *testing.T) {
	kind := config.Kind()
	for _, user := range []string{"+0", "-0", "+1000", "00", "01000", "0x0", "1e0", " 0", "0 ", "root ", "1000:+0", "1000:-0", "1000:00",
		"1000:", ":1000", "1000:1000:0",
		"4294967296", "-1", "1000:4294967296", "app:+0", "a b", "app\n", "app:x:0", "²"} {
		if err := kind.CheckTask(user, hardened(nil)); err == nil {
			t.Errorf("CheckTask(%q) = nil, want an error", user)
		}
		if got := config.Isolates(user, hardened(nil)); got.User != drivers.UserRoot {
			t.Errorf("Isolates(%q) = %+v, want root", user, got)
		}
		if err := kind.CheckTask("", hardened(block{"group_add": []any{user}})); err == nil {
			t.Errorf("CheckTask() with group_add %q = nil, want an error", user)
		}
	}
	for _, user := range []string{"", "app", "1000", "1000:1000", "app:1000", "1000:app", "_svc", "web-1.2", "${meta.user}", "0",
		"root", "0:0"} {
		if err := kind.CheckTask(user, hardened(nil)); err != nil {
			t.Errorf("CheckTask(%q) = %v", user, err)
		}
	}
}

// Only the exact forms of security_opt are accepted, each once.
func TestForgedSecurityOpts(t *testing.T) {
	kind := config.Kind()
	for name, opts := range map[string][]any{
		"zero": {"no-new-privileges=0"}, "f": {"no-new-privileges:f"}, "False": {"no-new-privileges=False"}, "one": {"no-new-privileges=1"},
		"twice, the second false": {"no-new-privileges", "no-new-privileges=false"}, "twice": {"no-new-privileges", "no-new-privileges:true"},
		"unknown": {"no-new-privilege"}, "unknown key": {"credentialspec=file://x"}, "two filters": {"seccomp=builtin", "seccomp=unconfined"},
		"empty": {""}, "no value": {"seccomp="}, "upper case": {"NO-NEW-PRIVILEGES"}, "blank": {"no-new-privileges "},
	} {
		if err := kind.CheckTask("app", block{"image": "web:1", "cap_drop": []any{"all"}, "security_opt": opts}); err == nil {
			t.Errorf("%s: CheckTask(%q) = nil, want an error", name, opts)
		}
		if got := config.Isolates("app", block{"image": "web:1", "cap_drop": []any{"all"}, "security_opt": opts}); got.NoPrivileges &&
			got.Seccomp {
			t.Errorf("%s: Isolates(%q) = %+v, want no such facts", name, opts, got)
		}
	}
	for _, opt := range []string{"label=type:spc_t", "label=type:container_runtime_t", "label=user:u", "label=role:r", "label=level:x y",
		"label=disable", "label:disable", "apparmor=podman",
		"apparmor:unconfined", "writable-cgroups=true", "systempaths=unconfined", "seccomp=unconfined", "seccomp=local/x.json", "${meta.opt}",
		"label=${meta.l}"} {
		if config.NeedsPrivilege(hardened(block{"security_opt": []any{opt}})) == "" {
			t.Errorf("NeedsPrivilege(%q) = \"\"", opt)
		}
	}
	for _, opt := range []string{"no-new-privileges", "no-new-privileges=true", "no-new-privileges:true", "no-new-privileges=false",
		"seccomp=builtin", "label=level:s0:c100,c200", "apparmor=docker-default"} {
		task := block{"image": "web:1", "security_opt": []any{opt}}
		if why, err := config.NeedsPrivilege(task), kind.CheckTask("", task); why != "" || err != nil {
			t.Errorf("NeedsPrivilege(%q) = %q, CheckTask() = %v", opt, why, err)
		}
	}
}

// Options with which a task can disturb the node need privilege.
func TestPowers(t *testing.T) {
	for name, c := range map[string]struct {
		config block
		want   bool
	}{
		"oom_score_adj below 0": {block{"oom_score_adj": -1}, true}, "oom_score_adj": {block{"oom_score_adj": 500}, false},
		"oom_score_adj, text": {block{"oom_score_adj": "-1000"}, true}, "oom_score_adj, reference": {block{"oom_score_adj": "${meta.x}"}, true},
		"rtprio": {block{"ulimit": block{"rtprio": "99"}}, true}, "nice": {block{"ulimit": []any{block{"nice": "40:40"}}}, true},
		"no rtprio": {block{"ulimit": block{"rtprio": "0"}}, false}, "nofile": {block{"ulimit": block{"nofile": "1024:2048"}}, false},
	} {
		if got := config.NeedsPrivilege(hardened(c.config)); (got != "") != c.want {
			t.Errorf("%s: NeedsPrivilege() = %q, want one: %t", name, got, c.want)
		}
	}
	for name, more := range map[string]block{
		"sysctl of the node": {"sysctl": block{"kernel.core_pattern": "|/x"}}, "sysctl with a slash": {"sysctl": block{"net/../kernel/x": "1"}},
		"sysctl of the node's network": {"sysctl": block{"net.core.somaxconn": "1"}, "network_mode": "host"},
		"storage_opt":                  {"storage_opt": block{"dm.basesize": "1G"}}, "ulimit": {"ulimit": block{"fly": "1"}},
		"memory that wraps around": {"memory_hard_limit": 1<<44 + 20000},
		"memory by reference":      {"memory_hard_limit": "${meta.x}"},
	} {
		if err := config.Kind().CheckTask("", hardened(more)); err == nil {
			t.Errorf("%s: CheckTask() = nil", name)
		}
	}
	ok := hardened(block{"sysctl": block{"net.core.somaxconn": "1", "kernel.shmmax": "1", "fs.mqueue.msg_max": "9"},
		"storage_opt": block{"size": "1G"}})
	if err := config.Kind().CheckTask("", ok); err != nil {
		t.Errorf("CheckTask() = %v", err)
	}
}
