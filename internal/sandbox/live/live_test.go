package live

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/sandbox"
)

const mounts = `1 0 8:1 / / rw,relatime - ext4 /dev/a rw
2 1 8:1 /data /srv ro,nosuid,nodev - ext4 /dev/a rw
3 2 8:2 / /srv/sub rw,nosuid,nodev - ext4 /dev/b rw
4 1 8:1 /x /with\040blank rw,nosuid,nodev shared:7 - ext4 /dev/a rw
5 1 0:9 / /proc rw,nosuid - proc proc rw,gid=65534,hidepid=invisible
6 1 8:1 /t /tmp rw,nosuid,nodev - ext4 /dev/a rw
7 6 8:1 /y /tmp/once ro,nosuid,nodev - ext4 /dev/a rw
8 6 8:1 /y /tmp/once rw,nosuid,nodev - ext4 /dev/a rw
9 1 8:1 /z /suid rw - ext4 /dev/a rw
11 1 0:20 / /allocs ro,nosuid,nodev,noexec - tmpfs none rw,mode=711
12 1 0:21 / /open rw,nosuid,nodev,noexec - tmpfs none rw,mode=711
a line that is none
10 1 - short
`

// TestMounts compares the options of a bind. A bind with a writable mount below it, or covered by
// another one, is not read-only.
func TestMounts(t *testing.T) {
	p := &process{mounts: parseMounts(mounts)}
	for _, tt := range []struct {
		bind sandbox.Bind
		want bool
	}{
		{sandbox.Bind{Target: "/srv"}, true},
		{sandbox.Bind{Target: "/srv", ReadOnly: true}, false}, // /srv/sub
		{sandbox.Bind{Target: "/with blank"}, true},
		{sandbox.Bind{Target: "/with blank", ReadOnly: true}, false},
		{sandbox.Bind{Target: "once", Beneath: "/tmp", ReadOnly: true}, false}, // the later one is visible
		{sandbox.Bind{Target: "/suid"}, false},
		{sandbox.Bind{Target: "/none"}, false},
	} {
		if l := p.bind(tt.bind); l.Match != tt.want {
			t.Errorf("%+v: %+v, want match %t", tt.bind, l, tt.want)
		}
	}
	for dir, want := range map[string]bool{"/allocs": true, "/open": false, "/suid": false, "/none": false, "/granted": true} {
		policy := &sandbox.Policy{Dir: "/",
			Files:  &sandbox.Files{Paths: []sandbox.Path{{Modes: "r", Name: "/granted"}, {Modes: "r", Name: "/open/one"}}},
			Mounts: &sandbox.Mounts{View: sandbox.View{Dir: dir, Own: "x"}}}
		if l := p.view(policy); l.Match != want {
			t.Errorf("view of %s: %+v, want match %t", dir, l, want)
		}
	}
	layers, err := mountLayers(p, Subject{Policy: &sandbox.Policy{Mounts: &sandbox.Mounts{Tmp: sandbox.Path{Name: "/x"}, Proc: true}}})
	if err != nil || len(layers) != 2 || !layers[0].Match || !layers[1].Match {
		t.Errorf("layers are %+v, %v", layers, err)
	}
	p.mounts = parseMounts(strings.Replace(mounts, ",hidepid=invisible", "", 1))
	layers, _ = mountLayers(p, Subject{Policy: &sandbox.Policy{Mounts: &sandbox.Mounts{Proc: true}}})
	if layers[0].Match {
		t.Errorf("a /proc that hides nothing is as declared: %+v", layers)
	}
}

// TestNaked compares a process without a sandbox with a policy that has every layer: each layer is
// looser.
func TestNaked(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait() //nolint:errcheck // it is killed
	defer cmd.Process.Kill()
	p := &sandbox.Policy{OOMScoreAdj: 1000, PrivateIPC: true, PrivatePID: true, NetNS: "/none",
		Mounts:  &sandbox.Mounts{Tmp: sandbox.Path{Name: "/x"}, Proc: true},
		User:    &sandbox.User{UID: 4242, GID: 4242, Groups: []uint32{4243}},
		Rlimits: []sandbox.Rlimit{{Resource: unix.RLIMIT_NOFILE, Soft: 1, Hard: 2}}, Seccomp: "default", Filter: make([]byte, 8)}
	layers, err := Compare(Subject{PID: cmd.Process.Pid, Policy: p})
	if err != nil {
		t.Fatal(err)
	}
	loose := map[string]bool{}
	for _, l := range layers {
		loose[l.Name] = !l.Match
	}
	for _, name := range []string{"oom_score_adj", "pid namespace", "ipc namespace", "mnt namespace", "net namespace", "/proc", "uid", "gid",
		"groups", "no_new_privs", "seccomp", "limit of open files"} {
		if !loose[name] {
			t.Errorf("%s of a process without a sandbox is as declared: %+v", name, layers)
		}
	}
	if os.Geteuid() == 0 && !loose["CapEff"] {
		t.Error("root's capabilities are none")
	}
	if _, err := Compare(Subject{PID: 1 << 22, Policy: p}); err == nil {
		t.Error("a process that does not exist was compared")
	}
}

// A limit is as declared, stricter or looser.
func TestLimits(t *testing.T) {
	p, err := inspect(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer p.dir.Close()
	var now unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &now); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		soft, hard      uint64
		match, stricter bool
	}{
		"as declared":       {now.Cur, now.Max, true, false},
		"hard limit lower":  {now.Cur, now.Max + 1, true, true},
		"declared as none":  {unix.RLIM_INFINITY, unix.RLIM_INFINITY, true, true},
		"soft limit lower":  {now.Cur + 1, now.Max, true, true},
		"soft limit higher": {now.Cur - 1, now.Max, true, false},
		"hard limit higher": {now.Cur - 1, now.Max - 1, false, false},
	} {
		declared := sandbox.Rlimit{Resource: unix.RLIMIT_NOFILE, Soft: tt.soft, Hard: tt.hard}
		got, err := limits(p, Subject{Policy: &sandbox.Policy{Rlimits: []sandbox.Rlimit{declared}}})
		if err != nil || len(got) != 1 || got[0].Match != tt.match || got[0].Stricter != tt.stricter {
			t.Errorf("%s: %+v, %v, want match %t, stricter %t", name, got, err, tt.match, tt.stricter)
		}
	}
}
