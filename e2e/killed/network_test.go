package killed_test

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

// staticPort is that of the tested jobs.
const staticPort = 21900

// runs checks that an allocation works: its ports, its rules and its service.
func (n *node) runs(al *api.Allocation) {
	n.t.Helper()
	if a, b := n.answer(al, "web"), n.answer(al, "any"); a != b {
		n.t.Errorf("the ports lead to the processes %s and %s", a, b)
	}
	rules, err := exec.Command("nft", "list", "ruleset").Output()
	if err != nil || !strings.Contains(string(rules), al.ID) {
		n.t.Errorf("allocation %s is not isolated: %v", al.ID, err)
	}
	n.registered(al)
	now, _, err := n.server.Client.Allocations().Info(al.ID, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	lost := strings.Count(describe(now), supervisorLost) + strings.Count(describe(now), taskKilled)
	if now.NodeID != n.id || now.TaskStates["t"] == nil || now.TaskStates["t"].Restarts != uint64(lost) || lost > n.kills {
		n.t.Errorf("allocation %s is on node %s, %d starts were lost: %s", al.ID, now.NodeID, lost, describe(now))
	}
}

// A task whose supervisor is killed during its start may be lost. One of these is then in an event, and
// the restart policy starts the task again. Tasks that already run continue with the next supervisor.
const (
	supervisorLost = "connection to the supervisor was lost"
	taskKilled     = "Terminated: Exit Code: 137, Signal: 9"
)

// describe returns the status of an allocation with the events of its task.
func describe(al *api.Allocation) string {
	out := fmt.Sprintf("%s, %s", al.ClientStatus, al.ClientDescription)
	if state := al.TaskStates["t"]; state != nil {
		for _, e := range state.Events {
			out += fmt.Sprintf("\n\t%s %s: %s", time.Unix(0, e.Time).Format("05.000"), e.Type, e.DisplayMessage)
		}
	}
	return out
}

// TestNetwork kills at each step of the set-up and of the removal of a network.
func TestNetwork(t *testing.T) {
	f := newFleet(t)
	n := f.join("one")
	n.volume("data")
	up, down := ordered("ADD"), ordered("DEL")
	f.cross(up, victims, func(step string, v victim) {
		n.gate.arm(step)
		f.run("web", group{static: staticPort, volume: "data"}.text())
		n.gate.reached()
		claim := f.claim("web")
		n.kill(v, n.gate.release)
		al := f.allocOf("web", "running", "")
		n.runs(al)
		if now := f.claim("web"); now != claim {
			n.t.Errorf("the claim is %s, was %s", now, claim)
		}
		back := down[slices.Index(up, step)]
		n.gate.arm(back)
		f.stop("web")
		n.gate.reached()
		n.kill(v, n.gate.release)
		f.allocOf("web", "complete", "")
	})
	f.scene("the plugin outlives the start of the next agent", func() {
		n.gate.arm("ADD-bridge-after")
		f.run("web", group{static: staticPort, volume: "data"}.text())
		n.gate.reached()
		if err := n.Kill(); err != nil {
			n.t.Fatal(err)
		}
		n.again()
		n.gate.release()
		n.runs(f.allocOf("web", "running", ""))
	})
}

// TestClaim kills the server, which holds the claim of an allocation that is not running yet.
func TestClaim(t *testing.T) {
	f := newFleet(t)
	n := f.join("one")
	n.volume("data")
	for _, others := range []victim{"", agent, supervisor, both} {
		f.scene("server and "+string(others), func() {
			n.gate.arm("ADD-loopback-before")
			f.run("web", group{static: staticPort, volume: "data"}.text())
			n.gate.reached()
			claim := f.claim("web")
			if err := f.server.Kill(); err != nil {
				n.t.Fatal(err)
			}
			f.startServer(f.server.Options)
			if others == "" {
				n.gate.release()
			} else {
				n.kill(others, n.gate.release)
			}
			n.runs(f.allocOf("web", "running", ""))
			if now := f.claim("web"); now != claim {
				n.t.Errorf("the claim is %s, was %s", now, claim)
			}
		})
	}
}

// claim returns the ID of the only claim of a job.
func (f *fleet) claim(job string) string {
	f.t.Helper()
	list, _, err := f.server.Client.TaskGroupHostVolumeClaims().List(&api.TaskGroupHostVolumeClaimsListRequest{JobID: job}, nil)
	if err != nil || len(list) != 1 {
		f.t.Fatalf("claims of %s: %v, %v", job, list, err)
	}
	return fmt.Sprintf("%s of volume %s", list[0].ID, list[0].VolumeID)
}
