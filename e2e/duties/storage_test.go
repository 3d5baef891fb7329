package duties_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/e2e/harness"
	"github.com/open-nomad/open-nomad/internal/testcsi"
)

// storageJob runs the CSI plugin of the volume of the subjects on both nodes. It is not a subject.
const storageJob = "storage"

// buildStorage builds the CSI plugin, which is also the program of a subject.
func (f *fleet) buildStorage() {
	f.t.Helper()
	f.program, f.storage = testcsi.Build(f.t), filepath.Join(f.Dir, "storage")
	harness.Mkdir(f.t, f.storage)
}

// beginStorage runs the plugin, and creates the volume or empties it.
func (f *fleet) beginStorage() {
	f.t.Helper()
	if !slices.ContainsFunc(f.subjects, func(s subject) bool { return s.volume }) {
		return
	}
	harness.Run(f.t, f.Server, fmt.Sprintf(`job %q {
  type = "system"
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = %q
        args    = ["-root", %q, "-node", "${node.unique.name}"]
      }
      csi_plugin {
        id   = "storage"
        type = "monolith"
      }
      resources {
        cpu    = 10
        memory = 32
      }
    }
  }
}
`, storageJob, f.program, f.storage))
	harness.Within(f.t, 2*harness.Patience, "the storage is healthy on both nodes", func() bool {
		p, _, err := f.Server.Client.CSIPlugins().Info("storage", nil)
		return err == nil && p.NodesHealthy == 2 && p.ControllersHealthy == 2
	})
	if _, _, err := f.Server.Client.CSIVolumes().Info("data", nil); err != nil {
		f.createVolume()
	}
	if err := os.RemoveAll(filepath.Join(f.volumeRoot(), "seen")); err != nil {
		f.t.Error(err)
	}
}

func (f *fleet) createVolume() {
	f.t.Helper()
	able := func(mode api.CSIVolumeAccessMode) *api.CSIVolumeCapability {
		return &api.CSIVolumeCapability{AccessMode: mode, AttachmentMode: api.CSIVolumeAttachmentModeFilesystem}
	}
	if _, _, err := f.Server.Client.CSIVolumes().Create(&api.CSIVolume{ID: "data", Name: "data", Namespace: "default", PluginID: "storage",
		RequestedCapabilities: []*api.CSIVolumeCapability{able(api.CSIVolumeAccessModeSingleNodeWriter),
			able(api.CSIVolumeAccessModeMultiNodeMultiWriter)}}, nil); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Chmod(f.volumeRoot(), 0o777); err != nil { // tasks of exec are of another user
		f.t.Fatal(err)
	}
}

// volumeRoot returns the directory of the volume in the storage system.
func (f *fleet) volumeRoot() string {
	f.t.Helper()
	v, _, err := f.Server.Client.CSIVolumes().Info("data", nil)
	if err != nil {
		f.t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(f.storage, "*", v.ExternalID))
	if err != nil || len(found) != 1 {
		f.t.Fatalf("the volume in the storage system: %q, %v", found, err)
	}
	return found[0]
}

// volumeData returns what the tasks wrote to the volume.
func (f *fleet) volumeData() string {
	f.t.Helper()
	text, err := os.ReadFile(filepath.Join(f.volumeRoot(), "seen"))
	if err != nil {
		f.t.Error(err)
	}
	return string(text)
}

// endStorage waits until the claims of the volume are free, and stops the plugin.
func (f *fleet) endStorage() {
	f.t.Helper()
	if !slices.ContainsFunc(f.subjects, func(s subject) bool { return s.volume }) {
		return
	}
	harness.Within(f.t, 2*harness.Patience, "the claims of the volume are free", func() bool {
		v, _, err := f.Server.Client.CSIVolumes().Info("data", nil)
		return err == nil && len(v.ReadAllocs)+len(v.WriteAllocs) == 0
	})
	harness.Stop(f.t, f.Server, storageJob)
	harness.Within(f.t, harness.Patience, "the storage ends", func() bool {
		return len(harness.Allocs(f.t, f.Server, storageJob, "running")) == 0
	})
}
