package operator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/posener/complete"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/job"
	"github.com/open-nomad/open-nomad/command/monitor"
	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/drivers"
	"github.com/open-nomad/open-nomad/nomad/simulate"
)

// unplacedCode is the exit code of a simulation in which an allocation could not be placed.
const unplacedCode = 2

func simulateCommand() term.Command {
	return term.Command{
		Name: "operator simulate", Args: "<jobspec>...", MinArgs: 1, MaxArgs: -1, Local: true, Predict: complete.PredictFiles("*"),
		Short: "Show where jobs would be placed, without a cluster",
		Long: `Runs the scheduler on jobs in a copy of a cluster. The copy is in this process: the command needs no
agent and changes nothing.

    nomad operator simulate -snapshot=backup.snap web.nomad.hcl
    nomad operator simulate -fleet=fleet.hcl web.nomad.hcl api.nomad.hcl

With -snapshot it has the state in a file of 'nomad operator snapshot save'. With -fleet it has the
nodes that a file describes, in nodes blocks in HCL or JSON:

    nodes "small" {
      count       = 70
      datacenters = ["dc1", "dc2"]
      cpu         = 4000
      memory      = 8192
    }

The label is the node class. All keys are optional: count, datacenters, node_pool, cpu (MHz), cores,
memory and disk (MiB), drivers, attributes, meta.

The jobs are registered in order. Each job uses the capacity that the jobs before it leave. The
output lists the new allocations by datacenter and node class, and the allocations that would stop.
It lists the reasons why allocations cannot be placed, and the usage of the datacenters before and
after.

Exit codes: 0 if all allocations were placed, 2 if one was not, 1 after an error.`,
		Setup: func(f *term.Flags) term.Run {
			s := &simulation{}
			f.StringVar(&s.snapshot, "snapshot", "", "Copy the state in this `file` of 'nomad operator snapshot save'.")
			f.StringVar(&s.fleet, "fleet", "", "Simulate the nodes that this `file` describes.")
			f.StringVar(&s.namespace, "namespace", "", "The `namespace` of jobs without one.\nOverrides NOMAD_NAMESPACE. Default \"default\".")
			s.source.Declare(f)
			s.formats.Declare(f)
			f.DetailVar(&s.detail, "List all allocations that would stop, with full IDs.")
			return s.run
		},
	}
}

// simulation holds the flags of the command.
type simulation struct {
	snapshot, fleet, namespace string
	source                     job.Source
	formats                    term.Formats
	detail                     term.Detail
}

// simulated is the result. Its JSON encoding is stable: fields are only added.
type simulated struct {
	Before         []simulate.Usage // by datacenter
	After          []simulate.Usage
	Jobs           []*simulate.Job
	Failed         int // allocations that were not placed
	SchedulingTime time.Duration
}

func (s *simulation) run(ctx context.Context, e *term.Env) error {
	c, err := s.cluster(e)
	if err != nil {
		return err
	}
	out := &simulated{Before: c.Usage()}
	for _, path := range e.Args {
		j, err := s.source.Read(ctx, e, path, cmp.Or(s.namespace, os.Getenv("NOMAD_NAMESPACE")))
		if err != nil {
			return err
		}
		result, err := c.Run(ctx, j)
		if err != nil {
			return fmt.Errorf("Error simulating job %q of %s: %w", j.ID, path, err)
		}
		out.Jobs = append(out.Jobs, result)
		out.Failed += result.Failed()
		out.SchedulingTime += result.SchedulingTime
	}
	out.After = c.Usage()
	if s.formats.Wanted() {
		err = s.formats.Print(e, out)
	} else {
		err = s.show(e, out)
	}
	if err == nil && out.Failed > 0 {
		return term.Exit(unplacedCode)
	}
	return err
}

// cluster returns the copy of the cluster that the flags name.
func (s *simulation) cluster(e *term.Env) (*simulate.Cluster, error) {
	switch {
	case s.snapshot == "" && s.fleet == "":
		return nil, errors.New("-snapshot or -fleet is required: it names the nodes")
	case s.snapshot != "" && s.fleet != "":
		return nil, errors.New("-snapshot and -fleet are mutually exclusive")
	case s.fleet != "":
		sets, err := readFleet(e, s.fleet)
		if err != nil {
			return nil, err
		}
		c, err := simulate.New(sets, drivers.Table())
		if err != nil {
			return nil, fmt.Errorf("Error in fleet file %s: %w", s.fleet, err)
		}
		return c, nil
	}
	f, err := os.Open(s.snapshot)
	if err != nil {
		return nil, fmt.Errorf("Error opening snapshot file: %w", err)
	}
	defer f.Close() // opened for reading only
	c, err := simulate.Read(f, drivers.Table())
	switch {
	case errors.Is(err, simulate.ErrNoNodes):
		return nil, fmt.Errorf("Error in snapshot %s: %w: nothing can be placed", s.snapshot, err)
	case err != nil:
		return nil, fmt.Errorf("Error reading snapshot %s: %s: save it again with 'nomad operator snapshot save'", s.snapshot,
			strings.TrimPrefix(err.Error(), "snapshot archive: "))
	}
	return c, nil
}

