package volume

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// csiSpec is a specification of a CSI volume. Keys are case-insensitive. A value of another type is converted to a string.
type csiSpec struct {
	faults []error
}

// parseCSI reads the specification of a CSI volume. It returns the names of unknown keys, which are ignored.
func parseCSI(root map[string]any) (v *api.CSIVolume, ignored []string, err error) {
	s := &csiSpec{}
	keys := s.fold("", root)
	text := func(name string) string {
		out := s.text(name, keys[name])
		delete(keys, name)
		return out
	}
	v = &api.CSIVolume{ID: text("id"), Name: text("name"), Namespace: text("namespace"), ExternalID: text("external_id"),
		PluginID: text("plugin_id"), SnapshotID: text("snapshot_id"), CloneID: text("clone_id")}
	v.RequestedCapacityMin, v.RequestedCapacityMax = s.size("capacity_min", text("capacity_min")), s.size("capacity_max", text("capacity_max"))
	v.Secrets, v.Parameters, v.Context = s.texts("secrets", keys), s.texts("parameters", keys), s.texts("context", keys)
	for _, block := range s.blocks("capability", keys) {
		v.RequestedCapabilities = append(v.RequestedCapabilities, &api.CSIVolumeCapability{
			AccessMode:     api.CSIVolumeAccessMode(s.text("access_mode", block["access_mode"])),
			AttachmentMode: api.CSIVolumeAttachmentMode(s.text("attachment_mode", block["attachment_mode"]))})
		s.only("capability", block, "access_mode", "attachment_mode")
	}
	for _, block := range s.blocks("mount_options", keys) {
		if v.MountOptions == nil {
			v.MountOptions = &api.CSIMountOptions{}
		}
		v.MountOptions.FSType = s.text("fs_type", block["fs_type"])
		v.MountOptions.MountFlags = append(v.MountOptions.MountFlags, s.list("mount_flags", block["mount_flags"])...)
		s.only("mount_options", block, "fs_type", "mount_flags")
	}
	v.RequestedTopologies = s.topologies(keys)
	delete(keys, "type")
	return v, slices.Sorted(maps.Keys(keys)), errors.Join(s.faults...)
}

func (s *csiSpec) fault(format string, args ...any) {
	s.faults = append(s.faults, fmt.Errorf(format, args...))
}

// fold returns the keys of a block in lower case.
func (s *csiSpec) fold(in string, block map[string]any) map[string]any {
	out := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(block)) {
		name := strings.ToLower(key)
		if _, twice := out[name]; twice {
			s.fault("duplicate key %s%s", name, of(in))
		}
		out[name] = block[key]
	}
	return out
}

// of returns the place of a key for an error.
func of(block string) string {
	if block == "" {
		return ""
	}
	return " in " + block
}

// only adds a fault for each key of a block that is not one of names.
func (s *csiSpec) only(in string, block map[string]any, names ...string) {
	for _, key := range slices.Sorted(maps.Keys(block)) {
		if !slices.Contains(names, key) {
			s.fault("invalid key: %s%s: use %s", key, of(in), strings.Join(names, " or "))
		}
	}
}

// text converts a value to a string.
func (s *csiSpec) text(name string, v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case bool:
		if v {
			return "1"
		}
		return "0"
	case int:
		return strconv.Itoa(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	s.fault("%s: expected a string", name)
	return ""
}

// size reads a size, 0 if the text is empty.
func (s *csiSpec) size(name, text string) int64 {
	if text == "" {
		return 0
	}
	n, err := parseSize(text)
	if err != nil {
		s.fault("invalid %s: could not parse value as bytes: %w", name, err)
	}
	return n
}

// list reads a list of strings. A single value is a list with one.
func (s *csiSpec) list(name string, v any) (out []string) {
	items, ok := v.([]any)
	if !ok && v != nil {
		items = []any{v}
	}
	for _, item := range items {
		out = append(out, s.text(name, item))
	}
	return out
}

// blocks removes the blocks with a name from keys and returns them with their keys in lower case.
func (s *csiSpec) blocks(name string, keys map[string]any) (out []map[string]any) {
	for _, block := range s.raw(name, keys) {
		out = append(out, s.fold(name, block))
	}
	return out
}

// raw removes the blocks with a name from keys and returns them.
func (s *csiSpec) raw(name string, keys map[string]any) (out []map[string]any) {
	v, given := keys[name]
	delete(keys, name)
	switch v := v.(type) {
	case nil:
	case map[string]any:
		out = append(out, v)
	case []map[string]any:
		out = v
	case []any:
		for _, item := range v {
			block, ok := item.(map[string]any)
			if !ok {
				s.fault("%s: expected a block", name)
			}
			out = append(out, block)
		}
	default:
		if given {
			s.fault("%s: expected a block", name)
		}
	}
	return out
}

// texts removes the blocks with a name from keys and returns their values as one map. The case of its keys is kept.
func (s *csiSpec) texts(name string, keys map[string]any) map[string]string {
	var out map[string]string
	for _, block := range s.raw(name, keys) {
		for _, key := range slices.Sorted(maps.Keys(block)) {
			if out == nil {
				out = map[string]string{}
			}
			out[key] = s.text(name+"."+key, block[key])
		}
	}
	return out
}

// topologies reads the locations of a new volume: the first block of each kind that has segments.
func (s *csiSpec) topologies(keys map[string]any) *api.CSITopologyRequest {
	var out *api.CSITopologyRequest
	for _, request := range s.blocks("topology_request", keys) {
		if out == nil {
			out = &api.CSITopologyRequest{}
		}
		for name, to := range map[string]*[]*api.CSITopology{"required": &out.Required, "preferred": &out.Preferred} {
			for _, block := range s.blocks(name, request) {
				found := s.segments(block)
				s.only(name, block, "topology")
				if len(*to) == 0 {
					*to = found
				}
			}
		}
		s.only("topology_request", request, "required", "preferred")
	}
	return out
}

// segments removes the topologies from a block and returns those with segments.
func (s *csiSpec) segments(block map[string]any) (out []*api.CSITopology) {
	for _, topology := range s.blocks("topology", block) {
		if segments := s.texts("segments", topology); len(segments) > 0 {
			out = append(out, &api.CSITopology{Segments: segments})
		}
		s.only("topology", topology, "segments")
	}
	return out
}
