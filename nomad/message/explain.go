package message

import "github.com/open-nomad/open-nomad/nomad"

// JobExplainRequest is the request of Job.Explain. Job is a job that need not be registered. Without it, JobID is that of
// a registered job. Group and Node limit the response to one group, and to the nodes with a name or a prefix of the
// ID. Each page has PerPage nodes of each group.
type JobExplainRequest struct {
	JobID string
	Job   *nomad.Job
	Group string
	Node  string
	QueryOptions
}

// JobExplainResponse is the reply of Job.Explain.
type JobExplainResponse struct {
	Explanation *JobExplanation
	QueryMeta
}

// JobExplanation describes where allocations of a job could be placed now. It is open-nomad only.
type JobExplanation struct {
	Namespace string
	JobID     string
	Groups    []*GroupExplanation
	// Vault describes how the tasks log in to Vault.
	Vault []*VaultLogin `json:",omitempty" codec:",omitempty"`
	// VaultOmitted is the number of tasks that log in and that Vault does not list.
	VaultOmitted int `json:",omitempty" codec:",omitempty"`
}

// GroupExplanation has the results of the checks of nodes for one more allocation of a task group. Nodes that fit come
// first, then those that fail late. Nodes has one page of them. Callers that cannot read nodes get counts for the node pool
// of the job.
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

// NodeCheck is the result of one check. Need comes from the job, Found from the node.
type NodeCheck struct {
	Check  string
	Passed bool
	Need   string
	Found  string
}
