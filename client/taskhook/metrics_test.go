package taskhook

import (
	"fmt"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

func TestLabels(t *testing.T) {
	task := &nomad.Task{Name: "t", Meta: map[string]string{"owner-team": "b", "task": "forged"}}
	group := &nomad.TaskGroup{Name: "g", Tasks: []*nomad.Task{task}, Meta: map[string]string{"owner_team": "a", "1st": "x"}}
	alloc := &nomad.Allocation{ID: "a1", JobID: "p/dispatch-1", TaskGroup: "g", Namespace: "n",
		Job: &nomad.Job{ID: "p/dispatch-1", Name: "p/dispatch-1", TaskGroups: []*nomad.TaskGroup{group},
			Meta: map[string]string{"namespace": "forged", "__name__": "forged", "quantile": "0.5", "secret": "s"}}}
	const child = " {parent_id p} {dispatch_id 1}]"
	for name, test := range map[string]struct {
		m    Metrics
		want string
	}{
		"nothing published": {Metrics{Meta: true}, "[{job p/dispatch-1} {task_group g} {task t} {namespace n}" + child},
		"allocations":       {Metrics{Allocs: true}, "[{job p/dispatch-1} {task_group g} {alloc_id a1} {task t} {namespace n}" + child},
		"metadata": {Metrics{Allocs: true, Meta: true},
			"[{job p/dispatch-1} {task_group g} {alloc_id a1} {task t} {namespace n} {parent_id p} {dispatch_id 1} " +
				"{_1st x} {owner_team a} {secret s}]"},
		"chosen metadata": {Metrics{Allocs: true, Meta: true, MetaKeys: []string{"owner-team", "missing"}},
			"[{job p/dispatch-1} {task_group g} {alloc_id a1} {task t} {namespace n} {parent_id p} {dispatch_id 1} {owner_team b}]"},
		"metadata never alone": {Metrics{Meta: true, MetaKeys: []string{"secret"}},
			"[{job p/dispatch-1} {task_group g} {task t} {namespace n}" + child},
	} {
		t.Run(name, func(t *testing.T) {
			got := test.m.Labels(alloc, task)
			if fmt.Sprint(got) != test.want {
				t.Errorf("Labels() = %v, want %s", got, test.want)
			}
			if len(got) != cap(got) {
				t.Error("the labels have spare capacity, which callers of append would share")
			}
		})
	}
}
