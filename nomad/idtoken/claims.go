package idtoken

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"unicode/utf8"
)

// Claims are the claims of an identity token. Exactly one of Workload, Node, Introduction and Server
// is set; it determines the kind of the identity. In JSON the claims are one flat object, the payload of the
// token, and their names determine the kind. See wire.go for the msgpack form.
type Claims struct {
	*NodeIdentityClaims
	*NodeIntroductionIdentityClaims
	*WorkloadIdentityClaims
	*ServerIdentityClaims
	RegisteredClaims
	// Alg is the signing algorithm. If empty, the type of the active key decides. It is not a claim and is not sent.
	Alg string `json:"-"`
}

// RegisteredClaims are the claims of RFC 7519 section 4.1. Times are Unix seconds. Zero means absent.
type RegisteredClaims struct {
	Issuer    string   `json:"iss,omitempty"`
	Subject   string   `json:"sub,omitempty"`
	Audience  Audience `json:"aud,omitempty"`
	Expiry    int64    `json:"exp,omitempty"`
	NotBefore int64    `json:"nbf,omitempty"`
	IssuedAt  int64    `json:"iat,omitempty"`
	ID        string   `json:"jti,omitempty"`
}

// WorkloadIdentityClaims identify the task or service, and its allocation, that a token is for.
type WorkloadIdentityClaims struct {
	Namespace       string            `json:"nomad_namespace"`
	JobID           string            `json:"nomad_job_id"`
	AllocationID    string            `json:"nomad_allocation_id"`
	TaskName        string            `json:"nomad_task,omitempty"`
	ServiceName     string            `json:"nomad_service,omitempty"`
	ConsulNamespace string            `json:"consul_namespace,omitempty"`
	VaultNamespace  string            `json:"vault_namespace,omitempty"`
	VaultRole       string            `json:"vault_role,omitempty"`
	ExtraClaims     map[string]string `json:"extra_claims,omitempty"`
	// Isolation is the isolation level below which the client does not start the task (open-nomad only).
	Isolation string `json:"nomad_isolation,omitempty"`
}

// NodeIdentityClaims identify the node that a token is for.
type NodeIdentityClaims struct {
	NodeID         string `json:"nomad_node_id,omitempty"`
	NodePool       string `json:"nomad_node_pool,omitempty"`
	NodeClass      string `json:"nomad_node_class,omitempty"`
	NodeDatacenter string `json:"nomad_node_datacenter,omitempty"`
	// AdmittedName is the name to which an introduction binds the node, or empty (open-nomad only). It is not sent by
	// RPC.
	AdmittedName string `json:"nomad_node_admitted_name,omitempty"`
}

// NodeIntroductionIdentityClaims name the node pool that a client may register in. NodeName, if set, also
// fixes the name of the node. The JSON always contains the name, even if it is empty.
type NodeIntroductionIdentityClaims struct {
	NodePool string `json:"nomad_node_pool"`
	NodeName string `json:"nomad_node_name"`
	// Uses is the number of nodes that the token admits; zero means one (open-nomad only).
	Uses int `json:"nomad_node_uses,omitempty"`
}

// ServerIdentityClaims identify the server that a token is for. Servers create such tokens for their own
// calls to each other. They are never issued to anyone else.
type ServerIdentityClaims struct {
	ServerID string `json:"nomad_server_id"`
}

// The claim names that determine the kind of a token. nomad_node_pool is not among them, because two
// kinds have it.
var (
	workloadNames = []string{"nomad_namespace", "nomad_job_id", "nomad_allocation_id", "nomad_task", "nomad_service",
		"consul_namespace", "vault_namespace", "vault_role", "extra_claims", "nomad_isolation"}
	introductionNames = []string{"nomad_node_name"}
	nodeNames         = []string{"nomad_node_id", "nomad_node_class", "nomad_node_datacenter", "nomad_node_admitted_name"}
	serverNames       = []string{"nomad_server_id"}
)

// ClaimNames returns the names of all claims that issued tokens may have.
func ClaimNames() []string {
	registered := []string{"iss", "sub", "aud", "exp", "nbf", "iat", "jti"}
	return slices.Concat(registered, workloadNames, nodeNames, []string{"nomad_node_pool"}, introductionNames)
}

