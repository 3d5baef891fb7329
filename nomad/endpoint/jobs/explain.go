package jobs

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/admission"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/rules"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Limits of a response of Job.Explain.
const (
	defaultExplained = 20
	maxExplained     = 200     // nodes of each group on one page
	maxPairs         = 100_000 // groups times nodes that are checked
)

// checkNamespace is the name of the check of the namespace's rules, which is the same on all nodes.
const checkNamespace = "namespace"

// Explain returns the checks of the nodes for each group of a registered job, or of the job in the
// request. The caller needs the rights to read the registered job, or to plan the other one. A caller
// that cannot read nodes gets only the counts that placement reports, because each check of a node reveals something
// about the node.
func (s *Service) Explain(ctx context.Context, c *rpc.Call, req *message.JobExplainRequest) (*message.JobExplainResponse, error) {
	opts := req.QueryOptions
	opts.MinQueryIndex = 0 // the response depends on too many tables to block
	return handler.Read(ctx, s.Core, &opts, func(snap *state.Snapshot, _ memdb.WatchSet, out *message.JobExplainResponse) error {
		out.Index = snap.Index()
		job, err := s.toExplain(c, snap, req)
		if err != nil {
			return err
		}
		e := &explainer{req: req, snap: snap, job: job, reads: c.Access.Allows(acl.ToRead(acl.Nodes)),
			nodes: scheduler.NewExplainer(snap, job, scheduler.Options{Kinds: s.Kinds, Schemas: s.Schemas})}
		if e.reads {
			err = e.explain(out)
		} else {
			err = e.count(out)
		}
		if err != nil {
			return err
		}
		out.Explanation.Vault, out.Explanation.VaultOmitted = s.logins(snap, job, e.chosen())
		return nil
	})
}

// toExplain returns the job of a request, or the registered job that the request names.
func (s *Service) toExplain(c *rpc.Call, snap *state.Snapshot, req *message.JobExplainRequest) (*nomad.Job, error) {
	if req.Job != nil {
		return s.explainable(c, s.admission.At(snap), req)
	}
	namespace := handler.NamespaceOf(req.Namespace)
	if err := c.Access.Need(acl.InNamespace(namespace, acl.ReadJob)); err != nil {
		return nil, err
	}
	job := snap.Job(nil, namespace, req.JobID)
	if job == nil {
		return nil, apierror.Errorf(404, "job %q not found in namespace %q", req.JobID, namespace)
	}
	return job, nil
}

// explainable returns the valid job of a request with its defaults. Its namespace need not admit it,
// and no node needs to accept its configs: these are checks of the explanation.
func (s *Service) explainable(c *rpc.Call, view *admission.View, req *message.JobExplainRequest) (*nomad.Job, error) {
	in := submission{req.Job, message.WriteRequest{Namespace: req.Namespace}, rights{acl.SubmitJob, acl.PlanJob}}
	job, err := s.complete(c, view, in)
	if err != nil {
		return nil, err
	}
	return job, view.Explainable(admission.Planner(c.Access), job)
}

// explainer explains one job.
type explainer struct {
	req   *message.JobExplainRequest
	snap  *state.Snapshot
	job   *nomad.Job
	nodes *scheduler.Explainer
	reads bool // the caller can read nodes
}

func (e *explainer) explain(out *message.JobExplainResponse) error {
	from, err := pageStart(e.req.NextToken)
	if err != nil {
		return err
	}
	nodes := e.selected()
	groups, err := e.groups(len(nodes))
	if err != nil {
		return err
	}
	size := cmp.Or(int(e.req.PerPage), defaultExplained)
	size = min(max(size, 1), maxExplained)
	out.Explanation = &message.JobExplanation{Namespace: e.job.Namespace, JobID: e.job.ID}
	for _, tg := range groups {
		out.Explanation.Groups = append(out.Explanation.Groups, e.group(tg, nodes, from, size))
	}
	if from+size < len(nodes) {
		out.NextToken = strconv.Itoa(from + size)
	}
	return nil
}

