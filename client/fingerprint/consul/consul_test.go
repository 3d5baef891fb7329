package consul_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/client/fingerprint/consul"
	agent "github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/internal/testconsul"
)

const token = "5f8c9a3e-1d2b-4c6a-9e7f-0a1b2c3d4e5f"

// cluster returns the agent of a cluster.
func cluster(t *testing.T, name string, cfg api.Config) *agent.Agent {
	t.Helper()
	a, err := agent.New(agent.Settings{Name: name, HTTP: cfg, Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// plain sends requests of https without TLS.
func plain(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme = "http"
	return http.DefaultTransport.RoundTrip(r)
}

// detect runs a detector until it has facts, and returns the log too.
func detect(t *testing.T, c *agent.Agent) (consul.Facts, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got consul.Facts
	var log bytes.Buffer
	found := func(c consul.Change) {
		got = c.After
		cancel()
	}
	if err := consul.New([]*agent.Agent{c}, found, slog.New(slog.NewTextHandler(&log, nil))).Run(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	return got, log.String()
}

// defaults are the attributes of an agent of the stand-in.
func defaults() map[string]string {
	return map[string]string{"consul.version": "1.22.1", "consul.revision": "920cc7c6", "consul.datacenter": "dc1", "consul.server": "true",
		"consul.sku": "oss", "consul.connect": "true", "consul.grpc": "8502", "consul.dns.port": "8600", "unique.consul.name": "node1"}
}

// TestFacts checks the attributes and the link for what an agent reports.
func TestFacts(t *testing.T) {
	for name, c := range map[string]struct {
		change func(testconsul.Self)
		tls    bool
		want   map[string]string // "" for an absent attribute
		left   string            // named in the log
	}{
		"default": {func(testconsul.Self) {}, false, nil, ""},
		"TLS":     {func(testconsul.Self) {}, true, map[string]string{"consul.grpc": "8503"}, ""},
		"TLS before 1.14": {func(s testconsul.Self) { s["Config"]["Version"] = "1.13.9" }, true,
			map[string]string{"consul.version": "1.13.9"}, ""},
		"no gRPC": {func(s testconsul.Self) { s["DebugConfig"]["GRPCPort"] = -1 }, false, map[string]string{"consul.grpc": "-1"}, ""},
		"enterprise": {func(s testconsul.Self) {
			s["Config"]["Version"] = "1.22.1+ent"
			s["Stats"]["license"] = map[string]any{"features": "Automated Backups, Namespaces, SSO"}
		}, false, map[string]string{"consul.version": "1.22.1+ent", "consul.sku": "ent", "consul.ft.namespaces": "true",
			"consul.partition": "default"}, ""},
		"partition": {func(s testconsul.Self) { s["Config"]["Version"], s["Config"]["Partition"] = "1.22.1+ent", "west" }, false,
			map[string]string{"consul.version": "1.22.1+ent", "consul.sku": "ent", "consul.partition": "west"}, ""},
		"partition of CE": {func(s testconsul.Self) { s["Config"]["Partition"] = "west" }, false, nil, ""},
		"segment": {func(s testconsul.Self) { s["Member"]["Tags"] = map[string]string{"segment": "alpha"} }, false,
			map[string]string{"consul.segment": "alpha"}, ""},
		"DNS": {func(s testconsul.Self) {
			s["DebugConfig"]["DNSAddrs"] = []string{"tcp://127.0.0.1:8600", "udp://192.0.2.7:8600", "tcp://192.0.2.8:8600"}
		}, false, map[string]string{"unique.consul.dns.addr": "192.0.2.7"}, ""},
		"no DNS":            {func(s testconsul.Self) { delete(s["DebugConfig"], "DNSAddrs") }, false, nil, ""},
		"text for a number": {func(s testconsul.Self) { s["DebugConfig"]["DNSPort"] = "8600" }, false, map[string]string{"consul.dns.port": ""}, "consul.dns.port"},
		"number for a text": {func(s testconsul.Self) { s["Config"]["Revision"] = 7 }, false, map[string]string{"consul.revision": ""}, "consul.revision"},
		"broken address": {func(s testconsul.Self) { s["DebugConfig"]["DNSAddrs"] = []string{"tcp://x"} }, false, nil,
			"unique.consul.dns.addr"},
		"control characters": {func(s testconsul.Self) { s["Config"]["Datacenter"] = "a\x1b[2J" }, false,
			map[string]string{"consul.datacenter": ""}, "consul.datacenter"},
		"long text": {func(s testconsul.Self) { s["Config"]["Datacenter"] = strings.Repeat("a", 300) }, false,
			map[string]string{"consul.datacenter": ""}, "consul.datacenter"},
	} {
		t.Run(name, func(t *testing.T) {
			a := testconsul.Start(t, testconsul.Config{ACL: true, Self: c.change})
			cfg := api.Config{Address: a.Addr(), Token: a.NewToken(t, `agent "node1" { policy = "read" }`)}
			if c.tls {
				cfg.Scheme, cfg.HttpClient = "https", &http.Client{Transport: transport(plain)}
			}
			got, log := detect(t, cluster(t, agent.DefaultCluster, cfg))
			want := defaults()
			for attribute, v := range c.want {
				if want[attribute] = v; v == "" {
					delete(want, attribute)
				}
			}
			if !maps.Equal(got.Attributes, want) {
				t.Errorf("attributes = %v, want %v", got.Attributes, want)
			}
			if hasLink := want["consul.datacenter"] != ""; (got.Links["consul"] == "dc1.node1") != hasLink {
				t.Errorf("links = %v", got.Links)
			}
			if (log == "") != (c.left == "") || !strings.Contains(log, c.left) {
				t.Errorf("log = %q, want %q", log, c.left)
			}
		})
	}
}

// TestFacts_OtherCluster checks that attributes of another cluster have its name.
func TestFacts_OtherCluster(t *testing.T) {
	a := testconsul.Start(t, testconsul.Config{Self: func(s testconsul.Self) {
		s["DebugConfig"]["DNSAddrs"] = []string{"tcp://192.0.2.8:8600"}
	}})
	got, _ := detect(t, cluster(t, "west", api.Config{Address: a.Addr()}))
	if got.Attributes["consul.west.version"] != "1.22.1" || got.Attributes["unique.consul.west.dns.addr"] != "192.0.2.8" {
		t.Errorf("attributes = %v", got.Attributes)
	}
	for name := range got.Attributes {
		if !strings.Contains(name, "consul.west.") || name == "unique.consul.west.name" {
			t.Errorf("attribute %s", name)
		}
	}
	if len(got.Links) > 0 {
		t.Errorf("links = %v", got.Links)
	}
}

// transport answers requests by a function.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestRetry checks that a Consul that is away is asked every 15 s, with one warning.
func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []time.Duration
		start := time.Now()
		k := cluster(t, agent.DefaultCluster, api.Config{Address: "consul.test:8500", HttpClient: &http.Client{Transport: transport(
			func(r *http.Request) (*http.Response, error) {
				asked = append(asked, time.Since(start))
				if len(asked) == 1 { // hangs
					<-r.Context().Done()
					return nil, r.Context().Err()
				}
				w := httptest.NewRecorder()
				if len(asked) == 2 {
					w.WriteHeader(http.StatusInternalServerError)
				}
				io.WriteString(w, `{"Config": {"Version": "1.22.1"}}`)
				return w.Result(), nil
			})}})
		facts, log := detect(t, k)
		if want := []time.Duration{0, 20 * time.Second, 35 * time.Second}; len(asked) != 3 || asked[1] != want[1] || asked[2] != want[2] {
			t.Errorf("asked after %v, want %v", asked, want)
		}
		if facts.Attributes["consul.version"] != "1.22.1" || strings.Count(log, "level=WARN") != 1 {
			t.Errorf("facts = %v, log = %s", facts, log)
		}
	})
}

// TestChanges checks that the facts are read again each minute and on request, that an upgrade replaces them, and that an
// outage changes nothing.
func TestChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []time.Duration
		start := time.Now()
		answers := []string{`{"Config": {"Version": "1.0.0", "Revision": "a"}}`, "", `{"Config": {"Version": "1.0.0", "Revision": "a"}}`,
			`{"Config": {"Version": "2.0.0"}}`, `{"Config": {"Version": "3.0.0"}}`}
		k := cluster(t, agent.DefaultCluster, api.Config{Address: "consul.test:8500", HttpClient: &http.Client{Transport: transport(
			func(r *http.Request) (*http.Response, error) {
				asked = append(asked, time.Since(start))
				w := httptest.NewRecorder()
				if text := answers[len(asked)-1]; text != "" {
					io.WriteString(w, text)
				} else {
					w.WriteHeader(http.StatusInternalServerError)
				}
				return w.Result(), nil
			})}})
		var changes []string
		found := func(c consul.Change) {
			changes = append(changes, fmt.Sprintf("%s%s to %s%s", c.Before.Attributes["consul.version"], c.Before.Attributes["consul.revision"],
				c.After.Attributes["consul.version"], c.After.Attributes["consul.revision"]))
		}
		var log bytes.Buffer
		d := consul.New([]*agent.Agent{k}, found, slog.New(slog.NewTextHandler(&log, nil)))
		ctx, cancel := context.WithTimeout(t.Context(), 140*time.Second)
		defer cancel()
		go func() {
			time.Sleep(138 * time.Second)
			d.Again()
		}()
		if err := d.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Run() = %v", err)
		}
		want := []time.Duration{0, time.Minute, 75 * time.Second, 135 * time.Second, 138 * time.Second}
		if !slices.Equal(asked, want) {
			t.Errorf("asked after %v, want %v", asked, want)
		}
		if want := []string{" to 1.0.0a", "1.0.0a to 2.0.0", "2.0.0 to 3.0.0"}; !slices.Equal(changes, want) {
			t.Errorf("changes = %q, want %q", changes, want)
		}
		if strings.Count(log.String(), "level=WARN") != 1 {
			t.Errorf("log = %s", &log)
		}
	})
}

