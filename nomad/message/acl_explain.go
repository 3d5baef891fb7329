package message

import (
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/rbac"
)

// The kinds of questions of ACL.Explain, in addition to the policy blocks.
const (
	ACLExplainJob        = "job"
	ACLExplainAllocation = "allocation"
	ACLExplainAudience   = "audience"
)

// The kinds of subjects of ACL.Explain.
const (
	ACLSubjectToken    = "token"
	ACLSubjectRole     = "role"
	ACLSubjectPolicy   = "policy"
	ACLSubjectWorkload = "workload"
	ACLSubjectSelf     = "self"
)

// ACLExplainRequest is the request of ACL.Explain (open-nomad only): whether a subject may perform an action, and why. The
// action is Right on the object with Kind and Name, in the namespace of the request. Alternatively, Method names an RPC
// method. The other fields select the subject. The default subject is the caller.
type ACLExplainRequest struct {
	Kind   string
	Name   string
	Right  string
	Method string
	// Job is the job that the caller would submit, for a right on the job with this name. Nil means the registered job.
	Job *nomad.Job

	AccessorID string
	Role       string // ID or name
	Policy     string
	Workload   *rbac.JobACL
	Everybody  bool // return a page of subjects with access: tokens, roles, workloads
	QueryOptions
}

// ACLExplainResponse is the reply of ACL.Explain. All of Needs are required.
type ACLExplainResponse struct {
	Needs []string
	// Depends describes what the method requires of an object that is known only during the call.
	// It is "" if Needs is complete.
	Depends string
	// Identities are those with the requested audience.
	Identities []*ACLExplainIdentity
	Answers    []*ACLExplanation
	QueryMeta
}

// ACLExplainIdentity is an identity of a job.
type ACLExplainIdentity struct {
	JobID    string
	Group    string
	Task     string // empty for a service of the group
	Service  string
	Identity string
}

// ACLExplanation is the result for one subject.
type ACLExplanation struct {
	Subject   ACLSubject
	Allowed   bool
	Decisions []*ACLDecision // one for each need, up to the first refusal
}

// ACLSubject is a token, role, policy or workload.
type ACLSubject struct {
	Kind     string
	ID       string // accessor or ID; empty if it has none
	Name     string
	Workload *rbac.JobACL
}

// ACLDecision is the answer to one question, with the rules that led to it.
type ACLDecision struct {
	Question string
	Allowed  bool
	Reason   string
	Rules    []*ACLDecisionRule
}

// ACLDecisionRule is a policy rule that led to a decision.
type ACLDecisionRule struct {
	Policy string
	Block  string
	Text   string // empty if the block has no matching rule
	Line   int
	Column int
}
