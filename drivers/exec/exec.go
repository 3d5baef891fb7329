// Package exec is the driver "exec". It runs a program in a root directory of its own. It has the schemas and the
// decoding of its options; package drivers/chroot implements the driver. It starts no goroutine.
package exec

import (
	"cmp"
	"errors"
	"fmt"
	"syscall"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/drivers/chroot"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Name is the name of the driver's kind, and of the instance that every agent has.
const Name = "exec"

// configSpec is the schema of the plugin block. The value of no_pivot_root has no effect.
var configSpec = chroot.PluginSpec(hcldec.ObjectSpec{
	"no_pivot_root":    &hcldec.AttrSpec{Name: "no_pivot_root", Type: cty.Bool},
	"denied_host_uids": &hcldec.AttrSpec{Name: "denied_host_uids", Type: cty.String},
	"denied_host_gids": &hcldec.AttrSpec{Name: "denied_host_gids", Type: cty.String},
})

var taskSpec = chroot.TaskSpec(hcldec.ObjectSpec{
	"command": &hcldec.AttrSpec{Name: "command", Type: cty.String, Required: true},
	"args":    &hcldec.AttrSpec{Name: "args", Type: cty.List(cty.String)},
})

// Kind returns the description of the driver.
func Kind() *drivers.Kind {
	return &drivers.Kind{
		Name: Name, ConfigSpec: configSpec, TaskSpec: taskSpec, KillSignal: syscall.SIGINT, SignalsMain: true, Grouped: true,
		Capabilities: chroot.Capabilities(), CheckConfig: drivers.CheckWith(configSpec, chroot.DecodePlugin), Isolates: chroot.Isolates,
		CheckTask: func(_ string, config map[string]any) error {
			return chroot.Check(taskSpec, "command", config, func(v cty.Value) error {
				_, err := decode(v)
				return err
			})
		},
	}
}

// New returns an instance of the driver with the default settings.
func New(cfg chroot.Config) *chroot.Driver {
	return chroot.New(chroot.Variant{Kind: Kind(), Decode: chroot.DecodePlugin,
		Command: func(cfg *drivers.TaskConfig) (chroot.Command, error) { return decode(cfg.Config) }}, cfg)
}

// decode converts a task's config block.
func decode(v cty.Value) (chroot.Command, error) {
	f := drivers.Fields{Value: v}
	c := chroot.Command{Program: f.String("command"), Args: f.Strings("args")}
	var err error
	if c.Options, err = chroot.DecodeOptions(v); err == nil {
		err = c.CheckWorkDir("work_dir must be absolute but got relative path %q")
	}
	if err = cmp.Or(f.Err(), err); err == nil && c.Program == "" {
		err = errors.New("command is empty")
	}
	if err != nil {
		return c, fmt.Errorf("failed driver config validation: %w", err)
	}
	return c, nil
}
