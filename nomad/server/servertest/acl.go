package servertest

import (
	"context"
	"fmt"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/server"
)

// ACLServer is a server with ACLs, and the secret of its management token.
type ACLServer struct {
	*testing.T
	Server *server.Server
	Root   string // the secret of the management token
	Region string // "global" unless the test sets another
}

// NewACLServer returns a running server of the region "global" whose ACLs are not bootstrapped.
func NewACLServer(t *testing.T, s *server.Server) *ACLServer {
	return &ACLServer{T: t, Server: s, Region: "global"}
}

// StartACL runs a server with ACLs and bootstraps them.
func StartACL(t *testing.T, change func(*server.Config)) *ACLServer {
	t.Helper()
	s, _ := Start(t, func(c *server.Config) {
		c.Access.Enabled = true
		if change != nil {
			change(c)
		}
	})
	g := NewACLServer(t, s)
	out, err := g.Bootstrap("")
	if err != nil {
		t.Fatal(err)
	}
	g.Root = out.SecretID
	return g
}

// Bootstrap creates the first management token with a secret, or a new one for "".
func (g *ACLServer) Bootstrap(secret string) (*rbac.Token, error) {
	var out message.ACLTokenUpsertResponse
	req := &message.ACLTokenBootstrapRequest{BootstrapSecret: secret, WriteRequest: message.WriteRequest{Region: g.Region}}
	err := Retry(g.T, func(ctx context.Context) error { return g.Server.Call(ctx, "ACL.Bootstrap", req, &out) })
	if err != nil {
		return nil, err
	}
	return out.Tokens[0], nil
}

// Call calls a method with a secret over the network.
func (g *ACLServer) Call(secret, method string, req, resp any) error {
	switch r := req.(type) {
	case interface{ Write() *message.WriteRequest }:
		r.Write().Region, r.Write().AuthToken = g.Region, secret
	case interface{ Query() *message.QueryOptions }:
		r.Query().Region, r.Query().AuthToken = g.Region, secret
	}
	return Retry(g.T, func(ctx context.Context) error { return g.Server.Call(ctx, method, req, resp) })
}

// Must calls a method with the management token and fails the test on an error.
func (g *ACLServer) Must(method string, req, resp any) {
	g.Helper()
	if err := g.Call(g.Root, method, req, resp); err != nil {
		g.Fatalf("%s: %v", method, err)
	}
}

// CreatePolicy writes a policy with rights to read the jobs of a namespace.
func (g *ACLServer) CreatePolicy(name, namespace string, job *rbac.JobACL) {
	g.Helper()
	p := &rbac.Policy{Name: name, Rules: fmt.Sprintf("namespace %q { policy = \"read\" }", namespace), JobACL: job}
	g.Must("ACL.UpsertPolicies", &message.ACLPolicyUpsertRequest{Policies: []*rbac.Policy{p}}, nil)
}

// CreateToken writes a token.
func (g *ACLServer) CreateToken(t *rbac.Token) *rbac.Token {
	g.Helper()
	out, err := g.CreateTokens(t)
	if err != nil {
		g.Fatal(err)
	}
	return out[0]
}

// CreateTokens writes tokens with the management token.
func (g *ACLServer) CreateTokens(t ...*rbac.Token) ([]*rbac.Token, error) {
	var out message.ACLTokenUpsertResponse
	err := g.Call(g.Root, "ACL.UpsertTokens", &message.ACLTokenUpsertRequest{Tokens: t}, &out)
	return out.Tokens, err
}

// CreateRole writes a role.
func (g *ACLServer) CreateRole(r *rbac.Role) *rbac.Role {
	g.Helper()
	var out message.ACLRolesUpsertResponse
	g.Must("ACL.UpsertRoles", &message.ACLRolesUpsertRequest{ACLRoles: []*rbac.Role{r}}, &out)
	return out.ACLRoles[0]
}

// ClientToken returns a client token with policies, to be written.
func ClientToken(policies ...string) *rbac.Token {
	return &rbac.Token{Name: "c", Type: rbac.ClientToken, Policies: policies}
}

// PolicyLinks returns the links of a role to policies.
func PolicyLinks(names ...string) (out []*rbac.RolePolicyLink) {
	for _, name := range names {
		out = append(out, &rbac.RolePolicyLink{Name: name})
	}
	return out
}

// ReadRoot returns a region's answer to a read.
func ReadRoot[T any](g *ACLServer, method string, req any) *T {
	g.Helper()
	out := new(T)
	g.Must(method, req, out)
	return out
}

// TokenWith creates a token with one policy and returns its secret.
func (g *ACLServer) TokenWith(rules string) string {
	g.Helper()
	p := &rbac.Policy{Name: "p-" + nomad.NewID()[:8], Rules: rules}
	g.Must("ACL.UpsertPolicies", &message.ACLPolicyUpsertRequest{Policies: []*rbac.Policy{p}}, nil)
	return g.CreateToken(ClientToken(p.Name)).SecretID
}

// ReadWith returns the caller's answer.
func ReadWith[T any](g *ACLServer, secret, method string, req any) T {
	g.Helper()
	var out T
	if err := g.Call(secret, method, req, &out); err != nil {
		g.Fatalf("%s: %v", method, err)
	}
	return out
}
