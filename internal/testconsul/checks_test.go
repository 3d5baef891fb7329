package testconsul_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/open-nomad/open-nomad/internal/testconsul"
	"github.com/open-nomad/open-nomad/internal/testnet"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// target is an HTTP server whose status a test sets.
func target(t *testing.T) (url string, status *atomic.Int64) {
	t.Helper()
	status = &atomic.Int64{}
	status.Store(http.StatusOK)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(int(status.Load()))
		fmt.Fprintf(w, "%s %s %s", r.Method, r.Host, r.Header.Get("X-Probe"))
	}))
	t.Cleanup(s.Close)
	return s.URL, status
}

// grpcTarget serves the health of gRPC.
func grpcTarget(t *testing.T) (address string, set func(grpc_health_v1.HealthCheckResponse_ServingStatus)) {
	t.Helper()
	server, state := grpc.NewServer(), health.NewServer()
	grpc_health_v1.RegisterHealthServer(server, state)
	ln := testnet.Listen(t)
	done := make(chan error, 1)
	go func() { done <- server.Serve(ln) }()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	return ln.Addr().String(), func(s grpc_health_v1.HealthCheckResponse_ServingStatus) { state.SetServingStatus("api", s) }
}

// TestChecks_Results checks the status after each result of each type.
func TestChecks_Results(t *testing.T) {
	a := testconsul.Start(t, testconsul.Config{Manual: true})
	c := client(t, a, "").Agent()
	url, code := target(t)
	grpcAddress, setServing := grpcTarget(t)
	tcp := testnet.Listen(t)
	add := func(name string, def api.AgentServiceCheck) {
		must(t, c.CheckRegister(&api.AgentCheckRegistration{ID: name, Name: name, AgentServiceCheck: def}))
	}
	add("http", api.AgentServiceCheck{HTTP: url, Interval: "10s", Timeout: "5s", Method: "PUT",
		Header: map[string][]string{"x-probe": {"yes"}, "Host": {"web.test"}}})
	add("tcp", api.AgentServiceCheck{TCP: tcp.Addr().String(), Interval: "10s"})
	add("grpc", api.AgentServiceCheck{GRPC: grpcAddress + "/api", Interval: "10s"})
	add("ttl", api.AgentServiceCheck{TTL: "15s", Status: api.HealthPassing})
	want := func(when string, d time.Duration, http, tcp, grpc, ttl string) {
		t.Helper()
		a.Advance(d)
		for name, want := range map[string]string{"http": http, "tcp": tcp, "grpc": grpc, "ttl": ttl} {
			if k := a.Checks()[name]; k.Status != want {
				t.Errorf("%s: %s = %s (%s), want %s", when, name, k.Status, k.Output, want)
			}
		}
	}
	setServing(grpc_health_v1.HealthCheckResponse_SERVING)
	want("first run", 0, "passing", "passing", "passing", "passing")
	if got := a.Checks()["http"].Output; !strings.Contains(got, "200 OK Output: PUT web.test yes") {
		t.Errorf("output = %q", got)
	}
	code.Store(http.StatusTooManyRequests)
	setServing(grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	tcp.Close()
	want("before the interval ends", 9*time.Second, "passing", "passing", "passing", "passing")
	want("second run", time.Second, "warning", "critical", "critical", "passing")
	code.Store(http.StatusNotFound)
	want("third run", 10*time.Second, "critical", "critical", "critical", "critical")
	must(t, c.UpdateTTL("ttl", "back", api.HealthWarning))
	want("updated", 14*time.Second, "critical", "critical", "critical", "warning")
	want("expired", 2*time.Second, "critical", "critical", "critical", "critical")
	a.Expect("does not have associated TTL")
	refused(t, "update of http", c.UpdateTTL("http", "", api.HealthPassing), "400")
}

// TestChecks_Thresholds checks how many equal results change the status.
func TestChecks_Thresholds(t *testing.T) {
	a := testconsul.Start(t, testconsul.Config{Manual: true})
	url, code := target(t)
	must(t, client(t, a, "").Agent().CheckRegister(&api.AgentCheckRegistration{Name: "http", AgentServiceCheck: api.AgentServiceCheck{
		HTTP: url, Interval: "1s", SuccessBeforePassing: 2, FailuresBeforeWarning: 2, FailuresBeforeCritical: 3}}))
	var got []string
	for _, status := range []int{200, 200, 500, 500, 500, 200, 200} {
		code.Store(int64(status))
		a.Advance(time.Second)
		got = append(got, a.Checks()["http"].Status)
	}
	want := "[passing passing passing warning critical critical passing]"
	if fmt.Sprint(got) != want {
		t.Errorf("status = %v, want %s", got, want)
	}
}

// TestChecks_Unattended checks that checks run and expire without Advance.
func TestChecks_Unattended(t *testing.T) {
	a := testconsul.Start(t, testconsul.Config{})
	c := client(t, a, "").Agent()
	url, code := target(t)
	must(t, c.CheckRegister(&api.AgentCheckRegistration{Name: "http", AgentServiceCheck: api.AgentServiceCheck{HTTP: url, Interval: "1s"}}))
	must(t, c.CheckRegister(&api.AgentCheckRegistration{Name: "ttl", AgentServiceCheck: api.AgentServiceCheck{TTL: "1s", Status: "passing"}}))
	is := func(name, status string) func() bool { return func() bool { return a.Checks()[name].Status == status } }
	testpace.Until(t, "the first run", is("http", api.HealthPassing))
	code.Store(http.StatusInternalServerError)
	testpace.Until(t, "the next run", is("http", api.HealthCritical))
	testpace.Until(t, "the end of the TTL", is("ttl", api.HealthCritical))
}

// TestBlocking checks that a read with an index waits for a change of its subject, and only of that.
func TestBlocking(t *testing.T) {
	a := testconsul.Start(t, testconsul.Config{Manual: true})
	c := client(t, a, "")
	register := func(name string) {
		must(t, c.Agent().ServiceRegister(&api.AgentServiceRegistration{Name: name, Check: &api.AgentServiceCheck{TTL: "10s"}}))
	}
	register("web")
	type options = api.QueryOptions
	type meta = api.QueryMeta
	for name, b := range map[string]struct {
		path   string
		read   func(*options) (*meta, error)
		others func() // must not wake the read
		change func()
	}{
		"health": {"/v1/health/service/web", func(o *options) (*meta, error) {
			_, m, err := c.Health().Service("web", "", false, o)
			return m, err
		},
			func() { register("api") }, func() { must(t, c.Agent().UpdateTTL("service:web", "", api.HealthPassing)) }},
		"services": {"/v1/catalog/services", func(o *options) (*meta, error) { _, m, err := c.Catalog().Services(o); return m, err },
			func() { a.PutKey("x", "y") }, func() { register("late") }},
		"missing service": {"/v1/catalog/service/cron", func(o *options) (*meta, error) {
			_, m, err := c.Catalog().Service("cron", "", o)
			return m, err
		},
			func() { register("other") }, func() { register("cron") }},
		"missing key": {"/v1/kv/a/b", func(o *options) (*meta, error) { _, m, err := c.KV().Get("a/b", o); return m, err },
			func() { a.PutKey("a/c", "1") }, func() { a.PutKey("a/b", "1") }},
		"prefix": {"/v1/kv/p/", func(o *options) (*meta, error) { _, m, err := c.KV().List("p/", o); return m, err },
			func() { a.PutKey("q", "1") }, func() { a.PutKey("p/1", "1") }},
		"deleted key": {"/v1/kv/x", func(o *options) (*meta, error) { _, m, err := c.KV().Get("x", o); return m, err },
			func() { a.PutKey("x2", "1") }, func() { a.PutKey("x", "1"); a.DeleteKey("x") }},
	} {
		before, err := b.read(nil)
		must(t, err)
		type result struct {
			index uint64
			err   error
		}
		calls := a.Calls("GET " + b.path)
		done := make(chan result, 1)
		go func() {
			m, err := b.read(&api.QueryOptions{WaitIndex: before.LastIndex, WaitTime: time.Minute})
			if err != nil {
				m = &meta{}
			}
			done <- result{m.LastIndex, err}
		}()
		testpace.Until(t, "the read", func() bool { return a.Calls("GET "+b.path) > calls })
		b.others()
		b.change()
		if got := within(t, name, done); got.err != nil || got.index <= before.LastIndex {
			t.Errorf("%s: index = %d, %v; want more than %d", name, got.index, got.err, before.LastIndex)
		}
		before, err = b.read(nil)
		must(t, err)
		b.others()
		same, err := b.read(&options{WaitIndex: before.LastIndex, WaitTime: time.Millisecond})
		if must(t, err); same.LastIndex != before.LastIndex && name != "services" {
			t.Errorf("%s: index = %d after another write, want %d", name, same.LastIndex, before.LastIndex)
		}
	}
}

// TestKeys checks what the official client reads and writes of keys.
func TestKeys(t *testing.T) {
	a := testconsul.Start(t, testconsul.Config{})
	kv := client(t, a, "").KV()
	for _, key := range []string{"app/db/host", "app/db/port", "app/name"} {
		_, err := kv.Put(&api.KVPair{Key: key, Value: []byte("of " + key), Flags: 7}, nil)
		must(t, err)
	}
	pair, _, err := kv.Get("app/name", nil)
	if err != nil || string(pair.Value) != "of app/name" || pair.Flags != 7 || pair.ModifyIndex == 0 {
		t.Errorf("Get() = %+v, %v", pair, err)
	}
	if pair, meta, err := kv.Get("none", nil); err != nil || pair != nil || meta.LastIndex == 0 {
		t.Errorf("Get() of a missing key = %v, %+v, %v", pair, meta, err)
	}
	if list, _, err := kv.List("app/db", nil); err != nil || len(list) != 2 || list[0].Key != "app/db/host" {
		t.Errorf("List() = %v, %v", list, err)
	}
	if names, _, err := kv.Keys("app/", "/", nil); err != nil || strings.Join(names, " ") != "app/db/ app/name" {
		t.Errorf("Keys() = %q, %v", names, err)
	}
	_, err = kv.DeleteTree("app/db", nil)
	must(t, err)
	if names, _, err := kv.Keys("", "", nil); err != nil || strings.Join(names, " ") != "app/name" {
		t.Errorf("Keys() = %q, %v", names, err)
	}
}
