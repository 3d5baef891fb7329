package httpapi

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// variableRoutes returns the routes of variables. None of them allows cross-origin reads, because
// variables are secrets.
func (s *Server) variableRoutes() []route {
	return []route{
		{methods: "GET", path: "/v1/vars", handle: read("Variables.List", noFields[message.VariablesListRequest], variableList)},
		{methods: "GET", path: "/v1/var/:path", handle: read("Variables.Read", func(r *request, q *message.VariablesReadRequest) error { q.Path = r.param; return nil },
			func(o *message.VariablesReadResponse) (any, error) {
				if o.Data == nil {
					return nil, nomad.Errorf(http.StatusNotFound, "variable not found")
				}
				return showVariable(o.Data), nil
			})},
		{methods: "PUT POST", path: "/v1/var/:path", call: call{"Variables.Apply", s.variablePut}},
		{methods: "DELETE", path: "/v1/var/:path", handle: s.variableDelete},
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
	Items nomad.VariableItems
}

// lockView is the JSON form of a lock. Durations are strings, "" for none.
type lockView struct {
	ID, TTL, LockDelay string
}

func showMetadata(m *nomad.VariableMetadata) metadataView {
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

func showVariable(v *nomad.VariableDecrypted) variableView {
	return variableView{metadataView: showMetadata(&v.VariableMetadata), Items: v.Items}
}

func variableList(o *message.VariablesListResponse) (any, error) {
	out := make([]metadataView, 0, len(o.Data))
	for _, m := range o.Data {
		out = append(out, showMetadata(m))
	}
	return out, nil
}

// cas returns the expected index of the variable, and whether the query has one.
func (r *request) cas() (index uint64, checked bool, err error) {
	if !r.query.Has("cas") {
		return 0, false, nil
	}
	if index, err = strconv.ParseUint(r.query.Get("cas"), 10, 64); err != nil {
		return 0, false, nomad.Errorf(http.StatusBadRequest, "invalid cas %q: use the ModifyIndex of the variable, or 0 if it must not exist", r.query.Get("cas"))
	}
	return index, true, nil
}

// lockOperation returns the lock operation of the query, "" if there is none.
func (r *request) lockOperation() (string, error) {
	found := ""
	for _, name := range []string{"lock-acquire", "lock-release", "lock-renew"} {
		if !r.query.Has(name) {
			continue
		}
		if found != "" || r.query.Has("cas") {
			return "", nomad.Errorf(http.StatusBadRequest, "use only one of cas, lock-acquire, lock-release and lock-renew")
		}
		found = name
	}
	return found, nil
}

// variablePut stores a variable, or changes its lock if the query has a lock operation.
func (s *Server) variablePut(r *request) (any, error) {
	v := new(nomad.VariableDecrypted)
	if err := r.decode(v); err != nil {
		return nil, err
	}
	if err := sameID("Variable", &v.Path, r.param); err != nil {
		return nil, err
	}
	if ns := r.query.Get("namespace"); ns != "" && v.Namespace != "" && ns != v.Namespace {
		return nil, nomad.Errorf(http.StatusBadRequest, "namespace %q of the variable does not match namespace %q of the request", v.Namespace, ns)
	}
	lock, err := r.lockOperation()
	if err != nil {
		return nil, err
	}
	index, checked, err := r.cas()
	if err != nil {
		return nil, err
	}
	v.ModifyIndex = index
	switch {
	case lock == "lock-renew":
		return s.variableRenew(r, v)
	case lock != "":
		return s.variableApply(r, nomad.VarOp(lock), v)
	case checked:
		return s.variableApply(r, nomad.VarOpCAS, v)
	}
	return s.variableApply(r, nomad.VarOpSet, v)
}

func (s *Server) variableDelete(r *request) (any, error) {
	index, checked, err := r.cas()
	if err != nil {
		return nil, err
	}
	v := &nomad.VariableDecrypted{VariableMetadata: nomad.VariableMetadata{Path: r.param, ModifyIndex: index}}
	op := nomad.VarOpDelete
	if checked {
		op = nomad.VarOpDeleteCAS
	}
	if _, err := s.variableApply(r, op, v); err != nil {
		return nil, err
	}
	r.w.WriteHeader(http.StatusNoContent)
	return nil, errDone
}

// namespaceFor returns the namespace of a write: that of the query, or else of the variable.
func (r *request) namespaceFor(v *nomad.VariableDecrypted) string {
	if r.query.Get("namespace") == "" && v.Namespace != "" {
		noteNamespace(r.w, v.Namespace)
		return v.Namespace
	}
	return r.namespace()
}

// variableApply applies an operation. On a conflict it replies 409 with the current variable.
func (s *Server) variableApply(r *request, op nomad.VarOp, v *nomad.VariableDecrypted) (any, error) {
	req, out := &message.VariablesApplyRequest{Op: op}, new(message.VariablesApplyResponse)
	r.writeOptions(&req.WriteRequest)
	req.Namespace = r.namespaceFor(v)
	v.Namespace = req.Namespace
	req.Var = v
	if err := s.cfg.RPC.Call(r.Context(), "Variables.Apply", req, out); err != nil {
		return nil, err
	}
	setIndex(r.w.Header(), out)
	switch {
	case out.Result == nomad.VarOpResultOk && out.Output != nil:
		return showVariable(out.Output), nil
	case out.Result == nomad.VarOpResultOk:
		return nil, nil
	case out.Conflict == nil:
		return nil, errors.New("variable not written: no reason in the response")
	}
	var shown any = showVariable(out.Conflict)
	if out.Result == nomad.VarOpResultRedacted {
		shown = showMetadata(&out.Conflict.VariableMetadata)
	}
	text, err := encodeJSON(shown, r.pretty())
	if err != nil {
		return nil, err
	}
	r.w.Header().Set("Content-Type", "application/json")
	r.w.WriteHeader(http.StatusConflict)
	r.w.Write(text) // the reader is gone when this fails
	return nil, errDone
}

func (s *Server) variableRenew(r *request, v *nomad.VariableDecrypted) (any, error) {
	req, out := &message.VariablesRenewLockRequest{Path: v.Path, LockID: v.LockID()}, new(message.VariablesRenewLockResponse)
	r.writeOptions(&req.WriteRequest)
	req.Namespace = r.namespaceFor(v)
	if err := s.cfg.RPC.Call(r.Context(), "Variables.RenewLock", req, out); err != nil {
		return nil, err
	}
	setIndex(r.w.Header(), out)
	return showMetadata(out.VarMeta), nil
}
