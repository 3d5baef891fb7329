package reconcile_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/internal/consul/reconcile"
)

// TestUpdate checks when the status of a TTL check is sent.
func TestUpdate(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		script := ttlService(1, "web")
		check := script.Registration.Checks[0].CheckID
		put := "PUT /check/update/" + check
		update := func(status string) {
			r := reconcile.Status{CheckID: check, Status: status, Output: strings.Repeat("x", 10_000)}
			n.reconciler.Update(r)
		}
		r := reconcile.New(reconcile.Config{Agent: n.agent(t, "")})
		n.reconciler = r
		r.Update(reconcile.Status{CheckID: "unknown", Status: api.HealthPassing})
		r.Set("a", []*reconcile.Service{script})
		update(api.HealthCritical)
		update(api.HealthPassing)
		run(t, r)
		synctest.Wait()
		equal(t, "only the last, after the registration", n.writes(), "PUT /service/register", put)
		got := n.consul.Checks()[check]
		if got.Status != api.HealthPassing || len(got.Output) != 4096 {
			t.Errorf("check = %s with %d bytes", got.Status, len(got.Output))
		}

		n.set(failing, "update")
		update(api.HealthWarning)
		wait(2500 * time.Millisecond)
		equal(t, "repeated", n.writes(), put, put, put)
		update(api.HealthCritical)
		n.set(served, "")
		wait(time.Second)
		if got := n.consul.Checks()[check].Status; got != api.HealthCritical {
			t.Errorf("status = %s", got)
		}
		wait(2 * time.Second)
		n.take()

		must(t, n.direct(t).Client().Agent().CheckDeregister(check))
		n.take()
		update(api.HealthPassing)
		wait(time.Second)
		equal(t, "unknown check", n.writes(), put, "PUT /check/register", put)

		n.consul.LoseServices()
		update(api.HealthWarning)
		wait(5 * time.Second)
		if got := n.consul.Checks()[check].Status; got != api.HealthWarning {
			t.Errorf("status = %q after the service was lost", got)
		}
		n.take()
		r.Set("a", []*reconcile.Service{changed(script, func(s *api.AgentServiceRegistration) { s.Checks = nil })})
		synctest.Wait()
		n.take()
		update(api.HealthPassing)
		synctest.Wait()
		equal(t, "check that is not wanted", n.writes())
		r.Set("a", []*reconcile.Service{script})
		synctest.Wait()
		n.take()
		r.Drop("a")
		update(api.HealthPassing)
		wait(time.Second)
		equal(t, "removed", n.writes(), "PUT /service/deregister/"+script.Registration.ID)
	})
}

// TestUpdate_LastWins checks that a status which arrives during a request is sent after it.
func TestUpdate_LastWins(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		script := ttlService(1, "web")
		check := script.Registration.Checks[0].CheckID
		r := reconcile.New(reconcile.Config{Agent: n.agent(t, "")})
		r.Set("a", []*reconcile.Service{script})
		run(t, r)
		synctest.Wait()
		n.slow(2*time.Second, "update")
		r.Update(reconcile.Status{CheckID: check, Status: api.HealthPassing})
		wait(1500 * time.Millisecond)
		r.Update(reconcile.Status{CheckID: check, Status: api.HealthWarning})
		wait(5 * time.Second)
		if got := n.consul.Checks()[check].Status; got != api.HealthWarning {
			t.Errorf("status = %s", got)
		}
	})
}

