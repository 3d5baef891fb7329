//go:build linux && faults

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/open-nomad/open-nomad/api"
)

func drain(ctx context.Context, w *world, i int) error {
	deadline := []time.Duration{-1, 4 * time.Second, time.Hour}[w.rng.IntN(3)]
	w.places[i].drained = true
	return w.ask(ctx, func(c *api.Client, o *api.WriteOptions) error {
		_, err := c.Nodes().UpdateDrain(w.ids[i], &api.DrainSpec{Deadline: deadline}, false, o)
		return err
	})
}

func endDrain(ctx context.Context, w *world, i int) error {
	w.places[i].drained = false
	return w.ask(ctx, func(c *api.Client, o *api.WriteOptions) error {
		_, err := c.Nodes().UpdateDrain(w.ids[i], nil, true, o)
		return err
	})
}

// is waits until the node of a machine has one of the statuses.
func (w *world) is(ctx context.Context, i int, statuses ...string) error {
	return w.ask(ctx, func(c *api.Client, o *api.WriteOptions) error {
		n, _, err := c.Nodes().Info(w.ids[i], query(o))
		if err == nil && !slices.Contains(statuses, n.Status) {
			err = fmt.Errorf("node %s is %s, want %v", n.Name, n.Status, statuses)
		}
		return err
	})
}

func failNode(ctx context.Context, w *world, i int) error {
	w.places[i].frozen, w.places[i].lost = true, true
	drop := w.cluster.Machines[i].Freeze
	if w.rng.IntN(2) == 0 {
		drop = w.cluster.Machines[i].Cut
	}
	if err := drop(); err != nil {
		return err
	}
	return w.is(ctx, i, "down", "disconnected")
}

func nodeIsBack(ctx context.Context, w *world, i int) error {
	w.places[i].frozen = false
	if err := w.cluster.Machines[i].Return(); err != nil {
		return err
	}
	return w.is(ctx, i, "ready")
}

func powerFailure(ctx context.Context, w *world, i int) error {
	w.places[i].lost = true
	m := w.cluster.Machines[i]
	if err := m.PowerOff(); err != nil {
		return err
	}
	if w.rng.IntN(2) == 0 {
		if err := w.is(ctx, i, "down", "disconnected"); err != nil {
			return err
		}
	}
	return m.Boot(ctx)
}

func killAgent(ctx context.Context, w *world, i int) error {
	m := w.cluster.Machines[i]
	before, err := observeMachine(m)
	if err != nil {
		return err
	}
	if err := w.restart(ctx, i); err != nil {
		return err
	}
	after, err := observeMachine(m)
	for key, pids := range before.processes {
		if w.rested && !slices.Equal(after.processes[key], pids) {
			err = errors.Join(err, fmt.Errorf("task %s of %s has the processes %v, and had %v before the agent was killed",
				key, m.Name, after.processes[key], pids))
		}
	}
	return err
}

func killSupervisor(_ context.Context, w *world, i int) error {
	pid := w.cluster.Machines[i].Supervisor()
	if pid == 0 {
		return nil // nothing was started there
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}

func killBoth(ctx context.Context, w *world, i int) error {
	if err := killSupervisor(ctx, w, i); err != nil {
		return err
	}
	return w.restart(ctx, i)
}

// heartbeats is the time without an agent after which the servers can find a node lost (serverConfig).
const heartbeats = 4 * time.Second

// restart kills an agent and starts it again. On a busy machine that takes so long that the node counts as lost.
func (w *world) restart(ctx context.Context, i int) error {
	m, killed := w.cluster.Machines[i], time.Now()
	err := errors.Join(m.Kill(), m.Start(ctx))
	if time.Since(killed) >= heartbeats {
		w.places[i].lost = true
	}
	return err
}

// makeVolume creates a volume that no job uses.
func makeVolume(ctx context.Context, w *world, i int) error {
	w.places[i].scratch = true
	return w.ask(ctx, func(c *api.Client, o *api.WriteOptions) error {
		if id, err := w.scratch(c, o, i); err != nil || id != "" {
			return err
		}
		_, _, err := c.HostVolumes().Create(&api.HostVolumeCreateRequest{Volume: newVolume(scratchName, w.ids[i])}, o)
		return err
	})
}

func deleteVolume(ctx context.Context, w *world, i int) error {
	w.places[i].scratch = false
	return w.ask(ctx, func(c *api.Client, o *api.WriteOptions) error {
		id, err := w.scratch(c, o, i)
		if err != nil || id == "" {
			return err
		}
		_, _, err = c.HostVolumes().Delete(&api.HostVolumeDeleteRequest{ID: id}, o)
		return err
	})
}

// scratch returns the ID of the volume that no job uses, "" if there is none.
func (w *world) scratch(c *api.Client, o *api.WriteOptions, i int) (string, error) {
	list, _, err := c.HostVolumes().List(&api.HostVolumeListRequest{NodeID: w.ids[i]}, query(o))
	for _, v := range list {
		if v.Name == scratchName && v.NodeID == w.ids[i] {
			return v.ID, err
		}
	}
	return "", err
}

// transfer makes another server the leader.
func transfer(ctx context.Context, w *world, _ int) error {
	leader, err := w.cluster.Agree(ctx)
	if err != nil {
		return err
	}
	others := leader.Others()
	to := others[w.rng.IntN(len(others))]
	return w.ask(ctx, func(c *api.Client, o *api.WriteOptions) error {
		conf, err := c.Operator().RaftGetConfiguration(query(o))
		if err != nil {
			return err
		}
		for _, s := range conf.Servers {
			if s.Address == to.Addr && !s.Leader {
				return c.Operator().RaftTransferLeadershipByID(s.ID, o)
			}
		}
		return nil
	})
}

// collectOnClient removes the ended allocations of a machine.
func collectOnClient(ctx context.Context, w *world, i int) error {
	return w.ask(ctx, func(c *api.Client, o *api.WriteOptions) error { return c.Nodes().GC(w.ids[i], query(o)) })
}

func killLeader(ctx context.Context, w *world, _ int) error {
	leader, err := w.cluster.Agree(ctx)
	if err != nil {
		return err
	}
	if err := leader.Kill(); err != nil {
		return err
	}
	if _, err := w.cluster.Elected(ctx, leader); err != nil {
		return err
	}
	return leader.Start(ctx)
}
