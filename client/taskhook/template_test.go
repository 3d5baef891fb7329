package taskhook

import (
	"context"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/client/consul/token"
	vaulttoken "github.com/open-nomad/open-nomad/client/vault/token"
	"github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/nomad"
)

// taskTokens has a token for the task web, and records the rejected ones.
type taskTokens struct {
	ConsulTokens
	rejected []string
}

func (*taskTokens) Enabled() bool { return true }

func (*taskTokens) Token(identity, workload string) func() string {
	return func() string {
		if identity == token.TaskIdentity && workload == "web" {
			return "of-the-task"
		}
		return ""
	}
}

func (t *taskTokens) Invalidate(secret string) { t.rejected = append(t.rejected, secret) }

// templateTokens has a token of Vault for the task web, and accepts all rejections.
type templateTokens struct{ VaultTokens }

func (templateTokens) Enabled() bool { return true }

func (templateTokens) Current(task string) func() (string, string) {
	return func() (string, string) { return "of " + task, "team" }
}

func (templateTokens) Rejected(_ context.Context, task, secret string) bool {
	return task == "web" && secret == "of web"
}

func (templateTokens) Watch(task string) (<-chan vaulttoken.Token, func()) {
	ch := make(chan vaulttoken.Token, 1)
	ch <- vaulttoken.Token{Accessor: task}
	return ch, func() {}
}

// TestVaultToken checks that templates use Vault with the token of the task only, and follow its logins.
func TestVaultToken(t *testing.T) {
	with := &nomad.Task{Name: "web", Vault: &nomad.Vault{}}
	got := vaultToken(Config{Task: with, VaultTokens: templateTokens{}})
	secret, namespace := got.Current()
	if secret != "of web" || namespace != "team" || !got.Rejected(t.Context(), "of web") || got.Rejected(t.Context(), "x") {
		t.Errorf("token %q of namespace %q", secret, namespace)
	}
	tokens, _ := vaultLogins(Config{Task: with, VaultTokens: templateTokens{}})()
	if got := <-tokens; got.Accessor != "web" {
		t.Errorf("the logins are those of %q", got.Accessor)
	}
	for name, c := range map[string]Config{
		"no block":  {Task: &nomad.Task{Name: "web"}, VaultTokens: templateTokens{}},
		"no tokens": {Task: with},
	} {
		if got := vaultToken(c); got.Current != nil || vaultLogins(c) != nil {
			t.Errorf("%s: the task has a token", name)
		}
	}
}

// TestConsulToken checks whose token templates use. It is that of the agent only if the operator has configured it.
func TestConsulToken(t *testing.T) {
	agent, err := consul.New(consul.Settings{HTTP: api.Config{Token: "of-the-agent"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		tokens ConsulTokens
		task   string
		client bool
		want   string
	}{
		"of the task":     {&taskTokens{}, "web", false, "of-the-task"},
		"without":         {&taskTokens{}, "db", false, ""},
		"no tokens":       {nil, "web", false, ""},
		"of the agent":    {&taskTokens{}, "web", true, "of-the-agent"},
		"of no other one": {nil, "db", true, "of-the-agent"},
	} {
		task := &nomad.Task{Name: c.task}
		if c.task == "web" {
			task.Identities = []*nomad.WorkloadIdentity{{Name: token.TaskIdentity}}
		}
		cfg := Config{Task: task, Tokens: c.tokens}
		cfg.ReadConsul, cfg.Template.UseClientConsulToken = agent, c.client
		got := consulToken(cfg)
		if secret := got.Secret(); secret != c.want {
			t.Errorf("%s: %q, want %q", name, secret, c.want)
		}
		if logsIn := c.want == "of-the-task"; (got.Rejected != nil) != logsIn {
			t.Errorf("%s: has Rejected = %t, want %t", name, got.Rejected != nil, logsIn)
		}
	}
	// A replaced token of the agent is used at once.
	cfg := Config{Task: &nomad.Task{Name: "web"}}
	cfg.ReadConsul, cfg.Template.UseClientConsulToken = agent, true
	got := consulToken(cfg)
	if err := agent.Replace(consul.Settings{HTTP: api.Config{Token: "reloaded"}}); err != nil {
		t.Fatal(err)
	}
	if secret := got.Secret(); secret != "reloaded" || got.Rejected != nil {
		t.Errorf("after a reload: %q", secret)
	}
	tokens := &taskTokens{}
	web := &nomad.Task{Name: "web", Identities: []*nomad.WorkloadIdentity{{Name: token.TaskIdentity}}}
	consulToken(Config{Task: web, Tokens: tokens}).Rejected("of-the-task")
	if len(tokens.rejected) != 1 {
		t.Errorf("rejected = %q", tokens.rejected)
	}
}
