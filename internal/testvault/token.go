package testvault

import (
	"crypto/rand"
	"net/http"
	"slices"
	"time"
)

// defaultTTL is that of tokens whose role or creator sets none.
const defaultTTL = 768 * time.Hour

// token is a valid token. The one of the test has no end.
type token struct {
	id, accessor  string
	kind          string // service or batch
	policies      []string
	metadata      map[string]string // of the login
	alias         *alias            // nil without a login
	path, name    string            // where it was made, and its display name
	entity        string
	ttl, period   time.Duration
	max           time.Duration // 0: no limit
	renewable     bool
	created, ends time.Time // zero ends: never
}

// issue stores a new token, which may have an end.
func (v *Vault) issue(t token) *token {
	t.created = v.now()
	prefix := "hvs."
	if t.kind == "batch" {
		prefix = "hvb."
		t.renewable = false
	} else {
		t.accessor = rand.Text()
	}
	t.id = prefix + rand.Text()
	if !slices.Contains(t.policies, "root") {
		t.extend()
		t.ends = t.created.Add(t.ttl)
	}
	v.tokens[t.id] = &t
	return &t
}

// extend sets the TTL to that of the role.
func (t *token) extend() {
	switch {
	case t.period > 0:
		t.ttl = t.period
	case t.ttl == 0:
		t.ttl = defaultTTL
	}
	if t.max > 0 {
		t.ttl = min(t.ttl, t.max)
	}
}

// drop ends a token and its leases. The caller holds mu.
func (v *Vault) drop(id string, how End) {
	if v.tokens[id] != nil {
		v.recorded(id, func(r *Record) { r.End, r.Ended = how, time.Now() })
	}
	delete(v.tokens, id)
	for key, l := range v.leases {
		if l.owner == id {
			delete(v.leases, key)
		}
	}
}

// expire removes all that has ended. The caller holds mu.
func (v *Vault) expire() {
	now := v.now()
	for id, t := range v.tokens {
		if !t.ends.IsZero() && !now.Before(t.ends) {
			v.drop(id, Expired)
		}
	}
	for id, l := range v.leases {
		if !now.Before(l.ends) {
			delete(v.leases, id)
		}
	}
}

// authOf returns the auth part of the answer with a token.
func (v *Vault) authOf(t *token) map[string]any {
	return map[string]any{"client_token": t.id, "accessor": t.accessor, "policies": t.policies, "token_policies": t.policies,
		"identity_policies": nil, "metadata": t.metadata, "lease_duration": v.left(t.ends), "renewable": t.renewable, "entity_id": t.entity,
		"token_type": t.kind, "orphan": true, "mfa_requirement": nil, "num_uses": 0}
}

// left returns the seconds until a time, 0 if it is zero.
func (v *Vault) left(ends time.Time) int {
	if ends.IsZero() {
		return 0
	}
	return int(ends.Sub(v.now()).Round(time.Second) / time.Second)
}

func lookupSelf(c *call) (*answer, error) {
	t := c.who
	data := map[string]any{"id": t.id, "accessor": t.accessor, "type": t.kind, "policies": t.policies, "meta": t.metadata, "path": t.path,
		"display_name": t.name, "creation_time": t.created.Unix(), "creation_ttl": int(t.ttl / time.Second), "ttl": c.v.left(t.ends),
		"expire_time": nil, "explicit_max_ttl": 0, "num_uses": 0, "orphan": true, "entity_id": t.entity, "renewable": t.renewable}
	if !t.ends.IsZero() {
		data["expire_time"] = t.ends.UTC().Format(time.RFC3339Nano)
	}
	if t.period > 0 {
		data["period"] = int(t.period / time.Second)
	}
	return &answer{Data: data}, nil
}

func renewSelf(c *call) (*answer, error) {
	var in struct{ Increment seconds }
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	t := c.who
	switch {
	case t.kind == "batch":
		return nil, c.invalid("batch tokens cannot be renewed")
	case !t.renewable:
		return nil, c.invalid("lease is not renewable")
	}
	ttl := t.ttl
	if in.Increment > 0 && t.period == 0 {
		ttl = time.Duration(in.Increment)
	}
	ends := c.v.now().Add(ttl)
	if limit := t.created.Add(t.max); t.max > 0 && t.period == 0 && ends.After(limit) {
		ends = limit
	}
	t.ends = ends
	c.v.recorded(t.id, func(r *Record) { r.Renewals++ })
	return &answer{Auth: c.v.authOf(t)}, nil
}

func revokeSelf(c *call) (*answer, error) {
	if err := c.empty(); err != nil {
		return nil, err
	}
	if c.who.kind == "batch" {
		return nil, c.invalid("batch tokens cannot be revoked")
	}
	c.v.drop(c.who.id, Revoked)
	return nil, nil
}

// createToken serves the creation of a token without a login.
func createToken(c *call) (*answer, error) {
	var in struct {
		Policies        list
		TTL             seconds
		ExplicitMaxTTL  seconds `json:"explicit_max_ttl"`
		Period          seconds
		Type            string
		Renewable       *bool
		NoParent        bool   `json:"no_parent"`
		NoDefaultPolicy bool   `json:"no_default_policy"`
		DisplayName     string `json:"display_name"`
		NumUses         int    `json:"num_uses"`
		Metadata        map[string]string
		EntityAlias     string `json:"entity_alias"`
		ID              string
		Lease           string
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	if in.NumUses != 0 || in.EntityAlias != "" || in.ID != "" || in.Lease != "" {
		return nil, c.invalid("a field of a token that the stand-in does not support")
	}
	t := token{policies: in.Policies, ttl: time.Duration(in.TTL), max: time.Duration(in.ExplicitMaxTTL), period: time.Duration(in.Period),
		kind: in.Type, renewable: in.Renewable == nil || *in.Renewable, path: "auth/token/create", name: "token"}
	if t.kind == "" {
		t.kind = "service"
	}
	if t.kind != "service" && t.kind != "batch" {
		return nil, c.invalid("invalid 'token_type' value")
	}
	if !in.NoDefaultPolicy {
		t.policies = append(t.policies, "default")
	}
	return &answer{Auth: c.v.authOf(c.v.issue(t))}, nil
}

// unknownToken is the answer to a token that does not exist.
func unknownToken() error { return refuse(http.StatusForbidden, "permission denied") }
