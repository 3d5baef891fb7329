package docker_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/cgroup"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// A port on which a program of the node listens is not published, over TCP and UDP, and the error names the program.
func TestPublishedPortOfNode(t *testing.T) {
	f := newBridged(t)
	start := func() error {
		cfg := f.task(shell(hello(80, "web"), block{"ports": []any{"http"}}))
		cfg.Ports = []drivers.Port{{Label: "http", Value: 20011, To: 80, HostIP: nodeIP}}
		_, err := f.StartTask(t.Context(), cfg)
		if err == nil {
			err = f.DestroyTask(cfg.ID, true)
		}
		return err
	}
	for _, open := range []func() (interface{ Close() error }, error){
		func() (interface{ Close() error }, error) { return net.Listen("tcp4", "0.0.0.0:20011") },
		func() (interface{ Close() error }, error) { return net.Listen("tcp", "[::]:20011") },
		func() (interface{ Close() error }, error) { return net.ListenPacket("udp4", nodeIP+":20011") },
	} {
		l, err := open()
		if err != nil {
			t.Fatal(err)
		}
		if err := start(); err == nil || !strings.Contains(err.Error(), "port 20011") ||
			!strings.Contains(err.Error(), fmt.Sprintf("(process %d) listens on", os.Getpid())) {
			t.Errorf("StartTask() = %v", err)
		}
		l.Close()
	}
	if err := start(); err != nil {
		t.Errorf("StartTask() with a free port = %v", err)
	}
}

// The process of a container is in the container's network namespace, and its control group holds nothing else.
func TestTaskProcess(t *testing.T) {
	f := newBridged(t)
	cfg := f.task(shell("sleep 1000 & sleep 1001", nil))
	f.start(cfg)
	pid, err := f.TaskProcess(t.Context(), cfg.ID)
	if err != nil {
		t.Fatal(err)
	}
	own, _ := os.Readlink("/proc/self/ns/net")
	if ns, err := os.Readlink(filepath.Join("/proc", fmt.Sprint(pid), "ns/net")); err != nil || ns == own {
		t.Errorf("namespace of process %d = %s, %v, of the agent %s", pid, ns, err, own)
	}
	tree, err := cgroup.Detect()
	if err != nil {
		t.Fatal(err)
	}
	pids, err := tree.Processes(pid)
	if err != nil || !slices.Contains(pids, pid) || slices.Contains(pids, os.Getpid()) || len(pids) > 4 {
		t.Errorf("Processes() = %v, %v", pids, err)
	}
	if err := f.DestroyTask(cfg.ID, true); err != nil {
		t.Fatal(err)
	}
	if pid, err := f.TaskProcess(t.Context(), cfg.ID); err == nil {
		t.Errorf("TaskProcess() after the end = %d", pid)
	}
}
