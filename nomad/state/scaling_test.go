package state_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// scaledJob returns an edit that gives a job groups, each with the policy of its name.
func scaledJob(policies map[string]*nomad.ScalingPolicy) func(*nomad.Job) {
	return func(j *nomad.Job) {
		j.TaskGroups = nil
		for name, p := range policies {
			j.TaskGroups = append(j.TaskGroups, &nomad.TaskGroup{Name: name, Scaling: p})
		}
	}
}

// policies returns the ID, target group, maximum, state and indexes of each policy of a job.
func (w *world) policies(job string) string {
	var out []string
	for p := range w.snap().ScalingPoliciesByJob(nil, "default", job) {
		want := map[string]string{"Namespace": "default", "Job": job, "Group": p.Target["Group"]}
		if p.Type != "horizontal" || !maps.Equal(p.Target, want) {
			w.t.Errorf("policy %s has type %q and target %v", p.ID, p.Type, p.Target)
		}
		out = append(out, fmt.Sprint(p.ID, " ", p.Target["Group"], " ", p.Max, " ", p.Enabled, " ", p.CreateIndex, "-", p.ModifyIndex))
	}
	return strings.Join(out, ", ")
}

func TestScalingPolicies(t *testing.T) {
	w := newWorld(t)
	expect := func(when, want string) {
		t.Helper()
		if got := w.policies("j"); got != want {
			t.Errorf("%s: policies are %q, want %q", when, got, want)
		}
	}
	policy := func(id string, limit int64) *nomad.ScalingPolicy {
		return &nomad.ScalingPolicy{ID: id, Max: limit, Enabled: true, Policy: map[string]any{"cooldown": "1m"}}
	}
	stale := policy("a", 3)
	stale.Target = map[string]string{"Namespace": "other", "Job": "other", "Group": "other"}
	w.job("j", scaledJob(map[string]*nomad.ScalingPolicy{"g": stale, "h": policy("b", 4), "plain": nil}))
	expect("registered", "a g 3 true 101-101, b h 4 true 101-101")
	if stale.Target["Job"] != "other" {
		t.Error("the job's own policy was written to")
	}
	w.job("j", scaledJob(map[string]*nomad.ScalingPolicy{"g": policy("other", 3), "h": policy("", 5)}))
	expect("the first is the same, the second has another maximum", "a g 3 true 101-101, b h 5 true 101-102")
	w.job("j", scaledJob(map[string]*nomad.ScalingPolicy{"g": policy("a", 3), "i": policy("c", 1)}))
	expect("another group", "a g 3 true 101-101, c i 1 true 103-103")
	w.job("k", scaledJob(map[string]*nomad.ScalingPolicy{"g": policy("d", 3)}))
	w.job("j/periodic-1", scaledJob(map[string]*nomad.ScalingPolicy{"g": policy("a", 9)})) // a launch by a leader of Nomad
	expect("a child with the policy of its parent", "a g 3 true 101-101, c i 1 true 103-103")
	if got := w.policies("j/periodic-1"); got != "" {
		t.Errorf("policies of the child: %q", got)
	}

	deregister := func(purge bool) {
		w.ok(w.DeregisterJob(w.next(),
			&message.JobDeregisterRequest{JobID: "j", Purge: purge, WriteRequest: message.WriteRequest{Namespace: "default"}}))
	}
	running := w.snap().Job(nil, "default", "j")
	deregister(false)
	expect("stopped", "a g 3 false 101-106, c i 1 false 103-106")
	for _, v := range w.snap().JobVersions(nil, "default", "j") {
		if g := v.TaskGroup("g"); g.Scaling != nil && g.Scaling.Enabled == v.Stop {
			t.Errorf("the policy in version %d (stop %t) has enabled %t", v.Version, v.Stop, g.Scaling.Enabled)
		}
	}
	if !running.TaskGroup("g").Scaling.Enabled {
		t.Error("a row was written to")
	}
	w.job("j", scaledJob(map[string]*nomad.ScalingPolicy{"g": policy("a", 3)}))
	expect("started", "a g 3 true 101-107")
	deregister(true)
	expect("purged", "")
	if got := w.policies("k"); got != "d g 3 true 104-104" || w.snap().ScalingPolicy(nil, "d") == nil ||
		w.snap().TableIndex(state.TableScalingPolicy) != w.index {
		t.Errorf("policies of the other job are %q, the table is at %d", got, w.snap().TableIndex(state.TableScalingPolicy))
	}
}

