package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// maxErrorBody is the maximum size in bytes of an error body.
const maxErrorBody = 1 << 20

// PermissionDeniedErrorContent is in the error of a request for which the token has no right.
const PermissionDeniedErrorContent = "Permission denied"

// Client sends requests to one agent. NewClient returns a Client.
type Client struct {
	conf Config
	base *url.URL
	http *http.Client
}

// NewClient returns a client for the agent at config.Address. A nil config means
// DefaultConfig.
func NewClient(config *Config) (*Client, error) {
	if config == nil {
		config = DefaultConfig()
	}
	base, hc, err := config.endpoint()
	if err != nil {
		return nil, err
	}
	return &Client{conf: *config, base: base, http: hc}, nil
}

// Address returns the configured address of the agent.
func (c *Client) Address() string {
	if c.conf.Address == "" {
		return defaultAddress
	}
	return c.conf.Address
}

// SetRegion sets the default region of requests.
func (c *Client) SetRegion(region string) { c.conf.Region = region }

// SetNamespace sets the default namespace of requests.
func (c *Client) SetNamespace(namespace string) { c.conf.Namespace = namespace }

// SetSecretID sets the token of requests.
func (c *Client) SetSecretID(secretID string) { c.conf.SecretID = secretID }

// GetNodeClient returns a client for the agent of a node. Agents forward requests to nodes, so a
// caller needs it only to save the way over a server.
func (c *Client) GetNodeClient(nodeID string, q *QueryOptions) (*Client, error) {
	node, _, err := c.Nodes().Info(nodeID, q)
	if err != nil {
		return nil, err
	}
	if node.HTTPAddr == "" {
		return nil, fmt.Errorf("the HTTP address of node %q is unknown", nodeID)
	}
	region := c.conf.Region
	if q != nil && q.Region != "" {
		region = q.Region
	}
	return NewClient(c.conf.ClientConfig(region, node.HTTPAddr, node.TLSEnabled))
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// UnexpectedResponseError is a response with a status other than 2xx.
type UnexpectedResponseError struct {
	code int
	body string
}

// Error returns "Unexpected response code: <code> (<body>)".
func (e UnexpectedResponseError) Error() string {
	return fmt.Sprintf("Unexpected response code: %d (%s)", e.code, e.body)
}

// StatusCode returns the HTTP status.
func (e UnexpectedResponseError) StatusCode() int { return e.code }

// HasStatusCode reports whether there is an HTTP status. An error of a Client always has one.
func (e UnexpectedResponseError) HasStatusCode() bool { return e.code != 0 }

// HasStatusText reports whether the status has a text.
func (e UnexpectedResponseError) HasStatusText() bool { return e.StatusText() != "" }

// StatusText returns the text of the HTTP status, such as "Not Found".
func (e UnexpectedResponseError) StatusText() string { return http.StatusText(e.code) }

// Body returns the response body, truncated to 1 MiB.
func (e UnexpectedResponseError) Body() string { return e.body }

// HasBody reports whether the response had a body.
func (e UnexpectedResponseError) HasBody() bool { return e.body != "" }

// StatusCode returns the HTTP status of err, or 0 if it is not an UnexpectedResponseError.
func StatusCode(err error) int {
	var e UnexpectedResponseError
	if errors.As(err, &e) {
		return e.code
	}
	return 0
}

// request is an HTTP request that has not been sent.
type request struct {
	ctx     context.Context
	method  string
	path    string
	params  url.Values
	headers http.Header
	body    any
}

// newRequest returns a request with the defaults of the configuration. The path is
// escaped and may have a query.
func (c *Client) newRequest(method, path string) (*request, error) {
	path, rawQuery, _ := strings.Cut(path, "?")
	params, err := url.ParseQuery(rawQuery)
	if err != nil {
		return nil, fmt.Errorf("invalid query in path %q: %w", path, err)
	}
	r := &request{ctx: context.Background(), method: method, path: path, params: params, headers: c.conf.Headers.Clone()}
	if r.headers == nil {
		r.headers = http.Header{}
	}
	r.common(c.conf.Region, c.conf.Namespace, c.conf.SecretID, nil)
	if c.conf.WaitTime != 0 {
		r.params.Set("wait", c.conf.WaitTime.String())
	}
	return r, nil
}

// common sets the options common to reads and writes. Empty values keep the defaults.
func (r *request) common(region, namespace, token string, headers map[string]string) {
	setIf(r.params, "region", region)
	setIf(r.params, "namespace", namespace)
	if token != "" {
		r.headers.Set("X-Nomad-Token", token)
	}
	for k, v := range headers {
		r.headers.Set(k, v)
	}
}

// send sends the request. The caller must close the response body. A status other than
// 2xx is an UnexpectedResponseError.
func (c *Client) send(r *request) (*http.Response, time.Duration, error) {
	body, err := encodeBody(r.body)
	if err != nil {
		return nil, 0, err
	}
	target := c.base.String() + r.path
	if len(r.params) > 0 {
		target += "?" + r.params.Encode()
	}
	req, err := http.NewRequestWithContext(r.ctx, r.method, target, body)
	if err != nil {
		return nil, 0, err
	}
	req.Header = r.headers
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.conf.HttpAuth != nil {
		req.SetBasicAuth(c.conf.HttpAuth.Username, c.conf.HttpAuth.Password)
	}
	start := time.Now()
	resp, err := c.http.Do(req)
	took := time.Since(start)
	if err != nil {
		return nil, took, err
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		defer resp.Body.Close()
		// A truncated body is still useful, so the error is ignored.
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
		return nil, took, UnexpectedResponseError{code: resp.StatusCode, body: strings.TrimSpace(string(text))}
	}
	return resp, took, nil
}

func encodeBody(v any) (io.Reader, error) {
	switch v := v.(type) {
	case nil:
		return http.NoBody, nil
	case io.Reader:
		return v, nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	return bytes.NewReader(b), nil
}

// decodeBody decodes a JSON response to out. An empty body leaves out unchanged.
func decodeBody(resp *http.Response, out any) error {
	defer resp.Body.Close()
	if out == nil {
		return nil
	}
	err := json.NewDecoder(resp.Body).Decode(out)
	if err != nil && err != io.EOF {
		return fmt.Errorf("decode response: %w", err)
	}
	return nil
}

// query sends GET path and decodes the response to out.
func (c *Client) query(path string, out any, q *QueryOptions) (*QueryMeta, error) {
	return c.queryBody(call{http.MethodGet, path, nil, out}, q)
}

// call is a request and what receives its response.
type call struct {
	method, path string
	in           any // the body; nil for none
	out          any // receives the decoded response; nil to drop it
}

// queryBody is query with a method and a body.
func (c *Client) queryBody(x call, q *QueryOptions) (*QueryMeta, error) {
	r, err := c.newRequest(x.method, x.path)
	if err != nil {
		return nil, err
	}
	q.apply(r)
	r.body = x.in
	resp, took, err := c.send(r)
	if err != nil {
		return nil, err
	}
	return queryMeta(resp.Header, took), decodeBody(resp, x.out)
}

// stream sends GET path and returns the response body.
func (c *Client) stream(path string, q *QueryOptions) (io.ReadCloser, error) {
	r, err := c.newRequest(http.MethodGet, path)
	if err != nil {
		return nil, err
	}
	q.apply(r)
	resp, _, err := c.send(r)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// write makes a call that changes something.
func (c *Client) write(x call, q *WriteOptions) (*WriteMeta, error) {
	r, err := c.newRequest(x.method, x.path)
	if err != nil {
		return nil, err
	}
	r.params.Del("wait")
	q.apply(r)
	r.body = x.in
	resp, took, err := c.send(r)
	if err != nil {
		return nil, err
	}
	meta := queryMeta(resp.Header, took)
	return &WriteMeta{LastIndex: meta.LastIndex, RequestTime: took}, decodeBody(resp, x.out)
}

// put sends in to path with the method PUT and decodes the response to out.
func (c *Client) put(path string, in, out any, q *WriteOptions) (*WriteMeta, error) {
	return c.write(call{http.MethodPut, path, in, out}, q)
}

// get sends GET path and decodes the response to a T.
func get[T any](c *Client, path string, q *QueryOptions) (T, *QueryMeta, error) {
	var out, none T
	meta, err := c.query(path, &out, q)
	if err != nil {
		return none, nil, err
	}
	return out, meta, nil
}
