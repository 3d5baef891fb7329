package message

import "github.com/open-nomad/open-nomad/nomad"

// JobStatusesRequest is the request of Job.Statuses.
type JobStatusesRequest struct {
	Jobs            []nomad.NamespacedID
	IncludeChildren bool
	QueryOptions
}

// JobStatusesResponse is the reply of Job.Statuses.
type JobStatusesResponse struct {
	Jobs []nomad.JobStatusesJob
	QueryMeta
}
