package jobrules

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/nomad"
)

// The unsupported features of volumes. See feature.go.
var absentForVolumes = []feature[*nomad.VolumeRequest]{
	{"volume attachment_mode", "attachment_mode = \"block-device\" in a volume of type host is",
		func(v *nomad.VolumeRequest) bool {
			return v.Type == nomad.VolumeTypeHost && v.AttachmentMode == nomad.VolumeAttachBlockDevice
		}},
}

func validateVolumes(tg *nomad.TaskGroup, f *faults, j *nomad.Job) {
	for _, name := range slices.Sorted(maps.Keys(tg.Volumes)) {
		v, f := tg.Volumes[name], f.in("volume", name)
		if v.Name != name {
			f.add("it has the name %q: use one name", v.Name)
		}
		validateVolumeRequest(v, f, tg, j)
	}
}

func validateVolumeRequest(v *nomad.VolumeRequest, f *faults, tg *nomad.TaskGroup, j *nomad.Job) {
	refuse(f, absent, absentForVolumes, v)
	if v.Type != nomad.VolumeTypeHost && v.Type != nomad.VolumeTypeCSI {
		f.add("type is %q: use host or csi", v.Type)
		return
	}
	switch {
	case v.Source == "" && v.Type == nomad.VolumeTypeHost:
		f.add("missing source: set the name of a host volume")
	case v.Source == "":
		f.add("volume has an empty source: set source to the ID of a CSI volume")
	case strings.Contains(v.Source, "${"):
		f.add("source %q contains a reference, which cannot be resolved before placement: use a fixed name, or per_alloc", v.Source)
	case strings.ContainsRune(v.Source, 0):
		f.add("source contains a NUL character")
	}
	validatePerAlloc(v, f, tg, j)
	switch {
	case !v.Sticky:
	case v.Type != nomad.VolumeTypeHost:
		f.add("sticky is not allowed for type %q: remove it", v.Type)
	case v.PerAlloc:
		f.add("sticky is not allowed with per_alloc, which gives each allocation a volume of its own: remove one")
	}
	if v.Type == nomad.VolumeTypeCSI {
		validateCSIRequest(v, f, tg)
		return
	}
	switch v.AttachmentMode {
	case "", nomad.VolumeAttachFilesystem, nomad.VolumeAttachBlockDevice: // see absentForVolumes
	default:
		f.add("attachment_mode is %q: use file-system", v.AttachmentMode)
	}
	if v.MountOptions != nil {
		f.add("mount_options is only for volumes of type csi: remove it")
	}
	validateHostAccess(v, f)
}

// validatePerAlloc rejects per_alloc where two allocations could have the same index.
func validatePerAlloc(v *nomad.VolumeRequest, f *faults, tg *nomad.TaskGroup, j *nomad.Job) {
	switch {
	case !v.PerAlloc:
	case j.Type == nomad.JobTypeSystem || j.Type == nomad.JobTypeSysBatch:
		f.add("volume cannot be per_alloc for system or sysbatch jobs, whose allocations all have the index 0: remove per_alloc")
	case tg.Update != nil && tg.Update.Canary > 0:
		f.add("volume cannot be per_alloc when canaries are in use, because a canary has the index of another allocation: " +
			"remove per_alloc, or canary of update")
	}
}

func validateHostAccess(v *nomad.VolumeRequest, f *faults) {
	switch v.AccessMode {
	case "", nomad.VolumeSingleNodeReader, nomad.VolumeSingleNodeWriter, nomad.VolumeSingleNodeSingleWriter, nomad.VolumeSingleNodeMultiWriter:
	case nomad.VolumeMultiNodeReader, nomad.VolumeMultiNodeSingleWriter, nomad.VolumeMultiNodeMultiWriter:
		f.add("access_mode is %q, but a host volume is on a single node: use single-node-reader-only, single-node-writer, single-node-single-writer or single-node-multi-writer", v.AccessMode)
	default:
		f.add("access_mode is %q: use single-node-reader-only, single-node-writer, single-node-single-writer or single-node-multi-writer",
			v.AccessMode)
	}
}

func validateVolumeMounts(t *nomad.Task, f *faults, tg *nomad.TaskGroup) {
	targets := map[string]bool{}
	for _, m := range t.VolumeMounts {
		f := f.in("volume_mount", m.Volume)
		validateVolumeMount(m, f, tg)
		if target := path.Clean(m.Destination); targets[target] {
			f.add("duplicate destination %q of two volume_mount blocks: change one", m.Destination)
		} else if m.Destination != "" {
			targets[target] = true
		}
	}
}

func validateVolumeMount(m *nomad.VolumeMount, f *faults, tg *nomad.TaskGroup) {
	open := func(s string) bool { return strings.Contains(s, "${") } // resolved only on the node
	if m.Volume == "" {
		f.add("missing volume: set the name of a volume of the group")
	} else if tg.Volumes[m.Volume] == nil && !open(m.Volume) {
		f.add("group %q has no volume %q: add a volume block, or use one of its names", tg.Name, m.Volume)
	}
	if !open(m.Destination) {
		if err := CheckMountTarget(m.Destination); err != nil {
			f.add("%v", err)
		}
	}
	known := []string{"", nomad.VolumeMountPrivate, nomad.VolumeMountHostToTask, nomad.VolumeMountBidirectional}
	if !slices.Contains(known, m.PropagationMode) && !open(m.PropagationMode) {
		f.add("propagation_mode is %q: use private, host-to-task or bidirectional", m.PropagationMode)
	}
	if !slices.Contains([]string{"", nomad.SELinuxShared, nomad.SELinuxPrivate}, m.SELinuxLabel) {
		f.add("selinux_label is %q: use z, which allocations can share, or Z, which they cannot", m.SELinuxLabel)
	}
	validateMountOwner(m, f, tg)
}

// CheckMountTarget checks the destination of a volume mount. The mount must not hide directories that the task
// needs, and ".." must not lead out of the task's directory.
func CheckMountTarget(target string) error {
	clean := path.Clean(target)
	switch {
	case target == "":
		return errors.New("missing destination: set the path of the volume in the task")
	case strings.ContainsRune(target, 0):
		return errors.New("destination contains a NUL character")
	case clean == "/" || clean == ".":
		return fmt.Errorf("destination is %q, which would hide all other files: use a directory below it", target)
	case slices.Contains(strings.Split(target, "/"), ".."):
		return fmt.Errorf("destination %q contains .., which leads out of it: remove these parts", target)
	}
	for _, dir := range []string{"/proc", "/sys", "/dev"} {
		if clean == dir || strings.HasPrefix(clean, dir+"/") {
			return fmt.Errorf("destination %q is in %s, a file system of the kernel: choose another", target, dir)
		}
	}
	return nil
}
