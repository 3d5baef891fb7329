package process_test

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/internal/testkernel"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

const nobodyUID = 65534

// TestUnprivileged checks sidecars of an agent without root, which has user namespaces. As root it
// runs itself again as nobody.
func TestUnprivileged(t *testing.T) { unprivileged(t, testkernel.Kernel{}, "/proc/2\n") }

// TestUnprivilegedAlone is the same without user namespaces.
func TestUnprivilegedAlone(t *testing.T) {
	unprivileged(t, testkernel.Kernel{NoUserNamespaces: true}, "")
}

func unprivileged(t *testing.T, k testkernel.Kernel, processes string) {
	t.Helper()
	if abi, err := landlock.ABI(); err != nil || abi < landlock.ABITCP {
		t.Skipf("needs Landlock ABI %d: have %d, %v", landlock.ABITCP, abi, err)
	}
	if os.Geteuid() == 0 {
		k.Rerun(t, nobodyUID, "")
		return
	}
	f := fixtureAt(t)
	if isAgent(f) {
		return
	}
	endsWithAgent(t, processes != "")
	cfg := f.task()
	s := f.sidecar(cfg, "id -u; grep -E '^(CapEff|NoNewPrivs|Seccomp):' /proc/self/status | cut -f2 | xargs; cat /etc/passwd 2>&- || echo denied; echo x > f && cat f; echo /proc/[0-9]*; exit 3")
	exit, out := f.run(cfg, s)
	want := "65534\n0000000000000000 1 2\ndenied\nx\n" + processes
	if exit.ExitCode != 3 || !strings.HasPrefix(out, want) {
		t.Errorf("exit %+v, output %q, want %q", exit, out, want)
	}
	s.Paths = append(s.Paths, drivers.SidecarPath{Modes: "r", Name: "/no/such/path"})
	if _, err := f.Confine(t.Context(), cfg, s); err == nil || !strings.Contains(err.Error(), "/no/such/path") {
		t.Errorf("Confine() with a missing path = %v", err)
	}
	cfg.User = "root"
	if _, err := f.Confine(t.Context(), cfg, f.sidecar(cfg, "true")); err == nil ||
		!strings.Contains(err.Error(), "needs an agent that runs as root") {
		t.Errorf("Confine() as root = %v", err)
	}
	cfg.User = ""
	endsUnprivileged(t, f, cfg)
	s = f.sidecar(cfg, "true")
	s.Unconfined, s.Hide = true, []string{cfg.SecretsDir}
	if _, err := f.Confine(t.Context(), cfg, s); (err == nil) != (processes != "") {
		t.Errorf("Confine() without Landlock, with a directory to hide = %v; a mount namespace hides it: %t", err, processes != "")
	}
}

// endsUnprivileged ends a sidecar whose child is in the same session.
func endsUnprivileged(t *testing.T, f *fixture, cfg *drivers.TaskConfig) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan *drivers.ExitResult, 1)
	mark := strconv.Itoa(200_000 + os.Getpid())
	<-f.begin(ctx, cfg, f.sidecar(cfg, "sleep "+mark+" & echo up; wait"), ended)
	cancel()
	if exit := <-ended; exit == nil || exit.Signal != 9 {
		t.Errorf("exit = %+v, want SIGKILL", exit)
	}
	testpace.Until(t, "the descendant ends", func() bool { return !exists("sleep", mark) })
}

// exists reports whether a process has these arguments.
func exists(args ...string) bool {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return true
	}
	want := strings.Join(args, "\x00") + "\x00"
	for _, e := range entries {
		if text, err := os.ReadFile("/proc/" + e.Name() + "/cmdline"); err == nil && string(text) == want {
			return true
		}
	}
	return false
}

// onKernel runs the same test again as root on another kernel, and returns whether this is that run.
func onKernel(t *testing.T, k testkernel.Kernel) bool {
	t.Helper()
	const again = "TEST_ON_KERNEL"
	if os.Getenv(again) != "" {
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root: uids, namespaces and control groups")
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), again+"=1")
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := k.Start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || strings.Contains(out.String(), "SKIP") {
		t.Errorf("on the other kernel: %v\n%s", err, &out)
	}
	return false
}

