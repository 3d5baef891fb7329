package csi_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"strings"
	"testing"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/open-nomad/open-nomad/client/csi"
	"github.com/open-nomad/open-nomad/nomad"
	words "github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// answering returns a plugin that has an answer for one method.
func answering(t *testing.T, answer proto.Message) *csi.Plugin {
	t.Helper()
	return (&fake{answer: func(_ context.Context, method string, _ any) (any, error) {
		if string(answer.ProtoReflect().Descriptor().Name()) != method+"Response" {
			return nil, nil
		}
		return answer, nil
	}}).serve(t)
}

func volume(edit func(*spec.Volume)) *spec.CreateVolumeResponse {
	v := &spec.Volume{VolumeId: "v-1", CapacityBytes: 5}
	edit(v)
	return &spec.CreateVolumeResponse{Volume: v}
}

func listedVolume(v *spec.Volume) *spec.ListVolumesResponse {
	return &spec.ListVolumesResponse{Entries: []*spec.ListVolumesResponse_Entry{{Volume: v}}}
}

func snapshot(edit func(*spec.Snapshot)) *spec.CreateSnapshotResponse {
	s := &spec.Snapshot{SnapshotId: "s-1", SourceVolumeId: "v"}
	edit(s)
	return &spec.CreateSnapshotResponse{Snapshot: s}
}

func longMap(bytes int) map[string]string {
	return map[string]string{"k": strings.Repeat("x", bytes-1)}
}

func manyTopologies(n int) (out []*spec.Topology) {
	for i := range n {
		out = append(out, &spec.Topology{Segments: map[string]string{"z": fmt.Sprint(i)}})
	}
	return out
}

// TestInvalidAnswers checks that answers which violate the specification or a limit are errors.
func TestInvalidAnswers(t *testing.T) {
	long := strings.Repeat("x", 2000)
	for name, c := range map[string]struct {
		answer proto.Message
		want   string
	}{
		"no volume":             {&spec.CreateVolumeResponse{}, "it has no volume"},
		"no volume ID":          {volume(func(v *spec.Volume) { v.VolumeId = "" }), "the volume ID is empty"},
		"long volume ID":        {volume(func(v *spec.Volume) { v.VolumeId = long }), "the volume ID has 2000 bytes, at most 1024 are allowed"},
		"volume ID with lines":  {volume(func(v *spec.Volume) { v.VolumeId = "a\nb" }), "the volume ID has control characters"},
		"negative capacity":     {volume(func(v *spec.Volume) { v.CapacityBytes = -1 }), "the capacity is -1, which is negative"},
		"large volume context":  {volume(func(v *spec.Volume) { v.VolumeContext = longMap(4097) }), "the volume context has 4097 bytes, at most 4096 are allowed"},
		"other snapshot":        {volume(func(v *spec.Volume) { v.ContentSource = fromSnapshot("other") }), `the volume has the content of snapshot "other" and volume "", want snapshot "s" and volume ""`},
		"many topologies":       {volume(func(v *spec.Volume) { v.AccessibleTopology = manyTopologies(257) }), "it has 257 topologies, at most 256 are allowed"},
		"nameless topology":     {volume(func(v *spec.Volume) { v.AccessibleTopology = []*spec.Topology{{Segments: map[string]string{"": "x"}}} }), "a topology has a segment without a name"},
		"large publish context": {&spec.ControllerPublishVolumeResponse{PublishContext: longMap(5000)}, "the publish context has 5000 bytes, at most 4096 are allowed"},
		"negative expansion":    {&spec.ControllerExpandVolumeResponse{CapacityBytes: -2}, "the capacity is -2, which is negative"},
		"node expansion":        {&spec.NodeExpandVolumeResponse{CapacityBytes: -2}, "the capacity is -2, which is negative"},
		"no snapshot":           {&spec.CreateSnapshotResponse{}, "it has no snapshot"},
		"no snapshot ID":        {snapshot(func(s *spec.Snapshot) { s.SnapshotId = "" }), "the snapshot ID is empty"},
		"negative snapshot":     {snapshot(func(s *spec.Snapshot) { s.SizeBytes = -5 }), "the size of the snapshot is -5, which is negative"},
		"other volume":          {snapshot(func(s *spec.Snapshot) { s.SourceVolumeId = "w" }), `the snapshot is of volume "w", want "v"`},
		"listed without ID":     {listedVolume(&spec.Volume{}), "a volume ID is empty"},
		"listed negative":       {listedVolume(&spec.Volume{VolumeId: "v", CapacityBytes: -1}), "the capacity is -1, which is negative"},
		"listed snapshot":       {&spec.ListSnapshotsResponse{Entries: []*spec.ListSnapshotsResponse_Entry{{Snapshot: &spec.Snapshot{}}}}, "the snapshot ID is empty"},
		"long page token":       {&spec.ListVolumesResponse{NextToken: strings.Repeat("t", 5000)}, "the token of the next page has 5000 bytes, at most 4096 are allowed"},
		"long page":             {&spec.ListVolumesResponse{Entries: make([]*spec.ListVolumesResponse_Entry, 20001)}, "the page has 20001 entries, at most 20000 are allowed: request fewer with per_page"},
		"no node ID":            {&spec.NodeGetInfoResponse{}, "plugin failed to return nodeid"},
		"negative limit":        {&spec.NodeGetInfoResponse{NodeId: "n", MaxVolumesPerNode: -1}, "max_volumes_per_node is -1, which is negative"},
		"no name":               {&spec.GetPluginInfoResponse{}, "the name is empty"},
		"name with escapes":     {&spec.GetPluginInfoResponse{Name: "a\x1b[2J"}, "the name has control characters"},
		"long version":          {&spec.GetPluginInfoResponse{Name: "a", VendorVersion: long}, "the version has 2000 bytes, at most 128 are allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			method := strings.TrimSuffix(string(c.answer.ProtoReflect().Descriptor().Name()), "Response")
			err := methods[method](t.Context(), answering(t, c.answer))
			want := "invalid answer of the plugin to " + method + ": " + c.want
			if err == nil || err.Error() != want || csi.Code(err) != codes.DataLoss {
				t.Errorf("%v, want %s", err, want)
			}
		})
	}
}

