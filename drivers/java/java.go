// Package java is the driver "java". It runs a program with the host's Java virtual machine, in a root directory of its
// own. It has the schemas, the command line and the fingerprint; package drivers/chroot implements the driver. It
// starts no goroutine.
package java

import (
	"cmp"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/drivers/chroot"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Name is the name of the driver's kind, and of the instance that every agent has.
const Name = "java"

// program is the name of the virtual machine's program.
const program = "java"

var configSpec = chroot.PluginSpec(nil)

var taskSpec = chroot.TaskSpec(hcldec.ObjectSpec{
	"class":       &hcldec.AttrSpec{Name: "class", Type: cty.String},
	"class_path":  &hcldec.AttrSpec{Name: "class_path", Type: cty.String},
	"jar_path":    &hcldec.AttrSpec{Name: "jar_path", Type: cty.String},
	"jvm_options": &hcldec.AttrSpec{Name: "jvm_options", Type: cty.List(cty.String)},
	"args":        &hcldec.AttrSpec{Name: "args", Type: cty.List(cty.String)},
})

// Kind returns the description of the driver.
func Kind() *drivers.Kind {
	return &drivers.Kind{
		Name: Name, ConfigSpec: configSpec, TaskSpec: taskSpec, KillSignal: syscall.SIGINT, SignalsMain: true, Grouped: true, Daemon: true,
		Capabilities: chroot.Capabilities(), CheckConfig: drivers.CheckWith(configSpec, chroot.DecodePlugin), Isolates: chroot.Isolates,
		CheckTask: func(_ string, config map[string]any) error {
			return chroot.Check(taskSpec, "jar_path", config, func(v cty.Value) error {
				_, err := decode(v)
				return err
			})
		},
	}
}

// New returns an instance of the driver with the default settings.
func New(cfg chroot.Config) *chroot.Driver {
	return chroot.New(chroot.Variant{Kind: Kind(), Decode: chroot.DecodePlugin, Command: command, Attributes: attributes}, cfg)
}

// command returns the program of a task: the path of the virtual machine on the host, which the root must have, too.
func command(cfg *drivers.TaskConfig) (chroot.Command, error) {
	c, err := decode(cfg.Config)
	if err != nil {
		return c, err
	}
	path, err := exec.LookPath(program)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return c, fmt.Errorf("failed to find java binary: %w", err)
	}
	c.Program = path
	return c, nil
}

// decode converts a task's config block to the arguments of the virtual machine.
func decode(v cty.Value) (chroot.Command, error) {
	f := drivers.Fields{Value: v}
	c := chroot.Command{Args: f.Strings("jvm_options")}
	for _, option := range []struct{ name, flag string }{{"class_path", "-cp"}, {"jar_path", "-jar"}} {
		if value := f.String(option.name); value != "" {
			c.Args = append(c.Args, option.flag, value)
		}
	}
	class := f.String("class")
	if class != "" {
		c.Args = append(c.Args, class)
	}
	c.Args = append(c.Args, f.Strings("args")...)
	var err error
	if c.Options, err = chroot.DecodeOptions(v); err == nil {
		err = c.CheckWorkDir("work_dir must be an absolute path: %s")
	}
	if err = cmp.Or(f.Err(), err); err == nil && class == "" && f.String("jar_path") == "" {
		err = errors.New("jar_path or class must be specified")
	}
	if err != nil {
		return c, fmt.Errorf("failed driver config validation: %w", err)
	}
	return c, nil
}
