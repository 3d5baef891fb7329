package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/cluster"
)

const (
	// placedAtOnce is the number of allocations of each measured job.
	placedAtOnce = 2000
	// placedRounds is the number of jobs of each kind and fleet: the median counts.
	placedRounds = 3
	// placedEnough is the target at placedAt nodes, in placements per second.
	placedEnough, placedAt = 3750, 5000
	// The cost of a placement with the largest fleet, as a multiple of that with the smallest.
	placedGrowth, rankedGrowth = 2, 4
)

// placedFleets are the sizes of the fleets.
var placedFleets = []int{100, 1000, 5000, 10000}

// placements measures the time from a job registration until its evaluation is complete, per allocation, for
// fleets of several sizes. Nodes are simulated and registered by RPC.
func placements(ctx context.Context, b *bench) (string, bool, error) {
	var said []string
	plain, ranked := map[int]placeCost{}, map[int]placeCost{}
	for _, nodes := range placedFleets {
		var err error
		if plain[nodes], ranked[nodes], err = b.placedOn(ctx, nodes); err != nil {
			return "", false, fmt.Errorf("%d nodes: %w", nodes, err)
		}
		said = append(said, fmt.Sprintf("%d nodes %v, ranked %v", nodes, plain[nodes], ranked[nodes]))
	}
	least, most := placedFleets[0], placedFleets[len(placedFleets)-1]
	grew, grewRanked := plain[most].over(plain[least]), ranked[most].over(ranked[least])
	ok := plain[placedAt].perSecond() >= placedEnough && grew <= placedGrowth && grewRanked <= rankedGrowth
	return fmt.Sprintf("%s; CPU time at %d nodes %.2f × that at %d, ranked %.2f × (%.2f × the plain one at %d)", strings.Join(said, "; "),
		most, grew, least, grewRanked, ranked[most].over(plain[least]), least), ok, nil
}

// placedOn measures placements with a fleet. Each fleet has a new server, because the allocations of earlier jobs
// remain in state.
func (b *bench) placedOn(ctx context.Context, nodes int) (plain, ranked placeCost, err error) {
	a, err := b.server(ctx)
	if err != nil {
		return plain, ranked, err
	}
	defer a.Kill()
	fleet, err := b.simulate(ctx, a, nodes)
	if err != nil {
		return plain, ranked, err
	}
	defer fleet.stop()
	if _, err := placeOnce(ctx, a, "warm-up", nil); err != nil {
		return plain, ranked, err
	}
	err = b.profiled(ctx, []string{a.Address()}, profile{fmt.Sprintf("placements-plain-%d", nodes), profiledPlacements}, func() (err error) {
		plain, err = placedMedian(ctx, a, "plain", nil)
		return err
	})
	if err != nil {
		return plain, ranked, err
	}
	err = b.profiled(ctx, []string{a.Address()}, profile{fmt.Sprintf("placements-ranked-%d", nodes), profiledPlacements}, func() (err error) {
		ranked, err = placedMedian(ctx, a, "ranked", rank)
		return err
	})
	return plain, ranked, err
}

// placeCost is the cost of the placements of one job.
type placeCost struct{ took, cpu time.Duration }

func (c placeCost) perSecond() float64 { return placedAtOnce / c.took.Seconds() }

// over compares CPU times, because a busy machine changes rates more than costs.
func (c placeCost) over(other placeCost) float64 { return float64(c.cpu) / float64(other.cpu) }

// String returns the rate and the CPU time of the server.
func (c placeCost) String() string { return rated{c.perSecond(), c.cpu / placedAtOnce}.String() }

// profiledPlacements is the duration of a profile of one kind of jobs.
const profiledPlacements = 6 * time.Second

// placedMedian measures several jobs, one after the other.
func placedMedian(ctx context.Context, a *cluster.Agent, id string, edit func(*api.Job)) (placeCost, error) {
	var took, cpu []time.Duration
	for i := range placedRounds {
		cost, err := placeOnce(ctx, a, fmt.Sprintf("%s-%d", id, i), edit)
		if err != nil {
			return placeCost{}, err
		}
		took, cpu = append(took, cost.took), append(cpu, cost.cpu)
	}
	return placeCost{median(took), median(cpu)}, nil
}

// rank adds a spread and an affinity to a job, so that the scheduler compares many nodes.
func rank(job *api.Job) {
	half := int8(50)
	job.Spreads = []*api.Spread{{Attribute: "${meta.rack}", Weight: &half}}
	job.Affinities = []*api.Affinity{{LTarget: "${meta.rack}", Operand: "set_contains_any", RTarget: "r0,r1,r2,r3", Weight: &half}}
}

// placeOnce registers a job and waits until its evaluation is complete. It then purges the job, so that the
// next one finds the same fleet.
func placeOnce(ctx context.Context, a *cluster.Agent, id string, edit func(*api.Job)) (placeCost, error) {
	kind := "service" // the scheduler compares more nodes for a service than for a batch job
	job := batch(id, placedAtOnce, "mock_driver", map[string]any{"run_for": "1h"})
	job.Type, job.TaskGroups[0].RestartPolicy = &kind, nil
	if edit != nil {
		edit(job)
	}
	began, used := time.Now(), cpuTime(a.Pid())
	resp, _, err := a.Client.Jobs().Register(job, nil)
	if err != nil {
		return placeCost{}, err
	}
	if err := evalComplete(ctx, a, resp.EvalID); err != nil {
		return placeCost{}, err
	}
	cost := placeCost{time.Since(began), cpuTime(a.Pid()) - used}
	summary, _, err := a.Client.Jobs().Summary(id, nil)
	if err != nil {
		return placeCost{}, err
	}
	if got := summary.Summary[id].Starting; got != placedAtOnce {
		return placeCost{}, fmt.Errorf("%d of %d allocations of job %s were placed", got, placedAtOnce, id)
	}
	eval, _, err := a.Client.Jobs().Deregister(id, true, nil)
	if err != nil {
		return placeCost{}, err
	}
	return cost, evalComplete(ctx, a, eval)
}

// evalComplete waits until an evaluation is complete.
func evalComplete(ctx context.Context, a *cluster.Agent, id string) error {
	for index := uint64(0); ; {
		eval, meta, err := a.Client.Evaluations().Info(id, (&api.QueryOptions{WaitIndex: index, WaitTime: time.Minute}).WithContext(ctx))
		if err != nil {
			return err
		}
		switch eval.Status {
		case api.EvalStatusComplete:
			return nil
		case api.EvalStatusPending:
			index = meta.LastIndex
		default:
			return fmt.Errorf("evaluation %s of job %s is %s: %s", id, eval.JobID, eval.Status, eval.StatusDescription)
		}
	}
}
