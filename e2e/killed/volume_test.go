package killed_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// request returns the request for a volume of the node.
func (n *node) request(name string) *api.HostVolumeCreateRequest {
	return &api.HostVolumeCreateRequest{Volume: &api.HostVolume{
		Name:                  name,
		Namespace:             "default",
		PluginID:              volumePlugin,
		NodeID:                n.id,
		NodePool:              "default",
		RequestedCapabilities: []*api.HostVolumeCapability{{AttachmentMode: "file-system", AccessMode: "single-node-writer"}},
	}}
}

// volume creates a volume, and waits until it is ready.
func (n *node) volume(name string) string {
	n.t.Helper()
	var id string
	testpace.Succeeds(n.t, "volume "+name+" is created", func() error {
		got, _, err := n.server.Client.HostVolumes().Create(n.request(name), nil)
		if err == nil {
			id = got.Volume.ID
		}
		return err
	})
	n.ready(id)
	return id
}

// ready waits until a volume is ready.
func (n *node) ready(id string) {
	n.t.Helper()
	testpace.Until(n.t, "volume "+id+" is ready", func() bool {
		v, _, err := n.server.Client.HostVolumes().Get(id, nil)
		return err == nil && v.State == "ready"
	})
}

// remove deletes a volume, unless it does not exist.
func (n *node) remove(id string) {
	n.t.Helper()
	testpace.Succeeds(n.t, "volume "+id+" is deleted", func() error {
		if _, _, err := n.server.Client.HostVolumes().Get(id, nil); err != nil && httpStatus(err) == 404 {
			return nil
		}
		_, _, err := n.server.Client.HostVolumes().Delete(&api.HostVolumeDeleteRequest{ID: id}, nil)
		return err
	})
}

// TestVolume kills at each step of the creation and deletion of a dynamic volume.
func TestVolume(t *testing.T) {
	f := newFleet(t)
	n := f.join("one")
	f.cross([]string{"create-before", "create-after"}, victims, func(step string, v victim) {
		n.gate.arm(step)
		created := make(chan error, 1)
		go func() {
			_, _, err := f.server.Client.HostVolumes().Create(n.request("made"), nil)
			created <- err
		}()
		n.gate.reached()
		n.kill(v, n.gate.release)
		if err := <-created; (err == nil) != (v == supervisor) {
			n.t.Errorf("Create() = %v after the end of %s", err, v)
		}
		if v != supervisor { // the name is free again
			n.volume("made")
		}
		n.remove(n.find("made"))
	})
	f.cross([]string{"delete-before", "delete-after"}, victims, func(step string, v victim) {
		id := n.volume("made")
		n.gate.arm(step)
		deleted := make(chan error, 1)
		go func() {
			_, _, err := f.server.Client.HostVolumes().Delete(&api.HostVolumeDeleteRequest{ID: id}, nil)
			deleted <- err
		}()
		n.gate.reached()
		n.kill(v, n.gate.release)
		if err := <-deleted; (err == nil) != (v == supervisor) {
			n.t.Errorf("Delete() = %v after the end of %s", err, v)
		}
		n.remove(id)
	})
}

// TestVolumeRestored kills an agent that restores the volume of an earlier one.
func TestVolumeRestored(t *testing.T) {
	f := newFleet(t)
	n := f.join("one")
	for _, step := range []string{"create-before", "create-after"} {
		f.scene(step, func() {
			id := n.volume("made")
			f.run("web", group{static: staticPort, volume: "made"}.text())
			al := f.allocOf("web", "running", "")
			pid := n.answer(al, "web")
			n.gate.arm(step)
			if err := n.Kill(); err != nil {
				n.t.Fatal(err)
			}
			started := make(chan error, 1)
			go func() {
				_, err := n.tryStart(n.t.Context(), n.Options, n.name+".log")
				started <- err
			}()
			if err := syscall.Kill(n.gate.reached(), syscall.SIGKILL); err != nil {
				n.t.Fatal(err)
			}
			if err := <-started; err == nil {
				n.t.Error("the agent was not killed while it started")
			}
			n.gate.release()
			n.again()
			n.ready(id)
			if now := n.answer(al, "web"); now != pid {
				n.t.Errorf("the task is process %s, was %s", now, pid)
			}
			n.runs(f.allocOf("web", "running", ""))
			f.purge()
			n.remove(id)
		})
	}
}

// find returns the ID of a volume.
func (n *node) find(name string) string {
	n.t.Helper()
	list, _, err := n.server.Client.HostVolumes().List(&api.HostVolumeListRequest{}, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	for _, v := range list {
		if v.Name == name {
			return v.ID
		}
	}
	n.t.Fatalf("no volume %s in %v", name, list)
	return ""
}

// httpStatus returns the HTTP status of an error, 0 without one.
func httpStatus(err error) int {
	if e, ok := errors.AsType[api.UnexpectedResponseError](err); ok {
		return e.StatusCode()
	}
	return 0
}
