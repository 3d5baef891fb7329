package exec_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/drivers/chroot"
	"github.com/open-nomad/open-nomad/drivers/testtask"
	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// base are directories that a task needs for its shell.
var base = []string{"/bin", "/usr", "/lib", "/lib64"}

// TestChrootEnv checks which sources a root has.
func TestChrootEnv(t *testing.T) {
	src := testtask.OpenDir(t)
	for _, dir := range []string{"dir/sub", "dir/agent", "other"} {
		if err := os.MkdirAll(filepath.Join(src, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"dir/f", "file", "other/g", "dir/agent/state"} {
		if err := os.WriteFile(filepath.Join(src, name), []byte(name+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"inside": "dir/sub", "outside": filepath.Join(src, "other")} {
		if err := os.Symlink(to, filepath.Join(src, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(src, "fifo"), 0o666); err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, nil)
	env := map[string]string{}
	for _, dir := range base {
		env[dir] = dir
	}
	for name, target := range map[string]string{
		"dir": "/opt/dir", "file": "/opt/one/file", "inside": "/opt/inside", "outside": "/opt/outside",
		"absent": "/opt/absent",
		"fifo":   "/opt/fifo", "dir/agent": "/opt/agent"} {
		env[filepath.Join(src, name)] = target
	}
	f.Driver = chrootDriver(t, f, chroot.Config{Env: env, AgentDirs: []string{filepath.Join(src, "dir/agent")}})
	got := f.run(f.sh("echo $(ls /opt); cat /opt/dir/f /opt/one/file /opt/outside/g; readlink /opt/inside; " +
		"ls -A /opt/dir/agent 2>/dev/null; " +
		"cat /opt/dir/agent/state 2>/dev/null || echo hidden"))
	want := "dir inside one outside\ndir/f\nfile\nother/g\n/opt/dir/sub\nhidden\n"
	if got.Stdout != want {
		t.Errorf("stdout = %q, want %q; stderr: %s", got.Stdout, want, got.Stderr)
	}
}

// TestOtherAllocations checks that a chroot_env around alloc_dir shows no allocation.
func TestOtherAllocations(t *testing.T) {
	testpace.Slow(t, "makes the root of many tasks")
	f := newFixture(t, nil)
	other := f.sh("true")
	secret := filepath.Join(other.SecretsDir, "token-of-another")
	if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{f.dir: "/opt/allocs", filepath.Dir(f.dir): "/opt/around", other.AllocDir: "/opt/other"}
	for _, dir := range base {
		env[dir] = dir
	}
	f.Driver = chrootDriver(t, f, chroot.Config{Env: env})
	got := f.run(f.sh("ls /opt; " +
		"find / -name token-of-another -not -path '/proc/*' 2>/dev/null; " +
		"cat /opt/around/*/*/web/secrets/token* 2>/dev/null; echo end"))
	if got.Stdout != "around\nend\n" {
		t.Errorf("stdout = %q, want nothing of the other allocation; stderr: %s", got.Stdout, got.Stderr)
	}
}

func chrootDriver(t *testing.T, f *fixture, cfg chroot.Config) *chroot.Driver {
	t.Helper()
	if err := chroot.CheckEnv(cfg.Env); err != nil {
		t.Fatal(err)
	}
	return f.configured(cfg, nil)
}

func TestCheckEnv(t *testing.T) {
	for target, want := range map[string]string{"/srv": "", "/local/x": "", "/alloc": "its own /alloc", "/dev/x": "its own", "/": "its own /",
		"x": "absolute", "/usr/../proc": "its own /proc"} {
		err := chroot.CheckEnv(map[string]string{"/srv": target})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("CheckEnv(%s) = %v, want %q", target, err, want)
		}
	}
}

// TestPlantedLinks checks that links that a task makes in its directories lead no later start out of them.
func TestPlantedLinks(t *testing.T) {
	f := newFixture(t, nil)
	outside := filepath.Join(f.dir, "outside")
	testtask.MakeDir(t, outside)
	for _, name := range []string{"alloc", "srv", "run"} {
		cfg := f.sh("true")
		if err := os.Symlink(outside, filepath.Join(cfg.TaskDir, name)); err != nil {
			t.Fatal(err)
		}
		cfg.Mounts = []drivers.Mount{{TaskPath: "/srv/deep/data", HostPath: outside}, {TaskPath: "/run/data", HostPath: outside}}
		if _, err := f.StartTask(t.Context(), cfg); err == nil {
			t.Errorf("%s: StartTask() = nil, want an error", name)
		}
		if list, err := os.ReadDir(outside); err != nil || len(list) > 0 {
			t.Errorf("%s: the directory outside has %v, %v", name, list, err)
		}
	}
}

// TestHiddenFiles checks that a start refuses to hide files that a template of the task has written.
func TestHiddenFiles(t *testing.T) {
	f := newFixture(t, nil)
	cfg := f.sh("cat /etc/app.conf")
	if err := os.Mkdir(filepath.Join(cfg.TaskDir, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cfg.TaskDir, "etc/app.conf"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := f.StartTask(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "/etc/app.conf") {
		t.Errorf("StartTask() = %v, want an error that names the file", err)
	}
}

// TestEscapes tries ways out of the root, with the default capabilities.
func TestEscapes(t *testing.T) {
	testpace.Slow(t, "makes the root of many tasks")
	f := newFixture(t, nil)
	listen, err := net.Listen("unix", "@exec-test-"+filepath.Base(f.dir))
	if err != nil {
		t.Fatal(err)
	}
	defer listen.Close()
	host := filepath.Join(f.dir, "host")
	if err := os.WriteFile(host, []byte("host"), 0o666); err != nil {
		t.Fatal(err)
	}
	python := "import os, socket, sys\n"
	abstract := "\\0exec-test-" + filepath.Base(f.dir)
	for name, script := range map[string]string{
		"root of init":  "cat /proc/1/root" + host + " && echo out",
		"environ":       "cat /proc/1/environ && echo out",
		"parent":        "cat /../../.." + host + " && echo out",
		"mount":         "mount -t tmpfs none /tmp && echo out",
		"unshare":       "unshare -Urm true && echo out",
		"device":        "mknod /local/sda b 8 0; head -c1 /local/sda && echo out",
		"device of dev": "mknod /dev/sda b 8 0 && echo out",
		"remount":       "mount -o remount,rw /usr && echo out",
		"sysctl":        "echo 1 > /proc/sys/kernel/panic && echo out",
		"sysrq":         "echo s > /proc/sysrq-trigger && echo out",
		"memory":        "cd /proc; for f in kpageflags kpagecount slabinfo vmallocinfo; do [ -z \"$(head -c 8 $f | od -An)\" ] || echo out; done",
		"sys":           "echo 1 > /sys/kernel/mm/ksm/run && echo out",
		"setuid":        "cp /usr/bin/id /local/id && chmod u+s /local/id && [ $(/local/id -u) = $(id -u) ] || echo out",
		"host's run":    "ls /run/*.sock /var/run && echo out",
		"cgroup":        "ls /sys/fs/cgroup/* && echo out",
	} {
		t.Run(name, func(t *testing.T) {
			if got := f.run(f.sh("{ " + script + "; } 2>/dev/null; echo end")); got.Stdout != "end\n" {
				t.Errorf("stdout = %q, want nothing; stderr: %s", got.Stdout, got.Stderr)
			}
		})
	}
	for name, script := range map[string]string{
		"user root reads root's files": python + "os.setuid(0)\nprint(open('/etc/shadow').read())",
		"chroot":                       python + "os.chroot('/local')\nprint('out')",
		"descriptors": python + "here = '/proc/self/fd'\nfor n in os.listdir(here):\n  to = os.readlink(here+'/'+n)\n" +
			"  if int(n) > 2 and not to.startswith('/proc/'): print(to)\nsys.exit(1)",
		"abstract socket": python + "socket.socket(socket.AF_UNIX).connect('" + abstract + "')",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := os.Stat("/usr/bin/python3"); err != nil {
				t.Skip("needs python3")
			}
			got := f.run(f.task(nil, "/usr/bin/python3", "-c", script))
			if got.ExitCode == 0 || strings.TrimSpace(got.Stdout) != "" {
				t.Errorf("exit %d, stdout = %q, want a failure without output; stderr: %s", got.ExitCode, got.Stdout, got.Stderr)
			}
		})
	}
}

// TestNetwork checks that a task in a network namespace has its interfaces, its host name and its files.
func TestNetwork(t *testing.T) {
	f := newFixture(t, nil)
	cfg := f.sh("echo $(ls /sys/class/net); hostname; cat /etc/hosts")
	cfg.NetNS, cfg.Hostname = testnet.Namespace(t), "web-1"
	if err := os.WriteFile(filepath.Join(cfg.AllocDir, "hosts"), []byte("127.0.0.1 web-1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg.Files = []drivers.HostFile{{Name: "hosts", Target: "/etc/hosts"}}
	if got := f.run(cfg); got.Stdout != "lo\nweb-1\n127.0.0.1 web-1\n" {
		t.Errorf("stdout = %q; stderr: %s", got.Stdout, got.Stderr)
	}
}

// TestConfine checks that a sidecar runs as the task's user, and sees the host's paths.
func TestConfine(t *testing.T) {
	f := newFixture(t, nil)
	cfg := f.sh("true")
	cfg.User = ""
	script := "{ id -u; grep CapEff /proc/self/status; } > " + cfg.LocalDir + "/uid"
	exit, err := f.Confine(t.Context(), cfg, testtask.Shell(t, cfg, script))
	if err != nil || exit.ExitCode != 0 {
		t.Fatalf("Confine() = %+v, %v", exit, err)
	}
	text, err := os.ReadFile(filepath.Join(cfg.LocalDir, "uid"))
	if err != nil || string(text) != "65534\nCapEff:\t0000000000000000\n" {
		t.Errorf("the sidecar wrote %q, %v", text, err)
	}
	leftovers(t, cfg)
}
