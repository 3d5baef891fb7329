package exec_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// TestTask checks what a task sees, by the lines that a script prints.
func TestTask(t *testing.T) {
	f := newFixture(t, nil)
	for _, tc := range []struct{ name, script, want string }{
		{"user", "id -u; id -g; id -G", "65534\n65534\n65534\n"},
		{"environment", "echo $USER $LOGNAME $HOME", "nobody nobody /nonexistent\n"},
		{"directories", "echo $(ls -d /alloc /local /secrets /tmp /etc /usr /bin/sh)", "/alloc /bin/sh /etc /local /secrets /tmp /usr\n"},
		{"writable", "for d in / /local /alloc /secrets /tmp /dev/shm; do echo x > $d/new && rm $d/new || echo no $d; done", ""},
		{"read-only", "for d in /etc /usr /bin /dev /sys; do echo x 2>/dev/null > $d/new && echo wrote $d; done; echo end", "end\n"},
		{"root's files", "cat /etc/shadow 2>/dev/null || echo refused", "refused\n"},
		{"restrictions", "grep -E 'Seccomp:|NoNewPrivs' /proc/self/status", "NoNewPrivs:\t1\nSeccomp:\t2\n"},
		{"capabilities", "grep -E 'Cap(Eff|Prm|Bnd|Amb|Inh)' /proc/self/status | cut -f2 | uniq", "00000000a80405fb\n"},
		{"processes", "[ $(ls -d /proc/[0-9]* | wc -l) -lt 8 ] && echo few", "few\n"},
		{"directory", "pwd", "/\n"},
		{"OOM score", "cat /proc/self/oom_score_adj", "0\n"},
		{"terminal", "script -qc 'stty size' /dev/null </dev/null 2>&1 | tr -d '\\r'", "0 0\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := f.run(f.sh(tc.script)); got.Stdout != tc.want {
				t.Errorf("stdout = %q, want %q; stderr: %s; %+v", got.Stdout, tc.want, got.Stderr, got.ExitResult)
			}
		})
	}
}

// TestOptions checks the options of a task.
func TestOptions(t *testing.T) {
	f := newFixture(t, nil)
	caps := "grep CapEff /proc/self/status | cut -f2"
	for name, tc := range map[string]struct {
		options block
		script  string
		want    string
	}{
		"no capabilities":  {block{"cap_drop": []string{"all"}}, caps, "0000000000000000\n"},
		"one":              {block{"cap_drop": []string{"ALL"}, "cap_add": []string{"cap_net_bind_service"}}, caps, "0000000000000400\n"},
		"one dropped":      {block{"cap_drop": []string{" Chown "}}, caps, "00000000a80405fa\n"},
		"work_dir":         {block{"work_dir": "/local/deep/er"}, "pwd", "/local/deep/er\n"},
		"work_dir of host": {block{"work_dir": "/usr/bin"}, "pwd", "/usr/bin\n"},
		"host's processes": {block{"pid_mode": "host"}, fmt.Sprintf("[ -d /proc/%d ] && echo seen", os.Getpid()), "seen\n"},
		"host's IPC":       {block{"ipc_mode": "host"}, "readlink /proc/self/ns/ipc", ipcNamespace(t) + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := f.run(f.task(tc.options, "sh", "-c", tc.script)); got.Stdout != tc.want {
				t.Errorf("stdout = %q, want %q; stderr: %s", got.Stdout, tc.want, got.Stderr)
			}
		})
	}
}

