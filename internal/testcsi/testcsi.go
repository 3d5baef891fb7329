// Package testcsi runs the example of a CSI plugin, e2e/examplecsi, for tests. The plugin is a process, and mounts in the mount
// namespace of the test:
//
//	Start ─▶ running ─▶ Kill ─▶ ended ─▶ Restart ─▶ running
//	             end of the test ─▶ the process, its mounts and its block devices are removed
//
// A test is skipped without root.
package testcsi

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// Socket is the name of the socket in its directory.
const Socket = "csi.sock"

// patience limits how long a plugin may take until it is ready.
const patience = time.Minute

// Config configures a plugin. The zero value is a plugin with both services on a socket of its own.
type Config struct {
	Program string   // of Build; it is built if ""
	Dir     string   // of the socket; a new one if ""
	Root    string   // of the storage system; a new one if "". Plugins may share it
	Flags   []string // see e2e/examplecsi; -root and -faults are set
}

// Plugin is a plugin that runs. Its methods must not be called concurrently.
type Plugin struct {
	Dir  string // of the socket
	Root string // of the storage system

	program string
	flags   []string
	faults  string
	mock    bool
	cmd     *exec.Cmd
}

// Build builds the program of the plugin, and returns its path.
func Build(t testing.TB) string {
	t.Helper()
	return build(t, "e2e/examplecsi")
}

// BuildMock builds a plugin of the mock driver of the CSI project (package mock), and returns its path.
func BuildMock(t testing.TB) string {
	t.Helper()
	return build(t, "internal/testcsi/mock")
}

func build(t testing.TB, pkg string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), filepath.Base(pkg))
	cmd := exec.Command("go", "build", "-trimpath", "-tags=companion", "-o", program, "github.com/open-nomad/open-nomad/"+pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, out)
	}
	return program
}

// StartMock starts a plugin of the mock driver and waits until it is ready. It has no faults, and no flags.
func StartMock(t testing.TB) *Plugin {
	t.Helper()
	return start(t, &Plugin{Dir: t.TempDir(), Root: t.TempDir(), program: BuildMock(t), mock: true})
}

// Start starts a plugin and waits until it is ready.
func Start(t testing.TB, c Config) *Plugin {
	t.Helper()
	p := &Plugin{Dir: c.Dir, Root: c.Root, program: c.Program, flags: c.Flags}
	if p.Dir == "" {
		p.Dir = t.TempDir()
	}
	if p.Root == "" {
		p.Root = t.TempDir()
	}
	if p.program == "" {
		p.program = Build(t)
	}
	return start(t, p)
}

func start(t testing.TB, p *Plugin) *Plugin {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("the plugin mounts, which needs root")
	}
	p.faults = filepath.Join(t.TempDir(), "faults")
	t.Cleanup(func() { p.remove(t) })
	p.Restart(t)
	return p
}

// Restart starts the plugin again, and ends it first if it runs.
func (p *Plugin) Restart(t testing.TB) {
	t.Helper()
	p.Kill()
	args := append([]string{"-root", p.Root, "-faults", p.faults}, p.flags...)
	if p.mock {
		args = nil
	}
	p.cmd = exec.Command(p.program, args...)
	p.cmd.Env = []string{"CSI_ENDPOINT=unix://" + p.socket()}
	p.cmd.Stdout, p.cmd.Stderr = os.Stdout, os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(patience)
	for {
		err := p.probe()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the plugin is not ready after %s: %v", patience, err)
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("the test ended before the plugin was ready")
		}
	}
}

// socket returns the path of the socket.
func (p *Plugin) socket() string { return filepath.Join(p.Dir, Socket) }

// probe calls the plugin once.
func (p *Plugin) probe() error {
	conn, err := grpc.NewClient("unix:"+p.socket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err = spec.NewIdentityClient(conn).Probe(ctx, &spec.ProbeRequest{})
	return err
}

// Faults replaces the faults of the plugin. See e2e/examplecsi/faults.go for the lines.
func (p *Plugin) Faults(t testing.TB, lines ...string) {
	t.Helper()
	if err := os.WriteFile(p.faults+".new", []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(p.faults+".new", p.faults); err != nil {
		t.Fatal(err)
	}
}

// Kill ends the process, if it runs.
func (p *Plugin) Kill() {
	if p.cmd == nil {
		return
	}
	p.cmd.Process.Kill() // it may have ended
	p.cmd.Wait()         // of a killed process, it returns an error
	p.cmd = nil
}

// Content returns the directory or file with the content of a volume in the storage system.
func (p *Plugin) Content(id string) string { return filepath.Join(p.Root, "volumes", id) }
