package reconcile_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/internal/consul/reconcile"
	"github.com/open-nomad/open-nomad/internal/testconsul"
)

// timeout is the limit of a request in tests.
const timeout = 5 * time.Second

// fault is how a request fails.
type fault int

const (
	served fault = iota
	refused
	hanging
	failing // status 500
	cut     // the connection is closed before the answer
	late    // the request is served, and the answer is lost
	denied  // status 403
)

// network carries requests to the stand-in without sockets, so that a bubble of testing/synctest owns the time.
type network struct {
	consul     *testconsul.Agent
	reconciler *reconcile.Reconciler

	mu     sync.Mutex
	faults func(*http.Request) fault
	delay  func(*http.Request) time.Duration // before and after a request is served, nil for none
	log    []string                          // method, path without /v1/agent, token
}

// RoundTrip implements http.RoundTripper.
func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	n.mu.Lock()
	line := strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Method, strings.TrimPrefix(r.URL.Path, "/v1/agent"), r.Header.Get("X-Consul-Token")))
	if r.URL.RawQuery != "" {
		line = strings.Replace(line, " /", " ?"+r.URL.RawQuery+" /", 1)
	}
	n.log = append(n.log, line)
	f := served
	if n.faults != nil {
		f = n.faults(r)
	}
	before, after := time.Duration(0), time.Duration(0)
	if n.delay != nil {
		before, after = n.delay(r), n.delay(r)
	}
	n.mu.Unlock()
	if err := backoff.Sleep(r.Context(), before); err != nil {
		return nil, err
	}
	switch f {
	case refused:
		return nil, syscall.ECONNREFUSED
	case hanging:
		<-r.Context().Done()
		return nil, r.Context().Err()
	case failing:
		return answer(http.StatusInternalServerError), nil
	case denied:
		return answer(http.StatusForbidden), nil
	case cut:
		return nil, syscall.ECONNRESET
	}
	w := httptest.NewRecorder()
	n.consul.ServeHTTP(w, r)
	if f == late {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	if err := backoff.Sleep(r.Context(), after); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

func answer(status int) *http.Response {
	w := httptest.NewRecorder()
	http.Error(w, "secret body", status)
	return w.Result()
}

// set makes requests fail whose method and path contain a text, and serves the others.
func (n *network) set(f fault, text string) {
	n.setFunc(func(r *http.Request) fault {
		if strings.Contains(r.Method+" "+r.URL.Path, text) {
			return f
		}
		return served
	})
}

// setFunc sets the function that returns the fault of a request.
func (n *network) setFunc(fn func(*http.Request) fault) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults = fn
}

// slow makes requests take some time whose method and path contain a text.
func (n *network) slow(d time.Duration, text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delay = func(r *http.Request) time.Duration {
		if strings.Contains(r.Method+" "+r.URL.Path, text) {
			return d / 2
		}
		return 0
	}
}

// take returns the requests since the last call.
func (n *network) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.log
	n.log = nil
	return out
}

// writes returns the requests since the last call, except for lists.
func (n *network) writes() []string {
	return slices.DeleteFunc(n.take(), func(s string) bool { return strings.HasPrefix(s, "GET") })
}

// agent returns a connection over the network.
func (n *network) agent(t testing.TB, token string) *consul.Agent {
	t.Helper()
	a, err := consul.New(consul.Settings{Name: consul.DefaultCluster, Timeout: timeout,
		HTTP: api.Config{Address: "127.0.0.1:8500", Token: token, HttpClient: &http.Client{Transport: n}}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// bubble runs a test in a bubble, with a stand-in outside of it.
func bubble(t *testing.T, fn func(t *testing.T, n *network)) {
	t.Helper()
	n := &network{consul: testconsul.Start(t, testconsul.Config{Manual: true})}
	synctest.Test(t, func(t *testing.T) { fn(t, n) })
}

// run runs a Reconciler until stop is called or the test ends.
func run(t testing.TB, r *reconcile.Reconciler) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx) // ends with ctx only
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return stop
}

// alloc is the ID of an allocation.
func alloc(n int) string { return fmt.Sprintf("%08x-0000-4000-8000-000000000000", n) }

// service returns a service with an HTTP check.
func service(n int, name string) *reconcile.Service {
	id := fmt.Sprintf("_nomad-task-%s-group-g-%s-http", alloc(n), name)
	return &reconcile.Service{Registration: &api.AgentServiceRegistration{ID: id, Name: name, Port: 8080, Address: "10.0.0.1",
		Tags: []string{"a", "b"}, Meta: map[string]string{"external-source": "nomad"},
		Checks: api.AgentServiceChecks{{CheckID: checkID(id), Name: "alive", HTTP: "http://10.0.0.1:8080/", Interval: "10s", Timeout: "2s"}}}}
}

// ttlService returns a service with a TTL check.
func ttlService(n int, name string) *reconcile.Service {
	s := service(n, name)
	s.Registration.Checks[0] = &api.AgentServiceCheck{CheckID: checkID(s.Registration.ID + "script"), Name: "script", TTL: "41s"}
	return s
}

// changed returns a service with another definition.
func changed(s *reconcile.Service, fn func(*api.AgentServiceRegistration)) *reconcile.Service {
	out, reg := *s, *s.Registration
	reg.Checks = slices.Clone(reg.Checks)
	fn(&reg)
	out.Registration = &reg
	return &out
}

// checkID returns the ID of the check of a service.
func checkID(service string) string {
	return fmt.Sprintf("_nomad-check-%x", sha256.Sum256([]byte(service)))
}

// wait lets time pass in a bubble.
func wait(d time.Duration) {
	time.Sleep(d) // in the bubble: no real time
	synctest.Wait()
}

// equal compares requests, or IDs.
func equal(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

// tokenFault makes requests with a token fail.
func tokenFault(f fault, token string) func(*http.Request) fault {
	return func(r *http.Request) fault {
		if r.Header.Get("X-Consul-Token") == token && r.Method != http.MethodGet {
			return f
		}
		return served
	}
}

// once makes the first request fail.
func once(f fault, first *bool) func(*http.Request) fault {
	return func(*http.Request) fault {
		if *first {
			*first = false
			return f
		}
		return served
	}
}

// direct returns a connection that has no faults.
func (n *network) direct(t testing.TB) *consul.Agent {
	return (&network{consul: n.consul}).agent(t, "")
}
