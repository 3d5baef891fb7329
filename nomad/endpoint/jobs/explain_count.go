package jobs

import (
	"cmp"
	"slices"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// count explains the job to a caller that cannot read nodes: how many nodes of the job's pool fit, and how many fail at
// each check. Nodes cannot be selected, because a count for one node reveals something about it.
func (e *explainer) count(out *message.JobExplainResponse) error {
	if e.req.Node != "" {
		return rpc.Denied(acl.ToRead(acl.Nodes))
	}
	admitted := e.admitted()
	var nodes []*nomad.Node
	if admitted.Passed { // otherwise the caller may learn nothing about the pool
		nodes = e.pool()
	}
	groups, err := e.groups(len(nodes))
	if err != nil {
		return err
	}
	out.Explanation = &message.JobExplanation{Namespace: e.job.Namespace, JobID: e.job.ID}
	for _, tg := range groups {
		g := e.counts(tg, nodes)
		if !admitted.Passed {
			g.Failed = []*message.CheckCount{{Check: admitted.Check, Need: admitted.Need}}
		}
		out.Explanation.Groups = append(out.Explanation.Groups, g)
	}
	return nil
}

// pool returns the nodes of the job's node pool.
func (e *explainer) pool() (out []*nomad.Node) {
	pool := cmp.Or(e.job.NodePool, nomad.NodePoolDefault)
	for n := range e.snap.Nodes(nil) {
		if n.IsInPool(pool) {
			out = append(out, n)
		}
	}
	return out
}

// counts counts the nodes by their first failed check.
func (e *explainer) counts(tg *nomad.TaskGroup, nodes []*nomad.Node) *message.GroupExplanation {
	out := &message.GroupExplanation{Name: tg.Name, NodeCount: len(nodes)}
	type key struct{ check, need string }
	failed := map[key]int{}
	for _, n := range nodes {
		r := e.nodes.Node(tg, n)
		if r.Fits {
			out.Fits++
		} else if i := r.Failed(); i < len(r.Checks) {
			failed[key{r.Checks[i].Name, r.Checks[i].Need}]++
		}
	}
	for k, n := range failed {
		out.Failed = append(out.Failed, &message.CheckCount{Check: k.check, Need: k.need, Nodes: n})
	}
	slices.SortFunc(out.Failed, func(a, b *message.CheckCount) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Check, b.Check), cmp.Compare(a.Need, b.Need))
	})
	return out
}