// show prints the result.
func (s *simulation) show(e *term.Env, out *simulated) error {
	for _, j := range out.Jobs {
		if err := s.job(e, j); err != nil {
			return err
		}
	}
	e.Println(e.Bold("Usage (before -> after)"))
	rows := []string{"Datacenter|Nodes|CPU|Memory|Disk|Largest CPU|Largest Memory"}
	for i, b := range out.Before {
		a := out.After[i] // scheduling changes no node
		rows = append(rows, term.Row(b.Datacenter, b.Nodes, used(b.CPU, a.CPU), used(b.MemoryMB, a.MemoryMB), used(b.DiskMB, a.DiskMB),
			fmt.Sprintf("%d -> %d MHz", b.CPU.LargestFree, a.CPU.LargestFree), fmt.Sprintf("%d -> %d MiB", b.MemoryMB.LargestFree,
				a.MemoryMB.LargestFree)))
	}
	e.Println(term.Table(rows))
	e.Printf("\nScheduling took %s\n", out.SchedulingTime.Round(10*time.Microsecond))
	return nil
}

// used formats the used shares of a resource.
func used(before, after simulate.Amount) string {
	return share(before) + " -> " + share(after)
}

func share(a simulate.Amount) string {
	if a.Capacity <= 0 {
		return "0.0%"
	}
	return percent(float64(a.Used) / float64(a.Capacity))
}

// job prints the plan of one job.
func (s *simulation) job(e *term.Env, j *simulate.Job) error {
	e.Println(e.Bold(fmt.Sprintf("Job %q in namespace %q (%s)", term.Cell(j.ID), term.Cell(j.Namespace), j.Change)))
	if len(j.Warnings) > 0 {
		e.Println("Warnings:\n" + strings.Join(j.Warnings, "\n"))
	}
	if !j.Launched {
		e.Printf("Nothing is placed until a launch: the job is periodic or parameterized\n\n")
		return nil
	}
	if len(j.Placed) > 0 {
		rows := []string{"Job|Task Group|Datacenter|Node Class|New Allocations"}
		for _, p := range j.Placed {
			rows = append(rows, term.Row(p.JobID, p.TaskGroup, p.Datacenter, cmp.Or(p.NodeClass, "<none>"), p.Count))
		}
		e.Println(term.Table(rows))
	} else {
		e.Println("No new allocations")
	}
	s.gone(e, "stopped", j.Stopped)
	s.gone(e, "preempted", j.Preempted)
	for _, d := range j.Displaced {
		e.Printf("%s of group %q of job %q cannot be placed again\n", counted(d.Count, "preempted allocation"), term.Cell(d.TaskGroup),
			term.Cell(d.JobID))
	}
	for _, group := range slices.Sorted(maps.Keys(j.FailedTGAllocs)) {
		m := &api.AllocationMetric{}
		if err := convert(j.FailedTGAllocs[group], m); err != nil {
			return err
		}
		e.Printf("Task Group %q (failed to place %d allocation(s)):\n%s\n", group, m.CoalescedFailures+1,
			strings.Join(monitor.Metric(m, "  "), "\n"))
	}
	e.Println()
	return nil
}

// shownGone is the number of stopped allocations that are listed without -verbose.
const shownGone = 10

// gone prints allocations that stop.
func (s *simulation) gone(e *term.Env, what string, list []simulate.Stopped) {
	if len(list) == 0 {
		return
	}
	e.Printf("\n%s would be %s\n", counted(len(list), "allocation"), what)
	rows := []string{"Allocation|Job|Name|Node|Reason"}
	for i, a := range list {
		if i == shownGone && s.detail == term.Short {
			rows = append(rows, term.Row(fmt.Sprintf("and %d more", len(list)-i), "", "", "", ""))
			break
		}
		rows = append(rows, term.Row(s.detail.ID(a.AllocID), a.JobID, a.Name, a.NodeName, a.Reason))
	}
	e.Println(term.BlankTable(rows))
}

// convert copies a value of the servers to the type of the API with the same fields.
func convert(from, to any) error {
	raw, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(raw, to)
	}
	if err != nil {
		return fmt.Errorf("Error converting the result: %w", err)
	}
	return nil
}