func ipcNamespace(t *testing.T) string {
	t.Helper()
	name, err := os.Readlink("/proc/self/ns/ipc")
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// TestRefused checks texts and order of the errors of a start.
func TestRefused(t *testing.T) {
	f := newFixture(t, block{"allow_caps": []string{"chown", "net_raw"}, "denied_host_uids": "7,100-200", "denied_host_gids": "12"})
	const failed = "failed driver config validation: "
	for name, tc := range map[string]struct {
		options block
		user    string
		want    string
	}{
		"pid_mode": {block{"pid_mode": "x", "ipc_mode": "y"}, "no-such", failed + `pid_mode must be "private" or "host", got "x"`},
		"ipc_mode": {block{"ipc_mode": "y", "cap_add": []string{"nonsense"}}, "", failed + `ipc_mode must be "private" or "host", got "y"`},
		"cap_add": {block{"cap_add": []string{"nonsense"}, "cap_drop": []string{"more"}}, "",
			failed + "cap_add configured with capabilities not supported by system: nonsense"},
		"cap_drop": {block{"cap_drop": []string{"more"}, "work_dir": "x"}, "",
			failed + "cap_drop configured with capabilities not supported by system: more"},
		"work_dir": {block{"work_dir": "x"}, "no-such", failed + `work_dir must be absolute but got relative path "x"`},
		"user":     {block{"cap_add": []string{"sys_admin"}}, "no-such", `failed host user validation: failed to identify user "no-such"`},
		"uid":      {nil, "150", "failed host user validation: running as uid 150 is disallowed"},
		"gid":      {nil, "man", "failed host user validation: running as gid 12 is disallowed"},
		"not allowed": {block{"cap_add": []string{"SYS_ADMIN", "cap_net_admin", "chown"}}, "",
			"driver does not allow the following capabilities: net_admin, sys_admin"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := f.task(tc.options, "/bin/true")
			if tc.user != "" {
				cfg.User = tc.user
			}
			if _, err := f.StartTask(t.Context(), cfg); err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("StartTask() = %v, want %s", err, tc.want)
			}
		})
	}
	const launch = "failed to launch command with executor: rpc error: code = Unknown desc = "
	for command, want := range map[string]string{
		"no-such":       launch + "file no-such not found under path",
		"local/no-such": launch + "file local/no-such not found under path " + f.dir,
	} {
		if _, err := f.StartTask(t.Context(), f.task(nil, command)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("StartTask() of %s = %v, want %s", command, err, want)
		}
	}
}

// TestPlugin checks the options of the plugin block that weaken a task, and the errors of a block.
func TestPlugin(t *testing.T) {
	for name, tc := range map[string]struct {
		plugin block
		script string
		want   string
	}{
		"no seccomp": {block{"seccomp": false}, "grep Seccomp: /proc/self/status", "Seccomp:\t0\n"},
		"privileges": {block{"seccomp": false, "landlock": false, "no_new_privs": false},
			"grep -E 'NoNewPrivs|Seccomp:' /proc/self/status",
			"NoNewPrivs:\t0\nSeccomp:\t0\n"},
		"suid and dev": {block{"nosuid": false, "nodev": false},
			"awk '$2 == \"/usr\" {print $4}' /proc/mounts | grep -c -e nosuid -e nodev", "0\n"},
		"owners":         {block{"map_owners": false}, "stat -c %u /etc/shadow", "0\n"},
		"mapped":         {nil, "stat -c %u /etc/shadow", "65534\n"},
		"unmapped":       {block{"allow_caps": []string{}}, "stat -c %u /etc/shadow", "0\n"},
		"host modes":     {block{"default_pid_mode": "host"}, fmt.Sprintf("[ -d /proc/%d ] && echo seen", os.Getpid()), "seen\n"},
		"without effect": {block{"no_pivot_root": true}, "echo ok", "ok\n"},
		"allow_caps":     {block{"allow_caps": []string{"kill", "net_raw"}}, "grep CapEff /proc/self/status | cut -f2", "0000000000000020\n"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, tc.plugin)
			if got := f.run(f.sh(tc.script)); got.Stdout != tc.want {
				t.Errorf("stdout = %q, want %q; stderr: %s", got.Stdout, tc.want, got.Stderr)
			}
		})
	}
}

// TestProcessLimit checks that a fork bomb ends at the limit.
func TestProcessLimit(t *testing.T) {
	f := newFixture(t, block{"pids_limit": 16})
	got := f.run(f.sh("for i in $(seq 40); do sleep 5 & done; wait"))
	if got.ForksDenied == 0 {
		t.Errorf("exit = %+v, want forks to be denied; stderr: %s", got.ExitResult, got.Stderr)
	}
}

