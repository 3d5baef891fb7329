// Package access authenticates and authorises callers on a node. The node has no server state,
// so it asks the servers for the token's identity and its policies, and compiles the policies
// itself.
//
//	token ─ACL.WhoAmI─▶ a node ───────────────────────────────────────▶ reads nodes, agents
//	                    a workload ──ACL.GetClaimPolicies──▶ policies ─▶ rights
//	                    management ────────────────────────────────────▶ acl.Everything
//	                    ACL, anonymous ──▶ names ──ACL.GetPolicies──▶ policies ─▶ rights
//	                          └──ACL.GetRolesByID──▶ names ──┘
//
// Results are cached for the times of the acl block, and no longer than the token is valid.
// When they have expired and no server answers, requests fail. Concurrent requests with the
// same token share one call. The caches have a maximum size and hold no tokens.
//
// Any server may answer. The leader is asked again if policies or roles are missing, or if the
// answering server had no recent contact with the leader. A missing policy may be one that denies.
//
// If access control is disabled, every caller gets acl.Everything. A token in the request must
// still be valid, which the servers check.
//
// The package starts goroutines only for its calls to the servers.
package access

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// Servers carries calls to the servers.
type Servers interface {
	Call(ctx context.Context, method string, req, resp any) error
}

// Config configures a Resolver.
type Config struct {
	Servers Servers
	Region  string
	// Enabled enables access control.
	Enabled bool
	// Cache times; zero means 30 s.
	TokenTTL, PolicyTTL, RoleTTL time.Duration
}

// Resolver resolves tokens to identities and rights.
type Resolver struct {
	cfg      Config
	flights  singleflight.Group
	callers  cache[digest, *caller]
	tokens   cache[digest, *rbac.AuthenticatedIdentity]
	claims   cache[digest, []*acl.Policy]
	roles    cache[string, []string]
	policies cache[string, *acl.Policy] // nil for a policy that does not exist
}

// digest is the hash of a token.
type digest [sha256.Size]byte

// caller is the bearer of a token.
type caller struct {
	identity *rbac.AuthenticatedIdentity
	rights   *acl.ACL
	off      bool
}

// Default cache time, and time limit of a request to the servers.
const (
	defaultTTL = 30 * time.Second
	askWithin  = 10 * time.Second
)

// New returns a Resolver.
func New(cfg Config) *Resolver {
	for _, ttl := range []*time.Duration{&cfg.TokenTTL, &cfg.PolicyTTL, &cfg.RoleTTL} {
		*ttl = cmp.Or(*ttl, defaultTTL)
	}
	return &Resolver{cfg: cfg}
}

// Caller returns the identity and the rights of a token's bearer; "" is the anonymous token.
// The error is an apierror.ErrPermissionDenied for an invalid token. Any other error means that the
// servers could not be asked.
func (r *Resolver) Caller(ctx context.Context, token string) (*rbac.AuthenticatedIdentity, *rpc.Access, error) {
	who, err := r.caller(ctx, token)
	if err != nil {
		return nil, nil, err
	}
	return who.identity, &rpc.Access{Rights: who.rights, Workload: workload(who.identity), Disabled: who.off}, nil
}

// workload returns the workload of an identity, or nil.
func workload(id *rbac.AuthenticatedIdentity) *acl.Workload {
	if id.Claims == nil || id.Claims.WorkloadIdentityClaims == nil {
		return nil
	}
	w := id.Claims.WorkloadIdentityClaims
	return &acl.Workload{Namespace: w.Namespace, Job: w.JobID, Task: w.TaskName}
}

// off returns the caller while access control is disabled.
func (r *Resolver) off(ctx context.Context, token string) (*caller, error) {
	who := &caller{identity: &rbac.AuthenticatedIdentity{}, rights: acl.Everything, off: true}
	if token == "" {
		return who, nil
	}
	var err error
	who.identity, err = r.whoAmI(ctx, token, true)
	return who, err
}

func (r *Resolver) caller(ctx context.Context, token string) (*caller, error) {
	if !r.cfg.Enabled {
		return r.off(ctx, token)
	}
	key := digest(sha256.Sum256([]byte(token)))
	if who, ok := r.callers.get(key); ok {
		return who, nil
	}
	found := r.flights.DoChan(string(key[:]), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askWithin)
		defer cancel()
		return r.resolve(ctx, key, token)
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case got := <-found:
		if got.Err != nil {
			return nil, got.Err
		}
		return got.Val.(*caller), nil
	}
}

