package idtoken

import "github.com/open-nomad/open-nomad/nomad/apierror"

// NodeIntroduction records the use of an introduction token to admit a new node (open-nomad only). It is part of
// the node's log entry. The FSM decides whether the token may admit another node. Other servers ignore the field.
type NodeIntroduction struct {
	// TokenID is the token's jti.
	TokenID string
	// Uses is the number of nodes that the token admits.
	Uses int
	// Expiry is the time when the token expires, in Unix seconds.
	Expiry int64
	// IssuedAt is the time when the token was signed, in Unix seconds.
	IssuedAt int64 `codec:",omitempty"`
	// Holder is a digest of the node's ID and key, or "" for a node without a key. The same holder may use the token
	// again, for example after a lost answer.
	Holder string `codec:",omitempty"`
}

// ErrIntroductionUsed means that an introduction token has already admitted its maximum number of nodes. It is
// an apierror.ErrPermissionDenied.
var ErrIntroductionUsed = apierror.Denied("introduction token already used: request a new one")

// The enforcement levels for introductions of new nodes: no check, a warning in the log if the token is missing,
// or a valid token required.
const (
	EnforcementNone   = "none"
	EnforcementWarn   = "warn"
	EnforcementStrict = "strict"
)

// MaxIntroductionUses is the maximum number of nodes that one introduction token may admit.
const MaxIntroductionUses = 10_000
