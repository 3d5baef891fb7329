package template

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/go-metrics"

	"github.com/open-nomad/open-nomad/internal/render"
	"github.com/open-nomad/open-nomad/nomad"
)

const (
	// missingAfter is how long data is missing before it is reported, and the minimum time between two
	// reports.
	missingAfter = 3 * time.Second
	// staleEvery is the interval of the metric during an outage.
	staleEvery = 5 * time.Second
)

// reporter emits the events of rendering, each cause once. Its goroutine is run.
type reporter struct {
	task    Task
	labels  []metrics.Label
	changes chan func(*status)
	done    chan struct{} // closed when run has returned
}

// status is the state of the reporter. run owns it.
type status struct {
	missing  render.Missing
	since    time.Time // when data began to be missing
	reported bool      // of missing
	last     time.Time // of the last report
	stale    time.Time // since when data cannot be read; zero is not at all
	dead     bool      // the reason is the program itself
	text     string    // of the last message
}

func newReporter(task Task, labels []metrics.Label) *reporter {
	return &reporter{task: task, labels: labels, changes: make(chan func(*status)), done: make(chan struct{})}
}

// run emits events until ctx ends.
func (r *reporter) run(ctx context.Context) {
	defer close(r.done)
	s := &status{}
	tick := time.NewTicker(staleEvery)
	defer tick.Stop()
	for {
		timer := time.NewTimer(s.missingIn())
		select {
		case <-ctx.Done():
			timer.Stop()
			if !s.stale.IsZero() {
				r.gauge(0)
			}
			return
		case change := <-r.changes:
			change(s)
		case <-timer.C:
			s.reported, s.last = true, time.Now()
			r.event(missingText(s.missing))
		case <-tick.C:
			if !s.stale.IsZero() {
				r.gauge(time.Since(s.stale))
			}
		}
		timer.Stop()
	}
}

// missingIn returns how long it is until missing data is reported.
func (s *status) missingIn() time.Duration {
	if len(s.missing.Names) == 0 || s.reported {
		return forever
	}
	return max(missingAfter-time.Since(s.since), missingAfter-time.Since(s.last), 0)
}

// missingText lists the names of missing data.
func missingText(m render.Missing) string {
	text := "Missing: " + strings.Join(m.Names, ", ")
	if m.More > 0 {
		text += fmt.Sprintf(", and %d more", m.More)
	}
	return text
}

func (r *reporter) send(change func(*status)) {
	select {
	case r.changes <- change:
	case <-r.done:
	}
}

func (r *reporter) event(text string) {
	r.task.Emit(&nomad.TaskEvent{Type: nomad.TaskTemplate, Message: text})
}

func (r *reporter) gauge(age time.Duration) {
	metrics.SetGaugeWithLabels([]string{"client", "template", "stale_seconds"}, float32(age.Seconds()), r.labels)
}

// missing reports missing data, later.
func (r *reporter) missing(m render.Missing) {
	r.send(func(s *status) {
		if len(s.missing.Names) == 0 {
			s.since = time.Now()
		}
		s.missing, s.reported = m, false
	})
}

// outage reports data that cannot be read, and the effect of it.
func (r *reporter) outage(o render.Outage, effect string) {
	r.send(func(s *status) {
		if s.stale.IsZero() {
			s.stale = time.Now()
			r.event(fmt.Sprintf("Cannot read %s: %s. %s", o.Name, o.Text, effect))
		}
	})
}

// died reports a program that has ended unexpectedly.
func (r *reporter) died(err error) {
	r.send(func(s *status) {
		s.missing, s.reported = render.Missing{}, false // the next program finds it again
		if s.stale.IsZero() {
			s.stale = time.Now()
			r.event(fmt.Sprintf("Rendering failed: %v. It is started again, and the last content stays", err))
		}
		s.dead = true
	})
}

// replaced follows the end of a program that another one replaces. That one finds again what is missing. The first pass of it
// ends an outage.
func (r *reporter) replaced() {
	r.send(func(s *status) {
		s.missing, s.reported = render.Missing{}, false
		s.dead = !s.stale.IsZero()
	})
}

// recovered ends an outage of the data.
func (r *reporter) recovered() { r.send(func(s *status) { r.end(s) }) }

// alive ends an outage of the program.
func (r *reporter) alive() {
	r.send(func(s *status) {
		if s.dead {
			r.end(s)
		}
	})
}

func (r *reporter) end(s *status) {
	if s.stale.IsZero() {
		return
	}
	age := time.Since(s.stale)
	s.stale, s.dead, s.text = time.Time{}, false, ""
	r.gauge(0)
	r.event(fmt.Sprintf("Templates are up to date again, after %v", age.Round(time.Second)))
}

// message reports a failure, unless it is the same as the last one.
func (r *reporter) message(text string) {
	r.send(func(s *status) {
		if s.text != text {
			s.text = text
			r.event(text)
		}
	})
}
