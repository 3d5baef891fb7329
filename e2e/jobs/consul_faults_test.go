package jobs_test

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/testconsul"
)

// proxied is a client whose requests to Consul go through a proxy that a test can make fail.
type proxied struct {
	*harness.Fleet
	agent  *cluster.Agent
	consul *testconsul.Agent
	token  string // of the agent
	front  *httptest.Server
	answer atomic.Pointer[http.HandlerFunc] // of the proxy, nil for that of Consul
	ended  chan struct{}                    // closed before the proxy
}

// agentRules are the rights of the agent: it may not register the service "denied".
const agentRules = `agent_prefix "" { policy = "read" } node_prefix "" { policy = "read" } service_prefix "" { policy = "write" }
service "denied" { policy = "read" }`

func newProxied(t *testing.T) *proxied {
	t.Helper()
	p := &proxied{consul: testconsul.Start(t, testconsul.Config{ACL: true}), ended: make(chan struct{})}
	p.token = p.consul.NewToken(t, agentRules)
	pass := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: p.consul.Addr()})
	p.front = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := p.answer.Load(); h != nil {
			(*h)(w, r)
			return
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		close(p.ended)
		p.front.Close()
	})
	p.Fleet = harness.NewFleet(t, p.block(p.front.URL, p.token))
	p.agent = p.Join("one", p.block(p.front.URL, p.token))
	return p
}

func (p *proxied) block(address, token string) string {
	return fmt.Sprintf("log_level = \"DEBUG\"\nconsul {\n  address = %q\n  token = %q\n  auto_advertise = false\n  timeout = \"2s\"\n}\n", address, token)
}

// reload reloads the client with another consul block.
func (p *proxied) reload(address, token string) {
	p.T.Helper()
	harness.WriteFile(p.T, filepath.Join(p.Dir, "one.hcl"), "name = \"one\"\n"+harness.TestDrivers+p.block(address, token))
	if err := syscall.Kill(p.agent.Pid(), syscall.SIGHUP); err != nil {
		p.T.Fatal(err)
	}
}

func (p *proxied) log() string {
	return harness.FileText(p.T, filepath.Join(p.Dir, "one", "agent.log"))
}

// services returns the names in Consul, sorted.
func (p *proxied) services() string {
	var names []string
	for _, s := range p.consul.Services() {
		names = append(names, s.Service)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// messages returns the events about Consul of the task.
func (p *proxied) messages() (out []string) {
	for _, e := range harness.OnlyAlloc(p.T, p.Server, "many").TaskStates["t"].Events {
		if e.Type == "Consul" {
			out = append(out, e.DisplayMessage)
		}
	}
	return out
}

// manyServices returns a job with services of these names, and one with a tag.
func manyServices(tag string, names ...string) string {
	var services string
	for _, n := range append(names, "tagged") {
		tags := ""
		if n == "tagged" {
			tags = fmt.Sprintf("tags = [%q]", tag)
		}
		services += fmt.Sprintf("service {\n name = %q\n port = \"80\"\n address = \"127.0.0.1\"\n %s\n}\n", n, tags)
	}
	return harness.Job("many", "", services+harness.Shell("exec sleep 1000"))
}

// TestConsulFaults checks what the operator of a running agent reads about each fault of Consul: a line of the log with the
// cause and what to do. Meanwhile the task runs, and nothing is removed from Consul.
func TestConsulFaults(t *testing.T) {
	t.Parallel() // it mostly waits
	harness.NeedsRoot(t)
	p := newProxied(t)
	defer p.Purge()
	p.consul.Expect("'service:write' on \"denied\"")
	p.consul.Expect("ACL not found")
	harness.Run(t, p.Server, manyServices("v1", "a", "denied", "b"))
	al := harness.Await(t, p.Server, "many", "running", 1)[0]

	// One of many is denied: the others go on.
	harness.Within(t, harness.Patience, "the others are registered", func() bool { return p.services() == "a b tagged" })
	harness.Within(t, harness.Patience, "an event about the service that is denied", func() bool {
		m := strings.Join(p.messages(), "\n")
		return strings.Count(m, "not registered") == 1 && strings.Contains(m, `service "denied"`) &&
			strings.Contains(m, "status 403: the token does not have the right service:write")
	})
	out, err := harness.Command(t, p.Server, "alloc", "status", al.ID)
	if err != nil || strings.Count(out, "  registered  ") != 3 || !strings.Contains(out, "does not have the right service:write") {
		t.Errorf("alloc status: %v\n%s", err, out)
	}

	ids := p.consul.IDs()
	hang := func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-p.ended:
		}
	}
	handler := func(fn http.HandlerFunc) *http.HandlerFunc { return &fn }
	for _, tc := range []struct {
		name, address, token string
		answer               *http.HandlerFunc
		want                 string
	}{
		{name: "nobody listens", address: "127.0.0.1:1", want: "connection refused: check that Consul runs, and the address of the consul block"},
		{name: "TLS", address: "https://" + strings.TrimPrefix(p.front.URL, "http://"), want: "set ssl = false"},
		{name: "token", token: "11111111-0000-0000-0000-000000000000", want: "status 403: Consul does not have the token, or it has expired"},
		{name: "cut", answer: handler(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }),
			want: "the connection was closed before the answer"},
		{name: "page", answer: handler(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") }), want: "not of Consul"},
		{name: "large", answer: handler(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"a": {"b": %q}}`, strings.Repeat("a", 17<<20))
		}), want: "exceeds 16 MiB"},
		{name: "hangs", answer: handler(hang), want: "deadline exceeded"},
	} {
		before := len(p.log())
		p.answer.Store(tc.answer)
		p.reload(cmp.Or(tc.address, p.front.URL), cmp.Or(tc.token, p.token))
		harness.Within(t, harness.Patience, tc.name+": the log has the cause", func() bool { return strings.Contains(p.log()[before:], tc.want) })
		p.answer.Store(nil)
		asked := p.consul.Calls("GET /v1/agent/self")
		p.reload(p.front.URL, p.token)
		harness.Within(t, harness.Patience, tc.name+": Consul is detected again", func() bool { return p.consul.Calls("GET /v1/agent/self") > asked })
	}
	if got := p.consul.IDs(); !slices.Equal(got, ids) {
		t.Errorf("Consul has %q, want %q", got, ids)
	}

	// Consul hangs: an update, a stop and the exit of the agent take their time, not that of Consul.
	p.answer.Store(handler(hang))
	began := time.Now()
	harness.Run(t, p.Server, manyServices("v2", "a", "b"))
	harness.StopAndWait(t, p.Server, "many", 1)
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("an update and a stop took %s while Consul hangs", took)
	}
	began = time.Now()
	if err := p.agent.Stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the exit took %s while Consul hangs", took)
	}
	if text := p.log(); strings.Contains(text, p.token) {
		t.Error("the log has the token of the agent")
	}
}
