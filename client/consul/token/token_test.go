package token_test

import (
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/consul/token"
	"github.com/open-nomad/open-nomad/internal/testconsul"
	"github.com/open-nomad/open-nomad/nomad"
)

const serviceIdentity = "consul-service_api"

// TestLogin checks the tokens of a service with an interpolated name and of a task, and that an agent that starts again uses
// them without a login.
func TestLogin(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.setup(t)
		a := alloc("${meta.team}-api", true)
		m, stop := w.start(t, a)
		pass(time.Second)
		service, task := m.Token(serviceIdentity, "")(), m.Token(token.TaskIdentity, "web")()
		if service == "" || task == "" || service == task {
			t.Fatalf("no two tokens: %t, %t", service == "", task == "")
		}
		want := map[string]string{
			service: `token created via login: {"node_id":"n1","requested_by":"nomad_service_blue-api"}`,
			task:    `token created via login: {"node_id":"n1","requested_by":"nomad_task_web"}`,
		}
		for _, l := range w.consul.Logins() {
			if l.Description != want[l.SecretID] {
				t.Errorf("description %q, want %q", l.Description, want[l.SecretID])
			}
			if l.SecretID == service && (len(l.ServiceIdentities) != 1 || l.ServiceIdentities[0].ServiceName != "blue-api") {
				t.Errorf("service identities %+v, want blue-api", l.ServiceIdentities)
			}
		}
		if other := m.Token(serviceIdentity, "web")(); other != "" {
			t.Error("a token for another workload")
		}
		stop()
		w.restart()
		again := w.manager(a)
		again.Prepare()
		if again.Token(serviceIdentity, "")() != service || again.Token(token.TaskIdentity, "web")() != task {
			t.Error("the restarted agent has other tokens before it runs")
		}
		run(t, again.Run)
		pass(time.Hour)
		if n := w.consul.Calls("POST /v1/acl/login"); n != 2 {
			t.Errorf("%d logins, want 2", n)
		}
		if got := w.told(); len(got) > 0 {
			t.Errorf("events %q", got)
		}
	})
}

// TestNothing checks an allocation and a node without Consul.
func TestNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		if w.manager(alloc("", false)).Prepare() {
			t.Error("Prepare() reports work for an allocation without identities for Consul")
		}
		w.node = nil
		m := w.manager(alloc("api", true))
		if m.Enabled() || m.Prepare() || m.Update(alloc("api", true)) || m.Token(serviceIdentity, "")() != "" {
			t.Error("tokens on a node without Consul")
		}
		m.Trim(alloc("", false))
		m.End(t.Context())
	})
}

