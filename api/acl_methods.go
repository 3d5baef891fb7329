package api

import (
	"errors"
	"net/http"
	"net/url"
)

// ACLAuthMethods is the handle for auth methods.
type ACLAuthMethods struct{ client *Client }

// ACLAuthMethods returns the handle for auth methods.
func (c *Client) ACLAuthMethods() *ACLAuthMethods { return &ACLAuthMethods{c} }

// List lists the auth methods. It does not require a token, because it precedes a login.
func (a *ACLAuthMethods) List(q *QueryOptions) ([]*ACLAuthMethodListStub, *QueryMeta, error) {
	return get[[]*ACLAuthMethodListStub](a.client, "/v1/acl/auth-methods", q)
}

// Get returns an auth method with its secrets redacted.
func (a *ACLAuthMethods) Get(authMethodName string, q *QueryOptions) (*ACLAuthMethod, *QueryMeta, error) {
	if authMethodName == "" {
		return nil, nil, missing("auth-method name")
	}
	return get[*ACLAuthMethod](a.client, "/v1/acl/auth-method/"+url.PathEscape(authMethodName), q)
}

// Create creates an auth method.
func (a *ACLAuthMethods) Create(authMethod *ACLAuthMethod, w *WriteOptions) (*ACLAuthMethod, *WriteMeta, error) {
	return stored(a.client, "/v1/acl/auth-method", authMethod, w)
}

// Update changes an auth method. Unset fields keep their values.
func (a *ACLAuthMethods) Update(authMethod *ACLAuthMethod, w *WriteOptions) (*ACLAuthMethod, *WriteMeta, error) {
	if authMethod == nil || authMethod.Name == "" {
		return nil, nil, missing("auth-method name")
	}
	return stored(a.client, "/v1/acl/auth-method/"+url.PathEscape(authMethod.Name), authMethod, w)
}

// Delete deletes an auth method and its binding rules. It does not revoke tokens.
func (a *ACLAuthMethods) Delete(authMethodName string, w *WriteOptions) (*WriteMeta, error) {
	if authMethodName == "" {
		return nil, missing("auth-method name")
	}
	return a.client.write(call{http.MethodDelete, "/v1/acl/auth-method/" + url.PathEscape(authMethodName), nil, nil}, w)
}

// ACLBindingRules is the handle for binding rules.
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

// Create creates a binding rule. The servers choose its ID.
func (a *ACLBindingRules) Create(bindingRule *ACLBindingRule, w *WriteOptions) (*ACLBindingRule, *WriteMeta, error) {
	if bindingRule == nil || bindingRule.ID != "" {
		return nil, nil, errors.New("create binding rule: the ID must be empty, because servers choose it")
	}
	return stored(a.client, "/v1/acl/binding-rule", bindingRule, w)
}

// Update replaces a binding rule. Its auth method cannot change.
func (a *ACLBindingRules) Update(bindingRule *ACLBindingRule, w *WriteOptions) (*ACLBindingRule, *WriteMeta, error) {
	if bindingRule == nil || bindingRule.ID == "" {
		return nil, nil, missing("binding rule ID")
	}
	return stored(a.client, "/v1/acl/binding-rule/"+url.PathEscape(bindingRule.ID), bindingRule, w)
}

// Delete deletes a binding rule. Existing tokens keep their grants.
func (a *ACLBindingRules) Delete(bindingRuleID string, w *WriteOptions) (*WriteMeta, error) {
	if bindingRuleID == "" {
		return nil, missing("binding rule ID")
	}
	return a.client.write(call{http.MethodDelete, "/v1/acl/binding-rule/" + url.PathEscape(bindingRuleID), nil, nil}, w)
}

// stored writes an object and returns the stored one.
func stored[T any](c *Client, path string, in *T, w *WriteOptions) (*T, *WriteMeta, error) {
	if in == nil {
		return nil, nil, missing("object to store")
	}
	out := new(T)
	meta, err := c.put(path, in, out, w)
	if err != nil {
		return nil, nil, err
	}
	return out, meta, nil
}

// ACLAuth is the handle for logins.
type ACLAuth struct{ client *Client }

// ACLAuth returns the handle for logins.
func (c *Client) ACLAuth() *ACLAuth { return &ACLAuth{c} }

// ACLOIDC is the older name of ACLAuth.
type ACLOIDC struct{ ACLAuth }

// ACLOIDC returns the handle for logins. It is the older name of ACLAuth.
func (c *Client) ACLOIDC() *ACLOIDC { return &ACLOIDC{ACLAuth{c}} }

// GetAuthURL starts an OIDC login.
func (a *ACLAuth) GetAuthURL(req *ACLOIDCAuthURLRequest, q *WriteOptions) (*ACLOIDCAuthURLResponse, *WriteMeta, error) {
	var out ACLOIDCAuthURLResponse
	meta, err := a.client.put("/v1/acl/oidc/auth-url", req, &out, q)
	if err != nil {
		return nil, nil, err
	}
	return &out, meta, nil
}

// CompleteAuth completes an OIDC login and returns an ACL token with its secret.
func (a *ACLAuth) CompleteAuth(req *ACLOIDCCompleteAuthRequest, q *WriteOptions) (*ACLToken, *WriteMeta, error) {
	return a.login("/v1/acl/oidc/complete-auth", req, q)
}

// Login exchanges a token of an identity provider for an ACL token.
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
