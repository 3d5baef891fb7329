package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/internal/cgroup"
)

const (
	manyJobs          = 10
	manyStart         = 25 * time.Second
	manyMemory        = 220 << 10 // KiB
	manyReattach      = 4 * time.Second
	manyWithin        = 3 * time.Minute
	manySettle        = 5 * time.Second
	manyRate          = 10 * time.Second
	manyAgentLimit    = 1 << 30
	manyTasksLimit    = 4 << 30
	manyAgentThreads  = 512
	manyTaskProcesses = 6 // of each task: init, the program, and room for the stage of its start
)

// crowd is one agent with many sandboxed tasks. Its data directory is kept when it restarts.
type crowd struct {
	agent *cluster.Agent
	group *cgroup.Group // limits the agent
	slice string        // parent of the tasks' groups, with limits too
	super int           // PID of the supervisor
}

// manyTasks runs sandboxed tasks of service jobs on one agent. It measures the time until all run, the memory of
// the agent and the supervisor, and the time until a new agent has taken over all tasks after a kill.
func manyTasks(ctx context.Context, b *bench) (text string, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, manyWithin)
	defer cancel()
	c, err := b.newCrowd(ctx)
	if err != nil {
		return "", false, err
	}
	defer func() { err = errors.Join(err, c.end()) }()
	before := c.used()
	began := time.Now()
	if err := c.run(ctx, b.tasks); err != nil {
		return "", false, err
	}
	started := time.Since(began)
	cost := c.used().since(before)
	memory, idle, err := c.atRest(ctx)
	if err != nil {
		return "", false, err
	}
	reattached, spent, err := c.restart(ctx, b.tasks)
	if err != nil {
		return "", false, err
	}
	each := func(d time.Duration) float64 { return ms(d) / float64(b.tasks) }
	text = fmt.Sprintf("%d running in %.1f s (CPU per task: agent %.1f ms, supervisor %.1f ms, in their own groups %.1f ms); %.0f MiB; "+
		"%.0f %% of a core when all run; reattached in %.1f s (%.1f s of CPU)",
		b.tasks, started.Seconds(), each(cost.agent), each(cost.super), each(cost.tasks), float64(memory)/1024, idle*100,
		reattached.Seconds(), spent.Seconds())
	return text, started <= manyStart && memory <= manyMemory && reattached <= manyReattach, nil
}

// newCrowd starts the agent. The agent and all tasks together are in control groups with limits.
func (b *bench) newCrowd(ctx context.Context) (*crowd, error) {
	h, err := cgroup.Detect()
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("tasks-%d", os.Getpid())
	c := &crowd{slice: childParent + "/" + name}
	agent, err := h.Create(childParent, "agent-"+name, cgroup.Limits{MemoryMax: manyAgentLimit, Processes: manyAgentThreads})
	if err != nil {
		return nil, err
	}
	c.group = agent
	limits := cgroup.Limits{MemoryMax: manyTasksLimit, Processes: int64(b.tasks) * manyTaskProcesses}
	if _, err := h.Create(childParent, name, limits); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(b.dir, "crowd-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, err
	}
	config := fmt.Sprintf("client {\n  cgroup_parent = %q\n}\n", c.slice)
	if b.profiles != "" {
		config += debugRoutes
	}
	file := filepath.Join(dir, "crowd.hcl")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "agent.log"))
	if err != nil {
		return nil, err
	}
	return c, c.start(ctx, cluster.Options{
		Bin: b.nomad,
		Dir: dir,
		Log: log,
		Args: []string{"-server", "-client", "-bootstrap-expect=1", "-bind=127.0.0.1",
			"-log-level=WARN", "-data-dir=" + filepath.Join(dir, "data"), "-config=" + file},
	})
}

// start starts the agent, or restarts it, and moves it to its group.
func (c *crowd) start(ctx context.Context, o cluster.Options) (err error) {
	if c.agent, err = cluster.Start(ctx, o); err != nil {
		return err
	}
	return c.group.Enter(c.agent.Pid())
}

// service returns a service job of n small tasks that sleep.
func service(id string, n int) *api.Job {
	job := batch(id, n, "exec2", map[string]any{"command": "/bin/sleep", "args": []string{"3600"}})
	kind := "service"
	job.Type, job.TaskGroups[0].RestartPolicy = &kind, nil
	return job
}

func crowdJob(i int) string { return fmt.Sprintf("crowd-%d", i) }

// run registers the jobs and waits until every allocation runs.
func (c *crowd) run(ctx context.Context, tasks int) error {
	all, ctx := errgroup.WithContext(ctx)
	for i := range manyJobs {
		n := tasks / manyJobs
		if _, _, err := c.agent.Client.Jobs().Register(service(crowdJob(i), n), nil); err != nil {
			return err
		}
		all.Go(func() error { return c.running(ctx, crowdJob(i), n) })
	}
	return all.Wait()
}

