package httpapi

import (
	"net/http"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

func (s *Server) allocRoutes() []route {
	const alloc, eval, deployment = "/v1/allocation/:alloc_id", "/v1/evaluation/:eval_id", "/v1/deployment/:id"
	return []route{
		{methods: "GET", path: "/v1/allocations", handle: read("Alloc.List", allocList, func(o *message.AllocListResponse) (any, error) { return o.Allocations, nil })},
		{methods: "GET", path: alloc, handle: read("Alloc.GetAlloc", func(r *request, q *message.AllocSpecificRequest) error { q.AllocID = r.param; return nil }, showAlloc)},
		{methods: "GET", path: alloc + "/checks", handle: allocChecks()},
		{methods: "PUT POST", path: alloc + "/stop", handle: missing("allocation not found", write("Alloc.Stop", allocStop, whole[message.AllocStopResponse]).handle)},

		{methods: "GET", path: "/v1/evaluations", handle: read("Eval.List", evalList, func(o *message.EvalListResponse) (any, error) { return o.Evaluations, nil })},
		{methods: "DELETE", path: "/v1/evaluations", call: write("Eval.Delete", body[message.EvalDeleteRequest](), whole[message.EvalDeleteResponse])},
		{methods: "GET", path: "/v1/evaluations/count", handle: read("Eval.Count", func(*request, *message.EvalCountRequest) error { return nil }, whole[message.EvalCountResponse])},
		{methods: "GET", path: eval, handle: read("Eval.GetEval", evalID, func(o *message.SingleEvalResponse) (any, error) { return found(o.Eval, "eval not found") })},
		{methods: "GET", path: eval + "/allocations", handle: read("Eval.Allocations", evalID, func(o *message.EvalAllocationsResponse) (any, error) { return o.Allocations, nil })},

		{methods: "GET", path: "/v1/deployments", handle: read("Deployment.List", func(*request, *message.DeploymentListRequest) error { return nil }, func(o *message.DeploymentListResponse) (any, error) { return o.Deployments, nil })},
		{methods: "GET", path: "/v1/deployment/allocations/:id", handle: read("Deployment.Allocations", deploymentID, func(o *message.AllocListResponse) (any, error) { return o.Allocations, nil })},
		{methods: "PUT POST", path: "/v1/deployment/fail/:id", call: write("Deployment.Fail", func(r *request, q *message.DeploymentFailRequest) error { q.DeploymentID = r.param; return nil }, whole[message.DeploymentUpdateResponse])},
		{methods: "PUT POST", path: "/v1/deployment/pause/:id", call: write("Deployment.Pause", body(func(r *request, q *message.DeploymentPauseRequest) error {
			return sameID("Deployment", &q.DeploymentID, r.param)
		}), whole[message.DeploymentUpdateResponse])},
		{methods: "PUT POST", path: "/v1/deployment/promote/:id", call: write("Deployment.Promote", body(func(r *request, q *message.DeploymentPromoteRequest) error {
			return sameID("Deployment", &q.DeploymentID, r.param)
		}), whole[message.DeploymentUpdateResponse])},
		{methods: "PUT POST", path: "/v1/deployment/allocation-health/:id", call: write("Deployment.SetAllocHealth", body(func(r *request, q *message.DeploymentAllocHealthRequest) error {
			return sameID("Deployment", &q.DeploymentID, r.param)
		}), whole[message.DeploymentUpdateResponse])},
		{methods: "GET", path: deployment, handle: read("Deployment.GetDeployment", deploymentID, func(o *message.SingleDeploymentResponse) (any, error) {
			return found(o.Deployment, "deployment not found")
		})},
	}
}

func allocList(r *request, q *message.AllocListRequest) error {
	resources, err := r.flag("resources")
	if err != nil {
		return err
	}
	states, err := r.flagOr("task_states", true)
	q.Fields = &nomad.AllocStubFields{Resources: resources, TaskStates: states}
	return err
}

func allocStop(r *request, q *message.AllocStopRequest) error {
	q.AllocID = r.param
	var err error
	if q.NoShutdownDelay, err = r.flag("no_shutdown_delay"); err != nil {
		return err
	}
	q.Reschedule, err = r.flag("reschedule")
	return err
}

func showAlloc(o *message.SingleAllocResponse) (any, error) {
	if o.Alloc == nil {
		return nil, nomad.Errorf(http.StatusNotFound, "alloc not found")
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

func evalList(r *request, q *message.EvalListRequest) error {
	q.FilterJobID, q.FilterEvalStatus = r.query.Get("job"), r.query.Get("status")
	return nil
}

func evalID(r *request, q *message.EvalSpecificRequest) error {
	related, err := r.flag("related")
	q.EvalID, q.IncludeRelated = r.param, related
	return err
}

func deploymentID(r *request, q *message.DeploymentSpecificRequest) error {
	q.DeploymentID = r.param
	return nil
}

// missing replaces the text of a 404 error with the text of the route. The marker of a hidden
// object is kept.
func missing(text string, handle func(*request) (any, error)) func(*request) (any, error) {
	return func(r *request) (any, error) {
		out, err := handle(r)
		if err != nil && status(err) == http.StatusNotFound {
			_, hidden := nomad.CutHidden(err.Error())
			return nil, nomad.Errorf(http.StatusNotFound, "%s%s", text, hidden)
		}
		return out, err
	}
}
