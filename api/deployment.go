package api

import (
	"net/url"
	"time"
)

// Statuses of a deployment.
const (
	DeploymentStatusRunning    = "running"
	DeploymentStatusPaused     = "paused"
	DeploymentStatusFailed     = "failed"
	DeploymentStatusSuccessful = "successful"
	DeploymentStatusCancelled  = "cancelled"
	DeploymentStatusPending    = "pending"
	DeploymentStatusBlocked    = "blocked"
	DeploymentStatusUnblocking = "unblocking"
)

// Deployment is the rollout of one version of a job.
type Deployment struct {
	ID                 string
	Namespace          string
	JobID              string
	JobVersion         uint64
	JobModifyIndex     uint64
	JobSpecModifyIndex uint64
	JobCreateIndex     uint64
	IsMultiregion      bool
	TaskGroups         map[string]*DeploymentState
	Status             string
	StatusDescription  string
	CreateIndex        uint64
	ModifyIndex        uint64
	CreateTime         int64
	ModifyTime         int64
}

// DeploymentState is the rollout of one group.
type DeploymentState struct {
	PlacedCanaries    []string
	AutoRevert        bool
	ProgressDeadline  time.Duration
	RequireProgressBy time.Time
	Promoted          bool
	DesiredCanaries   int
	DesiredTotal      int
	PlacedAllocs      int
	HealthyAllocs     int
	UnhealthyAllocs   int
}

// DeploymentUpdateResponse contains the ID of the evaluation that an update created.
type DeploymentUpdateResponse struct {
	EvalID                string
	EvalCreateIndex       uint64
	DeploymentModifyIndex uint64
	RevertedJobVersion    *uint64
	WriteMeta
}

// DeploymentPauseRequest is the body of PUT /v1/deployment/pause/:id.
type DeploymentPauseRequest struct {
	DeploymentID string
	Pause        bool
	WriteRequest
}

// DeploymentUnblockRequest is the body of PUT /v1/deployment/unblock/:id.
type DeploymentUnblockRequest struct {
	DeploymentID string
	WriteRequest
}

// DeploymentFailRequest is the body of PUT /v1/deployment/fail/:id.
type DeploymentFailRequest struct {
	DeploymentID string
	WriteRequest
}

// DeploymentPromoteRequest is the body of PUT /v1/deployment/promote/:id. It promotes the canaries of all groups, or
// of the given ones.
type DeploymentPromoteRequest struct {
	DeploymentID string
	All          bool
	Groups       []string
	WriteRequest
}

// DeploymentAllocHealthRequest is the body of PUT /v1/deployment/allocation-health/:id.
type DeploymentAllocHealthRequest struct {
	DeploymentID           string
	HealthyAllocationIDs   []string
	UnhealthyAllocationIDs []string
	WriteRequest
}

// Deployments is the handle for deployments.
type Deployments struct{ client *Client }

// Deployments returns the handle for deployments.
func (c *Client) Deployments() *Deployments { return &Deployments{c} }

// List lists deployments, oldest first.
func (d *Deployments) List(q *QueryOptions) ([]*Deployment, *QueryMeta, error) {
	return get[[]*Deployment](d.client, "/v1/deployments", q)
}

// PrefixList lists the deployments whose ID begins with prefix.
func (d *Deployments) PrefixList(prefix string) ([]*Deployment, *QueryMeta, error) {
	return d.List(&QueryOptions{Prefix: prefix})
}

// Info returns a deployment.
func (d *Deployments) Info(deploymentID string, q *QueryOptions) (*Deployment, *QueryMeta, error) {
	return get[*Deployment](d.client, "/v1/deployment/"+url.PathEscape(deploymentID), q)
}

// Allocations lists the allocations of a deployment.
func (d *Deployments) Allocations(deploymentID string, q *QueryOptions) ([]*AllocationListStub, *QueryMeta, error) {
	return get[[]*AllocationListStub](d.client, "/v1/deployment/allocations/"+url.PathEscape(deploymentID), q)
}

// Fail marks a deployment as failed.
func (d *Deployments) Fail(deploymentID string, q *WriteOptions) (*DeploymentUpdateResponse, *WriteMeta, error) {
	var out DeploymentUpdateResponse
	req := &DeploymentFailRequest{DeploymentID: deploymentID}
	meta, err := d.client.put("/v1/deployment/fail/"+url.PathEscape(deploymentID), req, &out, q)
	if err != nil {
		return nil, nil, err
	}
	return &out, meta, nil
}

// Pause pauses a deployment, or resumes it if pause is false.
func (d *Deployments) Pause(deploymentID string, pause bool, q *WriteOptions) (*DeploymentUpdateResponse, *WriteMeta, error) {
	var out DeploymentUpdateResponse
	req := &DeploymentPauseRequest{DeploymentID: deploymentID, Pause: pause}
	meta, err := d.client.put("/v1/deployment/pause/"+url.PathEscape(deploymentID), req, &out, q)
	if err != nil {
		return nil, nil, err
	}
	return &out, meta, nil
}

// Unblock completes a deployment that waits for other regions.
func (d *Deployments) Unblock(deploymentID string, q *WriteOptions) (*DeploymentUpdateResponse, *WriteMeta, error) {
	var out DeploymentUpdateResponse
	req := &DeploymentUnblockRequest{DeploymentID: deploymentID}
	meta, err := d.client.put("/v1/deployment/unblock/"+url.PathEscape(deploymentID), req, &out, q)
	if err != nil {
		return nil, nil, err
	}
	return &out, meta, nil
}

// PromoteAll promotes the canaries of all groups of a deployment.
func (d *Deployments) PromoteAll(deploymentID string, q *WriteOptions) (*DeploymentUpdateResponse, *WriteMeta, error) {
	return d.promote(&DeploymentPromoteRequest{DeploymentID: deploymentID, All: true}, q)
}

// PromoteGroups promotes the canaries of some groups of a deployment.
func (d *Deployments) PromoteGroups(deploymentID string, groups []string, q *WriteOptions) (*DeploymentUpdateResponse, *WriteMeta, error) {
	return d.promote(&DeploymentPromoteRequest{DeploymentID: deploymentID, Groups: groups}, q)
}

func (d *Deployments) promote(req *DeploymentPromoteRequest, q *WriteOptions) (*DeploymentUpdateResponse, *WriteMeta, error) {
	var out DeploymentUpdateResponse
	meta, err := d.client.put("/v1/deployment/promote/"+url.PathEscape(req.DeploymentID), req, &out, q)
	if err != nil {
		return nil, nil, err
	}
	return &out, meta, nil
}

// SetAllocHealth sets the health of allocations of a deployment.
func (d *Deployments) SetAllocHealth(deploymentID string, healthy, unhealthy []string, q *WriteOptions) (*DeploymentUpdateResponse,
	*WriteMeta, error) {
	var out DeploymentUpdateResponse
	req := &DeploymentAllocHealthRequest{DeploymentID: deploymentID, HealthyAllocationIDs: healthy, UnhealthyAllocationIDs: unhealthy}
	meta, err := d.client.put("/v1/deployment/allocation-health/"+url.PathEscape(deploymentID), req, &out, q)
	if err != nil {
		return nil, nil, err
	}
	return &out, meta, nil
}
