package process_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/drivers/process"
	"github.com/open-nomad/open-nomad/drivers/testtask"
	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

func TestMain(m *testing.M) {
	companion.Main()
	if len(os.Args) == 3 && os.Args[1] == "dial" {
		os.Exit(dial(os.Args[2]))
	}
	os.Exit(m.Run())
}

// dial runs in the sandbox.
func dial(arg string) int {
	c, err := net.Dial("tcp", arg)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	c.Close()
	return 0
}

// fixture is a Confiner and the directories of allocations.
type fixture struct {
	*process.Confiner
	t   testing.TB
	dir string
	n   int

	confine func(context.Context) (*drivers.ExitResult, error) // nil calls Confine
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: uids, namespaces and control groups")
	}
	if abi, err := landlock.ABI(); err != nil || abi < landlock.ABITCP {
		t.Skipf("needs Landlock ABI %d: have %d, %v", landlock.ABITCP, abi, err)
	}
	return fixtureAt(t)
}

func fixtureAt(t testing.TB) *fixture {
	t.Helper()
	dir := testtask.OpenDir(t)
	return &fixture{Confiner: &process.Confiner{Sidecars: &process.Groups{}}, t: t, dir: dir}
}

// task returns the config of a task, with directories as the client makes them.
func (f *fixture) task() *drivers.TaskConfig {
	f.t.Helper()
	f.n++
	cfg := testtask.Config(f.t, f.dir, f.n)
	cfg.User = fmt.Sprintf("nomad-%d", 87000+f.n)
	cfg.Limits = drivers.LinuxResources{MemoryBytes: 16 << 20, CPUShares: 100, MHzPerCore: 2000}
	testtask.MakeDir(f.t, process.TmpDir(cfg))
	return cfg
}

// sidecar returns a sidecar that runs a shell script.
func (f *fixture) sidecar(cfg *drivers.TaskConfig, script string) *drivers.Sidecar {
	f.t.Helper()
	return testtask.Shell(f.t, cfg, script)
}

// dialer returns a sidecar that opens a TCP connection.
func (f *fixture) dialer(cfg *drivers.TaskConfig, addr string) *drivers.Sidecar {
	f.t.Helper()
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { self.Close() })
	s := f.sidecar(cfg, "")
	s.Program, s.Args = self, []string{"sidecar", "dial", addr}
	return s
}

// run runs a sidecar and returns its exit and output.
func (f *fixture) run(cfg *drivers.TaskConfig, s *drivers.Sidecar) (*drivers.ExitResult, string) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	r, w, err := os.Pipe()
	if err != nil {
		f.t.Fatal(err)
	}
	defer r.Close()
	s.Stdio[1], s.Stdio[2] = w, w
	text := make(chan string, 1)
	go func() {
		all, _ := io.ReadAll(r) //nolint:errcheck // what was read is compared
		text <- string(all)
	}()
	exit, err := f.Confine(ctx, cfg, s)
	w.Close()
	if err != nil {
		f.t.Fatalf("Confine() = %v", err)
	}
	return exit, <-text
}

// begin runs a sidecar that prints a line. The first channel is closed when it has, and the other one
// gets its exit.
func (f *fixture) begin(ctx context.Context, cfg *drivers.TaskConfig, s *drivers.Sidecar, exit chan<- *drivers.ExitResult) <-chan struct{} {
	f.t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { r.Close() })
	s.Stdio[1] = w
	up := make(chan struct{})
	go func() {
		r.Read(make([]byte, 1)) //nolint:errcheck // it is up, or has ended
		close(up)
	}()
	go func() {
		confine := f.confine
		if confine == nil {
			confine = func(ctx context.Context) (*drivers.ExitResult, error) { return f.Confine(ctx, cfg, s) }
		}
		res, err := confine(ctx)
		w.Close()
		if err != nil {
			f.t.Errorf("Confine() = %v", err)
		}
		exit <- res
	}()
	return up
}

// group returns the task's control group.
func group(t testing.TB, cfg *drivers.TaskConfig) *cgroup.Group {
	t.Helper()
	h, err := cgroup.Detect()
	if err == nil {
		err = h.Usable()
	}
	if err != nil {
		t.Skipf("needs control groups: %v", err)
	}
	name := process.GroupName(cfg)
	g, err := h.Open(name.Parent, name.Name)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// groupDirs returns the existing directories of the task's control group.
func groupDirs(t testing.TB, cfg *drivers.TaskConfig) []string {
	t.Helper()
	name := process.GroupName(cfg)
	return testtask.GroupDirs(t, name.Parent, name.Name)
}
