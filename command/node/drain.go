package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/monitor"
	"github.com/open-nomad/open-nomad/command/term"
)

// defaultDeadline is the deadline of a drain without -deadline, -no-deadline and -force.
const defaultDeadline = time.Hour

// drainOptions are the flags of node drain.
type drainOptions struct {
	enable, disable, monitor, detach, self, yes     bool
	force, noDeadline, ignoreSystem, keepIneligible bool
	deadline, message                               string
	meta                                            *[]string
}

func drainCommand() term.Command {
	return term.Command{
		Name: "node drain", Alias: []string{"node-drain"}, Args: "<node>", MaxArgs: 1,
		Short: "Move the allocations away from a node",
		Long: `
A draining node gets no new allocations. Its allocations of service jobs are moved to other nodes, ` +
			`as many at a time as max_parallel of the migrate block allows. Those of batch jobs may finish. ` +
			`Those of system jobs are stopped last. At the deadline, all remaining allocations are stopped. ` +
			`The node stays ineligible after the drain.

Without -detach, the command prints each change until the drain ends.

    nomad node drain -enable -deadline 30m -m "new disk" 4d2ba53b
    nomad node drain -disable -self`,
		Setup: func(f *term.Flags) term.Run {
			o := &drainOptions{}
			f.BoolVar(&o.enable, "enable", false, "Start the drain, or change the active one.")
			f.BoolVar(&o.disable, "disable", false, "Cancel the drain. The node becomes eligible, except with -keep-ineligible.")
			f.BoolVar(&o.monitor, "monitor", false, "Monitor the active drain and change nothing.")
			f.StringVar(&o.deadline, "deadline", "", "The `duration` after which all remaining allocations are stopped.\nDefault 1h.")
			f.BoolVar(&o.noDeadline, "no-deadline", false, "Wait for the allocations without a deadline.")
			f.BoolVar(&o.force, "force", false, "Stop all allocations now.")
			f.BoolVar(&o.ignoreSystem, "ignore-system", false, "Do not stop the allocations of system jobs.")
			f.BoolVar(&o.keepIneligible, "keep-ineligible", false, "With -disable, keep the node ineligible.")
			f.StringVar(&o.message, "m", "", "The `message` of the drain, stored in its metadata as \"message\".")
			o.meta = f.Strings("meta", "Metadata of the drain as `key=value`. May be repeated.")
			f.BoolVar(&o.detach, "detach", false, "Return immediately and do not monitor the drain.")
			f.BoolVar(&o.self, "self", false, "Use the node of the queried agent.")
			f.BoolVar(&o.yes, "yes", false, "Do not ask for confirmation.")
			return o.run
		},
	}
}

func (o *drainOptions) run(ctx context.Context, e *term.Env) error {
	opts, err := o.request()
	if err != nil {
		return err
	}
	find := find
	if o.self {
		find = findOwn
	}
	c, n, err := find(ctx, e, e.Arg(0))
	if err != nil {
		return err
	}
	follow := func() error { return monitor.New(e, c, "", term.Full).Drain(ctx, n.ID) }
	if o.monitor {
		if n.DrainStrategy == nil {
			return fmt.Errorf("Node %q is not draining", n.ID)
		}
		return follow()
	}
	set := map[bool]string{true: "set", false: "unset"}[o.enable]
	if !o.yes && !e.Confirm(fmt.Sprintf("Are you sure you want to %s the drain of node %q? [y/N]",
		map[bool]string{true: "enable", false: "disable"}[o.enable], n.ID)) {
		e.Println("Canceling drain update")
		return nil
	}
	if _, err := c.Nodes().UpdateDrainOpts(n.ID, opts, (&api.WriteOptions{}).WithContext(ctx)); err != nil {
		return fmt.Errorf("Error updating drain specification: %w", err)
	}
	e.Printf("Node %q drain strategy %s\n", n.ID, set)
	if o.disable || o.detach {
		return nil
	}
	return follow()
}

// request checks the flags and returns the update of the drain.
func (o *drainOptions) request() (*api.DrainOptions, error) {
	actions := 0
	for _, set := range []bool{o.enable, o.disable, o.monitor} {
		if set {
			actions++
		}
	}
	switch {
	case actions != 1:
		return nil, errors.New("Exactly one of the '-enable', '-disable' and '-monitor' flags must be set")
	case !o.enable && (o.deadline != "" || o.noDeadline || o.force || o.ignoreSystem):
		return nil, errors.New("The flags -deadline, -no-deadline, -force and -ignore-system require -enable")
	case !o.disable && o.keepIneligible:
		return nil, errors.New("The flag -keep-ineligible requires -disable")
	case o.monitor && o.detach:
		return nil, errors.New("The flags -monitor and -detach exclude each other")
	}
	meta, err := o.metadata()
	if err != nil {
		return nil, err
	}
	out := &api.DrainOptions{Meta: meta, MarkEligible: o.disable && !o.keepIneligible}
	if o.enable {
		deadline, err := o.timeLimit()
		if err != nil {
			return nil, err
		}
		out.DrainSpec = &api.DrainSpec{Deadline: deadline, IgnoreSystemJobs: o.ignoreSystem}
	}
	return out, nil
}

// timeLimit returns the deadline for the request. A negative one stops all allocations at once; zero sets no deadline.
func (o *drainOptions) timeLimit() (time.Duration, error) {
	switch {
	case o.force && (o.deadline != "" || o.noDeadline), o.deadline != "" && o.noDeadline:
		return 0, errors.New("The flags -deadline, -no-deadline and -force exclude each other")
	case o.force:
		return -1, nil
	case o.noDeadline:
		return 0, nil
	case o.deadline == "":
		return defaultDeadline, nil
	}
	d, err := time.ParseDuration(o.deadline)
	switch {
	case err != nil:
		return 0, fmt.Errorf("Failed to parse deadline %q: %w", o.deadline, err)
	case d <= 0:
		return 0, errors.New("A positive drain duration must be given with -deadline: use -force or -no-deadline")
	}
	return d, nil
}

func (o *drainOptions) metadata() (map[string]string, error) {
	meta := map[string]string{}
	for _, pair := range *o.meta {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("The flag -meta must be key=value, not %q", pair)
		}
		meta[key] = value
	}
	if o.message != "" {
		meta["message"] = o.message
	}
	return meta, nil
}