// running waits until the summary of a job has n running allocations. A summary is short, so that reading it does
// not load the agent.
func (c *crowd) running(ctx context.Context, job string, n int) error {
	for index := uint64(0); ; {
		q := (&api.QueryOptions{WaitIndex: index, WaitTime: time.Minute}).WithContext(ctx)
		s, meta, err := c.agent.Client.Jobs().Summary(job, q)
		if err != nil {
			return fmt.Errorf("summary of job %s: %w", job, err)
		}
		group := s.Summary[job]
		if group.Failed+group.Lost > 0 {
			return fmt.Errorf("%d allocations of job %s failed", group.Failed+group.Lost, job)
		}
		if group.Running == n {
			return nil
		}
		index = meta.NextIndex()
	}
}

// atRest returns the memory of the agent and the supervisor, in KiB, and the share of a core that they use.
func (c *crowd) atRest(ctx context.Context) (kib int64, cores float64, err error) {
	for _, pause := range []time.Duration{manySettle, manyRate} {
		before := c.used()
		select {
		case <-ctx.Done():
			return 0, 0, ctx.Err()
		case <-time.After(pause):
		}
		cost := c.used().since(before)
		cores = float64(cost.agent+cost.super) / float64(pause)
	}
	kib, err = pss(c.agent.Pid(), c.super)
	return kib, cores, err
}

// restart kills the agent and starts it again. It returns the time until the servers have a status from the new
// agent for every allocation, and the CPU time of agent and supervisor. Every process must be the same as before.
func (c *crowd) restart(ctx context.Context, tasks int) (took, spent time.Duration, err error) {
	before, err := c.processes()
	if err != nil {
		return 0, 0, err
	}
	allocs, _, err := c.agent.Client.Allocations().List(nil)
	if err != nil {
		return 0, 0, err
	}
	var last uint64
	for _, a := range allocs {
		last = max(last, a.ModifyIndex)
	}
	if err := c.agent.Kill(); err != nil {
		return 0, 0, err
	}
	super := cpuTime(c.super)
	began := time.Now()
	if err := c.start(ctx, c.agent.Options); err != nil {
		return 0, 0, err
	}
	if err := c.reported(ctx, tasks, last); err != nil {
		return 0, 0, err
	}
	took, spent = time.Since(began), cpuTime(c.agent.Pid(), c.super)-super
	after, err := c.processes()
	if err == nil && (after != before || strings.Count(after, " ") != 2*tasks) {
		err = fmt.Errorf("the processes of the tasks were %s and are %s", before, after)
	}
	return took, spent, err
}

// reported waits until every allocation runs with a status after an index.
func (c *crowd) reported(ctx context.Context, tasks int, after uint64) error {
	for index := uint64(0); ; {
		q := (&api.QueryOptions{WaitIndex: index, WaitTime: time.Minute}).WithContext(ctx)
		allocs, meta, err := c.agent.Client.Allocations().List(q)
		if err != nil {
			return err
		}
		n := 0
		for _, a := range allocs {
			if a.ClientStatus == api.AllocClientStatusRunning && a.ModifyIndex > after {
				n++
			}
		}
		if n == tasks {
			return nil
		}
		index = meta.NextIndex()
	}
}

// processes lists the processes in the groups of the tasks, each followed by a space.
func (c *crowd) processes() (string, error) {
	files, err := cluster.Groups(c.slice, "share.slice/*.scope/cgroup.procs")
	if err != nil {
		return "", err
	}
	var pids []string
	seen := map[string]bool{} // version 1 lists each process once per controller
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		for _, pid := range strings.Fields(string(text)) {
			if !seen[pid] {
				pids = append(pids, pid+" ")
			}
			seen[pid] = true
		}
	}
	slices.Sort(pids)
	return strings.Join(pids, ""), nil
}

// usage is CPU time.
type usage struct{ agent, super, tasks time.Duration }

// used returns the CPU time so far. That of the tasks includes the starts that run in the group of a task.
func (c *crowd) used() usage {
	if c.super == 0 {
		if helpers, err := helpersOf(c.agent); err == nil && len(helpers) == 1 {
			c.super = helpers[0]
		}
	}
	u := usage{agent: cpuTime(c.agent.Pid()), super: cpuTime(c.super)}
	dirs, _ := cluster.Groups(c.slice, "")
	for _, dir := range dirs {
		text, err := os.ReadFile(filepath.Join(dir, "cpu.stat"))
		_, rest, found := strings.Cut(string(text), "usage_usec ")
		if err == nil && found {
			n, _, _ := strings.Cut(rest, "\n")
			us, _ := strconv.ParseInt(n, 10, 64) // written by the kernel
			u.tasks = time.Duration(us) * time.Microsecond
		}
	}
	return u
}

func (u usage) since(before usage) usage {
	return usage{u.agent - before.agent, u.super - before.super, u.tasks - before.tasks}
}

// end purges the jobs and removes the groups.
func (c *crowd) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), manyWithin)
	defer cancel()
	err := errors.Join(c.agent.Purge(ctx), c.agent.Stop(), c.group.Remove(), cluster.RemoveGroups(c.slice, manySettle))
	parents, _ := cluster.Groups(childParent, "")
	for _, dir := range parents {
		os.Remove(dir) // the last user removes the common group
	}
	return err
}
