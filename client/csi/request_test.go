package csi_test

import (
	"context"
	"strings"
	"testing"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/open-nomad/open-nomad/client/csi"
	"github.com/open-nomad/open-nomad/nomad"
	words "github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
)

const (
	sentMount  = `{mount:{fs_type:"ext4" mount_flags:"noatime" mount_flags:"credentials=/etc/top-secret"} access_mode:{mode:SINGLE_NODE_WRITER}}`
	sentSecret = `secrets:{key:"password" value:"hunter2"}`
)

// sent has what each method sends for the request of methods, in the text form of protobuf.
var sent = map[string]string{
	"Probe":                     "",
	"GetPluginInfo":             "",
	"GetPluginCapabilities":     "",
	"ControllerGetCapabilities": "",
	"NodeGetInfo":               "",
	"NodeGetCapabilities":       "",
	"ControllerPublishVolume": `volume_id:"v" node_id:"n" readonly:true volume_context:{key:"c" value:"1"} ` + sentSecret +
		` volume_capability:` + sentMount,
	"ControllerUnpublishVolume": `volume_id:"v" node_id:"n" ` + sentSecret,
	"ValidateVolumeCapabilities": `volume_id:"v" volume_context:{key:"c" value:"1"} parameters:{key:"p" value:"1"} ` + sentSecret +
		` volume_capabilities:` + sentMount,
	"CreateVolume": `name:"name" capacity_range:{required_bytes:1 limit_bytes:2} parameters:{key:"p" value:"1"} ` + sentSecret +
		` volume_content_source:{snapshot:{snapshot_id:"s"}} accessibility_requirements:{requisite:{segments:{key:"z" value:"1"}}}` +
		` volume_capabilities:` + sentMount,
	"DeleteVolume":           `volume_id:"v" ` + sentSecret,
	"ControllerExpandVolume": `volume_id:"v" capacity_range:{required_bytes:1 limit_bytes:2} ` + sentSecret,
	"ListVolumes":            `max_entries:3 starting_token:"t"`,
	"CreateSnapshot":         `source_volume_id:"v" name:"s" parameters:{key:"p" value:"1"} ` + sentSecret,
	"DeleteSnapshot":         `snapshot_id:"s" ` + sentSecret,
	"ListSnapshots":          `max_entries:3 starting_token:"t" ` + sentSecret,
	"NodeStageVolume": `volume_id:"v" staging_target_path:"/staging" publish_context:{key:"p" value:"1"} volume_context:{key:"c" value:"1"} ` +
		sentSecret + ` volume_capability:` + sentMount,
	"NodePublishVolume": `volume_id:"v" staging_target_path:"/staging" target_path:"/target" readonly:true` +
		` publish_context:{key:"p" value:"1"} volume_context:{key:"c" value:"1"} ` + sentSecret + ` volume_capability:` + sentMount,
	"NodeUnpublishVolume": `volume_id:"v" target_path:"/target"`,
	"NodeUnstageVolume":   `volume_id:"v" staging_target_path:"/staging"`,
	"NodeExpandVolume": `volume_id:"v" volume_path:"/target" staging_target_path:"/staging" capacity_range:{required_bytes:1} ` + sentSecret +
		` volume_capability:` + sentMount,
}

// TestRequests checks what each method sends, and its time limit.
func TestRequests(t *testing.T) {
	type seen struct {
		method string
		req    proto.Message
		limit  time.Duration
	}
	calls := make(chan seen, 1)
	p := (&fake{answer: func(ctx context.Context, method string, req any) (any, error) {
		end, _ := ctx.Deadline()
		calls <- seen{method, req.(proto.Message), time.Until(end)}
		return nil, status.Error(codes.InvalidArgument, "seen")
	}}).serve(t)
	limits := map[string]time.Duration{"Probe": 5 * time.Second, "GetPluginInfo": 5 * time.Second, "GetPluginCapabilities": 30 * time.Second,
		"ControllerGetCapabilities": 30 * time.Second, "NodeGetInfo": 30 * time.Second, "NodeGetCapabilities": 30 * time.Second}
	if len(sent) != len(methods) {
		t.Errorf("%d methods have a request, want %d", len(sent), len(methods))
	}
	for name, call := range methods {
		if err := call(t.Context(), p); csi.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := <-calls
		want := got.req.ProtoReflect().New().Interface()
		if err := prototext.Unmarshal([]byte(sent[name]), want); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got.method != name || !proto.Equal(got.req, want) {
			t.Errorf("%s: sent %s %v, want %v", name, got.method, got.req, want)
		}
		limit := limits[name]
		if limit == 0 {
			limit = 2 * time.Minute
		}
		if got.limit > limit || got.limit < limit/2 {
			t.Errorf("%s: the limit is %s, want %s", name, got.limit, limit)
		}
	}
}

