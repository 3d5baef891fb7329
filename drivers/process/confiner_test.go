package process_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/internal/memfd"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// TestConfine checks each layer of the sandbox of a sidecar.
func TestConfine(t *testing.T) {
	f := newFixture(t)
	cfg := f.task()
	if err := os.WriteFile(filepath.Join(cfg.SecretsDir, "f"), []byte("secret\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	no := "0000000000000000"
	for _, tt := range []struct{ name, script, want string }{
		{"name and arguments", `echo "$0 $#"`, "sh 0\n"},
		{"environment", `env | grep -vE "^(SHLVL|OLDPWD)=" | sort`, "PATH=/usr/bin:/bin\nPWD=" + cfg.LocalDir + "\n"},
		{"user", "id -u; id -G", cfg.User[len("nomad-"):] + "\n" + cfg.User[len("nomad-"):] + "\n"},
		{"directory", "pwd", cfg.LocalDir + "\n"},
		{"capabilities", "grep ^Cap /proc/self/status | cut -f2 | xargs", strings.Join([]string{no, no, no, no, no}, " ") + "\n"},
		{"no_new_privs and seccomp", "grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status | cut -f2 | xargs", "1 2\n"},
		{"processes", "echo /proc/[0-9]*", "/proc/2\n"},
		{"descriptors", "ls /proc/self/fd | xargs", "0 1 2 3\n"}, // 3 is that of ls
		{"OOM score", "cat /proc/self/oom_score_adj", "1000\n"},
		{"core dumps", "ulimit -c", "0\n"},
		{"its paths", "echo x > made && cat made", "x\n"},
		{"other paths", "cat /etc/passwd 2>/dev/null || echo denied", "denied\n"},
		{"hidden directory", "[ -d ../secrets ] && echo seen; [ -e ../secrets/f ] || echo empty", "seen\nempty\n"},
		{"other allocations", "[ -e ../../../other ] || echo hidden", "hidden\n"},
		{"temporary files", "[ -e /tmp/of-the-task ] && echo own", "own\n"},
		{"host sockets", "[ -e /run/lock ] || [ -e /run/mount ] || echo empty", "empty\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, name := range []string{filepath.Join(cfg.TaskDir, "tmp/of-the-task"), filepath.Join(f.dir, "other")} {
				if err := os.WriteFile(name, nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			s := f.sidecar(cfg, tt.script+"; exit 3")
			s.Hide = []string{cfg.SecretsDir}
			if exit, out := f.run(cfg, s); out != tt.want || exit.ExitCode != 3 || exit.Signal != 0 || exit.OOMKilled {
				t.Errorf("output %q, want %q; exit %+v", out, tt.want, exit)
			}
		})
	}
	if dirs := groupDirs(t, cfg); len(dirs) > 0 {
		t.Errorf("the group of a task that never ran still exists: %q", dirs)
	}
}

// A sidecar of a root task has no capabilities, so that the files of others are as those of others.
func TestConfineRoot(t *testing.T) {
	f := newFixture(t)
	cfg := f.task()
	cfg.User = ""
	foreign := filepath.Join(cfg.LocalDir, "foreign")
	if err := os.WriteFile(foreign, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(foreign, 87999, 87999); err != nil {
		t.Fatal(err)
	}
	s := f.sidecar(cfg, "id -u; id -G; grep ^CapEff /proc/self/status | cut -f2; cat foreign 2>&- || echo denied; chown 1 . 2>&- || echo denied")
	if _, out := f.run(cfg, s); out != "0\n0\n0000000000000000\ndenied\ndenied\n" {
		t.Errorf("output %q", out)
	}
}

// A sidecar works for a user that cannot pass through the directory of the allocation, with and without Landlock: it has
// mounts of the task's directory and of the shared one, and sees no other task.
func TestConfineBound(t *testing.T) {
	f := newFixture(t)
	cfg := f.task()
	if err := os.Mkdir(filepath.Join(cfg.AllocDir, "other"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(cfg.SharedDir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(cfg.AllocDir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, unconfined := range map[string]bool{"confined": false, "unconfined": true} {
		s := f.sidecar(cfg, "echo x > made && cat made; echo y > "+cfg.SharedDir+"/made && cat "+cfg.SharedDir+"/made; [ -e "+cfg.AllocDir+"/other ] || echo hidden")
		s.Unconfined = unconfined
		s.Paths = append(s.Paths, drivers.SidecarPath{Modes: "rwc", Name: cfg.SharedDir})
		if _, out := f.run(cfg, s); out != "x\ny\nhidden\n" {
			t.Errorf("%s: output %q", name, out)
		}
	}
}

// The executable may be a memory file, and is the file that was passed even if its name changed.
func TestConfineExecutable(t *testing.T) {
	f := newFixture(t)
	cfg := f.task()
	s := f.sidecar(cfg, "echo memory")
	fd, err := memfd.ReadProgram("sh", s.Program)
	if err != nil {
		t.Fatal(err)
	}
	s.Program = os.NewFile(uintptr(fd), "sh")
	defer s.Program.Close()
	if _, out := f.run(cfg, s); out != "memory\n" {
		t.Errorf("output of a memory file %q", out)
	}
	s = f.sidecar(cfg, "echo disk")
	text, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "sh")
	if err := os.WriteFile(name, text, 0o755); err != nil {
		t.Fatal(err)
	}
	if s.Program, err = os.Open(name); err != nil {
		t.Fatal(err)
	}
	defer s.Program.Close()
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte("#!/bin/sh\necho replaced\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, out := f.run(cfg, s); out != "disk\n" {
		t.Errorf("output of a replaced file %q", out)
	}
}

// A sidecar may connect to the network, unless it must not.
func TestConfineTCP(t *testing.T) {
	f := newFixture(t)
	cfg := f.task()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := f.dialer(cfg, l.Addr().String())
	if exit, out := f.run(cfg, s); exit.ExitCode != 0 {
		t.Errorf("dial: %+v, %s", exit, out)
	}
	s.NoTCP = true
	if exit, out := f.run(cfg, s); exit.ExitCode != 1 || !strings.Contains(out, "permission denied") {
		t.Errorf("dial without TCP: %+v, %s", exit, out)
	}
}

// A sidecar is in the network of its task's group, with the client's files.
func TestConfineNetwork(t *testing.T) {
	f := newFixture(t)
	cfg := f.task()
	cfg.NetNS = testnet.Namespace(t)
	want, err := os.Readlink(cfg.NetNS)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cfg.AllocDir, "resolv.conf"), []byte("nameserver 192.0.2.1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg.Files = []drivers.HostFile{{Name: "resolv.conf", Target: "/etc/resolv.conf"}}
	s := f.sidecar(cfg, "readlink /proc/self/ns/net; cat /etc/resolv.conf")
	s.Paths = append(s.Paths, drivers.SidecarPath{Modes: "r", Name: "/etc/resolv.conf"})
	if _, out := f.run(cfg, s); out != want+"\nnameserver 192.0.2.1\n" {
		t.Errorf("output %q, want %s and the task's nameserver", out, want)
	}
}

func TestConfineFileSize(t *testing.T) {
	f := newFixture(t)
	cfg := f.task()
	s := f.sidecar(cfg, "exec head -c 2000000 /dev/zero > big")
	s.Paths = append(s.Paths, drivers.SidecarPath{Modes: "r", Name: "/dev/zero"})
	s.Limits.FileSize = 1 << 20
	exit, _ := f.run(cfg, s)
	st, err := os.Stat(filepath.Join(cfg.LocalDir, "big"))
	if exit.Signal != int(syscall.SIGXFSZ) || err != nil || st.Size() != 1<<20 {
		t.Errorf("exit %+v, file %v, %v, want SIGXFSZ after 1 MiB", exit, st, err)
	}
}

// The group's memory limit ends a sidecar, and no other one. Before the start of a task that has
// less, it is that of SidecarMemory.
func TestConfineMemory(t *testing.T) {
	f := newFixture(t)
	cfg, other := f.task(), f.task()
	group(t, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	neighbor := make(chan *drivers.ExitResult, 1)
	begun := f.begin(ctx, other, f.sidecar(other, "echo up; sleep 1000"), neighbor)
	<-begun
	use := func(size string) (*drivers.ExitResult, string) {
		s := f.sidecar(cfg, "exec dd if=/dev/zero of=/dev/null count=1 bs="+size)
		s.Paths = append(s.Paths, drivers.SidecarPath{Modes: "r", Name: "/dev/zero"})
		return f.run(cfg, s)
	}
	if exit, out := use("32M"); exit.ExitCode != 0 {
		t.Errorf("32 MiB: %+v, %q", exit, out)
	}
	if exit, _ := use("100M"); !exit.OOMKilled || exit.Signal != 9 || exit.Successful() {
		t.Errorf("100 MiB: %+v, want the OOM killer", exit)
	}
	select {
	case exit := <-neighbor:
		t.Errorf("the neighbor ended: %+v", exit)
	default:
	}
	cancel()
	if exit := <-neighbor; exit == nil || exit.Signal != 9 || exit.OOMKilled {
		t.Errorf("the neighbor: %+v, want SIGKILL without the OOM killer", exit)
	}
}

// The end of the context ends a sidecar with its descendants, and its group is removed.
func TestConfineEnds(t *testing.T) {
	f := newFixture(t)
	cfg := f.task()
	g := group(t, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan *drivers.ExitResult, 1)
	<-f.begin(ctx, cfg, f.sidecar(cfg, "(setsid sleep 1000 &); sleep 1000 & echo up; wait"), ended)
	testpace.Until(t, "three programs and init run", func() bool {
		pids, err := g.Pids()
		return err == nil && len(pids) == 4
	})
	pids, err := g.Pids()
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if exit := <-ended; exit == nil || exit.Signal != 9 {
		t.Errorf("exit = %+v, want SIGKILL", exit)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
			t.Errorf("process %d: %v", pid, err)
		}
	}
	if dirs := groupDirs(t, cfg); len(dirs) > 0 {
		t.Errorf("the group still exists: %q", dirs)
	}
}

// Sidecars of one task share its group, which exists until the last one has ended.
func TestConfineTogether(t *testing.T) {
	f := newFixture(t)
	cfg := f.task()
	group(t, cfg)
	first, second := make(chan *drivers.ExitResult, 1), make(chan *drivers.ExitResult, 1)
	ctx1, cancel1 := context.WithCancel(t.Context())
	ctx2, cancel2 := context.WithCancel(t.Context())
	defer cancel2()
	<-f.begin(ctx1, cfg, f.sidecar(cfg, "echo up; sleep 1000"), first)
	<-f.begin(ctx2, cfg, f.sidecar(cfg, "echo up; sleep 1000"), second)
	dirs := groupDirs(t, cfg)
	cancel1()
	<-first
	if got := groupDirs(t, cfg); len(dirs) == 0 || len(got) != len(dirs) {
		t.Errorf("the group's directories are %q, were %q", got, dirs)
	}
	select {
	case exit := <-second:
		t.Errorf("the second sidecar ended: %+v", exit)
	default:
	}
	cancel2()
	<-second
	if got := groupDirs(t, cfg); len(got) > 0 {
		t.Errorf("the group still exists: %q", got)
	}
}

// Without a PID namespace, a group of its own ends the descendants of a sidecar: after its end and
// that of the context, and no others in the task's group.
func TestConfineWithoutNamespaces(t *testing.T) {
	f := newFixture(t)
	cfg := f.task()
	g := group(t, cfg)
	if g.Dir() == "" {
		t.Skip("needs a version 2 tree")
	}
	neighbor := make(chan *drivers.ExitResult, 1)
	ctx, cancel := context.WithCancel(t.Context())
	<-f.begin(ctx, cfg, f.sidecar(cfg, "echo up; exec sleep 1000"), neighbor)
	neighbors, err := g.Pids()
	if err != nil || len(neighbors) != 2 {
		t.Fatalf("the neighbor's processes are %v, %v, want a program and its init", neighbors, err)
	}
	for name, script := range map[string]string{"context": "sleep 1000", "program": "exit 3"} {
		s := f.sidecar(cfg, "(setsid sleep 1000 &); echo up; "+script)
		p, err := process.SidecarPolicy(&sandbox.Policy{User: &sandbox.User{UID: 87100, GID: 87100}, Seccomp: sandbox.SeccompNone}, cfg, s)
		if err != nil {
			t.Fatal(err)
		}
		alone := &fixture{Confiner: f.Confiner, t: t, confine: func(ctx context.Context) (*drivers.ExitResult, error) {
			c := process.Confinement{Policy: p, Group: process.SidecarGroup(cfg, 100)}
			return f.Sidecars.Confine(ctx, c, s)
		}}
		exit := make(chan *drivers.ExitResult, 1)
		ctx, cancel := context.WithCancel(t.Context())
		<-alone.begin(ctx, cfg, s, exit)
		if name == "context" {
			cancel()
		}
		if res := <-exit; res == nil || (res.Signal == 9) != (name == "context") {
			t.Errorf("end of the %s: %+v", name, res)
		}
		cancel()
		if pids, err := g.Pids(); err != nil || !slices.Equal(pids, neighbors) {
			t.Errorf("end of the %s: the group has processes %v, %v, want the neighbor's %v", name, pids, err, neighbors)
		}
	}
	cancel()
	<-neighbor
	if dirs := groupDirs(t, cfg); len(dirs) > 0 {
		t.Errorf("the group still exists: %q", dirs)
	}
}

// A refused sidecar is an error, and leaves no group.
func TestConfineRefuses(t *testing.T) {
	f := newFixture(t)
	cfg := f.task()
	for _, tt := range []struct {
		name string
		edit func(*drivers.TaskConfig, *drivers.Sidecar)
		want string
	}{
		{"missing path", func(_ *drivers.TaskConfig, s *drivers.Sidecar) {
			s.Paths = append(s.Paths, drivers.SidecarPath{Modes: "r", Name: "/no/such/path"})
		}, "open granted path r:/no/such/path"},
		{"missing path of the allocation", func(cfg *drivers.TaskConfig, s *drivers.Sidecar) {
			s.Paths = append(s.Paths, drivers.SidecarPath{Modes: "r", Name: "web/none", Beneath: cfg.AllocDir})
		}, "web/none"},
		{"modes", func(_ *drivers.TaskConfig, s *drivers.Sidecar) {
			s.Paths = append(s.Paths, drivers.SidecarPath{Modes: "rq", Name: "/etc"})
		}, "modes must be"},
		{"directory outside", func(_ *drivers.TaskConfig, s *drivers.Sidecar) { s.Dir = "/etc" }, "not inside the allocation's directory"},
		{"relative directory", func(_ *drivers.TaskConfig, s *drivers.Sidecar) { s.Dir = "local" }, "not absolute"},
		{"no program", func(_ *drivers.TaskConfig, s *drivers.Sidecar) { s.Program = nil }, "needs a program"},
		{"not executable", func(_ *drivers.TaskConfig, s *drivers.Sidecar) {
			text, err := os.Open("/etc/passwd")
			if err != nil {
				t.Fatal(err)
			}
			s.Program = text
		}, "permission denied"},
		{"unknown user", func(cfg *drivers.TaskConfig, _ *drivers.Sidecar) { cfg.User = "no-such-user" }, "no-such-user"},
		{"unknown network", func(cfg *drivers.TaskConfig, _ *drivers.Sidecar) { cfg.NetNS = "/run/netns/none" }, "join network namespace"},
		{"hidden relatively", func(_ *drivers.TaskConfig, s *drivers.Sidecar) { s.Hide = []string{"secrets"} }, "hide"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, s := *cfg, f.sidecar(cfg, "echo ran")
			tt.edit(&c, s)
			if exit, err := f.Confine(t.Context(), &c, s); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Confine() = %+v, %v, want an error with %q", exit, err, tt.want)
			}
		})
	}
	if dirs := groupDirs(t, cfg); len(dirs) > 0 {
		t.Errorf("the group of refused sidecars still exists: %q", dirs)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	cancel()
	if _, err := f.Confine(ctx, cfg, f.sidecar(cfg, "true")); err == nil {
		t.Error("Confine() = nil after the end of its context")
	}
}

// Directories of the agent may contain each other.
func TestExistingOmitsInner(t *testing.T) {
	dir := t.TempDir()
	inner := filepath.Join(dir, "client/supervise")
	if err := os.MkdirAll(inner, 0o700); err != nil {
		t.Fatal(err)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, dirs := range [][]string{{dir, inner, filepath.Join(dir, "none")}, {inner, dir, dir}} {
		if got, err := process.Existing(dirs); err != nil || len(got) != 1 || got[0] != real {
			t.Errorf("Existing(%q) = %q, %v, want the outer one", dirs, got, err)
		}
	}
}
