package httpapi

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
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// errDone means that the handler has written the reply itself.
var errDone = errors.New("response written")

// request is one HTTP request with its parsed parameters.
type request struct {
	*http.Request
	server *Server
	w      http.ResponseWriter
	param  string
	query  url.Values
	intake *intake // the incoming body, nil if there is none
}

// token returns the caller's token, see Token.
func (r *request) token() string { return Token(r.Request) }

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

// readOptions sets the options of a read from the request. Options from the body are discarded.
func (r *request) readOptions(q *message.QueryOptions) error {
	*q = message.QueryOptions{Region: r.region(), Namespace: r.namespace(), AuthToken: r.token()}
	q.Prefix, q.Filter = r.query.Get("prefix"), r.query.Get("filter")
	var err error
	if q.NextToken, err = tokenOfPage(r.query.Get("next_token")); err != nil {
		return err
	}
	if q.AllowStale, err = r.flag("stale"); err != nil {
		return err
	}
	q.Reverse = r.query.Get("reverse") == "true"
	if v := r.query.Get("per_page"); v != "" {
		n, err := strconv.ParseInt(v, 10, 32)
		if err != nil || n < 0 {
			return nomad.Errorf(http.StatusBadRequest, "Invalid per_page %q: use a number of items", v)
		}
		q.PerPage = int32(n)
	}
	return r.blocking(q)
}

// noPrefix refuses the prefix parameter, for lists that do not support it.
func (r *request) noPrefix() error {
	if r.query.Get("prefix") != "" {
		return nomad.Errorf(http.StatusBadRequest, "prefix is not supported for this list")
	}
	return nil
}

// blocking reads the index and wait parameters.
func (r *request) blocking(q *message.QueryOptions) error {
	if v := r.query.Get("index"); v != "" {
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			return nomad.Errorf(http.StatusBadRequest, "Invalid index")
		}
		q.MinQueryIndex = n
	}
	if v := r.query.Get("wait"); v != "" {
		d, err := time.ParseDuration(v)
		if err != nil {
			return nomad.Errorf(http.StatusBadRequest, "Invalid wait time")
		}
		q.MaxQueryTime = d
	}
	return nil
}

// writeOptions sets the options of a write.
func (r *request) writeOptions(w *message.WriteRequest) {
	*w = message.WriteRequest{Region: r.region(), Namespace: r.namespace(), AuthToken: r.token(),
		IdempotencyToken: r.query.Get("idempotency_token")}
}

func (r *request) region() string {
	if v := r.query.Get("region"); v != "" {
		return v
	}
	return r.server.cfg.Region
}

func (r *request) namespace() string {
	if v := r.query.Get("namespace"); v != "" {
		return v
	}
	return nomad.DefaultNamespace
}

// flag reads a boolean query parameter. A parameter without a value is true.
func (r *request) flag(name string) (bool, error) {
	v, ok := r.query[name]
	if !ok {
		return false, nil
	}
	if v[0] == "" {
		return true, nil
	}
	b, err := strconv.ParseBool(v[0])
	if err != nil {
		return false, nomad.Errorf(http.StatusBadRequest, "Failed to parse value of %q (%v) as a bool", name, v[0])
	}
	return b, nil
}

// flagOr is flag with a default for an absent parameter.
func (r *request) flagOr(name string, absent bool) (bool, error) {
	if !r.query.Has(name) {
		return absent, nil
	}
	return r.flag(name)
}

// number reads an integer query parameter, 0 if it is absent.
func (r *request) number(name string) (int64, error) {
	v := r.query.Get(name)
	if v == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return 0, nomad.Errorf(http.StatusBadRequest, "Failed to parse value of %q (%v) as an int", name, v)
	}
	return n, nil
}

// decode decodes the JSON body into v. An empty body is an error.
func (r *request) decode(v any) error {
	switch err := r.decodeOptional(v); {
	case errors.Is(err, io.EOF):
		return nomad.Errorf(http.StatusBadRequest, "Request body is empty")
	default:
		return err
	}
}

// decodeOptional is decode, but returns io.EOF for an empty body.
func (r *request) decodeOptional(v any) error {
	if r.Body == nil {
		return io.EOF
	}
	err := json.NewDecoder(&objectCounter{in: r.Body, left: maxObjects}).Decode(v)
	fault := bodyFault(err)
	switch {
	case err == nil:
		return codec.CheckNulls(v)
	case errors.Is(err, io.EOF):
		return err
	case fault != nil:
		return fault
	case errors.Is(err, errTooManyObjects):
		return nomad.Errorf(http.StatusBadRequest, "request body contains more than %d objects and lists", maxObjects)
	default:
		return nomad.Errorf(http.StatusBadRequest, "request body is not valid JSON for this route: %v", err)
	}
}