// TestUpdate_Repeated checks that a registration repeats the last status, also one that is being sent.
func TestUpdate_Repeated(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		script := ttlService(1, "web")
		check := script.Registration.Checks[0].CheckID
		r := reconcile.New(reconcile.Config{Agent: n.agent(t, "")})
		r.Set("a", []*reconcile.Service{script})
		run(t, r)
		synctest.Wait()
		n.take()
		n.slow(2*time.Second, "update")
		r.Update(reconcile.Status{CheckID: check, Status: api.HealthPassing})
		wait(time.Second)
		r.Set("a", []*reconcile.Service{changed(script, func(s *api.AgentServiceRegistration) { s.Port = 1 })})
		wait(4 * time.Second)
		put := "PUT /check/update/" + check
		equal(t, "in progress", n.writes(), put, "PUT ?replace-existing-checks=true /service/register", put)
		wait(40 * time.Second)
		r.Set("a", []*reconcile.Service{script})
		wait(4 * time.Second)
		equal(t, "after the TTL", n.writes(), "PUT ?replace-existing-checks=true /service/register")
	})
}

// TestBounds checks that a Consul that hangs gets few requests at a time, and that all is sent afterwards.
func TestBounds(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		const services = 300
		r := reconcile.New(reconcile.Config{Agent: n.agent(t, "")})
		for i := range services {
			r.Set(fmt.Sprint(i), []*reconcile.Service{ttlService(i, "web")})
		}
		run(t, r)
		synctest.Wait()
		n.set(hanging, "")
		n.take()
		for i := range services {
			r.Update(reconcile.Status{CheckID: ttlService(i, "web").Registration.Checks[0].CheckID, Status: api.HealthPassing})
			r.Set(fmt.Sprint(i+services), []*reconcile.Service{service(i+services, "web")})
			if i >= services/2 {
				r.Drop(fmt.Sprint(i))
			}
		}
		synctest.Wait()
		if got := len(n.take()); got != 64+4+4 {
			t.Errorf("%d requests in progress, want 72", got)
		}
		wait(time.Minute)
		n.set(served, "")
		wait(31 * time.Second)
		if got := len(n.consul.Services()); got != services/2+services {
			t.Errorf("%d services", got)
		}
		for i := range services / 2 {
			if c := n.consul.Checks()[ttlService(i, "web").Registration.Checks[0].CheckID]; c.Status != api.HealthPassing {
				t.Errorf("check %d is %s", i, c.Status)
			}
		}
	})
}

// TestWatch checks the requests and the calls of watches.
func TestWatch(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		r := reconcile.New(reconcile.Config{Agent: n.agent(t, "")})
		script := ttlService(1, "web")
		check := script.Registration.Checks[0].CheckID
		r.Set("a", []*reconcile.Service{script})
		r.Set("b", []*reconcile.Service{service(2, "api")})
		run(t, r)
		wait(5 * time.Second)
		must(t, n.direct(t).Client().Agent().CheckRegister(&api.AgentCheckRegistration{Name: "of an operator",
			ServiceID: script.Registration.ID, AgentServiceCheck: api.AgentServiceCheck{TTL: "1h"}}))
		n.take()
		var got, other []string
		end := r.Watch("a", func(list []reconcile.Status) {
			for _, s := range list {
				got = append(got, strings.TrimPrefix(s.CheckID, check)+s.Status+s.Output)
			}
			r.States("a") // no mutex is locked
		})
		endOther := r.Watch("b", func(list []reconcile.Status) { other = append(other, list[0].Status) })
		wait(9500 * time.Millisecond)
		equal(t, "requests", n.take(), slices.Repeat([]string{"GET /checks"}, 10)...)
		equal(t, "first statuses", got, "critical")
		r.Update(reconcile.Status{CheckID: check, Status: api.HealthPassing, Output: "ok"})
		wait(time.Second)
		n.set(failing, "GET")
		wait(3 * time.Second)
		n.set(served, "")
		wait(time.Second)
		equal(t, "changes", got, "critical", "passingok")
		equal(t, "of the other", other, "critical")
		end()
		must(t, n.direct(t).Client().Agent().UpdateTTL(check, "", api.HealthWarning))
		wait(2 * time.Second)
		equal(t, "ended", got, "critical", "passingok")
		endOther()
		wait(time.Second)
		n.take()
		wait(2 * time.Second)
		equal(t, "requests without watches", n.take())
	})
}
