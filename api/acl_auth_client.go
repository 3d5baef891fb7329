package api

import (
	"errors"
	"net/http"
	"net/url"
)

// ACLAuthMethods reads and changes auth methods.
type ACLAuthMethods struct{ client *Client }

// ACLAuthMethods returns the handle for auth methods.
func (c *Client) ACLAuthMethods() *ACLAuthMethods { return &ACLAuthMethods{c} }

// List lists the auth methods. It needs no token: who logs in has none yet.
func (a *ACLAuthMethods) List(q *QueryOptions) ([]*ACLAuthMethodListStub, *QueryMeta, error) {
	return get[[]*ACLAuthMethodListStub](a.client, "/v1/acl/auth-methods", q)
}

// Get returns an auth method without its secrets.
func (a *ACLAuthMethods) Get(authMethodName string, q *QueryOptions) (*ACLAuthMethod, *QueryMeta, error) {
	if authMethodName == "" {
		return nil, nil, missing("auth-method name")
	}
	return get[*ACLAuthMethod](a.client, "/v1/acl/auth-method/"+url.PathEscape(authMethodName), q)
}

// Create stores an auth method.
func (a *ACLAuthMethods) Create(authMethod *ACLAuthMethod, w *WriteOptions) (*ACLAuthMethod, *WriteMeta, error) {
	return stored(a.client, "/v1/acl/auth-method", authMethod, w)
}

// Update changes an auth method: what is left out stays as it is.
func (a *ACLAuthMethods) Update(authMethod *ACLAuthMethod, w *WriteOptions) (*ACLAuthMethod, *WriteMeta, error) {
	if authMethod == nil || authMethod.Name == "" {
		return nil, nil, missing("auth-method name")
	}
	return stored(a.client, "/v1/acl/auth-method/"+url.PathEscape(authMethod.Name), authMethod, w)
}

// Delete forgets an auth method and its binding rules. Tokens that it gave stay.
func (a *ACLAuthMethods) Delete(authMethodName string, w *WriteOptions) (*WriteMeta, error) {
	if authMethodName == "" {
		return nil, missing("auth-method name")
	}
	return a.client.write(http.MethodDelete, "/v1/acl/auth-method/"+url.PathEscape(authMethodName), nil, nil, w)
}

// ACLBindingRules reads and changes binding rules.
type ACLBindingRules struct{ client *Client }

// ACLBindingRules returns the handle for binding rules.
func (c *Client) ACLBindingRules() *ACLBindingRules { return &ACLBindingRules{c} }

// List lists the binding rules.
func (a *ACLBindingRules) List(q *QueryOptions) ([]*ACLBindingRuleListStub, *QueryMeta, error) {
	return get[[]*ACLBindingRuleListStub](a.client, "/v1/acl/binding-rules", q)
}

// Get returns a binding rule.
func (a *ACLBindingRules) Get(bindingRuleID string, q *QueryOptions) (*ACLBindingRule, *QueryMeta, error) {
	if bindingRuleID == "" {
		return nil, nil, missing("binding rule ID")
	}
	return get[*ACLBindingRule](a.client, "/v1/acl/binding-rule/"+url.PathEscape(bindingRuleID), q)
}

// Create stores a new binding rule, to which the servers give an ID.
func (a *ACLBindingRules) Create(bindingRule *ACLBindingRule, w *WriteOptions) (*ACLBindingRule, *WriteMeta, error) {
	if bindingRule == nil || bindingRule.ID != "" {
		return nil, nil, errors.New("a new binding rule has no ID: servers choose it")
	}
	return stored(a.client, "/v1/acl/binding-rule", bindingRule, w)
}

// Update replaces a binding rule. It stays with its auth method.
func (a *ACLBindingRules) Update(bindingRule *ACLBindingRule, w *WriteOptions) (*ACLBindingRule, *WriteMeta, error) {
	if bindingRule == nil || bindingRule.ID == "" {
		return nil, nil, missing("binding rule ID")
	}
	return stored(a.client, "/v1/acl/binding-rule/"+url.PathEscape(bindingRule.ID), bindingRule, w)
}

// Delete forgets a binding rule. Tokens that it gave something to keep it.
func (a *ACLBindingRules) Delete(bindingRuleID string, w *WriteOptions) (*WriteMeta, error) {
	if bindingRuleID == "" {
		return nil, missing("binding rule ID")
	}
	return a.client.write(http.MethodDelete, "/v1/acl/binding-rule/"+url.PathEscape(bindingRuleID), nil, nil, w)
}

// stored writes something and returns it as the servers have it then.
func stored[T any](c *Client, path string, in *T, w *WriteOptions) (*T, *WriteMeta, error) {
	if in == nil {
		return nil, nil, missing("what to store")
	}
	out := new(T)
	meta, err := c.put(path, in, out, w)
	if err != nil {
		return nil, nil, err
	}
	return out, meta, nil
}

// ACLAuth logs in.
type ACLAuth struct{ client *Client }

// ACLAuth returns the handle for logging in.
func (c *Client) ACLAuth() *ACLAuth { return &ACLAuth{c} }

// ACLOIDC is ACLAuth by its older name.
type ACLOIDC struct{ ACLAuth }

// ACLOIDC returns the handle for logging in, by its older name.
func (c *Client) ACLOIDC() *ACLOIDC { return &ACLOIDC{ACLAuth{c}} }

// GetAuthURL begins a login with a browser.
func (a *ACLAuth) GetAuthURL(req *ACLOIDCAuthURLRequest, q *WriteOptions) (*ACLOIDCAuthURLResponse, *WriteMeta, error) {
	var out ACLOIDCAuthURLResponse
	meta, err := a.client.put("/v1/acl/oidc/auth-url", req, &out, q)
	if err != nil {
		return nil, nil, err
	}
	return &out, meta, nil
}

// CompleteAuth ends a login with a browser and returns an ACL token with its secret.
func (a *ACLAuth) CompleteAuth(req *ACLOIDCCompleteAuthRequest, q *WriteOptions) (*ACLToken, *WriteMeta, error) {
	return a.login("/v1/acl/oidc/complete-auth", req, q)
}

// Login exchanges a token that an identity provider signed for an ACL token.
func (a *ACLAuth) Login(req *ACLLoginRequest, q *WriteOptions) (*ACLToken, *WriteMeta, error) {
	return a.login("/v1/acl/login", req, q)
}

func (a *ACLAuth) login(path string, req any, q *WriteOptions) (*ACLToken, *WriteMeta, error) {
	out := new(ACLToken)
	meta, err := a.client.put(path, req, out, q)
	if err != nil {
		return nil, nil, err
	}
	return out, meta, nil
}
