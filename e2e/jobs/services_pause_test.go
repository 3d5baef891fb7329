package jobs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// TestServicesPause_AgentKilled checks that the next agent removes the native service of a task that was paused while no
// server answered. The service of the group stays.
func TestServicesPause_AgentKilled(t *testing.T) {
	t.Parallel() // it mostly waits
	harness.NeedsRoot(t)
	f := harness.NewFleet(t, "")
	one := f.Join("one", "")
	defer f.Purge()
	service := func(name string) string {
		return fmt.Sprintf("service {\n name = %q\n provider = \"nomad\"\n}\n", name)
	}
	has := func(when, want string) {
		t.Helper()
		harness.Succeeds(t, when, func() error {
			list, _, err := f.Server.Client.Services().List(nil)
			var names []string
			for _, ns := range list {
				for _, s := range ns.Services {
					names = append(names, s.ServiceName)
				}
			}
			slices.Sort(names)
			if got := strings.Join(names, " "); err == nil && got != want {
				err = fmt.Errorf("registered %q, want %q", got, want)
			}
			return err
		})
	}
	harness.Run(t, f.Server, harness.Job("duty", "", service("web")+harness.Shell("exec sleep 1000", service("side"))))
	has("running", "side web")
	al := harness.OnlyAlloc(t, f.Server, "duty")
	runs := func() bool {
		usage, err := one.Client.Allocations().Stats(&api.Allocation{ID: al.ID}, nil)
		return err != nil || usage.Tasks["t"] != nil
	}
	harness.Within(t, harness.Patience, "the task is measured", runs)
	if err := f.Server.Kill(); err != nil {
		t.Fatal(err)
	}
	pause := func() {
		t.Helper()
		harness.Succeeds(t, "pause the task", func() error {
			return one.Client.Allocations().SetPauseState(&api.Allocation{ID: al.ID, NodeID: al.NodeID}, nil, "t", "pause")
		})
	}
	pause()
	harness.Within(t, harness.Patience, "the task is paused", func() bool { return !runs() })
	pause() // returns when the end of the process is on the disk
	if err := one.Kill(); err != nil {
		t.Fatal(err)
	}
	f.Server = harness.Restart(t, f.Server)
	has("the server has restarted", "side web")
	harness.Restart(t, one)
	has("the next agent", "web")
	if got := harness.OnlyAlloc(t, f.Server, "duty"); got.ID != al.ID {
		t.Errorf("allocation %s replaced %s", got.ID, al.ID)
	}
}
