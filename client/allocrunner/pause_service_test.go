package allocrunner_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/allocrunner"
	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/codec"
)

// paused is an allocation whose task is paused and run in a test.
type paused struct {
	t     *testing.T
	s     *served
	alloc *nomad.Allocation
	r     *allocrunner.Runner
	end   func() // ends the agent
	ended <-chan error
}

// set sets the state of the schedule and waits until the process has ended or started, and the servers know it.
func (p *paused) set(state nomad.TaskScheduleState) {
	p.t.Helper()
	if err := p.r.Pause("main", state); err != nil {
		p.t.Fatal(err)
	}
	time.Sleep(10 * time.Second)
}

func (p *paused) pause() { p.t.Helper(); p.set(nomad.TaskScheduleStateForcePause) }
func (p *paused) run()   { p.t.Helper(); p.set(nomad.TaskScheduleStateForceRun) }

// update applies a version of the job in place, with the tag green.
func (p *paused) update() {
	p.alloc = codec.Copy(p.alloc)
	group := p.alloc.Job.TaskGroups[0]
	group.Services[0].Tags, group.Tasks[0].Services[0].Tags = []string{"green"}, []string{"green"}
	p.r.Update(p.alloc)
	time.Sleep(10 * time.Second)
}

// stop stops the allocation.
func (p *paused) stop() {
	p.r.Update(stopping(p.alloc))
	<-p.ended
	time.Sleep(10 * time.Second)
}

// agent ends the agent and starts the next one.
func (p *paused) agent() {
	p.t.Helper()
	p.end()
	<-p.ended
	ctx, cancel := context.WithCancel(context.Background())
	p.s.world = p.s.world.agent()
	p.s.world.reg = service.New(p.s.catalog, slog.New(slog.DiscardHandler))
	go p.s.world.reg.Run(ctx) //nolint:errcheck // it ends with ctx
	p.r = p.s.runner(p.alloc)
	if err := p.r.Restore(); err != nil {
		p.t.Fatal(err)
	}
	r, ended := p.r, make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	p.end, p.ended = cancel, ended
	time.Sleep(10 * time.Second)
}

// results returns the names and states of the checks.
func (p *paused) results() (out []string) {
	for _, r := range p.s.checks.Results(p.alloc.ID) {
		out = append(out, r.Check+" "+string(r.Status))
	}
	slices.Sort(out)
	return out
}

// The services of the group and of the task, and its check, by what is done to the allocation. A pause removes those of
// the task, and only an end those of the group. Each run registers exactly those of the current version.
func TestServicesOfAPausedTask(t *testing.T) {
	const resting, serving = "group+blue", "group+blue task"
	restart := func(p *paused) {
		if err := p.r.Restart(context.Background(), "main"); err != nil {
			p.t.Error(err)
		}
		time.Sleep(10 * time.Second)
	}
	schedule := func(p *paused) { p.set(nomad.TaskScheduleStateSchedResume) }
	type does = func(*paused)
	pause, run, update, stop, agent := (*paused).pause, (*paused).run, (*paused).update, (*paused).stop, (*paused).agent
	off, on := func(*paused) { time.Sleep(4 * time.Hour) }, func(*paused) { time.Sleep(20 * time.Hour) }
	for name, c := range map[string]struct {
		does []does
		want string
	}{
		"placed":                            {nil, serving},
		"paused":                            {[]does{pause}, resting},
		"resumed":                           {[]does{pause, run}, serving},
		"resumed twice":                     {[]does{pause, run, pause, run}, serving},
		"resumed at once":                   {[]does{func(p *paused) { _ = p.r.Pause("main", nomad.TaskScheduleStateForcePause) }, run}, serving},
		"schedule applies again":            {[]does{pause, schedule}, serving},
		"schedule off":                      {[]does{off}, resting},
		"schedule off, run":                 {[]does{off, run}, serving},
		"schedule off and on":               {[]does{off, on}, serving},
		"restarted":                         {[]does{pause, run, restart}, serving},
		"restarted before":                  {[]does{restart, pause, run}, serving},
		"agent restarted while paused":      {[]does{pause, agent}, resting},
		"agent restarted, then resumed":     {[]does{pause, agent, run}, serving},
		"agent restarted after the run":     {[]does{pause, run, agent}, serving},
		"updated in place while paused":     {[]does{pause, update}, "group+green"},
		"updated in place, then resumed":    {[]does{pause, update, run}, "group+green task+green"},
		"updated in place after the run":    {[]does{pause, run, update}, "group+green task+green"},
		"stopped while paused":              {[]does{pause, stop}, ""},
		"stopped after the run":             {[]does{pause, run, stop}, ""},
		"stopped while paused, after agent": {[]does{pause, agent, stop}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *served) {
				alloc := offering(&nomad.ServiceCheck{Name: "alive", Type: "script", Command: "true", Interval: 5 * time.Second, Timeout: time.Second,
					TaskName: "main"})
				nightly(alloc.Job.TaskGroups[0].Tasks[0], "0 0 * * * *", "0 2")
				r, end, ended := s.started(alloc)
				p := &paused{t: t, s: s, alloc: alloc, r: r, end: end, ended: ended}
				time.Sleep(10 * time.Second)
				for _, do := range c.does {
					do(p)
				}
				if got := s.catalog.names(); got != c.want {
					t.Errorf("registered: %q, want %q", got, c.want)
				}
				if c.want == serving && !slices.Equal(p.results(), []string{"alive success"}) {
					t.Errorf("checks: %q", p.results())
				}
				if c.want != "" {
					p.stop()
				}
				if got := s.catalog.names(); got != "" {
					t.Errorf("registered after the end: %q", got)
				}
				p.end()
				time.Sleep(1001 * time.Hour)
			})
		})
	}
}
