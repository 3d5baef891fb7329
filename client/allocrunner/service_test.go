package allocrunner_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-nomad/open-nomad/client/check"
	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/drivers/mock"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/catalog"
	"github.com/open-nomad/open-nomad/nomad/codec"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// servers keeps service registrations as the servers do.
type servers struct {
	mu   sync.Mutex
	regs map[string]*catalog.Registration
	down bool
	n    int // calls
}

// health returns the names of the services with their health.
func (c *servers) health() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, r := range c.regs {
		out = append(out, r.ServiceName+"="+string(r.Health()))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (c *servers) calls() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// latency is the duration of a call.
const latency = 100 * time.Millisecond

func (c *servers) Call(_ context.Context, _ string, req, _ any) error {
	time.Sleep(latency)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	if c.down {
		return errors.New("no servers")
	}
	switch req := req.(type) {
	case *message.ServiceRegistrationUpsertRequest:
		for _, r := range req.Services {
			c.regs[r.ID] = r
		}
	case *message.ServiceRegistrationDeleteByIDRequest:
		delete(c.regs, req.ID)
	}
	return nil
}

// names returns the names of the services with their tags.
func (c *servers) names() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, r := range c.regs {
		out = append(out, strings.Join(append([]string{r.ServiceName}, r.Tags...), "+"))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (c *servers) setDown(down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = down
}

// probed is a driver whose tasks run script checks with the exit code of the test. It records the services that are
// registered at each stop.
type probed struct {
	*mock.Driver
	catalog *servers
	code    *atomic.Int32
	mu      *sync.Mutex
	stops   *[]string
}

func (d *probed) Capabilities() drivers.Capabilities {
	c := d.Driver.Capabilities()
	c.Exec = true
	return c
}

func (d *probed) ExecTask(context.Context, string, *drivers.ExecOptions) (*drivers.ExitResult, error) {
	return &drivers.ExitResult{ExitCode: int(d.code.Load())}, nil
}

func (d *probed) StopTask(ctx context.Context, id string, timeout time.Duration, signal string) error {
	d.mu.Lock()
	*d.stops = append(*d.stops, d.catalog.names())
	d.mu.Unlock()
	return d.Driver.StopTask(ctx, id, timeout, signal)
}

// served is a world with servers that keep services.
type served struct {
	*world
	catalog *servers
	code    atomic.Int32
	mu      sync.Mutex
	stops   []string
	ended   chan struct{} // closed when the registrar has ended
}

// signals returns what was registered at each stop.
func (s *served) signals() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.stops)
}

// newServed starts a registrar, which ends with the test's context ctx.
func newServed(ctx context.Context, t *testing.T) *served {
	t.Helper()
	s := &served{ended: make(chan struct{}), catalog: &servers{regs: map[string]*catalog.Registration{}}}
	w := newWorld(t)
	log := slog.New(slog.DiscardHandler)
	w.reg = service.New(s.catalog, log)
	w.checks = check.New(check.Config{Store: w.db, Log: log}, nil)
	w.driver = func(d *mock.Driver) drivers.Driver {
		return &probed{d, s.catalog, &s.code, &s.mu, &s.stops}
	}
	s.world = w.agent()
	go func() { w.reg.Run(ctx); close(s.ended) }() //nolint:errcheck // it ends with ctx
	return s
}

// inBubble runs a test with a served world in a synctest bubble.
func inBubble(t *testing.T, test func(t *testing.T, s *served)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		s := newServed(ctx, t)
		test(t, s)
		cancel()
		<-s.ended
	})
}

// offering returns a service allocation whose group and task have one service each.
func offering(checks ...*nomad.ServiceCheck) *nomad.Allocation {
	task := mockTask("main", map[string]any{"run_for": "1000h"})
	task.Services = []*nomad.Service{{Name: "task", Provider: "nomad", Checks: checks}}
	alloc := allocation(nomad.JobTypeService, task)
	alloc.Job.TaskGroups[0].Services = []*nomad.Service{{Name: "group", Provider: "nomad", Tags: []string{"blue"},
		CanaryTags: []string{"canary"}}}
	return alloc
}

func stopping(alloc *nomad.Allocation) *nomad.Allocation {
	next := codec.Copy(alloc)
	next.DesiredStatus = nomad.AllocDesiredStatusStop
	return next
}

