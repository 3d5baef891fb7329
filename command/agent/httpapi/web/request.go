package web

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// ErrDone means that the handler has written the reply itself.
var ErrDone = errors.New("response written")

// Request is one HTTP request with its parsed parameters.
type Request struct {
	*http.Request
	Reply  http.ResponseWriter
	Param  string     // parameter of the path
	Query  url.Values // parameters of the query
	server *Server
	intake *intake   // the incoming body, nil if there is none
	tee    io.Writer // gets a copy of the body that Decode reads, nil for none
}

// RPC makes calls to the servers. In a dry run it records the call and refuses it.
func (r *Request) RPC() RPC { return r.server.cfg.RPC }

// Token returns the caller's token, see Token.
func (r *Request) Token() string { return Token(r.Request) }

// Token returns the token of an HTTP request, "" if there is none. X-Nomad-Token takes precedence
// over a bearer token.
func Token(req *http.Request) string {
	if t := strings.TrimSpace(req.Header.Get("X-Nomad-Token")); t != "" {
		return t
	}
	scheme, rest, ok := strings.Cut(strings.TrimSpace(req.Header.Get("Authorization")), " ")
	if ok && strings.EqualFold(scheme, "bearer") {
		return strings.TrimSpace(rest)
	}
	return ""
}

// ReadOptions sets the options of a read from the request. Options from the body are discarded.
func (r *Request) ReadOptions(q *message.QueryOptions) error {
	*q = message.QueryOptions{Region: r.Region(), Namespace: r.Namespace(), AuthToken: r.Token()}
	q.Prefix, q.Filter = r.Query.Get("prefix"), r.Query.Get("filter")
	var err error
	if q.NextToken, err = tokenOfPage(r.Query.Get("next_token")); err != nil {
		return err
	}
	if q.AllowStale, err = r.Flag("stale"); err != nil {
		return err
	}
	q.Reverse = r.Query.Get("reverse") == "true"
	if v := r.Query.Get("per_page"); v != "" {
		n, err := strconv.ParseInt(v, 10, 32)
		if err != nil || n < 0 {
			return apierror.Errorf(http.StatusBadRequest, "Invalid per_page %q: use a number of items", v)
		}
		q.PerPage = int32(n)
	}
	return r.blocking(q)
}

// NoPrefix refuses the prefix parameter, for lists that do not support it.
func (r *Request) NoPrefix() error {
	if r.Query.Get("prefix") != "" {
		return apierror.Errorf(http.StatusBadRequest, "prefix is not supported for this list")
	}
	return nil
}

// blocking reads the index and wait parameters.
func (r *Request) blocking(q *message.QueryOptions) error {
	if v := r.Query.Get("index"); v != "" {
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			return apierror.Errorf(http.StatusBadRequest, "Invalid index")
		}
		q.MinQueryIndex = n
	}
	if v := r.Query.Get("wait"); v != "" {
		d, err := time.ParseDuration(v)
		if err != nil {
			return apierror.Errorf(http.StatusBadRequest, "Invalid wait time")
		}
		q.MaxQueryTime = d
	}
	return nil
}

// WriteOptions sets the options of a write.
func (r *Request) WriteOptions(w *message.WriteRequest) {
	*w = message.WriteRequest{Region: r.Region(), Namespace: r.Namespace(), AuthToken: r.Token(),
		IdempotencyToken: r.Query.Get("idempotency_token")}
}

// Region returns the region of the query, or else of the agent.
func (r *Request) Region() string {
	if v := r.Query.Get("region"); v != "" {
		return v
	}
	return r.server.cfg.Region
}

// IsLocal reports whether the request is for the region of the agent.
func (r *Request) IsLocal() bool { return r.Region() == r.server.cfg.Region }

// Namespace returns the namespace of the query, or else the default one.
func (r *Request) Namespace() string {
	if v := r.Query.Get("namespace"); v != "" {
		return v
	}
	return nomad.DefaultNamespace
}

// Flag reads a boolean query parameter. A parameter without a value is true.
func (r *Request) Flag(name string) (bool, error) {
	v, ok := r.Query[name]
	if !ok {
		return false, nil
	}
	if v[0] == "" {
		return true, nil
	}
	b, err := strconv.ParseBool(v[0])
	if err != nil {
		return false, apierror.Errorf(http.StatusBadRequest, "Failed to parse value of %q (%v) as a bool", name, v[0])
	}
	return b, nil
}

// FlagOr is flag with a default for an absent parameter.
func (r *Request) FlagOr(name string, absent bool) (bool, error) {
	if !r.Query.Has(name) {
		return absent, nil
	}
	return r.Flag(name)
}

// Number reads an integer query parameter, 0 if it is absent.
func (r *Request) Number(name string) (int64, error) {
	v := r.Query.Get(name)
	if v == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return 0, apierror.Errorf(http.StatusBadRequest, "Failed to parse value of %q (%v) as an int", name, v)
	}
	return n, nil
}

// Decode decodes the JSON body into v. An empty body is an error.
func (r *Request) Decode(v any) error {
	switch err := r.DecodeOptional(v); {
	case errors.Is(err, io.EOF):
		return apierror.Errorf(http.StatusBadRequest, "Request body is empty")
	default:
		return err
	}
}

// DecodeOptional is decode, but returns io.EOF for an empty body.
func (r *Request) DecodeOptional(v any) error {
	if r.Body == nil {
		return io.EOF
	}
	var in io.Reader = r.Body
	if r.tee != nil {
		in = io.TeeReader(in, r.tee)
	}
	err := json.NewDecoder(&objectCounter{in: in, left: maxObjects}).Decode(v)
	fault := BodyFault(err)
	switch {
	case err == nil:
		return codec.CheckNulls(v)
	case errors.Is(err, io.EOF):
		return err
	case fault != nil:
		return fault
	case errors.Is(err, errTooManyObjects):
		return apierror.Errorf(http.StatusBadRequest, "request body contains more than %d objects and lists", maxObjects)
	default:
		return apierror.Errorf(http.StatusBadRequest, "request body is not valid JSON for this route: %v", err)
	}
}
