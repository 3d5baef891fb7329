package token_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/open-nomad/open-nomad/client/identity"
	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/client/vault/token"
	"github.com/open-nomad/open-nomad/internal/testidp"
	"github.com/open-nomad/open-nomad/internal/testvault"
	"github.com/open-nomad/open-nomad/internal/vault"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/idtoken"
	"github.com/open-nomad/open-nomad/nomad/message"
)

const (
	loginCall  = "PUT /v1/auth/jwt-nomad/login"
	renewCall  = "PUT /v1/auth/token/renew-self"
	lookupCall = "GET /v1/auth/token/lookup-self"
	revokeCall = "PUT /v1/auth/token/revoke-self"
)

// world is a node with a stand-in of Vault, reached without sockets so that a bubble owns the time.
type world struct {
	vault *testvault.Vault
	idp   *testidp.Provider
	keys  string // URL of the key set
	dir   string
	// noKeys makes the key set fail.
	noKeys atomic.Bool

	db      *state.DB
	node    *token.Node
	cluster *vault.Cluster
	log     *strings.Builder

	mu      sync.Mutex
	fault   string // refuse, hang, slow, or an answer "<status> <path or *> <body>"
	jwts    map[message.WIHandle]idtoken.Token
	subs    map[message.WIHandle][]chan idtoken.Token
	secrets []string // that no log and event may have
	events  []string
}

// RoundTrip implements http.RoundTripper.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	out, err := w.serve(r)
	if err == nil {
		out.Request = r
	}
	return out, err
}

func (w *world) serve(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	fault := w.fault
	w.mu.Unlock()
	if r.Body == nil { // as a server sees it
		r = r.Clone(r.Context())
		r.Body = http.NoBody
	}
	out := httptest.NewRecorder()
	var status int
	var path string
	if n, _ := fmt.Sscanf(fault, "%d %s", &status, &path); n == 2 && (path == "*" || strings.HasSuffix(r.URL.Path, path)) {
		out.WriteHeader(status)
		_, body, _ := strings.Cut(fault, path+" ")
		_, _ = out.WriteString(body)
		return out.Result(), nil
	}
	switch fault {
	case "refuse":
		return nil, syscall.ECONNREFUSED
	case "hang":
		<-r.Context().Done()
		return nil, r.Context().Err()
	case "slow": // Vault has acted, and its answer takes a while
		w.vault.ServeHTTP(out, r)
		select {
		case <-r.Context().Done():
			return nil, r.Context().Err()
		case <-time.After(5 * time.Second):
		}
		return out.Result(), nil
	}
	w.vault.ServeHTTP(out, r)
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

// sign gives a task a new identity. Claims override those of a correct one; nil removes one.
func (w *world) sign(task string, claims map[string]any) {
	all := map[string]any{"aud": "vault.io", "exp": time.Now().Add(100 * 24 * time.Hour).Unix(), "nomad_namespace": "default",
		"nomad_job_id": "web", "nomad_task": task, "jti": nomad.NewID()}
	for name, value := range claims {
		if all[name] = value; value == nil {
			delete(all, name)
		}
	}
	raw := w.idp.Token(all)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.secrets = append(w.secrets, raw)
	h := identity.TaskHandle(task, token.Identity)
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
	w := &world{vault: testvault.Start(t, testvault.Config{}), idp: testidp.New(t), log: &strings.Builder{}, dir: t.TempDir(),
		jwts: map[message.WIHandle]idtoken.Token{}, subs: map[message.WIHandle][]chan idtoken.Token{}}
	key, id := w.idp.Key()
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: id, Algorithm: "RS256", Use: "sig"}}}
	keys := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		if w.noKeys.Load() {
			rw.WriteHeader(http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(rw).Encode(set) // fails only if the client is gone
	}))
	t.Cleanup(keys.Close)
	w.keys = keys.URL
	synctest.Test(t, func(t *testing.T) {
		var err error
		w.db, err = state.Open(state.Config{Dir: w.dir, NoSync: true, Log: slog.New(slog.DiscardHandler)})
		must(t, err)
		defer func() { must(t, w.db.Close()) }()
		w.cluster, err = vault.New(vault.Settings{Name: vault.DefaultCluster, Address: "http://127.0.0.1:8200", AuthPath: "jwt-nomad", Transport: w})
		must(t, err)
		w.restart()
		fn(t, w)
		for _, secret := range w.secrets {
			if text := w.log.String() + strings.Join(w.events, "\n"); strings.Contains(text, secret) {
				t.Errorf("a log or event has a secret: %s", text)
			}
		}
	})
}

// write writes an object of Vault.
func (w *world) write(t *testing.T, path string, data map[string]any) {
	t.Helper()
	w.mu.Lock()
	fault := w.fault
	w.mu.Unlock()
	w.set("")
	defer w.set(fault)
	_, err := w.cluster.Client(w.vault.Root(), "").Logical().WriteWithContext(t.Context(), path, data)
	must(t, err)
}

// setup makes the objects of the logins in Vault. role overrides fields of the role.
func (w *world) setup(t *testing.T, role map[string]any) {
	t.Helper()
	w.write(t, "sys/auth/jwt-nomad", map[string]any{"type": "jwt"})
	w.config(t, nil)
	w.role(t, "nomad-workloads", role)
}