// TestServicesGoneBeforeSignal checks the order of a stop: both services are gone from the servers, the shutdown
// delays have passed, and only then the task gets its signal.
func TestServicesGoneBeforeSignal(t *testing.T) {
	inBubble(t, func(t *testing.T, s *served) {
		alloc := offering()
		delay := 3 * time.Second
		alloc.Job.TaskGroups[0].ShutdownDelay = &delay
		alloc.Job.TaskGroups[0].Tasks[0].ShutdownDelay = 2 * time.Second
		r, _, ended := s.started(alloc)
		time.Sleep(time.Second)
		if got := s.catalog.names(); got != "group+blue task" {
			t.Fatalf("registered %q", got)
		}
		start := time.Now()
		r.Update(stopping(alloc))
		time.Sleep(time.Second)
		if got := s.catalog.names(); got != "task" {
			t.Errorf("during the delay of the group: %q", got)
		}
		<-ended
		if len(s.signals()) != 1 || s.signals()[0] != "" {
			t.Errorf("registered at the signal: %q", s.signals())
		}
		if took := time.Since(start); took != 5*time.Second+2*latency {
			t.Errorf("the stop took %v, want both delays", took)
		}
	})
}

// TestServicesGoneWithoutDelay is TestServicesGoneBeforeSignal without shutdown delays, and for a task that is stopped
// because another one failed. An update of the allocation meanwhile registers nothing.
func TestServicesGoneWithoutDelay(t *testing.T) {
	inBubble(t, func(t *testing.T, s *served) {
		alloc := offering()
		alloc.Job.TaskGroups[0].Tasks[0].Config["kill_after"] = "1s"
		alloc.Job.TaskGroups[0].Tasks[0].KillTimeout = 5 * time.Second
		alloc.Job.TaskGroups[0].Tasks = append(alloc.Job.TaskGroups[0].Tasks, mockTask("other", fails("10s")))
		alloc.AllocatedResources.Tasks["other"] = &nomad.AllocatedTaskResources{}
		r, _, ended := s.started(alloc)
		time.Sleep(10*time.Second + 5*latency)
		if len(s.signals()) != 1 || s.signals()[0] != "" {
			t.Errorf("registered at the signal: %q", s.signals())
		}
		updated := codec.Copy(alloc)
		updated.Job.TaskGroups[0].Services[0].Tags = []string{"green"}
		r.Update(updated)
		time.Sleep(5 * latency)
		if got := s.catalog.names(); got != "" {
			t.Errorf("registered while the tasks stop: %q", got)
		}
		<-ended
	})
}

// TestStopWithoutServers checks that servers that do not answer delay a stop by one second for each level.
func TestStopWithoutServers(t *testing.T) {
	inBubble(t, func(t *testing.T, s *served) {
		alloc := offering()
		r, _, ended := s.started(alloc)
		time.Sleep(time.Second)
		s.catalog.setDown(true)
		start := time.Now()
		r.Update(stopping(alloc))
		<-ended
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("the stop took %v, want 2s", took)
		}
		s.catalog.setDown(false)
		time.Sleep(10 * time.Second)
		if got := s.catalog.names(); got != "" {
			t.Errorf("after the partition: %q", got)
		}
	})
}

// TestServicesOfARestartedTask checks that a restart of one task does not touch the group, and that a restart of all
// tasks removes its services during the shutdown delay.
func TestServicesOfARestartedTask(t *testing.T) {
	inBubble(t, func(t *testing.T, s *served) {
		alloc := offering()
		delay := 3 * time.Second
		alloc.Job.TaskGroups[0].ShutdownDelay = &delay
		r, _, ended := s.started(alloc)
		time.Sleep(5 * latency)
		time.Sleep(5 * latency)
		if err := r.Restart(t.Context(), "main"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * latency)
		if got := s.catalog.names(); got != "group+blue task" || s.signals()[0] != "group+blue" {
			t.Errorf("one task: %q, at the signal %q", got, s.signals())
		}
		restarted := make(chan error)
		go func() { restarted <- r.Restart(context.Background(), "") }()
		time.Sleep(5 * latency)
		if got := s.catalog.names(); got != "task" {
			t.Errorf("during the delay of the group: %q", got)
		}
		if err := <-restarted; err != nil {
			t.Error(err)
		}
		time.Sleep(5 * latency)
		if got := s.catalog.names(); got != "group+blue task" || strings.Contains(s.signals()[1], "task") {
			t.Errorf("all tasks: %q, at the signal %q", got, s.signals())
		}
		go r.Restart(context.Background(), "") //nolint:errcheck // it is stopped
		time.Sleep(5 * latency)
		r.Update(stopping(alloc)) // during the delay of the restart
		<-ended
		time.Sleep(time.Minute)
		if got := s.catalog.names(); got != "" {
			t.Errorf("registered again after the stop: %q", got)
		}
	})
}