// A policy without an ID is not stored, and the log names it: the state makes no IDs.
func TestScalingPolicyWithoutID(t *testing.T) {
	var log bytes.Buffer
	s := state.New(slog.New(slog.NewTextHandler(&log, nil)))
	j := &nomad.Job{ID: "j", Namespace: "default", TaskGroups: []*nomad.TaskGroup{{Name: "g", Scaling: &nomad.ScalingPolicy{Max: 3}}}}
	if _, err := s.RegisterJob(101, &message.JobRegisterRequest{Job: j}); err != nil {
		t.Fatal(err)
	}
	for p := range s.Snapshot().ScalingPolicies(nil) {
		t.Errorf("policy %+v is stored", p)
	}
	if !strings.Contains(log.String(), "scaling policy without ID") || !strings.Contains(log.String(), "job=j") {
		t.Errorf("the log is %q", log.String())
	}
}

// The scaling events of a job are deleted with it.
func TestScalingEventsAreDeletedWithTheJob(t *testing.T) {
	r := state.NewRestore(nil)
	load(t, r, "Job", &nomad.Job{ID: "j", Namespace: "default"}, &nomad.Job{ID: "k", Namespace: "default"})
	events := map[string][]*nomad.ScalingEvent{"g": {{Time: 5, Message: "m"}}}
	load(t, r, "ScalingEvents", &nomad.JobScalingEvents{Namespace: "default", JobID: "j", ScalingEvents: events},
		&nomad.JobScalingEvents{Namespace: "default", JobID: "k", ScalingEvents: events})
	s := r.Finish()
	if _, err := s.DeregisterJob(101,
		&message.JobDeregisterRequest{JobID: "j", Purge: true, WriteRequest: message.WriteRequest{Namespace: "default"}}); err != nil {
		t.Fatal(err)
	}
	var jobs []string
	for e := range s.Snapshot().ScalingEvents(nil) {
		jobs = append(jobs, fmt.Sprint(e.JobID, " ", e.ScalingEvents["g"][0].Message))
	}
	if fmt.Sprint(jobs) != "[k m]" || s.Snapshot().TableIndex(state.TableScalingEvent) != 101 {
		t.Errorf("events of %v remain, the table is at %d", jobs, s.Snapshot().TableIndex(state.TableScalingEvent))
	}
}

// Tasks have policies of their own. A stopped job disables them too, and a job without them deletes them.
func TestScalingPoliciesOfTasks(t *testing.T) {
	w := newWorld(t)
	job := func(list ...*nomad.ScalingPolicy) func(*nomad.Job) {
		return func(j *nomad.Job) {
			j.TaskGroups = []*nomad.TaskGroup{{Name: "g", Scaling: &nomad.ScalingPolicy{ID: "h", Max: 2, Enabled: true},
				Tasks: []*nomad.Task{{Name: "t", ScalingPolicies: list}, {Name: "u"}}}}
		}
	}
	policy := func(id, kind string, limit int64) *nomad.ScalingPolicy {
		return &nomad.ScalingPolicy{ID: id, Type: kind, Max: limit, Enabled: true}
	}
	expect := func(when string, want ...string) {
		t.Helper()
		var got []string
		for p := range w.snap().ScalingPoliciesByJob(nil, "default", "j") {
			got = append(got, fmt.Sprintf("%s %s %s %d %v %d-%d", p.ID, p.Type, p.Target["Task"], p.Max, p.Enabled, p.CreateIndex, p.ModifyIndex))
			if p.Target["Group"] != "g" || p.Target["Job"] != "j" || p.Target["Namespace"] != "default" {
				t.Errorf("%s: target of %s is %v", when, p.ID, p.Target)
			}
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s: policies are %q, want %q", when, got, want)
		}
	}
	w.job("j", job(policy("c", "vertical_cpu", 500), policy("m", "vertical_mem", 600)))
	expect("registered", "c vertical_cpu t 500 true 101-101", "h horizontal  2 true 101-101", "m vertical_mem t 600 true 101-101")
	w.job("j", job(policy("other", "vertical_cpu", 501)))
	expect("one is changed and one is removed", "c vertical_cpu t 501 true 101-102", "h horizontal  2 true 101-101")
	w.ok(w.DeregisterJob(w.next(), &message.JobDeregisterRequest{JobID: "j", WriteRequest: message.WriteRequest{Namespace: "default"}}))
	expect("stopped", "c vertical_cpu t 501 false 101-103", "h horizontal  2 false 101-103")
}
