package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// QueryOptions are the options of reads. The zero value means the region and namespace of
// the client, without blocking.
type QueryOptions struct {
	Region    string
	Namespace string
	// AllowStale allows any server to respond, not only the leader.
	AllowStale bool
	// WaitIndex makes the query block until the index of the result is greater, or
	// until WaitTime has passed.
	WaitIndex uint64
	WaitTime  time.Duration
	Prefix    string
	Params    map[string]string
	Headers   map[string]string
	AuthToken string
	// Filter is a filter expression for the entries of a list.
	Filter    string
	PerPage   int32
	NextToken string
	Reverse   bool

	ctx context.Context
}

// WithContext returns a copy of the options with the context of the request.
func (o *QueryOptions) WithContext(ctx context.Context) *QueryOptions {
	out := QueryOptions{}
	if o != nil {
		out = *o
	}
	out.ctx = ctx
	return &out
}

// Context returns the context of the request. It is never nil.
func (o *QueryOptions) Context() context.Context {
	if o == nil || o.ctx == nil {
		return context.Background()
	}
	return o.ctx
}

// WriteOptions are the options of writes.
type WriteOptions struct {
	Region           string
	Namespace        string
	AuthToken        string
	Headers          map[string]string
	IdempotencyToken string

	ctx context.Context
}

// WithContext returns a copy of the options with the context of the request.
func (o *WriteOptions) WithContext(ctx context.Context) *WriteOptions {
	out := WriteOptions{}
	if o != nil {
		out = *o
	}
	out.ctx = ctx
	return &out
}

// Context returns the context of the request. It is never nil.
func (o *WriteOptions) Context() context.Context {
	if o == nil || o.ctx == nil {
		return context.Background()
	}
	return o.ctx
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

// queryMeta decodes the headers of a response. Missing and invalid headers are zero.
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
