package scheduler_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// TestRuleScripts runs testdata/rules/*.txt. A script is a list of steps. The lines after "eval" that begin with ">"
// are the plan of the evaluation and the evaluations that it creates; -update rewrites them. An allocation has a
// letter, in the order of the placements.
//
//	nodes 3                         adds ready nodes n1 to n3
//	job count=3 type=batch          registers a job; further calls change the given fields: a new version
//	again                           registers the job without changes
//	eval [followup]                 processes an evaluation of the job, or the oldest follow-up evaluation at its time
//	running|complete|failed a b     reports the status of allocations
//	healthy|unhealthy a b           reports their health
//	migrate|reschedule|force a b    sets a desired transition
//	lose|disconnect|delete a        makes the node of an allocation down or disconnected, or deletes it
//	wait 10s                        lets time pass
//	deployment failed|paused        changes the status of the deployment
//	promote                         promotes its canaries
func TestRuleScripts(t *testing.T) {
	testScripts(t, "rules", func(t *testing.T, text string) string {
		return (&ruleScript{script: newScript(t), letters: map[string]string{}}).runRules(text)
	})
}

// ruleScript is a script with named allocations.
type ruleScript struct {
	*script
	letters  map[string]string // allocation ID by letter
	order    []string          // letters in the order of the placements
	followed int               // follow-up evaluations that were processed
}

// runRules runs the steps and returns the text with the actual plans. The steps of a section, after a line "---", begin
// anew.
func (r *ruleScript) runRules(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, ">") {
			continue
		}
		out.WriteString(line)
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || words[0] == "#":
		case words[0] == "---":
			*r = ruleScript{script: newScript(r.t.(*testing.T)), letters: map[string]string{}}
		case words[0] == "eval":
			for _, l := range r.plan(words[1:]) {
				out.WriteString("> " + l + "\n")
			}
		default:
			r.rule(words[0], words[1:])
		}
	}
	return out.String()
}

// rule runs one step.
func (r *ruleScript) rule(verb string, args []string) {
	r.t.Helper()
	switch verb {
	case "job":
		r.ruleJob(args)
	case "again":
		r.change(func(*nomad.Job) {})
		r.jobs["j"].Version--
	case "running", "complete", "failed":
		r.report(verb, nil, r.named(args)...)
	case "healthy", "unhealthy":
		is := verb == "healthy"
		r.report(nomad.AllocClientStatusRunning, &is, r.named(args)...)
		r.countHealthy()
	case "migrate":
		r.mark(args, func(t *nomad.DesiredTransition) { t.Migrate = &yes })
	case "reschedule":
		r.mark(args, func(t *nomad.DesiredTransition) { t.Reschedule = &yes })
	case "force":
		r.mark(args, func(t *nomad.DesiredTransition) { t.ForceReschedule = &yes })
	case "lose":
		r.addNode(r.named(args)[0].NodeID, func(n *nomad.Node) { n.Status = nomad.NodeStatusDown })
	case "disconnect":
		r.addNode(r.named(args)[0].NodeID, func(n *nomad.Node) { n.Status = nomad.NodeStatusDisconnected })
	case "delete":
		delete(r.nodes, r.named(args)[0].NodeID)
	case "wait":
		r.now = r.now.Add(r.duration(args[0]))
	case "deployment":
		r.latest().Status = args[0]
	default:
		r.step(verb, args)
	}
}

// mark sets a desired transition of allocations.
func (r *ruleScript) mark(letters []string, set func(*nomad.DesiredTransition)) {
	for _, a := range r.named(letters) {
		out := *a
		set(&out.DesiredTransition)
		r.set(&out)
	}
}

func (r *ruleScript) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		r.t.Fatal(err)
	}
	return d
}

// named returns allocations by their letters.
func (r *ruleScript) named(letters []string) []*nomad.Allocation {
	var out []*nomad.Allocation
	for _, l := range letters {
		a := r.allocs[r.letters[l]]
		if a == nil {
			r.t.Fatalf("no allocation %s", l)
		}
		out = append(out, a)
	}
	return out
}

// countHealthy updates the deployment as the state does.
func (r *ruleScript) countHealthy() {
	d := r.latest()
	if d == nil || d.TaskGroups["g"] == nil {
		return
	}
	n := 0
	for _, a := range r.allocs {
		if s := a.DeploymentStatus; a.DeploymentID == d.ID && s != nil && s.Healthy != nil && *s.Healthy {
			n++
		}
	}
	d.TaskGroups["g"].HealthyAllocs = n
}

