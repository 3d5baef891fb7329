package crash_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/e2e/harness"
)

// churn is an agent that is killed while jobs start, run and end.
type churn struct {
	t     *testing.T
	agent *cluster.Agent
	dir   string
	slice string
	rng   *rand.Rand
}

// churnRounds returns how often the agent is killed: CHURN times, or a few times.
func churnRounds(t *testing.T) int {
	text := os.Getenv("CHURN")
	if text == "" {
		return 5
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("CHURN=%s: want a number of rounds: %v", text, err)
	}
	return n
}

// The agent is killed at random times while sandboxed tasks start, run, stop and are collected.
// Each batch task runs once, each service continues or ends as requested, and at the end no
// resource remains.
func TestKilledAtAnyTime(t *testing.T) {
	harness.NeedsSandbox(t)
	dir := harness.OutsideTmp(t)
	c := &churn{t: t, dir: dir, slice: filepath.Base(dir) + ".slice", rng: rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))}
	t.Cleanup(func() { // after the agent has ended
		if err := cluster.RemoveGroups(c.slice, harness.Patience); err != nil {
			t.Error(err)
		}
	})
	cfg := filepath.Join(dir, "churn.hcl")
	harness.WriteFile(t, cfg, fmt.Sprintf("client {\n  cgroup_parent = %q\n}\n", c.slice))
	c.agent = harness.Start(t, cluster.Options{Dir: dir, Args: []string{"-server", "-client", "-bootstrap-expect=1", "-bind=127.0.0.1",
		"-data-dir=" + filepath.Join(dir, "data"), "-config=" + cfg}})
	defer func() { harness.PurgeAll(t, c.agent) }()
	for round := range churnRounds(t) {
		c.round(round)
	}
	c.nothingLeft()
}

// round runs and stops jobs, kills the agent in the meantime, and checks the results.
func (c *churn) round(n int) {
	t := c.t
	collects, pause := n%3 == 2, "0.0$(($$ % 10))"
	if collects { // a batch job that ended before would be collected too
		pause = "3"
	}
	batch, _ := harness.Run(t, c.agent, harness.Job(fmt.Sprintf("batch-%d", n), "type = \"batch\"", harness.Once+"count = 3\n"+churnTask("t",
		`echo ran >> $NOMAD_ALLOC_DIR/data/mark; sleep `+pause+`; echo done >> $NOMAD_ALLOC_DIR/data/mark`, "")))
	web, _ := harness.Run(t, c.agent, harness.Job(fmt.Sprintf("web-%d", n), "",
		"network {\n port \"http\" {}\n}\nservice {\n provider = \"nomad\"\n name = \"web\"\n port = \"http\"\n}\n"+
			churnTask("first", `echo first >> $NOMAD_ALLOC_DIR/data/first`, harness.Lifecycle("prestart", false))+
			churnTask("t", `test -s $NOMAD_SECRETS_DIR/nomad_token && cat $NOMAD_ALLOC_DIR/data/first >> $NOMAD_ALLOC_DIR/data/main; trap 'exit 0' TERM; while :; do sleep 0.1; done`,
				"identity {\n file = true\n}\n")+
			churnTask("last", `cat $NOMAD_ALLOC_DIR/data/main >> $NOMAD_ALLOC_DIR/data/last`, harness.Lifecycle("poststop", false))))
	if n > 0 {
		harness.Stop(t, c.agent, fmt.Sprintf("web-%d", n-1))
	}
	if collects {
		if err := c.agent.Client.System().GarbageCollect(); err != nil {
			t.Error(err)
		}
	}
	for range 1 + c.rng.IntN(2) { // the second time the agent is restoring its tasks
		pause := time.Duration(c.rng.IntN(600)) * time.Millisecond >> (c.rng.IntN(2) * 3) // half of them while tasks start
		time.Sleep(pause)
		t.Logf("round %d: killed after %s", n, pause)
		if err := c.agent.Kill(); err != nil {
			t.Fatal(err)
		}
		c.agent = harness.Restart(t, c.agent)
	}
	for _, al := range harness.Await(t, c.agent, batch, "complete", 3) {
		if got := harness.SharedFile(t, c.agent, al, "mark"); got != "ran\ndone\n" {
			t.Errorf("round %d: %s wrote %q", n, al.Name, got)
		}
	}
	for _, al := range harness.Await(t, c.agent, web, "running", 1) {
		harness.Within(t, harness.Patience, "the service has begun", func() bool {
			info, _, err := c.agent.Client.AllocFS().Stat(&api.Allocation{ID: al.ID, NodeID: al.NodeID}, "alloc/data/main", nil)
			return err == nil && info.Size > 0
		})
		c.once(al, "main")
		c.registered("web", al.ID)
	}
	if n > 0 && !collects { // the collection may run after the end of the service, and removes it then
		for _, al := range harness.Await(t, c.agent, fmt.Sprintf("web-%d", n-1), "complete", 1) {
			c.once(al, "last")
		}
	}
}

// once checks that all tasks up to one ran once: each adds to what the previous one wrote.
func (c *churn) once(al *api.AllocationListStub, task string) {
	c.t.Helper()
	if got := harness.SharedFile(c.t, c.agent, al, task); got != "first\n" {
		c.t.Errorf("task %s of %s wrote %q", task, al.Name, got)
	}
}

// registered waits until a service has the registrations of these allocations, and no others.
func (c *churn) registered(service string, allocs ...string) {
	c.t.Helper()
	var have []string
	harness.Within(c.t, harness.Patience, fmt.Sprintf("the service %s has the allocations %v", service, allocs), func() bool {
		rows, _, err := c.agent.Client.Services().Get(service, nil)
		if err != nil {
			return false
		}
		have = have[:0]
		for _, r := range rows {
			have = append(have, r.AllocID)
		}
		return slices.Equal(have, allocs)
	})
}

// churnTask returns a sandboxed task that runs a script.
func churnTask(name, script, extra string) string {
	return harness.Named(name, harness.Sandboxed(harness.InShell(script), extra, "resources {\n cpu = 10\n memory = 16\n }\n"))
}

// nothingLeft purges all jobs, and searches for resources of tasks.
func (c *churn) nothingLeft() {
	harness.PurgeAll(c.t, c.agent)
	c.registered("web")
	harness.LeavesNothing(c.t, c.agent, c.dir, c.slice)
}
