package jobs_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	consulapi "github.com/hashicorp/consul/api"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/testconsul"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// consulFleet is a fleet whose agents share an agent of Consul.
type consulFleet struct {
	*harness.Fleet
	consul *testconsul.Agent
	block  string       // of the configuration
	status atomic.Int32 // of the answers to the HTTP check
	web    *httptest.Server
}

// newConsulFleet starts the server, with further configuration.
func newConsulFleet(t *testing.T, more ...string) *consulFleet {
	t.Helper()
	f := &consulFleet{consul: testconsul.Start(t, testconsul.Config{})}
	f.status.Store(http.StatusOK)
	f.web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(f.status.Load())) }))
	t.Cleanup(f.web.Close)
	f.block = fmt.Sprintf("consul {\n  address = %q\n  auto_advertise = false\n}\n", f.consul.Addr())
	f.Fleet = harness.NewFleet(t, f.block+strings.Join(more, "\n"))
	return f
}

func (f *consulFleet) join(name string) *cluster.Agent { return f.Join(name, f.block) }

// job returns a job with a service of the group and one of the task.
func (f *consulFleet) job(count int, tag, check, more string) string {
	_, port, _ := strings.Cut(strings.TrimPrefix(f.web.URL, "http://"), ":")
	return harness.Job("web", more, fmt.Sprintf(`
    count = %d
    service {
      name    = "web.v1_${NOMAD_JOB_NAME}"
      port    = "%s"
      address = "127.0.0.1"
      tags    = ["%s"]
      check {
        name     = "%s"
        type     = "http"
        path     = "/"
        interval = "1s"
        timeout  = "2s"
        check_restart {
          limit = 1
          grace = "1s"
        }
      }
      check {
        name     = "script"
        type     = "script"
        task     = "t"
        command  = "/bin/true"
        interval = "2s"
        timeout  = "2s"
      }
    }
    restart {
      attempts = 10
      delay    = "1s"
      mode     = "delay"
    }%s`, count, port, tag, check, harness.Shell("exec sleep 1000", `service {
        name = "side"
      }`)))
}

