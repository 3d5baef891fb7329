package api

import (
	"encoding/json"
	"fmt"
	"time"
)

// ACLPolicy is a named set of rules. It applies to tokens and roles that list it, and to
// the workloads of JobACL, if set.
type ACLPolicy struct {
	Name        string
	Description string
	Rules       string
	JobACL      *JobACL
	CreateIndex uint64
	ModifyIndex uint64
}

// JobACL selects the workloads of a namespace, job, group or task, by exact names.
type JobACL struct {
	Namespace string
	JobID     string
	Group     string
	Task      string
}

// ACLPolicyListStub is the list entry of a policy.
type ACLPolicyListStub struct {
	Name        string
	Description string
	JobACL      *JobACL
	CreateIndex uint64
	ModifyIndex uint64
}

// ACLToken is an ACL token. SecretID authenticates requests. AccessorID is its public ID.
type ACLToken struct {
	AccessorID     string
	SecretID       string
	Name           string
	Type           string // "client" or "management"
	Policies       []string
	Roles          []*ACLTokenRoleLink
	Global         bool // valid in every region
	CreateTime     time.Time
	ExpirationTime *time.Time    `json:",omitempty"`
	ExpirationTTL  time.Duration `json:",omitempty"`
	CreateIndex    uint64
	ModifyIndex    uint64
}

// MarshalJSON encodes the TTL as a string such as "8h0m0s", or "" if it is zero.
func (t *ACLToken) MarshalJSON() ([]byte, error) {
	type plain ACLToken
	return json.Marshal(&struct {
		ExpirationTTL string
		*plain
	}{durationText(t.ExpirationTTL), (*plain)(t)})
}

// UnmarshalJSON decodes the TTL from a string or from nanoseconds.
func (t *ACLToken) UnmarshalJSON(b []byte) error {
	type plain ACLToken
	aux := &struct {
		ExpirationTTL any
		*plain
	}{plain: (*plain)(t)}
	if err := json.Unmarshal(b, aux); err != nil {
		return err
	}
	ttl, err := durationOf(aux.ExpirationTTL)
	if err != nil {
		return fmt.Errorf("ExpirationTTL: %w", err)
	}
	t.ExpirationTTL = ttl
	return nil
}

// ACLTokenRoleLink refers to a role of a token by ID or name.
type ACLTokenRoleLink struct {
	ID   string
	Name string
}

// ACLTokenListStub is the list entry of a token, without its secret.
type ACLTokenListStub struct {
	AccessorID     string
	Name           string
	Type           string
	Policies       []string
	Roles          []*ACLTokenRoleLink
	Global         bool
	CreateTime     time.Time
	ExpirationTime *time.Time `json:",omitempty"`
	CreateIndex    uint64
	ModifyIndex    uint64
}

// ACLRole is a named set of policies.
type ACLRole struct {
	ID          string
	Name        string
	Description string
	Policies    []*ACLRolePolicyLink
	CreateIndex uint64
	ModifyIndex uint64
}

// ACLRolePolicyLink refers to a policy of a role by name.
type ACLRolePolicyLink struct {
	Name string
}

// ACLRoleListStub is the list entry of a role.
type ACLRoleListStub struct {
	ID          string
	Name        string
	Description string
	Policies    []*ACLRolePolicyLink
	CreateIndex uint64
	ModifyIndex uint64
}

// BootstrapRequest is the body of a bootstrap request. It can set the secret of the token.
type BootstrapRequest struct {
	BootstrapSecret string
}

// OneTimeToken is a secret that can be exchanged once for the token of AccessorID, before
// ExpiresAt.
type OneTimeToken struct {
	OneTimeSecretID string
	AccessorID      string
	ExpiresAt       time.Time
	CreateIndex     uint64
	ModifyIndex     uint64
}

// OneTimeTokenUpsertResponse contains a new one-time token.
type OneTimeTokenUpsertResponse struct {
	OneTimeToken *OneTimeToken
}

// OneTimeTokenExchangeRequest is a request to exchange a one-time token.
type OneTimeTokenExchangeRequest struct {
	OneTimeSecretID string
}

// OneTimeTokenExchangeResponse contains the token that a one-time token was exchanged for.
type OneTimeTokenExchangeResponse struct {
	Token *ACLToken
}
