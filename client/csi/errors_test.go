package csi_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/open-nomad/open-nomad/client/csi"
	"github.com/open-nomad/open-nomad/nomad"
	words "github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
)

var (
	able    = words.Capability{AccessMode: nomad.VolumeSingleNodeWriter, AttachmentMode: nomad.VolumeAttachFilesystem}
	secrets = words.Secrets{"password": "hunter2"}
	options = &nomad.CSIMountOptions{FSType: "ext4", MountFlags: []string{"noatime", "credentials=/etc/top-secret"}}
)

// methods call each method of a plugin with a valid request.
var methods = map[string]func(ctx context.Context, p *csi.Plugin) error{
	"Probe": func(ctx context.Context, p *csi.Plugin) error {
		_, err := p.Probe(ctx)
		return err
	},
	"GetPluginInfo": func(ctx context.Context, p *csi.Plugin) error {
		_, err := p.Info(ctx)
		return err
	},
	"GetPluginCapabilities": func(ctx context.Context, p *csi.Plugin) error {
		_, err := p.Traits(ctx)
		return err
	},
	"ControllerGetCapabilities": func(ctx context.Context, p *csi.Plugin) error {
		_, err := p.ControllerInfo(ctx)
		return err
	},
	"NodeGetInfo": func(ctx context.Context, p *csi.Plugin) error {
		_, err := p.NodeInfo(ctx)
		return err
	},
	"NodeGetCapabilities": func(ctx context.Context, p *csi.Plugin) error {
		_, err := p.NodeCapabilities(ctx, &nomad.CSINodeInfo{})
		return err
	},
	"ControllerPublishVolume": func(ctx context.Context, p *csi.Plugin) error {
		_, err := p.AttachVolume(ctx, &message.ClientCSIControllerAttachVolumeRequest{VolumeID: "v", ClientCSINodeID: "n",
			AccessMode: able.AccessMode, AttachmentMode: able.AttachmentMode, Secrets: secrets, ReadOnly: true,
			MountOptions:  &message.CSIVolumeMountOptions{Filesystem: "ext4", MountFlags: options.MountFlags},
			VolumeContext: map[string]string{"c": "1"}})
		return err
	},
	"ControllerUnpublishVolume": func(ctx context.Context, p *csi.Plugin) error {
		_, err := p.DetachVolume(ctx, &message.ClientCSIControllerDetachVolumeRequest{VolumeID: "v", ClientCSINodeID: "n", Secrets: secrets})
		return err
	},
	"ValidateVolumeCapabilities": func(ctx context.Context, p *csi.Plugin) error {
		_, err := p.ValidateVolume(ctx, &message.ClientCSIControllerValidateVolumeRequest{VolumeID: "v", Secrets: secrets,
			VolumeCapabilities: []*words.Capability{&able, nil}, MountOptions: options, Parameters: map[string]string{"p": "1"},
			Context: map[string]string{"c": "1"}})
		return err
	},
	"CreateVolume": func(ctx context.Context, p *csi.Plugin) error {
		_, err := p.CreateVolume(ctx, &message.ClientCSIControllerCreateVolumeRequest{Name: "name", Secrets: secrets, MountOptions: options,
			VolumeCapabilities: []*words.Capability{&able}, Parameters: map[string]string{"p": "1"}, CapacityMin: 1, CapacityMax: 2,
			SnapshotID: "s", RequestedTopologies: &words.TopologyRequest{Required: []*nomad.CSITopology{nil, {Segments: map[string]string{"z": "1"}}}}})
		return err
	},
	"DeleteVolume": func(ctx context.Context, p *csi.Plugin) error {
		_, err := p.DeleteVolume(ctx, &message.ClientCSIControllerDeleteVolumeRequest{ExternalVolumeID: "v", Secrets: secrets})
		return err
	},
	"ControllerExpandVolume": func(ctx context.Context, p *csi.Plugin) error {
		_, err := p.ExpandVolume(ctx, &message.ClientCSIControllerExpandVolumeRequest{ExternalVolumeID: "v", Secrets: secrets,
			CapacityRange: &words.CapacityRange{RequiredBytes: 1, LimitBytes: 2}})
		return err
	},
	"ListVolumes": func(ctx context.Context, p *csi.Plugin) error {
		_, err := p.ListVolumes(ctx, &message.ClientCSIControllerListVolumesRequest{MaxEntries: 3, StartingToken: "t"})
		return err
	},
	"CreateSnapshot": func(ctx context.Context, p *csi.Plugin) error {
		_, err := p.CreateSnapshot(ctx, &message.ClientCSIControllerCreateSnapshotRequest{ExternalSourceVolumeID: "v", Name: "s",
			Secrets: secrets, Parameters: map[string]string{"p": "1"}})
		return err
	},
	"DeleteSnapshot": func(ctx context.Context, p *csi.Plugin) error {
		_, err := p.DeleteSnapshot(ctx, &message.ClientCSIControllerDeleteSnapshotRequest{ID: "s", Secrets: secrets})
		return err
	},
	"ListSnapshots": func(ctx context.Context, p *csi.Plugin) error {
		_, err := p.ListSnapshots(ctx, &message.ClientCSIControllerListSnapshotsRequest{MaxEntries: 3, StartingToken: "t", Secrets: secrets})
		return err
	},
	"NodeStageVolume": func(ctx context.Context, p *csi.Plugin) error { return p.NodeStage(ctx, nodeRequest()) },
	"NodePublishVolume": func(ctx context.Context, p *csi.Plugin) error {
		return p.NodePublish(ctx, nodeRequest())
	},
	"NodeUnpublishVolume": func(ctx context.Context, p *csi.Plugin) error { return p.NodeUnpublish(ctx, "v", "/target") },
	"NodeUnstageVolume":   func(ctx context.Context, p *csi.Plugin) error { return p.NodeUnstage(ctx, "v", "/staging") },
	"NodeExpandVolume": func(ctx context.Context, p *csi.Plugin) error {
		_, err := p.NodeExpand(ctx, csi.ExpandRequest{Volume: "v", Path: "/target", Staging: "/staging", Secrets: secrets,
			Capacity: &words.CapacityRange{RequiredBytes: 1}, Capability: able, Options: options})
		return err
	},
}

