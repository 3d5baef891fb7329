package sdk_test

import (
	"path/filepath"
	"testing"
	"time"

	sdk "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// Errors whose texts the callers of the SDK compare.
func TestSDKErrorTexts(t *testing.T) {
	c := sdkServer(t)
	_, err := c.Namespaces().Register(&sdk.Namespace{Name: "*"}, nil)
	harness.WantError(t, "Register() of the namespace *", err, "400", `invalid name "*".`)
	err = c.Operator().RaftRemovePeerByID("nope", nil)
	harness.WantError(t, "RaftRemovePeerByID()", err, "404", `id "nope" was not found in the Raft configuration`)
	_, _, err = c.Variables().Create(&sdk.Variable{Path: "a"}, nil)
	equals(t, "Create() of a variable without items", err, "Unexpected response code: 400 (variable missing required Items object)")
	_, err = c.EventStream().Stream(t.Context(), map[sdk.Topic][]string{sdk.TopicEvaluation: {"::*"}}, 0, nil)
	harness.WantError(t, "Stream() of a topic with two colons", err, "400", "Invalid key value pair")
	for _, pools := range []func() error{
		func() error { _, _, err := c.NodePools().Info("", nil); return err },
		func() error { _, err := c.NodePools().Delete("", nil); return err },
	} {
		if err := pools(); err == nil {
			t.Error("a node pool without a name is taken")
		}
	}
}

func equals(t *testing.T, what string, err error, want string) {
	t.Helper()
	if err == nil || err.Error() != want {
		t.Errorf("%s = %v, want %s", what, err, want)
	}
}

// unbootstrapped is a server with ACLs and without a token.
func unbootstrapped(t *testing.T) *cluster.Agent {
	t.Helper()
	dir := harness.TempDir(t)
	cfg := filepath.Join(dir, "acl.hcl")
	harness.WriteFile(t, cfg, "acl {\n  enabled = true\n}\n")
	return harness.Start(t, cluster.Options{Dir: dir,
		Args: []string{"-server", "-bootstrap-expect=1", "-bind=127.0.0.1", "-data-dir=" + filepath.Join(dir, "data"), "-config=" + cfg}})
}

// A bootstrap secret that is not a UUID is rejected; a UUID becomes the token.
func TestSDKBootstrapSecret(t *testing.T) {
	a := unbootstrapped(t)
	c := harness.SDKClient(t, a, "")
	_, _, err := c.ACLTokens().BootstrapOpts("not-a-uuid", nil)
	equals(t, "BootstrapOpts()", err, "Unexpected response code: 400 (invalid acl token)")
	token, _, err := c.ACLTokens().BootstrapOpts(harness.BootSecret, nil)
	if err != nil || token.SecretID != harness.BootSecret {
		t.Errorf("BootstrapOpts() = %v", err)
	}
}

// A lock is released without the items in the answer, whatever the variable contains.
func TestSDKReleasesWithoutItems(t *testing.T) {
	c := harness.SDKClient(t, harness.DevAgent(t), "")
	vars := c.Variables()
	for name, items := range map[string]sdk.VariableItems{"full": {"k": "v"}, "empty": nil} {
		v := &sdk.Variable{Path: "locks/" + name, Items: items, Lock: &sdk.VariableLock{TTL: "1m", LockDelay: "10s"}}
		held, _, err := vars.AcquireLock(v, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = vars.Update(&sdk.Variable{Path: v.Path, Lock: &sdk.VariableLock{ID: "another"}}, nil)
		if err == nil {
			t.Error("a variable is written by who does not hold its lock")
		}
		held.Items = nil
		got, _, err := vars.ReleaseLock(held, nil)
		if err != nil || len(got.Items) > 0 || got.Lock != nil || got.ModifyIndex <= held.ModifyIndex {
			t.Errorf("ReleaseLock() of a variable with %v = %+v, %v", items, got, err)
		}
		after, _, err := vars.Read(v.Path, nil)
		if err != nil || len(after.Items) != len(items) {
			t.Errorf("after the release it holds %v, %v", after, err)
		}
	}
}

// An OIDC method without secret, PKCE and redirect URIs is stored; logins with it fail.
func TestSDKIncompleteAuthMethod(t *testing.T) {
	g := harness.NewACLClient(t)
	m := &sdk.ACLAuthMethod{Name: "auth0", Type: sdk.ACLAuthMethodTypeOIDC, TokenLocality: sdk.ACLAuthMethodTokenLocalityGlobal,
		MaxTokenTTL: time.Hour, Default: true,
		Config: &sdk.ACLAuthMethodConfig{BoundAudiences: []string{"test-aud"}, OIDCDiscoveryURL: "https://example.invalid",
			OIDCClientID: "client"}}
	if _, _, err := g.ACLAuthMethods().Create(m, nil); err != nil {
		t.Fatal(err)
	}
	if got, _, err := g.ACLAuthMethods().Get("auth0", nil); err != nil || got.Config.OIDCClientID != "client" {
		t.Errorf("Get() = %+v, %v", got, err)
	}
	_, _, err := g.ACLAuth().GetAuthURL(&sdk.ACLOIDCAuthURLRequest{AuthMethodName: "auth0",
		RedirectURI: "http://localhost:4649/oidc/callback", ClientNonce: "0123456789abcdef"}, nil)
	harness.WantError(t, "GetAuthURL()", err, "403", "does not allow this redirect URI")
}
