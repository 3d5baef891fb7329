package token_test

import (
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/consul/token"
	"github.com/open-nomad/open-nomad/client/identity"
	"github.com/open-nomad/open-nomad/nomad"
)

// TestRenewal checks that a token is replaced by a new one at about half of its life. The old one of a service is logged out
// then, that of a task stays valid for a process that has it in its environment.
func TestRenewal(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.ttl = time.Hour
		w.setup(t)
		run(t, w.node.Run)
		m, _ := w.start(t, alloc("api", true))
		secrets, end := m.Watch(token.TaskIdentity, "web")
		defer end()
		pass(29 * time.Minute)
		service, task := m.Token(serviceIdentity, "")(), m.Token(token.TaskIdentity, "web")()
		if n := w.consul.Calls("POST /v1/acl/login"); n != 2 {
			t.Fatalf("%d logins before half of the life, want 2", n)
		}
		if got := (<-secrets).Reveal(); got != task {
			t.Error("Watch has another token")
		}
		pass(8 * time.Minute)
		newer, renewed := m.Token(serviceIdentity, "")(), m.Token(token.TaskIdentity, "web")()
		if newer == service || renewed == task || newer == "" || renewed == "" {
			t.Fatal("the tokens were not replaced after half of their life")
		}
		if got := (<-secrets).Reveal(); got != renewed {
			t.Error("Watch has not the renewed token")
		}
		if got := w.secrets(); slices.Contains(got, service) || !slices.Contains(got, task) {
			t.Errorf("the replaced token of the service is in Consul: %t, that of the task: %t", slices.Contains(got, service), slices.Contains(got, task))
		}
		pass(5 * time.Hour)
		if stored, err := w.db.ConsulTokens(""); err != nil || len(stored[alloc("", false).ID]) > 5 {
			t.Errorf("%d tokens stored after 5 hours, %v", len(stored[alloc("", false).ID]), err)
		}
	})
}

// TestRenewal_Fails checks that a token which cannot be renewed is used until its end, and then no more.
func TestRenewal_Fails(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.ttl = time.Hour
		w.setup(t)
		m, _ := w.start(t, alloc("api", false))
		pass(time.Minute)
		w.set("refuse")
		if pass(58 * time.Minute); m.Token(serviceIdentity, "")() == "" {
			t.Error("the token is gone before its end")
		}
		if pass(2 * time.Minute); m.Token(serviceIdentity, "")() != "" {
			t.Error("the token is used after its end")
		}
		if got := w.told(); len(got) != 1 {
			t.Errorf("events %q, want one", got)
		}
		w.set("")
		if pass(time.Minute); m.Token(serviceIdentity, "")() == "" {
			t.Error("no token after Consul is back")
		}
	})
}

// TestUpdate checks that tokens follow an update in place: a renamed service, a removed one, a new one.
func TestUpdate(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.setup(t)
		run(t, w.node.Run)
		m, _ := w.start(t, alloc("api", false))
		pass(time.Second)
		first := m.Token(serviceIdentity, "")
		old, before := first(), first()
		update := func(a *nomad.Allocation) {
			t.Helper()
			for _, h := range w.handles(a) {
				w.sign(h, "consul.io")
			}
			had := first() != ""
			if m.Update(a) {
				t.Error("Update() asks for a second Run")
			}
			if had && first() == "" {
				t.Error("no token during the update")
			}
			pass(time.Second)
			m.Trim(a)
			if pass(30 * time.Second); old != "" && !slices.Contains(w.secrets(), old) {
				t.Error("the old token is logged out before the service can be registered with the new one")
			}
			old = ""
			pass(time.Minute)
		}
		update(alloc("web", false))
		if got := w.consul.Logins(); len(got) != 1 || got[0].SecretID == before || got[0].SecretID != first() || got[0].ServiceIdentities[0].ServiceName != "web" {
			t.Fatalf("tokens of the renamed service: %d", len(got))
		}
		update(alloc("", false))
		if got := w.consul.Logins(); len(got) != 0 || first() != "" {
			t.Fatalf("%d tokens after the service was removed", len(got))
		}
		update(alloc("api", false))
		if got := w.consul.Logins(); len(got) != 1 || first() != got[0].SecretID {
			t.Fatalf("%d tokens after the service was added again", len(got))
		}
	})
}

