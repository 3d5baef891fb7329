package config

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

const (
	maxOOMScoreAdj = 1000
	maxPort        = 1<<16 - 1
	maxPIDs        = 1 << 22 // the kernel's maximum
)

// Task is the decoded config block of a task. The zero value of an option selects the node's
// default.
type Task struct {
	Command        string
	Args           []string
	Unveil         []Unveil
	OOMScoreAdj    int    // effective above 0 only
	WorkDir        string // absolute
	RequireABI     int    // Landlock ABI
	PIDsLimit      int64
	Ulimits        []Ulimit // sorted by name, without duplicates
	SeccompProfile string
	Network        *landlock.Ports // nil does not restrict TCP
}

// TaskSpec is the schema of a task's config block.
var TaskSpec = hcldec.ObjectSpec{
	"command":         &hcldec.AttrSpec{Name: "command", Type: cty.String, Required: true},
	"args":            &hcldec.AttrSpec{Name: "args", Type: cty.List(cty.String)},
	"unveil":          &hcldec.AttrSpec{Name: "unveil", Type: cty.List(cty.String)},
	"oom_score_adj":   &hcldec.AttrSpec{Name: "oom_score_adj", Type: cty.Number},
	"work_dir":        &hcldec.AttrSpec{Name: "work_dir", Type: cty.String},
	"require_abi":     &hcldec.AttrSpec{Name: "require_abi", Type: cty.Number},
	"pids_limit":      &hcldec.AttrSpec{Name: "pids_limit", Type: cty.Number},
	"seccomp_profile": &hcldec.AttrSpec{Name: "seccomp_profile", Type: cty.String},
	"ulimit":          &hcldec.BlockAttrsSpec{TypeName: "ulimit", ElementType: cty.String},
	"network": &hcldec.BlockSpec{TypeName: "network", Nested: hcldec.ObjectSpec{
		"bind":    &hcldec.AttrSpec{Name: "bind", Type: cty.List(cty.Number)},
		"connect": &hcldec.AttrSpec{Name: "connect", Type: cty.List(cty.Number)},
	}},
}

// DecodeTask converts a value of TaskSpec; errors name the options.
func DecodeTask(v cty.Value) (Task, error) {
	f := drivers.Fields{Value: v}
	t := Task{Command: f.String("command"), Args: f.Strings("args"), WorkDir: f.String("work_dir"),
		RequireABI: int(f.Int("require_abi")), PIDsLimit: f.Int("pids_limit"), SeccompProfile: f.String("seccomp_profile")}
	var errs []error
	fault := func(bad bool, format string, args ...any) {
		if bad && f.Err() == nil {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	fault(t.Command == "", "command: it is empty")
	score := f.Int("oom_score_adj")
	fault(score > maxOOMScoreAdj, "oom_score_adj: %d is above %d", score, maxOOMScoreAdj)
	t.OOMScoreAdj = int(min(max(score, 0), maxOOMScoreAdj))
	fault(f.Has("work_dir") && !filepath.IsAbs(t.WorkDir), "work_dir: %q is not absolute", t.WorkDir)
	fault(f.Has("require_abi") && t.RequireABI < 1, "require_abi: %d is below 1", t.RequireABI)
	fault(f.Has("pids_limit") && t.PIDsLimit < 1, "pids_limit: %d is below 1", t.PIDsLimit)
	fault(t.PIDsLimit > maxPIDs, "pids_limit: %d is above %d, the kernel's maximum", t.PIDsLimit, maxPIDs)
	fault(f.Has("seccomp_profile") && t.SeccompProfile == "", "seccomp_profile: it is empty")
	t.Unveil = unveils(&f, &errs, "unveil")
	t.Ulimits = ulimits(f.Map("ulimit"), &errs)
	t.Network = network(v, &errs)
	if err := f.Err(); err != nil {
		errs = append(errs, err)
	}
	for i, err := range errs {
		errs[i] = fmt.Errorf("config of %s: %w", Driver, err)
	}
	if len(errs) > 0 {
		return t, errors.Join(errs...)
	}
	if t.WorkDir != "" {
		t.WorkDir = filepath.Clean(t.WorkDir)
	}
	return t, nil
}

// network decodes the TCP ports that stay usable. A missing list is empty.
func network(v cty.Value, errs *[]error) *landlock.Ports {
	block := drivers.Fields{Value: v}
	if !block.Has("network") {
		return nil
	}
	at := v.GetAttr("network")
	// Binding to port 0 lets the kernel choose one; connecting to it is impossible.
	return &landlock.Ports{Bind: ports(at, "bind", 0, errs), Connect: ports(at, "connect", 1, errs)}
}

func ports(block cty.Value, name string, least int64, errs *[]error) []uint16 {
	f := drivers.Fields{Value: block}
	var out []uint16
	for _, n := range f.Ints(name) {
		if n < least || n > maxPort {
			*errs = append(*errs, fmt.Errorf("network: %s: %d is not a port", name, n))
			continue
		}
		out = append(out, uint16(n))
	}
	if err := f.Err(); err != nil {
		*errs = append(*errs, fmt.Errorf("network: %w", err))
	}
	return out
}
