package scheduler_test

import (
	"slices"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/quota"
)

// limited sets the quota of the world.
func (w *world) limited(limits quota.Resources) {
	w.quota = &quota.Spec{Name: "q", Limits: []*quota.Limit{{Region: "far", RegionLimit: &quota.Resources{Allocs: new(-1)}},
		{Region: "near", RegionLimit: &limits}}}
}

func nearQuota(j *nomad.Job) { j.Region = "near" }

func TestQuota(t *testing.T) {
	type res = quota.Resources
	type amount = quota.Amount
	for name, c := range map[string]struct {
		limits    res
		elsewhere amount
		typ       string
		edit      func(*nomad.Job)
		placed    int // of five
		why       string
	}{
		"no limits":            {res{}, amount{}, "service", nil, 5, ""},
		"room enough":          {res{CPU: new(500), MemoryMB: new(500), Allocs: new(5)}, amount{}, "service", nil, 5, ""},
		"zero is unlimited":    {res{CPU: new(0), Allocs: new(0)}, amount{CPU: 1 << 20}, "service", nil, 5, ""},
		"negative allows none": {res{CPU: new(-1)}, amount{}, "service", nil, 0, "cpu exhausted (100 needed > 0 limit)"},
		"not requested":        {res{Cores: new(-1)}, amount{}, "service", nil, 5, ""},
		"cpu":                  {res{CPU: new(399)}, amount{}, "service", nil, 3, "cpu exhausted (400 needed > 399 limit)"},
		"memory":               {res{MemoryMB: new(200)}, amount{}, "batch", nil, 2, "memory exhausted (300 needed > 200 limit)"},
		"usage of other jobs":  {res{MemoryMB: new(200)}, amount{MemoryMB: 101}, "batch", nil, 0, "memory exhausted (201 needed > 200 limit)"},
		"allocations":          {res{Allocs: new(4)}, amount{Allocs: 1}, "service", nil, 3, "allocs exhausted (5 needed > 4 limit)"},
		"cores": {res{Cores: new(4)}, amount{}, "service", func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Resources.Cores = 2 },
			2, "cores exhausted (6 needed > 4 limit)"},
		"more memory than is reserved": {res{MemoryMaxMB: new(300)}, amount{}, "service",
			func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Resources.MemoryMaxMB = 150 },
			2, "memory_max exhausted (450 needed > 300 limit)"},
		"memory without a limit": {res{MemoryMaxMB: new(1 << 30)}, amount{}, "service",
			func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Resources.MemoryMaxMB = -1 },
			0, "memory_max exhausted (unlimited requested > 1073741824 limit)"},
		"system":   {res{Allocs: new(2)}, amount{}, "system", nil, 2, "allocs exhausted (3 needed > 2 limit)"},
		"sysbatch": {res{Allocs: new(2)}, amount{}, "sysbatch", nil, 2, "allocs exhausted (3 needed > 2 limit)"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.config.MemoryOversubscriptionEnabled = true
			for _, id := range []string{"n1", "n2", "n3", "n4", "n5"} {
				w.addNode(id)
			}
			w.limited(c.limits)
			w.elsewhere = c.elsewhere
			w.register(job(c.typ, 5, nearQuota, func(j *nomad.Job) {
				if c.edit != nil {
					c.edit(j)
				}
			}))
			e := w.process()
			if got := len(w.live()); got != c.placed {
				t.Errorf("%d allocations placed, want %d", got, c.placed)
			}
			if c.why == "" {
				if e.QuotaLimitReached != "" || len(w.created) != 0 {
					t.Errorf("quota %q is exhausted, %d evaluations made", e.QuotaLimitReached, len(w.created))
				}
				return
			}
			m := e.FailedTGAllocs["g"]
			if e.QuotaLimitReached != "q" || m == nil || !slices.Equal(m.QuotaExhausted, []string{c.why}) {
				t.Fatalf("the evaluation ends with quota %q, %+v", e.QuotaLimitReached, m)
			}
			if len(w.created) != 1 || w.created[0].QuotaLimitReached != "q" || w.created[0].Status != nomad.EvalStatusBlocked {
				t.Errorf("created %+v, want one blocked on the quota", w.created)
			}
		})
	}
}

// The allocations that a plan stops free quota for those that it places.
func TestQuota_Update(t *testing.T) {
	w := newWorld(t)
	w.addNode("n1")
	w.limited(quota.Resources{Allocs: new(2)})
	w.register(job("batch", 2, nearQuota))
	w.process()
	w.change(func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Config = map[string]any{"command": "false"} })
	if e := w.process(); e.QuotaLimitReached != "" {
		t.Errorf("the update found quota %q exhausted", e.QuotaLimitReached)
	}
	live := w.live()
	wantNames(t, live, "j.g[0]", "j.g[1]")
	for _, a := range live {
		if a.Job != nil && a.Job.Version != 1 {
			t.Errorf("allocation %s is of version %d", a.Name, a.Job.Version)
		}
	}
	// An evaluation that is blocked again gets a new description.
	w.change(func(j *nomad.Job) { j.TaskGroups[0].Count = 3 })
	w.process()
	blocked := w.created[len(w.created)-1]
	w.process(func(e *nomad.Evaluation) { *e = *blocked })
	if len(w.reblocked) != 1 || w.reblocked[0].QuotaLimitReached != "q" {
		t.Fatalf("reblocked %+v", w.reblocked)
	}
	w.quota = nil
	w.process(func(e *nomad.Evaluation) { *e = *w.reblocked[0] })
	if e := w.finished[len(w.finished)-1]; e.QuotaLimitReached != "" || len(w.live()) != 3 {
		t.Errorf("without a quota: %q, %d allocations", e.QuotaLimitReached, len(w.live()))
	}
}

// Preempted allocations of the same quota free quota.
func TestQuota_Preemption(t *testing.T) {
	for limit, want := range map[int]int{1: 0, 2: 1} {
		w := newWorld(t)
		w.config.PreemptionConfig = nomad.PreemptionConfig{ServiceSchedulerEnabled: true}
		w.addNode("n1")
		w.fill("n1", 2000, 10, 20)
		w.limited(quota.Resources{Allocs: new(limit)})
		w.register(job("service", 1, nearQuota, func(j *nomad.Job) { j.TaskGroups[0].Tasks[0].Resources.CPU = 2000 }))
		w.process()
		if got := len(w.evicted()); got != want {
			t.Errorf("limit %d: %d allocations were preempted, want %d", limit, got, want)
		}
	}
}
