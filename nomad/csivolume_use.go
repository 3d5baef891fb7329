package nomad

import (
	"maps"
	"slices"
)

// CSIRequests returns the requests for CSI volumes of the allocation's group, in the version j of its job, by name. The ID
// of each volume is its SourceFor the name of the allocation.
func (a *Allocation) CSIRequests(j *Job) []*VolumeRequest {
	if j == nil {
		return nil
	}
	tg := j.TaskGroup(a.TaskGroup)
	if tg == nil {
		return nil
	}
	return tg.CSIRequests()
}

// CSIRequests returns the requests of the group for CSI volumes, by name.
func (tg *TaskGroup) CSIRequests() (out []*VolumeRequest) {
	if len(tg.Volumes) == 0 {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(tg.Volumes)) {
		if v := tg.Volumes[name]; v != nil && v.Type == VolumeTypeCSI {
			out = append(out, v)
		}
	}
	return out
}
