package engine_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	nomadapi "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/internal/consul/readproxy"
	connection "github.com/open-nomad/open-nomad/internal/readproxy"
	"github.com/open-nomad/open-nomad/internal/render"
	"github.com/open-nomad/open-nomad/internal/testconsul"
)

// pair returns the two ends of a connection.
func pair(t *testing.T) (agent net.Conn, program *os.File) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fds[0]), "agent")
	defer f.Close()
	if agent, err = net.FileConn(f); err != nil {
		t.Fatal(err)
	}
	return agent, os.NewFile(uintptr(fds[1]), "program")
}

// startConsul runs the program with a proxy to an agent of Consul.
func startConsul(t *testing.T, addr, token string, req *render.Request) *program {
	t.Helper()
	a, err := consul.New(consul.Settings{HTTP: api.Config{Address: addr}, Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := pair(t)
	defer theirs.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		p := &readproxy.Proxy{Agent: a, Token: readproxy.Token{Secret: func() string { return token }}}
		connection.Serve(ctx, ours, map[string]http.Handler{render.ConsulHost: p})
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	if req.Consul == nil {
		req.Consul = &render.Consul{Retry: render.Retry{Backoff: 10 * time.Millisecond, MaxBackoff: 100 * time.Millisecond}, Node: "node1"}
	}
	return startWith(t, theirs, req)
}

// register registers three instances of web, of which w1 is critical.
func register(t *testing.T, a *testconsul.Agent, token string) {
	t.Helper()
	c, err := api.NewClient(&api.Config{Address: a.Addr(), Token: token})
	if err != nil {
		t.Fatal(err)
	}
	for i, status := range []string{api.HealthPassing, api.HealthCritical, api.HealthPassing} {
		if err := c.Agent().ServiceRegister(&api.AgentServiceRegistration{ID: fmt.Sprint("w", 2-i), Name: "web", Port: 80 + i,
			Address: strings.Repeat("10.0.0.9", i%2), Tags: []string{"z", fmt.Sprint("t", i), "a"}, Meta: map[string]string{"v": fmt.Sprint(i)},
			Check: &api.AgentServiceCheck{TTL: "1h", Status: status}}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestConsulFunctions checks each function of Consul with and without ACLs.
func TestConsulFunctions(t *testing.T) {
	t.Parallel() // it mostly waits
	for _, acl := range []bool{false, true} {
		a := testconsul.Start(t, testconsul.Config{Manual: true, ACL: acl})
		root, token := "", ""
		if acl {
			root = a.Management()
			token = a.NewToken(t, `service_prefix "" { policy = "read" } node_prefix "" { policy = "read" } key_prefix "app" { policy = "read" }`)
		}
		register(t, a, root)
		for key, value := range map[string]string{"app/a": "1", "app/b": "2", "app/sub/c": "3", "app/v1.2/x": "odd", "app/empty": ""} {
			a.PutKey(key, value)
		}
		w := newWorld(t)
		w.vars.Serve("/v1/services", []*nomadapi.ServiceRegistrationListStub{{Namespace: "default", Services: []*nomadapi.ServiceRegistrationStub{
			{ServiceName: "native"}}}})
		var texts, wants []string
		for text, want := range map[string]string{
			`{{ key "app/a" }}`:                               "1",
			`{{ key "/app/a@dc1" }}`:                          "1",
			`{{ key "app/v1.2/x" }}`:                          "odd",
			`{{ keyExists "app/a" }} {{ keyExists "app/x" }}`: "true false",
			`{{ keyOrDefault "app/x" "none" }} {{ keyOrDefault "app/empty" "none" }}`:                                     "none none",
			`{{ with keyExistsGet "app/b" }}{{ .Exists }} {{ .Key }}={{ .Value }}{{ end }}`:                               "true app/b=2",
			`{{ with keyExistsGet "app/x" }}{{ .Exists }}{{ .Value }}{{ end }}`:                                           "false",
			`{{ range ls "app" }}{{ .Key }}={{ .Value }} {{ end }}`:                                                       "a=1 b=2 empty= ",
			`{{ range safeLs "app" }}{{ .Key }} {{ end }}`:                                                                "a b empty ",
			`{{ range tree "app/sub" }}{{ .Path }}={{ .Value }} {{ end }}`:                                                "app/sub/c=3 ",
			`{{ range safeTree "app/sub" }}{{ .Key }} {{ end }}`:                                                          "c ",
			`{{ range service "web" }}{{ .ID }}:{{ .Port }} {{ end }}`:                                                    "w0:82 w2:80 ",
			`{{ range service "web|any" }}{{ .ID }}{{ .Tags }}{{ .Status }}{{ .ServiceMeta.v }} {{ end }}`:                "w0[a t2 z]passing2 w1[a t1 z]critical1 w2[a t0 z]passing0 ",
			`{{ range service "t1.web@dc1" "critical" }}{{ .ID }} {{ .Address }}{{ end }}`:                                "w1 10.0.0.9",
			`{{ range service "web~_agent" }}{{ .Node }} {{ if eq .Address .NodeAddress }}of the node{{ end }} {{ end }}`: "node1 of the node node1 of the node ",
			`{{ range service "nosuch" }}x{{ end }}none`:                                                                  "none",
			`{{ range connect "web" }}x{{ end }}none`:                                                                     "none",
			`{{ range services }}{{ .Name }}{{ .Tags }} {{ end }}`:                                                        "consul[] web[a t0 t1 t2 z] ",
			`{{ range nodes }}{{ .Node }} {{ end }}`:                                                                      "node1 ",
			`{{ with node "node1" }}{{ .Node.Node }}:{{ range .Services }} {{ .ID }}{{ end }}{{ end }}`:                   "node1: w0 w1 w2",
			`{{ with node }}{{ .Node.Node }}{{ end }}`:                                                                    "node1",
			`{{ range datacenters }}{{ . }}{{ end }}`:                                                                     "dc1",
			`{{ range nomadServices }}{{ .Name }}{{ end }}`:                                                               "native",
		} {
			texts, wants = append(texts, text), append(wants, want)
		}
		p := startConsul(t, a.Addr(), token, w.request(texts...))
		p.rendersFirst(wants...)
		p.stop()
		if n := a.Calls("GET /v1/agent/self"); n != 0 {
			t.Errorf("agent/self was read %d times", n)
		}
	}
}

// TestConsulHostileArguments checks that no argument leads to another route, parameter or token. The stand-in fails the test
// for an unexpected call.
func TestConsulHostileArguments(t *testing.T) {
	t.Parallel() // it mostly waits
	a := testconsul.Start(t, testconsul.Config{Manual: true})
	w := newWorld(t)
	for text, want := range map[string]string{
		`{{ key "../../agent/self" }}`:                   "the agent sends only reads of templates",
		`{{ key "app/../../agent/self" }}`:               "the agent sends only reads of templates",
		`{{ node ".." }}`:                                "the agent sends only reads of templates",
		`{{ caLeaf "../../self" }}`:                      "the agent sends only reads of templates",
		`{{ exportedServices "a&token=x" }}`:             "Consul returned status 400",
		`{{ range service "web@dc9" }}{{ end }}`:         "Consul returned status 500",
		`{{ range service "web?partition=p" }}{{ end }}`: "Consul returned status 400",
		`{{ range caRoots }}{{ end }}`:                   "Consul returned status 500",
		`{{ peerings }}`:                                 "Consul returned status 404",
		`{{ partitions }}`:                               "Consul returned status 404",
	} {
		req := w.request(text)
		req.Consul = &render.Consul{Retry: render.Retry{Attempts: 1, Backoff: time.Millisecond}}
		p := startConsul(t, a.Addr(), "", req)
		p.ended()
		if p.fatal == nil || !strings.Contains(p.fatal.Text, want) {
			t.Errorf("%s: %+v, want %q", text, p.fatal, want)
		}
	}
	for _, text := range []string{
		`{{ key "a?token=s3cret" }}`, `{{ key "a@dc\nx" }}`, `{{ service "web?token=s3cret" }}`, `{{ services "?token=s3cret" }}`, `{{ tree "a?token=s3cret" }}`,
		`{{ service "web/../x" }}`, `{{ keyExistsGet "a?x=s3cret" }}`, `{{ nodes "x" }}`, `{{ service "web|s3cret" }}`,
	} {
		p := startConsul(t, a.Addr(), "", w.request(text))
		p.ended()
		if p.fatal == nil || !strings.Contains(p.fatal.Text, "malformed argument") || strings.Contains(p.fatal.Text, ": \"") {
			t.Errorf("%s: %+v, want a malformed argument", text, p.fatal)
		}
	}
	for _, text := range []string{`{{ key "a\nb" }}`, `{{ key "a%2f..%2fx" }}`, "{{ key \"a\\x00\" }}", `{{ key "a;token=x" }}`, `{{ key "a&token=x" }}`, `{{ key "a#x" }}`} {
		p := startConsul(t, a.Addr(), "", w.request(text))
		p.until("the key is missing", func() bool { return len(p.missing) == 1 })
		p.stop()
	}
	for _, part := range []string{"exported-services", "peerings", "partitions", `query parameter "partition"`} {
		a.Expect(part)
	}
}

// TestConsulSocket checks that the socket of the program serves no other process, such as the task.
func TestConsulSocket(t *testing.T) {
	a := testconsul.Start(t, testconsul.Config{Manual: true})
	a.PutKey("app/a", "s3cret")
	p := startConsul(t, a.Addr(), "", newWorld(t).request(`{{ key "app/a" }}`))
	p.rendersFirst("s3cret")
	names := socketsOf(t, p.cmd.Process.Pid)
	if len(names) != 1 {
		t.Fatalf("the program listens on %q", names)
	}
	conn, err := net.Dial("unix", names[0])
	must(t, err)
	defer conn.Close()
	_, _ = conn.Write([]byte("GET /v1/kv/app/a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")) // the program may be faster
	if got, err := io.ReadAll(conn); len(got) > 0 {
		t.Errorf("another process got %q, %v", got, err)
	}
	p.until("the program goes on", func() bool { return p.fatal == nil })
}

// socketsOf returns the abstract sockets on which a process listens.
func socketsOf(t *testing.T, pid int) (names []string) {
	t.Helper()
	inodes := map[string]bool{}
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	must(t, err)
	for _, fd := range fds {
		if link, err := os.Readlink(fd); err == nil {
			inodes[strings.Trim(strings.TrimPrefix(link, "socket:"), "[]")] = true
		}
	}
	table, err := os.ReadFile("/proc/net/unix")
	must(t, err)
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		const accepts = "00010000"
		if len(f) == 8 && f[3] == accepts && inodes[f[6]] {
			names = append(names, f[7])
		}
	}
	return names
}
