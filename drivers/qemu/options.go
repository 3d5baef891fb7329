package qemu

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

var configSpec = hcldec.ObjectSpec{
	"image_paths":         &hcldec.AttrSpec{Name: "image_paths", Type: cty.List(cty.String)},
	"args_allowlist":      &hcldec.AttrSpec{Name: "args_allowlist", Type: cty.List(cty.String)},
	"emulators_allowlist": &hcldec.AttrSpec{Name: "emulators_allowlist", Type: cty.List(cty.String)},
}

var taskSpec = hcldec.ObjectSpec{
	"image_path":        &hcldec.AttrSpec{Name: "image_path", Type: cty.String, Required: true},
	"emulator":          &hcldec.AttrSpec{Name: "emulator", Type: cty.String},
	"machine_type":      &hcldec.AttrSpec{Name: "machine_type", Type: cty.String},
	"accelerator":       &hcldec.AttrSpec{Name: "accelerator", Type: cty.String},
	"drive_interface":   &hcldec.AttrSpec{Name: "drive_interface", Type: cty.String},
	"graceful_shutdown": &hcldec.AttrSpec{Name: "graceful_shutdown", Type: cty.Bool},
	"guest_agent":       &hcldec.AttrSpec{Name: "guest_agent", Type: cty.Bool},
	"args":              &hcldec.AttrSpec{Name: "args", Type: cty.List(cty.String)},
	"port_map":          &hcldec.AttrSpec{Name: "port_map", Type: cty.List(cty.Map(cty.Number))},
}

// settings is the decoded plugin block. An empty list allows everything, except imagePaths.
type settings struct {
	imagePaths []string // allowed parents of images, besides the allocation's directory
	args       []string // allowed arguments that begin with "-"
	emulators  []string // allowed emulators, without their prefix
}

func decodeSettings(v cty.Value) (settings, error) {
	f := drivers.Fields{Value: v}
	s := settings{imagePaths: f.Strings("image_paths"), args: f.Strings("args_allowlist"), emulators: f.Strings("emulators_allowlist")}
	return s, f.Err()
}

// options is the decoded config block of a task, with defaults except for emulator.
type options struct {
	image, emulator, machine, accelerator, drive string
	graceful, guestAgent                         bool
	args                                         []string
	portMap                                      map[string]int
}

func decodeOptions(v cty.Value) (options, error) {
	f := drivers.Fields{Value: v}
	o := options{image: f.String("image_path"), emulator: f.String("emulator"), machine: cmp.Or(f.String("machine_type"), "pc"),
		accelerator: cmp.Or(f.String("accelerator"), "tcg"), drive: cmp.Or(f.String("drive_interface"), "ide"),
		graceful: f.Bool("graceful_shutdown"), guestAgent: f.Bool("guest_agent"), args: f.Strings("args")}
	var err error
	if o.portMap, err = readPortMap(v); err == nil {
		err = f.Err()
	}
	if err != nil {
		return o, fmt.Errorf("config of %s task: %w", Name, err)
	}
	return o, nil
}

// readPortMap reads the blocks of port_map: the port of the guest by label.
func readPortMap(v cty.Value) (map[string]int, error) {
	if v.IsNull() || !v.Type().HasAttribute("port_map") || v.GetAttr("port_map").IsNull() {
		return nil, nil
	}
	out := map[string]int{}
	for _, block := range v.GetAttr("port_map").AsValueSlice() {
		for label, number := range block.AsValueMap() {
			port, acc := number.AsBigFloat().Int64()
			if acc != 0 || port < 1 || port > 65535 {
				return nil, fmt.Errorf("port_map: %s is %s: use a port from 1 to 65535", label, number.AsBigFloat())
			}
			out[label] = int(port)
		}
	}
	return out, nil
}

// Bounds of the guest's memory in MB.
const minMemory, maxMemory = 128, 4000000

// driveInterfaces are those of the emulator.
var driveInterfaces = []string{"ide", "scsi", "sd", "mtd", "floppy", "pflash", "virtio", "none"}

// check returns the first error of a task's options. The order is that of the reference driver.
func (s settings) check(o *options, cfg *drivers.TaskConfig) error {
	if len(s.emulators) > 0 && !slices.Contains(s.emulators, o.emulator) {
		return fmt.Errorf("'%s' is not an allowed emulator", o.emulator)
	}
	if len(s.args) > 0 {
		for _, arg := range o.args {
			if name := strings.TrimSpace(arg); strings.HasPrefix(name, "-") && !slices.Contains(s.args, name) {
				return fmt.Errorf("%q is not in args_allowlist", name)
			}
		}
		// They are values of -machine, which has options such as kernel and firmware.
		if text := o.machine + o.accelerator; strings.Contains(text, ",") && !slices.Contains(s.args, "-machine") {
			return errors.New("machine_type and accelerator have further options of -machine, which is not in args_allowlist")
		}
	}
	if !s.allowsImage(o.image, cfg.AllocDir) {
		return errors.New("image_path is not in the allowed paths")
	}
	if mb := cfg.Limits.MemoryBytes >> 20; mb < minMemory || mb > maxMemory {
		return errors.New("QEMU memory assignment out of bounds")
	}
	return nil
}

// allowsImage reports whether an image may be used by its path. The sandbox follows no link on it.
func (s settings) allowsImage(image, allocDir string) bool {
	path := image
	if !filepath.IsAbs(path) {
		path = filepath.Join(allocDir, path)
	}
	path = filepath.Clean(path)
	return slices.ContainsFunc(append([]string{allocDir}, s.imagePaths...), func(dir string) bool {
		return safefs.Within(path, filepath.Clean(dir))
	})
}
