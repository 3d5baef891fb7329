package broker

import (
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// A timeout that has fired, and waits for the lock, has no effect if the worker paused, reset or ended its delivery
// first.
func TestExpire_WorkerWasFirst(t *testing.T) {
	for name, c := range map[string]struct {
		first    func(b *Broker, id, token string) error
		dequeued bool
	}{
		"nothing": {func(*Broker, string, string) error { return nil }, false},
		"pause":   {(*Broker).PauseNack, true},
		"reset":   {(*Broker).OutstandingReset, true},
		"pause and resume": {func(b *Broker, id, token string) error {
			err := b.PauseNack(id, token)
			b.ResumeNack(id, token)
			return err
		}, true},
		"pause and reset": {func(b *Broker, id, token string) error {
			err := b.PauseNack(id, token)
			if err == nil {
				err = b.OutstandingReset(id, token)
			}
			return err
		}, true},
		"ack": {(*Broker).Ack, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := New(Config{})
			b.Enable()
			defer b.Disable()
			b.Enqueue(&nomad.Evaluation{ID: "e", JobID: "j", Namespace: "default", Type: nomad.JobTypeService, Priority: 50})
			_, token := b.TryDequeue([]string{nomad.JobTypeService})
			e := b.entries["e"]
			e.due = time.Now() // the timer fires now
			if err := c.first(b, "e", token); err != nil {
				t.Fatal(err)
			}
			b.expire(e, token)
			if _, dequeued := b.Outstanding("e"); dequeued != c.dequeued {
				t.Errorf("outstanding = %v, want %v", dequeued, c.dequeued)
			}
		})
	}
}
