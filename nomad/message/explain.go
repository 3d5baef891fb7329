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
	Explanation *nomad.JobExplanation
	QueryMeta
}
