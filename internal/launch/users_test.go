//go:build amd64 || arm64

package launch_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/launch"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/internal/testkernel"
)

const nobodyUID = 65534

// TestUsers creates namespaces as an ordinary user. As root it runs itself as nobody.
func TestUsers(t *testing.T) {
	if os.Geteuid() == 0 {
		testkernel.Kernel{}.Rerun(t, nobodyUID, "")
		return
	}
	script := `echo $$; cat /proc/self/uid_map /proc/self/setgroups; grep ^Cap /proc/self/status; echo /proc/[0-9]*; ls /tmp; read x`
	p, start := usersPolicy(t, script)
	r := forkUsers(t, p, start)
	for _, want := range []string{"2", "     65534      65534          1", "deny", "CapInh:\t0000000000000000", "CapPrm:\t0000000000000000",
		"CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "CapAmb:\t0000000000000000", "/proc/2", "inside"} {
		got, err := r.out.ReadString('\n')
		if got = strings.TrimSuffix(got, "\n"); err != nil || got != want {
			t.Errorf("the program prints %q, %v, want %q", got, err, want)
		}
	}
	sidecar, enter := usersPolicy(t, `cat /proc/self/uid_map; ls /tmp`)
	sidecar.PrivatePID, sidecar.OwnUsers, sidecar.PrivateIPC, sidecar.Mounts = false, false, false, nil
	pidfd, err := unix.PidfdOpen(r.Main(), 0)
	if err != nil {
		t.Fatal(err)
	}
	enter.Init, enter.Enter = false, os.NewFile(uintptr(pidfd), "main")
	defer enter.Enter.Close()
	s := forkUsers(t, sidecar, enter)
	if got, err := io.ReadAll(s.out); err != nil || string(got) != "     65534      65534          1\ninside\n" {
		t.Errorf("a sidecar program prints %q, %v, want the same users and files", got, err)
	}
	fmt.Fprintln(r.in, "go")
	if ws, err := r.Wait(); err != nil || ws.ExitStatus() != 0 {
		t.Errorf("Wait() = %v, %v, want exit 0", ws, err)
	}
}

// usersPolicy returns the policy of an ordinary user's sandbox.
func usersPolicy(t *testing.T, script string) (*sandbox.Policy, *launch.Start) {
	t.Helper()
	tmp := t.TempDir()
	if err := os.WriteFile(filepath.Join(tmp, "inside"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return &sandbox.Policy{Argv: []string{"/bin/sh", "-c", script}, Dir: "/", Env: sandbox.Environment{"PATH=/usr/bin:/bin"},
			PrivatePID: true, OwnUsers: true, PrivateIPC: true, Mounts: &sandbox.Mounts{Tmp: sandbox.Path{Name: tmp}, Proc: true},
			Seccomp: sandbox.SeccompNone},
		&launch.Start{Program: companion.Path(), Entry: sandbox.Entry, Init: true, Users: true}
}

func forkUsers(t *testing.T, p *sandbox.Policy, s *launch.Start) *run {
	t.Helper()
	raw, err := sandbox.Encode(p)
	if err != nil {
		t.Fatal(err)
	}
	in, stdin := pipe(t)
	stdout, out := pipe(t)
	s.Policy, s.Stdio = raw, [3]*os.File{in, out, out}
	r := startRun(t, s, stdin, stdout)
	in.Close()
	out.Close()
	return r.ready()
}

// TestNoUsers checks the error of an ordinary user without user namespaces.
func TestNoUsers(t *testing.T) {
	if os.Geteuid() == 0 {
		testkernel.Kernel{NoUserNamespaces: true}.Rerun(t, nobodyUID, "")
		return
	}
	p, s := usersPolicy(t, "true")
	var err error
	if s.Policy, err = sandbox.Encode(p); err != nil {
		t.Fatal(err)
	}
	null, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	s.Stdio = [3]*os.File{null, null, null}
	if proc, err := s.Fork(); err == nil {
		proc.Wait() //nolint:errcheck // it should not exist
		t.Error("Fork() = nil, want an error: user namespaces are forbidden")
	}
}
