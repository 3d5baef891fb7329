package nomad

import "fmt"

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
}

// ErrIntroductionUsed means that an introduction token has admitted as many nodes
// as it may. It is an ErrPermissionDenied.
var ErrIntroductionUsed = fmt.Errorf("%w: the introduction token was used already: ask for another one", ErrPermissionDenied)