func fromSnapshot(id string) *spec.VolumeContentSource {
	return &spec.VolumeContentSource{Type: &spec.VolumeContentSource_Snapshot{Snapshot: &spec.VolumeContentSource_SnapshotSource{SnapshotId: id}}}
}

// TestCreateVolume checks the reply for a new volume. Topologies without segments are left out.
func TestCreateVolume(t *testing.T) {
	p := answering(t, volume(func(v *spec.Volume) {
		v.VolumeContext = map[string]string{"c": "1"}
		v.AccessibleTopology = []*spec.Topology{{}, {Segments: map[string]string{"zone": "a"}}}
	}))
	got, err := p.CreateVolume(t.Context(), &message.ClientCSIControllerCreateVolumeRequest{Name: "n", VolumeCapabilities: []*words.Capability{&able}})
	want := &message.ClientCSIControllerCreateVolumeResponse{ExternalVolumeID: "v-1", CapacityBytes: 5, VolumeContext: map[string]string{"c": "1"},
		Topologies: []*nomad.CSITopology{{Segments: map[string]string{"zone": "a"}}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("CreateVolume() = %+v, %v, want %+v", got, err, want)
	}
}

// TestListVolumes checks a listed volume, also with the condition of earlier versions of the specification.
func TestListVolumes(t *testing.T) {
	status := &spec.ListVolumesResponse_VolumeStatus{PublishedNodeIds: []string{"n-1"}}
	condition := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1)
	condition = protowire.AppendString(protowire.AppendTag(condition, 2, protowire.BytesType), "disk\n"+strings.Repeat("x", 600))
	status.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), condition))
	p := answering(t, &spec.ListVolumesResponse{NextToken: "next", Entries: []*spec.ListVolumesResponse_Entry{{}, {
		Volume: &spec.Volume{VolumeId: "v", CapacityBytes: 7, VolumeContext: map[string]string{"c": "1"}, ContentSource: fromSnapshot("s")},
		Status: status}}})
	got, err := p.ListVolumes(t.Context(), &message.ClientCSIControllerListVolumesRequest{})
	want := &message.ClientCSIControllerListVolumesResponse{NextToken: "next", Entries: []*words.ExternalStub{{ExternalID: "v", CapacityBytes: 7,
		VolumeContext: map[string]string{"c": "1"}, SnapshotID: "s", PublishedExternalNodeIDs: []string{"n-1"}, IsAbnormal: true,
		Status: "disk " + strings.Repeat("x", 507) + "..."}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("ListVolumes() = %+v, %v, want %+v", got.Entries, err, want.Entries)
	}
}

