package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// ACLExplainRequest asks who may do what, and why (ours). It is about Right on the thing
// of a Kind and Name in the namespace of the request, or about Request. Whose rights are
// meant is one of the others; nobody named is the caller, and for others the caller has to
// manage.
type ACLExplainRequest struct {
	// Kind is variable, job, allocation, audience, namespace, node_pool, host_volume, node, agent,
	// operator, quota or plugin.
	Kind    string
	Name    string
	Right   string
	Request *ACLExplainHTTP

	AccessorID string
	Role       string // ID or name
	Policy     string
	Workload   *JobACL
	Everybody  bool // all who may, in pages
}

// ACLExplainHTTP is a request whose rights are in question. It is not made.
type ACLExplainHTTP struct {
	Method string
	Path   string
	Body   json.RawMessage `json:",omitempty"`
}

// ACLExplainResponse says what it takes to do the thing, all of it, and who has that.
type ACLExplainResponse struct {
	Needs      []string
	Depends    string // what only the call itself would find out, "" for nothing
	Identities []*ACLExplainIdentity
	Answers    []*ACLExplanation
}

// ACLExplainIdentity is an identity of a job with the audience that was asked for.
type ACLExplainIdentity struct {
	JobID    string
	Group    string
	Task     string // empty for a service of the group
	Service  string
	Identity string
}

// ACLExplanation says whether one subject may do what was asked for.
type ACLExplanation struct {
	Subject   ACLSubject
	Allowed   bool
	Decisions []*ACLDecision // one for each need, until one refuses
}

// ACLSubject is a token, role, policy, workload, or self: the caller.
type ACLSubject struct {
	Kind     string
	ID       string
	Name     string
	Workload *JobACL
}

// String names the subject.
func (s ACLSubject) String() string {
	out := s.Kind
	if s.ID != "" {
		out += " " + s.ID
	}
	if s.Name != "" {
		out += fmt.Sprintf(" %q", s.Name)
	}
	if s.Workload != nil {
		out += " " + s.Workload.String()
	}
	return out
}

// ACLDecision is the answer to one question, and the rules that made it.
type ACLDecision struct {
	Question string
	Allowed  bool
	Reason   string
	Rules    []*ACLDecisionRule
}

// ACLDecisionRule is a word of a policy that decided.
type ACLDecisionRule struct {
	Policy string
	Block  string
	Text   string // empty when the block says nothing of it
	Line   int
	Column int
}

// String returns where the rule stands and what it says.
func (r *ACLDecisionRule) String() string {
	says := r.Text
	if says == "" {
		says = "says nothing of this"
	}
	return fmt.Sprintf("policy %q, line %d, column %d: %s: %s", r.Policy, r.Line, r.Column, r.Block, says)
}

// Explain says who may do a thing, and why.
func (a *ACLPolicies) Explain(req *ACLExplainRequest, q *QueryOptions) (*ACLExplainResponse, *QueryMeta, error) {
	out := new(ACLExplainResponse)
	meta, err := a.client.queryBody(http.MethodPut, "/v1/acl/explain", req, out, q)
	if err != nil {
		return nil, nil, err
	}
	return out, meta, nil
}

// ParseJobACL reads "namespace/job/group/task", of which the last ones may be left out. A
// slash within a name is written %2F.
func ParseJobACL(text string) (*JobACL, error) {
	out := &JobACL{}
	to := []*string{&out.Namespace, &out.JobID, &out.Group, &out.Task}
	parts := strings.Split(text, "/")
	if len(parts) > len(to) {
		return nil, fmt.Errorf("workload %q: namespace/job/group/task is expected; a slash within a name is written %%2F", text)
	}
	for i, part := range parts {
		name, err := url.PathUnescape(part)
		if err != nil || name == "" {
			return nil, fmt.Errorf("workload %q: namespace/job/group/task is expected", text)
		}
		*to[i] = name
	}
	return out, nil
}

// String is the inverse of ParseJobACL.
func (j *JobACL) String() string {
	var parts []string
	for _, name := range []string{j.Namespace, j.JobID, j.Group, j.Task} {
		if name == "" {
			break
		}
		parts = append(parts, strings.ReplaceAll(strings.ReplaceAll(name, "%", "%25"), "/", "%2F"))
	}
	return strings.Join(parts, "/")
}
