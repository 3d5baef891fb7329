package taskhook_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/client/allocdir"
	"github.com/open-nomad/open-nomad/client/connect"
	"github.com/open-nomad/open-nomad/client/login"
	"github.com/open-nomad/open-nomad/client/taskhook"
	"github.com/open-nomad/open-nomad/internal/connlimit"
	"github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/internal/testconsul"
	"github.com/open-nomad/open-nomad/internal/testpki"
	"github.com/open-nomad/open-nomad/nomad"
	mesh "github.com/open-nomad/open-nomad/nomad/connect"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// serviceSecret is the token of the service, and agentSecret that of the client.
const (
	serviceSecret = "11111111-aaaa-bbbb-cccc-222222222222"
	agentSecret   = "99999999-aaaa-bbbb-cccc-888888888888"
)

// serviceTokens has one token for every identity.
type serviceTokens struct{ consulTokens }

func (serviceTokens) Token(string, string) func() string {
	return func() string { return serviceSecret }
}

func (serviceTokens) Watch(string, string) (<-chan login.Secret, func()) {
	ch := make(chan login.Secret, 1)
	ch <- login.NewSecret(serviceSecret)
	return ch, func() {}
}

// meshTask starts the hooks of the mesh for one task.
type meshTask struct {
	*consulTask
	consul  *testconsul.Agent
	alloc   *allocdir.Dir
	node    *nomad.Node
	sidecar *drivers.Sidecar // as it was run
}

// meshID is the ID of the proxy of newMeshTask.
const meshID = "_nomad-task-5f8c9a3e-1d2b-4c6a-9e7f-0a1b2c3d4e5f-group-g-web-9090"

// newMeshTask returns a task of a kind. The program consul is a script.
func newMeshTask(t *testing.T, kind, script string, edit func(*nomad.TaskGroup, *consul.Settings)) *meshTask {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "consul"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	m := &meshTask{consul: testconsul.Start(t, testconsul.Config{Manual: true})}
	s := consul.Settings{HTTP: api.Config{Address: m.consul.Addr(), Token: agentSecret}, Timeout: 5 * time.Second}
	task := &nomad.Task{Kind: nomad.TaskKind(kind + ":web"), Config: map[string]any{"image": "${meta.connect.sidecar_image}"}}
	m.consulTask = newConsulTask(t, nil, task)
	group := &nomad.TaskGroup{Name: "g", Tasks: []*nomad.Task{task}, Networks: nomad.Networks{{Mode: "bridge"}},
		Services: []*nomad.Service{{Name: "web", PortLabel: "9090", Identity: &nomad.WorkloadIdentity{Name: "i"},
			Connect: &nomad.ConsulConnect{SidecarService: &mesh.SidecarService{}}}}}
	edit(group, &s)
	agent, err := consul.New(s)
	if err != nil {
		t.Fatal(err)
	}
	a := &nomad.Allocation{ID: strings.TrimSuffix(strings.TrimPrefix(meshID, "_nomad-task-"), "-group-g-web-9090"), TaskGroup: "g",
		Job: &nomad.Job{TaskGroups: []*nomad.TaskGroup{group}}}
	node := &nomad.Node{Meta: map[string]string{"connect.sidecar_image": "envoy:v${NOMAD_envoy_version}",
		"consul.service_preflight_check.timeout": "50ms", "consul.service_preflight_check.base": "5ms"}}
	m.node = node
	if m.alloc, err = allocdir.Build(t.TempDir(), a.ID); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.alloc.Destroy(); err != nil {
			t.Error(err)
		}
	})
	deps := taskhook.Deps{Mesh: &connect.Node{Agent: agent, Limit: connlimit.New(9, 9), Attribute: func(string) string { return "" }}}
	for _, h := range taskhook.Order(taskhook.Config{Deps: deps, Task: task, Dir: m.alloc, Node: node, Tokens: serviceTokens{}, Alloc: a,
		Log: slog.New(slog.DiscardHandler)}) {
		if h, ok := h.(taskhook.TaskPrestartHook); ok {
			m.hooks[h.Name()] = h
		}
	}
	b := taskenv.New(taskenv.Subject{Node: node, Region: "global", Alloc: a, Task: task})
	b.SetPaths(taskenv.Paths{Alloc: "/alloc", Secrets: "/secrets"})
	m.request.Alloc, m.request.Env, m.request.Confine = a, b.Build(), m.confine
	m.request.Owner = taskhook.Owner{UID: -1, GID: -1}
	m.request.Network = &nomad.AllocNetworkStatus{}
	return m
}

