package nomad

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

// IdentityClaims are what a token says (compat/identity.md section 2). Exactly
// one of Workload, Node, Introduction and Server is set; it says what kind of identity
// the token is. As JSON they are the payload of a token, one flat object whose
// keys tell the kind; claimswire.go has their form on the wire.
type IdentityClaims struct {
	*NodeIdentityClaims
	*NodeIntroductionIdentityClaims
	*WorkloadIdentityClaims
	*ServerIdentityClaims
	RegisteredClaims
	// Alg is how the token is to be signed, "" for the active key's way. It is no
	// claim, and is not sent.
	Alg string `json:"-"`
}

// RegisteredClaims are the claims of RFC 7519 section 4.1. Times are seconds
// since 1970; zero means absent.
type RegisteredClaims struct {
	Issuer    string   `json:"iss,omitempty"`
	Subject   string   `json:"sub,omitempty"`
	Audience  Audience `json:"aud,omitempty"`
	Expiry    int64    `json:"exp,omitempty"`
	NotBefore int64    `json:"nbf,omitempty"`
	IssuedAt  int64    `json:"iat,omitempty"`
	ID        string   `json:"jti,omitempty"`
}

// WorkloadIdentityClaims say which task or service of which allocation a token is for.
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
}

// NodeIdentityClaims say which node a token is for.
type NodeIdentityClaims struct {
	NodeID         string `json:"nomad_node_id,omitempty"`
	NodePool       string `json:"nomad_node_pool,omitempty"`
	NodeClass      string `json:"nomad_node_class,omitempty"`
	NodeDatacenter string `json:"nomad_node_datacenter,omitempty"`
	// AdmittedName is the name of the node (ours). It is not on the wire.
	AdmittedName string `json:"nomad_node_admitted_name,omitempty"`
}

// NodeIntroductionIdentityClaims say which pool, and which node if a name is
// given, a client may register itself into. The name is written even when empty.
type NodeIntroductionIdentityClaims struct {
	NodePool string `json:"nomad_node_pool"`
	NodeName string `json:"nomad_node_name"`
	// Uses is how many nodes the token admits; zero is one (ours).
	Uses int `json:"nomad_node_uses,omitempty"`
}

// ServerIdentityClaims say which server a token is for. Servers make them for
// themselves, to call each other; nobody is given one.
type ServerIdentityClaims struct {
	ServerID string `json:"nomad_server_id"`
}

// Claim names that tell the kind of a token. nomad_node_pool tells nothing: two
// kinds have it.
var (
	workloadNames = []string{"nomad_namespace", "nomad_job_id", "nomad_allocation_id", "nomad_task", "nomad_service",
		"consul_namespace", "vault_namespace", "vault_role", "extra_claims"}
	introductionNames = []string{"nomad_node_name"}
	nodeNames         = []string{"nomad_node_id", "nomad_node_class", "nomad_node_datacenter", "nomad_node_admitted_name"}
	serverNames       = []string{"nomad_server_id"}
)

// ClaimNames returns the names of all claims that tokens for others may have.
func ClaimNames() []string {
	registered := []string{"iss", "sub", "aud", "exp", "nbf", "iat", "jti"}
	return slices.Concat(registered, workloadNames, nodeNames, []string{"nomad_node_pool"}, introductionNames)
}

// MarshalJSON writes the payload of a token.
func (c IdentityClaims) MarshalJSON() ([]byte, error) {
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
		return nil, fmt.Errorf("claims are of %d kinds, want one", kinds)
	}
	return json.Marshal(payload)
}

// UnmarshalJSON reads the payload of a token and finds its kind by the names of
// its claims.
func (c *IdentityClaims) UnmarshalJSON(b []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(b, &fields); err != nil {
		return errors.New("claims are not a JSON object")
	}
	for name, value := range fields {
		// The decoder below takes names of any case, and letters that become ours in
		// another one; ours have one.
		if strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf || 'A' <= r && r <= 'Z' }) {
			return errors.New("a claim's name is not in lower case")
		}
		if string(value) == "null" { // to the decoder, a claim that is not there
			return errors.New("a claim has no value")
		}
	}
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { _, ok := fields[n]; return ok })
	}
	*c = IdentityClaims{}
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
		return errors.New("a claim has a value of another type")
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

// Token is a signed JWT that cannot print: it shows as its key ID only, whatever the
// verb, and when it is a field that fmt looks into by itself. Reveal gives the compact
// form, for the one place that hands it over.
type Token struct {
	raw *string // fmt and others do not follow pointers in fields
	kid string
}

// NewToken holds the compact JWS raw, signed with the key kid.
func NewToken(raw, kid string) Token {
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

// IsZero says whether there is no token.
func (t Token) IsZero() bool { return t.raw == nil }

// String shows the key ID only.
func (t Token) String() string { return "token(kid=" + t.kid + ")" }

// Format is String for every verb.
func (t Token) Format(f fmt.State, _ rune) { io.WriteString(f, t.String()) }

// LogValue is String, for slog.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.String()) }

// MarshalText writes String: a token is handed over by Reveal, never by accident.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }
