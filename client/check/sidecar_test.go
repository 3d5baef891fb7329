package check_test

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/client/check"
	clientconsul "github.com/open-nomad/open-nomad/client/consul"
	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/internal/consul/reconcile"
	"github.com/open-nomad/open-nomad/internal/testconsul"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/connect"
	"github.com/open-nomad/open-nomad/nomad/message"
)

const sidecarAlloc = "5f8c9a3e-1d2b-4c6a-9e7f-0a1b2c3d4e5f"

// withSidecar returns a group with a service whose sidecar listens at a port of this host.
func withSidecar(port int, s *connect.SidecarService) service.Workload {
	tg := &nomad.TaskGroup{Name: "g", Services: []*nomad.Service{{Name: "web", PortLabel: "80", OnUpdate: "ignore",
		Connect: &nomad.ConsulConnect{SidecarService: s}, Checks: []*nomad.ServiceCheck{{Name: "up", Type: "script", Command: "x", Interval: time.Minute,
			Timeout: time.Second, InitialStatus: "passing", CheckRestart: &nomad.CheckRestart{Limit: 1}}}}}}
	a := &nomad.Allocation{ID: sidecarAlloc, JobID: "web", TaskGroup: "g", Name: "web.g[0]",
		Job: &nomad.Job{ID: "web", TaskGroups: []*nomad.TaskGroup{tg}}, AllocatedResources: &nomad.AllocatedResources{
			Shared: nomad.AllocatedSharedResources{Networks: nomad.Networks{{IP: "127.0.0.1"}},
				Ports: nomad.AllocatedPorts{{Label: "connect-proxy-web", Value: port, HostIP: "127.0.0.1"}}}}}
	return service.OfGroup(a, &nomad.Node{ID: "n1"}, "global", nil)
}

// TestConsul_Sidecar checks that the checks of a sidecar have the status that Consul has for them, and restart no task.
func TestConsul_Sidecar(t *testing.T) {
	for name, tc := range map[string]struct {
		sidecar connect.SidecarService
		listens bool
		want    []message.CheckStatus // of the service and its sidecar
	}{
		"listening":     {connect.SidecarService{}, true, []message.CheckStatus{"success", "success", "success"}},
		"not listening": {connect.SidecarService{}, false, []message.CheckStatus{"success", "success", "failure"}},
		"one check":     {connect.SidecarService{DisableDefaultTCPCheck: true}, false, []message.CheckStatus{"success", "success"}},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			w := withSidecar(l.Addr().(*net.TCPAddr).Port, &tc.sidecar)
			if !tc.listens {
				l.Close()
			}
			a := testconsul.Start(t, testconsul.Config{Manual: true})
			agent, err := consul.New(consul.Settings{HTTP: api.Config{Address: a.Addr()}, Timeout: 5 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			r := reconcile.New(reconcile.Config{Agent: agent})
			set := check.New(check.Config{Store: &store{kept: map[string]message.CheckStatus{}}, Consul: r, Log: slog.New(slog.DiscardHandler)}, nil)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{}, 2)
			go func() { _ = r.Run(ctx); ended <- struct{}{} }() // returns the error of ctx
			go func() { set.Watch(ctx, sidecarAlloc, ""); ended <- struct{}{} }()
			defer func() { cancel(); <-ended; <-ended }()

			targets := check.Targets(&w)
			set.Observe(sidecarAlloc, targets)
			services, err := clientconsul.Services(&w, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Set(service.Owner(sidecarAlloc, w.Name()), services)
			testpace.Until(t, "the sidecar is registered", func() bool { return len(a.Services()) == 2 })
			a.Advance(11 * time.Second)
			testpace.Until(t, "Consul has reported the checks", func() bool {
				states := set.States(sidecarAlloc)
				for i, one := range states {
					if i >= len(tc.want) || one.Result.Status != tc.want[i] || one.Target.Mode == message.Readiness && i > 0 {
						return false
					}
				}
				return len(states) == len(tc.want)
			})
			var restarts check.Restarts
			restarts.Watch("", targets[1:], time.Now())
			if due := restarts.Poll(set.Results(sidecarAlloc), time.Now().Add(time.Hour)); len(due) > 0 {
				t.Errorf("restarts %v, want none", due)
			}
		})
	}
}
