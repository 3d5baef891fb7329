package rbac

import (
	"fmt"
	"io"
	"log/slog"
)

// PolicyAnonymous is the policy of callers without a token.
const PolicyAnonymous = "anonymous"

// Policy is a named set of rules. RulesJSON contains the parsed rules. It is set in replies only, never in the log or in
// state.
type Policy struct {
	Name        string
	Description string
	Rules       string
	RulesJSON   *Rules
	JobACL      *JobACL
	Hash        []byte
	CreateIndex uint64
	ModifyIndex uint64
}

// JobACL specifies the workload identities that a policy applies to: those of a namespace, job, group or task. An empty
// field matches all.
type JobACL struct {
	Namespace string
	JobID     string
	Group     string
	Task      string
}

// Admits reports whether a policy with j applies to the identity of a task or service. job is the ID of the job as
// registered by an operator. Names must match exactly.
func (j *JobACL) Admits(namespace, job, group, task string) bool {
	return j != nil && j.Namespace == namespace && (j.JobID == "" || j.JobID == job) &&
		(j.Group == "" || j.Group == group) && (j.Task == "" || j.Task == task)
}

// SetHash computes the digest of the fields that an operator can set. It stores the digest and returns it.
func (p *Policy) SetHash() []byte {
	d := newDigest("policy").text(p.Name, p.Description, p.Rules)
	if j := p.JobACL; j != nil {
		d.text(j.Namespace, j.JobID, j.Group, j.Task)
	}
	p.Hash = d.sum()
	return p.Hash
}

// Stub returns the short form of the policy for lists.
func (p *Policy) Stub() *PolicyStub {
	return &PolicyStub{Name: p.Name, Description: p.Description, JobACL: p.JobACL, Hash: p.Hash,
		CreateIndex: p.CreateIndex, ModifyIndex: p.ModifyIndex}
}

// String returns the name only.
func (p *Policy) String() string {
	if p == nil {
		return "policy(none)"
	}
	return "policy(" + p.Name + ")"
}

// Format implements fmt.Formatter. Every verb prints the result of String.
func (p *Policy) Format(f fmt.State, _ rune) { io.WriteString(f, p.String()) }

// LogValue implements slog.LogValuer with the result of String.
func (p *Policy) LogValue() slog.Value { return slog.StringValue(p.String()) }

// PolicyStub is a policy without its rules.
type PolicyStub struct {
	Name        string
	Description string
	JobACL      *JobACL
	Hash        []byte
	CreateIndex uint64
	ModifyIndex uint64
}
