package api

import "net/url"

// Deployments reads deployments, holds them up and ends them.
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

// Fail ends a deployment as failed.
func (d *Deployments) Fail(deploymentID string, q *WriteOptions) (*DeploymentUpdateResponse, *WriteMeta, error) {
	var out DeploymentUpdateResponse
	req := &DeploymentFailRequest{DeploymentID: deploymentID}
	meta, err := d.client.put("/v1/deployment/fail/"+url.PathEscape(deploymentID), req, &out, q)
	if err != nil {
		return nil, nil, err
	}
	return &out, meta, nil
}

// Pause makes a deployment stand still, or go on.
func (d *Deployments) Pause(deploymentID string, pause bool, q *WriteOptions) (*DeploymentUpdateResponse, *WriteMeta, error) {
	var out DeploymentUpdateResponse
	req := &DeploymentPauseRequest{DeploymentID: deploymentID, Pause: pause}
	meta, err := d.client.put("/v1/deployment/pause/"+url.PathEscape(deploymentID), req, &out, q)
	if err != nil {
		return nil, nil, err
	}
	return &out, meta, nil
}
