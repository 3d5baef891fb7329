package exec2_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/drivers/testtask"
)

// Profiles of an operator. The first permits everything that the built-in one refuses.
const (
	noDirectories = `{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
		{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 30}]}`
	// The calls of a small program and of the sandbox's last steps; all others kill.
	fewCalls = `{"defaultAction": "SCMP_ACT_KILL_PROCESS", "syscalls": [{"action": "SCMP_ACT_ALLOW", "names": [
		"execve", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "write", "exit_group", "exit",
		"brk", "mmap", "munmap", "mprotect", "madvise", "access", "faccessat", "openat", "read", "pread64", "close", "fstat", "newfstatat", "fadvise64",
		"arch_prctl", "set_tid_address", "set_robust_list", "rseq", "prlimit64", "getrandom", "futex", "gettid", "getpid", "tgkill", "nanosleep", "sched_yield",
		"getuid", "geteuid", "getgid", "getegid", "getppid", "stat", "lstat", "getcwd", "fcntl", "ioctl",
		"prctl", "readlink", "setuid", "setgid", "getgroups", "poll", "lseek", "dup2", "uname", "clock_gettime", "statfs", "getrlimit", "getpgrp"]}]}`
)

// profiles writes profile files and returns the value of seccomp_profiles.
func profiles(t *testing.T, texts map[string]string) cty.Value {
	t.Helper()
	dir, files := t.TempDir(), map[string]cty.Value{}
	for name, text := range texts {
		path := filepath.Join(dir, name+".json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		files[name] = cty.StringVal(path)
	}
	return cty.MapVal(files)
}

// naming runs a task with this profile.
func naming(f *fixture, profile, script string) testtask.Outcome {
	cfg := sh(f, script)
	block := cfg.Config.AsValueMap()
	block["seccomp_profile"] = cty.StringVal(profile)
	cfg.Config = cty.ObjectVal(block)
	return f.run(cfg)
}

func TestSeccompProfiles(t *testing.T) {
	files := profiles(t, map[string]string{"readonly": noDirectories, "few": fewCalls})
	f := newFixture(t, settings{"seccomp_profiles": files, "allow_task_seccomp": list([]string{"few", "readonly"})})
	const script = "mkdir $NOMAD_TASK_DIR/d && echo made; cat /dev/null"
	f.run(sh(f, script)).Want(t, 0, "made")
	if out := naming(f, "readonly", script); strings.Contains(out.Stdout, "made") || !strings.Contains(out.Stderr, "Read-only file system") {
		t.Errorf("profile readonly: stdout %q, stderr %q, want mkdir refused with the profile's error", out.Stdout, out.Stderr)
	}
	naming(f, "few", "echo inside").Want(t, 0, "inside")
	if out := naming(f, "few", "mkdir $NOMAD_TASK_DIR/e; kill -0 $$; echo after"); out.Signal != 31 {
		t.Errorf("profile few: %+v, want the end by SIGSYS", out.ExitResult)
	}
	if got := fingerprint(t, f.Driver).Attributes; got["driver.exec2.seccomp.profile"] != "default" ||
		got["driver.exec2.seccomp.tasks"] != "few,readonly" {
		t.Errorf("attributes = %v", got)
	}
}

// TestSeccompOfNode uses the node's profile for every task, and checks the attributes for a weak
// profile.
func TestSeccompOfNode(t *testing.T) {
	files := profiles(t, map[string]string{"readonly": noDirectories})
	f := newFixture(t, settings{"seccomp_profiles": files, "seccomp_profile": cty.StringVal("readonly")})
	if out := f.run(sh(f, "mkdir $NOMAD_TASK_DIR/d")); !strings.Contains(out.Stderr, "Read-only file system") {
		t.Errorf("stderr = %q, want mkdir refused with the profile's error", out.Stderr)
	}
	if got, lacks := level(t, f.Driver); got != "host" || !strings.Contains(lacks, "seccomp") {
		t.Errorf("level = %s, lacks %q, want host for want of what the default profile refuses", got, lacks)
	}
	cfg := sh(f, "true")
	block := cfg.Config.AsValueMap()
	block["seccomp_profile"] = cty.StringVal("default")
	cfg.Config = cty.ObjectVal(block)
	if _, err := f.StartTask(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "allow_task_seccomp") {
		t.Errorf("StartTask() with a profile of its own = %v, want an error that names allow_task_seccomp", err)
	}
}

func TestSeccompFaults(t *testing.T) {
	f := newFixture(t, nil)
	good := profiles(t, map[string]string{"web": fewCalls})
	tests := []struct {
		name string
		set  settings
		want string
	}{
		{"no file", settings{"seccomp_profiles": cty.MapVal(map[string]cty.Value{"web": cty.StringVal("/nonexistent/web.json")})},
			"no such file"},
		{"empty file", settings{"seccomp_profiles": profiles(t, map[string]string{"web": ""})}, "the file is empty"},
		{"what we can't do", settings{"seccomp_profiles": profiles(t, map[string]string{"web": `{"defaultAction": "SCMP_ACT_NOTIFY"}`})},
			"defaultAction"},
		{"the built-in's name", settings{"seccomp_profiles": profiles(t, map[string]string{"default": fewCalls})}, "built-in"},
		{"unknown", settings{"seccomp_profiles": good, "seccomp_profile": cty.StringVal("wbe")}, `seccomp_profile: "wbe" is not a profile`},
		{"unknown to tasks", settings{"seccomp_profiles": good, "allow_task_seccomp": list([]string{"wbe"})}, `allow_task_seccomp: "wbe"`},
	}
	for _, tt := range tests {
		if err := f.SetConfig(cty.ObjectVal(tt.set)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: SetConfig() = %v, want an error with %q", tt.name, err, tt.want)
		}
	}
	f.run(sh(f, "echo whole")).Want(t, 0, "whole") // the previous settings still apply
}