// TestUpdate_First checks an allocation whose first service with an identity comes with an update.
func TestUpdate_First(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.setup(t)
		m := w.manager(alloc("", false))
		if m.Prepare() {
			t.Fatal("Prepare() reports work")
		}
		a := alloc("api", false)
		w.sign(w.handles(a)[0], "consul.io")
		if !m.Update(a) {
			t.Fatal("Update() does not ask for Run")
		}
		run(t, m.Run)
		if pass(time.Second); m.Token(serviceIdentity, "")() == "" {
			t.Error("no token")
		}
	})
}

// TestInvalidate checks that a token which Consul does not know is replaced, and no other.
func TestInvalidate(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.setup(t)
		m, _ := w.start(t, alloc("api", false))
		pass(time.Second)
		secret := m.Token(serviceIdentity, "")()
		m.Invalidate(secret)
		m.Invalidate("another")
		if pass(time.Minute); m.Token(serviceIdentity, "")() != secret {
			t.Error("a token that Consul knows was replaced")
		}
		w.consul.Expect("ACL not found")
		w.consul.Revoke(secret)
		m.Invalidate(secret)
		if pass(time.Second); m.Token(serviceIdentity, "")() == secret || m.Token(serviceIdentity, "")() == "" {
			t.Error("a token that Consul does not know was not replaced")
		}
	})
}

// TestRestart_Lost checks that a restarted agent finds out that Consul lost its tokens meanwhile.
func TestRestart_Lost(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.setup(t)
		a := alloc("api", false)
		m, stop := w.start(t, a)
		pass(time.Second)
		secret := m.Token(serviceIdentity, "")()
		stop()
		w.consul.Expect("ACL not found")
		w.consul.Revoke(secret)
		w.restart()
		again := w.manager(a)
		again.Prepare()
		run(t, again.Run)
		if pass(time.Second); again.Token(serviceIdentity, "")() == secret || again.Token(serviceIdentity, "")() == "" {
			t.Error("the lost token was not replaced")
		}
	})
}

// TestEnd checks that the end of an allocation logs out all its tokens, and takes one second at most.
func TestEnd(t *testing.T) {
	for name, c := range map[string]struct {
		fault string
		after func(t *testing.T, w *world, stop func())
	}{
		"Consul answers":            {"", func(*testing.T, *world, func()) {}},
		"Consul is away for a time": {"refuse", func(_ *testing.T, w *world, _ func()) { pass(time.Hour); w.set(""); pass(5 * time.Minute) }},
		"Consul hangs for a time":   {"hang", func(_ *testing.T, w *world, _ func()) { pass(time.Hour); w.set(""); pass(6 * time.Minute) }},
		"the agent restarts": {"refuse", func(t *testing.T, w *world, stop func()) {
			stop()
			w.set("")
			w.restart()
			w.node.Leftovers(func(string) bool { return false })
			run(t, w.node.Run)
			pass(time.Second)
		}},
		"the agent restarts and has the allocation": {"refuse", func(t *testing.T, w *world, stop func()) {
			stop()
			w.set("")
			w.restart()
			w.node.Leftovers(func(string) bool { return true })
			run(t, w.node.Run)
			pass(time.Minute + time.Second)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.ttl = 24 * time.Hour
				w.setup(t)
				stopNode := run(t, w.node.Run)
				m, stop := w.start(t, alloc("api", true))
				pass(15 * time.Hour) // a replaced token of the task is valid
				if n := len(w.consul.Logins()); n != 3 {
					t.Fatalf("%d tokens, want 3", n)
				}
				stop()
				w.set(c.fault)
				began := time.Now()
				m.End(t.Context())
				if took := time.Since(began); took > time.Second {
					t.Errorf("End() took %s", took)
				}
				c.after(t, w, stopNode)
				if n := len(w.consul.Logins()); n != 0 {
					t.Errorf("%d tokens are left in Consul", n)
				}
				pass(time.Second) // for the commit
				if stored, err := w.db.ConsulTokens(""); err != nil || len(stored) != 0 {
					t.Errorf("tokens are left in the state of the client: %v, %v", stored, err)
				}
			})
		})
	}
}