// TestServicesSurviveTheAgent checks that an agent that ends leaves the registrations, and that the next one has them.
func TestServicesSurviveTheAgent(t *testing.T) {
	inBubble(t, func(t *testing.T, s *served) {
		alloc := offering()
		_, shutdown, ended := s.started(alloc)
		time.Sleep(5 * latency)
		shutdown()
		<-ended
		time.Sleep(time.Minute)
		if got := s.catalog.names(); got != "group+blue task" {
			t.Fatalf("after the end of the agent: %q", got)
		}
		s.catalog.mu.Lock()
		clear(s.catalog.regs) // so that only the next agent can have registered them
		s.catalog.mu.Unlock()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		next := s.agent()
		next.reg = service.New(s.catalog, slog.New(slog.DiscardHandler))
		go next.reg.Run(ctx) //nolint:errcheck // it ends with ctx
		r := next.runner(alloc)
		if err := r.Restore(); err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() { done <- r.Run(context.Background()) }()
		time.Sleep(time.Minute)
		if got := s.catalog.names(); !strings.Contains(got, "group+blue") {
			t.Errorf("after the start of the next agent: %q", got)
		}
		if err := r.Destroy(context.Background()); err != nil {
			t.Error(err)
		}
		<-done
		if got := s.catalog.names(); got != "" {
			t.Errorf("after the end: %q", got)
		}
		time.Sleep(1000 * time.Hour) // the first agent's task ends
	})
}

func TestCanaryTags(t *testing.T) {
	inBubble(t, func(t *testing.T, s *served) {
		alloc := offering()
		alloc.DeploymentStatus = &nomad.AllocDeploymentStatus{Canary: true}
		r, _, ended := s.started(alloc)
		time.Sleep(5 * latency)
		if got := s.catalog.names(); got != "group+canary task" {
			t.Errorf("canary: %q", got)
		}
		promoted := codec.Copy(alloc)
		promoted.DeploymentStatus = &nomad.AllocDeploymentStatus{}
		r.Update(promoted)
		time.Sleep(5 * latency)
		if got := s.catalog.names(); got != "group+blue task" {
			t.Errorf("promoted: %q", got)
		}
		r.Update(stopping(promoted))
		<-ended
	})
}

func TestServicesOfTasksThatEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, s *served) {
		alloc := offering()
		alloc.Job.Type = nomad.JobTypeBatch
		alloc.Job.TaskGroups[0].Tasks[0].Config["run_for"] = "5s"
		_, _, ended := s.started(alloc)
		<-ended
		time.Sleep(5 * latency)
		if got := s.catalog.names(); got != "" {
			t.Errorf("after the end: %q", got)
		}
	})
}

func TestServiceErrors(t *testing.T) {
	group := func(port string) *nomad.Allocation {
		a := offering()
		a.Job.TaskGroups[0].Services[0].PortLabel = port
		return a
	}
	inBubble(t, func(t *testing.T, s *served) {
		got := s.run(group("nope"))
		if got.ClientStatus != nomad.AllocClientStatusFailed ||
			!strings.Contains(got.ClientDescription, `unable to get address for service "group"`) {
			t.Errorf("%s: %s", got.ClientStatus, got.ClientDescription)
		}
		if names := s.catalog.names(); names != "" {
			t.Errorf("registered %q", names)
		}
	})
	inBubble(t, func(t *testing.T, s *served) {
		s.reg = nil
		got := s.run(group(""))
		if want := `service registration provider "nomad" not enabled`; !strings.Contains(got.ClientDescription, want) {
			t.Errorf("description = %q, want %q", got.ClientDescription, want)
		}
	})
	inBubble(t, func(t *testing.T, s *served) { // a task's service does not stop its task
		alloc := offering()
		alloc.Job.TaskGroups[0].Tasks[0].Services[0].PortLabel = "nope"
		r, _, ended := s.started(alloc)
		time.Sleep(5 * latency)
		if st := r.States()["main"]; st.State != nomad.TaskStateRunning || !hasEvent(st, nomad.TaskHookFailed) {
			t.Errorf("state %s, events %v", st.State, types(st))
		}
		r.Update(stopping(alloc))
		<-ended
	})
}

// probe is a script check every 10 s.
func probe(restart *nomad.CheckRestart) *nomad.ServiceCheck {
	return &nomad.ServiceCheck{Name: "up", Type: "script", Command: "/bin/probe", Interval: 10 * time.Second, Timeout: 2 * time.Second,
		CheckRestart: restart}
}

