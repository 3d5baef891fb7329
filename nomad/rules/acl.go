package rules

import (
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/nomad/rbac"
)

// maxTokenName is the maximum length of the names of tokens.
const maxTokenName = 256

// ACLPolicy rejects an invalid policy. Package acl parses the rules.
func ACLPolicy(p *rbac.Policy) error {
	switch {
	case !objectName().MatchString(p.Name):
		return fmt.Errorf("invalid policy name %q: use 1 to 128 letters, digits and '-'", p.Name)
	case len(p.Description) > MaxDescription:
		return fmt.Errorf("the description of policy %q has %d bytes: the limit is %d", p.Name, len(p.Description), MaxDescription)
	}
	j := p.JobACL
	switch {
	case j == nil:
	case j.Namespace == "":
		return fmt.Errorf("policy %q applies to workloads but has no namespace", p.Name)
	case j.JobID == "" && (j.Group != "" || j.Task != ""):
		return fmt.Errorf("policy %q applies to a group or task but has no job", p.Name)
	case j.Group == "" && j.Task != "":
		return fmt.Errorf("policy %q applies to a task but has no group", p.Name)
	}
	return nil
}

// ACLRole rejects an invalid role.
func ACLRole(r *rbac.Role) error {
	switch {
	case !objectName().MatchString(r.Name):
		return fmt.Errorf("invalid role name %q: use 1 to 128 letters, digits and '-'", r.Name)
	case len(r.Description) > MaxDescription:
		return fmt.Errorf("the description of role %q has %d bytes: the limit is %d", r.Name, len(r.Description), MaxDescription)
	case len(r.Policies) == 0:
		return fmt.Errorf("role %q needs at least one policy", r.Name)
	}
	for _, l := range r.Policies {
		if l == nil || !objectName().MatchString(l.Name) {
			return fmt.Errorf("role %q has a policy with an invalid name", r.Name)
		}
	}
	return nil
}

// ACLToken rejects an invalid token. existing is the token that it replaces, or nil. The lifetime of a new token must be
// between shortest and longest.
func ACLToken(t, existing *rbac.Token, shortest, longest time.Duration) error {
	switch {
	case len(t.Name) > maxTokenName:
		return fmt.Errorf("the name of the token has %d bytes: the limit is %d", len(t.Name), maxTokenName)
	case t.Type == rbac.ManagementToken && (len(t.Policies) > 0 || len(t.Roles) > 0):
		return fmt.Errorf("a management token cannot have policies or roles")
	case t.Type == rbac.ClientToken && len(t.Policies) == 0 && len(t.Roles) == 0:
		return fmt.Errorf("a client token needs at least one policy or role")
	case t.Type != rbac.ClientToken && t.Type != rbac.ManagementToken:
		return fmt.Errorf("token type must be %q or %q, not %q", rbac.ClientToken, rbac.ManagementToken, t.Type)
	case existing != nil:
		return tokenChange(t, existing)
	}
	return tokenLife(t, shortest, longest)
}

// tokenChange rejects changes of immutable fields.
func tokenChange(t, existing *rbac.Token) error {
	switch {
	case t.AccessorID == rbac.AnonymousAccessor:
		return fmt.Errorf("the anonymous token cannot be changed: update the policy %q", rbac.PolicyAnonymous)
	case t.Type != existing.Type:
		return fmt.Errorf("token %s has type %s: the type of a token cannot be changed", t.AccessorID, existing.Type)
	case t.Global != existing.Global:
		return fmt.Errorf("token %s: global cannot be changed", t.AccessorID)
	case t.SecretID != existing.SecretID:
		return fmt.Errorf("token %s: the secret of a token cannot be changed", t.AccessorID)
	case !sameTime(t.ExpirationTime, existing.ExpirationTime) || t.ExpirationTTL != existing.ExpirationTTL:
		return fmt.Errorf("token %s: the expiration of a token cannot be changed", t.AccessorID)
	}
	return nil
}

func sameTime(a, b *time.Time) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Equal(*b)
}

// tokenLife rejects an expiration that is too soon or too late.
func tokenLife(t *rbac.Token, shortest, longest time.Duration) error {
	if t.ExpirationTTL < 0 {
		return fmt.Errorf("the expiration TTL %s of the token is negative", t.ExpirationTTL)
	}
	if t.ExpirationTime == nil || t.ExpirationTime.IsZero() {
		return nil
	}
	switch life := t.ExpirationTime.Sub(t.CreateTime); {
	case t.ExpirationTTL != 0 && life != t.ExpirationTTL:
		return fmt.Errorf("a token cannot have both an expiration TTL and an expiration time")
	case life <= 0:
		return fmt.Errorf("the expiration time of the token is in the past")
	case life < shortest:
		return fmt.Errorf("the token would expire in %s, less than acl.token_min_expiration_ttl, which is %s", life, shortest)
	case life > longest:
		return fmt.Errorf("the token would expire in %s, more than acl.token_max_expiration_ttl, which is %s", life, longest)
	}
	return nil
}
