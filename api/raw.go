package api

import (
	"io"
	"net/http"
)

// Raw sends requests to paths that have no method of their own.
type Raw struct{ client *Client }

// Raw returns the handle for any path.
func (c *Client) Raw() *Raw { return &Raw{c} }

// Query reads endpoint as JSON into out.
func (r *Raw) Query(endpoint string, out any, q *QueryOptions) (*QueryMeta, error) {
	return r.client.query(endpoint, out, q)
}

// Response reads endpoint as raw bytes.
func (r *Raw) Response(endpoint string, q *QueryOptions) (io.ReadCloser, error) {
	return r.client.stream(endpoint, q)
}

// Write sends in as JSON to endpoint and reads the answer into out.
func (r *Raw) Write(endpoint string, in, out any, q *WriteOptions) (*WriteMeta, error) {
	return r.client.put(endpoint, in, out, q)
}

// Delete sends DELETE to endpoint and reads the answer into out.
func (r *Raw) Delete(endpoint string, out any, q *WriteOptions) (*WriteMeta, error) {
	return r.client.write(http.MethodDelete, endpoint, nil, out, q)
}
