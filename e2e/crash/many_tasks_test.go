package crash_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"testing"

	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// manyTasks is the number of sandboxed tasks that run at a time. e2e/bench measures 1,000.
const manyTasks = 200

// The agent is killed while many sandboxed tasks run. The next agent takes over each process and reports it; none is
// restarted. When the job is purged, each of them ends, and nothing is left.
func TestKilledWithManyTasks(t *testing.T) {
	harness.NeedsSandbox(t)
	dir := harness.OutsideTmp(t)
	slice := filepath.Base(dir) + ".slice"
	t.Cleanup(func() { // after the agent has ended
		if err := cluster.RemoveGroups(slice, harness.Patience); err != nil {
			t.Error(err)
		}
	})
	cfg := filepath.Join(dir, "many.hcl")
	harness.WriteFile(t, cfg, fmt.Sprintf("client {\n  cgroup_parent = %q\n}\n", slice))
	a := harness.Start(t, cluster.Options{Dir: dir, Args: []string{"-server", "-client", "-bootstrap-expect=1", "-bind=127.0.0.1",
		"-data-dir=" + filepath.Join(dir, "data"), "-config=" + cfg}})
	defer func() { harness.PurgeAll(t, a) }()
	const small = "resources {\n cpu = 1\n memory = 10\n }\nlogs {\n max_files = 1\n max_file_size = 1\n }\n"
	id, _ := harness.Run(t, a, harness.Job("many", "", fmt.Sprintf("count = %d\nephemeral_disk {\n size = 10\n }\n", manyTasks)+
		harness.Sandboxed("command = \"/bin/sleep\"\nargs = [\"3600\"]", small)))
	var last uint64
	for _, al := range harness.Await(t, a, id, "running", manyTasks) {
		last = max(last, al.ModifyIndex)
	}
	before := harness.ProcessesIn(t, slice)
	if len(before) != 2*manyTasks {
		t.Errorf("%d processes run, want an init and a program for each of %d tasks", len(before), manyTasks)
	}

	if err := a.Kill(); err != nil {
		t.Fatal(err)
	}
	a = harness.Restart(t, a)
	harness.Within(t, harness.Patience, "the new agent has reported every task", func() bool {
		n := 0
		for _, al := range harness.AllAllocs(t, a, id) {
			if al.ClientStatus == "running" && al.ModifyIndex > last {
				n++
			}
		}
		return n == manyTasks
	})
	for _, al := range harness.Await(t, a, id, "running", manyTasks) {
		if n := al.TaskStates["t"].Restarts; n != 0 {
			t.Errorf("%s was restarted %d times", al.Name, n)
		}
	}
	if after := harness.ProcessesIn(t, slice); !maps.Equal(after, before) {
		t.Errorf("%d processes run, which are not the %d of before the kill", len(after), len(before))
	}
	harness.PurgeAll(t, a)
	harness.LeavesNothing(t, a, dir, slice)
}