// pageStart reads a page token: the count of nodes on earlier pages.
func pageStart(token string) (int, error) {
	if token == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(token)
	if err != nil || n < 0 {
		return 0, apierror.Errorf(400, "invalid page token %q", token)
	}
	return n, nil
}

// groups returns the groups of the request, unless they are too many for the number of nodes.
func (e *explainer) groups(nodes int) ([]*nomad.TaskGroup, error) {
	groups := e.job.TaskGroups
	if e.req.Group != "" {
		tg := e.job.TaskGroup(e.req.Group)
		if tg == nil {
			return nil, apierror.Errorf(404, "job %q has no group %q", e.job.ID, e.req.Group)
		}
		groups = []*nomad.TaskGroup{tg}
	}
	if len(groups)*nodes > maxPairs {
		return nil, apierror.Errorf(400, "%d groups and %d nodes are too many to explain at once: select a group or a node", len(groups), nodes)
	}
	return groups, nil
}

// chosen returns the groups of the request, which exist.
func (e *explainer) chosen() []*nomad.TaskGroup {
	if e.req.Group == "" {
		return e.job.TaskGroups
	}
	return []*nomad.TaskGroup{e.job.TaskGroup(e.req.Group)}
}

// selected returns the nodes of the request, in all pools.
func (e *explainer) selected() (out []*nomad.Node) {
	for n := range e.snap.Nodes(nil) {
		if e.req.Node == "" || strings.HasPrefix(n.ID, e.req.Node) || n.Name == e.req.Node {
			out = append(out, n)
		}
	}
	return out
}

// ranked is a node with its position in the order: how many checks it passed before the first
// failure.
type ranked struct {
	node   *nomad.Node
	passed int
	fits   bool
}

// group explains one group. The nodes are checked twice, so that the results of only one page are in
// memory.
func (e *explainer) group(tg *nomad.TaskGroup, nodes []*nomad.Node, from, size int) *message.GroupExplanation {
	out := &message.GroupExplanation{Name: tg.Name, NodeCount: len(nodes)}
	admitted := e.admitted()
	order := make([]ranked, 0, len(nodes))
	for _, n := range nodes {
		r := e.nodes.Node(tg, n)
		fits := r.Fits && admitted.Passed
		if fits {
			out.Fits++
		}
		order = append(order, ranked{n, r.Failed(), fits})
	}
	slices.SortFunc(order, func(a, b ranked) int {
		switch {
		case a.fits != b.fits && a.fits:
			return -1
		case a.fits != b.fits:
			return 1
		}
		return cmp.Or(cmp.Compare(b.passed, a.passed), cmp.Compare(a.node.ID, b.node.ID))
	})
	for _, r := range order[min(from, len(order)):min(from+size, len(order))] {
		out.Nodes = append(out.Nodes, e.node(tg, r.node, admitted))
	}
	return out
}

// admitted is the check of the rules of the namespace.
func (e *explainer) admitted() *message.NodeCheck {
	out := &message.NodeCheck{Check: checkNamespace, Passed: true, Need: "namespace " + strconv.Quote(e.job.Namespace) + " admits the job"}
	ns := e.snap.Namespace(nil, e.job.Namespace)
	if ns == nil {
		out.Passed, out.Found = false, "the namespace does not exist"
	} else if err := rules.JobInNamespace(ns, e.job); err != nil {
		out.Passed, out.Found = false, err.Error()
	}
	return out
}

func (e *explainer) node(tg *nomad.TaskGroup, n *nomad.Node, admitted *message.NodeCheck) *message.NodeExplanation {
	r := e.nodes.Node(tg, n)
	out := &message.NodeExplanation{ID: n.ID, Name: n.Name, Fits: r.Fits && admitted.Passed, Checks: []*message.NodeCheck{admitted}}
	if out.Fits {
		out.Score = r.Score
	}
	for _, c := range r.Checks {
		out.Checks = append(out.Checks, &message.NodeCheck{Check: c.Name, Passed: c.Passed, Need: c.Need, Found: c.Found})
	}
	return out
}
