package exec2_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/zclconf/go-cty/cty"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// The behaviours that the reference driver's own tests check, for each kind of user.
var users = []struct{ user, id, home string }{
	{"nomad-89000", "89000\n89000\n89000\n", "/nonexistent"},
	{"nobody", "65534\n65534\n65534\n", "/nonexistent"},
	{"root", "0\n0\n0\n", "/root"},
}

func TestUsers(t *testing.T) {
	f := newFixture(t, settings{"allow_root": cty.True})
	for _, u := range users {
		t.Run(u.user, func(t *testing.T) {
			f.t = t
			as := func(cfg *drivers.TaskConfig) *drivers.TaskConfig { cfg.User = u.user; return cfg }
			f.run(as(sh(f, "id -u; id -g; id -G; echo $USER $HOME"))).Want(t, 0, u.id+u.user+" "+u.home+"\n")
			out := f.run(as(f.task("/bin/cat", "/etc/passwd")))
			if out.ExitCode != 1 || out.Stdout != "" || !strings.Contains(out.Stderr, "Permission denied") {
				t.Errorf("cat /etc/passwd: exit %d, stdout %q, stderr %q, want a refusal", out.ExitCode, out.Stdout, out.Stderr)
			}
			f.run(as(f.set(f.task("/bin/cat", "/etc/passwd"), map[string]any{"unveil": []any{"r:/etc/passwd"}}))).Want(t, 0, "root:")
			f.run(as(sh(f, `chmod 666 /dev/stdout 2>/dev/null
				(: < /dev/stdout) 2>/dev/null && echo read; (: <> /dev/stderr) 2>/dev/null && echo read
				echo appended >> /dev/stdout`))).Want(t, 0, "appended\n")
			f.run(as(f.task("no-such-program"))).Want(t, 127, "")
			f.run(as(f.task("/etc/hosts"))).Want(t, 127, "")
			f.run(as(sh(f, "for d in $NOMAD_TASK_DIR $NOMAD_ALLOC_DIR $NOMAD_SECRETS_DIR; do echo x > $d/file || exit 1; done; mktemp"))).Want(t,
				0, "/web/tmp/tmp.")
		})
	}
}

func TestPluginUnveils(t *testing.T) {
	f := newFixture(t, settings{"unveil_paths": cty.ListVal([]cty.Value{cty.StringVal("r:/etc/passwd")}), "unveil_by_task": cty.False})
	f.run(f.task("/bin/cat", "/etc/passwd")).Want(t, 0, "root:")
}

// TestNoDefaults grants only what a shell needs, and none of the task's own directories.
func TestNoDefaults(t *testing.T) {
	f := newFixture(t, settings{"unveil_defaults": cty.False})
	cfg := f.set(sh(f, `echo begun; for d in $NOMAD_TASK_DIR $NOMAD_ALLOC_DIR $NOMAD_SECRETS_DIR $TMPDIR; do echo x > $d/file && echo "wrote $d"; done; exit 2`),
		map[string]any{"unveil": []any{"rx:/bin", "rx:/usr/bin", "rx:/lib", "rx:/lib64", "rx:/usr/lib"}})
	out := f.run(cfg)
	out.Want(t, 2, "begun\n")
	if strings.Contains(out.Stdout, "wrote") {
		t.Errorf("stdout = %q, want no write", out.Stdout)
	}
}

// TestRootsGroup checks users in root's group, through their primary group or /etc/group: the group
// can access most files of root. It runs itself again in a mount namespace with such users.
func TestRootsGroup(t *testing.T) {
	const variable = "NOMAD_TEST_ACCOUNTS"
	if os.Geteuid() != 0 {
		t.Skip("needs root: users, and a mount namespace")
	}
	dir := os.Getenv(variable)
	if dir == "" {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), variable+"="+t.TempDir())
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
		if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "SKIP") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	layAccounts(t, dir, map[string]string{
		"passwd": "exec2-own:x:88311:0::/nonexistent:/bin/sh\nexec2-extra:x:88312:88312::/nonexistent:/bin/sh\n" +
			"exec2-none:x:88313:88313::/nonexistent:/bin/sh\n",
		"group": "exec2-root:x:0:exec2-extra\n",
	})
	f := newFixture(t, nil)
	for _, name := range []string{"exec2-own", "exec2-extra", "88311", "88312"} {
		cfg := sh(f, "true")
		cfg.User = name
		f.refused(t, cfg, "root's group", "allow_root")
	}
	cfg := sh(f, "id -G")
	cfg.User = "exec2-none"
	f.run(cfg).Want(t, 0, "88313\n")
}