// TestCheckRestart checks that a failing check restarts its task, and that the restart policy counts it.
func TestCheckRestart(t *testing.T) {
	inBubble(t, func(t *testing.T, s *served) {
		alloc := offering(probe(&nomad.CheckRestart{Limit: 2, Grace: 15 * time.Second}))
		task := alloc.Job.TaskGroups[0].Tasks[0]
		task.RestartPolicy.Attempts, task.RestartPolicy.Interval = 1, time.Hour
		r, _, ended := s.started(alloc)
		time.Sleep(time.Minute)
		time.Sleep(5 * latency)
		if got := r.States()["main"].Restarts; got != 0 {
			t.Fatalf("%d restarts while healthy", got)
		}
		s.code.Store(2)
		time.Sleep(25 * time.Second)
		time.Sleep(5 * latency)
		st := r.States()["main"]
		if st.Restarts != 1 || !hasEvent(st, nomad.TaskRestartSignal) {
			t.Fatalf("%d restarts after 25 s, events %v", st.Restarts, types(st))
		}
		for _, e := range st.Events {
			if e.Type == nomad.TaskRestartSignal && e.RestartReason != `healthcheck: check "up" unhealthy` {
				t.Errorf("reason = %q", e.RestartReason)
			}
		}
		if err := <-ended; err != nil { // the second restart exceeds the policy
			t.Error(err)
		}
		if got := r.State(); got.ClientStatus != nomad.AllocClientStatusFailed {
			t.Errorf("status %s, want failed by the restart policy", got.ClientStatus)
		}
		if got := s.checks.Results(alloc.ID); len(got) != 0 {
			t.Errorf("results after the end: %v", got)
		}
	})
}

// TestCheckRestartOfGroup checks that a check of a group service restarts all running tasks.
func TestCheckRestartOfGroup(t *testing.T) {
	inBubble(t, func(t *testing.T, s *served) {
		alloc := offering()
		group := alloc.Job.TaskGroups[0]
		c := probe(&nomad.CheckRestart{Limit: 1, Grace: 15 * time.Second})
		c.TaskName = "main"
		group.Services[0].Checks = []*nomad.ServiceCheck{c}
		group.Tasks = append(group.Tasks, mockTask("other", map[string]any{"run_for": "1000h"}))
		alloc.AllocatedResources.Tasks["other"] = &nomad.AllocatedTaskResources{}
		for _, task := range group.Tasks {
			task.RestartPolicy.Attempts, task.RestartPolicy.Interval = 5, time.Hour
		}
		r, _, ended := s.started(alloc)
		s.code.Store(2)
		time.Sleep(20 * time.Second)
		time.Sleep(5 * latency)
		if a, b := r.States()["main"].Restarts, r.States()["other"].Restarts; a != 1 || b != 1 {
			t.Errorf("restarts = %d, %d, want 1 of each", a, b)
		}
		if got := s.catalog.names(); got != "group+blue task" {
			t.Errorf("registered after the restart: %q", got)
		}
		r.Update(stopping(alloc))
		<-ended
	})
}

// TestHealthOfChecks checks that a deployment waits for checks.
func TestHealthOfChecks(t *testing.T) {
	for _, tc := range []struct {
		name     string
		onUpdate string
		health   string
		code     int32
		fixed    time.Duration // the check succeeds from then on, 0 for never
		verdict  string
		within   time.Duration
	}{
		{"success", "", "checks", 0, 0, "healthy", 21 * time.Second}, // first result within 10 s, then 10 s
		{"failure", "", "checks", 2, 0, "unhealthy", time.Minute},
		{"failure at first", "", "checks", 2, 25 * time.Second, "healthy", 46 * time.Second},
		{"failure of a readiness check", "ignore", "checks", 2, 0, "healthy", 21 * time.Second},
		{"warning", "", "checks", 1, 0, "unhealthy", time.Minute},
		{"warning that is ignored", "ignore_warnings", "checks", 1, 0, "healthy", 21 * time.Second},
		{"failure of a check that ignores warnings", "ignore_warnings", "checks", 2, 0, "unhealthy", time.Minute},
		{"warning of a readiness check", "ignore", "checks", 1, 0, "healthy", 21 * time.Second},
		{"task states", "", "task_states", 2, 0, "healthy", 10 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *served) {
				c := probe(nil)
				c.OnUpdate = tc.onUpdate
				alloc := offering(c)
				alloc.DeploymentID = "d1"
				alloc.Job.TaskGroups[0].Update = &nomad.UpdateStrategy{HealthCheck: tc.health, MinHealthyTime: 10 * time.Second,
					HealthyDeadline: time.Minute}
				s.code.Store(tc.code)
				start := time.Now()
				r, _, ended := s.started(alloc)
				if tc.fixed > 0 {
					time.AfterFunc(tc.fixed, func() { s.code.Store(0) })
				}
				time.Sleep(9 * time.Second)
				if d := r.State().DeploymentStatus; d != nil && d.Healthy != nil {
					t.Errorf("healthy is %t already", *d.Healthy)
				}
				time.Sleep(tc.within - time.Since(start))
				time.Sleep(5 * latency)
				d := r.State().DeploymentStatus
				if d == nil || d.Healthy == nil || *d.Healthy != (tc.verdict == "healthy") {
					t.Errorf("status after %v = %+v, want %s", tc.within, d, tc.verdict)
				}
				want := "Checks not healthy by healthy_deadline of 1m0s: up of service task is " + map[int32]string{1: "warning", 2: "failure"}[tc.code]
				if got := messageOf(r.States()["main"], nomad.TaskAllocUnhealthy); (got == want) != (tc.verdict == "unhealthy") {
					t.Errorf("event = %q", got)
				}
				r.Update(stopping(alloc))
				<-ended
			})
		})
	}
}

