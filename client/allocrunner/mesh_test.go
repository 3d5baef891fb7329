package allocrunner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/client/connect"
	"github.com/open-nomad/open-nomad/client/netns"
	"github.com/open-nomad/open-nomad/drivers/exec2"
	"github.com/open-nomad/open-nomad/drivers/rawexec"
	"github.com/open-nomad/open-nomad/internal/connlimit"
	"github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/internal/consul/reconcile"
	"github.com/open-nomad/open-nomad/internal/testconsul"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
	mesh "github.com/open-nomad/open-nomad/nomad/connect"
)

// standIn puts a stand-in of the program consul into the PATH.
func standIn(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "consul")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { // tasks have other users
		t.Fatal(err)
	}
	cmd := osexec.Command("go", "build", "-o", filepath.Join(dir, "consul"), "./testdata/consul")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the stand-in: %v: %s", err, out)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// meshWorld returns a world with real processes, namespaces and a stand-in of Consul.
func meshWorld(t *testing.T) (*world, *testconsul.Agent) {
	t.Helper()
	if !netns.Possible() {
		t.Skip("needs root: network namespaces")
	}
	standIn(t)
	w := processes(t)
	spacesDir := t.TempDir()
	set := netns.New(spacesDir)
	t.Cleanup(func() {
		if err := set.Sweep(func(string) bool { return false }); err != nil {
			t.Error(err)
		}
	})
	a := testconsul.Start(t, testconsul.Config{Manual: true})
	agent, err := consul.New(consul.Settings{Name: consul.DefaultCluster, HTTP: api.Config{Address: a.Addr()}, Timeout: 5 * time.Second,
		GRPCAddress: answering(t, "grpc")})
	if err != nil {
		t.Fatal(err)
	}
	r := reconcile.New(reconcile.Config{Agent: agent, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	w.nets, w.connect, w.consul = spaces{set}, bridged{}, r
	w.mesh = &connect.Node{Agent: agent, Limit: connlimit.New(connect.SocketConns, 100), Attribute: func(string) string { return "" }}
	return w, a
}

// proxied returns an allocation with a proxy that keeps its first configuration in the shared directory.
func proxied(driver, kind, mode string, c *nomad.ConsulConnect) *nomad.Allocation {
	task := script("proxy", driver, `cat $NOMAD_SECRETS_DIR/envoy_bootstrap.json > $NOMAD_ALLOC_DIR/data/boot; exec sleep 600`)
	task.Kind = nomad.TaskKind(kind + ":web")
	alloc := sized(allocation(nomad.JobTypeService, task))
	alloc.AllocatedResources.Shared.Ports = nomad.AllocatedPorts{{Label: "connect-proxy-web", Value: 23000, HostIP: "192.0.2.1"}}
	group := alloc.Job.TaskGroups[0]
	group.Networks = nomad.Networks{{Mode: mode}}
	group.Services = []*nomad.Service{{Name: "web", Provider: nomad.ServiceProviderConsul, Connect: c, PortLabel: "9090"}}
	return alloc
}

// TestMesh runs a sidecar and a gateway of two drivers through a start, a restart of the agent and a stop. At the end,
// nothing remains in Consul or in the directories.
func TestMesh(t *testing.T) {
	w, a := meshWorld(t)
	for name, tc := range map[string]struct {
		driver, kind, mode string
		connect            nomad.ConsulConnect
		want               map[string]any
	}{
		"sidecar": {exec2.Name, "connect-proxy", "bridge", nomad.ConsulConnect{SidecarService: &mesh.SidecarService{}},
			map[string]any{"kind": "connect-proxy", "gateway": "", "admin": "127.0.0.2:19000", "ready": "127.0.0.1:19100"}},
		"gateway": {rawexec.Name, "connect-ingress", "host", nomad.ConsulConnect{Gateway: &mesh.Gateway{Ingress: &mesh.IngressConfigEntry{}}},
			map[string]any{"kind": "ingress-gateway", "gateway": "ingress", "grpc": w.mesh.GRPCAddress()}},
	} {
		t.Run(name, func(t *testing.T) {
			alloc := proxied(tc.driver, tc.kind, tc.mode, &tc.connect)
			id := "_nomad-task-" + alloc.ID + "-group-group-web-9090"
			if name == "sidecar" {
				id += "-sidecar-proxy"
			}
			tc.want["id"], tc.want["token"], tc.want["reads shadow"] = id, "", false
			first := w.withProcesses()
			started := first.runner(alloc)
			end := first.background(started)
			var boot map[string]any
			testpace.Until(t, "the proxy has its configuration", func() bool {
				if s := started.State(); s.ClientStatus == nomad.AllocClientStatusFailed {
					for _, e := range started.States()["proxy"].Events {
						t.Logf("%+v", e)
					}
					t.Fatalf("the allocation failed: %s", s.ClientDescription)
				}
				return json.Unmarshal([]byte(w.read(alloc, "alloc/data/boot")), &boot) == nil
			})
			for key, want := range tc.want {
				if boot[key] != want {
					t.Errorf("%s of the configuration is %v, want %v", key, boot[key], want)
				}
			}
			if tc.driver == exec2.Name && boot["uid"] == 0.0 {
				t.Error("the program consul ran as root")
			}
			if name == "sidecar" && !strings.HasSuffix(fmt.Sprint(boot["grpc"]), "/alloc/tmp/consul_grpc.sock") {
				t.Errorf("gRPC is at %v", boot["grpc"])
			}
			if text := w.read(alloc, "alloc/logs/envoy_bootstrap.stderr.0"); text != "made with the token \n" {
				t.Errorf("log of the program: %q", text)
			}
			if _, err := os.Lstat(filepath.Join(w.dir, "alloc", alloc.ID, "proxy/secrets/.consul_bootstrap.sock")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the socket of the program: %v, want that it does not exist", err)
			}
			before := a.IDs()
			end()
			second := first.withProcesses()
			r := second.runner(alloc)
			if err := r.Restore(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- r.Run(t.Context()) }()
			r.AwaitRecovery(t.Context())
			if got := a.IDs(); !slices.Equal(got, before) {
				t.Errorf("after the restart of the agent, Consul has %q, want %q", got, before)
			}
			if err := r.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
			testpace.Until(t, "Consul has no service", func() bool { return len(a.IDs()) == 0 })
			if err := r.Destroy(t.Context()); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(filepath.Join(w.dir, "alloc", alloc.ID)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the directory: %v, want that it does not exist", err)
			}
		})
	}
}

// read returns the content of a file of an allocation, "" if there is none.
func (w *world) read(alloc *nomad.Allocation, name string) string {
	text, _ := os.ReadFile(filepath.Join(w.dir, "alloc", alloc.ID, name)) // the caller waits for it
	return string(text)
}
