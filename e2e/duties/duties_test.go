package duties_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// TestDuties runs each duty with the tasks of all drivers. At the end of each row, nothing is left.
func TestDuties(t *testing.T) {
	f := newFleet(t)
	for _, duty := range []struct {
		name string
		run  func(*fleet)
	}{
		{"agent killed", (*fleet).agentKilled},
		{"supervisor killed", (*fleet).supervisorKilled},
		{"both killed", (*fleet).bothKilled},
		{"server killed", (*fleet).serverKilled},
		{"device plugin killed", (*fleet).pluginKilled},
		{"paused", (*fleet).paused},
		{"updated in place", (*fleet).updatedInPlace},
		{"updated", (*fleet).updated},
		{"drained", (*fleet).drained},
		{"node lost and back", (*fleet).lost},
		{"node disconnected and back", (*fleet).disconnected},
	} {
		ok := t.Run(duty.name, func(t *testing.T) {
			f.t, f.T = t, t
			duty.run(f)
			f.collect()
		})
		f.t, f.T = t, t
		if !ok {
			return // the next row would find its remains
		}
	}
}

func (f *fleet) agentKilled() {
	f.run("")
	f.restartAgent()
	f.each(f.continues)
}

func (f *fleet) supervisorKilled() {
	f.run("")
	f.killSupervisor()
	f.each(f.continues)
}

func (f *fleet) bothKilled() {
	f.run("")
	f.killSupervisor()
	f.restartAgent()
	f.each(f.continues)
}

// serverKilled kills the only server, which is the leader.
func (f *fleet) serverKilled() {
	f.run("")
	if err := f.Server.Kill(); err != nil {
		f.t.Fatal(err)
	}
	f.Server = f.start(f.Server)
	harness.WaitNodeStatus(f.t, f.Server, harness.NodeID(f.t, f.first), "ready")
	f.each(f.continues)
}

// pluginKilled kills the device plugins of both nodes.
func (f *fleet) pluginKilled() {
	f.run("")
	before := harness.PluginProcesses(f.t, f.plugins, "exampledevice")
	for _, pid := range before {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			f.t.Fatal(err)
		}
	}
	harness.Within(f.t, harness.Patience, "the plugins run again", func() bool {
		return len(harness.PluginProcesses(f.t, f.plugins, "exampledevice")) == len(before)
	})
	f.ready(f.first)
	f.each(f.continues)
}

// paused pauses all tasks, restarts the agent, and resumes them.
func (f *fleet) paused() {
	f.run("")
	set := func(s subject, state, want string) *api.AllocationListStub {
		f.t.Helper()
		al := &api.Allocation{ID: f.allocs[s.name]}
		if err := f.Server.Client.Allocations().SetPauseState(al, nil, "t", state); err != nil {
			f.t.Fatal(err)
		}
		return f.taskIs(s, want)
	}
	f.each(func(s subject) {
		if al := set(s, "pause", "pending"); f.processes(al) > 0 {
			f.t.Errorf("%d processes of a paused task", f.processes(al))
		}
	})
	f.restartAgent()
	f.each(func(s subject) {
		if al := f.taskIs(s, "pending"); f.processes(al) > 0 {
			f.t.Errorf("%d processes of a paused task", f.processes(al))
		}
	})
	f.each(func(s subject) { f.works(s, set(s, "run", "running"), 2) })
}

// taskIs waits until the task of a subject has a state.
func (f *fleet) taskIs(s subject, state string) *api.AllocationListStub {
	f.t.Helper()
	var out *api.AllocationListStub
	harness.Within(f.t, harness.Patience, "the task of "+s.name+" is "+state, func() bool {
		out = harness.OnlyAlloc(f.t, f.Server, s.name)
		return out.TaskStates["t"].State == state
	})
	return out
}

// updatedInPlace adds a service to each job. The tasks continue, also after a restart of the agent.
func (f *fleet) updatedInPlace() {
	f.run("")
	for _, s := range f.subjects {
		head := "service {\n provider = \"nomad\"\n name = \"" + s.name + "\"\n}\n"
		harness.Run(f.t, f.Server, job{subject: s, head: head, version: "1", access: f.access}.text(f.places))
	}
	f.each(func(s subject) {
		harness.Within(f.t, harness.Patience, s.name+" is registered", func() bool {
			rows, _, err := f.Server.Client.Services().Get(s.name, nil)
			return err == nil && len(rows) == 1 && rows[0].AllocID == f.allocs[s.name]
		})
		f.continues(s)
	})
	f.restartAgent()
	f.each(f.continues)
}

