package csi

import (
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

// TestFree has the table of ReadFree, with each combination of readers and writers.
func TestFree(t *testing.T) {
	const always, never = "any", "-"
	for mode, want := range map[nomad.VolumeAccessMode]struct{ read, write string }{
		"":                                {always, always},
		nomad.VolumeSingleNodeReader:      {"no readers", never},
		nomad.VolumeSingleNodeWriter:      {"no claims", "no writers"},
		nomad.VolumeMultiNodeReader:       {always, never},
		nomad.VolumeMultiNodeSingleWriter: {always, "no writers"},
		nomad.VolumeMultiNodeMultiWriter:  {always, always},
		"other":                           {never, never},
	} {
		for readers := range 2 {
			for writers := range 2 {
				v := &Volume{AccessMode: mode, ReadClaims: map[string]*Claim{}, WriteClaims: map[string]*Claim{}}
				if readers > 0 {
					v.ReadClaims["r"] = &Claim{}
				}
				if writers > 0 {
					v.WriteClaims["w"] = &Claim{}
				}
				holds := func(when string) bool {
					return when == always || when == "no readers" && readers == 0 || when == "no writers" && writers == 0 ||
						when == "no claims" && readers+writers == 0
				}
				if got := v.ReadFree(); got != holds(want.read) {
					t.Errorf("%q, %d readers, %d writers: ReadFree() = %t", mode, readers, writers, got)
				}
				if got := v.WriteFree(); got != holds(want.write) {
					t.Errorf("%q, %d readers, %d writers: WriteFree() = %t", mode, readers, writers, got)
				}
			}
		}
	}
}

func TestAllowsWrites(t *testing.T) {
	for name, c := range map[string]struct {
		current nomad.VolumeAccessMode
		of      []nomad.VolumeAccessMode
		want    bool
	}{
		"a writer":               {"", []nomad.VolumeAccessMode{nomad.VolumeMultiNodeReader, nomad.VolumeSingleNodeWriter}, true},
		"readers":                {"", []nomad.VolumeAccessMode{nomad.VolumeMultiNodeReader, nomad.VolumeSingleNodeReader}, false},
		"none":                   {"", nil, false},
		"the current mode reads": {nomad.VolumeMultiNodeReader, []nomad.VolumeAccessMode{nomad.VolumeSingleNodeWriter}, false},
		"the current mode":       {nomad.VolumeMultiNodeSingleWriter, nil, true},
	} {
		v := &Volume{AccessMode: c.current, RequestedCapabilities: []*Capability{nil}}
		for _, m := range c.of {
			v.RequestedCapabilities = append(v.RequestedCapabilities, &Capability{AccessMode: m})
		}
		if got := v.AllowsWrites(); got != c.want {
			t.Errorf("%s: AllowsWrites() = %t, want %t", name, got, c.want)
		}
	}
}
