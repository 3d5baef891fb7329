package jobrules

import (
	"errors"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
)

// csiAccess lists the access modes of CSI volumes. The other modes of host volumes are not in the claims of plugins.
var csiAccess = []nomad.VolumeAccessMode{nomad.VolumeSingleNodeReader, nomad.VolumeSingleNodeWriter, nomad.VolumeMultiNodeReader,
	nomad.VolumeMultiNodeSingleWriter, nomad.VolumeMultiNodeMultiWriter}

// validateCSIRequest checks the modes of a request for a CSI volume. The servers do not check whether the volume exists.
func validateCSIRequest(v *nomad.VolumeRequest, f *faults, tg *nomad.TaskGroup) {
	const modes = "single-node-reader-only, single-node-writer, multi-node-reader-only, multi-node-single-writer or multi-node-multi-writer"
	switch {
	case v.AttachmentMode == "":
		f.add("CSI volumes must have an attachment mode: set attachment_mode to file-system or block-device")
	case v.AttachmentMode == nomad.VolumeAttachBlockDevice && v.MountOptions != nil:
		f.add("block devices cannot have mount options: remove mount_options")
	case v.AttachmentMode != nomad.VolumeAttachFilesystem && v.AttachmentMode != nomad.VolumeAttachBlockDevice:
		f.add("attachment_mode is %q: use file-system or block-device", v.AttachmentMode)
	}
	switch {
	case v.AccessMode == "":
		f.add("CSI volumes must have an access mode: set access_mode to %s", modes)
	case v.AccessMode == nomad.VolumeSingleNodeSingleWriter || v.AccessMode == nomad.VolumeSingleNodeMultiWriter:
		f.add("access_mode is %q, which only host volumes have: use %s", v.AccessMode, modes)
	case !slices.Contains(csiAccess, v.AccessMode):
		f.add("access_mode is %q: use %s", v.AccessMode, modes)
	}
	validateCSICount(v, f, tg.Count > 1 && !v.PerAlloc)
}

// validateCSICount rejects a request that contradicts its access mode. Several means that allocations of the group share
// the volume.
func validateCSICount(v *nomad.VolumeRequest, f *faults, several bool) {
	reads := v.AccessMode == nomad.VolumeSingleNodeReader || v.AccessMode == nomad.VolumeMultiNodeReader
	if reads && !v.ReadOnly {
		f.add("%s volumes must be read-only: set read_only = true, or change access_mode", v.AccessMode)
	}
	only := map[nomad.VolumeAccessMode]string{nomad.VolumeSingleNodeReader: "reader", nomad.VolumeSingleNodeWriter: "reader or writer"}
	if !v.ReadOnly {
		only[nomad.VolumeMultiNodeSingleWriter] = "writer"
	}
	if who := only[v.AccessMode]; who != "" && several {
		f.add("volume with %s access mode allows only one %s: set count to 1, use per_alloc, or change access_mode", v.AccessMode, who)
	}
}

// validateMountOwner checks the owner of a volume mount. The files of a volume can have the user of one task only. So the volume must
// have one writer, and this mount must write.
func validateMountOwner(m *nomad.VolumeMount, f *faults, tg *nomad.TaskGroup) {
	if m.Owner == "" {
		return
	}
	if m.Owner != nomad.VolumeOwnerTask {
		f.add("owner is %q: use %s, or remove it", m.Owner, nomad.VolumeOwnerTask)
		return
	}
	switch v := tg.Volumes[m.Volume]; {
	case strings.Contains(m.Volume, "${"):
		f.add("owner is set and volume contains a reference: use the name of a volume, or remove owner")
	case v == nil: // another error
	case v.Type != nomad.VolumeTypeCSI:
		f.add("owner is only for volumes of type csi, and volume %q is of type %q: remove owner", m.Volume, v.Type)
	case v.AttachmentMode == nomad.VolumeAttachBlockDevice:
		f.add("owner is only for file systems, and volume %q is a block device: remove owner", m.Volume)
	case v.AccessMode != nomad.VolumeSingleNodeWriter && v.AccessMode != nomad.VolumeMultiNodeSingleWriter:
		f.add("owner needs an access mode with one writer, and volume %q has %q: use single-node-writer or multi-node-single-writer, or remove owner",
			m.Volume, v.AccessMode)
	case v.Reads() || m.ReadOnly:
		f.add("owner changes files of volume %q, which is read-only here: remove read_only or owner", m.Volume)
	}
}

