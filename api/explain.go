package api

import (
	"net/http"
	"time"
)

// JobExplainRequest is the body of PUT /v1/job/:id/explain.
type JobExplainRequest struct {
	Job *Job
}

// JobExplanation describes where allocations of a job could be placed now. It is open-nomad only.
type JobExplanation struct {
	Namespace    string
	JobID        string
	Groups       []*GroupExplanation
	Vault        []*VaultLogin `json:",omitempty"`
	VaultOmitted int           `json:",omitempty"` // tasks that log in and that Vault does not list
}

// VaultLogin describes how a task logs in to Vault. Servers compute it without signing an identity. It is open-nomad only.
type VaultLogin struct {
	TaskGroup string
	Task      string
	Cluster   string
	Role      string // of the block, "" for the one that the client or the auth method of Vault chooses
	Identity  string // name of the identity, "" if the task has none: its login fails
	Alg       string
	TTL       time.Duration
	Claims    []*VaultClaim // without those that differ in each token
}

// VaultClaim is a claim of an identity. A claim in an object has a JSON pointer as name, such as /extra_claims/team.
type VaultClaim struct {
	Name  string
	Value string
}

// GroupExplanation has the results of the checks of nodes for one more allocation of a task group.
// Nodes that fit come first, then those that fail late. Nodes has one page of them. Callers that cannot
// read nodes get counts for the node pool of the job.
type GroupExplanation struct {
	Name      string
	NodeCount int // nodes that were checked
	Fits      int // nodes that can take one more allocation
	Nodes     []*NodeExplanation
	Failed    []*CheckCount // instead of Nodes, for callers that cannot read nodes
}

// CheckCount is the number of nodes of which a check is the first that failed. Placement reports the same.
type CheckCount struct {
	Check string
	Need  string
	Nodes int
}

// NodeExplanation has the results of the checks of one node, in the order of the scheduler.
type NodeExplanation struct {
	ID     string
	Name   string
	Fits   bool
	Score  float64 // if it fits
	Checks []*NodeCheck
}

// NodeCheck is the result of one check of a node. Need comes from the job, Found from the node.
type NodeCheck struct {
	Check  string
	Passed bool
	Need   string
	Found  string
}

// Explain returns the checks of the nodes for one more allocation of each group of a registered job.
// q.Params can contain the name of a group, and the name or a prefix of the ID of a node.
// It is open-nomad only.
func (j *Jobs) Explain(jobID string, q *QueryOptions) (*JobExplanation, *QueryMeta, error) {
	return get[*JobExplanation](j.client, jobPath(jobID, "/explain"), q)
}

// ExplainJob is Explain for a job that need not be registered.
func (j *Jobs) ExplainJob(job *Job, q *QueryOptions) (*JobExplanation, *QueryMeta, error) {
	if job == nil || job.ID == nil {
		return nil, nil, errNoJobID
	}
	out := &JobExplanation{}
	meta, err := j.client.queryBody(call{http.MethodPut, jobPath(*job.ID, "/explain"), &JobExplainRequest{Job: job}, out}, q)
	if err != nil {
		return nil, nil, err
	}
	return out, meta, nil
}
