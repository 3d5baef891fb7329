package check_test

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/client/check"
	"github.com/open-nomad/open-nomad/client/service"
	"github.com/open-nomad/open-nomad/internal/consul/reconcile"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// inConsul keeps statuses as Consul does, and counts the calls of Watch that have not ended.
type inConsul struct {
	mu       sync.Mutex
	statuses map[string]reconcile.Status
	watches  map[string]func([]reconcile.Status)
	updates  []reconcile.Status
}

func (c *inConsul) Watch(owner string, changed func([]reconcile.Status)) func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watches[owner] = changed
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.watches, owner)
	}
}

func (c *inConsul) Update(s reconcile.Status) {
	c.mu.Lock()
	c.updates = append(c.updates, s)
	c.mu.Unlock()
	c.set(s.CheckID, s.Status, s.Output)
}

// set changes a check in Consul and reports all of them. A status "" removes it.
func (c *inConsul) set(id, status, output string) {
	c.mu.Lock()
	c.statuses[id] = reconcile.Status{CheckID: id, Status: status, Output: output}
	if status == "" {
		delete(c.statuses, id)
	}
	var all []reconcile.Status
	for _, s := range c.statuses {
		all = append(all, s)
	}
	var calls []func([]reconcile.Status)
	for _, changed := range c.watches {
		calls = append(calls, changed)
	}
	c.mu.Unlock()
	for _, changed := range calls {
		changed(all)
	}
}

func (c *inConsul) sent() []reconcile.Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]reconcile.Status(nil), c.updates...)
}

func (c *inConsul) watched() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.watches)
}

// consulWorld is a Set that watches the allocation a1, with a Consul.
type consulWorld struct {
	set    *check.Set
	consul *inConsul
	kept   *store
	end    func()
}

// withConsul runs a test while the checks of an allocation are watched, in a synctest bubble.
func withConsul(t *testing.T, test func(t *testing.T, w *consulWorld)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &inConsul{statuses: map[string]reconcile.Status{}, watches: map[string]func([]reconcile.Status){}}
		kept := &store{kept: map[string]message.CheckStatus{}}
		s := check.New(check.Config{Store: kept, Consul: c, Log: slog.New(slog.DiscardHandler)}, nil)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { s.Watch(ctx, "a1", ""); close(done) }()
		synctest.Wait()
		test(t, &consulWorld{s, c, kept, func() { cancel(); <-done }})
		cancel()
		<-done
	})
}

// consulTargets returns the checks of a service of provider consul of a group.
func consulTargets(checks ...*nomad.ServiceCheck) []*check.Target {
	w := consulWorkload(checks...)
	return check.Targets(&w)
}

// consulWorkload returns a group with a service of provider consul.
func consulWorkload(checks ...*nomad.ServiceCheck) service.Workload {
	tg := &nomad.TaskGroup{Name: "g", Tasks: []*nomad.Task{{Name: "t"}},
		Services: []*nomad.Service{{Name: "web", PortLabel: "80", Checks: checks, OnUpdate: "require_healthy"}}}
	a := &nomad.Allocation{ID: "a1", JobID: "web", TaskGroup: "g", Name: "web.g[0]",
		Job: &nomad.Job{ID: "web", TaskGroups: []*nomad.TaskGroup{tg}}, AllocatedResources: &nomad.AllocatedResources{}}
	return service.OfGroup(a, &nomad.Node{ID: "n1"}, "global", nil)
}

// TestConsul_Status checks that the status of a check is what Consul reports, and pending while Consul does not have it.
func TestConsul_Status(t *testing.T) {
	withConsul(t, func(t *testing.T, w *consulWorld) {
		targets := consulTargets(&nomad.ServiceCheck{Name: "up", Type: "http", Path: "/", Interval: time.Second, InitialStatus: "passing",
			FailuresBeforeCritical: 5})
		id := string(targets[0].ID)
		w.set.Observe("a1", targets)
		time.Sleep(time.Hour)
		want := func(status message.CheckStatus, output string) {
			t.Helper()
			if r := w.set.Results("a1")[targets[0].ID]; r == nil || r.Status != status || r.Output != output {
				t.Errorf("result %+v, want %s %q", r, status, output)
			}
		}
		want(message.CheckPending, check.AwaitConsul)
		for consul, status := range map[string]message.CheckStatus{api.HealthPassing: message.CheckSuccess,
			api.HealthWarning: message.CheckWarning, api.HealthCritical: message.CheckFailure, "unknown": message.CheckFailure} {
			w.consul.set(id, consul, "it is "+consul)
			want(status, "it is "+consul)
		}
		w.consul.set("another", api.HealthPassing, "")
		w.consul.set(id, api.HealthPassing, "new")
		w.consul.set(id, api.HealthPassing, "newer")
		want(message.CheckSuccess, "newer")
		w.consul.set(id, "", "")
		want(message.CheckPending, check.AwaitConsul)
		if w.kept.count() != 0 || len(w.consul.sent()) != 0 {
			t.Errorf("%d results stored and %v sent, want none", w.kept.count(), w.consul.sent())
		}
		w.set.Observe("a1", nil)
		synctest.Wait()
		if n := w.consul.watched(); n != 0 {
			t.Errorf("%d owners are watched without checks", n)
		}
		w.set.Observe("a1", targets)
		synctest.Wait()
		w.end()
		if n := w.consul.watched(); n != 0 {
			t.Errorf("%d owners are watched after the end", n)
		}
	})
}

