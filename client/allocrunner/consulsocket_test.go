package allocrunner_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/client/allochook"
	"github.com/open-nomad/open-nomad/client/allocrunner"
	"github.com/open-nomad/open-nomad/client/connect"
	"github.com/open-nomad/open-nomad/internal/connlimit"
	"github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/internal/consul/reconcile"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
	mesh "github.com/open-nomad/open-nomad/nomad/connect"
)

// bridged connects every namespace.
type bridged struct{ allochook.Connections }

func (bridged) Connect(context.Context, *nomad.Allocation, *nomad.NetworkResource, string) (*nomad.AllocNetworkStatus, error) {
	return &nomad.AllocNetworkStatus{InterfaceName: "eth0", Address: "192.0.2.2"}, nil
}

func (bridged) Disconnect(context.Context, string) error { return nil }

// answering returns the address of a server that writes a text to each connection and ends it.
func answering(t *testing.T, text string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, text) // the reader fails the test
			c.Close()
		}
	}()
	return l.Addr().String()
}

// readSocket returns what a socket in alloc/tmp answers. The path may be longer than the address of a socket.
func readSocket(dir, name string) (string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return "", err
	}
	defer d.Close()
	c, err := net.Dial("unix", filepath.Join("/proc/self/fd", strconv.Itoa(int(d.Fd())), name))
	if err != nil {
		return "", err
	}
	defer c.Close()
	text, err := io.ReadAll(c)
	return string(text), err
}

// meshed returns a world with Consul, and an allocation on the bridge whose service has a connect block.
func meshed(t *testing.T, c *nomad.ConsulConnect) (*world, *nomad.Allocation) {
	t.Helper()
	w, _, starts := networked(t)
	go func() {
		for range starts {
		}
	}()
	t.Cleanup(func() { close(starts) })
	agent, err := consul.New(consul.Settings{GRPCAddress: answering(t, "grpc"), HTTP: api.Config{Address: answering(t, "http")}})
	if err != nil {
		t.Fatal(err)
	}
	w.connect, w.consul = bridged{}, &inConsul{services: map[string][]*reconcile.Service{}}
	w.mesh = &connect.Node{Agent: agent, Limit: connlimit.New(connect.SocketConns, 100), Attribute: func(string) string { return "" }}
	alloc := allocation(nomad.JobTypeBatch, mockTask("web", lasts("1h")))
	alloc.AllocatedResources.Shared.Ports = nomad.AllocatedPorts{{Label: "connect-proxy-web", Value: 23000, HostIP: "192.0.2.1"},
		{Label: "connect-mesh-web-lan", Value: 23001, HostIP: "192.0.2.1"}}
	alloc.Job.TaskGroups[0].Networks = nomad.Networks{{Mode: nomad.NetworkModeBridge}}
	alloc.Job.TaskGroups[0].Services = []*nomad.Service{{Name: "web", Provider: nomad.ServiceProviderConsul, Connect: c, PortLabel: "9090"}}
	return w, alloc
}

// begin runs an allocation until its task runs.
func begin(ctx context.Context, t *testing.T, r *allocrunner.Runner) chan error {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	testpace.Until(t, "the task runs", func() bool {
		s := r.State()
		if s.ClientStatus == nomad.AllocClientStatusFailed {
			t.Fatalf("the allocation is %+v", s)
		}
		return s.ClientStatus == nomad.AllocClientStatusRunning
	})
	return ended
}

// TestConsulSockets checks which socket each kind of service gets, that it returns after a restart of the agent, whatever
// a task put in its place meanwhile, and that it ends with the allocation.
func TestConsulSockets(t *testing.T) {
	for name, tc := range map[string]struct {
		connect              nomad.ConsulConnect
		socket, want, absent string
	}{
		"sidecar": {nomad.ConsulConnect{SidecarService: &mesh.SidecarService{}}, connect.GRPCSocket, "grpc", connect.HTTPSocket},
		"gateway": {nomad.ConsulConnect{Gateway: &mesh.Gateway{Mesh: &mesh.MeshConfigEntry{}}}, connect.GRPCSocket, "grpc", connect.HTTPSocket},
		"native":  {nomad.ConsulConnect{Native: true}, connect.HTTPSocket, "http", connect.GRPCSocket},
	} {
		t.Run(name, func(t *testing.T) {
			w, alloc := meshed(t, &tc.connect)
			dir := filepath.Join(w.dir, "alloc", alloc.ID, "alloc/tmp")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := begin(ctx, t, w.runner(alloc))
			if got, err := readSocket(dir, tc.socket); err != nil || got != tc.want {
				t.Errorf("%s answers %q, %v, want %q", tc.socket, got, err, tc.want)
			}
			if _, err := os.Lstat(filepath.Join(dir, tc.absent)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: %v, want that it does not exist", tc.absent, err)
			}
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			if err := os.MkdirAll(filepath.Join(dir, tc.socket, "planted"), 0o700); err != nil {
				t.Fatal(err)
			}
			second := w.agent().runner(alloc)
			if err := second.Restore(); err != nil {
				t.Fatal(err)
			}
			ended = begin(t.Context(), t, second)
			testpace.Until(t, "the socket answers after the restart of the agent", func() bool {
				got, err := readSocket(dir, tc.socket)
				return err == nil && got == tc.want
			})
			if err := second.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(filepath.Join(dir, tc.socket)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("after the end of the allocation: %v, want that the socket does not exist", err)
			}
		})
	}
}

// TestConsulSockets_Fault checks what fails an allocation before its first start only: its tasks run on without a socket.
func TestConsulSockets_Fault(t *testing.T) {
	w, alloc := meshed(t, &nomad.ConsulConnect{Native: true})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := begin(ctx, t, w.runner(alloc))
	cancel()
	<-ended
	next := w.agent()
	next.mesh = nil // the operator removed the consul block
	second := next.runner(alloc)
	if err := second.Restore(); err != nil {
		t.Fatal(err)
	}
	ended = begin(t.Context(), t, second)
	if err := second.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-ended
	_, fresh := meshed(t, &nomad.ConsulConnect{Native: true})
	got := next.run(fresh)
	if got.ClientStatus != nomad.AllocClientStatusFailed || got.TaskStates["web"] == nil {
		t.Fatalf("a client without Consul: status %s", got.ClientStatus)
	}
}

// TestTransparentProxy checks that a client refuses what it does not set up.
func TestTransparentProxy(t *testing.T) {
	w, alloc := meshed(t, &nomad.ConsulConnect{SidecarService: &mesh.SidecarService{Proxy: &mesh.Proxy{TransparentProxy: &mesh.TransparentProxy{}}}})
	got := w.run(alloc)
	if got.ClientStatus != nomad.AllocClientStatusFailed || !strings.Contains(got.ClientDescription, "consul-cni") {
		t.Errorf("status %s, %s", got.ClientStatus, got.ClientDescription)
	}
}