// layAccounts mounts files with additional lines over those of /etc, in this mount namespace.
func layAccounts(t *testing.T, dir string, more map[string]string) {
	t.Helper()
	for name, lines := range more {
		text, err := os.ReadFile("/etc/" + name)
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(dir, name)
		if err := os.WriteFile(at, append(text, lines...), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount(at, "/etc/"+name, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("AGENT_CANARY", "x")
	f := newFixture(t, nil)
	cfg := f.task("/usr/bin/env")
	for _, name := range []string{"LD_PRELOAD", "LD_AUDIT", "LD_", "LS_COLORS", "XAUTHORITY", "DISPLAY", "COLORTERM", "MAIL"} {
		cfg.Env[name] = "gone"
	}
	cfg.Env["EMPTY"], cfg.Env["OWN"], cfg.Env["TMPDIR"], cfg.Env["USER"] = "", "a=b", "/elsewhere", "other"
	got := f.run(cfg).Stdout
	var names []string
	for line := range strings.Lines(got) {
		name, _, _ := strings.Cut(line, "=")
		names = append(names, name)
	}
	const want = "EMPTY HOME NOMAD_ALLOC_DIR NOMAD_SECRETS_DIR NOMAD_TASK_DIR OWN PATH TMPDIR USER"
	if have := strings.Join(names, " "); have != want {
		t.Errorf("variables = %s, want %s", have, want)
	}
	for _, line := range []string{"EMPTY=\n", "OWN=a=b\n", "TMPDIR=" + cfg.TaskDir + "/tmp\n", "USER=" + cfg.User + "\n"} {
		if !strings.Contains(got, line) {
			t.Errorf("environment lacks %q:\n%s", line, got)
		}
	}
}

func TestOOMScore(t *testing.T) {
	f := newFixture(t, nil)
	for adj, want := range map[int]string{500: "500\n", 1000: "1000\n"} {
		f.run(f.set(f.task("/bin/cat", "/proc/self/oom_score_adj"), map[string]any{"oom_score_adj": adj, "unveil": []any{"r:/proc"}})).Want(t,
			0, want)
	}
}

// TestLimits reads the files of the control group while a task is in it.
func TestLimits(t *testing.T) {
	f := newFixture(t, nil)
	for _, tc := range []struct {
		name   string
		limits drivers.LinuxResources
		v1, v2 map[string]string
	}{
		{"memory", drivers.LinuxResources{MemoryBytes: 200 << 20, CPUShares: 100, MHzPerCore: 2000},
			map[string]string{"memory/memory.limit_in_bytes": "209715200", "cpu/cpu.cfs_quota_us": "5000", "cpu/cpu.cfs_period_us": "100000",
				"pids/pids.max": "1024"},
			map[string]string{"memory.max": "209715200", "cpu.max": "5000 100000", "pids.max": "1024"}},
		{"memory_max", drivers.LinuxResources{MemoryBytes: 150 << 20, MemoryMaxBytes: 250 << 20, CPUShares: 100, MHzPerCore: 2000},
			map[string]string{"memory/memory.limit_in_bytes": "262144000", "memory/memory.soft_limit_in_bytes": "157286400"},
			map[string]string{"memory.max": "262144000", "memory.low": "157286400"}},
		{"no hard limit of memory", drivers.LinuxResources{MemoryBytes: 150 << 20, MemoryMaxBytes: -1, CPUShares: 100, MHzPerCore: 2000},
			map[string]string{"memory/memory.limit_in_bytes": strconv.Itoa(1<<63 - 4096), "memory/memory.soft_limit_in_bytes": "157286400"},
			map[string]string{"memory.max": "max", "memory.low": "157286400"}},
		{"a tiny share", drivers.LinuxResources{MemoryBytes: 64 << 20, CPUShares: 1, MHzPerCore: 4000},
			map[string]string{"cpu/cpu.cfs_quota_us": "1000"}, map[string]string{"cpu.max": "1000 100000"}},
		{"less than a tiny share", drivers.LinuxResources{MemoryBytes: 64 << 20, CPUShares: 1, MHzPerCore: 400000},
			map[string]string{"cpu/cpu.cfs_quota_us": "1000"}, map[string]string{"cpu.max": "1000 100000"}},
		{"cores", drivers.LinuxResources{MemoryBytes: 64 << 20, CPUShares: 2000, MHzPerCore: 2000, Cores: []uint16{0}},
			map[string]string{"cpuset/cpuset.cpus": "0"}, map[string]string{"cpuset.cpus": "0"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f.t = t
			cfg := f.task("/bin/sleep", "100")
			cfg.Limits = tc.limits
			if _, err := f.StartTask(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			slice := "share.slice"
			if len(tc.limits.Cores) > 0 {
				slice = "reserve.slice"
			}
			rel := filepath.Join("nomad-test.slice", slice, cfg.AllocID+".web.scope")
			root, want := "/sys/fs/cgroup", tc.v2
			if _, err := os.Stat("/sys/fs/cgroup/memory"); err == nil {
				want = tc.v1
			}
			for file, want := range want {
				at := filepath.Join(root, rel, file)
				if controller, name, ok := strings.Cut(file, "/"); ok {
					at = filepath.Join(root, controller, rel, name)
				}
				got, err := os.ReadFile(at)
				if err != nil || strings.TrimSpace(string(got)) != want {
					t.Errorf("%s = %q, %v, want %s", at, got, err, want)
				}
			}
			if err := f.DestroyTask(cfg.ID, true); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestNoMHz checks that a CPU share is refused on a node with unknown MHz: the task would have no
// limit.
func TestNoMHz(t *testing.T) {
	f := newFixture(t, nil)
	cfg := sh(f, "true")
	cfg.Limits.MHzPerCore = 0
	f.refused(t, cfg, "cpu: ", "cpu_total_compute")
}
