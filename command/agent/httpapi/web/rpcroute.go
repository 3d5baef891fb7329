package web

import (
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

type reads interface{ Query() *message.QueryOptions }

type writes interface{ Write() *message.WriteRequest }

// Read returns the handler of a route that makes one read RPC. fill sets fields from the path and
// the query and may be nil. pick selects the body from the reply.
func Read[Req, Resp any](method string, fill func(*Request, *Req) error, pick func(*Resp) (any, error)) Handler {
	return func(r *Request) (any, error) {
		req, resp := new(Req), new(Resp)
		if err := r.ReadOptions(any(req).(reads).Query()); err != nil {
			return nil, err
		}
		if fill != nil {
			if err := fill(r, req); err != nil {
				return nil, err
			}
		}
		if err := r.RPC().Call(r.Context(), method, req, resp); err != nil {
			return nil, err
		}
		if m, ok := any(resp).(interface{ ReadMeta() *message.QueryMeta }); ok {
			setReadMeta(r.Reply.Header(), m.ReadMeta())
		}
		return pick(resp)
	}
}

// Write returns the call of a route that makes one write RPC.
func Write[Req, Resp any](method string, fill func(*Request, *Req) error, pick func(*Resp) (any, error)) Call {
	return Call{method, func(r *Request) (any, error) {
		req, resp := new(Req), new(Resp)
		w, isWrite := any(req).(writes)
		if fill != nil {
			if err := fill(r, req); err != nil {
				return nil, err
			}
		}
		if isWrite {
			r.overWriteOptions(w.Write())
		} else if err := r.ReadOptions(any(req).(reads).Query()); err != nil {
			return nil, err
		}
		if err := r.RPC().Call(r.Context(), method, req, resp); err != nil {
			return nil, err
		}
		r.SetIndex(resp)
		return pick(resp)
	}}
}

// overWriteOptions sets the options of a write. The namespace of the query takes precedence over
// that of the body. The region of the body takes precedence over that of the query and the agent.
func (r *Request) overWriteOptions(w *message.WriteRequest) {
	region, namespace := w.Region, w.Namespace
	r.WriteOptions(w)
	if region != "" {
		w.Region = region
	}
	if namespace != "" && !r.Query.Has("namespace") {
		w.Namespace = namespace
	}
	r.NoteNamespace(w.Namespace)
}

// Body returns a function that decodes the JSON body into the request, then runs the steps.
func Body[Req any](steps ...func(*Request, *Req) error) func(*Request, *Req) error {
	return func(r *Request, req *Req) error {
		if err := r.Decode(req); err != nil {
			return err
		}
		return run(r, req, append([]func(*Request, *Req) error{sameScope[Req]}, steps...))
	}
}

// OptionalBody is Body for a route whose body may be empty.
func OptionalBody[Req any](steps ...func(*Request, *Req) error) func(*Request, *Req) error {
	return func(r *Request, req *Req) error {
		if err := r.DecodeOptional(req); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		return run(r, req, append([]func(*Request, *Req) error{sameScope[Req]}, steps...))
	}
}

// sameScope refuses the body of a write with another region or namespace than the query. A read, such as a search,
// uses those of the query, as in Nomad.
func sameScope[Req any](r *Request, req *Req) error {
	in, ok := any(req).(writes)
	if !ok {
		return nil
	}
	w := in.Write()
	for _, s := range []struct{ name, body string }{{"region", w.Region}, {"namespace", w.Namespace}} {
		if query := r.Query.Get(s.name); query != "" && s.body != "" && query != s.body {
			return apierror.Errorf(http.StatusBadRequest, "%s %q of the body does not match %s %q of the query: use one of them", s.name, s.body,
				s.name, query)
		}
	}
	return nil
}

func run[Req any](r *Request, req *Req, steps []func(*Request, *Req) error) error {
	for _, step := range steps {
		if err := step(r, req); err != nil {
			return err
		}
	}
	return nil
}

// Full returns the complete response.
func Full[Resp any](resp *Resp) (any, error) { return resp, nil }

// Nothing returns an empty body.
func Nothing[Resp any](*Resp) (any, error) { return nil, nil }

// EmptyObject returns {}, for SDKs that decode the reply.
func EmptyObject[Resp any](*Resp) (any, error) { return struct{}{}, nil }

// Found returns v, or a 404 error with text if v is nil.
func Found[T any](v *T, text string) (any, error) {
	if v == nil {
		return nil, apierror.Errorf(http.StatusNotFound, "%s", text)
	}
	return v, nil
}

// SetIndex sets the headers of the reply from the response of an RPC.
func (r *Request) SetIndex(resp any) {
	h := r.Reply.Header()
	switch m := resp.(type) {
	case interface{ WrittenMeta() *message.WriteMeta }:
		h.Set("X-Nomad-Index", strconv.FormatUint(m.WrittenMeta().Index, 10))
	case interface{ ReadMeta() *message.QueryMeta }:
		setReadMeta(h, m.ReadMeta())
	}
}

// NoFields fills a request that has only query options.
func NoFields[Req any](*Request, *Req) error { return nil }

// SameID sets an ID from the path. An ID in the body must be equal.
func SameID(what string, id *string, param string) error {
	if *id != "" && *id != param {
		return apierror.Errorf(http.StatusBadRequest, "%s ID does not match", what)
	}
	*id = param
	return nil
}
