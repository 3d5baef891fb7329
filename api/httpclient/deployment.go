package httpclient

import (
	"net/url"

	"github.com/open-nomad/open-nomad/api"
)

// Deployments is the handle for deployments.
type Deployments struct{ client *Client }

// Deployments returns the handle for deployments.
func (c *Client) Deployments() *Deployments { return &Deployments{c} }

// List lists deployments, oldest first.
func (d *Deployments) List(q *QueryOptions) ([]*api.Deployment, *api.QueryMeta, error) {
	return get[[]*api.Deployment](d.client, "/v1/deployments", q)
}

// PrefixList lists the deployments whose ID begins with prefix.
func (d *Deployments) PrefixList(prefix string) ([]*api.Deployment, *api.QueryMeta, error) {
	return d.List(&QueryOptions{Prefix: prefix})
}

// Info returns a deployment.
func (d *Deployments) Info(deploymentID string, q *QueryOptions) (*api.Deployment, *api.QueryMeta, error) {
	return get[*api.Deployment](d.client, "/v1/deployment/"+url.PathEscape(deploymentID), q)
}

// Allocations lists the allocations of a deployment.
func (d *Deployments) Allocations(deploymentID string, q *QueryOptions) ([]*api.AllocationListStub, *api.QueryMeta, error) {
	return get[[]*api.AllocationListStub](d.client, "/v1/deployment/allocations/"+url.PathEscape(deploymentID), q)
}

// Fail marks a deployment as failed.
func (d *Deployments) Fail(deploymentID string, q *WriteOptions) (*api.DeploymentUpdateResponse, *api.WriteMeta, error) {
	var out api.DeploymentUpdateResponse
	req := &api.DeploymentFailRequest{DeploymentID: deploymentID}
	meta, err := d.client.put("/v1/deployment/fail/"+url.PathEscape(deploymentID), req, &out, q)
	if err != nil {
		return nil, nil, err
	}
	return &out, meta, nil
}

// Pause pauses a deployment, or resumes it if pause is false.
func (d *Deployments) Pause(deploymentID string, pause bool, q *WriteOptions) (*api.DeploymentUpdateResponse, *api.WriteMeta, error) {
	var out api.DeploymentUpdateResponse
	req := &api.DeploymentPauseRequest{DeploymentID: deploymentID, Pause: pause}
	meta, err := d.client.put("/v1/deployment/pause/"+url.PathEscape(deploymentID), req, &out, q)
	if err != nil {
		return nil, nil, err
	}
	return &out, meta, nil
}

// Unblock completes a deployment that waits for other regions.
func (d *Deployments) Unblock(deploymentID string, q *WriteOptions) (*api.DeploymentUpdateResponse, *api.WriteMeta, error) {
	var out api.DeploymentUpdateResponse
	req := &api.DeploymentUnblockRequest{DeploymentID: deploymentID}
	meta, err := d.client.put("/v1/deployment/unblock/"+url.PathEscape(deploymentID), req, &out, q)
	if err != nil {
		return nil, nil, err
	}
	return &out, meta, nil
}

// PromoteAll promotes the canaries of all groups of a deployment.
func (d *Deployments) PromoteAll(deploymentID string, q *WriteOptions) (*api.DeploymentUpdateResponse, *api.WriteMeta, error) {
	return d.promote(&api.DeploymentPromoteRequest{DeploymentID: deploymentID, All: true}, q)
}

// PromoteGroups promotes the canaries of some groups of a deployment.
func (d *Deployments) PromoteGroups(deploymentID string, groups []string, q *WriteOptions) (*api.DeploymentUpdateResponse, *api.WriteMeta, error) {
	return d.promote(&api.DeploymentPromoteRequest{DeploymentID: deploymentID, Groups: groups}, q)
}

func (d *Deployments) promote(req *api.DeploymentPromoteRequest, q *WriteOptions) (*api.DeploymentUpdateResponse, *api.WriteMeta, error) {
	var out api.DeploymentUpdateResponse
	meta, err := d.client.put("/v1/deployment/promote/"+url.PathEscape(req.DeploymentID), req, &out, q)
	if err != nil {
		return nil, nil, err
	}
	return &out, meta, nil
}

// SetAllocHealth sets the health of allocations of a deployment.
func (d *Deployments) SetAllocHealth(deploymentID string, healthy, unhealthy []string, q *WriteOptions) (*api.DeploymentUpdateResponse, *api.WriteMeta, error) {
	var out api.DeploymentUpdateResponse
	req := &api.DeploymentAllocHealthRequest{DeploymentID: deploymentID, HealthyAllocationIDs: healthy, UnhealthyAllocationIDs: unhealthy}
	meta, err := d.client.put("/v1/deployment/allocation-health/"+url.PathEscape(deploymentID), req, &out, q)
	if err != nil {
		return nil, nil, err
	}
	return &out, meta, nil
}
