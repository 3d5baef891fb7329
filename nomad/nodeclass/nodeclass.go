// Package nodeclass computes the class of a node: all nodes of a class are equivalent to the checks of the scheduler.
package nodeclass

import (
	"hash/fnv"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
)

// Of returns the name of the computed class of a node. All nodes of a class are equivalent to the feasibility
// checks of the scheduler. The name is a hash over datacenter, class, pool, attributes, metadata, driver health, host
// volumes, networks and devices. Keys with the prefix "unique." and values that identify a single machine are
// excluded. It depends on the node only. The caller stores the result in ComputedClass.
func Of(n *nomad.Node) string {
	h := fnv.New64a()
	w := classWriter{h}
	w.fields("node", n.Datacenter, n.NodeClass, n.NodePool)
	w.table("attr", n.Attributes)
	w.table("meta", n.Meta)
	for _, name := range slices.Sorted(maps.Keys(n.Drivers)) {
		if d := n.Drivers[name]; d != nil {
			w.fields("driver", name, strconv.FormatBool(d.Detected), strconv.FormatBool(d.Healthy))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(n.HostVolumes)) {
		if v := n.HostVolumes[name]; v != nil {
			w.fields("volume", name, strconv.FormatBool(v.ReadOnly))
		}
	}
	if n.NodeResources != nil {
		w.networks(n.NodeResources)
		w.devices(n.NodeResources.Devices)
	}
	return "v1:" + strconv.FormatUint(h.Sum64(), 10)
}

// classWriter hashes fields with their lengths, so that different lists of fields have different inputs.
type classWriter struct{ io.Writer }

func (w classWriter) fields(fields ...string) {
	for _, f := range fields {
		io.WriteString(w, strconv.Itoa(len(f)))
		io.WriteString(w, ":")
		io.WriteString(w, f)
	}
	io.WriteString(w, ";")
}

func (w classWriter) table(kind string, m map[string]string) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if !IsUniqueKey(k) {
			w.fields(kind, k, m[k])
		}
	}
}

// networks hashes the properties used by feasibility checks: modes and host network names, but not addresses.
func (w classWriter) networks(r *nomad.NodeResources) {
	seen := map[string]bool{}
	for _, n := range r.Networks {
		if n == nil { // clients may send nil elements
			continue
		}
		seen["mode:"+n.Mode] = true
	}
	for _, n := range r.NodeNetworks {
		if n == nil {
			continue
		}
		seen["mode:"+n.Mode] = true
		for _, a := range n.Addresses {
			seen["alias:"+a.Alias] = true
		}
	}
	w.fields(append([]string{"networks"}, slices.Sorted(maps.Keys(seen))...)...)
}

// devices hashes what constraints of device blocks compare: names, the number of healthy instances, and attributes.
func (w classWriter) devices(devices []*nomad.NodeDeviceResource) {
	names := make([]string, 0, len(devices))
	byName := map[string]*nomad.NodeDeviceResource{}
	for _, d := range devices {
		if d != nil {
			name := d.Vendor + "/" + d.Type + "/" + d.Name
			names, byName[name] = append(names, name), d
		}
	}
	slices.Sort(names)
	w.fields(append([]string{"devices"}, names...)...)
	for _, name := range slices.Compact(names) {
		d, healthy := byName[name], 0
		for _, i := range d.Instances {
			if i != nil && i.Healthy {
				healthy++
			}
		}
		w.fields("device", name, strconv.Itoa(healthy))
		for _, key := range slices.Sorted(maps.Keys(d.Attributes)) {
			if a := d.Attributes[key]; a != nil && !IsUniqueKey(key) {
				w.fields("device attr", key, attributeText(a), a.Unit)
			}
		}
	}
}

// attributeText returns the type and the value of an attribute without its unit.
func attributeText(a *nomad.Attribute) string {
	switch {
	case a.Float != nil:
		return "float " + strconv.FormatFloat(*a.Float, 'g', -1, 64)
	case a.Int != nil:
		return "int " + strconv.FormatInt(*a.Int, 10)
	case a.String != nil:
		return "string " + *a.String
	case a.Bool != nil:
		return "bool " + strconv.FormatBool(*a.Bool)
	}
	return ""
}

// IsUniqueKey reports whether an attribute or metadata key is specific to a single node.
func IsUniqueKey(key string) bool { return strings.HasPrefix(key, nomad.NodeUniqueNamespace) }

// IsUniqueTarget reports whether the value of a constraint target can differ between nodes of one computed class.
// An example is "${attr.unique.hostname}".
func IsUniqueTarget(target string) bool {
	for _, prefix := range []string{"${node.unique.", "${attr.unique.", "${meta.unique."} {
		if strings.HasPrefix(target, prefix) {
			return true
		}
	}
	return false
}
