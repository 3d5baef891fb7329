package rules_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/rules"
)

// csiVolume returns a valid volume after an edit.
func csiVolume(edit func(*csi.Volume)) *csi.Volume {
	v := &csi.Volume{ID: "db[0]", Name: "db", Namespace: "default", PluginID: "ebs", ExternalID: "vol-1",
		RequestedCapabilities: []*csi.Capability{{AttachmentMode: nomad.VolumeAttachFilesystem, AccessMode: nomad.VolumeSingleNodeWriter}}}
	edit(v)
	return v
}

func zone(name string) *nomad.CSITopology {
	return &nomad.CSITopology{Segments: map[string]string{"zone": name}}
}

func TestCSIVolume(t *testing.T) {
	big := map[string]string{"a": strings.Repeat("x", 64<<10)}
	for name, c := range map[string]struct {
		edit func(*csi.Volume)
		want string // the complete error, or a part of it after "..."
	}{
		"valid": {func(*csi.Volume) {}, ""},
		"empty": {func(v *csi.Volume) { *v = csi.Volume{} },
			"validation: missing volume id, missing plugin id, missing namespace, must include at least one capability block"},
		"two sources": {func(v *csi.Volume) { v.SnapshotID, v.CloneID = "s", "c" },
			"validation: only one of snapshot_id and clone_id is allowed"},
		"no segments": {func(v *csi.Volume) { v.RequestedTopologies = &csi.TopologyRequest{Required: []*nomad.CSITopology{{}}} },
			"validation: required topology is missing segments field"},
		"nil topology": {func(v *csi.Volume) {
			v.RequestedTopologies = &csi.TopologyRequest{Preferred: []*nomad.CSITopology{nil}}
		}, "validation: preferred topology is missing segments field"},
		"a slash":     {func(v *csi.Volume) { v.ID = "../x" }, "...volume id must have"},
		"parent":      {func(v *csi.Volume) { v.ID = ".." }, "...volume id must have"},
		"a line":      {func(v *csi.Volume) { v.ID = "a\nb" }, "...volume id must have"},
		"long ID":     {func(v *csi.Volume) { v.ID = strings.Repeat("x", 256) }, "...volume id must have"},
		"plugin":      {func(v *csi.Volume) { v.PluginID = "a/b" }, "...plugin id must have"},
		"name":        {func(v *csi.Volume) { v.Name = "a\x00" }, "...name is longer"},
		"external ID": {func(v *csi.Volume) { v.ExternalID = strings.Repeat("x", 1025) }, "...the ID \"xxxx"},
		"negative":    {func(v *csi.Volume) { v.RequestedCapacityMin = -1 }, "validation: a capacity is negative"},
		"nil capability": {func(v *csi.Volume) { v.RequestedCapabilities = []*csi.Capability{nil} },
			"validation: a capability block is empty"},
		"access mode": {func(v *csi.Volume) { v.RequestedCapabilities[0].AccessMode = "all" },
			`validation: unknown access mode "all"`},
		"attachment": {func(v *csi.Volume) { v.RequestedCapabilities[0].AttachmentMode = "usb" },
			`validation: unknown attachment mode "usb"`},
		"no mode":    {func(v *csi.Volume) { v.RequestedCapabilities[0] = &csi.Capability{} }, ""},
		"parameters": {func(v *csi.Volume) { v.Parameters = big }, "...parameters have more than"},
		"context":    {func(v *csi.Volume) { v.Context = big }, "...the context has more than"},
		"segments": {func(v *csi.Volume) { v.Topologies = []*nomad.CSITopology{{Segments: big}} },
			"...the segments of a topology"},
		"many flags": {func(v *csi.Volume) { v.MountOptions = &nomad.CSIMountOptions{MountFlags: make([]string, 257)} },
			"...more than 256"},
	} {
		err := rules.CSIVolume(csiVolume(c.edit))
		got := ""
		if err != nil {
			got = err.Error()
		}
		if part, ok := strings.CutPrefix(c.want, "..."); ok && strings.Contains(got, part) || got == c.want {
			continue
		}
		t.Errorf("%s: CSIVolume() = %q, want %q", name, got, c.want)
	}
}

func TestNewCSIVolume(t *testing.T) {
	v := csiVolume(func(v *csi.Volume) { v.MountOptions = &nomad.CSIMountOptions{MountFlags: []string{"noatime"}} })
	if err := rules.NewCSIVolume(v); err != nil {
		t.Errorf("NewCSIVolume() = %v", err)
	}
	if rules.NewCSIVolume(v.Redacted()) == nil {
		t.Error("a new volume may have the hidden flags of a reply")
	}
}

