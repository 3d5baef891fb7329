package instances_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/csi"
	"github.com/open-nomad/open-nomad/client/csi/instances"
	"github.com/open-nomad/open-nomad/internal/testcsi"
	"github.com/open-nomad/open-nomad/nomad"
	words "github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// TestProcesses registers processes of the example and of the CSI project's mock driver, and uses a volume of each.
func TestProcesses(t *testing.T) {
	s := instances.New(instances.Config{Store: memory{}, Known: func(string) bool { return true }, Log: slog.New(slog.DiscardHandler),
		Changed: func() {}, Emit: func(nomad.NodeEvent) {}})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	defer func() {
		cancel()
		<-done
	}()
	for name, p := range map[string]*testcsi.Plugin{
		"example": testcsi.Start(t, testcsi.Config{Flags: []string{"-node", "mock-node"}}), "mock": testcsi.StartMock(t)} {
		for _, kind := range []instances.Kind{instances.KindController, instances.KindNode} {
			if err := s.Register(instances.Instance{Kind: kind, ID: name, AllocID: name, Socket: csi.Socket{Dir: p.Dir, Name: testcsi.Socket}}); err != nil {
				t.Fatal(err)
			}
		}
		useVolume(t, s, name)
	}
	controllers, nodes := s.Infos()
	for _, name := range []string{"example", "mock"} {
		c, n := controllers[name], nodes[name]
		if !c.Healthy || !n.Healthy || !c.RequiresControllerPlugin || !c.ControllerInfo.SupportsAttachDetach || n.NodeInfo.ID != "mock-node" ||
			!n.NodeInfo.RequiresNodeStageVolume {
			t.Errorf("%s: controller %+v, node %+v", name, c, n)
		}
	}
}

// useVolume creates a volume, writes a file in it, and deletes it.
func useVolume(t *testing.T, s *instances.Set, id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	controller, _, controllerErr := s.Plugin(ctx, instances.KindController, id)
	node, _, nodeErr := s.Plugin(ctx, instances.KindNode, id)
	if err := errors.Join(controllerErr, nodeErr); err != nil {
		t.Fatal(err)
	}
	able := words.Capability{AccessMode: nomad.VolumeSingleNodeWriter, AttachmentMode: nomad.VolumeAttachFilesystem}
	made, err := controller.CreateVolume(ctx, &message.ClientCSIControllerCreateVolumeRequest{Name: "one",
		VolumeCapabilities: []*words.Capability{&able}})
	if err != nil {
		t.Fatal(err)
	}
	attached, err := controller.AttachVolume(ctx, &message.ClientCSIControllerAttachVolumeRequest{VolumeID: made.ExternalVolumeID,
		ClientCSINodeID: "mock-node", AccessMode: able.AccessMode, AttachmentMode: able.AttachmentMode})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	req := &csi.NodeRequest{VolumeID: made.ExternalVolumeID, Staging: filepath.Join(dir, "staging"), Target: filepath.Join(dir, "target"),
		Capability: able, PublishContext: attached.PublishContext}
	if err := errors.Join(os.Mkdir(req.Staging, 0o700), node.NodeStage(ctx, req), node.NodePublish(ctx, req)); err != nil {
		t.Fatal(err)
	}
	writeErr := os.WriteFile(filepath.Join(req.Target, "file"), []byte("content"), 0o600)
	unmount := errors.Join(node.NodeUnpublish(ctx, req.VolumeID, req.Target), node.NodeUnstage(ctx, req.VolumeID, req.Staging))
	_, detach := controller.DetachVolume(ctx, &message.ClientCSIControllerDetachVolumeRequest{VolumeID: req.VolumeID, ClientCSINodeID: "mock-node"})
	_, remove := controller.DeleteVolume(ctx, &message.ClientCSIControllerDeleteVolumeRequest{ExternalVolumeID: req.VolumeID})
	if err := errors.Join(writeErr, unmount, detach, remove); err != nil {
		t.Errorf("%s: %v", id, err)
	}
}
