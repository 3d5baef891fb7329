package httpclient

import (
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
