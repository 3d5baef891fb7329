package endpoint

import (
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
)

func TestTokensReadAsTheyAreWritten(t *testing.T) {
	c := cursor{index: 7, namespace: "apps", id: "a.b/c"}
	for name, x := range map[string]struct {
		order order
		token string
		back  cursor
	}{
		"id":           {byID, "a.b/c", cursor{id: "a.b/c"}},
		"namespace":    {byNamespace, "apps.a.b/c", cursor{namespace: "apps", id: "a.b/c"}},
		"creation":     {byCreation, "7.a.b/c", cursor{index: 7, id: "a.b/c"}},
		"modification": {byModification, "7", cursor{index: 7}},
	} {
		token := x.order.write(c)
		back, err := x.order.read(token)
		if token != x.token || back != x.back || err != nil {
			t.Errorf("%s: %q reads as %+v, %v, want %q and %+v", name, token, back, err, x.token, x.back)
		}
	}
}

func TestPagesCoverTheList(t *testing.T) {
	var all []*nomad.Evaluation
	for _, e := range []struct {
		id    string
		index uint64
	}{{"a", 9}, {"b", 3}, {"c", 3}, {"d", 12}, {"e", 1}} {
		all = append(all, &nomad.Evaluation{ID: e.id, CreateIndex: e.index})
	}
	for name, c := range map[string]struct {
		order   order
		reverse bool
		want    string
	}{
		"by ID":               {byID, false, "abcde"},
		"by ID, backwards":    {byID, true, "edcba"},
		"by index":            {byCreation, false, "ebcad"},
		"by index, backwards": {byCreation, true, "dacbe"},
	} {
		for per := int32(1); per < 7; per++ {
			got, token := "", ""
			for range all {
				q := &nomad.QueryOptions{PerPage: per, NextToken: token, Reverse: c.reverse}
				page, next, err := evalList(q, c.order).page(slices.Values(all))
				if err != nil || len(page) > int(per) {
					t.Fatalf("%s: page of %d: %v", name, len(page), err)
				}
				for _, e := range page {
					got += e.ID
				}
				if token = next; token == "" {
					break
				}
			}
			if got != c.want || token != "" {
				t.Errorf("%s in pages of %d: %q and token %q, want %q", name, per, got, token, c.want)
			}
		}
	}
}

func TestSameSpecLooksAtWhatTheJobAsksFor(t *testing.T) {
	job := func() *nomad.Job {
		return &nomad.Job{ID: "j", Type: "batch", Meta: map[string]string{"k": "v"}, TaskGroups: []*nomad.TaskGroup{{Name: "g", Count: 1,
			Tasks: []*nomad.Task{{Name: "t", Config: map[string]any{"n": 1, "list": []any{"a"}}}}}}}
	}
	b, err := codec.Encode(job())
	if err != nil {
		t.Fatal(err)
	}
	old := &nomad.Job{}
	if err := codec.Decode(b, old); err != nil {
		t.Fatal(err)
	}
	old.Status, old.Version, old.ModifyIndex, old.JobModifyIndex, old.CreateIndex, old.Stable = "running", 3, 9, 8, 7, true
	if !sameSpec(old, job()) {
		t.Error("what the servers set makes a difference")
	}
	for name, change := range map[string]func(*nomad.Job){
		"meta":   func(j *nomad.Job) { j.Meta["k"] = "w" },
		"count":  func(j *nomad.Job) { j.TaskGroups[0].Count = 2 },
		"config": func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Config["n"] = 2 },
		"stop":   func(j *nomad.Job) { j.Stop = true },
	} {
		j := job()
		change(j)
		if sameSpec(old, j) {
			t.Errorf("a change of %s makes no difference", name)
		}
	}
}

func TestImplicitConstraintsAreAddedOnce(t *testing.T) {
	job := &nomad.Job{TaskGroups: []*nomad.TaskGroup{{Name: "g", Tasks: []*nomad.Task{
		{Name: "a", KillSignal: "SIGUSR1", Identities: []*nomad.WorkloadIdentity{{Name: "aws", ChangeSignal: "SIGHUP"}}},
		{Name: "b", KillSignal: "SIGUSR1"},
	}}, {Name: "plain", Tasks: []*nomad.Task{{Name: "c"}}}}}
	addImplicitConstraints(job)
	addImplicitConstraints(job)
	got := job.TaskGroups[0].Constraints
	if len(got) != 2 || got[0].RTarget != ">= 1.7.0-a" || got[1].RTarget != "SIGHUP,SIGUSR1" {
		t.Errorf("constraints = %v", got)
	}
	if len(job.TaskGroups[1].Constraints) != 0 {
		t.Error("a group that needs nothing is constrained")
	}
}
