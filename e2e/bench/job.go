package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
)

// batch returns a batch job of n small tasks.
func batch(id string, n int, driver string, config map[string]any) *api.Job {
	kind, cpu, memory, disk, attempts := "batch", 1, 10, 10, 0
	group := &api.TaskGroup{Name: &id, Count: &n,
		EphemeralDisk: &api.EphemeralDisk{SizeMB: &disk},
		RestartPolicy: &api.RestartPolicy{Attempts: &attempts},
		Tasks: []*api.Task{{Name: "task", Driver: driver, Config: config,
			Resources: &api.Resources{CPU: &cpu, MemoryMB: &memory},
			LogConfig: &api.LogConfig{MaxFiles: &[]int{1}[0], MaxFileSizeMB: &[]int{1}[0]}}}}
	return &api.Job{ID: &id, Name: &id, Type: &kind, TaskGroups: []*api.TaskGroup{group}}
}

func finished(ctx context.Context, a *cluster.Agent, job string, n int) ([]*api.AllocationListStub, error) {
	return inStatus(ctx, a, goal{job, n, api.AllocClientStatusComplete})
}

// goal is a number of allocations of a job in a client status.
type goal struct {
	job    string
	allocs int
	status string
}

// inStatus waits until the goal is reached, and returns the allocations of the job.
func inStatus(ctx context.Context, a *cluster.Agent, g goal) ([]*api.AllocationListStub, error) {
	var index uint64
	for {
		allocs, meta, err := a.Client.Jobs().Allocations(g.job, false, (&api.QueryOptions{
			WaitIndex: index,
			WaitTime:  time.Minute,
		}).WithContext(ctx))
		if err != nil {
			return nil, err
		}
		there := 0
		for _, al := range allocs {
			switch al.ClientStatus {
			case g.status:
				there++
			case api.AllocClientStatusFailed, api.AllocClientStatusLost:
				return nil, fmt.Errorf("allocation %s of job %s is %s: %s", al.ID, g.job, al.ClientStatus, al.ClientDescription)
			}
		}
		if there == g.allocs {
			return allocs, nil
		}
		index = meta.NextIndex()
	}
}

// stdout returns the output of the task of an allocation.
func stdout(a *cluster.Agent, alloc *api.AllocationListStub) (string, error) {
	in, err := a.Client.AllocFS().Cat(&api.Allocation{
		ID:        alloc.ID,
		NodeID:    alloc.NodeID,
		Namespace: alloc.Namespace,
	}, "alloc/logs/task.stdout.0", nil)
	if err != nil {
		return "", err
	}
	defer in.Close()
	text, err := io.ReadAll(in)
	return string(text), err
}

// pss returns the proportional set size of processes in KiB (proc(5), smaps_rollup).
func pss(pids ...int) (kib int64, err error) {
	for _, pid := range pids {
		k, err := pssOf(pid)
		if err != nil {
			return 0, err
		}
		kib += k
	}
	return kib, nil
}

func pssOf(pid int) (int64, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "smaps_rollup"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
			return strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
		}
	}
	return 0, fmt.Errorf("no Pss of process %d", pid)
}

// clockTicks is the unit of CPU time, per second (sysconf(3)).
const clockTicks = 100

// cpuTime returns the CPU time of processes, zero for those that have ended.
func cpuTime(pids ...int) time.Duration {
	var ticks int64
	for _, pid := range pids {
		text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(text), ") ") // after the name; user and system time follow 11 fields later
		fields := strings.Fields(rest)
		for _, f := range fields[min(11, len(fields)):min(13, len(fields))] {
			n, _ := strconv.ParseInt(f, 10, 64) // written by the kernel
			ticks += n
		}
	}
	return time.Duration(ticks) * time.Second / clockTicks
}

// helpersOf returns the helper processes of an agent. They have the name of this project's helpers,
// and their arguments contain the agent's directory.
func helpersOf(a *cluster.Agent) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var out []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == a.Pid() {
			continue
		}
		text, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil {
			continue // it has ended
		}
		name, args, _ := strings.Cut(string(text), "\x00")
		if strings.HasPrefix(filepath.Base(name), "nomad-") && strings.Contains(args, a.Dir) {
			out = append(out, pid)
		}
	}
	return out, nil
}

// childrenOf lists the children of all threads of a process.
func childrenOf(pid int) ([]string, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, name := range threads {
		if text, err := os.ReadFile(name); err == nil { // otherwise the thread has ended, and another one has its children
			out = append(out, strings.Fields(string(text))...)
		}
	}
	return out, nil
}

// below returns the children of a process with a command name. The "nomad-init" children of a
// supervisor are process 1 of its tasks' PID namespaces.
func below(parent int, name string) ([]int, error) {
	children, err := childrenOf(parent)
	if err != nil {
		return nil, err
	}
	var out []int
	for _, f := range children {
		comm, err := os.ReadFile(filepath.Join("/proc", f, "comm"))
		if err != nil || string(comm) != name+"\n" {
			continue // it has ended, or is another process
		}
		pid, err := strconv.Atoi(f)
		if err != nil {
			return nil, err
		}
		out = append(out, pid)
	}
	return out, nil
}