// Without Landlock a sidecar is refused, unless the operator disabled it. All other layers remain.
func TestConfineWithoutLandlock(t *testing.T) {
	if !onKernel(t, testkernel.Kernel{NoLandlock: true}) {
		return
	}
	f := fixtureAt(t)
	cfg := f.task()
	s := f.sidecar(cfg, "id -u; grep -E '^(CapEff|NoNewPrivs|Seccomp):' /proc/self/status | cut -f2 | xargs; echo /proc/[0-9]*; [ -e ../secrets/f ] || echo hidden; exit 3")
	if err := os.WriteFile(cfg.SecretsDir+"/f", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s.Hide = []string{cfg.SecretsDir}
	if exit, err := f.Confine(t.Context(), cfg, s); err == nil || !strings.Contains(err.Error(), "landlock") {
		t.Errorf("Confine() = %+v, %v, want an error about Landlock", exit, err)
	}
	s.Unconfined = true
	want := strings.TrimPrefix(cfg.User, "nomad-") + "\n0000000000000000 1 2\n/proc/2\nhidden\n"
	if exit, out := f.run(cfg, s); exit.ExitCode != 3 || out != want {
		t.Errorf("unconfined: exit %+v, output %q, want %q", exit, out, want)
	}
}

// A kernel that cannot restrict TCP refuses a sidecar that must not use it.
func TestConfineTCPOnAnOldKernel(t *testing.T) {
	if !onKernel(t, testkernel.Kernel{LandlockABI: landlock.ABITCP - 1}) {
		return
	}
	f := fixtureAt(t)
	cfg := f.task()
	s := f.sidecar(cfg, "exit 3")
	if exit, _ := f.run(cfg, s); exit.ExitCode != 3 {
		t.Errorf("exit = %+v", exit)
	}
	s.NoTCP = true
	if exit, err := f.Confine(t.Context(), cfg, s); err == nil || !strings.Contains(err.Error(), "TCP") {
		t.Errorf("Confine() = %+v, %v, want an error about TCP", exit, err)
	}
}

// A sidecar ends with its agent.
func TestConfineEndsWithAgent(t *testing.T) {
	f := newFixture(t)
	if !isAgent(f) {
		endsWithAgent(t, true)
	}
}

// agentMark is the variable that makes a test an agent, with the argument of its sidecar's sleep(1).
const agentMark = "TEST_AGENT"

// isAgent runs a sidecar until this process is killed, if that is its task.
func isAgent(f *fixture) bool {
	mark := os.Getenv(agentMark)
	if mark == "" {
		return false
	}
	cfg := f.task()
	if os.Geteuid() != 0 {
		cfg.User = ""
	}
	s := f.sidecar(cfg, "sleep "+mark+" & echo $!; wait")
	s.Stdio[1] = os.Stdout
	f.Confine(f.t.Context(), cfg, s) //nolint:errcheck // this process is killed meanwhile
	return true
}

// endsWithAgent runs the same test as an agent, and kills it. Without namespaces, the sidecar's child
// continues.
func endsWithAgent(t *testing.T, namespaces bool) {
	t.Helper()
	mark := strconv.Itoa(300_000 + os.Getpid())
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), agentMark+"="+mark, "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	pid, perr := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || perr != nil {
		t.Fatalf("the agent printed %q, %v", line, err)
	}
	testpace.Until(t, "the descendant runs", func() bool { return exists("sleep", mark) })
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	cmd.Wait() //nolint:errcheck // killed
	testpace.Until(t, "the sidecar ends", func() bool { return !exists("sh", "-c", "sleep "+mark+" & echo $!; wait") })
	if !namespaces {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Errorf("kill the child: %v", err)
		}
	}
	testpace.Until(t, "the descendant ends", func() bool { return !exists("sleep", mark) })
	if os.Geteuid() == 0 {
		removeGroupOf(t, cmd.Process.Pid)
	}
}

// removeGroupOf removes the group of a sidecar whose agent was killed.
func removeGroupOf(t *testing.T, agent int) {
	t.Helper()
	h, err := cgroup.Detect()
	if err != nil {
		return
	}
	for _, mount := range append([]string{h.V2}, slices.Collect(maps.Values(h.V1))...) {
		dirs, err := filepath.Glob(filepath.Join(mount, "nomad-test.slice/share.slice", fmt.Sprintf("sidecar-%d-*", agent)))
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range dirs {
			testpace.Succeeds(t, "the group is removed", func() error { // it may be in two mounts
				if err := os.Remove(dir); !os.IsNotExist(err) {
					return err
				}
				return nil
			})
		}
	}
}
