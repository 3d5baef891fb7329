package nodes

import (
	"log/slog"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/migratetoken"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// A node gets a token only for its own live allocations whose group migrates the disk of an
// allocation on another, existing node.
func TestMigrateTokens(t *testing.T) {
	job := &nomad.Job{ID: "j", Namespace: "default", Type: nomad.JobTypeService, TaskGroups: []*nomad.TaskGroup{
		{Name: "migrates", EphemeralDisk: &nomad.EphemeralDisk{Migrate: true}},
		{Name: "sticks", EphemeralDisk: &nomad.EphemeralDisk{Sticky: true}},
		{Name: "none"},
	}}
	store := state.New(slog.New(slog.DiscardHandler))
	for i, n := range []*nomad.Node{{ID: "here", SecretID: "s1"}, {ID: "there", SecretID: "s2"}} {
		if _, err := store.RegisterNode(uint64(5+i), &message.NodeRegisterRequest{Node: n}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.RegisterJob(10, &message.JobRegisterRequest{Job: job}); err != nil {
		t.Fatal(err)
	}
	place := func(id, node, group, previous, status string) *nomad.Allocation {
		return &nomad.Allocation{ID: id, NodeID: node, Job: job, JobID: job.ID, Namespace: job.Namespace, TaskGroup: group,
			PreviousAllocation: previous, ClientStatus: status, DesiredStatus: nomad.AllocDesiredStatusRun}
	}
	const pending, complete = nomad.AllocClientStatusPending, nomad.AllocClientStatusComplete
	if _, err := store.ApplyPlanResults(11, &message.ApplyPlanResultsRequest{Job: job, AllocsUpdated: []*nomad.Allocation{
		place("there1", "there", "migrates", "", complete), place("here1", "here", "migrates", "", complete),
		place("gone1", "gone", "migrates", "", complete),
	}}); err != nil {
		t.Fatal(err)
	}
	assigned := []*nomad.Allocation{
		place("wanted", "here", "migrates", "there1", pending), place("ended", "here", "migrates", "there1", complete),
		place("sticky", "here", "sticks", "there1", pending), place("plain", "here", "none", "there1", pending),
		place("local", "here", "migrates", "here1", pending), place("first", "here", "migrates", "", pending),
		place("unknown", "here", "migrates", "nope", pending), place("nodeless", "here", "migrates", "gone1", pending),
	}
	got, err := migrateTokens(store.Snapshot(), assigned)
	token, _ := migratetoken.New("there1", "s2")
	if err != nil || len(got) != 1 || got["wanted"] != token.Reveal() {
		t.Errorf("migrateTokens() = %v, %v", got, err)
	}
}
