package reconcile_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/scheduler/reconcile"
)

var update = flag.Bool("update", false, "rewrite the changes in testdata")

// TestClasses reconciles each allocation of testdata/classes.txt and compares the changes, the lines that begin with
// ">". -update rewrites them.
func TestClasses(t *testing.T) {
	const file = "testdata/classes.txt"
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(raw)) {
		if strings.HasPrefix(line, ">") {
			continue
		}
		out.WriteString(line)
		if args, ok := strings.CutPrefix(strings.TrimSpace(line), "alloc "); ok {
			for _, l := range changes(reconcile.Generic(classRequest(t, strings.Fields(args)))) {
				out.WriteString("> " + l + "\n")
			}
		}
	}
	switch got := out.String(); {
	case *update:
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	case got != string(raw):
		t.Errorf("%s is\n%s\nthe changes are\n%s", file, raw, got)
	}
}

// classRequest returns a request with one allocation.
func classRequest(t *testing.T, args []string) *reconcile.Request {
	t.Helper()
	j := job()
	tg := j.TaskGroups[0]
	tg.ReschedulePolicy = &nomad.ReschedulePolicy{Unlimited: true, Delay: 30 * time.Second, DelayFunction: "constant"}
	a := alloc("a", j, 0)
	req := request(j, a)
	req.Now = time.Unix(100_000, 0)
	a.ModifyTime = req.Now.UnixNano()
	node := "ready"
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		switch key {
		case "type":
			j.Type, req.Eval.Type = value, value
		case "node":
			node = value
		case "desired":
			a.DesiredStatus = value
		case "client":
			a.ClientStatus = value
		case "migrate":
			yes := true
			a.DesiredTransition.Migrate = &yes
		case "no-placement":
			yes := true
			a.DesiredTransition.MigrateDisablePlacement = &yes
		case "canary":
			tg.Update = &nomad.UpdateStrategy{MaxParallel: 1, Canary: 1}
			req.Deployment = &nomad.Deployment{ID: "d", Status: nomad.DeploymentStatusRunning, JobCreateIndex: j.CreateIndex,
				TaskGroups: map[string]*nomad.DeploymentState{"g": {DesiredCanaries: 1, DesiredTotal: 1, PlacedCanaries: []string{"a"}}}}
			a.DeploymentID, a.DeploymentStatus = "d", &nomad.AllocDeploymentStatus{Canary: true}
		default:
			disconnectOption(t, req.Now, tg, a, key, value)
		}
	}
	req.Node = func(id string) *nomad.Node { return nodeOf(id, node) }
	return req
}

// disconnectOption sets an option about the connection of the client.
func disconnectOption(t *testing.T, now time.Time, tg *nomad.TaskGroup, a *nomad.Allocation, key, value string) {
	t.Helper()
	duration := func() time.Duration {
		d, err := time.ParseDuration(value)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	switch key {
	case "unknown":
		a.AllocStates = append(a.AllocStates, &nomad.AllocState{Value: nomad.AllocClientStatusUnknown, Time: now.Add(-duration())})
	case "returned":
		a.AllocStates = append(a.AllocStates, &nomad.AllocState{Value: nomad.AllocClientStatusRunning, Time: now})
	case "lost_after":
		tg.Disconnect = &nomad.DisconnectStrategy{LostAfter: duration()}
	case "replace":
		no := false
		tg.Disconnect.Replace = &no
	default:
		t.Fatalf("unknown option %q", key)
	}
}

// nodeOf returns a node in a state, nil if it is deleted.
func nodeOf(id, state string) *nomad.Node {
	switch state {
	case "deleted":
		return nil
	case "draining":
		return &nomad.Node{ID: id, Status: nomad.NodeStatusReady, DrainStrategy: &nomad.DrainStrategy{}}
	}
	return &nomad.Node{ID: id, Status: state}
}

// changes describes a result.
func changes(r *reconcile.Result) []string {
	var out []string
	for _, s := range r.Stop {
		out = append(out, strings.TrimSpace(fmt.Sprintf("stop %s: %s %s", s.Alloc.ID, s.Description, s.ClientStatus)))
	}
	for _, p := range r.Place {
		text := "place " + p.Name
		if p.Canary {
			text += " canary"
		}
		if p.Previous != nil {
			text += " for " + p.Previous.ID
		}
		if p.StopPrevious != "" {
			text += ", then stop: " + p.StopPrevious
		}
		out = append(out, text)
	}
	for _, d := range r.Delay {
		out = append(out, fmt.Sprintf("%s waits for evaluation %s, becomes unknown: %t", d.Alloc.ID, d.EvalID, d.Unknown))
	}
	for _, e := range r.Followups {
		out = append(out, fmt.Sprintf("evaluation %s after %v: %s", e.TriggeredBy, e.WaitUntil.Sub(time.Unix(100_000, 0)), e.StatusDescription))
	}
	for _, a := range r.Reconnected {
		out = append(out, a.ID+" is back")
	}
	if len(out) == 0 {
		out = append(out, "nothing")
	}
	return out
}

// The names of system allocations begin with the name of the job, those of others with its ID.
func TestNames(t *testing.T) {
	j := job()
	j.Name = "shown"
	if r := reconcile.Generic(request(j)); len(r.Place) != 1 || r.Place[0].Name != "j.g[0]" {
		t.Errorf("placements of a service = %+v, want j.g[0]", r.Place)
	}
	j.Type = nomad.JobTypeSystem
	r := reconcile.System(request(j), []*nomad.Node{{ID: "n", Status: nomad.NodeStatusReady}})
	if len(r.Place) != 1 || r.Place[0].Name != "shown.g[0]" {
		t.Errorf("placements of a system job = %+v, want shown.g[0]", r.Place)
	}
}