// config writes the configuration of the auth method.
func (w *world) config(t *testing.T, fields map[string]any) {
	t.Helper()
	all := map[string]any{"jwks_url": w.keys, "default_role": "nomad-workloads"}
	maps.Copy(all, fields)
	w.write(t, "auth/jwt-nomad/config", all)
}

func (w *world) role(t *testing.T, name string, fields map[string]any) {
	t.Helper()
	all := map[string]any{"role_type": "jwt", "bound_audiences": "vault.io", "user_claim": "/nomad_job_id", "user_claim_json_pointer": true,
		"claim_mappings": map[string]any{"nomad_task": "nomad_task"}, "token_type": "service", "token_period": "30m"}
	for k, v := range fields {
		if all[k] = v; v == nil {
			delete(all, k)
		}
	}
	w.write(t, "auth/jwt-nomad/role/"+name, all)
}

// restart begins a new agent with the same state.
func (w *world) restart() {
	w.node = token.NewNode(token.NodeConfig{Cluster: w.cluster, Store: w.db,
		Log: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
}

// manager returns the manager of an allocation.
func (w *world) manager(a *nomad.Allocation) *token.Manager {
	return w.node.NewManager(token.Config{Alloc: a, Identities: w,
		Emit: func(task string, e *nomad.TaskEvent) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, task+": "+e.DisplayMessage)
		}})
}

// agent is a running agent with one allocation.
type agent struct {
	*token.Manager
	stopAlloc, stopNode func()
}

// Secret returns the function that returns the current secret of a task.
func (a *agent) Secret(task string) func() string {
	current := a.Current(task)
	return func() string {
		secret, _ := current()
		return secret
	}
}

// stop stops the agent.
func (a *agent) stop() {
	a.stopAlloc()
	a.stopNode()
	pass(100 * time.Millisecond) // for the commits
}

// end ends the allocation.
func (a *agent) end(t *testing.T) {
	t.Helper()
	a.stopAlloc()
	began := time.Now()
	a.End(t.Context())
	if took := time.Since(began); took > time.Second {
		t.Errorf("End() took %s", took)
	}
}

// start starts an agent with an allocation whose tasks have identities.
func (w *world) start(t *testing.T, a *nomad.Allocation) *agent {
	t.Helper()
	for _, task := range a.Job.TaskGroups[0].Tasks {
		w.sign(task.Name, nil)
	}
	return w.resume(t, a)
}

// resume starts the agent again.
func (w *world) resume(t *testing.T, a *nomad.Allocation) *agent {
	t.Helper()
	w.restart()
	w.node.Leftovers(func(id string) bool { return id == a.ID })
	out := &agent{Manager: w.manager(a), stopNode: run(t, w.node.Run)}
	if !out.Prepare() {
		t.Fatal("Prepare() reports nothing to do")
	}
	out.stopAlloc = run(t, out.Run)
	synctest.Wait()
	return out
}

// run runs a function until stop is called or the test ends.
func run(t *testing.T, fn func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = fn(ctx) // ends with ctx
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// alloc returns an allocation with tasks that have a vault block.
func alloc(tasks ...string) *nomad.Allocation {
	group := &nomad.TaskGroup{Name: "g"}
	for _, name := range tasks {
		group.Tasks = append(group.Tasks, &nomad.Task{Name: name, Vault: &nomad.Vault{Cluster: vault.DefaultCluster},
			Identities: []*nomad.WorkloadIdentity{{Name: token.Identity}}})
	}
	return &nomad.Allocation{ID: "6f0a3f1e-5b1c-4c55-9f0e-0d3a4b5c6d7e", TaskGroup: "g", Job: &nomad.Job{TaskGroups: []*nomad.TaskGroup{group}}}
}

// next receives a token that is ready.
func next(t *testing.T, tokens <-chan token.Token) token.Token {
	t.Helper()
	synctest.Wait()
	select {
	case got := <-tokens:
		return got
	default:
		t.Fatal("no token")
		return token.Token{}
	}
}

// none checks that no token is ready.
func none(t *testing.T, tokens <-chan token.Token) {
	t.Helper()
	synctest.Wait()
	select {
	case got := <-tokens:
		t.Errorf("unexpected token %s", got)
	default:
	}
}

// reported returns the events since the last call.
func (w *world) reported() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.events
	w.events = nil
	return out
}

// stored returns the number of stored tokens.
func (w *world) stored(t *testing.T) (n int) {
	t.Helper()
	pass(time.Second) // for the commit
	all, err := w.db.VaultTokens("")
	must(t, err)
	for _, list := range all {
		n += len(list)
	}
	return n
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

// hostile is a Vault with answers of its own.
type hostile struct {
	login, other string

	mu sync.Mutex
	n  int
}

// RoundTrip implements http.RoundTripper.
func (h *hostile) RoundTrip(r *http.Request) (*http.Response, error) {
	h.mu.Lock()
	h.n++
	h.mu.Unlock()
	out := httptest.NewRecorder()
	body := h.other
	if strings.HasSuffix(r.URL.Path, "/login") {
		body = h.login
	}
	_, _ = out.WriteString(body)
	got := out.Result()
	got.Request = r
	return got, nil
}

func (h *hostile) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.n
}
