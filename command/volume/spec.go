package volume

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/spec"
)

// maxSpec is the maximum size of a specification, in bytes.
const maxSpec = 1 << 20

// errCSI is the error for volumes of type csi.
var errCSI = errors.New("CSI volumes: not part of this version. Use type = \"host\" for a host volume")

// parse parses the specification of a host volume, in HCL or JSON.
func parse(text []byte) (*api.HostVolume, error) {
	r, root, err := spec.Parse("volume", text)
	if err != nil {
		return nil, err
	}
	switch kind := r.Text(root, "type"); kind {
	case "host":
	case "csi":
		return nil, errCSI
	case "":
		r.Fault(`no type: add type = "host"`)
	default:
		r.Fault(`type: %q is not a type of volumes: use type = "host"`, kind)
	}
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

// units are the factors of sizes.
var units = map[string]float64{"": 1, "B": 1, "K": 1e3, "KB": 1e3, "KIB": 1 << 10, "M": 1e6, "MB": 1e6, "MIB": 1 << 20, "G": 1e9, "GB": 1e9,
	"GIB": 1 << 30,
	"T":   1e12, "TB": 1e12, "TIB": 1 << 40, "P": 1e15, "PB": 1e15, "PIB": 1 << 50}

// size reads a size such as "10GiB", or a number of bytes. It is 0 if it is missing.
func size(r *spec.Reader, from map[string]any, name string) int64 {
	v, given := from[name]
	if !given {
		return 0
	}
	delete(from, name)
	text := strings.TrimSpace(fmt.Sprint(v))
	end := strings.LastIndexAny(text, "0123456789.") + 1
	number, err := strconv.ParseFloat(text[:end], 64)
	factor, known := units[strings.ToUpper(strings.TrimSpace(text[end:]))]
	if err != nil || !known || number < 0 || number*factor > math.MaxInt64/2 {
		r.Fault("%s: %q is not a size: use a number with a unit, such as \"10GiB\"", name, text)
		return 0
	}
	return int64(number * factor)
}

const exampleHCL = `# A dynamic host volume: a directory that a plugin makes on one node.
type = "host"
name = "data"

# The built-in plugin mkdir makes a directory. An executable in the plugin directory
# of the node has its file name as ID.
plugin_id = "mkdir"

# Without a node, the servers choose one that has the plugin and meets the constraints.
# node_id   = "..."
# node_pool = "default"

# constraint {
#   attribute = "${attr.kernel.name}"
#   value     = "linux"
# }

# Sizes that the plugin gets. mkdir ignores them.
# capacity_min = "1GiB"
# capacity_max = "10GiB"

capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}

# Parameters of the plugin. Those of mkdir are mode, uid and gid.
parameters {
  mode = "0700"
}
`

const exampleJSON = `{
  "type": "host",
  "name": "data",
  "plugin_id": "mkdir",
  "capability": [
    {
      "access_mode": "single-node-writer",
      "attachment_mode": "file-system"
    }
  ],
  "parameters": {
    "mode": "0700"
  }
}
`
