package access

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
)

// isNode reports whether the caller is a node.
func isNode(id *rbac.AuthenticatedIdentity) bool {
	return id.ClientID != "" || id.Claims != nil && id.Claims.NodeIdentityClaims != nil
}

// ends returns the expiry of a token, or zero. Expiries of signed tokens are read from the
// token, which the servers have verified: their response lacks it.
func ends(token string, id *rbac.AuthenticatedIdentity) time.Time {
	if t := id.ACLToken; t != nil && t.ExpirationTime != nil {
		return *t.ExpirationTime
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	body, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Expiry float64 `json:"exp"`
	}
	if err != nil || json.Unmarshal(body, &claims) != nil || claims.Expiry == 0 {
		return time.Time{}
	}
	return time.Unix(int64(claims.Expiry), 0)
}

// ofWorkload fetches the policies of a workload's token.
func (r *Resolver) ofWorkload(ctx context.Context, key digest, token string) ([]*acl.Policy, time.Time, error) {
	if found, until, ok := r.claims.until(key); ok {
		return found, until, nil
	}
	out, err := fetch(ctx, r, question[message.ACLPolicySetResponse]{"ACL.GetClaimPolicies",
		&message.GenericRequest{QueryOptions: r.query(token)}, always[message.ACLPolicySetResponse]})
	if err != nil {
		return nil, time.Time{}, err
	}
	until := time.Now().Add(r.cfg.PolicyTTL)
	var found []*acl.Policy
	for _, name := range slices.Sorted(maps.Keys(out.Policies)) {
		p, err := parse(out.Policies[name])
		if err != nil {
			return nil, time.Time{}, err
		}
		found = append(found, p)
	}
	r.claims.put(key, found, until)
	return found, until, nil
}

// ofToken fetches the policies of a token and of its roles.
func (r *Resolver) ofToken(ctx context.Context, token string, t *rbac.Token) ([]*acl.Policy, time.Time, error) {
	names, until, err := r.namesOf(ctx, token, t)
	if err != nil {
		return nil, until, err
	}
	var found []*acl.Policy
	var missing []string
	for _, name := range names {
		p, end, ok := r.policies.until(name)
		switch {
		case !ok:
			missing = append(missing, name)
		case p != nil:
			found = append(found, p)
			fallthrough
		default:
			until = earlier(until, end)
		}
	}
	if len(missing) == 0 {
		return found, until, nil
	}
	out, err := fetch(ctx, r, question[message.ACLPolicySetResponse]{"ACL.GetPolicies",
		&message.ACLPolicySetRequest{Names: missing, QueryOptions: r.query(token)},
		func(out *message.ACLPolicySetResponse) bool { return has(out.Policies, missing) }})
	if err != nil {
		return nil, until, err
	}
	end := time.Now().Add(r.cfg.PolicyTTL)
	for _, name := range missing {
		p, err := parse(out.Policies[name])
		if err != nil {
			return nil, until, err
		}
		if r.policies.put(name, p, end); p != nil {
			found = append(found, p)
		}
	}
	return found, earlier(until, end), nil
}

// namesOf returns the names of the policies of a token and of its roles, without duplicates.
func (r *Resolver) namesOf(ctx context.Context, token string, t *rbac.Token) ([]string, time.Time, error) {
	until := time.Now().Add(r.cfg.RoleTTL)
	names := slices.Clone(t.Policies)
	var missing []string
	for _, link := range t.Roles {
		if link == nil {
			continue
		}
		of, end, ok := r.roles.until(link.ID)
		if !ok {
			missing = append(missing, link.ID)
			continue
		}
		names, until = append(names, of...), earlier(until, end)
	}
	if len(missing) > 0 {
		out, err := fetch(ctx, r, question[message.ACLRolesByIDResponse]{"ACL.GetRolesByID",
			&message.ACLRolesByIDRequest{ACLRoleIDs: missing, QueryOptions: r.query(token)},
			func(out *message.ACLRolesByIDResponse) bool { return has(out.ACLRoles, missing) }})
		if err != nil {
			return nil, until, err
		}
		end := time.Now().Add(r.cfg.RoleTTL)
		for _, id := range missing {
			of := policyNames(out.ACLRoles[id])
			r.roles.put(id, of, end)
			names = append(names, of...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), until, nil
}

// has reports whether every key has a value.
func has[V any](m map[string]*V, keys []string) bool {
	return !slices.ContainsFunc(keys, func(k string) bool { return m[k] == nil })
}

func policyNames(role *rbac.Role) (names []string) {
	if role == nil {
		return nil
	}
	for _, link := range role.Policies {
		if link != nil {
			names = append(names, link.Name)
		}
	}
	return names
}

// parse parses a policy; nil gives nil. A policy that cannot be parsed denies the token
// everything, because its denials are unknown.
func parse(p *rbac.Policy) (*acl.Policy, error) {
	if p == nil {
		return nil, nil
	}
	parsed, err := acl.Parse(p.Rules)
	if err != nil {
		return nil, apierror.Denied("policy %q cannot be parsed: write it again", p.Name)
	}
	parsed.Name = p.Name
	return parsed, nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
