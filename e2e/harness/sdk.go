package harness

import (
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/e2e/cluster"
)

// BootSecret is the secret of the bootstrap token of guarded agents.
const BootSecret = "8c4f3d0e-7f52-4c86-9d6b-2f0a5a1f5c11"

// ACLClient is an agent with ACLs, with an SDK client that has a management token.
type ACLClient struct {
	*sdk.Client
	Agent *cluster.Agent
}

// NewACLClient starts an agent with ACLs and returns a management client.
func NewACLClient(t *testing.T) *ACLClient {
	t.Helper()
	dir := TempDir(t)
	cfg := filepath.Join(dir, "acl.hcl")
	WriteFile(t, cfg, "acl {\n  enabled = true\n  token_min_expiration_ttl = \"1s\"\n}\n"+UnveilConfig())
	a := Start(t, cluster.Options{Dir: dir, Args: []string{"-dev", "-config=" + cfg}, Secret: BootSecret})
	return &ACLClient{Client: SDKClient(t, a, BootSecret), Agent: a}
}

// SDKClient returns a client of the official SDK with a token.
func SDKClient(t *testing.T, a *cluster.Agent, secret string) *sdk.Client {
	t.Helper()
	c, err := sdk.NewClient(&sdk.Config{Address: a.Address(), SecretID: secret})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// As returns a client with a new token of these policies.
func (g *ACLClient) As(t *testing.T, policies ...string) (*sdk.Client, *sdk.ACLToken) {
	t.Helper()
	token, _, err := g.ACLTokens().Create(&sdk.ACLToken{Name: "of a test", Type: "client", Policies: policies}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return SDKClient(t, g.Agent, token.SecretID), token
}

// CreatePolicy writes a policy.
func (g *ACLClient) CreatePolicy(t *testing.T, name, rules string, to *sdk.JobACL) {
	t.Helper()
	if _, err := g.ACLPolicies().Upsert(&sdk.ACLPolicy{Name: name, Description: "of " + name, Rules: rules, JobACL: to}, nil); err != nil {
		t.Fatal(err)
	}
}

// WantError returns an error unless err has the server's status and text.
func WantError(t *testing.T, what string, err error, status, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), status) || !strings.Contains(err.Error(), text) {
		t.Errorf("%s = %v, want %s and %q", what, err, status, text)
	}
}
