package volume

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/spec"
)

// maxSpec is the maximum size of a specification, in bytes.
const maxSpec = 1 << 20

// parseHost reads the specification of a dynamic host volume.
func parseHost(r *spec.Reader, root map[string]any) (*api.HostVolume, error) {
	r.Text(root, "type")
	v := &api.HostVolume{Name: r.Text(root, "name"), Namespace: r.Text(root, "namespace"), ID: r.Text(root, "id"),
		PluginID: r.Text(root, "plugin_id"),
		NodeID:   r.Text(root, "node_id"), NodePool: r.Text(root, "node_pool"), HostPath: r.Text(root, "host_path"), Parameters: r.Texts(root,
			"parameters")}
	v.RequestedCapacityMinBytes, v.RequestedCapacityMaxBytes = size(r, root, "capacity_min"), size(r, root, "capacity_max")
	v.CapacityBytes = size(r, root, "capacity")
	for _, block := range r.Blocks(root, "capability") {
		v.RequestedCapabilities = append(v.RequestedCapabilities, &api.HostVolumeCapability{
			AccessMode:     api.HostVolumeAccessMode(r.Text(block, "access_mode")),
			AttachmentMode: api.HostVolumeAttachmentMode(r.Text(block, "attachment_mode")),
		})
		r.Rest(block, "capability.")
	}
	for _, block := range r.Blocks(root, "constraint") {
		v.Constraints = append(v.Constraints, constraint(r, block))
		r.Rest(block, "constraint.")
	}
	r.Rest(root, "")
	if v.Name == "" {
		r.Fault(`no name: add name = "..."`)
	}
	return v, r.Err()
}

// shorthands are the keys of a constraint that stand for an operator and its value.
var shorthands = []string{"regexp", "version", "semver", "set_contains", "set_contains_all", "set_contains_any"}

func constraint(r *spec.Reader, from map[string]any) *api.Constraint {
	c := &api.Constraint{LTarget: r.Text(from, "attribute"), Operand: r.Text(from, "operator"), RTarget: r.Text(from, "value")}
	for _, name := range shorthands {
		if _, given := from[name]; given {
			c.Operand, c.RTarget = name, r.Text(from, name)
		}
	}
	if c.Operand == "" {
		c.Operand = "="
	}
	return c
}

// size reads a size such as "10GiB", or a number of bytes. It is 0 if it is missing.
func size(r *spec.Reader, from map[string]any, name string) int64 {
	v, given := from[name]
	if !given {
		return 0
	}
	delete(from, name)
	n, err := parseSize(fmt.Sprint(v))
	if err != nil {
		r.Fault("%s: %v", name, err)
	}
	return n
}

// units are the factors of sizes.
var units = map[string]float64{"": 1, "B": 1, "K": 1e3, "KB": 1e3, "KI": 1 << 10, "KIB": 1 << 10, "M": 1e6, "MB": 1e6, "MI": 1 << 20,
	"MIB": 1 << 20, "G": 1e9, "GB": 1e9, "GI": 1 << 30, "GIB": 1 << 30, "T": 1e12, "TB": 1e12, "TI": 1 << 40, "TIB": 1 << 40,
	"P": 1e15, "PB": 1e15, "PI": 1 << 50, "PIB": 1 << 50}

// parseSize parses a number with a unit: "10GiB" is binary, "10GB" and "10G" are decimal.
func parseSize(text string) (int64, error) {
	text = strings.TrimSpace(text)
	end := strings.LastIndexAny(text, "0123456789.,") + 1
	number, err := strconv.ParseFloat(strings.ReplaceAll(text[:end], ",", ""), 64)
	factor, known := units[strings.ToUpper(strings.TrimSpace(text[end:]))]
	if err != nil || !known || number < 0 || number*factor > math.MaxInt64/2 {
		return 0, fmt.Errorf("%q is not a size: use a number with a unit, such as \"10GiB\"", text)
	}
	return int64(number * factor), nil
}
