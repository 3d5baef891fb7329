package identity_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/testconsul"
)

// secrets returns the tokens of logins, oldest first.
func secrets(c *testconsul.Agent) (out []string) {
	for _, l := range c.Logins() {
		out = append(out, l.SecretID)
	}
	return out
}

// setPause sets the state of the schedule of the task t.
func setPause(t *testing.T, a *cluster.Agent, al *api.AllocationListStub, state string) {
	t.Helper()
	harness.Succeeds(t, state+" the task", func() error {
		return a.Client.Allocations().SetPauseState(&api.Allocation{ID: al.ID, NodeID: al.NodeID}, nil, "t", state)
	})
}

// TestConsul_Pause checks that tokens stay valid and are renewed while the task is paused, that a resumed task starts with the
// newest one, and that a task which is paused while it waits for its token does not start when the token arrives.
func TestConsul_Pause(t *testing.T) {
	t.Parallel() // it waits for the half of a token's life
	harness.NeedsRoot(t)
	c := testconsul.Start(t, testconsul.Config{ACL: true})
	a, dir := consulAgent(t, c, c.Management())
	defer func() { harness.PurgeAll(t, a) }()
	trustCluster(t, c, a.Address()+"/.well-known/jwks.json")
	limitLife(t, c)
	set := func(m testconsul.Mode) {
		t.Helper()
		if err := c.Set(m); err != nil {
			t.Fatal(err)
		}
	}
	state := func(want string) func() bool {
		return func() bool { return harness.OnlyAlloc(t, a, "shop").TaskStates["t"].State == want }
	}

	set(testconsul.Mode{Refuse: true})
	harness.Run(t, a, consulWorkloads)
	harness.Within(t, harness.Patience, "the task waits for its token", func() bool {
		all := harness.AllAllocs(t, a, "shop")
		return len(all) == 1 && strings.Contains(strings.Join(messages(all[0], "t"), "\n"), "Consul is unreachable")
	})
	al := harness.OnlyAlloc(t, a, "shop")
	setPause(t, a, al, "pause")
	set(testconsul.Mode{})
	file := filepath.Join(dir, "d", "alloc", al.ID, "t", "secrets", "consul_token")
	harness.Within(t, time.Minute, "both logins succeed", func() bool { return len(c.Logins()) == 2 && len(c.Services()) == 1 })
	harness.Within(t, harness.Patience, "the file has a token", func() bool { return slices.Contains(secrets(c), harness.Content(t, file)) })
	if s := harness.OnlyAlloc(t, a, "shop").TaskStates["t"]; s.State != "pending" || !s.StartedAt.IsZero() {
		t.Errorf("the task is %s and started at %s, though it was paused while it waited for its token", s.State, s.StartedAt)
	}

	first := secrets(c)
	setPause(t, a, al, "run")
	harness.Within(t, harness.Patience, "the task runs", state("running"))
	output := filepath.Join(dir, "d", "alloc", al.ID, "alloc", "logs", "t.stdout.0")
	harness.FileText(t, output) // a pause could kill the process before it prints
	setPause(t, a, al, "pause")
	harness.Within(t, harness.Patience, "the task is paused", state("pending"))
	if err := a.Kill(); err != nil {
		t.Fatal(err)
	}
	a = harness.Restart(t, a)
	harness.Within(t, harness.Patience, "the allocation runs", func() bool { return len(harness.Allocs(t, a, "shop", "running")) == 1 })
	if got := secrets(c); !slices.Equal(got, first) || len(c.Services()) != 1 {
		t.Errorf("%d tokens and %d services after a restart of the agent, want the same 2 and 1", len(got), len(c.Services()))
	}
	harness.Within(t, 2*time.Minute, "all tokens are renewed while the task is paused", func() bool {
		renewed := 0
		for _, s := range secrets(c) {
			if !slices.Contains(first, s) {
				renewed++
			}
		}
		return renewed == 2 && harness.OnlyAlloc(t, a, "shop").TaskStates["t"].State == "pending"
	})
	setPause(t, a, al, "scheduled")
	harness.Within(t, harness.Patience, "the task runs again", state("running"))
	now := harness.Content(t, file)
	if live := secrets(c); slices.Contains(first, now) || !slices.Contains(live, now) {
		t.Errorf("the file of the resumed task has the first token: %t, one that Consul has: %t", slices.Contains(first, now), slices.Contains(live, now))
	}
	harness.Within(t, harness.Patience, "file and environment have the same token at each start", func() bool {
		return harness.Content(t, output) == "same\nsame"
	})
	setPause(t, a, al, "pause")
	harness.Within(t, harness.Patience, "the task is paused again", state("pending"))
	harness.StopAndWait(t, a, "shop", 1)
	harness.Within(t, harness.Patience, "the end of a paused task logs out", func() bool { return len(c.Logins()) == 0 && len(c.IDs()) == 0 })
	search(t, "the log", harness.Content(t, filepath.Join(dir, "agent.log")), append(first, now, "eyJ"))
}

