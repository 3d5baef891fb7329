package message

import (
	"time"

	"github.com/open-nomad/open-nomad/nomad/spiffe"
)

// SpiffeX509Request is the request of Spiffe.SignX509. The certificate contains the public key of
// the PKCS #10 request and nothing else of it: the servers derive the rest from the job.
type SpiffeX509Request struct {
	AllocID string
	Task    string
	CSR     []byte
	QueryOptions
}

// SpiffeX509Response is the reply of Spiffe.SignX509: the DER certificates, the leaf first.
type SpiffeX509Response struct {
	ID           string
	Certificates [][]byte
	QueryMeta
}

// SpiffeJWTRequest is the request of Spiffe.SignJWT.
type SpiffeJWTRequest struct {
	AllocID  string
	Task     string
	Audience []string
	QueryOptions
}

// SpiffeJWTResponse is the reply of Spiffe.SignJWT.
type SpiffeJWTResponse struct {
	ID      string
	JWT     string
	Expires time.Time
	QueryMeta
}

// SpiffeBundleResponse is the reply of Spiffe.Bundle: the public keys of a trust domain. Sequence
// increases with each change.
type SpiffeBundleResponse struct {
	TrustDomain string
	Sequence    uint64
	RefreshHint time.Duration
	Authorities []*spiffe.Authority
	QueryMeta
}
