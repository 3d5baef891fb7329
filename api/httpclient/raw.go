package httpclient

import (
	"io"
	"net/http"

	"github.com/open-nomad/open-nomad/api"
)

// Raw sends requests to any path, for endpoints without a method in this package.
type Raw struct{ client *Client }

// Raw returns the handle for requests to any path.
func (c *Client) Raw() *Raw { return &Raw{c} }

// Query sends GET to endpoint and decodes the JSON response to out.
func (r *Raw) Query(endpoint string, out any, q *QueryOptions) (*api.QueryMeta, error) {
	return r.client.query(endpoint, out, q)
}

// Response sends GET to endpoint and returns the response body.
func (r *Raw) Response(endpoint string, q *QueryOptions) (io.ReadCloser, error) {
	return r.client.stream(endpoint, q)
}

// Write sends in as JSON to endpoint and decodes the response to out.
func (r *Raw) Write(endpoint string, in, out any, q *WriteOptions) (*api.WriteMeta, error) {
	return r.client.put(endpoint, in, out, q)
}

// Delete sends DELETE to endpoint and decodes the response to out.
func (r *Raw) Delete(endpoint string, out any, q *WriteOptions) (*api.WriteMeta, error) {
	return r.client.write(http.MethodDelete, endpoint, nil, out, q)
}
