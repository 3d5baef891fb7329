// Package clienttest runs a client in tests: a node with mock tasks (node.go), and a server for it that behaves as the real
// ones do (server.go). Only tests import it.
package clienttest

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client"
	"github.com/open-nomad/open-nomad/client/allocs"
	"github.com/open-nomad/open-nomad/client/fingerprint"
	"github.com/open-nomad/open-nomad/drivers/mock"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Node is a client under test.
type Node struct {
	*client.Client
	Cfg client.Config
	// Stop ends the agent. It may be called more than once.
	Stop func() error
}

// Config returns the configuration of a node with its files in dir.
func Config(dir string, servers ...string) client.Config {
	return client.Config{
		Region: "global", Datacenter: "dc1", Name: "n1", NodePool: "default",
		StateDir: filepath.Join(dir, "client"), AllocDir: filepath.Join(dir, "alloc"), Servers: servers,
		Fingerprint:    fingerprint.Config{Version: "2.0.6", AllocDir: dir, Loopback: true},
		DynamicUserMin: 80000, DynamicUserMax: 89999,
		GC: allocs.GCConfig{Interval: time.Hour, ParallelDestroys: 2, MaxAllocs: 50, DiskPercent: 101, InodePercent: 101},
	}
}

// Dir returns a directory for a node. Mounts that the node leaves behind are unmounted at
// the end.
func Dir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() {
		mounts, err := os.ReadFile("/proc/self/mounts")
		if err != nil {
			t.Error(err)
		}
		for line := range strings.Lines(string(mounts)) {
			if at := strings.Fields(line)[1]; strings.HasPrefix(at, dir+"/") {
				if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
					t.Errorf("unmount %s: %v", at, err)
				}
			}
		}
	})
	return dir
}

// Log returns a log that is discarded, except with -v.
func Log() *slog.Logger {
	if testing.Verbose() {
		return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return slog.New(slog.DiscardHandler)
}

// Start runs a client until the test ends or stop is called.
func Start(t *testing.T, cfg client.Config) *Node {
	t.Helper()
	return StartWith(t, cfg, Echo{mock.New(mock.Name, Log())})
}

// StartWith is like Start, with other drivers.
func StartWith(t *testing.T, cfg client.Config, list ...drivers.Driver) *Node {
	t.Helper()
	c, err := client.New(cfg, client.Parts{Drivers: list, Log: Log()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	n := &Node{Client: c, Cfg: cfg}
	n.Stop = func() error {
		cancel()
		err := <-ended
		ended <- nil
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	}
	t.Cleanup(func() {
		if err := n.Stop(); err != nil {
			t.Errorf("Run() = %v", err)
		}
	})
	return n
}

// Alloc returns an allocation with one mock task.
func Alloc(taskConfig map[string]any) *nomad.Allocation {
	task := &nomad.Task{
		Name: "main", Driver: mock.Name, Config: taskConfig, KillTimeout: time.Second,
		Resources: &nomad.Resources{CPU: 100, MemoryMB: 16}, LogConfig: &nomad.LogConfig{MaxFiles: 1, MaxFileSizeMB: 1},
		RestartPolicy: &nomad.RestartPolicy{Mode: nomad.RestartPolicyModeFail},
	}
	group := &nomad.TaskGroup{Name: "g", Count: 1, Tasks: []*nomad.Task{task},
		RestartPolicy: &nomad.RestartPolicy{Mode: nomad.RestartPolicyModeFail}, EphemeralDisk: &nomad.EphemeralDisk{SizeMB: 1}}
	return &nomad.Allocation{
		ID: nomad.NewID(), NodeID: "n", Namespace: "default", JobID: "j", TaskGroup: "g", Name: "j.g[0]",
		Job: &nomad.Job{ID: "j", Name: "j", Namespace: "default", Type: "batch", Region: "global",
			TaskGroups: []*nomad.TaskGroup{group}},
		DesiredStatus: nomad.AllocDesiredStatusRun, ClientStatus: nomad.AllocClientStatusPending,
		AllocatedResources: &nomad.AllocatedResources{Tasks: map[string]*nomad.AllocatedTaskResources{
			"main": {Cpu: nomad.AllocatedCpuResources{CpuShares: 100}, Memory: nomad.AllocatedMemoryResources{MemoryMB: 16}},
		}},
	}
}

// Claims returns the claims of the node's token.
func (n *Node) Claims(t *testing.T) map[string]any {
	t.Helper()
	var resp message.NodeIdentityGetResp
	if err := n.RPC().Call(t.Context(), "NodeIdentity.Get", &message.NodeIdentityGetReq{}, &resp); err != nil {
		t.Fatal(err)
	}
	return resp.Claims
}

// Code returns the status code of an error, or 0.
func Code(err error) int {
	var coded *apierror.Coded
	if errors.As(err, &coded) {
		return coded.Code
	}
	return 0
}