// limitLife gives the tokens of later logins the shortest life that Consul allows.
func limitLife(t *testing.T, c *testconsul.Agent) {
	t.Helper()
	acl := consulClient(t, c, c.Management()).ACL()
	methods, _, err := acl.AuthMethodList(nil)
	if err != nil || len(methods) != 1 {
		t.Fatalf("%d auth methods, %v", len(methods), err)
	}
	method, _, err := acl.AuthMethodRead(methods[0].Name, nil)
	if err != nil {
		t.Fatal(err)
	}
	method.MaxTokenTTL = time.Minute
	if _, _, err := acl.AuthMethodUpdate(method, nil); err != nil {
		t.Fatal(err)
	}
}

// tokenFleet is a server with clients whose workloads log in to one Consul.
type tokenFleet struct {
	*harness.Fleet
	consul *testconsul.Agent
	block  string
}

func newTokenFleet(t *testing.T) *tokenFleet {
	t.Helper()
	c := testconsul.Start(t, testconsul.Config{ACL: true})
	identity := "{\n aud = [\"consul.io\"]\n ttl = \"1h\"\n }\n"
	f := &tokenFleet{consul: c, block: fmt.Sprintf("consul {\n address = %q\n token = %q\n auto_advertise = false\n service_identity %s task_identity %s}\n",
		c.Addr(), c.Management(), identity, identity)}
	f.Fleet = harness.NewFleet(t, f.block+"server {\n heartbeat_grace = \"4s\"\n min_heartbeat_ttl = \"1s\"\n}\n")
	trustCluster(t, c, f.Server.Address()+"/.well-known/jwks.json")
	return f
}

// run runs the job of consulWorkloads with another name and a block of its group.
func (f *tokenFleet) run(name, block string) {
	f.T.Helper()
	job := strings.Replace(consulWorkloads, `job "shop"`, fmt.Sprintf("job %q", name), 1)
	harness.Run(f.T, f.Server, strings.Replace(job, `group "g" {`, `group "g" {`+"\n"+block, 1))
}

// placed waits until an allocation of a job runs on a node, and its service and task have tokens. It returns its ID and the
// token of its task.
func (f *tokenFleet) placed(job, node string) (alloc, token string) {
	f.T.Helper()
	harness.Within(f.T, 2*time.Minute, job+" has tokens on node "+node, func() bool {
		for _, al := range harness.Allocs(f.T, f.Server, job, "running") {
			if al.NodeName != node || al.TaskStates["t"].State != "running" {
				continue
			}
			alloc = al.ID
			token = harness.Content(f.T, filepath.Join(f.Dir, node, "data", "alloc", al.ID, "t", "secrets", "consul_token"))
			return slices.Contains(secrets(f.consul), token) && f.registered(job) != "" && strings.Contains(f.registered(job), al.ID)
		}
		return false
	})
	return alloc, token
}