// registrations returns the services and their checks in Consul. The IDs of the allocations are replaced by their names.
func (f *consulFleet) registrations(names map[string]string) string {
	checks := map[string][]string{}
	for _, c := range f.consul.Checks() {
		checks[c.ServiceID] = append(checks[c.ServiceID], c.Name+"="+c.Status)
	}
	var out []string
	for id, s := range f.consul.Services() {
		for alloc, name := range names {
			id = strings.Replace(id, alloc, name, 1)
		}
		slices.Sort(checks[s.ID])
		out = append(out, fmt.Sprintf("%s%v%v", strings.TrimPrefix(id, "_nomad-task-"), s.Tags, checks[s.ID]))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// has waits until Consul has exactly these registrations.
func (f *consulFleet) has(when string, names map[string]string, want ...string) {
	f.T.Helper()
	slices.Sort(want)
	harness.Succeeds(f.T, when, func() error {
		if got := f.registrations(names); got != strings.Join(want, " ") {
			return fmt.Errorf("Consul has %s, want %s", got, strings.Join(want, " "))
		}
		return nil
	})
}

// of returns the registrations of an allocation of the job.
func (f *consulFleet) of(name, tag, check string) []string {
	_, port, _ := strings.Cut(strings.TrimPrefix(f.web.URL, "http://"), ":")
	return []string{fmt.Sprintf("%s-group-g-web.v1_web-%s[%s][script=passing %s=passing]", name, port, tag, check), name + "-t-side-[][]"}
}

// TestConsulRegistrations follows a job through its life, with the exact registrations in Consul at each step.
func TestConsulRegistrations(t *testing.T) {
	t.Parallel() // it mostly waits
	harness.NeedsRoot(t)
	f := newConsulFleet(t)
	one := f.join("one")
	defer f.Purge()
	harness.Run(t, f.Server, f.job(1, "blue", "up", ""))
	al := harness.Await(t, f.Server, "web", "running", 1)[0]
	a := map[string]string{al.ID: "a"}
	f.has("start", a, f.of("a", "blue", "up")...)

	harness.Run(t, f.Server, f.job(1, "green", "zero", ""))
	f.has("update in place", a, f.of("a", "green", "zero")...)
	harness.Within(t, harness.Patience, "the API has the states", func() bool {
		services, err := f.Server.Client.Allocations().ConsulServices(al.ID, nil)
		checks, _ := f.Server.Client.Allocations().Checks(al.ID, nil)
		fine := err == nil && len(services) == 2 && len(checks) == 2
		for _, s := range services {
			fine = fine && s.Status == "registered"
		}
		for id, c := range checks {
			fine = fine && c.Status == "success" && f.consul.Checks()[id].Status == consulapi.HealthPassing
		}
		return fine
	})

	f.status.Store(http.StatusInternalServerError)
	harness.Within(t, harness.Patience, "the check restarts the task", func() bool {
		return slices.Contains(harness.Events(harness.OnlyAlloc(t, f.Server, "web"), "t"), "Restart Signaled")
	})
	f.status.Store(http.StatusOK)
	f.has("check_restart", a, f.of("a", "green", "zero")...)

	current, _, err := f.Server.Client.Allocations().Info(al.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Server.Client.Allocations().Restart(current, "t", nil); err != nil {
		t.Fatal(err)
	}
	f.has("restart of the task", a, f.of("a", "green", "zero")...)

	f.killAgent(one, a)
	f.has("kill of the agent", a, f.of("a", "green", "zero")...)

	supervisor := harness.Supervisor(t, one.Dir)
	if supervisor == 0 {
		t.Fatal("the node has no supervisor")
	}
	if err := syscall.Kill(supervisor, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	harness.Within(t, harness.Patience, "the supervisor ends", func() bool { return harness.Supervisor(t, one.Dir) != supervisor })
	f.has("kill of the supervisor", a, f.of("a", "green", "zero")...)

	if err := f.consul.Restart(); err != nil {
		t.Fatal(err)
	}
	f.has("empty Consul", a, f.of("a", "green", "zero")...)

	id := harness.NodeID(t, one)
	f.join("two")
	if out, err := harness.Command(t, f.Server, "node", "drain", "-enable", "-yes", "-detach", id); err != nil {
		t.Fatalf("node drain: %v\n%s", err, out)
	}
	var next *api.AllocationListStub
	harness.Within(t, harness.Patience, "the allocation has moved", func() bool {
		running := harness.Allocs(t, f.Server, "web", "running")
		if len(running) != 1 || running[0].ID == al.ID {
			return false
		}
		next = running[0]
		return true
	})
	b := map[string]string{al.ID: "a", next.ID: "b"}
	f.has("drain", b, f.of("b", "green", "zero")...)

	harness.Stop(t, f.Server, "web")
	f.has("stop", b)
}

// killAgent kills a client and starts it again. It checks that the next agent registers and removes nothing.
func (f *consulFleet) killAgent(one *cluster.Agent, names map[string]string) {
	f.T.Helper()
	const register = "PUT /v1/agent/service/register"
	var script string
	for id, c := range f.consul.Checks() {
		if c.Name == "script" {
			script = "PUT /v1/agent/check/update/" + id
		}
	}
	if err := one.Kill(); err != nil {
		f.T.Fatal(err)
	}
	before, updates, was := f.consul.Calls(register), f.consul.Calls(script), f.registrations(names)
	harness.Restart(f.T, one)
	harness.Within(f.T, harness.Patience, "the next agent runs the script", func() bool { return f.consul.Calls(script) > updates })
	if got := f.consul.Calls(register); got != before {
		f.T.Errorf("%d registrations by the next agent, want 0", got-before)
	}
	if got := f.registrations(names); got != was {
		f.T.Errorf("Consul has %s after the start of the next agent, want %s", got, was)
	}
}

// TestConsulTwoNodes checks that two nodes which share an agent of Consul remove only their own leftovers.
func TestConsulTwoNodes(t *testing.T) {
	t.Parallel() // it mostly waits
	harness.NeedsRoot(t)
	f := newConsulFleet(t)
	f.join("one")
	f.join("two")
	defer f.Purge()
	harness.Run(t, f.Server, f.job(2, "blue", "up", "constraint {\n  distinct_hosts = true\n}"))
	allocs := harness.Await(t, f.Server, "web", "running", 2)
	names := map[string]string{allocs[0].ID: "a", allocs[1].ID: "b"}
	want := slices.Concat(f.of("a", "blue", "up"), f.of("b", "blue", "up"))
	f.has("start", names, want...)
	c, err := consulapi.NewClient(&consulapi.Config{Address: f.consul.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	const stranger = "11111111-2222-3333-4444-555555555555"
	for _, alloc := range []string{allocs[0].ID, allocs[1].ID, stranger} {
		if err := c.Agent().ServiceRegister(&consulapi.AgentServiceRegistration{ID: "_nomad-task-" + alloc + "-group-g-old-", Name: "old"}); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(want)
	want = append(want, stranger+"-group-g-old-[][]")
	slices.Sort(want)
	testpace.Within(t, 3*time.Minute, "both nodes have removed their leftovers", func() bool {
		return f.registrations(names) == strings.Join(want, " ")
	})
}

// TestConsulFailure checks that a task runs while Consul fails, what is shown, and that a hanging Consul does not keep it
// from ending. The body of Consul's answer is shown nowhere.
func TestConsulFailure(t *testing.T) {
	t.Parallel() // it mostly waits
	harness.NeedsRoot(t)
	f := newConsulFleet(t)
	f.join("one")
	defer f.Purge()
	set := func(m testconsul.Mode) {
		t.Helper()
		if err := f.consul.Set(m); err != nil {
			t.Fatal(err)
		}
	}
	set(testconsul.Mode{Fail: true})
	harness.Run(t, f.Server, f.job(1, "blue", "up", ""))
	al := harness.Await(t, f.Server, "web", "running", 1)[0]
	messages := func() (out []string) {
		for _, e := range harness.OnlyAlloc(t, f.Server, "web").TaskStates["t"].Events {
			if e.Type == "Consul" {
				out = append(out, e.DisplayMessage)
			}
		}
		return out
	}
	harness.Within(t, harness.Patience, "an event for each service", func() bool { return len(messages()) == 2 })
	for _, text := range messages() {
		if !strings.Contains(text, "is not registered in Consul after 3 attempts") || !strings.Contains(text, "status 500") {
			t.Errorf("event %q", text)
		}
	}
	for _, command := range []string{"status", "checks"} {
		out, err := harness.Command(t, f.Server, "alloc", command, al.ID)
		if err != nil || !strings.Contains(out, "Consul Services:") || strings.Count(out, "  failed  ") != 2 || !strings.Contains(out, "status 500") {
			t.Errorf("alloc %s: %v\n%s", command, err, out)
		}
	}
	set(testconsul.Mode{})
	names := map[string]string{al.ID: "a"}
	f.has("Consul answers again", names, f.of("a", "blue", "up")...)
	harness.Within(t, harness.Patience, "an event for each service that works again", func() bool { return len(messages()) == 4 })
	set(testconsul.Mode{Hang: true})
	harness.Stop(t, f.Server, "web")
	harness.Await(t, f.Server, "web", "complete", 1)
	set(testconsul.Mode{})
	f.has("stop", names)
}
