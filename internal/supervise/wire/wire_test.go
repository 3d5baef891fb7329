package wire

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/open-nomad/open-nomad/internal/supervise/proc"
)

// TestRequest checks that a request is read as written, with and without separate parts, and the
// next request after it.
func TestRequest(t *testing.T) {
	start := &Request{
		Seq:  7,
		Op:   OpStart,
		Spec: &proc.Spec{ID: "a", Entry: "e", Policy: []byte("\xff\x00{"), Declared: []byte(`{"Canary":1}`)},
	}
	next := &Request{Seq: 8, Op: OpTask, ID: "a"}
	for _, separate := range []bool{true, false} {
		var wire bytes.Buffer
		for _, r := range []*Request{start, next} {
			if err := WriteRequest(&wire, r, separate); err != nil {
				t.Fatal(err)
			}
		}
		if verbatim := bytes.Contains(wire.Bytes(), start.Spec.Policy); verbatim != separate {
			t.Errorf("apart %t: the policy is unencoded: %t", separate, verbatim)
		}
		for _, want := range []*Request{start, next} {
			got, err := ReadRequest(&wire)
			if err != nil {
				t.Fatal(err)
			}
			got.Separate = false
			if !reflect.DeepEqual(got, want) {
				t.Errorf("apart %t: read %+v, want %+v", separate, got, want)
			}
		}
	}
	if start.Spec.Policy == nil || start.Separate {
		t.Error("the caller's request was changed")
	}
}

// TestBrokenRequest checks that a truncated request, and parts without a Spec, are errors.
func TestBrokenRequest(t *testing.T) {
	var frames bytes.Buffer
	if err := WriteRequest(&frames, &Request{Op: OpStart, Spec: &proc.Spec{ID: "a", Policy: []byte("p"), Declared: []byte("{}")}},
		true); err != nil {
		t.Fatal(err)
	}
	for n := range frames.Len() {
		if _, err := ReadRequest(bytes.NewReader(frames.Bytes()[:n])); err == nil {
			t.Errorf("the first %d of %d bytes are accepted", n, frames.Len())
		}
	}
	var empty bytes.Buffer
	if err := writeFrame(&empty, &Request{Op: OpStart, Separate: true}, []byte("p"), []byte("d")); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadRequest(&empty); err == nil {
		t.Error("parts without a Spec are accepted")
	}
}
