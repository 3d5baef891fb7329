package readproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/internal/consul"
)

const (
	// defaultWait and maxWait are those of Consul for blocking queries.
	defaultWait = 5 * time.Minute
	maxWait     = 10 * time.Minute
	// headerSlack is how much longer than a blocking query Consul may take to answer, and bodySlack the same for all of the
	// answer.
	headerSlack = 15 * time.Second
	bodySlack   = time.Minute
	// maxError is the part of an error of Consul that is read.
	maxError = 4 << 10
)

// Texts of errors. The renderer shows them in events of the task.
const (
	refused    = "the agent sends only reads of templates to Consul: this path or parameter is not one"
	noIdentity = "the task has no identity for Consul: add an identity block with the name consul_default to the task, or have the " +
		"operator set task_identity in the consul block of the servers"
	noToken  = "the task has no token of Consul, because its login has failed: see the event of the login. The read is tried again"
	notFound = "Consul does not know the token of the task, which may have ended: the next try uses a new one"
	denied   = "the roles of the token in Consul do not allow this read"
)

// headers are the headers of an answer that are passed on.
var headers = []string{"Content-Type", "X-Consul-Index", "X-Consul-KnownLeader", "X-Consul-LastContact"}

// ServeHTTP sends an allowed request to Consul and streams the answer.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || r.Method != http.MethodGet || !allowed(r.URL.Path, query) {
		http.Error(w, refused, http.StatusForbidden)
		return
	}
	wait := waitOf(query)
	ctx, cancel := context.WithTimeout(r.Context(), wait+bodySlack)
	defer cancel()
	late := time.AfterFunc(wait+headerSlack, cancel)
	secret := p.Token.Secret()
	resp, err := p.Agent.Stream(ctx, r.URL.Path, query, secret)
	if err != nil {
		http.Error(w, "Consul does not answer: "+cause(ctx, err), http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	late.Stop()
	for _, name := range headers {
		if v := resp.Header.Get(name); v != "" {
			w.Header().Set(name, v)
		}
	}
	switch code := resp.StatusCode; {
	case code == http.StatusOK:
		pass(w, resp.Body)
	case code < http.StatusBadRequest: // such as a redirect
		http.Error(w, p.explain(resp, secret), http.StatusBadGateway)
	default:
		http.Error(w, p.explain(resp, secret), code)
	}
}

// waitOf returns how long Consul may wait before it answers. Consul adds a sixteenth at random.
func waitOf(query url.Values) time.Duration {
	if query.Get("index") == "" {
		return 0
	}
	wait, err := time.ParseDuration(query.Get("wait"))
	if err != nil || wait <= 0 {
		wait = defaultWait // Consul refuses what is malformed
	}
	wait = min(wait, maxWait)
	return wait + wait/16
}

// cause returns the text of a failed request.
func cause(ctx context.Context, err error) string {
	err = consul.Redact(err)
	if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	return err.Error()
}

// explain returns the text for an error of Consul.
func (p *Proxy) explain(resp *http.Response, secret string) string {
	if resp.StatusCode != http.StatusForbidden {
		return fmt.Sprintf("Consul returned status %d", resp.StatusCode)
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxError)) // a part is enough
	switch {
	case secret == "" && p.Token.Rejected != nil:
		return noToken
	case secret == "":
		return noIdentity
	case !strings.Contains(string(text), "ACL not found"):
		return denied
	case p.Token.Rejected != nil:
		p.Token.Rejected(secret)
	}
	return notFound
}

// pass streams an answer.
func pass(w http.ResponseWriter, body io.Reader) {
	n, err := io.Copy(w, io.LimitReader(body, MaxAnswer+1))
	if err != nil || n > MaxAnswer {
		panic(http.ErrAbortHandler) // the status is sent already, so only a broken stream shows that the answer is incomplete
	}
}
