package web

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
)

// stored holds objects of the state.
type stored struct {
	jobs      []*nomad.Job
	summaries []*nomad.JobSummary
	allocs    []*nomad.Allocation
	nodes     []*nomad.Node
}

func newStored() *stored {
	s := &stored{}
	for i := range 20 {
		j := &nomad.Job{ID: fmt.Sprintf("job-%d", i), Namespace: "default", Name: "<&>", Meta: map[string]string{"b": "1", "a": "2"}}
		s.jobs = append(s.jobs, j)
		s.summaries = append(s.summaries, &nomad.JobSummary{JobID: j.ID, Summary: map[string]nomad.TaskGroupSummary{"g": {Running: i}}})
		s.allocs = append(s.allocs, &nomad.Allocation{ID: fmt.Sprintf("alloc-%d", i), Namespace: "default", Job: j,
			TaskStates: map[string]*nomad.TaskState{"t": {State: "running", StartedAt: time.Unix(int64(i), 0)}}})
		s.nodes = append(s.nodes, &nomad.Node{ID: fmt.Sprintf("node-%d", i), Attributes: map[string]string{"os.name": "x"}})
	}
	return s
}

// lists returns lists as the servers make them, with or without their optional fields.
func (s *stored) lists(all bool) map[string]any {
	var jobs []*nomad.JobListStub
	var allocs []*nomad.AllocListStub
	var nodes []*nomad.NodeListStub
	for i := range s.jobs {
		jobs = append(jobs, s.jobs[i].Stub(s.summaries[i], &nomad.JobStubFields{Meta: all}))
		allocs = append(allocs, s.allocs[i].Stub(&nomad.AllocStubFields{TaskStates: all}))
		nodes = append(nodes, s.nodes[i].Stub(&nomad.NodeStubFields{OS: all}))
	}
	return map[string]any{"jobs": jobs, "allocations": allocs, "nodes": nodes, "no jobs": []*nomad.JobListStub{},
		"nil":          []*nomad.JobListStub(nil),
		"decoded jobs": []*nomad.JobListStub{{ID: "job-0", Namespace: "default"}, {ID: "job-1", Namespace: "default"}}}
}

// listJSON returns the JSON of a list through the cache.
func listJSON(t *testing.T, c *rowCache, list any) (out string) {
	t.Helper()
	rows := listRows(list)
	if rows == nil {
		t.Fatalf("the rows of %T are not cached", list)
	}
	if err := c.withJSON(rows, func(text []byte) { out = string(text) }); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestCachedListsAreEncodedAlike(t *testing.T) {
	var c rowCache
	objects := newStored()
	for _, all := range []bool{false, true, false} {
		for name, list := range objects.lists(all) {
			want, err := codec.EncodeJSON(orEmptyList(list))
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if got := listJSON(t, &c, list); got != string(want) {
					t.Errorf("%s with all fields %v: %s, want %s", name, all, got, want)
				}
			}
		}
	}
	if listRows([]*nomad.Evaluation{}) != nil || listRows(nil) != nil || listRows(make([]*nomad.JobListStub, maxListRows+1)) != nil {
		t.Error("other bodies or long lists have cached rows")
	}
}

func TestRowsAreCachedUntilTheyChange(t *testing.T) {
	var c rowCache
	job := &nomad.Job{ID: "j", Namespace: "default", Name: "before"}
	summary := &nomad.JobSummary{JobID: "j"}
	first := job.Stub(summary, nil)
	listJSON(t, &c, []*nomad.JobListStub{first})
	first.Name = "not encoded again" // a server never does this
	if again := job.Stub(summary, nil); !strings.Contains(listJSON(t, &c, []*nomad.JobListStub{again}), "before") {
		t.Error("an unchanged row is lost")
	}
	id, source := first.Source()
	if c.find(id, source) == nil {
		t.Fatal("the row is not cached")
	}
	next := *job
	next.Name = "after"
	for name, changed := range map[string]*nomad.JobListStub{"job": next.Stub(summary, nil),
		"summary": job.Stub(&nomad.JobSummary{JobID: "j", ModifyIndex: 7}, nil),
		"options": job.Stub(summary, &nomad.JobStubFields{Meta: true}), "summary and job": next.Stub(nil, nil)} {
		want, err := codec.EncodeJSON([]*nomad.JobListStub{changed})
		if err != nil {
			t.Fatal(err)
		}
		if got := listJSON(t, &c, []*nomad.JobListStub{changed}); got != string(want) {
			t.Errorf("after a change of the %s the list is %s, want %s", name, got, want)
		}
	}
	if len(c.rows) != 1 {
		t.Errorf("%d versions of a row are cached, want 1", len(c.rows))
	}
}

func TestRowCacheIsBounded(t *testing.T) {
	var c rowCache
	now := time.Now()
	text := make([]byte, 1<<20)
	for i := range 200 {
		c.keep(nomad.NamespacedID{ID: fmt.Sprint(i)}, cachedRow{i, text}, now)
		c.keep(nomad.NamespacedID{ID: fmt.Sprint(i)}, cachedRow{-i, text}, now) // replaces the row
		if want := len(c.rows) * (len(text) + rowOverhead); c.size != want || c.size > maxRows+2*len(text) {
			t.Fatalf("%d rows count %d bytes, want %d, at most %d", len(c.rows), c.size, want, maxRows)
		}
	}
	c.keep(nomad.NamespacedID{ID: "later"}, cachedRow{1, text}, now.Add(2*rowsFor))
	if len(c.rows) != 1 {
		t.Errorf("%d rows after their time, want the new one", len(c.rows))
	}
}

func TestListsAreServedConcurrently(t *testing.T) {
	s := &Server{}
	lists := newStored().lists(true)
	var all sync.WaitGroup
	for range 8 {
		for name, list := range lists {
			want, err := codec.EncodeJSON(orEmptyList(list))
			if err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				for range 50 {
					rec := httptest.NewRecorder()
					writeJSON(rec, &Request{server: s}, list)
					if got := rec.Body.String(); got != string(want) || rec.Header().Get("Content-Type") != "application/json" {
						t.Errorf("%s: %s, want %s", name, got, want)
						return
					}
				}
			})
		}
	}
	all.Wait()
}

// BenchmarkList encodes 500 jobs: without the cache, with an empty one, and when all rows are cached.
func BenchmarkList(b *testing.B) {
	var jobs []*nomad.JobListStub
	for i := range 500 {
		j := &nomad.Job{ID: fmt.Sprintf("job-%d", i), Namespace: "default", Type: "service", Datacenters: []string{"*"}}
		jobs = append(jobs, j.Stub(&nomad.JobSummary{JobID: j.ID, Summary: map[string]nomad.TaskGroupSummary{"g": {Running: 20}}}, nil))
	}
	var cached rowCache
	for name, encode := range map[string]func() error{
		"without": func() error { return codec.WithJSON(jobs, func([]byte) {}) },
		"empty":   func() error { return new(rowCache).withJSON(listRows(jobs), func([]byte) {}) },
		"cached":  func() error { return cached.withJSON(listRows(jobs), func([]byte) {}) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := encode(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
