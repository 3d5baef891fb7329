package jobs_test

import (
	"fmt"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/testcsi"
)

// TestCSIMock runs the mock driver of the CSI project as the plugin of an agent. The servers create and delete a volume with it.
func TestCSIMock(t *testing.T) {
	harness.NeedsRoot(t)
	r := newCSIRig(t, "")
	r.program = testcsi.BuildMock(t)
	a := r.next()
	harness.Run(t, a, harness.Job("mock", `type = "system"`, r.task("mock", "raw_exec", fmt.Sprintf("command = %q", r.program))))
	harness.Await(t, a, "mock", "running", 1)
	if info := r.awaitHealthy(a, "mock"); info.NodeInfo.ID != "mock-node" || !info.RequiresControllerPlugin {
		t.Errorf("the node reports %+v", info)
	}
	volume := &api.CSIVolume{ID: "v", Name: "one", PluginID: "mock", RequestedCapabilities: []*api.CSIVolumeCapability{
		{AccessMode: api.CSIVolumeAccessModeSingleNodeWriter, AttachmentMode: api.CSIVolumeAttachmentModeFilesystem}}}
	var made []*api.CSIVolume
	harness.Succeeds(t, "create a volume", func() (err error) { // servers learn the health of the plugin with the node
		made, _, err = a.Client.CSIVolumes().Create(volume, nil)
		return err
	})
	if len(made) != 1 || made[0].ExternalID != "vol-one" {
		t.Errorf("created %+v", made)
	}
	got, _, err := a.Client.CSIVolumes().Info("v", nil)
	if err != nil || got.Provider != "mock.csi.example.com" || got.ProviderVersion != "5.6.0" || !got.Schedulable || !got.ControllerRequired {
		t.Errorf("Info() = %+v, %v", got, err)
	}
	if err := a.Client.CSIVolumes().Delete("v", nil); err != nil {
		t.Error(err)
	}
	if _, _, err := a.Client.CSIVolumes().Info("v", nil); err == nil {
		t.Error("the volume still exists")
	}
}
