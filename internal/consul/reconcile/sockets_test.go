package reconcile_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/internal/consul/reconcile"
	"github.com/open-nomad/open-nomad/internal/testconsul"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// connect returns a connection to the stand-in over sockets.
func connect(t testing.TB, address, token string) *consul.Agent {
	t.Helper()
	a, err := consul.New(consul.Settings{Name: consul.DefaultCluster, Timeout: timeout, HTTP: api.Config{Address: address, Token: token}})
	must(t, err)
	return a
}

// TestSockets checks a service over real connections: start, status, restart of Consul, removal.
func TestSockets(t *testing.T) {
	c := testconsul.Start(t, testconsul.Config{Manual: true, ACL: true})
	own := c.NewToken(t, `service "web" { policy = "write" }`)
	r := reconcile.New(reconcile.Config{Agent: connect(t, c.Addr(), c.Management())})
	run(t, r)
	web := ttlService(1, "web")
	web.Token = func() string { return own }
	check := web.Registration.Checks[0].CheckID
	r.Set("a", []*reconcile.Service{web})
	registered := func() bool { return r.States("a")[0].Registered }
	testpace.Until(t, "the registration", registered)
	passing := make(chan struct{})
	end := r.Watch("a", func(list []reconcile.Status) {
		if len(list) == 1 && list[0].Status == api.HealthPassing {
			close(passing)
		}
	})
	r.Update(reconcile.Status{CheckID: check, Status: api.HealthPassing})
	<-passing
	end()
	must(t, c.Restart())
	r.Update(reconcile.Status{CheckID: check, Status: api.HealthPassing}) // else the next list, within 30 s
	testpace.Until(t, "the registration after a restart", func() bool { return c.Checks()[check].Status == api.HealthPassing })
	if !r.Remove(t.Context(), "a") {
		t.Error("Remove() = false")
	}
	equal(t, "left", c.IDs())
}

// TestSockets_Hanging checks that Remove takes one second while Consul hangs, and that the service is removed afterwards.
func TestSockets_Hanging(t *testing.T) {
	c := testconsul.Start(t, testconsul.Config{Manual: true})
	r := reconcile.New(reconcile.Config{Agent: connect(t, c.Addr(), "")})
	run(t, r)
	r.Set("a", []*reconcile.Service{service(1, "web")})
	testpace.Until(t, "the registration", func() bool { return r.States("a")[0].Registered })
	must(t, c.Set(testconsul.Mode{Hang: true}))
	start := time.Now()
	if r.Remove(t.Context(), "a") || time.Since(start) < time.Second {
		t.Errorf("Remove() = true, or took %v", time.Since(start))
	}
	must(t, c.Set(testconsul.Mode{}))
	testpace.Until(t, "the removal", func() bool { return len(c.IDs()) == 0 })
}

// TestSockets_LargeAnswer checks that an answer that exceeds the limit is not used, and removes nothing.
func TestSockets_LargeAnswer(t *testing.T) {
	var asked int
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != http.MethodGet:
			t.Errorf("request %s %s", r.Method, r.URL.Path)
		case r.URL.Path == "/v1/agent/self":
			fmt.Fprint(w, "{}")
		default:
			asked++
			fmt.Fprintf(w, `{"x":{"ID":%q}}`, strings.Repeat("x", consul.MaxAnswer))
		}
	}))
	t.Cleanup(s.Close)
	r := reconcile.New(reconcile.Config{Agent: connect(t, s.Listener.Addr().String(), "")})
	r.Set("a", []*reconcile.Service{service(1, "web")})
	stop := run(t, r)
	testpace.Until(t, "a failure", func() bool { return r.States("a")[0].Failures > 1 })
	stop()
	if asked < 2 {
		t.Errorf("asked %d times", asked)
	}
}