// TestSnapshots checks the replies for snapshots.
func TestSnapshots(t *testing.T) {
	full := &spec.Snapshot{SnapshotId: "s-1", SourceVolumeId: "v", SizeBytes: 9, ReadyToUse: true, CreationTime: &timestamppb.Timestamp{Seconds: 77}}
	p := answering(t, &spec.CreateSnapshotResponse{Snapshot: full})
	made, err := p.CreateSnapshot(t.Context(), &message.ClientCSIControllerCreateSnapshotRequest{ExternalSourceVolumeID: "v", Name: "n"})
	if want := (message.ClientCSIControllerCreateSnapshotResponse{ID: "s-1", ExternalSourceVolumeID: "v", SizeBytes: 9, CreateTime: 77,
		IsReady: true}); err != nil || *made != want {
		t.Errorf("CreateSnapshot() = %+v, %v, want %+v", made, err, want)
	}
	p = answering(t, &spec.ListSnapshotsResponse{NextToken: "t", Entries: []*spec.ListSnapshotsResponse_Entry{{}, {Snapshot: full}}})
	all, err := p.ListSnapshots(t.Context(), &message.ClientCSIControllerListSnapshotsRequest{})
	want := &message.ClientCSIControllerListSnapshotsResponse{NextToken: "t", Entries: []*words.Snapshot{{ID: "s-1", ExternalSourceVolumeID: "v",
		SizeBytes: 9, CreateTime: 77, IsReady: true}}}
	if err != nil || !reflect.DeepEqual(all, want) {
		t.Errorf("ListSnapshots() = %+v, %v, want %+v", all, err, want)
	}
}

// flags are the names of the fields of a struct that are true.
func flags(of any) (out []string) {
	v := reflect.ValueOf(of).Elem()
	for i := range v.NumField() {
		if v.Field(i).Kind() == reflect.Bool && v.Field(i).Bool() {
			out = append(out, v.Type().Field(i).Name)
		}
	}
	return out
}

// TestControllerInfo checks each capability by its number. 11 is one of earlier versions of the specification.
func TestControllerInfo(t *testing.T) {
	want := map[int]string{1: "SupportsCreateDelete", 2: "SupportsAttachDetach", 3: "SupportsListVolumes", 4: "SupportsGetCapacity",
		5: "SupportsCreateDeleteSnapshot", 6: "SupportsListSnapshots", 7: "SupportsClone", 8: "SupportsReadOnlyAttach", 9: "SupportsExpand",
		10: "SupportsListVolumesAttachedNodes", 11: "SupportsCondition", 12: "SupportsGet", 13: "", 99: ""}
	for number, field := range want {
		p := answering(t, &spec.ControllerGetCapabilitiesResponse{Capabilities: []*spec.ControllerServiceCapability{{},
			{Type: &spec.ControllerServiceCapability_Rpc{Rpc: &spec.ControllerServiceCapability_RPC{
				Type: spec.ControllerServiceCapability_RPC_Type(number)}}}}})
		info, err := p.ControllerInfo(t.Context())
		if err != nil || strings.Join(flags(info), " ") != field {
			t.Errorf("capability %d: %v, %v, want %s", number, flags(info), err, field)
		}
	}
}

// TestNodeInfo checks the description of a node.
func TestNodeInfo(t *testing.T) {
	want := map[int]string{1: "RequiresNodeStageVolume", 2: "SupportsStats", 3: "SupportsExpand", 4: "SupportsCondition", 5: "", 99: ""}
	for number, field := range want {
		p := (&fake{answer: func(_ context.Context, method string, _ any) (any, error) {
			if method == "NodeGetInfo" {
				return &spec.NodeGetInfoResponse{NodeId: "n-1", AccessibleTopology: &spec.Topology{Segments: map[string]string{"zone": "a"}}}, nil
			}
			return &spec.NodeGetCapabilitiesResponse{Capabilities: []*spec.NodeServiceCapability{{}, {Type: &spec.NodeServiceCapability_Rpc{
				Rpc: &spec.NodeServiceCapability_RPC{Type: spec.NodeServiceCapability_RPC_Type(number)}}}}}, nil
		}}).serve(t)
		info, err := p.NodeInfo(t.Context())
		if err != nil || strings.Join(flags(info), " ") != field || info.ID != "n-1" || info.MaxVolumes != math.MaxInt64 ||
			!maps.Equal(info.AccessibleTopology.Segments, map[string]string{"zone": "a"}) {
			t.Errorf("capability %d: %+v, %v, want %s", number, info, err, field)
		}
	}
}

