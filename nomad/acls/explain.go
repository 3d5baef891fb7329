package acls

import "github.com/open-nomad/open-nomad/nomad/message"

// The kinds of questions of ACL.Explain, in addition to the policy blocks.
const (
	ExplainJob        = "job"
	ExplainAllocation = "allocation"
	ExplainAudience   = "audience"
)

// The kinds of subjects of ACL.Explain.
const (
	SubjectToken    = "token"
	SubjectRole     = "role"
	SubjectPolicy   = "policy"
	SubjectWorkload = "workload"
	SubjectSelf     = "self"
)

// ExplainRequest is the request of ACL.Explain (open-nomad only): whether a subject may perform an action, and why. The
// action is Right on the object with Kind and Name, in the namespace of the request. Alternatively, Method names an RPC
// method. The other fields select the subject. The default subject is the caller.
type ExplainRequest struct {
	Kind   string
	Name   string
	Right  string
	Method string

	AccessorID string
	Role       string // ID or name
	Policy     string
	Workload   *JobACL
	Everybody  bool // return a page of subjects with access: tokens, roles, workloads
	message.QueryOptions
}

// ExplainResponse is the reply of ACL.Explain. All of Needs are required.
type ExplainResponse struct {
	Needs []string
	// Depends describes what the method requires of an object that is known only during the call.
	// It is "" if Needs is complete.
	Depends string
	// Identities are those with the requested audience.
	Identities []*ExplainIdentity
	Answers    []*Explanation
	message.QueryMeta
}

// ExplainIdentity is an identity of a job.
type ExplainIdentity struct {
	JobID    string
	Group    string
	Task     string // empty for a service of the group
	Service  string
	Identity string
}

// Explanation is the result for one subject.
type Explanation struct {
	Subject   Subject
	Allowed   bool
	Decisions []*Decision // one for each need, up to the first refusal
}

// Subject is a token, role, policy or workload.
type Subject struct {
	Kind     string
	ID       string // accessor or ID; empty if it has none
	Name     string
	Workload *JobACL
}

// Decision is the answer to one question, with the rules that led to it.
type Decision struct {
	Question string
	Allowed  bool
	Reason   string
	Rules    []*DecisionRule
}

// DecisionRule is a policy rule that led to a decision.
type DecisionRule struct {
	Policy string
	Block  string
	Text   string // empty if the block has no matching rule
	Line   int
	Column int
}