// updated replaces each task by one of a new version, on the same node.
func (f *fleet) updated() {
	f.run("")
	for _, s := range f.subjects {
		harness.Run(f.t, f.Server, job{subject: s, version: "2"}.text(f.places))
	}
	f.each(func(s subject) {
		old := f.allocs[s.name]
		var next *api.AllocationListStub
		harness.Within(f.t, harness.Patience, s.name+" is replaced", func() bool {
			all := harness.Allocs(f.t, f.Server, s.name, "running")
			if len(all) == 1 && all[0].ID != old {
				next = all[0]
			}
			return next != nil
		})
		if next.NodeName != "first" {
			f.t.Errorf("it is on node %s", next.NodeName)
		}
		f.works(s, next, 1)
		f.has(s, next, old)
		f.allocs[s.name] = next.ID
	})
}

// has checks that an allocation has the data of the earlier one.
func (f *fleet) has(s subject, al *api.AllocationListStub, old string) {
	f.t.Helper()
	got, want := "", old+"\n"+al.ID+"\n"
	if s.shell {
		if got = harness.SharedFile(f.t, f.Server, al, "seen"); got != want {
			f.t.Errorf("data = %q, want %q", got, want)
		}
	}
	if s.volume {
		if got = f.volumeData(); got != want {
			f.t.Errorf("data of the volume = %q, want %q", got, want)
		}
	}
}

// drained drains the first node. The tasks move with their data, and nothing of them is left there.
func (f *fleet) drained() {
	f.run("")
	id := harness.NodeID(f.t, f.first)
	out, err := harness.Command(f.t, f.Server, "node", "drain", "-enable", "-yes", id)
	if err != nil || !strings.Contains(out, "Drain complete for node") {
		f.t.Fatalf("node drain = %v\n%s", err, out)
	}
	f.each(func(s subject) {
		next := f.moved(s)
		f.has(s, next, f.allocs[s.name])
		f.allocs[s.name] = next.ID
	})
	if left := harness.ProcessesIn(f.t, f.slice("first")); len(left) > 0 {
		f.t.Errorf("processes on the drained node: %v", left)
	}
	f.eligible()
}

func (f *fleet) eligible() {
	f.t.Helper()
	if out, err := harness.Command(f.t, f.Server, "node", "eligibility", "-enable", harness.NodeID(f.t, f.first)); err != nil {
		f.t.Fatalf("node eligibility = %v\n%s", err, out)
	}
}

// lost suspends the agent of the first node until the node is down. When it is back, it stops the tasks that the second
// node has replaced.
func (f *fleet) lost() {
	f.run("")
	id := harness.NodeID(f.t, f.first)
	f.signal(syscall.SIGSTOP)
	defer f.signal(syscall.SIGCONT)
	harness.WaitNodeStatus(f.t, f.Server, id, "down")
	next := map[string]string{}
	f.each(func(s subject) { next[s.name] = f.moved(s).ID })
	f.signal(syscall.SIGCONT)
	harness.WaitNodeStatus(f.t, f.Server, id, "ready")
	f.each(func(s subject) {
		harness.Within(f.t, harness.Patience, "the first node stops "+s.name, func() bool {
			return f.processes(&api.AllocationListStub{ID: f.allocs[s.name], NodeName: "first"}) == 0
		})
		if al := harness.Await(f.t, f.Server, s.name, "running", 1)[0]; al.ID != next[s.name] {
			f.t.Errorf("allocation %s runs, want %s", al.ID, next[s.name])
		}
	})
	f.allocs = next
}

// disconnected is lost for jobs that keep their tasks on a node that returns.
func (f *fleet) disconnected() {
	f.access = "multi-node-multi-writer" // the original and its replacement write at once
	defer func() { f.access = "" }()
	f.run("disconnect {\n lost_after = \"1h\"\n reconcile = \"keep_original\"\n}\n")
	id := harness.NodeID(f.t, f.first)
	f.signal(syscall.SIGSTOP)
	defer f.signal(syscall.SIGCONT)
	harness.WaitNodeStatus(f.t, f.Server, id, "disconnected")
	f.each(func(s subject) { f.moved(s) })
	f.signal(syscall.SIGCONT)
	harness.WaitNodeStatus(f.t, f.Server, id, "ready")
	f.each(func(s subject) {
		harness.Within(f.t, harness.Patience, "the second node stops "+s.name, func() bool {
			all := harness.Allocs(f.t, f.Server, s.name, "running")
			return len(all) == 1 && all[0].NodeName == "first"
		})
		f.continues(s)
	})
}
