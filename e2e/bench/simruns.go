package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

const (
	// pullAgain is the delay after a failed pull.
	pullAgain = 200 * time.Millisecond
	// pullWait is the wait time of a blocking query.
	pullWait = time.Minute
)

// run starts the allocations of the first n nodes as soon as they are placed, and ends them as soon as the
// servers stop them.
func (s *simulator) run(n int) error {
	for _, r := range s.nodes[:n] {
		s.all.Go(func() { s.pull(r) })
	}
	return nil
}

// pull runs blocking queries for the allocations of a node and reports their states.
func (s *simulator) pull(r *simRunner) {
	seen := map[string]uint64{} // AllocModifyIndex of the latest version handled
	ended := map[string]bool{}
	for index := uint64(0); r.ctx.Err() == nil; {
		next, err := s.pullOnce(r, index, seen, ended)
		if err == nil {
			index = next
			continue
		}
		if r.ctx.Err() == nil {
			fmt.Fprintf(os.Stderr, "node %s: %v\n", r.name, err)
		}
		select {
		case <-r.ctx.Done():
		case <-time.After(pullAgain):
		}
	}
}

// pullOnce waits for a change after index and handles it. It does not occupy a slot while it waits.
func (s *simulator) pullOnce(r *simRunner, index uint64, seen map[string]uint64, ended map[string]bool) (uint64, error) {
	options := message.QueryOptions{Region: "global", AuthToken: r.token, MinQueryIndex: index, MaxQueryTime: pullWait}
	var list message.NodeClientAllocsResponse
	req := &message.NodeSpecificRequest{NodeID: r.id, SecretID: r.secret, QueryOptions: options}
	if err := s.pool.Call(r.ctx, s.servers[0], "Node.GetClientAllocs", req, &list); err != nil {
		return index, fmt.Errorf("list allocations: %w", err)
	}
	get := &message.AllocsGetRequest{QueryOptions: message.QueryOptions{Region: "global", AuthToken: r.token, AllowStale: true}}
	for id, at := range list.Allocs {
		if seen[id] < at {
			get.AllocIDs, get.MinQueryIndex = append(get.AllocIDs, id), max(get.MinQueryIndex, at-1)
		}
	}
	if len(get.AllocIDs) == 0 {
		return list.Index, nil
	}
	var full message.AllocsGetResponse
	if err := s.call(r.ctx, "Alloc.GetAllocs", get, &full); err != nil {
		return index, fmt.Errorf("get allocations: %w", err)
	}
	if err := s.report(r.ctx, r, full.Allocs, ended); err != nil {
		return index, fmt.Errorf("report allocations: %w", err)
	}
	for _, a := range full.Allocs {
		seen[a.ID] = a.AllocModifyIndex
	}
	return list.Index, nil
}

// report sends the states of new and stopped allocations.
func (s *simulator) report(ctx context.Context, r *simRunner, allocs []*nomad.Allocation, ended map[string]bool) error {
	req := &message.AllocUpdateRequest{WriteRequest: message.WriteRequest{Region: "global", AuthToken: r.token}}
	for _, a := range allocs {
		switch {
		case ended[a.ID]:
		case a.ServerTerminalStatus():
			ended[a.ID] = true
			req.Alloc = append(req.Alloc, simulated(a, r.id, nomad.AllocClientStatusComplete, "dead"))
		case a.ClientStatus == nomad.AllocClientStatusPending:
			req.Alloc = append(req.Alloc, simulated(a, r.id, nomad.AllocClientStatusRunning, "running"))
		}
	}
	if len(req.Alloc) == 0 {
		return nil
	}
	return s.call(ctx, "Node.UpdateAlloc", req, &message.GenericResponse{})
}

// simulated returns the update of an allocation, with the events that a client records.
func simulated(a *nomad.Allocation, node, status, task string) *nomad.Allocation {
	healthy, now := true, time.Now()
	out := &nomad.Allocation{ID: a.ID, NodeID: node, ClientStatus: status, ClientDescription: "Tasks are " + task,
		DeploymentStatus: &nomad.AllocDeploymentStatus{Healthy: &healthy, Timestamp: now}, TaskStates: map[string]*nomad.TaskState{}}
	for name := range a.AllocatedResources.Tasks {
		state := &nomad.TaskState{State: task, StartedAt: now}
		for _, e := range [][2]string{
			{"Received", "Task received by client"},
			{"Task Setup", "Building Task Directory"},
			{"Started", "Task started by client"},
		} {
			state.Events = append(state.Events, &nomad.TaskEvent{
				Type:           e[0],
				DisplayMessage: e[1],
				Time:           now.UnixNano(),
				Details:        map[string]string{},
			})
		}
		if status == nomad.AllocClientStatusComplete {
			state.FinishedAt = now
		}
		out.TaskStates[name] = state
	}
	return out
}
