package plan_test

import (
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/fsm/testlog"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/plan"
)

// A node that rejects plans repeatedly becomes ineligible, even if nothing else of the plan is committed.
func TestRepeatedRejections(t *testing.T) {
	w := startWith(t, plan.Rejections{Enabled: true, Threshold: 3, Window: time.Hour})
	full := w.Node(t, func(n *nomad.Node) { n.NodeResources.Cpu.CpuShares = 50 })
	down := w.Node(t, func(n *nomad.Node) { n.Status = nomad.NodeStatusDown })
	job := w.Job(t, nomad.JobTypeBatch, 1)
	for i := range 2 {
		if r := w.submit(place(w.plan(job), testlog.NewAlloc(job, full))); len(r.IneligibleNodes) != 0 || r.AllocIndex != 0 {
			t.Fatalf("rejection %d: Submit() = %+v", i+1, r)
		}
	}
	r := w.submit(place(w.plan(job), testlog.NewAlloc(job, full), testlog.NewAlloc(job, down)))
	n := w.Snapshot().Node(nil, full.ID)
	if len(r.IneligibleNodes) != 1 || r.RefreshIndex != n.ModifyIndex || n.SchedulingEligibility != nomad.NodeSchedulingIneligible {
		t.Fatalf("Submit() = %+v, node is %s at %d", r, n.SchedulingEligibility, n.ModifyIndex)
	}
	event := n.Events[len(n.Events)-1]
	if event.Subsystem != nomad.NodeEventSubsystemScheduler ||
		!strings.HasPrefix(event.Message, "Node marked as ineligible for scheduling due to multiple plan rejections, refer to https://") {
		t.Errorf("event is %+v", event)
	}
	if other := w.Snapshot().Node(nil, down.ID); other.SchedulingEligibility != nomad.NodeSchedulingEligible {
		t.Error("the count of one node counted for another")
	}
	// An ineligible node is not counted, and counts from zero when it is eligible again.
	for range 3 {
		w.submit(place(w.plan(job), testlog.NewAlloc(job, full)))
	}
	w.Must(t, message.NodeUpdateEligibilityRequestType,
		&message.NodeUpdateEligibilityRequest{NodeID: full.ID, Eligibility: nomad.NodeSchedulingEligible})
	if r := w.submit(place(w.plan(job), testlog.NewAlloc(job, full))); len(r.IneligibleNodes) != 0 {
		t.Errorf("Submit() = %+v after the node was marked eligible", r)
	}
}

func TestRejectionsDisabled(t *testing.T) {
	w := start(t)
	full := w.Node(t, func(n *nomad.Node) { n.NodeResources.Cpu.CpuShares = 50 })
	job := w.Job(t, nomad.JobTypeBatch, 1)
	for range 150 {
		if r := w.submit(place(w.plan(job), testlog.NewAlloc(job, full))); len(r.IneligibleNodes) != 0 {
			t.Fatalf("Submit() = %+v", r)
		}
	}
}

// On a lost node an allocation becomes unknown or lost. An update of one as running is outdated.
func TestApplier_LostNode(t *testing.T) {
	for _, status := range []string{nomad.NodeStatusDown, nomad.NodeStatusDisconnected} {
		for client, rejected := range map[string]bool{
			nomad.AllocClientStatusRunning: true, nomad.AllocClientStatusPending: true,
			nomad.AllocClientStatusUnknown: false, nomad.AllocClientStatusFailed: false,
		} {
			t.Run(status+" "+client, func(t *testing.T) {
				w := start(t)
				node, job := w.Node(t), w.Job(t, nomad.JobTypeService, 1)
				a := w.Alloc(t, job, node)
				w.Must(t, message.NodeUpdateStatusRequestType, &message.NodeUpdateStatusRequest{NodeID: node.ID, Status: status})
				update := *a
				update.ClientStatus = client
				if r := w.submit(place(w.plan(job), &update)); (len(r.RejectedNodes) == 1) != rejected {
					t.Errorf("Submit() = %+v, want rejected: %t", r, rejected)
				}
			})
		}
	}
}
