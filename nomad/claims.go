package nomad

import (
	"encoding/json"
	"errors"
	"log/slog"
)

// Claims of a token (compat/identity.md section 2). Exactly one of Workload,
// Node and Introduction is set; it says what kind of identity the token is.
type IdentityClaims struct {
	*NodeIdentityClaims
	*NodeIntroductionIdentityClaims
	*WorkloadIdentityClaims
	RegisteredClaims
}

// RegisteredClaims are the claims of RFC 7519 section 4.1. Times are seconds
// since 1970; zero means absent.
type RegisteredClaims struct {
	Issuer    string   `codec:"iss,omitempty" json:"iss,omitempty"`
	Subject   string   `codec:"sub,omitempty" json:"sub,omitempty"`
	Audience  Audience `codec:"aud,omitempty" json:"aud,omitempty"`
	Expiry    int64    `codec:"exp,omitempty" json:"exp,omitempty"`
	NotBefore int64    `codec:"nbf,omitempty" json:"nbf,omitempty"`
	IssuedAt  int64    `codec:"iat,omitempty" json:"iat,omitempty"`
	ID        string   `codec:"jti,omitempty" json:"jti,omitempty"`
}

// WorkloadIdentityClaims say which task or service of which allocation a token is for.
type WorkloadIdentityClaims struct {
	Namespace       string            `codec:"nomad_namespace" json:"nomad_namespace"`
	JobID           string            `codec:"nomad_job_id" json:"nomad_job_id"`
	AllocationID    string            `codec:"nomad_allocation_id" json:"nomad_allocation_id"`
	TaskName        string            `codec:"nomad_task,omitempty" json:"nomad_task,omitempty"`
	ServiceName     string            `codec:"nomad_service,omitempty" json:"nomad_service,omitempty"`
	ConsulNamespace string            `codec:"consul_namespace,omitempty" json:"consul_namespace,omitempty"`
	VaultNamespace  string            `codec:"vault_namespace,omitempty" json:"vault_namespace,omitempty"`
	VaultRole       string            `codec:"vault_role,omitempty" json:"vault_role,omitempty"`
	ExtraClaims     map[string]string `codec:"extra_claims,omitempty" json:"extra_claims,omitempty"`
}

// NodeIdentityClaims say which node a token is for.
type NodeIdentityClaims struct {
	NodeID         string `codec:"nomad_node_id,omitempty" json:"nomad_node_id,omitempty"`
	NodePool       string `codec:"nomad_node_pool,omitempty" json:"nomad_node_pool,omitempty"`
	NodeClass      string `codec:"nomad_node_class,omitempty" json:"nomad_node_class,omitempty"`
	NodeDatacenter string `codec:"nomad_node_datacenter,omitempty" json:"nomad_node_datacenter,omitempty"`
}

// NodeIntroductionIdentityClaims say which pool, and which node if a name is
// given, a client may register itself into. The name is written even when empty.
type NodeIntroductionIdentityClaims struct {
	NodePool string `codec:"nomad_node_pool" json:"nomad_node_pool"`
	NodeName string `codec:"nomad_node_name" json:"nomad_node_name"`
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
	var many []string
	if err := json.Unmarshal(b, &many); err != nil {
		return errors.New("aud is neither a string nor a list of strings")
	}
	*a = many
	return nil
}

// Token is a signed JWT that cannot print: it shows as its key ID only. Reveal
// gives the compact form, for the one place that hands it over.
type Token struct{ raw, kid string }

// NewToken holds the compact JWS raw, signed with the key kid.
func NewToken(raw, kid string) Token { return Token{raw: raw, kid: kid} }

// Reveal returns the compact JWS.
func (t Token) Reveal() string { return t.raw }

// KeyID returns the ID of the root key that signed the token.
func (t Token) KeyID() string { return t.kid }

// IsZero says whether there is no token.
func (t Token) IsZero() bool { return t.raw == "" }

// String shows the key ID only.
func (t Token) String() string { return "token(kid=" + t.kid + ")" }

// GoString is String, so that %#v prints no token either.
func (t Token) GoString() string { return t.String() }

// LogValue is String, for slog.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.String()) }

// MarshalJSON writes String: a token is handed over by Reveal, never by accident.
func (t Token) MarshalJSON() ([]byte, error) { return json.Marshal(t.String()) }
