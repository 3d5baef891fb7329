package secret

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/vault/api"

	"github.com/open-nomad/open-nomad/internal/render"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/internal/testvault"
	"github.com/open-nomad/open-nomad/internal/vault"
	"github.com/open-nomad/open-nomad/nomad"
)

// onVault is a task with a token of a Vault.
type onVault struct {
	t     *testing.T
	v     *testvault.Vault // nil: another server
	node  *Node
	token string
	// namespace is that of the token.
	namespace string
	next      func() string // a new login; nil: the token is fine

	mu       sync.Mutex
	waits    []string
	rejected []string
}

// at returns a task whose Vault has an address.
func at(t *testing.T, address, namespace string) *onVault {
	t.Helper()
	c, err := vault.New(vault.Settings{Name: vault.DefaultCluster, Address: address, Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	return &onVault{t: t, token: "s3cret-token", node: &Node{Vault: c, VaultRetry: render.Retry{Backoff: time.Millisecond, MaxBackoff: time.Millisecond}}}
}

// newVault returns a task with a token that may read secrets, except those of denied.
func newVault(t *testing.T) *onVault {
	t.Helper()
	v := testvault.Start(t, testvault.Config{})
	w := at(t, v.Addr(), "")
	w.v = v
	w.policy(`path "secret/*" { capabilities = ["read"] } path "kv/*" { capabilities = ["read"] }`)
	w.token = w.issue()
	return w
}

// root returns a client that may do everything.
func (w *onVault) root() *api.Client { return w.node.Vault.Client(w.v.Root(), "") }

func (w *onVault) policy(text string) {
	w.t.Helper()
	if err := w.root().Sys().PutPolicy("app", text); err != nil {
		w.t.Fatal(err)
	}
}

// issue returns a new token of the policy.
func (w *onVault) issue() string {
	w.t.Helper()
	s, err := w.root().Auth().Token().Create(&api.TokenCreateRequest{Policies: []string{"app"}})
	if err != nil {
		w.t.Fatal(err)
	}
	return s.Auth.ClientToken
}

func (w *onVault) write(path string, data map[string]any) {
	w.t.Helper()
	if _, err := w.root().Logical().Write(path, data); err != nil {
		w.t.Fatal(err)
	}
}

// read fetches a secret.
func (w *onVault) read(ctx context.Context, engine, path string) (map[string]string, error) {
	w.t.Helper()
	s := &nomad.Secret{Name: "s", Provider: "vault", Path: path}
	if engine != "" {
		s.Config = map[string]any{"engine": engine}
	}
	task := &Task{Secrets: []*nomad.Secret{s}, Env: environment(), Token: Token{Current: func() (string, string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.token, w.namespace
	}, Rejected: func(_ context.Context, secret string) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.rejected = append(w.rejected, secret)
		if w.next == nil {
			return false
		}
		w.token = w.next()
		return true
	}}, Waits: func(reason string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.waits = append(w.waits, reason)
	}}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	got, err := w.node.Fetch(ctx, task)
	if errors.Is(err, context.DeadlineExceeded) {
		w.t.Errorf("%s %q: waits with the reasons %q", engine, path, w.waits)
	}
	return got, err
}

// reads starts a fetch, and returns a function that ends it and returns its result.
func (w *onVault) reads(engine, path string) (result func() (map[string]string, error)) {
	done := make(chan struct{})
	var got map[string]string
	var err error
	go func() {
		defer close(done)
		got, err = w.read(w.t.Context(), engine, path)
	}()
	return func() (map[string]string, error) {
		<-done
		return got, err
	}
}

// awaits waits until the only reason to wait has a text.
func (w *onVault) awaits(text string) {
	w.t.Helper()
	testpace.Until(w.t, "the reason "+text, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.waits) == 1 && strings.Contains(w.waits[0], text)
	})
}