// TestLookup checks where programs are found, and that nothing of the host is changed.
func TestLookup(t *testing.T) {
	f := newFixture(t, nil)
	tool := "#!/bin/sh\necho $0\n"
	for name, tc := range map[string]struct{ file, command, want string }{
		"local":          {"local/tool", "tool", "/local/tool\n"},
		"path of local":  {"local/tool", "local/tool", "/local/tool\n"},
		"root":           {"tool", "tool", "/tool\n"},
		"absolute":       {"local/tool", "/local/tool", "/local/tool\n"},
		"not executable": {"local/plain", "plain", "/local/plain\n"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := f.task(nil, tc.command)
			file := filepath.Join(cfg.TaskDir, tc.file)
			if err := os.WriteFile(file, []byte(tool), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Chown(file, 65534, 65534); err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(name, "executable") {
				if err := os.Chmod(file, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := f.run(cfg); got.Stdout != tc.want {
				t.Errorf("stdout = %q, want %q; %+v stderr: %s", got.Stdout, tc.want, got.ExitResult, got.Stderr)
			}
		})
	}
	var before, after unix.Stat_t
	if err := unix.Stat("/etc/passwd", &before); err != nil {
		t.Fatal(err)
	}
	if _, err := f.StartTask(t.Context(), f.task(nil, "/etc/passwd")); err == nil {
		t.Error("StartTask() of a file that is not executable = nil")
	}
	if err := unix.Stat("/etc/passwd", &after); err != nil || before.Mode != after.Mode {
		t.Errorf("mode of a host file = %o, %v, want %o", after.Mode, err, before.Mode)
	}
}

// TestVolumes checks destinations, modes and propagation of volumes.
func TestVolumes(t *testing.T) {
	f := newFixture(t, nil)
	host := filepath.Join(f.dir, "volume")
	for _, dir := range []string{host, filepath.Join(host, "sub")} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		mount  drivers.Mount
		script string
		want   string
	}{
		"new destination": {drivers.Mount{TaskPath: "/srv/new/data"}, "echo x > /srv/new/data/f && cat /srv/new/data/f", "x\n"},
		"read-only":       {drivers.Mount{TaskPath: "/data", ReadOnly: true}, "echo x 2>/dev/null > /data/f2 || echo ro", "ro\n"},
		"over the host's": {drivers.Mount{TaskPath: "/usr/share"}, "ls /usr/share", "f\nsub\n"},
		"by a link":       {drivers.Mount{TaskPath: "/lib/apt"}, "ls /usr/lib/apt", "f\nsub\n"},
		"in local":        {drivers.Mount{TaskPath: "/local/data"}, "ls /local/data", "f\nsub\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(host, "f"), nil, 0o666); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(filepath.Join(host, "f"), 0o666); err != nil {
				t.Fatal(err)
			}
			cfg := f.sh(tc.script)
			tc.mount.HostPath = host
			cfg.Mounts = []drivers.Mount{tc.mount}
			if got := f.run(cfg); got.Stdout != tc.want {
				t.Errorf("stdout = %q, want %q; stderr: %s", got.Stdout, tc.want, got.Stderr)
			}
		})
	}
	for _, target := range []string{"/proc/x", "/dev", "/sys/fs", "/local", "/", "relative"} {
		cfg := f.sh("true")
		cfg.Mounts = []drivers.Mount{{TaskPath: target, HostPath: host}}
		if _, err := f.StartTask(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "a task has its own") {
			t.Errorf("StartTask() with a volume at %s = %v", target, err)
		}
	}
}

// TestPropagation checks that a mount of the host reaches a running task only if its volume asks for it, and that no
// mount is left on the host.
func TestPropagation(t *testing.T) {
	f := newFixture(t, nil)
	host := filepath.Join(f.dir, "volume")
	if err := os.Mkdir(host, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(host, host, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(host, unix.MNT_DETACH) }) //nolint:errcheck // of the test
	if err := unix.Mount("", host, "", unix.MS_SHARED, ""); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[string]string{"": "false", drivers.PropagateToTask: "true", drivers.PropagateBoth: "true"} {
		sub := filepath.Join(host, "sub")
		if err := os.MkdirAll(sub, 0o755); err != nil {
			t.Fatal(err)
		}
		cfg := f.sh("echo ready; exec sleep 100")
		cfg.Mounts = []drivers.Mount{{TaskPath: "/data", HostPath: host, Propagation: mode}}
		f.start(cfg, "ready")
		if err := unix.Mount("tmpfs", sub, "tmpfs", 0, ""); err != nil {
			t.Fatal(err)
		}
		_, out := f.session(cfg.ID, "sh", "-c", "grep -q ' /data/sub ' /proc/mounts && echo true || echo false")
		if strings.TrimSpace(out) != want {
			t.Errorf("propagation %q: the mount is visible: %s, want %s", mode, out, want)
		}
		if err := unix.Unmount(sub, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
		if err := f.DestroyTask(cfg.ID, true); err != nil {
			t.Error(err)
		}
		if text, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(text), cfg.TaskDir) {
			t.Errorf("mounts of the task are left on the host, %v", err)
		}
	}
}