// MarshalJSON writes the payload of a token.
func (c Claims) MarshalJSON() ([]byte, error) {
	kinds := 0
	var payload any
	if c.WorkloadIdentityClaims != nil {
		kinds++
		payload = struct {
			*WorkloadIdentityClaims
			RegisteredClaims
		}{c.WorkloadIdentityClaims, c.RegisteredClaims}
	}
	if c.NodeIdentityClaims != nil {
		kinds++
		payload = struct {
			*NodeIdentityClaims
			RegisteredClaims
		}{c.NodeIdentityClaims, c.RegisteredClaims}
	}
	if c.NodeIntroductionIdentityClaims != nil {
		kinds++
		payload = struct {
			*NodeIntroductionIdentityClaims
			RegisteredClaims
		}{c.NodeIntroductionIdentityClaims, c.RegisteredClaims}
	}
	if c.ServerIdentityClaims != nil {
		kinds++
		payload = struct {
			*ServerIdentityClaims
			RegisteredClaims
		}{c.ServerIdentityClaims, c.RegisteredClaims}
	}
	if kinds != 1 {
		return nil, fmt.Errorf("claims of %d types, expected 1", kinds)
	}
	return json.Marshal(payload)
}

// UnmarshalJSON reads the payload of a token. It determines the kind from the claim names.
func (c *Claims) UnmarshalJSON(b []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(b, &fields); err != nil {
		return errors.New("claims are not a JSON object")
	}
	for name, value := range fields {
		// The decoder below ignores case, also for non-ASCII letters that fold to ASCII.
		// Our claim names are lower case ASCII.
		if strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf || 'A' <= r && r <= 'Z' }) {
			return errors.New("a claim name is not lower case")
		}
		if string(value) == "null" { // the decoder would treat the claim as absent
			return errors.New("a claim has no value")
		}
	}
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { _, ok := fields[n]; return ok })
	}
	*c = Claims{}
	var group any
	switch workload, intro, node, server := has(workloadNames...), has(introductionNames...), has(nodeNames...), has(serverNames...); {
	case (workload || server) && has("nomad_node_pool"), !intro && has("nomad_node_uses"):
		return errors.New("failed to determine claim type")
	case server && !workload && !intro && !node:
		c.ServerIdentityClaims = &ServerIdentityClaims{}
		group = c.ServerIdentityClaims
	case server:
		return errors.New("failed to determine claim type")
	case workload && !intro && !node:
		c.WorkloadIdentityClaims = &WorkloadIdentityClaims{}
		group = c.WorkloadIdentityClaims
	case intro && !workload && !node:
		c.NodeIntroductionIdentityClaims = &NodeIntroductionIdentityClaims{}
		group = c.NodeIntroductionIdentityClaims
	case node && !workload && !intro:
		c.NodeIdentityClaims = &NodeIdentityClaims{}
		group = c.NodeIdentityClaims
	default:
		return errors.New("failed to determine claim type")
	}
	if err := errors.Join(json.Unmarshal(b, group), json.Unmarshal(b, &c.RegisteredClaims)); err != nil {
		return errors.New("a claim has a value of the wrong type")
	}
	return nil
}

// Audience is the "aud" claim: a string for exactly one, a list for several
// (RFC 7519 section 4.1.3).
type Audience []string

// MarshalJSON writes one audience as a string.
func (a Audience) MarshalJSON() ([]byte, error) {
	if len(a) == 1 {
		return json.Marshal(a[0])
	}
	return json.Marshal([]string(a))
}

// UnmarshalJSON reads a string or a list of strings.
func (a *Audience) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		var one string
		if err := json.Unmarshal(b, &one); err != nil {
			return err
		}
		*a = Audience{one}
		return nil
	}
	var many []*string
	if err := json.Unmarshal(b, &many); err != nil || len(many) == 0 || slices.Contains(many, nil) {
		return errors.New("aud is neither a string nor a list of strings")
	}
	*a = nil
	for _, one := range many {
		*a = append(*a, *one)
	}
	return nil
}

// Token is a signed JWT that does not print: all verbs show only its key ID, also if the token is a field of
// a printed struct. Reveal returns the compact form.
type Token struct {
	raw *string // fmt and others do not follow pointers in fields
	kid string
}

// New returns a Token for the compact JWS raw, signed with the key kid.
func New(raw, kid string) Token {
	if raw == "" {
		return Token{kid: kid}
	}
	return Token{raw: &raw, kid: kid}
}

// Reveal returns the compact JWS.
func (t Token) Reveal() string {
	if t.raw == nil {
		return ""
	}
	return *t.raw
}

// KeyID returns the ID of the root key that signed the token.
func (t Token) KeyID() string { return t.kid }

// IsZero reports whether the token is empty.
func (t Token) IsZero() bool { return t.raw == nil }

// String returns the key ID only.
func (t Token) String() string { return "token(kid=" + t.kid + ")" }

// Format implements fmt.Formatter. Every verb prints the result of String.
func (t Token) Format(f fmt.State, _ rune) { io.WriteString(f, t.String()) }

// LogValue implements slog.LogValuer with the result of String.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.String()) }

// MarshalText writes the result of String, so that a token is not disclosed by accident. See Reveal.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }
