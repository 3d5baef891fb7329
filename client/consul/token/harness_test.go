package token_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/client/consul/token"
	"github.com/open-nomad/open-nomad/client/identity"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/internal/testconsul"
	"github.com/open-nomad/open-nomad/internal/testidp"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// world is a node with a stand-in of Consul, reached without sockets so that a bubble owns the time.
type world struct {
	consul *testconsul.Agent
	idp    *testidp.Provider
	keys   string // URL of the key set
	ttl    time.Duration
	meta   map[string]string

	db    *state.DB
	node  *token.Node
	agent *consul.Agent
	log   *strings.Builder

	mu     sync.Mutex
	fault  string // refuse, hang, fail, or ""
	jwts   map[message.WIHandle]idtoken.Token
	subs   map[message.WIHandle][]chan idtoken.Token
	issued []string
	logins int // with a fault
	events []string
}

// RoundTrip implements http.RoundTripper.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	fault := w.fault
	w.mu.Unlock()
	out := httptest.NewRecorder()
	if answer, ok := strings.CutPrefix(fault, "login: "); ok && r.URL.Path == "/v1/acl/login" {
		w.mu.Lock()
		w.logins++
		w.mu.Unlock()
		_, _ = out.WriteString(answer)
		return out.Result(), nil
	} else if ok && r.URL.Path == "/v1/acl/token/self" {
		_, _ = out.WriteString("{}")
		return out.Result(), nil
	}
	switch fault {
	case "refuse":
		return nil, syscall.ECONNREFUSED
	case "hang":
		<-r.Context().Done()
		return nil, r.Context().Err()
	case "fail":
		http.Error(out, "rpc error making call: No cluster leader", http.StatusInternalServerError)
	default:
		w.consul.ServeHTTP(out, r)
	}
	return out.Result(), nil
}

func (w *world) set(fault string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = fault
}

// Watch implements token.Identities.
func (w *world) Watch(h message.WIHandle) (<-chan idtoken.Token, func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ch := make(chan idtoken.Token, 1)
	if t, ok := w.jwts[h]; ok {
		ch <- t
	}
	w.subs[h] = append(w.subs[h], ch)
	return ch, func() {}
}

// sign gives a workload a new identity with an audience.
func (w *world) sign(h message.WIHandle, aud string) {
	claims := map[string]any{"aud": aud, "exp": time.Now().Add(10 * 24 * time.Hour).Unix(), "nomad_namespace": "default", "jti": nomad.NewID()}
	if h.WorkloadType == message.WorkloadTypeService {
		claims["nomad_service"] = h.InterpolatedWorkloadIdentifier
	} else {
		claims["nomad_task"] = h.WorkloadIdentifier
	}
	raw := w.idp.Token(claims)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.issued = append(w.issued, raw)
	w.jwts[h] = idtoken.New(raw, "")
	for _, ch := range w.subs[h] {
		select {
		case <-ch:
		default:
		}
		ch <- w.jwts[h]
	}
}

// bubble runs a test in a bubble.
func bubble(t *testing.T, fn func(t *testing.T, w *world)) {
	t.Helper()
	w := &world{consul: testconsul.Start(t, testconsul.Config{ACL: true, Manual: true}), idp: testidp.New(t), log: &strings.Builder{},
		meta: map[string]string{}, jwts: map[message.WIHandle]idtoken.Token{}, subs: map[message.WIHandle][]chan idtoken.Token{}}
	key, id := w.idp.Key()
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: id, Algorithm: "RS256", Use: "sig"}}}
	keys := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { json.NewEncoder(rw).Encode(set) }))
	t.Cleanup(keys.Close)
	w.keys = keys.URL
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var err error
		w.db, err = state.Open(state.Config{Dir: dir, NoSync: true, Log: slog.New(slog.DiscardHandler)})
		must(t, err)
		defer w.db.Close()
		w.agent, err = consul.New(consul.Settings{Name: consul.DefaultCluster, Timeout: 5 * time.Second,
			HTTP: api.Config{Address: "127.0.0.1:8500", Token: w.consul.Management(), HttpClient: &http.Client{Transport: w}}})
		must(t, err)
		w.restart()
		fn(t, w)
		for _, secret := range append(w.issued, w.secrets()...) {
			if text := w.log.String() + strings.Join(w.events, "\n"); strings.Contains(text, secret) {
				t.Errorf("a log or event has a token: %s", text)
			}
		}
	})
}

// setup makes the objects of the logins in Consul.
func (w *world) setup(t *testing.T) {
	t.Helper()
	w.method(t)
	w.rules(t)
}

func (w *world) method(t *testing.T) {
	_, _, err := w.agent.Client().ACL().AuthMethodCreate(&api.ACLAuthMethod{Name: "nomad-workloads", Type: "jwt", TokenLocality: "local",
		MaxTokenTTL: w.ttl, Config: map[string]any{"JWKSURL": w.keys, "JWTSupportedAlgs": []string{"RS256"}, "BoundAudiences": []string{"consul.io"},
			"ClaimMappings": map[string]string{"nomad_namespace": "nomad_namespace", "nomad_task": "nomad_task", "nomad_service": "nomad_service"}}}, nil)
	must(t, err)
}

func (w *world) rules(t *testing.T) {
	acl := w.agent.Client().ACL()
	_, _, err := acl.RoleCreate(&api.ACLRole{Name: "nomad-default-tasks"}, nil)
	must(t, err)
	for _, b := range []*api.ACLBindingRule{
		{BindType: "service", BindName: "${value.nomad_service}", Selector: `"nomad_service" in value`},
		{BindType: "role", BindName: "nomad-${value.nomad_namespace}-tasks", Selector: `"nomad_service" not in value`}} {
		b.AuthMethod = "nomad-workloads"
		_, _, err := acl.BindingRuleCreate(b, nil)
		must(t, err)
	}
}

// restart begins a new agent with the same state.
func (w *world) restart() {
	w.node = token.NewNode(token.NodeConfig{Agent: w.agent, ServiceMethod: "nomad-workloads", TaskMethod: "nomad-workloads", Store: w.db,
		Log: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
}

// manager returns the manager of an allocation.
func (w *world) manager(a *nomad.Allocation) *token.Manager {
	return w.node.NewManager(token.Config{Alloc: a, Node: w.machine(), Region: "global", Identities: w,
		Emit: func(task string, e *nomad.TaskEvent) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, fmt.Sprintf("%s: %s", task, e.DisplayMessage))
		}})
}

func (w *world) machine() *nomad.Node {
	w.meta["team"] = "blue"
	return &nomad.Node{ID: "n1", Meta: w.meta}
}

// start prepares a manager and runs it until stop is called or the test ends. It signs the identities of the allocation.
func (w *world) start(t *testing.T, a *nomad.Allocation) (m *token.Manager, stop func()) {
	t.Helper()
	for _, h := range w.handles(a) {
		w.sign(h, "consul.io")
	}
	m = w.manager(a)
	if !m.Prepare() {
		t.Fatal("Prepare() reports nothing to do")
	}
	stop = run(t, m.Run)
	synctest.Wait()
	return m, stop
}

// run runs a function until stop is called or the test ends.
func run(t *testing.T, fn func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn(ctx) // ends with ctx
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

func (w *world) handles(a *nomad.Allocation) (out []message.WIHandle) {
	for _, s := range identity.Services(a, w.machine(), "global") {
		out = append(out, s.Handle())
	}
	for _, task := range a.Job.TaskGroups[0].Tasks {
		for _, id := range task.Identities {
			out = append(out, identity.TaskHandle(task.Name, id.Name))
		}
	}
	return out
}

// alloc returns an allocation with a service of its group and, if withTask is set, a task with an identity for Consul.
func alloc(service string, withTask bool) *nomad.Allocation {
	group := &nomad.TaskGroup{Name: "g", Tasks: []*nomad.Task{{Name: "web"}}}
	if service != "" {
		group.Services = []*nomad.Service{{Name: service, Provider: "consul", Identity: &nomad.WorkloadIdentity{Name: "consul-service_api"}}}
	}
	if withTask {
		group.Tasks[0].Identities = []*nomad.WorkloadIdentity{{Name: token.TaskIdentity}}
	}
	return &nomad.Allocation{ID: "6f0a3f1e-5b1c-4c55-9f0e-0d3a4b5c6d7e", TaskGroup: "g", Job: &nomad.Job{TaskGroups: []*nomad.TaskGroup{group}}}
}

// secrets returns the secrets of all tokens in Consul that logins made.
func (w *world) secrets() (out []string) {
	for _, l := range w.consul.Logins() {
		out = append(out, l.SecretID)
	}
	return out
}

// told returns the events since the last call.
func (w *world) told() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.events
	w.events = nil
	return out
}

// pass lets time pass in the bubble.
func pass(d time.Duration) {
	time.Sleep(d) // in the bubble: no real time
	synctest.Wait()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