// registered returns the IDs of the services of a job.
func (f *tokenFleet) registered(job string) string {
	var out []string
	for id, s := range f.consul.Services() {
		if s.Service == job+"-web" {
			out = append(out, id)
		}
	}
	return strings.Join(out, " ")
}

// serviceTokens returns the number of tokens of the service of a job.
func (f *tokenFleet) serviceTokens(job string) (n int) {
	for _, l := range f.consul.Logins() {
		if len(l.ServiceIdentities) > 0 && l.ServiceIdentities[0].ServiceName == job+"-web" {
			n++
		}
	}
	return n
}

func (f *tokenFleet) signal(a *cluster.Agent, sig syscall.Signal) {
	f.T.Helper()
	if err := syscall.Kill(a.Pid(), sig); err != nil {
		f.T.Fatal(err)
	}
}

// TestConsul_LostNode checks which tokens and services stay when a node is lost, its allocations are replaced, and it comes
// back: those of the allocation that is kept. A client that stops its allocations by itself logs them out while its servers
// do not answer.
func TestConsul_LostNode(t *testing.T) {
	t.Parallel() // it mostly waits
	harness.NeedsRoot(t)
	f := newTokenFleet(t)
	defer f.Purge()
	one := f.Join("one", f.block)
	type row struct {
		job, block string
		original   bool // it is kept
	}
	rows := []row{
		{"lost", "", false},
		{"original", "disconnect {\n lost_after = \"1h\"\n reconcile = \"keep_original\"\n}", true},
		{"replacement", "disconnect {\n lost_after = \"1h\"\n reconcile = \"keep_replacement\"\n}", false},
		{"expired", "disconnect {\n lost_after = \"1s\"\n}", false},
	}
	type placement struct{ alloc, token string }
	before, after := map[string]placement{}, map[string]placement{}
	for _, r := range rows {
		f.run(r.job, r.block)
	}
	for _, r := range rows {
		alloc, token := f.placed(r.job, "one")
		before[r.job] = placement{alloc, token}
	}
	two := f.Join("two", f.block)
	f.signal(one, syscall.SIGSTOP)
	defer f.signal(one, syscall.SIGCONT)
	for _, r := range rows {
		alloc, token := f.placed(r.job, "two")
		after[r.job] = placement{alloc, token}
		if n := f.serviceTokens(r.job); n != 2 || !strings.Contains(f.registered(r.job), before[r.job].alloc) {
			t.Errorf("%s: %d tokens of services, services %s; want those of the lost allocation too", r.job, n, f.registered(r.job))
		}
	}
	harness.Await(t, f.Server, "expired", "lost", 1)
	f.signal(one, syscall.SIGCONT)
	for _, r := range rows {
		kept, ended := after[r.job], before[r.job]
		if r.original {
			kept, ended = ended, kept
		}
		harness.Succeeds(t, r.job+": only the kept allocation has tokens and services", func() error {
			live, services := secrets(f.consul), f.registered(r.job)
			if slices.Contains(live, ended.token) || f.serviceTokens(r.job) != 1 || strings.Contains(services, ended.alloc) {
				return fmt.Errorf("token of the ended task: %t, %d tokens of services, services %s",
					slices.Contains(live, ended.token), f.serviceTokens(r.job), services)
			}
			if !slices.Contains(live, kept.token) || !strings.Contains(services, kept.alloc) {
				return fmt.Errorf("token of the kept task: %t, services %s", slices.Contains(live, kept.token), services)
			}
			return nil
		})
		if running := harness.Await(t, f.Server, r.job, "running", 1); running[0].ID != kept.alloc {
			t.Errorf("%s: allocation %s runs, want %s", r.job, running[0].ID, kept.alloc)
		}
	}
	if n := len(f.consul.Logins()); n != 2*len(rows) {
		t.Errorf("%d tokens, want %d", n, 2*len(rows))
	}

	// The node that has most of them ends, and Consul is slow when it comes back.
	if err := two.Kill(); err != nil {
		t.Fatal(err)
	}
	_, moved := f.placed("lost", "one")
	if err := f.consul.Set(testconsul.Mode{Slow: 500 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	harness.Restart(t, two)
	harness.Within(t, 2*time.Minute, "the node that was killed logs out", func() bool {
		live := secrets(f.consul)
		return !slices.Contains(live, after["lost"].token) && slices.Contains(live, moved) && len(live) == 2*len(rows)
	})
	for _, r := range rows {
		harness.Stop(t, f.Server, r.job)
	}
	harness.Within(t, time.Minute, "all are logged out", func() bool { return len(f.consul.Logins()) == 0 && len(f.consul.IDs()) == 0 })
	if err := f.consul.Set(testconsul.Mode{}); err != nil {
		t.Fatal(err)
	}

	f.run("alone", "disconnect {\n stop_on_client_after = \"3s\"\n}")
	harness.Await(t, f.Server, "alone", "running", 1)
	harness.Within(t, time.Minute, "the tokens", func() bool { return len(f.consul.Logins()) == 2 && f.registered("alone") != "" })
	f.signal(f.Server, syscall.SIGSTOP)
	defer f.signal(f.Server, syscall.SIGCONT)
	harness.Within(t, time.Minute, "the client logs out without its servers", func() bool {
		return len(f.consul.Logins()) == 0 && len(f.consul.IDs()) == 0
	})
	f.signal(f.Server, syscall.SIGCONT)
}

// TestConsul_Slow checks that a Consul which answers each request after two seconds changes nothing but the duration, and that
// the end of a task waits for the logouts for a second at most.
func TestConsul_Slow(t *testing.T) {
	t.Parallel() // it mostly waits
	harness.NeedsRoot(t)
	c := testconsul.Start(t, testconsul.Config{ACL: true})
	a, _ := consulAgent(t, c, c.Management())
	defer func() { harness.PurgeAll(t, a) }()
	trustCluster(t, c, a.Address()+"/.well-known/jwks.json")
	if err := c.Set(testconsul.Mode{Slow: 2 * time.Second, TokenLag: time.Second}); err != nil {
		t.Fatal(err)
	}
	harness.Run(t, a, consulWorkloads)
	al := harness.Await(t, a, "shop", "running", 1)[0]
	started := func() time.Time { return harness.OnlyAlloc(t, a, "shop").TaskStates["t"].StartedAt }
	harness.Within(t, time.Minute, "the task runs, the service is registered", func() bool {
		return harness.OnlyAlloc(t, a, "shop").TaskStates["t"].State == "running" && len(c.Services()) == 1
	})
	first, at := secrets(c), started()
	for _, text := range messages(harness.OnlyAlloc(t, a, "shop"), "t") {
		if strings.Contains(text, "failed") {
			t.Errorf("event %q", text)
		}
	}
	if err := a.Kill(); err != nil {
		t.Fatal(err)
	}
	a = harness.Restart(t, a)
	if out, err := harness.Command(t, a, "alloc", "restart", al.ID); err != nil {
		t.Fatalf("alloc restart: %v\n%s", err, out)
	}
	harness.Within(t, harness.Patience, "the task runs again", func() bool { return started().After(at) })
	if got := secrets(c); !slices.Equal(got, first) || len(got) != 2 {
		t.Errorf("%d tokens after restarts of agent and task, want the same 2 as before", len(got))
	}
	began := time.Now()
	harness.StopAndWait(t, a, "shop", 1)
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("the stop took %s", took)
	}
	harness.Within(t, time.Minute, "all are logged out", func() bool { return len(c.Logins()) == 0 && len(c.IDs()) == 0 })
}
