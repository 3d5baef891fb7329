package acls

import "github.com/open-nomad/open-nomad/nomad"

// The kinds of questions of ACL.Explain beside those that blocks of policies have.
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

// ExplainRequest is the request of ACL.Explain (open-nomad only): may somebody do a thing, and
// why. What is asked is Right on the thing of a Kind and Name, in the namespace of the
// request; or what the method named Method asks of its callers. Who is meant is one of
// the others; nobody named is the caller.
type ExplainRequest struct {
	Kind   string
	Name   string
	Right  string
	Method string

	AccessorID string
	Role       string // ID or name
	Policy     string
	Workload   *JobACL
	Everybody  bool // a page of those who may: tokens, roles, workloads
	nomad.QueryOptions
}

// ExplainResponse is the reply of ACL.Explain. Needs is what it takes, all of it.
type ExplainResponse struct {
	Needs []string
	// Depends is what the method asks of a thing that is known only when it runs, "" when
	// Needs is all.
	Depends string
	// Identities have the audience that was asked for.
	Identities []*ExplainIdentity
	Answers    []*Explanation
	nomad.QueryMeta
}

// ExplainIdentity is an identity of a job.
type ExplainIdentity struct {
	JobID    string
	Group    string
	Task     string // empty for a service of the group
	Service  string
	Identity string
}

// Explanation reports whether one subject may do what was asked for.
type Explanation struct {
	Subject   Subject
	Allowed   bool
	Decisions []*Decision // one for each need, until one refuses
}

// Subject is a token, role, policy or workload.
type Subject struct {
	Kind     string
	ID       string // accessor or ID, empty without one
	Name     string
	Workload *JobACL
}

// Decision is the answer to one question, and the rules that made it.
type Decision struct {
	Question string
	Allowed  bool
	Reason   string
	Rules    []*DecisionRule
}

// DecisionRule is a word of a policy that decided.
type DecisionRule struct {
	Policy string
	Block  string
	Text   string // empty when the block says nothing of it
	Line   int
	Column int
}
