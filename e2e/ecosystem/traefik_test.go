// Package ecosystem tests unmodified clients of Nomad against an agent of this project. It is a module of its own,
// because these clients have many dependencies. It needs the program: NOMAD_BIN, or bin/nomad of the repository.
package ecosystem

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	nomadapi "github.com/hashicorp/nomad/api"
	ptypes "github.com/traefik/paerser/types"
	"github.com/traefik/traefik/v3/pkg/config/dynamic"
	"github.com/traefik/traefik/v3/pkg/provider"
	"github.com/traefik/traefik/v3/pkg/provider/nomad"
	"github.com/traefik/traefik/v3/pkg/safe"
)

// patience is how long the test waits for one event.
const patience = 90 * time.Second

// Traefik's provider finds a service and notices its end: by polling, and by the event stream.
func TestTraefik(t *testing.T) {
	c := agent(t)
	follows(t, c, func(t *testing.T, watch bool) func() *dynamic.HTTPConfiguration {
		return provide(t, c.Address(), watch)
	})
}

// follows checks that a provider of Traefik finds a service and notices its end.
func follows(t *testing.T, c *nomadapi.Client, provide func(t *testing.T, watch bool) func() *dynamic.HTTPConfiguration) {
	t.Helper()
	for name, watch := range map[string]bool{"polling": false, "watching": true} {
		t.Run(name, func(t *testing.T) {
			found := provide(t, watch)
			job := web()
			if _, _, err := c.Jobs().Register(job, nil); err != nil {
				t.Fatal(err)
			}
			var want string
			await(t, "the registration", func() bool {
				list, _, err := c.Services().Get("web", nil)
				if err != nil || len(list) != 1 {
					return false
				}
				want = fmt.Sprintf("http://%s", net.JoinHostPort(list[0].Address, fmt.Sprint(list[0].Port)))
				return true
			})
			await(t, "Traefik has the router and the server", func() bool {
				h := found()
				if h == nil || h.Routers["shop"] == nil || h.Services["web"] == nil || h.Services["web"].LoadBalancer == nil {
					return false
				}
				servers := h.Services["web"].LoadBalancer.Servers
				return h.Routers["shop"].Rule == "Host(`shop.example`)" && len(servers) == 1 && servers[0].URL == want
			})
			if _, _, err := c.Jobs().Deregister("web", true, nil); err != nil {
				t.Fatal(err)
			}
			await(t, "Traefik has neither", func() bool {
				h := found()
				return h != nil && h.Services["web"] == nil && h.Routers["shop"] == nil
			})
		})
	}
}

// web returns a job with a service that Traefik exposes.
func web() *nomadapi.Job {
	task := nomadapi.NewTask("t", "mock_driver").SetConfig("run_for", "1h")
	group := nomadapi.NewTaskGroup("g", 1).AddTask(task)
	group.Networks = []*nomadapi.NetworkResource{{DynamicPorts: []nomadapi.Port{{Label: "http"}}}}
	group.Services = []*nomadapi.Service{{Name: "web", Provider: "nomad", PortLabel: "http",
		Tags: []string{"traefik.enable=true", "traefik.http.routers.shop.rule=Host(`shop.example`)"}}}
	return nomadapi.NewServiceJob("web", "web", "global", 50).AddDatacenter("*").AddTaskGroup(group)
}

// provide runs Traefik's provider of Nomad. The result returns the latest configuration.
func provide(t *testing.T, address string, watch bool) func() *dynamic.HTTPConfiguration {
	t.Helper()
	var p nomad.Provider
	p.SetDefaults()
	p.Endpoint.Address, p.ExposedByDefault, p.Watch = address, false, watch
	p.RefreshInterval = ptypes.Duration(200 * time.Millisecond)
	return runProvider(t, &p)
}

// runProvider runs a provider of Traefik. The result returns the latest configuration.
func runProvider(t *testing.T, p provider.Provider) func() *dynamic.HTTPConfiguration {
	t.Helper()
	if err := p.Init(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	messages, latest := make(chan dynamic.Message), make(chan *dynamic.HTTPConfiguration, 1)
	pool := safe.NewPool(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
				return
			case m := <-messages:
				select {
				case <-latest: // an older one
				default:
				}
				latest <- m.Configuration.HTTP
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		pool.Stop()
		<-done
	})
	if err := p.Provide(messages, pool); err != nil {
		t.Fatal(err)
	}
	var last *dynamic.HTTPConfiguration
	return func() *dynamic.HTTPConfiguration {
		select {
		case last = <-latest:
		default:
		}
		return last
	}
}

// agent starts an agent in dev mode.
func agent(t *testing.T) *nomadapi.Client {
	t.Helper()
	c, _ := agentWithConsul(t)
	return c
}

// agentWithConsul starts an agent in dev mode that serves the Consul API at an address.
func agentWithConsul(t *testing.T) (c *nomadapi.Client, address string) {
	t.Helper()
	bin := os.Getenv("NOMAD_BIN")
	if bin == "" {
		bin = filepath.Join("..", "..", "bin", "nomad")
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "agent.hcl")
	ports := freePorts(t, 4)
	address = fmt.Sprintf("127.0.0.1:%d", ports[3])
	text := fmt.Sprintf("ports {\n  http = %d\n  rpc  = %d\n  serf = %d\n}\nclient {\n  consul_api {\n    address = %q\n  }\n}\n",
		ports[0], ports[1], ports[2], address)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "agent.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "agent", "-dev", "-config="+config)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the agent: %v (run make build, or set NOMAD_BIN)", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT) // it may have ended
		var exit *exec.ExitError
		if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
			t.Error(err)
		}
		if text, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("the agent's log:\n%s", text)
		}
	})
	c, err = nomadapi.NewClient(&nomadapi.Config{Address: fmt.Sprintf("http://127.0.0.1:%d", ports[0])})
	if err != nil {
		t.Fatal(err)
	}
	await(t, "a ready node", func() bool {
		nodes, _, err := c.Nodes().List(nil)
		return err == nil && len(nodes) == 1 && nodes[0].Status == nomadapi.NodeStatusReady
	})
	return c, address
}

// freePorts returns unused ports of the loopback address.
func freePorts(t *testing.T, n int) (out []int) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		out = append(out, l.Addr().(*net.TCPAddr).Port)
	}
	return out
}

// await waits until a condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for limit := time.After(patience); !holds(); {
		select {
		case <-ticker.C:
		case <-limit:
			t.Fatalf("not within %s: %s", patience, what)
		}
	}
}
