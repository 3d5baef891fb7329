package devices

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
	"github.com/open-nomad/open-nomad/plugins/proto"
	"github.com/open-nomad/open-nomad/plugins/wire"
)

// Limits of what a plugin sends.
const (
	maxGroups     = 64
	maxInstances  = 1024 // of all groups
	maxAttributes = 128  // of a group
	maxName       = 128  // bytes of a part of a name, of an ID, and of a key
	maxMounts     = 64   // of a reservation, and as many devices
	maxEnv        = 128
	maxValue      = 4 << 10
	maxPath       = 4 << 10
)

// Reservation is what a task gets with its devices.
type Reservation struct {
	Env     map[string]string
	Mounts  []drivers.Mount
	Devices []drivers.Device
}

// decodeGroups returns the devices of a fingerprint. A list that breaks a rule is an error as a whole, because
// the scheduler must not place tasks on a part of it.
func decodeGroups(m *proto.DeviceFingerprintResponse) ([]*nomad.NodeDeviceResource, error) {
	if n := len(m.GetDeviceGroup()); n > maxGroups {
		return nil, fmt.Errorf("%d groups of devices: at most %d", n, maxGroups)
	}
	var out []*nomad.NodeDeviceResource
	seen := map[string]bool{}
	instances := 0
	for _, g := range m.GetDeviceGroup() {
		group, err := groupOf(g)
		if err != nil {
			return nil, err
		}
		name := group.Vendor + "/" + group.Type + "/" + group.Name
		if seen[name] {
			return nil, fmt.Errorf("device %s: duplicate group", name)
		}
		seen[name] = true
		if instances += len(group.Instances); instances > maxInstances {
			return nil, fmt.Errorf("more than %d instances of devices", maxInstances)
		}
		out = append(out, group)
	}
	return out, nil
}

func groupOf(m *proto.DeviceGroup) (*nomad.NodeDeviceResource, error) {
	out := &nomad.NodeDeviceResource{Vendor: m.GetVendor(), Type: m.GetDeviceType(), Name: m.GetDeviceName(),
		Attributes: map[string]*nomad.Attribute{}}
	for what, part := range map[string]string{"vendor": out.Vendor, "type": out.Type, "name": out.Name} {
		if err := checkName(part); err != nil {
			return nil, fmt.Errorf("%s of a device: %w", what, err)
		}
		if what != "name" && strings.Contains(part, "/") {
			return nil, fmt.Errorf("%s of a device: %q contains a slash", what, part)
		}
	}
	name := out.Vendor + "/" + out.Type + "/" + out.Name
	if len(m.GetDevices()) == 0 {
		return nil, fmt.Errorf("device %s has no instances", name)
	}
	if n := len(m.GetAttributes()); n > maxAttributes {
		return nil, fmt.Errorf("device %s has %d attributes: at most %d", name, n, maxAttributes)
	}
	for key, a := range m.GetAttributes() {
		if err := checkName(key); err != nil {
			return nil, fmt.Errorf("attribute of device %s: %w", name, err)
		}
		value, err := attribute(a)
		if err != nil {
			return nil, fmt.Errorf("attribute %s of device %s: %w", key, name, err)
		}
		out.Attributes[key] = value
	}
	seen := map[string]bool{}
	for _, d := range m.GetDevices() {
		if err := checkName(d.GetID()); err != nil {
			return nil, fmt.Errorf("instance of device %s: ID: %w", name, err)
		}
		if seen[d.GetID()] {
			return nil, fmt.Errorf("device %s: duplicate ID %q", name, d.GetID())
		}
		seen[d.GetID()] = true
		out.Instances = append(out.Instances, instanceOf(d))
	}
	return out, nil
}

func instanceOf(m *proto.DetectedDevice) *nomad.NodeDevice {
	out := &nomad.NodeDevice{ID: m.GetID(), Healthy: m.GetHealthy(), HealthDescription: wire.Clip(m.GetHealthDescription())}
	if bus := wire.Clip(m.GetHwLocality().GetPciBusId()); bus != "" {
		out.Locality = &nomad.NodeDeviceLocality{PciBusID: bus[:min(len(bus), maxName)]}
	}
	return out
}

// checkName checks a part of a name, an ID or a key.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("is empty")
	case len(name) > maxName:
		return fmt.Errorf("%q is longer than %d bytes", wire.Clip(name), maxName)
	case !utf8.ValidString(name) || wire.Clip(name) != name:
		return fmt.Errorf("%q contains control characters or is not UTF-8", wire.Clip(name))
	}
	return nil
}

