package chroot

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/internal/capability"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Options are the options of a task that all drivers of the package have.
type Options struct {
	PIDMode, IPCMode string // "" for the defaults of the plugin block
	CapAdd, CapDrop  []string
	WorkDir          string // "" for /
}

// TaskSpec returns the schema of a task with the Options and more.
func TaskSpec(more hcldec.ObjectSpec) hcldec.ObjectSpec {
	spec := hcldec.ObjectSpec{}
	for name, kind := range map[string]cty.Type{
		"pid_mode": cty.String, "ipc_mode": cty.String, "cap_add": cty.List(cty.String), "cap_drop": cty.List(cty.String),
		"work_dir": cty.String,
	} {
		spec[name] = &hcldec.AttrSpec{Name: name, Type: kind}
	}
	for name, s := range more {
		spec[name] = s
	}
	return spec
}

// DecodeOptions converts a value of TaskSpec. It checks the options in the order in which Nomad does.
func DecodeOptions(v cty.Value) (Options, error) {
	f := drivers.Fields{Value: v}
	o := Options{PIDMode: f.String("pid_mode"), IPCMode: f.String("ipc_mode"), CapAdd: capability.Canonical(f.Strings("cap_add")),
		CapDrop: capability.Canonical(f.Strings("cap_drop")), WorkDir: f.String("work_dir")}
	if err := f.Err(); err != nil {
		return o, err
	}
	for _, m := range []struct{ name, mode string }{{"pid_mode", o.PIDMode}, {"ipc_mode", o.IPCMode}} {
		if m.mode == "" {
			continue
		}
		if err := checkMode(m.name, m.mode); err != nil {
			return o, err
		}
	}
	for _, c := range []struct {
		name string
		list []string
	}{{"cap_add", o.CapAdd}, {"cap_drop", o.CapDrop}} {
		if unknown := unsupported(c.list); len(unknown) > 0 {
			return o, fmt.Errorf("%s configured with capabilities not supported by system: %s", c.name, strings.Join(unknown, ", "))
		}
	}
	return o, nil
}

// CheckWorkDir returns an error if the working directory is not a path in the root.
func (o *Options) CheckWorkDir(format string) error {
	if o.WorkDir == "" {
		return nil
	}
	if !filepath.IsAbs(o.WorkDir) {
		return fmt.Errorf(format, o.WorkDir)
	}
	o.WorkDir = filepath.Clean(o.WorkDir)
	return nil
}

// Check checks a task's config block as the job has it, with references not interpolated. Required options with
// references are taken as given.
func Check(spec hcldec.Spec, required string, block map[string]any, decode func(cty.Value) error) error {
	masked := make(map[string]any, len(block))
	for name, value := range block {
		if v, ok := drivers.Mask(value, false); ok {
			masked[name] = v
		} else if name == required {
			masked[name] = "known later"
		}
	}
	v, err := drivers.Decode(masked, spec)
	if err != nil {
		return err
	}
	return decode(v)
}
