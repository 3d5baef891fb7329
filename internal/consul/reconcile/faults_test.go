package reconcile_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/internal/consul/reconcile"
)

// TestOutage checks that services wait while Consul does not answer, whatever it does, and are registered afterwards.
func TestOutage(t *testing.T) {
	for name, f := range map[string]fault{"refused": refused, "hanging": hanging, "status 500": failing, "cut": cut} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *network) {
				r := reconcile.New(reconcile.Config{Agent: n.agent(t, "")})
				r.Set("old", []*reconcile.Service{service(0, "old")})
				run(t, r)
				wait(45 * time.Second)
				n.set(f, "")
				for i := range 50 {
					r.Set(fmt.Sprint(i), []*reconcile.Service{service(i+1, "web")})
				}
				wait(time.Minute)
				n.take()
				wait(10 * time.Minute)
				if got := len(n.take()); got > 2*30 { // after 11 s, 12 s and so on, each repeated once
					t.Errorf("%d requests in 10 minutes without an answer", got)
				}
				if s := r.States("old")[0]; !s.Registered || s.Err == nil {
					t.Errorf("state of what Consul had = %+v, want one with the error of the list", s)
				}
				if s := r.States("1")[0]; s.Registered || s.Failures < 10 {
					t.Errorf("state = %+v", s)
				}
				n.set(served, "")
				wait(30 * time.Second)
				if got := len(n.consul.Services()); got != 51 {
					t.Errorf("%d services", got)
				}
				if s := r.States("old")[0]; s.Err != nil {
					t.Errorf("state after the outage = %+v", s)
				}
			})
		})
	}
}

// TestCut checks that a request whose connection a proxy closed is repeated at once.
func TestCut(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		r := reconcile.New(reconcile.Config{Agent: n.agent(t, "")})
		r.Set("a", []*reconcile.Service{service(1, "web")})
		run(t, r)
		synctest.Wait()
		first := true
		n.setFunc(once(cut, &first))
		if !r.Remove(t.Context(), "a") {
			t.Error("Remove() = false")
		}
	})
}

// TestRandom checks that after any sequence of calls and faults Consul has what is wanted, and nothing else of ours.
func TestRandom(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T, n *network) { randomly(t, n, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func randomly(t *testing.T, n *network, rnd *rand.Rand) {
	start := func() (*reconcile.Reconciler, func()) {
		r := reconcile.New(reconcile.Config{Agent: n.agent(t, ""), Reap: true, Owns: func(string) bool { return true }})
		return r, run(t, r)
	}
	foreign := &api.AgentServiceRegistration{ID: "theirs", Name: "theirs"}
	must(t, n.direct(t).Client().Agent().ServiceRegister(foreign))
	delays := rand.New(rand.NewPCG(rnd.Uint64(), 2)) // network.mu guards it
	n.delay = func(*http.Request) time.Duration {
		return time.Duration(delays.IntN(3)*delays.IntN(900)) * time.Millisecond
	}
	r, stop := start()
	wanted := map[string][]*reconcile.Service{}
	var token atomic.Value
	token.Store("first")
	secret := func() string { return token.Load().(string) }
	update := func(status string) {
		for _, list := range wanted {
			for _, s := range list {
				for _, c := range s.Registration.Checks {
					r.Update(reconcile.Status{CheckID: c.CheckID, Status: status})
				}
			}
		}
	}
	for range 60 {
		owner := fmt.Sprint(rnd.IntN(4))
		switch rnd.IntN(12) {
		case 0, 1, 2, 3:
			wanted[owner] = randomServices(rnd, owner, secret)
			r.Set(owner, wanted[owner])
		case 4:
			r.Drop(owner)
			delete(wanted, owner)
		case 5:
			r.Remove(t.Context(), owner)
			delete(wanted, owner)
		case 6:
			n.set(fault(rnd.IntN(int(denied)+1)), []string{"", "register", "deregister", "GET"}[rnd.IntN(4)])
		case 7:
			n.consul.LoseServices()
			must(t, n.direct(t).Client().Agent().ServiceRegister(foreign))
		case 8:
			if rnd.IntN(3) == 0 {
				stop()
				r, stop = start()
				for o, list := range wanted {
					r.Set(o, list)
				}
			}
		case 9:
			token.Store([]string{"", "first", "second"}[rnd.IntN(3)])
		case 10:
			update(api.HealthWarning)
		case 11:
			wait(time.Duration(rnd.IntN(40)) * time.Second)
		}
		if rnd.IntN(2) == 0 {
			wait(time.Duration(rnd.IntN(2000)) * time.Millisecond)
		}
	}
	n.set(served, "")
	token.Store("last")
	wait(3 * time.Minute)
	update(api.HealthPassing)
	wait(10 * time.Second)
	want := []string{"theirs"}
	for owner, list := range wanted {
		for _, s := range list {
			reg := s.Registration
			want = append(want, reg.ID)
			for _, c := range reg.Checks {
				want = append(want, c.CheckID)
				if got := n.consul.Checks()[c.CheckID].Status; (got == api.HealthPassing) != (c.TTL != "") {
					t.Errorf("check of %s is %s", reg.ID, got)
				}
			}
			if got := n.consul.Services()[reg.ID]; got.Port != reg.Port {
				t.Errorf("port of %s is %d, want %d", reg.ID, got.Port, reg.Port)
			}
		}
		for _, s := range r.States(owner) {
			if !s.Registered {
				t.Errorf("state = %+v", s)
			}
		}
	}
	equal(t, "registrations", n.consul.IDs(), sorted(want...)...)
	n.take()
	wait(5 * time.Minute)
	equal(t, "steady state", slices.Compact(sorted(n.take()...)), "GET /checks", "GET /services")
}

// randomServices returns some of three services, with a TTL check, another one or none, and with and without a token.
func randomServices(rnd *rand.Rand, owner string, token func() string) (out []*reconcile.Service) {
	for i, name := range []string{"web", "api", "db"} {
		if rnd.IntN(3) == 0 {
			continue
		}
		s := service(100*i+int(owner[0]), name)
		if rnd.IntN(2) == 0 {
			s = ttlService(100*i+int(owner[0]), name)
		}
		if rnd.IntN(2) == 0 {
			s.Token = token
		}
		out = append(out, changed(s, func(s *api.AgentServiceRegistration) {
			s.Port = 1 + rnd.IntN(2)
			if rnd.IntN(3) == 0 {
				s.Checks = nil
			}
		}))
	}
	return out
}
