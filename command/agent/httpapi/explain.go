package httpapi

import (
	"net/http"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rbac"
)

// explainRoutes returns the route that explains access decisions. Nomad 2.0 does not have it.
func explainRoutes() []web.Route {
	return []web.Route{{Methods: "GET PUT POST", Path: "/v1/acl/explain",
		Handle: web.Read("ACL.Explain", explainQuestion, web.Full[message.ACLExplainResponse])}}
}

// explainBody is a question about a right on an object, or about a request.
type explainBody struct {
	Kind, Name, Right        string
	AccessorID, Role, Policy string
	Workload                 *rbac.JobACL
	Everybody                bool
	Request                  *web.DryRun
}

// explainQuestion reads the question from the body, or for GET from the query.
func explainQuestion(r *web.Request, q *message.ACLExplainRequest) error {
	b := &explainBody{}
	var err error
	if r.Method == http.MethodGet {
		err = explainQuery(r, b)
	} else {
		err = r.Decode(b)
	}
	if err != nil {
		return err
	}
	q.Kind, q.Name, q.Right = b.Kind, b.Name, b.Right
	q.AccessorID, q.Role, q.Policy, q.Workload, q.Everybody = b.AccessorID, b.Role, b.Policy, b.Workload, b.Everybody
	if b.Request == nil {
		return nil
	}
	if b.Kind+b.Name+b.Right != "" {
		return apierror.Errorf(http.StatusBadRequest, "specify a request or a right on an object, not both")
	}
	return r.QuestionOf(b.Request, q)
}

func explainQuery(r *web.Request, b *explainBody) (err error) {
	for name, to := range map[string]*string{"kind": &b.Kind, "name": &b.Name, "right": &b.Right, "accessor": &b.AccessorID, "role": &b.Role,
		"policy": &b.Policy} {
		*to = r.Query.Get(name)
	}
	if text := r.Query.Get("request"); text != "" {
		method, path, _ := strings.Cut(text, " ")
		b.Request = &web.DryRun{Method: method, Path: path}
	}
	if r.Query.Has("workload") {
		w, err := api.ParseJobACL(r.Query.Get("workload"))
		if err != nil {
			return apierror.Errorf(http.StatusBadRequest, "%v", err)
		}
		b.Workload = &rbac.JobACL{Namespace: w.Namespace, JobID: w.JobID, Group: w.Group, Task: w.Task}
	}
	b.Everybody, err = r.Flag("everybody")
	return err
}

// dryAgent returns the node ID of the agent. The other methods are not called: their routes check a
// right first, and a dry run ends there.
type dryAgent struct {
	Agent
	of Agent
}

func (d dryAgent) NodeID() string            { return d.of.NodeID() }
func (dryAgent) Health() (client, _ *Health) { return nil, nil }