// TestEnd_Replaced checks that the end of an allocation does not wait for replaced tokens to become due.
func TestEnd_Replaced(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.setup(t)
		run(t, w.node.Run)
		m, stop := w.start(t, alloc("api", false))
		pass(time.Second)
		m.Trim(alloc("", false))
		if pass(time.Second); len(w.consul.Logins()) != 1 {
			t.Fatal("the token of the removed service is logged out at once")
		}
		stop()
		m.End(t.Context())
		if n := len(w.consul.Logins()); n != 0 {
			t.Errorf("%d tokens are left in Consul", n)
		}
	})
}

// TestEnd_GivesUp checks that a logout is not tried for ever.
func TestEnd_GivesUp(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.setup(t)
		run(t, w.node.Run)
		m, stop := w.start(t, alloc("api", false))
		pass(time.Second)
		stop()
		w.set("fail")
		m.End(t.Context())
		if pass(23 * time.Hour); len(stored(t, w)) != 1 {
			t.Error("given up within a day")
		}
		if pass(2 * time.Hour); len(stored(t, w)) != 0 {
			t.Error("not given up after a day")
		}
	})
}

func stored(t *testing.T, w *world) map[string]int {
	all, err := w.db.ConsulTokens("")
	must(t, err)
	out := map[string]int{}
	for id, list := range all {
		out[id] = len(list)
	}
	return out
}

// TestEnd_AfterRestart checks an allocation that ended while no agent ran, and whose hooks the next agent runs without Prepare.
func TestEnd_AfterRestart(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.setup(t)
		a := alloc("api", true)
		_, stop := w.start(t, a)
		pass(time.Second)
		stop()
		w.restart()
		w.node.Leftovers(func(id string) bool { return id == a.ID })
		run(t, w.node.Run)
		if pass(time.Minute); len(w.consul.Logins()) != 2 {
			t.Fatalf("%d tokens of an allocation that the node has, want 2", len(w.consul.Logins()))
		}
		w.manager(a).End(t.Context())
		if n := len(w.consul.Logins()); n != 0 {
			t.Errorf("%d tokens are left in Consul", n)
		}
	})
}

// TestReplaced_Restart checks that a restart of the agent does not cut the minute of a replaced token of a service.
func TestReplaced_Restart(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.ttl = time.Hour
		w.setup(t)
		a := alloc("api", false)
		stopNode := run(t, w.node.Run)
		m, stop := w.start(t, a)
		pass(time.Second)
		first := m.Token(serviceIdentity, "")()
		for m.Token(serviceIdentity, "")() == first {
			pass(time.Second)
		}
		pass(20 * time.Second)
		stop()
		stopNode()
		w.restart()
		w.node.Leftovers(func(id string) bool { return id == a.ID })
		run(t, w.node.Run)
		if pass(30 * time.Second); len(w.consul.Logins()) != 2 {
			t.Errorf("%d tokens in Consul within the minute, want the replaced one too", len(w.consul.Logins()))
		}
		if pass(15 * time.Second); len(w.consul.Logins()) != 1 {
			t.Errorf("%d tokens in Consul after the minute, want 1", len(w.consul.Logins()))
		}
	})
}

// TestManyServices checks that the logins of many services run at the same time, within a limit.
func TestManyServices(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.setup(t)
		a := alloc("", false)
		for _, n := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t"} {
			a.Job.TaskGroups[0].Services = append(a.Job.TaskGroups[0].Services, &nomad.Service{Name: n, Identity: &nomad.WorkloadIdentity{Name: "id-" + n}})
		}
		m, _ := w.start(t, a)
		pass(time.Second)
		for _, s := range identity.Services(a, w.machine(), "global") {
			if m.Token(s.Identity.Name, "")() == "" {
				t.Errorf("no token of %s", s.Name)
			}
		}
	})
}
