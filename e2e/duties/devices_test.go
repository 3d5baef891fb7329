package duties_test

import (
	"fmt"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// TestReservedDevices checks that devices of a running task are not given to another one: after restarts of the agent
// with its plugin, and of the server, during a pause, and until the task has ended.
func TestReservedDevices(t *testing.T) {
	f := newFleet(t)
	holder := f.subjectNamed("device")
	f.subjects = []subject{holder}
	f.run("")
	// The waiting job is for the first node only.
	pin := "constraint {\n attribute = \"${node.unique.name}\"\n value = \"first\"\n}\n"
	waiting := holder
	waiting.name, waiting.count = "waiting", 1
	harness.Run(t, f.Server, job{subject: waiting, head: pin, version: "1"}.text(f.places))
	blocked := func(when string) {
		t.Helper()
		if all := harness.AllAllocs(t, f.Server, "waiting"); len(all) != 0 {
			t.Fatalf("%s: the waiting job has an allocation", when)
		}
	}
	f.blockedForDevices("waiting")
	f.restartAgent()
	f.ready(f.first)
	f.continues(holder)
	blocked("after a restart of the agent")

	if err := f.Server.Kill(); err != nil {
		t.Fatal(err)
	}
	f.Server = f.start(f.Server)
	harness.WaitNodeStatus(t, f.Server, harness.NodeID(t, f.first), "ready")
	f.continues(holder)
	blocked("after a restart of the server")

	pause := func(state, want string) {
		t.Helper()
		if err := f.Server.Client.Allocations().SetPauseState(&api.Allocation{ID: f.allocs["device"]}, nil, "t", state); err != nil {
			t.Fatal(err)
		}
		f.taskIs(holder, want)
	}
	pause("pause", "pending")
	blocked("during a pause")
	pause("run", "running")

	harness.Stop(t, f.Server, "device")
	next := harness.Await(t, f.Server, "waiting", "running", 1)[0]
	f.begins(waiting, next, 1)
	f.subjects, f.allocs["waiting"] = []subject{waiting}, next.ID
	f.collect()
}

// subjectNamed returns a subject.
func (f *fleet) subjectNamed(name string) subject {
	f.t.Helper()
	for _, s := range f.subjects {
		if s.name == name {
			return s
		}
	}
	f.t.Fatalf("there is no subject %s", name)
	return subject{}
}

// blockedForDevices waits until a job has no placement because devices are missing.
func (f *fleet) blockedForDevices(id string) {
	f.t.Helper()
	harness.Succeeds(f.t, id+" is blocked", func() error {
		evals, _, err := f.Server.Client.Jobs().Evaluations(id, nil)
		if err != nil {
			return err
		}
		for _, e := range evals {
			if m := e.FailedTGAllocs["g"]; m != nil && m.DimensionExhausted["devices: no devices match request"] > 0 {
				return nil
			}
		}
		return fmt.Errorf("%d evaluations without a lack of devices", len(evals))
	})
}
