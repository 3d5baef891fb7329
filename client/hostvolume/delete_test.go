package hostvolume_test

import (
	"context"
	"errors"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// The node deletes no volume that one of its allocations uses. While a volume is deleted, tasks cannot mount it. If the
// delete fails, they can again.
func TestDelete_InUse(t *testing.T) {
	w := newWorld(t)
	w.script("own", `case "$DHV_OPERATION" in create) mkdir -p PLUGINS/made; echo '{"path": "PLUGINS/made", "bytes": 1}' ;; delete) exit 1 ;; esac`)
	for _, plugin := range []string{"mkdir", "own"} {
		v := message.ClientHostVolumeCreateRequest{ID: nomad.NewID(), Name: plugin + "-data", PluginID: plugin, Namespace: "default"}
		made, err := w.create(v)
		if err != nil {
			t.Fatal(err)
		}
		del := func() error {
			return w.Delete(t.Context(), &message.ClientHostVolumeDeleteRequest{ID: v.ID, Name: v.Name, PluginID: plugin, HostPath: made.HostPath})
		}
		w.users = func(context.Context, string) ([]string, error) { return []string{"alloc-1"}, nil }
		fails(t, "delete in use", del(), "in use by allocations: [alloc-1]")
		w.users = func(context.Context, string) ([]string, error) { return nil, errors.New("not restored") }
		fails(t, "delete before the allocations are known", del(), "not restored")
		if w.Usable()[v.Name] == nil || w.Volumes()[v.Name] == nil {
			t.Fatal("a refused delete made the volume unusable")
		}
		w.users = func(context.Context, string) ([]string, error) {
			if w.Usable()[v.Name] != nil || w.Volumes()[v.Name] == nil {
				t.Error("a task can mount a volume that is being deleted, or the node no longer reports it")
			}
			return nil, nil
		}
		err = del()
		if got, want := w.Usable()[v.Name] != nil, plugin == "own"; got != want || (err != nil) != want {
			t.Errorf("delete with plugin %s: %v, usable: %t", plugin, err, got)
		}
	}
}
