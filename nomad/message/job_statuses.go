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
	Jobs []JobStatusesJob
	QueryMeta
}

// JobStatusesAlloc is an allocation in a JobStatusesJob.
type JobStatusesAlloc struct {
	ID               string
	Group            string
	ClientStatus     string
	NodeID           string
	DeploymentStatus JobStatusesDeployment
	JobVersion       uint64
	FollowupEvalID   string
	HasPausedTask    bool
}

// JobStatusesDeployment is the deployment health of a JobStatusesAlloc.
type JobStatusesDeployment struct {
	Canary  bool
	Healthy *bool
}

// JobStatusesJob is a job with all its allocations, reduced to the fields that a web UI needs.
type JobStatusesJob struct {
	nomad.NamespacedID
	Name             string
	Type             string
	NodePool         string
	Datacenters      []string
	Priority         int
	Version          uint64
	SubmitTime       int64
	ModifyIndex      uint64
	Allocs           []JobStatusesAlloc
	GroupCountSum    int
	ChildStatuses    []string
	ParentID         string
	LatestDeployment *JobStatusesLatestDeployment
	Stop             bool
	IsPack           bool
	Status           string
}

// JobStatusesLatestDeployment is the newest deployment of a JobStatusesJob.
type JobStatusesLatestDeployment struct {
	ID                string
	IsActive          bool
	JobVersion        uint64
	Status            string
	StatusDescription string
	AllAutoPromote    bool
	RequiresPromotion bool
}
