package server_test

import (
	"errors"
	"testing"

	"github.com/open-nomad/open-nomad/internal/supervise/proc"
)

// The brief form of a task has everything but its declaration, also when another agent asks.
func TestBrief(t *testing.T) {
	r := newRig(t)
	s := r.spec("sleep 3600")
	s.Declared = []byte(`{"a":1}`)
	started := r.start(r.client(), s)
	c := r.client()
	full, err := c.Task(t.Context(), s.ID)
	if err != nil || string(full.Declared) != `{"a":1}` {
		t.Fatalf("Task() = %+v, %v; want its declaration", full, err)
	}
	brief, err := c.Brief(t.Context(), s.ID)
	if err != nil || len(brief.Declared) != 0 || brief.PID != started.PID || brief.Group != full.Group {
		t.Errorf("Brief() = %+v, %v; want process %d without a declaration", brief, err, started.PID)
	}
	if _, err := c.Brief(t.Context(), "unknown"); !errors.Is(err, proc.ErrUnknownTask) {
		t.Errorf("Brief() of an unknown task = %v", err)
	}
}