// plan processes an evaluation and describes what it changes.
func (r *ruleScript) plan(args []string) []string {
	edit, ok := r.evaluation(args)
	if !ok {
		return []string{"no follow-up evaluation"}
	}
	before, created, status := maps.Clone(r.allocs), len(r.created), map[string]string{}
	for _, d := range r.deps {
		status[d.ID] = d.Status
	}
	defer r.stamp(before)
	end := r.process(edit)
	out := r.allocChanges(before)
	for _, e := range r.created[created:] {
		if e.Status == nomad.EvalStatusBlocked {
			out = append(out, fmt.Sprintf("%d of %s not placed", end.QueuedAllocations["g"], "g"))
			continue
		}
		out = append(out, fmt.Sprintf("evaluation %s in %v %q", e.TriggeredBy, e.WaitUntil.Sub(r.now), e.StatusDescription))
	}
	for _, d := range r.deps {
		if was, is := status[d.ID], d.Status; was != is {
			out = append(out, fmt.Sprintf("deployment of version %d is %s", d.JobVersion, is))
		}
	}
	if len(out) == 0 {
		return []string{"nothing"}
	}
	return out
}

// evaluation returns the edit of the evaluation to process. It is false if there is no follow-up.
func (r *ruleScript) evaluation(args []string) (edit func(*nomad.Evaluation), ok bool) {
	if len(args) == 0 {
		return func(*nomad.Evaluation) {}, true
	}
	if args[0] != "followup" {
		r.t.Fatalf("unknown evaluation %q", args[0])
	}
	if r.followed == len(r.created) {
		return nil, false
	}
	next := r.created[r.followed]
	r.followed++
	if next.WaitUntil.After(r.now) {
		r.now = next.WaitUntil
	}
	return func(e *nomad.Evaluation) { e.TriggeredBy, e.ID = next.TriggeredBy, next.ID }, true
}

// stamp sets the time of the changes since before, as the state does.
func (r *ruleScript) stamp(before map[string]*nomad.Allocation) {
	for _, a := range maps.Clone(r.allocs) {
		if before[a.ID] != a {
			out := *a
			out.ModifyTime = r.now.UnixNano()
			r.set(&out)
		}
	}
}

// allocChanges describes the changes of allocations. It gives new ones their letters, by name.
func (r *ruleScript) allocChanges(before map[string]*nomad.Allocation) []string {
	var placed []*nomad.Allocation
	for id, a := range r.allocs {
		if before[id] == nil {
			placed = append(placed, a)
		}
	}
	slices.SortFunc(placed, func(a, b *nomad.Allocation) int {
		return cmp.Or(cmp.Compare(a.Index(), b.Index()), cmp.Compare(r.letterOf(a.PreviousAllocation), r.letterOf(b.PreviousAllocation)),
			cmp.Compare(a.ID, b.ID))
	})
	var out []string
	for _, l := range r.order {
		was, is := before[r.letters[l]], r.allocs[r.letters[l]]
		switch {
		case was.DesiredStatus != is.DesiredStatus:
			out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s: %s %s", l, is.DesiredStatus, is.DesiredDescription,
				changed(was.ClientStatus, is.ClientStatus))))
		case was.ClientStatus != is.ClientStatus:
			out = append(out, fmt.Sprintf("%s %s: %s", l, is.ClientStatus, is.DesiredDescription))
		case was.Job.Version != is.Job.Version:
			out = append(out, fmt.Sprintf("%s in place, version %d", l, is.Job.Version))
		case lastOf(was) != lastOf(is):
			out = append(out, fmt.Sprintf("%s %s", l, lastOf(is)))
		case was.FollowupEvalID != is.FollowupEvalID:
			out = append(out, l+" waits")
		}
	}
	for _, a := range placed {
		l := string(rune('a' + len(r.order)))
		r.letters[l], r.order = a.ID, append(r.order, l)
		text := fmt.Sprintf("%s = %s version %d", l, a.Name, a.Job.Version)
		if a.IsCanary() {
			text += ", canary"
		}
		if a.PreviousAllocation != "" {
			text += " for " + r.letterOf(a.PreviousAllocation)
		}
		if t := a.RescheduleTracker; t != nil {
			text += fmt.Sprintf(", %d events", len(t.Events))
		}
		out = append(out, text)
	}
	return out
}

// lastOf returns the result of the last reschedule of an allocation.
func lastOf(a *nomad.Allocation) nomad.RescheduleTrackerAnnotation {
	if a.RescheduleTracker == nil {
		return ""
	}
	return a.RescheduleTracker.LastReschedule
}

// changed returns the status if it is another one.
func changed(was, is string) string {
	if was == is {
		return ""
	}
	return "(" + is + ")"
}

func (r *ruleScript) letterOf(id string) string {
	for l, other := range r.letters {
		if other == id {
			return l
		}
	}
	return ""
}