// resolve asks the servers for what is not cached. If a cached token is denied, its cached
// policies may be outdated, so the identity is fetched again.
func (r *Resolver) resolve(ctx context.Context, key digest, token string) (*caller, error) {
	_, known := r.tokens.get(key)
	who, until, err := r.ask(ctx, key, token)
	if known && errors.Is(err, apierror.ErrPermissionDenied) {
		r.tokens.drop(key)
		who, until, err = r.ask(ctx, key, token)
	}
	if err != nil {
		return nil, err
	}
	r.callers.put(key, who, until)
	return who, nil
}

// ask returns the bearer of a token and the expiry of the result.
func (r *Resolver) ask(ctx context.Context, key digest, token string) (*caller, time.Time, error) {
	id, until, err := r.identity(ctx, key, token)
	if err != nil {
		return nil, until, err
	}
	who := &caller{identity: id}
	policies, soonest, err := r.policiesOf(ctx, key, token, id)
	switch {
	case err != nil:
		return nil, until, err
	case isNode(id):
		who.rights = acl.OfNodes
	case id.ACLToken.Management():
		who.rights = acl.Everything
	default:
		who.rights = acl.New(false, policies...)
	}
	if soonest.Before(until) {
		until = soonest
	}
	return who, until, nil
}

// policiesOf returns the policies of the bearer of a token and the expiry of the result.
func (r *Resolver) policiesOf(ctx context.Context, key digest, token string,
	id *rbac.AuthenticatedIdentity) ([]*acl.Policy, time.Time, error) {
	far := time.Now().Add(r.cfg.PolicyTTL)
	switch {
	case isNode(id), id.ACLToken.Management():
		return nil, far, nil
	case workload(id) != nil:
		return r.ofWorkload(ctx, key, token)
	case id.ACLToken != nil:
		return r.ofToken(ctx, token, id.ACLToken)
	}
	return nil, far, apierror.ErrPermissionDenied
}

// identity returns the identity of a token.
func (r *Resolver) identity(ctx context.Context, key digest, token string) (*rbac.AuthenticatedIdentity, time.Time, error) {
	if id, until, ok := r.tokens.until(key); ok {
		return id, until, nil
	}
	id, err := r.whoAmI(ctx, token, true)
	if errors.Is(err, apierror.ErrPermissionDenied) { // a server that lags behind may not have a new token
		id, err = r.whoAmI(ctx, token, false)
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	until := time.Now().Add(r.cfg.TokenTTL)
	if end := ends(token, id); !end.IsZero() && end.Before(until) {
		until = end
	}
	r.tokens.put(key, id, until)
	return id, until, nil
}

// whoAmI makes the servers authenticate a token.
func (r *Resolver) whoAmI(ctx context.Context, token string, stale bool) (*rbac.AuthenticatedIdentity, error) {
	req := message.GenericRequest{QueryOptions: r.query(token)}
	req.AllowStale = stale
	out, err := fetch(ctx, r, question[message.ACLWhoAmIResponse]{"ACL.WhoAmI", &req, always[message.ACLWhoAmIResponse]})
	if err != nil {
		return nil, err
	}
	if out.Identity == nil {
		return nil, apierror.ErrPermissionDenied
	}
	return out.Identity, nil
}

// query returns the options of a read on behalf of a token's bearer.
func (r *Resolver) query(token string) message.QueryOptions {
	return message.QueryOptions{Region: r.cfg.Region, AuthToken: token, AllowStale: true}
}

func (r *Resolver) call(ctx context.Context, method string, req, resp any) error {
	err := r.cfg.Servers.Call(ctx, method, req, resp)
	if err == nil || errors.Is(err, apierror.ErrPermissionDenied) || errors.Is(err, apierror.ErrTokenNotFound) ||
		errors.Is(err, apierror.ErrTokenExpired) {
		return denied(err)
	}
	return fmt.Errorf("resolve token: %w", err)
}

// denied maps all errors of invalid tokens to apierror.ErrPermissionDenied.
func denied(err error) error {
	if err == nil || errors.Is(err, apierror.ErrPermissionDenied) {
		return err
	}
	return apierror.Denied("%w", err)
}
