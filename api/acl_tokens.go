package api

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// ACLTokens is the handle for tokens.
type ACLTokens struct{ client *Client }

// ACLTokens returns the handle for tokens.
func (c *Client) ACLTokens() *ACLTokens { return &ACLTokens{c} }

// missing returns an error for an empty ID or name, which would change the request path.
func missing(what string) error { return fmt.Errorf("missing %s", what) }

// Bootstrap creates the first token, a management token.
func (a *ACLTokens) Bootstrap(q *WriteOptions) (*ACLToken, *WriteMeta, error) {
	return a.store("/v1/acl/bootstrap", nil, q)
}

// BootstrapOpts is Bootstrap with a given secret, which must be a UUID.
func (a *ACLTokens) BootstrapOpts(btoken string, q *WriteOptions) (*ACLToken, *WriteMeta, error) {
	return a.store("/v1/acl/bootstrap", &BootstrapRequest{BootstrapSecret: btoken}, q)
}

// List lists tokens, without their secrets.
func (a *ACLTokens) List(q *QueryOptions) ([]*ACLTokenListStub, *QueryMeta, error) {
	return get[[]*ACLTokenListStub](a.client, "/v1/acl/tokens", q)
}

// Create creates a token and returns it with its secret.
func (a *ACLTokens) Create(token *ACLToken, q *WriteOptions) (*ACLToken, *WriteMeta, error) {
	return a.store("/v1/acl/token", token, q)
}

// Update replaces the token with the accessor ID.
func (a *ACLTokens) Update(token *ACLToken, q *WriteOptions) (*ACLToken, *WriteMeta, error) {
	if token == nil || token.AccessorID == "" {
		return nil, nil, missing("accessor ID")
	}
	return a.store("/v1/acl/token/"+url.PathEscape(token.AccessorID), token, q)
}

func (a *ACLTokens) store(path string, in any, q *WriteOptions) (*ACLToken, *WriteMeta, error) {
	out := new(ACLToken)
	meta, err := a.client.put(path, in, out, q)
	if err != nil {
		return nil, nil, err
	}
	return out, meta, nil
}

// Delete deletes a token.
func (a *ACLTokens) Delete(accessorID string, q *WriteOptions) (*WriteMeta, error) {
	if accessorID == "" {
		return nil, missing("accessor ID")
	}
	return a.client.write(call{http.MethodDelete, "/v1/acl/token/" + url.PathEscape(accessorID), nil, nil}, q)
}

// Info returns a token.
func (a *ACLTokens) Info(accessorID string, q *QueryOptions) (*ACLToken, *QueryMeta, error) {
	if accessorID == "" {
		return nil, nil, missing("accessor ID")
	}
	return get[*ACLToken](a.client, "/v1/acl/token/"+url.PathEscape(accessorID), q)
}

// Self returns the token of the caller.
func (a *ACLTokens) Self(q *QueryOptions) (*ACLToken, *QueryMeta, error) {
	return get[*ACLToken](a.client, "/v1/acl/token/self", q)
}

// UpsertOneTimeToken creates a one-time token for the token of the caller.
func (a *ACLTokens) UpsertOneTimeToken(q *WriteOptions) (*OneTimeToken, *WriteMeta, error) {
	var out OneTimeTokenUpsertResponse
	meta, err := a.client.put("/v1/acl/token/onetime", nil, &out, q)
	switch {
	case err != nil:
		return nil, nil, err
	case out.OneTimeToken == nil:
		return nil, nil, errors.New("create one-time token: no token in the response")
	}
	return out.OneTimeToken, meta, nil
}

// ExchangeOneTimeToken exchanges a one-time token for its token.
func (a *ACLTokens) ExchangeOneTimeToken(secret string, q *WriteOptions) (*ACLToken, *WriteMeta, error) {
	if secret == "" {
		return nil, nil, missing("secret ID")
	}
	var out OneTimeTokenExchangeResponse
	meta, err := a.client.put("/v1/acl/token/onetime/exchange", &OneTimeTokenExchangeRequest{OneTimeSecretID: secret}, &out, q)
	switch {
	case err != nil:
		return nil, nil, err
	case out.Token == nil:
		return nil, nil, errors.New("exchange one-time token: no token in the response")
	}
	return out.Token, meta, nil
}