// TestConsul_Script checks that a script runs at once after each start of its task and then after each interval, what is
// sent to Consul, and that the status comes from there.
func TestConsul_Script(t *testing.T) {
	withConsul(t, func(t *testing.T, w *consulWorld) {
		targets := consulTargets(&nomad.ServiceCheck{Name: "s", Type: "script", Command: "x", TaskName: "t", Interval: 10 * time.Second,
			Timeout: 2 * time.Second})
		var code, runs atomic.Int32
		w.set.Observe("a1", targets)
		time.Sleep(time.Minute)
		if len(w.consul.sent()) != 0 {
			t.Errorf("sent %v before the task runs", w.consul.sent())
		}
		for start := range int32(2) {
			w.set.Attach("a1", "t", exit(&code, &runs))
			synctest.Wait()
			if got := runs.Load(); got != 7*start+1 {
				t.Errorf("%d runs at once after start %d, want %d", got, start, 7*start+1)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			w.set.Detach("a1", "t")
			time.Sleep(time.Minute)
			synctest.Wait()
			if got := runs.Load(); got != 7*start+7 {
				t.Errorf("%d runs after start %d, want %d", got, start, 7*start+7)
			}
		}
		if got := status(w.set, "a1", string(targets[0].ID)); got != message.CheckSuccess {
			t.Errorf("status %s, want that of Consul", got)
		}
	})
}

// TestConsul_ScriptResults checks the status and output that are sent for each end of a script.
func TestConsul_ScriptResults(t *testing.T) {
	for name, tc := range map[string]struct {
		exec check.Exec
		want reconcile.Status
	}{
		"0": {ends("fine", 0), reconcile.Status{Status: "passing", Output: "fine"}},
		"1": {ends("hm", 1), reconcile.Status{Status: "warning", Output: "hm"}},
		"2": {ends("bad", 2), reconcile.Status{Status: "critical", Output: "bad"}},
		"error": {func(context.Context, []string) ([]byte, *drivers.ExitResult, error) {
			return nil, nil, context.Canceled
		}, reconcile.Status{Status: "critical", Output: "context canceled"}},
		"timeout": {func(ctx context.Context, _ []string) ([]byte, *drivers.ExitResult, error) {
			<-ctx.Done()
			return nil, nil, ctx.Err()
		}, reconcile.Status{Status: "critical", Output: "context deadline exceeded"}},
	} {
		t.Run(name, func(t *testing.T) {
			withConsul(t, func(t *testing.T, w *consulWorld) {
				targets := consulTargets(&nomad.ServiceCheck{Name: "s", Type: "Script", Command: "x", TaskName: "t", Interval: 10 * time.Second,
					Timeout: 2 * time.Second})
				w.set.Attach("a1", "t", tc.exec)
				w.set.Observe("a1", targets)
				time.Sleep(3 * time.Second)
				synctest.Wait()
				tc.want.CheckID = string(targets[0].ID)
				if got := w.consul.sent(); len(got) != 1 || got[0] != tc.want {
					t.Errorf("sent %v, want %v", got, tc.want)
				}
			})
		})
	}
}

// ends returns an Exec whose script ends with an output and an exit code.
func ends(output string, code int) check.Exec {
	return func(context.Context, []string) ([]byte, *drivers.ExitResult, error) {
		return []byte(output), &drivers.ExitResult{ExitCode: code}, nil
	}
}

// TestConsul_Restarts checks that a check which Consul does not have restarts nothing, and that a critical one does.
func TestConsul_Restarts(t *testing.T) {
	targets := consulTargets(&nomad.ServiceCheck{Name: "up", Type: "tcp", Interval: time.Second, CheckRestart: &nomad.CheckRestart{Limit: 1, Grace: time.Second}})
	now := time.Now()
	var r check.Restarts
	r.Watch("", targets, now)
	results := map[message.CheckID]*message.CheckQueryResult{targets[0].ID: {Status: message.CheckPending}}
	if due := r.Poll(results, now.Add(time.Hour)); len(due) != 0 {
		t.Errorf("a check that Consul does not have restarts: %v", due)
	}
	results[targets[0].ID] = &message.CheckQueryResult{Status: message.CheckFailure}
	if due := r.Poll(results, now.Add(time.Hour)); len(due) != 1 {
		t.Errorf("a critical check restarts %v, want the group", due)
	}
}

// TestConsul_Registered checks a service whose name has a variable of a hook, so that its check has another ID in Consul than
// before the task has started: its script and its status use the one of Consul, also if Consul has reported it before.
func TestConsul_Registered(t *testing.T) {
	withConsul(t, func(t *testing.T, w *consulWorld) {
		script := &nomad.ServiceCheck{Name: "s", Type: "script", Command: "x", TaskName: "t", Interval: 10 * time.Second, Timeout: 2 * time.Second}
		observed := consulTargets(script)
		registered := consulWorkload(script)
		registered.Services = []*nomad.Service{{Name: "web-hook", PortLabel: "80", Checks: []*nomad.ServiceCheck{script}}}
		id := string(check.Targets(&registered)[0].ID)
		w.set.Observe("a1", observed)
		synctest.Wait()
		w.consul.set(id, api.HealthWarning, "before")
		if got := status(w.set, "a1", string(observed[0].ID)); got != message.CheckPending {
			t.Errorf("status %s before the registration, want pending", got)
		}
		w.set.Registered(&registered)
		if got := status(w.set, "a1", string(observed[0].ID)); got != message.CheckWarning {
			t.Errorf("status %s after the registration, want that of Consul", got)
		}
		w.set.Attach("a1", "t", ends("fine", 0))
		synctest.Wait()
		if got := w.consul.sent(); len(got) != 1 || got[0].CheckID != id {
			t.Errorf("sent %v, want a result of %s", got, id)
		}
		if got := status(w.set, "a1", string(observed[0].ID)); got != message.CheckSuccess {
			t.Errorf("status %s after the script, want success", got)
		}
	})
}
