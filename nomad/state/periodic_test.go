package state_test

import (
	"testing"
	"time"

	msgpack "github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// periodic makes a job periodic and sets the time of its registration.
func periodic(seconds int64) func(*nomad.Job) {
	return func(j *nomad.Job) {
		j.Periodic, j.SubmitTime = &nomad.PeriodicConfig{Enabled: true, Spec: "* * * * *"}, seconds*1e9
	}
}

func childOf(parent string) func(*nomad.Job) {
	return func(j *nomad.Job) { j.ParentID, j.SubmitTime = parent, 999e9 }
}

// The launch of a periodic job is the time of its registration, and then that of each child.
func TestPeriodicLaunch(t *testing.T) {
	w := newWorld(t)
	expect := func(when string, created, modified uint64, seconds int64) {
		t.Helper()
		l := w.snap().PeriodicLaunch(nil, "default", "p")
		if l == nil || l.ID != "p" || l.Namespace != "default" || l.CreateIndex != created || l.ModifyIndex != modified ||
			!l.Launch.Equal(time.Unix(seconds, 0)) {
			t.Errorf("%s: launch is %+v, want %ds, created at %d and modified at %d", when, l, seconds, created, modified)
		}
	}
	w.job("p", periodic(100))
	first := w.index
	expect("registered", first, first, 100)
	w.job("p", periodic(150))
	expect("registered again", first, first, 100)
	w.job("p/periodic-160", childOf("p"))
	expect("launched", first, w.index, 160)
	w.job("p/periodic-220", childOf("p"))
	last := w.index
	expect("launched again", first, last, 220)
	w.job("p/periodic-160", childOf("p"))
	expect("an earlier child is registered again", first, last, 220)
	for _, other := range []string{"p/periodic-", "p/periodic-later", "p/dispatch-300-1", "q/periodic-300", "p/periodic--300"} {
		w.job(other, childOf("p"))
	}
	w.job("p/periodic-400") // has no parent
	expect("children without a launch time", first, last, 220)
	deregister := func(purge bool) {
		w.ok(w.DeregisterJob(w.next(),
			&message.JobDeregisterRequest{JobID: "p", Purge: purge, WriteRequest: message.WriteRequest{Namespace: "default"}}))
	}
	deregister(false)
	expect("stopped", first, last, 220)
	deregister(true)
	if l := w.snap().PeriodicLaunch(nil, "default", "p"); l != nil || w.snap().TableIndex(state.TablePeriodicLaunch) != w.index {
		t.Errorf("purged: launch is %+v, the table is at %d, want %d", l, w.snap().TableIndex(state.TablePeriodicLaunch), w.index)
	}
	w.job("p/periodic-500", childOf("p"))
	if l := w.snap().PeriodicLaunch(nil, "default", "p"); l != nil {
		t.Errorf("a child of a purged job: launch is %+v", l)
	}
	w.job("p", periodic(600))
	expect("registered after the purge", w.index, w.index, 600)
	w.ok(w.DeregisterJobs(w.next(),
		&message.JobBatchDeregisterRequest{Jobs: map[nomad.NamespacedID]*message.JobDeregisterOptions{{ID: "p",
			Namespace: "default"}: {Purge: true}}}))
	for l := range w.snap().PeriodicLaunches(nil) {
		t.Errorf("purged in a batch: launch is %+v", l)
	}
}

// Only jobs that a leader launches have a launch.
func TestPeriodicLaunchOfInactiveJobs(t *testing.T) {
	w := newWorld(t)
	edits := map[string]func(*nomad.Job){
		"plain":         func(j *nomad.Job) { j.Periodic = nil },
		"disabled":      func(j *nomad.Job) { j.Periodic.Enabled = false },
		"stopped":       func(j *nomad.Job) { j.Stop = true },
		"parameterized": func(j *nomad.Job) { j.ParameterizedJob = &nomad.ParameterizedJobConfig{} },
	}
	for id, edit := range edits {
		w.job(id, periodic(100), edit)
		w.job(id+"/periodic-200", childOf(id))
	}
	for _, id := range []string{"plain", "parameterized"} {
		if l := w.snap().PeriodicLaunch(nil, "default", id); l != nil {
			t.Errorf("the launch of the %s job is %+v", id, l)
		}
	}
	for _, id := range []string{"disabled", "stopped"} { // launched by force
		if l := w.snap().PeriodicLaunch(nil, "default", id); l == nil || !l.Launch.Equal(time.Unix(200, 0)) {
			t.Errorf("the launch of the %s job is %+v, want that of its child", id, l)
		}
	}
	w.job("later", periodic(100), edits["disabled"])
	if l := w.snap().PeriodicLaunch(nil, "default", "later"); l != nil {
		t.Errorf("the launch of a disabled job is %+v", l)
	}
	w.job("later", periodic(300))
	if l := w.snap().PeriodicLaunch(nil, "default", "later"); l == nil || !l.Launch.Equal(time.Unix(300, 0)) {
		t.Errorf("the launch of a job that was enabled later is %+v", l)
	}
	w.job("job", periodic(100), func(j *nomad.Job) { j.ParameterizedJob, j.Dispatched = &nomad.ParameterizedJobConfig{}, true })
	if w.snap().PeriodicLaunch(nil, "default", "job") == nil {
		t.Error("a dispatched periodic job has no launch")
	}
}

// load restores rows of a record type.
func load(t *testing.T, to *state.Restore, name string, rows ...any) {
	t.Helper()
	for _, rec := range state.Tables() {
		if rec.Name != name {
			continue
		}
		for _, row := range rows {
			raw, err := codec.Encode(row)
			if err != nil {
				t.Fatal(err)
			}
			err = rec.Read(to, func(v any) error {
				if undecoded, ok := v.(*msgpack.Raw); ok {
					*undecoded = raw
					return nil
				}
				return codec.Decode(raw, v)
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A snapshot of an earlier version has no launches and scaling policies. Rows that a snapshot has
// are not changed.
func TestRestoreOfRowsThatEarlierVersionsLeftOut(t *testing.T) {
	job := func(id string, edit ...func(*nomad.Job)) *nomad.Job {
		j := &nomad.Job{ID: id, Namespace: "default", TaskGroups: []*nomad.TaskGroup{{Name: "g"}}}
		for _, e := range edit {
			e(j)
		}
		return j
	}
	scaling := func(id string) func(*nomad.Job) {
		return func(j *nomad.Job) { j.TaskGroups[0].Scaling = &nomad.ScalingPolicy{ID: id} }
	}
	r := state.NewRestore(nil)
	load(t, r, "Index", &nomad.IndexEntry{Key: "jobs", Value: 70})
	load(t, r, "Job", job("lacks", periodic(100), scaling("s1")), job("lacks/periodic-300", childOf("lacks")),
		job("lacks/periodic-200", childOf("lacks")),
		job("has", periodic(100), scaling("s2")), job("has/periodic-300", childOf("has")),
		job("stopped", periodic(100), func(j *nomad.Job) { j.Stop = true }))
	load(t, r, "PeriodicLaunch", &nomad.PeriodicLaunch{Namespace: "default", ID: "has", Launch: time.Unix(250, 0).UTC(), CreateIndex: 5,
		ModifyIndex: 6})
	load(t, r, "ScalingPolicy", &nomad.ScalingPolicy{ID: "kept",
		Target: map[string]string{"Namespace": "default", "Job": "has", "Group": "g"}, CreateIndex: 5, ModifyIndex: 6})
	snap := r.Finish().Snapshot()
	if l := snap.PeriodicLaunch(nil, "default", "lacks"); l == nil || !l.Launch.Equal(time.Unix(300, 0)) {
		t.Errorf("the launch is %+v, want that of the newest child", l)
	}
	if l := snap.PeriodicLaunch(nil, "default", "has"); l == nil || !l.Launch.Equal(time.Unix(250, 0)) || l.ModifyIndex != 6 {
		t.Errorf("a stored launch is %+v", l)
	}
	if l := snap.PeriodicLaunch(nil, "default", "stopped"); l != nil {
		t.Errorf("the launch of a stopped job is %+v", l)
	}
	if p := snap.ScalingPolicy(nil, "s1"); p == nil || p.Target["Job"] != "lacks" || p.ModifyIndex != 70 {
		t.Errorf("the scaling policy is %+v", p)
	}
	if p := snap.ScalingPolicy(nil, "kept"); p == nil || p.ModifyIndex != 6 || p.Type != "horizontal" || snap.ScalingPolicy(nil, "s2") != nil {
		t.Errorf("a stored scaling policy is %+v", p)
	}
}
