package httpapi

import (
	"net/http"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

func jobActions(r *web.Request, q *message.JobActionListRequest) error { q.JobID = r.Param; return nil }

// jobAction connects a websocket to an action of a job. The parameters group and command of the
// query are ignored, as in Nomad 2.0.
func (s *Server) jobAction(r *web.Request) (any, error) {
	if r.IsDry() {
		return nil, r.Ask(web.InNamespace(acl.AllocExec))
	}
	return connect(r, sessionKind{execMethod, acl.AllocExec, &s.execs, &s.pending}, actionRequest)
}

// actionRequest reads the request from the path and the query. The node looks up the command.
func actionRequest(r *web.Request) (*message.AllocExecRequest, error) {
	q := &message.AllocExecRequest{JobID: r.Param, AllocID: r.Query.Get("allocID"), Action: r.Query.Get("action")}
	if err := readSession(r, q); err != nil {
		return nil, err
	}
	switch {
	case q.AllocID == "":
		return nil, apierror.Errorf(http.StatusBadRequest, "Must provide an allocation: use ?allocID= with its full ID")
	case q.Task == "":
		return nil, apierror.Errorf(http.StatusBadRequest, "Must provide a task: use ?task= with its name")
	case q.Action == "":
		return nil, apierror.Errorf(http.StatusBadRequest, "Must provide an action: use ?action= with its name")
	}
	return q, nil
}
