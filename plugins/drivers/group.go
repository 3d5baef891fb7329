package drivers

import "strings"

// TaskGroup returns the control group of a task, for drivers of a kind that is Grouped: the parent below
// the root of every tree, and the name in it. Tasks with reserved cores are separate from those that
// share cores. An empty cgroupParent is nomad.slice.
func TaskGroup(cgroupParent, alloc, task string, cores []uint16) (parent, name string) {
	part := "share.slice"
	if len(cores) > 0 {
		part = "reserve.slice"
	}
	parent = strings.Trim(cgroupParent, "/")
	if parent == "" {
		parent = "nomad.slice"
	}
	return parent + "/" + part, strings.ReplaceAll(alloc+"."+task+".scope", "/", "_")
}
