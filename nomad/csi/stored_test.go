package csi

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
)

// TestCanonicalize has records as other builds write them.
func TestCanonicalize(t *testing.T) {
	type allocs = map[string]*nomad.Allocation
	type claims = map[string]*Claim
	for name, c := range map[string]struct {
		v             Volume
		reads, writes string // the allocations with a claim
		past          string
		mode          nomad.VolumeAccessMode
	}{
		"empty": {Volume{}, "", "", "", ""},
		"modes without a claim": {Volume{AccessMode: nomad.VolumeSingleNodeWriter, AttachmentMode: nomad.VolumeAttachFilesystem,
			ReadClaims: claims{"x": nil}}, "", "", "", ""},
		"allocations without a claim": {Volume{ReadAllocs: allocs{"r": {ID: "r"}}, WriteAllocs: allocs{"w": nil}}, "r", "w", "",
			nomad.VolumeSingleNodeWriter},
		"claims without an allocation": {Volume{ReadClaims: claims{"r": {AllocationID: "r", AccessMode: nomad.VolumeMultiNodeReader}}},
			"r", "", "", nomad.VolumeMultiNodeReader},
		"only a past claim": {Volume{PastClaims: claims{"w": {AllocationID: "w", Mode: ClaimWrite, State: ClaimNodeDetached,
			AccessMode: nomad.VolumeMultiNodeMultiWriter}}}, "", "w", "w", nomad.VolumeMultiNodeMultiWriter},
		"both": {Volume{ReadAllocs: allocs{"a": nil}, WriteAllocs: allocs{"a": nil},
			ReadClaims:  claims{"a": {AllocationID: "a"}},
			WriteClaims: claims{"a": {AllocationID: "a", Mode: ClaimWrite, AccessMode: nomad.VolumeMultiNodeSingleWriter}}}, "a", "a", "",
			nomad.VolumeMultiNodeSingleWriter},
	} {
		v := c.v
		v.Canonicalize()
		if got := keysOf(v.ReadClaims); got != c.reads || keysOf(v.ReadAllocs) != got {
			t.Errorf("%s: readers %q and %q, want %q", name, got, keysOf(v.ReadAllocs), c.reads)
		}
		if got := keysOf(v.WriteClaims); got != c.writes || keysOf(v.WriteAllocs) != got {
			t.Errorf("%s: writers %q and %q, want %q", name, got, keysOf(v.WriteAllocs), c.writes)
		}
		if got := keysOf(v.PastClaims); got != c.past {
			t.Errorf("%s: past claims %q, want %q", name, got, c.past)
		}
		if v.AccessMode != c.mode || (v.AttachmentMode == "") != (c.mode == "") {
			t.Errorf("%s: the modes are %q and %q, want %q", name, v.AccessMode, v.AttachmentMode, c.mode)
		}
		for _, a := range v.ReadAllocs {
			if a != nil {
				t.Errorf("%s: the allocation %s is stored in the volume", name, a.ID)
			}
		}
		again := v
		if again.Canonicalize(); !reflect.DeepEqual(again, v) {
			t.Errorf("%s: a second time gives %+v, want %+v", name, again, v)
		}
	}
}

func keysOf[V any](m map[string]V) string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	return strings.Join(out, " ")
}

func TestSucceed(t *testing.T) {
	old := &Volume{ID: "v", ExternalID: "e", PluginID: "p", Provider: "x", AccessMode: nomad.VolumeSingleNodeWriter,
		WriteClaims: map[string]*Claim{"a": {}}, CreateIndex: 3}
	for name, c := range map[string]struct {
		v    Volume
		want error
	}{
		"same":             {Volume{ExternalID: "e", PluginID: "p", Provider: "x"}, nil},
		"without provider": {Volume{ExternalID: "e", PluginID: "p"}, nil},
		"provider":         {Volume{ExternalID: "e", PluginID: "p", Provider: "y"}, ErrIdentity},
		"plugin":           {Volume{ExternalID: "e", PluginID: "q"}, ErrIdentity},
		"external ID":      {Volume{PluginID: "p"}, ErrIdentity},
	} {
		v := c.v
		if err := v.Succeed(old); !errors.Is(err, c.want) {
			t.Errorf("%s: Succeed() = %v, want %v", name, err, c.want)
		} else if err == nil && (v.Provider != "x" || len(v.WriteClaims) != 1 || v.CreateIndex != 3 || v.AccessMode != old.AccessMode) {
			t.Errorf("%s: the successor is %+v", name, v)
		}
	}
	first := Volume{ExternalID: "e", PluginID: "p", Provider: "x"}
	if err := first.Succeed(&Volume{ExternalID: "e", PluginID: "p"}); err != nil {
		t.Errorf("a volume without a provider: %v", err)
	}
}

// TestUnclaimed fills every field of a volume, so that a new field needs a decision here.
func TestUnclaimed(t *testing.T) {
	v := &Volume{}
	fields := reflect.ValueOf(v).Elem()
	for i := range fields.NumField() {
		fill(fields.Field(i))
	}
	out := reflect.ValueOf(v.Unclaimed()).Elem()
	cleared := map[string]bool{"AccessMode": true, "AttachmentMode": true, "ReadAllocs": true, "WriteAllocs": true, "ReadClaims": true,
		"WriteClaims": true, "PastClaims": true, "Schedulable": true, "ControllerRequired": true, "ControllersHealthy": true,
		"ControllersExpected": true, "NodesHealthy": true, "NodesExpected": true, "Allocations": true, "Releases": true}
	for i := range out.NumField() {
		name := out.Type().Field(i).Name
		field := out.Field(i)
		empty := field.IsZero() || field.Kind() == reflect.Map && field.Len() == 0
		if empty != cleared[name] {
			t.Errorf("Unclaimed() clears %s: %t, want %t", name, empty, cleared[name])
		}
	}
}

// fill sets a value that is not zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Int64, reflect.Int:
		v.SetInt(1)
	case reflect.Uint64:
		v.SetUint(1)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("x"), reflect.Zero(v.Type().Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Struct: // of a time
		v.Set(reflect.ValueOf(time.Unix(1, 0)))
	}
}

func TestRedacted(t *testing.T) {
	v := &Volume{ID: "v", Secrets: Secrets{"k": "v"}, Sealed: &Sealed{KeyID: "k"},
		MountOptions: &nomad.CSIMountOptions{FSType: "ext4", MountFlags: []string{"password=x"}}}
	got := v.Redacted()
	if got.Secrets != nil || got.Sealed != nil || got.MountOptions.FSType != "ext4" ||
		!reflect.DeepEqual(got.MountOptions.MountFlags, []string{"[REDACTED]"}) || v.MountOptions.MountFlags[0] != "password=x" {
		t.Errorf("Redacted() = %+v", got)
	}
}