func nodeRequest() *csi.NodeRequest {
	return &csi.NodeRequest{VolumeID: "v", Staging: "/staging", Target: "/target", Capability: able, Options: options, ReadOnly: true,
		PublishContext: map[string]string{"p": "1"}, VolumeContext: map[string]string{"c": "1"}, Secrets: secrets}
}

// errorTexts has the texts of errors by method and code. A row without text is not an error.
var errorTexts = []struct {
	method string
	code   codes.Code
	want   string
}{
	{"ControllerPublishVolume", codes.NotFound, `volume "v" or node "n" could not be found: `},
	{"ControllerPublishVolume", codes.AlreadyExists, `volume "v" is already published at node "n" but with capabilities or a read_only setting incompatible with this request: `},
	{"ControllerPublishVolume", codes.ResourceExhausted, `node "n" has reached the maximum allowable number of attached volumes: `},
	{"ControllerPublishVolume", codes.FailedPrecondition, `volume "v" is already published on another node and does not have MULTI_NODE volume capability: `},
	{"ControllerPublishVolume", codes.Internal, `controller plugin returned an internal error, check the plugin allocation logs for more information: `},
	{"ControllerUnpublishVolume", codes.NotFound, ""},
	{"ValidateVolumeCapabilities", codes.NotFound, `volume "v" could not be found: `},
	{"CreateVolume", codes.InvalidArgument, `volume "name" snapshot source "s" is not compatible with these parameters: `},
	{"CreateVolume", codes.NotFound, `volume "name" content source "s" does not exist: `},
	{"CreateVolume", codes.AlreadyExists, `volume "name" already exists but is incompatible with these parameters: `},
	{"CreateVolume", codes.ResourceExhausted, `unable to provision "name" in accessible_topology: `},
	{"CreateVolume", codes.OutOfRange, `unsupported capacity_range for volume "name": `},
	{"DeleteVolume", codes.FailedPrecondition, `volume "v" is in use: `},
	{"DeleteVolume", codes.NotFound, `rpc error: code = NotFound desc = `},
	{"ControllerExpandVolume", codes.FailedPrecondition, `volume "v" cannot be expanded online: `},
	{"ControllerExpandVolume", codes.OutOfRange, `unsupported capacity_range for volume "v": `},
	{"DeleteSnapshot", codes.FailedPrecondition, `snapshot "s" could not be deleted because it is in use: `},
	{"DeleteSnapshot", codes.Aborted, `snapshot "s" has a pending operation: `},
	{"ListSnapshots", codes.Internal, `controller plugin returned an internal error, check the plugin allocation logs for more information: `},
	{"NodeStageVolume", codes.NotFound, `volume "v" could not be found: `},
	{"NodeStageVolume", codes.AlreadyExists, `volume "v" is already staged to "/staging" but with incompatible capabilities for this request: `},
	{"NodeStageVolume", codes.FailedPrecondition, `volume "v" does not have MULTI_NODE volume capability: `},
	{"NodeStageVolume", codes.Internal, `node plugin returned an internal error, check the plugin allocation logs for more information: `},
	{"NodePublishVolume", codes.NotFound, `volume "v" could not be found: `},
	{"NodePublishVolume", codes.AlreadyExists, `volume "v" is already published at target path "/target" but with incompatible capabilities for this request: `},
	{"NodePublishVolume", codes.FailedPrecondition, `volume "v" does not have MULTI_NODE volume capability: `},
	{"NodeUnpublishVolume", codes.NotFound, ""},
	{"NodeUnstageVolume", codes.NotFound, ""},
	{"NodeExpandVolume", codes.NotFound, ""},
	{"NodeExpandVolume", codes.FailedPrecondition, `volume "v" cannot be expanded while in use: `},
	{"NodeExpandVolume", codes.OutOfRange, `unsupported capacity_range for volume "v": `},
}