func TestCSIVolumeUpdate(t *testing.T) {
	old := csiVolume(func(v *csi.Volume) {
		v.MountOptions = &nomad.CSIMountOptions{FSType: "ext4", MountFlags: []string{"noatime"}}
		v.Parameters, v.Context = map[string]string{"a": "b"}, map[string]string{"c": "d"}
		v.Topologies = []*nomad.CSITopology{nil, zone("z1")}
		v.CloneID, v.Capacity = "clone", 7
	})
	for name, c := range map[string]struct {
		used bool
		edit func(*csi.Volume) // of the request, which has the same capability, name and plugin
		want string            // the error
	}{
		"nothing":        {false, func(*csi.Volume) {}, ""},
		"nothing in use": {true, func(v *csi.Volume) { v.MountOptions = old.MountOptions }, ""},
		"name":           {false, func(v *csi.Volume) { v.Name = "x" }, "volume name cannot be updated"},
		"external ID":    {false, func(v *csi.Volume) { v.ExternalID = "x" }, "volume external ID cannot be updated"},
		"clone":          {false, func(v *csi.Volume) { v.CloneID = "x" }, "volume clone ID cannot be updated"},
		"snapshot and plugin": {false, func(v *csi.Volume) { v.SnapshotID, v.PluginID = "x", "y" },
			"volume snapshot ID cannot be updated, volume plugin ID cannot be updated"},
		"no plugin":    {false, func(v *csi.Volume) { v.PluginID = "" }, "volume plugin ID cannot be updated"},
		"empty fields": {false, func(v *csi.Volume) { v.Name, v.ExternalID = "", "" }, ""},
		"parameters": {false, func(v *csi.Volume) { v.Parameters = map[string]string{"a": "c"} },
			"volume parameters cannot be updated"},
		"same parameters": {false, func(v *csi.Volume) { v.Parameters = map[string]string{"a": "b"} }, ""},
		"mode in use": {true, func(v *csi.Volume) { v.MountOptions, v.RequestedCapabilities = old.MountOptions, []*csi.Capability{{}} },
			"volume requested capabilities update was not compatible with existing capability in use"},
		"mode": {false, func(v *csi.Volume) { v.RequestedCapabilities = []*csi.Capability{{}} }, ""},
		"options in use": {true, func(v *csi.Volume) { v.MountOptions = &nomad.CSIMountOptions{FSType: "xfs"} },
			"can not update mount options while volume is in use"},
		"no options in use":     {true, func(*csi.Volume) {}, "can not update mount options while volume is in use"},
		"hidden options in use": {true, func(v *csi.Volume) { v.MountOptions = old.Redacted().MountOptions }, ""},
		"options":               {false, func(v *csi.Volume) { v.MountOptions = &nomad.CSIMountOptions{FSType: "xfs"} }, ""},
		"same topology": {false, func(v *csi.Volume) {
			v.RequestedTopologies = &csi.TopologyRequest{Required: []*nomad.CSITopology{zone("z2"), zone("z1")}}
		}, ""},
		"another topology": {false, func(v *csi.Volume) {
			v.RequestedTopologies = &csi.TopologyRequest{Required: []*nomad.CSITopology{zone("z2")}}
		}, "volume topology request update was not compatible with existing topology"},
		"only preferred, any zone": {false, func(v *csi.Volume) {
			v.RequestedTopologies = &csi.TopologyRequest{Preferred: []*nomad.CSITopology{zone("z2")}}
		}, ""},
	} {
		stored := *old
		if c.used {
			stored.WriteClaims = map[string]*csi.Claim{"a": {}}
			stored.AccessMode, stored.AttachmentMode = nomad.VolumeSingleNodeWriter, nomad.VolumeAttachFilesystem
		}
		_, err := rules.CSIVolumeUpdate(&stored, csiVolume(c.edit))
		if got := text(err); got != c.want {
			t.Errorf("%s: CSIVolumeUpdate() = %q, want %q", name, got, c.want)
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// What a request sets is changed, everything else remains, and neither volume is written to.
func TestCSIVolumeUpdate_Merged(t *testing.T) {
	old := csiVolume(func(v *csi.Volume) {
		v.MountOptions = &nomad.CSIMountOptions{FSType: "ext4", MountFlags: []string{"password=x"}}
		v.Context, v.Parameters, v.Capacity = map[string]string{"c": "d"}, map[string]string{"a": "b"}, 7
		v.Sealed, v.CreateIndex = &csi.Sealed{KeyID: "k"}, 3
		v.PastClaims = map[string]*csi.Claim{"a": {}}
	})
	request := csiVolume(func(v *csi.Volume) {
		v.MountOptions = &nomad.CSIMountOptions{FSType: "ext4", MountFlags: []string{"[REDACTED]"}}
		v.Capacity, v.Context = 99, map[string]string{"e": "f"}
		v.Topologies = []*nomad.CSITopology{zone("z1")}
		v.RequestedCapabilities = append(v.RequestedCapabilities, &csi.Capability{AccessMode: nomad.VolumeMultiNodeReader})
	})
	want := *old
	want.Context, want.RequestedCapabilities, want.Topologies = request.Context, request.RequestedCapabilities, request.Topologies
	got, err := rules.CSIVolumeUpdate(old, request)
	if err != nil || !reflect.DeepEqual(got, &want) {
		t.Errorf("CSIVolumeUpdate() = %+v, %v\nwant %+v", got, err, &want)
	}
	if len(old.RequestedCapabilities) != 1 || len(old.Topologies) != 0 || request.MountOptions.MountFlags[0] != "[REDACTED]" {
		t.Error("CSIVolumeUpdate() changes its arguments")
	}
}
