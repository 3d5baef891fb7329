package reconcile_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/internal/consul/reconcile"
	"github.com/open-nomad/open-nomad/internal/testbuffer"
	"github.com/open-nomad/open-nomad/internal/testconsul"
)

// TestStart checks when Consul is asked until it answers, and that nothing else is requested before.
func TestStart(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		n.set(refused, "")
		r := reconcile.New(reconcile.Config{Agent: n.agent(t, "")})
		r.Set("a", []*reconcile.Service{service(1, "web")})
		r.Set("b", []*reconcile.Service{service(2, "api")})
		r.Drop("b")
		run(t, r)
		var got []time.Duration
		for start := time.Now(); time.Since(start) < 72*time.Second; wait(time.Second) {
			synctest.Wait()
			for _, request := range n.take() {
				if request != "GET /self" {
					t.Errorf("request %q", request)
				}
				got = append(got, time.Since(start)/time.Second)
			}
		}
		if want := []time.Duration{0, 1, 3, 7, 15, 31, 51, 71}; !slices.Equal(got, want) {
			t.Errorf("asked after %d, want %d seconds", got, want)
		}
		began := time.Now()
		if r.Remove(t.Context(), "a") || time.Since(began) > 0 {
			t.Errorf("Remove() = true, or waited %v for a Consul that never answered", time.Since(began))
		}
		r.Set("a", []*reconcile.Service{service(1, "web")})
		n.set(served, "")
		wait(20 * time.Second)
		equal(t, "answered", n.take(), "GET /self", "GET /services", "GET /checks", "PUT /service/register")
	})
}