func TestVaultReads(t *testing.T) {
	w := newVault(t)
	odd := "a # \"b\"\n c "
	w.write("secret/data/app/db", map[string]any{"data": map[string]any{"k": "old"}})
	w.write("secret/data/app/db", map[string]any{"data": map[string]any{"k": odd, "n": 12, "o": map[string]any{"x": true}}})
	w.write("kv/app/db", map[string]any{"k": odd})
	for _, row := range []struct{ engine, path, want string }{
		{"kv_v2", "secret/data/app/db", odd}, {"kv_v2", "secret/app/db", odd}, {"kv_v2", "/secret/app/db/", odd},
		{"kv_v2", "secret/app/db?version=1", "old"}, {"kv_v2", "secret/data/app/db?version=1", "old"},
		{"kv", "kv/app/db", odd}, {"", "kv/app/db", odd},
	} {
		got, err := w.read(t.Context(), row.engine, row.path)
		if err != nil || got["s.k"] != row.want {
			t.Errorf("%s %s = %q, %v", row.engine, row.path, got, err)
		}
		if row.path == "secret/app/db" && (got["s.n"] != "12" || got["s.o"] != `{"x":true}` || len(got) != 3) {
			t.Errorf("other types = %q", got)
		}
	}
	if len(w.waits) > 0 || len(w.rejected) > 0 {
		t.Errorf("reasons %q, rejected %q", w.waits, w.rejected)
	}
}

// Another engine than the block says is final, and so is a path that is not one.
func TestVaultReads_Final(t *testing.T) {
	w := newVault(t)
	w.write("secret/data/app", map[string]any{"data": map[string]any{"k": "canary"}})
	w.write("kv/app", map[string]any{"k": "canary"})
	for _, row := range []struct{ engine, path, want string }{
		{"kv", "secret/data/app", `set engine = "kv_v2"`}, {"kv_v2", "kv/app", `set engine = "kv"`},
		{"kv", "", "is not one of Vault"}, {"kv", "kv/../sys/raw", "is not one of Vault"}, {"kv", "kv//app", "is not one of Vault"},
		{"kv", "kv/app?a=%zz", "is not one of Vault"},
	} {
		got, err := w.read(t.Context(), row.engine, row.path)
		if err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s %q = %q, %v; want %s", row.engine, row.path, got, err, row.want)
		}
	}
	w.node.Vault = nil
	if _, err := w.read(t.Context(), "kv", "kv/app"); err == nil || !strings.Contains(err.Error(), "no enabled vault block") {
		t.Errorf("without Vault: %v", err)
	}
}

// What does not exist, and a deleted version, are waited for with one reason.
func TestVaultReads_Missing(t *testing.T) {
	for name, path := range map[string]string{"absent": "secret/app/no", "deleted": "secret/app/gone"} {
		t.Run(name, func(t *testing.T) {
			w := newVault(t)
			w.write("secret/data/app/gone", map[string]any{"data": map[string]any{"k": "v1"}})
			if _, err := w.root().Logical().Delete("secret/data/app/gone"); err != nil {
				t.Fatal(err)
			}
			result := w.reads("kv_v2", path)
			w.awaits("Missing: vault.read(" + path + ")")
			w.write(strings.Replace(path, "secret/", "secret/data/", 1), map[string]any{"data": map[string]any{"k": "v2"}})
			if got, err := result(); err != nil || got["s.k"] != "v2" || len(w.waits) != 1 {
				t.Errorf("Fetch = %q, %v, reasons %q", got, err, w.waits)
			}
		})
	}
}

// A denied read asks for another token, waits with what to do if the token is fine, and ends after the client's attempts.
func TestVaultReads_Denied(t *testing.T) {
	w := newVault(t)
	w.v.Expect("permission denied")
	w.write("kv/app", map[string]any{"k": "v"})
	w.policy(`path "kv/other" { capabilities = ["read"] }`)
	result := w.reads("kv", "kv/app")
	w.awaits("cannot read vault.read(kv/app): Vault denied the request: the policies of the task's token do not allow it, or the token has ended")
	w.policy(`path "kv/*" { capabilities = ["read"] }`)
	if got, err := result(); err != nil || got["s.k"] != "v" || len(w.rejected) == 0 {
		t.Errorf("Fetch = %q, %v, rejected %q", got, err, w.rejected)
	}

	w.policy(`path "kv/other" { capabilities = ["read"] }`)
	w.node.VaultRetry.Attempts = 2
	before := w.v.Calls("GET /v1/kv/app")
	_, err := w.read(t.Context(), "kv", "kv/app")
	spent := (*Spent)(nil)
	if !errors.As(err, &spent) || spent.Attempts != 3 || w.v.Calls("GET /v1/kv/app") != before+3 {
		t.Errorf("error %v", err)
	}
}

// A token that Vault does not accept any more is replaced within the same attempt.
func TestVaultReads_NewToken(t *testing.T) {
	w := newVault(t)
	w.v.Expect("unknown token")
	w.write("kv/app", map[string]any{"k": "v"})
	lost := w.token
	w.v.Lost(lost)
	w.next = w.issue
	w.node.VaultRetry = render.Retry{Attempts: 1, Backoff: time.Hour}
	got, err := w.read(t.Context(), "kv", "kv/app")
	if err != nil || got["s.k"] != "v" || len(w.rejected) != 1 || w.rejected[0] != lost {
		t.Errorf("Fetch = %q, %v, rejected %q", got, err, w.rejected)
	}
}

