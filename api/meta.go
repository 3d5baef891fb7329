package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// QueryOptions are the choices that every read has. The zero value reads the
// client's region and namespace and answers at once.
type QueryOptions struct {
	Region    string
	Namespace string
	// AllowStale lets any server answer, not only the leader.
	AllowStale bool
	// WaitIndex makes the query block until something is newer than this index,
	// for WaitTime at most.
	WaitIndex uint64
	WaitTime  time.Duration
	Prefix    string
	Params    map[string]string
	Headers   map[string]string
	AuthToken string
	// Filter is a boolean expression over the fields of what is listed.
	Filter    string
	PerPage   int32
	NextToken string
	Reverse   bool

	ctx context.Context
}

// WithContext returns a copy of the options whose request ends with ctx.
func (o *QueryOptions) WithContext(ctx context.Context) *QueryOptions {
	out := QueryOptions{}
	if o != nil {
		out = *o
	}
	out.ctx = ctx
	return &out
}

// Context returns the context of the request, never nil.
func (o *QueryOptions) Context() context.Context {
	if o == nil || o.ctx == nil {
		return context.Background()
	}
	return o.ctx
}

// WriteOptions are the choices that every write has.
type WriteOptions struct {
	Region           string
	Namespace        string
	AuthToken        string
	Headers          map[string]string
	IdempotencyToken string

	ctx context.Context
}

// WithContext returns a copy of the options whose request ends with ctx.
func (o *WriteOptions) WithContext(ctx context.Context) *WriteOptions {
	out := WriteOptions{}
	if o != nil {
		out = *o
	}
	out.ctx = ctx
	return &out
}

// Context returns the context of the request, never nil.
func (o *WriteOptions) Context() context.Context {
	if o == nil || o.ctx == nil {
		return context.Background()
	}
	return o.ctx
}

// QueryMeta is what the agent says about every read. LastIndex is what the next
// blocking query waits for.
type QueryMeta struct {
	LastIndex   uint64
	LastContact time.Duration
	KnownLeader bool
	RequestTime time.Duration
	NextToken   string
}

// NextIndex is the WaitIndex of a query that waits for the next change. It is not LastIndex where
// that is 0, as of a list that was never written: such a query would not wait.
func (m *QueryMeta) NextIndex() uint64 { return max(m.LastIndex, 1) }

// WriteMeta is what the agent says about every write.
type WriteMeta struct {
	LastIndex   uint64
	RequestTime time.Duration
}

// apply adds the options to a request.
func (o *QueryOptions) apply(r *request) {
	if o == nil {
		return
	}
	r.ctx = o.Context()
	r.common(o.Region, o.Namespace, o.AuthToken, o.Headers)
	if o.AllowStale {
		r.params.Set("stale", "")
	}
	if o.WaitIndex != 0 {
		r.params.Set("index", strconv.FormatUint(o.WaitIndex, 10))
	}
	if o.WaitTime != 0 {
		r.params.Set("wait", o.WaitTime.String())
	}
	setIf(r.params, "prefix", o.Prefix)
	setIf(r.params, "filter", o.Filter)
	if o.PerPage != 0 {
		r.params.Set("per_page", strconv.Itoa(int(o.PerPage)))
	}
	setIf(r.params, "next_token", o.NextToken)
	if o.Reverse {
		r.params.Set("reverse", "true")
	}
	for k, v := range o.Params {
		r.params.Set(k, v)
	}
}

// apply adds the options to a request.
func (o *WriteOptions) apply(r *request) {
	if o == nil {
		return
	}
	r.ctx = o.Context()
	r.common(o.Region, o.Namespace, o.AuthToken, o.Headers)
	setIf(r.params, "idempotency_token", o.IdempotencyToken)
}

func setIf(v url.Values, key, value string) {
	if value != "" {
		v.Set(key, value)
	}
}

// queryMeta reads the headers of an answer; one that is absent or no number leaves its zero.
func queryMeta(h http.Header, took time.Duration) *QueryMeta {
	index, _ := strconv.ParseUint(h.Get("X-Nomad-Index"), 10, 64)
	contact, _ := strconv.ParseUint(h.Get("X-Nomad-LastContact"), 10, 32)
	return &QueryMeta{
		LastIndex:   index,
		LastContact: time.Duration(contact) * time.Millisecond,
		KnownLeader: h.Get("X-Nomad-KnownLeader") == "true",
		NextToken:   h.Get("X-Nomad-NextToken"),
		RequestTime: took,
	}
}
