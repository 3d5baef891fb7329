package api

// ACLIdentity is the handle for identity tokens.
type ACLIdentity struct{ client *Client }

// ACLIdentity returns the handle for identity tokens.
func (c *Client) ACLIdentity() *ACLIdentity { return &ACLIdentity{c} }

// CreateClientIntroductionToken creates a token for the registration of new nodes.
func (a *ACLIdentity) CreateClientIntroductionToken(req *ACLIdentityClientIntroductionTokenRequest,
	q *WriteOptions) (*ACLIdentityClientIntroductionTokenResponse, *WriteMeta, error) {
	var out ACLIdentityClientIntroductionTokenResponse
	meta, err := a.client.put("/v1/acl/identity/client-introduction-token", req, &out, q)
	if err != nil {
		return nil, nil, err
	}
	return &out, meta, nil
}
