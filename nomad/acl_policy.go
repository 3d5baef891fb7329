package nomad

import (
	"fmt"
	"io"
	"log/slog"
	"regexp"
)

// Names of policies that have a meaning, and what names and texts may be.
const (
	// ACLPolicyAnonymous is the policy of callers without a token.
	ACLPolicyAnonymous = "anonymous"

	maxACLDescription = 256
)

// aclName is what policies, roles and auth methods may be called.
var aclName = regexp.MustCompile(`^[a-zA-Z0-9-]{1,128}$`)

// ACLPolicy is a named set of rules. RulesJSON is the rules as they were read: it is in
// answers only, never in the log or in state.
type ACLPolicy struct {
	Name        string
	Description string
	Rules       string
	RulesJSON   *ACLRules
	JobACL      *JobACL
	Hash        []byte
	CreateIndex uint64
	ModifyIndex uint64
}

// JobACL says whose workload identities a policy is for: of a namespace, a job, a group
// of it, a task of that. What is left out admits all.
type JobACL struct {
	Namespace string
	JobID     string
	Group     string
	Task      string
}

// Admits says whether a policy with j is for the identity of a task or service. job is
// the ID of the job that an operator registered. Names match as a whole.
func (j *JobACL) Admits(namespace, job, group, task string) bool {
	return j != nil && j.Namespace == namespace && (j.JobID == "" || j.JobID == job) &&
		(j.Group == "" || j.Group == group) && (j.Task == "" || j.Task == task)
}

// SetHash computes the digest of what an operator can set, stores and returns it.
func (p *ACLPolicy) SetHash() []byte {
	d := newDigest("policy").text(p.Name, p.Description, p.Rules)
	if j := p.JobACL; j != nil {
		d.text(j.Namespace, j.JobID, j.Group, j.Task)
	}
	p.Hash = d.sum()
	return p.Hash
}

// Validate refuses a policy that cannot be. Package acl reads the rules.
func (p *ACLPolicy) Validate() error {
	switch {
	case !aclName.MatchString(p.Name):
		return fmt.Errorf("invalid policy name %q: 1 to 128 letters, digits and '-'", p.Name)
	case len(p.Description) > maxACLDescription:
		return fmt.Errorf("the description of policy %q is %d bytes long, at most %d", p.Name, len(p.Description), maxACLDescription)
	}
	j := p.JobACL
	switch {
	case j == nil:
	case j.Namespace == "":
		return fmt.Errorf("policy %q is for workloads and names no namespace", p.Name)
	case j.JobID == "" && (j.Group != "" || j.Task != ""):
		return fmt.Errorf("policy %q is for a group or task and names no job", p.Name)
	case j.Group == "" && j.Task != "":
		return fmt.Errorf("policy %q is for a task and names no group", p.Name)
	}
	return nil
}

// Stub returns the short form of the policy for lists.
func (p *ACLPolicy) Stub() *ACLPolicyListStub {
	return &ACLPolicyListStub{Name: p.Name, Description: p.Description, JobACL: p.JobACL, Hash: p.Hash,
		CreateIndex: p.CreateIndex, ModifyIndex: p.ModifyIndex}
}

// String shows the name only.
func (p *ACLPolicy) String() string {
	if p == nil {
		return "policy(none)"
	}
	return "policy(" + p.Name + ")"
}

// Format is String for every verb.
func (p *ACLPolicy) Format(f fmt.State, _ rune) { io.WriteString(f, p.String()) }

// LogValue is String, for slog.
func (p *ACLPolicy) LogValue() slog.Value { return slog.StringValue(p.String()) }

// ACLPolicyDeleteRequest is the request of ACL.DeletePolicies.
type ACLPolicyDeleteRequest struct {
	Names []string
	WriteRequest
}

// ACLPolicyListRequest is the request of ACL.ListPolicies.
type ACLPolicyListRequest struct {
	QueryOptions
}

// ACLPolicyListResponse is the reply of ACL.ListPolicies.
type ACLPolicyListResponse struct {
	Policies []*ACLPolicyListStub
	QueryMeta
}

// ACLPolicyListStub is a policy without its rules.
type ACLPolicyListStub struct {
	Name        string
	Description string
	JobACL      *JobACL
	Hash        []byte
	CreateIndex uint64
	ModifyIndex uint64
}

// ACLPolicySetRequest is the request of ACL.GetPolicies.
type ACLPolicySetRequest struct {
	Names []string
	QueryOptions
}

// ACLPolicySetResponse is the reply of ACL.GetPolicies and ACL.GetClaimPolicies.
type ACLPolicySetResponse struct {
	Policies map[string]*ACLPolicy
	QueryMeta
}

// ACLPolicySpecificRequest is the request of ACL.GetPolicy.
type ACLPolicySpecificRequest struct {
	Name string
	QueryOptions
}

// ACLPolicyUpsertRequest is the request of ACL.UpsertPolicies.
type ACLPolicyUpsertRequest struct {
	Policies []*ACLPolicy
	WriteRequest
}

// SingleACLPolicyResponse is the reply of ACL.GetPolicy.
type SingleACLPolicyResponse struct {
	Policy *ACLPolicy
	QueryMeta
}