// TestDifferences checks which differences register a service again, and which do not.
func TestDifferences(t *testing.T) {
	sidecar := func(s *api.AgentServiceRegistration) {
		s.Connect = &api.AgentServiceConnect{SidecarService: &api.AgentServiceRegistration{Tags: []string{"s"},
			Proxy: &api.AgentServiceConnectProxyConfig{Upstreams: []api.Upstream{{DestinationName: "db", LocalBindPort: 1, Config: map[string]any{"n": 1}}}}}}
	}
	for name, c := range map[string]struct {
		want   func(*api.AgentServiceRegistration) // of the job
		others func(*api.AgentServiceRegistration) // what is in Consul instead
		again  bool
	}{
		"equal":    {nil, func(*api.AgentServiceRegistration) {}, false},
		"kind":     {nil, func(s *api.AgentServiceRegistration) { s.Kind = api.ServiceKindTerminatingGateway }, true},
		"port":     {nil, func(s *api.AgentServiceRegistration) { s.Port = 9 }, true},
		"address":  {nil, func(s *api.AgentServiceRegistration) { s.Address = "10.0.0.9" }, true},
		"override": {nil, func(s *api.AgentServiceRegistration) { s.EnableTagOverride = true }, true},
		"meta": {nil, func(s *api.AgentServiceRegistration) {
			s.Meta = map[string]string{"external-source": "nomad", "x": "y"}
		}, true},
		"tags":            {nil, func(s *api.AgentServiceRegistration) { s.Tags = []string{"a", "c"} }, true},
		"order of tags":   {nil, func(s *api.AgentServiceRegistration) { s.Tags = []string{"b", "a", "b"} }, false},
		"weights":         {nil, func(s *api.AgentServiceRegistration) { s.Weights = &api.AgentWeights{Passing: 2, Warning: 1} }, true},
		"default weights": {nil, func(s *api.AgentServiceRegistration) { s.Weights = &api.AgentWeights{Passing: 1, Warning: 1} }, false},
		"tagged addresses": {nil, func(s *api.AgentServiceRegistration) {
			s.TaggedAddresses = map[string]api.ServiceAddress{"x": {Address: "1.2.3.4"}}
		}, true},
		"own lan address": {func(s *api.AgentServiceRegistration) {
			s.TaggedAddresses = map[string]api.ServiceAddress{"lan_ipv4": {Address: "1.2.3.4", Port: 1}}
		}, func(s *api.AgentServiceRegistration) { s.TaggedAddresses = nil }, true},
		"overridden tags":   {func(s *api.AgentServiceRegistration) { s.EnableTagOverride = true }, func(s *api.AgentServiceRegistration) { s.Tags = []string{"x"} }, false},
		"sidecar":           {sidecar, func(*api.AgentServiceRegistration) {}, false},
		"sidecar missing":   {sidecar, func(s *api.AgentServiceRegistration) { s.Connect = nil }, true},
		"sidecar tags":      {sidecar, func(s *api.AgentServiceRegistration) { s.Connect.SidecarService.Tags = nil }, true},
		"sidecar upstreams": {sidecar, func(s *api.AgentServiceRegistration) { s.Connect.SidecarService.Proxy = nil }, true},
		"upstream with default": {sidecar, func(s *api.AgentServiceRegistration) {
			s.Connect.SidecarService.Proxy.Upstreams[0].DestinationNamespace = "default"
		}, false},
		"upstream of a type": {sidecar, func(s *api.AgentServiceRegistration) {
			s.Connect.SidecarService.Proxy.Upstreams[0].DestinationType = "service"
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *network) {
				make := func(fns ...func(*api.AgentServiceRegistration)) *reconcile.Service {
					return changed(service(1, "web"), func(s *api.AgentServiceRegistration) {
						for _, fn := range fns {
							if fn != nil {
								fn(s)
							}
						}
					})
				}
				r := reconcile.New(reconcile.Config{Agent: n.agent(t, "")})
				r.Set("a", []*reconcile.Service{make(c.want)})
				run(t, r)
				synctest.Wait()
				must(t, n.direct(t).Client().Agent().ServiceDeregister(make().Registration.ID))
				must(t, n.direct(t).Client().Agent().ServiceRegister(make(c.want, c.others).Registration))
				n.take()
				wait(30 * time.Second)
				got := n.writes()
				if want := []string{"PUT ?replace-existing-checks=true /service/register"}; slices.Equal(got, want) != c.again || !c.again && len(got) > 0 {
					t.Errorf("requests = %q, want registration: %v", got, c.again)
				}
				wait(30 * time.Second)
				equal(t, "next list", n.writes())
			})
		})
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestTagOverride checks whose tags are registered: those of Consul after a list, those of the job after Set.
func TestTagOverride(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		web := changed(service(1, "web"), func(s *api.AgentServiceRegistration) { s.EnableTagOverride = true })
		client := n.direct(t).Client().Agent()
		external := changed(web, func(s *api.AgentServiceRegistration) { s.Tags = []string{"external"}; s.Port = 1 }).Registration
		r := reconcile.New(reconcile.Config{Agent: n.agent(t, "")})
		r.Set("a", []*reconcile.Service{web})
		run(t, r)
		synctest.Wait()
		must(t, client.ServiceRegister(external))
		wait(30 * time.Second)
		tags := func() string {
			s := n.consul.Services()[web.Registration.ID]
			return fmt.Sprint(s.Tags, s.Port)
		}
		if got := tags(); got != "[external] 8080" {
			t.Errorf("after a list: %s", got)
		}
		n.set(denied, "register")
		r.Set("a", []*reconcile.Service{changed(web, func(s *api.AgentServiceRegistration) { s.Tags = []string{"job"} })})
		wait(40 * time.Second)
		n.set(served, "")
		wait(30 * time.Second)
		if got := tags(); got != "[job] 8080" {
			t.Errorf("after Set: %s", got)
		}
	})
}

// TestChecks checks that checks are compared by ID, and whose are removed.
func TestChecks(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		web := service(1, "web")
		id, check := web.Registration.ID, web.Registration.Checks[0].CheckID
		r := reconcile.New(reconcile.Config{Agent: n.agent(t, "")})
		r.Set("a", []*reconcile.Service{web})
		run(t, r)
		synctest.Wait()
		client := n.direct(t).Client().Agent()
		must(t, client.CheckDeregister(check))
		old := checkID("old")
		for _, c := range []string{old, "of an operator"} {
			must(t, client.CheckRegister(&api.AgentCheckRegistration{ID: c, Name: "x", ServiceID: id, AgentServiceCheck: api.AgentServiceCheck{TTL: "1h"}}))
		}
		n.take()
		wait(30 * time.Second)
		equal(t, "repair", n.writes(), "PUT /check/deregister/"+old, "PUT /check/register")
		equal(t, "repaired", n.consul.IDs(), sorted(id, check, "of an operator")...)
		wait(30 * time.Second)
		equal(t, "next list", n.writes())
	})
}

func sorted(list ...string) []string {
	slices.Sort(list)
	return list
}

