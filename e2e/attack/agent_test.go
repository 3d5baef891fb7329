package attack_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/drivers/testtask"
	"github.com/open-nomad/open-nomad/e2e/cluster"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// patience bounds waits on a busy or emulated machine.
const patience = 4 * time.Minute

// host is a running agent on a ground, stopped at the end of the test.
type host struct {
	*ground
	*cluster.Agent
	slice string // parent of its control groups
}

// startHost starts an agent with additions to the exec2 block, the file and the environment.
func (g *ground) startHost(block, more string, env ...string) *host {
	t := g.t
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h := &host{ground: g, slice: filepath.Base(g.dir) + ".slice"}
	user, self := g.lowerAgent(self)
	cfg := filepath.Join(g.dir, "agent.hcl")
	text := fmt.Sprintf("client {\n  cgroup_parent = %q\n  %s\n}\nplugin \"exec2\" {\n  config {\n    unveil_by_task = true\n    unveil_paths = [\"rx:%s/granted\"]\n    %s\n  }\n}\naudit {\n  enabled = true\n}\n%s\n",
		h.slice, g.clientBlock, g.dir, block, more)
	if err := os.WriteFile(cfg, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if user != nil {
		if err := os.Chown(cfg, int(user.Uid), int(user.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	log, err := os.Create(filepath.Join(g.dir, "agent.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	h.Agent, err = cluster.Start(t.Context(), cluster.Options{Bin: self, Dir: filepath.Join(g.dir, "agent"), Log: log, User: user,
		Args: []string{"-server", "-client", "-bootstrap-expect=1", "-bind=127.0.0.1", "-data-dir=" + g.targets.DataDir, "-config=" + cfg},
		Env:  append([]string{"AWS_SECRET_ACCESS_KEY=" + canary, "AGENT_ONLY=" + canary, "VAULT_TOKEN=" + canary, "LD_LIBRARY_PATH=/" + canary}, env...)})
	if err != nil {
		text, _ := os.ReadFile(log.Name())
		t.Fatalf("%v\n%s", err, text)
	}
	t.Cleanup(h.end)
	g.targets.HTTP = h.HTTP
	return h
}

// end stops all jobs and the agent, and checks that no network namespace and no control group remains.
func (h *host) end() {
	t := h.t
	h.purge()
	namespaces := filepath.Join(h.targets.DataDir, "client/netns")
	h.within("no mounted network namespace", func() bool { // removed after the end of the last task
		left, err := os.ReadDir(namespaces)
		return len(left) == 0 && (err == nil || errors.Is(err, fs.ErrNotExist))
	})
	if err := h.Stop(); err != nil {
		t.Error(err)
	}
	for _, dir := range h.groups("") {
		filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error { //nolint:errcheck // removed below
			if err == nil && d.IsDir() && strings.HasSuffix(at, ".scope") {
				t.Errorf("control group %s is left behind", at)
			}
			return nil
		})
	}
	if err := cluster.RemoveGroups(h.slice, patience); err != nil {
		t.Error(err)
	}
	if t.Failed() {
		text, _ := os.ReadFile(filepath.Join(h.dir, "agent.log"))
		t.Logf("the agent's log:\n%s", text)
	}
}

// groups lists the directories of a group below the agent's, in every hierarchy.
func (h *host) groups(pattern string) []string {
	h.t.Helper()
	out, err := cluster.Groups(h.slice, pattern)
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}

// purge stops every job and waits until no allocation runs.
func (h *host) purge() {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience) // the test's context may have ended
	defer cancel()
	if err := h.Purge(ctx); err != nil {
		h.t.Error(err)
	}
}

// within waits for a condition.
func (h *host) within(what string, ok func() bool) {
	h.t.Helper()
	testpace.Within(h.t, patience, what, ok)
}

// task returns a task that runs the probe.
func (h *host) task(name string, s situation, args ...string) *api.Task {
	cpu, memory := h.share(), 128
	config := map[string]any{"command": h.probe, "args": args}
	switch s.driver {
	case "java": // memory is that of the virtual machine
		memory = 512
		config = map[string]any{"class": testtask.JavaClass, "class_path": filepath.Join(h.dir, "granted"), "jvm_options": []string{"-Xmx64m"},
			"args": append([]string{h.probe}, args...)}
	case "qemu":
		config = map[string]any{"image_path": filepath.Join(h.dir, "granted/targets.json"), "emulator": emulator,
			"args": append([]string{"probe"}, args...)}
	}
	maps.Copy(config, s.config)
	if s.unveil != nil {
		config["unveil"] = s.unveil
	}
	if s.ports {
		config["network"] = []map[string]any{{"connect": []int{1}}}
	}
	return &api.Task{Name: name, Driver: cmp.Or(s.driver, "exec2"), User: s.user, Resources: &api.Resources{CPU: &cpu, MemoryMB: &memory},
		Env: map[string]string{"LD_EVIL": "1", "GLIBC_TUNABLES": "evil"}, Config: config}
}

// share returns a quarter of the node's MHz, because an emulated machine is slow.
func (h *host) share() int {
	id, err := h.NodeID()
	if err != nil {
		h.t.Fatal(err)
	}
	node, _, err := h.Client.Nodes().Info(id, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	return int(node.NodeResources.Cpu.CpuShares / 4)
}

// job returns a job with one group of tasks, without restarts.
func job(id, kind string, s situation, tasks ...*api.Task) *api.Job {
	attempts, mode, unlimited := 0, "fail", false
	group := &api.TaskGroup{Name: &id, Tasks: tasks,
		RestartPolicy:    &api.RestartPolicy{Attempts: &attempts, Mode: &mode},
		ReschedulePolicy: &api.ReschedulePolicy{Attempts: &attempts, Unlimited: &unlimited}}
	if s.network != "" {
		group.Networks = []*api.NetworkResource{{Mode: s.network}}
	}
	return &api.Job{ID: &id, Name: &id, Type: &kind, TaskGroups: []*api.TaskGroup{group}}
}

// run registers a job and waits until its allocation has a status.
func (h *host) run(j *api.Job, status string) *api.AllocationListStub {
	t := h.t
	t.Helper()
	if _, _, err := h.Client.Jobs().Register(j, nil); err != nil {
		t.Fatalf("Register(%s) = %v", *j.ID, err)
	}
	var out *api.AllocationListStub
	h.within(*j.ID+" is "+status, func() bool {
		allocs, _, err := h.Client.Jobs().Allocations(*j.ID, true, nil)
		if err != nil || len(allocs) != 1 {
			return false
		}
		out = allocs[0]
		if out.ClientStatus == "failed" && status != "failed" {
			for name, state := range out.TaskStates {
				for _, ev := range state.Events {
					t.Log(name, ev.Type, ev.DisplayMessage)
				}
				t.Logf("%s: %s", name, h.log(out, name))
			}
			t.Fatalf("%s failed", *j.ID)
		}
		return out.ClientStatus == status
	})
	return out
}

// log returns the output of a task on a stream.
func (h *host) log(al *api.AllocationListStub, task string) string {
	in, err := h.Client.AllocFS().Cat(&api.Allocation{ID: al.ID, NodeID: al.NodeID}, "alloc/logs/"+task+".stdout.0", nil)
	if err != nil {
		return ""
	}
	defer in.Close()
	text, err := io.ReadAll(in)
	if err != nil {
		return ""
	}
	return string(text)
}

// settle starts the neighbour and collects the targets of the probe.
func (h *host) settle(s situation) {
	t, o := h.t, &h.targets
	t.Helper()
	al := h.run(job("neighbour", "service", s, h.task("neighbour", s.victim(), "stay", canary)), "running")
	h.within("the neighbour", func() bool { return strings.HasPrefix(h.log(al, "neighbour"), "up") })
	o.NeighbourDir = filepath.Join(o.DataDir, "alloc", al.ID)
	if h.agentUser != "" {
		o.Neighbour = h.taskOf(al.ID)
	}
	groups := h.groups("*/" + al.ID + ".neighbour.scope")
	for _, dir := range groups {
		o.OwnGroups = append(o.OwnGroups, strings.Replace(dir, al.ID+".neighbour", "ALLOC.probe", 1))
		if pids := members(dir); len(pids) > 0 {
			o.NeighbourGrp, o.Neighbour = dir, pids[len(pids)-1]
		}
	}
	if o.Neighbour == 0 {
		t.Fatalf("no process of the neighbour in %v", groups)
	}
	o.Agent, o.Supervisor = h.Pid(), h.supervisor()
	filepath.WalkDir(o.DataDir, func(at string, d fs.DirEntry, err error) error { //nolint:errcheck // checked below
		if err == nil && d.Type()&fs.ModeSocket != 0 && strings.Contains(at, "/supervise/") {
			o.SupervisorSocket = at
		}
		return nil
	})
	if o.Supervisor == 0 || o.SupervisorSocket == "" {
		t.Fatalf("supervisor %d, its socket %q: want both", o.Supervisor, o.SupervisorSocket)
	}
}

// members lists the processes of a control group.
func members(dir string) []int {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil
	}
	var out []int
	for _, word := range strings.Fields(string(text)) {
		if pid, err := strconv.Atoi(word); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

// supervisor returns the process of this agent's supervisor: its command line contains the data
// directory.
func (h *host) supervisor() int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		h.t.Fatal(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == h.Pid() {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err == nil && strings.HasPrefix(string(line), "nomad-supervise") && strings.Contains(string(line), h.dir) {
			return pid
		}
	}
	return 0
}
