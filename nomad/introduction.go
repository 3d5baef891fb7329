package nomad

import "time"

// NodeIntroduction is the use of an introduction token: which one admits a node
// that the servers don't know yet. It goes with the node into the log, where it is
// decided whether the token is good for one more (ours; other servers pass it over).
type NodeIntroduction struct {
	// TokenID is the token's jti.
	TokenID string
	// Uses is how many nodes the token admits.
	Uses int
	// Expiry is when nobody can show the token any more, in seconds since 1970.
	Expiry int64
	// IssuedAt is when the token was signed, in seconds since 1970.
	IssuedAt int64 `codec:",omitempty"`
}

// ErrIntroductionUsed means that an introduction token has admitted as many nodes
// as it may. It is an ErrPermissionDenied.
var ErrIntroductionUsed = Denied("the introduction token was used already: ask for another one")

// How much an introduction is asked of a node that the servers don't know: nothing,
// a warning in the log when it shows none, or a token that fits.
const (
	NodeIntroductionEnforcementNone   = "none"
	NodeIntroductionEnforcementWarn   = "warn"
	NodeIntroductionEnforcementStrict = "strict"
)

// MaxIntroductionUses bounds how many nodes one introduction token may admit.
const MaxIntroductionUses = 10_000

// ACLCreateClientIntroductionTokenRequest is the request of
// ACL.CreateClientIntroductionToken. Without a pool it is the default one, without
// a name any node of the pool may show the token. A TTL of zero is the server's
// default, one above its maximum is the maximum.
type ACLCreateClientIntroductionTokenRequest struct {
	TTL      time.Duration
	NodeName string
	NodePool string
	// Uses is how many nodes the token admits; zero is one (ours).
	Uses int
	WriteRequest
}

// ACLCreateClientIntroductionTokenResponse is its reply.
type ACLCreateClientIntroductionTokenResponse struct {
	JWT string
}