// TestReplaced checks that the services that replace others are registered before those are removed.
func TestReplaced(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		r := reconcile.New(reconcile.Config{Agent: n.agent(t, "")})
		r.Set("a", []*reconcile.Service{service(1, "old"), service(1, "same")})
		run(t, r)
		synctest.Wait()
		n.take()
		r.Set("a", []*reconcile.Service{service(1, "same"), service(1, "new")})
		synctest.Wait()
		equal(t, "requests", n.take(), "PUT /service/register", "PUT /service/deregister/"+service(1, "old").Registration.ID)
	})
}

// TestSidecar checks that a sidecar is removed before its service.
func TestSidecar(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		web := changed(service(1, "web"), func(s *api.AgentServiceRegistration) {
			s.Connect = &api.AgentServiceConnect{SidecarService: &api.AgentServiceRegistration{}}
		})
		r := reconcile.New(reconcile.Config{Agent: n.agent(t, "")})
		r.Set("a", []*reconcile.Service{web})
		run(t, r)
		synctest.Wait()
		n.take()
		if !r.Remove(t.Context(), "a") {
			t.Error("Remove() = false")
		}
		id := web.Registration.ID
		equal(t, "requests", n.take(), "PUT /service/deregister/"+id+"-sidecar-proxy", "PUT /service/deregister/"+id)
		equal(t, "left", n.consul.IDs())
	})
}

// TestRetry checks when a service that Consul refuses is tried again, that others go on, and what is reported.
func TestRetry(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		type report struct {
			at time.Duration
			ok bool
		}
		start := time.Now()
		var reports []report
		r := reconcile.New(reconcile.Config{Agent: n.agent(t, ""), Failed: func(owner string, list []reconcile.State) {
			s := list[0]
			if len(list) != 1 || owner != "bad" || strings.Contains(fmt.Sprint(s.Err), "secret") {
				t.Errorf("Failed(%q, %+v)", owner, s)
			}
			reports = append(reports, report{time.Since(start) / time.Second, s.Registered})
		}})
		bad := service(1, "web")
		bad.Token = func() string { return "own" }
		n.setFunc(tokenFault(denied, "own"))
		r.Set("bad", []*reconcile.Service{bad})
		r.Set("good", []*reconcile.Service{service(2, "api")})
		run(t, r)
		var tries []time.Duration
		for i := range 37 {
			synctest.Wait()
			for _, request := range n.writes() {
				if request == "PUT /service/register own" {
					tries = append(tries, time.Duration(i))
				}
			}
			if i < 36 {
				wait(time.Second)
			}
		}
		if want := []time.Duration{0, 1, 3, 6, 10, 15, 21, 28, 36}; !slices.Equal(tries, want) {
			t.Errorf("tries at %d, want %d", tries, want)
		}
		if s := r.States("bad")[0]; s.Registered || s.Failures != 9 || !s.Since.Equal(start) || s.Err == nil {
			t.Errorf("state = %+v", s)
		}
		if s := r.States("good")[0]; !s.Registered || s.Err != nil {
			t.Errorf("state = %+v", s)
		}
		n.set(served, "")
		wait(10 * time.Second)
		if want := []report{{4, false}, {46, true}}; !slices.Equal(reports, want) {
			t.Errorf("reports = %v, want %v", reports, want)
		}
		if s := r.States("bad")[0]; !s.Registered || s.Failures != 0 || s.Err != nil || !s.Since.Equal(start.Add(45*time.Second)) {
			t.Errorf("state = %+v", s)
		}
	})
}

// TestTokens checks the token of each request.
func TestTokens(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		var own atomic.Value
		own.Store("")
		web := ttlService(1, "web")
		web.Token = func() string { return own.Load().(string) }
		r := reconcile.New(reconcile.Config{Agent: n.agent(t, "agents")})
		r.Set("a", []*reconcile.Service{web})
		run(t, r)
		wait(10 * time.Second)
		equal(t, "without its token", n.writes())
		if s := r.States("a")[0]; s.Registered || s.Err == nil {
			t.Errorf("state = %+v", s)
		}
		own.Store("own")
		wait(time.Second)
		equal(t, "registration", n.writes(), "PUT /service/register own")
		r.Update(reconcile.Status{CheckID: web.Registration.Checks[0].CheckID, Status: api.HealthPassing})
		synctest.Wait()
		equal(t, "status", n.writes(), "PUT /check/update/"+web.Registration.Checks[0].CheckID+" own")
		n.setFunc(tokenFault(denied, "agents"))
		r.Remove(t.Context(), "a")
		gone := "PUT /service/deregister/" + web.Registration.ID
		equal(t, "removal", n.writes(), gone+" agents", gone+" own")
		n.set(served, "")
		r.Set("a", []*reconcile.Service{service(1, "web")})
		synctest.Wait()
		equal(t, "without an identity", n.writes(), "PUT /service/register agents")
	})
}

// TestTokens_Renewed checks that a service is registered again with its new token, with the tags and the status it has.
func TestTokens_Renewed(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		var own atomic.Value
		own.Store("first")
		web := changed(ttlService(1, "web"), func(s *api.AgentServiceRegistration) { s.EnableTagOverride = true })
		web.Token = func() string { return own.Load().(string) }
		check := web.Registration.Checks[0].CheckID
		r := reconcile.New(reconcile.Config{Agent: n.agent(t, "agents")})
		r.Set("a", []*reconcile.Service{web})
		stop := run(t, r)
		synctest.Wait()
		must(t, n.direct(t).Client().Agent().ServiceRegister(changed(web, func(s *api.AgentServiceRegistration) {
			s.Tags = []string{"external"}
		}).Registration))
		wait(29 * time.Second)
		r.Update(reconcile.Status{CheckID: check, Status: api.HealthPassing})
		synctest.Wait()
		n.take()
		own.Store("second")
		wait(3 * time.Second) // and a list
		put, update := "PUT ?replace-existing-checks=true /service/register ", "PUT /check/update/"+check+" "
		equal(t, "renewed", n.writes(), put+"second", update+"second")
		if got := n.consul.Services()[web.Registration.ID].Tags; !slices.Equal(got, []string{"external"}) {
			t.Errorf("tags = %q", got)
		}
		own.Store("third")
		wait(3 * time.Second)
		equal(t, "again", n.writes(), put+"third", update+"third")
		own.Store("")
		wait(time.Minute)
		equal(t, "without a token", n.writes())
		if s := r.States("a")[0]; !s.Registered || s.Err != nil {
			t.Errorf("state = %+v", s)
		}
		own.Store("third")
		wait(time.Minute)
		equal(t, "the same token", n.writes())
		stop()
		r = reconcile.New(reconcile.Config{Agent: n.agent(t, "agents")})
		r.Set("a", []*reconcile.Service{web})
		run(t, r)
		wait(time.Minute)
		equal(t, "another agent", n.writes())
		own.Store("fourth")
		wait(30 * time.Second)
		equal(t, "another agent with a new token", n.writes(), put+"fourth")
	})
}

// TestRemove checks what Remove waits for.
func TestRemove(t *testing.T) {
	for name, c := range map[string]struct {
		fault  fault
		acked  bool
		waited time.Duration
	}{
		"answered": {served, true, 0}, "refused": {refused, false, 0}, "hanging": {hanging, false, time.Second},
		"status 500": {failing, false, 0}, "lost answer": {late, false, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *network) {
				r := reconcile.New(reconcile.Config{Agent: n.agent(t, "")})
				r.Set("a", []*reconcile.Service{service(1, "web"), service(1, "api")})
				run(t, r)
				synctest.Wait()
				n.set(c.fault, "deregister")
				start := time.Now()
				if acked := r.Remove(t.Context(), "a"); acked != c.acked || time.Since(start) != c.waited {
					t.Errorf("Remove() = %v after %v, want %v after %v", acked, time.Since(start), c.acked, c.waited)
				}
				n.set(served, "")
				wait(31 * time.Second)
				equal(t, "left", n.consul.IDs())
			})
		})
	}
}

// TestRemove_OtherHangs checks that a removal does not wait for registrations, and cancels its own.
func TestRemove_OtherHangs(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		r := reconcile.New(reconcile.Config{Agent: n.agent(t, "")})
		r.Set("old", []*reconcile.Service{service(99, "old")})
		run(t, r)
		synctest.Wait()
		n.set(late, "register")
		for i := range 20 {
			r.Set(fmt.Sprint(i), []*reconcile.Service{service(i, "web")})
		}
		synctest.Wait()
		n.set(served, "")
		start := time.Now()
		for _, owner := range []string{"old", "0"} {
			if !r.Remove(t.Context(), owner) {
				t.Errorf("Remove(%s) = false", owner)
			}
		}
		for i := range 20 {
			r.Drop(fmt.Sprint(i))
		}
		synctest.Wait()
		if took := time.Since(start); took > 0 {
			t.Errorf("took %v", took)
		}
		equal(t, "left", n.consul.IDs())
	})
}

// TestRemove_CompletedLater checks that a registration that Consul completes after the removal is removed again.
func TestRemove_CompletedLater(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		r := reconcile.New(reconcile.Config{Agent: n.agent(t, "")})
		run(t, r)
		wait(25 * time.Second)
		n.set(hanging, "register")
		r.Set("a", []*reconcile.Service{service(1, "web")})
		synctest.Wait()
		n.set(served, "")
		if !r.Remove(t.Context(), "a") {
			t.Error("Remove() = false")
		}
		wait(6 * time.Second) // a list does not have it
		must(t, n.direct(t).Client().Agent().ServiceRegister(service(1, "web").Registration))
		wait(31 * time.Second)
		equal(t, "left", n.consul.IDs())
		wait(60 * time.Second)
		n.take()
		wait(30 * time.Second)
		equal(t, "steady", n.take(), "GET /services", "GET /checks")
	})
}

// TestRemove_SetAgain checks that a service which is wanted again ends the wait of Remove, and stays.
func TestRemove_SetAgain(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		r := reconcile.New(reconcile.Config{Agent: n.agent(t, "")})
		r.Set("a", []*reconcile.Service{service(1, "web")})
		run(t, r)
		synctest.Wait()
		n.slow(500*time.Millisecond, "deregister")
		start := time.Now()
		go func() {
			time.Sleep(100 * time.Millisecond) // in the bubble
			r.Set("a", []*reconcile.Service{service(1, "web")})
		}()
		if !r.Remove(t.Context(), "a") || time.Since(start) != 100*time.Millisecond {
			t.Errorf("Remove() = false, or took %v", time.Since(start))
		}
		wait(time.Second)
		if s := r.States("a")[0]; !s.Registered || len(n.consul.Services()) != 1 {
			t.Errorf("state = %+v, services %v", s, n.consul.Services())
		}
	})
}

// TestOldList checks that a list does not count for a service which was registered after the list began.
func TestOldList(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		r := reconcile.New(reconcile.Config{Agent: n.agent(t, "")})
		run(t, r)
		synctest.Wait()
		n.slow(4*time.Second, "GET /v1/agent/checks")
		wait(31 * time.Second)
		r.Set("a", []*reconcile.Service{service(1, "web")})
		wait(10 * time.Second)
		equal(t, "requests", n.writes(), "PUT /service/register")
	})
}

// TestOwnership_SetMeanwhile checks that a service is not a leftover if Set adds it during the call of Owns.
func TestOwnership_SetMeanwhile(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		must(t, n.direct(t).Client().Agent().ServiceRegister(service(1, "web").Registration))
		var r *reconcile.Reconciler
		r = reconcile.New(reconcile.Config{Agent: n.agent(t, ""), Reap: true, Owns: func(string) bool {
			r.Set("a", []*reconcile.Service{service(1, "web")})
			return true
		}})
		run(t, r)
		wait(3 * time.Minute)
		equal(t, "requests", n.writes())
	})
}

// TestOwnership checks what is removed after probation, and what never is.
func TestOwnership(t *testing.T) {
	for name, c := range map[string]struct {
		reap bool
		owns func(string) bool
		gone bool
	}{
		"own":               {true, func(id string) bool { return id == alloc(1) }, true},
		"of another node":   {true, func(id string) bool { return id == alloc(2) }, false},
		"without a client":  {false, func(string) bool { return true }, false},
		"without knowledge": {true, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *network) {
				client := n.direct(t).Client().Agent()
				leftover := changed(service(1, "web"), func(s *api.AgentServiceRegistration) {
					s.Connect = &api.AgentServiceConnect{SidecarService: &api.AgentServiceRegistration{}}
				})
				for _, s := range []*api.AgentServiceRegistration{
					leftover.Registration, {ID: "theirs", Name: "web"}, {ID: "_nomad-server-" + strings.Repeat("a", 52), Name: "nomad"},
					{ID: "_nomad-client-" + strings.Repeat("b", 52), Name: "nomad-client"},
					{ID: "_nomad-task-" + alloc(1) + "-t-x-/theirs", Name: "x"}, // several segments of a path
					{ID: "_nomad-task-" + alloc(1) + "-group-g-x-http-sidecar-proxy", Name: "x-sidecar-proxy", Kind: api.ServiceKindConnectProxy,
						Proxy: &api.AgentServiceConnectProxyConfig{DestinationServiceName: "x"}}} {
					must(t, client.ServiceRegister(s))
				}
				before := n.consul.IDs()
				want := before
				if c.gone {
					own := []string{leftover.Registration.ID, leftover.Registration.Checks[0].CheckID}
					want = slices.DeleteFunc(slices.Clone(before), func(id string) bool {
						return slices.Contains(own, id) || strings.Contains(id, leftover.Registration.ID+"-sidecar-proxy")
					})
				}
				run(t, reconcile.New(reconcile.Config{Agent: n.agent(t, ""), Reap: c.reap, Owns: c.owns}))
				wait(59 * time.Second)
				equal(t, "in probation", n.consul.IDs(), before...)
				wait(40 * time.Second)
				equal(t, "afterwards", n.consul.IDs(), want...)
			})
		})
	}
}

// TestKilled checks that an agent that was killed registers nothing again that is equal.
func TestKilled(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		ctx, kill := context.WithCancel(t.Context())
		first := reconcile.New(reconcile.Config{Agent: n.agent(t, "")})
		first.Set("a", []*reconcile.Service{service(1, "web"), service(1, "api")})
		go first.Run(ctx)
		synctest.Wait()
		kill()
		before := n.consul.IDs()
		n.take()
		second := reconcile.New(reconcile.Config{Agent: n.agent(t, ""), Reap: true, Owns: func(string) bool { return true }})
		second.Set("a", []*reconcile.Service{service(1, "web")})
		run(t, second)
		wait(40 * time.Second)
		second.Set("b", []*reconcile.Service{service(1, "api")}) // restored late
		wait(60 * time.Second)
		equal(t, "requests", n.writes())
		equal(t, "registrations", n.consul.IDs(), before...)
		for _, owner := range []string{"a", "b"} {
			if s := second.States(owner); len(s) != 1 || !s[0].Registered {
				t.Errorf("States(%s) = %+v", owner, s)
			}
		}
	})
}

// TestTwoAgents checks that two agents on one Consul keep the services of each other.
func TestTwoAgents(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		for i := range 2 {
			r := reconcile.New(reconcile.Config{Agent: n.agent(t, ""), Reap: true, Owns: func(id string) bool { return id == alloc(i) }})
			r.Set("a", []*reconcile.Service{service(i, "web")})
			run(t, r)
		}
		wait(3 * time.Minute)
		for _, request := range n.writes() {
			if request != "PUT /service/register" {
				t.Errorf("request %q", request)
			}
		}
		if got := n.consul.Services(); len(got) != 2 {
			t.Errorf("services = %v", got)
		}
	})
}

// TestLostState checks when all is registered again, and with which status, after Consul lost its state.
func TestLostState(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		r := reconcile.New(reconcile.Config{Agent: n.agent(t, "")})
		script := ttlService(1, "web")
		r.Set("a", []*reconcile.Service{script, service(1, "api")})
		run(t, r)
		synctest.Wait()
		r.Update(reconcile.Status{CheckID: script.Registration.Checks[0].CheckID, Status: api.HealthPassing, Output: "good"})
		wait(10 * time.Second)
		before := n.consul.IDs()
		n.consul.LoseServices()
		wait(20 * time.Second)
		equal(t, "registrations", n.consul.IDs(), before...)
		if c := n.consul.Checks()[script.Registration.Checks[0].CheckID]; c.Status != api.HealthPassing || c.Output != "good" {
			t.Errorf("check = %+v", c)
		}
	})
}

// TestLeave checks what the end of an agent removes.
func TestLeave(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		r := reconcile.New(reconcile.Config{Agent: n.agent(t, "")})
		never := reconcile.New(reconcile.Config{Agent: n.agent(t, "")})
		never.Set("agent", []*reconcile.Service{service(9, "x")})
		must(t, never.Leave(t.Context(), "agent"))
		equal(t, "never answered", n.take())
		for i, owner := range []string{"agent", "task", "stopped"} {
			r.Set(owner, []*reconcile.Service{service(i, owner)})
		}
		stop := run(t, r)
		synctest.Wait()
		n.set(hanging, "deregister")
		r.Remove(t.Context(), "stopped")
		stop()
		n.set(served, "")
		must(t, r.Leave(t.Context(), "agent"))
		n.take()
		must(t, r.Leave(t.Context(), "agent"))
		equal(t, "second time", n.take())
		task := service(1, "task").Registration
		equal(t, "left", n.consul.IDs(), task.Checks[0].CheckID, task.ID)
	})
}

