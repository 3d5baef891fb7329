package api_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// seen is a request that an agent received.
type seen struct{ method, uri, token, auth, body string }

// agent starts a server that responds to every request with body, and sends each request
// to the channel.
func agent(t *testing.T, status int, body string) (*api.Config, chan seen) {
	t.Helper()
	requests := make(chan seen, 10)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		requests <- seen{r.Method, r.RequestURI, r.Header.Get("X-Nomad-Token"), r.Header.Get("Authorization"), string(b)}
		w.Header().Set("X-Nomad-Index", "42")
		w.Header().Set("X-Nomad-KnownLeader", "true")
		w.Header().Set("X-Nomad-LastContact", "7")
		w.Header().Set("X-Nomad-NextToken", "next")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(srv.Close)
	return &api.Config{Address: srv.URL}, requests
}

func client(t *testing.T, conf *api.Config) *api.Client {
	t.Helper()
	c, err := api.NewClient(conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestRequests(t *testing.T) {
	job := &api.Job{ID: new("a/b")}
	alloc := &api.Allocation{ID: "al"}
	for _, c := range []struct {
		name string
		call func(c *api.Client)
		want string // method and URI, then a part of the body
	}{
		{"register", func(c *api.Client) { c.Jobs().Register(job, nil) }, `PUT /v1/jobs "ID":"a/b"`},
		{"enforce", func(c *api.Client) { c.Jobs().EnforceRegister(job, 5, nil) }, `PUT /v1/jobs "EnforceIndex":true,"JobModifyIndex":5`},
		{"validate", func(c *api.Client) { c.Jobs().Validate(job, nil) }, `PUT /v1/validate/job "ID":"a/b"`},
		{"plan", func(c *api.Client) { c.Jobs().Plan(job, true, nil) }, `PUT /v1/job/a%2Fb/plan "Diff":true`},
		{"list", func(c *api.Client) { c.Jobs().PrefixList("x") }, `GET /v1/jobs?prefix=x `},
		{"info", func(c *api.Client) { c.Jobs().Info("a/b", nil) }, `GET /v1/job/a%2Fb `},
		{"versions", func(c *api.Client) { c.Jobs().Versions("a", true, nil) }, `GET /v1/job/a/versions?diffs=true `},
		{"submission", func(c *api.Client) { c.Jobs().Submission("a", 3, nil) }, `GET /v1/job/a/submission?version=3 `},
		{"job allocations", func(c *api.Client) { c.Jobs().Allocations("a", true, nil) }, `GET /v1/job/a/allocations?all=true `},
		{"evaluations", func(c *api.Client) { c.Jobs().Evaluations("a", nil) }, `GET /v1/job/a/evaluations `},
		{"latest deployment", func(c *api.Client) { c.Jobs().LatestDeployment("a", nil) }, `GET /v1/job/a/deployment `},
		{"deregister", func(c *api.Client) { c.Jobs().Deregister("a", true, nil) },
			`DELETE /v1/job/a?global=false&no_shutdown_delay=false&purge=true `},
		{"evaluate", func(c *api.Client) {
			c.Jobs().EvaluateWithOpts("a", api.EvalOptions{ForceReschedule: true}, nil)
		}, `PUT /v1/job/a/evaluate "ForceReschedule":true`},
		{"force", func(c *api.Client) { c.Jobs().PeriodicForce("a", nil) }, `PUT /v1/job/a/periodic/force`},
		{"dispatch", func(c *api.Client) { c.Jobs().Dispatch("a", map[string]string{"k": "v"}, []byte("p"), "x", nil) },
			`PUT /v1/job/a/dispatch "Payload":"cA=="`},
		{"parse", func(c *api.Client) { c.Jobs().ParseHCL("job", true) }, `PUT /v1/jobs/parse "Canonicalize":true`},
		{"stop by body", func(c *api.Client) {
			c.Jobs().DeregisterOpts(strings.Repeat("/", 20_000), &api.DeregisterOptions{Purge: true}, nil)
		}, `PUT /v1/jobs/stop "Purge":true`},
		{"statuses", func(c *api.Client) { c.Jobs().Statuses(&api.JobStatusesRequest{IncludeChildren: true}, nil) },
			`POST /v1/jobs/statuses "IncludeChildren":true`},
		{"allocations", func(c *api.Client) { c.Allocations().List(nil) }, `GET /v1/allocations `},
		{"stop", func(c *api.Client) { c.Allocations().Stop(alloc, nil) }, `PUT /v1/allocation/al/stop `},
		{"restart", func(c *api.Client) { c.Allocations().Restart(alloc, "t", nil) },
			`PUT /v1/client/allocation/al/restart "TaskName":"t"`},
		{"signal", func(c *api.Client) { c.Allocations().Signal(alloc, nil, "t", "SIGHUP") },
			`PUT /v1/client/allocation/al/signal "Signal":"SIGHUP"`},
		{"stats", func(c *api.Client) { c.Allocations().Stats(alloc, nil) }, `GET /v1/client/allocation/al/stats `},
		{"checks", func(c *api.Client) { c.Allocations().Checks("al", nil) }, `GET /v1/client/allocation/al/checks `},
		{"drain", func(c *api.Client) { c.Nodes().UpdateDrain("n", &api.DrainSpec{Deadline: -1}, false, nil) },
			`PUT /v1/node/n/drain "Deadline":-1`},
		{"eligibility", func(c *api.Client) { c.Nodes().ToggleEligibility("n", false, nil) },
			`PUT /v1/node/n/eligibility "Eligibility":"ineligible"`},
		{"node stats", func(c *api.Client) { c.Nodes().Stats("n", nil) }, `GET /v1/client/stats?node_id=n `},
		{"renew", func(c *api.Client) {
			c.Nodes().Identity().Renew(&api.NodeIdentityRenewRequest{NodeID: "n"}, nil)
		}, `PUT /v1/client/identity/renew?node_id=n `},
		{"unblock", func(c *api.Client) { c.Deployments().Unblock("d", nil) }, `PUT /v1/deployment/unblock/d "DeploymentID":"d"`},
		{"fail", func(c *api.Client) { c.Deployments().Fail("d", nil) }, `PUT /v1/deployment/fail/d "DeploymentID":"d"`},
		{"scheduler", func(c *api.Client) {
			c.Operator().SchedulerCASConfiguration(&api.SchedulerConfiguration{ModifyIndex: 3}, nil)
		}, `PUT /v1/operator/scheduler/configuration?cas=3 `},
		{"autopilot", func(c *api.Client) {
			c.Operator().AutopilotCASConfiguration(&api.AutopilotConfiguration{ModifyIndex: 3, LastContactThreshold: time.Second}, nil)
		}, `PUT /v1/operator/autopilot/configuration?cas=3 "LastContactThreshold":"1s"`},
		{"gc", func(c *api.Client) { c.System().GarbageCollect() }, `PUT /v1/system/gc `},
		{"raw", func(c *api.Client) { c.Raw().Delete("/v1/x?y=z", nil, nil) }, `DELETE /v1/x?y=z `},
	} {
		t.Run(c.name, func(t *testing.T) {
			conf, requests := agent(t, 200, "")
			c.call(client(t, conf))
			got := <-requests
			verb, uri, _ := strings.Cut(c.want, " ")
			uri, body, _ := strings.Cut(uri, " ")
			if got.method != verb || got.uri != uri || !strings.Contains(got.body, body) {
				t.Errorf("agent received %s %s %s, want %s", got.method, got.uri, got.body, c.want)
			}
		})
	}
}

func TestQueryOptions(t *testing.T) {
	conf, requests := agent(t, 200, "[]")
	conf.Region, conf.Namespace, conf.SecretID = "r", "n", "conf-token"
	conf.HttpAuth = &api.HttpBasicAuth{Username: "u", Password: "p"}
	c := client(t, conf)
	_, meta, err := c.Jobs().List(&api.QueryOptions{
		Namespace: "other", AllowStale: true, WaitIndex: 9, WaitTime: time.Second, Prefix: "p", Filter: `ID == "x"`,
		PerPage: 2, NextToken: "t", Reverse: true, AuthToken: "own-token", Params: map[string]string{"meta": "true"},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := <-requests
	want := "/v1/jobs?filter=ID+%3D%3D+%22x%22&index=9&meta=true&namespace=other&next_token=t&per_page=2&prefix=p&region=r&reverse=true&stale=&wait=1s"
	if got.uri != want || got.token != "own-token" || !strings.HasPrefix(got.auth, "Basic ") {
		t.Errorf("agent received %+v, want %s", got, want)
	}
	if meta.LastIndex != 42 || !meta.KnownLeader || meta.LastContact != 7*time.Millisecond || meta.NextToken != "next" {
		t.Errorf("meta = %+v", meta)
	}
}

func TestErrorText(t *testing.T) {
	conf, _ := agent(t, 403, "Permission denied\n")
	_, _, err := client(t, conf).Jobs().Info("a", nil)
	if err == nil || err.Error() != "Unexpected response code: 403 (Permission denied)" {
		t.Errorf("error %v", err)
	}
	var typed api.UnexpectedResponseError
	if !errors.As(fmt.Errorf("wrapped: %w", err), &typed) || typed.StatusCode() != 403 || typed.Body() != "Permission denied" ||
		api.StatusCode(err) != 403 {
		t.Errorf("typed error %+v", typed)
	}
}

func TestUnhealthyAgent(t *testing.T) {
	conf, _ := agent(t, 500, `{"server": {"ok": false, "message": "no leader"}}`)
	health, err := client(t, conf).Agent().Health()
	if err != nil || health.Server == nil || health.Server.Message != "no leader" || health.Client != nil {
		t.Errorf("Health() = %+v, %v", health, err)
	}
}

func TestUnixAddress(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "api.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, `"1.2.3.4:4647"`) })}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	defer func() { srv.Close(); <-done }()
	leader, err := client(t, &api.Config{Address: "unix://" + socket}).Status().Leader()
	if err != nil || leader != "1.2.3.4:4647" {
		t.Errorf("Leader() = %q, %v", leader, err)
	}
}

func TestDefaultConfig(t *testing.T) {
	for k, v := range map[string]string{
		"NOMAD_ADDR": "https://x:1", "NOMAD_TOKEN": "tok", "NOMAD_NAMESPACE": "ns", "NOMAD_REGION": "eu",
		"NOMAD_HTTP_AUTH": "u:p:q", "NOMAD_SKIP_VERIFY": "true", "NOMAD_TLS_SERVER_NAME": "srv",
	} {
		t.Setenv(k, v)
	}
	c := api.DefaultConfig()
	if c.Address != "https://x:1" || c.SecretID != "tok" || c.Namespace != "ns" || c.Region != "eu" ||
		*c.HttpAuth != (api.HttpBasicAuth{Username: "u", Password: "p:q"}) || !c.TLSConfig.Insecure || c.TLSConfig.TLSServerName != "srv" {
		t.Errorf("DefaultConfig() = %+v", c)
	}
}

func TestBadConfig(t *testing.T) {
	for _, conf := range []*api.Config{
		{Address: "ftp://x"}, {Address: "http://"}, {Address: "::"},
		{TLSConfig: &api.TLSConfig{CACert: "/nonexistent"}},
		{TLSConfig: &api.TLSConfig{CACertPEM: []byte("x")}},
		{TLSConfig: &api.TLSConfig{ClientCertPEM: []byte("x")}},
	} {
		if _, err := api.NewClient(conf); err == nil {
			t.Errorf("NewClient(%+v) succeeded, want an error", conf)
		}
	}
}

func TestLogs(t *testing.T) {
	frames := `{}{"Offset":3,"Data":"YWJj","File":"f"}{"Offset":3,"File":"f","FileEvent":"file truncated"}{"Offset":5,"Data":"ZGU=","File":"f"}`
	conf, requests := agent(t, 200, frames)
	c := client(t, conf)
	cancel := make(chan struct{})
	ch, errs := c.AllocFS().Logs(&api.Allocation{ID: "al"}, true, "t", "stdout", "start", 0, cancel, nil)
	r := api.NewFrameReader(ch, errs, cancel)
	got, err := io.ReadAll(r)
	if err != nil || string(got) != "abcde" || r.Offset() != 5 {
		t.Errorf("read %q at %d, %v", got, r.Offset(), err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if uri := (<-requests).uri; uri != "/v1/client/fs/logs/al?follow=true&offset=0&origin=start&task=t&type=stdout" {
		t.Errorf("agent received %s", uri)
	}

	conf, _ = agent(t, 404, "no task")
	ch, errs = client(t, conf).AllocFS().Logs(&api.Allocation{ID: "al"}, false, "t", "stdout", "start", 0, nil, nil)
	if _, err := io.ReadAll(api.NewFrameReader(ch, errs, nil)); api.StatusCode(err) != 404 {
		t.Errorf("error %v, want the 404", err)
	}
}

// TestLogsEnd checks that closing cancel and canceling the context end a stream.
func TestLogsEnd(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"Data":"eA=="}`)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer srv.Close()
	c := client(t, &api.Config{Address: srv.URL})
	for name, end := range map[string]func(cancel chan struct{}, stop context.CancelFunc){
		"cancel":  func(cancel chan struct{}, _ context.CancelFunc) { close(cancel) },
		"context": func(_ chan struct{}, stop context.CancelFunc) { stop() },
	} {
		ctx, stop := context.WithCancel(context.Background())
		cancel := make(chan struct{})
		frames, errs := c.AllocFS().Stream(&api.Allocation{ID: "al"}, "/x", "start", 0, cancel, (&api.QueryOptions{}).WithContext(ctx))
		if f := <-frames; string(f.Data) != "x" {
			t.Errorf("%s: frame %+v", name, f)
		}
		end(cancel, stop)
		for range frames {
		}
		select {
		case err := <-errs:
			t.Errorf("%s: error %v", name, err)
		default:
		}
		stop()
	}
}

// TestUnhealthyServersAreNoError checks that a status for unhealthy servers is not an error.
func TestUnhealthyServersAreNoError(t *testing.T) {
	for body, well := range map[string]bool{
		`{"Healthy":false,"Servers":[{"Name":"a","LastContact":"20ms","SerfStatus":"failed"}]}`: true,
		`too many requests`: false,
		`{"Healthy":true}`:  false,
	} {
		conf, _ := agent(t, 429, body)
		h, _, err := client(t, conf).Operator().AutopilotServerHealth(nil)
		if (err == nil) != well {
			t.Errorf("%s: error %v", body, err)
		}
		if well && (h.Healthy || h.Servers[0].LastContact != 20*time.Millisecond || h.Servers[0].SerfStatus != "failed") {
			t.Errorf("health = %+v", h)
		}
	}
}
