package api

import (
	"net/http"
	"net/url"
)

// ACLPolicies is the handle for policies.
type ACLPolicies struct{ client *Client }

// ACLPolicies returns the handle for policies.
func (c *Client) ACLPolicies() *ACLPolicies { return &ACLPolicies{c} }

// List lists all policies, or without a management token the policies of the caller.
func (a *ACLPolicies) List(q *QueryOptions) ([]*ACLPolicyListStub, *QueryMeta, error) {
	return get[[]*ACLPolicyListStub](a.client, "/v1/acl/policies", q)
}

// Self lists the policies of the caller's token or workload.
func (a *ACLPolicies) Self(q *QueryOptions) ([]*ACLPolicyListStub, *QueryMeta, error) {
	return get[[]*ACLPolicyListStub](a.client, "/v1/acl/policy/self", q)
}

// Upsert creates or replaces a policy.
func (a *ACLPolicies) Upsert(policy *ACLPolicy, q *WriteOptions) (*WriteMeta, error) {
	if policy == nil || policy.Name == "" {
		return nil, missing("policy name")
	}
	return a.client.put("/v1/acl/policy/"+url.PathEscape(policy.Name), policy, nil, q)
}

// Delete deletes a policy.
func (a *ACLPolicies) Delete(policyName string, q *WriteOptions) (*WriteMeta, error) {
	if policyName == "" {
		return nil, missing("policy name")
	}
	return a.client.write(call{http.MethodDelete, "/v1/acl/policy/" + url.PathEscape(policyName), nil, nil}, q)
}

// Info returns a policy.
func (a *ACLPolicies) Info(policyName string, q *QueryOptions) (*ACLPolicy, *QueryMeta, error) {
	if policyName == "" {
		return nil, nil, missing("policy name")
	}
	return get[*ACLPolicy](a.client, "/v1/acl/policy/"+url.PathEscape(policyName), q)
}

// Explain returns the subjects that have a right, and the reasons.
func (a *ACLPolicies) Explain(req *ACLExplainRequest, q *QueryOptions) (*ACLExplainResponse, *QueryMeta, error) {
	out := new(ACLExplainResponse)
	meta, err := a.client.queryBody(call{http.MethodPut, "/v1/acl/explain", req, out}, q)
	if err != nil {
		return nil, nil, err
	}
	return out, meta, nil
}
