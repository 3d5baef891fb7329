package httpclient

import (
	"net/http"
	"net/url"

	"github.com/open-nomad/open-nomad/api"
)

// Evaluations is the handle for evaluations.
type Evaluations struct{ client *Client }

// Evaluations returns the handle for evaluations.
func (c *Client) Evaluations() *Evaluations { return &Evaluations{c} }

// List lists evaluations, oldest first.
func (e *Evaluations) List(q *QueryOptions) ([]*api.Evaluation, *api.QueryMeta, error) {
	return get[[]*api.Evaluation](e.client, "/v1/evaluations", q)
}

// PrefixList lists the evaluations whose ID begins with prefix.
func (e *Evaluations) PrefixList(prefix string) ([]*api.Evaluation, *api.QueryMeta, error) {
	return e.List(&QueryOptions{Prefix: prefix})
}

// Info returns an evaluation.
func (e *Evaluations) Info(evalID string, q *QueryOptions) (*api.Evaluation, *api.QueryMeta, error) {
	return get[*api.Evaluation](e.client, "/v1/evaluation/"+url.PathEscape(evalID), q)
}

// Allocations lists the allocations that an evaluation created or changed.
func (e *Evaluations) Allocations(evalID string, q *QueryOptions) ([]*api.AllocationListStub, *api.QueryMeta, error) {
	return get[[]*api.AllocationListStub](e.client, "/v1/evaluation/"+url.PathEscape(evalID)+"/allocations", q)
}

// Count counts the evaluations that match the filter of q.
func (e *Evaluations) Count(q *QueryOptions) (*api.EvalCountResponse, *api.QueryMeta, error) {
	return get[*api.EvalCountResponse](e.client, "/v1/evaluations/count", q)
}

// Delete deletes evaluations by ID. The evaluation broker must be paused.
func (e *Evaluations) Delete(evalIDs []string, q *WriteOptions) (*api.WriteMeta, error) {
	_, meta, err := e.Remove(&api.EvalDeleteRequest{EvalIDs: evalIDs}, q)
	return meta, err
}

// Remove deletes evaluations by ID or filter, and returns their number. The evaluation broker must be
// paused.
func (e *Evaluations) Remove(req *api.EvalDeleteRequest, q *WriteOptions) (*api.EvalDeleteResponse, *api.WriteMeta, error) {
	var out api.EvalDeleteResponse
	meta, err := e.client.write(http.MethodDelete, "/v1/evaluations", req, &out, q)
	return &out, meta, err
}