// TestFailures checks that a failed login is repeated until it works, with one event for the cause and one for the success.
func TestFailures(t *testing.T) {
	for name, c := range map[string]struct {
		fail, mend func(t *testing.T, w *world, a *nomad.Allocation)
		fault      string // that the stand-in records
		want       string
		within     time.Duration // of the success after the cause is gone
	}{
		"unreachable": {
			fail: func(t *testing.T, w *world, _ *nomad.Allocation) { w.setup(t); w.set("refuse") },
			mend: func(_ *testing.T, w *world, _ *nomad.Allocation) { w.set("") },
			want: "Consul is unreachable", within: time.Minute,
		},
		"hangs": {
			fail: func(t *testing.T, w *world, _ *nomad.Allocation) { w.setup(t); w.set("hang") },
			mend: func(_ *testing.T, w *world, _ *nomad.Allocation) { w.set("") },
			want: "Consul does not answer", within: time.Minute + 5*time.Second,
		},
		"without a leader": {
			fail: func(t *testing.T, w *world, _ *nomad.Allocation) { w.setup(t); w.set("fail") },
			mend: func(_ *testing.T, w *world, _ *nomad.Allocation) { w.set("") },
			want: "Consul answered with status 500", within: time.Minute,
		},
		"secret of two lines": {
			fail: func(t *testing.T, w *world, _ *nomad.Allocation) {
				w.setup(t)
				w.set(`login: {"AccessorID":"a","SecretID":"b\nc"}`)
			},
			mend: func(_ *testing.T, w *world, _ *nomad.Allocation) { w.set("") },
			want: "Consul answered with status 200", within: time.Minute,
		},
		"long accessor": {
			fail: func(t *testing.T, w *world, _ *nomad.Allocation) {
				w.setup(t)
				w.set(`login: {"AccessorID":"` + strings.Repeat("a", 300) + `","SecretID":"b"}`)
			},
			mend: func(_ *testing.T, w *world, _ *nomad.Allocation) { w.set("") },
			want: "Consul answered with status 200", within: time.Minute,
		},
		"no auth method": {
			fail:  func(*testing.T, *world, *nomad.Allocation) {},
			mend:  func(t *testing.T, w *world, _ *nomad.Allocation) { w.setup(t) },
			fault: "not found", want: `auth method "nomad-workloads" does not exist in Consul: create it with nomad setup consul (status 403)`, within: 5 * time.Minute,
		},
		"no binding rule": {
			fail:  func(t *testing.T, w *world, _ *nomad.Allocation) { w.method(t) },
			mend:  func(t *testing.T, w *world, _ *nomad.Allocation) { w.rules(t) },
			fault: "no binding rule", want: `with auth method "nomad-workloads", no binding rule gives it a right: run nomad setup consul, and create a role nomad-<namespace>-tasks for the tasks of each namespace (status 403)`, within: 5 * time.Minute,
		},
		"wrong audience": {
			fail: func(t *testing.T, w *world, a *nomad.Allocation) { w.setup(t); w.sign(w.handles(a)[0], "vault.io") },
			mend: func(_ *testing.T, w *world, a *nomad.Allocation) { w.sign(w.handles(a)[0], "consul.io") },
			// A new identity is tried at once.
			fault: "aud claim", want: `auth method "nomad-workloads" does not accept the audience of the identity: BoundAudiences must have aud of the identity (status 403)`, within: time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				a := alloc("api", false)
				w.sign(w.handles(a)[0], "consul.io")
				c.fail(t, w, a)
				if c.fault != "" {
					w.consul.Expect(c.fault)
				}
				m := w.manager(a)
				m.Prepare()
				run(t, m.Run)
				pass(10 * time.Minute)
				got := w.told()
				if len(got) != 1 || !strings.HasPrefix(got[0], `: Login to Consul for service "api" failed: `+c.want+".") {
					t.Fatalf("events %q, want one with %q", got, c.want)
				}
				if n := w.consul.Calls("POST /v1/acl/login"); c.fault != "" && (n < 3 || n > 8) {
					t.Errorf("%d logins in 10 minutes for a refused identity", n)
				}
				c.mend(t, w, a)
				pass(c.within)
				if m.Token(serviceIdentity, "")() == "" {
					t.Errorf("no token %s after the cause is gone", c.within)
				}
				if got := w.told(); len(got) != 1 || got[0] != `: Login to Consul for service "api" succeeded` {
					t.Errorf("events %q, want one about the success", got)
				}
			})
		})
	}
}

// TestLogin_Expired checks that a Consul whose tokens have ended already does not cause logins without a pause.
func TestLogin_Expired(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.setup(t)
		w.set(`login: {"AccessorID":"a","SecretID":"b","CreateTime":"2000-01-02T00:00:00Z","ExpirationTime":"2000-01-01T00:00:00Z"}`)
		w.start(t, alloc("api", false))
		if pass(10 * time.Minute); w.logins < 2 || w.logins > 21 {
			t.Errorf("%d logins in 10 minutes", w.logins)
		}
	})
}

// TestPreflight checks that a token is used when the agent of Consul accepts it, and that one it never accepts is logged out.
func TestPreflight(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.setup(t)
		w.consul.Expect("ACL not found")
		must(t, w.consul.Set(testconsul.Mode{TokenLag: 4 * time.Second}))
		m, _ := w.start(t, alloc("api", false))
		if pass(3 * time.Second); m.Token(serviceIdentity, "")() != "" {
			t.Error("the token is used before Consul accepts it")
		}
		if pass(3 * time.Second); m.Token(serviceIdentity, "")() == "" {
			t.Error("no token after Consul accepts it")
		}
	})
}

func TestPreflight_Never(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.setup(t)
		w.consul.Expect("ACL not found")
		w.meta["consul.token_preflight_check.timeout"] = "3s"
		must(t, w.consul.Set(testconsul.Mode{TokenLag: time.Hour}))
		m, _ := w.start(t, alloc("api", false))
		pass(3 * time.Second)
		if got := w.told(); len(got) != 1 || !strings.Contains(got[0], "the agent of Consul does not accept the new token yet") {
			t.Errorf("events %q", got)
		}
		must(t, w.consul.Set(testconsul.Mode{}))
		if pass(time.Minute); m.Token(serviceIdentity, "")() == "" {
			t.Error("no token after Consul accepts new ones")
		}
	})
}
