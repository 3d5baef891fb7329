package api

import "time"

// ACLIdentityClientIntroductionTokenRequest is a request for an introduction token. The
// defaults for empty fields are: any node name, the node pool default, one use.
type ACLIdentityClientIntroductionTokenRequest struct {
	TTL      time.Duration
	NodeName string
	NodePool string
	Uses     int // only in open-nomad
}

// ACLIdentityClientIntroductionTokenResponse contains the introduction token.
type ACLIdentityClientIntroductionTokenResponse struct {
	JWT string
}
