package httpapi

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/variable"
)

// variableRoutes returns the routes of variables. None of them allows cross-origin reads, because
// variables are secrets.
func variableRoutes() []web.Route {
	return []web.Route{
		{Methods: "GET", Path: "/v1/vars", Handle: web.Read("Variables.List", web.NoFields[message.VariablesListRequest], variableList)},
		{Methods: "GET", Path: "/v1/vars/tree", Handle: web.Read("Variables.Tree", web.NoFields[message.VariablesTreeRequest], variableTree)},
		{Methods: "GET", Path: "/v1/var/:path",
			Handle: web.Read("Variables.Read", func(r *web.Request, q *message.VariablesReadRequest) error { q.Path = r.Param; return nil },
				func(o *message.VariablesReadResponse) (any, error) {
					if o.Data == nil {
						return nil, apierror.Errorf(http.StatusNotFound, "variable not found")
					}
					return showVariable(o.Data), nil
				})},
		{Methods: "PUT POST", Path: "/v1/var/:path", Call: web.Call{Method: "Variables.Apply", Handle: variablePut}},
		{Methods: "DELETE", Path: "/v1/var/:path", Handle: variableDelete},
	}
}

// metadataView is the JSON form of a variable without its items.
type metadataView struct {
	Namespace   string
	Path        string
	CreateIndex uint64
	ModifyIndex uint64
	CreateTime  int64
	ModifyTime  int64
	Lock        *lockView `codec:",omitempty"`
}

// variableView is the JSON form of a variable.
type variableView struct {
	metadataView
	Items variable.Items
}

// lockView is the JSON form of a lock. Durations are strings, "" for none.
type lockView struct {
	ID, TTL, LockDelay string
}

func showMetadata(m *variable.Metadata) metadataView {
	out := metadataView{Namespace: m.Namespace, Path: m.Path, CreateIndex: m.CreateIndex, ModifyIndex: m.ModifyIndex,
		CreateTime: m.CreateTime, ModifyTime: m.ModifyTime}
	if l := m.Lock; l != nil {
		out.Lock = &lockView{ID: l.ID}
		if l.TTL != 0 {
			out.Lock.TTL = l.TTL.String()
		}
		if l.LockDelay != 0 {
			out.Lock.LockDelay = l.LockDelay.String()
		}
	}
	return out
}

func showVariable(v *variable.Decrypted) variableView {
	return variableView{metadataView: showMetadata(&v.Metadata), Items: v.Items}
}

func variableList(o *message.VariablesListResponse) (any, error) {
	out := make([]metadataView, 0, len(o.Data))
	for _, m := range o.Data {
		out = append(out, showMetadata(m))
	}
	return out, nil
}

func variableTree(o *message.VariablesTreeResponse) (any, error) {
	out := make([]variableView, 0, len(o.Data))
	for _, v := range o.Data {
		out = append(out, showVariable(v))
	}
	return out, nil
}

// expectedIndex returns the expected index of the variable, and whether the query has one.
func expectedIndex(r *web.Request) (index uint64, checked bool, err error) {
	if !r.Query.Has("cas") {
		return 0, false, nil
	}
	if index, err = strconv.ParseUint(r.Query.Get("cas"), 10, 64); err != nil {
		return 0, false, apierror.Errorf(http.StatusBadRequest, "invalid cas %q: use the ModifyIndex of the variable, or 0 if it must not exist",
			r.Query.Get("cas"))
	}
	return index, true, nil
}

// lockOperation returns the lock operation of the query, "" if there is none.
func lockOperation(r *web.Request) (string, error) {
	found := ""
	for _, name := range []string{"lock-acquire", "lock-release", "lock-renew"} {
		if !r.Query.Has(name) {
			continue
		}
		if found != "" || r.Query.Has("cas") {
			return "", apierror.Errorf(http.StatusBadRequest, "use only one of cas, lock-acquire, lock-release and lock-renew")
		}
		found = name
	}
	return found, nil
}

