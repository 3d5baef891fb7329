package nomad

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"
)

// The types of ACL tokens, and the accessor of the anonymous token.
const (
	ACLClientToken       = "client"
	ACLManagementToken   = "management"
	ACLAnonymousAccessor = "anonymous"

	maxTokenName = 256
	// ACLMaxExpiredBatchSize is the maximum number of expired tokens removed by one log entry.
	ACLMaxExpiredBatchSize = 4096
)

// ACLToken is an ACL token. SecretID is its secret. It is never logged, and leaves the servers only in the reply to the
// creator of the token.
type ACLToken struct {
	AccessorID     string
	SecretID       string
	Name           string
	Type           string
	Policies       []string
	Roles          []*ACLTokenRoleLink
	Global         bool
	Hash           []byte
	CreateTime     time.Time
	ExpirationTime *time.Time
	ExpirationTTL  time.Duration
	CreateIndex    uint64
	ModifyIndex    uint64
}

// ACLTokenRoleLink refers to a role of a token. ID identifies the role on the wire. Name is set in replies.
type ACLTokenRoleLink struct {
	ID   string
	Name string
}

// Management reports whether the token is a management token, which has all rights.
func (t *ACLToken) Management() bool { return t != nil && t.Type == ACLManagementToken }

// HasExpired reports whether the token has expired.
func (t *ACLToken) HasExpired(now time.Time) bool {
	return t != nil && t.ExpirationTime != nil && !t.ExpirationTime.IsZero() && !t.ExpirationTime.After(now)
}

// Canonicalize sets the IDs, the creation time and the expiration time of a new token.
func (t *ACLToken) Canonicalize(now time.Time) {
	if t.AccessorID == "" {
		t.AccessorID = NewID()
	}
	if t.SecretID == "" {
		t.SecretID = NewID()
	}
	t.CreateTime = now.UTC()
	if t.ExpirationTime == nil && t.ExpirationTTL != 0 {
		end := t.CreateTime.Add(t.ExpirationTTL)
		t.ExpirationTime = &end
	}
}

// Validate rejects an invalid token. existing is the token that it replaces, or nil. The lifetime of a new token must be
// between shortest and longest.
func (t *ACLToken) Validate(shortest, longest time.Duration, existing *ACLToken) error {
	switch {
	case len(t.Name) > maxTokenName:
		return fmt.Errorf("the name of the token has %d bytes: the limit is %d", len(t.Name), maxTokenName)
	case t.Type == ACLManagementToken && (len(t.Policies) > 0 || len(t.Roles) > 0):
		return fmt.Errorf("a management token cannot have policies or roles")
	case t.Type == ACLClientToken && len(t.Policies) == 0 && len(t.Roles) == 0:
		return fmt.Errorf("a client token needs at least one policy or role")
	case t.Type != ACLClientToken && t.Type != ACLManagementToken:
		return fmt.Errorf("token type must be %q or %q, not %q", ACLClientToken, ACLManagementToken, t.Type)
	case existing != nil:
		return t.validateChange(existing)
	}
	return t.validateLife(shortest, longest)
}

// validateChange rejects changes of immutable fields.
func (t *ACLToken) validateChange(existing *ACLToken) error {
	switch {
	case t.AccessorID == ACLAnonymousAccessor:
		return fmt.Errorf("the anonymous token cannot be changed: update the policy %q", ACLPolicyAnonymous)
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

// validateLife rejects an expiration that is too soon or too late.
func (t *ACLToken) validateLife(shortest, longest time.Duration) error {
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

// SetHash computes the digest of the fields that an operator can set. It stores the digest and returns it.
func (t *ACLToken) SetHash() []byte {
	d := newACLDigest("token").text(t.Name, t.Type).flag(t.Global)
	d.list(slices.Sorted(slices.Values(t.Policies)))
	var roles []string
	for _, r := range t.Roles {
		if r != nil {
			roles = append(roles, r.ID)
		}
	}
	slices.Sort(roles)
	t.Hash = d.list(roles).sum()
	return t.Hash
}

// Stub returns the short form of the token for lists, without its secret.
func (t *ACLToken) Stub() *ACLTokenListStub {
	return &ACLTokenListStub{AccessorID: t.AccessorID, Name: t.Name, Type: t.Type, Policies: t.Policies, Roles: t.Roles,
		Global: t.Global, Hash: t.Hash, CreateTime: t.CreateTime, ExpirationTime: t.ExpirationTime,
		CreateIndex: t.CreateIndex, ModifyIndex: t.ModifyIndex}
}

// WithoutSecret returns the token without its secret.
func (t *ACLToken) WithoutSecret() *ACLToken {
	if t == nil || t.SecretID == "" {
		return t
	}
	out := *t
	out.SecretID = ""
	return &out
}

// String returns the accessor only.
func (t *ACLToken) String() string {
	if t == nil {
		return "token(none)"
	}
	return "token(" + t.AccessorID + ")"
}

// Format implements fmt.Formatter. Every verb prints the result of String.
func (t *ACLToken) Format(f fmt.State, _ rune) { io.WriteString(f, t.String()) }

// LogValue implements slog.LogValuer with the result of String.
func (t *ACLToken) LogValue() slog.Value { return slog.StringValue(t.String()) }

// MarshalJSON writes the TTL as a duration string such as "8h0m0s", or "" for zero.
func (t *ACLToken) MarshalJSON() ([]byte, error) {
	type plain ACLToken
	return json.Marshal(&struct {
		ExpirationTTL string
		*plain
	}{durationText(t.ExpirationTTL), (*plain)(t)})
}

// UnmarshalJSON accepts the TTL as a duration string such as "8h" or as a number of nanoseconds.
func (t *ACLToken) UnmarshalJSON(b []byte) error {
	type plain ACLToken
	in := &struct {
		ExpirationTTL json.RawMessage
		*plain
	}{plain: (*plain)(t)}
	if err := json.Unmarshal(b, in); err != nil {
		return err
	}
	return readDuration("ExpirationTTL", in.ExpirationTTL, &t.ExpirationTTL)
}

// durationText formats a duration for JSON, as "" if it is zero.
func durationText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// readDuration reads an optional duration, given as a string or in nanoseconds.
func readDuration(name string, raw json.RawMessage, to *time.Duration) error {
	var text string
	switch {
	case len(raw) == 0, json.Unmarshal(raw, &text) == nil && text == "":
		return nil
	case text == "":
		if err := json.Unmarshal(raw, to); err != nil {
			return fmt.Errorf("%s must be a duration such as \"8h\": %w", name, err)
		}
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	*to = d
	return nil
}

// ACLTokenListStub is a token without its secret.
type ACLTokenListStub struct {
	AccessorID     string
	Name           string
	Type           string
	Policies       []string
	Roles          []*ACLTokenRoleLink
	Global         bool
	Hash           []byte
	CreateTime     time.Time
	ExpirationTime *time.Time
	CreateIndex    uint64
	ModifyIndex    uint64
}
