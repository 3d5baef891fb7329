package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	sdk "github.com/hashicorp/nomad/api"

	"github.com/open-nomad/open-nomad/e2e/harness"
)

// The status commands of other tools dereference these fields without a nil check.
func TestSDKStatusFields(t *testing.T) {
	b := newBench(t)
	callAll(t, b, []sdkCall{
		{"Allocations.Info", func(b *bench) error {
			a, _, err := b.Allocations().Info(b.alloc.ID, nil)
			return errors.Join(err, dereferenced(a))
		}},
		{"TaskState.Events", func(b *bench) error {
			var got []string
			for _, e := range b.alloc.TaskStates["t"].Events {
				got = append(got, e.Type)
			}
			want := []string{sdk.TaskReceived, sdk.TaskSetup, sdk.TaskStarted}
			if setup := b.alloc.TaskStates["t"].Events[1]; !slices.Equal(got, want) || setup.DisplayMessage != sdk.TaskBuildingTaskDir {
				return fmt.Errorf("the events are %q, want %q; the second is %+v", got, want, setup)
			}
			return nil
		}},
		{"Nodes.Allocations", func(b *bench) error {
			allocs, _, err := b.Nodes().Allocations(b.node, nil)
			if err != nil || len(allocs) != 1 {
				return fmt.Errorf("%d allocations, want 1: %v", len(allocs), err)
			}
			return dereferenced(allocs[0])
		}},
		{"EventStream", allocationEvent},
		{"Allocations.Stats", func(b *bench) error {
			return result(b.Allocations().Stats(b.alloc, nil))(func(s *sdk.AllocResourceUsage) bool {
				return s.ResourceUsage.CpuStats != nil && s.ResourceUsage.MemoryStats != nil
			})
		}},
		{"Nodes.Info", func(b *bench) error {
			return val(b.Nodes().Info(b.node, nil))(func(n *sdk.Node) bool {
				return n.NodeResources.Cpu.CpuShares > 0 && n.ReservedResources != nil && n.HostVolumes != nil
			})
		}},
		{"Jobs.Summary", func(b *bench) error {
			return val(b.Jobs().Summary("web", nil))(func(s *sdk.JobSummary) bool { return s.Children != nil && s.Children.Sum() == 0 })
		}},
		{"Jobs.List", func(b *bench) error {
			return one(b.Jobs().List(nil))(func(j *sdk.JobListStub) bool { return j.JobSummary.Children != nil })
		}},
		{"Evaluations.Info", func(b *bench) error {
			return val(b.Evaluations().Info(b.eval, nil))(func(e *sdk.Evaluation) bool {
				return e.PlanAnnotations != nil && e.PlanAnnotations.DesiredTGUpdates["g"].Place == 1
			})
		}},
		{"Topology.Nodes", func(b *bench) error {
			var n struct {
				NodeResources struct {
					Processors struct{ Topology struct{ Nodes any } }
				}
			}
			_, err := b.Raw().Query("/v1/node/"+b.node, &n, nil)
			nodes := n.NodeResources.Processors.Topology.Nodes
			if list, ok := nodes.([]any); !ok || len(list) == 0 || list[0] != 0.0 {
				return fmt.Errorf("%v is not a list that begins with 0: %v", nodes, err)
			}
			return err
		}},
		{"NodeListStub.HostVolumes", func(b *bench) error {
			var nodes []struct{ HostVolumes map[string]any }
			if _, err := b.Raw().Query("/v1/nodes", &nodes, nil); err != nil || len(nodes) != 1 || nodes[0].HostVolumes == nil {
				return fmt.Errorf("unexpected: %+v, %v", nodes, err)
			}
			return nil
		}},
		{"Evaluation.FailedTGAllocs", func(b *bench) error {
			job := sdk.NewBatchJob("lacking", "lacking", "global", 50).AddTaskGroup(sdk.NewTaskGroup("g", 1).AddTask(sdk.NewTask("t", "nosuch")))
			resp, _, err := b.Jobs().Register(job, nil)
			if err != nil {
				return err
			}
			return b.until("the evaluation counts the node under missing drivers", func() bool {
				e, _, err := b.Evaluations().Info(resp.EvalID, nil)
				return err == nil && e.FailedTGAllocs["g"] != nil && e.FailedTGAllocs["g"].ConstraintFiltered["missing drivers"] == 1
			})
		}},
	})
}

// dereferenced reads the fields of an allocation that the tools read.
func dereferenced(a *sdk.Allocation) error {
	if a.Resources == nil || a.TaskResources["t"] == nil || a.AllocatedResources == nil {
		return fmt.Errorf("resources are absent: %+v, %+v, %+v", a.Resources, a.TaskResources, a.AllocatedResources)
	}
	task, all := a.TaskResources["t"], a.Resources
	if *task.CPU != 10 || *task.MemoryMB != 10 || *all.CPU != 10 || *all.MemoryMB != 10 || *all.MemoryMaxMB != 10 || *all.DiskMB != 300 {
		return fmt.Errorf("the resources are %+v and %+v", task, all)
	}
	if a.Job.LookupTaskGroup(a.TaskGroup) == nil || a.Metrics == nil {
		return fmt.Errorf("the job or the metrics are absent: %+v", a)
	}
	return nil
}

// allocationEvent reads the resources of the first event of the allocation.
func allocationEvent(b *bench) error {
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	lines, err := b.EventStream().Stream(ctx, map[sdk.Topic][]string{sdk.TopicAllocation: {b.alloc.ID}}, 1, nil)
	if err != nil {
		return err
	}
	for line := range lines {
		if line.Err != nil {
			return line.Err
		}
		for _, e := range line.Events {
			a, err := e.Allocation()
			if err != nil || a.Resources == nil || *a.Resources.CPU != 10 || a.TaskResources["t"] == nil {
				return fmt.Errorf("the event has %+v, %v", a, err)
			}
			return nil
		}
	}
	return errors.New("the stream ended without an event")
}
