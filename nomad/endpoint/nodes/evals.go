package nodes

import (
	"context"
	"maps"
	"reflect"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// evaluates reports whether a change of a node requires evaluations of its jobs.
func evaluates(old, node *nomad.Node) bool {
	switch {
	case old == nil:
		return node.Status == nomad.NodeStatusReady
	case node.Status == nomad.NodeStatusReady:
		return old.Status != nomad.NodeStatusReady || moved(old, node)
	case node.Status == nomad.NodeStatusInit:
		return old.Status == nomad.NodeStatusDisconnected
	}
	return old.Status != node.Status
}

// moved reports whether the change of a node may affect the placement of system jobs. The class covers
// drivers and host volumes, but not the properties of a single node and its devices.
func moved(old, node *nomad.Node) bool {
	return old.ComputedClass != node.ComputedClass || old.NodePool != node.NodePool || old.Datacenter != node.Datacenter ||
		old.Name != node.Name || !maps.Equal(old.Attributes, node.Attributes) || !maps.Equal(old.Meta, node.Meta) ||
		!reflect.DeepEqual(devices(old), devices(node)) || pluginsHealed(old, node)
}

// pluginsHealed reports whether the node has a healthy instance of a CSI plugin that it did not have before. A system job with
// CSI volumes was not placed on the node without it, and no evaluation waits for it.
func pluginsHealed(old, node *nomad.Node) bool {
	for id, info := range node.CSINodePlugins {
		if before := old.CSINodePlugins[id]; info != nil && info.Healthy && (before == nil || !before.Healthy) {
			return true
		}
	}
	return false
}

func devices(n *nomad.Node) []*nomad.NodeDeviceResource {
	if n.NodeResources == nil {
		return nil
	}
	return n.NodeResources.Devices
}

// evaluateNode creates an evaluation for each job with an allocation on the node that is not finished,
// and for each system job that could be placed on it. A sysbatch job is not run on new nodes.
func (s *Service) evaluateNode(ctx context.Context, node string, nodeIndex uint64, out *message.NodeUpdateResponse) error {
	evals := s.evalsFor(s.Snapshot(), node, nodeIndex)
	if len(evals) == 0 {
		return nil
	}
	index, err := s.UpsertEvals(ctx, evals...)
	if err != nil {
		return err
	}
	out.EvalCreateIndex = index
	out.Index = max(out.Index, index)
	for _, e := range evals {
		out.EvalIDs = append(out.EvalIDs, e.ID)
	}
	return nil
}

func (s *Service) evalsFor(snap *state.Snapshot, id string, nodeIndex uint64) []*nomad.Evaluation {
	node := snap.Node(nil, id)
	if node == nil {
		return nil
	}
	var evals []*nomad.Evaluation
	seen := map[nomad.NamespacedID]bool{}
	now := s.Now()
	add := func(job *nomad.Job) {
		if seen[job.NamespacedID()] {
			return
		}
		seen[job.NamespacedID()] = true
		e := nomad.NewEval(job, nomad.EvalTriggerNodeUpdate, now)
		e.NodeID, e.NodeModifyIndex = id, nodeIndex
		evals = append(evals, e)
	}
	for a := range snap.AllocsByNode(nil, id) {
		if a.Job != nil && unfinished(a) {
			add(a.Job)
		}
	}
	for job := range snap.Jobs(nil) {
		system := job.Type == nomad.JobTypeSystem
		if system && !job.Stopped() && !job.IsPeriodic() && !job.IsParameterized() && node.IsInPool(job.NodePool) {
			add(job)
		}
	}
	return evals
}

// unfinished reports whether a change of its node concerns the allocation. A service may still have to
// replace an allocation that failed.
func unfinished(a *nomad.Allocation) bool {
	if a.Job.Type == nomad.JobTypeService {
		return !a.ClientTerminalStatus() || !a.ServerTerminalStatus()
	}
	return !a.ClientTerminalStatus()
}
