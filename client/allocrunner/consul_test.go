package allocrunner_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/client/check"
	clientconnect "github.com/open-nomad/open-nomad/client/connect"
	"github.com/open-nomad/open-nomad/drivers/mock"
	"github.com/open-nomad/open-nomad/internal/consul/reconcile"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/connect"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// inConsul is a Reconciler whose Consul answers at once, or never.
type inConsul struct {
	mu       sync.Mutex
	services map[string][]*reconcile.Service // by owner
	statuses map[string]reconcile.Status
	watches  map[string]func([]reconcile.Status)
	hang     bool
	stops    []string // what was registered at each stop of a task
}

func (c *inConsul) Set(owner string, services []*reconcile.Service) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.services[owner] = services
}

func (c *inConsul) Remove(ctx context.Context, owner string) bool {
	c.mu.Lock()
	n, hang := len(c.services[owner]), c.hang
	c.mu.Unlock()
	c.Drop(owner)
	if n > 0 && hang {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
		return false
	}
	return true
}

func (c *inConsul) Drop(owner string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.services, owner)
}

func (c *inConsul) Watch(owner string, changed func([]reconcile.Status)) func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watches[owner] = changed
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.watches, owner)
	}
}

// Update reports the status to all watchers, as after the next list.
func (c *inConsul) Update(s reconcile.Status) {
	c.mu.Lock()
	c.statuses[s.CheckID] = s
	var all []reconcile.Status
	for _, one := range c.statuses {
		all = append(all, one)
	}
	var calls []func([]reconcile.Status)
	for _, changed := range c.watches {
		calls = append(calls, changed)
	}
	c.mu.Unlock()
	for _, changed := range calls {
		changed(all)
	}
}

// checkID returns the ID of the only check that is registered.
func (c *inConsul) checkID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, list := range c.services {
		for _, s := range list {
			for _, k := range s.Registration.Checks {
				return k.CheckID
			}
		}
	}
	return ""
}

// serviceID returns the ID of a service.
func (c *inConsul) serviceID(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, list := range c.services {
		for _, s := range list {
			if s.Registration.Name == name {
				return s.Registration.ID
			}
		}
	}
	return ""
}

// names returns the names of the services with their tags.
func (c *inConsul) names() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.list()
}

