package api

import (
	"encoding/json"
	"fmt"
	"time"
)

// ACLPolicy is a text of rules, and whom it is given to: to tokens that name it, and
// when JobACL is there to the workloads that this names.
type ACLPolicy struct {
	Name        string
	Description string
	Rules       string
	JobACL      *JobACL
	CreateIndex uint64
	ModifyIndex uint64
}

// JobACL names workloads, each part exactly: a task, all of a group, of a job, or of a
// namespace.
type JobACL struct {
	Namespace string
	JobID     string
	Group     string
	Task      string
}

// ACLPolicyListStub is a policy in a list.
type ACLPolicyListStub struct {
	Name        string
	Description string
	JobACL      *JobACL
	CreateIndex uint64
	ModifyIndex uint64
}

// ACLToken is a token: SecretID is what authenticates, AccessorID what it is spoken of by.
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

// MarshalJSON writes the TTL as a text such as "8h0m0s", empty when it is zero.
func (t *ACLToken) MarshalJSON() ([]byte, error) {
	type plain ACLToken
	return json.Marshal(&struct {
		ExpirationTTL string
		*plain
	}{durationText(t.ExpirationTTL), (*plain)(t)})
}

// UnmarshalJSON reads the TTL as a text or as nanoseconds.
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

// ACLTokenRoleLink names a role of a token, by its ID or by its name.
type ACLTokenRoleLink struct {
	ID   string
	Name string
}

// ACLTokenListStub is a token in a list, without its secret.
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

// ACLRole is a set of policies with a name.
type ACLRole struct {
	ID          string
	Name        string
	Description string
	Policies    []*ACLRolePolicyLink
	CreateIndex uint64
	ModifyIndex uint64
}

// ACLRolePolicyLink names a policy of a role.
type ACLRolePolicyLink struct {
	Name string
}

// ACLRoleListStub is a role in a list.
type ACLRoleListStub struct {
	ID          string
	Name        string
	Description string
	Policies    []*ACLRolePolicyLink
	CreateIndex uint64
	ModifyIndex uint64
}

// BootstrapRequest may choose the secret of the first token.
type BootstrapRequest struct {
	BootstrapSecret string
}

// OneTimeToken is a secret that may be exchanged for the token of AccessorID, once, until
// ExpiresAt.
type OneTimeToken struct {
	OneTimeSecretID string
	AccessorID      string
	ExpiresAt       time.Time
	CreateIndex     uint64
	ModifyIndex     uint64
}

// OneTimeTokenUpsertResponse holds a new one-time token.
type OneTimeTokenUpsertResponse struct {
	OneTimeToken *OneTimeToken
}

// OneTimeTokenExchangeRequest shows a one-time token.
type OneTimeTokenExchangeRequest struct {
	OneTimeSecretID string
}

// OneTimeTokenExchangeResponse holds the token that a one-time token stood for.
type OneTimeTokenExchangeResponse struct {
	Token *ACLToken
}