func attribute(m *proto.Attribute) (*nomad.Attribute, error) {
	out := &nomad.Attribute{Unit: m.GetUnit()}
	if len(out.Unit) > maxName || wire.Clip(out.Unit) != out.Unit {
		return nil, errors.New("its unit is too long or contains control characters")
	}
	switch v := m.GetValue().(type) {
	case *proto.Attribute_FloatVal:
		if math.IsNaN(v.FloatVal) || math.IsInf(v.FloatVal, 0) {
			return nil, errors.New("is not a number")
		}
		out.Float = &v.FloatVal
	case *proto.Attribute_IntVal:
		out.Int = &v.IntVal
	case *proto.Attribute_StringVal:
		text := wire.Clip(v.StringVal)
		out.String = &text
	case *proto.Attribute_BoolVal:
		out.Bool = &v.BoolVal
	default:
		return nil, errors.New("has no value")
	}
	return out, nil
}

// decodeReservation returns the reservation of a message. A path that is not absolute and clean is an error.
func decodeReservation(m *proto.ContainerReservation) (*Reservation, error) {
	if len(m.GetEnvs()) > maxEnv || len(m.GetMounts()) > maxMounts || len(m.GetDevices()) > maxMounts {
		return nil, fmt.Errorf("%d variables, %d mounts and %d devices: at most %d, %d and %d", len(m.GetEnvs()), len(m.GetMounts()),
			len(m.GetDevices()), maxEnv, maxMounts, maxMounts)
	}
	out := &Reservation{Env: map[string]string{}}
	for name, value := range m.GetEnvs() {
		if err := checkName(name); err != nil {
			return nil, fmt.Errorf("variable: %w", err)
		}
		if strings.Contains(name, "=") || len(value) > maxValue || strings.ContainsRune(value, 0) {
			return nil, fmt.Errorf("variable %q has an invalid name or value", name)
		}
		out.Env[name] = value
	}
	for _, mount := range m.GetMounts() {
		if err := checkPaths(mount.GetTaskPath(), mount.GetHostPath()); err != nil {
			return nil, fmt.Errorf("mount: %w", err)
		}
		out.Mounts = append(out.Mounts, drivers.Mount{TaskPath: mount.GetTaskPath(), HostPath: mount.GetHostPath(),
			ReadOnly: mount.GetReadOnly()})
	}
	for _, d := range m.GetDevices() {
		if err := checkPaths(d.GetTaskPath(), d.GetHostPath()); err != nil {
			return nil, fmt.Errorf("device node: %w", err)
		}
		permissions, err := checkPermissions(d.GetPermissions())
		if err != nil {
			return nil, fmt.Errorf("device node %s: %w", d.GetHostPath(), err)
		}
		out.Devices = append(out.Devices, drivers.Device{TaskPath: d.GetTaskPath(), HostPath: d.GetHostPath(), Permissions: permissions})
	}
	return out, nil
}

func checkPaths(paths ...string) error {
	for _, p := range paths {
		if !filepath.IsAbs(p) || filepath.Clean(p) != p || p == "/" || len(p) > maxPath || strings.ContainsRune(p, 0) {
			return fmt.Errorf("%q is not the absolute and clean path of a file or directory below the root", wire.Clip(p))
		}
	}
	return nil
}

// allPermissions are those of a device node without given permissions, as in a control group.
const allPermissions = "rwm"

func checkPermissions(p string) (string, error) {
	if p == "" {
		return allPermissions, nil
	}
	if strings.Trim(p, allPermissions) != "" || len(p) > len(allPermissions) {
		return "", fmt.Errorf("permissions %q: use letters of %s", wire.Clip(p), allPermissions)
	}
	return p, nil
}

// has reports whether a list of groups contains the instances.
func has(groups []*nomad.NodeDeviceResource, want *nomad.AllocatedDeviceResource) bool {
	i := slices.IndexFunc(groups, func(g *nomad.NodeDeviceResource) bool {
		return g.Vendor == want.Vendor && g.Type == want.Type && g.Name == want.Name
	})
	if i < 0 {
		return false
	}
	for _, id := range want.DeviceIDs {
		if !slices.ContainsFunc(groups[i].Instances, func(d *nomad.NodeDevice) bool { return d.ID == id }) {
			return false
		}
	}
	return true
}