func (c *inConsul) list() string {
	var out []string
	for _, list := range c.services {
		for _, s := range list {
			out = append(out, strings.Join(append([]string{s.Registration.Name}, s.Registration.Tags...), "+"))
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// stopped is a driver that records what Consul has at each stop.
type stopped struct {
	*probed
	consul *inConsul
}

func (d stopped) StopTask(ctx context.Context, id string, timeout time.Duration, signal string) error {
	d.consul.mu.Lock()
	d.consul.stops = append(d.consul.stops, d.consul.list())
	d.consul.mu.Unlock()
	return d.probed.StopTask(ctx, id, timeout, signal)
}

// withConsul runs a test with a Consul in a synctest bubble.
func withConsul(t *testing.T, test func(t *testing.T, s *served, c *inConsul)) {
	t.Helper()
	inBubble(t, func(t *testing.T, s *served) {
		c := &inConsul{services: map[string][]*reconcile.Service{}, statuses: map[string]reconcile.Status{},
			watches: map[string]func([]reconcile.Status){}}
		s.driver = func(d *mock.Driver) drivers.Driver {
			return stopped{&probed{d, s.catalog, &s.code, &s.mu, &s.stops}, c}
		}
		s.consul = c
		s.checks = check.New(check.Config{Store: s.db, Consul: c, Log: slog.New(slog.DiscardHandler)}, nil)
		s.world = s.agent()
		test(t, s, c)
	})
}

// consulOffering is offering with provider consul.
func consulOffering(checks ...*nomad.ServiceCheck) *nomad.Allocation {
	alloc := offering(checks...)
	group := alloc.Job.TaskGroups[0]
	group.Services[0].Provider, group.Tasks[0].Services[0].Provider = "consul", ""
	return alloc
}

// TestConsul_Stop checks that the services are removed before the signal, also while Consul hangs, which delays a stop
// by one second for each level and a start not at all.
func TestConsul_Stop(t *testing.T) {
	for name, tc := range map[string]struct {
		hang bool
		took time.Duration
	}{"answers": {false, 0}, "hangs": {true, 2 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			withConsul(t, func(t *testing.T, s *served, c *inConsul) {
				c.hang = tc.hang
				alloc := consulOffering()
				start := time.Now()
				r, _, ended := s.started(alloc)
				if st := r.States()["main"].State; st != nomad.TaskStateRunning || time.Since(start) != 0 {
					t.Errorf("task %s after %v, want it to run at once", st, time.Since(start))
				}
				if got := c.names(); got != "group+blue task" || s.catalog.names() != "" {
					t.Errorf("Consul has %q, and the servers %q", got, s.catalog.names())
				}
				start = time.Now()
				r.Update(stopping(alloc))
				<-ended
				if took := time.Since(start); took != tc.took {
					t.Errorf("the stop took %v, want %v", took, tc.took)
				}
				if len(c.stops) != 1 || c.stops[0] != "" {
					t.Errorf("registered at the signal: %q", c.stops)
				}
			})
		})
	}
}

// TestConsul_Update checks updates in place of tags and of the provider, and a restart of the task.
func TestConsul_Update(t *testing.T) {
	withConsul(t, func(t *testing.T, s *served, c *inConsul) {
		alloc := consulOffering()
		r, _, ended := s.started(alloc)
		want := func(when, consul, native string) {
			t.Helper()
			time.Sleep(5 * latency)
			if got := c.names(); got != consul || s.catalog.names() != native {
				t.Errorf("%s: Consul has %q, the servers %q; want %q and %q", when, got, s.catalog.names(), consul, native)
			}
		}
		update := func(edit func(group, task *nomad.Service)) {
			alloc = codec.Copy(alloc)
			edit(alloc.Job.TaskGroups[0].Services[0], alloc.Job.TaskGroups[0].Tasks[0].Services[0])
			r.Update(alloc)
		}
		update(func(group, _ *nomad.Service) { group.Tags = []string{"green"} })
		want("tags", "group+green task", "")
		update(func(group, task *nomad.Service) { group.Provider, task.Provider = "nomad", "nomad" })
		want("native", "", "group+green task")
		update(func(group, task *nomad.Service) { group.Provider, task.Provider = "consul", "consul" })
		want("Consul again", "group+green task", "")
		if err := r.Restart(t.Context(), "main"); err != nil {
			t.Fatal(err)
		}
		want("restart", "group+green task", "")
		if len(c.stops) != 1 || c.stops[0] != "group+green" {
			t.Errorf("registered at the signal of the restart: %q", c.stops)
		}
		r.Update(stopping(alloc))
		<-ended
	})
}

// TestConsul_CheckRestart checks that a script is run in the task, and that its status in Consul restarts the task.
func TestConsul_CheckRestart(t *testing.T) {
	withConsul(t, func(t *testing.T, s *served, c *inConsul) {
		alloc := consulOffering(&nomad.ServiceCheck{Name: "s", Type: "script", Command: "x", Interval: 10 * time.Second, Timeout: time.Second,
			CheckRestart: &nomad.CheckRestart{Limit: 1, Grace: time.Second}})
		r, _, ended := s.started(alloc)
		time.Sleep(2 * time.Second) // the grace
		if got := c.statuses[c.checkID()].Status; got != api.HealthPassing {
			t.Errorf("Consul got status %q", got)
		}
		c.Update(reconcile.Status{CheckID: c.checkID(), Status: api.HealthCritical})
		time.Sleep(time.Minute)
		if st := r.States()["main"]; !hasEvent(st, nomad.TaskRestartSignal) {
			t.Errorf("events %v, want a restart", types(st))
		}
		<-ended
	})
}

// TestConsul_Health checks that a deployment waits until Consul reports the checks, and what on_update changes. The checks of
// a sidecar must be passing.
func TestConsul_Health(t *testing.T) {
	for name, tc := range map[string]struct {
		onUpdate, status string // "" if Consul never reports the check
		verdict          string
		within           time.Duration
		sidecar          string // the status of the checks of a sidecar, "" without one
	}{
		"passing":          {"", api.HealthPassing, "healthy", 16 * time.Second, ""}, // reported after 5 s, then 10 s
		"warning":          {"", api.HealthWarning, "unhealthy", time.Minute, ""},
		"ignored warning":  {"ignore_warnings", api.HealthWarning, "healthy", 16 * time.Second, ""},
		"critical":         {"ignore_warnings", api.HealthCritical, "unhealthy", time.Minute, ""},
		"ignored critical": {"ignore", api.HealthCritical, "healthy", 16 * time.Second, ""},
		"sidecar passing":  {"", api.HealthPassing, "healthy", 16 * time.Second, api.HealthPassing},
		"sidecar warning":  {"ignore_warnings", api.HealthPassing, "unhealthy", time.Minute, api.HealthWarning},
		"sidecar critical": {"ignore", api.HealthPassing, "unhealthy", time.Minute, api.HealthCritical},
		"sidecar missing":  {"ignore", api.HealthPassing, "unhealthy", time.Minute, "missing"},
		"not reported":     {"ignore", "", "unhealthy", time.Minute, ""},
	} {
		t.Run(name, func(t *testing.T) {
			withConsul(t, func(t *testing.T, s *served, c *inConsul) {
				alloc := consulOffering(&nomad.ServiceCheck{Name: "up", Type: "tcp", PortLabel: "80", Interval: time.Second, Timeout: time.Second,
					OnUpdate: tc.onUpdate})
				alloc.DeploymentID = nomad.NewID()
				alloc.Job.TaskGroups[0].Update = &nomad.UpdateStrategy{HealthCheck: "checks", MinHealthyTime: 10 * time.Second,
					HealthyDeadline: time.Minute}
				web := alloc.Job.TaskGroups[0].Services[0]
				if tc.sidecar != "" {
					web.Connect = &nomad.ConsulConnect{SidecarService: &connect.SidecarService{Port: "23000"}}
				}
				r, _, ended := s.started(alloc)
				start := time.Now()
				time.Sleep(5 * time.Second)
				if tc.status != "" {
					c.Update(reconcile.Status{CheckID: c.checkID(), Status: tc.status})
				}
				for _, one := range clientconnect.SidecarChecks(web, c.serviceID(web.Name)) {
					if tc.sidecar != "missing" {
						c.Update(reconcile.Status{CheckID: one.ID, Status: tc.sidecar})
					}
				}
				got := ""
				for got == "" && time.Since(start) <= 2*time.Minute {
					time.Sleep(100 * time.Millisecond)
					if d := r.State().DeploymentStatus; d != nil && d.Healthy != nil {
						got = map[bool]string{true: "healthy", false: "unhealthy"}[*d.Healthy]
					}
				}
				if took := time.Since(start); got != tc.verdict || took > tc.within+time.Second || tc.within == time.Minute && took < tc.within {
					t.Errorf("%q after %v, want %s within %v", got, took, tc.verdict, tc.within)
				}
				r.Update(stopping(alloc))
				<-ended
			})
		})
	}
}