// Outages are waited for: no connection, a sealed Vault, error statuses, an answer that does not come.
func TestVaultReads_Outage(t *testing.T) {
	for name, row := range map[string]struct {
		down, up func(*testvault.Vault)
	}{
		"sealed": {(*testvault.Vault).Seal, (*testvault.Vault).Unseal},
		"down":   {set(testvault.Mode{Refuse: true}), set(testvault.Mode{})},
		"429":    {set(testvault.Mode{Status: 429}), set(testvault.Mode{})},
		"501":    {set(testvault.Mode{Status: 501}), set(testvault.Mode{})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newVault(t)
			w.write("secret/data/app", map[string]any{"data": map[string]any{"k": "v"}})
			row.down(w.v)
			result := w.reads("kv_v2", "secret/app")
			w.awaits("cannot read vault.read(secret/app): ")
			row.up(w.v)
			if got, err := result(); err != nil || got["s.k"] != "v" {
				t.Errorf("Fetch = %q, %v", got, err)
			}
		})
	}
	t.Run("hangs", func(t *testing.T) {
		w := newVault(t)
		set(testvault.Mode{Hang: true})(w.v)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		time.AfterFunc(100*time.Millisecond, cancel)
		if _, err := w.read(ctx, "kv", "kv/app"); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		set(testvault.Mode{})(w.v)
	})
}

func set(m testvault.Mode) func(*testvault.Vault) {
	return func(v *testvault.Vault) {
		if err := v.Set(m); err != nil {
			panic(err)
		}
	}
}

// No answer breaks the client, and no error repeats one.
func TestVaultReads_Hostile(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"not JSON":   text(200, "canary"),
		"cut":        text(200, `{"data": {"k": "canary`),
		"null":       text(200, "null"),
		"data array": text(200, `{"data": ["canary"]}`),
		"text":       text(400, `{"errors": ["canary \n canary"]}`),
		"redirect": func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, "http://127.0.0.1/canary", http.StatusFound)
		},
		"endless": func(rw http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(rw, `{"data": {"k": "`)
			for r.Context().Err() == nil {
				if _, err := io.WriteString(rw, strings.Repeat("canary", 10_000)); err != nil {
					return
				}
			}
		},
		"lost": func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(rw, `{"data": {"k": "canary"`)
			panic(http.ErrAbortHandler)
		},
		"deep": text(200, `{"data": {"k": `+strings.Repeat("[", 20_000)+strings.Repeat("]", 20_000)+`}}`),
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(answer)
			t.Cleanup(s.Close)
			w := at(t, s.URL, "")
			w.node.VaultRetry.Attempts = 1
			got, err := w.read(t.Context(), "kv", "kv/app")
			if spent := (*Spent)(nil); !errors.As(err, &spent) || strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), w.token) ||
				strings.Contains(err.Error(), "\n") {
				t.Errorf("Fetch = %q, %v", got, err)
			}
		})
	}
	many := httptest.NewServer(text(200, `{"data": {"k": "v"`+manyKeys()+`}}`))
	t.Cleanup(many.Close)
	if _, err := at(t, many.URL, "").read(t.Context(), "kv", "kv/app"); err == nil || !strings.Contains(err.Error(), "the limit is 1000") {
		t.Errorf("many keys: %v", err)
	}
}

func text(status int, body string) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(status)
		_, _ = io.WriteString(rw, body) // shown by the result
	}
}

func manyKeys() string {
	var b strings.Builder
	for i := range maxKeys + 1 {
		b.WriteString(`,"k` + strings.Repeat("x", i) + `":""`)
	}
	return b.String()
}

// The namespace is that of the token. A reload can have changed that of the cluster.
func TestVaultReads_Namespace(t *testing.T) {
	v := testvault.Start(t, testvault.Config{Namespace: "team"})
	w := at(t, v.Addr(), "other")
	w.v, w.token, w.namespace = v, v.Root(), "team"
	if _, err := w.node.Vault.Client(v.Root(), "team").Logical().Write("kv/app", map[string]any{"k": "v"}); err != nil {
		t.Fatal(err)
	}
	if got, err := w.read(t.Context(), "kv", "kv/app"); err != nil || got["s.k"] != "v" {
		t.Errorf("Fetch = %q, %v", got, err)
	}
}
