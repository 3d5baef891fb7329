package plan_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/fsm/testlog"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/plan"
	"github.com/open-nomad/open-nomad/nomad/scheduler"
)

// story is a random history of jobs with CSI volumes.
type story struct {
	*world
	rng    *rand.Rand
	nodes  []*nomad.Node
	placed int
	waited int
}

// TestCSI_Random runs random histories: jobs of all types are registered, updated and stopped, clients claim volumes and end
// allocations, claims are released, and nodes are lost. The Applier accepts every plan that a scheduler made from the same
// state, no two allocations that exclude each other are placed on a volume, and no node exceeds its limit. At the end, when all
// claims are free, every job is placed.
func TestCSI_Random(t *testing.T) {
	placed, waited := 0, 0
	for seed := range uint64(60) {
		s := &story{world: &world{Log: testlog.New(nil), t: t}, rng: rand.New(rand.NewPCG(seed, 41))}
		for range 2 + s.rng.IntN(2) {
			s.nodes = append(s.nodes, s.csiNode(int64(1+s.rng.IntN(3))))
		}
		for i := range 3 {
			s.csiVolume(fmt.Sprint("v", i))
		}
		for step := range 40 {
			s.happen()
			s.check(fmt.Sprintf("seed %d, step %d", seed, step))
		}
		s.settle(seed)
		placed, waited = placed+s.placed, waited+s.waited
	}
	if placed < 300 || waited < 100 {
		t.Errorf("%d allocations were placed, %d evaluations waited: the histories are too similar", placed, waited)
	}
}

var csiModes = []nomad.VolumeAccessMode{nomad.VolumeSingleNodeWriter, nomad.VolumeSingleNodeWriter, nomad.VolumeMultiNodeSingleWriter,
	nomad.VolumeMultiNodeReader, nomad.VolumeSingleNodeReader, nomad.VolumeMultiNodeMultiWriter}

// happen does one random thing, and evaluates all jobs.
func (s *story) happen() {
	switch s.rng.IntN(7) {
	case 0, 1:
		s.register(fmt.Sprint("job", s.rng.IntN(5)))
	case 2:
		if j := s.pickJob(); j != nil {
			stopped := *j
			stopped.Stop = true
			s.Must(s.t, message.JobRegisterRequestType, &message.JobRegisterRequest{Job: &stopped,
				WriteRequest: message.WriteRequest{Namespace: j.Namespace}})
		}
	case 3, 4:
		s.clients()
	case 5:
		s.release()
	case 6:
		n := s.nodes[s.rng.IntN(len(s.nodes))]
		status := []string{nomad.NodeStatusReady, nomad.NodeStatusDown}[s.rng.IntN(2)]
		s.Must(s.t, message.NodeUpdateStatusRequestType, &message.NodeUpdateStatusRequest{NodeID: n.ID, Status: status})
	}
	s.evaluate()
}

// register registers a job with a random request, or another version of it.
func (s *story) register(id string) {
	typ := []string{nomad.JobTypeService, nomad.JobTypeBatch, nomad.JobTypeSystem}[s.rng.IntN(3)]
	if old := s.Snapshot().Job(nil, "default", id); old != nil {
		typ = old.Type
	}
	mode := csiModes[s.rng.IntN(len(csiModes))]
	s.Job(s.t, typ, 1+s.rng.IntN(3), func(j *nomad.Job) {
		j.ID = id
		r := &nomad.VolumeRequest{Name: "v", Type: "csi", Source: fmt.Sprint("v", s.rng.IntN(3)), AccessMode: mode,
			AttachmentMode: nomad.VolumeAttachFilesystem}
		r.ReadOnly = r.Reads()
		j.TaskGroups[0].Volumes = map[string]*nomad.VolumeRequest{"v": r}
		j.TaskGroups[0].ReschedulePolicy = &nomad.ReschedulePolicy{Unlimited: true}
		j.TaskGroups[0].Update = &nomad.UpdateStrategy{MaxParallel: 1 + s.rng.IntN(3)}
	})
}

func (s *story) pickJob() *nomad.Job {
	jobs := slices.Collect(s.Snapshot().Jobs(nil))
	jobs = slices.DeleteFunc(jobs, func(j *nomad.Job) bool { return j.TaskGroups[0].Volumes == nil })
	if len(jobs) == 0 {
		return nil
	}
	return jobs[s.rng.IntN(len(jobs))]
}

// clients claims the volumes of waiting allocations, and ends some of those that stop, and some others.
func (s *story) clients() {
	for a := range s.Snapshot().Allocs(nil) {
		requests := a.CSIRequests(a.Job)
		switch {
		case len(requests) == 0 || a.ClientTerminalStatus():
		case a.ServerTerminalStatus() && s.rng.IntN(2) == 0, s.rng.IntN(12) == 0:
			s.ends(a)
		case a.ServerTerminalStatus() || s.rng.IntN(2) == 0:
		default:
			mode := csi.ClaimWrite
			if requests[0].Reads() {
				mode = csi.ClaimRead
			}
			_, err := s.Apply(context.Background(), message.CSIVolumeClaimRequestType, &message.CSIVolumeClaimRequest{
				VolumeID: requests[0].SourceFor(a.Name), AllocationID: a.ID, NodeID: a.NodeID, Claim: mode,
				AccessMode: requests[0].AccessMode, WriteRequest: message.WriteRequest{Namespace: "default"}})
			_ = err // it waits for another claim, or its plugin is gone
		}
	}
}