// validateMountOwners rejects groups with two tasks that both want to own a volume.
func validateMountOwners(tg *nomad.TaskGroup, f *faults) {
	owners := map[string]string{}
	for _, t := range tg.Tasks {
		for _, m := range t.VolumeMounts {
			if m.Owner == "" {
				continue
			}
			if other, ok := owners[m.Volume]; ok && other != t.Name {
				f.add("tasks %q and %q both set owner of volume %q: keep one", other, t.Name, m.Volume)
			}
			owners[m.Volume] = t.Name
		}
	}
}

// validateCSIPlugins rejects two plugins in a group. They would have the same socket.
func validateCSIPlugins(tg *nomad.TaskGroup, f *faults) {
	var first string
	found := 0
	for _, t := range tg.Tasks {
		if t.CSIPluginConfig == nil {
			continue
		}
		if found++; found == 1 {
			first = t.Name
		} else {
			f.add("tasks %q and %q both have a csi_plugin block: move one to another group, or use type monolith", first, t.Name)
		}
	}
}

const maxPluginID = 128

func validateCSIPlugin(c *nomad.TaskCSIPluginConfig, f *faults) {
	if c == nil {
		return
	}
	switch id := c.ID; {
	case id == "":
		f.add("CSIPluginConfig must have a non-empty PluginID: set id of csi_plugin")
	case len(id) > maxPluginID:
		f.add("id of csi_plugin has %d bytes: the limit is %d", len(id), maxPluginID)
	case id == "." || id == ".." || strings.Contains(id, "/") || strings.ContainsFunc(id, unicode.IsControl):
		f.add("id of csi_plugin is %q: it becomes the name of a directory, so it must not contain / or control characters", id)
	case strings.Contains(id, "${"):
		f.add("id of csi_plugin is %q: references are not resolved there, so write the ID itself", id)
	}
	switch c.Type {
	case csi.PluginNode, csi.PluginController, csi.PluginMonolith:
	default:
		f.add("CSIPluginConfig PluginType must be one of 'node', 'controller', or 'monolith', got: \"%s\"", c.Type)
	}
	validatePluginDirs(c, f)
	if c.HealthTimeout < 0 {
		f.add("health_timeout of csi_plugin is negative")
	}
}

// CheckCSIPlugin returns the errors of a csi_plugin block.
func CheckCSIPlugin(c *nomad.TaskCSIPluginConfig) error {
	var list []error
	validateCSIPlugin(c, &faults{place: "csi_plugin", list: &list})
	return errors.Join(list...)
}

// validatePluginDirs checks the directories of a plugin, which are mounted into its task.
func validatePluginDirs(c *nomad.TaskCSIPluginConfig, f *faults) {
	for _, dir := range []struct{ name, path string }{{"mount_dir", c.MountDir}, {"stage_publish_base_dir", c.StagePublishBaseDir}} {
		if dir.path == "" {
			continue // the default
		}
		if err := CheckMountTarget(dir.path); err != nil {
			f.add("%s of csi_plugin: %v", dir.name, err)
		}
		if strings.Contains(dir.path, "${") {
			f.add("%s of csi_plugin is %q: references are not resolved there, so write the path itself", dir.name, dir.path)
		}
	}
	mount, base := c.Dirs()
	switch mount, base = path.Join("/", mount), path.Join("/", base); {
	case base == mount || strings.HasPrefix(base, mount+"/"):
		f.add("CSIPluginConfig StagePublishBaseDir must not be a subdirectory of MountDir, got: StagePublishBaseDir=\"%s\" MountDir=\"%s\"",
			base, mount)
	case strings.HasPrefix(mount, base+"/"):
		f.add("mount_dir of csi_plugin is %q, below its stage_publish_base_dir %q: choose directories outside each other", mount, base)
	}
}