// TestErrors checks the text of each error.
func TestErrors(t *testing.T) {
	code := make(chan codes.Code, 1)
	p := (&fake{answer: func(context.Context, string, any) (any, error) {
		c := <-code
		code <- c
		return nil, status.Error(c, "reason")
	}}).serve(t)
	for _, row := range errorTexts {
		code <- row.code
		err := methods[row.method](t.Context(), p)
		<-code
		want := row.want
		if want != "" {
			want = strings.TrimSuffix(want, "rpc error: code = NotFound desc = ") + fmt.Sprintf("rpc error: code = %s desc = reason", row.code)
		}
		switch {
		case want == "" && err != nil, want != "" && (err == nil || err.Error() != want):
			t.Errorf("%s, %s: %v, want %s", row.method, row.code, err, want)
		case want != "" && csi.Code(err) != row.code:
			t.Errorf("%s: Code() = %s, want %s", row.method, csi.Code(err), row.code)
		}
	}
}

// TestErrors_Secrets checks for each method that its errors are short, on one line, and without secrets and mount flags.
func TestErrors_Secrets(t *testing.T) {
	p := (&fake{answer: func(context.Context, string, any) (any, error) {
		return nil, status.Error(codes.InvalidArgument, "login with hunter2\nand \"hunter2\" failed: mount -o noatime,credentials=/etc/top-secret "+
			"/etc/top-secret \x1b[2J "+strings.Repeat("x", 20000))
	}}).serve(t)
	for name, call := range methods {
		err := call(t.Context(), p)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		text := err.Error()
		if len(text) > 800 || strings.ContainsAny(text, "\n\x1b") {
			t.Errorf("%s: the text has %d bytes, or more than a line: %q", name, len(text), text)
		}
		switch name { // the requests of others have neither secrets nor flags
		case "Probe", "GetPluginInfo", "GetPluginCapabilities", "ControllerGetCapabilities", "NodeGetInfo", "NodeGetCapabilities", "ListVolumes",
			"NodeUnpublishVolume", "NodeUnstageVolume":
			continue
		}
		if strings.Contains(text, "hunter2") {
			t.Errorf("%s: the text has a secret: %s", name, text)
		}
		switch name {
		case "ControllerUnpublishVolume", "DeleteVolume", "ControllerExpandVolume", "CreateSnapshot", "DeleteSnapshot", "ListSnapshots":
			continue
		}
		if strings.Contains(text, "top-secret") || strings.Contains(text, "noatime") {
			t.Errorf("%s: the text has a mount flag: %s", name, text)
		}
	}
}
