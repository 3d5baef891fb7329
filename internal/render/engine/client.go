package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/consul-template/dependency"
	nomadapi "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/internal/render"
)

const (
	// maxQueries is the maximum number of queries at the same time. The socket of a task has a limit
	// of connections, which the task itself needs too.
	maxQueries = 16
	// slack is how much longer than a blocking query a response may take.
	slack = 30 * time.Second
	// maxResponse is the maximum size of a response.
	maxResponse = 16 << 20
	// maxErrorText is the maximum length of the text of an error response.
	maxErrorText = 200
)

// client reads variables and services with the Task API.
type client struct {
	queries
	req  *render.Request
	http *http.Client
}

func newClient(req *render.Request) *client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", req.Socket)
	}
	return &client{queries: newQueries(maxQueries), req: req, http: &http.Client{
		Transport:     &http.Transport{DialContext: dial, MaxIdleConns: 1, IdleConnTimeout: time.Second, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// fetch reads data whose index is above the given one, 0 for any, and returns it with its index.
func (c *client) fetch(ctx context.Context, k key, index uint64) (datum, uint64, error) {
	if err := c.enter(ctx); err != nil {
		return datum{}, 0, err
	}
	defer c.leave()
	q := query{key: k, index: index, wait: c.wait(c.req.BlockQueryWait), stale: c.req.MaxStale > 0}
	v, meta, err := c.get(ctx, q)
	if err == nil && q.stale && meta.lastContact > c.req.MaxStale {
		q.stale = false
		v, meta, err = c.get(ctx, q)
	}
	return v, max(meta.index, 1), err
}

// query is one request for data.
type query struct {
	key   key
	index uint64        // of the data that is already there; 0 does not wait
	wait  time.Duration // for data with a higher index
	stale bool          // any server may answer
}

// meta holds the headers of a response.
type meta struct {
	index       uint64
	lastContact time.Duration
}

func (c *client) get(ctx context.Context, q query) (datum, meta, error) {
	ctx, cancel := context.WithTimeout(ctx, q.wait+q.wait/16+slack)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, q.url(), nil)
	if err != nil {
		return datum{}, meta{}, errPath
	}
	req.Header.Set("X-Nomad-Token", string(c.req.Token))
	resp, err := c.http.Do(req)
	if err != nil {
		return datum{}, meta{}, withoutURL(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse+1))
	if err != nil {
		return datum{}, meta{}, fmt.Errorf("read the response: %w", err)
	}
	if len(body) > maxResponse {
		return datum{}, meta{}, fmt.Errorf("the response is larger than %d bytes", maxResponse)
	}
	v, err := decode(q.key, resp.StatusCode, body)
	return v, metaOf(resp.Header), err
}

// url returns the address of the data. Its host is not used.
func (q query) url() string {
	values := url.Values{"namespace": {q.key.namespace}, "region": {q.key.region}}
	if q.index > 0 {
		values.Set("index", strconv.FormatUint(q.index, 10))
		values.Set("wait", strconv.FormatInt(q.wait.Milliseconds(), 10)+"ms")
	}
	if q.stale {
		values.Set("stale", "")
	}
	u := url.URL{Scheme: "http", Host: "task-api", Path: q.key.urlPath(values)}
	u.RawQuery = values.Encode()
	return u.String()
}

// urlPath returns the path of a request. It adds parameters to the query.
func (k key) urlPath(q url.Values) string {
	switch k.kind {
	case listing:
		q.Set("prefix", k.path)
		return "/v1/vars"
	case tree:
		q.Set("prefix", k.path)
		return "/v1/vars/tree"
	case service:
		if k.choose != "" {
			q.Set("choose", k.choose)
		}
		return "/v1/service/" + k.path
	case health:
		return "/v1/service/" + k.path + "/instances"
	case catalog, snippets:
		return "/v1/services"
	}
	return "/v1/var/" + k.path
}

func metaOf(h http.Header) (m meta) {
	m.index, _ = strconv.ParseUint(h.Get("X-Nomad-Index"), 10, 64) // 0 without the header
	if ms, err := strconv.ParseInt(h.Get("X-Nomad-LastContact"), 10, 64); err == nil {
		m.lastContact = time.Duration(ms) * time.Millisecond
	}
	return m
}

// decoders hold the function that decodes a successful response, by the kind of its data. Their errors contain no part
// of it.
var decoders = map[kind]func(k key, body []byte) (content, error){
	variable: decodeVariable, existence: decodeVariable, listing: decodeListing,
	service: decodeServices, catalog: decodeCatalog,
	health: decodeInstances, snippets: decodeSnippets,
	required: decodePair, optional: decodePair, tree: decodeTree,
}

// errMalformed omits the response, which can contain values.
var errMalformed = errors.New("the response is malformed")

// decode decodes a response. A variable that does not exist is an empty content.
func decode(k key, status int, body []byte) (datum, error) {
	one := strings.HasPrefix(k.urlPath(url.Values{}), "/v1/var/")
	if one && status == http.StatusNotFound && strings.Contains(string(body), "variable not found") {
		return datum{}, nil
	}
	if status != http.StatusOK {
		return datum{}, fmt.Errorf("the API returned status %d: %s%s", status, oneLine(body), k.remedy(status))
	}
	v, err := decoders[k.kind](k, body)
	return datum{content: v}, err
}

func decodeListing(_ key, body []byte) (v content, err error) {
	var list []*nomadapi.VariableMetadata
	if json.Unmarshal(body, &list) != nil {
		return content{}, errMalformed
	}
	for _, m := range list {
		if m != nil {
			v.list = append(v.list, dependency.NewNomadVarMeta(m))
		}
	}
	return v, nil
}

func decodeVariable(_ key, body []byte) (content, error) {
	var found nomadapi.Variable
	if json.Unmarshal(body, &found) != nil {
		return content{}, errMalformed
	}
	return content{items: &dependency.NewNomadVariable(&found).Items}, nil
}

// oneLine returns the beginning of an error response.
func oneLine(body []byte) string {
	text := strings.ToValidUTF8(string(body[:min(len(body), maxErrorText)]), "")
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
}

// withoutURL returns the cause of a failed request.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("no response in time")
	}
	return fmt.Errorf("connect to the Task API: %w", err)
}
