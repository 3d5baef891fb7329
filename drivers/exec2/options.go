package exec2

import (
	"errors"
	"fmt"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

var configSpec = hcldec.ObjectSpec{
	"unveil_defaults": &hcldec.AttrSpec{Name: "unveil_defaults", Type: cty.Bool},
	"unveil_by_task":  &hcldec.AttrSpec{Name: "unveil_by_task", Type: cty.Bool},
	"unveil_paths":    &hcldec.AttrSpec{Name: "unveil_paths", Type: cty.List(cty.String)},
	// Ours; each lowers the guard by name.
	"allow_unprivileged": &hcldec.AttrSpec{Name: "allow_unprivileged", Type: cty.Bool},
	"allow_root":         &hcldec.AttrSpec{Name: "allow_root", Type: cty.Bool},
	"landlock_min_abi":   &hcldec.AttrSpec{Name: "landlock_min_abi", Type: cty.Number},
	"max_processes":      &hcldec.AttrSpec{Name: "max_processes", Type: cty.Number},
}

var taskSpec = hcldec.ObjectSpec{
	"command":       &hcldec.AttrSpec{Name: "command", Type: cty.String, Required: true},
	"args":          &hcldec.AttrSpec{Name: "args", Type: cty.List(cty.String)},
	"unveil":        &hcldec.AttrSpec{Name: "unveil", Type: cty.List(cty.String)},
	"oom_score_adj": &hcldec.AttrSpec{Name: "oom_score_adj", Type: cty.Number},
}

// settings is the decoded plugin block.
type settings struct {
	unveilDefaults    bool
	unveilByTask      bool
	unveilPaths       []sandbox.Path
	allowUnprivileged bool // run with what there is when not root
	allowRoot         bool // a task may name root as its user
	minABI            int  // of Landlock
	maxProcesses      int  // of a task; 0 is no bound, negative the default
}

var defaults = settings{unveilDefaults: true, minABI: landlock.ABIScopes, maxProcesses: -1}

func decodeSettings(v cty.Value) (settings, error) {
	f := drivers.Fields{Value: v}
	s := defaults
	if f.Has("unveil_defaults") {
		s.unveilDefaults = f.Bool("unveil_defaults")
	}
	if f.Has("landlock_min_abi") {
		s.minABI = int(f.Int("landlock_min_abi"))
	}
	if f.Has("max_processes") {
		s.maxProcesses = int(f.Int("max_processes"))
	}
	s.unveilByTask = f.Bool("unveil_by_task")
	s.allowUnprivileged = f.Bool("allow_unprivileged")
	s.allowRoot = f.Bool("allow_root")
	paths := f.Strings("unveil_paths")
	if err := f.Err(); err != nil {
		return s, err
	}
	if s.minABI < 1 {
		return s, fmt.Errorf("landlock_min_abi %d is below 1", s.minABI)
	}
	if f.Has("max_processes") && s.maxProcesses < 0 {
		return s, fmt.Errorf("max_processes %d is negative: 0 is no bound", s.maxProcesses)
	}
	var err error
	if s.unveilPaths, err = parsePaths(paths); err != nil {
		return s, fmt.Errorf("unveil_paths: %w", err)
	}
	return s, nil
}

// options is the decoded config block of a task.
type options struct {
	command     string
	args        []string
	unveil      []sandbox.Path
	oomScoreAdj int
}

func decodeOptions(v cty.Value) (options, error) {
	f := drivers.Fields{Value: v}
	o := options{command: f.String("command"), args: f.Strings("args"), oomScoreAdj: int(f.Int("oom_score_adj"))}
	paths := f.Strings("unveil")
	err := f.Err()
	if err == nil && o.command == "" {
		err = errors.New("command is empty")
	}
	if err == nil && o.oomScoreAdj > 1000 {
		err = fmt.Errorf("oom_score_adj %d is above 1000", o.oomScoreAdj)
	}
	if err == nil {
		o.unveil, err = parsePaths(paths)
	}
	if err != nil {
		return o, fmt.Errorf("config of %s task: %w", Name, err)
	}
	return o, nil
}

func parsePaths(list []string) ([]sandbox.Path, error) {
	var out []sandbox.Path
	for _, s := range list {
		p, err := sandbox.ParsePath(s)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}
