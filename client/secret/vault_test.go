package secret

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/vault/api"

	"github.com/open-nomad/open-nomad/internal/testvault"
	"github.com/open-nomad/open-nomad/internal/vault"
	"github.com/open-nomad/open-nomad/nomad"
)

// vaultTask returns a node and a task whose token may read secrets of the job shop in both versions of the KV engine.
func vaultTask(t *testing.T) (*testvault.Vault, *Node, *Task) {
	t.Helper()
	v := testvault.Start(t, testvault.Config{})
	c, err := vault.New(vault.Settings{Name: vault.DefaultCluster, Address: v.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	root := c.Client(v.Root(), "")
	for path, data := range map[string]map[string]any{
		"secret/data/default/shop": {"data": map[string]any{"password": "a#\n\"b\" ", "port": 5432, "list": []string{"x"}}},
		"kv/shop":                  {"password": "one"},
		"sys/policies/acl/shop": {"policy": `path "secret/data/default/shop" { capabilities = ["read"] }
path "secret/data/default/none" { capabilities = ["read"] }
path "secret/default/wide" { capabilities = ["read"] }
path "kv/*" { capabilities = ["read"] }`},
	} {
		if _, err := root.Logical().Write(path, data); err != nil {
			t.Fatal(err)
		}
	}
	made, err := root.Auth().Token().Create(&api.TokenCreateRequest{Policies: []string{"shop"}})
	if err != nil {
		t.Fatal(err)
	}
	task := &Task{Env: environment(), Log: slog.New(slog.DiscardHandler), Token: Token{
		Current:  func() (string, string) { return made.Auth.ClientToken, "" },
		Rejected: func(context.Context, string) bool { return false }}}
	return v, &Node{Vault: c}, task
}

// vaultBlock returns a block.
func vaultBlock(path, engine string) *nomad.Secret {
	s := &nomad.Secret{Name: "db", Provider: nomad.SecretProviderVault, Path: path}
	if engine != "" {
		s.Config = map[string]any{nomad.SecretConfigEngine: engine}
	}
	return s
}

// TestVault checks which values a block has, and the errors of wrong blocks: each one names what to change.
func TestVault(t *testing.T) {
	v, n, task := vaultTask(t)
	v.Expect("permission denied")
	v.Expect("invalid path for a versioned K/V secrets engine")
	second := map[string]string{"password": "a#\n\"b\" ", "port": "5432", "list": `["x"]`}
	for name, c := range map[string]struct {
		block *nomad.Secret
		want  map[string]string
		err   string
	}{
		"version 2":                 {vaultBlock("secret/default/shop", "kv_v2"), second, ""},
		"version 2 with data":       {vaultBlock("/secret/data/default/shop/", "kv_v2"), second, ""},
		"an old version":            {vaultBlock("secret/default/shop?version=1", "kv_v2"), second, ""},
		"version 1":                 {vaultBlock("kv/shop", ""), map[string]string{"password": "one"}, ""},
		"kv for version 2":          {vaultBlock("secret/default/shop", ""), nil, `version 2: set engine = "kv_v2"`},
		"kv for version 2, data":    {vaultBlock("secret/data/default/shop", "kv"), nil, `version 2: set engine = "kv_v2"`},
		"kv for version 2, allowed": {vaultBlock("secret/default/wide", ""), nil, `version 2: set engine = "kv_v2"`},
		"kv_v2 for version 1":       {vaultBlock("kv/shop", "kv_v2"), nil, `version 2: set engine = "kv"`},
		"denied":                    {vaultBlock("secret/default/other", "kv_v2"), nil, "the policies of the task's token do not allow"},
		"missing":                   {vaultBlock("secret/default/none", "kv_v2"), nil, "Missing: vault.read(secret/default/none)"},
		"missing, version 1":        {vaultBlock("kv/none", "kv"), nil, "Missing: vault.read(kv/none)"},
		"a path of another engine":  {vaultBlock("../sys/mounts", "kv"), nil, "is not one of Vault"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := n.vault(t.Context(), task, c.block)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want %q", err, c.err)
			}
			if !maps.Equal(got, c.want) {
				t.Errorf("values %q, want %q", got, c.want)
			}
		})
	}
}

// TestVault_Rejected checks that a request with a token that Vault does not accept any more is sent again with the next token.
func TestVault_Rejected(t *testing.T) {
	v, n, task := vaultTask(t)
	good, _ := task.Token.Current()
	current := "hvs.gone"
	v.Expect("unknown token")
	task.Token = Token{Current: func() (string, string) { return current, "" }, Rejected: func(_ context.Context, secret string) bool {
		if secret != "hvs.gone" {
			t.Error("another token was reported")
		}
		current = good
		return true
	}}
	if got, err := n.vault(t.Context(), task, vaultBlock("kv/shop", "")); err != nil || got["password"] != "one" {
		t.Errorf("values %q, %v", got, err)
	}
}

// TestVault_Namespaces checks that each request has the namespace of its token, which need not be that of the settings.
func TestVault_Namespaces(t *testing.T) {
	var got []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("X-Vault-Token")+" in "+r.Header.Get("X-Vault-Namespace"))
		if len(got) == 1 {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.Write([]byte(`{"data":{"k":"v"}}`)) //nolint:errcheck // shown by the answer
	}))
	t.Cleanup(s.Close)
	c, err := vault.New(vault.Settings{Name: vault.DefaultCluster, Address: s.URL, Namespace: "of-the-settings"})
	if err != nil {
		t.Fatal(err)
	}
	token, namespace := "first", "old"
	task := &Task{Token: Token{Current: func() (string, string) { return token, namespace },
		Rejected: func(context.Context, string) bool {
			token, namespace = "second", ""
			return true
		}}}
	if found, err := (&Node{Vault: c}).vault(t.Context(), task, vaultBlock("kv/a", "kv")); err != nil || found["k"] != "v" {
		t.Errorf("values %q, %v", found, err)
	}
	if want := []string{"first in old", "second in "}; !slices.Equal(got, want) {
		t.Errorf("requests %q, want %q", got, want)
	}
}

// TestVault_Unavailable checks that reads are repeated before the login of the task, and while Vault is sealed.
func TestVault_Unavailable(t *testing.T) {
	v, n, task := vaultTask(t)
	v.Seal()
	good, _ := task.Token.Current()
	asked := 0
	task.Token.Current = func() (string, string) {
		switch asked++; asked {
		case 1:
			return "", ""
		case 3:
			v.Unseal()
		}
		return good, ""
	}
	task.Secrets = []*nomad.Secret{vaultBlock("kv/shop", "")}
	if got, err := n.Fetch(t.Context(), task); err != nil || got["db.password"] != "one" {
		t.Errorf("values %q, %v", got, err)
	}
	if asked < 3 {
		t.Errorf("%d requests, want one more after each failure", asked)
	}
	task.Token.Current = nil
	if _, err := n.Fetch(t.Context(), task); err == nil || !strings.Contains(err.Error(), "this client has no enabled vault block") {
		t.Errorf("without Vault: %v", err)
	}
}
