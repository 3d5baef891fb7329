package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/monitor"
	"github.com/open-nomad/open-nomad/command/term"
)

type scaleOptions struct {
	checkIndex uint64
	detach     bool
	detail     term.Detail
}

func scaleCommand() term.Command {
	return term.Command{
		Name: "job scale", Args: "<job> [<group>] <count>", MinArgs: 2, MaxArgs: 3,
		Short: "Change the count of a group",
		Long: `Sets the number of allocations of a group, and monitors the evaluation. The group can be omitted if the
job has only one. The new count must be within the limits of the group's scaling block.

Exit codes: 0 when all allocations were placed and the deployment succeeded, 2 when an allocation
could not be placed, 1 for any other error.`,
		Setup: func(f *term.Flags) term.Run {
			o := &scaleOptions{}
			f.Uint64Var(&o.checkIndex, "check-index", 0, "Scale only if this is the job's modify `index`.")
			f.BoolVar(&o.detach, "detach", false, "Print the evaluation's ID and return immediately.")
			f.DetailVar(&o.detail, "Print full IDs.")
			return o.run
		},
	}
}

func (o *scaleOptions) run(ctx context.Context, e *term.Env) error {
	number := e.Arg(len(e.Args) - 1)
	count, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return fmt.Errorf("Failed to parse count %q: want a number", number)
	}
	c, stub, err := find(ctx, e, e.Arg(0))
	if err != nil {
		return err
	}
	group := e.Arg(1)
	if len(e.Args) == 2 {
		if group, err = onlyGroup(ctx, c, stub); err != nil {
			return err
		}
	}
	req := &api.ScalingRequest{Count: &count, Target: map[string]string{"Group": group}, Message: "count set with job scale",
		JobModifyIndex: o.checkIndex}
	resp, _, err := c.Jobs().ScaleWithRequest(stub.ID, req, writeIn(ctx, stub.Namespace))
	if err != nil {
		return fmt.Errorf("Error submitting scaling request: %w", err)
	}
	if resp.Warnings != "" {
		e.Println(e.Bold("Job Warnings:\n" + resp.Warnings + "\n"))
	}
	switch {
	case resp.EvalID == "":
		return nil
	case o.detach:
		e.Println("Evaluation ID: " + resp.EvalID)
		return nil
	}
	return monitor.New(e, c, stub.Namespace, o.detail).Eval(ctx, resp.EvalID)
}

// onlyGroup returns the name of the group of a job that has one group.
func onlyGroup(ctx context.Context, c *api.Client, stub *api.JobListStub) (string, error) {
	status, _, err := c.Jobs().ScaleStatus(stub.ID, inNamespace(ctx, stub.Namespace))
	if err != nil {
		return "", fmt.Errorf("Error querying job: %w", err)
	}
	names := slices.Sorted(maps.Keys(status.TaskGroups))
	if len(names) != 1 {
		return "", errors.New("Group name required: the job has the groups " + strings.Join(names, ", "))
	}
	return names[0], nil
}

func scalingEventsCommand() term.Command {
	return term.Command{
		Name: "job scaling-events", Args: "<job>", MinArgs: 1, MaxArgs: 1,
		Short: "Show the scaling events of a job",
		Long:  "Shows the changes of the counts by 'job scale' and autoscalers, and messages of autoscalers, newest first.",
		Setup: func(f *term.Flags) term.Run {
			detail := f.Detail("Show messages, full IDs and times.")
			return func(ctx context.Context, e *term.Env) error {
				c, stub, err := find(ctx, e, e.Arg(0))
				if err != nil {
					return err
				}
				status, _, err := c.Jobs().ScaleStatus(stub.ID, inNamespace(ctx, stub.Namespace))
				if err != nil {
					return fmt.Errorf("Error listing scaling events: %w", err)
				}
				e.Println(scalingEvents(status, *detail))
				return nil
			}
		},
	}
}

// groupEvent is a scaling event of a group.
type groupEvent struct {
	group string
	api.ScalingEvent
}

// scalingEvents formats the events of all groups, newest first.
func scalingEvents(status *api.JobScaleStatusResponse, detail term.Detail) string {
	var events []groupEvent
	for group, s := range status.TaskGroups {
		for _, event := range s.Events {
			events = append(events, groupEvent{group, event})
		}
	}
	if len(events) == 0 {
		return "No events found"
	}
	slices.SortFunc(events, func(a, b groupEvent) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.group, b.group))
	})
	rows := []string{"Task Group|Count|PrevCount|Date"}
	if detail {
		rows[0] = "Task Group|Count|PrevCount|Error|Message|Eval ID|Date"
	}
	for _, event := range events {
		count, eval := "-", "-"
		if event.Count != nil {
			count = strconv.FormatInt(*event.Count, 10)
		}
		if event.EvalID != nil {
			eval = *event.EvalID
		}
		at := term.Time(time.Unix(0, int64(event.Time)))
		cells := []any{event.group, count, event.PreviousCount, at}
		if detail {
			cells = []any{event.group, count, event.PreviousCount, event.Error, event.Message, eval, at}
		}
		rows = append(rows, term.Row(cells...))
	}
	return term.Table(rows)
}