// TestUnlisted checks that a token which may not read the services is reported once, and no loss of Consul's state is.
func TestUnlisted(t *testing.T) {
	for name, rules := range map[string]string{"blind": "", "reader": `service_prefix "" { policy = "read" }`} {
		n := &network{consul: testconsul.Start(t, testconsul.Config{Manual: true, ACL: true})}
		own := n.consul.NewToken(t, `service "web" { policy = "write" }`)
		token := n.consul.NewToken(t, `agent_prefix "" { policy = "read" } `+rules)
		synctest.Test(t, func(t *testing.T) {
			log := &testbuffer.Buffer{}
			agent := n.agent(t, token)
			r := reconcile.New(reconcile.Config{Agent: agent, Log: slog.New(slog.NewTextHandler(log, nil))})
			web := service(1, "web")
			web.Token = func() string { return own }
			r.Set("a", []*reconcile.Service{web})
			run(t, r)
			wait(45 * time.Second)
			n.consul.LoseServices()
			wait(5 * time.Minute)
			if got, want := strings.Count(log.String(), "service:read"), map[string]int{"blind": 1}[name]; got != want {
				t.Errorf("%s: reported %d times, want %d:\n%s", name, got, want, log)
			}
			s := agent.Settings()
			s.HTTP.Token = n.consul.Management()
			must(t, agent.Replace(s))
			wait(time.Minute)
			if got := strings.Contains(log.String(), "lists all registered services"); got != (name == "blind") {
				t.Errorf("%s: log after a better token:\n%s", name, log)
			}
		})
	}
}

// TestReports checks that an outage reports all services of an owner at once, and their return too.
func TestReports(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		var calls []string
		r := reconcile.New(reconcile.Config{Agent: n.agent(t, ""), Failed: func(owner string, list []reconcile.State) {
			calls = append(calls, fmt.Sprint(owner, len(list), list[0].Registered))
		}})
		n.set(refused, "")
		for owner, count := range map[string]int{"a": 100, "b": 1} {
			var list []*reconcile.Service
			for i := range count {
				list = append(list, service(i, owner))
			}
			r.Set(owner, list)
		}
		run(t, r)
		wait(time.Minute)
		slices.Sort(calls)
		equal(t, "calls while Consul is down", calls, "a100 false", "b1 false")
		calls = nil
		n.set(served, "")
		wait(time.Minute)
		slices.Sort(calls)
		equal(t, "calls afterwards", calls, "a100 true", "b1 true")
	})
}

// TestList_Large checks that services of others do not stop this agent, whose list would be above consul.MaxAnswer.
func TestList_Large(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		for i := range 6 {
			must(t, n.direct(t).Client().Agent().ServiceRegister(&api.AgentServiceRegistration{ID: fmt.Sprint("large", i), Name: "large",
				Tags: []string{strings.Repeat("x", consul.MaxAnswer/5)}}))
		}
		r := reconcile.New(reconcile.Config{Agent: n.agent(t, "")})
		r.Set("a", []*reconcile.Service{service(1, "web")})
		run(t, r)
		wait(5 * time.Second)
		if s := r.States("a"); len(s) != 1 || !s[0].Registered {
			t.Errorf("States() = %+v", s)
		}
	})
}

// TestRefresh checks that another address is used at once, also if a list of the old one is in progress, and that what failed
// is repeated.
func TestRefresh(t *testing.T) {
	for f, later := range map[fault]time.Duration{served: 10 * time.Second, hanging: 30*time.Second + 500*time.Millisecond, refused: time.Minute} {
		t.Run(fmt.Sprint(f), func(t *testing.T) {
			bubble(t, func(t *testing.T, n *network) {
				agent := n.agent(t, "")
				r := reconcile.New(reconcile.Config{Agent: agent})
				r.Set("a", []*reconcile.Service{service(1, "web")})
				run(t, r)
				wait(31 * time.Second)
				n.set(f, "")
				wait(later)
				n.consul.LoseServices() // as another Consul
				n.set(served, "")
				r.Refresh()
				wait(4 * time.Second) // the next list would be later
				if got := len(n.consul.Services()); got != 1 {
					t.Errorf("%d services in the other Consul, want 1", got)
				}
			})
		})
	}
}
