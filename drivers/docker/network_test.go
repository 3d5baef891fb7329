package docker_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/testpace"
)

// The tasks of a group share the network namespace of a container that does nothing.
func TestGroupNetwork(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	cfg := f.task(shell("readlink /proc/self/ns/net; ls /sys/class/net"))
	n, err := f.CreateNetwork(t.Context(), cfg.AllocID, "web-host")
	if err != nil {
		t.Fatal(err)
	}
	again, err := f.CreateNetwork(t.Context(), cfg.AllocID, "web-host")
	if err != nil || again.Path != n.Path || again.Labels["docker_sandbox_container_id"] != n.Labels["docker_sandbox_container_id"] {
		t.Errorf("CreateNetwork() again = %+v, %v, want %+v", again, err, n)
	}
	if n.Labels["docker_sandbox_hostname"] != "web-host" {
		t.Errorf("labels = %v", n.Labels)
	}
	var st unix.Stat_t
	if err := unix.Stat(n.Path, &st); err != nil {
		t.Fatal(err)
	}
	cfg.NetNS = n.Path
	if _, err := f.StartTask(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "was not created by the driver") {
		t.Errorf("StartTask() in a network of others = %v", err)
	}
	cfg.NetLabels = n.Labels
	f.start(cfg)
	f.wait(cfg.ID)
	if out, errs := f.output(cfg); !strings.Contains(out, "net:["+strconv.FormatUint(st.Ino, 10)+"]\nlo\n") {
		t.Errorf("output = %q, %q, want the namespace %d", out, errs, st.Ino)
	}
	if list, err := f.ListTasks(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("ListTasks() = %v, %v, want the task only", list, err)
	}
	own := f.task(shell("true", block{"dns_servers": []any{"192.0.2.1"}}))
	own.NetNS, own.NetLabels = n.Path, n.Labels
	if _, err := f.StartTask(t.Context(), own); err == nil || !strings.Contains(err.Error(), "need a network of the task's own") {
		t.Errorf("StartTask() with dns_servers in the group's network = %v", err)
	}
	if err := f.DestroyNetwork(t.Context(), "another-alloc", n); err == nil {
		t.Error("DestroyNetwork() of another allocation = nil")
	}
	for range 2 {
		if err := f.DestroyNetwork(t.Context(), cfg.AllocID, nil); err != nil {
			t.Error(err)
		}
	}
}

// Containers of the instance without a task are removed after a time; those of others stay.
func TestDangling(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.ShortenDangling(100*time.Millisecond, 3*time.Second)
	lost, kept := f.task(shell("sleep 1000")), f.task(shell("sleep 1000"))
	network, err := f.CreateNetwork(t.Context(), kept.AllocID, "")
	if err != nil {
		t.Fatal(err)
	}
	f.start(lost)
	other := f.open("docker-other", f.config)
	foreign := f.task(shell("sleep 1000"))
	if _, err := other.StartTask(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	f.Abandon()
	f.start(kept)
	prints := f.Fingerprint(t.Context())
	go func() {
		for range prints {
		}
	}()
	names := func() (out []string) {
		list, err := f.daemon.API.ContainerList(t.Context(), client.ContainerListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range list.Items {
			out = append(out, c.Names...)
		}
		return out
	}
	testpace.Until(t, "the removal of the lost container", func() bool { return !strings.Contains(strings.Join(names(), " "), lost.AllocID) })
	if got := strings.Join(names(), " "); !strings.Contains(got, "web-"+kept.AllocID) || !strings.Contains(got, "web-"+foreign.AllocID) ||
		!strings.Contains(got, "nomad_init_"+kept.AllocID) {
		t.Errorf("containers = %s", got)
	}
	if err := f.DestroyNetwork(t.Context(), kept.AllocID, network); err != nil {
		t.Error(err)
	}
}
