// Package readproxy sends the requests of a task's templates to Vault, with the token of the task. It is a handler for
// internal/readproxy, which has the connection to the program that renders the templates.
//
//	request of the program ──routes──▶ Proxy ──adds token and namespace──▶ Vault
//	                          │          └─ 403: another login, once ──▶ Vault
//	                          └─ anything else: status 403, nothing is sent
//
// The program gets neither the token nor what would contain it. So requests that answer with the token of the caller,
// or that end it, are refused, and so is most of sys/: see routes.go. All other reads, lists and writes pass. The
// policies of the token decide about them, as for the task itself. A proxy never gives more than this token.
//
// Headers of the program are dropped. Only the renewal of a token that a template has created has that token. Paths
// with the segments "." and ".." and with control characters are refused. A redirect is an error. The text of an error
// of Vault is replaced, because Vault may repeat a token in it. Response wrapping is not possible.
//
// An answer has at most vault.MaxAnswer bytes and is streamed, a request has maxBody. At most maxRequests of a program
// run at a time, maxBodies of them with a body, which is in memory. Each ends with its time limit or with the
// connection.
//
// The package starts no goroutine.
package readproxy

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/hashicorp/vault/api"

	"github.com/open-nomad/open-nomad/internal/vault"
)

const (
	// Timeout limits a request, with its repetitions.
	Timeout = 60 * time.Second
	// maxRequests limits the requests of a program that run at the same time. Others get status 429.
	maxRequests = 32
	// maxBody limits the body of a request, in bytes.
	maxBody = 512 << 10
	// maxBodies limits the requests with a body that run at the same time. Others wait.
	maxBodies = 4
)

// Token is the token that the requests get. It is asked for each request, so that a new one is used at once.
type Token struct {
	// Current returns the current secret, or "" before the first login, and the namespace of the token.
	Current func() (secret, namespace string)
	// Rejected is called after status 403. It reports whether another secret is now current.
	Rejected func(ctx context.Context, secret string) bool
}

// Proxy sends the requests of one program to Vault.
type Proxy struct {
	cluster *vault.Cluster
	token   Token
	slots   chan struct{} // one per running request
	bodies  chan struct{} // one per running request with a body
}

// New returns the proxy of a program.
func New(cluster *vault.Cluster, token Token) *Proxy {
	return &Proxy{
		cluster: cluster, token: token,
		slots: make(chan struct{}, maxRequests), bodies: make(chan struct{}, maxBodies),
	}
}

// ServeHTTP sends an allowed request to Vault and streams the answer.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	default:
		fail(w, http.StatusTooManyRequests, tooMany)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), Timeout)
	defer cancel()
	if r.Method == http.MethodPut {
		select {
		case p.bodies <- struct{}{}:
			defer func() { <-p.bodies }()
		case <-ctx.Done():
			fail(w, http.StatusTooManyRequests, tooMany)
			return
		}
	}
	req, status, text := p.request(w, r)
	if req == nil {
		fail(w, status, text)
		return
	}
	resp, err := p.send(ctx, req)
	if resp != nil && resp.Body != nil {
		defer resp.Body.Close()
	}
	if err != nil {
		status, text = explain(ctx, err)
		fail(w, status, text)
		return
	}
	if resp.StatusCode == http.StatusNoContent {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if _, err := io.Copy(w, resp.Body); err != nil {
		panic(http.ErrAbortHandler) // the status is sent already, so only a broken stream shows that the answer is incomplete
	}
}

// request is a request of the program that may be sent.
type request struct {
	method, path string
	query        url.Values
	body         []byte

	secret, namespace string // of the token
	created           bool   // a template has created the token; else it is that of the task
}

// request returns the request of the program, or the status and the text of its refusal.
func (p *Proxy) request(w http.ResponseWriter, r *http.Request) (req *request, status int, text string) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, http.StatusForbidden, malformed
	}
	if why := refusal(r.Method, r.URL.Path, query); why != "" {
		return nil, http.StatusForbidden, why
	}
	own, namespace := p.token.Current()
	if own == "" {
		return nil, http.StatusServiceUnavailable, noLogin
	}
	req = &request{method: r.Method, path: r.URL.Path, query: query, secret: own, namespace: namespace}
	if r.URL.Path == renewSelf {
		req.secret, req.created = r.Header.Get(api.AuthHeaderName), true
		if req.secret == "" || req.secret == own {
			return nil, http.StatusForbidden, ownToken
		}
	}
	if r.Method == http.MethodPut {
		// A program that does not send its body blocks only one of its own requests. The deadline is a second limit.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(Timeout))
		req.body, err = io.ReadAll(io.LimitReader(r.Body, maxBody+1))
		if err != nil || len(req.body) > maxBody {
			return nil, http.StatusRequestEntityTooLarge, tooLarge
		}
	}
	return req, 0, ""
}

// send sends a request. If Vault refuses the token of the task and another login makes a new one, it is sent again.
func (p *Proxy) send(ctx context.Context, req *request) (*api.Response, error) {
	resp, err := p.try(ctx, req)
	var status *api.ResponseError
	if req.created || p.token.Rejected == nil || !errors.As(err, &status) || status.StatusCode != http.StatusForbidden {
		return resp, err
	}
	if !p.token.Rejected(ctx, req.secret) {
		return resp, err
	}
	if resp != nil && resp.Body != nil {
		resp.Body.Close()
	}
	req.secret, req.namespace = p.token.Current()
	return p.try(ctx, req)
}

// try sends a request once.
func (p *Proxy) try(ctx context.Context, req *request) (*api.Response, error) {
	client := p.cluster.Client(req.secret, req.namespace)
	out := client.NewRequest(req.method, req.path)
	out.Params, out.WrapTTL = req.query, "" // the library takes the TTL from the environment of the agent
	if req.method == http.MethodPut {
		out.BodyBytes = req.body
	}
	//lint:ignore SA1019 no other function of the library sends any path
	return client.RawRequestWithContext(ctx, out)
}

// fail answers as Vault does.
func fail(w http.ResponseWriter, status int, text string) {
	body := map[string][]string{"errors": {}}
	if text != "" {
		body["errors"] = []string{text}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // fails only if the program is gone
}