// confine runs a program without confinement.
func (m *meshTask) confine() (*taskhook.Confinement, error) {
	return &taskhook.Confinement{Run: func(ctx context.Context, s *drivers.Sidecar) (*drivers.ExitResult, error) {
		m.sidecar = s
		cmd := exec.CommandContext(ctx, s.Program.Name(), s.Args[1:]...)
		cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = s.Dir, s.Stdio[1], s.Stdio[2], time.Second
		for name, value := range s.Env {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		err := cmd.Run()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return &drivers.ExitResult{ExitCode: exit.ExitCode()}, nil
		}
		return &drivers.ExitResult{}, err
	}}, nil
}

// register registers the service of the proxy.
func (m *meshTask) register(t *testing.T) {
	t.Helper()
	c, err := api.NewClient(&api.Config{Address: m.consul.Addr()})
	if err == nil {
		err = c.Agent().ServiceRegister(&api.AgentServiceRegistration{ID: meshID, Name: "web", Port: 9090,
			Connect: &api.AgentServiceConnect{SidecarService: &api.AgentServiceRegistration{}}})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// log returns the log of the program.
func (m *meshTask) log(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(m.alloc.LogPath(), "envoy_bootstrap.stderr.0"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

func unchanged(*nomad.TaskGroup, *consul.Settings) {}

// TestBootstrap checks the arguments, that the token of the service is in the environment of the program only, and what
// is written where. The token of the client is nowhere.
func TestBootstrap(t *testing.T) {
	m := newMeshTask(t, "connect-proxy", `echo "{\"token\": \"$CONSUL_HTTP_TOKEN\"}"; echo "warning: $CONSUL_HTTP_TOKEN" >&2`,
		func(_ *nomad.TaskGroup, s *consul.Settings) { s.GRPCCAFile = "/etc/ca.pem" })
	m.register(t)
	if _, err := m.start(t.Context(), "envoy_bootstrap"); err != nil {
		t.Fatal(err)
	}
	want := "consul connect envoy -grpc-addr unix:///alloc/tmp/consul_grpc.sock -http-addr unix://.consul_bootstrap.sock -admin-bind " +
		"127.0.0.2:19000 -address 127.0.0.1:19100 -proxy-id " + meshID + "-sidecar-proxy -bootstrap -grpc-ca-file /etc/ca.pem"
	if got := strings.Join(m.sidecar.Args, " "); got != want {
		t.Errorf("arguments\n%s\nwant\n%s", got, want)
	}
	if values := slices.Collect(maps.Values(m.sidecar.Env)); !slices.Contains(values, serviceSecret) || slices.Contains(values, agentSecret) {
		t.Errorf("the environment of the program has %d values, without the token of the service, or with that of the client", len(values))
	}
	if text, mode := m.file("envoy_bootstrap.json"); text != `{"token": "`+serviceSecret+"\"}\n" || mode != 0o600 {
		t.Errorf("the configuration is %q, mode %o", text, mode)
	}
	if text := m.log(t); text != "warning: <token>\n" {
		t.Errorf("the log is %q", text)
	}
	names, err := m.dir.Secrets().Names()
	names = slices.DeleteFunc(names, func(n string) bool { return n == ".nomad-mount" })
	if err != nil || !slices.Equal(names, []string{"envoy_bootstrap.json"}) {
		t.Errorf("the secrets directory has %q, %v", names, err)
	}
}

// TestBootstrap_Faults checks what fails a start, and that no fault has a token or writes a configuration.
func TestBootstrap_Faults(t *testing.T) {
	for name, tc := range map[string]struct {
		script, want string
		edit         func(*nomad.TaskGroup, *consul.Settings)
		register     bool
	}{
		"not registered":  {"echo {}", `wait for service "web" in Consul: it was not registered within 50ms`, unchanged, false},
		"program fails":   {"echo no $CONSUL_HTTP_TOKEN >&2; exit 3", "exit code 3, signal 0: no <token>", unchanged, true},
		"escape sequence": {`printf 'a\033[31mb\rc\000d' >&2; exit 3`, "signal 0: a [31mb c d", unchanged, true},
		"not JSON":        {"echo {", "not JSON", unchanged, true},
		"endless output":  {"yes", "more than 1048576 bytes", unchanged, true},
		"no service": {"echo {}", "no such service with a connect block",
			func(g *nomad.TaskGroup, _ *consul.Settings) { g.Services[0].Name = "other" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMeshTask(t, "connect-proxy", tc.script, tc.edit)
			if tc.register {
				m.register(t)
			}
			_, err := m.start(t.Context(), "envoy_bootstrap")
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), serviceSecret) {
				t.Errorf("Prestart() = %q, want %s", err, tc.want)
			}
			if text, _ := m.file("envoy_bootstrap.json"); !strings.Contains(text, "no such file") {
				t.Errorf("the configuration is %q", text)
			}
		})
	}
	m := newMeshTask(t, "connect-proxy", "", unchanged)
	m.register(t)
	t.Setenv("PATH", t.TempDir())
	if _, err := m.start(t.Context(), "envoy_bootstrap"); err == nil || !strings.Contains(err.Error(), "install the Consul of the cluster") {
		t.Errorf("without the program: %v", err)
	}
	m.request.Running = true
	if _, err := m.start(t.Context(), "envoy_bootstrap"); err != nil {
		t.Errorf("of a task that runs: %v", err)
	}
}

// TestBootstrap_LargeList checks that the services of others do not stop a start.
func TestBootstrap_LargeList(t *testing.T) {
	m := newMeshTask(t, "connect-proxy", "echo {}", unchanged)
	m.node.Meta["consul.service_preflight_check.timeout"] = "20s"
	m.register(t)
	c, err := api.NewClient(&api.Config{Address: m.consul.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		tags := []string{strings.Repeat("x", consul.MaxAnswer/5)}
		if err := c.Agent().ServiceRegister(&api.AgentServiceRegistration{ID: fmt.Sprint("large", i), Name: "large", Tags: tags}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.start(t.Context(), "envoy_bootstrap"); err != nil {
		t.Error(err)
	}
}

// TestBootstrap_Log checks that a link that a task planted at the log is replaced, not followed.
func TestBootstrap_Log(t *testing.T) {
	m := newMeshTask(t, "connect-proxy", "echo {}; echo hello >&2", unchanged)
	m.register(t)
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(m.alloc.LogPath(), "envoy_bootstrap.stderr.0")); err != nil {
		t.Fatal(err)
	}
	if _, err := m.start(t.Context(), "envoy_bootstrap"); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(outside); err != nil || string(text) != "kept" || m.log(t) != "hello\n" {
		t.Errorf("outside: %q, %v; log %q", text, err, m.log(t))
	}
}

// TestEnvoyVersion checks the version of the image, and what fails a start.
func TestEnvoyVersion(t *testing.T) {
	m := newMeshTask(t, "connect-proxy", "", unchanged)
	resp, err := m.start(t.Context(), "envoy_version")
	if err != nil || resp.Env["NOMAD_envoy_version"] != "1.35.3" {
		t.Errorf("Prestart() = %v, %v", resp.Env, err)
	}
	m.request.Task.Config["image"] = "own"
	if resp, err = m.start(t.Context(), "envoy_version"); err != nil || resp.Env != nil {
		t.Errorf("of an image without a version: %v, %v", resp.Env, err)
	}
	for versions, want := range map[string]string{"": "supports none", "1.2 x": "which is not a version"} {
		m := newMeshTask(t, "connect-proxy", "", func(_ *nomad.TaskGroup, s *consul.Settings) {
			a := testconsul.Start(t, testconsul.Config{Manual: true, Self: func(self testconsul.Self) {
				self["xDS"]["SupportedProxies"] = map[string][]string{"envoy": slices.DeleteFunc([]string{versions}, func(v string) bool { return v == "" })}
			}})
			s.HTTP.Address = a.Addr()
		})
		if _, err := m.start(t.Context(), "envoy_version"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Prestart() = %v, want %s", err, want)
		}
	}
}

// TestNative checks the environment and the files of a task without a proxy.
func TestNative(t *testing.T) {
	address := ""
	for name, tc := range map[string]struct {
		mode string
		env  map[string]string // of the job
		want map[string]string
	}{
		"bridge":    {"bridge", nil, map[string]string{"CONSUL_HTTP_ADDR": "unix:///alloc/tmp/consul_http.sock", "CONSUL_HTTP_TOKEN": serviceSecret}},
		"host":      {"host", nil, map[string]string{"CONSUL_HTTP_ADDR": "ADDRESS", "CONSUL_HTTP_TOKEN": serviceSecret}},
		"no mode":   {"", nil, map[string]string{"CONSUL_HTTP_TOKEN": serviceSecret}},
		"job's own": {"cni/x", map[string]string{"CONSUL_HTTP_TOKEN": "own"}, map[string]string{"CONSUL_HTTP_ADDR": "unix:///alloc/tmp/consul_http.sock"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMeshTask(t, "connect-native", "", func(g *nomad.TaskGroup, s *consul.Settings) {
				g.Networks[0].Mode, g.Services[0].Connect = tc.mode, &nomad.ConsulConnect{Native: true}
				address = s.HTTP.Address
			})
			m.request.Task.Env = tc.env
			resp, err := m.start(t.Context(), "connect_native")
			if v, ok := tc.want["CONSUL_HTTP_ADDR"]; ok && v == "ADDRESS" {
				tc.want["CONSUL_HTTP_ADDR"] = address
			}
			if err != nil || !maps.Equal(resp.Env, tc.want) {
				t.Errorf("environment %v, %v, want %v", resp.Env, err, tc.want)
			}
		})
	}
}

// TestNative_TLS checks that the TLS files of the client are shared only if the operator allows it.
func TestNative_TLS(t *testing.T) {
	f := testpki.New(t).Agent("localhost")
	ca, cert, key := f.CA, f.Cert, f.Key
	for _, share := range []bool{true, false} {
		m := newMeshTask(t, "connect-native", "", func(g *nomad.TaskGroup, s *consul.Settings) {
			g.Services[0].Connect = &nomad.ConsulConnect{Native: true}
			s.ShareTLS, s.HTTP.Address = share, "https://127.0.0.1:8501"
			s.HTTP.TLSConfig = api.TLSConfig{CAFile: ca, CertFile: cert, KeyFile: key}
		})
		resp, err := m.start(t.Context(), "connect_native")
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"CONSUL_HTTP_ADDR": "unix:///alloc/tmp/consul_http.sock", "CONSUL_HTTP_TOKEN": serviceSecret}
		if share {
			maps.Copy(want, map[string]string{"CONSUL_CACERT": "/secrets/consul_ca_file.pem", "CONSUL_CLIENT_CERT": "/secrets/consul_cert_file.pem",
				"CONSUL_CLIENT_KEY": "/secrets/consul_key_file.pem", "CONSUL_HTTP_SSL": "true", "CONSUL_HTTP_SSL_VERIFY": "true",
				"CONSUL_TLS_SERVER_NAME": "localhost"})
		}
		if !maps.Equal(resp.Env, want) {
			t.Errorf("share %t: environment %v, want %v", share, resp.Env, want)
		}
		for from, to := range map[string]string{ca: "consul_ca_file.pem", cert: "consul_cert_file.pem", key: "consul_key_file.pem"} {
			wanted, err := os.ReadFile(from)
			if err != nil {
				t.Fatal(err)
			}
			if text, mode := m.file(to); (text == string(wanted) && mode == 0o600) != share {
				t.Errorf("share %t: %s has %d bytes, mode %o", share, to, len(text), mode)
			}
		}
	}
}
