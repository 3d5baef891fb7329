package consulapi

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/internal/untrusted"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// The times of a blocking query, as in Consul.
const (
	defaultWait = 5 * time.Minute
	maxWait     = 10 * time.Minute
	jitterShare = 16 // a wait is longer by at most this share of it
)

// query is the parameters of a request.
type query struct {
	namespace  string
	index      uint64 // 0 for a query that does not block
	wait       time.Duration
	stale      bool
	consistent bool
	passing    bool
	tags       []string
	near       string
	nodeMeta   map[string]string
	filter     *untrusted.Filter // nil for none
}

// parse reads the parameters of a request.
func (s *Server) parse(r *web.Request) (q query, err error) {
	if dc := r.Query.Get("dc"); dc != "" && dc != s.cfg.Datacenter {
		return q, apierror.Errorf(http.StatusInternalServerError, "No path to datacenter %.64q: this agent serves %q only; "+
			"ask an agent of the other datacenter", dc, s.cfg.Datacenter)
	}
	q = query{namespace: nomad.DefaultNamespace, near: r.Query.Get("near"), passing: isSet(r, "passing"),
		stale: isSet(r, "stale") || isSet(r, "cached"), consistent: isSet(r, "consistent")}
	if ns := r.Query.Get("ns"); ns != "" {
		q.namespace = ns
	}
	if isSet(r, "stale") && q.consistent {
		return q, apierror.Errorf(http.StatusBadRequest, "stale and consistent exclude each other: use one of them")
	}
	if q.consistent {
		q.stale = false
	}
	for _, tag := range r.Query["tag"] {
		q.tags = append(q.tags, strings.ToLower(tag))
	}
	if q.nodeMeta, err = nodeMeta(r); err != nil {
		return q, err
	}
	if q.filter, err = filterOf(r); err != nil {
		return q, err
	}
	q.index, q.wait, err = waitOf(r)
	return q, err
}

// isSet reports whether a flag is set: the parameter without a value, or with a true one.
func isSet(r *web.Request, name string) bool {
	if !r.Query.Has(name) {
		return false
	}
	text := r.Query.Get(name)
	set, err := strconv.ParseBool(text)
	return set || text == "" || err != nil
}

// nodeMeta reads the node-meta parameters. Only callers that may read nodes may select by their metadata.
func nodeMeta(r *web.Request) (map[string]string, error) {
	if !r.Query.Has("node-meta") {
		return nil, nil
	}
	out := map[string]string{}
	for _, pair := range r.Query["node-meta"] {
		key, value, ok := strings.Cut(pair, ":")
		if !ok || key == "" {
			return nil, apierror.Errorf(http.StatusBadRequest, "node-meta %.128q is not of the form key:value", pair)
		}
		out[key] = value
	}
	return out, r.Ask(web.Needs(acl.ToRead(acl.Nodes)))
}

// filterOf parses the filter of a request.
func filterOf(r *web.Request) (f *untrusted.Filter, err error) {
	text := r.Query.Get("filter")
	switch {
	case text == "":
		return nil, nil
	case r.Token() == "":
		f, err = untrusted.Anonymous.Parse(text)
	default:
		f, err = untrusted.Identified.Parse(callerOf(r), text)
	}
	if err != nil {
		return nil, apierror.Errorf(http.StatusBadRequest, "Failed to create boolean expression evaluator: %s",
			untrusted.Shorten(err.Error(), 512))
	}
	return f, nil
}

// waitOf reads the index and the wait of a blocking query.
func waitOf(r *web.Request) (index uint64, wait time.Duration, err error) {
	if text := r.Query.Get("index"); text != "" {
		if index, err = strconv.ParseUint(text, 10, 64); err != nil {
			return 0, 0, apierror.Errorf(http.StatusBadRequest, "Invalid index")
		}
	}
	if text := r.Query.Get("wait"); text != "" {
		if wait, err = time.ParseDuration(text); err != nil || wait < 0 {
			return 0, 0, apierror.Errorf(http.StatusBadRequest, "Invalid wait time")
		}
	}
	if wait == 0 {
		wait = defaultWait
	}
	return index, min(wait, maxWait), nil
}

// options returns the options of an RPC that does not block.
func (s *Server) options(r *web.Request, q query) message.QueryOptions {
	return message.QueryOptions{Region: s.cfg.Region, Namespace: q.namespace, AuthToken: r.Token(), AllowStale: q.stale}
}

// callerOf returns a text that is the same for all requests of a token, and from which nobody gets the token.
func callerOf(r *web.Request) string {
	if r.Token() == "" {
		return "anonymous"
	}
	sum := sha256.Sum256([]byte(r.Token()))
	return hex.EncodeToString(sum[:])
}

// match returns the items that the filter selects.
func match[T any](f *untrusted.Filter, items []T) ([]T, error) {
	if f == nil {
		return items, nil
	}
	f.Renew()
	out := []T{}
	for _, item := range items {
		ok, err := f.Match(item)
		if err != nil {
			return nil, apierror.Errorf(http.StatusBadRequest, "Failed to filter: %s", untrusted.Shorten(err.Error(), 512))
		}
		if ok {
			out = append(out, item)
		}
	}
	return out, nil
}