// TestCapabilities checks the modes of the specification.
func TestCapabilities(t *testing.T) {
	var got *spec.VolumeCapability
	p := (&fake{answer: func(_ context.Context, _ string, req any) (any, error) {
		got = req.(*spec.NodeStageVolumeRequest).GetVolumeCapability()
		return &spec.NodeStageVolumeResponse{}, nil
	}}).serve(t)
	for mode, want := range map[nomad.VolumeAccessMode]string{
		"single-node-reader-only": "SINGLE_NODE_READER_ONLY", "single-node-writer": "SINGLE_NODE_WRITER",
		"multi-node-reader-only": "MULTI_NODE_READER_ONLY", "multi-node-single-writer": "MULTI_NODE_SINGLE_WRITER",
		"multi-node-multi-writer": "MULTI_NODE_MULTI_WRITER",
	} {
		for _, block := range []bool{false, true} {
			req := nodeRequest()
			req.Capability = words.Capability{AccessMode: mode, AttachmentMode: nomad.VolumeAttachFilesystem}
			if block {
				req.Capability.AttachmentMode = nomad.VolumeAttachBlockDevice
			}
			if err := p.NodeStage(t.Context(), req); err != nil {
				t.Errorf("%s: %v", mode, err)
				continue
			}
			if got.GetAccessMode().GetMode().String() != want || (got.GetBlock() != nil) != block || (got.GetMount() != nil) == block {
				t.Errorf("%s, block %v: sent %v", mode, block, got)
			}
		}
	}
}

// TestRefusedRequests checks that incomplete requests are not sent.
func TestRefusedRequests(t *testing.T) {
	p := (&fake{answer: func(_ context.Context, method string, _ any) (any, error) {
		t.Errorf("%s was sent", method)
		return nil, status.Error(codes.Internal, "sent")
	}}).serve(t)
	node := func(edit func(*csi.NodeRequest)) *csi.NodeRequest {
		req := nodeRequest()
		edit(req)
		return req
	}
	for want, call := range map[string]func(ctx context.Context) error{
		"missing volume ID": func(ctx context.Context) error { return p.NodeUnpublish(ctx, "", "/target") },
		"missing path":      func(ctx context.Context) error { return p.NodeUnstage(ctx, "v", "") },
		"missing node ID": func(ctx context.Context) error {
			_, err := p.DetachVolume(ctx, &message.ClientCSIControllerDetachVolumeRequest{VolumeID: "v"})
			return err
		},
		"missing Name": func(ctx context.Context) error {
			_, err := p.CreateVolume(ctx, &message.ClientCSIControllerCreateVolumeRequest{})
			return err
		},
		"missing capacity range": func(ctx context.Context) error {
			_, err := p.ExpandVolume(ctx, &message.ClientCSIControllerExpandVolumeRequest{ExternalVolumeID: "v"})
			return err
		},
		"missing snapshot ID": func(ctx context.Context) error {
			_, err := p.DeleteSnapshot(ctx, &message.ClientCSIControllerDeleteSnapshotRequest{})
			return err
		},
		"no capability": func(ctx context.Context) error {
			_, err := p.ValidateVolume(ctx, &message.ClientCSIControllerValidateVolumeRequest{VolumeID: "v"})
			return err
		},
		"unknown volume access mode: many": func(ctx context.Context) error {
			return p.NodeStage(ctx, node(func(r *csi.NodeRequest) { r.Capability.AccessMode = "many" }))
		},
		"unknown volume attachment mode: tape": func(ctx context.Context) error {
			return p.NodePublish(ctx, node(func(r *csi.NodeRequest) { r.Capability.AttachmentMode = "tape" }))
		},
	} {
		if err := call(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
