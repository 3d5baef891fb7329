package handler

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/open-nomad/open-nomad/nomad"
)

// blockedLog is a log whose writes block until the test releases them.
type blockedLog struct {
	entries chan []*nomad.Evaluation
	proceed chan error
}

func (l *blockedLog) write(_ context.Context, evals []*nomad.Evaluation) (uint64, error) {
	l.entries <- evals
	err := <-l.proceed
	if err != nil && err.Error() == "panic" {
		panic(err)
	}
	return uint64(len(evals)), err
}

// Evaluations that arrive during a write are written in one entry after it, and all callers get its
// result.
func TestEvaluationsAreWrittenTogether(t *testing.T) {
	for name, outcome := range map[string]error{"written": nil, "failed": errors.New("no leader"), "panicked": errors.New("panic")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := &blockedLog{entries: make(chan []*nomad.Evaluation, 1), proceed: make(chan error)}
				w := NewBatch(log.write)
				type answer struct {
					index uint64
					err   error
				}
				answers := make(chan answer, 8)
				upsert := func(id string) {
					defer func() {
						if p := recover(); p != nil {
							answers <- answer{err: fmt.Errorf("%v", p)}
						}
					}()
					index, err := w.Write(context.Background(), &nomad.Evaluation{ID: id})
					answers <- answer{index, err}
				}
				go upsert("first")
				synctest.Wait()
				for i := range 3 {
					go upsert(fmt.Sprint(i))
				}
				synctest.Wait()
				if got := len(<-log.entries); got != 1 {
					t.Fatalf("the first entry holds %d evaluations, want 1", got)
				}
				log.proceed <- nil
				if got := <-answers; got.index != 1 || got.err != nil {
					t.Fatalf("the first write answers %+v", got)
				}
				if got := len(<-log.entries); got != 3 {
					t.Fatalf("the second entry holds %d evaluations, want the 3 that waited", got)
				}
				log.proceed <- outcome
				for range 3 {
					got := <-answers
					if (got.err == nil) != (outcome == nil) || outcome == nil && got.index != 3 {
						t.Errorf("a write that waited answers %+v, want the outcome of its entry: %v", got, outcome)
					}
				}
				go upsert("last")
				if got := len(<-log.entries); got != 1 {
					t.Fatalf("the last entry holds %d evaluations", got)
				}
				log.proceed <- nil
				if got := <-answers; got.err != nil {
					t.Errorf("the write after that answers %+v", got)
				}
			})
		})
	}
}