// ends ends an allocation on its client.
func (s *story) ends(a *nomad.Allocation) {
	status := nomad.AllocClientStatusComplete
	if !a.ServerTerminalStatus() {
		status = nomad.AllocClientStatusFailed
	}
	s.Must(s.t, message.AllocClientUpdateRequestType, &message.AllocUpdateRequest{Alloc: []*nomad.Allocation{{ID: a.ID, NodeID: a.NodeID,
		ClientStatus: status}}})
}

// release frees the claims that have ended, as the leader does.
func (s *story) release() {
	snap := s.Snapshot()
	for v := range snap.CSIVolumes(nil) {
		for _, c := range snap.EndedCSIClaims(v) {
			for _, state := range []csi.ClaimState{csi.ClaimUnpublishing, csi.ClaimNodeDetached, csi.ClaimReadyToFree} {
				s.Must(s.t, message.CSIVolumeClaimRequestType, &message.CSIVolumeClaimRequest{VolumeID: v.ID, AllocationID: c.AllocationID,
					NodeID: c.NodeID, Claim: c.Mode, State: state, WriteRequest: message.WriteRequest{Namespace: "default"}})
			}
		}
	}
}

// evaluate runs the scheduler for each job.
func (s *story) evaluate() {
	for j := range s.Snapshot().Jobs(nil) {
		if j.TaskGroups[0].Volumes == nil {
			continue
		}
		e := nomad.NewEval(j, nomad.EvalTriggerJobRegister, time.Unix(1_800_000_000, 0))
		sched, err := scheduler.New(j.Type, s.Snapshot(), s, scheduler.Options{Seed: &[32]byte{byte(s.rng.IntN(256))}})
		if err != nil {
			s.t.Fatal(err)
		}
		if err := sched.Process(context.Background(), e); err != nil {
			s.t.Fatal(err)
		}
	}
}

// SubmitPlan implements scheduler.Planner. The plan was made from the state that it is checked against.
func (s *story) SubmitPlan(_ context.Context, p *nomad.Plan) (*nomad.PlanResult, scheduler.State, error) {
	result, command, err := plan.Dry(s.Snapshot(), p, time.Unix(1_800_000_000, 0))
	if err != nil {
		return nil, nil, err
	}
	if len(result.RejectedNodes) > 0 {
		s.t.Errorf("the plan of job %s is rejected on %v: %v", p.JobInfo.ID, result.RejectedNodes, plan.Reasons(s.Snapshot(), p))
		return nil, nil, fmt.Errorf("rejected")
	}
	for _, allocs := range result.NodeAllocation {
		s.placed += len(allocs)
	}
	s.Must(s.t, message.ApplyPlanResultsRequestType, command)
	return result, nil, nil
}

func (s *story) CreateEval(context.Context, *nomad.Evaluation) error  { return nil }
func (s *story) ReblockEval(context.Context, *nomad.Evaluation) error { return nil }
func (s *story) FinishEval(_ context.Context, e *nomad.Evaluation, _ ...*nomad.Evaluation) error {
	if len(e.MissingNonNodeResources) > 0 {
		s.waited++
	}
	return nil
}

// check checks that the allocations which go on do not exclude each other, and the limits of the nodes.
func (s *story) check(when string) {
	s.t.Helper()
	snap := s.Snapshot()
	for v := range snap.CSIVolumes(nil) {
		var alone []string
		for a := range snap.CSIVolumeUsers(nil, v.Namespace, v.ID) {
			mode := a.CSIRequests(a.Job)[0].AccessMode
			if !a.TerminalStatus() && (mode == nomad.VolumeSingleNodeWriter || mode == nomad.VolumeMultiNodeSingleWriter) {
				alone = append(alone, a.ID)
			}
		}
		if len(alone) > 1 {
			s.t.Fatalf("%s: volume %s has the single writers %v", when, v.ID, alone)
		}
	}
	for _, n := range s.nodes {
		running := map[string]bool{}
		for a := range snap.LiveAllocsByNode(n.ID) {
			for _, r := range a.CSIRequests(a.Job) {
				if !a.TerminalStatus() {
					running[r.SourceFor(a.Name)] = true
				}
			}
		}
		if limit := n.CSINodePlugins["p"].VolumeLimit(); int64(len(running)) > limit {
			s.t.Fatalf("%s: node %s has %d volumes, its limit is %d", when, n.ID, len(running), limit)
		}
	}
}

// settle stops all jobs but one, ends what stops, releases all claims, and checks that the remaining job is placed.
func (s *story) settle(seed uint64) {
	for _, n := range s.nodes {
		s.Must(s.t, message.NodeUpdateStatusRequestType, &message.NodeUpdateStatusRequest{NodeID: n.ID, Status: nomad.NodeStatusReady})
	}
	for j := range s.Snapshot().Jobs(nil) {
		if j.TaskGroups[0].Volumes != nil && !j.Stopped() {
			stopped := *j
			stopped.Stop = true
			s.Must(s.t, message.JobRegisterRequestType, &message.JobRegisterRequest{Job: &stopped,
				WriteRequest: message.WriteRequest{Namespace: j.Namespace}})
		}
	}
	s.evaluate()
	for a := range s.Snapshot().Allocs(nil) {
		if len(a.CSIRequests(a.Job)) > 0 && !a.ClientTerminalStatus() {
			s.ends(a)
		}
	}
	s.release()
	for v := range s.Snapshot().CSIVolumes(nil) {
		if v.InUse() || v.AccessMode != "" {
			s.t.Errorf("seed %d: volume %s is in use: %+v", seed, v.ID, v)
		}
	}
	last := s.claims("v0", nomad.VolumeSingleNodeWriter)
	s.evaluate()
	if n := len(slices.Collect(s.Snapshot().AllocsByJob(nil, last.Namespace, last.ID))); n != 1 {
		s.t.Errorf("seed %d: the last job has %d allocations", seed, n)
	}
}