// TestErrors checks that no error has the token, whatever the server answers, and that answers are bounded.
func TestErrors(t *testing.T) {
	var sent atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a redirect was followed, with the token %q", r.Header.Get("X-Consul-Token"))
	}))
	defer elsewhere.Close()
	for name, serve := range map[string]http.HandlerFunc{
		"echo": func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, r.Header.Get("X-Consul-Token"), http.StatusForbidden)
		},
		"not JSON":  func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, token) },
		"JSON":      func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, `{"Config": {"Token": "`+token+`"}}`) },
		"wrong key": func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, `{"Config": "`+token+`"}`) },
		"endless": func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, `{"a": {"b": "`)
			for chunk := []byte(strings.Repeat("x", 64<<10)); r.Context().Err() == nil; {
				n, err := w.Write(chunk)
				if err != nil {
					return
				}
				sent.Add(int64(n))
			}
		},
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		},
	} {
		s := httptest.NewServer(serve)
		var log bytes.Buffer
		k := cluster(t, agent.DefaultCluster, api.Config{Address: s.URL, Token: token})
		ctx, cancel := context.WithCancel(t.Context())
		d := consul.New([]*agent.Agent{k}, func(consul.Change) { t.Errorf("%s: facts", name) },
			slog.New(slog.NewTextHandler(cancelling{&log, cancel}, nil)))
		if err := d.Run(ctx); err == nil {
			t.Errorf("%s: no error", name)
		}
		s.CloseClientConnections()
		s.Close()
		if text := log.String(); text == "" || strings.Contains(text, token) {
			t.Errorf("%s: log = %q", name, text)
		}
	}
	if got := sent.Load(); got > 64<<20 {
		t.Errorf("an endless answer was read for %d bytes", got)
	}
}

// cancelling ends the test after the first line of the log.
type cancelling struct {
	io.Writer
	cancel func()
}

func (c cancelling) Write(b []byte) (int, error) {
	defer c.cancel()
	return c.Writer.Write(b)
}