// messageOf returns the message of the first event of a type, or "".
func messageOf(s *nomad.TaskState, kind string) string {
	for _, e := range s.Events {
		if e.Type == kind {
			return e.DisplayMessage
		}
	}
	return ""
}

// TestChecksOfAnUpdate checks that the checks of a new version run, although the allocation began without any.
func TestChecksOfAnUpdate(t *testing.T) {
	inBubble(t, func(t *testing.T, s *served) {
		alloc := offering()
		policy := alloc.Job.TaskGroups[0].Tasks[0].RestartPolicy
		policy.Attempts, policy.Interval = 5, time.Hour
		r, _, ended := s.started(alloc)
		if got := s.checks.Results(alloc.ID); len(got) != 0 {
			t.Errorf("results without a check: %v", got)
		}
		next := codec.Copy(alloc)
		next.Job.Version++
		next.AllocModifyIndex++
		next.Job.TaskGroups[0].Tasks[0].Services[0].Checks = []*nomad.ServiceCheck{probe(&nomad.CheckRestart{Limit: 1, Grace: 15 * time.Second})}
		r.Update(next)
		time.Sleep(15 * time.Second)
		time.Sleep(5 * latency)
		results := s.checks.Results(alloc.ID)
		for _, result := range results {
			if result.Status != message.CheckSuccess {
				t.Errorf("the check is %s: %s", result.Status, result.Output)
			}
		}
		if len(results) != 1 {
			t.Errorf("%d results, want that of the check", len(results))
		}
		s.code.Store(2)
		time.Sleep(20 * time.Second)
		time.Sleep(5 * latency)
		if r.States()["main"].Restarts == 0 {
			t.Error("the check has not restarted its task")
		}
		r.Update(stopping(next))
		<-ended
	})
}

// TestHealthOfServices checks that the servers get the health of a service of a task and of its group, each by its own
// checks, and that a flapping check does not flood them.
func TestHealthOfServices(t *testing.T) {
	inBubble(t, func(t *testing.T, s *served) {
		alloc := offering(probe(nil))
		c := probe(nil)
		c.TaskName, c.InitialStatus, c.FailuresBeforeCritical = "main", "passing", 3
		alloc.Job.TaskGroups[0].Services[0].Checks = []*nomad.ServiceCheck{c}
		r, _, ended := s.started(alloc)
		time.Sleep(2 * time.Second)
		for _, want := range []struct {
			code  int32
			after time.Duration
			text  string
		}{
			{0, 0, "group=passing task=critical"}, // pending
			{0, 10 * time.Second, "group=passing task=passing"},
			{1, 11 * time.Second, "group=warning task=warning"},
			{2, 12 * time.Second, "group=warning task=critical"},
			{2, 30 * time.Second, "group=critical task=critical"},
			{0, 12 * time.Second, "group=passing task=passing"},
		} {
			s.code.Store(want.code)
			time.Sleep(want.after)
			if got := s.catalog.health(); got != want.text {
				t.Errorf("code %d: health %q, want %q", want.code, got, want.text)
			}
		}
		calls := s.catalog.calls()
		time.Sleep(time.Hour)
		if n := s.catalog.calls(); n != calls {
			t.Errorf("%d calls in an hour without a change", n-calls)
		}
		r.Update(stopping(alloc))
		<-ended
		if got := s.catalog.health(); got != "" {
			t.Errorf("registered after the end: %q", got)
		}
	})
}