// TestSockets_LargeList checks 1,000 checks with the largest output that Consul keeps.
func TestSockets_LargeList(t *testing.T) {
	c := testconsul.Start(t, testconsul.Config{Manual: true})
	r := reconcile.New(reconcile.Config{Agent: connect(t, c.Addr(), "")})
	const services = 1000
	for i := range services {
		s := ttlService(i, "web")
		r.Set(fmt.Sprint(i), []*reconcile.Service{s})
		r.Update(reconcile.Status{CheckID: s.Registration.Checks[0].CheckID, Status: api.HealthPassing, Output: strings.Repeat("\n", 4096)})
	}
	run(t, r)
	testpace.Until(t, "all statuses", func() bool {
		checks := c.Checks()
		for _, k := range checks {
			if k.Output == "" {
				return false
			}
		}
		return len(checks) == services
	})
	got := make(chan string, 1)
	defer r.Watch("7", func(list []reconcile.Status) { got <- list[0].Status })()
	select {
	case status := <-got:
		if status != api.HealthPassing {
			t.Errorf("status = %s", status)
		}
	case <-time.After(20 * time.Second):
		t.Error("no statuses")
	}
}

// many sets a number of services, and waits until Consul has them.
func many(t testing.TB, c *testconsul.Agent, n int) {
	r := reconcile.New(reconcile.Config{Agent: connect(t, c.Addr(), "")})
	for i := range n {
		r.Set(fmt.Sprint(i), []*reconcile.Service{service(i, "web")})
	}
	run(t, r)
	testpace.Until(t, "all registrations", func() bool { return len(c.Services()) == n })
}

// TestThousand checks the requests for 1,000 services: one for each at the start, and two in a list.
func TestThousand(t *testing.T) {
	bubble(t, func(t *testing.T, n *network) {
		const services = 1000
		r := reconcile.New(reconcile.Config{Agent: n.agent(t, "")})
		for i := range services {
			r.Set(fmt.Sprint(i), []*reconcile.Service{service(i, "web")})
		}
		run(t, r)
		wait(time.Second)
		if got := len(n.take()); got != services+3 {
			t.Errorf("%d requests to register %d services", got, services)
		}
		wait(10 * time.Minute)
		if got := len(n.take()); got != 2*20 {
			t.Errorf("%d requests in 10 minutes", got)
		}
		r.Set("1", []*reconcile.Service{changed(service(1, "web"), func(s *api.AgentServiceRegistration) { s.Port = 1 })})
		wait(time.Second)
		equal(t, "a change", n.take(), "PUT ?replace-existing-checks=true /service/register")
	})
}

// BenchmarkRegister measures the registration of 1,000 services over sockets.
func BenchmarkRegister(b *testing.B) {
	for b.Loop() {
		c := testconsul.Start(b, testconsul.Config{Manual: true})
		many(b, c, 1000)
	}
}

// BenchmarkList measures the comparison of 1,000 services with Consul, which happens every 30 s. The time contains that
// of the stand-in.
func BenchmarkList(b *testing.B) {
	c := testconsul.Start(b, testconsul.Config{Manual: true})
	agent := connect(b, c.Addr(), "")
	many(b, c, 1000)
	for b.Loop() {
		first := c.Calls("GET /v1/agent/checks")
		r := reconcile.New(reconcile.Config{Agent: agent})
		r.Set("a", []*reconcile.Service{service(1, "web")})
		stop := run(b, r)
		testpace.Until(b, "the comparison", func() bool { return r.States("a")[0].Registered })
		stop()
		if c.Calls("GET /v1/agent/checks") == first {
			b.Fatal("no list")
		}
	}
}

// TestSockets_LargeOutput checks that of the output of a check only as much is kept as Consul itself keeps.
func TestSockets_LargeOutput(t *testing.T) {
	c := testconsul.Start(t, testconsul.Config{Manual: true})
	target, err := url.Parse("http://" + strings.TrimPrefix(c.Addr(), "http://"))
	must(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	check := ttlService(1, "web").Registration.Checks[0].CheckID
	hostile := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/agent/checks" {
			proxy.ServeHTTP(w, r)
			return
		}
		must(t, json.NewEncoder(w).Encode(map[string]api.AgentCheck{check: {CheckID: check, Status: api.HealthPassing,
			ServiceID: ttlService(1, "web").Registration.ID, Output: strings.Repeat("x", 1<<20)}}))
	}))
	defer hostile.Close()
	r := reconcile.New(reconcile.Config{Agent: connect(t, hostile.URL, "")})
	r.Set("a", []*reconcile.Service{ttlService(1, "web")})
	run(t, r)
	got := make(chan int, 100)
	defer r.Watch("a", func(list []reconcile.Status) {
		if len(list) == 1 {
			got <- len(list[0].Output)
		}
	})()
	if n := <-got; n != 4096 {
		t.Errorf("output of %d bytes, want 4096", n)
	}
}
