package taskhook

import (
	"context"
	"errors"
	"fmt"

	"github.com/open-nomad/open-nomad/client/csi/mounts"
	"github.com/open-nomad/open-nomad/client/csi/owner"
	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/nomad"
)

// CSIVolumes are the CSI volumes that allocations have mounted (mounts.Manager).
type CSIVolumes interface {
	Mounted(u mounts.Use) (mounts.Mounted, bool, error)
}

// findCSI finds a CSI volume that the allocation has mounted. A block device is passed to the driver as a device, so that the
// task can open its node.
func (h *volumeHook) findCSI(have *found, v *nomad.VolumeRequest, m *nomad.VolumeMount, req *TaskPrestartRequest) error {
	source := v.SourceFor(req.Alloc.Name)
	if h.csi == nil {
		return errors.New("this node does not mount CSI volumes")
	}
	got, mounted, err := h.csi.Mounted(mounts.UseOf(req.Alloc, v))
	if err != nil {
		return err
	}
	if !mounted {
		return fmt.Errorf("CSI volume %q is not mounted on this node any more: stop the allocation, its replacement mounts it again", source)
	}
	if got.Device && !h.caps.Devices {
		return fmt.Errorf("driver %q can't give a task a block device: use another driver, or attachment_mode = \"file-system\"", req.Task.Driver)
	}
	have.name, have.host, have.device = fmt.Sprintf("CSI volume %q", source), got.Path, got.Device
	if have.readOnly = v.Reads() || m.ReadOnly; have.device && have.readOnly {
		have.host = got.Reads
	}
	if m.Owner == nomad.VolumeOwnerTask && (have.readOnly || v.AccessMode != nomad.VolumeSingleNodeWriter && v.AccessMode != nomad.VolumeMultiNodeSingleWriter) {
		return fmt.Errorf("owner = %q needs a volume with one writer, which the task is: access_mode %s or %s, without read_only", m.Owner,
			nomad.VolumeSingleNodeWriter, nomad.VolumeMultiNodeSingleWriter)
	}
	return nil
}

// give gives the files of a volume to the user of the task, if the mount asks for it.
func (f *found) give(ctx context.Context, m *nomad.VolumeMount, req *TaskPrestartRequest) error {
	if m.Owner != nomad.VolumeOwnerTask {
		return nil
	}
	to := owner.IDs{UID: req.Owner.UID, GID: req.Owner.GID}
	if err := safefs.Await(ctx, func() error { return owner.Give(ctx, f.host, to) }); err != nil {
		return fmt.Errorf("owner = %q: %w", m.Owner, err)
	}
	return nil
}
