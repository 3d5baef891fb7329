// Package access finds out, on a node, what the bearer of a token may do. The node has
// no state of the servers: it asks them whose the token is and for the policies, and
// compiles these itself.
//
//	token ─ACL.WhoAmI─▶ a node ───────────────────────────────────────▶ reads nodes, agents
//	                    a workload ──ACL.GetClaimPolicies──▶ policies ─▶ rights
//	                    management ────────────────────────────────────▶ acl.Everything
//	                    a token, nobody ──▶ names ──ACL.GetPolicies──▶ policies ─▶ rights
//	                          └──ACL.GetRolesByID──▶ names ──┘
//
// What the servers said is believed for as long as the acl block says, and no longer than
// the token lasts. After that, and while no server answers, nobody may anything. Callers
// of the same token wait for one answer. What is kept is bounded, and holds no token.
//
// Any server may answer. Policies and roles that it lacks, and an answer of a server that lost
// the leader, are asked of the leader: a policy that is missing may be one that denies.
//
// While access control is off, everybody may acl.Everything; a token that is shown must be
// good all the same, and the servers say whether it is.
//
// The package starts no goroutine that outlives the calls that it makes.
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
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/acls"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// Servers carries calls to the servers.
type Servers interface {
	Call(ctx context.Context, method string, req, resp any) error
}

// Config is what a Resolver is made of.
type Config struct {
	Servers Servers
	Region  string
	// Enabled says that callers need rights.
	Enabled bool
	// How long it is believed what the servers said; zero means 30 s.
	TokenTTL, PolicyTTL, RoleTTL time.Duration
}

// Resolver finds out what the bearers of tokens may do.
type Resolver struct {
	cfg      Config
	flights  singleflight.Group
	callers  cache[digest, *caller]
	tokens   cache[digest, *acls.AuthenticatedIdentity]
	claims   cache[digest, []*acl.Policy]
	roles    cache[string, []string]
	policies cache[string, *acl.Policy] // nil for one that there is not
}

// digest stands for a token.
type digest [sha256.Size]byte

// caller is the bearer of a token.
type caller struct {
	identity *acls.AuthenticatedIdentity
	rights   *acl.ACL
	off      bool
}

// Times of asking.
const (
	defaultTTL = 30 * time.Second
	askWithin  = 10 * time.Second
)

// New makes a Resolver.
func New(cfg Config) *Resolver {
	for _, ttl := range []*time.Duration{&cfg.TokenTTL, &cfg.PolicyTTL, &cfg.RoleTTL} {
		*ttl = cmp.Or(*ttl, defaultTTL)
	}
	return &Resolver{cfg: cfg}
}

// Caller returns who the bearer of a token is, "" for nobody's, and what that one may
// do. The error is a nomad.ErrPermissionDenied for a token that is not good; with any
// other nobody can tell.
func (r *Resolver) Caller(ctx context.Context, token string) (*acls.AuthenticatedIdentity, *rpc.Access, error) {
	who, err := r.caller(ctx, token)
	if err != nil {
		return nil, nil, err
	}
	return who.identity, &rpc.Access{Rights: who.rights, Workload: workload(who.identity), Off: who.off}, nil
}

// workload is whose the identity of a workload is, nil for others.
func workload(id *acls.AuthenticatedIdentity) *acl.Workload {
	if id.Claims == nil || id.Claims.WorkloadIdentityClaims == nil {
		return nil
	}
	w := id.Claims.WorkloadIdentityClaims
	return &acl.Workload{Namespace: w.Namespace, Job: w.JobID, Task: w.TaskName}
}

// off is what is known of callers while there is no access control.
func (r *Resolver) off(ctx context.Context, token string) (*caller, error) {
	who := &caller{identity: &acls.AuthenticatedIdentity{}, rights: acl.Everything, off: true}
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

// resolve asks the servers for what is not known. A token that was known may have other
// policies meanwhile, which the servers notice when they are asked for the old ones.
func (r *Resolver) resolve(ctx context.Context, key digest, token string) (*caller, error) {
	_, known := r.tokens.get(key)
	who, until, err := r.ask(ctx, key, token)
	if known && errors.Is(err, nomad.ErrPermissionDenied) {
		r.tokens.drop(key)
		who, until, err = r.ask(ctx, key, token)
	}
	if err != nil {
		return nil, err
	}
	r.callers.put(key, who, until)
	return who, nil
}

// ask returns the bearer of a token, and until when that is believed.
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

// policiesOf returns what grants the bearer of a token rights, and until when that is
// believed.
func (r *Resolver) policiesOf(ctx context.Context, key digest, token string, id *acls.AuthenticatedIdentity) ([]*acl.Policy, time.Time, error) {
	far := time.Now().Add(r.cfg.PolicyTTL)
	switch {
	case isNode(id), id.ACLToken.Management():
		return nil, far, nil
	case workload(id) != nil:
		return r.ofWorkload(ctx, key, token)
	case id.ACLToken != nil:
		return r.ofToken(ctx, token, id.ACLToken)
	}
	return nil, far, nomad.ErrPermissionDenied
}

// identity returns whose a token is.
func (r *Resolver) identity(ctx context.Context, key digest, token string) (*acls.AuthenticatedIdentity, time.Time, error) {
	if id, until, ok := r.tokens.until(key); ok {
		return id, until, nil
	}
	id, err := r.whoAmI(ctx, token, true)
	if errors.Is(err, nomad.ErrPermissionDenied) { // a server may not know a new one yet
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

// whoAmI has the servers look at a token.
func (r *Resolver) whoAmI(ctx context.Context, token string, stale bool) (*acls.AuthenticatedIdentity, error) {
	req := nomad.GenericRequest{QueryOptions: r.query(token)}
	req.AllowStale = stale
	out, err := fetch(ctx, r, "ACL.WhoAmI", &req, always[acls.WhoAmIResponse])
	if err != nil {
		return nil, err
	}
	if out.Identity == nil {
		return nil, nomad.ErrPermissionDenied
	}
	return out.Identity, nil
}

// query is of a read on behalf of the bearer of a token.
func (r *Resolver) query(token string) nomad.QueryOptions {
	return nomad.QueryOptions{Region: r.cfg.Region, AuthToken: token, AllowStale: true}
}

func (r *Resolver) call(ctx context.Context, method string, req, resp any) error {
	err := r.cfg.Servers.Call(ctx, method, req, resp)
	if err == nil || errors.Is(err, nomad.ErrPermissionDenied) || errors.Is(err, nomad.ErrTokenNotFound) || errors.Is(err, nomad.ErrTokenExpired) {
		return denied(err)
	}
	return fmt.Errorf("ask the servers what a token may do: %w", err)
}

// denied says the same of every token that is not good.
func denied(err error) error {
	if err == nil || errors.Is(err, nomad.ErrPermissionDenied) {
		return err
	}
	return nomad.Denied("%w", err)
}
