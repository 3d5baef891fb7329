package allocs

import (
	"log/slog"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// A node may fetch the disk of a previous allocation only for its own non-terminal allocation whose
// group migrates the disk.
func TestFetchesDisk(t *testing.T) {
	const node, other = "n1", "n2"
	job := &nomad.Job{ID: "j", Namespace: "default", Type: nomad.JobTypeService, TaskGroups: []*nomad.TaskGroup{
		{Name: "migrates", EphemeralDisk: &nomad.EphemeralDisk{Migrate: true}},
		{Name: "sticks", EphemeralDisk: &nomad.EphemeralDisk{Sticky: true}},
		{Name: "none"},
	}}
	var allocs []*nomad.Allocation
	place := func(on, group, previous, status string) {
		allocs = append(allocs, &nomad.Allocation{ID: nomad.NewID(), NodeID: on, Job: job, JobID: job.ID, Namespace: job.Namespace,
			TaskGroup:          group,
			PreviousAllocation: previous, ClientStatus: status, DesiredStatus: nomad.AllocDesiredStatusRun})
	}
	place(node, "migrates", "for-the-disk", nomad.AllocClientStatusPending)
	place(node, "migrates", "ended", nomad.AllocClientStatusComplete)
	place(node, "sticks", "sticky", nomad.AllocClientStatusPending)
	place(node, "none", "plain", nomad.AllocClientStatusPending)
	place(other, "migrates", "for-another", nomad.AllocClientStatusPending)
	store := state.New(slog.New(slog.DiscardHandler))
	if _, err := store.RegisterJob(10, &message.JobRegisterRequest{Job: job}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.ApplyPlanResults(11, &message.ApplyPlanResultsRequest{AllocsUpdated: allocs, Job: job}); err != nil {
		t.Fatal(err)
	}
	snap := store.Snapshot()
	for id, want := range map[string]bool{"for-the-disk": true, "ended": false, "sticky": false, "plain": false, "for-another": false,
		"unknown": false, "": false} {
		if got := fetchesDisk(snap, node, id); got != want {
			t.Errorf("fetchesDisk(%q) = %v, want %v", id, got, want)
		}
	}
}
