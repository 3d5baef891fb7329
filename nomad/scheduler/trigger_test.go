package scheduler_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

// The schedulers process evaluations of each trigger of the vocabulary, and fail others.
func TestTriggers(t *testing.T) {
	known := triggersOfVocabulary(t)
	if len(known) < 18 {
		t.Fatalf("found only the triggers %q", known)
	}
	for _, kind := range []string{nomad.JobTypeService, nomad.JobTypeBatch, nomad.JobTypeSystem, nomad.JobTypeSysBatch} {
		for _, trigger := range append(known, "next-decade") {
			w := newWorld(t)
			w.addNode("n1")
			w.register(job(kind, 1))
			e := w.process(func(e *nomad.Evaluation) { e.TriggeredBy = trigger })
			if trigger != "next-decade" {
				if e.Status != nomad.EvalStatusComplete || len(w.live()) != 1 {
					t.Errorf("%s, %s: evaluation is %s (%s)", kind, trigger, e.Status, e.StatusDescription)
				}
				continue
			}
			if want := "scheduler cannot handle 'next-decade' evaluation reason"; e.Status != nomad.EvalStatusFailed ||
				e.StatusDescription != want || len(w.plans) != 0 {
				t.Errorf("%s: evaluation is %s (%s), %d plans", kind, e.Status, e.StatusDescription, len(w.plans))
			}
		}
	}
}

// triggersOfVocabulary returns the values of the constants EvalTrigger... of package nomad.
func triggersOfVocabulary(t *testing.T) (out []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../eval.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if ok && strings.HasPrefix(v.Names[0].Name, "EvalTrigger") {
			text, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, text)
		}
		return true
	})
	return out
}

// After plans that were rejected too often, a blocked evaluation of the job, not of one node, does the remaining work.
func TestRejectedPlans_FollowUp(t *testing.T) {
	for kind, attempts := range map[string]string{
		nomad.JobTypeService: "5", nomad.JobTypeBatch: "2", nomad.JobTypeSystem: "5", nomad.JobTypeSysBatch: "2",
	} {
		t.Run(kind, func(t *testing.T) {
			w := newWorld(t)
			w.addNode("n1")
			w.register(job(kind, 1))
			w.refuse = func(string) bool { return true }
			e := w.process(func(e *nomad.Evaluation) { e.NodeID = "n1" })
			if want := "maximum attempts reached (" + attempts + ")"; e.Status != nomad.EvalStatusFailed || e.StatusDescription != want {
				t.Errorf("evaluation is %s (%s), want %q", e.Status, e.StatusDescription, want)
			}
			if len(w.created) != 1 || e.BlockedEval != w.created[0].ID {
				t.Fatalf("created %+v, want one blocked evaluation", w.created)
			}
			b := w.created[0]
			if b.Status != nomad.EvalStatusBlocked || b.TriggeredBy != nomad.EvalTriggerMaxPlans ||
				b.StatusDescription != "created due to placement conflicts" || b.PreviousEval != e.ID || b.NodeID != "" || !b.EscapedComputedClass {
				t.Errorf("blocked evaluation is %+v", b)
			}
			w.refuse = nil
			if e := w.process(func(e *nomad.Evaluation) { *e = *b }); e.Status != nomad.EvalStatusComplete || len(w.live()) != 1 {
				t.Errorf("the blocked evaluation ended as %s with %d allocations", e.Status, len(w.live()))
			}
		})
	}
}

func TestEvaluation_Unplaced(t *testing.T) {
	w := newWorld(t)
	w.register(job(nomad.JobTypeService, 1))
	e := w.process()
	if len(w.created) != 1 || w.created[0].StatusDescription != "created to place remaining allocations" ||
		w.created[0].TriggeredBy != nomad.EvalTriggerQueuedAllocs || e.BlockedEval != w.created[0].ID {
		t.Errorf("created %+v", w.created)
	}
}
