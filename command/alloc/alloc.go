// Package alloc implements the commands for allocations: status, logs, stop, restart, signal, pause, fs, sandbox,
// checks, template render and exec. It also implements "job action", which shares the code of exec, and port-forward.
// They call an agent through package api. The agent forwards requests to the allocation's node. The commands
// keep no state.
package alloc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// Commands lists the commands of this package.
func Commands() []term.Command {
	return []term.Command{statusCommand(), logsCommand(), stopCommand(), restartCommand(), signalCommand(), pauseCommand(), fsCommand(),
		sandboxCommand(), checksCommand(), templateRenderCommand(), execCommand(), actionCommand(), portForwardCommand()}
}

// found is an allocation with its job, and the client for further requests.
type found struct {
	client *api.Client
	alloc  *api.Allocation
}

// find returns the only allocation whose ID begins with prefix.
func find(ctx context.Context, e *term.Env, prefix string) (found, error) {
	c, err := e.Client()
	if err != nil {
		return found{}, err
	}
	if len(prefix) < 2 {
		return found{}, fmt.Errorf("Alloc ID must contain at least two characters.")
	}
	q := (&api.QueryOptions{Prefix: term.UUIDPrefix(prefix), Namespace: e.Namespace()}).WithContext(ctx)
	stubs, _, err := c.Allocations().List(q)
	if err != nil {
		return found{}, fmt.Errorf("Error querying allocation: %w", err)
	}
	var matches []*api.AllocationListStub
	for _, s := range stubs {
		if strings.HasPrefix(s.ID, prefix) {
			matches = append(matches, s)
		}
	}
	switch len(matches) {
	case 0:
		return found{}, fmt.Errorf("No allocation(s) with prefix or id %q found", prefix)
	case 1:
		return read(ctx, c, matches[0])
	default:
		return found{}, fmt.Errorf("Prefix matched multiple allocations\n\n%s", table(matches))
	}
}

func read(ctx context.Context, c *api.Client, stub *api.AllocationListStub) (found, error) {
	a, _, err := c.Allocations().Info(stub.ID, (&api.QueryOptions{Namespace: stub.Namespace}).WithContext(ctx))
	if err != nil {
		return found{}, fmt.Errorf("Error querying allocation: %w", err)
	}
	return found{c, a}, nil
}

// ofJob returns an allocation of a job. It prefers a running allocation.
func ofJob(ctx context.Context, e *term.Env, job, group string) (found, error) {
	c, err := e.Client()
	if err != nil {
		return found{}, err
	}
	allocs, _, err := c.Jobs().Allocations(job, false, (&api.QueryOptions{Namespace: e.Namespace()}).WithContext(ctx))
	if err != nil {
		return found{}, fmt.Errorf("Error querying allocations of job %q: %w", job, err)
	}
	var best *api.AllocationListStub
	for _, a := range allocs {
		if group != "" && a.TaskGroup != group {
			continue
		}
		if best == nil || a.ClientStatus == api.AllocClientStatusRunning && best.ClientStatus != api.AllocClientStatusRunning {
			best = a
		}
	}
	if best == nil {
		return found{}, fmt.Errorf("No allocations of job %q found", job)
	}
	return read(ctx, c, best)
}

func table(stubs []*api.AllocationListStub) string {
	rows := []string{"ID|Node ID|Job|Task Group|Version|Desired|Status"}
	for _, a := range stubs {
		rows = append(rows, term.Row(a.ID, term.Short.ID(a.NodeID), a.JobID, a.TaskGroup, a.JobVersion, a.DesiredStatus, a.ClientStatus))
	}
	return term.Table(rows)
}

// errManyTasks is returned if no task was given and the allocation has several.
var errManyTasks = errors.New("Allocation has more than one task: specify one")

// task returns name, or the only task of the allocation if name is empty.
func task(a *api.Allocation, name string) (string, error) {
	names := tasks(a)
	if slices.Contains(names, name) {
		return name, nil
	}
	switch {
	case name != "":
		return "", fmt.Errorf("Could not find task named %q, found:\n* %s", name, strings.Join(names, "\n* "))
	case len(names) == 1:
		return names[0], nil
	}
	return "", fmt.Errorf("%w of\n* %s", errManyTasks, strings.Join(names, "\n* "))
}

// groupOf returns the allocation's task group, or nil if the job does not have it.
func groupOf(a *api.Allocation) *api.TaskGroup {
	for _, g := range a.Job.TaskGroups {
		if *g.Name == a.TaskGroup {
			return g
		}
	}
	return nil
}

// groupTasks returns the allocation's tasks in the order of the jobspec.
func groupTasks(a *api.Allocation) []*api.Task {
	if g := groupOf(a); g != nil {
		return g.Tasks
	}
	return nil
}

// taskOf returns the task with the name, or nil if the allocation does not have it.
func taskOf(a *api.Allocation, name string) *api.Task {
	for _, t := range groupTasks(a) {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// tasks returns the names of the allocation's tasks in the order of the jobspec.
func tasks(a *api.Allocation) []string {
	var names []string
	for _, t := range groupTasks(a) {
		names = append(names, t.Name)
	}
	return names
}

func query(ctx context.Context, a *api.Allocation) *api.QueryOptions {
	return (&api.QueryOptions{Namespace: a.Namespace}).WithContext(ctx)
}
