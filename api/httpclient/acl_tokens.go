package httpclient

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/open-nomad/open-nomad/api"
)

// ACLTokens is the handle for tokens.
type ACLTokens struct{ client *Client }

// ACLTokens returns the handle for tokens.
func (c *Client) ACLTokens() *ACLTokens { return &ACLTokens{c} }

// missing returns an error for an empty ID or name, which would change the request path.
func missing(what string) error { return fmt.Errorf("missing %s", what) }

// Bootstrap creates the first token, a management token.
func (a *ACLTokens) Bootstrap(q *WriteOptions) (*api.ACLToken, *api.WriteMeta, error) {
	return a.store("/v1/acl/bootstrap", nil, q)
}

// BootstrapOpts is Bootstrap with a given secret, which must be a UUID.
func (a *ACLTokens) BootstrapOpts(btoken string, q *WriteOptions) (*api.ACLToken, *api.WriteMeta, error) {
	return a.store("/v1/acl/bootstrap", &api.BootstrapRequest{BootstrapSecret: btoken}, q)
}

// List lists tokens, without their secrets.
func (a *ACLTokens) List(q *QueryOptions) ([]*api.ACLTokenListStub, *api.QueryMeta, error) {
	return get[[]*api.ACLTokenListStub](a.client, "/v1/acl/tokens", q)
}

// Create creates a token and returns it with its secret.
func (a *ACLTokens) Create(token *api.ACLToken, q *WriteOptions) (*api.ACLToken, *api.WriteMeta, error) {
	return a.store("/v1/acl/token", token, q)
}

// Update replaces the token with the accessor ID.
func (a *ACLTokens) Update(token *api.ACLToken, q *WriteOptions) (*api.ACLToken, *api.WriteMeta, error) {
	if token == nil || token.AccessorID == "" {
		return nil, nil, missing("accessor ID")
	}
	return a.store("/v1/acl/token/"+url.PathEscape(token.AccessorID), token, q)
}

func (a *ACLTokens) store(path string, in any, q *WriteOptions) (*api.ACLToken, *api.WriteMeta, error) {
	out := new(api.ACLToken)
	meta, err := a.client.put(path, in, out, q)
	if err != nil {
		return nil, nil, err
	}
	return out, meta, nil
}

// Delete deletes a token.
func (a *ACLTokens) Delete(accessorID string, q *WriteOptions) (*api.WriteMeta, error) {
	if accessorID == "" {
		return nil, missing("accessor ID")
	}
	return a.client.write(http.MethodDelete, "/v1/acl/token/"+url.PathEscape(accessorID), nil, nil, q)
}

// Info returns a token.
func (a *ACLTokens) Info(accessorID string, q *QueryOptions) (*api.ACLToken, *api.QueryMeta, error) {
	if accessorID == "" {
		return nil, nil, missing("accessor ID")
	}
	return get[*api.ACLToken](a.client, "/v1/acl/token/"+url.PathEscape(accessorID), q)
}

// Self returns the token of the caller.
func (a *ACLTokens) Self(q *QueryOptions) (*api.ACLToken, *api.QueryMeta, error) {
	return get[*api.ACLToken](a.client, "/v1/acl/token/self", q)
}

// UpsertOneTimeToken creates a one-time token for the token of the caller.
func (a *ACLTokens) UpsertOneTimeToken(q *WriteOptions) (*api.OneTimeToken, *api.WriteMeta, error) {
	var out api.OneTimeTokenUpsertResponse
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
func (a *ACLTokens) ExchangeOneTimeToken(secret string, q *WriteOptions) (*api.ACLToken, *api.WriteMeta, error) {
	if secret == "" {
		return nil, nil, missing("secret ID")
	}
	var out api.OneTimeTokenExchangeResponse
	meta, err := a.client.put("/v1/acl/token/onetime/exchange", &api.OneTimeTokenExchangeRequest{OneTimeSecretID: secret}, &out, q)
	switch {
	case err != nil:
		return nil, nil, err
	case out.Token == nil:
		return nil, nil, errors.New("exchange one-time token: no token in the response")
	}
	return out.Token, meta, nil
}
