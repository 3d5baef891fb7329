package api

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
)

// ACLExplainRequest is a request to explain a permission (only in open-nomad). Either Right
// on the object with Kind and Name in the request's namespace, or Request, is explained.
// The other fields select the subject. The default is the caller. Other subjects require
// a management token.
type ACLExplainRequest struct {
	// Kind is one of variable, job, allocation, audience, namespace, node_pool, host_volume,
	// node, agent, operator, quota and plugin.
	Kind    string
	Name    string
	Right   string
	Request *ACLExplainHTTP

	AccessorID string
	Role       string // ID or name
	Policy     string
	Workload   *JobACL
	Everybody  bool // all subjects with the right, in pages
}

// ACLExplainHTTP is the HTTP request to explain. It is not executed.
type ACLExplainHTTP struct {
	Method string
	Path   string
	Body   json.RawMessage `json:",omitempty"`
}

// ACLExplainResponse lists the required rights and the subjects that have them.
type ACLExplainResponse struct {
	Needs      []string
	Depends    string // a condition that only the call itself can check, or ""
	Identities []*ACLExplainIdentity
	Answers    []*ACLExplanation
}

// ACLExplainIdentity is an identity of a job with the requested audience.
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
	Decisions []*ACLDecision // one for each required right, up to the first denial
}

// ACLSubject is a token, role, policy or workload, or self, which is the caller.
type ACLSubject struct {
	Kind     string
	ID       string
	Name     string
	Workload *JobACL
}

// String returns the kind and the name of the subject.
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

// ACLDecision is the decision on one right, with the rules that determined it.
type ACLDecision struct {
	Question string
	Allowed  bool
	Reason   string
	Rules    []*ACLDecisionRule
}

// ACLDecisionRule is an entry of a policy that determined a decision.
type ACLDecisionRule struct {
	Policy string
	Block  string
	Text   string // empty if the block has no entry for the right
	Line   int
	Column int
}

// String returns the position and the text of the rule.
func (r *ACLDecisionRule) String() string {
	text := r.Text
	if text == "" {
		text = "no rights set"
	}
	return fmt.Sprintf("policy %q, line %d, column %d: %s: %s", r.Policy, r.Line, r.Column, r.Block, text)
}

// ParseJobACL parses "namespace/job/group/task". Trailing parts are optional. A slash in
// a name is escaped as %2F.
func ParseJobACL(text string) (*JobACL, error) {
	out := &JobACL{}
	to := []*string{&out.Namespace, &out.JobID, &out.Group, &out.Task}
	parts := strings.Split(text, "/")
	if len(parts) > len(to) {
		return nil, fmt.Errorf("invalid workload %q: use namespace/job/group/task, with %%2F for a slash in a name", text)
	}
	for i, part := range parts {
		name, err := url.PathUnescape(part)
		if err != nil || name == "" {
			return nil, fmt.Errorf("invalid workload %q: use namespace/job/group/task", text)
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
