package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Raw sends requests to any path, for endpoints without a method in this package.
type Raw struct{ client *Client }

// Raw returns the handle for requests to any path.
func (c *Client) Raw() *Raw { return &Raw{c} }

// Query sends GET to endpoint and decodes the JSON response to out.
func (r *Raw) Query(endpoint string, out any, q *QueryOptions) (*QueryMeta, error) {
	return r.client.query(endpoint, out, q)
}

// Response sends GET to endpoint and returns the response body.
func (r *Raw) Response(endpoint string, q *QueryOptions) (io.ReadCloser, error) {
	return r.client.stream(endpoint, q)
}

// Write sends in as JSON to endpoint and decodes the response to out.
func (r *Raw) Write(endpoint string, in, out any, q *WriteOptions) (*WriteMeta, error) {
	return r.client.put(endpoint, in, out, q)
}

// Delete sends DELETE to endpoint and decodes the response to out.
func (r *Raw) Delete(endpoint string, out any, q *WriteOptions) (*WriteMeta, error) {
	return r.client.write(call{http.MethodDelete, endpoint, nil, out}, q)
}

// NewRequest returns a request to a path with the token, the region and the namespace of the
// configuration. Parameters of the path take precedence. Do sends it.
func (r *Raw) NewRequest(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	conf := &r.client.conf
	path, query, _ := strings.Cut(path, "?")
	params, err := url.ParseQuery(query)
	if err != nil {
		return nil, fmt.Errorf("invalid query in path %q: %w", path, err)
	}
	for name, value := range map[string]string{"region": conf.Region, "namespace": conf.Namespace} {
		if value != "" && !params.Has(name) {
			params.Set(name, value)
		}
	}
	target := r.client.base.String() + path
	if len(params) > 0 {
		target += "?" + params.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, err
	}
	if conf.Headers != nil {
		req.Header = conf.Headers.Clone()
	}
	if conf.SecretID != "" {
		req.Header.Set("X-Nomad-Token", conf.SecretID)
	}
	if conf.HttpAuth != nil {
		req.SetBasicAuth(conf.HttpAuth.Username, conf.HttpAuth.Password)
	}
	return req, nil
}

// Do sends a request of NewRequest and returns the response, whatever its status. It follows no
// redirect, because the token would be sent to another host. The caller closes the body.
func (r *Raw) Do(req *http.Request) (*http.Response, error) {
	once := *r.client.http
	once.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return once.Do(req)
}
