package api

import "time"

// ACLIdentity makes tokens by which others prove who they are.
type ACLIdentity struct{ client *Client }

// ACLIdentity returns the handle for such tokens.
func (c *Client) ACLIdentity() *ACLIdentity { return &ACLIdentity{c} }

// ACLIdentityClientIntroductionTokenRequest says which nodes a token introduces. Empty
// fields are the servers' defaults: any name, the pool default, one use.
type ACLIdentityClientIntroductionTokenRequest struct {
	TTL      time.Duration
	NodeName string
	NodePool string
	Uses     int // ours
}

// ACLIdentityClientIntroductionTokenResponse holds the token.
type ACLIdentityClientIntroductionTokenResponse struct {
	JWT string
}

// CreateClientIntroductionToken makes a token with which nodes may join.
func (a *ACLIdentity) CreateClientIntroductionToken(req *ACLIdentityClientIntroductionTokenRequest,
	q *WriteOptions) (*ACLIdentityClientIntroductionTokenResponse, *WriteMeta, error) {
	var out ACLIdentityClientIntroductionTokenResponse
	meta, err := a.client.put("/v1/acl/identity/client-introduction-token", req, &out, q)
	if err != nil {
		return nil, nil, err
	}
	return &out, meta, nil
}