// TestTraits checks the capabilities of the plugin as a whole.
func TestTraits(t *testing.T) {
	for number, want := range map[int]csi.Traits{0: {}, 1: {RequiresController: true}, 2: {RequiresTopologies: true}, 9: {}} {
		p := answering(t, &spec.GetPluginCapabilitiesResponse{Capabilities: []*spec.PluginCapability{{}, {Type: &spec.PluginCapability_Service_{
			Service: &spec.PluginCapability_Service{Type: spec.PluginCapability_Service_Type(number)}}}}})
		if got, err := p.Traits(t.Context()); err != nil || got != want {
			t.Errorf("capability %d: Traits() = %+v, %v, want %+v", number, got, err, want)
		}
	}
}

// TestValidateVolume checks which confirmed capabilities are accepted.
func TestValidateVolume(t *testing.T) {
	const mode = `access_mode:{mode:SINGLE_NODE_WRITER}`
	const fits = `{mount:{fs_type:"ext4" mount_flags:"credentials=/etc/top-secret" mount_flags:"noatime"} ` + mode + `}`
	for name, c := range map[string]struct{ confirmed, want string }{
		"nothing confirmed": {"", ""},
		"the same":          {fits, ""},
		"one of several":    {`{block:{} ` + mode + `} volume_capabilities:` + fits, ""},
		"access mode": {`{mount:{} access_mode:{mode:MULTI_NODE_READER_ONLY}}`,
			"requested access mode SINGLE_NODE_WRITER, got MULTI_NODE_READER_ONLY"},
		"block":       {`{block:{} ` + mode + `}`, "'block-device' access type was not requested but was validated by the controller"},
		"file system": {`{mount:{fs_type:"xfs"} ` + mode + `}`, "requested filesystem type ext4, got xfs"},
		"mount flags": {`{mount:{fs_type:"ext4"} ` + mode + `}`, "requested mount flags did not match available capabilities"},
		"two reasons": {`{mount:{fs_type:"xfs"} ` + mode + `} volume_capabilities:{mount:{fs_type:"ext4"} ` + mode + `}`,
			"requested filesystem type ext4, got xfs, requested mount flags did not match available capabilities"},
	} {
		answer := &spec.ValidateVolumeCapabilitiesResponse{}
		if c.confirmed != "" {
			text := "confirmed:{volume_capabilities:" + c.confirmed + "}"
			if err := prototext.Unmarshal([]byte(text), answer); err != nil {
				t.Fatal(err)
			}
		}
		err := methods["ValidateVolumeCapabilities"](t.Context(), answering(t, answer))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (!errors.Is(err, csi.ErrMismatch) || err.Error() != "volume capability validation failed: "+c.want):
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// TestValidateVolume_Block checks the texts for a block device that the plugin does not confirm.
func TestValidateVolume_Block(t *testing.T) {
	for confirmed, want := range map[string]string{
		"mount:{}": "'file-system' access type was not requested but was validated by the controller",
		"":         "requested access type 'block-device' was not validated by the controller",
		"block:{}": "",
	} {
		answer := &spec.ValidateVolumeCapabilitiesResponse{}
		text := "confirmed:{volume_capabilities:{" + confirmed + " access_mode:{mode:SINGLE_NODE_WRITER}}}"
		if err := prototext.Unmarshal([]byte(text), answer); err != nil {
			t.Fatal(err)
		}
		_, err := answering(t, answer).ValidateVolume(t.Context(), &message.ClientCSIControllerValidateVolumeRequest{VolumeID: "v",
			AccessMode: able.AccessMode, AttachmentMode: nomad.VolumeAttachBlockDevice})
		if want == "" && err != nil || want != "" && (err == nil || err.Error() != "volume capability validation failed: "+want) {
			t.Errorf("%q: %v, want %s", confirmed, err, want)
		}
	}
}