// variablePut stores a variable, or changes its lock if the query has a lock operation.
func variablePut(r *web.Request) (any, error) {
	v := new(variable.Decrypted)
	if err := r.Decode(v); err != nil {
		return nil, err
	}
	if err := web.SameID("Variable", &v.Path, r.Param); err != nil {
		return nil, err
	}
	if ns := r.Query.Get("namespace"); ns != "" && v.Namespace != "" && ns != v.Namespace {
		return nil, apierror.Errorf(http.StatusBadRequest, "namespace %q of the variable does not match namespace %q of the request", v.Namespace,
			ns)
	}
	lock, err := lockOperation(r)
	if err != nil {
		return nil, err
	}
	index, checked, err := expectedIndex(r)
	if err != nil {
		return nil, err
	}
	v.ModifyIndex = index
	switch {
	case lock == "lock-renew":
		return variableRenew(r, v)
	case lock != "":
		return variableApply(r, variable.Op(lock), v)
	case checked:
		return variableApply(r, variable.OpCAS, v)
	}
	return variableApply(r, variable.OpSet, v)
}

func variableDelete(r *web.Request) (any, error) {
	index, checked, err := expectedIndex(r)
	if err != nil {
		return nil, err
	}
	v := &variable.Decrypted{Metadata: variable.Metadata{Path: r.Param, ModifyIndex: index}}
	op := variable.OpDelete
	if checked {
		op = variable.OpDeleteCAS
	}
	if _, err := variableApply(r, op, v); err != nil {
		return nil, err
	}
	r.Reply.WriteHeader(http.StatusNoContent)
	return nil, web.ErrDone
}

// namespaceFor returns the namespace of a write: that of the query, or else of the variable.
func namespaceFor(r *web.Request, v *variable.Decrypted) string {
	if r.Query.Get("namespace") == "" && v.Namespace != "" {
		r.NoteNamespace(v.Namespace)
		return v.Namespace
	}
	return r.Namespace()
}

// variableApply applies an operation. On a conflict it replies 409 with the current variable.
func variableApply(r *web.Request, op variable.Op, v *variable.Decrypted) (any, error) {
	req, out := &message.VariablesApplyRequest{Op: op}, new(message.VariablesApplyResponse)
	r.WriteOptions(&req.WriteRequest)
	req.Namespace = namespaceFor(r, v)
	v.Namespace = req.Namespace
	req.Var = v
	if err := r.RPC().Call(r.Context(), "Variables.Apply", req, out); err != nil {
		return nil, err
	}
	r.SetIndex(out)
	switch {
	case out.Result == variable.ResultOk && out.Output != nil:
		return showVariable(out.Output), nil
	case out.Result == variable.ResultOk:
		return nil, nil
	case out.Conflict == nil:
		return nil, errors.New("variable not written: no reason in the response")
	}
	var shown any = showVariable(out.Conflict)
	if out.Result == variable.ResultRedacted {
		shown = showMetadata(&out.Conflict.Metadata)
	}
	text, err := web.EncodeJSON(shown, r.Pretty())
	if err != nil {
		return nil, err
	}
	r.Reply.Header().Set("Content-Type", "application/json")
	r.Reply.WriteHeader(http.StatusConflict)
	r.Reply.Write(text) // the reader is gone when this fails
	return nil, web.ErrDone
}

func variableRenew(r *web.Request, v *variable.Decrypted) (any, error) {
	req, out := &message.VariablesRenewLockRequest{Path: v.Path, LockID: v.LockID()}, new(message.VariablesRenewLockResponse)
	r.WriteOptions(&req.WriteRequest)
	req.Namespace = namespaceFor(r, v)
	if err := r.RPC().Call(r.Context(), "Variables.RenewLock", req, out); err != nil {
		return nil, err
	}
	r.SetIndex(out)
	return showMetadata(out.VarMeta), nil
}
