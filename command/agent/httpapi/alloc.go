package httpapi

import (
	"net/http"

	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

func allocRoutes() []web.Route {
	const alloc, eval, deployment = "/v1/allocation/:alloc_id", "/v1/evaluation/:eval_id", "/v1/deployment/:id"
	return []web.Route{
		{Methods: "GET", Path: "/v1/allocations",
			Handle: web.Read("Alloc.List", allocList, func(o *message.AllocListResponse) (any, error) { return o.Allocations, nil })},
		{Methods: "GET", Path: alloc, Handle: web.Read("Alloc.GetAlloc",
			func(r *web.Request, q *message.AllocSpecificRequest) error { q.AllocID = r.Param; return nil }, showAlloc)},
		{Methods: "GET", Path: alloc + "/checks", Handle: allocChecks()},
		{Methods: "PUT POST", Path: alloc + "/stop",
			Handle: missing("allocation not found", web.Write("Alloc.Stop", allocStop, web.Full[message.AllocStopResponse]).Handle)},

		{Methods: "GET", Path: "/v1/evaluations",
			Handle: web.Read("Eval.List", evalList, func(o *message.EvalListResponse) (any, error) { return o.Evaluations, nil })},
		{Methods: "DELETE", Path: "/v1/evaluations",
			Call: web.Write("Eval.Delete", web.Body[message.EvalDeleteRequest](), web.Full[message.EvalDeleteResponse])},
		{Methods: "GET", Path: "/v1/evaluations/count",
			Handle: web.Read("Eval.Count", func(*web.Request, *message.EvalCountRequest) error { return nil }, web.Full[message.EvalCountResponse])},
		{Methods: "GET", Path: eval, Handle: web.Read("Eval.GetEval", evalID,
			func(o *message.SingleEvalResponse) (any, error) { return web.Found(o.Eval, "eval not found") })},
		{Methods: "GET", Path: eval + "/allocations",
			Handle: web.Read("Eval.Allocations", evalID, func(o *message.EvalAllocationsResponse) (any, error) { return o.Allocations, nil })},

		{Methods: "GET", Path: "/v1/deployments",
			Handle: web.Read("Deployment.List", func(*web.Request, *message.DeploymentListRequest) error { return nil },
				func(o *message.DeploymentListResponse) (any, error) { return o.Deployments, nil })},
		{Methods: "GET", Path: "/v1/deployment/allocations/:id",
			Handle: web.Read("Deployment.Allocations", deploymentID, func(o *message.AllocListResponse) (any, error) { return o.Allocations, nil })},
		{Methods: "PUT POST", Path: "/v1/deployment/fail/:id",
			Call: web.Write("Deployment.Fail", func(r *web.Request, q *message.DeploymentFailRequest) error { q.DeploymentID = r.Param; return nil },
				web.Full[message.DeploymentUpdateResponse])},
		{Methods: "PUT POST", Path: "/v1/deployment/pause/:id",
			Call: web.Write("Deployment.Pause", web.Body(func(r *web.Request, q *message.DeploymentPauseRequest) error {
				return web.SameID("Deployment", &q.DeploymentID, r.Param)
			}), web.Full[message.DeploymentUpdateResponse])},
		{Methods: "PUT POST", Path: "/v1/deployment/unblock/:id",
			Call: web.Write("Deployment.Unblock", web.Body(func(r *web.Request, q *message.DeploymentUnblockRequest) error {
				return web.SameID("Deployment", &q.DeploymentID, r.Param)
			}), web.Full[message.DeploymentUpdateResponse])},
		{Methods: "PUT POST", Path: "/v1/deployment/promote/:id",
			Call: web.Write("Deployment.Promote", web.Body(func(r *web.Request, q *message.DeploymentPromoteRequest) error {
				return web.SameID("Deployment", &q.DeploymentID, r.Param)
			}), web.Full[message.DeploymentUpdateResponse])},
		{Methods: "PUT POST", Path: "/v1/deployment/allocation-health/:id",
			Call: web.Write("Deployment.SetAllocHealth", web.Body(func(r *web.Request, q *message.DeploymentAllocHealthRequest) error {
				return web.SameID("Deployment", &q.DeploymentID, r.Param)
			}), web.Full[message.DeploymentUpdateResponse])},
		{Methods: "GET", Path: deployment,
			Handle: web.Read("Deployment.GetDeployment", deploymentID, func(o *message.SingleDeploymentResponse) (any, error) {
				return web.Found(o.Deployment, "deployment not found")
			})},
	}
}

func allocList(r *web.Request, q *message.AllocListRequest) error {
	resources, err := r.Flag("resources")
	if err != nil {
		return err
	}
	states, err := r.FlagOr("task_states", true)
	q.Fields = &nomad.AllocStubFields{Resources: resources, TaskStates: states}
	return err
}

func allocStop(r *web.Request, q *message.AllocStopRequest) error {
	q.AllocID = r.Param
	var err error
	if q.NoShutdownDelay, err = r.Flag("no_shutdown_delay"); err != nil {
		return err
	}
	q.Reschedule, err = r.Flag("reschedule")
	return err
}

func showAlloc(o *message.SingleAllocResponse) (any, error) {
	if o.Alloc == nil {
		return nil, apierror.Errorf(http.StatusNotFound, "alloc not found")
	}
	public := publicAllocs([]*nomad.Allocation{o.Alloc})[0]
	if public.Job == nil {
		return public, nil
	}
	var err error
	public.Job, err = withPayload(public.Job)
	return public, err
}

// publicAllocs removes the fields that only the node of an allocation may see, such as its tokens.
// The RPCs behind these routes remove them too.
func publicAllocs(allocs []*nomad.Allocation) []*nomad.Allocation {
	out := make([]*nomad.Allocation, len(allocs))
	for i, a := range allocs {
		out[i] = a.Public()
	}
	return out
}

func evalList(r *web.Request, q *message.EvalListRequest) error {
	q.FilterJobID, q.FilterEvalStatus = r.Query.Get("job"), r.Query.Get("status")
	return nil
}

func evalID(r *web.Request, q *message.EvalSpecificRequest) error {
	related, err := r.Flag("related")
	q.EvalID, q.IncludeRelated = r.Param, related
	return err
}

func deploymentID(r *web.Request, q *message.DeploymentSpecificRequest) error {
	q.DeploymentID = r.Param
	return nil
}

// missing replaces the text of a 404 error with the text of the route. The marker of a hidden
// object is kept.
func missing(text string, handle web.Handler) web.Handler {
	return func(r *web.Request) (any, error) {
		out, err := handle(r)
		if err != nil && apierror.HTTPStatus(err) == http.StatusNotFound {
			_, hidden := apierror.CutHidden(err.Error())
			return nil, apierror.Errorf(http.StatusNotFound, "%s%s", text, hidden)
		}
		return out, err
	}
}
